"""Variances from what is solved once, and the space and rows that they are read from."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process._posterior import cached_variance as _cached_variance
from histrs.gaussian_process._posterior import subspace as _subspace
from histrs.gaussian_process._posterior.subspace import (
    _APART,
    N_PROBES,
    KrylovSpace,
    NearbyRows,
    _cells,
    _factor,
    new_directions,
)
from histrs.gaussian_process._systems.system import LEAST_NOISE
from tests.helpers import build, dense, of_terms
from tests.oracles.conditioning import variance_in_subspace, without_row
from tests.oracles.intersection import intersection_kernel


def additive(rng, n=1500, d=8):
    X = rng.random((n, d))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.normal(size=n)


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X - X.min(axis=0), y


DATA = {
    "additive": lambda: additive(np.random.default_rng(0)),
    "diabetes": diabetes,
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
}


@pytest.mark.parametrize("name", [*list(DATA)[:3], pytest.param("digits", marks=pytest.mark.slow)])
def test_standard_deviations_are_near_the_exact_ones(name):
    X, y = DATA[name]()
    train = np.random.default_rng(0).random(len(y)) < 0.7
    regression = name in ("additive", "diabetes")
    model_class = IntersectionGPRegressor if regression else IntersectionGPClassifier
    model = model_class(variance="cached", random_state=0).fit(X[train], y[train])
    std = model.predict(X[~train], return_std=True)[1]
    measured = model.std_error_
    exact = model.set_params(variance="exact").predict(X[~train], return_std=True)[1]
    assert model.std_error_ == 0.0
    error = np.abs(std / exact - 1.0)
    assert error.mean() < 0.015
    assert np.quantile(error, 0.99) < 0.06
    # What the model says of itself is honest.
    assert error.mean() / 3.0 < measured < 0.015 * 3.0


def test_auto_is_exact_where_there_is_a_factor(rng):
    X, y = additive(rng, 200)
    model = IntersectionGPRegressor(random_state=0).fit(X, y)
    expected = model.predict(X, return_std=True)[1]
    assert model.std_error_ == 0.0
    exact = model.set_params(variance="exact").predict(X, return_std=True)[1]
    np.testing.assert_array_equal(expected, exact)
    model.set_params(variance="auto", solver="cg").fit(X, y)
    assert 0.0 < model.std_error_ < 0.02
    for bound in ("fine", "coarse"):
        with pytest.raises(AttributeError, match="has no std_error_"):
            _ = model.set_params(variance=bound).std_error_


@pytest.mark.parametrize("times", [2, 40])
def test_rows_that_repeat(rng, times):
    X, y = additive(rng, 60, 3)
    X, y = np.tile(X, (times, 1)), np.tile(y, times) + 0.1 * rng.normal(size=60 * times)
    parameters = {"solver": "cg", "optimizer": None}
    model = build(IntersectionGPRegressor, variance="cached", **parameters).fit(X, y)
    X_star, _ = additive(rng, 60, 3)
    std = model.predict(X_star, return_std=True)[1]
    exact = model.set_params(variance="exact", tol=1e-8).predict(X_star, return_std=True)[1]
    assert np.mean(np.abs(std / exact - 1.0)) < 0.015


def test_rows_that_come_and_go_are_counted(rng):
    X, y = additive(rng, 400)
    parameters = {
        "variance": "cached",
        "optimizer": None,
        "solver": "cg",
        "feature_weights": None,
        "intercept_variance": 0.0,
    }
    model = build(IntersectionGPRegressor, **parameters).fit(X[:200], y[:200])
    before = model.latent_mean_and_variance(X[200:])[1]
    model.partial_fit(X[200:], y[200:])
    after = model.latent_mean_and_variance(X[200:])[1]
    assert np.all(after < before)


@pytest.mark.parametrize("n", [1500, 3000, pytest.param(5000, marks=pytest.mark.slow)])
def test_a_second_call_says_the_same(n):
    # What is cached was solved by a factor, which made later answers exact ones.
    rng = np.random.default_rng(0)
    X = rng.random((n, 8))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)
    model = IntersectionGPRegressor(optimizer=None, noise=0.05, random_state=0).fit(X, y)
    T = rng.random((20, 8))
    before = model.std_error_
    first, second = (model.predict(T, return_std=True)[1] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert model.std_error_ == before


def test_rows_of_zeros():
    X, y = np.zeros((30, 4)), np.arange(30) % 2
    model = IntersectionGPRegressor(
        optimizer=None, solver="cg", variance="cached", random_state=0
    ).fit(X, y)
    _, std = model.predict(X[:3], return_std=True)
    np.testing.assert_allclose(std, float(model.y_std_[0]) * model.noise_**0.5, rtol=1e-6)


# ---- what the correction is learned from ---------------------------------------------------------


PLAIN = {
    "optimizer": None,
    "feature_weights": None,
    "intercept_variance": 0.0,
    "solver": "cg",
    "noise": 0.05,
    "random_state": 0,
}
N = 80


def test_the_error_is_of_rows_by_the_line_of_the_others(rng):
    uppers, noise = np.exp(rng.normal(size=(1, 12))), 0.3
    exact = uppers[0] * rng.uniform(0.2, 0.9, 12)
    errors = []
    for i in range(12):
        x, y = np.log(np.delete(uppers[0], i)), np.log(np.delete(exact, i))
        slope, constant = np.polyfit(x, y - x, 1)
        at = np.clip(np.log(uppers[0, i]), x.min(), x.max())
        found = min(np.exp(constant + slope * at), 1.0) * uppers[0, i]
        errors.append(abs(np.sqrt((found + noise) / (exact[i] + noise)) - 1.0))
    error = _cached_variance._error_without_itself(uppers, exact, noise)
    assert error == pytest.approx(np.mean(errors))
    # One row is predicted by what bounds it, and none is no error.
    alone = _cached_variance._error_without_itself(uppers[:, :1], exact[:1], noise)
    assert alone == pytest.approx(np.sqrt((uppers[0, 0] + noise) / (exact[0] + noise)) - 1.0)
    assert _cached_variance._error_without_itself(np.empty((1, 0)), np.empty(0), noise) == 0.0


@pytest.mark.parametrize("unit", [2.0**-60, 2.0**60])
def test_units_of_the_kernel_do_not_matter(rng, unit):
    X = rng.random((N, 5))
    X[::9] = 0.0
    y, others = rng.normal(size=N), rng.random((20, 5))
    parameters = {**PLAIN, "variance": "cached"}
    found, scaled = (
        IntersectionGPRegressor(**of_terms(**{**parameters, "noise": 0.05 * u})).fit(X * u, y)
        for u in (1.0, unit)
    )
    assert scaled.std_error_ == pytest.approx(found.std_error_, rel=1e-6)
    _, expected = found.latent_mean_and_variance(others)
    _, variance = scaled.latent_mean_and_variance(others * unit)
    np.testing.assert_allclose(variance, expected * unit, rtol=1e-6)


# ---- a Krylov space against its definition -------------------------------------------------------

each = pytest.mark.parametrize
N_ROWS = 60


class DenseSystem:
    """The system of a kernel matrix that is there."""

    def __init__(self, K, s, row_scale=None):
        self.K, self.s, self.row_scale = K, s, row_scale
        self.diagonal = np.diag(K)
        self.A = K + s * np.eye(len(K))

    def multiply(self, V):
        return self.A @ V


def kernel_of(rng, n=N_ROWS, d=N_ROWS):
    F = rng.normal(size=(n, d)) * np.geomspace(1.0, 0.1, d)
    return F @ F.T


def off_space(Q, V):
    """Return the part of the length of vectors that a space lacks."""
    return np.linalg.norm(V - Q @ (Q.T @ V), axis=0) / np.linalg.norm(V, axis=0)


@each("rank", [1, 3, N_PROBES, 13, 3 * N_PROBES, N_ROWS])
def test_space_is_of_products_with_random_signs(rng, rank):
    system = DenseSystem(kernel_of(rng), 0.3)
    rows = np.array([2, 3, 30, 59])
    space = KrylovSpace(system, rank, rows, np.random.default_rng(5))
    np.testing.assert_allclose(space.Q.T @ space.Q, np.eye(rank), atol=1e-12)
    np.testing.assert_allclose(space.T, space.Q.T @ system.A @ space.Q, atol=1e-10)
    np.testing.assert_array_equal(space.T, space.T.T)
    np.testing.assert_allclose(space.AQ, (system.A @ space.Q)[rows], atol=1e-10)
    V = np.random.default_rng(5).choice([-1.0, 1.0], size=(N_ROWS, min(N_PROBES, rank)))
    left = rank
    for _ in range(3):
        assert np.all(off_space(space.Q, V[:, :left]) < 1e-8)
        left = max(left - V.shape[1], 0)
        V = system.A @ V


@each("scaled", [False, True])
def test_directions_and_coordinates_are_of_the_inverse(rng, scaled):
    K = kernel_of(rng)
    scale = rng.uniform(0.5, 2.0, N_ROWS) if scaled else None
    system = DenseSystem(K if scale is None else scale[:, None] * K * scale, 0.3, scale)
    rows = np.arange(1, N_ROWS, 3)
    space = KrylovSpace(system, 20, rows, rng)
    Q = space.Q
    np.testing.assert_allclose(space.root @ space.root.T, np.linalg.inv(Q.T @ system.A @ Q))
    np.testing.assert_allclose(
        space.directions @ space.directions.T, Q @ np.linalg.inv(space.T) @ Q.T, atol=1e-12
    )
    # Whatever the scale of a row that is asked for.
    cross = K[rows] if scale is None else K[rows] * scale
    np.testing.assert_allclose(space.coordinates, cross @ space.directions, atol=1e-10)


@each("noise", [0.3, 1e-30])
def test_a_row_is_left_out_as_if_it_had_to_do_with_no_other(rng, noise):
    # With fewer columns than directions, the matrix is singular but for the noise.
    K = 1e6 * kernel_of(rng, d=15)
    system = DenseSystem(K, 1e6 * noise)
    space = KrylovSpace(system, 25, np.arange(0, N_ROWS, 2), rng)
    indices = np.array([0, 11, 29])
    T, projected = space.without(indices)
    least = max(system.s, LEAST_NOISE * np.trace(K))
    for matrix, seen, index in zip(T, projected, indices, strict=True):
        i = space.rows[index]
        A = without_row(system.A, i, _APART * system.s) + (least - system.s) * np.eye(N_ROWS)
        np.testing.assert_allclose(matrix, space.Q.T @ A @ space.Q, atol=1e-14 * np.trace(K))
        assert np.linalg.eigvalsh(matrix)[0] > 0.5 * (least - system.s)
        cross = K[i].copy()
        cross[i] = 0.0
        np.testing.assert_allclose(seen, space.Q.T @ cross, atol=1e-12 * K.max())
    upper = space.upper_without_itself(indices)
    assert np.all(upper > -1e-6 * K.max())
    assert np.all(upper < system.diagonal[space.rows[indices]])


# ---- new directions ----------------------------------------------------------------------------


def check_directions(Q, found):
    np.testing.assert_allclose(found.T @ found, np.eye(found.shape[1]), atol=1e-12)
    np.testing.assert_allclose(Q.T @ found, 0.0, atol=1e-12)


@each("within", [0, 1, 4])
def test_random_directions_follow_where_a_space_ends(rng, within):
    Q = np.linalg.qr(rng.normal(size=(N_ROWS, 7)))[0]
    V = rng.normal(size=(N_ROWS, 4))
    V[:, :within] = Q @ rng.normal(size=(7, within))
    found = new_directions(Q, V, rng)
    check_directions(Q, found)
    assert np.all(off_space(np.hstack([Q, found]), V) < 1e-12)
    check_directions(Q, new_directions(Q, np.zeros((N_ROWS, 4)), rng))


def test_directions_that_hardly_differ_are_orthogonal_to_the_space(rng):
    Q = np.linalg.qr(rng.normal(size=(N_ROWS, 7)))[0]
    v = rng.normal(size=(N_ROWS, 1))
    check_directions(Q, new_directions(Q, v + 1e-10 * rng.normal(size=(N_ROWS, 4)), rng))


# ---- rows near a row, beside a Krylov space ------------------------------------------------------

NOISE = 0.05


FIXED = {
    "optimizer": None,
    "feature_weights": None,
    "intercept_variance": 0.0,
    "solver": "cg",
    "noise": NOISE,
}


def clustered(rng, n, d=12, clusters=6):
    """Rows with near neighbours in more directions than a small space has."""
    centres = rng.random((clusters, d)) * (rng.random((clusters, d)) < 0.6)
    return np.abs(centres[np.arange(n) % clusters] + 0.02 * rng.normal(size=(n, d)))


def nearby_of(X, monkeypatch, rank=16, cells=5, near=9, rows=None, **parameters):
    monkeypatch.setattr(_subspace, "_MAX_CELLS", cells)
    monkeypatch.setattr(_subspace, "_NEAR", near)
    n = X.shape[0]
    model = IntersectionGPRegressor(**of_terms(**FIXED, random_state=0)).fit(
        X, np.arange(n) % 7, **parameters
    )
    system = model._posterior.system
    rows = np.arange(n) if rows is None else rows
    space = KrylovSpace(system, min(rank, n), rows, np.random.default_rng(1))
    return system, space, NearbyRows(system, space)


def basis(space, members):
    """Return the space and the unit vectors of rows beside it."""
    unit = np.zeros((len(space.Q), len(members)))
    unit[space.rows[members], np.arange(len(members))] = 1.0
    return np.hstack([space.Q, unit])


def scales(system):
    return np.ones(len(system.diagonal)) if system.row_scale is None else system.row_scale


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("some", [False, True])
def test_known_is_what_conditioning_on_both_says(rng, monkeypatch, container, weighted, some):
    X = container(clustered(rng, 120))
    weights = {"sample_weight": rng.uniform(0.5, 2.0, 120)} if weighted else {}
    rows = np.sort(rng.choice(120, 70, replace=False)) if some else None
    system, space, nearby = nearby_of(X, monkeypatch, rows=rows, **weights)
    X_star = container(np.vstack([clustered(rng, 30), np.zeros((1, 12))]))
    scale = scales(system)
    D, D_star = dense(X).astype(float), dense(X_star).astype(float)
    A = scale[:, None] * intersection_kernel(D, D) * scale + system.s * np.eye(120)
    cross = intersection_kernel(D_star, D) * scale
    prior = D_star.sum(axis=1)
    scores = cross @ space.directions
    known = nearby.known(X_star, scores)
    asked = nearby._asked(scores)
    assert len(set(asked[:, 0])) > 1
    for i in range(len(D_star)):
        row = cross[i : i + 1], prior[i : i + 1]
        alone = variance_in_subspace(A, *row, space.Q)[0]
        both = [
            variance_in_subspace(A, *row, basis(space, nearby._members[cell]))[0]
            for cell in asked[i]
        ]
        np.testing.assert_allclose(known[i], alone - min(both), rtol=1e-4, atol=1e-6)
    exact = prior - np.einsum("ij,ji->i", cross, np.linalg.solve(A, cross.T))
    upper = prior - np.einsum("ij,ij->i", scores, scores)
    assert np.all(known >= 0.0)
    assert np.all(upper - known >= exact - 1e-6)
    # Nothing of this would be worth while if it were not nearer.
    assert np.mean(upper - known - exact) < 0.95 * np.mean(upper - exact)


@pytest.mark.parametrize("weighted", [False, True])
def test_known_without_itself_leaves_a_row_out(rng, monkeypatch, weighted):
    X = clustered(rng, 90)
    weights = {"sample_weight": rng.uniform(0.5, 2.0, 90)} if weighted else {}
    rows = np.sort(rng.choice(90, 60, replace=False))
    system, space, nearby = nearby_of(X, monkeypatch, rows=rows, **weights)
    indices = np.array([0, 7, 31, 59])
    known = nearby.known_without_itself(space, indices)
    upper = space.upper_without_itself(indices)
    asked = nearby._asked(space.coordinates[indices])
    scale = scales(system)
    K = scale[:, None] * intersection_kernel(X, X) * scale
    A = K + system.s * np.eye(90)
    for j, index in enumerate(indices):
        i = space.rows[index]
        A_without = without_row(A, i, _APART * system.s)
        cross = K[i].copy()
        cross[i] = 0.0
        others = [near[near != index] for near in nearby._members[asked[j]]]
        alone, *both = (
            variance_in_subspace(A_without, cross[None], K[i : i + 1, i], C)[0]
            for C in (space.Q, *(basis(space, near) for near in others))
        )
        np.testing.assert_allclose(upper[j], alone, rtol=1e-5)
        np.testing.assert_allclose(known[j], alone - min(both), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("n", "n_cells"), [(1, 1), (5, 8), (8, 8), (33, 5), (100, 16)])
def test_cells_part_the_rows(rng, n, n_cells):
    cells = _cells(rng.normal(size=(n, 3)), n_cells)
    assert len(cells) == min(n, n_cells)
    np.testing.assert_array_equal(np.sort(np.concatenate(cells)), np.arange(n))
    sizes = [len(cell) for cell in cells]
    assert max(sizes) <= 2 * min(sizes) + 1


def test_a_matrix_that_is_indefinite_by_rounding_has_a_factor():
    factor = _factor(np.diag([1.0, -1e-9, 0.0]), 1e-13)
    np.testing.assert_allclose(factor @ factor.T, np.diag([1.0, 0.0, 0.0]), atol=1e-7)
