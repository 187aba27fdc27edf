"""What every Gaussian process here is: targets and weights of rows, systems, and a posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from histrs._calibration import Readout
from histrs._repeats import DistinctRows, distinct_rows
from histrs._row_weights import RowWeights, in_units_of_mean, over_unit
from histrs._solvers.block_cg import Array
from histrs._solvers.preconditioners import Indices
from histrs._validation import naming_rows
from histrs.gaussian_process._dense.posterior import DensePosterior
from histrs.gaussian_process._given_rows import GivenRows
from histrs.gaussian_process._hyperparameters import Bounds
from histrs.gaussian_process._kernels.algebra import Constant, with_scale
from histrs.gaussian_process._kernels.base import Kernel
from histrs.gaussian_process._likeliest import LikeliestHyperparameters
from histrs.gaussian_process._optimizer import OptimizerName
from histrs.gaussian_process._options import Fine, LikelihoodSearch, OptimizerOption, Solver
from histrs.gaussian_process._posterior import Posterior
from histrs.gaussian_process._row_weights import appended, roots, telling
from histrs.gaussian_process._system import SolverName
from histrs.gaussian_process._variance import VarianceName
from histrs.gaussian_process.kernels import kernel_of

AnyPosterior: TypeAlias = Posterior | DensePosterior

# Mean weight of rows, above which weights are taken in its unit: that often no row was measured,
# and noise that is divided by more would be none.
_MOST_WEIGHT = 1e6


class GaussianProcess(LikeliestHyperparameters):
    """Gaussian process regression of one or more targets on shared inputs.

    What is regressed is said by `RealTargets` or `ClassTargets`, which kernels there are and how
    systems are solved by `BaseIntersectionGP` or `KernelGP`; they fill in what raises here.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kernel": "no_validation",
        "noise": [Interval(Real, 0, None, closed="neither"), "array-like"],
        "noise_bounds": [StrOptions({"fixed"}), "array-like"],
        "optimizer": [StrOptions({"auto", *get_args(OptimizerName)}), LikelihoodSearch, None],
        "solver": [StrOptions(set(get_args(SolverName))), Solver],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "variance": [StrOptions(set(get_args(VarianceName))), Fine],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
    }
    _default_kernel: ClassVar[Callable[[], Kernel]]
    """The kernel that None stands for."""

    sample_weight_fit_: Array | None = None
    _standard_weights: Array
    Y_fit_: Array
    _targets_are_single: bool = True
    """Whether targets were of single precision; labels have none."""
    _weight_unit: float
    """What a weight of 1 was when rows were first given."""
    _given: GivenRows
    """Which training row each of the given ones is."""
    _noise_was_learned: bool = False
    """Whether the noise that is given is that of a row of mean weight."""
    _stays: Array | None = None
    """What part of a training row stays where one of the given ones is left out; None for 0."""

    def __init__(
        self,
        kernel: Any = None,
        *,
        noise: float | ArrayLike = 0.1,
        noise_bounds: Bounds = (1e-6, 1e12),
        optimizer: OptimizerOption = "auto",
        solver: SolverName | Solver = "auto",
        tol: float = 1e-5,
        variance: VarianceName | Fine = "auto",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.noise = noise
        self.noise_bounds = noise_bounds
        self.optimizer = optimizer
        self.solver = solver
        self.tol = tol
        self.variance = variance
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    # ---- what is asked for -------------------------------------------------------------------

    def _asked(self) -> tuple[Constant, Kernel]:
        """Return the constant that multiplies all of the kernel that is asked for, and the rest."""
        default = type(self)._default_kernel
        return with_scale(default() if self.kernel is None else kernel_of(self.kernel))

    def _given_scales(self) -> dict[str, Any]:
        """Return the noise and amplitude that a user gives, each for all outputs or for each."""
        return {"noise": self.noise, "amplitude": self._asked()[0].value}

    def _keeps_hyperparameters(self) -> bool:
        """Say whether noise, amplitude and kernel are kept as given."""
        return LikelihoodSearch.of(self.optimizer).method is None

    def _shares(self, suits: bool) -> bool:
        """Say whether all outputs share one noise and one amplitude, as is asked for or suits."""
        search = LikelihoodSearch.of(self.optimizer)
        if search.shared is not None:
            return search.shared
        if search.method is None:
            # Outputs that keep one noise and one amplitude share a system.
            return all(np.ndim(given) == 0 for given in self._given_scales().values())
        return suits

    # ---- the kernel and its systems ----------------------------------------------------------

    def _rows_to_fit(
        self, X: Any, y: ArrayLike, *, reset: bool = True, **checks: Any
    ) -> tuple[Any, NDArray[Any]]:
        """Return training rows and targets, checked."""
        raise NotImplementedError

    def _check_test(self, X: Any) -> Any:
        """Return rows to predict, checked."""
        raise NotImplementedError

    def _check_rows_of_means(self, X: Any) -> Any:
        """Return rows of which no more is asked than the posterior mean, checked."""
        return self._check_test(X)

    def _fit_targets(self, X: Any, Y: Array, *, shared: bool) -> None:
        """Learn the hyper-parameters and solve for standardised targets.

        Parameters
        ----------
        X : rows
            As `_rows_to_fit` returns them.
        Y : ndarray of shape (n_samples, n_outputs)
            Targets of scale 1.
        shared : bool
            Whether outputs share noise and amplitude unless the user says otherwise.
        """
        raise NotImplementedError

    def _systems_with(self, X: Any, n_outputs: int, row_scale: Array | None) -> tuple[Any, ...]:
        """Return the systems with further rows, and their scale, behind their own."""
        raise NotImplementedError

    def _systems_without(self, removed: Indices, n_outputs: int) -> tuple[Any, ...]:
        """Return the systems without some of their rows."""
        raise NotImplementedError

    def _solve_targets(self, systems: Any, Y: Array, weights: Array | None) -> None:
        """Solve for standardised targets, from `weights`, which count the amplitude in."""
        raise NotImplementedError

    def _posterior_of(self, state: dict[str, Any]) -> AnyPosterior:
        """Return the posterior that is made of the fitted attributes."""
        raise NotImplementedError

    def _read(self, state: dict[str, Any], name: str, X: Any) -> Array:
        """Return a readout of the posterior mean."""
        raise NotImplementedError

    def _latent_variance(self, state: dict[str, Any], X: Any) -> Array:
        """Return the posterior variance of latent functions of standardised targets."""
        raise NotImplementedError

    def _predictive_variance(self, state: dict[str, Any], X: Any) -> Array:
        """Return the posterior variance of standardised targets."""
        variance: Array = self._latent_variance(state, X) + state["_posterior"].noise
        return variance

    def _noise_of_labels(self, state: dict[str, Any], X: Any) -> Array:
        """Return the noise variances with which labels of rows would be told.

        One for every row, or one for all, a row of the result for each system.
        """
        noise: Array = state["_posterior"].noise
        return noise[:, None]

    # ---- weights of rows ---------------------------------------------------------------------

    def _distinct(
        self, X: Any, Y: NDArray[Any], weights: Array | None, copies: Array | None = None
    ) -> DistinctRows:
        """Return which rows are equal, targets too."""
        numbers = Y if Y.dtype.kind == "f" else np.unique(Y, return_inverse=True)[1]
        return distinct_rows(X, numbers, weights, copies)

    def _coordinates(self, X: Any, weights: Array | None, *, reset: bool) -> Any:
        """Return what the kernel is between, of checked rows and their weights."""
        return X

    def _keep_first_weights(self, weights: Array | None) -> None:
        """Keep the weights of the rows of a fit, in units of their mean where noise is learned.

        Of equal rows with different targets each counts: then weights are what they are.
        """
        self.sample_weight_fit_, self._weight_unit = in_units_of_mean(weights)
        if weights is None or (self._stays is None and self._learns_noise()):
            return
        self._weight_unit = max(self._weight_unit / _MOST_WEIGHT, 1.0)
        kept = over_unit(weights, self._weight_unit)
        self.sample_weight_fit_ = None if np.all(kept == 1.0) else kept

    def _learns_noise(self) -> bool:
        """Say whether noise is that of a row of mean weight: copies of all rows do not tell it."""
        bounds = self.noise_bounds
        return self._noise_was_learned or not (
            self._keeps_hyperparameters() or (isinstance(bounds, str) and bounds == "fixed")
        )

    def _rows_with_weight(
        self, given: RowWeights, rows: tuple[Any, ...], checked: tuple[Any, ...], **checks: Any
    ) -> tuple[Any, ...]:
        """Return rows and targets that have a weight, checked: no other leaves a trace."""
        if given.kept is None:
            return checked
        with naming_rows(given.kept):
            return self._rows_to_fit(*given.rows(*rows), **checks)

    def _keep_further_weights(self, weights: Array | None, n_rows: int) -> Array | None:
        """Keep the weights of further rows, and return what multiplies these in systems."""
        self._make_posterior_before()
        before = self.sample_weight_fit_
        added = over_unit(np.ones(n_rows) if weights is None else weights, self._weight_unit)
        if before is None and np.all(added == 1.0):
            return None
        self.sample_weight_fit_ = appended(before, len(self.Y_fit_), added)
        return roots(added)

    def _keep_weights_of(self, kept: Indices) -> None:
        """Keep the weights of some of the rows alone."""
        self._make_posterior_before()
        if self.sample_weight_fit_ is not None:
            self.sample_weight_fit_ = self.sample_weight_fit_[kept]
        if self._stays is not None:
            self._stays = self._stays[kept]

    def _make_posterior_before(self) -> None:
        """Make the posterior of an unpickled model while rows and weights still belong together."""
        self._state()

    @contextmanager
    def _telling_weights(self) -> Iterator[None]:
        """Give rows the weights with which they tell hyper-parameters."""
        kept = self.sample_weight_fit_
        self.sample_weight_fit_ = telling(kept, self._stays)
        yield
        self.sample_weight_fit_ = kept

    # ---- rows that come and go ---------------------------------------------------------------

    def _insert(self, X: Any, y: NDArray[Any], weights: Array | None) -> None:
        """Add training rows behind those that there are, of distinct rows and their weights."""
        raise NotImplementedError

    def _remove(self, removed: Indices) -> None:
        """Remove training rows."""
        raise NotImplementedError

    def _targets_given(self) -> NDArray[Any]:
        """Return the targets of training rows as `_insert` takes them."""
        raise NotImplementedError

    def _insert_given(
        self, X: Any, y: NDArray[Any], weights: Array | None, copies: Array | None = None
    ) -> None:
        """Add rows, equal ones as one."""
        distinct = self._distinct(X, y, weights, copies)
        X, y = distinct.rows(X, y)
        n = len(self.Y_fit_)
        self._keep_what_stays(distinct.stays, len(y))
        self._insert(self._coordinates(X, distinct.weights, reset=False), y, distinct.weights)
        further = GivenRows.of(distinct.groups, weights)
        self._given = self._given.followed_by(further.shifted(n))

    def _keep_what_stays(self, stays: Array | None, n_new: int) -> None:
        """Keep what stays of further rows, behind those that there are."""
        if self._stays is not None or stays is not None:
            before, new = np.zeros(len(self.Y_fit_)), np.zeros(n_new)
            parts = before if self._stays is None else self._stays, new if stays is None else stays
            self._stays = np.concatenate(parts)

    def _remove_given(self, removed: Indices) -> None:
        """Remove some of the rows that were given: of equal ones, the others stay."""
        given, lighter = self._given.without(removed)
        if not np.any(given.learned >= 0):
            raise ValueError(
                "All training rows of positive weight would be forgotten: keep one at least, or "
                "start with a new estimator."
            )
        n, left = len(self.Y_fit_), lighter.left
        if len(left) > 0:
            state = self._state()
            weights = lighter.weights
            self._keep_what_stays(None if self._stays is None else self._stays[left], len(left))
            self._insert(state["X_fit_"][left], self._targets_given()[left], weights)
        if len(lighter.touched) > 0:
            self._remove(lighter.touched)
        self._given = given.moved(n, lighter)

    # ---- the targets -------------------------------------------------------------------------

    def _units(self) -> Array:
        """Return what one of each standardised target is in the user's unit."""
        raise NotImplementedError

    def _level(self, Y: Array) -> Array:
        """Return what standardised targets are fitted less, a number for each output."""
        return np.zeros(Y.shape[1])

    def _means(self, Y: Array) -> Array:
        """Return the means of targets over the training rows, by their weights."""
        means: Array = np.average(Y, axis=0, weights=self.sample_weight_fit_)
        return means

    def _spread(self, state: dict[str, Any], std: Array) -> Array:
        """Return standard deviations as users see them, from those of standardised targets."""
        raise NotImplementedError

    def _learn_readouts(self, posterior: AnyPosterior, Y: Array) -> dict[str, Readout]:
        """Return what is read from the posterior mean of standardised targets `Y`."""
        raise NotImplementedError

    def _readouts(self, state: dict[str, Any]) -> dict[str, Readout]:
        """Return the same from the fitted attributes."""
        raise NotImplementedError

    def _keep_weights(self, weights: Array, amplitude: Array) -> None:
        """Keep the weights of standardised targets, and what users see of them."""
        self._standard_weights = weights
        self.dual_coef_ = self._weights_of_users(weights, amplitude)
        with np.errstate(over="ignore"):
            predicting = weights * self._units()
        if not (np.all(np.isfinite(self.dual_coef_)) and np.all(np.isfinite(predicting))):
            raise ValueError("The weights overflow. Scale y down, or noise and amplitude up.")

    def _weights_of_users(self, weights: Array, amplitude: Array | float) -> Array:
        """Return the weights alpha of eq. 2 from those of standardised targets."""
        with np.errstate(over="ignore"):
            in_units: Array = weights * (self._units() / amplitude)
        return in_units

    def _weights(self) -> Array:
        """Return the weights of standardised targets."""
        weights: Array = self._standard_weights
        return weights

    # ---- the posterior is made of the fitted arrays, and never pickled -------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the objects of the core, and weights once."""
        left_out = ("_posterior", "dual_coef_")
        return {k: v for k, v in super().__getstate__().items() if k not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the state, and what follows from it."""
        super().__setstate__(state)
        if "_standard_weights" in state:
            self.dual_coef_ = self._weights_of_users(self._standard_weights, self.amplitude_)

    def _state(self) -> dict[str, Any]:
        """Return what was learned, which a fit in another thread replaces whole."""
        check_is_fitted(self)
        state = self.__dict__
        if "_posterior" not in state:
            state["_posterior"] = self._posterior_of(state)
        return state

    def _answering(self) -> dict[str, Any]:
        """Return what was learned, with all that answers are made of."""
        return self._state()

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` has been called."""
        return hasattr(self, "dual_coef_")
