"""Squared error as a function of coefficients, and groups of these in which it is diagonal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from histrs._checks.scale import may_overflow
from histrs._solvers.lapack import eigh
from histrs._typing import Array
from histrs.streaming._moments import Moments
from histrs.streaming._sums import full


@dataclass(frozen=True)
class SquaredError:
    """The squared error `(y^2 - 2 v w + w^T G w) / 2` of rows with targets, a mean over rows."""

    gram: Array
    """G, (D, D)."""
    cross: Array
    """v, (T, D)."""
    y_squares: Array
    """Mean of the squared targets, (T,)."""
    mean: Array
    y_mean: Array

    @classmethod
    def of(cls, moments: Moments, fit_intercept: bool) -> Self:
        """Return the error of rows and targets about their means, or as they are."""
        sums = moments._labelled_rows()
        gram, cross, y_squares = full(sums.scatter) / sums.n, sums.cross.T / sums.n, sums.y_squares
        mean, y_mean = sums.mean, sums.y_mean
        if not fit_intercept:
            with may_overflow():
                gram += np.outer(mean, mean)
                cross = cross + np.outer(y_mean, mean)
                y_squares = y_squares + sums.n * y_mean**2
            mean, y_mean = np.zeros_like(mean), np.zeros_like(y_mean)
        if not (np.isfinite(np.trace(gram)) and np.isfinite(y_squares).all()):
            raise ValueError(
                "products of rows or of targets overflow float64; divide the columns by a scale."
            )
        return cls(gram, np.ascontiguousarray(cross), y_squares / sums.n, mean.copy(), y_mean)


class Groups:
    """Consecutive groups of features, rotated so that the Gram matrix of each is diagonal.

    Norms of groups are the same in any basis, and in this one the minimiser over a group is the
    root of one equation in one unknown.
    """

    def __init__(self, labels: NDArray[Any], weights: Array | None = None) -> None:
        self.names, index, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        self._order = np.argsort(index, kind="stable")
        self.ends = np.cumsum(sizes).astype(np.int64)
        self.weights = np.sqrt(sizes) if weights is None else weights
        self._bases: list[tuple[slice, Array]] = []

    def diagonalise(self, gram: Array) -> Array:
        """Return the Gram matrix of the rotated features, and keep the rotations."""
        gram = gram[np.ix_(self._order, self._order)]
        for start, end in zip(np.append(0, self.ends), self.ends, strict=False):
            if end - start > 1:
                part = slice(start, end)
                values, basis = eigh(gram[part, part])
                gram[part] = basis.T @ gram[part]
                gram[:, part] = gram[:, part] @ basis
                gram[part, part] = np.diag(np.maximum(values, 0.0))
                self._bases.append((part, basis))
        return gram

    def rotate(self, features: Array) -> Array:
        """Return rows, whose columns are features, in the rotated features."""
        rotated = np.ascontiguousarray(features[:, self._order])
        for part, basis in self._bases:
            rotated[:, part] = rotated[:, part] @ basis
        return rotated

    def rotate_back(self, rotated: Array) -> Array:
        """Return what `rotate` was given; the features are the last axis."""
        features = np.empty_like(rotated)
        for part, basis in self._bases:
            rotated[..., part] = rotated[..., part] @ basis.T
        features[..., self._order] = rotated
        return features

    def norms(self, rotated: Array) -> Array:
        """Return the norm of each group, over its weight."""
        starts = np.append(0, self.ends[:-1])
        return np.sqrt(np.add.reduceat(rotated**2, starts, axis=1)) / self.weights


def checked_groups(groups: ArrayLike | None, weights: ArrayLike | None, n_features: int) -> Groups:
    """Return groups of features; None makes each feature one."""
    labels = np.arange(n_features) if groups is None else np.asarray(groups)
    if labels.shape != (n_features,):
        raise ValueError(
            f"groups has shape {labels.shape}, but X has {n_features} features: give each the "
            "name of its group, such as numpy.repeat([0, 1], [n_first, n_second])."
        )
    if weights is None:
        return Groups(labels)
    values = np.asarray(weights, dtype=np.float64)
    n_groups = len(np.unique(labels))
    if values.shape != (n_groups,) or not np.all((values > 0) & np.isfinite(values)):
        raise ValueError(
            f"group_weights = {weights!r}: expected {n_groups} positive weights, one for each "
            "group in the order of numpy.unique(groups)."
        )
    return Groups(labels, values)
