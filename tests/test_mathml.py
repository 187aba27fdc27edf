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


def test_every_formula_of_the_manual_is_converted() -> None:
    folder = ROOT / "docs"
    found = [
        formula
        for path in folder.rglob("*.md")
        if "_build" not in path.parts
        for formula in formulas(path)
    ]
    assert len(found) > 100
    for formula in found:
        assert mathml(formula, "inline").startswith("<math")


def test_a_formula_that_cannot_be_converted_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"nosuchthing"):
        mathml(r"a + \nosuchthing{b}", "inline")


def test_what_browsers_do_not_know_is_spelled_otherwise() -> None:
    assert "\u211d" in mathml(r"\mathbb R^d", "inline")
    assert "argmin" in mathml(r"\arg\min_C f(C)", "block")
    assert mathml("|x|", "inline").count('lspace="0"') == 2
