"""What every Gaussian process here is: hyper-parameters of largest likelihood, and a posterior."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from histrs._calibration import Readout
from histrs._estimator import BaseEstimator
from histrs._progress import SearchProgress
from histrs._row_weights import RowWeights, in_units_of_mean, over_unit
from histrs._solvers.block_cg import Array
from histrs._solvers.preconditioners import Indices
from histrs._threads import blas_threads_at_most
from histrs._validation import check_random_state
from histrs._warnings import warn
from histrs.gaussian_process._dense.posterior import DensePosterior
from histrs.gaussian_process._hyperparameters import Hyperparameters, SearchSpace
from histrs.gaussian_process._likelihood import BaseLikelihood
from histrs.gaussian_process._optimizer import OptimizerName, Search
from histrs.gaussian_process._posterior import Posterior
from histrs.gaussian_process._row_weights import appended, roots

AnyPosterior: TypeAlias = Posterior | DensePosterior

_MANY_ROWS = 4096


class GaussianProcess(BaseEstimator):
    """Gaussian process regression of one or more targets on shared inputs.

    What is regressed is said by `RealTargets` or `ClassTargets`, which kernel there is and how its
    systems are solved by `BaseIntersectionGP` or `BaseDenseGP`; they fill in what raises here.
    """

    optimizer: OptimizerName | None
    n_restarts_optimizer: int
    verbose: int
    sample_weight_fit_: Array | None = None
    random_state: int | np.random.RandomState | None
    _drawn_seed: NDArray[np.int64]
    """The seed of the fit, which copies of the estimator share; -1 until it is asked for."""
    _standard_weights: Array
    Y_fit_: Array
    _targets_are_single: bool = True
    """Whether targets were of single precision; labels have none."""
    _weight_unit: float
    """What a weight of 1 was when rows were first given."""

    # ---- randomness --------------------------------------------------------------------------

    def _without_seed(self) -> None:
        """Begin a fit, which has drawn nothing yet."""
        self._drawn_seed = np.array([-1])

    @property
    def _seed(self) -> int:
        """What all random choices of the fit begin with, drawn when the first of them is made."""
        if self._drawn_seed[0] < 0:
            self._random()
        return int(self._drawn_seed[0])

    def _random(self) -> np.random.RandomState:
        """Return the generator of further draws, of which the seed is the first."""
        random = check_random_state(self.random_state)
        seed = random.randint(np.iinfo(np.int32).max)
        if self._drawn_seed[0] < 0:
            self._drawn_seed[0] = seed
        return random

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

    def _search_space(self, start: Hyperparameters) -> SearchSpace:
        """Return the space of the hyper-parameters that are learned."""
        raise NotImplementedError

    def _kernels_to_try(self, space: SearchSpace) -> list[Any]:
        """Return kernels that a search begins with the best of; none for the start of the space."""
        return []

    def _hyperparameters(self, state: dict[str, Any]) -> Hyperparameters:
        """Return the hyper-parameters of a fit."""
        raise NotImplementedError

    def _likelihood_of_fit(self, state: dict[str, Any]) -> BaseLikelihood:
        """Return the likelihood of the training targets."""
        raise NotImplementedError

    # ---- weights of rows ---------------------------------------------------------------------

    def _keep_first_weights(self, weights: Array | None) -> None:
        """Keep the weights of the rows of a fit, in units of their mean."""
        self.sample_weight_fit_, self._weight_unit = in_units_of_mean(weights)

    def _rows_with_weight(
        self, given: RowWeights, rows: tuple[Any, ...], checked: tuple[Any, ...], **checks: Any
    ) -> tuple[Any, ...]:
        """Return rows and targets that have a weight, checked: no other leaves a trace."""
        return checked if given.kept is None else self._rows_to_fit(*given.rows(*rows), **checks)

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

    def _make_posterior_before(self) -> None:
        """Make the posterior of an unpickled model while rows and weights still belong together."""
        self._state()

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

    # ---- hyper-parameters --------------------------------------------------------------------

    def _search_method(self) -> OptimizerName | None:
        """Return how the largest likelihood is searched for; None keeps what is given."""
        return self.optimizer

    def _learn_hyperparameters(
        self,
        start: Hyperparameters,
        likelihood: BaseLikelihood,
        names: Collection[str] | None = None,
    ) -> Hyperparameters:
        """Return the hyper-parameters of largest likelihood: all that are free, or some."""
        self.__dict__.pop("optimization_history_", None)
        space = self._search_space(start)
        if names is not None:
            space = space.only(names, start)
        self.theta_ = space.pack(space.start)
        method = self._search_method()
        if method is None or not space.names:
            return start
        space.check_start()
        if not likelihood.has_gradient and method == "l-bfgs-b":
            raise ValueError("log_det='bound' has no gradient: choose optimizer='nelder-mead'.")
        if likelihood.targets_are_constant:
            self._warn(
                "The targets are constant, which any hyper-parameters explain: kept as given."
            )
            return start
        # On matrices of some thousand rows, BLAS's threads mostly wait for one another.
        few = likelihood.shape[0] <= _MANY_ROWS
        with (
            SearchProgress(type(self).__name__, self.verbose) as progress,
            blas_threads_at_most(1) if few else nullcontext(),
        ):
            kernels = self._kernels_to_try(space)
            search = Search(likelihood, space, method, progress, kernels)
            best = search.run(self.n_restarts_optimizer, lambda: np.random.default_rng(self._seed))
        self.optimization_history_ = search.history.arrays(space.names)
        self.theta_ = space.pack(best.values)
        if best.complaint is not None:
            self._warn(
                f"The optimizer stopped early ({best.complaint}); the best hyper-parameters that "
                "it met are kept. Try other starting values, n_restarts_optimizer or a smaller tol."
            )
        ends = space.at_bounds(self.theta_)
        if ends:
            self._warn(
                f"The search ended with {' and '.join(ends)}, which is kept. Widen the bounds if "
                "that is not meant."
            )
        return best.values

    def _warn(self, message: str) -> None:
        warn(f"{type(self).__name__}: {message}", ConvergenceWarning)

    @overload
    def log_marginal_likelihood(
        self,
        theta: ArrayLike | None = None,
        eval_gradient: Literal[False] = False,
        *,
        return_std: Literal[False] = False,
    ) -> float: ...
    @overload
    def log_marginal_likelihood(
        self,
        theta: ArrayLike | None = None,
        *,
        eval_gradient: Literal[True],
        return_std: Literal[False] = False,
    ) -> tuple[float, Array]: ...
    @overload
    def log_marginal_likelihood(
        self,
        theta: ArrayLike | None = None,
        eval_gradient: Literal[False] = False,
        *,
        return_std: Literal[True],
    ) -> tuple[float, float]: ...
    def log_marginal_likelihood(
        self,
        theta: ArrayLike | None = None,
        eval_gradient: bool = False,
        *,
        return_std: bool = False,
    ) -> float | tuple[float, Array] | tuple[float, float] | tuple[float, Array, float]:
        r"""Return the log marginal likelihood of the training targets, summed over the outputs.

        The negative of eq. 4, with `A = amplitude K + noise I` and one output a target or class,

        .. math:: -\tfrac12 \sum_c \left( y_c^T A^{-1} y_c + \log\det A + N \log 2\pi \right).

        The log-determinant is as `log_det` says: "lanczos" estimates it by stochastic Lanczos
        quadrature, or computes it from the Cholesky factor where the system is small or `solver`
        is "cholesky"; "bound" puts the bound of eq. 23 in its place, so that the result is a lower
        bound.

        Parameters
        ----------
        theta : array-like, default=None
            Logarithms of the hyper-parameters that are not fixed: noise, amplitude, the exponent
            of a transform, the feature weights with "ard", the weight of pairs, and those of lines
            and of minima beside smooth functions, in this order.
            None takes those of the fit, `theta_`.
        eval_gradient : bool, default=False
            Whether to return the derivatives by `theta` too. With "lanczos" they are those of the
            estimate itself; the bound has none.
        return_std : bool, default=False
            Whether to return the standard error of the estimate too; 0 where it is exact.

        Returns
        -------
        value : float
            The log marginal likelihood.
        gradient : ndarray of the shape of `theta`
            Only with `eval_gradient`.
        std : float
            Only with `return_std`.

        Raises
        ------
        ValueError
            If `theta` has the wrong length, or `eval_gradient` is asked for with
            ``log_det="bound"``.
        """
        value, gradient, std = self._evaluated(theta, slope=eval_gradient)
        if not eval_gradient:
            return (value, std) if return_std else value
        return (value, gradient, std) if return_std else (value, gradient)

    def _evaluated(self, theta: ArrayLike | None, *, slope: bool) -> tuple[float, Array, float]:
        """Return the likelihood, its gradient (nothing unless asked for), and standard error."""
        state = self._state()
        likelihood = self._likelihood_of_fit(state)
        if slope and not likelihood.has_gradient:
            raise ValueError(likelihood.why_no_gradient)
        space = self._search_space(self._hyperparameters(state))
        values = space.start
        if theta is not None:
            size = len(space.pack(values))
            values = space.unpack(check_theta(theta, size, ", ".join(space.names)))
        evaluation = likelihood.evaluate(values, space.names if slope else ())
        if not evaluation.solved:
            warn(
                "The solver did not reach tol in max_iter iterations, and the likelihood is too "
                "large. Raise max_iter, tol or noise.",
                ConvergenceWarning,
            )
        gradient = space.pack_values(evaluation.gradient) if slope else np.empty(0)
        return evaluation.value, gradient, evaluation.std

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

    def __sklearn_is_fitted__(self) -> bool:
        """Say whether `fit` has been called."""
        return hasattr(self, "dual_coef_")


def check_theta(theta: ArrayLike, size: int, names: str) -> Array:
    """Return logarithms of hyper-parameters, refused unless there is one for each."""
    theta = np.asarray(theta, dtype=np.float64)
    if theta.shape != (size,):
        raise ValueError(
            f"theta has shape {theta.shape}, expected {(size,)}: one logarithm for each entry of "
            f"{names}."
        )
    return theta
