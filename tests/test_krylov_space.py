"""A block Krylov space of a dense matrix, against its definition."""

import numpy as np
import pytest

from histrs.gaussian_process._posterior.subspace import (
    _APART,
    N_PROBES,
    KrylovSpace,
    new_directions,
)
from histrs.gaussian_process._systems.system import LEAST_NOISE
from tests.oracles.conditioning import without_row

each = pytest.mark.parametrize
N = 60


class DenseSystem:
    """The system of a kernel matrix that is there."""

    def __init__(self, K, s, row_scale=None):
        self.K, self.s, self.row_scale = K, s, row_scale
        self.diagonal = np.diag(K)
        self.A = K + s * np.eye(len(K))

    def multiply(self, V):
        return self.A @ V


def kernel_of(rng, n=N, d=N):
    F = rng.normal(size=(n, d)) * np.geomspace(1.0, 0.1, d)
    return F @ F.T


def off_space(Q, V):
    """Return the part of the length of vectors that a space lacks."""
    return np.linalg.norm(V - Q @ (Q.T @ V), axis=0) / np.linalg.norm(V, axis=0)


@each("rank", [1, 3, N_PROBES, 13, 3 * N_PROBES, N])
def test_space_is_of_products_with_random_signs(rng, rank):
    system = DenseSystem(kernel_of(rng), 0.3)
    rows = np.array([2, 3, 30, 59])
    space = KrylovSpace(system, rank, rows, np.random.default_rng(5))
    np.testing.assert_allclose(space.Q.T @ space.Q, np.eye(rank), atol=1e-12)
    np.testing.assert_allclose(space.T, space.Q.T @ system.A @ space.Q, atol=1e-10)
    np.testing.assert_array_equal(space.T, space.T.T)
    np.testing.assert_allclose(space.AQ, (system.A @ space.Q)[rows], atol=1e-10)
    V = np.random.default_rng(5).choice([-1.0, 1.0], size=(N, min(N_PROBES, rank)))
    left = rank
    for _ in range(3):
        assert np.all(off_space(space.Q, V[:, :left]) < 1e-8)
        left = max(left - V.shape[1], 0)
        V = system.A @ V


def test_space_goes_on_where_products_end(rng):
    # Of two distinct eigenvalues, after two blocks.
    F = np.linalg.qr(rng.normal(size=(N, 10)))[0]
    system = DenseSystem(7.0 * F @ F.T, 1.0)
    space = KrylovSpace(system, N, np.arange(N), rng)
    np.testing.assert_allclose(space.Q.T @ space.Q, np.eye(N), atol=1e-12)
    np.testing.assert_allclose(space.T, space.Q.T @ system.A @ space.Q, atol=1e-12)
    np.testing.assert_allclose(space.directions @ space.directions.T, np.linalg.inv(system.A))


@each("scaled", [False, True])
def test_directions_and_coordinates_are_of_the_inverse(rng, scaled):
    K = kernel_of(rng)
    scale = rng.uniform(0.5, 2.0, N) if scaled else None
    system = DenseSystem(K if scale is None else scale[:, None] * K * scale, 0.3, scale)
    rows = np.arange(1, N, 3)
    space = KrylovSpace(system, 20, rows, rng)
    Q = space.Q
    np.testing.assert_allclose(space.root @ space.root.T, np.linalg.inv(Q.T @ system.A @ Q))
    np.testing.assert_allclose(
        space.directions @ space.directions.T, Q @ np.linalg.inv(space.T) @ Q.T, atol=1e-12
    )
    # Whatever the scale of a row that is asked for.
    cross = K[rows] if scale is None else K[rows] * scale
    np.testing.assert_allclose(space.coordinates, cross @ space.directions, atol=1e-10)


def test_what_is_less_than_noise_can_be_is_rounding(rng):
    space = KrylovSpace(DenseSystem(kernel_of(rng), 0.1), 5, np.arange(N), rng)
    space.T = np.diag([5.0, 1.0, 0.07, 0.03, -0.001])
    kept = space.root @ space.root.T
    np.testing.assert_allclose(kept, np.diag([0.2, 1.0, 1.0 / 0.07, 0.0, 0.0]), atol=1e-12)


def test_the_largest_entries_of_a_root_are_positive(rng):
    space = KrylovSpace(DenseSystem(kernel_of(rng), 0.3), 30, np.arange(N), rng)
    largest = np.argmax(np.abs(space.root), axis=0)
    assert np.all(space.root[largest, np.arange(30)] > 0.0)


@each("noise", [0.3, 1e-30])
def test_a_row_is_left_out_as_if_it_had_to_do_with_no_other(rng, noise):
    # With fewer columns than directions, the matrix is singular but for the noise.
    K = 1e6 * kernel_of(rng, d=15)
    system = DenseSystem(K, 1e6 * noise)
    space = KrylovSpace(system, 25, np.arange(0, N, 2), rng)
    indices = np.array([0, 11, 29])
    T, projected = space.without(indices)
    least = max(system.s, LEAST_NOISE * np.trace(K))
    for matrix, seen, index in zip(T, projected, indices, strict=True):
        i = space.rows[index]
        A = without_row(system.A, i, _APART * system.s) + (least - system.s) * np.eye(N)
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


def test_new_directions_are_what_a_space_lacks(rng):
    Q = np.linalg.qr(rng.normal(size=(N, 7)))[0]
    V = rng.normal(size=(N, 4))
    found = new_directions(Q, V, rng)
    check_directions(Q, found)
    assert np.all(off_space(np.hstack([Q, found]), V) < 1e-12)


@each("exponent", [-1000, -600, 600, 1000])
def test_units_of_directions_do_not_matter(rng, exponent):
    Q = np.linalg.qr(rng.normal(size=(N, 7)))[0]
    V = rng.normal(size=(N, 4))
    found = new_directions(Q, np.ldexp(V, exponent), rng)
    np.testing.assert_array_equal(found, new_directions(Q, V, rng))


@each("within", [0, 1, 4])
def test_random_directions_follow_where_a_space_ends(rng, within):
    Q = np.linalg.qr(rng.normal(size=(N, 7)))[0]
    V = rng.normal(size=(N, 4))
    V[:, :within] = Q @ rng.normal(size=(7, within))
    found = new_directions(Q, V, rng)
    check_directions(Q, found)
    assert np.all(off_space(np.hstack([Q, found]), V) < 1e-12)
    check_directions(Q, new_directions(Q, np.zeros((N, 4)), rng))


def test_what_is_exactly_within_a_space_leaves_nothing_to_go_on_with(rng):
    Q = np.eye(N)[:, :7]
    for V in (Q[:, :4], np.zeros((N, 4))):
        check_directions(Q, new_directions(Q, V, rng))


def test_directions_that_hardly_differ_are_orthogonal_to_the_space(rng):
    Q = np.linalg.qr(rng.normal(size=(N, 7)))[0]
    v = rng.normal(size=(N, 1))
    check_directions(Q, new_directions(Q, v + 1e-10 * rng.normal(size=(N, 4)), rng))
