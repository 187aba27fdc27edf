"""What the classifier and the regressor share."""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from histrs import _histrs
from histrs._progress import SolverProgress
from histrs._solvers.block_cg import Array
from histrs._validation import HISTOGRAM_CHECKS, Matrix, canonical, count_threads, to_core
from histrs.gaussian_process._system import KernelSystem, PreconditionerName, SolverName

# Exact score tables larger than this are not kept; they are made a few columns at a time.
_MAX_TABLE_BYTES = 1 << 30


class BaseIntersectionGP(BaseEstimator):
    """Exact Gaussian process regression of one or more targets on shared inputs."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "noise": [Interval(Real, 0, None, closed="neither")],
        "amplitude": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "preconditioner": [StrOptions({"auto", "knots", "pivoted-cholesky"}), None],
        "n_bins": [Interval(Integral, 2, 65535, closed="both"), None],
        "interpolation": [StrOptions({"linear", "nearest"})],
        "solver": [StrOptions({"auto", "cg", "cholesky"})],
        "optimizer": [None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        noise: float = 0.1,
        amplitude: float = 1.0,
        tol: float = 1e-4,
        max_iter: int = 1000,
        preconditioner: PreconditionerName = "auto",
        n_bins: int | None = None,
        interpolation: Literal["linear", "nearest"] = "linear",
        solver: SolverName = "auto",
        optimizer: None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.noise = noise
        self.amplitude = amplitude
        self.tol = tol
        self.max_iter = max_iter
        self.preconditioner = preconditioner
        self.n_bins = n_bins
        self.interpolation = interpolation
        self.solver = solver
        self.optimizer = optimizer
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _fit_targets(self, X: Matrix, Y: Array) -> None:
        """Solve for the weights of targets `Y` of shape (n_samples, n_outputs)."""
        weights = self._warm_start_weights(Y.shape)
        self.noise_, self.amplitude_ = float(self.noise), float(self.amplitude)
        self.X_fit_ = X
        self._cache: dict[tuple[Any, ...], Any] = {}
        system = self._system()
        system.check()
        # Targets of any scale are solved at scale 1.
        scale = np.max(np.abs(Y), axis=0, initial=0.0)
        scale[scale == 0.0] = 1.0
        tol = np.full(Y.shape[1], float(self.tol))
        start = None if weights is None else weights / scale
        with SolverProgress(type(self).__name__, tol, self.verbose) as progress:
            solution = system.solve(Y / scale, tol, start, progress)
        with np.errstate(over="ignore"):
            self.dual_coef_ = solution.X * (scale / self.amplitude_)
        if not np.all(np.isfinite(self.dual_coef_)):
            raise ValueError("The weights overflow. Scale y down, or noise and amplitude up.")
        self.residual_ = solution.residual * scale
        self.n_iter_ = solution.n_iter
        if not np.all(solution.residual <= tol):
            worst = int(np.argmax(solution.residual))
            warnings.warn(
                f"{type(self).__name__} stopped after {self.n_iter_.max()} iterations with a "
                f"residual of {self.residual_[worst]:.2e} in output {worst}, above the tolerance "
                f"{self.tol * scale[worst]:.2e}: predictions may be far off. Raise max_iter, tol "
                "or noise, or scale the features down.",
                ConvergenceWarning,
                stacklevel=4,
            )
        if self.n_bins is not None:
            self.quantization_error_bound_ = self._lookup_table().error_bound()
        elif hasattr(self, "quantization_error_bound_"):
            del self.quantization_error_bound_

    def _make_system(self) -> KernelSystem:
        return KernelSystem(
            X=self.X_fit_,
            noise=self.noise_,
            amplitude=self.amplitude_,
            n_threads=count_threads(self.n_jobs),
            solver=self.solver,
            preconditioner_name=self.preconditioner,
            max_iter=self.max_iter,
        )

    def _warm_start_weights(self, shape: tuple[int, ...]) -> Array | None:
        if not self.warm_start or getattr(self, "dual_coef_", np.empty(0)).shape != shape:
            return None
        weights: Array = self.dual_coef_ * self.amplitude_
        return weights

    # ---- what is costly to rebuild is cached beside the fitted arrays and never pickled ------

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the cached objects of the core."""
        return {name: value for name, value in super().__getstate__().items() if name != "_cache"}

    def _cached(self, name: str, *arguments: Any) -> Any:
        """Return an object of the core, made from the fitted arrays when it is not there.

        Threads that predict at once may make it twice, which does no harm.
        """
        cache = self.__dict__.setdefault("_cache", {})
        key = (name, *arguments)
        if key not in cache:
            cache[key] = getattr(self, f"_make_{name}")(*arguments)
        return cache[key]

    def _system(self) -> KernelSystem:
        system: KernelSystem = self._cached("system")
        return system

    def _lookup_table(self) -> _histrs.LookupTable:
        table: _histrs.LookupTable = self._cached("lookup_table", self.n_bins, self.interpolation)
        return table

    def _make_lookup_table(
        self, n_bins: int, interpolation: Literal["linear", "nearest"]
    ) -> _histrs.LookupTable:
        system = self._system()
        alpha = self.amplitude_ * self.dual_coef_
        return _histrs.LookupTable(system.columns, alpha, n_bins, interpolation, system.n_threads)

    def _make_shape_functions(self) -> _histrs.ShapeFunctions:
        system = self._system()
        alpha = self.amplitude_ * self.dual_coef_
        return _histrs.ShapeFunctions(system.columns, alpha, system.n_threads)

    # ---- prediction --------------------------------------------------------------------------

    def _check_test(self, X: ArrayLike | Matrix) -> Matrix:
        check_is_fitted(self)
        return canonical(validate_data(self, X, reset=False, **HISTOGRAM_CHECKS))

    def _mean(self, X: Matrix) -> Array:
        """Return `amplitude K(X, X_fit) alpha` of shape (n_samples, n_outputs), eq. 2."""
        n_threads = count_threads(self.n_jobs)
        if self.n_bins is not None:
            return self._lookup_table().evaluate(to_core(X), n_threads)
        columns = self._system().columns
        if columns.n_knots * (self.dual_coef_.shape[1] + 1) * 8 <= _MAX_TABLE_BYTES:
            functions: _histrs.ShapeFunctions = self._cached("shape_functions")
            return functions.evaluate(to_core(X), n_threads)
        return columns.cross_product(to_core(X), self.amplitude_ * self.dual_coef_, n_threads)

    def _latent_variance(self, X: Matrix) -> Array:
        """Return the posterior variance of the latent function, which all outputs share."""
        variance, solved = self._system().latent_variance(X, self.tol, self.dual_coef_.shape[1])
        if not np.all(solved):
            warnings.warn(
                f"The variance of {np.sum(~solved)} rows did not converge in {self.max_iter} "
                "iterations and is too large there. Raise max_iter, tol or noise.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self.amplitude_ * variance

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` has been called."""
        return hasattr(self, "dual_coef_")
