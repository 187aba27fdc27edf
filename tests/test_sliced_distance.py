"""The map of projections, and the kernel of distances that they stand for."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist

from histrs.gaussian_process import IntersectionGPRegressor
from histrs.kernel_approximation import SlicedDistanceMap
from histrs.kernel_approximation._sliced_distance import draw_directions, mean_projection
from histrs.metrics import energy_distance_kernel
from tests.helpers import assert_close
from tests.oracles import sliced as oracle

EVERY_KIND = pytest.mark.parametrize("directions", ["orthogonal", "gaussian", "structured"])


@pytest.fixture(name="X")
def _rows(rng):
    return rng.normal(size=(40, 5)) @ rng.normal(size=(5, 5)) - 3.0


# ---- the kernel that the distance induces --------------------------------------------------------


@settings(max_examples=40)
@given(st.data())
def test_energy_distance_kernel_is_its_definition(data):
    n_columns = data.draw(st.integers(0, 6))
    scale = 10.0 ** data.draw(st.sampled_from([-300, -20, 0, 20, 300]))
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    dtype = data.draw(st.sampled_from([np.float32, np.float64])) if scale == 1.0 else np.float64
    X, Y = (
        (scale * rng.integers(-2, 3, size=(rows, n_columns)) * rng.random(n_columns)).astype(dtype)
        for rows in data.draw(st.tuples(st.integers(0, 8), st.integers(0, 8)))
    )
    # Rows that are nearly equal.
    if len(X) > 0 and len(Y) > 0:
        Y[0] = X[0] * dtype(1 + 1e-6)
    container = data.draw(st.sampled_from([np.asarray, sparse.csr_array, sparse.csr_matrix]))
    K = energy_distance_kernel(container(X), container(Y))
    assert K.dtype == dtype
    expected = oracle.energy_distance_kernel(X, Y)
    lengths = np.linalg.norm(X / scale, axis=1)[:, None] + np.linalg.norm(Y / scale, axis=1)
    rounding = 1e-6 if dtype == np.float32 else 1e-12
    assert np.all(np.abs(K - expected) <= rounding * scale * lengths)


def test_energy_distance_kernel_keeps_the_distance_of_rows_that_are_nearly_equal(rng):
    x = rng.normal(size=(1, 6)) * 1e3
    step = np.zeros((1, 6))
    step[0, 2] = 1e-7
    lengths = np.linalg.norm(x), np.linalg.norm(x + step)
    for container in (np.asarray, sparse.csr_array):
        K = energy_distance_kernel(container(x), container(x + step))
        # Less than one digit of the distance is left when squares of 1e6 are subtracted.
        assert abs(sum(lengths) - 2.0 * K[0, 0] - 1e-7) < 1e-11


def test_energy_distance_kernel_of_one_argument(X):
    K = energy_distance_kernel(X)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(np.diag(K), np.linalg.norm(X, axis=1), rtol=1e-15)
    assert_close(K, energy_distance_kernel(X, X), 1e-15)
    assert np.linalg.eigvalsh(K).min() > 0.0


def test_energy_distance_kernel_does_not_make_sparse_rows_dense():
    # Dense, 80 GB.
    shape = (1000, 10**7)
    X = sparse.csr_array(([1.0, 2.0], ([0, 1], [0, 10**7 - 1])), shape=shape)
    np.testing.assert_allclose(energy_distance_kernel(X)[0, 1], (3 - np.sqrt(5)) / 2)


@pytest.mark.parametrize(("bad", "said"), [(np.nan, "NaN"), (-np.inf, "-inf")])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_what_is_no_number_is_refused_by_its_place(X, bad, said, container):
    Y = X.copy()
    Y[1, :] = 0.0
    Y[3, 2] = Y[5, 1] = bad
    with pytest.raises(ValueError, match=rf"^X\[3, 2\] = {said}: Input X contains NaN or inf"):
        energy_distance_kernel(container(Y))
    with pytest.raises(ValueError, match=rf"^Y\[3, 2\] = {said}: Input Y contains NaN or inf"):
        energy_distance_kernel(X, container(Y))
    sliced = SlicedDistanceMap(6, random_state=0).fit(X)
    for method in (sliced.fit, sliced.transform):
        with pytest.raises(ValueError, match=rf"^X\[3, 2\] = {said}"):
            method(container(Y))
    assert sliced.transform(X).shape == (40, 6)


def test_energy_distance_kernel_refuses_other_columns(X):
    with pytest.raises(ValueError, match="X has 5 columns but Y has 4"):
        energy_distance_kernel(X, X[:, :4])


# ---- directions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 10, 100, 1000])
def test_mean_projection_is_that_of_the_sphere(d):
    assert mean_projection(d) == pytest.approx(oracle.mean_projection(d), rel=1e-9)


def test_no_side_of_the_sphere_is_favoured():
    W = draw_directions(3, 6000, "orthogonal", np.random.RandomState(0))
    np.testing.assert_allclose(W.mean(axis=1), 0.0, atol=0.03)
    np.testing.assert_allclose(W @ W.T / 6000, np.eye(3) / 3, atol=0.03)


# ---- the map -------------------------------------------------------------------------------------


@EVERY_KIND
@pytest.mark.parametrize("with_metric", [False, True])
def test_transform_is_its_definition(rng, X, directions, with_metric):
    M = rng.normal(size=(5, 5)) if with_metric else None
    sliced = SlicedDistanceMap(12, directions=directions, metric=M, random_state=0).fit(X)
    Z = np.vstack([X, 10.0 * X])
    T = sliced.transform(Z)
    assert_close(T, oracle.projections(Z, sliced.directions_, sliced.offsets_), 1e-13)
    raw = X @ sliced.directions_
    np.testing.assert_allclose(sliced.offsets_, raw.min(axis=0) - 0.5 * raw.std(axis=0))
    assert T.min() == 0.0
    assert sliced.transform(X).min() > 0.0


@pytest.mark.parametrize("directions", ["orthogonal", "gaussian"])
def test_error_falls_with_the_number_of_projections(X, directions):
    errors, reported = [], []
    for n_projections in (10, 160, 2560):
        worst = []
        for seed in range(3):
            sliced = SlicedDistanceMap(n_projections, directions=directions, random_state=seed)
            T = sliced.fit_transform(X)
            K = oracle.sliced_kernel(T, T)
            worst.append(np.sqrt(np.mean((K - oracle.limit_kernel(X, X, T, T)) ** 2)))
            reported.append(sliced.kernel_error_)
        errors.append(np.mean(worst))
    # With sixteen times as many, a quarter.
    assert errors[1] < 0.5 * errors[0]
    assert errors[2] < 0.5 * errors[1]
    assert max(reported[-3:]) < 0.05


def test_orthogonal_directions_vary_less_than_independent_ones(rng):
    X = rng.normal(size=(60, 20))
    error = {
        kind: np.mean(
            [
                SlicedDistanceMap(40, directions=kind, random_state=seed).fit(X).kernel_error_
                for seed in range(5)
            ]
        )
        for kind in ("orthogonal", "gaussian")
    }
    assert error["orthogonal"] < error["gaussian"]


def test_reported_error_is_that_of_the_distances(rng, X):
    M = rng.normal(size=(5, 5))
    sliced = SlicedDistanceMap(30, metric=M, random_state=0).fit(X)
    T, Z = sliced.transform(X), X @ M.T
    estimate = cdist(T, T, "cityblock") / (30 * oracle.mean_projection(5))
    exact = cdist(Z, Z)
    pairs = np.triu_indices(len(X), 1)
    error = np.sqrt(np.mean((estimate - exact)[pairs] ** 2)) / exact[pairs].mean()
    assert sliced.kernel_error_ == pytest.approx(error, rel=1e-9)


def test_rotated_rows_have_the_same_kernel_under_rotated_directions(rng, X):
    Q = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    plain = SlicedDistanceMap(20, random_state=0).fit(X)
    # Rows Q x under the metric Q^T are the rows x.
    rotated = SlicedDistanceMap(20, metric=Q.T, random_state=0).fit(X @ Q.T)
    assert_close(rotated.transform(X @ Q.T), plain.transform(X), 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns_weight", [0.0, 2.0])
def test_sparse_rows_have_the_projections_of_dense_ones(rng, dtype, columns_weight):
    X = (rng.normal(size=(30, 8)) * (rng.random((30, 8)) < 0.3)).astype(dtype)
    dense, csr = (
        SlicedDistanceMap(10, columns_weight=columns_weight, random_state=0).fit(Z)
        for Z in (X, sparse.csr_array(X))
    )
    T = dense.transform(X)
    assert T.dtype == dtype
    relative = 1e-5 if dtype == np.float32 else 1e-12
    assert_close(csr.transform(sparse.csr_array(X)), T, relative)
    assert_close(dense.transform(sparse.csr_matrix(X)), T, relative)
    assert csr.kernel_error_ == pytest.approx(dense.kernel_error_, rel=1e-4)


def test_sparse_rows_are_not_made_dense(rng, monkeypatch):
    X = sparse.random_array((1000, 3000), density=0.001, random_state=rng, format="csr")
    made = []
    toarray = sparse.csr_array.toarray

    def watched(self, *arguments, **named):
        made.append(self.shape)
        return toarray(self, *arguments, **named)

    monkeypatch.setattr(sparse.csr_array, "toarray", watched)
    SlicedDistanceMap(4, directions="gaussian", random_state=0).fit(X).transform(X)
    # Those whose distances are measured.
    assert all(rows <= 500 for rows, _ in made)


def test_many_rows_are_projected_block_by_block(rng):
    X = rng.normal(size=(20_000, 3)) + 1e6
    sliced = SlicedDistanceMap(4, columns_weight=0.5, random_state=0).fit(X)
    raw = np.hstack([X @ sliced.directions_, 0.5 * X])
    low = raw.min(axis=0) - 0.5 * raw.std(axis=0)
    np.testing.assert_allclose(sliced.offsets_, low, rtol=1e-13)
    np.testing.assert_allclose(sliced.transform(X), raw - sliced.offsets_, atol=1e-8)


def test_names_of_projections(X):
    sliced = SlicedDistanceMap(2, columns_weight=1.0, random_state=0).fit(X)
    names = sliced.get_feature_names_out().tolist()
    assert names == [f"sliceddistancemap{k}" for k in range(7)]
    frame = sliced.set_output(transform="pandas").transform(X)
    assert frame.columns.tolist() == names


@pytest.mark.parametrize(
    "X", [np.full((10, 3), 7.0), np.zeros((1, 3)), np.full((4, 1), -2.0)], ids=repr
)
def test_rows_that_are_all_equal_have_projections_of_zero(X):
    sliced = SlicedDistanceMap(8, columns_weight=1.0, random_state=0).fit(X)
    assert sliced.kernel_error_ == 0.0
    np.testing.assert_allclose(sliced.transform(X), 0.0, atol=1e-12)
    assert np.all(np.isfinite(sliced.transform(X + 5.0)))


@pytest.mark.parametrize(
    "metric", [np.eye(4), np.ones(5), np.full((5, 5), np.nan)], ids=["small", "flat", "NaN"]
)
def test_a_metric_that_does_not_fit_is_refused_and_changes_nothing(X, metric):
    sliced = SlicedDistanceMap(6, random_state=0).fit(X)
    before = sliced.transform(X)
    with pytest.raises(ValueError, match="give a matrix of 5 x 5 finite numbers"):
        sliced.set_params(metric=metric).fit(X)
    np.testing.assert_array_equal(sliced.transform(X), before)


def test_a_model_of_histograms_finds_an_interaction_on_projections(rng):
    X = rng.uniform(-1.0, 1.0, size=(300, 2))
    y = X[:, 0] * X[:, 1]
    sliced = SlicedDistanceMap(200, random_state=0).fit(X[:200])
    model = IntersectionGPRegressor(random_state=0).fit(sliced.transform(X[:200]), y[:200])
    assert model.score(sliced.transform(X[200:]), y[200:]) > 0.9
