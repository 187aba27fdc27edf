"""Formulas of the manual become MathML when it is built."""

import re
from pathlib import Path

import pytest

from tests.test_readme import ROOT

pytest.importorskip("latex2mathml", reason="latex2mathml is of the dependency group docs")
mathml = pytest.importorskip("docs.mathml").mathml


def formulas(path: Path) -> list[str]:
    """Return the formulas of a page."""
    text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [a or b for a, b in re.findall(r"\$\$(.+?)\$\$|\$([^$]+?)\$", text, flags=re.DOTALL)]


def formulas_of_docstrings(path: Path) -> list[str]:
    """Return the formulas of a module."""
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^( *)\.\. math::(.*?)\n\n(?!\1 )", text, flags=re.DOTALL | re.MULTILINE)
    return [block for _, block in blocks] + re.findall(r":math:`([^`]+)`", text)


def test_every_formula_of_the_manual_is_converted() -> None:
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts]
    modules = list((ROOT / "python" / "histrs").rglob("*.py"))
    found = [formula for path in pages for formula in formulas(path)]
    assert len(found) > 100
    of_modules = [formula for path in modules for formula in formulas_of_docstrings(path)]
    assert len(of_modules) > 100
    found += of_modules
    for formula in found:
        assert mathml(formula, "inline").startswith("<math")


def test_a_formula_that_cannot_be_converted_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"nosuchthing"):
        mathml(r"a + \nosuchthing{b}", "inline")


def test_what_browsers_do_not_know_is_spelled_otherwise() -> None:
    assert "\u211d" in mathml(r"\mathbb R^d", "inline")
    assert "argmin" in mathml(r"\arg\min_C f(C)", "block")
    assert mathml("|x|", "inline").count('lspace="0"') == 2
