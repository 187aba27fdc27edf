"""The linear systems of a Gaussian process, against dense algebra."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from histrs import _histrs
from histrs._solvers.block_cg import Solution
from histrs.gaussian_process import Solver
from histrs.gaussian_process._bound import additive
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.pairs import PairKernel
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._learning.hyperparameters import Scales
from histrs.gaussian_process._systems import system as _system
from histrs.gaussian_process._systems.system import System
from tests.oracles.intersection import intersection_kernel

each = pytest.mark.parametrize
N, C, NOISE, AMPLITUDE = 70, 0.7, 0.4, 2.0


def make(X, *, solver="cholesky", intercept=C, kernel=None, base=None, max_iter=5000, **options):
    kernel = GeneralizedKernel(intercept_variance=intercept) if kernel is None else kernel
    bound = MinimaBound(X=X, n_threads=1, kernel=kernel, base=base)
    given = {"noise": NOISE, "amplitude": AMPLITUDE, "solver": Solver(solver, max_iter=max_iter)}
    return System(bound=bound, **{**given, **options})


@pytest.fixture(name="X")
def rows(rng):
    return rng.gamma(1.0, size=(N, 5))


@pytest.fixture
def weights(rng):
    return rng.choice([0.25, 1.0, 4.0], N)


def dense_matrix(X, weights):
    """Return the matrix of which weights of rows are the inverse noise, without amplitude."""
    return intersection_kernel(X) + C + NOISE / AMPLITUDE * np.diag(1.0 / weights)


# ---- solves ------------------------------------------------------------------------------------


@each("solver", ["cholesky", "cg", "auto"])
@each("weighted", [False, True])
@each("n_outputs", [1, 9])
def test_targets_are_solved_whatever_the_weights_of_rows(
    rng, X, weights, solver, weighted, n_outputs
):
    Y = rng.normal(size=(N, n_outputs))
    system = make(X, solver=solver, row_scale=np.sqrt(weights) if weighted else None)
    tol = np.full(n_outputs, 1e-9)
    solution = system.solve_targets(Y, tol)
    exact = np.linalg.solve(dense_matrix(X, weights if weighted else np.ones(N)), Y)
    np.testing.assert_allclose(solution.X, exact, rtol=1e-5, atol=1e-7)
    assert np.all(solution.residual <= tol)
    if solver == "cg":
        again = system.solve_targets(Y, np.full(n_outputs, 1e-6), solution.X)
        np.testing.assert_array_equal(again.n_iter, 0)


def test_blocks_of_coordinates_know_the_weights_of_rows(rng, X, weights):
    y = rng.normal(size=(N, 1))
    system = make(X, solver="greedy-block", noise=2.0, row_scale=np.sqrt(weights))
    A = intersection_kernel(X) + C + np.diag(1.0 / weights)
    solution = system.solve_targets(y, np.array([1e-3]))
    assert np.all(solution.residual <= 1e-3)
    np.testing.assert_allclose(solution.X, np.linalg.solve(A, y), atol=0.02)


def test_columns_are_those_of_the_matrix(X, weights):
    A = dense_matrix(X, np.ones(N))
    rows = np.array([3, 50, 7])
    np.testing.assert_allclose(make(X)._matrix_columns(rows), A[:, rows])
    r = np.sqrt(weights)
    scaled = make(X, row_scale=r)._matrix_columns(rows)
    expected = r[:, None] * dense_matrix(X, weights) * r
    np.testing.assert_allclose(scaled, expected[:, rows])


def test_a_factor_is_refined_as_long_as_that_helps(rng, X, monkeypatch):
    Y = rng.normal(size=(N, 2))
    system = make(X)
    factor = system.factor

    class Rough:
        """A factor of half of double precision."""

        def solve(self, Y):
            return factor.solve(Y).astype(np.float32).astype(np.float64)

    vars(system)["factor"] = Rough()
    exact = np.linalg.solve(dense_matrix(X, np.ones(N)), Y)
    solution = system.solve(Y, np.full(2, 1e-12))
    np.testing.assert_allclose(solution.X, exact, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(solution.n_iter, 1)
    rough = system.solve(Y, np.full(2, 1.0))
    assert np.abs(rough.X - exact).max() > 1e-9

    class Diverging:
        """A factor of a third of the matrix."""

        def solve(self, Y):
            return 3.0 * factor.solve(Y)

    vars(system)["factor"] = Diverging()
    np.testing.assert_allclose(system.solve(Y, np.full(2, 1e-12)).X, 3.0 * exact)


def test_many_outputs_are_solved_in_parts_of_one_size(rng, X, monkeypatch):
    Y, start = rng.normal(size=(N, 10)), rng.normal(size=(N, 10))
    seen, told = [], []

    def solve(self, Y, tol, X0, callback, max_iter):
        callback(np.full(Y.shape[1], 0.5))
        seen.append((Y.shape[1], X0, max_iter))
        residual = np.full(Y.shape[1], 0.1 * len(seen))
        n_iter = np.full(Y.shape[1], len(seen), dtype=np.intp)
        return Solution(2.0 * Y, residual, n_iter, stagnated=len(seen) == 2)

    monkeypatch.setattr(System, "_solve_together", solve)
    monkeypatch.setattr(_system, "_MIN_OUTPUTS", 1)
    monkeypatch.setattr(_system, "_WORK_BYTES", 4 * 64 * N)
    system = make(X, solver="cg", max_iter=77)
    found = system.solve(Y, np.ones(10), start, lambda residual: told.append(residual.copy()))
    assert [size for size, *_ in seen] == [4, 4, 2]
    assert {max_iter for *_, max_iter in seen} == {77}
    np.testing.assert_array_equal(np.hstack([X0 for _, X0, _ in seen]), start)
    np.testing.assert_array_equal(found.X, 2.0 * Y)
    np.testing.assert_array_equal(found.n_iter, [1] * 4 + [2] * 4 + [3] * 2)
    np.testing.assert_allclose(found.residual, [0.1] * 4 + [0.2] * 4 + [0.3] * 2)
    assert found.stagnated
    # Each time all are told of, those whose turn is to come as they are before any solve.
    np.testing.assert_allclose(told[0], [0.5] * 4 + list(np.abs(Y).max(axis=0)[4:]))
    np.testing.assert_allclose(told[-1], [0.1] * 4 + [0.2] * 4 + [0.5] * 2)
    seen.clear()
    monkeypatch.setattr(_system, "_WORK_BYTES", 5 * 64 * N)
    system.solve(Y, np.ones(10), start, lambda _: None)
    assert [size for size, *_ in seen] == [5, 5]
    system._solve_iteratively(Y, np.ones(10), None, lambda _: None, 5)
    assert {max_iter for *_, max_iter in seen[2:]} == {5}
    assert [X0 for _, X0, _ in seen[2:]] == [None, None]
    seen.clear()
    monkeypatch.setattr(_system, "_MIN_OUTPUTS", 10)
    system.solve(Y, np.ones(10), start, lambda _: None)
    assert [size for size, *_ in seen] == [10]


def test_parts_need_no_one_to_tell_and_do_not_stagnate_by_themselves(rng, X, monkeypatch):
    Y = rng.normal(size=(N, 10))
    monkeypatch.setattr(_system, "_MIN_OUTPUTS", 4)
    monkeypatch.setattr(_system, "_WORK_BYTES", 1)
    solution = make(X, solver="cg").solve(Y, np.full(10, 1e-8))
    np.testing.assert_allclose(
        solution.X, np.linalg.solve(dense_matrix(X, np.ones(N)), Y), rtol=1e-4, atol=1e-6
    )
    assert np.all(solution.residual <= 1e-8)
    assert not solution.stagnated


def test_solvers_are_those_that_were_asked_for(X):
    for solver, name in (("greedy-block", "greedy_block"), ("cg", "block_cg")):
        assert make(X, solver=solver)._iterative_solver(1).func.__name__ == name
    system = make(X, solver="coordinate-descent", intercept=0.0)
    assert system._iterative_solver(1).func.__name__ == "coordinate_descent"


def test_single_precision_helps_from_nine_outputs_on(X, monkeypatch):
    system = make(X, solver="cg")
    assert system.survives_single_precision
    for n_outputs, name in ((8, "block_cg"), (9, "nested_cg")):
        assert system._iterative_solver(n_outputs).func.__name__ == name
    vague = replace(system, noise=1e-12)
    assert not vague.survives_single_precision
    assert vague._iterative_solver(9).func.__name__ == "block_cg"


# ---- variances ---------------------------------------------------------------------------------


@each("solver", ["cholesky", "cg", "auto"])
@each("weighted", [False, True])
@each("intercept", [0.0, C])
def test_variances_and_covariances_of_rows_of_any_size(
    rng, X, weights, solver, weighted, intercept
):
    X_star = rng.gamma(1.0, size=(130, 5))
    X_star[3] = 0.0
    X_star[4] *= 1e-9
    X_star[5:20] *= 1e6
    w = weights if weighted else np.ones(N)
    system = make(X, solver=solver, intercept=intercept, row_scale=np.sqrt(w) if weighted else None)
    A = intersection_kernel(X) + intercept + NOISE / AMPLITUDE * np.diag(1.0 / w)
    k = intersection_kernel(X, X_star) + intercept
    prior = intersection_kernel(X_star) + intercept
    expected = prior - k.T @ np.linalg.solve(A, k)
    variance, solved = system.latent_variance(X_star, 1e-9, 1)
    assert solved.all()
    size = np.diag(prior) + intercept
    np.testing.assert_allclose(
        variance / (size + 1e-12), np.diag(expected) / (size + 1e-12), atol=1e-6
    )
    covariance = system.latent_covariance(X_star)
    np.testing.assert_array_equal(covariance, covariance.T)
    both = np.sqrt(np.outer(size, size)) + 1e-12
    np.testing.assert_allclose(covariance / both, expected / both, atol=1e-5)


def test_what_little_noise_leaves_is_no_negative_variance(X):
    variance, _ = make(X, noise=1e-13, intercept=0.0).latent_variance(X, 1e-9, 1)
    assert np.all(variance >= 0.0)
    assert np.all(variance < 1e-9)


# ---- what is kept, and what is chosen ------------------------------------------------------------


@each("weighted_features", [False, True])
def test_other_scales_and_weights_of_rows_keep_sorted_columns(X, weights, weighted_features):
    feature_weights = np.arange(1.0, 6.0) if weighted_features else None
    kernel = GeneralizedKernel(weights=feature_weights)
    base = _histrs.SortedColumns(X, 1)
    system = make(X, kernel=kernel, base=base)
    other = system.with_scales(Scales(3.0, 5.0))
    assert (other.noise, other.amplitude, other.s) == (3.0, 5.0, 0.6)
    assert other.bound is system.bound
    assert other.bound.sorted_base is base
    scaled = system.with_row_scale(np.sqrt(weights))
    assert scaled.bound is system.bound
    assert (scaled.noise, scaled.amplitude) == (NOISE, AMPLITUDE)
    np.testing.assert_array_equal(scaled.row_scale, np.sqrt(weights))
    assert scaled.with_row_scale(None).row_scale is None
    w = 1.0 if feature_weights is None else feature_weights
    for one in (other, scaled.with_row_scale(None)):
        np.testing.assert_allclose(one.kernel_matrix(), intersection_kernel(w * X))


def test_iterating_first_keeps_what_is_known_and_makes_no_factor(rng, X):
    system = make(X, solver="auto")
    preconditioner = system.preconditioner
    assert system.uses_cholesky(1)
    first = system.iterating_first()
    assert first.preconditioner is preconditioner
    assert first.bound is system.bound
    assert not first.uses_cholesky(1)
    solution = first.solve(rng.normal(size=(N, 2)), np.full(2, 1e-8))
    assert np.all(solution.n_iter > 1)
    assert "factor" not in vars(first)


def test_a_factor_is_made_where_it_is_asked_for_there_or_cheap(X, monkeypatch):
    assert make(X, solver="cholesky").uses_cholesky(1)
    for solver in ("cg", "coordinate-descent", "greedy-block"):
        assert not make(X, solver=solver).uses_cholesky(1)
    system = make(X, solver="auto")
    monkeypatch.setattr(additive, "_MAX_CHOLESKY_ROWS", N)
    assert system.uses_cholesky(1)
    monkeypatch.setattr(additive, "_MAX_CHOLESKY_ROWS", N - 1)
    assert not system.uses_cholesky(1)
    _ = system.factor
    assert system.uses_cholesky(1)


@each("container", [np.asarray, sparse.csr_array])
def test_a_factor_has_to_be_worth_its_time(rng, X, monkeypatch, container):
    X = X * (rng.random(X.shape) < 0.5)
    stored = np.count_nonzero(X) if container is sparse.csr_array else X.size
    system = make(container(X), solver="auto")
    factorisation, iteration = system.bound.costs(3)
    # Terms of the matrix and flops of a factor; stored values, and flops of the preconditioner.
    assert factorisation == pytest.approx(0.15 * N * stored / 2 + 0.03 * N**3 / 3)
    assert iteration == pytest.approx(3 * (0.5 * stored + 0.03 * 4 * additive.MAX_RANK * N))
    monkeypatch.setattr(additive, "_SHORT", 0.0)
    monkeypatch.setattr(additive, "_ITERATIONS", 1.01 * factorisation / (3 * iteration))
    assert system.uses_cholesky(3)
    assert not system.uses_cholesky(2)


# ---- what ends where iterations do not ---------------------------------------------------------


@pytest.fixture
def attempts(monkeypatch):
    """What was tried, where iterations leave a residual of 1 and a factor none."""
    tried = []

    def iterate(self, Y, tol, X0=None, callback=None, max_iter=None):
        tried.append((self.solver.preconditioner, max_iter, X0))
        n_iter = np.full(Y.shape[1], 10 * len(tried), dtype=np.intp)
        return Solution(Y + len(tried), np.ones(Y.shape[1]), n_iter)

    def factorise(self, Y, tol):
        tried.append("factor")
        return Solution(7.0 * Y, np.zeros(Y.shape[1]), np.ones(Y.shape[1], dtype=np.intp))

    monkeypatch.setattr(System, "_solve_iteratively", iterate)
    monkeypatch.setattr(System, "_solve_by_factor", factorise)
    monkeypatch.setattr(_system, "_MIN_ITERATIONS", 1)
    monkeypatch.setattr(_system, "_MEMORY_SHARE", 0.5)
    return tried


def iterating(X, **options):
    return make(X, solver="auto", iterates_first=True, **options)


def memory_for(monkeypatch, n_bytes):
    monkeypatch.setattr(_system, "physical_memory", lambda: n_bytes)


def test_iterations_get_as_much_time_as_the_factor_that_follows(monkeypatch, attempts, X):
    # Without a preconditioner's part, an iteration is much less than a factor.
    monkeypatch.setattr(additive, "MAX_RANK", 0)
    # Half of it is the matrix.
    memory_for(monkeypatch, 2 * 8 * N**2)
    system, Y = iterating(X), np.ones((N, 2))
    factorisation, iteration = system.bound.costs(2)
    enough = int(factorisation / iteration)
    assert enough > 1
    solution = system.solve(Y, np.full(2, 0.1))
    assert attempts == [("auto", enough, None), "factor"]
    np.testing.assert_array_equal(solution.X, 7.0 * Y)
    np.testing.assert_array_equal(solution.n_iter, 10)
    attempts.clear()
    monkeypatch.setattr(_system, "_MIN_ITERATIONS", enough + 5)
    system.solve(Y, np.full(2, 0.1))
    replace(system, solver=Solver(max_iter=3)).solve(Y, np.full(2, 0.1))
    assert [attempt[1] for attempt in attempts if attempt != "factor"] == [enough + 5, 3]
    attempts.clear()
    # What is solved, if only just, needs nothing more.
    np.testing.assert_array_equal(system.solve(Y, np.full(2, 1.0)).X, Y + 1.0)
    assert "factor" not in attempts


@each(("name", "other"), [("knots", "pivoted-cholesky"), ("pivoted-cholesky", "knots")])
def test_without_memory_the_other_preconditioner_goes_on(monkeypatch, attempts, X, name, other):
    memory_for(monkeypatch, 2 * 8 * N**2 - 1)
    system, Y = (
        replace(iterating(X), solver=Solver(max_iter=5000, preconditioner=name)),
        np.ones((N, 2)),
    )
    solution = system.solve(Y, np.full(2, 0.1))
    (first, n_first, _), (second, n_second, start) = attempts
    assert (first, n_first, second, n_second) == (name, 5000, other, None)
    np.testing.assert_array_equal(start, Y + 1.0)
    np.testing.assert_array_equal(solution.X, Y + 2.0)
    np.testing.assert_array_equal(solution.n_iter, 10 + 20)


def test_smooth_functions_have_no_other_preconditioner(monkeypatch, attempts, X):
    memory_for(monkeypatch, 0)
    system = iterating(X, kernel=GeneralizedKernel(smoothness="cubic"))
    solution = system.solve(np.ones((N, 2)), np.full(2, 0.1))
    assert attempts == [("auto", 5000, None)]
    np.testing.assert_array_equal(solution.X, 2.0)
    np.testing.assert_array_equal(solution.n_iter, 10)


@each("solver", ["auto", "cg"])
def test_variances_are_solved_as_surely_as_means(monkeypatch, attempts, rng, X, solver):
    memory_for(monkeypatch, 2 * 8 * N**2)
    system = replace(iterating(X), solver=Solver(solver))
    _, solved = system.latent_variance(rng.random((3, 5)), 0.1, 1)
    assert ("factor" in attempts) == solved.all() == (solver == "auto")


def test_covariances_are_solved_by_iterations_or_by_a_factor(monkeypatch, X):
    calls = []
    solve = System.solve

    def count(self, *arguments):
        calls.append(self.solver.name)
        return solve(self, *arguments)

    monkeypatch.setattr(System, "solve", count)
    for solver, expected in (("cholesky", []), ("cg", ["cg"])):
        make(X, solver=solver).latent_covariance(X[:3])
        assert calls == expected


# ---- what cannot be solved -----------------------------------------------------------------------


def test_pairs_of_features_are_beyond_coordinates(X):
    pairs = PairKernel.of(X, [(0, 1)], 4)
    kernel = GeneralizedKernel(pairs=pairs, interaction_weight=0.3)
    make(X, kernel=kernel).check()
    with pytest.raises(ValueError, match="choose another one for pairs of features"):
        make(X, kernel=kernel, solver="coordinate-descent").check()


def test_of_smooth_functions_it_is_checked_what_they_are_made_of(X):
    kernel = GeneralizedKernel(smoothness="cubic")
    system = make(X, kernel=kernel)
    system.check()
    # Minima are asked for nothing.
    assert "columns" not in vars(system.bound)
    with pytest.raises(ValueError, match="entries of row 0 of X sum to"):
        make(np.diag([1e300, 1e150]), kernel=kernel).check()


@each(
    ("options", "message"),
    [
        ({"noise": 1e300, "amplitude": 1e-10}, "out of range"),
        ({"solver": "coordinate-descent"}, "intercept_variance=0"),
        ({"X": np.full((3, 2), 1e300)}, "entries of row 0 of X sum to 2.0e[+]300"),
        ({"X": np.array([[1.0], [2e300]])}, "entries of row 1 of X sum to 2.0e[+]300"),
        ({"X": np.array([[1.0], [-2.0]])}, "negative"),
    ],
)
def test_what_cannot_be_solved_is_refused_with_its_cure(X, options, message):
    make(X).check()
    make(X, solver="coordinate-descent", intercept=0.0).check()
    with pytest.raises(ValueError, match=message):
        make(**{"X": X, **options}).check()
