"""A release can be pressed: versions, extras, licences, artifacts, workflows, and its alert."""

import io
import json
import re
import tarfile
import tomllib
import zipfile

import pytest

import histrs
from benches import compare
from release import artifacts, extras, third_party, versions
from release.conda.__main__ import RECIPE, filled_in
from tests.helpers import ROOT
from tests.test_readme import make_targets

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


# ---- versions ---------------------------------------------------------------------------------


@pytest.fixture
def clone(tmp_path):
    """The files that hold a version, ready to be published."""
    for name in ("Cargo.toml", "Cargo.lock", "CITATION.cff"):
        (tmp_path / name).write_text((ROOT / name).read_text("utf-8"), encoding="utf-8")
    text = f"# Changelog\n\n## [Unreleased]\n\n## [{histrs.__version__}] - 2026-01-31\n\n- All.\n"
    (tmp_path / "CHANGELOG.md").write_text(text, encoding="utf-8")
    return tmp_path


def edit(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_versions_of_this_clone_agree():
    assert versions.problems() == []


def test_a_release_whose_versions_agree_has_no_problem(clone):
    assert versions.problems(clone, tag=f"v{histrs.__version__}") == []


@pytest.mark.parametrize("tag", ["v9.9.9", histrs.__version__, ""])
def test_a_tag_of_another_version_is_refused(clone, tag):
    (problem,) = versions.problems(clone, tag=tag)
    assert f"the tag is {tag}" in problem


@pytest.mark.parametrize(
    ("date", "words"),
    [
        ("unreleased", "no date"),
        ("2026-02-30", "no day"),
        ("2999-01-01", "no day"),
        ("soon", "is not"),
    ],
)
def test_a_tag_needs_the_date_of_its_version(clone, date, words):
    edit(clone / "CHANGELOG.md", "2026-01-31", date)
    (problem,) = versions.problems(clone, tag=f"v{histrs.__version__}")
    assert words in problem


def test_a_tag_leaves_nothing_unreleased(clone):
    edit(clone / "CHANGELOG.md", "[Unreleased]\n", "[Unreleased]\n\n- Forgotten.\n")
    assert versions.problems(clone) == []
    (problem,) = versions.problems(clone, tag=f"v{histrs.__version__}")
    assert "is not empty" in problem


@pytest.mark.parametrize("name", ["CITATION.cff", "Cargo.lock", "CHANGELOG.md"])
def test_every_place_of_the_version_is_looked_at(clone, name):
    edit(clone / name, histrs.__version__, "7.7.7")
    assert any(name in problem for problem in versions.problems(clone))


# ---- extras -----------------------------------------------------------------------------------


def test_extras_that_are_named_can_be_installed():
    assert extras.problems() == []
    assert len({extra for _, extra, _ in extras.named()}) >= 7


def test_the_extra_for_tests_is_the_group_without_what_builds():
    group = [entry for entry in PROJECT["dependency-groups"]["test"] if isinstance(entry, str)]
    assert PROJECT["project"]["optional-dependencies"]["test"] == group


# ---- third parties ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("MIT/Apache-2.0", True),
        ("GPL-3.0", False),
        ("GPL-3.0 OR MIT", True),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", False),
        ("MIT AND (GPL-3.0 OR Apache-2.0)", True),
        ("Apache-2.0 WITH LLVM-exception", False),
    ],
)
def test_licence_expressions(expression, allowed):
    assert third_party.is_allowed(expression, {"MIT", "Apache-2.0"}) is allowed


def test_the_bill_of_materials_knows_this_version_and_no_machine():
    text = third_party.BILL.read_text("utf-8")
    assert not artifacts.LOCAL_PATH.search(text.encode())
    bill = json.loads(text)
    assert bill["metadata"]["component"]["version"] == histrs.__version__
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text("utf-8"))["package"]
    locked = {(package["name"], package["version"]) for package in locked}
    listed = {(part["name"], part["version"]) for part in bill["components"]}
    assert listed <= locked
    assert {"rayon", "pyo3", "numpy", "ndarray", "histrs"} <= {name for name, _ in listed}
    licences = third_party.LICENCES.read_text("utf-8")
    for name, version in listed - {("histrs", histrs.__version__)}:
        assert f"\n{name} {version} (" in licences


def test_the_crate_has_the_licences_of_the_project():
    for name in ("LICENSE-MIT", "LICENSE-APACHE"):
        assert (ROOT / "rust" / "histrs" / name).read_bytes() == (ROOT / name).read_bytes()


# ---- artifacts --------------------------------------------------------------------------------


def wheel(folder, name=f"histrs-{histrs.__version__}-cp311-abi3-linux_x86_64.whl", **changes):
    info = f"histrs-{histrs.__version__}.dist-info"
    files = {f"{info}/licenses/{licence}": b"" for licence in artifacts.LICENCES}
    files |= {f"{info}/sboms/histrs.cyclonedx.json": b"{}", "histrs/py.typed": b""}
    files |= {"histrs/_histrs.pyi": b""}
    files |= {key.replace("INFO", info): value for key, value in changes.items()}
    with zipfile.ZipFile(folder / name, "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)


def test_a_whole_wheel_has_no_problem(tmp_path):
    wheel(tmp_path)
    wheel(tmp_path, name=f"histrs-{histrs.__version__}-cp314-cp314t-win_amd64.whl")
    assert artifacts.problems(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"INFO/sboms/other.json": b'"path+file:///home/me"'}, "path of a machine"),
        ({"tests/test_x.py": b""}, "does not belong"),
        ({"name": f"histrs-{histrs.__version__}-cp311-cp311-linux_x86_64.whl"}, "abi3"),
        ({"name": "histrs-9.9.9-cp311-abi3-linux_x86_64.whl"}, "this version"),
        ({"histrs/_histrs.abi3.so": bytes(artifacts.LARGEST_WHEEL)}, "more than"),
    ],
)
def test_what_is_wrong_with_a_wheel_is_said(tmp_path, change, words):
    wheel(tmp_path, **change)
    (problem,) = artifacts.problems(tmp_path)
    assert words in problem


def test_what_is_wrong_with_an_sdist_is_said(tmp_path):
    with tarfile.open(tmp_path / f"histrs-{histrs.__version__}.tar.gz", "w:gz") as archive:
        for name in ("pyproject.toml", "python/histrs/_histrs.abi3.so"):
            archive.addfile(tarfile.TarInfo(f"histrs-{histrs.__version__}/{name}"), io.BytesIO())
    found = " ".join(artifacts.problems(tmp_path))
    assert "Cargo.lock is missing" in found
    assert "was built" in found
    assert "pyproject.toml is missing" not in found


def test_the_recipe_asks_for_what_the_package_asks_for(tmp_path):
    run = RECIPE.read_text("utf-8").split("  run:\n")[1].split("\n\n")[0]
    asked = {line.strip(" -").replace(" ", "") for line in run.splitlines()} - {"python"}
    assert asked == set(PROJECT["project"]["dependencies"])
    sdist = tmp_path / "histrs-1.2.3.tar.gz"
    sdist.write_bytes(b"")
    text = filled_in(sdist, "someone")
    assert 'version: "1.2.3"' in text
    assert "- someone" in text
    assert not {"VERSION", "SHA256", "MAINTAINER"} & set(re.findall(r"[A-Z0-9]{6,}", text))


# ---- the alert --------------------------------------------------------------------------------


def result(ours, peer, valid=True):
    sides = [
        {"name": "histrs", "peer": False, "median": ours, "accurate": True},
        {"name": "other", "peer": True, "median": peer, "accurate": True},
        {"name": "wrong", "peer": True, "median": peer / 100, "accurate": False},
    ]
    return {"row": {"name": "row", "sides": sides, "valid": valid}}


def test_a_slower_machine_is_no_alert():
    lines, alerts = compare.compare(result(1.0, 10.0), result(3.0, 30.0))
    assert alerts == []
    assert "1.00 times" in lines[0]


@pytest.mark.parametrize("new", [result(1.6, 10.0), result(1.0, 10.0, valid=False)])
def test_a_slower_or_wrong_row_is_an_alert(new):
    _, alerts = compare.compare(result(1.0, 10.0), new)
    assert len(alerts) == 1
    assert compare.compare(result(1.0, 10.0), result(1.4, 10.0))[1] == []


def test_a_side_that_is_gone_is_an_alert():
    before, after, wrong = result(1.0, 10.0), result(1.0, 10.0), result(1.0, 10.0)
    for measured in (before, wrong):
        second = {"name": "histrs, float32", "peer": False, "median": 1.0}
        measured["row"]["sides"].append(second | {"accurate": measured is before})
    for new in (after, wrong):
        _, alerts = compare.compare(before, new)
        assert alerts == ["row, histrs, float32: nothing to compare is left"]
    assert compare.compare(after, before)[1] == []
    without_peers = result(1.0, 10.0)
    del without_peers["row"]["sides"][1]
    assert len(compare.compare(before, without_peers)[1]) == 2


def test_the_alert_reads_folders(tmp_path, capsys):
    for name, ours in (("before", 1.0), ("after", 2.0)):
        (tmp_path / name).mkdir()
        text = json.dumps(result(ours, 10.0)["row"])
        (tmp_path / name / "row.json").write_text(text, encoding="utf-8")
    before, after = str(tmp_path / "before"), str(tmp_path / "after")
    assert compare.main([before, before]) == 0
    assert compare.main([before, after]) == 1
    assert "SLOWER" in capsys.readouterr().out
    assert compare.main([before, str(tmp_path)]) == 1
    assert compare.main([before, after, "--slower", "3"]) == 0
    assert compare.main([before, before, "--rows", "row"]) == 0
    assert compare.main([before, before, "--rows", "row", "other"]) == 1


def test_the_rows_that_are_watched_have_a_reference():
    text = (ROOT / ".github" / "workflows" / "weekly.yml").read_text("utf-8")
    (names,) = re.findall(r"ROWS: ([\w -]+)$", text, flags=re.MULTILINE)
    references = compare.load(ROOT / "benches" / "results")
    assert len(names.split()) >= 3
    for name in names.split():
        assert compare.relative_times(references[name]), name


# ---- workflows --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_digest(path):
    for line in path.read_text("utf-8").splitlines():
        if "uses:" in line and "./" not in line:
            assert re.search(r"uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_targets_and_modules_that_exist(path):
    text = path.read_text("utf-8")
    for target in re.findall(r"\bmake (?:[A-Z_]+=\S+ )*([a-z-]+)", text):
        assert target in make_targets() | {"clean"}, target
    for module in re.findall(r"python -m ((?:release|benches|tests)[\w.]*)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module
    for script in re.findall(r"\b(release/\w+\.py)", text):
        assert (ROOT / script).exists()


def test_nothing_is_published_before_everything_has_passed():
    text = (ROOT / ".github" / "workflows" / "wheels.yml").read_text("utf-8")
    jobs = re.split(r"^  (?=[\w-]+:$)", text.split("\njobs:\n")[1], flags=re.MULTILINE)[1:]
    jobs = {job.split(":")[0]: job for job in jobs}
    publishing = [name for name, job in jobs.items() if "id-token: write" in job]
    assert sorted(publishing) == ["publish-crate", "publish-package"]
    others = set(jobs) - set(publishing)
    for name in publishing:
        (needs,) = re.findall(r"needs: \[(.*)\]", jobs[name])
        assert others <= set(needs.split(", ")), name
        assert "startsWith(github.ref, 'refs/tags/v')" in jobs[name]
    assert "release.versions --tag" in jobs["versions"]
    for name, job in jobs.items():
        if "upload-artifact" in job:
            assert "smoke.py" in job, name
