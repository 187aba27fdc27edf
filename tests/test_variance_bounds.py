"""Standard deviations lie between their certified bounds."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from histrs._solvers.block_cg import Solution
from histrs.gaussian_process import IntersectionGPRegressor, MinMaxGPRegressor, Solver
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._posterior.variance import are_near, variance_bounds
from histrs.gaussian_process._systems.system import System
from histrs.gaussian_process.kernels import Splines
from tests.helpers import ExactGP, build_plain
from tests.oracles.intersection import intersection_kernel


def _histograms(rng, n, d=7):
    X = rng.gamma(0.7, size=(n, d)) * (rng.random((n, d)) < 0.8)
    return X, np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


def _exact_std(model, X_train, y, X):
    """Return predictive standard deviations from the dense kernel."""
    exact = ExactGP.of(X_train, y[:, None], model.noise_, model.amplitude_)
    return np.sqrt(exact.latent_variance(X) + model.noise_) * model.y_std_


@pytest.mark.parametrize("solver", ["cg", "cholesky", "coordinate-descent"])
@pytest.mark.parametrize("noise", [1e-4, 0.03, 10.0])
@pytest.mark.parametrize("rtol", [0.5, 0.01, 1e-5])
def test_exact_deviations_are_between_the_bounds(rng, solver, noise, rtol):
    X, y = _histograms(rng, 163)
    model = build_plain(
        IntersectionGPRegressor, noise=noise, solver=solver, max_iter=5000, amplitude=0.7
    ).fit(X[:120], y[:120])
    lower, upper = model.std_bounds(X[120:], rtol)
    exact = _exact_std(model, X[:120], y[:120], X[120:])
    assert np.all(lower <= exact * (1 + 1e-9))
    assert np.all(exact <= upper * (1 + 1e-9))
    assert np.all(upper <= lower * (1 + rtol) * (1 + 1e-9))


def test_bounds_hold_where_they_are_not_near(rng):
    X, y = _histograms(rng, 163)
    model = build_plain(
        IntersectionGPRegressor, noise=1e-5, solver="cg", preconditioner=None, max_iter=1
    )
    with pytest.warns(ConvergenceWarning):
        model.fit(X[:120], y[:120])
    with pytest.warns(ConvergenceWarning, match=r"bounds of \d rows hold") as caught:
        lower, upper = model.std_bounds(X[160:], 0.01)
    exact = _exact_std(model, X[:120], y[:120], X[160:])
    assert np.all((lower <= exact * (1 + 1e-9)) & (exact <= upper * (1 + 1e-9)))
    far = np.sum(upper > 1.01 * lower)
    assert far > 1
    assert f"bounds of {far} rows" in str(caught[0].message)


def test_bounds_of_more_rows_than_are_solved_at_a_time_and_of_csr(rng):
    X, y = _histograms(rng, 230)
    model = build_plain(IntersectionGPRegressor, noise=0.1, solver="cg").fit(X[:60], y[:60])
    bounds = model.std_bounds(X[60:])
    exact = _exact_std(model, X[:60], y[:60], X[60:])
    assert np.all((bounds[0] <= exact * (1 + 1e-9)) & (exact <= bounds[1] * (1 + 1e-9)))
    alike = model.std_bounds(sparse.csr_array(X[60:]))
    np.testing.assert_allclose(alike, bounds, rtol=1e-3)


@pytest.mark.parametrize("name", ["intersection", "smooth", "minmax"])
def test_every_regressor_has_bounds_around_its_exact_deviations(rng, name):
    X, y = _histograms(rng, 100)
    Y = np.column_stack([y, 100 * X[:, 2] + rng.normal(size=100)])
    model = {
        "intersection": IntersectionGPRegressor(variance="exact", random_state=0),
        "smooth": IntersectionGPRegressor(Splines(), random_state=0),
        "minmax": MinMaxGPRegressor(random_state=0),
    }[name].fit(X[:80], Y[:80])
    lower, upper = model.std_bounds(X[80:])
    _, std = model.predict(X[80:], return_std=True)
    assert lower.shape == upper.shape == std.shape == (20, 2)
    assert np.all((lower <= std * (1 + 1e-7)) & (std <= upper * (1 + 1e-7)))
    assert np.all(upper <= 1.01 * lower)


@pytest.mark.parametrize("rtol", [0.0, -1.0, np.nan])
def test_a_gap_must_be_positive(rng, rtol):
    X, y = _histograms(rng, 20)
    model = IntersectionGPRegressor(optimizer=None, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="rtol"):
        model.std_bounds(X, rtol)


@pytest.mark.parametrize("noise", [1e-6, 1e-10, 1e-12])
def test_rounding_is_counted_where_noise_hardly_is_there(rng, noise):
    """Thirty rows, each ten times: as one row with a tenth of the noise."""
    X = rng.gamma(0.7, size=(30, 5))
    y = rng.normal(size=30)
    model = build_plain(IntersectionGPRegressor, noise=noise, solver="cg", max_iter=3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(np.repeat(X, 10, axis=0), np.repeat(y, 10))
        lower, upper = model.std_bounds(X)
    values, vectors = np.linalg.eigh(np.minimum(X[:, None], X[None]).sum(axis=2))
    left = noise / 10.0
    variance = np.einsum("ij,j->i", vectors**2, values * left / (values + left))
    exact = np.sqrt(variance + noise) * model.y_std_
    assert np.all((lower <= exact * (1 + 1e-9)) & (exact <= upper * (1 + 1e-9)))


S = 0.05


def dense_system(rng, n=40):
    """A system, rows, and what is left of their variance, without amplitude."""
    X, X_star = rng.gamma(0.7, size=(n, 3)), rng.gamma(0.7, size=(9, 3))
    bound = MinimaBound(X=X, n_threads=1)
    system = System(bound=bound, noise=S, amplitude=1.0, solver=Solver("cg", max_iter=500))
    A = intersection_kernel(X) + S * np.eye(n)
    k = intersection_kernel(X, X_star)
    return system, X_star, A, X_star.sum(axis=1) - np.sum(k * np.linalg.solve(A, k), axis=0)


def solves_off_by(monkeypatch, A, rng, *factors):
    """Let solvers leave residuals of so many tolerances, the last of them ever after."""
    calls = []

    def solve(self, Y, tol, X0=None, callback=None):
        R = factors[min(len(calls), len(factors) - 1)] * tol * rng.choice([-1.0, 1.0], Y.shape)
        solution = Solution(np.linalg.solve(A, Y - R), np.max(np.abs(R), axis=0), np.ones(len(tol)))
        calls.append((tol.copy(), X0, solution.X))
        return solution

    monkeypatch.setattr(System, "solve", solve)
    return calls


@pytest.mark.parametrize("gap", [0.5, 0.01, 1e-4])
def test_systems_are_solved_once_and_as_far_as_the_gap_asks(monkeypatch, rng, gap):
    system, X, A, exact = dense_system(rng)
    calls = solves_off_by(monkeypatch, A, rng, 1.0)
    lower, upper = variance_bounds(system, X, gap)
    ((tol, start, _),) = calls
    assert start is None
    # The squares of all entries of a residual, of which none is more, are 2 gap s^2.
    np.testing.assert_allclose(40 * tol**2, 2.0 * gap * S**2)
    assert np.all((lower <= exact * (1 + 1e-9)) & (exact <= upper * (1 + 1e-9)))
    assert np.all(are_near(system, lower, upper, gap))


@pytest.mark.parametrize(("factors", "n_calls"), [([1e3], 4), ([10.0, 1e4], 2)])
def test_bounds_are_those_of_the_best_solution(monkeypatch, rng, factors, n_calls):
    system, X, A, exact = dense_system(rng)
    calls = solves_off_by(monkeypatch, A, rng, *factors)
    lower, upper = variance_bounds(system, X, 0.01)
    # Where solutions get no better, nothing more is tried.
    assert len(calls) == n_calls
    assert np.all((lower <= exact * (1 + 1e-9)) & (exact <= upper * (1 + 1e-9)))
    if n_calls == 2:
        tol = calls[0][0]
        assert np.all(upper - lower <= 40 * (10.0 * tol) ** 2 / S * (1.0 + 1e-9))
    # They are never beyond what is certain without any solution.
    assert np.all((lower >= 0.0) & (upper <= X.sum(axis=1)))
