"""Stochastic steps on weights in input space: the units of columns, and passes over the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from histrs import _histrs
from histrs._checks.scale import may_overflow
from histrs._checks.sparse import is_sparse
from histrs._checks.validation import canonical, check_random_state, count_threads, to_core
from histrs._estimator import BaseEstimator
from histrs._progress import TrainingProgress
from histrs._typing import Array, Matrix
from histrs._warnings import warn
from histrs.svm._columns import Columns, without_spare_room
from histrs.svm._objective import Lengths, objective

# `early_stopping` asks for this relative decrease of the objective, once in so many passes.
_DECREASE = 1e-3
_PATIENCE = 5
# The constant of the intercept, in mean sums of a row: scores are within one.
_CONSTANT_ROWS = 10.0


class InputSpaceTraining(BaseEstimator):
    """What learns weights in input space: rows in units of their columns, and passes over them."""

    classes_: NDArray[Any]
    coef_: Any
    intercept_: Array
    n_iter_: int
    _last: Array
    _lengths: Lengths

    def _n_problems(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _start(self, X: Any) -> Any:
        """Set the units, and return the rows in them."""
        n_threads = count_threads(self.n_jobs)
        self._spread = self.scale == "spread"
        columns, self._pending = Columns.of(X, spread=self._spread, n_threads=n_threads)
        if self.scale == "auto" and columns.differ(X):
            self._spread = True
            columns, self._pending = Columns.of(X, spread=True, n_threads=n_threads)
        self.offset_, self.scale_ = columns.offset, columns.unit
        X = columns.change(X)
        self._set_lengths(Lengths.of(X))
        X = self._with_constant(X)
        self._last = np.zeros((self._n_problems(), X.shape[1]))
        self._sum = np.zeros_like(self._last)
        self.n_iter_ = self._n_averaged = 0
        return X

    def _continue(self, X: Any) -> Any:
        """Return the rows of a further batch, which gives units to columns constant until then."""
        n_columns = self._last.shape[1]
        if n_columns != len(self.scale_) + self.fit_intercept:
            raise ValueError(
                f"fit_intercept = {self.fit_intercept}, but the model was begun with "
                f"{not self.fit_intercept}: set it back, or call fit to begin again."
            )
        is_open = bool(self._pending.any()) or not self._lengths.n_positive
        joined = self._pending
        if joined.any():
            columns, constant = Columns.of(
                X,
                spread=self._spread,
                n_threads=count_threads(self.n_jobs),
                before=(self._lengths.n_rows, self.offset_),
            )
            joined = self._pending & ~constant
            self.offset_ = np.where(joined, columns.offset, self.offset_)
            self.scale_ = np.where(joined, columns.unit, self.scale_)
            self._pending = self._pending & constant
            self._last, self._sum = self._last.copy(), self._sum.copy()
            # What rounding has made of constants.
            self._last[:, : len(joined)][:, joined] = self._sum[:, : len(joined)][:, joined] = 0.0
        X = Columns(self.offset_, self.scale_).change(X)
        if is_open:
            lengths = self._lengths.with_rows(X)
            if joined.any() or not self._lengths.n_positive:
                self._set_lengths(lengths)
            self._lengths = lengths
        return self._with_constant(X)

    def _set_lengths(self, lengths: Lengths) -> None:
        """Set what is relative to the rows."""
        self._lengths, self._largest = lengths, lengths.largest
        self.margin_, self.eta_ = self.margin * lengths.row, self.eta0 * lengths.entry
        self._constant = _CONSTANT_ROWS * lengths.row + lengths.largest

    def _with_constant(self, X: Any) -> Any:
        """Return rows with a last column whose weight is the intercept: no weight reaches it."""
        if not self.fit_intercept:
            return X
        last = np.full((X.shape[0], 1), self._constant, dtype=X.dtype)
        if is_sparse(X):
            return canonical(
                sparse.hstack([without_spare_room(X), sparse.csr_array(last)], format="csr")
            )
        return np.hstack([X, last])

    def _train(self, X: Matrix, signs: Array, weights: Array) -> None:
        # The same objective, divided by the mean weight: steps have the length that eta0 asks for.
        # The largest weight comes first, since the mean may be below the least number.
        largest = float(weights.max())
        weights = weights / largest
        part = float(np.mean(weights))
        weights, alpha = weights / part, min(self.alpha / largest / part, np.finfo(np.float64).max)
        mean = largest * part
        rng = check_random_state(self.random_state)
        self._order_seed = int(rng.randint(np.iinfo(np.int32).max))
        half = self.max_iter // 2
        eta, dropped, best, stale, stopped = self.eta_, False, np.inf, 0, False
        with TrainingProgress(type(self).__name__, self.verbose) as progress:
            for iteration in range(self.max_iter):
                if iteration == half and not dropped:
                    eta, dropped = eta / 10, True
                t = self._largest * max(0.0, 1 - iteration / half) if self._smooths(half) else 0.0
                self._last = self._pass(X, signs, weights, rng, self._last, eta, t, alpha)
                self._record(averaged=dropped)
                stops = self.early_stopping and t == 0.0
                if not (stops or self.verbose):
                    continue
                n_threads = count_threads(self.n_jobs)
                value = objective(X, signs, weights, self._last, self.margin_, alpha, n_threads)
                progress(value * mean)
                if not stops:
                    continue
                stale = 0 if value < best * (1 - _DECREASE) else stale + 1
                best = min(best, value)
                if stale >= _PATIENCE and dropped:
                    stopped = True
                    break
                if stale >= _PATIENCE:
                    eta, dropped, stale = eta / 10, True, 0
        if self.early_stopping and not stopped:
            warn(
                f"The objective, {best * mean:.3g}, was still falling after "
                f"max_iter = {self.max_iter} passes; raise max_iter or eta0.",
                ConvergenceWarning,
            )

    def _smooths(self, half: int) -> bool:
        return self.smoothing == "continuation" and half > 0

    def _pass(
        self,
        X: Matrix,
        signs: Array,
        weights: Array,
        rng: np.random.RandomState,
        coef: Array,
        eta: float,
        t: float,
        alpha: float,
    ) -> Array:
        order = rng.permutation(X.shape[0]).astype(np.int64)
        steps = (self.margin_, eta, float(alpha), t)
        n_threads = count_threads(self.n_jobs)
        return _histrs.svm_epoch(to_core(X), signs, weights, order, coef, steps, n_threads)

    def _record(self, averaged: bool = True) -> None:
        self.n_iter_ += 1
        learned = self._last
        if self.average and averaged:
            self._sum = self._sum + self._last
            self._n_averaged += 1
            learned = self._sum / self._n_averaged
        n = len(self.scale_)
        with may_overflow():
            self.coef_ = learned[:, :n] * self.scale_
        if not np.isfinite(self.coef_).all():
            raise ValueError("The weights overflow in units of X: scale X down, or lower eta0.")
        self.intercept_ = learned[:, n].copy() if self.fit_intercept else np.zeros(len(learned))
