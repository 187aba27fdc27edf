"""The log marginal likelihood of a fitted process, at any hyper-parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from histrs._typing import Array
from histrs._warnings import warn
from histrs.gaussian_process._learning.hyperparameters import check_theta
from histrs.gaussian_process._likelihoods.patterns import Patterns


@overload
def log_marginal_likelihood(
    self: Any,
    theta: ArrayLike | None = None,
    eval_gradient: Literal[False] = False,
    *,
    return_std: Literal[False] = False,
) -> float: ...
@overload
def log_marginal_likelihood(
    self: Any,
    theta: ArrayLike | None = None,
    *,
    eval_gradient: Literal[True],
    return_std: Literal[False] = False,
) -> tuple[float, Array]: ...
@overload
def log_marginal_likelihood(
    self: Any,
    theta: ArrayLike | None = None,
    eval_gradient: Literal[False] = False,
    *,
    return_std: Literal[True],
) -> tuple[float, float]: ...
def log_marginal_likelihood(
    self: Any,
    theta: ArrayLike | None = None,
    eval_gradient: bool = False,
    *,
    return_std: bool = False,
) -> float | tuple[float, Array] | tuple[float, float] | tuple[float, Array, float]:
    r"""Return the log marginal likelihood of the training targets, summed over the outputs.

    The negative of eq. 4 of Rodner et al. (2016), with `A = amplitude K + noise I` and one output
    per target or class,

    .. math:: -\tfrac12 \sum_c \left( y_c^T A^{-1} y_c + \log\det A + N \log 2\pi \right).

    The log-determinant comes from a Cholesky factor if there is one, and otherwise from the method
    `log_det` of a `LikelihoodSearch`.

    Parameters
    ----------
    theta : array-like, default=None
        Logarithms of the hyper-parameters that are not fixed: noise, amplitude, and the
        kernel's. None takes those of the fit, `theta_`.
    eval_gradient : bool, default=False
        Whether to return the derivatives of the estimate by `theta` too.
    return_std : bool, default=False
        Whether to return the standard error of the estimate too; 0 where it is exact.

    Returns
    -------
    value : float
        The log marginal likelihood; with ``log_det="bound"``, a lower bound of it.
    gradient : ndarray of the shape of `theta`
        Only with `eval_gradient`.
    std : float
        Only with `return_std`.

    Raises
    ------
    ValueError
        If `theta` has the wrong length, or the gradient is asked for with ``log_det="bound"``.
    """
    value, gradient, std = _evaluated(self, theta, eval_gradient)
    if not eval_gradient:
        return (value, std) if return_std else value
    return (value, gradient, std) if return_std else (value, gradient)


def _evaluated(model: Any, theta: ArrayLike | None, slope: bool) -> tuple[float, Array, float]:
    """Return the likelihood, its gradient (nothing unless asked for), and standard error."""
    if (patterns := Patterns.of(model)) is not None:
        fits = patterns.fits()
        thetas: Sequence[Array | None] = [None] * len(fits)
        if theta is not None:
            theta = check_theta(theta, len(model.theta_), "those of each of `pattern_fits_`")
            thetas = np.split(theta, np.cumsum([len(fit.theta_) for fit in fits])[:-1])
        parts = [_evaluated(*one, slope) for one in zip(fits, thetas, strict=True)]
        values, gradients, stds = zip(*parts, strict=True)
        return sum(values), np.concatenate(gradients), sum(stds)
    state = model._state()
    likelihood = model._likelihood_of_fit(state)
    if slope and not likelihood.has_gradient:
        raise ValueError(likelihood.why_no_gradient)
    space = model._learner().space(model._hyperparameters(state))
    start = space.start
    if theta is not None:
        size = len(space.pack(start))
        start = space.unpack(check_theta(theta, size, ", ".join(space.names)))
    evaluation = likelihood.evaluate(start, space.names if slope else ())
    if not evaluation.solved:
        warn(
            "The solver did not reach tol in max_iter iterations, and the likelihood is too "
            "large. Raise max_iter of a Solver, tol or noise.",
            ConvergenceWarning,
        )
    gradient = space.pack_values(evaluation.gradient) if slope else np.empty(0)
    return evaluation.value, gradient, evaluation.std
