"""Pairs of features that are given, or found in what an additive fit leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs._typing import Array, Matrix
from histrs.gaussian_process._bound.pairs import (
    cell_among,
    centred_covariance,
    dense_columns,
    knots_of,
)

Interactions: TypeAlias = Sequence[Sequence[int | str]] | NDArray[np.integer[Any]]

# Features whose pairs are looked at, and rows that tell them, at most.
MOST_FEATURES = 64
_MOST_ROWS = 1 << 17


def strongest_pairs(
    X: Matrix,
    residuals: Array,
    strength: Array,
    n_pairs: int,
    n_knots: int,
    make_rng: Callable[[], np.random.Generator],
) -> NDArray[np.intp]:
    r"""Return the pairs of features whose histograms tell most of the residuals, best first.

    As in FAST (Lou et al., "Accurate intelligible models with pairwise interactions", KDD 2013),
    residuals are added up in the cells of a grid, one pass for each pair. What the grid explains is
    judged by the covariance `C` that the model gives its cells: with sums `t`,
    :math:`t^T C t / \mathrm{tr}(H C H^T)`, the slope of the likelihood by the weight of the pair
    but for its common part.

    Parameters
    ----------
    X : matrix of shape (n_samples, n_features)
        Training rows.
    residuals : ndarray of shape (n_samples, n_outputs)
        Weights of the additive fit, which are its residuals divided by the noise.
    strength : ndarray of shape (n_features,)
        What features are left out by, where there are more than 64.
    n_pairs : int
        At most so many pairs.
    n_knots : int
        Knots of a feature, at most.
    make_rng : callable
        Returns the generator that draws rows, where there are more than 131,072.
    """
    varied = np.argsort(-strength, kind="stable")[:MOST_FEATURES]
    features = np.sort(varied)
    if len(residuals) > _MOST_ROWS:
        some = np.sort(make_rng().choice(len(residuals), _MOST_ROWS, replace=False))
        X, residuals = X[some], residuals[some]
    columns = dense_columns(X, features)
    gains = dict(_gains(columns, residuals, n_knots))
    best = sorted(gains, key=lambda pair: (-gains[pair], pair))
    found = [(int(features[i]), int(features[j])) for i, j in best[:n_pairs] if gains[i, j] > 0.0]
    return np.array(found, dtype=np.intp).reshape(-1, 2)


def _gains(
    columns: Array, residuals: Array, n_knots: int
) -> Iterator[tuple[tuple[int, int], float]]:
    """Yield pairs of columns, and what a histogram of each explains."""
    grids = [knots_of(column, n_knots) for column in columns.T]
    covariances = [
        centred_covariance(column, t) for column, t in zip(columns.T, grids, strict=True)
    ]
    nearest, variances = [], []
    for column, knots, C in zip(columns.T, grids, covariances, strict=True):
        left, share = cell_among(column, knots)
        at = left + (share > 0.5)
        nearest.append(at)
        variances.append(C[at, at])
    for i, j in combinations(range(columns.shape[1]), 2):
        expected = float(variances[i] @ variances[j])
        if not expected > 0.0:
            continue
        n_i, n_j = len(grids[i]), len(grids[j])
        cells = nearest[i] * n_j + nearest[j]
        explained = 0.0
        for residual in residuals.T:
            sums = np.bincount(cells, residual, n_i * n_j).reshape(n_i, n_j)
            explained += float(np.sum((covariances[i] @ sums @ covariances[j]) * sums))
        yield (i, j), explained / expected


def check_pairs(
    pairs: Interactions, n_features: int, names: NDArray[Any] | None, name: str = "pairs"
) -> NDArray[np.intp]:
    """Return given pairs as indices, the lesser first.

    Raises
    ------
    ValueError
        If one is no pair of two features that there are, or is there twice.
    """
    found: list[tuple[int, int]] = []
    for k, pair in enumerate(pairs):
        pair_of_user = f"{name}[{k}] = {pair!r}"
        if isinstance(pair, str) or np.ndim(pair) != 1 or len(pair) != 2:
            raise ValueError(f"{pair_of_user}: give pairs of features, such as (0, 1).")
        i, j = (_feature(feature, pair_of_user, n_features, names) for feature in pair)
        if i == j:
            raise ValueError(f"{pair_of_user}: a pair needs two features.")
        ordered = (min(i, j), max(i, j))
        if ordered in found:
            raise ValueError(f"{pair_of_user} is there twice.")
        found.append(ordered)
    return np.array(found, dtype=np.intp).reshape(-1, 2)


def _feature(feature: Any, pair_of_user: str, n_features: int, names: NDArray[Any] | None) -> int:
    if isinstance(feature, str):
        if names is None or feature not in names.tolist():
            known = "columns have no names" if names is None else f"features are {names.tolist()}"
            raise ValueError(f"{pair_of_user}: there is no feature {feature!r}; {known}.")
        return int(names.tolist().index(feature))
    if isinstance(feature, bool) or not isinstance(feature, int | np.integer):
        raise ValueError(f"{pair_of_user}: name a feature by its index or by its name.")
    if not 0 <= feature < n_features:
        raise ValueError(f"{pair_of_user}: feature {feature} is not in 0..{n_features}.")
    return int(feature)
