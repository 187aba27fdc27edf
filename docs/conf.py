"""Sphinx configuration; `make docs` builds with warnings as errors."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # mathml
EXAMPLES = HERE.parent / "examples"
# Entries of index.md that may be absent: the gallery and the tables are generated.
OPTIONAL_PAGES = {"gallery/index", "benchmarks", "guide/detection", "errata"}

project = "histrs"
author = "The histrs developers"
copyright = f"2026, {author}"
release = version = version_of("histrs")

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
]
exclude_patterns = ["_build"]

html_theme = "furo"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["histrs.css"]
html_title = f"histrs {release}"
html_theme_options = {"source_repository": "https://github.com/histrs/histrs/"}

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

templates_path = ["_templates"]
autosummary_generate = True
autodoc_typehints = "none"
# The members are listed by the autosummary template, which knows which are ours.
numpydoc_show_class_members = False

if any(EXAMPLES.glob("*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    sphinx_gallery_conf = {
        "examples_dirs": str(EXAMPLES),
        "gallery_dirs": "gallery",
        "filename_pattern": r"\.py$",
        "download_all_examples": False,
        "show_memory": False,
    }


def drop_absent_pages(app: object, docname: str, source: list[str]) -> None:
    """Take optional pages that do not exist out of the table of contents."""
    if docname == "index":
        source[0] = "".join(
            line
            for line in source[0].splitlines(keepends=True)
            if line.strip() not in OPTIONAL_PAGES or any(HERE.glob(f"{line.strip()}.*"))
        )


def skip_foreign_members(
    app: object, what: str, name: str, member: Any, skip: bool, options: object
) -> bool | None:
    """Leave out what scikit-learn's base classes define: its own manual has it."""
    if what != "class":
        return None
    function = getattr(member, "fget", member)
    module = getattr(function, "__module__", None) or "histrs"
    return True if module.split(".")[0] != "histrs" else None


def setup(app: Any) -> None:
    """Connect the hooks."""
    app.connect("source-read", drop_absent_pages)
    app.connect("autodoc-skip-member", skip_foreign_members)
