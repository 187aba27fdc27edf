"""The matrix of a linear system, and which preconditioner there is for it."""

import pytest

from histrs._solvers.knots import Knots
from histrs._solvers.low_rank import LowRank, PivotedCholesky
from histrs._solvers.preconditioners import Identity
from histrs.gaussian_process import Solver
from histrs.gaussian_process._bound import preconditioners
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.pairs import PairKernel
from histrs.gaussian_process._bound.preconditioners import WithPairs
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._systems.system import System

each = pytest.mark.parametrize


SMOOTH = GeneralizedKernel(smoothness="cubic")


@pytest.fixture(name="X")
def rows(rng):
    return rng.random((60, 4))


def made(X, name="auto", kernel=None, noise=0.6):
    kernel = GeneralizedKernel() if kernel is None else kernel
    bound = MinimaBound(X=X, n_threads=1, kernel=kernel)
    return System(bound=bound, noise=noise, amplitude=2.0, solver=Solver(preconditioner=name))


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
    monkeypatch.setattr(preconditioners, "_MAX_KNOT_COLUMNS", 5)
    X = rng.random((40, n_columns))
    assert type(made(X, name).preconditioner) is expected
    pairs = GeneralizedKernel(pairs=PairKernel.of(X, [(0, 1)], 4))
    of_pairs = made(X, name, kernel=pairs).preconditioner
    assert type(of_pairs) is (Identity if name is None else WithPairs)
    of_smooth = made(X, name, kernel=SMOOTH).preconditioner
    assert type(of_smooth) is (Identity if name is None else LowRank)


@each(("s", "n_bytes"), [(800.0, 4), (1e-20, 8)])
def test_a_factor_has_its_share_of_memory(monkeypatch, rng, s, n_bytes):
    diagonal, row = rng.random(800), 800 * n_bytes
    for room, expected in ((200 * row, 100), (80 * row, 80), (80 * row - 1, 79), (1, 64)):
        monkeypatch.setattr(preconditioners, "_FACTOR_BYTES", room)
        assert preconditioners.rank_of(diagonal, s, None) == expected


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
    assert preconditioners.n_knots_of((n_rows, n_columns)) == expected
