"""The pages of the guide are true: their Python runs, and prints what the comments say."""

import re
from pathlib import Path

import pytest

from tests.test_readme import ROOT, fenced_blocks

PAGES = ["molecules.md"]


def expected_output(code: str) -> list[str]:
    """Return what the comments behind calls of ``print`` say is printed."""
    comments = re.findall(r"^print\(.*\)  # (.*)$", code, flags=re.MULTILINE)
    # Behind a colon the comment is for the reader.
    return [re.sub(r"^(True|False): .*", r"\1", comment) for comment in comments]


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_run_in_order(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = ROOT / "docs" / "guide" / page
    blocks = [b for b in fenced_blocks(path.read_text(encoding="utf-8")) if b.language == "python"]
    assert blocks
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        source = "\n" * (block.line - 1) + block.code
        exec(compile(source, str(path), "exec"), namespace)
        assert capsys.readouterr().out.splitlines() == expected_output(block.code)
