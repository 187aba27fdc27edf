"""The linear systems of a Gaussian process, against dense algebra."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from histrs._solvers.block_cg import Solution
from histrs.gaussian_process import Solver
from histrs.gaussian_process._bound import additive
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
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


# ---- what is kept, and what is chosen ------------------------------------------------------------


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
