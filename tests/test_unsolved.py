"""Systems that iterations do not solve, and what else must not go wrong behind one's back."""

import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process._bound import additive
from histrs.gaussian_process._systems import system as _system
from tests.helpers import assert_close, build
from tests.oracles import intersection as oracle


def powers(rng, n):
    """Sixteen powers of two variables, of which a sum of two is the target."""
    u, v = rng.random((2, n))
    exponents = np.arange(1, 9)
    X = np.hstack([u[:, None] ** exponents, v[:, None] ** exponents])
    return X, 100.0 * (u + v**2)


def rmse(model, X, y):
    return np.sqrt(np.mean((model.predict(X) - y) ** 2))


def test_powers_of_two_variables_are_solved(rng):
    X, y = powers(rng, 1500)
    X_star, y_star = powers(rng, 500)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        found = IntersectionGPRegressor(random_state=0).fit(X, y)
        expected = IntersectionGPRegressor(solver="cholesky", random_state=0).fit(X, y)
    assert rmse(found, X_star, y_star) < 1.05 * rmse(expected, X_star, y_star)
    assert found.score(X_star, y_star) > 0.99
    assert np.all(found.residual_ <= 2e-4 * np.abs(y - y.mean()).max())


def stagnating(rng, n=400):
    """Columns that depend on each other, with next to no noise."""
    X, y = powers(rng, n)
    parameters = {
        "noise": 1e-9,
        "amplitude": 1.0,
        "optimizer": None,
        "feature_weights": None,
        "intercept_variance": 0.0,
        "preconditioner": None,
        "tol": 1e-8,
    }
    return X, y, parameters


def iterate_first(monkeypatch):
    """Let systems that are small enough for a factor be solved by iterations."""

    def uses_cholesky(self, n_outputs):
        return self.solver.name == "cholesky" or "factor" in vars(self)

    monkeypatch.setattr(_system.System, "uses_cholesky", uses_cholesky)


def test_what_iterations_do_not_solve_is_factorised(rng, monkeypatch):
    iterate_first(monkeypatch)
    X, y, parameters = stagnating(rng)
    with pytest.warns(ConvergenceWarning, match="stopped after"):
        build(IntersectionGPRegressor, solver="cg", max_iter=50, **parameters).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = build(IntersectionGPRegressor, max_iter=50, **parameters).fit(X, y)
    assert "factor" in vars(model._posterior.system)
    K = oracle.intersection_kernel(X) + 1e-9 * np.eye(len(X))
    Y = (y - y.mean())[:, None]
    assert np.abs(Y - K @ model.dual_coef_).max() <= 2e-8 * np.abs(Y).max()


def test_the_factor_that_was_made_serves_variances(rng, monkeypatch):
    iterate_first(monkeypatch)
    X, y, parameters = stagnating(rng)
    model = build(IntersectionGPRegressor, max_iter=50, **parameters).fit(X, y)
    exact = build(IntersectionGPRegressor, **{**parameters, "solver": "cholesky"}).fit(X, y)
    assert model.std_error_ == 0.0
    assert_close(
        model.predict(X[:30], return_std=True)[1], exact.predict(X[:30], return_std=True)[1], 1e-6
    )


def test_without_memory_for_a_factor_the_other_preconditioner_has_its_turn(rng, monkeypatch):
    iterate_first(monkeypatch)
    monkeypatch.setattr(_system, "physical_memory", lambda: 0.0)
    X, y, parameters = stagnating(rng)
    X = rng.random((400, 3))
    parameters |= {"noise": 1e-3, "tol": 1e-6, "max_iter": 60}
    model = build(IntersectionGPRegressor, **parameters).fit(X, y)
    assert "factor" not in vars(model._posterior.system)
    # Without a preconditioner it takes more iterations than that, and knots do with the rest.
    assert 60 < model.n_iter_.max() < 120
    exact = build(IntersectionGPRegressor, **{**parameters, "solver": "cholesky"}).fit(X, y)
    assert_close(model.predict(X), exact.predict(X), 1e-3)
    # After knots, pivots; of either, as many iterations as are allowed.
    parameters |= {"preconditioner": "knots", "max_iter": 2}
    with pytest.warns(ConvergenceWarning, match="stopped after"):
        assert build(IntersectionGPRegressor, **parameters).fit(X, y).n_iter_.max() == 4


def test_smooth_functions_have_no_other_preconditioner(rng, monkeypatch):
    iterate_first(monkeypatch)
    monkeypatch.setattr(_system, "physical_memory", lambda: 0.0)
    X = rng.random((200, 3))
    options = {"smoothness": "cubic", "optimizer": None, "noise": 1e-6, "max_iter": 2}
    with pytest.warns(ConvergenceWarning, match="stopped after"):
        model = build(IntersectionGPRegressor, **options).fit(X, np.sin(9 * X).sum(axis=1))
    assert model.n_iter_.max() == 2


@pytest.mark.parametrize(("most", "iterates"), [(200, False), (199, True)])
def test_of_more_rows_than_a_factor_is_for_iterations_solve(rng, monkeypatch, most, iterates):
    monkeypatch.setattr(additive, "_MAX_CHOLESKY_ROWS", most)
    X = rng.random((200, 3))
    model = build(IntersectionGPRegressor, optimizer=None, noise=0.01).fit(X, X.sum(axis=1))
    assert (model.n_iter_.max() > 1) == iterates


# ---- threads -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model_class", [IntersectionGPRegressor, IntersectionGPClassifier])
def test_predictions_are_of_one_of_the_states(rng, model_class):
    """Rows are added and removed in one thread, while others predict."""
    X = rng.random((80, 4))
    y = X[:, 0] + rng.normal(size=80)
    if model_class is IntersectionGPClassifier:
        y = (y > np.median(y)).astype(int)
    model = model_class(optimizer=None, random_state=0).fit(X[:60], y[:60])
    X_star = rng.random((5, 4))

    def answer():
        return np.concatenate([part.ravel() for part in model.latent_mean_and_variance(X_star)])

    without = answer()
    model.partial_fit(X[60:], y[60:])
    states = [without, answer()]
    done = threading.Event()

    def watch():
        found = []
        while not done.is_set():
            found.append(answer())
        return found

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(2) as pool:
            watchers = [pool.submit(watch) for _ in range(2)]
            try:
                for _ in range(30):
                    model.forget(np.arange(60, 80))
                    model.partial_fit(X[60:], y[60:])
            finally:
                done.set()
            found = [numbers for watcher in watchers for numbers in watcher.result()]
    finally:
        sys.setswitchinterval(interval)
    assert len(found) > 10
    distances = [[np.max(np.abs(numbers - state)) for state in states] for numbers in found]
    apart = np.max(np.abs(states[0] - states[1]))
    assert np.max(np.min(distances, axis=1)) < 1e-6 * apart
