"""Fits of targets that miss different rows: those of the same rows share one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin, clone
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_consistent_length

from histrs._row_weights import rows_at
from histrs._solvers.block_cg import Array
from histrs._solvers.preconditioners import Indices
from histrs.gaussian_process._online import left_over
from histrs.gaussian_process._state import copied
from histrs.gaussian_process._target_patterns import (
    Pattern,
    TrainingRows,
    entries_of,
    missing_targets,
    patterns_of,
    refuse_empty,
)

# Fitted attributes with an entry for each target, those with a row for each training row too and
# what missing targets have there, and vectors of which each fit has its own.
_OF_TARGETS = ("y_mean_", "y_std_", "noise_", "amplitude_", "n_iter_", "residual_")
_OF_ROWS = {"dual_coef_": 0.0, "Y_fit_": np.nan}
_OF_FITS = ("theta_",)


class MissingTargets(RegressorMixin):
    """Regression of several targets, each learned from the rows that have it.

    Targets of the same rows share a fit. Where there is more than one such pattern, the estimator
    keeps a fitted estimator of its own class for each, and puts together what they say; its own
    attributes are then those that are of single targets.
    """

    pattern_fits_: list[Any]
    pattern_targets_: list[Indices]
    pattern_rows_: list[Indices]

    _apart: ClassVar[str] = (
        "Targets miss different rows, so that each pattern of missing rows has a model of its own: "
        "ask those of `pattern_fits_`, whose targets are in `pattern_targets_`."
    )

    _of_columns: ClassVar[tuple[str, ...]] = (
        *("n_features_in_", "feature_names_in_"),
        "_targets_are_single",
    )
    """What is learned of columns, and of targets, whatever rows they miss."""

    # ---- what an estimator says ----------------------------------------------------------------

    def _of_targets(self, targets: Indices) -> Any:
        """Return a fitted estimator of some of the targets, of all of the rows."""
        raise NotImplementedError

    def _make_ready(self) -> None:
        """Make what is costly once, and not by each copy."""
        raise NotImplementedError

    def _check_entries(self, X: Any) -> None:
        """Refuse bad entries of rows where a fit would name them by another index."""

    # ---- fits --------------------------------------------------------------------------------

    def _has_patterns(self) -> bool:
        return "pattern_fits_" in self.__dict__

    def _refuse_patterns(self) -> None:
        """Fail where there is no one model that could answer."""
        if self._has_patterns():
            raise ValueError(self._apart)

    def _check_patterns(self, n_targets: int) -> None:
        """Refuse parameters that separate fits of the targets cannot have."""

    def _parameters_of(self, targets: Indices, n_targets: int) -> dict[str, Any]:
        """Return the parameters of a fit of some of the targets."""
        parameters: dict[str, Any] = self.get_params(deep=False)
        return parameters

    def _fit_patterns(self, rows: TrainingRows, patterns: list[Pattern]) -> None:
        """Fit each pattern by itself; nothing is left of what was learned before."""
        refuse_empty(patterns)
        self._check_patterns(rows.Y.shape[1])
        self._check_entries(rows.checked)
        fits = []
        for pattern in patterns:
            parameters = self._parameters_of(pattern.targets, rows.Y.shape[1])
            fits.append(_fitted(clone(self).set_params(**parameters).fit, rows, pattern))
        self._keep_nothing_but(fits, patterns)

    def _forget_patterns(self) -> None:
        """Leave no patterns of a fit before."""
        for name in ("pattern_fits_", "pattern_targets_", "pattern_rows_"):
            self.__dict__.pop(name, None)

    def _keep_nothing_but(self, fits: list[Any], patterns: list[Pattern]) -> None:
        """Keep the fits of patterns in place of what was learned before."""
        parameters: dict[str, Any] = self.get_params(deep=False)
        names = {*parameters, *self._of_columns}
        learned = {name for fit in fits for name in vars(fit)}
        # What others have put there stays: scikit-learn's pipelines and searches take theirs back.
        self.__dict__ = {
            name: value
            for name, value in {**vars(clone(self)), **vars(self)}.items()
            if name in names or not (name.endswith("_") or name in learned)
        }
        self._keep_patterns(fits, patterns)

    def _keep_patterns(self, fits: list[Any], patterns: list[Pattern]) -> None:
        self.pattern_fits_ = fits
        self.pattern_targets_ = [pattern.targets for pattern in patterns]
        self.pattern_rows_ = [pattern.rows for pattern in patterns]
        self._gather()

    def _gather(self) -> None:
        """Set the attributes that are of single targets."""
        n_rows = 1 + max(int(rows[-1]) for rows in self.pattern_rows_)
        n_targets = sum(len(targets) for targets in self.pattern_targets_)
        learned = self.__dict__
        for name in _OF_TARGETS:
            parts = [
                np.broadcast_to(getattr(fit, name), len(targets))
                for fit, targets in zip(self.pattern_fits_, self.pattern_targets_, strict=True)
                if hasattr(fit, name)
            ]
            if parts:
                learned[name] = joined(parts, self.pattern_targets_)
        for name, fill in _OF_ROWS.items():
            if hasattr(self.pattern_fits_[0], name):
                learned[name] = np.full((n_rows, n_targets), fill)
                for fit, indices in zip(self.pattern_fits_, self._indices(), strict=True):
                    learned[name][indices] = getattr(fit, name)[fit._given.learned]
        for name in _OF_FITS:
            if hasattr(self.pattern_fits_[0], name):
                learned[name] = np.concatenate([getattr(fit, name) for fit in self.pattern_fits_])

    def _indices(self) -> list[Any]:
        """Return where the rows and targets of each fit are among all."""
        parts = zip(self.pattern_rows_, self.pattern_targets_, strict=True)
        return [np.ix_(rows, targets) for rows, targets in parts]

    def _fits_now(self) -> list[Any]:
        """Return copies of the fits, under the parameters that are now set."""
        state = self.__dict__
        n_targets = sum(len(targets) for targets in state["pattern_targets_"])
        found = []
        for fit, targets in zip(state["pattern_fits_"], state["pattern_targets_"], strict=True):
            fit._make_ready()
            found.append(copied(fit).set_params(**self._parameters_of(targets, n_targets)))
        return found

    # ---- online updates ------------------------------------------------------------------------

    def _add_to_patterns(self, rows: TrainingRows, n_rows: int, n_targets: int) -> None:
        """Add rows, behind `n_rows` that there are; targets part where they miss different ones."""
        self._check_entries(rows.checked)
        known: list[tuple[Any, Pattern]]
        if self._has_patterns():
            before = zip(self.pattern_rows_, self.pattern_targets_, strict=True)
            patterns = [Pattern(*pair) for pair in before]
            known = list(zip(self._fits_now(), patterns, strict=True))
        else:
            known = [(self, Pattern(np.arange(n_rows), np.arange(n_targets)))]
        fits, patterns = [], []
        for fit, pattern in known:
            parts = patterns_of(rows.Y[:, pattern.targets])
            for part in parts:
                targets = pattern.targets[part.targets]
                of_part = fit if len(parts) == 1 else fit._of_targets(part.targets)
                if len(part.rows) > 0:
                    further = Pattern(part.rows, targets)
                    of_part = _fitted(copied(of_part).partial_fit, rows, further)
                fits.append(of_part)
                patterns.append(Pattern(np.append(pattern.rows, part.rows + n_rows), targets))
        self._keep_nothing_but(fits, patterns)

    def _forget_of_patterns(self, removed: Indices) -> None:
        """Remove rows, each from the fits that have it."""
        n_rows = len(self.Y_fit_)
        kept = left_over(n_rows, removed)
        new_index = np.full(n_rows, -1, dtype=np.int64)
        new_index[kept] = np.arange(len(kept))
        fits, patterns = [], []
        before = zip(self._fits_now(), self.pattern_rows_, self.pattern_targets_, strict=True)
        for fit, rows, targets in before:
            gone = np.flatnonzero(new_index[rows] < 0)
            if len(gone) == len(rows):
                raise ValueError(
                    f"All {len(rows)} training rows that have target {targets[0]} would be "
                    "forgotten: keep one at least, or start with a new estimator."
                )
            fits.append(fit.forget(gone))
            left = new_index[rows]
            patterns.append(Pattern(left[left >= 0], targets))
        self._keep_patterns(fits, patterns)

    # ---- answers -----------------------------------------------------------------------------

    def _of_patterns(self, ask: Callable[[Any], Any], axis: int = -1) -> Any:
        """Return what each fit says of its targets, which are along an axis, put together."""
        targets = self.pattern_targets_
        parts = [ask(fit) for fit in self._fits_now()]
        if isinstance(parts[0], tuple):
            return tuple(joined(part, targets, axis) for part in zip(*parts, strict=True))
        return joined(parts, targets, axis)

    def _largest_std_error(self) -> float:
        return float(max(fit.std_error_ for fit in self._fits_now()))

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination, mean over the targets.

        Parameters
        ----------
        X : array-like
            Rows.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Their targets. In a table, those that are NaN do not count.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            1 at best; 0 for the means of `y`.

        Raises
        ------
        ValueError
            If a target is NaN in every row, or there is not one for each prediction.
        """
        missing = missing_targets(y)
        if missing is None:
            return float(super().score(X, y, sample_weight))
        Y = np.asarray(entries_of(y), dtype=np.float64)
        mean = self.predict(X)
        mean = mean.reshape(len(mean), -1)
        check_consistent_length(Y, mean, sample_weight)
        if Y.shape != mean.shape:
            raise ValueError(
                f"y has {Y.shape[1]} targets, and the model {mean.shape[1]}: give each row as "
                "many as it was fitted to."
            )
        refuse_empty(patterns_of(Y))
        weights = None if sample_weight is None else np.asarray(sample_weight)
        scores = []
        for k, seen in enumerate(~missing.T):
            of_seen = None if weights is None else weights[seen]
            scores.append(r2_score(Y[seen, k], mean[seen, k], sample_weight=of_seen))
        return float(np.mean(scores))


def _fitted(learn: Callable[..., Any], rows: TrainingRows, pattern: Pattern) -> Any:
    """Return what is learned of the rows of a pattern; its targets are a table."""
    weights = None if rows.weights is None else rows.weights[pattern.rows]
    Y = np.ascontiguousarray(rows.Y[np.ix_(pattern.rows, pattern.targets)])
    return learn(rows_at(rows.given, pattern.rows), Y, weights)


def joined(parts: Sequence[Array], targets: Sequence[Indices], axis: int = -1) -> Array:
    """Return the answers of all targets in their order, along an axis."""
    order = np.argsort(np.concatenate(targets))
    return np.take(np.concatenate(parts, axis=axis), order, axis=axis)
