"""The files about the project agree with it: links, versions, names of commands."""

import re

import pytest

from tests.helpers import ROOT

OWN = "https://github.com/histrs/histrs/blob/main/"
RAW = "https://raw.githubusercontent.com/histrs/histrs/main/"
PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/roadmap.md",
    ".github/ISSUE_TEMPLATE/config.yml",
]


@pytest.mark.parametrize("page", PAGES)
def test_links_to_files_of_the_repository_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for start in (OWN, RAW):
        for path in re.findall(re.escape(start) + r"([^)\s]+)", text):
            assert (ROOT / path).is_file(), path


def test_the_readme_has_absolute_links_for_other_sites():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert targets
    assert all(target.startswith("https://") for target in targets), targets


def test_benches_that_the_readme_names_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    declared = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "benches").glob("bench_*.py"))
    names = re.findall(r"`python -m benches ([\w-]+)`", text)
    assert len(names) >= 5
    results = {p.stem for p in (ROOT / "benches" / "results").glob("*.json")}
    for name in names:
        assert f'"{name}"' in declared or name in results, name
    for module in re.findall(r"`python -m benches\.(\w+)`", text):
        places = f"{module}.py", f"{module}/__main__.py"
        assert any((ROOT / "benches" / place).is_file() for place in places), module
