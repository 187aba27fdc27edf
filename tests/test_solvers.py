"""Iterative solvers and preconditioners against NumPy and their dense definitions."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from histrs import _histrs
from histrs._checks import memory as _memory
from histrs._solvers import cholesky
from histrs._solvers.block_cg import block_cg
from histrs._solvers.greedy_block import _choose
from histrs._solvers.knots import Knots
from histrs._solvers.low_rank import (
    PivotedCholesky,
    factor_survives_single_precision,
    survives_single_precision,
)
from histrs._solvers.nested_cg import nested_cg
from histrs._solvers.preconditioners import Identity
from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process._bound import all_pairs
from histrs.testing import histograms
from tests.helpers import ExactGP, assert_close, awkward_histograms, build_plain, dense
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
        operator, B=B, tol=tol, max_iter=max_iter, preconditioner=preconditioner, **options
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
def test_each_column_has_its_own_tolerance(A, rng, method):
    B = rng.normal(size=(80, 3))
    tol = np.array([1e-2, 1e-6, 1e-10])
    solution, _ = solve(A, B, method=method, tol=tol)
    assert (solution.residual <= tol).all()
    assert solution.n_iter[0] < solution.n_iter[2]


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


# ---- the solvers that the paper compares with ----------------------------------------------------

NAMES = ["coordinate-descent", "greedy-block"]
each_solver = pytest.mark.parametrize("name", NAMES)


@each_solver
@settings(max_examples=15)
@given(data=st.data())
def test_agrees_with_the_exact_solution(name, data):
    X = data.draw(histograms((1, 17), 4, normalize="max", format="any"))
    n_targets = data.draw(st.integers(1, 5))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    y = rng.normal(size=(X.shape[0], n_targets))
    model = build_plain(IntersectionGPRegressor, noise=2.0, tol=1e-7, solver=name).fit(X, y)
    Y = y - y.mean(axis=0)
    largest = np.max(np.abs(Y), axis=0)
    exact = ExactGP.of(dense(X), Y, noise=2.0)
    # The inverse matrix is at most 1 / noise, in the norm of vectors.
    error = np.linalg.norm(model.dual_coef_ - exact.alpha, axis=0)
    assert np.all(error <= 1e-7 * largest * np.sqrt(len(Y)) / 2.0 + 1e-12)
    K = oracle.intersection_kernel(X) + 2.0 * np.eye(X.shape[0])
    residual = np.max(np.abs(Y - K @ model.dual_coef_), axis=0)
    np.testing.assert_allclose(model.residual_, residual, rtol=0, atol=1e-12)
    assert np.all(residual <= 1e-7 * largest + 1e-12)


@each_solver
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kernel", [{}, {"feature_transform": "power", "exponent": 0.5}])
def test_is_a_solver_of_the_estimator(name, convert, kernel, rng):
    X, X_star = (awkward_histograms(rng, n) for n in (24, 5))
    y = np.resize(["ash", "birch", "oak"], 24)
    models = [
        build_plain(IntersectionGPClassifier, noise=2.0, tol=1e-8, solver=solver, **kernel)
        for solver in (name, "cholesky")
    ]
    first, exact = (model.fit(convert(X), y) for model in models)
    for actual, expected in zip(
        first.latent_mean_and_variance(convert(X_star)),
        exact.latent_mean_and_variance(convert(X_star)),
        strict=True,
    ):
        assert_close(actual, expected, 1e-6)
    first.partial_fit(convert(X[:5]), y[:5])
    exact.partial_fit(convert(X[:5]), y[:5])
    assert_close(first.dual_coef_, exact.dual_coef_, 1e-5)


@each_solver
def test_stopping_early_warns_with_the_residual(name, rng):
    X, y = awkward_histograms(rng, 60), rng.normal(size=60)
    model = build_plain(IntersectionGPRegressor, tol=1e-12, max_iter=2, solver=name)
    with pytest.warns(ConvergenceWarning, match="stopped after 2 iterations with a residual"):
        model.fit(X, y)
    K = oracle.intersection_kernel(X) + 0.1 * np.eye(60)
    left = np.max(np.abs(y - y.mean() - K @ model.dual_coef_[:, 0]))
    assert model.residual_[0] == pytest.approx(left)
    assert model.n_iter_ == 2


@given(n=st.integers(1, 20), size=st.integers(1, 25), seed=st.integers(0, 99))
def test_rows_of_a_block_are_chosen_greedily(n, size, seed):
    rng = np.random.default_rng(seed)
    F = rng.normal(size=(n, 6))
    A, r = F @ F.T + 0.1 * np.eye(n), rng.normal(size=n)

    def gain(rows):
        return r[rows] @ np.linalg.solve(A[np.ix_(rows, rows)], r[rows])

    chosen = _choose(A, r, size).tolist()
    assert len(chosen) == len(set(chosen)) == min(n, size)
    for k in range(len(chosen)):
        rest = [i for i in range(n) if i not in chosen[:k]]
        best = max(gain([*chosen[:k], i]) for i in rest)
        assert gain(chosen[: k + 1]) == pytest.approx(best)


def test_rows_that_repeat_are_not_chosen_twice():
    A, r = np.ones((4, 4)), np.array([1.0, 1.0, 1.0, 1.0])
    assert len(_choose(A, r, 3)) == 1
    assert len(_choose(A, np.zeros(4), 3)) == 0


# ---- systems of all pairs of rows --------------------------------------------------------------


def test_as_many_rows_as_memory_holds_are_no_error(monkeypatch):
    monkeypatch.setattr(all_pairs, "physical_memory", lambda: 16e9)
    monkeypatch.setattr(_memory, "physical_memory", lambda: 16e9)
    most = int((0.75 * 16e9 / (8 * 2)) ** 0.5)
    all_pairs.check_memory(most, 2)
    message = (
        r"^40000 rows take 25\.6 GB: 2 matrices of all pairs .* on a machine of 16\.0 GB\. "
        rf"Fit at most {most} rows\.$"
    )
    with pytest.raises(MemoryError, match=message):
        all_pairs.check_memory(40_000, 2)
    with pytest.raises(MemoryError, match=rf"^{most + 1} rows"):
        all_pairs.check_memory(most + 1, 2)
    all_pairs.check_stored_memory(109_544)
    message = r"^109545 rows take 12\.0 GB: two bytes .* of 16\.0 GB\. Fit at most 109544 rows"
    with pytest.raises(MemoryError, match=message):
        all_pairs.check_stored_memory(109_545)
