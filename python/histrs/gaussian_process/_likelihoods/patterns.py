"""Targets that are numbers: their units, and fits of those that miss different rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.utils._missing import is_pandas_na
from sklearn.utils.validation import check_consistent_length

from histrs._solvers.preconditioners import Indices
from histrs._typing import Array
from histrs._weights import RowWeights, rows_at
from histrs.gaussian_process._state import copied
from histrs.gaussian_process._systems.rows import left_over

# Part of the largest target that its spread must exceed to be one.
_ROUNDING = 1e-14
_OVERFLOW = "The sum or the spread of y overflows. Scale y down."
# Fitted attributes with an entry for each target. Attributes with a row for each training row too,
# and their values for missing targets. Vectors of which each fit has its own.
_OF_TARGETS = ("y_mean_", "y_std_", "noise_", "amplitude_", "n_iter_", "residual_")
_OF_ROWS = {"dual_coef_": 0.0, "Y_fit_": np.nan}
_OF_FITS = ("theta_",)
# What is learned of columns, and of targets, whatever rows they miss.
_OF_COLUMNS = ("n_features_in_", "feature_names_in_", "_targets_are_single")
APART = (
    "Targets are missing in different rows, and each pattern of missing rows has its own model: "
    "call the models in `pattern_fits_`, whose targets are in `pattern_targets_`."
)


def spreads(Y: Array, weights: Array | None) -> Array:
    """Return the standard deviations of targets; of one value, what rounding leaves of it."""
    means, less_means = centred(Y, weights)
    largest = np.max(np.abs(less_means), axis=0, initial=0.0)
    constant = largest == 0.0
    largest[constant] = 1.0
    squares = np.average((less_means / largest) ** 2, axis=0, weights=weights)
    return np.where(constant, spread_of_one(means), largest * np.sqrt(squares))


def spread_of_one(values: Array) -> Array:
    """Return the spread of targets that all have these values, which is none."""
    return np.maximum(_ROUNDING * np.abs(values), np.finfo(np.float64).tiny)


def over(less_means: Array, units: Array) -> Array:
    """Return targets over their units, in place."""
    with np.errstate(over="ignore"):
        less_means /= units
    if not np.all(np.isfinite(less_means)):
        raise ValueError(_OVERFLOW)
    return less_means


def centred(Y: Array, weights: Array | None) -> tuple[Array, Array]:
    """Return the means, and the targets less these: 0 for targets of one value, up to rounding."""
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.average(Y, axis=0, weights=weights)
        less_means = Y - means
        largest = np.max(np.abs(less_means), axis=0, initial=0.0)
    if not np.all(np.isfinite(largest)):
        raise ValueError(_OVERFLOW)
    constant = largest <= _ROUNDING * np.max(np.abs(Y), axis=0, initial=0.0)
    means[constant] = Y[0, constant]
    less_means[:, constant] = 0.0
    return means, less_means


class TrainingRows(NamedTuple):
    """Rows to learn from."""

    checked: Any
    Y: Array
    """Targets, NaN where they are missing."""
    weights: Array | None
    given: Any
    """The rows as the user gave them."""
    copies: Array | None = None
    """How many rows each stands for, if not as many as its weight."""


class Pattern(NamedTuple):
    """Targets that miss the same rows."""

    rows: Indices
    """Those that have them."""
    targets: Indices


def entries_of(y: Any) -> NDArray[Any]:
    """Return targets as an array; what a frame of nullable columns lacks is NaN."""
    if hasattr(y, "to_numpy") and hasattr(y, "iloc"):
        try:
            return np.asarray(y.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError):
            pass
    values = np.asarray(y)
    if values.dtype.kind != "O":
        return values
    # Neither a number nor equal to itself or to anything else.
    lacking = [is_pandas_na(entry) for entry in values.flat]
    if not any(lacking):
        return values
    return np.where(np.reshape(lacking, values.shape), np.nan, values).astype(np.float64)


def missing_targets(y: Any) -> NDArray[np.bool_] | None:
    """Return which entries of a table of targets are NaN; None where none are, or it is no table.

    A single column of targets that is one-dimensional is not looked at: scikit-learn refuses NaN.
    """
    if sparse.issparse(y):
        return None
    try:
        values = entries_of(y)
        if values.ndim != 2 or values.dtype.kind not in "fO":
            return None
        missing: NDArray[np.bool_] = np.isnan(values.astype(np.float64, copy=False))
    except (TypeError, ValueError):
        return None
    return missing if np.any(missing) else None


def filled(y: Any, missing: NDArray[np.bool_] | None) -> Any:
    """Return targets with 0 where they are missing; pandas' NA is NaN, which checks can name."""
    if missing is not None:
        return np.where(missing, 0.0, np.asarray(entries_of(y), dtype=np.float64))
    has_objects = getattr(getattr(y, "dtype", None), "kind", "") == "O"
    return entries_of(y) if has_objects else y


def with_targets(given: RowWeights, missing: NDArray[np.bool_] | None) -> RowWeights:
    """Return the rows of positive weight that have a target at least, and their weights."""
    if missing is None:
        return given
    indices = np.arange(len(missing)) if given.kept is None else given.kept
    some = ~np.all(missing[indices], axis=1)
    if not np.any(some):
        raise ValueError(
            "Every target of y is NaN in every row of positive weight: give at least one target."
        )
    if np.all(some):
        return given
    return RowWeights(indices[some], None if given.weights is None else given.weights[some])


def patterns_of(Y: Array) -> list[Pattern]:
    """Return the patterns of missing targets, in the order of their first targets.

    One that misses all rows has none.
    """
    seen = ~np.isnan(Y)
    found: dict[bytes, list[int]] = {}
    for k, column in enumerate(seen.T):
        found.setdefault(column.tobytes(), []).append(k)
    return [
        Pattern(np.flatnonzero(seen[:, targets[0]]), np.array(targets))
        for targets in found.values()
    ]


def refuse_empty(patterns: Sequence[Pattern]) -> None:
    """Fail where a target is missing in every row."""
    for pattern in patterns:
        if len(pattern.rows) == 0:
            raise ValueError(
                f"y[:, {pattern.targets[0]}] is NaN in every row of positive weight: leave the "
                "column out."
            )


@dataclass(frozen=True)
class Patterns:
    """The fits of a model, one for each pattern of missing rows, put together.

    The model has five methods. `_parameters_of` returns the parameters of a fit of some targets.
    `_check_patterns` refuses parameters that separate fits cannot have. `_check_entries` names bad
    entries of rows that a fit would name by another index. `_of_targets` returns a fitted model of
    some targets. `_state` makes the costly parts.
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
    """Return the predictions of all targets in their order, along an axis."""
    order = np.argsort(np.concatenate(targets))
    return np.take(np.concatenate(parts, axis=axis), order, axis=axis)
