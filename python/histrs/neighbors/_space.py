"""A metric with its parameters, as estimators use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags, gen_batches

from histrs._checks.rows import Checked, rows_of
from histrs._checks.scale import check_squares
from histrs._checks.validation import (
    NameOptions,
    canonical,
    check_array,
    naming_rows,
    validate_data,
)
from histrs._typing import Array, Matrix
from histrs.metrics._registry import CHECKS, METRICS, Metric, check_parameters
from histrs.neighbors._search import Found, nearest, nearest_by_bounds
from histrs.spd._stack import flattened, is_stack, stacked

# Distances held at once.
_BATCH = 1 << 22
# Part of the queries that is searched first, and part of their distances above which the others are
# searched without bounds. Bounds then save less than they cost.
_TRIED_PART, _MOST_NEEDED = 16, 0.5


class Places(Checked):
    """Samples by their distances to all training samples, among which they have places."""

    def __init__(self, rows: NDArray[Any], places: NDArray[np.intp]) -> None:
        super().__init__(rows)
        self.places = places

    def __getitem__(self, indices: Any) -> Places:
        """Return some of them."""
        return Places(self.rows[indices], self.places[indices])


class Space:
    """A metric with its parameters and a number of threads.

    Of "precomputed", rows are distances to all training samples. Some of these are `Places`, or
    where they stand for themselves, in an estimator that was fitted, an array of their places.
    """

    def __init__(
        self,
        metric: str | Callable[..., NDArray[Any]],
        params: dict[str, Any] | None,
        n_jobs: int | None,
    ) -> None:
        if isinstance(metric, str) and metric == "precomputed":
            self._metric = Metric(_given, "distances")
            if params:
                raise ValueError(
                    f"metric_params has {min(params)!r}, but metric='precomputed' takes no "
                    "arguments: set metric_params=None."
                )
        elif isinstance(metric, str):
            self._metric = METRICS[metric]
            check_parameters(metric, params, "metric_params")
        else:
            self._metric = Metric(metric, "vectors")
        self._options = {"n_jobs": n_jobs, **(params or {})}
        self.kind = self._metric.kind

    def check(self, estimator: Any, X: Any, **arguments: Any) -> Any:
        """Return `X`, and `y` if it is given, as scikit-learn checks them."""
        # One that has been fitted knows the size of its matrices.
        knows = self.kind == "covariances" and not arguments.get("reset", True)
        flat = flattened(X, estimator if knows else None)
        checked = validate_data(estimator, flat, **arguments, **CHECKS[self.kind])
        if isinstance(checked, tuple):
            return self._canonical(checked[0]), checked[1]
        return self._canonical(checked)

    def _canonical(self, X: Matrix) -> Matrix:
        if self._metric is METRICS["euclidean"]:
            check_squares(X)
        if self.kind == "distances":
            _check_distances(np.asarray(X))
        return canonical(X)

    def training(self, X: Any) -> Checked:
        """Return training samples, once they were checked."""
        if self.kind != "distances":
            return Checked(self.shaped(X))
        if X.shape[0] != X.shape[1]:
            raise ValueError(
                f"X has shape {X.shape}: to fit, give the distances of all pairs of training "
                "samples, a square matrix."
            )
        return Places(X, np.arange(len(X)))

    @staticmethod
    def kept(X: Checked) -> Any:
        """Return training samples as a fitted estimator keeps them."""
        return X.places if isinstance(X, Places) else X.rows

    def shaped(self, X: Any) -> Any:
        """Return rows as what the metric is between: covariances become matrices."""
        return stacked(np.asarray(X)) if self.kind == "covariances" and X.ndim == 2 else X

    def checked(self, X: Any) -> Checked:
        """Return rows of a user or of a fit, which may have changed since, looked at again."""
        if isinstance(X, Places):
            return X
        if self.kind == "distances" and X.ndim == 1:
            return Places(X, X)
        return Checked(self.shaped(canonical(check_array(X, **CHECKS[self.kind]))))

    def distances(self, X: Matrix | Checked, Y: Matrix | Checked) -> NDArray[Any]:
        """Return the distances of all pairs."""
        return self._all_pairs(self.shaped(X), self.shaped(Y))

    @property
    def _is_known(self) -> bool:
        """Whether the metric has a name, and does what those with a name do."""
        return self._metric in METRICS.values()

    def centroid(self, X: Matrix | Checked) -> NDArray[Any]:
        """Return a stack of one: the centre of `X`."""
        return self._metric.centroid(self.shaped(rows_of(X)), **self._options)

    def nearest(
        self,
        X: Matrix,
        Y: Matrix,
        k: int,
        *,
        others: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> Found:
        """Return distances and indices of the `k` rows of `Y` that are nearest to those of `X`.

        With `others` both are the same, and a row is no neighbour of its own. `progress` is told
        of how many more rows of `X` they are known.
        """
        left, right = self.checked(X), self.checked(Y)
        distances = np.empty((X.shape[0], k), dtype=np.float64)
        indices = np.empty((X.shape[0], k), dtype=np.intp)
        # Where most distances are needed, bounds are in vain.
        bounded = self._metric.bounds is not None and 4 * k < Y.shape[0]
        for batch in self._batches(left, right, bounded):
            rows = np.arange(batch.start, batch.stop)
            with naming_rows(rows):
                distances[batch], indices[batch], needed = self._nearest(
                    left[batch], right, k, rows if others else None, bounded
                )
            bounded = bounded and needed <= _MOST_NEEDED * len(rows) * Y.shape[0]
            if progress is not None:
                progress(batch.stop - batch.start)
        return distances, indices

    def _batches(self, X: Checked, Y: Checked, tries_first: bool) -> Iterator[slice]:
        n, size = X.shape[0], max(1, _BATCH // max(1, Y.shape[0]))
        first = min(size, n // _TRIED_PART) if tries_first else 0
        if first > 0:
            yield slice(0, first)
        for batch in gen_batches(n - first, size):
            yield slice(first + batch.start, first + batch.stop)

    def _nearest(
        self, X: Checked, Y: Checked, k: int, excluded: NDArray[np.intp] | None, bounded: bool
    ) -> tuple[Array, NDArray[np.intp], int]:
        """Return the nearest, and how many distances were computed."""
        bounds = self._bounds(X.rows, Y.rows) if bounded else None
        of_pairs = self._metric.of_pairs
        D = self._all_pairs(X, Y) if bounds is None else bounds
        if excluded is not None:
            D[np.arange(len(D)), excluded] = np.inf
        if bounds is None or of_pairs is None:
            return *nearest(D, k), D.size
        needed = 0

        def of_some(rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[Any]:
            nonlocal needed
            needed += len(rows)
            return of_pairs(X.rows, Y.rows, rows, columns, **self._options)

        found = nearest_by_bounds(D, of_some, k)
        return *found, needed

    def _all_pairs(self, X: Any, Y: Any) -> NDArray[Any]:
        """Return the distances of all pairs, which may be written to."""
        if self._is_known or self.kind == "distances":
            return self._metric.distances(X, Y, **self._options)
        D = self._metric.distances(rows_of(X), rows_of(Y), **self._options)
        # The matrix of a callable is its own, and may be of anything.
        D = np.array(D, dtype=np.float64)
        if D.shape != (X.shape[0], Y.shape[0]):
            raise ValueError(
                f"metric returned distances of shape {D.shape}, expected "
                f"{(X.shape[0], Y.shape[0])}: one of each row of X and each of Y."
            )
        if np.isnan(D).any():
            i, j = np.argwhere(np.isnan(D))[0]
            raise ValueError(f"metric returned NaN for X[{i}] and Y[{j}]: it must return a number.")
        return D

    def _bounds(self, X: Matrix, Y: Matrix) -> Array | None:
        return None if self._metric.bounds is None else self._metric.bounds(X, Y, **self._options)


def _given(X: Any, Y: Any, *, n_jobs: int | None) -> NDArray[Any]:
    """Return the distances to training samples at some places."""
    return np.asarray(rows_of(X))[:, Y.places if isinstance(Y, Places) else Y]


def _check_distances(D: NDArray[Any]) -> None:
    if np.any(D < 0.0):
        i, j = np.argwhere(D < 0.0)[0]
        raise ValueError(f"X[{i}, {j}] = {D[i, j]:.3g}: distances must not be negative.")


# What the parameter `metric` may be.
METRIC_CONSTRAINTS = [NameOptions({"auto", "precomputed", *METRICS}), callable]


def chosen(metric: Any, X: Any) -> Any:
    """Return the metric that "auto" stands for, or the one given.

    A row of 64 numbers may be a matrix of 8 rows, but nothing says so: it is taken for a histogram.
    """
    if isinstance(metric, str) and metric == "auto":
        return "jbld" if is_stack(X) else "chi2"
    return metric


def set_input_tags(tags: Tags, metric: Any) -> Tags:
    """Say what an estimator in a metric takes."""
    kind = _kind_of(metric)
    is_auto = isinstance(metric, str) and metric == "auto"
    tags.input_tags.sparse = kind not in ("covariances", "distances")
    tags.input_tags.positive_only = kind in ("distances", "histograms")
    tags.input_tags.pairwise = kind == "distances"
    tags.input_tags.three_d_array = kind == "covariances" or is_auto
    return tags


def _kind_of(metric: Any) -> str:
    """Return what a metric is between; of an unknown one "vectors"."""
    metric = chosen(metric, None)
    if isinstance(metric, str) and metric == "precomputed":
        return "distances"
    return METRICS[metric].kind if isinstance(metric, str) and metric in METRICS else "vectors"
