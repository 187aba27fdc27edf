"""Fits of targets that miss different rows: those of the same rows share one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_consistent_length

from histrs._solvers.preconditioners import Indices
from histrs._typing import Array
from histrs._weights import rows_at
from histrs.gaussian_process._likelihoods.target_patterns import (
    Pattern,
    TrainingRows,
    entries_of,
    patterns_of,
    refuse_empty,
)
from histrs.gaussian_process._state import copied
from histrs.gaussian_process._systems.rows import left_over

# Fitted attributes with an entry for each target, those with a row for each training row too and
# what missing targets have there, and vectors of which each fit has its own.
_OF_TARGETS = ("y_mean_", "y_std_", "noise_", "amplitude_", "n_iter_", "residual_")
_OF_ROWS = {"dual_coef_": 0.0, "Y_fit_": np.nan}
_OF_FITS = ("theta_",)
# What is learned of columns, and of targets, whatever rows they miss.
_OF_COLUMNS = ("n_features_in_", "feature_names_in_", "_targets_are_single")

APART = (
    "Targets miss different rows, so that each pattern of missing rows has a model of its own: "
    "ask those of `pattern_fits_`, whose targets are in `pattern_targets_`."
)


@dataclass(frozen=True)
class Patterns:
    """The fits of a model, one for each pattern of missing rows, put together.

    The model has `_parameters_of`, the parameters of a fit of some targets; `_check_patterns`,
    which refuses what separate fits cannot have; `_check_entries`, which names bad entries of rows
    that a fit would name by another index; `_of_targets`, a fitted model of some targets; and
    `_state`, which makes what is costly.
    """

    model: Any

    @classmethod
    def of(cls, model: Any) -> Patterns | None:
        """Return the fits of a model; None where one fit has all targets."""
        return cls(model) if "pattern_fits_" in vars(model) else None

    @staticmethod
    def fit(model: Any, rows: TrainingRows, patterns: list[Pattern]) -> None:
        """Fit each pattern by itself; nothing is left of what was learned before."""
        refuse_empty(patterns)
        n_targets = rows.Y.shape[1]
        model._check_patterns(n_targets)
        model._check_entries(rows.checked)
        fits = []
        for pattern in patterns:
            parameters = model._parameters_of(pattern.targets, n_targets)
            fits.append(_fitted(clone(model).set_params(**parameters).fit, rows, pattern))
        _keep_nothing_but(model, fits, patterns)

    @staticmethod
    def forget_all(model: Any) -> None:
        """Leave no patterns of a fit before."""
        for name in ("pattern_fits_", "pattern_targets_", "pattern_rows_"):
            vars(model).pop(name, None)

    def gather(self) -> None:
        """Set the attributes that are of single targets."""
        model = self.model
        n_rows = 1 + max(int(rows[-1]) for rows in model.pattern_rows_)
        n_targets = sum(len(targets) for targets in model.pattern_targets_)
        learned = vars(model)
        for name in _OF_TARGETS:
            parts = [
                np.broadcast_to(getattr(fit, name), len(targets))
                for fit, targets in zip(model.pattern_fits_, model.pattern_targets_, strict=True)
                if hasattr(fit, name)
            ]
            if parts:
                learned[name] = joined(parts, model.pattern_targets_)
        for name, fill in _OF_ROWS.items():
            if hasattr(model.pattern_fits_[0], name):
                learned[name] = np.full((n_rows, n_targets), fill)
                for fit, indices in zip(model.pattern_fits_, self.indices(), strict=True):
                    learned[name][indices] = getattr(fit, name)[fit._given.learned]
        for name in _OF_FITS:
            if hasattr(model.pattern_fits_[0], name):
                learned[name] = np.concatenate([getattr(fit, name) for fit in model.pattern_fits_])

    def indices(self) -> list[Any]:
        """Return where the rows and targets of each fit are among all."""
        parts = zip(self.model.pattern_rows_, self.model.pattern_targets_, strict=True)
        return [np.ix_(rows, targets) for rows, targets in parts]

    def fits(self) -> list[Any]:
        """Return copies of the fits, under the parameters that are now set."""
        model, state = self.model, vars(self.model)
        n_targets = sum(len(targets) for targets in state["pattern_targets_"])
        found = []
        for fit, targets in zip(state["pattern_fits_"], state["pattern_targets_"], strict=True):
            # What is costly is made once, and not by each copy.
            fit._state()
            found.append(copied(fit).set_params(**model._parameters_of(targets, n_targets)))
        return found

    # ---- rows that come and go -----------------------------------------------------------------

    def forget(self, removed: Indices, n_rows: int) -> None:
        """Remove some of the rows, each from the fits that have it."""
        model = self.model
        kept = left_over(n_rows, removed)
        new_index = np.full(n_rows, -1, dtype=np.int64)
        new_index[kept] = np.arange(len(kept))
        fits, patterns = [], []
        before = zip(self.fits(), model.pattern_rows_, model.pattern_targets_, strict=True)
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
        _keep(model, fits, patterns)

    # ---- answers -----------------------------------------------------------------------------

    def ask(self, question: Callable[[Any], Any], axis: int = -1) -> Any:
        """Return what each fit says of its targets, which are along an axis, put together."""
        targets = self.model.pattern_targets_
        parts = [question(fit) for fit in self.fits()]
        if isinstance(parts[0], tuple):
            return tuple(joined(part, targets, axis) for part in zip(*parts, strict=True))
        return joined(parts, targets, axis)


def add_rows(model: Any, rows: TrainingRows, n_rows: int, n_targets: int) -> None:
    """Add rows, behind `n_rows` that there are; targets part where they miss different ones."""
    model._check_entries(rows.checked)
    known: list[tuple[Any, Pattern]]
    patterns_now = Patterns.of(model)
    if patterns_now is not None:
        before = zip(model.pattern_rows_, model.pattern_targets_, strict=True)
        patterns = [Pattern(*pair) for pair in before]
        known = list(zip(patterns_now.fits(), patterns, strict=True))
    else:
        known = [(model, Pattern(np.arange(n_rows), np.arange(n_targets)))]
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
    _keep_nothing_but(model, fits, patterns)


def score_of_table(mean: Array, y: ArrayLike, sample_weight: ArrayLike | None) -> float:
    """Return the coefficient of determination, mean over targets, of which NaN do not count.

    `mean` are the predictions of the table `y`.
    """
    Y = np.asarray(entries_of(y), dtype=np.float64)
    missing = np.isnan(Y)
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


def _keep_nothing_but(model: Any, fits: list[Any], patterns: list[Pattern]) -> None:
    """Keep the fits of patterns in place of what was learned before."""
    names = {*model.get_params(deep=False), *_OF_COLUMNS}
    learned = {name for fit in fits for name in vars(fit)}
    # What others have put there stays: scikit-learn's pipelines and searches take theirs back.
    model.__dict__ = {
        name: value
        for name, value in {**vars(clone(model)), **vars(model)}.items()
        if name in names or not (name.endswith("_") or name in learned)
    }
    _keep(model, fits, patterns)


def _keep(model: Any, fits: list[Any], patterns: list[Pattern]) -> None:
    model.pattern_fits_ = fits
    model.pattern_targets_ = [pattern.targets for pattern in patterns]
    model.pattern_rows_ = [pattern.rows for pattern in patterns]
    Patterns(model).gather()


def _fitted(learn: Callable[..., Any], rows: TrainingRows, pattern: Pattern) -> Any:
    """Return what is learned of the rows of a pattern; its targets are a table."""
    weights = None if rows.weights is None else rows.weights[pattern.rows]
    Y = np.ascontiguousarray(rows.Y[np.ix_(pattern.rows, pattern.targets)])
    return learn(rows_at(rows.given, pattern.rows), Y, weights)


def joined(parts: Sequence[Array], targets: Sequence[Indices], axis: int = -1) -> Array:
    """Return the answers of all targets in their order, along an axis."""
    order = np.argsort(np.concatenate(targets))
    return np.take(np.concatenate(parts, axis=axis), order, axis=axis)
