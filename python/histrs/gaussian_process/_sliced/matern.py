"""The process of coordinates in a learned metric, with the Matérn kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._memory import most_stored_rows
from histrs._row_weights import ClassWeight
from histrs._solvers.block_cg import Array
from histrs._validation import validate_data
from histrs.gaussian_process._classification import CentredClassTargets
from histrs.gaussian_process._dense.base import BaseDenseGP
from histrs.gaussian_process._dense.matern import MaternKernel
from histrs.gaussian_process._dense.posterior import DensePosterior
from histrs.gaussian_process._hyperparameters import Bounds
from histrs.gaussian_process._sliced.columns import Columns
from histrs.gaussian_process._sliced.projections import matrix_root
from histrs.gaussian_process._system import SolverName
from histrs.gaussian_process._variance import VarianceName

# Rows up to which the matrix is factorised, and above which it is not kept.
_FACTORISED = 8192
_MOST_ROWS = 65_536
# Part of the root mean squared distance between rows that is the length scale.
_LENGTH = 0.6
# Part of the memory that the matrix may take.
_MEMORY_SHARE = 0.5

SOLVERS: tuple[SolverName, ...] = ("auto", "cg", "cholesky")
VARIANCES: tuple[VarianceName, ...] = ("auto", "cached", "exact")


def most_rows() -> int:
    """Return how many rows are fitted, by the memory of the machine."""
    return min(_MOST_ROWS, most_stored_rows(_MEMORY_SHARE))


@dataclass(frozen=True)
class Coordinates:
    """`A W` of standardised columns `A`: distances are those of the metric `W W^T`."""

    columns: Columns
    W: Array

    def apply(self, numbers: Array, n_threads: int) -> Array:
        """Return the coordinates of rows."""
        return self.of_standardised(self.columns.apply(numbers))

    def of_standardised(self, A: Array) -> Array:
        """Return the coordinates of rows whose columns are standardised already."""
        coordinates: Array = A @ self.W
        return coordinates


@dataclass(frozen=True)
class LearnedMatern:
    """A metric, with the length scale of the kernel in it."""

    G: Array
    length: float

    @classmethod
    def of(cls, A: Array, G: Array) -> LearnedMatern:
        """Take a part of the root mean squared distance of rows as the length."""
        variance = float(np.sum((A @ G) * A) / len(A) - A.mean(axis=0) @ G @ A.mean(axis=0))
        return cls(G, _LENGTH * np.sqrt(2.0 * variance) if variance > 0.0 else 1.0)

    @cached_property
    def directions(self) -> Array:
        """The root of the metric, of shape (n_columns, n_columns)."""
        return matrix_root(self.G)

    def kernel(self, A: Array, others: Array | None = None) -> Array:
        """Return the kernel matrix of rows, or of others with these."""
        W = self.directions
        left, right = (A @ W, None) if others is None else (others @ W, A @ W)
        return MaternKernel(self.length).between(left, right, 1)


class MaternGPClassifier(ClassifierMixin, CentredClassTargets, BaseDenseGP):
    """Gaussian process classifier on coordinates, with the Matérn kernel of a given length."""

    def __init__(
        self,
        length: float = 1.0,
        *,
        noise: float | ArrayLike = 0.1,
        amplitude: float | ArrayLike = 1.0,
        optimizer: Any = "l-bfgs-b",
        noise_bounds: Bounds = (1e-6, 1e12),
        amplitude_bounds: Bounds = (1e-12, 1e12),
        solver: SolverName = "auto",
        tol: float = 1e-4,
        max_iter: int = 1000,
        variance: VarianceName = "auto",
        calibration: Literal["leave-one-out"] | None = "leave-one-out",
        class_weight: ClassWeight = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            noise=noise,
            amplitude=amplitude,
            optimizer=optimizer,
            noise_bounds=noise_bounds,
            amplitude_bounds=amplitude_bounds,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.length = length
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.variance = variance
        self.calibration = calibration
        self.class_weight = class_weight

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseDenseGP._parameter_constraints,
        "length": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions(set(SOLVERS))],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "variance": [StrOptions(set(VARIANCES))],
        "calibration": [StrOptions({"leave-one-out"}), None],
        "class_weight": [dict, None],
    }

    @property
    def std_error_(self) -> float:
        """Mean relative error of standard deviations, as measured; 0 where they are exact."""
        return 0.0 if self.variance == "exact" else self._measured_std_error()

    def _latent_variance(self, state: dict[str, Any], X: Any) -> Array:
        posterior: DensePosterior = state["_posterior"]
        return posterior.latent_variance(X, exact=self.variance == "exact")

    def _rows_to_fit(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool = True, **checks: Any
    ) -> tuple[Any, NDArray[Any]]:
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64, **checks)
        return X, y

    def _check_test(self, X: ArrayLike) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=np.float64)

    def _start_kernel(self, X: Any) -> MaternKernel:
        return MaternKernel(self.length)

    def _kernel_bounds(self) -> dict[str, Bounds]:
        return {}

    def _keep_kernel(self, kernel: Any) -> None:
        self.length_ = kernel.length

    def _kernel(self, state: dict[str, Any]) -> MaternKernel:
        return MaternKernel(state["length_"])

    def _is_many(self, n_rows: int) -> bool:
        if self.solver == "auto":
            return n_rows > _FACTORISED
        return self.solver == "cg"

    def _iterations(self) -> dict[str, Any]:
        return {"tol": self.tol, "max_iter": self.max_iter}
