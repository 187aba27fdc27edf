"""What the user says of a Gaussian process of the intersection kernel."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions

from histrs.gaussian_process._hyperparameters import (
    NAMES,
    OF_SMOOTH,
    Bounds,
    WeightsName,
)
from histrs.gaussian_process._interactions.choice import (
    Interactions,
)
from histrs.gaussian_process._kernel import (
    SmoothnessName,
    TransformName,
)
from histrs.gaussian_process._likelihood import LogDetName
from histrs.gaussian_process._optimizer import OptimizerName
from histrs.gaussian_process._preconditioned import PreconditionerName
from histrs.gaussian_process._process import GaussianProcess
from histrs.gaussian_process._system import SolverName
from histrs.gaussian_process._variance import VarianceName


class IntersectionParameters(GaussianProcess):
    """The parameters that the classifier and the regressor share."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "noise": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "amplitude": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "preconditioner": [StrOptions({"auto", "knots", "pivoted-cholesky"}), None],
        "n_bins": [Interval(Integral, 2, 65535, closed="both"), None],
        "interpolation": [StrOptions({"linear", "nearest"})],
        "solver": [StrOptions(set(get_args(SolverName)))],
        "feature_transform": [StrOptions({"identity", "power", "exponential"})],
        "exponent": [Interval(Real, 0, None, closed="neither")],
        "feature_weights": [StrOptions(set(get_args(WeightsName))), "array-like", None],
        "n_interactions": [Interval(Integral, 0, None, closed="left")],
        "interactions": ["array-like", None],
        "n_interaction_knots": [Interval(Integral, 2, 256, closed="both")],
        "interaction_weight": [Interval(Real, 0, None, closed="neither")],
        "intercept_variance": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "smoothness": [StrOptions(set(get_args(SmoothnessName)))],
        **{name: [Interval(Real, 0, None, closed="neither")] for name in OF_SMOOTH},
        **{f"{name}_bounds": [StrOptions({"fixed"}), "array-like"] for name in OF_SMOOTH},
        "optimizer": [StrOptions({"l-bfgs-b", "nelder-mead"}), None],
        "log_det": [StrOptions({"lanczos", "bound"})],
        "variance": [StrOptions(set(get_args(VarianceName)))],
        "n_eigenvectors": [Interval(Integral, 1, None, closed="left")],
        "shared_hyperparameters": ["boolean", None],
        **{f"{name}_bounds": [StrOptions({"fixed"}), "array-like"] for name in NAMES},
        "n_restarts_optimizer": [Interval(Integral, 0, 10_000, closed="both")],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        noise: float | ArrayLike = 0.1,
        amplitude: float | ArrayLike = 1.0,
        tol: float = 1e-4,
        max_iter: int = 1000,
        preconditioner: PreconditionerName = "auto",
        n_bins: int | None = None,
        interpolation: Literal["linear", "nearest"] = "linear",
        solver: SolverName = "auto",
        feature_transform: TransformName = "identity",
        exponent: float = 1.0,
        feature_weights: WeightsName | ArrayLike | None = "auto",
        intercept_variance: float | Literal["auto"] = "auto",
        n_interactions: int = 0,
        interactions: Interactions | None = None,
        n_interaction_knots: int = 12,
        interaction_weight: float = 0.3,
        smoothness: SmoothnessName = "linear",
        slope_weight: float = 1.0,
        rough_weight: float = 1.0,
        optimizer: OptimizerName | None = "l-bfgs-b",
        log_det: LogDetName = "lanczos",
        shared_hyperparameters: bool | None = None,
        noise_bounds: Bounds = (1e-6, 1e12),
        amplitude_bounds: Bounds = (1e-12, 1e12),
        exponent_bounds: Bounds = (0.05, 20.0),
        feature_weights_bounds: Bounds = (1e-6, 1e6),
        interaction_weight_bounds: Bounds = (1e-6, 1e6),
        slope_weight_bounds: Bounds = (1e-6, 1e6),
        rough_weight_bounds: Bounds = (1e-6, 1e6),
        n_restarts_optimizer: int = 0,
        variance: VarianceName = "auto",
        n_eigenvectors: int = 2,
        random_state: int | np.random.RandomState | None = None,
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
        self.feature_transform = feature_transform
        self.exponent = exponent
        self.feature_weights = feature_weights
        self.intercept_variance = intercept_variance
        self.n_interactions = n_interactions
        self.interactions = interactions
        self.n_interaction_knots = n_interaction_knots
        self.interaction_weight = interaction_weight
        self.smoothness = smoothness
        self.slope_weight = slope_weight
        self.rough_weight = rough_weight
        self.optimizer = optimizer
        self.log_det = log_det
        self.shared_hyperparameters = shared_hyperparameters
        self.noise_bounds = noise_bounds
        self.amplitude_bounds = amplitude_bounds
        self.exponent_bounds = exponent_bounds
        self.feature_weights_bounds = feature_weights_bounds
        self.interaction_weight_bounds = interaction_weight_bounds
        self.slope_weight_bounds = slope_weight_bounds
        self.rough_weight_bounds = rough_weight_bounds
        self.n_restarts_optimizer = n_restarts_optimizer
        self.variance = variance
        self.n_eigenvectors = n_eigenvectors
        self.random_state = random_state
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __sklearn_tags__(self) -> Tags:
        """Return what scikit-learn may expect of the estimator."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
