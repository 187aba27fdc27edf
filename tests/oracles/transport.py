"""Optimal transport, slowly: Sinkhorn's iteration in the log domain, and the linear program.

Kusner et al. 2015, "Image data compression for covariance and histogram descriptors".
"""

import numpy as np
from scipy.optimize import linprog

_TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


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


def barycenter(X, M, reg, weights, *, debiased=False, tol=1e-10, n_iter=20_000):
    """Return the b of least sum_k w_k OT(x_k, b), of the mass of the rows.

    Benamou et al. 2015, "Iterative Bregman projections for regularized transportation problems",
    section 3.2: u_k = x_k / K v_k, b = c prod (K' u_k)^w_k, v_k = b / K' u_k, in logarithms; of a
    debiased one c = sqrt(c b / K c) as well, algorithm 1 of Janati et al. 2020, "Debiased Sinkhorn
    barycenters".
    """
    X, C = np.asarray(X, float), np.asarray(M, float) / reg
    w = np.asarray(weights, float) / np.sum(weights)
    mass = X[0].sum()
    with np.errstate(divide="ignore"):
        log_X = np.log(X / X.sum(axis=1, keepdims=True))
    g, c = np.zeros((len(X), C.shape[1])), np.zeros(C.shape[1])
    for _ in range(n_iter):
        with np.errstate(invalid="ignore"):
            f = np.array(
                [
                    np.where(x > -np.inf, x - _log_sum_exp(v - C, 1), -np.inf)
                    for x, v in zip(log_X, g, strict=True)
                ]
            )
            sums = np.array([_log_sum_exp(u[:, None] - C, 0) for u in f])
        log_b = c + w @ sums
        b = np.exp(log_b)
        error = np.abs(np.exp(g + sums) - b).sum(axis=1).max()
        if debiased:
            own = _log_sum_exp(c - C, 1)
            error = max(error, np.abs(np.exp(c + own) - b).sum())
            c = 0.5 * (c + log_b - own)
        g = log_b - sums
        if error <= tol:
            break
    else:
        raise AssertionError(f"the marginals are off by {error}")
    return mass * b / b.sum()


def emd(a, b, M):
    """Return the minimum of tr(T M) over plans with marginals a and b (eq. 2), a linear program."""
    a, b, M = np.asarray(a, float), np.asarray(b, float), np.asarray(M, float)
    n, m = M.shape
    row_sums = np.kron(np.eye(n), np.ones((1, m)))
    column_sums = np.kron(np.ones((1, n)), np.eye(m))
    # One of the equations follows from the others, but for rounding.
    equations, sums = np.vstack([row_sums, column_sums[:-1]]), np.concatenate([a, b[:-1]])
    result = linprog(M.ravel(), A_eq=equations, b_eq=sums, method="highs-ds", options=_TOLERANCES)
    assert result.success, result.message
    return float(result.fun)


def kullback_leibler(s, t):
    """Return KL(s | t) = sum s log(s / t) - s + t, 0 log 0 being 0."""
    positive = s > 0
    return float(np.sum(s[positive] * np.log(s[positive] / t[positive])) - s.sum() + t.sum())


def unbalanced_plan(a, b, M, reg, reg_m, n_iter=100_000, tol=1e-14):
    """Return the minimiser of tr(T M) + reg KL(T | a b' / s) + reg_m KL(T 1 | a) + ...

    s is the root of the product of both masses; reg_m has a number for each side. Chizat et al.
    2018, "Scaling algorithms for unbalanced optimal transport problems", section 3:
    T = diag(u) K diag(v)
    with K = a b' / s exp(-M / reg), u = (a / K v)^(reg_m / (reg_m + reg)), and v likewise.
    """
    a, b, M = np.asarray(a, float), np.asarray(b, float), np.asarray(M, float)
    plan = np.zeros(M.shape)
    rows, columns = np.flatnonzero(a), np.flatnonzero(b)
    if len(rows) == 0 or len(columns) == 0:
        return plan
    unit = np.sqrt(a.sum() * b.sum())
    log_a, log_b = np.log(a[rows] / unit), np.log(b[columns] / unit)
    log_K = log_a[:, None] + log_b - M[np.ix_(rows, columns)] / reg
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = [1.0 / (1.0 + reg / weight) for weight in reg_m]
    f = np.zeros(len(rows))
    with np.errstate(invalid="ignore", divide="ignore"):
        for _ in range(n_iter):
            g = _finite(powers[1] * (log_b - _log_sum_exp(f[:, None] + log_K, 0)))
            f, before = _finite(powers[0] * (log_a - _log_sum_exp(g + log_K, 1))), f
            if np.abs(f - before).max() <= tol * (1 + np.abs(f).max()):
                break
    plan[np.ix_(rows, columns)] = unit * np.exp(f[:, None] + g + log_K)
    return plan


def _finite(potential):
    """A bin without a way out has any potential."""
    return np.where(np.isfinite(potential), potential, 0.0)


def unbalanced_costs(a, b, M, reg, reg_m, **options):
    """Return the cost of transport, that with the penalties, and that with the entropy as well."""
    a, b, M = np.asarray(a, float), np.asarray(b, float), np.asarray(M, float)
    plan = unbalanced_plan(a, b, M, reg, reg_m, **options)
    transport = float(np.sum(plan[plan > 0] * M[plan > 0]))
    sides = zip(reg_m, (plan.sum(axis=1), plan.sum(axis=0)), (a, b), strict=True)
    penalties = sum(w * kullback_leibler(s, own) for w, s, own in sides if np.isfinite(w))
    unit = np.sqrt(a.sum() * b.sum())
    reference = np.outer(a, b) / unit if unit > 0 else np.zeros(M.shape)
    entropy = reg * kullback_leibler(plan, reference)
    return transport, transport + penalties, transport + penalties + entropy


def partial_plan(a, b, M, reg, mass, n_iter=10_000, tol=1e-13):
    """Return the minimiser of tr(T M) + reg sum T log T over T 1 <= a, T' 1 <= b, sum T = mass.

    Benamou et al. 2015, "Iterative Bregman projections for regularized transportation problems",
    section 5: one of the dual variables of rows, of columns and of the whole at a time; the last
    together with either, in which the rows or columns that are not full share one factor.
    """
    a, b, M = np.asarray(a, float), np.asarray(b, float), np.asarray(M, float)
    plan = np.zeros(M.shape)
    rows, columns = np.flatnonzero(a), np.flatnonzero(b)
    log_K = -M[np.ix_(rows, columns)] / reg
    f = np.zeros(len(rows))
    for _ in range(n_iter):
        g = _shared_or_full(b[columns], _log_sum_exp(f[:, None] + log_K, 0), mass)
        f, before = _shared_or_full(a[rows], _log_sum_exp(g + log_K, 1), mass), f
        if np.abs(f - before).max() <= tol * (1 + np.abs(f).max()):
            break
    plan[np.ix_(rows, columns)] = np.exp(f[:, None] + g + log_K)
    return plan


def _shared_or_full(full, log_sums, mass):
    """Return min(c, log full - log_sums), c being such that sum min(full, e^c sums) = mass."""
    limits = np.log(full) - log_sums
    order = np.argsort(limits)
    # The first k in this order are full, and c is that of the rest.
    for k in range(len(full)):
        rest = mass - full[order[:k]].sum()
        if rest <= 0:
            break
        shared = np.log(rest) - _log_sum_exp(log_sums[order[k:]], 0)
        if shared <= limits[order[k]]:
            return np.minimum(shared, limits)
    return limits


def emd_plan_cost(a, b, M, mass):
    """Return the minimum of tr(T M) over T 1 <= a, T' 1 <= b, sum T = mass, a linear program."""
    a, b, M = np.asarray(a, float), np.asarray(b, float), np.asarray(M, float)
    n, m = M.shape
    allowed = np.isfinite(M).ravel()
    at_most = np.vstack([np.kron(np.eye(n), np.ones((1, m))), np.kron(np.ones((1, n)), np.eye(m))])[
        :, allowed
    ]
    result = linprog(
        M.ravel()[allowed],
        A_ub=at_most,
        b_ub=np.concatenate([a, b]),
        A_eq=np.ones((1, int(allowed.sum()))),
        b_eq=[mass],
        method="highs-ds",
        options=_TOLERANCES,
    )
    return float(result.fun) if result.status == 0 else np.inf
