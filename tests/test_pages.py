"""The manual is true: the Python of every page runs, and prints what its comments say."""

import importlib
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from histrs import metrics
from tests.test_interface import documented
from tests.test_readme import ROOT, fenced_blocks

DOCS = ROOT / "docs"
PACKAGE, CRATE = ROOT / "python" / "histrs", ROOT / "rust" / "histrs" / "src"
# By their nature.
WITHOUT_CODE = {
    "architecture.md",
    "benchmarks.md",
    "charts.md",
    "glossary.md",
    "installation.md",
    "quality.md",
    "quality_additive.md",
    "quality_spd.md",
    "quality_svm.md",
    "roadmap.md",
    "style.md",
}
GENERATED = {"_build", "gallery", "reference", "results"}
# Pages on which every call of `print` has its output beside it.
WITH_OUTPUT = {"guide/molecules.md"}


def pages() -> list[str]:
    """Return every page that was written by hand, from the folder of the manual."""
    found = (path.relative_to(DOCS) for path in DOCS.rglob("*.md"))
    return sorted(p.as_posix() for p in found if p.parts[0] not in GENERATED)


def run(page: str, check: object = None) -> dict[str, object]:
    """Run the blocks of a page one after the other; return what they leave behind."""
    path = DOCS / page
    blocks = [b for b in fenced_blocks(path.read_text(encoding="utf-8")) if b.language == "python"]
    assert blocks or page in WITHOUT_CODE, f"{page} has no example"
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        # Blank lines in front, so that a traceback shows the page's own line numbers.
        source = "\n" * (block.line - 1) + block.code
        exec(compile(source, str(path), "exec"), names)
        if callable(check):
            check(block.code)
    return names


def expected_output(code: str) -> list[str]:
    """Return what the comments behind calls of ``print`` say is printed."""
    comments = re.findall(r"^print\(.*\)  # (.*)$", code, flags=re.MULTILINE)
    # Behind a colon the comment is for the reader.
    return [re.sub(r"^(True|False): .*", r"\1", comment) for comment in comments]


@pytest.fixture(autouse=True)
def quiet_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a page in an empty folder, and draw nothing on a screen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")


@pytest.mark.parametrize("page", pages())
def test_the_code_of_a_page_runs(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    def check(code: str) -> None:
        printed = capsys.readouterr().out.splitlines()
        if page in WITH_OUTPUT:
            assert printed == expected_output(code)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Of the oldest matplotlib beside newer pyparsing.
        warnings.filterwarnings("ignore", r"'\w+' .*deprecated", DeprecationWarning)
        run(page, check)


def test_eeg_in_fifteen_lines_is_right_and_knows_how_sure_it_is() -> None:
    found = run("guide/eeg.md")
    assert found["accuracy"] > 0.8
    assert abs(found["confidence"] - found["accuracy"]) < 0.07
    np.testing.assert_array_equal(found["new"].shape, (60, 8, 8))
    assert found["model"][1].rank_ == 7
    assert found["sources"].shape == (3, 8)
    assert found["log_loss"] < 0.5
    assert not found["clean"][[5, 100]].any()
    assert found["clean"].mean() > 0.9
    assert found["with_xdawn"] > max(0.85, found["without"] + 0.05)


def test_textures_in_fifteen_lines_are_told_apart_with_calibrated_probabilities() -> None:
    pytest.importorskip("skimage", reason="scikit-image is not installed: pip install histrs[test]")
    found = run("guide/textures.md")
    assert found["accuracy"] > 0.8
    assert abs(found["confidence"] - found["accuracy"]) < 0.08


def test_paths_of_the_glossary_exist() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    # The last column says where a term lives.
    paths = [path for row in rows for path in re.findall(r"`([\w/]+(?:/|\.py|\.rs))`", row[-1])]
    assert len(paths) > 60
    roots = [PACKAGE, CRATE, PACKAGE / "prototypes"]
    for path in paths:
        assert any((root / path).exists() for root in roots), path
    for name in re.findall(r"`metrics\.(\w+)`", text):
        assert hasattr(metrics, name), name


def test_paths_of_the_concepts_of_the_papers_exist() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    _, _, section = text.partition("## The concepts of the papers")
    rows = [line.split(" | ") for line in section.partition("\n## ")[0].splitlines()[6:]]
    assert len([row for row in rows if len(row) == 3]) >= 9
    for row in rows:
        for root, paths in zip((CRATE, PACKAGE), row[1:], strict=False):
            for path in re.findall(r"`([^`]+)`", paths):
                assert (root / path).exists(), path


PYRIEMANN = (
    "artifact_detection",
    "classification",
    "clustering",
    "estimation",
    "geometry.distance",
    "spatialfilters",
    "tangentspace",
    "transfer",
)


@pytest.mark.parametrize("page", ["pot", "pyriemann"])
def test_names_that_a_page_compares_exist(page: str) -> None:
    text = (DOCS / "coming_from" / f"{page}.md").read_text(encoding="utf-8")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    theirs, ours = (
        " ".join(re.findall("`([^`]+)`", " ".join(cells)))
        for cells in zip(*(row[:2] for row in rows), strict=True)
    )
    if page == "pot":
        ot = pytest.importorskip("ot")
        called = set(re.findall(r"\bot\.([\w.]+)", theirs))
        missing = [name for name in called if not _found(ot, name)]
    else:
        pytest.importorskip("pyriemann")
        modules = [importlib.import_module(f"pyriemann.{name}") for name in PYRIEMANN]
        called = set(re.findall(r"(\w+)(?:\(|(?= |$))", theirs))
        missing = [name for name in called if not any(hasattr(m, name) for m in modules)]
    assert len(called) >= 9
    assert not missing
    modules = [importlib.import_module(f"histrs.{name}") for name in documented()]
    called = set(re.findall(r"\b(\w+)\(", ours)) - {"fit", "transform"}
    assert len(called) >= 7
    assert not [name for name in called if not any(hasattr(m, name) for m in modules)]


def _found(module: object, path: str) -> bool:
    for name in path.split("."):
        module = getattr(module, name, None)
    return module is not None
