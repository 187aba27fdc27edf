"""What sliced classifiers and regressors share."""

from numbers import Integral, Real
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._solvers.block_cg import Array
from histrs._validation import count_threads, validate_data
from histrs.gaussian_process._base import BaseIntersectionGP
from histrs.gaussian_process._posterior import Interpolation
from histrs.gaussian_process._sliced.classes import LearnedClasses
from histrs.gaussian_process._sliced.columns import Columns, is_frame_of_categories
from histrs.gaussian_process._sliced.learning import Learned
from histrs.gaussian_process._sliced.projection import Projection
from histrs.gaussian_process._system import SolverName
from histrs.gaussian_process._variance import VarianceName

Inner = TypeVar("Inner", bound=BaseIntersectionGP)
MetricName: TypeAlias = Literal["learned", "identity"]

# Rows that the metric is learned from, and those of them whose likelihood is searched.
LEARNING_ROWS = 6144
SEARCHED_ROWS = 2048
# With more rows, projections are rounded to levels, and there are fewer of them.
_EXACT_ROWS = 8192
_MANY_ROWS = 100_000


class BaseSlicedGP(BaseEstimator):
    """A Gaussian process on the projections of standardised columns."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_projections": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "metric": [StrOptions(set(get_args(MetricName)))],
        "n_metric_steps": [Interval(Integral, 0, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions(set(get_args(SolverName)))],
        "n_bins": [Interval(Integral, 2, 65535, closed="both"), None],
        "interpolation": [StrOptions({"linear", "nearest"})],
        "variance": [StrOptions(set(get_args(VarianceName)))],
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
        tol: float = 1e-4,
        max_iter: int = 1000,
        solver: SolverName = "auto",
        n_bins: int | None = None,
        interpolation: Interpolation = "linear",
        variance: VarianceName = "auto",
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_projections = n_projections
        self.metric = metric
        self.n_metric_steps = n_metric_steps
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver
        self.n_bins = n_bins
        self.interpolation = interpolation
        self.variance = variance
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    _inner: BaseIntersectionGP
    _projection: Projection

    # ---- rows --------------------------------------------------------------------------------

    def _check_rows(self, X: Any, *, reset: bool) -> Any:
        """Return a table whose columns are those of the fit."""
        if is_frame_of_categories(X):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        return validate_data(
            self,
            X,
            reset=reset,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
        )

    def _project(self, X: Any) -> NDArray[Any]:
        check_is_fitted(self)
        return self._projection.apply(self._check_rows(X, reset=False))

    # ---- fitting -----------------------------------------------------------------------------

    def _n_steps(self) -> int:
        return self.n_metric_steps if self.metric == "learned" else 0

    def _n_directions(self, n_rows: int, n_sets: int) -> int:
        """Return the number of directions of each set."""
        if self.n_projections != "auto":
            return max(1, int(self.n_projections) // n_sets)
        if n_rows <= _EXACT_ROWS:
            return max(256, 512 // n_sets)
        return max(512 if n_rows <= _MANY_ROWS else 256, n_sets) // n_sets

    def _rows_to_learn_from(
        self, n_rows: int, most: int, random: np.random.RandomState
    ) -> NDArray[np.intp]:
        if n_rows <= most:
            return np.arange(n_rows)
        return np.sort(random.choice(n_rows, most, replace=False))

    def _threads(self) -> int:
        return count_threads(self.n_jobs)

    def _random(self) -> np.random.RandomState:
        random: np.random.RandomState = check_random_state(self.random_state)
        return random

    def _keep_projection(
        self, columns: Columns, learned: Learned | LearnedClasses, X: Any
    ) -> NDArray[Any]:
        """Keep the projection that was learned; return the training rows' projections."""
        W = np.hstack([*(part.W for part in learned.sets), learned.columns.W])
        low = np.concatenate([*(part.low for part in learned.sets), learned.columns.low])
        projection = Projection(columns, W, low, None)
        n_rows = len(X)
        if n_rows > _EXACT_ROWS:
            some = np.linspace(0, n_rows - 1, _EXACT_ROWS).astype(np.intp)
            projection = projection.rounding(take(X, some))
        self._projection = projection
        self.metric_ = learned.G
        self.directions_, self.offsets_ = W, low
        self.feature_importances_ = columns.importances(np.diag(learned.G))
        return projection.apply(X)

    def _inner_parameters(self) -> dict[str, Any]:
        names = ("tol", "max_iter", "solver", "n_bins", "interpolation", "variance", "n_jobs")
        return {name: getattr(self, name) for name in (*names, "verbose")}

    def _current_inner(self) -> Any:
        """Return the inner model under what is now set."""
        check_is_fitted(self)
        return self._inner.set_params(**self._inner_parameters())

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` has been called."""
        return hasattr(self, "_inner")

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def std_error_(self) -> float:
        """Mean relative error of standard deviations, as measured; 0 where they are exact."""
        return float(self._current_inner().std_error_)

    @property
    def quantization_error_bound_(self) -> Array:
        """What no number from the table of `n_bins` cells is off by more than."""
        bound: Array = self._current_inner().quantization_error_bound_
        return bound


def take(X: Any, rows: NDArray[np.intp]) -> Any:
    """Return some rows of a matrix or a data frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def distinct_rows(A: Array, Y: Array) -> NDArray[np.intp]:
    """Return the rows to keep of those that are equal in all columns and targets.

    Repeated measurements with other results stay: they are what tells the noise.
    """
    _, first = np.unique(np.hstack([A, Y]), axis=0, return_index=True)
    return np.sort(first)


def checked_targets(y: ArrayLike) -> Array:
    """Return targets as a matrix in double precision."""
    Y = np.asarray(y, dtype=np.float64)
    return Y.reshape(len(Y), -1)


def copied(model: Inner) -> Inner:
    """Return a model of the same state, which may change by itself."""
    copy = object.__new__(type(model))
    copy.__dict__ = model.__dict__.copy()
    return copy
