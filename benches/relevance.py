"""Columns that matter beside shuffled copies, which cannot: ``python -m benches.relevance``.

Printed is the table of ``docs/guide/hyperparameters.md``.
"""

import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_selection import SelectFdr, f_classif, f_regression

from benches._data import CLASSES, REGRESSION
from histrs.feature_selection import SelectRelevant

# Rows and columns of a table at most.
MOST_ROWS, MOST_COLUMNS = 1000, 100


def judge(select: Any, X: NDArray[Any], y: NDArray[Any], copies: NDArray[Any]) -> str:
    """Return how many columns are selected, and how many shuffled ones, and the seconds."""
    start = time.perf_counter()
    chosen = select.fit(np.hstack([X, copies]), y).get_support()
    seconds = time.perf_counter() - start
    d = X.shape[1]
    return f"{chosen[:d].sum()} + {chosen[d:].sum()} | {seconds:.1f} s"


def main() -> None:
    """Print a row for each table."""
    print("| table | columns | ours: real + shuffled | | SelectFdr: real + shuffled | |")
    print("|---|--:|--:|--:|--:|--:|")
    for tables, task, test in (
        (REGRESSION, "regression", f_regression),
        (CLASSES, "classification", f_classif),
    ):
        for name, load in tables.items():
            try:
                X, y = load()
            except FileNotFoundError:
                print(f"{name}: not there (HISTRS_DATA)", flush=True)
                continue
            if X.shape[1] > MOST_COLUMNS:
                continue
            rng = np.random.default_rng(0)
            some = rng.permutation(len(X))[:MOST_ROWS]
            X, y = X[some], y[some]
            copies = rng.permuted(X, axis=0)
            with warnings.catch_warnings():
                # The peer divides by the spread of columns that are constant.
                warnings.filterwarnings("ignore", module="sklearn")
                ours = judge(SelectRelevant(0.1, task=task, random_state=0), X, y, copies)
                peer = judge(SelectFdr(test, alpha=0.1), X, y, copies)
            print(f"| {name} | {X.shape[1]} | {ours} | {peer} |", flush=True)


if __name__ == "__main__":
    main()
