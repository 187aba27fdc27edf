"""What the scores of many tables say together."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from benches.quality.models import MODELS
from benches.quality.splits import SIZES
from benches.quality.tables import Table

OURS = {m.name for m in MODELS if m.ours}
SIZE_NAMES = [*map(str, SIZES), "full"]
FIRST, ADDITIVE = "TabularGP", "TabularGP, levels"
# A model is compared at a size where it was run on this share of the tables.
_SHARE = 0.9


class Comparison(NamedTuple):
    """Scores of models on the tables that all of them were run on: a row each, less is better."""

    scores: pd.DataFrame

    @property
    def ranks(self) -> pd.DataFrame:
        """The rank of each model on each table."""
        return self.scores.rank(axis=1)

    def ratios(self, model: str, *, peers_only: bool) -> pd.Series:
        """Return the score over that of the best other model, or of the best that is not ours."""
        others = self.scores.drop(columns=[model, *(OURS if peers_only else ())], errors="ignore")
        return self.scores[model] / others.min(axis=1)


def means(fits: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over splits of every model, table and size; none where a split has none."""
    numbers = fits.select_dtypes("number").columns.drop("seed")
    by = fits.groupby(["table", "size", "model"])
    scores = by[list(numbers)].agg(lambda c: c.mean(skipna=False))
    status = by["status"].agg(lambda c: next((s for s in c if s != "ok"), "ok"))
    return scores.join(status).reset_index()


def compared(fits: pd.DataFrame, tables: list[Table], size: str, score: str) -> Comparison:
    """Compare models at a size, on the splits that all of them had.

    What did not end in time, or failed, is the worst.
    """
    names = [t.name for t in tables]
    at = fits[(fits["size"] == size) & fits["table"].isin(names)]
    at = at.assign(value=at[score].where(at["status"] == "ok", np.inf))
    # A model that does not have this score is none of them.
    wide = at[at["value"].notna()].pivot(index=["table", "seed"], columns="model", values="value")
    listed = [m.name for m in MODELS if m.name in wide]
    n_tables = wide.index.get_level_values("table").nunique()
    often = [m for m in listed if wide[m].groupby("table").count().gt(0).sum() >= _SHARE * n_tables]
    shared = wide[often].dropna().groupby("table").mean()
    return Comparison(shared.reindex([n for n in names if n in shared.index]))


def with_error(values: pd.Series) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / max(len(values), 1) ** 0.5)
