"""Optimal transport against its definitions, a linear program, and POT."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import euclidean_distances

from histrs.cluster import MetricKMeans
from histrs.metrics import (
    emd_distances,
    partial_sinkhorn_distances,
    sinkhorn_distances,
    unbalanced_sinkhorn_distances,
)
from histrs.neighbors import MetricKNNClassifier
from histrs.prototypes import HistogramCompressor
from histrs.testing import ground_distances, histograms
from histrs.transport import (
    GridDistance,
    TransportMap,
    centroid_bounds,
    emd_plan,
    grid_ground_distance,
    projection_bounds,
    relaxed_bounds,
    sinkhorn,
    sinkhorn_barycenter,
    sinkhorn_divergences,
    sliced_wasserstein,
    wasserstein_1d,
)
from tests.helpers import CONTAINERS, dense
from tests.oracles import transport as oracle

pytestmark = pytest.mark.simd_paths

n_bins = st.shared(st.integers(1, 17), key="n_bins")
DTYPES = [np.float32, np.float64]


def histograms_of_mass_1(**options):
    return histograms(
        n_columns=n_bins, normalize="l1", allow_zero_rows=False, format="any", **options
    )


def words(rng, n, d, smoothing=0.05):
    """Histograms over words at random positions, and the distances between those."""
    positions = rng.standard_normal((d, 3))
    M = np.linalg.norm(positions[:, None] - positions, axis=2)
    X = rng.gamma(0.5, size=(n, d)) + smoothing
    return X / X.sum(axis=1, keepdims=True), M


def expected_distances(X, Y, M, reg, distance=oracle.sinkhorn_distance):
    X, Y = dense(X).astype(float), dense(Y).astype(float)
    # Rounded histograms differ in mass, and the oracle has no plan between them.
    mass = X[:1].sum()
    X, Y = (Z * (mass / Z.sum(axis=1, keepdims=True)) for Z in (X, Y))
    return np.array([[distance(x, y, M, reg) for y in Y] for x in X]).reshape(len(X), len(Y))


# ---- the Sinkhorn distance ------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    X=histograms_of_mass_1(n_rows=(0, 5)),
    Y=histograms_of_mass_1(n_rows=(0, 5)),
    M=ground_distances(d=n_bins, kind="cost"),
    strength=st.sampled_from([0.05, 0.3, 3.0]),
)
def test_sinkhorn_distances_are_their_definition(X, Y, M, strength):
    reg = strength * max(float(M.max()), 1.0)
    D, info = sinkhorn_distances(X, Y, M=M, reg=reg, tol=1e-10, max_iter=20_000, return_info=True)
    assert info.converged.all()
    assert D.dtype == np.float64
    np.testing.assert_allclose(
        D, expected_distances(X, Y, M, reg), rtol=1e-7, atol=1e-7 * max(M.max(), 1e-300)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 2, 5, 6, 7, 31, 33, 64])
def test_sizes_and_many_pairs(rng, d, dtype):
    X, M = words(rng, 5, d)
    X = X.astype(dtype)
    Y = X[:3]
    reg = 0.2 * M.max() + 0.01
    D = sinkhorn_distances(X, Y, M=M, reg=reg)
    assert D.dtype == dtype
    atol = 1e-5 * max(M.max(), 1.0)
    np.testing.assert_allclose(D, expected_distances(X, Y, M, reg), atol=atol)
    symmetric = sinkhorn_distances(X, M=M, reg=reg)
    np.testing.assert_array_equal(symmetric, symmetric.T)
    np.testing.assert_allclose(symmetric[:, :3], D, atol=atol)


def test_more_pairs_than_lanes_and_blocks(rng):
    X, M = words(rng, 90, 12)
    D, info = sinkhorn_distances(X, M=M, reg=0.1, return_info=True)
    assert info.converged.all()
    # Every pair is the same alone.
    for i, j in [(0, 0), (3, 70), (89, 1), (89, 89)]:
        alone = sinkhorn_distances(X[[i]], X[[j]], M=M, reg=0.1)
        np.testing.assert_allclose(D[i, j], alone[0, 0], rtol=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_regularized_cost(rng, dtype):
    X, M = words(rng, 6, 11)
    D = sinkhorn_distances(X.astype(dtype), M=M, reg=0.6, cost="regularized", tol=1e-9)
    assert D.dtype == dtype
    expected = expected_distances(X, X, M, 0.6, oracle.regularized_cost)
    np.testing.assert_allclose(D, expected, atol=1e-9 if dtype is np.float64 else 1e-5)


def test_mass_scales_the_distance(rng):
    X, M = words(rng, 5, 9)
    D = sinkhorn_distances(X, M=M, reg=0.1, tol=1e-10)
    for mass in (1e-200, 7.0, 1e200):
        scaled = sinkhorn_distances(mass * X, M=M, reg=0.1, tol=1e-10)
        np.testing.assert_allclose(scaled, mass * D, rtol=1e-9)
    expected = expected_distances(7 * X, 7 * X, M, 0.6, oracle.regularized_cost)
    found = sinkhorn_distances(7 * X, M=M, reg=0.6, tol=1e-10, cost="regularized")
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_the_unit_of_the_ground_distance_does_not_matter(rng, scale):
    X, M = words(rng, 4, 9)
    D = sinkhorn_distances(X, M=M, reg=0.1, tol=1e-10)
    scaled = sinkhorn_distances(X, M=scale * M, reg=scale * 0.1, tol=1e-10)
    np.testing.assert_allclose(scaled, scale * D, rtol=1e-7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("strength", [1e-2, 1e-3, 2e-4])
def test_the_log_domain(rng, strength, dtype):
    # Beyond the range of double precision for the smaller two.
    X, M = words(rng, 4, 12)
    X = X.astype(dtype)
    reg = strength * M.max()
    D, info = sinkhorn_distances(X, M=M, reg=reg, tol=1e-7, max_iter=100_000, return_info=True)
    assert info.converged.all()
    exact = np.array([[oracle.emd(x, y, M) for y in X] for x in X.astype(float)])
    entropy = 2 * np.log(12)
    assert np.all(exact - 1e-5 <= D)
    assert np.all(exact + reg * entropy + 1e-5 >= D)


def test_the_domains_agree(rng):
    # The same problem with one remote empty bin, which alone makes the kernel underflow.
    X, M = words(rng, 6, 10)
    D = sinkhorn_distances(X, M=M, reg=0.1, tol=1e-10)
    for remote in (50.0, 1000.0):
        wide = np.pad(M, (0, 1), constant_values=remote)
        found = sinkhorn_distances(np.pad(X, ((0, 0), (0, 1))), M=wide, reg=0.1, tol=1e-10)
        np.testing.assert_allclose(found, D, rtol=1e-8)


def test_equal_histograms_converge_fast(rng):
    # Alternating would take thousands of iterations where bins keep their mass.
    X, M = words(rng, 20, 30, smoothing=0.0)
    for reg in (0.2, 0.01):
        _, info = sinkhorn_distances(X[[3]], X[[3]], M=M, reg=reg, tol=1e-10, return_info=True)
        assert info.n_iter[0, 0] < 40
    D = sinkhorn_distances(X, M=M, reg=0.5, tol=1e-10)
    expected = [oracle.sinkhorn_distance(x, x, M, 0.5) for x in X[:3]]
    np.testing.assert_allclose(np.diag(D)[:3], expected, rtol=1e-4)


def test_asymmetric_and_rectangular_ground_distances(rng):
    X, _ = words(rng, 5, 8)
    Y, _ = words(rng, 3, 13)
    M = rng.random((8, 13))
    np.testing.assert_allclose(
        sinkhorn_distances(X, Y, M=M, reg=0.1, tol=1e-10), expected_distances(X, Y, M, 0.1)
    )
    M = rng.random((8, 8))
    np.testing.assert_allclose(
        sinkhorn_distances(X, M=M, reg=0.1, tol=1e-10), expected_distances(X, X, M, 0.1)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reg", [0.2, 0.04, 0.01])
def test_the_number_of_threads_changes_no_bit(rng, reg, dtype):
    X, M = words(rng, 12, 13)
    X = X.astype(dtype)
    for distances, options in (
        (sinkhorn_distances, {}),
        (unbalanced_sinkhorn_distances, {"reg_m": 1.0}),
        (partial_sinkhorn_distances, {}),
    ):
        options |= {"M": M, "reg": reg, "tol": 1e-5, "max_iter": 50_000}
        one, two, seven = (distances(X, n_jobs=n, **options) for n in (1, 2, 7))
        np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(one, seven)


# ---- what goes wrong ------------------------------------------------------------------------


def test_a_pair_that_does_not_converge_is_named(rng):
    X, M = words(rng, 6, 10)
    with pytest.warns(ConvergenceWarning, match=r"of 36 pairs .* X\[\d\] and Y\[\d\] are off by"):
        D, info = sinkhorn_distances(X, M=M, reg=0.05, max_iter=3, return_info=True)
    assert np.isfinite(D).all()
    assert not info.converged.all()
    assert info.n_iter.max() == 3
    np.testing.assert_array_equal(info.converged, info.errors <= 1e-6)
    with pytest.warns(ConvergenceWarning, match="1 of 1 pairs"):
        sinkhorn([1, 2], [2, 1], M=rng.random((2, 2)), reg=0.01, max_iter=1, tol=1e-15)


@pytest.mark.parametrize("reg", [0.1, 0.003])
def test_an_unreachable_tolerance_ends(rng, reg):
    X, M = words(rng, 3, 10)
    with pytest.warns(ConvergenceWarning, match="did not converge in 50 iterations"):
        D = sinkhorn_distances(X, M=M, reg=reg, tol=1e-300, max_iter=50)
    assert np.isfinite(D).all()


def test_rounding_of_the_mass_is_allowed(rng):
    X, M = words(rng, 5, 200)
    X = X.astype(np.float32)
    assert len(np.unique(X.astype(float).sum(axis=1))) > 1
    sinkhorn_distances(X, M=M, reg=0.3)
    sinkhorn_distances(X.astype(float), M=M, reg=0.3)


# ---- plans and barycentres ------------------------------------------------------------------


@pytest.mark.parametrize("reg", [2.0, 0.3])
def test_a_plan_is_its_definition(rng, reg):
    X, M = words(rng, 2, 9)
    X[0, 3] = 0.0
    X[0] *= 1 / X[0].sum()
    plan = sinkhorn(X[0], X[1], M=M, reg=reg)
    np.testing.assert_allclose(plan, oracle.sinkhorn_plan(X[0], X[1], M, reg), atol=1e-8)
    assert not plan[3].any()


@pytest.mark.parametrize("reg", [0.3, 0.03, 0.002])
def test_the_marginals_of_a_plan(rng, reg):
    X, _ = words(rng, 2, 9)
    Y, _ = words(rng, 1, 14)
    M = rng.random((9, 14))
    plan = sinkhorn(3 * X[0], 3 * Y[0], M=M, reg=reg, tol=1e-8, max_iter=100_000)
    assert (plan >= 0).all()
    np.testing.assert_allclose(plan.sum(axis=1), 3 * X[0], atol=1e-7)
    np.testing.assert_allclose(plan.sum(axis=0), 3 * Y[0], atol=1e-7)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), M=ground_distances(n_bins), debiased=st.booleans(), seed=st.integers(0, 99))
def test_barycentres_are_their_definition(data, M, debiased, seed):
    X = data.draw(histograms_of_mass_1(n_rows=st.integers(1, 9)))
    weights = np.random.default_rng(seed).random((2, X.shape[0])) + 0.1
    scale = max(M.max(), 1e-300)
    M = M / scale
    options = {"M": M, "reg": 0.2, "weights": weights, "debiased": debiased, "tol": 1e-7}
    found, info = sinkhorn_barycenter(X, return_info=True, max_iter=100_000, **options)
    assert found.shape == (2, M.shape[1])
    np.testing.assert_allclose(found.sum(axis=1), dense(X)[0].sum(), rtol=1e-6)
    for n_jobs in (1, 2, 7):
        again = sinkhorn_barycenter(X, max_iter=100_000, n_jobs=n_jobs, **options)
        np.testing.assert_array_equal(again, found)
    if not debiased:
        for b, w in zip(found, weights, strict=True):
            expected = oracle.barycenter(dense(X), M, 0.2, w)
            np.testing.assert_allclose(b, expected, atol=1e-5 * expected.sum())
    assert info.converged.all()


@pytest.mark.parametrize(
    ("n", "reg"), [(1, 1.0), (9, 1.0), (1, 0.05), (9, 0.05), (1, 0.01), (3, 0.01)]
)
@pytest.mark.parametrize("empty", [0.0, 0.4])
def test_barycentres_in_every_domain(rng, reg, empty, n):
    X, M = words(rng, n, 23)
    X[rng.random(X.shape) < empty] = 0.0
    X[:, 0] += 0.01
    X /= X.sum(axis=1, keepdims=True)
    weights = rng.random(n) + 0.1
    expected = oracle.barycenter(X, M, reg, weights, tol=1e-8)
    options = {"M": M, "reg": reg, "tol": 1e-8, "max_iter": 50_000}
    found, info = sinkhorn_barycenter(X, weights=weights, return_info=True, **options)
    assert info.converged
    np.testing.assert_allclose(found, expected, atol=1e-6)
    # Rows without weight are not there.
    more = np.vstack([X, np.full(23, 1 / 23)])
    again = sinkhorn_barycenter(more, weights=[*weights, 0.0], **options)
    np.testing.assert_array_equal(again, found)


@pytest.mark.parametrize("reg", [0.2, 0.005])
def test_debiased_barycentres(rng, reg):
    places = np.linspace(0, 1, 30)
    M = np.square(places[:, None] - places)
    X = np.exp(-0.5 * np.square((places - [[0.3], [0.6]]) / 0.15))
    X /= X.sum(axis=1, keepdims=True)
    X32 = sparse.csr_array(X.astype(np.float32))
    options = {"M": M, "reg": reg, "debiased": True, "max_iter": 200_000}
    found = sinkhorn_barycenter(X32, weights=[2, 1], tol=1e-5, **options)
    expected = oracle.barycenter(X, M, reg, [2, 1], debiased=True, tol=1e-5, n_iter=200_000)
    np.testing.assert_allclose(found, expected, atol=2e-3)
    # Of one histogram it is that one.
    itself = sinkhorn_barycenter(X[:1], tol=1e-7, **options)
    np.testing.assert_allclose(itself, X[0], atol=2e-3)


def test_a_barycentre_goes_where_all_histograms_can():
    # Nothing can leave the second room.
    X = np.array([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]])
    M = 1.0 - np.eye(4)
    M[2:, :2] = np.inf
    b = sinkhorn_barycenter(X, M=M, reg=0.1)
    np.testing.assert_array_equal(b[:2], 0.0)
    np.testing.assert_allclose(b.sum(), 1.0)
    near = sinkhorn_barycenter(X, M=np.where(np.isinf(M), 100.0, M), reg=0.1)
    np.testing.assert_allclose(near, b, atol=1e-12)


def test_a_barycentre_that_does_not_converge(rng):
    X, M = words(rng, 3, 7)
    options = {"M": M, "max_iter": 2, "return_info": True}
    with pytest.warns(ConvergenceWarning, match="the barycentre did not converge in 2 iterations"):
        _, info = sinkhorn_barycenter(X, reg=0.1, **options)
    assert not info.converged
    assert info.errors > 1e-7
    with pytest.warns(
        ConvergenceWarning, match=r"2 of 2 barycentres.*a marginal of barycentre [01]"
    ):
        _, info = sinkhorn_barycenter(X, reg=1e-4, weights=[[1, 2, 3], [1, 1, 1]], **options)
    assert info.converged.tolist() == [False, False]
    assert info.n_iter.tolist() == [2, 2]


# ---- divergences ----------------------------------------------------------------------------


def test_divergences_are_their_definition_and_those_of_pot(rng):
    ot = pytest.importorskip("ot")
    X, M = words(rng, 5, 7)
    Y = words(rng, 4, 7)[0]
    found = sinkhorn_divergences(X, Y, M=M, reg=0.3)
    stored = sinkhorn_divergences(sparse.csr_array(X), sparse.csr_array(Y), M=M, reg=0.3)
    np.testing.assert_allclose(stored, found, atol=1e-8)

    def regularized(a, b):
        plan = ot.sinkhorn(a, b, M, 0.3, stopThr=1e-13, numItermax=20_000)
        return np.sum(plan * M) + 0.3 * np.sum(plan * np.log(plan))

    own = [np.array([regularized(a, a) for a in rows]) / 2 for rows in (X, Y)]
    between = np.array([[regularized(a, b) for b in Y] for a in X])
    np.testing.assert_allclose(found, between - own[0][:, None] - own[1], atol=1e-8)
    square = sinkhorn_divergences(X, M=M, reg=0.3)
    np.testing.assert_array_equal(np.diagonal(square), 0.0)
    np.testing.assert_allclose(square, sinkhorn_divergences(X, X, M=M, reg=0.3), atol=1e-8)
    assert np.all(square[~np.eye(5, dtype=bool)] > 0.0)
    single = sinkhorn_divergences(X.astype(np.float32), M=M, reg=0.3)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, square, atol=1e-5)


def test_divergences_take_distances_that_are_symmetric_but_for_rounding(rng):
    X = rng.dirichlet(np.ones(20), size=5)
    points = rng.normal(size=(20, 3))
    M = euclidean_distances(points)
    M[0, 1] *= 1.0 + 1e-15
    found = sinkhorn_divergences(X, M=M, reg=0.5)
    M = np.maximum(M, M.T)
    np.testing.assert_allclose(found, sinkhorn_divergences(X, M=M, reg=0.5), atol=1e-8)
    M[2, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        sinkhorn_divergences(X, M=M, reg=0.5)


# ---- ground distances of grids --------------------------------------------------------------


@pytest.mark.parametrize("shape", [1, 5, (3, 4), (2, 3, 4)])
@pytest.mark.parametrize("power", [1.0, 2.0, 0.5])
def test_grid_ground_distances_are_their_definition(shape, power):
    lengths = (shape,) if isinstance(shape, int) else shape
    spacing = np.arange(1.0, len(lengths) + 1)
    positions = [spacing * np.array(index) for index in np.ndindex(*lengths)]
    for metric, order in [("euclidean", 2), ("cityblock", 1), ("chebyshev", np.inf)]:
        M = grid_ground_distance(shape, metric, power=power, spacing=spacing)
        expected = [[np.linalg.norm(p - q, order) ** power for q in positions] for p in positions]
        np.testing.assert_allclose(M, expected)
        np.testing.assert_array_equal(M, M.T)


@pytest.mark.parametrize(
    ("shape", "cyclic"),
    [
        (5, True),
        ((4, 5), True),
        ((4, 5), (False, True)),
        ((2, 3, 6), (True, False, True)),
        (1, True),
    ],
)
def test_cyclic_axes_go_the_shorter_way_round(shape, cyclic):
    lengths = np.atleast_1d(shape)
    spacing = np.arange(1, len(lengths) + 1) / 2
    rounds = np.broadcast_to(cyclic, len(lengths))
    positions = np.indices(lengths).reshape(len(lengths), -1).T
    # The nearest of all copies of the grid.
    shifts = [(-n, 0, n) if is_round else (0,) for n, is_round in zip(lengths, rounds, strict=True)]
    copies = np.stack(np.meshgrid(*shifts), axis=-1).reshape(-1, len(lengths))
    difference = positions[:, None, None] - positions[None, :, None] + copies
    difference = np.abs(difference) * spacing
    norms = {
        "euclidean": np.sqrt(np.sum(difference**2, axis=-1)),
        "cityblock": np.sum(difference, axis=-1),
        "chebyshev": np.max(difference, axis=-1),
    }
    for metric, norm in norms.items():
        for power in (1.0, 2.0):
            M = grid_ground_distance(shape, metric, power=power, spacing=spacing, cyclic=cyclic)
            np.testing.assert_allclose(M, norm.min(axis=-1) ** power, rtol=1e-14, atol=1e-14)


# ---- the exact distance and its bounds ------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    X=histograms_of_mass_1(n_rows=(0, 4)),
    Y=histograms_of_mass_1(n_rows=(0, 4)),
    M=ground_distances(d=n_bins, kind="any"),
)
def test_emd_distances_are_the_linear_program(X, Y, M):
    D = emd_distances(X, Y, M=M)
    expected = expected_distances(X, Y, M, None, lambda x, y, M, _: oracle.emd(x, y, M))
    np.testing.assert_allclose(D, expected, atol=1e-9 * max(M.max(), 1.0))


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    levels=st.sampled_from([1, 2, 1000]),
    mass=st.sampled_from([1e-250, 1.0, 1e250]),
    cost=st.sampled_from([0.0, 1e-50, 1.0, 1e40]),
    seed=st.integers(0, 2**32 - 1),
)
def test_emd_distances_between_other_bins_at_any_scale(shape, levels, mass, cost, seed):
    # With few levels nearly every step of the simplex is degenerate.
    rng = np.random.default_rng(seed)
    n, m = shape
    X, Y = np.zeros((2, n)), np.zeros((2, m))
    for Z in (X, Y):
        for row in Z:
            np.add.at(row, rng.integers(len(row), size=24), 1.0)
    X[1] = X[0]
    M = rng.integers(levels, size=(n, m)) / levels
    D = emd_distances(mass * X, mass * Y, M=cost * M)
    expected = [[oracle.emd(x, y, M) for y in Y] for x in X]
    # Sums of scaled masses differ by rounding, which moves too.
    np.testing.assert_allclose(D / mass, cost * np.array(expected), rtol=1e-9, atol=1e-12 * cost)
    np.testing.assert_array_equal(D[0], D[1])
    for n_jobs in (1, 7):
        again = emd_distances(mass * X, mass * Y, M=cost * M, n_jobs=n_jobs)
        np.testing.assert_array_equal(again, D)


@pytest.mark.parametrize("container", ["C", "CSR array"])
@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_bounds_bound(rng, container, metric):
    shape = (3, 4)
    M = grid_ground_distance(shape, metric)
    positions = np.array(list(np.ndindex(*shape)), dtype=float)
    X, Y = rng.gamma(0.3, size=(9, 12)), rng.gamma(0.3, size=(7, 12))
    X[rng.random(X.shape) < 0.6], Y[rng.random(Y.shape) < 0.6] = 0.0, 0.0
    X[:, 2] += 0.1
    Y[:, 9] += 0.1
    X, Y = (Z / Z.sum(axis=1, keepdims=True) for Z in (X, Y))
    # Shifted copies, for which the centres of mass are as far apart as the histograms.
    X[0], Y[0] = np.eye(12)[0], np.eye(12)[11]
    exact = np.array([[oracle.emd(x, y, M) for y in Y] for x in X])
    X, Y = CONTAINERS[container](X), CONTAINERS[container](Y)
    centroid = centroid_bounds(X, Y, positions=positions)
    projection = projection_bounds(X, Y, positions=positions)
    relaxed = relaxed_bounds(X, Y, M=M)
    for bounds in (centroid, projection, relaxed):
        assert bounds.shape == exact.shape
        assert (bounds <= exact + 1e-8).all()
        assert np.mean(bounds / exact) > 0.3
    assert relaxed[0, 0] == pytest.approx(exact[0, 0])
    if metric == "euclidean":
        assert centroid[0, 0] == pytest.approx(exact[0, 0])
    np.testing.assert_allclose(relaxed_bounds(X, M=M), relaxed_bounds(X, X, M=M))
    for bound in (centroid_bounds, projection_bounds):
        np.testing.assert_allclose(
            bound(X, positions=positions), bound(X, X, positions=positions), atol=1e-12
        )


def test_projection_is_exact_on_a_line(rng):
    X, _ = words(rng, 6, 9)
    positions = rng.random(9)
    M = np.abs(positions[:, None] - positions)
    exact = [[oracle.emd(x, y, M) for y in X] for x in X]
    np.testing.assert_allclose(projection_bounds(X, positions=positions[:, None]), exact, atol=1e-9)


# ---- without a matrix of all costs: on grids, between words of two texts, on lines ---------------


GRIDS = [
    GridDistance((6, 7)),
    GridDistance((5, 4), "cityblock", power=1.0, spacing=(0.5, 2.0), cyclic=(True, False)),
    GridDistance((3, 4, 5)),
    GridDistance(9, "chebyshev", power=0.5),
]
# Largest costs over reg: of kernels in single and double precision, in few blocks, in many, and
# out of range.
STRENGTHS = [20.0, 200.0, 700.0, 3000.0, 40_000.0]


def matrix(grid):
    return grid_ground_distance(
        grid.shape_of_grid, grid.metric, power=grid.power, spacing=grid.spacing, cyclic=grid.cyclic
    )


def images(rng, n, M, empty=0.0):
    X = rng.gamma(0.3, size=(n, len(M))) + 1e-6
    X[rng.random(X.shape) < empty] = 0.0
    X[:, 0] += 0.01
    return X / X.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("grid", GRIDS, ids=repr)
def test_a_grid_stands_for_its_matrix(grid):
    np.testing.assert_allclose(np.asarray(grid), matrix(grid))
    assert grid.shape == matrix(grid).shape
    assert eval(repr(grid)) == grid


@pytest.mark.simd_paths
@pytest.mark.parametrize("strength", STRENGTHS)
@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@pytest.mark.parametrize("empty", [0.0, 0.8])
def test_distances_are_those_of_the_matrix(rng, grid, strength, empty):
    M = matrix(grid)
    X, Y = images(rng, 5, M, empty), images(rng, 4, M, empty)
    options = {"reg": M.max() / strength, "tol": 1e-11, "max_iter": 20_000}
    for cost in ("transport", "regularized"):
        expected, found = (sinkhorn_distances(X, Y, M=m, cost=cost, **options) for m in (M, grid))
        np.testing.assert_allclose(found, expected, atol=1e-9 * M.max())
    expected, found = (sinkhorn_divergences(X, M=m, **options) for m in (M, grid))
    np.testing.assert_allclose(found, expected, atol=1e-9 * M.max())
    expected, found = (sinkhorn(X[0], Y[0], M=m, **options) for m in (M, grid))
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.simd_paths
@pytest.mark.parametrize("strength", STRENGTHS[:-1])
@pytest.mark.parametrize("grid", GRIDS, ids=repr)
@pytest.mark.parametrize("debiased", [False, True])
def test_barycentres_are_those_of_the_matrix(rng, grid, strength, debiased):
    M = matrix(grid)
    weights = [[1, 0, 0], [1, 2, 3]]
    for empty in (0.0, 0.8):
        X = images(rng, 3, M, empty)
        options = {"reg": M.max() / strength, "weights": weights, "debiased": debiased}
        # As many steps of each, converged or not.
        options |= {"tol": 1.0, "max_iter": 40}
        expected, found = (sinkhorn_barycenter(X, M=m, **options) for m in (M, grid))
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_distances_of_large_images_are_their_definition(rng):
    """The same without a matrix: the oracle has bins with mass alone."""
    grid = GridDistance((64, 64), spacing=1 / 63)
    X = np.zeros((2, 64, 64))
    X[0, 10:14, 20:23], X[1, 30:33, 41:45] = rng.random((4, 3)), rng.random((3, 4))
    X = X.reshape(2, -1) / X.sum(axis=(1, 2))[:, None]
    used = np.flatnonzero(X.any(axis=0))
    places = np.array(np.unravel_index(used, (64, 64))).T / 63
    M = np.square(places[:, None] - places).sum(axis=2)
    found = sinkhorn_distances(X[:1], X[1:], M=grid, reg=0.004, tol=1e-10, max_iter=10_000)
    expected = oracle.sinkhorn_distance(X[0, used], X[1, used], M, 0.004)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_estimators_take_grids(rng):
    grid = GridDistance((5, 5))
    M = matrix(grid)
    X, y = images(rng, 24, M), np.arange(24) % 2
    X[y == 0, :10] *= 4
    X /= X.sum(axis=1, keepdims=True)
    knn = [
        MetricKNNClassifier(3, metric="sinkhorn", metric_params={"M": m, "reg": 1.0}).fit(X, y)
        for m in (M, grid)
    ]
    np.testing.assert_array_equal(*(model.kneighbors()[1] for model in knn))
    clusters = [
        MetricKMeans(2, metric="sinkhorn", metric_params={"M": m, "reg": 1.0}, random_state=0)
        for m in (M, grid)
    ]
    np.testing.assert_array_equal(*(model.fit_predict(X) for model in clusters))
    models = [
        HistogramCompressor(compression=0.2, M=m, reg=1.0, max_iter=2, random_state=0)
        for m in (M, grid)
    ]
    with pytest.warns(ConvergenceWarning):
        prototypes = [model.fit(X, y).prototypes_ for model in models]
    np.testing.assert_allclose(*prototypes, rtol=1e-6)


# ---- words ------------------------------------------------------------------------------------


def texts(rng, n, n_words=300, length=12):
    X = np.zeros((n, n_words))
    for row in X:
        np.add.at(row, rng.integers(n_words, size=length), 1)
    return X


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_distances_of_positions_are_those_of_their_matrix(rng, container):
    positions = rng.standard_normal((300, 7)) + 3.0
    M = np.linalg.norm(positions[:, None] - positions, axis=2)
    X, Y = texts(rng, 5), texts(rng, 600)
    for Z in (None, Y):
        left, right = container(X), None if Z is None else container(Z)
        expected = emd_distances(X / 12, None if Z is None else Z / 12, M=M)
        found = emd_distances(left, right, positions=positions)
        np.testing.assert_allclose(found, expected, atol=1e-9)
    options = {"reg": 0.5, "tol": 1e-10, "max_iter": 5000}
    expected, info = sinkhorn_distances(X / 12, Y / 12, M=M, return_info=True, **options)
    found, of_words = sinkhorn_distances(X, Y, positions=positions, return_info=True, **options)
    np.testing.assert_allclose(found, expected, atol=1e-8)
    assert info.converged.all()
    assert of_words.converged.all()
    assert of_words.n_iter.min() >= 1


def test_texts_without_words_are_infinitely_far(rng):
    positions = rng.standard_normal((300, 4))
    X, Y = texts(rng, 4), texts(rng, 5)
    X[2] = Y[[0, 3]] = 0.0
    with pytest.warns(UserWarning, match=r"rows of [XY] have no mass.*\(rows (2|0, 3)\)"):
        D = emd_distances(X, Y, positions=positions)
    assert np.isinf(D[2]).all()
    assert np.isinf(D[:, [0, 3]]).all()
    kept = np.ix_([0, 1, 3], [1, 2, 4])
    np.testing.assert_allclose(
        D[kept], emd_distances(X[[0, 1, 3]], Y[[1, 2, 4]], positions=positions)
    )


def test_neighbours_of_texts(rng):
    positions = rng.standard_normal((300, 4))
    X, y = texts(rng, 40), np.arange(40) % 2
    model = MetricKNNClassifier(2, metric="emd", metric_params={"positions": positions}).fit(X, y)
    D = emd_distances(X[:9], X, positions=positions)
    np.testing.assert_array_equal(
        model.kneighbors(X[:9])[1], np.argsort(D, axis=1, kind="stable")[:, :2]
    )


def test_costs_below_zero_by_rounding_are_zero(rng):
    vectors = rng.standard_normal((6, 3))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    M = 1 - vectors @ vectors.T
    np.fill_diagonal(M, -2e-16)
    X = rng.dirichlet(np.ones(6), size=3)
    np.testing.assert_allclose(emd_distances(X, M=M), emd_distances(X, M=np.maximum(M, 0)))
    with pytest.raises(ValueError, match=r"M\[1, 1\]"):
        emd_distances(X, M=M - 0.01 * np.eye(6)[1] * np.eye(6))


# ---- lines ------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_the_distance_over_a_line_is_exact(rng, container):
    ot = pytest.importorskip("ot")
    places = rng.standard_normal(40).round(1)
    X, Y = (rng.dirichlet(np.full(40, 0.3), size=n) for n in (3, 4))
    found = wasserstein_1d(container(X), container(Y), positions=places)
    M = np.abs(places[:, None] - places)
    np.testing.assert_allclose(found, emd_distances(X, Y, M=M), atol=1e-10)
    expected = [[ot.wasserstein_1d(places, places, x, y) for y in Y] for x in X]
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(wasserstein_1d(X), emd_distances(X, M=grid_ground_distance(40)))


def test_sliced_distances_are_those_of_pot(rng):
    ot = pytest.importorskip("ot")
    places = rng.standard_normal((30, 3))
    X = rng.dirichlet(np.full(30, 0.5), size=4)
    directions = np.random.RandomState(7).standard_normal((3, 20))
    directions /= np.linalg.norm(directions, axis=0)
    found = sliced_wasserstein(X, positions=places, n_projections=20, random_state=7)
    for i in range(4):
        for j in range(4):
            expected = ot.sliced_wasserstein_distance(
                places, places, X[i], X[j], projections=directions, p=1
            )
            np.testing.assert_allclose(found[i, j], expected, atol=1e-10)
    exact = emd_distances(X, positions=places)
    assert np.all(found <= exact + 1e-9)


# ---- maps between samples ------------------------------------------------------------------------


@pytest.fixture
def samples(rng):
    return rng.standard_normal((40, 3)), 2.0 * rng.random((31, 3)) + [5.0, 0.0, -300.0]


@pytest.mark.parametrize("reg", [0.02, 0.5])
def test_rows_of_the_fit_go_to_the_means_of_the_plan(samples, reg):
    X, Y = samples
    model = TransportMap(reg, tol=1e-10, max_iter=100_000).fit(X, Y)
    M = np.square(X[:, None] - Y).sum(axis=2)
    plan = sinkhorn(np.full(40, 1 / 40), np.full(31, 1 / 31), M=M, reg=model.reg_)
    np.testing.assert_allclose(model.transform(X), 40 * plan @ Y, atol=1e-6)


def test_new_rows_are_moved_as_their_neighbours_are(samples):
    X, Y = samples
    model = TransportMap().fit(X, Y)
    moved = model.transform(X)
    np.testing.assert_allclose(model.transform(X + 1e-9), moved, atol=1e-6)
    np.testing.assert_allclose(model.transform(X[3:4]), moved[3:4], rtol=1e-12)
    assert moved.min() >= Y.min()
    assert moved.max() <= Y.max()


def test_a_smooth_map_is_found(rng):
    X = rng.standard_normal((600, 2))
    A = np.array([[2.0, 0.5], [0.5, 1.0]])  # the gradient of a convex function
    model = TransportMap(0.01, max_iter=20_000).fit(X[:300], X[300:] @ A + [9.0, 0.0])
    new = rng.standard_normal((200, 2)) * 0.7
    error = model.transform(new) - (new @ A + [9.0, 0.0])
    assert np.sqrt(np.mean(error**2)) < 0.35


@pytest.mark.parametrize("unit", [2.0**-500, 2.0**500])
def test_units_of_samples_do_not_matter(samples, unit):
    X, Y = samples
    moved = TransportMap().fit(X, Y).transform(X)
    np.testing.assert_allclose(
        TransportMap().fit(unit * X, unit * Y).transform(unit * X) / unit, moved
    )


def test_single_precision_and_equal_rows(samples):
    X, Y = (np.float32(Z) for Z in samples)
    assert TransportMap().fit(X, Y).transform(X).dtype == np.float32
    np.testing.assert_array_equal(TransportMap().fit(X[:1], Y[:1]).transform(X), Y[[0] * 40])


def test_bad_samples_are_refused(samples):
    X, Y = samples
    model = TransportMap().fit(X, Y)
    before = model.transform(X)
    with pytest.raises(ValueError, match="y has 2 columns but X has 3"):
        model.fit(X, Y[:, :2])
    with pytest.raises(ValueError, match="y contains NaN"):
        model.fit(X, np.full((3, 3), np.nan))
    with pytest.raises(ValueError, match="reg"):
        clone(model).set_params(reg=0.0).fit(X, Y)
    with pytest.raises(ValueError, match="3 features"):
        model.transform(Y[:, :2])
    np.testing.assert_array_equal(model.transform(X), before)
    with pytest.warns(ConvergenceWarning, match="did not converge in 1 iterations"):
        TransportMap(0.001, max_iter=1).fit(X, Y)


# ---- what is refused -------------------------------------------------------------------------

EVEN, HALVES = np.full((4, 4), 0.25), np.full((3, 2), 0.5)
THIRDS, TEXTS = np.full((2, 3), 1 / 3), np.full((2, 300), 1 / 300)
APART = 1 - np.eye(4)
# With one cost that is not the same on the way back.
SKEW = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0))) + np.eye(6, k=1) * 0.5
MASSES = [[2.0, 1.0], [0.5, 0.0]]


def with_entry(table, place, value):
    table = np.array(table, dtype=float)
    table[place] = value
    return table


def barycentre(**options):
    return partial(
        sinkhorn_barycenter,
        **{"X": [[1, 0, 0], [0, 0, 1]], "M": 1 - np.eye(3), "reg": 0.1, **options},
    )


REFUSED = [
    *[(message, partial(sinkhorn_distances, container(with_entry(EVEN, (2, 1), entry)), M=APART,
                        reg=1.0))
      for container in (np.asarray, sparse.csr_array)
      for entry, message in (
          (-0.25, r"X\[2, 1\] = -0\.25.*clip"), (np.nan, r"X\[2, 1\] = NaN.*impute"),
          (9.0, r"X\[2\] sums to .*, and X\[0\] to 1.*divide each row by its sum"))],
    (r"Y\[3\] sums to 0, .*drop empty rows",
     lambda: sinkhorn_distances(EVEN, with_entry(EVEN, 3, 0.0), M=APART, reg=1.0)),
    (r"X\[0\] sums to 0", lambda: sinkhorn_distances(0 * EVEN, M=APART, reg=1.0)),
    *[(message, partial(sinkhorn_distances, EVEN, **{"M": APART, "reg": 1.0, **options}))
      for options, message in (
          ({"M": np.eye(3)}, r"shape \(3, 3\), expected \(4, 4\): a row for each column of X"),
          ({"M": np.ones((4, 5))}, r"M has shape \(4, 5\)"),
          ({"M": np.diag([0, 0, -1.0, 0])}, r"M\[2, 2\] = -1: costs must not be neg"),
          ({"M": np.diag([0, 0, 0, np.nan])}, r"M\[3, 3\] = NaN"),
          ({"M": np.zeros(4)}, "(?i)expected 2d array"),
          ({"M": GridDistance((2, 3))}, "grid of 6 cells, expected 4"),
          ({"reg": 0.0}, "reg = 0 is out of range.*positive"), ({"reg": -1.0}, "reg = -1"),
          ({"reg": np.nan}, "reg = NaN"),
          ({"reg": 1e-10}, "underflows.*raise it, or compute the exact distance, emd_distances"),
          ({"tol": 0.0}, "tol = 0 is out of range"), ({"tol": np.nan}, "tol = NaN"),
          ({"max_iter": 0}, "max_iter = 0: must be at least 1"),
          ({"cost": "exact"}, "cost = 'exact': must be"), ({"n_jobs": 0}, "n_jobs == 0"))],
    ("one-dimensional: sinkhorn_distances takes many rows",
     lambda: sinkhorn(np.ones((1, 2)), np.ones(2), M=np.eye(2), reg=1.0)),
    (r"Y\[0\] sums to 3, and X\[0\] to 2", lambda: sinkhorn([1, 1], [1, 2], M=np.eye(2), reg=1.0)),
    ("max_iter = 0", lambda: sinkhorn([1, 1], [1, 1], M=np.eye(2), reg=1.0, max_iter=0)),
    *[(message, barycentre(**options)) for options, message in (
          ({"X": np.zeros((0, 3))}, "no rows"),
          ({"X": [[1, 0, 0], [1, 1, 0]]}, r"X\[1\] sums to 2, and X\[0\] to 1"),
          ({"M": np.eye(2)}, r"M has shape \(2, 2\), expected \(3, 2\)"),
          ({"M": -np.eye(3)}, r"M\[0, 0\] = -1"),
          ({"reg": 1e-10}, "reg = 0.0000000001 is out of range: it underflows"),
          ({"reg": np.nan}, "reg = NaN"),
          ({"tol": 0.0}, "tol = 0"),
          ({"max_iter": 0}, "max_iter = 0"),
          ({"weights": [1, 2, 3]}, r"weights has shape \(3,\), expected \(2,\)"),
          ({"weights": np.ones((1, 1, 2))}, r"weights has shape \(1, 1, 2\)"),
          ({"weights": [1, -2]}, r"weights\[1\] = -2"),
          ({"weights": [[1, 1], [np.nan, 0]]}, r"weights\[1, 0\] = nan"),
          ({"weights": [0, 0]}, "weights sum to 0"),
          ({"weights": [[1, 1], [0, 0]]}, r"weights\[1\] sum to 0"),
          ({"M": np.where(np.eye(3) > 0, 0.0, np.inf)}, r"X\[0\] has mass in bin 0: M allows"),
          ({"M": np.arange(9.0).reshape(3, 3), "debiased": True}, r"not symmetric.*M\[0, 1\]"),
          ({"M": np.eye(3, 2), "debiased": True}, "number of columns of M"),
          ({"M": np.full((3, 3), np.inf), "debiased": True}, r"finite diagonal, at M\[0, 0\]"),
    )],
    (r"M is not symmetric, at M\[0, 1\]", lambda: sinkhorn_divergences(EVEN[:, [0] * 6], M=SKEW,
                                                                      reg=0.3)),
    ("M is not symmetric", lambda: sinkhorn_divergences(EVEN, EVEN[:, :3] / 0.75, M=SKEW[:4, :3],
                                                        reg=0.3)),
    ("M has shape", lambda: sinkhorn_divergences(EVEN, M=np.eye(5), reg=0.3)),
    *[(r"cyclic = .*True or False", partial(grid_ground_distance, (3, 4), cyclic=cyclic))
      for cyclic in (1, (True, False, True), "yes", [0.5, 1.0])],
    *[(message, partial(grid_ground_distance, **options)) for options, message in (
          ({"shape": 0}, "shape = 0: must be one or more positive lengths"),
          ({"shape": ()}, "positive lengths"), ({"shape": 3, "power": 0}, "power = 0"),
          ({"shape": 3, "metric": "cosine"}, "metric = 'cosine': must be one of 'euclidean'"),
          ({"shape": 3, "spacing": [1, 2]}, "spacing"),
          ({"shape": 3, "spacing": -1}, "spacing = -1"), ({"shape": 1.5}, r"integers, got 1\.5"))],
    *[(message, partial(GridDistance, *arguments)) for arguments, message in (
          (((4, 4), "euclidean", 1.0), "does not add up over axes.*grid_ground_distance"),
          (((4, 4), "cityblock", 2.0), "does not add up over axes"),
          (((4, 4), "chebyshev", 1.0), "does not add up over axes"),
          (((4, 0),), "positive lengths"), (((4, 4), "manhattan", 1.0), "metric = 'manhattan'"),
          (((4, 4), "euclidean", 2.0, -1.0), "spacing"))],
    (r"M\[0, 1\] = -1: costs must not be neg", lambda: emd_distances(HALVES, M=[[0, -1], [1, 0]])),
    (r"Y\[0\] sums to 2, and X\[0\] to 1",
     lambda: emd_distances(HALVES, 2 * HALVES, M=1 - np.eye(2))),
    (r"X\[1, 0\] = NaN",
     lambda: emd_distances(with_entry(HALVES, (1, 0), np.nan), M=1 - np.eye(2))),
    (r"positions has shape \(2, 1\), expected \(3, n_dim",
     lambda: centroid_bounds(THIRDS, positions=[[0], [1]])),
    (r"positions\[1, 0\] = nan: give finite numbers",
     lambda: projection_bounds(THIRDS, positions=[[0], [np.nan], [1]])),
    ("X has 3 columns but Y has 2; give both the same bins",
     lambda: centroid_bounds(THIRDS, HALVES[:2], positions=[[0], [1], [2]])),
    (r"^Give either M, the costs", lambda: emd_distances(TEXTS)),
    (r"^Give either M, the costs",
     lambda: emd_distances(TEXTS, M=np.zeros((300, 300)), positions=np.zeros((300, 2)))),
    (r"positions has shape \(299, 2\)",
     lambda: sinkhorn_distances(TEXTS, positions=np.zeros((299, 2)), reg=1.0)),
    (r"positions\[4, 1\] = nan",
     lambda: emd_distances(TEXTS, positions=with_entry(np.zeros((300, 2)), (4, 1), np.nan))),
    ("one number for each bin", lambda: wasserstein_1d(EVEN, positions=np.zeros((4, 2)))),
    ("n_projections = 0",
     lambda: sliced_wasserstein(EVEN, positions=np.zeros((4, 2)), n_projections=0)),
    *[(message, partial(unbalanced_sinkhorn_distances, EVEN, M=APART,
                        **{"reg": 1.0, "reg_m": 1.0, **options})) for options, message in (
          ({"reg_m": 0.0}, "reg_m = 0 is out of range: it must be positive"),
          ({"reg_m": -1.0}, "reg_m = -1"), ({"reg_m": np.nan}, "reg_m = NaN"),
          ({"reg_m": np.inf}, "reg_m = inf .*sinkhorn_distances keeps both"),
          ({"reg_m": 1e10}, "at most a billion times reg"),
          ({"reg_m": [1, 2, 3]}, r"reg_m has shape \(3,\)"),
          ({"reg_m": "much"}, "reg_m is not an array of numbers"),
          ({"reg": 0.0}, "reg = 0 is out of range"), ({"tol": 0.0}, "tol = 0 is out of range"),
          ({"max_iter": 0}, "max_iter = 0: must be at least 1"),
          ({"cost": "exact"}, 'cost = "exact" is not known'))],
    *[(message, partial(distances, X, **{"M": 1 - np.eye(2), "reg": 1.0, **options}))
      for distances in (partial(unbalanced_sinkhorn_distances, reg_m=1.0),
                        partial_sinkhorn_distances)
      for X, options, message in (
          ([[1, 1]], {"Y": [[1.0, -1.0]]}, r"Y\[0, 1\] = -1"),
          ([[1, 1]], {"Y": [[1.0, np.nan]]}, r"Y\[0, 1\] = NaN"),
          ([[1, 1]], {"M": np.eye(2) - 1}, r"M\[0, 1\] = -1: costs must not be negative"),
          ([[1, 1, 1]], {}, r"M has shape \(2, 2\), expected \(3, 3\)"))],
    *[(message, partial(partial_sinkhorn_distances, X, Y, M=1 - np.eye(2), reg=1.0, **options))
      for X, Y, options, message in (
          (MASSES, None, {"mass": 1.0}, r"X\[1\] sums to 0.5, but mass = 1"),
          (MASSES[:1], MASSES, {"mass": 1.0}, r"Y\[1\] sums to 0.5"),
          (MASSES, None, {"cost": "penalized"}, "cost = 'penalized': must be"),
          *[(MASSES, None, {"mass": bad}, "must be finite and not negative")
            for bad in (-1.0, np.inf, np.nan)])],
    *[(message, partial(emd_plan, a, b, **{"M": 1 - np.eye(2), **options}))
      for a, b, options, message in (
          ([1.0, 0.0], [1.0, 1.0], {}, r"Y\[0\] sums to 2, and X\[0\] to 1"),
          ([4.0, 0.0], [1.0, 0.0], {"mass": 2}, "mass = 2, but b sums to 1"),
          ([1.0, 0.0], [1.0, 0.0], {"mass": -1}, "must be finite and not negative"),
          ([[1.0]], [1.0], {"M": [[0.0]]}, "must be one-dimensional"),
          *[([1.0, 0.0], [1.0, 0.0], {"M": np.full((2, 2), np.inf), "mass": mass},
             "no plan between a and b is allowed") for mass in (None, 0.5)],
          ([1.0, 0.0], [1.0, 0.0], {"M": np.full((2, 2), np.nan)},
           r"M\[0, 0\] = nan: costs must not be negative"))],
]  # fmt: skip


@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_what_is_bad_is_named(message, call):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
