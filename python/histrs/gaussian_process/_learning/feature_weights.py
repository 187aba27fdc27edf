"""Weights of features: by their spread or as they are, or those that the likelihood asks for.

The last are followed as far as held-out rows agree.

The slope of the likelihood by the logarithm of a weight is half the difference of `w alpha^T K_d
alpha` and `w tr(A^-1 K_d)` (Rasmussen and Williams, 2006, equation 5.9). Its expected curvature,
the Fisher information, is `tr((w A^-1 K_d)^2) / 2`. Both are quadratic forms of vectors drawn with
the covariance `A^-1`: their mean, and a quarter of their variance. With a normal prior on the
logarithm, a step of Fisher's scoring moves a weight as far as its column can tell: of a column with
few entries, hardly. Columns of about as many entries share a further factor without a prior, so
that thousands of them, each of which tells nothing, go up or down together. Many steps end in
weights that fit the noise. So the number of steps is the one of least error on held-out rows. For a
regression, the error is squared. For classes, it is the log loss of calibrated probabilities, which
grows where scores are near their targets and a few rows are surely wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from histrs import _histrs
from histrs._calibration import fit_calibration, log_losses
from histrs._checks.sparse import is_sparse
from histrs._checks.validation import to_core
from histrs._distributed.rows import in_memory
from histrs._threads import blas_threads_at_most
from histrs._typing import Array, Matrix
from histrs._weights import index_of_best
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters, Scales
from histrs.gaussian_process._learning.likelihood import Likelihood
from histrs.gaussian_process._learning.problem import Problem
from histrs.gaussian_process._learning.spectrum import profiled_costs

# Variance of the intercept, in means of the kernel over the rows: from 1 on, it hardly matters
# which.
VAGUE_INTERCEPT = 3.0
# Rows whose likelihood tells: twice as many take four to eight times as long.
_MOST_ROWS = 512
# Logarithm of the likelihood ratio from which on columns count as they are. Below, the rows hardly
# tell, and the units of columns should not.
_CLEAR = 8.0
# Mean of the kernel's diagonal, which needs no weights up to this, and down to 1 over this.
_USUAL = 1e6
_LARGEST_EXPONENT = 1000
# Ratios of noise to the mean diagonal of the kernel, of which the likeliest is taken.
_RATIOS = np.logspace(-6, 3, 60)
_MAX_ROWS = 2048
_N_FOLDS = 3
_MAX_STEPS = 12
# Steps without an improvement, after which the search ends.
_PATIENCE = 4
# Part of the error without steps that the error with them must be below, and its standard errors.
_GAIN = 0.95
_CLEAR_GAIN = 2.0
# Precision of the prior on the logarithm of a weight in units of the start.
_PRECISION = 0.3
# The largest step of a logarithm.
_MOST = 3.0
# Draws that means and variances of quadratic forms are estimated from.
_N_DRAWS = 24
# Ratios of noise to signal, in units of the largest eigenvalue, of which the likeliest is taken.
_RATIOS_OF_LARGEST = np.logspace(-8, 1, 60)
# The least factor of a weight, in units of the largest.
_LEAST = 1e-12


def likelier_weights(problem: Problem, start: Hyperparameters, intercept: Any) -> Hyperparameters:
    """Return the start, or one with features of weight 1 where that is clearly likelier.

    Each kernel has the noise and signal variances that suit it best; of more rows, 512 tell.
    """
    likelihood = problem.exact_likelihood(problem.some_rows(_MOST_ROWS), start.kernel)
    if likelihood.targets_are_constant:
        return start
    shared = len(start.noise) == 1
    # Where numbers are so large that nothing can be solved, they cannot do without weights. On
    # matrices of this size, BLAS's threads mostly wait for one another.
    with suppress(ValueError, linalg.LinAlgError), blas_threads_at_most(1):
        unweighted = replace(start.kernel, weights=_equal_weights(likelihood, start.kernel))
        gain = _log_evidence(likelihood, unweighted, intercept, shared=shared)
        gain -= _log_evidence(likelihood, start.kernel, intercept, shared=shared)
        if gain > _CLEAR:
            return replace(start, kernel=unweighted)
    return start


def _equal_weights(likelihood: Likelihood, kernel: GeneralizedKernel) -> Array | None:
    """Return None, or weights that are all one power of two, where numbers are huge or tiny.

    With them, the signal variance stays within usual bounds whatever the unit of all columns.
    """
    system = likelihood.system(replace(kernel, weights=None), Scales(1.0, 1.0))
    system.check()
    size = system.mean_variance
    if 1.0 / _USUAL <= size <= _USUAL:
        return None
    # Of subnormal numbers, the weight would overflow.
    exponent = min(-int(np.frexp(size)[1]), _LARGEST_EXPONENT)
    return np.full(system.bound.X.shape[1], np.ldexp(1.0, exponent))


def _log_evidence(
    likelihood: Likelihood, kernel: GeneralizedKernel, intercept: Any, *, shared: bool
) -> float:
    """Return the likelihood at the best noise and signal variance, up to what all kernels share."""
    system = likelihood.system(kernel, Scales(1.0, 1.0))
    vague = VAGUE_INTERCEPT * system.mean_variance
    constant = vague if intercept == "auto" else float(intercept)
    kernel = replace(kernel, intercept_variance=constant)
    K = likelihood.system(kernel, Scales(1.0, 1.0)).kernel_matrix()
    nodes, Q = linalg.eigh(K, overwrite_a=True)
    nodes = np.maximum(nodes, 0.0)
    Y = likelihood.targets
    # Any kernel explains a target of one value.
    Y = Y[:, np.any(Y != 0.0, axis=0)]
    squares = (Q.T @ Y) ** 2
    if shared:
        squares = squares.mean(axis=1, keepdims=True)
    unit = float(nodes.mean()) or 1.0
    costs = np.min(profiled_costs(nodes, squares, _RATIOS * unit, likelihood.n_repeats), axis=0)
    return float(-0.5 * Y.shape[1] * np.mean(costs))


def relevant_weights(
    rows: Matrix,
    Y: Array,
    start: Array,
    intercept: float | None,
    rng: np.random.Generator,
    n_threads: int,
    *,
    are_classes: bool = False,
) -> Array:
    """Return weights of the features, which are those of the start where that predicts as well.

    Rows are transformed. The variance of a constant is `intercept`; None is one of which little is
    known. Of classes, targets are 1 for that of a row and -1 for others; of two, one column.
    """
    if len(Y) > _MAX_ROWS:
        some = np.sort(rng.choice(len(Y), _MAX_ROWS, replace=False))
        rows, Y = rows[some], Y[some]
    rows = in_memory(rows)
    Y = Y - Y.mean(axis=0)
    if len(Y) < 2 * _N_FOLDS or not np.any(Y):
        return start
    weights = start.copy()
    # Of columns without entries nothing is learned.
    held = np.unique(rows.indices) if is_sparse(rows) else slice(None)
    path_of = partial(_Path, intercept=intercept, rng=rng, n_threads=n_threads)
    order, paths = rng.permutation(len(Y)), []
    rows, start = rows[:, held], start[held]
    for fold in range(_N_FOLDS):
        held_out = np.zeros(len(Y), dtype=bool)
        held_out[order[fold::_N_FOLDS]] = True
        path = path_of(rows[~held_out], Y[~held_out], start)
        paths.append((path, rows[held_out], Y[held_out]))
    # On matrices of this size, BLAS's threads mostly wait for one another.
    with blas_threads_at_most(1):
        n_steps = _best_number_of_steps(paths, _log_losses if are_classes else _squares)
        if n_steps > 0:
            path = path_of(rows, Y, start)
            for _ in range(n_steps):
                path.step()
            weights[held] = path.weights
    return weights


def _squares(found: Array, Y: Array) -> Array:
    """Return the squared errors of rows."""
    return np.asarray(np.sum((found - Y) ** 2, axis=1))


def _log_losses(scores: Array, Y: Array) -> Array:
    """Return how unlikely calibrated scores say that the classes of rows are."""
    labels = index_of_best(Y)
    readout = fit_calibration(scores, labels, centred=True, matrix_scaling=False)
    return log_losses(scores @ readout.matrix + readout.offset, labels)


def _best_number_of_steps(
    paths: list[tuple[_Path, Matrix, Array]], losses_of: Callable[[Array, Array], Array]
) -> int:
    Y = np.concatenate([held_out for _, _, held_out in paths])
    errors: list[Array] = []
    totals: list[float] = []
    for steps in range(_MAX_STEPS + 1):
        for path, _, _ in paths:
            if steps > 0:
                path.step()
        found = np.concatenate([path.predicted(rows) for path, rows, _ in paths])
        errors.append(losses_of(found, Y))
        totals.append(float(errors[-1].sum()))
        if steps - int(np.argmin(totals)) >= _PATIENCE:
            break
    best = int(np.argmin(totals))
    gain = errors[0] - errors[best]
    clear = _CLEAR_GAIN * float(gain.std()) * np.sqrt(len(gain))
    is_better = totals[best] < _GAIN * totals[0] and gain.sum() > clear
    return best if is_better else 0


class _Path:
    """Weights on their way from the start, with the fit under each."""

    def __init__(
        self,
        rows: Matrix,
        Y: Array,
        start: Array,
        intercept: float | None,
        rng: np.random.Generator,
        n_threads: int,
    ) -> None:
        self._rows, self._Y, self._rng, self._n_threads = rows, Y, rng, n_threads
        self._columns = _histrs.SortedColumns(to_core(rows), n_threads)
        self._start = self.weights = start
        self._intercept = intercept
        # Logarithms of the factors of the start: of each column, and of each group of columns.
        self._own = np.zeros(len(start))
        self._groups = _groups(rows)
        self._shared = np.zeros(self._groups.max(initial=0) + 1)
        self._fit()

    def step(self) -> None:
        """Move every weight, and all of a group, by a step of Fisher's scoring."""
        # The symmetric root does not depend on the signs of eigenvectors.
        normal = self._Q.T @ self._rng.normal(size=(len(self._Y), _N_DRAWS))
        draws = self._Q @ (self._roots[:, None] * normal)
        V = np.ascontiguousarray(np.hstack([self._alpha / np.sqrt(self._noise), draws]))
        forms = self._columns.quadratic_forms(V, self._n_threads)
        # Of huge or tiny numbers, only what is weighted is of a usual size.
        forms *= self.weights[:, None]
        slope, information = self._slopes(forms)
        change = (slope - _PRECISION * self._own) / (information + _PRECISION)
        self._own = self._own + np.clip(change, -_MOST, _MOST)
        # What all columns share, the signal variance has already.
        if len(self._shared) > 1:
            of_groups = np.zeros((len(self._shared), forms.shape[1]))
            np.add.at(of_groups, self._groups, forms)
            slope, information = self._slopes(of_groups)
            change = np.divide(slope, information, np.zeros_like(slope), where=information > 0.0)
            self._shared = self._shared + np.clip(change, -_MOST, _MOST)
        logs = self._own + self._shared[self._groups]
        # Only proportions count, and so no weight overflows.
        self.weights = self._start * np.maximum(np.exp(logs - logs.max()), _LEAST)
        self._fit()

    def _slopes(self, forms: Array) -> tuple[Array, Array]:
        """Return slopes of the likelihood by logarithms of factors, and their information."""
        n_outputs = self._Y.shape[1]
        pull, draws = forms[:, :n_outputs].sum(axis=1), forms[:, n_outputs:]
        slope: Array = 0.5 * (pull - n_outputs * draws.mean(axis=1))
        information: Array = 0.25 * n_outputs * draws.var(axis=1, ddof=1)
        return slope, information

    def predicted(self, rows: Matrix) -> Array:
        """Return the predictions of other rows."""
        return np.asarray((self._kernel(rows, self._rows) + self._constant) @ self._alpha)

    def _fit(self) -> None:
        """Fit under the noise of largest marginal likelihood, the scale having a closed form."""
        n = len(self._Y)
        K = self._kernel(self._rows, None)
        vague = VAGUE_INTERCEPT * float(np.trace(K)) / n
        self._constant = vague if self._intercept is None else self._intercept
        K += self._constant
        nodes, self._Q = linalg.eigh(K, overwrite_a=True, check_finite=False)
        nodes = np.maximum(nodes, 0.0)
        Z = self._Q.T @ self._Y
        squares = np.sum(Z**2, axis=1, keepdims=True)
        ratios = (float(nodes[-1]) or 1.0) * _RATIOS_OF_LARGEST
        s = ratios[np.argmin(profiled_costs(nodes, squares, ratios))]
        self._alpha = self._Q @ (Z / (nodes + s)[:, None])
        self._roots = 1.0 / np.sqrt(nodes + s)
        noise = np.sum(self._Y * self._alpha, axis=0) / n
        self._noise = np.maximum(noise, np.finfo(np.float64).tiny)

    def _kernel(self, rows: Matrix, others: Matrix | None) -> Array:
        kernel = GeneralizedKernel(weights=self.weights)
        weighted = to_core(kernel.rows(rows, self._n_threads))
        of_others = None if others is None else to_core(kernel.rows(others, self._n_threads))
        K = _histrs.intersection_gram(weighted, of_others, self._n_threads)
        return np.asarray(K, dtype=np.float64)


def _groups(rows: Any) -> NDArray[np.intp]:
    """Return the group of each column: those of as many entries, to a factor of 2."""
    if is_sparse(rows):
        n_entries = np.bincount(rows.indices[: rows.nnz], minlength=rows.shape[1])
    else:
        n_entries = np.count_nonzero(rows, axis=0)
    return np.unique(np.frexp(n_entries)[1], return_inverse=True)[1]
