"""The README is true: its Python runs, and the make targets it names exist."""

import doctest
import re
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"


class Block(NamedTuple):
    """A fenced block: its language, the line its code starts on, and the code."""

    language: str
    line: int
    code: str


def fenced_blocks(text: str) -> list[Block]:
    """Return every fenced block of a Markdown text, in order."""
    blocks = []
    opening = None
    for number, line in enumerate(text.splitlines(), start=1):
        fence = re.match(r"( {0,3})(`{3,}|~{3,})\s*(.*)", line)
        if opening is None:
            if fence:
                indent, opening, info = fence.groups()
                language = info.split()[0].lower() if info else ""
                start, code = number + 1, []
        elif fence and fence[2].startswith(opening) and not fence[3]:
            blocks.append(Block(language, start, "\n".join(code) + "\n"))
            opening = None
        else:
            code.append(line.removeprefix(indent))
    assert opening is None, f"the fence opened on line {start - 1} is never closed"
    return blocks


def run_python(block: Block, namespace: dict[str, object]) -> None:
    """Run a block, either a script or a session with ``>>>``, in `namespace`."""
    if block.code.lstrip().startswith(">>>"):
        session = doctest.DocTestParser().get_doctest(
            block.code, {}, README.name, str(README), block.line - 1
        )
        session.globs = namespace
        runner = doctest.DocTestRunner(
            optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS, verbose=False
        )
        failures = []
        runner.run(session, out=failures.append, clear_globs=False)
        assert not failures, "".join(failures)
    else:
        # Blank lines in front, so that a traceback shows the README's own line numbers.
        source = "\n" * (block.line - 1) + block.code
        exec(compile(source, str(README), "exec"), namespace)


def make_targets_named(code: str) -> list[str]:
    """Return the targets of every ``make`` command of a shell block."""
    commands = re.findall(r"(?:^|&&|;)\s*(?:\$ )?make\b([^&;#\n]*)", code, flags=re.MULTILINE)
    words = " ".join(commands).split()
    return [word for word in words if word[0] != "-" and "=" not in word]


def make_targets() -> set[str]:
    """Return the targets that the Makefile lists in ``make help``."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):.*##", text, flags=re.MULTILINE))


BLOCKS = fenced_blocks(README.read_text(encoding="utf-8"))


def assert_same_output(printed: str, shown: str) -> None:
    """The words are the same; numbers may differ by 1%, since BLAS libraries round differently."""
    printed_words, shown_words = printed.split(), shown.split()
    assert len(printed_words) == len(shown_words), f"README.md should show:\n{printed}"
    for now, then in zip(printed_words, shown_words, strict=True):
        if then.isdecimal():
            assert float(now) == pytest.approx(float(then), rel=0.01), printed
        else:
            assert now == then, printed


def test_python_blocks_run_in_order_and_print_what_is_shown(tmp_path, monkeypatch, capsys) -> None:
    blocks = [block for block in BLOCKS if block.language in {"python", "py", "pycon", "text"}]
    assert [block.language for block in blocks[:2]] == ["python", "text"], "README.md shows none"
    shutil.copytree(ROOT / "docs" / "data", tmp_path / "docs" / "data")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        printed = capsys.readouterr().out
        if block.language == "text":
            assert_same_output(printed, block.code)
        else:
            run_python(block, namespace)


def test_make_targets_exist() -> None:
    shells = [b for b in BLOCKS if b.language in {"sh", "bash", "shell", "console"}]
    named = [target for block in shells for target in make_targets_named(block.code)]
    assert named, "README.md names no make target"
    assert set(named) <= make_targets()
