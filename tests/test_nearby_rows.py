"""Rows near a row beside a Krylov space, against the definition of conditioning on both."""

import numpy as np
import pytest
from scipy import sparse

from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process._posterior import cached_variance as _cached_variance
from histrs.gaussian_process._posterior import subspace as _subspace
from histrs.gaussian_process._posterior.cached_variance import CachedVariance, _Plane
from histrs.gaussian_process._posterior.subspace import (
    _APART,
    KrylovSpace,
    NearbyRows,
    _cells,
    _factor,
    _nearest,
)
from tests.helpers import dense, of_terms
from tests.oracles.conditioning import variance_in_subspace, without_row
from tests.oracles.intersection import intersection_kernel

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


def test_coordinates_are_scores_of_training_rows(rng, monkeypatch):
    X = clustered(rng, 80)
    weights = {"sample_weight": rng.uniform(0.5, 2.0, 80)}
    system, space, _ = nearby_of(X, monkeypatch, **weights)
    scores = (intersection_kernel(X, X) * scales(system)) @ space.directions
    np.testing.assert_allclose(space.coordinates, scores, rtol=1e-7, atol=1e-9)


def test_rows_know_the_same_alone_and_among_others(rng, monkeypatch):
    X = clustered(rng, 120)
    _, space, nearby = nearby_of(X, monkeypatch)
    together = nearby.known(X, space.coordinates)
    assert np.all(together > 0.0)
    for i in range(0, 120, 17):
        alone = nearby.known(X[i : i + 1], space.coordinates[i : i + 1])
        np.testing.assert_allclose(alone, together[i], rtol=1e-3)


@pytest.mark.parametrize("n", [1, 2, 3, 16, 17, 33])
def test_few_rows(rng, monkeypatch, n):
    X = clustered(rng, n)
    _, space, nearby = nearby_of(X, monkeypatch, rank=4, cells=3, near=5)
    known = nearby.known(X, space.coordinates)
    assert known.shape == (n,)
    assert np.all(known >= 0.0)
    assert np.all(np.isfinite(nearby.known_without_itself(space, np.arange(n))))
    assert nearby.known(X[:0], np.zeros((0, space.directions.shape[1]))).shape == (0,)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
def test_scale_does_not_matter(rng, monkeypatch, scale):
    X = clustered(rng, 60)
    upper = []
    for times in (1.0, scale):
        monkeypatch.setitem(FIXED, "noise", NOISE * times)
        _, space, nearby = nearby_of(times * X, monkeypatch)
        indices = np.arange(60)
        upper.append(nearby.known_without_itself(space, indices) / times)
    np.testing.assert_allclose(upper[1], upper[0], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_factors_of_little_noise_are_kept_in_double_precision(rng, monkeypatch, unit):
    X = unit * clustered(rng, 60)
    for noise, dtype in ((NOISE, np.float32), (1e-7, np.float64)):
        monkeypatch.setitem(FIXED, "noise", unit * noise)
        _, space, nearby = nearby_of(X, monkeypatch, rank=4)
        assert all(factor.dtype == dtype for factor in nearby._factors)
        less = nearby.known(X, space.coordinates)
        left = X.sum(axis=1) - np.sum(space.coordinates**2, axis=1) - less
        assert np.all(left >= -1e-5 * X.sum(axis=1))


def test_a_plane_is_of_what_was_seen(rng):
    uppers = np.exp(rng.normal(size=(2, 200)))
    exact = 0.1 * uppers[0] ** 0.3 * uppers[1] ** 0.6
    plane = _Plane(uppers, exact)
    np.testing.assert_allclose(plane.at(uppers), exact, rtol=1e-9)
    # Beyond it, the part of the last bound that is nearest; more than all of it is never left.
    far = np.array([[1e6], [1e9]])
    most = uppers.max(axis=1)
    expected = 0.1 * most[0] ** 0.3 * most[1] ** -0.4 * far[1]
    np.testing.assert_allclose(plane.at(far), expected, rtol=1e-9)
    np.testing.assert_array_equal(_Plane(uppers, 5.0 * uppers[1]).at(uppers), uppers[1])
    # Bounds that say the same share what they tell.
    slope = np.polyfit(np.log(uppers[1]), np.log(exact / uppers[1]), 1)[0]
    np.testing.assert_allclose(_Plane(uppers[[1, 1]], exact).slopes, slope / 2, rtol=1e-6)
    np.testing.assert_array_equal(_Plane(np.empty((2, 0)), np.empty(0)).at(uppers), uppers[1])
    np.testing.assert_allclose(_Plane(uppers[:, :1], exact[:1]).at(uppers[:, :1]), exact[:1])


def test_equal_rows_have_a_factor(rng, monkeypatch):
    # The rows of a cell that are all equal have a kernel of rank 1; with little noise, what is left
    # beside the space is rounding.
    monkeypatch.setitem(FIXED, "noise", 1e-9)
    X = np.repeat(clustered(rng, 6), 20, axis=0)
    # To the last digits: rows that are equal to all of them are one.
    X = X * (1.0 + 1e-15 * rng.integers(0, 9, X.shape))
    _, space, nearby = nearby_of(X, monkeypatch)
    assert np.all(np.isfinite(nearby.known(X, space.coordinates)))


@pytest.mark.parametrize(("n", "n_cells"), [(1, 1), (5, 8), (8, 8), (33, 5), (100, 16)])
def test_cells_part_the_rows(rng, n, n_cells):
    cells = _cells(rng.normal(size=(n, 3)), n_cells)
    assert len(cells) == min(n, n_cells)
    np.testing.assert_array_equal(np.sort(np.concatenate(cells)), np.arange(n))
    sizes = [len(cell) for cell in cells]
    assert max(sizes) <= 2 * min(sizes) + 1


@pytest.mark.parametrize("k", [1, 2, 7, 50])
def test_nearest_is_in_blocks(rng, monkeypatch, k):
    # NumPy sorts whole what is shorter.
    F, to = rng.normal(size=(300, 4)), rng.normal(size=(23, 4))
    distances = np.linalg.norm(F - to[:, None], axis=2)
    expected = np.sort(np.argsort(distances, axis=1)[:, :k], axis=1)
    for block in (1, 900, 1 << 20):
        monkeypatch.setattr(_subspace, "_BLOCK", block)
        np.testing.assert_array_equal(_nearest(F, to, k), expected)


def test_a_matrix_that_is_indefinite_by_rounding_has_a_factor():
    factor = _factor(np.diag([1.0, -1e-9, 0.0]), 1e-13)
    np.testing.assert_allclose(factor @ factor.T, np.diag([1.0, 0.0, 0.0]), atol=1e-7)


def test_rows_nearby_are_asked_where_the_space_is_not_enough(rng, monkeypatch):
    # Many clusters in many columns, with little noise: more directions than a space has.
    X = clustered(rng, 1200, d=40, clusters=150)
    y = np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2]
    parameters = {**FIXED, "noise": 1e-3, "tol": 1e-8}
    model = IntersectionGPRegressor(**of_terms(**parameters, random_state=0)).fit(
        X[:1000], y[:1000]
    )
    system = model._posterior.system
    exact = CachedVariance(system)
    assert exact._nearby is not None
    monkeypatch.setattr(_cached_variance, "_GOOD_ENOUGH", np.inf)
    alone = CachedVariance(system)
    assert alone._nearby is None
    std = model.set_params(variance="exact").predict(X[1000:], return_std=True)[1]
    truth = (std / float(model.y_std_[0])) ** 2
    errors = [
        np.mean(np.abs(np.sqrt((cached.of(X[1000:]) + system.s) / truth) - 1.0))
        for cached in (exact, alone)
    ]
    assert errors[0] < 0.5 * errors[1]
    assert exact.error < alone.error


def test_what_has_pairs_or_smooth_functions_has_no_nearby_rows(rng, monkeypatch):
    monkeypatch.setattr(_cached_variance, "_GOOD_ENOUGH", -1.0)
    X = rng.random((150, 4))
    y = X[:, 0] + X[:, 1] * X[:, 2]
    for options in ({"interactions": [(0, 1)]}, {"smoothness": "cubic"}):
        model = IntersectionGPRegressor(
            **of_terms(optimizer=None, solver="cg", **options, random_state=0)
        ).fit(X, y)
        assert CachedVariance(model._posterior.system)._nearby is None


def test_errors_of_scores_are_bounded_by_what_they_seem_to_know(rng, monkeypatch):
    X = clustered(rng, 120)
    _, space, nearby = nearby_of(X, monkeypatch)
    scores = space.coordinates
    errors = 0.01 * rng.normal(size=scores.shape)
    # c^T C^-1 c is quadratic in the scores: what is not linear in the errors is what they "know".
    monkeypatch.setattr(NearbyRows, "_asked", lambda self, _: np.ones((120, 1), np.intp))
    rounded = nearby.known_by_rounding(scores, errors)
    plus, minus = (nearby.known(X, scores + sign * errors) for sign in (1, -1))
    np.testing.assert_allclose(
        rounded, 0.5 * (plus + minus) - nearby.known(X, scores), rtol=1e-3, atol=1e-5
    )


def test_tables_too_coarse_for_rows_nearby_go_without(rng, monkeypatch):
    X = clustered(rng, 1000, d=40, clusters=150)
    y = np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2]
    model = IntersectionGPRegressor(
        **of_terms(**{**FIXED, "noise": 1e-3, "tol": 1e-8}, random_state=0)
    ).fit(X, y)
    assert CachedVariance(model._posterior.system)._nearby is not None
    monkeypatch.setattr(_cached_variance, "_MAX_KNOTS", 0)
    assert CachedVariance(model._posterior.system)._nearby is not None
    monkeypatch.setattr(_cached_variance, "_N_BINS", 4)
    assert CachedVariance(model._posterior.system)._nearby is None
