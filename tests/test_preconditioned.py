"""The matrix of a linear system, and which preconditioner there is for it."""

import numpy as np
import pytest

from histrs._solvers.knots import Knots
from histrs._solvers.low_rank import LowRank, PivotedCholesky
from histrs._solvers.preconditioners import Identity
from histrs.gaussian_process import _preconditioned
from histrs.gaussian_process._interactions.kernel import PairKernel
from histrs.gaussian_process._interactions.preconditioner import WithPairs
from histrs.gaussian_process._kernel import GeneralizedKernel
from histrs.gaussian_process._preconditioned import LEAST_NOISE, MAX_RANK, PreconditionedMatrix
from tests.oracles.intersection import intersection_kernel

each = pytest.mark.parametrize
SMOOTH = GeneralizedKernel(smoothness="cubic")


@pytest.fixture(name="X")
def rows(rng):
    return rng.random((60, 4))


def made(X, name="auto", **options):
    given = {"noise": 0.6, "amplitude": 2.0, "n_threads": 1, **options}
    return PreconditionedMatrix(X=X, preconditioner_name=name, **given)


def test_products_are_with_the_matrix_of_the_system(rng, X):
    matrix, V = made(X), rng.normal(size=(60, 3))
    assert matrix.s == pytest.approx(0.3)
    exact = intersection_kernel(X) @ V + 0.3 * V
    np.testing.assert_allclose(matrix.multiply(V), exact)
    nearly = matrix.multiply_cheaply(V)
    np.testing.assert_allclose(nearly, exact, atol=1e-5 * np.abs(exact).max())
    assert np.any(nearly != matrix.multiply(V))


@each(
    ("exponent", "survives"),
    [(-70, False), (-53, False), (-40, True), (0, True), (40, True), (50, False), (70, False)],
)
def test_single_precision_has_a_range_whatever_the_ratio_of_noise(X, exponent, survives):
    matrix = made(np.ldexp(X, exponent), noise=np.ldexp(0.6, exponent))
    assert matrix.survives_single_precision == survives


def test_what_drowns_noise_or_is_smooth_is_of_double_precision(X):
    assert made(X).survives_single_precision
    assert not made(X, noise=1e-8).survives_single_precision
    assert not made(X, kernel=SMOOTH).survives_single_precision


@each(
    ("name", "n_columns", "expected"),
    [
        ("auto", 5, Knots),
        ("auto", 6, PivotedCholesky),
        ("knots", 6, Knots),
        ("pivoted-cholesky", 5, PivotedCholesky),
        (None, 5, Identity),
    ],
)
def test_preconditioner_is_what_was_asked_for_or_suits_the_columns(
    rng, monkeypatch, name, n_columns, expected
):
    monkeypatch.setattr(_preconditioned, "_MAX_KNOT_COLUMNS", 5)
    X = rng.random((40, n_columns))
    assert type(made(X, name).preconditioner) is expected
    pairs = GeneralizedKernel(pairs=PairKernel.of(X, [(0, 1)], 4))
    of_pairs = made(X, name, kernel=pairs).preconditioner
    assert type(of_pairs) is (Identity if name is None else WithPairs)
    of_smooth = made(X, name, kernel=SMOOTH).preconditioner
    assert type(of_smooth) is (Identity if name is None else LowRank)


def test_vanishing_noise_is_more_to_a_preconditioner(X):
    trace = X.sum()
    for noise, expected in ((2.0 * trace * 1e-6, 1e-6 * trace), (1e-30, LEAST_NOISE * trace)):
        assert made(X, noise=noise)._noise_of_preconditioner == pytest.approx(expected)


@each(("n", "expected"), [(1, 1), (7, 1), (8, 1), (16, 2), (71, 8), (72, 9), (8 * 600, 512)])
def test_a_factor_has_an_eighth_of_the_rows_for_its_rank(n, expected):
    assert MAX_RANK == 512
    assert made(np.ones((n, 1)))._rank == expected


@each(("noise", "n_bytes"), [(2.0 * 800, 4), (1e-20, 8)])
@each("smooth", [False, True])
def test_a_factor_has_its_share_of_memory(monkeypatch, rng, noise, n_bytes, smooth):
    X = rng.random((800, 1))
    matrix = made(X, noise=noise, kernel=SMOOTH if smooth else GeneralizedKernel())
    row = 800 * (8 if smooth else n_bytes)
    for room, expected in ((200 * row, 100), (80 * row, 80), (80 * row - 1, 79), (1, 64)):
        monkeypatch.setattr(_preconditioned, "_FACTOR_BYTES", room)
        assert matrix._rank == expected


@each(
    ("n_rows", "n_columns", "expected"),
    [
        (100, 1, 65),
        (400, 1, 130),
        # Twice as many for four times the rows, and half for twice the columns.
        (400, 2, 65),
        (1600, 4, 65),
        # The least, and the most of a column, and of all columns.
        (100, 60, 8),
        (10**4, 1, 255),
        (10**8, 64, 96),
    ],
)
def test_columns_have_knots_by_the_root_of_rows(n_rows, n_columns, expected):
    shape_alone = np.broadcast_to(0.0, (n_rows, n_columns))
    assert made(shape_alone)._n_knots == expected
