"""Two pictures: what an error costs in seconds, and where intervals are right."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from benches.papers._draw import COLOURS, MARKERS, STYLE
from benches.quality.models import MODELS
from benches.quality.summary import OURS, compared
from benches.quality.tables import Table

_COLOUR = {m.name: COLOURS[i % len(COLOURS)] for i, m in enumerate(MODELS)}
_NEAR = (0.91, 0.98)


def seconds(fits: pd.DataFrame, tables: list[Table], path: Path) -> None:
    """Draw the error over the least of the table against the time of a fit, for all models."""
    with mpl.rc_context(STYLE):
        fig, axes = plt.subplots(1, 2, figsize=(9.2, 4.2), layout="constrained")
        for ax, has_classes, score in ((axes[0], False, "RMSE"), (axes[1], True, "log loss")):
            of_kind = [t for t in tables if t.has_classes == has_classes]
            for size, marker in (("3000", "o"), ("full", "s")):
                at = compared(fits, of_kind, size, score).scores
                at = at[np.isfinite(at).all(axis=1)]
                there = fits[(fits["size"] == size) & fits["table"].isin(at.index)]
                excess = np.exp(np.log(at.div(at.min(axis=1), axis=0)).mean()) - 1
                for model in at:
                    time = there[there["model"] == model]["fit"].median()
                    ax.plot(
                        time,
                        100 * excess[model],
                        marker,
                        color=_COLOUR[model],
                        markersize=9 if model in OURS else 6,
                        label=model if size == "3000" else None,
                    )
            ax.set_xscale("log")
            ax.set_xlabel("seconds of a fit, one thread (median)")
            ax.set_ylabel(f"{score} above the best, %")
            ax.set_title("classes" if has_classes else "numbers")
        handles = {}
        for ax in axes:
            found = ax.get_legend_handles_labels()
            handles |= dict(zip(found[1], found[0], strict=True))
        fig.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=6, frameon=False
        )
        fig.suptitle("circles: 3,000 rows; squares: full size", fontsize=9)
        fig.savefig(path)
        plt.close(fig)


def coverage(scores: pd.DataFrame, tables: list[Table], path: Path) -> None:
    """Draw the fraction of rows in 95% intervals, by quarters."""
    names = [t.name for t in tables if not t.has_classes]
    at = scores[scores["table"].isin(names) & (scores["size"] == "3000")]
    at = at[at["cover 95"].notna()]
    with mpl.rc_context(STYLE):
        fig, axes = plt.subplots(1, 2, figsize=(9.2, 3.8), sharey=True, layout="constrained")
        models = [m.name for m in MODELS if m.name in set(at["model"])]
        for ax, what, title in (
            (axes[0], "mean", "quarters of the prediction, the least first"),
            (axes[1], "std", "quarters of the width, the narrowest first"),
        ):
            ax.axhspan(*_NEAR, color="#eeeeee")
            ax.axhline(0.95, color="#7f7f7f", linewidth=0.8)
            for k, model in enumerate(models):
                of_model = at[at["model"] == model]
                quarters = of_model[[f"cover 95, {what} {i}" for i in range(1, 5)]]
                x = np.arange(1, 5) + 0.12 * (k - (len(models) - 1) / 2)
                low, high = quarters.quantile(0.05), quarters.quantile(0.95)
                ax.vlines(x, low, high, color=_COLOUR[model], linewidth=1.0)
                ax.plot(
                    x,
                    quarters.mean(),
                    MARKERS[k % len(MARKERS)] + "-",
                    color=_COLOUR[model],
                    markersize=5,
                    linewidth=1.2,
                    label=model,
                )
            ax.set_xticks([1, 2, 3, 4])
            ax.set_xlabel(title)
        axes[0].set_ylabel("fraction of rows in 95% intervals")
        handles, labels = axes[0].get_legend_handles_labels()
        if handles:
            fig.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
        fig.savefig(path)
        plt.close(fig)
