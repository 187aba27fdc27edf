"""Optimal transport against its definitions, a linear program, and POT."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from histrs.metrics import sinkhorn_distances
from histrs.testing import ground_distances, histograms
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
    """Histograms over words at random places, and the distances between those."""
    places = rng.standard_normal((d, 3))
    M = np.linalg.norm(places[:, None] - places, axis=2)
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


def test_empty_bins_are_exact(rng):
    X, M = words(rng, 6, 14)
    X[:, [0, 5, 13]] = 0.0
    X[2, :12] = 0.0
    X[2, 12] = 1.0
    X /= X.sum(axis=1, keepdims=True)
    kept = X.any(axis=0)
    found = sinkhorn_distances(X, M=M, reg=0.1, tol=1e-10)
    np.testing.assert_allclose(
        found, sinkhorn_distances(X[:, kept], M=M[np.ix_(kept, kept)], reg=0.1, tol=1e-10)
    )
    # One bin: all of its mass moves.
    np.testing.assert_allclose(found[2], X @ M[12], atol=1e-9)


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_containers_do_not_matter(rng, container):
    X, M = words(rng, 7, 15)
    X[rng.random(X.shape) < 0.6] = 0.0
    X[:, 3] += 0.01
    X /= X.sum(axis=1, keepdims=True)
    expected = sinkhorn_distances(X, X[:4], M=M, reg=0.2)
    for pair in [(container(X), X[:4]), (X, container(X[:4])), (container(X), container(X[:4]))]:
        np.testing.assert_allclose(
            sinkhorn_distances(*pair, M=M, reg=0.2), expected, rtol=1e-5, atol=1e-6
        )


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


@settings(max_examples=30, deadline=None)
@given(
    X=histograms_of_mass_1(n_rows=(1, 4), density=1.0),
    M=ground_distances(d=n_bins, kind="metric"),
    seed=st.integers(0, 9),
)
def test_the_order_of_bins_does_not_matter(X, M, seed):
    reg = 0.2 * max(float(M.max()), 1.0)
    order = np.random.default_rng(seed).permutation(len(M))
    D = sinkhorn_distances(X, M=M, reg=reg, tol=1e-9)
    permuted = sinkhorn_distances(dense(X)[:, order], M=M[np.ix_(order, order)], reg=reg, tol=1e-9)
    np.testing.assert_allclose(permuted, D, rtol=1e-6, atol=1e-6 * max(M.max(), 1.0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reg", [0.2, 0.04, 0.01])
def test_the_number_of_threads_changes_no_bit(rng, reg, dtype):
    X, M = words(rng, 12, 13)
    X = X.astype(dtype)
    one, two, seven = (
        sinkhorn_distances(X, M=M, reg=reg, tol=1e-5, max_iter=50_000, n_jobs=n) for n in (1, 2, 7)
    )
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(one, seven)


def test_pot_agrees(rng):
    ot = pytest.importorskip("ot", reason="POT is not installed: pip install histrs[emd]")
    X, M = words(rng, 5, 30)
    D = sinkhorn_distances(X, M=M, reg=0.6, tol=1e-10)
    peers = [[ot.sinkhorn2(x, y, M, 0.6, stopThr=1e-12, numItermax=20_000) for y in X] for x in X]
    np.testing.assert_allclose(D, peers, rtol=1e-7)


# ---- what goes wrong ------------------------------------------------------------------------


def test_a_pair_that_does_not_converge_is_named(rng):
    X, M = words(rng, 6, 10)
    with pytest.warns(ConvergenceWarning, match=r"of 36 pairs .* X\[\d\] and Y\[\d\] are off by"):
        D, info = sinkhorn_distances(X, M=M, reg=0.05, max_iter=3, return_info=True)
    assert np.isfinite(D).all()
    assert not info.converged.all()
    assert info.n_iter.max() == 3
    np.testing.assert_array_equal(info.converged, info.errors <= 1e-6)


@pytest.mark.parametrize("reg", [0.1, 0.003])
def test_an_unreachable_tolerance_ends(rng, reg):
    X, M = words(rng, 3, 10)
    with pytest.warns(ConvergenceWarning, match="did not converge in 50 iterations"):
        D = sinkhorn_distances(X, M=M, reg=reg, tol=1e-300, max_iter=50)
    assert np.isfinite(D).all()


BAD_HISTOGRAMS = {
    "negative": (-0.25, r"X\[2, 1\] = -0\.25.*clip"),
    "NaN": (np.nan, r"X\[2, 1\] = NaN.*impute"),
    "mass": (9.0, r"X\[2\] sums to .*, and X\[0\] to 1.*divide each row by its sum"),
}


@pytest.mark.parametrize("container", ["C", "CSR array"])
@pytest.mark.parametrize(("entry", "message"), BAD_HISTOGRAMS.values(), ids=BAD_HISTOGRAMS)
def test_bad_histograms_are_named(entry, message, container):
    X = np.full((4, 4), 0.25)
    X[2, 1] = entry
    with pytest.raises(ValueError, match=message):
        sinkhorn_distances(CONTAINERS[container](X), M=np.eye(4), reg=1.0)


def test_rows_without_mass_are_named():
    X = np.full((4, 4), 0.25)
    Y = X.copy()
    Y[3] = 0.0
    with pytest.raises(ValueError, match=r"Y\[3\] sums to 0, .*drop empty rows"):
        sinkhorn_distances(X, Y, M=np.eye(4), reg=1.0)
    with pytest.raises(ValueError, match=r"X\[0\] sums to 0"):
        sinkhorn_distances(0 * X, M=np.eye(4), reg=1.0)


def test_rounding_of_the_mass_is_allowed(rng):
    X, M = words(rng, 5, 200)
    X = X.astype(np.float32)
    assert len(np.unique(X.astype(float).sum(axis=1))) > 1
    sinkhorn_distances(X, M=M, reg=0.3)
    sinkhorn_distances(X.astype(float), M=M, reg=0.3)


@pytest.mark.parametrize(
    ("M", "message"),
    [
        (np.eye(3), r"M has shape \(3, 3\), expected \(4, 4\): a row for each column of X"),
        (np.ones((4, 5)), r"M has shape \(4, 5\)"),
        (np.diag([0, 0, -1.0, 0]), r"M\[2, 2\] = -1: a ground distance is finite and non-neg"),
        (np.diag([0, 0, 0, np.nan]), r"M\[3, 3\] = NaN"),
        (np.diag([0, np.inf, 0, 0]), r"M\[1, 1\] = inf.*large cost"),
        (np.zeros(4), "(?i)expected 2d array"),
    ],
)
def test_bad_ground_distances_are_named(M, message):
    with pytest.raises(ValueError, match=message):
        sinkhorn_distances(np.full((2, 4), 0.25), M=M, reg=1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reg": 0.0}, "reg = 0 is out of range.*positive"),
        ({"reg": -1.0}, "reg = -1"),
        ({"reg": np.nan}, "reg = NaN"),
        ({"reg": 1e-10}, "it underflows.*raise it, or compute the exact distance, emd_distances"),
        ({"reg": 1.0, "tol": 0.0}, "tol = 0 is out of range"),
        ({"reg": 1.0, "tol": np.nan}, "tol = NaN"),
        ({"reg": 1.0, "max_iter": 0}, "max_iter = 0: must be at least 1"),
        ({"reg": 1.0, "cost": "exact"}, "cost = 'exact': must be"),
        ({"reg": 1.0, "n_jobs": 0}, "n_jobs == 0"),
    ],
)
def test_bad_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        sinkhorn_distances(np.full((2, 4), 0.25), M=1 - np.eye(4), **options)
