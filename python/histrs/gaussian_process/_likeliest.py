"""Hyper-parameters of largest likelihood, and what the likelihood is."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import nullcontext
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from histrs._progress import SearchProgress
from histrs._solvers.block_cg import Array
from histrs._threads import blas_threads_at_most
from histrs._warnings import warn
from histrs.gaussian_process._hyperparameters import Hyperparameters, SearchSpace
from histrs.gaussian_process._likelihood import BaseLikelihood
from histrs.gaussian_process._optimizer import Search
from histrs.gaussian_process._options import LikelihoodSearch, OptimizerOption
from histrs.gaussian_process._seed import SeededFit

_MANY_ROWS = 4096


class LikeliestHyperparameters(SeededFit):
    """Learns hyper-parameters; what is learned, and of which likelihood, is said by others."""

    optimizer: OptimizerOption
    verbose: int

    def _state(self) -> dict[str, Any]:
        """Return what was learned, which a fit in another thread replaces whole."""
        raise NotImplementedError

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

    # ---- the search --------------------------------------------------------------------------

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
        asked = LikelihoodSearch.of(self.optimizer)
        if asked.method is None or not space.names:
            return start
        space.check_start()
        if not likelihood.has_gradient and asked.method == "l-bfgs-b":
            raise ValueError(
                "log_det='bound' has no gradient: choose the method 'nelder-mead' of a "
                "LikelihoodSearch."
            )
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
            search = Search(likelihood, space, asked.method, progress, kernels)
            best = search.run(asked.n_restarts, lambda: np.random.default_rng(self._seed))
        self.optimization_history_ = search.history.arrays(space.names)
        self.theta_ = space.pack(best.values)
        if best.complaint is not None:
            self._warn(
                f"The optimizer stopped early ({best.complaint}); the best hyper-parameters that "
                "it met are kept. Try other starting values, n_restarts of a LikelihoodSearch, or "
                "a smaller tol."
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

        The negative of eq. 4, with `A = amplitude K + noise I` and one output per target or class,

        .. math:: -\tfrac12 \sum_c \left( y_c^T A^{-1} y_c + \log\det A + N \log 2\pi \right).

        The log-determinant is as `log_det` of a `LikelihoodSearch` says: "lanczos" estimates it by
        stochastic Lanczos quadrature, or computes it from the Cholesky factor where there is one;
        "bound" puts the bound of eq. 23 in its place, so that the result is a lower bound.

        Parameters
        ----------
        theta : array-like, default=None
            Logarithms of the hyper-parameters that are not fixed: noise, amplitude, and those of
            the kernel. Additive ones have the exponent of a transform, the feature weights with
            "ard", the weight of pairs, and those of lines and of minima beside smooth functions.
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
                "large. Raise max_iter of a Solver, tol or noise.",
                ConvergenceWarning,
            )
        gradient = space.pack_values(evaluation.gradient) if slope else np.empty(0)
        return evaluation.value, gradient, evaluation.std


def check_theta(theta: ArrayLike, size: int, names: str) -> Array:
    """Return logarithms of hyper-parameters, refused unless there is one for each."""
    theta = np.asarray(theta, dtype=np.float64)
    if theta.shape != (size,):
        raise ValueError(
            f"theta has shape {theta.shape}, expected {(size,)}: one logarithm for each entry of "
            f"{names}."
        )
    return theta
