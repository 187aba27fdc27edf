"""Weights of the features that the likelihood asks for, as far as held-out rows agree.

The slope of the likelihood by the logarithm of a weight is half the difference of
`w alpha^T K_d alpha` and `w tr(A^-1 K_d)` (Rasmussen and Williams, 2006, equation 5.9). Where it is
0 their ratio is 1, and multiplying each weight by its ratio moves there, MacKay's fixed point of
automatic relevance determination. It ends in weights that fit the noise; so the number of steps is
that of least error on held-out rows.
"""

import numpy as np
from scipy import linalg

from histrs import _histrs
from histrs._dask import in_memory
from histrs._solvers.block_cg import Array
from histrs._threads import blas_threads_at_most
from histrs._validation import Matrix, to_core
from histrs.gaussian_process._kernel import GeneralizedKernel
from histrs.gaussian_process._spectrum import profiled_costs

_MAX_ROWS = 2048
_N_FOLDS = 3
_MAX_STEPS = 12
# Steps without an improvement, after which the search ends.
_PATIENCE = 4
# Part of the error without steps that the error with them must be below.
_GAIN = 0.95
# The power of the ratio that is taken, and the largest factor of one step.
_DAMPING = 0.7
_MOST = 20.0
# Draws that traces are estimated from.
_N_DRAWS = 24
# Ratios of noise to signal, in units of the largest eigenvalue, of which the likeliest is taken.
_RATIOS = np.logspace(-8, 1, 60)
# The least weight, in units of the largest.
_LEAST = 1e-12


def relevant_weights(
    rows: Matrix, Y: Array, start: Array, rng: np.random.Generator, n_threads: int
) -> Array:
    """Return weights of the features, which are those of the start where that predicts as well.

    Parameters
    ----------
    rows : matrix of shape (n_samples, n_features)
        Histograms, transformed.
    Y : ndarray of shape (n_samples, n_outputs)
        Targets.
    start : ndarray of shape (n_features,)
        Positive weights.
    rng : Generator
        Draws the rows, where there are more than 2,048, the folds, and vectors for the traces.
    n_threads : int
        Threads of the core.
    """
    if len(Y) > _MAX_ROWS:
        some = np.sort(rng.choice(len(Y), _MAX_ROWS, replace=False))
        rows, Y = rows[some], Y[some]
    rows = in_memory(rows)
    Y = Y - Y.mean(axis=0)
    n = len(Y)
    if n < 2 * _N_FOLDS or not np.any(Y):
        return start
    order = rng.permutation(n)
    paths = []
    for fold in range(_N_FOLDS):
        held_out = np.zeros(n, dtype=bool)
        held_out[order[fold::_N_FOLDS]] = True
        path = _Path(rows[~held_out], Y[~held_out], start, rng, n_threads)
        paths.append((path, rows[held_out], Y[held_out]))
    # On matrices of this size, BLAS's threads mostly wait for one another.
    with blas_threads_at_most(1):
        n_steps = _best_number_of_steps(paths)
        path = _Path(rows, Y, start, rng, n_threads)
        for _ in range(n_steps):
            path.step()
    return np.maximum(path.weights, _LEAST * np.max(path.weights))


def _best_number_of_steps(paths: "list[tuple[_Path, Matrix, Array]]") -> int:
    errors: list[float] = []
    for steps in range(_MAX_STEPS + 1):
        for path, _, _ in paths:
            if steps > 0:
                path.step()
        errors.append(sum(path.error(rows, Y) for path, rows, Y in paths))
        if steps - int(np.argmin(errors)) >= _PATIENCE:
            break
    best = int(np.argmin(errors))
    return best if errors[best] < _GAIN * errors[0] else 0


class _Path:
    """Weights on their way from the start, with the fit under each."""

    def __init__(
        self, rows: Matrix, Y: Array, start: Array, rng: np.random.Generator, n_threads: int
    ) -> None:
        self._rows, self._Y, self._rng, self._n_threads = rows, Y, rng, n_threads
        self._columns = _histrs.SortedColumns(to_core(rows), n_threads)
        self.weights = start
        self._fit()

    def step(self) -> None:
        """Multiply every weight by the ratio of the slope's terms, damped."""
        # The symmetric root does not depend on the signs of eigenvectors.
        normal = self._Q.T @ self._rng.normal(size=(len(self._Y), _N_DRAWS))
        draws = self._Q @ (self._roots[:, None] * normal)
        V = np.ascontiguousarray(np.hstack([self._alpha / np.sqrt(self._noise), draws]))
        forms = self._columns.quadratic_forms(V, self._n_threads)
        # Of huge or tiny numbers, only what is weighted is of a usual size.
        forms *= self.weights[:, None]
        n_outputs = self._Y.shape[1]
        pull, push = forms[:, :n_outputs].mean(axis=1), forms[:, n_outputs:].mean(axis=1)
        ratio = np.divide(pull, push, out=np.ones_like(pull), where=push > 0.0)
        self.weights = self.weights * np.clip(ratio, 1.0 / _MOST, _MOST) ** _DAMPING
        self._fit()

    def error(self, rows: Matrix, Y: Array) -> float:
        """Return the sum of squared errors of other rows."""
        cross = self._kernel(rows, self._rows)
        return float(np.sum((cross @ self._alpha - Y) ** 2))

    def _fit(self) -> None:
        """Fit under the noise of largest likelihood, the scale having a closed form."""
        n = len(self._Y)
        K = self._kernel(self._rows, None)
        nodes, self._Q = linalg.eigh(K, overwrite_a=True, check_finite=False)
        nodes = np.maximum(nodes, 0.0)
        Z = self._Q.T @ self._Y
        squares = np.sum(Z**2, axis=1, keepdims=True)
        ratios = (float(nodes[-1]) or 1.0) * _RATIOS
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
