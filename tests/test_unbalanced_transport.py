"""Transport that need not keep the mass, and forbidden moves, against definitions and POT."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from histrs.metrics import (
    emd_distances,
    partial_sinkhorn_distances,
    sinkhorn_distances,
    unbalanced_sinkhorn_distances,
)
from histrs.testing import ground_distances, histograms
from histrs.transport import emd_plan, partial_sinkhorn, sinkhorn, unbalanced_sinkhorn
from tests.helpers import CONTAINERS, dense
from tests.oracles import transport as oracle

pytestmark = pytest.mark.simd_paths

n_bins = st.shared(st.integers(1, 12), key="n_bins")
COSTS = ["transport", "penalized", "regularized"]
DTYPES = [np.float32, np.float64]


def counts(rng, n, d):
    """Histograms of different mass with empty bins, and distances between their bins."""
    X = rng.gamma(0.4, size=(n, d)) * (rng.random((n, d)) < 0.7) * rng.uniform(0.2, 3, size=(n, 1))
    X[np.arange(n), rng.integers(d, size=n)] += 0.1
    positions = rng.standard_normal((d, 2))
    return X, np.linalg.norm(positions[:, None] - positions, axis=2)


def pot():
    with warnings.catch_warnings():
        # Of libraries that it looks for.
        warnings.simplefilter("ignore")
        return pytest.importorskip("ot", reason="POT is not installed: pip install POT")


# ---- unbalanced ------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    X=histograms(n_columns=n_bins, n_rows=(0, 4), format="any"),
    Y=histograms(n_columns=n_bins, n_rows=(0, 4), format="any"),
    M=ground_distances(d=n_bins, kind="cost"),
    strength=st.sampled_from([0.05, 0.3, 3.0]),
    penalties=st.sampled_from([(0.3, 0.3), (2.0, 2.0), (30.0, 30.0), (0.5, 4.0), (np.inf, 1.0)]),
    which=st.sampled_from(COSTS),
)
def test_unbalanced_distances_are_their_definition(X, Y, M, strength, penalties, which):
    unit = max(float(M.max()), 1.0)
    reg, reg_m = strength * unit, tuple(unit * np.array(penalties))
    options = {"M": M, "reg": reg, "reg_m": reg_m, "tol": 1e-11, "max_iter": 50_000}
    D, info = unbalanced_sinkhorn_distances(X, Y, cost=which, return_info=True, **options)
    assert info.converged.all()
    X, Y = dense(X).astype(float), dense(Y).astype(float)
    assert D.shape == (len(X), len(Y))
    for i, a in enumerate(X):
        for j, b in enumerate(Y):
            if a.sum() == 0 or b.sum() == 0:
                # A marginal that is kept cannot be empty on one side alone.
                lost = [w * m for w, m in zip(reg_m, (a.sum(), b.sum()), strict=True) if m > 0]
                free = which == "transport" and np.inf not in lost
                assert D[i, j] == pytest.approx(0.0 if free else sum(lost), rel=1e-9)
                continue
            expected = oracle.unbalanced_costs(a, b, M, reg, reg_m)[COSTS.index(which)]
            scale = np.sqrt(a.sum() * b.sum()) * unit + sum(w for w in reg_m if w < np.inf) * (
                a.sum() + b.sum()
            )
            np.testing.assert_allclose(D[i, j], expected, rtol=1e-7, atol=1e-9 * scale)


@pytest.mark.parametrize(
    ("d", "container"), [*((7, name) for name in CONTAINERS), (1, "C"), (2, "C"), (33, "C")]
)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes_containers_and_precisions(rng, d, dtype, container):
    X, M = counts(rng, 5, d)
    X[2] = 0.0
    options = {"M": M, "reg": 0.3, "reg_m": 2.0}
    expected = unbalanced_sinkhorn_distances(X, X[:3], tol=1e-10, **options)
    held, first = (CONTAINERS[container](rows.astype(dtype)) for rows in (X, X[:3]))
    dtype = np.float64 if isinstance(held, list) else dtype
    D = unbalanced_sinkhorn_distances(held, first, **options)
    assert D.dtype == dtype
    np.testing.assert_allclose(D, expected, rtol=1e-4, atol=1e-4)
    symmetric = unbalanced_sinkhorn_distances(held, **options)
    np.testing.assert_array_equal(symmetric, symmetric.T)
    np.testing.assert_allclose(symmetric[:, :3], D, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reg_m", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("reg", [0.02, 0.5])
def test_unbalanced_plans_are_those_of_pot(rng, reg, reg_m):
    ot = pot()
    X, M = counts(rng, 2, 9)
    # POT divides by empty bins.
    a, b = X + 0.01
    unit = np.sqrt(a.sum() * b.sum())
    options = {"method": "sinkhorn_translation_invariant", "stopThr": 1e-14, "numItermax": 200_000}
    expected = unit * ot.unbalanced.sinkhorn_unbalanced(
        a / unit, b / unit, M, reg, reg_m, **options
    )
    plan = unbalanced_sinkhorn(a, b, M=M, reg=reg, reg_m=reg_m, tol=1e-12)
    np.testing.assert_allclose(plan, expected, rtol=1e-6, atol=1e-9)
    total = np.sum(expected * M)
    D = unbalanced_sinkhorn_distances(
        [a], [b], M=M, reg=reg, reg_m=reg_m, cost="transport", tol=1e-10
    )
    np.testing.assert_allclose(D, total, rtol=1e-6)


def test_large_penalties_keep_the_mass(rng):
    X, M = counts(rng, 6, 15)
    X /= X.sum(axis=1, keepdims=True)
    kept = sinkhorn_distances(X, M=M, reg=0.1, tol=1e-10)
    D, info = unbalanced_sinkhorn_distances(
        X, M=M, reg=0.1, reg_m=1e5, cost="transport", tol=1e-9, return_info=True
    )
    np.testing.assert_allclose(D, kept, rtol=1e-4, atol=1e-4)
    # Without the constant that moves, a million iterations.
    assert info.n_iter.max() < 300


def test_a_unit_of_mass_changes_the_unit_of_the_distance(rng):
    X, M = counts(rng, 4, 9)
    options = {"M": M, "reg": 0.1, "reg_m": 1.0, "tol": 1e-10}
    D = unbalanced_sinkhorn_distances(X, **options)
    for unit in (1e-200, 1e-3, 1e6, 1e200):
        scaled = unbalanced_sinkhorn_distances(unit * X, **options)
        np.testing.assert_allclose(scaled, unit * D, rtol=1e-8)
    for unit in (1e-150, 1e150):
        options = {"M": unit * M, "reg": unit * 0.1, "reg_m": unit, "tol": 1e-10}
        np.testing.assert_allclose(unbalanced_sinkhorn_distances(X, **options), unit * D, rtol=1e-8)


def test_masses_that_differ_by_far(rng):
    X, M = counts(rng, 2, 5)
    a, b = X[0], 1e12 * X[1]
    plan = unbalanced_sinkhorn(a, b, M=M, reg=0.2, reg_m=1.0)
    np.testing.assert_allclose(plan, oracle.unbalanced_plan(a, b, M, 0.2, (1.0, 1.0)), rtol=1e-6)


@pytest.mark.parametrize("strength", [1e-2, 1e-3, 1e-5])
def test_a_small_regularisation_is_the_limit(rng, strength):
    X, M = counts(rng, 3, 8)
    reg = strength * M.max()
    D, info = unbalanced_sinkhorn_distances(
        X, M=M, reg=reg, reg_m=0.7, tol=1e-8, max_iter=20_000, return_info=True
    )
    assert info.converged.all()
    finer = unbalanced_sinkhorn_distances(X, M=M, reg=reg / 4, reg_m=0.7, tol=1e-8, max_iter=20_000)
    np.testing.assert_allclose(D, finer, atol=5 * strength * M.max())
    np.testing.assert_allclose(np.diagonal(D), 0.0, atol=5 * strength * M.max())


def test_empty_rows_are_created_and_destroyed():
    X = np.array([[0.0, 0.0], [1.0, 2.0]])
    M = 1 - np.eye(2)
    D = unbalanced_sinkhorn_distances(X, M=M, reg=0.1, reg_m=(2.0, 5.0))
    assert (D[0, 0], D[0, 1], D[1, 0]) == (0.0, pytest.approx(15.0), pytest.approx(6.0))
    kept = unbalanced_sinkhorn_distances(X, M=M, reg=0.1, reg_m=(np.inf, 5.0))
    assert (kept[0, 0], kept[0, 1], kept[1, 0]) == (0.0, pytest.approx(15.0), np.inf)
    np.testing.assert_array_equal(
        unbalanced_sinkhorn(*X, M=M, reg=0.1, reg_m=1.0), np.zeros((2, 2))
    )
    with pytest.raises(ValueError, match="no plan between a and b is allowed"):
        unbalanced_sinkhorn(X[1], X[0], M=M, reg=0.1, reg_m=(np.inf, 1.0))


def test_what_does_not_converge_is_said(rng):
    X, M = counts(rng, 3, 8)
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        unbalanced_sinkhorn_distances(X, M=M, reg=0.01, reg_m=1.0, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        partial_sinkhorn_distances(X, M=M, reg=0.01, max_iter=1)


# ---- partial ---------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(
    X=histograms(n_columns=n_bins, n_rows=(1, 3), format="any", allow_zero_rows=False),
    Y=histograms(n_columns=n_bins, n_rows=(1, 3), format="any", allow_zero_rows=False),
    M=ground_distances(d=n_bins, kind="cost"),
    strength=st.sampled_from([0.1, 0.3, 3.0]),
    share=st.sampled_from([1e-6, 0.3, 0.9]),
)
def test_partial_distances_are_their_definition(X, Y, M, strength, share):
    reg = strength * max(float(M.max()), 1.0)
    rows = [dense(Z).astype(float) for Z in (X, Y)]
    mass = share * min(float(Z.sum(axis=1).min()) for Z in rows)
    options = {"M": M, "reg": reg, "mass": mass, "tol": 1e-11, "max_iter": 50_000}
    D, info = partial_sinkhorn_distances(X, Y, return_info=True, **options)
    assert info.converged.all()
    regularized = partial_sinkhorn_distances(X, Y, cost="regularized", **options)
    for i, a in enumerate(rows[0]):
        for j, b in enumerate(rows[1]):
            plan = oracle.partial_plan(a, b, M, reg, mass)
            atol = 1e-7 * mass * max(M.max(), 1.0)
            np.testing.assert_allclose(D[i, j], np.sum(plan * M), rtol=1e-6, atol=atol)
            filled = plan[plan > 0]
            expected = np.sum(plan * M) + reg * np.sum(filled * np.log(filled))
            atol = 1e-6 * mass * max(M.max(), 1.0, reg)
            np.testing.assert_allclose(regularized[i, j], expected, rtol=1e-6, atol=atol)


@settings(max_examples=50, deadline=None)
@given(
    X=histograms(n_columns=n_bins, n_rows=(1, 1), allow_zero_rows=False),
    Y=histograms(n_columns=n_bins, n_rows=(1, 1), allow_zero_rows=False),
    M=ground_distances(d=n_bins, kind="cost"),
    strength=st.sampled_from([0.02, 0.1, 1.0]),
    share=st.sampled_from([1e-3, 0.5, 0.95, 1.0]),
)
def test_partial_plans_keep_their_bounds(X, Y, M, strength, share):
    unit = max(float(M.max()), 1.0)
    (a,), (b,) = dense(X).astype(float), dense(Y).astype(float)
    mass, reg = share * min(a.sum(), b.sum()), strength * unit
    options = {"M": M, "reg": reg, "mass": mass, "tol": 1e-9, "max_iter": 100_000}
    plan = partial_sinkhorn(a, b, **options)
    slack = 1e-7 * mass
    assert np.all(plan >= 0)
    assert plan.sum() == pytest.approx(mass, rel=1e-7)
    assert np.all(plan.sum(axis=1) <= a + slack)
    assert np.all(plan.sum(axis=0) <= b + slack)
    # Of plans of this mass the entropies differ by no more than the logarithm of the cells.
    least = oracle.emd_plan_cost(a / mass, b / mass, M, 1.0) * mass
    cells = np.count_nonzero(a) * np.count_nonzero(b)
    cost = float(np.sum(plan * M))
    assert least - slack * unit <= cost <= least + reg * mass * np.log(cells) + slack * unit
    D = partial_sinkhorn_distances([a], [b], **options)
    assert D[0, 0] == pytest.approx(cost, rel=1e-5, abs=slack * unit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("container", CONTAINERS)
def test_the_lighter_histogram_moves_as_a_whole(rng, container, dtype):
    X, M = counts(rng, 5, 11)
    X[1] = 0.0
    held = CONTAINERS[container](X.astype(dtype))
    dtype = np.float64 if isinstance(held, list) else dtype
    D, info = partial_sinkhorn_distances(held, M=M, reg=0.2, return_info=True)
    assert info.converged.all()
    assert D.dtype == dtype
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_array_equal(D[1], np.zeros(5))
    a, b = X[0], X[2]
    lighter, axis = (a, 1) if a.sum() < b.sum() else (b, 0)
    plan = partial_sinkhorn(a, b, M=M, reg=0.2)
    np.testing.assert_allclose(plan.sum(axis=axis), lighter, atol=1e-8)
    np.testing.assert_allclose(np.sum(plan * M), D[0, 2], rtol=1e-4)


@pytest.mark.parametrize("strength", [1e-2, 1e-3])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_small_regularisation_is_the_partial_distance(rng, strength, share):
    X, M = counts(rng, 2, 8)
    a, b = X
    mass = share * min(a.sum(), b.sum())
    exact = oracle.emd_plan_cost(a, b, M, mass)
    D, info = partial_sinkhorn_distances(
        [a], [b], M=M, reg=strength * M.max(), mass=mass, max_iter=20_000, return_info=True
    )
    assert info.converged.all()
    assert exact - 1e-5 <= D[0, 0] <= exact + mass * strength * M.max() * 2 * np.log(8)


def test_the_unit_of_the_mass_that_moves(rng):
    X, M = counts(rng, 3, 6)
    mass = 0.3 * X.sum(axis=1).min()
    D = partial_sinkhorn_distances(X, M=M, reg=0.1, mass=mass, tol=1e-10)
    for unit in (1e-200, 1e200):
        scaled = partial_sinkhorn_distances(unit * X, M=M, reg=0.1, mass=unit * mass, tol=1e-10)
        np.testing.assert_allclose(scaled, unit * D, rtol=1e-8)
    assert not partial_sinkhorn_distances(X, M=M, reg=1.0, mass=0.0).any()


# ---- forbidden moves -------------------------------------------------------------------------


def forbidding(rng, d, share=0.3):
    """A ground distance with infinite entries, of which the diagonal has none."""
    M = rng.uniform(0.5, 2.0, size=(d, d))
    M[rng.random((d, d)) < share] = np.inf
    np.fill_diagonal(M, 0.1)
    return M


@pytest.mark.parametrize("reg", [1.0, 0.1, 0.002])
def test_forbidden_moves_are_not_made(rng, reg):
    M = forbidding(rng, 8)
    X = rng.gamma(2.0, size=(6, 8)) + 0.5
    X /= X.sum(axis=1, keepdims=True)
    D = sinkhorn_distances(X[:3], X[3:], M=M, reg=reg, max_iter=20_000)
    # As a finite cost that nothing can pay, by the slow definition.
    dear = np.where(np.isinf(M), 60 + 2000 * reg, M)
    for i, j in np.ndindex(3, 3):
        a, b = X[i], X[3 + j]
        plan = sinkhorn(a, b, M=M, reg=reg)
        assert np.all(plan[np.isinf(M)] == 0)
        np.testing.assert_allclose(plan.sum(axis=1), a, atol=1e-8)
        np.testing.assert_allclose(plan.sum(axis=0), b, atol=1e-8)
        np.testing.assert_allclose(D[i, j], np.sum(plan[plan > 0] * M[plan > 0]), rtol=1e-4)
        if reg >= 0.1:
            expected = oracle.sinkhorn_plan(a, b, dear, reg)
            np.testing.assert_allclose(plan, expected, atol=1e-7)


@pytest.mark.parametrize("symmetric", [True, False])
def test_pairs_without_a_plan_are_infinitely_distant(rng, symmetric):
    # Two rooms without a door: only what is equally divided can be moved.
    M = np.full((6, 6), np.inf)
    M[:3, :3] = M[3:, 3:] = 1.0
    np.fill_diagonal(M, 0.0)
    if not symmetric:
        M[0, 1] = 0.9
    X = np.array([[1, 1, 0, 2, 0, 0], [0, 0, 2, 0, 1, 1], [1, 1, 1, 1, 0, 0], [4, 0, 0, 0, 0, 0]])
    X = X / 4
    D, info = sinkhorn_distances(X, M=M, reg=0.1, return_info=True)
    possible = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=bool)
    np.testing.assert_array_equal(np.isfinite(D), possible)
    assert info.converged.all()
    with pytest.raises(ValueError, match="no plan between a and b is allowed"):
        sinkhorn(X[0], X[2], M=M, reg=0.1)
    # Where mass may vanish, or need not move, there is a plan.
    free = unbalanced_sinkhorn_distances(X, M=M, reg=0.1, reg_m=1.0, tol=1e-10)
    assert np.isfinite(free).all()
    expected = [[oracle.unbalanced_costs(a, b, M, 0.1, (1.0, 1.0))[1] for b in X] for a in X]
    np.testing.assert_allclose(free, expected, rtol=1e-6, atol=1e-8)
    part = partial_sinkhorn_distances(X, M=M, reg=0.1, mass=0.5)
    np.testing.assert_array_equal(np.isfinite(part[0]), [True, True, True, True])
    assert partial_sinkhorn_distances(X, M=M, reg=0.1)[3, 0] == np.inf


def test_a_marginal_that_is_kept_needs_a_way_out(rng):
    M = np.array([[1.0, np.inf], [np.inf, np.inf]])
    for reg_m, finite in (((np.inf, 1.0), False), ((1.0, np.inf), False), ((1.0, 1.0), True)):
        D = unbalanced_sinkhorn_distances([[1.0, 1.0]], M=M, reg=0.1, reg_m=reg_m)
        assert np.isfinite(D[0, 0]) == finite
    # What cannot leave is destroyed.
    D = unbalanced_sinkhorn_distances([[0.0, 1.0]], [[1.0, 0.0]], M=M, reg=0.1, reg_m=(2.0, 3.0))
    assert D[0, 0] == pytest.approx(5.0)


def test_a_flow_past_an_obstacle():
    # The first bin could take what only the second can use.
    M = np.array([[1.0, 2.0], [3.0, np.inf]])
    a, b = [0.5, 0.5], [0.5, 0.5]
    assert sinkhorn_distances([a], [b], M=M, reg=0.5, tol=1e-4, max_iter=100_000)[
        0, 0
    ] == pytest.approx(2.5, rel=1e-3)


def test_exact_distances_with_forbidden_moves(rng):
    M = forbidding(rng, 7, share=0.6)
    X = rng.gamma(0.5, size=(7, 7)) + 0.01
    X /= X.sum(axis=1, keepdims=True)
    D = emd_distances(X, M=M)
    expected = [[oracle.emd_plan_cost(a, b, M, 1 - 1e-9) for b in X] for a in X]
    np.testing.assert_allclose(D, expected, rtol=1e-6)
    assert np.isfinite(D).any()


# ---- exact plans -----------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    X=histograms(n_columns=n_bins, n_rows=2, allow_zero_rows=False, normalize="l1"),
    M=ground_distances(d=n_bins, kind="cost"),
)
def test_exact_plans_have_the_cost_of_the_distance(X, M):
    a, b = X
    plan = emd_plan(a, b, M=M)
    np.testing.assert_allclose(plan.sum(axis=1), a, atol=1e-12)
    np.testing.assert_allclose(plan.sum(axis=0), b, atol=1e-12)
    cost = emd_distances([a], [b], M=M)[0, 0]
    np.testing.assert_allclose(np.sum(plan * M), cost, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_exact_partial_plans(rng, unit):
    ot = pot()
    X, M = counts(rng, 2, 9)
    a, b = X
    for share in (0.3, 0.8, 1.0):
        mass = share * min(a.sum(), b.sum())
        plan = emd_plan(unit * a, unit * b, M=M, mass=unit * mass) / unit
        assert np.all(plan.sum(axis=1) <= a + 1e-9)
        assert np.all(plan.sum(axis=0) <= b + 1e-9)
        np.testing.assert_allclose(plan.sum(), mass, rtol=1e-9)
        cost = np.sum(plan * M)
        np.testing.assert_allclose(cost, oracle.emd_plan_cost(a, b, M, mass), rtol=1e-7, atol=1e-9)
        if share < 1:
            of_pot = ot.partial.partial_wasserstein(a, b, M, m=mass)
            np.testing.assert_allclose(cost, np.sum(of_pot * M), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(emd_plan(a, b, M=M, mass=0), np.zeros((9, 9)))


def test_sparse_rows_of_another_width(rng):
    X, _ = counts(rng, 3, 7)
    Y, _ = counts(rng, 2, 4)
    M = rng.random((7, 4))
    D = unbalanced_sinkhorn_distances(sparse.csr_matrix(X), Y, M=M, reg=0.2, reg_m=1.0, tol=1e-10)
    expected = [[oracle.unbalanced_costs(a, b, M, 0.2, (1.0, 1.0))[1] for b in Y] for a in X]
    np.testing.assert_allclose(D, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("large", [1e14, 1e16, 1e20, 1e300])
def test_large_costs_forbid_as_infinity_does(rng, large):
    for _ in range(30):
        a, b = rng.dirichlet(np.ones(8), 2)
        M = rng.random((8, 8))
        closed = rng.random((8, 8)) < 0.4
        closed[0], closed[:, 0] = False, False
        try:
            expected = np.sum(M * emd_plan(a, b, M=np.where(closed, np.inf, M)))
        except ValueError:
            continue
        plan = emd_plan(a, b, M=np.where(closed, large, M))
        assert not plan[closed].any()
        np.testing.assert_allclose(np.sum(M * plan), expected, rtol=1e-12)
        distance = emd_distances([a], [b], M=np.where(closed, large, M))[0, 0]
        np.testing.assert_allclose(distance, expected, rtol=1e-9)


@pytest.mark.parametrize("large", [1e10, 1e20, 1e300])
def test_what_has_to_cost_much_leaves_the_rest_at_its_best(rng, large):
    for _ in range(10):
        a, b = rng.dirichlet(np.ones(8), 2)
        M = rng.random((8, 8))
        # A constant of a row changes no best plan.
        M[0] = 0.0
        expected = np.sum(M * emd_plan(a, b, M=M))
        above = np.where(np.arange(8)[:, None] == 0, large, M)
        np.testing.assert_allclose(np.sum(M * emd_plan(a, b, M=above)), expected, rtol=1e-12)
