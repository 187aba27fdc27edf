"""Pages and docstrings read at once: they are short. `docs/style.md` says how to write them."""

import importlib
import re
import tomllib
from inspect import cleandoc

import pytest

from docs.images import make_layout
from histrs.__main__ import main
from tests.helpers import ROOT
from tests.test_interface import METHODS, documented

LONGEST = 35
MEAN = 18.0
LONGEST_DOCSTRING = 600
LONGEST_PAGE = 1000
PARTS = [
    "```python",
    "](../images/",
    "\n## What to choose",
    "\n## When something else is better",
    "\n## How it works",
    "\n## Reference",
]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        ROOT / "rust" / "histrs" / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "coming_from").glob("*.md"),
        *(ROOT / "docs" / "guide").glob("*.md"),
        *(ROOT / "docs" / "results").glob("*.md"),
        *(ROOT / "docs" / "tutorials").glob("*.md"),
    )
)


FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)\n((?:.*\n)*?)\1\2 *$", re.MULTILINE)
# An initial or an abbreviation does not end a sentence.
END = re.compile(
    r"(?:(?<=[.!?])|(?<=[.!?][)*\"])|(?<=[.!?]\*\*))"
    r"(?<!\b[A-Z]\.)(?<!et al\.)(?<!\.[ge]\.)\s+(?=\W*\w)"
)


def prose_of_block(block: re.Match[str]) -> str:
    """Return the text of a container, and nothing for code."""
    return block[4] if block[3].startswith("{container}") else ""


def sentences(text: str) -> list[str]:
    """Return the sentences of a page in Markdown, less code, tables, formulas and headings.

    Code within a sentence, a formula and a title in quotation marks are a word each.
    """
    count = 1
    while count:
        text, count = FENCE.subn(prose_of_block, text)
    text = re.sub(r"<!--.*?-->|\$\$.*?\$\$", "", text, flags=re.DOTALL)
    text = re.sub(r"^(\||#|\[!|\([\w-]+\)=).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\{\w+\}`[^`]*`|`[^`]*`|\$[^$]*\$", "x", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", lambda link: link[1] or "x", text)
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )", text)
    joined = (re.sub(r'"[^"]*"', "x", " ".join(paragraph.split())) for paragraph in paragraphs)
    parts = (part for paragraph in joined for part in END.split(paragraph))
    return [part for part in parts if re.search(r"\w", part)]


def words(text: str) -> int:
    return len(re.findall(r"[\w'-]+", text))


def docstrings() -> dict[str, str]:
    """Return the docstrings of public classes, functions and methods, by name."""
    names = [*documented(), "gaussian_process.kernels"]
    modules = [importlib.import_module(f"histrs.{name}") for name in names]
    owners = {f"{m.__name__}.{name}": getattr(m, name) for m in modules for name in m.__all__}
    return {name: cleandoc(value.__doc__ or "") for name, value in (METHODS | owners).items()}


DOCSTRINGS = docstrings()
UNREAD = {"See Also", "References", "Examples"}
DIRECTIVE = re.compile(r"^( *)(?:\.\. [\w-]+::.*|.*(?<!:)::)\n(?:\1 +.*\n|\n)*", re.MULTILINE)
SIMPLE_TABLE = re.compile(r"^(=+ [= ]+)\n(?:.*\n)+?\1\n(?:.*\n)+?\1$", re.MULTILINE)


def sentences_of_docstring(text: str) -> list[str]:
    """Return the sentences of a docstring, less examples, formulas, tables, names and types."""
    head, *rest = re.split(r"^(\w[\w ]*)\n-{3,}$", text + "\n", flags=re.MULTILINE)
    read = [b for title, b in zip(rest[::2], rest[1::2], strict=True) if title not in UNREAD]
    text = SIMPLE_TABLE.sub("\n", DIRECTIVE.sub("\n\n", "\n\n".join([head, *read])))
    text = re.sub(r"^[\w*, ]+ : .*$|^\w+$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r":\w+:(?=`)|\[\d+\]_", "", text.replace("``", "`"))
    return sentences(text)


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_docstrings_are_short(name):
    assert len(DOCSTRINGS[name].split()) <= LONGEST_DOCSTRING
    long = [s for s in sentences_of_docstring(DOCSTRINGS[name]) if words(s) > LONGEST]
    assert not long, f"sentences of more than {LONGEST} words: {long}"


def test_a_long_sentence_of_a_docstring_is_found():
    long = 40 * "word " + "end."
    text = f"Short.\n\n.. math:: {long}\n\nParameters\n----------\nx : {long}\n    {long}\n"
    found = sentences_of_docstring(f"{text}\nExamples\n--------\n{long}\n")
    assert [words(sentence) > LONGEST for sentence in found] == [False, True]


@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_short(page):
    found = sentences((ROOT / page).read_text(encoding="utf-8"))
    lengths = [words(sentence) for sentence in found]
    long = [s for s, n in zip(found, lengths, strict=True) if n > LONGEST]
    assert not long, f"{page}: sentences of more than {LONGEST} words: {long}"
    assert not lengths or sum(lengths) / len(lengths) <= MEAN, page


@pytest.mark.parametrize("page", [page for page in PAGES if page.startswith("docs/guide/")])
def test_pages_of_the_guide_are_short_and_have_one_order(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(text.split()) <= LONGEST_PAGE
    places = [text.find(part) for part in PARTS]
    assert -1 not in places
    assert places == sorted(places)


def test_a_long_sentence_is_found():
    text = "A short one. | not\n\n```\ncode " + 40 * "word " + "\n```\n\n" + 40 * "word " + "end.\n"
    assert [len(sentence.split()) > LONGEST for sentence in sentences(text)] == [False, False, True]


def test_marks_and_abbreviations_do_not_hide_a_sentence():
    text = "**One.** By J. Doe et al. (2010), e.g. [](a.md). (Two.) It is `x. y`! End\n\n* item\n"
    assert len(sentences(text)) == 6
    assert sentences("````{container} card\nA text.\n````\n") == ["A text."]


def test_the_project_describes_itself_by_one_sentence(capsys):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    with pytest.raises(SystemExit):
        main(["--help"])
    for text in ((ROOT / "README.md").read_text(encoding="utf-8"), capsys.readouterr().out):
        assert project["description"] in " ".join(text.split())


def test_the_drawing_of_the_parts_is_up_to_date():
    kept = (ROOT / "docs" / "images" / "layout.svg").read_text(encoding="utf-8")
    assert kept == make_layout.drawing(), "run: python -m docs.images.make_layout"


@pytest.mark.parametrize(
    ("page", "lines", "words"),
    [("README.md", 150, 900), ("docs/architecture.md", 200, 1600), ("docs/style.md", 40, 300)],
)
def test_pages_that_everyone_reads_are_short(page, lines, words):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= lines
    assert len(text.split()) <= words


def test_the_newest_section_of_the_changelog_is_short():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.split(r"^## \[(?!Unreleased)", text, flags=re.MULTILINE)
    assert len(sections[1].strip().splitlines()) <= 60
