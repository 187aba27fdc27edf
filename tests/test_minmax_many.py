"""Gaussian processes with the MinMax kernel of many rows, whose matrix is not factorised."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import log_loss

from histrs.gaussian_process import MinMaxGPClassifier, MinMaxGPRegressor, Solver
from histrs.gaussian_process._learning import problem
from histrs.gaussian_process.kernels import Constant, MinMax
from tests.helpers import assert_close
from tests.test_minmax_gp import NOISE, counts, covariance
from tests.test_minmax_gp import given as options

pytestmark = pytest.mark.simd_paths

GIVEN = {**options(0.3), "tol": 1e-9}
WEIGHT = MinMax(0.3, "fixed")


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch):
    monkeypatch.setattr(MinMax, "most_factorised", 40)
    monkeypatch.setattr(problem, "_SCALE_ROWS", 30)


def definition(X, y, X_star, r):
    """Return mean and standard deviation by the matrix of all pairs."""
    size = X.sum(axis=1).mean()
    A = covariance(X, X, 0.3, size) + NOISE * np.diag(1.0 / r)
    k = covariance(X, X_star, 0.3, size)
    level = np.average(y, axis=0, weights=r)
    spread = np.sqrt(np.average((y - level) ** 2, axis=0, weights=r))
    latent = np.diag(covariance(X_star, X_star, 0.3, size) - k.T @ np.linalg.solve(A, k))
    return level + k.T @ np.linalg.solve(A, y - level), spread * np.sqrt(latent + NOISE)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_predictions_are_their_definition(rng, container, weighted):
    (X, y), (X_star, _) = counts(rng, 90), counts(rng, 8)
    r = rng.uniform(0.2, 2.0, size=90) if weighted else np.ones(90)
    r /= r.mean()
    model = MinMaxGPRegressor(**GIVEN, random_state=0)
    model.fit(container(X), y, r if weighted else None)
    assert not model._posterior.is_factorised
    mean, std = definition(X, y, X_star, r)
    assert_close(model.predict(container(X_star)), mean, 1e-6)
    # As many directions as rows know all.
    found = model.predict(container(X_star), return_std=True)[1]
    assert_close(found, std, 1e-3 if weighted else 1e-4)
    assert weighted or model.std_error_ < 1e-3


def test_covariances_are_solved_for(rng):
    (X, y), (X_star, _) = counts(rng, 70), counts(rng, 8)
    many = MinMaxGPRegressor(**GIVEN, random_state=0).fit(X, y)
    cov = many.predict(X_star, return_cov=True)[1]
    size, n = X.sum(axis=1).mean(), NOISE * np.eye(70)
    k = covariance(X, X_star, 0.3, size)
    latent = covariance(X_star, X_star, 0.3, size)
    latent -= k.T @ np.linalg.solve(covariance(X, X, 0.3, size) + n, k)
    assert_close(cov, y.var() * (latent + NOISE * np.eye(8)), 1e-6)


def test_each_target_has_its_own_noise(rng):
    X, y = counts(rng, 90)
    Y = np.column_stack([y, y + 3.0 * rng.normal(size=90)])
    model = MinMaxGPRegressor(random_state=0).fit(X, Y)
    assert model.noise_.shape == (2,)
    first, second = model._posterior.systems
    assert first.bound is second.bound
    for k in range(2):
        alone = MinMaxGPRegressor(
            Constant(model.amplitude_[k]) * MinMax(model.kernel_.intersection_weight_),
            noise=model.noise_[k],
            optimizer=None,
            tol=1e-9,
            random_state=0,
        ).fit(X, Y[:, k])
        assert_close(model.predict(X[:9])[:, k], alone.predict(X[:9]), 1e-6)


def test_learned_from_some_rows(rng):
    X, y = counts(rng, 200)
    model = MinMaxGPRegressor(random_state=0).fit(X, y)
    assert 0.0 < model.noise_ < 1.0
    assert set(model.optimization_history_) > {"log_marginal_likelihood"}
    assert model.score(X, y) > 0.5
    again = clone(model).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_noise_is_raised_to_what_kept_sums_ask_for(rng, monkeypatch):
    X, y = counts(rng, 60)
    monkeypatch.setattr(MinMax, "least_ratio", lambda self, stored, n: n / 120.0)
    for amplitude, noise in ((4.0, 2.0), (0.1, 0.3)):
        model = MinMaxGPRegressor(amplitude * WEIGHT, noise=0.3, optimizer=None)
        assert model.fit(X, y).noise_ == noise
        assert model.amplitude_ == amplitude


def test_of_targets_that_miss_rows_the_largest_error_is_told(rng):
    X, y = counts(rng, 120)
    Y = np.column_stack([y, y])
    Y[:30, 1] = np.nan
    model = MinMaxGPRegressor(**GIVEN, random_state=0).fit(X, Y)
    errors = [fit.std_error_ for fit in model.pattern_fits_]
    assert len(errors) == 2
    assert model.std_error_ == max(errors) > 0.0


def test_further_rows_start_from_what_is_known(rng, monkeypatch):
    X, y = counts(rng, 200)
    monkeypatch.setattr(MinMax, "n_landmarks", lambda self, n: 2)
    Y = np.column_stack([y, y**2])
    fixed = {"noise": [0.2, 0.3], "optimizer": None, "random_state": 0, "tol": 1e-9}
    model = MinMaxGPRegressor(Constant([1.0, 1.5]) * WEIGHT, **fixed).fit(X[:199], Y[:199])
    first = model.n_iter_
    last = model.partial_fit(X[199:], Y[199:]).n_iter_
    assert np.all(last < first)


def test_rows_come_and_go(rng):
    X, y = counts(rng, 100)
    model = MinMaxGPRegressor(**GIVEN, random_state=0).fit(X[:60], y[:60])
    model.partial_fit(X[60:], y[60:]).forget(np.arange(5))
    size = X[:60].sum(axis=1).mean()
    rest = slice(5, None)
    level = model.y_mean_[0]
    A = covariance(X[rest], X[rest], 0.3, size) + NOISE * np.eye(95)
    weights = np.linalg.solve(A, y[rest] - level)
    expected = level + covariance(X[:9], X[rest], 0.3, size) @ weights
    assert_close(model.predict(X[:9]), expected, 1e-6)


def test_threads_do_not_matter(rng):
    X, y = counts(rng, 300)
    models = [MinMaxGPRegressor(n_jobs=n, **GIVEN, random_state=0).fit(X, y) for n in (1, 2, 7)]
    for model in models[1:]:
        for found, right in zip(
            model.predict(X[:20], return_std=True),
            models[0].predict(X[:20], return_std=True),
            strict=True,
        ):
            np.testing.assert_array_equal(found, right)


def test_a_system_that_is_not_solved_warns(rng, monkeypatch):
    X, y = counts(rng, 90)
    monkeypatch.setattr(MinMax, "n_landmarks", lambda self, n: 1)
    with pytest.warns(match="stopped after 1 iterations with a residual .* above the tolerance"):
        model = MinMaxGPRegressor(**GIVEN, solver=Solver(max_iter=1), random_state=0).fit(X, y)
    assert model.residual_[0] > 0.1


def test_classes_of_many_rows_are_those_of_a_factor(rng, monkeypatch):
    X, y = counts(rng, 260)
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    many = MinMaxGPClassifier(**GIVEN, random_state=0).fit(X[:200], labels[:200])
    assert np.all(many.n_iter_ > 1)
    assert 0.0 < many.std_error_ < 0.2
    monkeypatch.setattr(MinMax, "most_factorised", 1000)
    few = clone(many).fit(X[:200], labels[:200])
    assert np.all(few.n_iter_ == 1)
    assert few.std_error_ == 0.0
    for found, right in zip(
        many.latent_mean_and_variance(X[200:]), few.latent_mean_and_variance(X[200:]), strict=True
    ):
        assert_close(found, right, 0.1)
    losses = [log_loss(labels[200:], model.predict_proba(X[200:])) for model in (many, few)]
    assert abs(losses[0] - losses[1]) < 0.05 * losses[1]
