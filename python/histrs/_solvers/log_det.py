"""The log-determinant of a symmetric positive definite matrix that is never formed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from histrs._solvers.block_cg import Operator
from histrs._solvers.cholesky import CholeskyFactor
from histrs._solvers.lanczos import Lanczos
from histrs._typing import Array

# Probes, and bytes that their bases may take.
MAX_PROBES = 16
_MAX_BYTES = 1 << 30
_FEWEST_STEPS = 64
_MAX_STEPS = 200
# Steps between two looks at the quadrature, and the change, in standard errors, that ends it.
_STEPS = 8
_CHANGE = 0.02
# Eigenvalues of the derivative's small matrix below this part of the largest are left out.
_NEGLIGIBLE = 1e-7


@dataclass(frozen=True)
class LogDet:
    """A log-determinant and its derivative: along `dA` it is `sum_k v_k^T dA v_k`."""

    value: float
    std: float
    """Standard error of the value; 0 where it is exact."""
    V: Array
    """The vectors `v_k`, of shape (n, any)."""


def rademacher(n: int, n_probes: int, rng: np.random.Generator) -> Array:
    """Return `n_probes` vectors of random signs: `E z^T A z` is the trace of `A`."""
    signs: Array = 2.0 * rng.integers(0, 2, size=(n, n_probes)).astype(np.float64) - 1.0
    return signs


def count_probes(n: int) -> int:
    """Return as many probes as there is memory for, 2 at least and `MAX_PROBES` at most."""
    return int(np.clip(_MAX_BYTES // (8 * _FEWEST_STEPS * max(n, 1)), 2, MAX_PROBES))


def exact_log_det(factor: CholeskyFactor, *, derivative: bool) -> LogDet:
    """Return the log-determinant of `A = L L^T`; `A^-1 = V V^T` with `V = L^-T`."""
    value = factor.log_det()
    if not derivative:
        return LogDet(value, 0.0, np.empty((len(factor), 0)))
    # Columns of A^-1 L = L^-T.
    return LogDet(value, 0.0, factor.solve(np.tril(factor.whole())))


def lanczos_log_det(operator: Operator, Z: Array, *, derivative: bool) -> LogDet:
    """Estimate the log-determinant by stochastic Lanczos quadrature.

    `log det A = tr log A` is the mean of `z^T log(A) z` over vectors of random signs, the columns
    of `Z`, and Gauss quadrature with the Ritz values of Lanczos gives each [1]_.

    The derivative is that of the estimate itself, with the same `z`: with Ritz pairs `(t_i, u_i)`
    and `z = sum_i c_i u_i`, `d (z^T log(A) z) = sum_ij c_i c_j g_ij u_i^T dA u_j`, where
    `g_ij = (log t_i - log t_j) / (t_i - t_j)`. So value and derivative agree, as an optimiser
    needs, and not only their expectations, as with `z^T A^-1 dA z`.

    References
    ----------
    .. [1] S. Ubaru, J. Chen and Y. Saad, "Fast estimation of tr(f(A)) via stochastic Lanczos
       quadrature", SIAM Journal on Matrix Analysis and Applications, 2017.
    """
    n, n_probes = Z.shape
    room = int(_MAX_BYTES // (8 * max(n, 1) * n_probes))
    max_steps = int(np.clip(room, _STEPS, _MAX_STEPS))
    lanczos = Lanczos(operator, Z, keep_basis=True, max_steps=max_steps)
    estimates = np.full(n_probes, np.inf)
    while True:
        lanczos.run(_STEPS)
        before, estimates = estimates, _log_estimates(lanczos)
        std = float(np.std(estimates, ddof=1) / np.sqrt(n_probes)) if n_probes > 1 else 0.0
        # Where all probes agree, as for a multiple of the identity, rounding decides.
        limit = _CHANGE * std + 1e-9 * float(np.max(np.abs(estimates), initial=0.0))
        if lanczos.done or float(np.mean(np.abs(estimates - before))) <= limit:
            break
    V = _log_derivative(lanczos, n) if derivative else np.empty((n, 0))
    return LogDet(float(np.mean(estimates)), std, V)


def _log_estimates(lanczos: Lanczos) -> Array:
    estimates = []
    for tridiagonal in lanczos.tridiagonals():
        nodes, weights = tridiagonal.measure()
        estimates.append(float(weights @ np.log(np.maximum(nodes, np.finfo(float).tiny))))
    return np.array(estimates)


def _log_derivative(lanczos: Lanczos, n: int) -> Array:
    vectors: list[Array] = []
    tridiagonals = list(lanczos.tridiagonals())
    for k, tridiagonal in enumerate(tridiagonals):
        nodes, S = tridiagonal.eigen()
        c = tridiagonal.norm * S[0]
        G = c[:, None] * _divided_differences(nodes) * c / len(tridiagonals)
        sizes, U = linalg.eigh(G)
        keep = sizes > _NEGLIGIBLE * sizes[-1]
        vectors.append(lanczos.basis(k).T @ (S @ (U[:, keep] * np.sqrt(sizes[keep]))))
    return np.hstack(vectors) if vectors else np.empty((n, 0))


def _divided_differences(t: Array) -> Array:
    """Return `(log t_i - log t_j) / (t_i - t_j)`, which is `1 / t_i` where they agree."""
    t = np.maximum(t, np.finfo(float).tiny)
    low, high = np.minimum(t[:, None], t), np.maximum(t[:, None], t)
    gap = high - low
    part = gap / high
    near = part < 1e-6
    # The ratio of numbers far apart may leave the range of doubles, their logarithms do not.
    close = -np.log1p(-np.minimum(part, 0.5))
    logs = np.where(part < 0.5, close, np.log(high) - np.log(low))
    return np.where(near, 2.0 / (low + high), logs / np.where(near, 1.0, gap))


# ---- the bound of eqs. 18 to 23 -----------------------------------------------------------------


def log_det_bound(n: int, largest: float, trace: float, squares: float) -> float:
    r"""Bound the log-determinant of a symmetric positive definite matrix from above (eq. 18).

    .. math:: \log\det M \le [\log\beta, \log\bar t]
              \begin{bmatrix}\beta & \bar t\\ \beta^2 & \bar t^2\end{bmatrix}^{-1}
              \begin{bmatrix}\mu_1\\ \mu_2\end{bmatrix},
              \quad \bar t = \frac{\beta\mu_1 - \mu_2}{\beta n - \mu_1}

    :math:`\beta` is at or above the largest eigenvalue, :math:`\mu_1` is the trace, and
    :math:`\mu_2` is at or below the squared Frobenius norm (theorem 2).
    """
    # No matrix of this trace has a smaller norm.
    squares = max(squares, trace**2 / n)
    rest = largest * n - trace
    if rest <= 1e-12 * largest * n:
        return n * float(np.log(largest))
    t = (largest * trace - squares) / rest
    if t <= 0.0:
        # Rounding: all but the largest eigenvalues vanish.
        return n * float(np.log(trace / n))
    weight = (squares - t * trace) / (largest * (largest - t))
    return weight * float(np.log(largest)) + (n - weight) * float(np.log(t))


def largest_eigenvalue_bound(multiply: Operator, V: Array, trace: float) -> float:
    """Bound the largest eigenvalue of a matrix without negative entries from above.

    For every positive vector `v`, `max_i (A v)_i / v_i` is an upper bound (Collatz and Wielandt),
    which is tight at the eigenvector that belongs to the eigenvalue, and the trace is one too. The
    Ritz value plus the norm of its residual, which is near *some* eigenvalue, is not for certain.
    """
    v = np.abs(V)
    scale = float(np.max(v, initial=0.0))
    if scale == 0.0:
        return trace
    v = np.maximum(v / scale, 1e-6)
    for _ in range(3):
        # Products smooth what Lanczos left undecided in small entries.
        product = multiply(v[:, None])[:, 0]
        trace = min(trace, float(np.max(product / v)))
        v = np.maximum(product / np.max(product, initial=1e-300), 1e-6)
    return trace * (1.0 + 1e-12)
