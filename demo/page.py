"""The HTML page, one file that loads nothing, and the same tables for the terminal."""

import os
import platform
import re
from collections.abc import Callable, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path

from demo import draw
from demo.measure import (
    ADDITIVE,
    BOOSTING,
    FOREST,
    LINEAR,
    OURS,
    TABULAR,
    Image,
    Results,
    Table,
    reliability_bins,
)

TITLE = "<title>histrs: the demonstration</title>"
# Score, its heading, how it is written, and whether smaller is better (None: neither).
Column = tuple[str, str, Callable[[float], str], bool | None]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


def _seconds(value: float) -> str:
    if value < 0.001:
        return "< 1 ms"
    return f"{1000 * value:.0f} ms" if value < 1 else f"{value:.1f} s"


CLASS_COLUMNS: list[Column] = [
    ("error", "accuracy", lambda error: _percent(1.0 - error), True),
    ("log loss", "log loss", "{:.3f}".format, True),
    ("calibration error", "calibration error", "{:.3f}".format, True),
    ("fit", "fit", _seconds, None),
    ("predict", "predict", _seconds, None),
]
NUMBER_COLUMNS: list[Column] = [
    ("RMSE", "RMSE / sd", "{:.3f}".format, True),
    ("coverage", "in 95% interval", _percent, None),
    ("width", "width / sd", "{:.2f}".format, None),
    ("fit", "fit", _seconds, None),
    ("predict", "predict", _seconds, None),
]
CLASS_NOTE = (
    "Log loss punishes confident mistakes; calibration error is the mean gap between the "
    "probability of the predicted class and the fraction of correct predictions, in ten bins."
)
NUMBER_NOTE = (
    "Errors and mean widths of intervals are in standard deviations (sd) of the target. "
    "HistGradientBoosting has intervals from two more fits, of the 2.5% and the 97.5% quantile; "
    "its time includes all three."
)


def cells(table: Table, columns: Sequence[Column]) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Return for each model its scores as text, and whether each is the best of the table."""
    rows = []
    for model in table.scores:
        row = []
        for score, _, write, smaller in columns:
            mean = table.mean(model, score)
            shown = "none" if mean is None else write(mean)
            best = table.mean(table.best(score), score) if smaller else None
            row.append((shown, best is not None and shown == write(best)))
        rows.append((model, row))
    return rows


def verdicts(results: Results) -> tuple[list[str], list[str]]:
    """Return the tables on which the best model is one of ours, and those on which it is not."""
    wins, losses = [], []
    for tables, score in ((results.classification, "log loss"), (results.regression, "RMSE")):
        for table in tables:
            best = table.best(score)
            rest = [m for m in table.scores if (m in OURS) != (best in OURS)]
            other = table.best(score, rest)
            values = [table.mean(model, score) or 0.0 for model in (best, other)]
            line = f"{table.name}: {best} has {score} {values[0]:.3f}, {other} {values[1]:.3f}"
            (wins if best in OURS else losses).append(line)
    return wins, losses


def setting(results: Results) -> str:
    """Say what was measured on what, in one sentence each."""
    first = next(iter(results.classification[0].scores.values()))
    return (
        f"Every model has its defaults and one thread. Figures are means over "
        f"{len(first['fit'])} random splits, three quarters to fit and a quarter to predict."
    )


def environment(results: Results) -> str:
    """Say what it was measured with."""
    libraries = ", ".join(
        f"{name} {version(name)}" for name in ("histrs", "numpy", "scipy", "scikit-learn")
    )
    return (
        f"{libraries}; Python {platform.python_version()}, {platform.machine()}, "
        f"{os.cpu_count()} cores, {platform.system()}; {results.seconds:.0f} s in all."
    )


# ---- the terminal -------------------------------------------------------------------------------


def terminal(results: Results) -> str:
    """Return the tables as text of at most 80 columns."""
    lines = []
    for tables, columns in (
        (results.classification, CLASS_COLUMNS),
        (results.regression, NUMBER_COLUMNS),
    ):
        for table in tables:
            size = f"{table.n_rows:,} x {table.n_columns}"
            lines += ["", f"{table.name} ({size}; {table.about})"]
            widths = [max(len(heading), 8) for _, heading, _, _ in columns]
            head = [h.rjust(w) for (_, h, _, _), w in zip(columns, widths, strict=True)]
            lines.append(f"{'':22}" + " ".join(head))
            for model, row in cells(table, columns):
                shown = [c.rjust(w) for (c, _), w in zip(row, widths, strict=True)]
                lines.append(f"{model:22}" + " ".join(shown))
    wins, losses = verdicts(results)
    lines += ["", "Where histrs has the smallest error:", *(f"  {line}" for line in wins)]
    lines += ["Where another model has:", *(f"  {line}" for line in losses)]
    return "\n".join(lines).strip()


# ---- the page -----------------------------------------------------------------------------------


def page(results: Results) -> str:
    """Return the page as text."""
    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"{TITLE}\n<style>\n{style}</style>\n</head>\n<body>",
            _head(results),
            "<main>",
            _tables("Tables with classes", results.classification, CLASS_COLUMNS, CLASS_NOTE),
            _tables(
                "Tables with numbers to predict", results.regression, NUMBER_COLUMNS, NUMBER_NOTE
            ),
            _calibration(results),
            _uncertain(results),
            _learned(results),
            "</main>",
            f"<footer><p>Made by <code>python -m demo --seed {results.seed}</code>. "
            f"{escape(environment(results))}</p></footer>",
            "</body>\n</html>\n",
        ]
    )


def _head(results: Results) -> str:
    wins, losses = verdicts(results)
    n = len(wins) + len(losses)
    return (
        "<header>\n<h1>Gaussian processes with calibrated uncertainty, beside the usual models"
        f"</h1>\n<p>{escape(setting(results))} On {len(wins)} of {n} tables, a model of histrs has "
        "the smallest log loss or root mean square error.</p>\n"
        f'<div class="pair"><div><h2>Where histrs is best</h2>{_list(wins)}</div>'
        f"<div><h2>Where another model is</h2>{_list(losses)}</div></div>\n"
        f"<p>{TABULAR} is <code>TabularGPClassifier</code> or <code>TabularGPRegressor</code>. "
        f"{ADDITIVE} is <code>IntersectionGPClassifier</code> or "
        "<code>IntersectionGPRegressor</code> after <code>MinMaxScaler</code>. "
        f"{LINEAR.capitalize()} is logistic or ridge regression after "
        "<code>StandardScaler</code>.</p>\n</header>"
    )


def _tables(title: str, tables: Sequence[Table], columns: Sequence[Column], note: str) -> str:
    return _section(title, _p(note), *(_table(table, columns) for table in tables))


def _table(table: Table, columns: Sequence[Column]) -> str:
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for _, heading, _, _ in columns)
    body = ""
    for model, row in cells(table, columns):
        ours = " ours" if model in OURS else ""
        shown = "".join(
            f'<td class="best">{escape(c)}</td>' if best else f"<td>{escape(c)}</td>"
            for c, best in row
        )
        body += f'<tr><th scope="row" class="word{ours}">{_breakable(model)}</th>{shown}</tr>\n'
    caption = f"{table.name}: {table.about}, {table.n_rows:,} rows, {table.n_columns} columns"
    return (
        f'<div class="scroll" tabindex="0"><table><caption>{escape(caption)}</caption>\n'
        f'<thead><tr><th scope="col" class="word">model</th>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def _calibration(results: Results) -> str:
    figures = "".join(
        f"<figure><figcaption>{model}</figcaption>"
        f"{draw.reliability(model, reliability_bins(*results.confidence[model]))}</figure>"
        for model in (TABULAR, BOOSTING, FOREST)
    )
    return _section(
        "Calibration on the digits",
        _p(
            "Predictions are grouped by their probability, in ten bins. On the dashed line, a "
            "model is right as often as it says. Bars are 95% intervals (Wilson) of the fraction "
            "of correct predictions."
        ),
        f'<div class="pair">{figures}</div>',
    )


def _uncertain(results: Results) -> str:
    cards = "".join(_card(image) for image in results.uncertain)
    return _section(
        f"The {len(results.uncertain)} images that {TABULAR} is least certain of",
        _p("Test images of the first split whose probabilities have the largest entropy."),
        f'<div class="cards">{cards}</div>',
    )


def _card(image: Image) -> str:
    first = image.ranking[0]
    right = first == image.label
    verdict = f"{first}, right" if right else f"{first}, but it is {image.label}"
    rows = "".join(
        f'<li style="--share: {100 * image.probabilities[c]:.1f}%"><span>{c}</span>'
        f"<span>{_percent(image.probabilities[c])}</span></li>"
        for c in image.ranking[:3]
    )
    return (
        f'<figure class="card">{draw.digit(image)}<figcaption>'
        f'<div class="verdict{"" if right else " miss"}">{verdict}</div><ol>{rows}</ol>'
        f'<div class="note">image {image.row}</div></figcaption></figure>'
    )


def _learned(results: Results) -> str:
    names = [f"x{k}" for k in range(len(results.importances))]
    curves = "".join(f"<figure>{draw.curve(found)}</figure>" for found in results.curves)
    return _section(
        "What was learned",
        "<h3>Friedman 1: 10 sin(π x0 x1) + 20 (x2 - 1/2)² + 10 x3 + 5 x4, and five useless "
        "columns</h3>",
        _p(f"The fraction of the variance of {TABULAR}'s functions that each column explains."),
        '<div class="pair"><figure>'
        + draw.bars(names, results.importances.tolist(), "Feature importances of Friedman 1.")
        + "</figure></div>",
        "<h3>Diabetes: what the three strongest columns add to the prediction</h3>",
        _p(
            f"{ADDITIVE} is a sum of functions, one for each column. The bands are two standard "
            "deviations of the posterior. Every function is 0 at the smallest value."
        ),
        f'<div class="pair">{curves}</div>',
    )


# ---- pieces -------------------------------------------------------------------------------------


def _section(title: str, *parts: str) -> str:
    return "\n".join(["<section>", f"<h2>{escape(title)}</h2>", *parts, "</section>"])


def _p(words: str) -> str:
    return f"<p>{escape(words)}</p>"


def _list(lines: Sequence[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else "<p>On none of these tables.</p>"


def _breakable(name: str) -> str:
    """Let a narrow screen break compound names."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "<wbr>", escape(name))
