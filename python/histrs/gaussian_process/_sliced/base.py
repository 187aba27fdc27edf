"""What sliced classifiers and regressors share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, check_scalar
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._checks.validation import (
    NameOptions,
    check_random_state,
    count_threads,
    validate_columns,
    validate_data,
)
from histrs._estimator import BaseEstimator
from histrs._frames import Column, chosen, columns_of, is_table
from histrs._typing import Array
from histrs._weights import RowWeights
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._options import (
    Bins,
    Fine,
    Solver,
    SolverName,
    VarianceName,
)
from histrs.gaussian_process._precision import in_precision_of_rows
from histrs.gaussian_process._process import GaussianProcess
from histrs.gaussian_process._sliced.matern import Coordinates
from histrs.gaussian_process._sliced.metrics import MetricName
from histrs.gaussian_process._sliced.projection import Projection
from histrs.gaussian_process._sliced.rows import drawn_rows
from histrs.gaussian_process._sliced.table import Table
from histrs.gaussian_process._state import copied
from histrs.gaussian_process._tabular.partial_dependence import (
    PartialDependence,
    averaged,
    check_features,
    grid_of,
    grid_points,
    with_values,
)

InnerGP = GaussianProcess

# Rows whose projections are in memory at once.
_BLOCK = 4096
# What may be set after a fit.
_OF_PREDICTIONS = ("n_bins", "variance", "n_jobs", "verbose")


class BaseSlicedGP(BaseEstimator):
    """A Gaussian process on the projections of standardised columns."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_projections": [StrOptions({"auto"}), Interval(Integral, 1, 1 << 20, closed="both")],
        "metric": [NameOptions(get_args(MetricName))],
        "n_metric_steps": [Interval(Integral, 0, 100, closed="both")],
        "n_interactions": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions(set(get_args(SolverName))), Solver],
        "n_bins": [Interval(Integral, 2, 65535, closed="both"), Bins, None],
        "variance": [StrOptions(set(get_args(VarianceName))), Fine],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        n_projections: Literal["auto"] | int = "auto",
        metric: MetricName = "learned",
        n_metric_steps: int = 3,
        n_interactions: int = 24,
        tol: float = 1e-4,
        solver: SolverName | Solver = "auto",
        n_bins: int | Bins | None = None,
        variance: VarianceName | Fine = "auto",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_projections = n_projections
        self.metric = metric
        self.n_metric_steps = n_metric_steps
        self.n_interactions = n_interactions
        self.tol = tol
        self.solver = solver
        self.n_bins = n_bins
        self.variance = variance
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    _targets_are_single: bool = True
    _inner: InnerGP
    _projection: Projection | Coordinates
    _rows: Array
    """Numbers of the training rows of the inner model, in its order."""
    _table: Table

    # ---- rows --------------------------------------------------------------------------------

    def _read_table(self, X: Any, *, reset: bool) -> Array:
        """Return rows as numbers, of a table whose columns are those of the fit."""
        numbers = self._numbers(self._checked_table(X, reset=reset), reset=reset)
        return numbers.astype(np.float64, copy=False)

    def _checked_table(self, X: Any, *, reset: bool) -> Array | list[Column]:
        """Return rows as a matrix of numbers, or, where they are a table, as its columns."""
        if not is_table(X) and (reset or self._table.is_of_numbers):
            # Rows to predict are converted some at a time.
            dtype = np.float64 if reset else [np.float64, np.float32]
            checks: dict[str, Any] = {"dtype": dtype, "ensure_all_finite": "allow-nan"}
            numbers: Array = validate_data(self, X, reset=reset, **checks)
            return numbers
        validate_columns(self, X, reset=reset)
        columns = columns_of(X)
        if len(columns) == 0 or len(columns[0].values) == 0:
            raise ValueError("Found 0 rows while a minimum of 1 is required: X is empty.")
        return columns

    def _numbers(self, rows: Array | list[Column], *, reset: bool = False) -> Array:
        """Return checked rows as numbers."""
        if not isinstance(rows, list):
            if reset:
                self._table = Table.of_numbers(rows.shape[1])
            return rows
        if reset:
            self._table = Table.of(rows)
        return self._table.read(rows)

    def _read_rows(self, given: RowWeights, X: Any, numbers: Array, *, reset: bool) -> Array:
        """Return the rows that have a weight, of a table that was read: others leave no trace."""
        return numbers if given.kept is None else self._read_table(*given.rows(X), reset=reset)

    def _answers(
        self, X: Any, ask: Callable[[Any, NDArray[Any]], Any], *, at_once: bool = False
    ) -> Any:
        """Return what the inner model says of rows, of some at a time or of all at once."""
        check_is_fitted(self)
        # A fit in another thread replaces the state whole.
        fitted = copied(self)
        numbers = fitted._numbers(fitted._checked_table(X, reset=False))
        inner = fitted._inner_now(_OF_PREDICTIONS)
        size = len(numbers) if at_once else _BLOCK
        parts = []
        for start in range(0, len(numbers), size):
            some = numbers[start : start + size].astype(np.float64, copy=False)
            parts.append(ask(inner, fitted._projection.apply(some, fitted._threads())))
        if isinstance(parts[0], tuple):
            return tuple(np.concatenate(part) for part in zip(*parts, strict=True))
        return np.concatenate(parts)

    def _threads(self) -> int:
        return count_threads(self.n_jobs)

    def _refuse_patterns(self) -> None:
        """Fail where there is no one model that could answer."""

    def _random(self) -> np.random.RandomState:
        random: np.random.RandomState = check_random_state(self.random_state)
        return random

    def _inner_parameters(self) -> dict[str, Any]:
        names = ("tol", "solver", *_OF_PREDICTIONS)
        return {name: getattr(self, name) for name in names}

    def _inner_now(self, names: Sequence[str]) -> Any:
        """Return a copy of the inner model under what is now set of these parameters."""
        # Made once, and not by each copy after the model was unpickled.
        self._inner._state()
        inner = copied(self._inner)
        # Its rows may be rounded, and answers are not.
        inner._targets_are_single = False
        if not isinstance(inner.kernel_, GeneralizedKernel):
            if Bins.of(self.n_bins).n_bins is not None:
                raise ValueError(
                    "The kernel is smooth, of which there are no tables: set n_bins=None, or fit "
                    'with n_bins, or with kernel="sliced".'
                )
            names = [name for name in names if name not in ("n_bins", "variance")]
        return inner.set_params(**{name: getattr(self, name) for name in names})

    @in_precision_of_rows
    def latent_mean_and_variance(self, X: ArrayLike) -> tuple[Array, Array]:
        """Return mean and variance of the latent functions, without the noise.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        mean : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Posterior means.
        variance : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Posterior variances; one for all classes.
        """
        answers: tuple[Array, Array] = self._answers(
            X, lambda inner, T: inner.latent_mean_and_variance(T)
        )
        return answers

    def partial_dependence(
        self,
        X: Any,
        features: int | str | Sequence[int | str],
        *,
        grid_resolution: int = 20,
        percentiles: tuple[float, float] = (0.05, 0.95),
        max_rows: int | None = 200,
    ) -> PartialDependence:
        r"""Return what one or two features do on average over rows, and how sure that is.

        For each value of the features, all rows get it, and the latent function is averaged over
        them (Friedman, "Greedy function approximation", The Annals of Statistics, 2001). The
        average of a Gaussian process is Gaussian: with :math:`x_r^v` row `r` with these values,

        .. math:: \frac{1}{R} \sum_r f(x_r^v) \sim \mathcal N\Big(
                  \frac{1}{R} \sum_r \mu(x_r^v), \;
                  \frac{1}{R^2} \sum_{r, s} \Sigma(x_r^v, x_s^v) \Big),

        with :math:`\mu` and :math:`\Sigma` mean and covariance of the posterior. Both are exact,
        whatever `n_bins` and `variance` are.

        Parameters
        ----------
        X : {array-like, data frame} of shape (n_samples, n_features)
            Rows to average over, as a rule those of the fit.
        features : int, str, or sequence of one or two of them
            Which.
        grid_resolution : int, default=20
            Values of a feature, evenly spaced; where it has no more distinct ones, these, and all
            categories of a feature that is none of numbers.
        percentiles : pair of float, default=(0.05, 0.95)
            Shares of the rows between which evenly spaced values are.
        max_rows : int or None, default=200
            At most so many rows are averaged over, drawn by `random_state`; None takes all.

        Returns
        -------
        dependence : PartialDependence
            Named tuple ``(features, grid, mean, std)``. For a classifier, of the targets +1 and -1
            (`latent_mean_and_variance`).

        Raises
        ------
        ValueError
            If `X` has other columns than the fit, features are not there, or are more than two.

        Examples
        --------
        >>> import numpy as np
        >>> from histrs.gaussian_process import SlicedGPRegressor
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> model = SlicedGPRegressor(n_projections=100, random_state=0).fit(X, X[:, 0] * X[:, 1])
        >>> found = model.partial_dependence(X, (0, 1), grid_resolution=5)
        >>> found.mean.shape, found.std.shape
        ((5, 5), (5, 5))
        """
        check_is_fitted(self)
        self._refuse_patterns()
        check_scalar(grid_resolution, "grid_resolution", Integral, min_val=2)
        if max_rows is not None:
            check_scalar(max_rows, "max_rows", Integral, min_val=1)
        if np.shape(percentiles) != (2,) or not 0.0 <= percentiles[0] < percentiles[1] <= 1.0:
            raise ValueError(f"percentiles = {percentiles}: give two ascending shares, 0 to 1.")
        # A fit in another thread replaces the state whole.
        fitted = copied(self)
        rows = fitted._checked_table(X, reset=False)
        columns = rows if isinstance(rows, list) else columns_of(rows)
        n_rows = len(columns[0].values)
        names = getattr(fitted, "feature_names_in_", None)
        indices = check_features(features, names, fitted.n_features_in_)
        grid = [grid_of(columns[index], index, grid_resolution, percentiles) for index in indices]
        if max_rows is not None and n_rows > max_rows:
            columns = chosen(columns, drawn_rows(np.arange(n_rows), max_rows, self._random()))
        parts = (
            fitted._projection.apply(
                fitted._table.read(with_values(columns, indices, values)), fitted._threads()
            )
            for values in grid_points(grid)
        )
        inner = fitted._inner_now(("n_jobs", "verbose"))
        mean, std = averaged(inner._state()["_posterior"], parts)
        shape = tuple(len(values) for values in grid)
        std = np.broadcast_to(std * inner._units(), mean.shape)
        return PartialDependence(indices, tuple(grid), _on_grid(mean, shape), _on_grid(std, shape))

    # ---- projections can be made again, and are not pickled --------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without projections of training rows."""
        state = dict(super().__getstate__())
        if "_inner" in state:
            state["_inner"] = inner = copied(state["_inner"])
            del inner.X_fit_
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the state, and what follows from it."""
        super().__setstate__(state)
        if "_inner" in state:
            self._inner.X_fit_ = self._projection.apply(self._rows, self._threads())

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` has been called."""
        return hasattr(self, "_inner")

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags

    @property
    def std_error_(self) -> float:
        """Mean relative error of standard deviations, as measured; 0 where they are exact."""
        check_is_fitted(self)
        return float(self._inner_now(_OF_PREDICTIONS).std_error_)

    @property
    def quantization_error_bound_(self) -> Array:
        """What no number from the table of `n_bins` cells is off by more than."""
        check_is_fitted(self)
        bound: Array = self._inner_now(_OF_PREDICTIONS).quantization_error_bound_
        return bound


def _on_grid(values: Array, shape: tuple[int, ...]) -> Array:
    """Return numbers on a grid, with an axis for outputs where there are several."""
    return values.reshape(shape if values.shape[1] == 1 else (*shape, values.shape[1]))
