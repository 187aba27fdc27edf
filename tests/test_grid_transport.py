"""Transport without a matrix of all costs: on grids, between words of two texts, on lines."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from histrs.cluster import MetricKMeans
from histrs.metrics import emd_distances, sinkhorn_distances
from histrs.neighbors import MetricKNNClassifier
from histrs.prototypes import HistogramCompressor
from histrs.transport import (
    GridDistance,
    grid_ground_distance,
    sinkhorn,
    sinkhorn_barycenter,
    sinkhorn_divergences,
    sliced_wasserstein,
    wasserstein_1d,
)
from tests.oracles import transport as oracle

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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((4, 4), "euclidean", 1.0), "does not add up over axes.*grid_ground_distance"),
        (((4, 4), "cityblock", 2.0), "does not add up over axes"),
        (((4, 4), "chebyshev", 1.0), "does not add up over axes"),
        (((4, 0),), "positive lengths"),
        (((4, 4), "manhattan", 1.0), "metric = 'manhattan'"),
        (((4, 4), "euclidean", 2.0, -1.0), "spacing"),
    ],
)
def test_grids_whose_costs_do_not_add_up_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        GridDistance(*arguments)


def test_a_grid_of_another_size_is_refused():
    with pytest.raises(ValueError, match="grid of 6 cells, expected 5"):
        sinkhorn_distances(np.ones((2, 5)), M=GridDistance((2, 3)), reg=1.0)


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


def test_bad_positions(rng):
    X = texts(rng, 3)
    for options in ({}, {"M": np.zeros((300, 300)), "positions": np.zeros((300, 2))}):
        with pytest.raises(ValueError, match=r"^Give either M, the costs"):
            emd_distances(X, **options)
    with pytest.raises(ValueError, match=r"positions has shape \(299, 2\)"):
        sinkhorn_distances(X, positions=np.zeros((299, 2)), reg=1.0)
    positions = np.zeros((300, 2))
    positions[4, 1] = np.nan
    with pytest.raises(ValueError, match=r"positions\[4, 1\] = nan"):
        emd_distances(X, positions=positions)


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


def test_bad_arguments_of_lines(rng):
    X = rng.dirichlet(np.ones(4), size=2)
    with pytest.raises(ValueError, match="one number for each bin"):
        wasserstein_1d(X, positions=np.zeros((4, 2)))
    with pytest.raises(ValueError, match="n_projections = 0"):
        sliced_wasserstein(X, positions=np.zeros((4, 2)), n_projections=0)
