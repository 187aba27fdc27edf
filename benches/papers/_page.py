"""The pages in ``docs/results``, from the results that were kept."""

from pathlib import Path
from typing import Any

import numpy as np

from benches._report import number
from benches.papers import _draw
from benches.papers._experiment import (
    PAPERS,
    TIMES,
    Experiment,
    Points,
    centre,
    is_finished,
    load,
    verdict,
)

INTRODUCTION = """# The papers' experiments, repeated

This package began with five papers. We repeat their experiments on smaller, public data, and
compare with the methods that one would use today. Each experiment ends in a verdict on the paper's
claim, which the program derives from the measured numbers. Experiments that have not been run are
marked.

`make papers` runs all experiments that are not finished, or with `--again` all.
`python -m benches.papers --list` says how long each takes. In tables, ± is the standard deviation
of single runs. In figures, bars are standard errors. Times are medians.
"""


def write(experiments: dict[str, Experiment], results: Path, pages: Path) -> None:
    """Write a page a paper, the figures, and the index."""
    pages.mkdir(parents=True, exist_ok=True)
    kept = {name: load(results, name) for name in experiments}
    for wanted in experiments.values():
        result = kept[wanted.name]
        if is_finished(result) and wanted.panels:
            _draw.draw(wanted, Points(result["points"]), pages / f"{wanted.name}.svg")
    for paper in PAPERS:
        own = [e for e in experiments.values() if e.paper == paper]
        (pages / f"{paper}.md").write_text(page(paper, own, kept), encoding="utf-8")
    (pages / "index.md").write_text(index(experiments, kept), encoding="utf-8")


def index(experiments: dict[str, Experiment], kept: dict[str, Any]) -> str:
    """Return the page of all verdicts."""
    lines = [INTRODUCTION]
    done = [result for result in kept.values() if result is not None and is_finished(result)]
    if done:
        minutes = sum(result["seconds"] for result in done) / 60
        lines.append(f"The {len(done)} that were run took {minutes:.0f} minutes in all.\n")
    for paper, reference in PAPERS.items():
        lines += [f"## [{reference.split(':')[1].strip()}]({paper}.md)", "", "| | |", "|---|---|"]
        for wanted in experiments.values():
            if wanted.paper == paper:
                lines.append(f"| {wanted.title} | {sentence(wanted, kept[wanted.name])} |")
        lines.append("")
    lines += ["```{toctree}", ":hidden:", "", *PAPERS, "```"]
    return "\n".join(lines) + "\n"


def page(paper: str, experiments: list[Experiment], kept: dict[str, Any]) -> str:
    """Return the page of a paper."""
    reference = PAPERS[paper]
    lines = [f"# {reference.split(':')[1].split('.')[0].strip()}", "", f"{reference}.", ""]
    for wanted in experiments:
        lines += _section(wanted, kept[wanted.name])
    return "\n".join(lines).rstrip() + "\n"


def sentence(wanted: Experiment, result: dict[str, Any] | None) -> str:
    """Return the verdict on an experiment, from its figures."""
    if result is None:
        return f"Not run yet: `python -m benches.papers {wanted.name}`."
    if not is_finished(result):
        return f"Skipped: {result['skipped']}."
    quick = "(Quick run, which says nothing.) " if result["quick"] else ""
    return quick + verdict(wanted.judge(Points(result["points"])))


def _section(wanted: Experiment, result: dict[str, Any] | None) -> list[str]:
    lines = [f"## {wanted.title}", "", *_listed(f"The paper: {wanted.original}"), ""]
    if result is not None and is_finished(result):
        points = Points(result["points"])
        lines += [*_listed(f"Here: {result['note']}"), ""]
        if wanted.panels:
            lines += [f"![{wanted.title}]({wanted.name}.svg)", ""]
        lines += [*_table(wanted, points), ""]
    lines += [*_listed(sentence(wanted, result)), ""]
    if result is not None and is_finished(result):
        lines += [
            f"`python -m benches.papers {wanted.name} --again`: {result['seconds'] / 60:.1f} "
            f"minutes on {result['date']}, histrs {result['versions']['histrs']}, "
            f"scikit-learn {result['versions']['scikit-learn']}, "
            f"{result['machine']['processor']}, cores: {result['machine']['cores']}.",
            "",
        ]
    return lines


def _listed(text: str) -> list[str]:
    """Return a text as it is, or as a list with a line for each part that a semicolon ends."""
    head, _, rest = text.partition(": ")
    parts = rest.split("; ")
    return [f"{head}:", "", *(f"* {part}" for part in parts)] if parts[1:] else [text]


def _table(wanted: Experiment, points: Points) -> list[str]:
    listed = [row for row in points.rows if wanted.curves_in_table or row["x"] is None]
    has_x = any(row["x"] is not None for row in listed)
    measures = [m for m in Points(listed).measures if m != wanted.x]
    heads = ["", *([wanted.x or "x"] if has_x else []), *measures]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|--:" * (len(heads) - 1) + "|"]
    for row in listed:
        cells = [row["series"]]
        if has_x:
            own = _cell(wanted.x, row["values"].get(wanted.x))  # found by itself
            cells.append(own if row["x"] is None else number(row["x"]))
        cells += [_cell(measure, row["values"].get(measure)) for measure in measures]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _cell(measure: str, values: list[float] | None) -> str:
    if not values:
        return ""
    middle = number(centre(measure, values))
    if len(values) == 1 or measure in TIMES:
        return middle
    return f"{middle} ± {number(float(np.std(values, ddof=1)))}"
