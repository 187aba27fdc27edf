"""Rows near a row beside a Krylov space, against the definition of conditioning on both."""

import numpy as np
import pytest
from scipy import sparse

from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process._posterior import subspace as _subspace
from histrs.gaussian_process._posterior.subspace import (
    _APART,
    KrylovSpace,
    NearbyRows,
    _cells,
    _factor,
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
