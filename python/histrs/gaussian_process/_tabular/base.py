"""What classifiers and regressors of tables share: rows, members, partial dependence."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils import Tags, check_scalar
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._checks.memory import free_memory
from histrs._checks.validation import (
    check_random_state,
    count_threads,
    validate_columns,
    validate_data,
)
from histrs._estimator import BaseEstimator
from histrs._frames import Column, chosen, columns_of, frame_of, is_table
from histrs._progress import StageProgress
from histrs._typing import Array
from histrs._weights import RowWeights
from histrs.gaussian_process._kernels.levels import evenly
from histrs.gaussian_process._rows import telling
from histrs.gaussian_process._state import copied
from histrs.gaussian_process._tabular.explanation import (
    MOST_AVERAGED,
    Parts,
    TabularExplanation,
    explained,
)
from histrs.gaussian_process._tabular.gaps import filled, has_gaps
from histrs.gaussian_process._tabular.members import (
    MOST_FACTORISED,
    Member,
    MemberName,
    Targets,
    most_rows_of_pairs,
)
from histrs.gaussian_process._tabular.partial_dependence import (
    PartialDependence,
    check_features,
    grid_of,
    grid_points,
    with_values,
)
from histrs.gaussian_process._tabular.rows import Reader, TableRows
from histrs.gaussian_process._tabular.saved import save
from histrs.gaussian_process._tabular.table import Table

Members: TypeAlias = Literal["auto"] | Sequence[MemberName]

# Entries whose rows are predicted at once, the fewest such rows, and those with gaps.
_ENTRIES = 1 << 17
_BLOCK = 1024
_GAPPY = 64
# Matrices of all pairs of rows that a fit holds at once, where these are factorised.
_MATRICES = 9


class BaseTabularGP(BaseEstimator):
    """A blend of processes on a table."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "members": [StrOptions({"auto"}), list, tuple],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        members: Members = "auto",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.members = members
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    _known_members: ClassVar[tuple[MemberName, ...]] = get_args(MemberName)
    _targets_are_single: bool = True
    _fitted: ClassVar[str]
    """The attribute that says what was learned."""
    _reader: Reader
    _rows: TableRows
    """Training rows, no two of which are equal, targets too; then those that were added."""
    _weight_unit: float
    """The mean of the weights that were given."""

    # ---- rows --------------------------------------------------------------------------------

    def _read(self, X: Any, *, reset: bool, warns: bool = False) -> tuple[Table, Array, Array]:
        """Return the table that rows are, their numbers and the codes of their categories."""
        known = None if reset else self._reader.table
        frame = frame_of(X)
        # What was read once need not be read again.
        X = X if frame is None else frame
        of_numbers = known is None or known.is_of_numbers
        # Sparse rows are refused here.
        if not is_table(X) and (of_numbers or sparse.issparse(X)):
            # Rows to predict are converted some at a time.
            dtype = np.float64 if reset else [np.float64, np.float32]
            checks: dict[str, Any] = {"dtype": dtype, "ensure_all_finite": "allow-nan"}
            numbers: Array = validate_data(self, X, reset=reset, **checks)
            table = Table.of_numbers(numbers.shape[1]) if known is None else known
            return table, numbers, np.empty((len(numbers), 0))
        validate_columns(self, X, reset=reset)
        columns = self._columns(X)
        if warns:
            for column in columns:
                column.warn_of_numbers_with_text()
        table = Table.of(columns) if known is None else known
        return table, *table.read(columns)

    @staticmethod
    def _columns(X: Any) -> list[Column]:
        columns = columns_of(X)
        if len(columns) == 0 or len(columns[0].values) == 0:
            raise ValueError("Found 0 rows while a minimum of 1 is required: X is empty.")
        return columns

    def _read_kept(self, given: RowWeights, X: Any, read: Any) -> tuple[Table, Array, Array]:
        """Return the rows of a fit that have a weight: others leave no trace."""
        table: tuple[Table, Array, Array] = read
        return table if given.kept is None else self._read(*given.rows(X), reset=True)

    def _to_add(self, X: Any, given: RowWeights) -> tuple[TableRows, Array | None]:
        """Return further rows that have a weight, with these."""
        _, numbers, codes = self._read(X, reset=False)
        rows = self._reader.rows(*given.rows(numbers.astype(np.float64, copy=False), codes))
        gaps = np.argwhere(np.isnan(rows.with_values))
        if len(gaps) > 0:
            row, column = gaps[0]
            row = row if given.kept is None else given.kept[row]
            raise ValueError(
                f"X[{row}, {self._reader.sources[column]}] is missing, and the fit had no missing "
                "values in this column: leave the row out, or call fit with all rows."
            )
        return rows, None if given.weights is None else given.weights / self._weight_unit

    def _to_predict(self, X: Any) -> Iterator[tuple[NDArray[np.intp], TableRows, Array | None]]:
        """Yield some rows at a time, with their places; those with gaps filled in several ways."""
        _, numbers, codes = self._read(X, reset=False)
        step = max(_BLOCK, _ENTRIES // (numbers.shape[1] + codes.shape[1]))
        for start in range(0, len(numbers), step):
            block = slice(start, start + step)
            of_block = numbers[block].astype(np.float64, copy=False), codes[block]
            rows = self._reader.rows(*of_block)
            gaps = has_gaps(rows)
            whole, gappy = np.flatnonzero(~gaps), np.flatnonzero(gaps)
            if len(whole) > 0:
                yield start + whole, rows.at(whole) if len(gappy) > 0 else rows, None
            for first in range(0, len(gappy), _GAPPY):
                some = gappy[first : first + _GAPPY]
                several = filled(rows.at(some), self._rows)
                yield start + some, several.rows, several.weights

    def _answers(self, X: Any, ask: Callable[[Any, TableRows, Array | None], Array]) -> Array:
        """Return what a fit says of rows, some at a time."""
        check_is_fitted(self)
        # A fit in another thread replaces the state whole.
        fitted = copied(self)
        of = vars(fitted)[self._fitted]
        blocks = fitted._to_predict(X)
        found = [(places, ask(of, rows, weights)) for places, rows, weights in blocks]
        answers = np.concatenate([answer for _, answer in found])
        answers[np.concatenate([places for places, _ in found])] = answers.copy()
        return answers

    # ---- a fit -------------------------------------------------------------------------------

    def _targets(
        self, rows: TableRows, weights: Array | None, stays: Array | None, progress: StageProgress
    ) -> Targets:
        """Return rows and weights, of which targets are yet to come."""
        n, random = len(rows.values), check_random_state(self.random_state)
        if tuple(self.members) != ("levels",):
            check_free_memory(n)
        return Targets(
            rows,
            np.zeros((n, 1)),
            telling(weights, stays),
            stays,
            random.permutation(n),
            int(random.randint(np.iinfo(np.int32).max)),
            count_threads(self.n_jobs),
            progress,
        )

    def _names(self) -> tuple[MemberName, ...] | None:
        """Return the members that are asked for; None for those that suit."""
        if isinstance(self.members, str):
            return None
        unknown = [name for name in self.members if name not in self._known_members]
        if unknown or len(self.members) == 0 or len(set(self.members)) < len(self.members):
            known = list(self._known_members)
            raise ValueError(
                f"members = {self.members!r}: give some of {known}, each once, or 'auto'."
            )
        return tuple(self.members)

    save = save

    def _weighted_members(self) -> list[tuple[float, Member]]:
        """Return all members with their weights, which sum to one."""
        raise NotImplementedError

    @property
    def feature_importances_(self) -> Array:
        """The fraction of the variance of the members' functions that each feature explains."""
        check_is_fitted(self)
        sources, found = self._reader.sources, np.zeros(self.n_features_in_)
        for weight, member in self._weighted_members():
            np.add.at(found, sources, weight * member.importances(len(sources)))
        total = float(found.sum())
        return found / total if total > 0.0 else found

    def partial_dependence(
        self,
        X: Any,
        features: int | str | Sequence[int | str],
        *,
        grid_resolution: int = 20,
        percentiles: tuple[float, float] = (0.05, 0.95),
        max_rows: int | None = 200,
    ) -> PartialDependence:
        r"""Return the average prediction as one or two features vary, with standard deviations.

        All rows get each value of the features in turn, and their predictions are averaged
        (Friedman, "Greedy function approximation", The Annals of Statistics, 2001). The average of
        each member is Gaussian. Mean and standard deviation are those of their blend.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows to average over, usually the training rows.
        features : int, str, or sequence of one or two of them
            Indices or names of the features.
        grid_resolution : int, default=20
            Number of evenly spaced values of a numeric feature. If a numeric feature has at most so
            many distinct values, the grid has these values. The grid of a categorical feature has
            all categories.
        percentiles : pair of float, default=(0.05, 0.95)
            Quantiles of the rows between which values are evenly spaced.
        max_rows : int or None, default=200
            Largest number of rows that are averaged over, drawn by `random_state`; None takes all.

        Returns
        -------
        dependence : PartialDependence
            Named tuple ``(features, grid, mean, std)``. Averages are of the transformed target, or
            of the indicators of classes. Standard deviations leave out the noise.

        Raises
        ------
        ValueError
            If `X` has other columns than the fit, or a missing value in a column that had no
            missing values in the fit. If a feature is unknown, or more than two are given.
        """
        check_is_fitted(self)
        check_scalar(grid_resolution, "grid_resolution", Integral, min_val=2)
        if max_rows is not None:
            check_scalar(max_rows, "max_rows", Integral, min_val=1)
        if np.shape(percentiles) != (2,) or not 0.0 <= percentiles[0] < percentiles[1] <= 1.0:
            raise ValueError(
                f"percentiles = {percentiles}: give two ascending numbers between 0 and 1."
            )
        # A fit in another thread replaces the state whole.
        fitted = copied(self)
        fitted._read(X, reset=False)
        columns = fitted._columns(X)
        n_rows = len(columns[0].values)
        names = getattr(fitted, "feature_names_in_", None)
        indices = check_features(features, names, fitted.n_features_in_)
        grid = [grid_of(columns[index], index, grid_resolution, percentiles) for index in indices]
        if max_rows is not None and n_rows > max_rows:
            random = check_random_state(self.random_state)
            some = np.sort(random.choice(n_rows, max_rows, replace=False))
            columns = chosen(columns, some)
        parts = []
        for values in grid_points(grid):
            read = fitted._reader.table.read(with_values(columns, indices, values))
            parts.append(fitted._reader.rows(*read))
            if has_gaps(parts[-1]).any():
                raise ValueError(
                    "X has missing values in columns that have none in the training rows: leave "
                    "these rows out."
                )
        mean, std = fitted._averaged(parts)
        shape = tuple(len(values) for values in grid)
        return PartialDependence(indices, tuple(grid), _on_grid(mean, shape), _on_grid(std, shape))

    def explain(self, X: Any) -> TabularExplanation:
        r"""Split predictions into contributions of features and of pairs of features.

        Only the member "levels" is a sum of functions :math:`f_t` of features and pairs, each with
        a mean of 0 over training rows. With the weight `w` of this member in the blend, a
        prediction is

        .. math:: \hat y(x) = c + w \sum_t f_t(x_t) + r(x),

        where `c` is the mean prediction of training rows, and `r` is the part of the other members.

        For a transformed target, contributions add up to the transformed prediction. For two
        classes, they add up to the log odds of the second class. For more classes, they add up to
        the log odds of each class. With many classes and many distinct values, they add up to
        probabilities. The field `scale` of the result names the case.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows, as for `predict`.

        Returns
        -------
        explanation : TabularExplanation
            Named tuple ``(names, data, values, std, offset, pairs, remainder, prediction, scale,
            fraction)``. `values` are :math:`w f_t`, `offset` is :math:`c`, and `remainder` is
            :math:`r`. `fraction` is the fraction of the variance of predictions that `values`
            explain.

        Raises
        ------
        ValueError
            If `X` has other columns than the fit.
        """
        check_is_fitted(self)
        # A fit in another thread replaces the state whole.
        fitted = copied(self)
        fitted._read(X, reset=False)
        columns = fitted._columns(X)
        names = getattr(fitted, "feature_names_in_", None)
        if names is None:
            names = np.array([f"x{d}" for d in range(len(columns))], dtype=object)
        n_rows = len(fitted._rows.values)
        return explained(
            fitted._parts(),
            names,
            np.column_stack([column.objects() for column in columns]),
            fitted._rows.at(evenly(n_rows, min(n_rows, MOST_AVERAGED))),
            lambda ask: fitted._answers(X, lambda _, *rows: ask(*rows)),
        )

    def _parts(self) -> list[Parts]:
        """Return each blend as a sum over columns, and the rest."""
        raise NotImplementedError

    def _averaged(self, parts: list[TableRows]) -> tuple[Array, Array]:
        """Return mean and standard deviation of the average prediction over groups of rows."""
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` has been called."""
        return hasattr(self, "_reader")

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def check_free_memory(n_rows: int) -> None:
    """Fail before a fit of rows with their pairs, if less memory is free than it takes."""
    of_factor, free = 8.0 * _MATRICES, free_memory()
    is_factorised = n_rows <= MOST_FACTORISED
    needed = of_factor * n_rows**2 if is_factorised else float(most_rows_of_pairs(n_rows)) ** 2
    if needed <= free:
        return
    most = int((free / of_factor) ** 0.5)
    if most > MOST_FACTORISED:
        most = max(MOST_FACTORISED, int(free**0.5))
    raise MemoryError(
        f"A fit of {n_rows} rows takes {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free. "
        f'Fit at most {most} rows, or members=["levels"], whose memory is linear in the rows.'
    )


def averages(
    weights: ArrayLike, members: Sequence[Member], parts: list[TableRows]
) -> tuple[Array, Array]:
    """Return mean and standard deviation of the blend's average over groups of rows."""
    found = [member.averaged(parts) for member in members]
    w = np.asarray(weights)[:, None, None]
    means, stds = np.stack([mean for mean, _ in found]), np.stack([std for _, std in found])
    mean = np.sum(w * means, axis=0)
    variance = np.sum(w * (stds**2 + (means - mean) ** 2), axis=0)
    return mean, np.sqrt(variance)


def _on_grid(values: Array, shape: tuple[int, ...]) -> Array:
    """Return numbers on a grid, with an axis for outputs where there are several."""
    return values.reshape(shape if values.shape[1] == 1 else (*shape, values.shape[1]))
