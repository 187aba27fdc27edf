"""Formulas as MathML, written when the manual is built: pages need no network and no script."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

# What the converter does not know, and what means the same.
_SPELLINGS = {
    r"\\arg\s*\\min": r"\\operatorname{argmin}",
    r"\\arg\s*\\max": r"\\operatorname{argmax}",
    r"\\[bB]igg?l\s*\\\|": r"\\lVert",
    r"\\[bB]igg?r\s*\\\|": r"\\rVert",
}
# Browsers space bars and slashes as if they were relations, and know no double-struck style.
_REPAIRS = {
    r"<mo[^>]*>(&#x0007C;|&#x0002F;)</mo>": r'<mo stretchy="false" lspace="0" rspace="0">\1</mo>',
    r'<mi mathvariant="double-struck">R</mi>': "<mi>\u211d</mi>",
}


def mathml(latex: str, display: str) -> str:
    """Return a formula as MathML; what cannot be converted is an error."""
    for theirs, ours in _SPELLINGS.items():
        latex = re.sub(theirs, ours, latex)
    found: str = convert(latex, display=display)
    for theirs, ours in _REPAIRS.items():
        found = re.sub(theirs, ours, found)
    unknown = re.findall(r">\s*(\\[^<\s]+)", found)
    if unknown:
        raise ValueError(f"{unknown[0]} of the formula {latex!r} has no MathML.")
    return found


def visit_inline(self: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(f'<span class="math">{mathml(node.astext(), "inline")}</span>')
    raise nodes.SkipNode


def visit_display(self: Any, node: nodes.math_block) -> None:
    """Write a formula of its own."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append(f"{mathml(node.astext(), 'block')}</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx, whose `html_math_renderer` names this."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
