"""The figures: lines against an abscissa, bars where there is none. White paper, any mode."""

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from benches.papers._experiment import TIMES, Experiment, Panel, Points, write

# Okabe and Ito, told apart by the colour-blind and on white.
COLOURS = [
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6bb1"),
    *("#7f7f7f", "#8c4a1f", "#66a61e", "#1b1b8f", "#c4b000", "#f781bf", "#c1121f", "#2ec4b6"),
]
MARKERS = "osD^vPX*"
STYLE = {
    "svg.hashsalt": "histrs",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def draw(wanted: Experiment, points: Points, path: Path) -> None:
    """Draw the panels of an experiment side by side."""
    with mpl.rc_context(STYLE):
        n = len(wanted.panels)
        bars = all(row["x"] is None for row in points.rows)
        height = 1.2 + 0.24 * len(points.series) if bars else 3.6
        fig, axes = plt.subplots(
            1,
            n,
            figsize=(4.6 * n + (2.4 if bars else 0), max(height, 2.2)),
            squeeze=False,
            layout="constrained",
            facecolor="white",
            sharey=bars,
        )
        for ax, panel in zip(axes[0], wanted.panels, strict=True):
            (_bars if bars else _lines)(ax, wanted, panel, points)
        if not bars:
            found = {}
            for ax in axes[0]:
                handles, labels = ax.get_legend_handles_labels()
                found |= dict(zip(labels, handles, strict=True))
            widest = max(map(len, found))
            columns = max(1, int(4.6 * n / (0.6 + 0.07 * widest)))
            fig.legend(
                found.values(),
                found.keys(),
                loc="outside lower center",
                ncols=min(columns, len(found)),
                frameon=False,
            )
        form = path.suffix.removeprefix(".")
        options: dict[str, Any] = {"metadata": {"Date": None}} if form == "svg" else {"dpi": 110}
        write(path, lambda file: fig.savefig(file, format=form, **options))
        plt.close(fig)


def _lines(ax: Any, wanted: Experiment, panel: Panel, points: Points) -> None:
    drawn = [s for s in points.series if any(points.at(s, p.measure) for p in wanted.panels)]
    for k, series in enumerate(drawn):
        style = {"color": COLOURS[k % len(COLOURS)], "label": series}
        positions = points.at(series, panel.measure)
        if not positions:
            continue
        if positions == [None] and points.at(series, wanted.x):
            # It has found a place on the abscissa by itself.
            where = points.centre(series, wanted.x), points.centre(series, panel.measure)
            ax.plot(*where, MARKERS[k % len(MARKERS)], markersize=8, fillstyle="none", **style)
            continue
        if positions == [None]:
            ax.axhline(points.centre(series, panel.measure), linestyle="--", linewidth=1.2, **style)
            continue
        means = points.centres(series, panel.measure)
        spread = [
            _spread(panel.measure, points.values(series, panel.measure, x)) for x in positions
        ]
        ax.errorbar(
            positions,
            means,
            yerr=spread,
            marker=MARKERS[k % len(MARKERS)],
            markersize=4,
            linewidth=1.3,
            capsize=2,
            linestyle=":" if k >= len(COLOURS) else "-",
            **style,
        )
    if wanted.log_x:
        ax.set_xscale("log")
        low, high = ax.get_xlim()
        if high / low < 300:
            every = {x for s in drawn for x in points.at(s, panel.measure) if x is not None}
            kept: list[float] = []
            for x in sorted(every):
                if not kept or x / kept[-1] > (high / low) ** 0.08:
                    kept.append(x)
            ax.set_xticks(kept, [f"{x:g}" for x in kept])
            ax.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    if panel.log:
        ax.set_yscale("log")
    ax.margins(y=0.08)
    ax.set_xlabel(wanted.x)
    ax.set_ylabel(panel.label)
    ax.grid(alpha=0.3)


def _spread(measure: str, values: Any) -> float:
    """Return the standard error."""
    if measure in TIMES or len(values) < 2:
        return 0.0
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _bars(ax: Any, wanted: Experiment, panel: Panel, points: Points) -> None:
    # The panels share their ordinate: what a panel lacks leaves a gap.
    names = [s for s in points.series if any(points.at(s, p.measure) for p in wanted.panels)]
    there = [bool(points.at(s, panel.measure)) for s in names]
    shown = [s for s, is_there in zip(names, there, strict=True) if is_there]
    means = [points.centre(s, panel.measure) for s in shown]
    spread = [_spread(panel.measure, points.values(s, panel.measure)) for s in shown]
    positions = np.arange(len(names))
    ax.barh(
        positions[there],
        means,
        xerr=spread,
        color=COLOURS[0],
        height=0.7,
        error_kw={"elinewidth": 1},
    )
    ax.set_yticks(positions, names)
    if not ax.yaxis_inverted():
        ax.invert_yaxis()
    if panel.log:
        ax.set_xscale("log")
    ax.set_xlabel(panel.label)
