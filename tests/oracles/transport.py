"""Optimal transport, slowly: Sinkhorn's iteration in the log domain, and the linear program.

Kusner et al. 2015, "Image data compression for covariance and histogram descriptors".
"""

import numpy as np
from scipy.optimize import linprog


def _log_sum_exp(values, axis):
    largest = values.max(axis=axis, keepdims=True)
    return (largest + np.log(np.exp(values - largest).sum(axis=axis, keepdims=True))).squeeze(axis)


def sinkhorn_plan(a, b, M, reg, n_iter=20_000, tol=1e-11):
    """Return the minimiser of tr(T M) - reg h(T) (eq. 3, reg = 1/lambda) over bins with mass.

    T_ij = exp((alpha_i + beta_j - M_ij) / reg), alternately with the right row and column sums.
    """
    a, b, M = np.asarray(a, float), np.asarray(b, float), np.asarray(M, float)
    rows, columns = np.flatnonzero(a), np.flatnonzero(b)
    M = M[np.ix_(rows, columns)] / reg
    log_a, log_b = np.log(a[rows]), np.log(b[columns])
    alpha = np.zeros(len(rows))
    for _ in range(n_iter):
        beta = log_b - _log_sum_exp(alpha[:, None] - M, 0)
        log_plan = alpha[:, None] + beta - M
        if np.abs(np.exp(_log_sum_exp(log_plan, 1)) - a[rows]).sum() <= tol * a.sum():
            break
        alpha = log_a - _log_sum_exp(beta - M, 1)
    else:
        # Where the iteration creeps, Newton's method ends it.
        log_plan = _newton(alpha, beta, M, a[rows], b[columns])
    plan = np.zeros((len(a), len(b)))
    plan[np.ix_(rows, columns)] = np.exp(log_plan)
    return plan


def _newton(alpha, beta, M, a, b, n_steps=20):
    """Return the logarithm of the plan whose sums over columns and rows are `a` and `b`."""
    for _ in range(n_steps):
        T = np.exp(alpha[:, None] + beta - M)
        left = np.concatenate([T.sum(axis=1) - a, T.sum(axis=0) - b])
        J = np.block([[np.diag(T.sum(axis=1)), T], [T.T, np.diag(T.sum(axis=0))]])
        # A constant may go from one potential to the other: the shortest step.
        step = np.linalg.lstsq(J, left, rcond=1e-13)[0]
        alpha, beta = alpha - step[: len(a)], beta - step[len(a) :]
    return alpha[:, None] + beta - M


def sinkhorn_distance(a, b, M, reg, **options):
    """Return tr(T M)."""
    return float(np.sum(sinkhorn_plan(a, b, M, reg, **options) * M))


def regularized_cost(a, b, M, reg, **options):
    """Return tr(T M) + reg sum T log T, 0 log 0 being 0."""
    plan = sinkhorn_plan(a, b, M, reg, **options)
    positive = plan[plan > 0]
    return float(np.sum(plan * M) + reg * np.sum(positive * np.log(positive)))


def emd(a, b, M):
    """Return the minimum of tr(T M) over plans with marginals a and b (eq. 2), a linear program."""
    a, b, M = np.asarray(a, float), np.asarray(b, float), np.asarray(M, float)
    n, m = M.shape
    row_sums = np.kron(np.eye(n), np.ones((1, m)))
    column_sums = np.kron(np.ones((1, n)), np.eye(m))
    # One of the equations follows from the others.
    equations = np.vstack([row_sums, column_sums[:-1]])
    result = linprog(
        M.ravel(),
        A_eq=equations,
        b_eq=np.concatenate([a, b[:-1]]),
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert result.success, result.message
    return float(result.fun)
