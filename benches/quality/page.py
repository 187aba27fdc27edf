"""The pages of the quality of answers, and two figures."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from benches._harness import ROOT
from benches.quality import figures
from benches.quality.fits import GAPS, LIMIT
from benches.quality.models import MODELS
from benches.quality.scores import INTERVALS
from benches.quality.splits import OFTEN
from benches.quality.summary import (
    ADDITIVE,
    FIRST,
    OURS,
    SIZE_NAMES,
    Comparison,
    compared,
    means,
    with_error,
)
from benches.quality.tables import Table, listed

# What is compared, and by which score.
_KINDS = (("numbers", ("RMSE", "CRPS", "NLPD")), ("classes", ("log loss",)))
_LARGE = ("3000", "10000", "full")
_TITLES = {
    "RMSE": "root mean square error",
    "CRPS": "continuous ranked probability score",
    "NLPD": "negative log density",
    "log loss": "log loss",
}
_USES = {"held": "Tables not used to choose defaults", "tuning": "Tables used to choose defaults"}
# Coverage of 95% that is near enough, in every quarter.
_NEAR = (0.91, 0.98)


def write(found: pd.DataFrame, folder: Path | None = None) -> list[Path]:
    """Write the pages and the figures; return their paths."""
    docs = folder or ROOT / "docs"
    images = folder or docs / "images"
    pages = docs / "quality.md", docs / "quality_additive.md"
    additive = found[found["model"].isin([m.name for m in MODELS if m.family != "others"])]
    found = found[~found["model"].isin([m.name for m in MODELS if m.family == "additive alone"])]
    fits = found[found["gaps"] == ""]
    for path, lines in zip(pages, (_lines(found, fits), _additive(additive)), strict=True):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    drawn = [images / "quality_seconds.svg", images / "quality_coverage.svg"]
    tables = [t for t in listed() if t.use == "held"]
    figures.seconds(fits, tables, drawn[0])
    figures.coverage(means(fits), tables, drawn[1])
    return [*pages, *drawn]


def _lines(found: pd.DataFrame, fits: pd.DataFrame) -> Iterable[str]:
    tables, scores = list(listed()), means(fits)
    yield from _head(found, tables)
    for use, title in _USES.items():
        of_use = [t for t in tables if t.use == use]
        yield from ["", f"## {title}"]
        for kind, names in _KINDS:
            of_kind = [t for t in of_use if t.has_classes == (kind == "classes")]
            for score in names:
                yield from _ranks(fits, of_kind, score)
            yield from _wins(fits, of_kind, names[0])
        if use == "held":
            yield from _pictures()
            yield from _losses(fits, of_use, FIRST)
            yield from _coverage(scores, of_use)
            yield from _calibration(fits, of_use)
            yield from _gaps(found, of_use)
            yield from _costs(scores, of_use)
    yield from _every_table(scores, tables)
    yield from _failures(scores)


def _additive(found: pd.DataFrame) -> Iterable[str]:
    """Yield the page of models whose predictions are sums of curves and of pairs."""
    held = [t for t in listed() if t.use == "held"]
    fits = found[(found["gaps"] == "") & found["size"].isin(["1000", *_LARGE])]
    yield from [
        "# Quality of additive models",
        "",
        "The prediction of these models is a sum of curves, one for each column, and of functions "
        "of some pairs of columns. [](quality.md) describes tables and splits, and compares models "
        "of all kinds. Only the tables that took no part in the choice of our defaults are here. "
        f"`{ADDITIVE}` is "
        '`TabularGPRegressor(members=["levels"])`, or the classifier: curves and ten pairs on '
        "rounded values. - means that a model was not run on nine tables in ten. "
        "`python -m benches.quality --family additive` measures this again.",
        "",
        "| model | curves | pairs |",
        "|---|---|--:|",
        f"| {ADDITIVE} | piecewise linear | 10 |",
        "| IntersectionGP | piecewise linear, a knot at each value | 0 |",
        "| EBM | steps | 5 for each column |",
        "| linear, tuned | lines | 0 |",
        "| mgcv | cubic splines | 0 |",
    ]
    for kind, names in _KINDS:
        of_kind = [t for t in held if t.has_classes == (kind == "classes")]
        yield from ["", f"## Targets that are {kind}"]
        yield from _ranks(fits, of_kind, names[0])
        yield from _wins(fits, of_kind, names[0])
    yield from _losses(fits, held, ADDITIVE)
    yield from _costs(means(fits), held)


def _head(found: pd.DataFrame, tables: list[Table]) -> Iterable[str]:
    versions = found.drop_duplicates("model").set_index("model")["version"]
    machines = ", ".join(sorted(m for m in found["machine"].unique() if m))
    surveys = {
        t.survey for t in tables if t.source.split("/")[0] not in ("tables", "pmlb", "sklearn")
    }
    yield from [
        "# Quality of predictions",
        "",
        f"We compare models with their defaults on {len(tables)} tables from "
        f"{len({t.survey for t in tables})} data sets; a data set with several targets gives "
        f"several tables. {len(surveys)} of the data sets have 3,000 to 64,000 rows. Each model "
        "gets numbers, words, dates and missing values as they are, and does its own encoding.",
        "",
        'We choose our defaults on half of the data sets ("tuning" below). The other half ("held") '
        "takes no part in this choice. [The list]"
        "(https://github.com/histrs/histrs/blob/main/benches/quality/tables.toml) of both was "
        "written before the first run. It says which columns are left out, and why.",
        "",
        f"Held tables have three splits up to {OFTEN:,} training rows. Tuning tables, more rows "
        "and models that take minutes have one. Rows of one person, storm or firm are on the same "
        'side of a split. At least a quarter of the rows are test rows; "full" means that all '
        "others are training rows. Models are compared on the splits that all of them were run "
        "on. Ranks, errors and times are better if smaller. ± is a standard error over tables. - "
        "means that a model was run on fewer than nine tables in ten, or has no such score.",
        "",
        "Each model has one thread, and its time is CPU time. A fit of more than "
        f"{LIMIT // 60} minutes has the worst rank. The processor is {machines}. "
        "`python -m benches.quality` measures all of this again.",
        "",
        "| model | version |",
        "|---|---|",
        *(f"| {m.name} | {m.package} {versions[m.name]} |" for m in MODELS if m.name in versions),
    ]


def _row(cells: Iterable[object]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def _header(cells: list[str]) -> list[str]:
    return [_row(cells), "|---|" + "--:|" * (len(cells) - 1)]


def _ranks(fits: pd.DataFrame, tables: list[Table], score: str) -> Iterable[str]:
    """Yield mean ranks at every size."""
    sizes = {s: compared(fits, tables, s, score) for s in SIZE_NAMES}
    sizes = {s: c for s, c in sizes.items() if min(c.scores.shape) > 1}
    if not sizes:
        return
    models = [m.name for m in MODELS if any(m.name in c.scores for c in sizes.values())]
    yield from ["", f"Mean rank by {_TITLES[score]}, for each number of training rows:", ""]
    yield from _header(["", *(s if s == "full" else f"{int(s):,}" for s in sizes)])
    for model in models:
        cells = []
        for at in sizes.values():
            if model not in at.scores:
                cells.append("-")
                continue
            mean, error = with_error(at.ranks[model])
            best = mean <= at.ranks.mean().min()
            cells.append(f"**{mean:.2f} ± {error:.2f}**" if best else f"{mean:.2f} ± {error:.2f}")
        yield _row([model, *cells])
    yield _row(["number of tables", *(len(c.scores) for c in sizes.values())])


def _wins(fits: pd.DataFrame, tables: list[Table], score: str) -> Iterable[str]:
    """Yield how often each model is the best at large sizes, and how far it is from the best."""
    found = {size: compared(fits, tables, size, score) for size in _LARGE}
    sizes = [c for c in found.values() if len(c.scores) > 1]
    if not sizes:
        return
    yield from [
        "",
        f"{_TITLES[score].capitalize()}, divided by the smallest of the other models. The worst "
        "ratio is large if another model makes almost no error:",
        "",
    ]
    heads = [
        f"{what}, {size if size == 'full' else f'{int(size):,}'}"
        for size, at in found.items()
        for what in ("wins", "median", "worst")
        if len(at.scores) > 1
    ]
    yield from _header(["", *heads])
    for model in [m.name for m in MODELS if any(m.name in c.scores for c in sizes)]:
        cells: list[str] = []
        for at in sizes:
            if model not in at.scores or len(at.scores.columns) < 2:
                cells += ["-"] * 3
                continue
            ratios = at.ratios(model, peers_only=False)
            cells += [f"{int((ratios <= 1).sum())} of {len(ratios)}"]
            cells += [f"{ratios.median():.3f}", f"{ratios.max():.2f}"]
        yield _row([model, *cells])


def _pictures() -> Iterable[str]:
    yield from [
        "",
        "![Two panels, numbers and classes: how far each model is from the best one, against the "
        "seconds of a fit.](images/quality_seconds.svg)",
        "",
        "*Vertical: the error of a model, divided by the smallest error on the same table. "
        "Logarithms of these ratios are averaged over tables. Horizontal: the median time of a "
        "fit. Circles: 3,000 rows; squares: full size. Down and to the left is better.*",
    ]


def _losses(fits: pd.DataFrame, tables: list[Table], model: str) -> Iterable[str]:
    """Yield every table of real size on which a peer is better."""
    yield from [
        "",
        "## Where we lose",
        "",
        f"Every table at 3,000 rows and more on which another model is better than `{model}`, the "
        "worst first.",
        "",
    ]
    yield from _header(["table", "rows to fit", "score", model, "best peer", "ratio"])
    lost = []
    for kind, names in _KINDS:
        of_kind = [t for t in tables if t.has_classes == (kind == "classes")]
        for size in _LARGE:
            at = compared(fits, of_kind, size, names[0])
            if model in at.scores and set(at.scores) - OURS:
                lost += _lost(at, model, size, names[0])
    for ratio, cells in sorted(lost, key=lambda entry: -entry[0]):
        yield _row([*cells, f"{ratio:.3f}"])


def _lost(at: Comparison, model: str, size: str, score: str) -> list[tuple[float, list[str]]]:
    peers = at.scores.drop(columns=list(OURS), errors="ignore")
    ratios = at.ratios(model, peers_only=True)
    rows = []
    for table in ratios.index[ratios > 1]:
        best = peers.loc[table].idxmin()
        cells = [table, size, score, f"{at.scores.loc[table, model]:.4f}"]
        rows.append((float(ratios[table]), [*cells, f"{peers.loc[table, best]:.4f} {best}"]))
    return rows


def _coverage(scores: pd.DataFrame, tables: list[Table]) -> Iterable[str]:
    """Yield how much of the targets lies in intervals, in all and where it is worst."""
    names = [t.name for t in tables if not t.has_classes]
    there = scores[scores["table"].isin(names) & scores["cover 95"].notna()]
    yield from [
        "",
        "## Coverage of intervals",
        "",
        "Fractions of test rows inside 95% and 50% intervals, as means over tables. For the "
        "columns of quarters, rows are ordered by prediction or by the width of the interval, and "
        "cut into four parts. These columns show the smallest and the largest fraction of the "
        "four. The last column is the fraction of tables whose 95% "
        f"intervals contain {_NEAR[0]:.2f} to {_NEAR[1]:.2f} of the test rows in every quarter.",
        "",
    ]
    heads = ["", "rows to fit", "95%", "50%"]
    heads += ["95%, quarters of prediction", "95%, quarters of width", "tables near 95%"]
    yield from _header(heads)
    for model in [m.name for m in MODELS if m.name in set(there["model"])]:
        for size in SIZE_NAMES:
            at = there[(there["model"] == model) & (there["size"] == size)]
            if len(at) < 2:
                continue
            quarters = {w: [f"cover 95, {w} {i}" for i in range(1, 5)] for w in ("mean", "std")}
            all_quarters = at[quarters["mean"] + quarters["std"]]
            near = all_quarters.ge(_NEAR[0]).all(axis=1) & all_quarters.le(_NEAR[1]).all(axis=1)
            yield _row(
                [
                    model,
                    size,
                    *(f"{at[name].mean():.3f}" for name in INTERVALS),
                    *(_span(at[columns]) for columns in quarters.values()),
                    f"{near.mean():.0%}",
                ]
            )
    yield from [
        "",
        "![Coverage of 95% intervals by quarters of the prediction and of the width.]"
        "(images/quality_coverage.svg)",
        "",
        "*Means over tables at 3,000 rows, with the range that contains nine tables in ten.*",
    ]


def _span(quarters: pd.DataFrame) -> str:
    means = quarters.mean()
    return f"{means.min():.3f} to {means.max():.3f}"


def _calibration(fits: pd.DataFrame, tables: list[Table]) -> Iterable[str]:
    of_classes = [t for t in tables if t.has_classes]
    yield from [
        "",
        "## Calibration of probabilities",
        "",
        "Expected calibration error of the most probable class, in ten bins of equal count, and "
        "accuracy. Both are means over the tables on which every model finished.",
        "",
    ]
    heads = [f"{what}, {size}" for size in _LARGE for what in ("error", "accuracy")]
    yield from _header(["", *heads])
    found = [
        compared(fits, of_classes, size, score).scores
        for size in _LARGE
        for score in ("calibration", "accuracy")
    ]
    found = [at[np.isfinite(at).all(axis=1)] for at in found]
    for model in [m.name for m in MODELS if any(m.name in at for at in found)]:
        yield _row([model, *(f"{at[model].mean():.3f}" if model in at else "-" for at in found)])


def _gaps(found: pd.DataFrame, tables: list[Table]) -> Iterable[str]:
    """Yield what values that only rows to predict lack cost."""
    gappy = found[(found["gaps"] != "") & found["table"].isin([t.name for t in tables])]
    yield from [
        "",
        "## Values missing only at predict time",
        "",
        "Models fitted to 1,000 rows predict rows that lack 10%, 30% or 60% of their values. "
        "Models get the rows as they are, or with values imputed from the five nearest training "
        'rows ("from neighbours"). RMSE, log loss and coverage of 95% intervals are means over '
        "tables.",
        "",
    ]
    heads = [f"{what}, {share:.0%}" for share in GAPS for what in ("RMSE", "coverage", "log loss")]
    yield from _header(["", "missing values", *heads])
    for model in [m.name for m in MODELS if m.name in set(gappy["model"])]:
        for filled, title in (("as it is", "as they are"), ("neighbours", "from neighbours")):
            at = gappy[(gappy["model"] == model) & (gappy["filled"] == filled)]
            if at.empty:
                continue
            cells = []
            for share in GAPS:
                of_share = at[at["gaps"] == str(share)]
                for score in ("RMSE", "cover 95", "log loss"):
                    mean = of_share[score].mean()
                    cells.append("-" if np.isnan(mean) else f"{mean:.3f}")
            yield _row([model, title, *cells])


def _costs(scores: pd.DataFrame, tables: list[Table]) -> Iterable[str]:
    there = scores[scores["table"].isin([t.name for t in tables]) & (scores["status"] == "ok")]
    yield from [
        "",
        "## Time and memory",
        "",
        "Medians over tables: CPU seconds of one thread to fit and to predict, and the memory of "
        "both in MB, without the data.",
        "",
    ]
    heads = [f"{what}, {size}" for size in _LARGE for what in ("fit", "predict", "MB")]
    yield from _header(["", *heads])
    for model in [m.name for m in MODELS if m.name in set(there["model"])]:
        cells = []
        for size in _LARGE:
            at = there[(there["model"] == model) & (there["size"] == size)]
            if at.empty:
                cells += ["-"] * 3
                continue
            cells += [f"{at[name].median():.2f}" for name in ("fit", "predict")]
            cells += [f"{at['memory'].median():.0f}"]
        if set(cells) != {"-"}:
            yield _row([model, *cells])


def _every_table(scores: pd.DataFrame, tables: list[Table]) -> Iterable[str]:
    """Yield all scores at full size."""
    for kind, names in _KINDS:
        score = names[0]
        at = scores[scores["size"] == "full"]
        of_kind = [t for t in tables if t.has_classes == (kind == "classes")]
        at = at[at["table"].isin([t.name for t in of_kind])]
        models = [m.name for m in MODELS if m.name in set(at[at[score].notna()]["model"])]
        yield from ["", f"## Every table at full size: {_TITLES[score]}", ""]
        yield from _header(["table", "use", "rows to fit", *models])
        wide = at.pivot(index="table", columns="model", values=score)
        for table in of_kind:
            if table.name not in wide.index:
                continue
            values = wide.loc[table.name, models]
            n = int(at[at["table"] == table.name]["n train"].max())
            cells = [
                "-" if np.isnan(v) else f"**{v:.4f}**" if v <= values.min() else f"{v:.4f}"
                for v in values
            ]
            yield _row([table.name, table.use, f"{n:,}", *cells])


def _failures(scores: pd.DataFrame) -> Iterable[str]:
    failed = scores[scores["status"] != "ok"]
    if failed.empty:
        return
    yield from ["", "## Fits that did not finish", ""]
    yield from _header(["model", "table", "rows to fit", "why"])
    for line in failed.sort_values(["model", "table", "size"]).itertuples():
        why = f"more than {LIMIT // 60} minutes" if line.status == "limit" else line.status
        yield _row([line.model, line.table, line.size, why])
