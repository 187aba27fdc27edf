"""Directions with the projections of training rows on them, and kernels of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._solvers.row_scale import scale_both_sides
from histrs._typing import Array
from histrs.kernel_approximation._sliced_distance import offsets

Indices: TypeAlias = NDArray[np.intp]


@dataclass
class Projections:
    """Directions with the non-negative projections of the training rows on them.

    Their kernel is the sum of minima, or, where functions are smooth, of the cubic splines'.
    """

    W: Array
    """Directions, of shape (n_columns, n_directions)."""
    low: Array
    """What is subtracted."""
    T: Array = field(repr=False)
    """Projections of the training rows."""
    K: Array = field(repr=False)
    """Kernel matrix of the searched rows, divided by `scale`; times the scale of rows, if any."""
    scale: float
    """Its mean diagonal once its mean is taken away; 1 where nothing is left."""
    smooth: bool = False
    """Whether the kernel is that of cubic splines."""

    @classmethod
    def of(
        cls,
        A: Array,
        W: Array,
        n_threads: int,
        some: Indices | None = None,
        row_scale: Array | None = None,
        *,
        smooth: bool = False,
    ) -> Projections:
        """Project rows on directions; `some` are the searched rows, all by default.

        `row_scale` multiplies the kernel matrix of these from both sides.
        """
        T = A @ W
        low = offsets(T)
        T = np.ascontiguousarray(np.maximum(T - low, 0.0))
        return cls(W, low, T, *_scaled_kernel(T, some, smooth, n_threads, row_scale), smooth)

    def smoothed(
        self, n_threads: int, some: Indices | None = None, row_scale: Array | None = None
    ) -> Projections:
        """Return the same projections with the kernel of cubic splines."""
        K, scale = _scaled_kernel(self.T, some, True, n_threads, row_scale)
        return replace(self, K=K, scale=scale, smooth=True)

    def of_rows(
        self, n_threads: int, some: Indices | None = None, row_scale: Array | None = None
    ) -> Projections:
        """Return the same projections and kernel, with the matrix of other rows."""
        K, _ = _scaled_kernel(self.T, some, self.smooth, n_threads, row_scale, self.scale)
        return replace(self, K=K)

    def slopes(self, alpha: Array) -> Array:
        """Return the slopes by the projections of `K alpha`, at the training rows."""
        slopes = np.empty((*self.T.shape, alpha.shape[1]))
        for p, t in enumerate(self.T.T):
            order = np.argsort(t, kind="stable")
            t_sorted, alpha_sorted = t[order], alpha[order]
            split = np.searchsorted(t_sorted, t, side="right")
            slope = _sums_above(alpha_sorted)[split]
            if self.smooth:
                # s^2 / 2 from where s <= t, and s t - t^2 / 2 from above.
                s, t = t_sorted[:, None], t[:, None]
                squares = s * s * alpha_sorted
                below = np.sum(squares, axis=0) - _sums_above(squares)[split]
                slope = 0.5 * below + t * (_sums_above(s * alpha_sorted)[split] - 0.5 * t * slope)
            slopes[:, p] = slope
        return slopes / self.scale


def outer_gradients(sets: Sequence[Projections], alpha: Array) -> Array:
    """Return the sum of outer products of the gradients of what sets of projections predict.

    It runs over the training rows and the outputs, whose weights are the columns of `alpha`.
    """
    slopes = np.concatenate([s.slopes(alpha) for s in sets], axis=1)
    S = slopes.transpose(0, 2, 1).reshape(-1, slopes.shape[1])
    W = np.hstack([s.W for s in sets])
    if W.shape[1] < len(W):
        return np.asarray(W @ (S.T @ S) @ W.T)
    gradients = S @ W.T
    return np.asarray(gradients.T @ gradients)


def _sums_above(terms: Array) -> Array:
    """Return the sums of the last rows, of all first and of none at last."""
    above = np.zeros((len(terms) + 1, terms.shape[1]))
    above[:-1] = np.cumsum(terms[::-1], axis=0)[::-1]
    return above


def _scaled_kernel(
    T: Array,
    some: Indices | None,
    smooth: bool,
    n_threads: int,
    row_scale: Array | None,
    scale: float | None = None,
) -> tuple[Array, float]:
    """Return the kernel matrix of some rows over its size, times their scale, and the size.

    The size is `scale` where it is given.
    """
    gram = _histrs.cubic_spline_gram if smooth else _histrs.intersection_gram
    K = gram(T if some is None else T[some], None, n_threads)
    if scale is None:
        scale = _size(K)
    K /= scale
    scale_both_sides(row_scale, K)
    return K, scale


def _size(K: Array) -> float:
    """Return the mean diagonal once the mean is taken away; 1 where nothing is left."""
    mean = float(np.trace(K)) / len(K)
    size = float(mean - K.mean())
    return size if size > 1e-12 * mean else 1.0


@dataclass
class Group:
    """Sets of projections with one signal variance, which is that of their mean kernel."""

    sets: list[Projections]
    K: Array = field(repr=False)
    """Mean kernel matrix of the searched rows."""

    @classmethod
    def of(cls, projections: Projections) -> Group:
        """Make a group of one set."""
        return cls([projections], projections.K)

    def with_set(self, projections: Projections) -> Group:
        """Return the group with one more set."""
        sets = [*self.sets, projections]
        return Group(sets, self.K + (projections.K - self.K) / len(sets))

    def weights(self, theta: float) -> Array:
        """Return the weights of all projections under the logarithm of a signal variance."""
        size = np.exp(theta) / len(self.sets)
        return np.concatenate([np.full(s.T.shape[1], size / s.scale) for s in self.sets])


def kernel_matrix(
    T: Array,
    weights: Array,
    smooth: NDArray[np.bool_],
    n_threads: int,
    others: Array | None = None,
) -> Array:
    """Return the weighted sum of the kernels of projections, some smooth, of rows `T`.

    Parameters
    ----------
    T : ndarray of shape (n_rows, n_projections)
        Non-negative projections.
    weights : ndarray of shape (n_projections,)
        What the kernel of each counts.
    smooth : ndarray of bool of shape (n_projections,)
        Which have the kernel of cubic splines; the others' is the minimum.
    n_threads : int
        Threads of the core.
    others : ndarray of shape (n_others, n_projections), default=None
        Rows whose kernel with `T` is returned; None for that of `T` with itself.
    """
    K: Array | None = None
    # A factor goes through the minimum, and its cube through the spline's kernel.
    kinds = (
        (~smooth, weights, _histrs.intersection_gram),
        (smooth, np.cbrt(weights), _histrs.cubic_spline_gram),
    )
    for chosen, scales, gram in kinds:
        if np.any(chosen):
            scaled = [
                np.ascontiguousarray(part[:, chosen] * scales[chosen])
                for part in (T, *([] if others is None else [others]))
            ]
            part = gram(scaled[-1], None if others is None else scaled[0], n_threads)
            K = part if K is None else np.add(K, part, out=K)
    # Without projections there is nothing in common.
    return np.zeros((len(T if others is None else others), len(T))) if K is None else K


def weights_and_kinds(groups: Sequence[Group], theta: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return the weight of every projection, and whether it is smooth, set after set."""
    weights = [group.weights(t) for group, t in zip(groups, theta, strict=True)]
    smooth = [np.full(s.T.shape[1], s.smooth) for group in groups for s in group.sets]
    return np.concatenate(weights), np.concatenate(smooth)


def matrix_root(G: Array) -> Array:
    """Return the symmetric square root of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(G)
    root: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
