"""From rows to their projections: what fits of sliced classifiers and regressors share."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from histrs._solvers.preconditioners import Indices
from histrs._typing import Array
from histrs.gaussian_process._classifier import GPClassifier
from histrs.gaussian_process._given_rows import GivenRows
from histrs.gaussian_process._kernels.algebra import Constant
from histrs.gaussian_process._sliced.base import BaseSlicedGP, InnerGP
from histrs.gaussian_process._sliced.classes import LearnedClasses
from histrs.gaussian_process._sliced.columns import Columns, importances
from histrs.gaussian_process._sliced.interactions import Pair
from histrs.gaussian_process._sliced.learning import Learned
from histrs.gaussian_process._sliced.projection import Projection
from histrs.gaussian_process._sliced.rows import drawn_rows
from histrs.gaussian_process._systems.rows import rows_to_forget

AnyInner = TypeVar("AnyInner", bound=InnerGP)

# Rows that the metric is learned from, and those of them whose likelihood is searched.
LEARNING_ROWS = 4096
SEARCHED_ROWS = 2048
# With more rows, projections are rounded to levels, and there are fewer of them.
EXACT_ROWS = 8192
MANY_ROWS = 100_000
# Of more rows, this many tell noise and amplitude.
_SCALE_ROWS = 8192
# What the user's state draws is rows and projections; fits on those take the same vectors.
INNER_SEED = 0


class SlicedFit(BaseSlicedGP):
    """Learns projections of the columns, and the variances of the process on them."""

    _projections_of: ClassVar[tuple[tuple[int, int], ...]] = ((MANY_ROWS, 512),)
    """Rows at most, and projections of so many; of more rows than the last, there are 256."""

    def _n_steps(self) -> int:
        return self.n_metric_steps if self.metric == "learned" else 0

    def _n_directions(self, n_rows: int, n_sets: int) -> int:
        """Return the number of directions of each set."""
        if self.n_projections != "auto":
            return max(1, int(self.n_projections) // n_sets)
        enough = (n for most, n in self._projections_of if n_rows <= most)
        n_projections = next(enough, 256) // n_sets
        return max(n_projections, 256 if n_rows <= EXACT_ROWS else 1)

    def _keep_rows(self, inner: InnerGP, numbers: Array) -> None:
        """Keep the numbers of training rows, of those that the inner model was given."""
        self._rows = _first_of_each(inner._given, numbers)

    def _inner_with(
        self,
        numbers: Array,
        y: NDArray[Any],
        weights: Array | None,
        n_given: int,
        with_weight: Indices | None,
        **classes: Any,
    ) -> Any:
        """Return the inner model with further rows, those that have a weight."""
        inner = self._inner_now(tuple(self._inner_parameters()))
        before = inner._given
        T = self._projection.apply(numbers, self._threads())
        inner.partial_fit(T, y, sample_weight=weights, **classes)
        further = inner._given.behind(len(before.learned))
        self._rows = np.vstack([self._rows, _first_of_each(further, numbers)])
        inner._given = before.followed_by(further.of_all(n_given, with_weight))
        return inner

    def _without(self, indices: ArrayLike) -> Any:
        """Return the inner model without some of the given rows."""
        inner = self._inner_now(tuple(self._inner_parameters()))
        before = inner._given
        inner.forget(indices)
        _, lighter = before.without(rows_to_forget(indices, len(before.learned)))
        rows = np.vstack([self._rows, self._rows[lighter.left]])
        self._rows = np.delete(rows, lighter.touched, axis=0)
        return inner

    def _keep_projection(
        self,
        columns: Columns,
        learned: Learned | LearnedClasses,
        numbers: Array,
        weights: Array | None,
    ) -> NDArray[Any]:
        """Keep the projection that was learned; return the training rows' projections.

        With weights, those of many rows are rounded.
        """
        W = np.hstack([part.W for part in learned.sets])
        low = np.concatenate([part.low for part in learned.sets])
        self._keep_metric(columns, learned.G, learned.shares())
        projection = Projection(columns, W, low, np.ones(len(low)) if weights is None else weights)
        n_rows = len(numbers)
        if n_rows > EXACT_ROWS and weights is not None:
            some = np.linspace(0, n_rows - 1, EXACT_ROWS).astype(np.intp)
            projection = projection.rounding(numbers[some])
        self._projection = projection
        self.directions_, self.offsets_ = W, low
        return projection.apply(numbers, self._threads())

    def _keep_metric(self, columns: Columns, G: Array, shares: dict[Pair, float]) -> None:
        """Keep what was learned of the columns."""
        self.metric_ = G
        sources = columns.sources(self._table.sources)
        self.feature_importances_ = importances(sources, np.diag(G), self.n_features_in_)
        self.interactions_ = _of_features(shares, sources)

    def _with_scales(
        self,
        inner: AnyInner,
        T: NDArray[Any],
        y: NDArray[Any],
        random: np.random.RandomState,
        most: int | None = None,
        sample_weight: Array | None = None,
    ) -> AnyInner:
        """Return the inner model with the noise and amplitude of some rows, if there are many."""
        most = _SCALE_ROWS if most is None else most
        if len(T) <= most or inner._keeps_hyperparameters():
            return inner
        some = drawn_rows(np.arange(len(T)), most, random)
        if len(np.unique(y[some], axis=0)) < 2:
            return inner
        of_some = None if sample_weight is None else sample_weight[some]
        few = clone(inner)
        if isinstance(few, GPClassifier):
            # Nobody asks it for probabilities.
            few.set_params(calibration=None)
        few.fit(T[some], y[some], of_some)
        kernel = Constant(few.amplitude_, "fixed") * few._asked()[1]
        found: AnyInner = clone(inner).set_params(optimizer=None, noise=few.noise_, kernel=kernel)
        return found


def _first_of_each(given: GivenRows, numbers: Array) -> Array:
    """Return the first of the given rows that each training row stands for."""
    firsts: Array = numbers[np.unique(given.learned, return_index=True)[1]]
    return firsts


def _of_features(
    shares: dict[Pair, float], sources: NDArray[np.intp]
) -> list[tuple[int, int, float]]:
    """Return pairs of features with the sum of the shares of their columns, largest first.

    What columns of one feature do together is its own effect.
    """
    total: dict[Pair, float] = {}
    for pair, share in shares.items():
        first, second = sorted(int(sources[column]) for column in pair)
        if first < second:
            total[first, second] = total.get((first, second), 0.0) + share
    return sorted(((*pair, share) for pair, share in total.items()), key=lambda found: -found[2])
