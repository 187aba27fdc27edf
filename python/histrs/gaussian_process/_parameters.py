"""What the user says of a Gaussian process of the intersection kernel."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval

from histrs.gaussian_process._hyperparameters import Bounds
from histrs.gaussian_process._kernels.additive import AdditiveTerms
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._kernels.intersection import Intersection
from histrs.gaussian_process._options import Bins, Fine, OptimizerOption, Solver
from histrs.gaussian_process._process import GaussianProcess
from histrs.gaussian_process._system import SolverName
from histrs.gaussian_process._variance import VarianceName


class IntersectionParameters(GaussianProcess):
    """The parameters that the classifier and the regressor share."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **GaussianProcess._parameter_constraints,
        "n_bins": [Interval(Integral, 2, 65535, closed="both"), Bins, None],
    }
    _default_kernel: ClassVar[Callable[[], Kernel]] = Intersection

    def __init__(
        self,
        kernel: Any = None,
        *,
        noise: float | ArrayLike = 0.1,
        noise_bounds: Bounds = (1e-6, 1e12),
        optimizer: OptimizerOption = "auto",
        solver: SolverName | Solver = "auto",
        tol: float = 1e-4,
        variance: VarianceName | Fine = "auto",
        n_bins: int | Bins | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            kernel,
            noise=noise,
            noise_bounds=noise_bounds,
            optimizer=optimizer,
            solver=solver,
            tol=tol,
            variance=variance,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.n_bins = n_bins

    def _terms(self) -> AdditiveTerms:
        """Return the terms of the kernel that is asked for."""
        return AdditiveTerms.of(*self._asked())

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
