"""Iterative solvers against NumPy, preconditioners against their dense definitions."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from histrs import _histrs
from histrs._solvers import cholesky
from histrs._solvers.block_cg import block_cg
from histrs._solvers.knots import Knots
from histrs._solvers.low_rank import (
    PivotedCholesky,
    _pivoted_cholesky,
    factor_survives_single_precision,
    survives_single_precision,
)
from histrs._solvers.nested_cg import nested_cg
from histrs._solvers.preconditioners import Identity
from histrs.testing import spd_matrices
from tests.helpers import assert_close, awkward_histograms, dense
from tests.oracles import intersection as oracle

pytestmark = pytest.mark.simd_paths


def rounded(A):
    """Something near `A`, symmetric as it is."""
    return A.astype(np.float16).astype(np.float64)


def solve(A, B, *, method=block_cg, tol=1e-9, max_iter=500, M=None, **options):
    """Run a solver, and check what holds of every result."""
    preconditioner = (lambda V: V) if M is None else partial(np.linalg.solve, M)
    if method is nested_cg:
        options["cheap_operator"] = lambda V: rounded(A) @ V
        options["cheap_preconditioner"] = lambda V: np.float32(preconditioner(V))
    n_products = 0

    def operator(V):
        nonlocal n_products
        n_products += 1
        return A @ V

    tol = np.broadcast_to(tol, B.shape[1:])
    solution = method(
        operator,
        B=B,
        tol=tol,
        max_iter=max_iter,
        preconditioner=preconditioner,
        **options,
    )
    residual = np.abs(B - A @ solution.X).max(axis=0, initial=0.0)
    rounding = 1e-13 * np.abs(A).sum(axis=1).max() * np.abs(solution.X).max(axis=0, initial=0.0)
    assert (np.abs(solution.residual - residual) <= rounding).all()
    assert solution.n_iter.shape == B.shape[1:]
    assert (solution.n_iter <= max_iter).all()
    if solution.stagnated:
        assert (solution.residual > tol).any()
        assert (solution.n_iter < max_iter).all()
    elif max_iter > 0 and (solution.n_iter < max_iter).all():
        assert (solution.residual <= tol).all()
    return solution, n_products


@pytest.fixture(name="A")
def kernel_matrix(rng):
    """A kernel matrix with noise: a few large eigenvalues, a long tail."""
    X = rng.random((80, 3))
    return oracle.intersection_kernel(X) + 0.05 * np.eye(80)


each_method = pytest.mark.parametrize("method", [block_cg, nested_cg])


@each_method
@given(
    stack=spd_matrices(1, (1, 24), condition=st.sampled_from([1.0, 10.0, 1e4])),
    n_columns=st.integers(0, 7),
    seed=st.integers(0, 99),
)
def test_agrees_with_numpy(method, stack, n_columns, seed):
    A = stack[0] / np.linalg.norm(stack[0], 2)
    B = np.random.default_rng(seed).normal(size=(len(A), n_columns))
    solution, _ = solve(A, B, method=method)
    assert_close(solution.X, np.linalg.solve(A, B), 1e-4)


@each_method
@pytest.mark.parametrize("preconditioned", [False, True])
def test_agrees_with_numpy_on_a_kernel(A, rng, method, preconditioned):
    B = rng.normal(size=(80, 5))
    M = A + 0.01 * np.diag(rng.random(80)) if preconditioned else None
    solution, n_products = solve(A, B, method=method, M=M)
    assert_close(solution.X, np.linalg.solve(A, B), 1e-8)
    assert n_products <= 12 if preconditioned else n_products <= 60


BLOCKS = {
    "equal columns": lambda B: B[:, [0, 0, 1, 0]],
    "opposite columns": lambda B: np.column_stack([B[:, 0], -B[:, 0], B[:, 1]]),
    "sums of columns": lambda B: np.column_stack([B, B.sum(axis=1), B[:, 0] - 2 * B[:, 1]]),
    "zero column": lambda B: np.column_stack([B[:, 0], 0 * B[:, 0], B[:, 1]]),
    "only zeros": lambda B: 0 * B,
    "nearly equal columns": lambda B: B[:, [0, 0]] + 1e-12 * B,
    "different scales": lambda B: B * [1.0, 1e-8],
    "no columns": lambda B: B[:, :0],
    "more columns than rows": lambda B: np.tile(B, 45) + np.eye(80, 90),
}


@each_method
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_dependent_right_hand_sides(A, rng, method, block):
    B = block(rng.normal(size=(80, 2)))
    solution, _ = solve(A, B, method=method)
    assert np.isfinite(solution.X).all()
    expected = np.linalg.solve(A, B)
    np.testing.assert_allclose(solution.X, expected, rtol=0, atol=1e-6)
    zero = ~B.any(axis=0)
    np.testing.assert_array_equal(solution.X[:, zero], 0.0)
    np.testing.assert_array_equal(solution.n_iter[zero], 0)


@each_method
def test_each_column_has_its_own_tolerance(A, rng, method):
    B = rng.normal(size=(80, 3))
    tol = np.array([1e-2, 1e-6, 1e-10])
    solution, _ = solve(A, B, method=method, tol=tol)
    assert (solution.residual <= tol).all()
    assert solution.n_iter[0] < solution.n_iter[2]


@each_method
def test_starts_where_it_is_told(A, rng, method):
    B = rng.normal(size=(80, 3))
    exact = np.linalg.solve(A, B)
    given_start = exact.copy()
    solution, n_products = solve(A, B, method=method, X0=given_start)
    np.testing.assert_array_equal(solution.n_iter, 0)
    np.testing.assert_array_equal(solution.X, exact)
    assert n_products <= 2
    start = exact + 1e-6 * rng.normal(size=exact.shape)
    near, _ = solve(A, B, method=method, X0=start)
    far, _ = solve(A, B, method=method)
    assert near.n_iter.max() < far.n_iter.max()
    assert_close(near.X, exact, 1e-7)
    np.testing.assert_array_equal(given_start, exact)


@each_method
@pytest.mark.parametrize("max_iter", [0, 1, 7])
def test_stops_at_max_iter(A, rng, method, max_iter):
    B = rng.normal(size=(80, 3))
    kept = B.copy()
    solution, _ = solve(A, B, method=method, max_iter=max_iter)
    np.testing.assert_array_equal(B, kept)
    np.testing.assert_array_equal(solution.n_iter, max_iter)
    assert (solution.residual > 1e-9).all()
    assert not solution.stagnated
    if max_iter == 0:
        np.testing.assert_array_equal(solution.X, 0.0)


def nearly_singular(rng, condition):
    """A matrix with eigenvalues of every size between 1 and the inverse of the condition."""
    Q = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    return Q * np.geomspace(1.0, 1.0 / condition, 60) @ Q.T


@pytest.mark.parametrize(
    ("condition", "n_columns", "most"),
    [(1e6, 13, 12), (1e6, 24, 6), (1e6, 59, 4), (1e9, 24, 8), (1e9, 59, 6), (1e9, 3, 250)],
)
def test_columns_that_exhaust_the_space_converge(rng, condition, n_columns, most):
    """Residuals become dependent in the last iteration, 60 / n_columns, with little conjugacy."""
    A = nearly_singular(rng, condition)
    B = A @ rng.normal(size=(60, n_columns))
    solution, _ = solve(A, B, tol=1e-9)
    assert (solution.residual <= 1e-9).all()
    assert not solution.stagnated
    assert solution.n_iter.max() <= most


@each_method
@pytest.mark.parametrize("n_columns", [1, 4])
def test_an_operator_that_is_not_positive_definite_ends_at_once(rng, method, n_columns):
    A = np.diag(np.where(np.arange(80) % 2, 1.0, -1.0) * np.geomspace(1.0, 100.0, 80))
    solution, _ = solve(A, rng.normal(size=(80, n_columns)), method=method, max_iter=2000)
    assert solution.stagnated
    assert np.isfinite(solution.X).all()
    assert solution.n_iter.max() < 300


def spoil(value, at_call):
    """An operator whose products have a bad entry from some call on."""
    n_calls = 0

    def operator(V):
        nonlocal n_calls
        n_calls += 1
        V = V.copy()
        if n_calls >= at_call and V.size > 0:
            V[3] = value
        return V

    return operator


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308])
@pytest.mark.parametrize("at_call", [1, 2, 4])
@pytest.mark.parametrize(
    ("method", "spoilt"),
    [
        (block_cg, "preconditioner"),
        (nested_cg, "preconditioner"),
        (nested_cg, "cheap_operator"),
        (nested_cg, "cheap_preconditioner"),
    ],
)
def test_products_that_overflow_do_no_harm(A, rng, method, value, at_call, spoilt):
    spoil_it = spoil(value, at_call)
    cheap = {"cheap_operator": lambda V: A @ V, "cheap_preconditioner": lambda V: V}
    operators = {"preconditioner": lambda V: V} | (cheap if method is nested_cg else {})
    operators[spoilt] = lambda V, good=operators[spoilt]: spoil_it(good(V))
    B = rng.normal(size=(80, 3))
    tol = np.full(3, 1e-9)
    solution = method(lambda V: A @ V, B=B, tol=tol, max_iter=500, **operators)
    assert np.isfinite(solution.X).all()
    np.testing.assert_allclose(
        solution.residual, np.abs(B - A @ solution.X).max(axis=0), atol=1e-12
    )
    if spoilt == "preconditioner":
        assert solution.stagnated == (solution.residual > tol).any()
    else:
        assert (solution.residual <= tol).all()
        assert not solution.stagnated


@each_method
def test_single_precision_beyond_its_range_hands_over(A, rng, method):
    """Products in single precision overflow where those in double do not."""
    scale = 1e30
    options = {}
    if method is nested_cg:

        def cheap_operator(V):
            with np.errstate(over="ignore", invalid="ignore"):
                return np.float64(np.float32(scale * A) @ np.float32(1e12 * V)) * 1e-12

        options = {"cheap_operator": cheap_operator, "cheap_preconditioner": lambda V: V}
    B = rng.normal(size=(80, 3))
    solution = method(
        lambda V: scale * (A @ V),
        B=B,
        tol=np.full(3, 1e-9),
        max_iter=500,
        preconditioner=lambda V: V,
        **options,
    )
    assert (solution.residual <= 1e-9).all()


def test_nested_takes_few_exact_products(A, rng):
    B = rng.normal(size=(80, 4))
    _, n_exact = solve(A, B)
    nested, n_nested = solve(A, B, method=nested_cg)
    assert n_nested < n_exact / 2
    assert nested.n_iter.max() > n_nested


@pytest.mark.parametrize("cheap", [lambda V: V, lambda V: 1e-3 * V, lambda V: 1e6 * V[::-1]])
def test_nested_survives_any_cheap_operator(A, rng, cheap):
    B = rng.normal(size=(80, 3))
    solution = nested_cg(
        lambda V: A @ V,
        cheap,
        B,
        tol=np.full(3, 1e-9),
        max_iter=2000,
        preconditioner=lambda V: V,
        cheap_preconditioner=lambda V: V,
    )
    assert_close(solution.X, np.linalg.solve(A, B), 1e-7)


@pytest.mark.parametrize("n", [0, 1, 5, 64, 65, 200])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("operations", [1e5, 1e9])
def test_cholesky_factorises_in_place(rng, monkeypatch, n, order, operations):
    monkeypatch.setattr(cholesky, "_BLOCK", 64)
    monkeypatch.setattr(cholesky, "_OPERATIONS", operations)
    X = rng.random((n, 3))
    A = np.array(oracle.intersection_kernel(X) + 0.1 * np.eye(n), order=order)
    B = rng.normal(size=(n, 70))
    expected, solution = np.linalg.cholesky(A), np.linalg.solve(A, B)
    L = cholesky.factorise_in_place(A)
    assert L is A
    np.testing.assert_allclose(np.tril(L), expected, atol=1e-12)
    assert_close(cholesky.CholeskyFactor.of(L).solve(B), solution, 1e-10)


@pytest.mark.parametrize("bad", [0, 100])
def test_cholesky_refuses_what_is_not_positive_definite(bad):
    A = np.eye(150)
    A[bad, bad] = -1.0
    with pytest.raises(np.linalg.LinAlgError):
        cholesky.factorise_in_place(A)


# ---- preconditioners ---------------------------------------------------------------------------

S = 0.3


def columns_of(X):
    return _histrs.SortedColumns(X, 1)


def make(name, X, s=S, size=16):
    diagonal = dense(X).sum(axis=1, dtype=np.float64)
    if name == "knots":
        return Knots(columns_of(X), s, size, 1)
    if name == "pivoted Cholesky":
        return PivotedCholesky(X, diagonal, s, size, 1)
    return Identity()


each_preconditioner = pytest.mark.parametrize("name", ["identity", "knots", "pivoted Cholesky"])


def matrix_of(preconditioner, n):
    """The matrix M whose inverse the preconditioner applies."""
    inverse = preconditioner.solve(np.eye(n))
    np.testing.assert_allclose(inverse, inverse.T, rtol=0, atol=1e-8 * np.abs(inverse).max())
    assert np.linalg.eigvalsh((inverse + inverse.T) / 2)[0] > 0
    return np.linalg.inv(inverse)


def hat_functions(columns, n_knots):
    """Phi and K_ZZ of the projection, column by column from the knots."""
    projection = _histrs.KnotProjection(columns, n_knots, 1)
    phi = projection.expand(np.eye(projection.n_features), 1)
    diagonal, upper = projection.inverse_kernel()
    inverse = np.diag(diagonal) + np.diag(upper[:-1], 1) + np.diag(upper[:-1], -1)
    return phi, np.linalg.inv(inverse)


@pytest.mark.parametrize("n_knots", [1, 2, 5, 255])
def test_knots_are_their_definition(rng, n_knots):
    X = awkward_histograms(rng, 60)
    phi, K_ZZ = hat_functions(columns_of(X), n_knots)
    # K_ZZ = min(z, z') of the knots of each column, which are values of that column.
    np.testing.assert_allclose(K_ZZ, K_ZZ.T)
    knots = np.diag(K_ZZ)
    same = np.abs(K_ZZ - np.minimum.outer(knots, knots)) < 1e-9
    assert (same | (np.abs(K_ZZ) < 1e-9)).all()
    assert np.isin(np.round(knots, 9), np.round(X, 9)).all()
    # Hat functions at x reproduce x from the knots of a column.
    expected = phi @ K_ZZ @ phi.T + S * np.eye(60)
    assert_close(matrix_of(make("knots", X, size=n_knots), 60), expected, 1e-6)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pivoted_cholesky_takes_nothing_but_what_the_kernel_has(rng, container, dtype):
    X = container(awkward_histograms(rng, 60).astype(dtype))
    K = oracle.intersection_kernel(X)
    left = []
    for rank in (1, 5, 20, 60):
        M = matrix_of(make("pivoted Cholesky", X, size=rank), 60)
        rest = K + S * np.eye(60) - M
        scale = np.trace(K)
        # It is made in single precision, and inverting it makes more of rounding.
        rounding = 4 * np.finfo(np.float32).eps * scale**2 / S
        assert np.linalg.eigvalsh((rest + rest.T) / 2)[0] > -rounding
        F, _ = _pivoted_cholesky(X, K.diagonal(), rank, np.float32, 1)
        assert np.linalg.eigvalsh(K - F.T.astype(np.float64) @ F)[0] > -1e-6 * scale
        low_rank = np.linalg.eigvalsh(M - S * np.eye(60))
        assert (low_rank > 1e-6 * scale).sum() <= rank
        left.append(np.trace(rest) / scale)
    assert (np.diff(left) < 0).all()
    assert abs(left[-1]) < 1e-4


@pytest.mark.parametrize("weighted", [False, True])
def test_a_factor_in_single_precision_has_an_exact_inverse(rng, weighted):
    X, others = rng.random((3000, 5)), rng.random((40, 5))
    r = np.sqrt(rng.integers(1, 4, 3040)) if weighted else None
    of_first, of_others = (None, None) if r is None else (r[:3000], r[3000:])
    diagonal = X.sum(axis=1)
    trace = diagonal.sum() if r is None else (of_first**2 * diagonal).sum()
    # Less would be drowned in single precision, and has a place beside its root.
    s = 2e-7 * trace
    assert not survives_single_precision(trace, s)
    assert factor_survives_single_precision(trace, s)
    M = PivotedCholesky(X, diagonal, s, 60, 2, of_first)
    assert M._keeps_factor
    for made in (
        M,
        M.insert(others, of_others),
        M.remove(np.arange(7, 3000), np.arange(7)).insert(others, of_others),
    ):
        F_T = made._inverse.factor_transposed()
        assert F_T.dtype == np.float32
        F = F_T.T.astype(np.float64)
        V = rng.normal(size=(len(F), 3))
        found = made.solve(V)
        assert_close(F @ (F.T @ found) + s * found, V, 1e-6)
        # Also along the vectors that the matrix stretches most, and so its inverse least.
        longest = np.linalg.svd(F, full_matrices=False)[0][:, :2]
        assert (np.einsum("ij,ij->j", longest, made.solve(longest)) > 0.0).all()
    K = oracle.intersection_kernel(X[:200])
    near = M._inverse.factor_transposed()[:, :200].astype(np.float64)
    near = near.T @ near
    scale = 1.0 if r is None else np.outer(of_first[:200], of_first[:200])
    assert np.abs(near - scale * K).max() < 0.1 * np.abs(scale * K).max()


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((5, 3)),
        np.ones((9, 2)),
        np.repeat([[1.0, 0.0], [0.0, 2.0]], 10, axis=0),
        np.array([[1e-30, 1.0], [1e-30, 1.0], [0.0, 0.0]]),
        np.geomspace(1e-250, 1e30, 40)[:, None],
        np.array([[3.0]]),
    ],
    ids=["zeros", "ones", "two kinds of rows", "dependent columns", "wide range", "one entry"],
)
@each_preconditioner
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_matrix])
def test_preconditioners_take_degenerate_histograms(name, X, container):
    s = max(1e-9 * X.sum(), 1.0)
    preconditioner = make(name, container(X) if name != "knots" else X, s=s)
    inverse = preconditioner.solve(np.eye(len(X)))
    assert np.isfinite(inverse).all()
    if name != "identity":
        K = oracle.intersection_kernel(X)
        # Between the two matrices it lies between.
        assert np.diag(inverse).max() <= (1 + 1e-6) / s
        values = np.linalg.eigvalsh(inverse @ (K + s * np.eye(len(X))))
        assert np.isfinite(values).all()


def test_preconditioners_cut_iterations(rng):
    X = rng.random((400, 4))
    K = oracle.intersection_kernel(X) + 0.01 * np.eye(400)
    B = rng.normal(size=(400, 1))
    n_iter = {}
    for name in ("identity", "knots", "pivoted Cholesky"):
        solution = block_cg(
            lambda V: K @ V,
            B,
            tol=np.array([1e-6]),
            max_iter=500,
            preconditioner=make(name, X, s=0.01, size=64).solve,
        )
        n_iter[name] = solution.n_iter[0]
    assert n_iter["knots"] < n_iter["identity"] / 5
    assert n_iter["pivoted Cholesky"] < n_iter["identity"] / 2


@each_method
def test_a_tolerance_below_rounding_ends(A, rng, method):
    solution, _ = solve(A, rng.normal(size=(80, 2)), method=method, tol=1e-30, max_iter=500)
    assert (solution.residual < 1e-10).all()
    assert solution.stagnated
