"""Variances from what is solved once, against those that are solved for each row."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import linalg
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    _cached_variance,
    _krylov_space,
)
from histrs.gaussian_process._cached_variance import CachedVariance
from histrs.gaussian_process._krylov_space import KrylovSpace
from tests.helpers import CONTAINERS, ExactGP, awkward_histograms


def additive(rng, n=1500, d=8):
    X = rng.random((n, d))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.normal(size=n)


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X - X.min(axis=0), y


DATA = {
    "additive": lambda: additive(np.random.default_rng(0)),
    "diabetes": diabetes,
    "digits": lambda: load_digits(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
}


@pytest.mark.parametrize("name", DATA)
def test_standard_deviations_are_near_the_exact_ones(name):
    X, y = DATA[name]()
    train = np.random.default_rng(0).random(len(y)) < 0.7
    regression = name in ("additive", "diabetes")
    model_class = IntersectionGPRegressor if regression else IntersectionGPClassifier
    model = model_class(variance="cached", random_state=0).fit(X[train], y[train])
    std = model.predict(X[~train], return_std=True)[1]
    measured = model.std_error_
    exact = model.set_params(variance="exact").predict(X[~train], return_std=True)[1]
    assert model.std_error_ == 0.0
    error = np.abs(std / exact - 1.0)
    assert error.mean() < 0.015
    assert np.quantile(error, 0.99) < 0.06
    # What the model says of itself is honest.
    assert error.mean() / 3.0 < measured < 0.015 * 3.0


def test_auto_is_exact_where_there_is_a_factor(rng):
    X, y = additive(rng, 200)
    model = IntersectionGPRegressor(random_state=0).fit(X, y)
    expected = model.predict(X, return_std=True)[1]
    assert model.std_error_ == 0.0
    exact = model.set_params(variance="exact").predict(X, return_std=True)[1]
    np.testing.assert_array_equal(expected, exact)
    model.set_params(variance="auto", solver="cg").fit(X, y)
    assert 0.0 < model.std_error_ < 0.02
    for bound in ("fine", "coarse"):
        with pytest.raises(AttributeError, match="not measured with variance='"):
            _ = model.set_params(variance=bound).std_error_


@pytest.mark.parametrize("n", [1, 2, 3, 9, 17, 101])
def test_few_rows(rng, n):
    X = awkward_histograms(rng, n) if n > 2 else rng.random((n, 6))
    y = rng.normal(size=n)
    parameters = {
        "optimizer": None,
        "feature_weights": None,
        "intercept_variance": 0.0,
        "solver": "cg",
        "tol": 1e-9,
    }
    model = IntersectionGPRegressor(variance="cached", **parameters, random_state=0).fit(X, y)
    X_star = np.vstack([X, rng.random((9, 6)), np.zeros((1, 6))])
    _, variance = model.latent_mean_and_variance(X_star)
    prior = X_star.sum(axis=1)
    assert np.all(variance >= 0.0)
    assert np.all(variance <= prior * model.y_std_**2 * (1 + 1e-9))
    assert variance[-1] == 0.0
    assert np.isfinite(model.std_error_)
    space = KrylovSpace(model._posterior.system, min(100, n), np.arange(n), rng)
    np.testing.assert_allclose(space.Q.T @ space.Q, np.eye(min(100, n)), atol=1e-10)


def test_with_as_many_directions_as_rows_the_bound_is_exact(rng):
    X = rng.random((60, 4))
    parameters = {
        "optimizer": None,
        "feature_weights": None,
        "intercept_variance": 0.0,
        "solver": "cg",
    }
    model = IntersectionGPRegressor(**parameters, random_state=0).fit(X, rng.normal(size=60))
    cached = CachedVariance(model._posterior.system)
    X_star = rng.random((20, 4))
    exact = ExactGP.of(X, np.zeros((60, 1)), 0.1).latent_variance(X_star)
    np.testing.assert_allclose(
        cached._uppers(X_star, X_star, cached._system.prior(X_star))[-1], exact, rtol=1e-6
    )
    # Of what is exact, nothing is to be corrected.
    np.testing.assert_allclose(cached._plane.constant, 0.0, atol=0.05)
    np.testing.assert_allclose(cached._plane.slopes, 0.0, atol=0.05)


def test_fewer_directions_bound_from_above(rng):
    X, y = additive(rng, 600)
    parameters = {
        "optimizer": None,
        "feature_weights": None,
        "intercept_variance": 0.0,
        "solver": "cg",
        "noise": 0.01,
    }
    model = IntersectionGPRegressor(**parameters, random_state=0).fit(X, y)
    cached = CachedVariance(model._posterior.system)
    X_star = rng.random((50, 8))
    exact = ExactGP.of(X, np.zeros((600, 1)), 0.01).latent_variance(X_star)
    assert np.all(cached._uppers(X_star, X_star, cached._system.prior(X_star))[-1] >= exact - 1e-9)


def test_directions_of_many_rows_are_few(rng, monkeypatch):
    X, y = additive(rng, 400)
    model = IntersectionGPRegressor(optimizer=None, solver="cg", random_state=0).fit(X, y)
    monkeypatch.setattr(_cached_variance, "_MAX_NUMBERS", 20 * 400)
    cached = CachedVariance(model._posterior.system)
    assert cached._scores(X, cached._rows(X)).shape == (400, 20)


@pytest.mark.parametrize(
    ("n", "n_solved"), [(0, 0), (50, 50), (32_000, 100), (100_000, 32), (10**7, 16)]
)
def test_of_many_rows_few_are_solved_for(n, n_solved):
    assert _cached_variance.n_solved_of(n) == n_solved


@pytest.mark.parametrize("times", [2, 40])
def test_rows_that_repeat(rng, times):
    X, y = additive(rng, 60, 3)
    X, y = np.tile(X, (times, 1)), np.tile(y, times) + 0.1 * rng.normal(size=60 * times)
    parameters = {"solver": "cg", "optimizer": None}
    model = IntersectionGPRegressor(variance="cached", **parameters, random_state=0).fit(X, y)
    X_star, _ = additive(rng, 60, 3)
    std = model.predict(X_star, return_std=True)[1]
    exact = model.set_params(variance="exact", tol=1e-8).predict(X_star, return_std=True)[1]
    assert np.mean(np.abs(std / exact - 1.0)) < 0.015


def test_containers_and_calls_do_not_matter(rng):
    X = awkward_histograms(rng, 150)
    y = rng.normal(size=150)
    parameters = {"variance": "cached", "optimizer": None, "solver": "cg"}
    expected = (
        IntersectionGPRegressor(**parameters, random_state=0)
        .fit(X, y)
        .predict(X, return_std=True)[1]
    )
    for container in ("F", "CSR array", "COO"):
        M = CONTAINERS[container](X)
        model = IntersectionGPRegressor(**parameters, random_state=0).fit(M, y)
        for _ in range(2):
            np.testing.assert_allclose(model.predict(M, return_std=True)[1], expected, rtol=1e-4)


def test_rows_that_come_and_go_are_counted(rng):
    X, y = additive(rng, 400)
    parameters = {
        "variance": "cached",
        "optimizer": None,
        "solver": "cg",
        "feature_weights": None,
        "intercept_variance": 0.0,
    }
    model = IntersectionGPRegressor(**parameters, random_state=0).fit(X[:200], y[:200])
    before = model.latent_mean_and_variance(X[200:])[1]
    model.partial_fit(X[200:], y[200:])
    after = model.latent_mean_and_variance(X[200:])[1]
    assert np.all(after < before)


def test_tables_of_large_data_are_near_scores(rng, monkeypatch):
    X, y = additive(rng, 500)
    parameters = {"variance": "cached", "optimizer": None, "solver": "cg"}
    expected = (
        IntersectionGPRegressor(**parameters, random_state=0)
        .fit(X, y)
        .predict(X, return_std=True)[1]
    )
    monkeypatch.setattr(_cached_variance, "_MAX_KNOTS", 0)
    found = (
        IntersectionGPRegressor(**parameters, random_state=0)
        .fit(X, y)
        .predict(X, return_std=True)[1]
    )
    np.testing.assert_allclose(found, expected, rtol=0.01)


def test_tables_of_bytes_are_given_features_as_they_are(rng, monkeypatch):
    X = 10.0 * rng.integers(0, 17, size=(500, 8))
    y = np.sin(X[:, 0]) + X[:, 1] / 100 + 0.3 * rng.normal(size=len(X))
    model = IntersectionGPRegressor(optimizer=None, solver="cg", random_state=0).fit(X, y)
    monkeypatch.setattr(_cached_variance, "_GOOD_ENOUGH", np.inf)
    expected = CachedVariance(model._posterior.system).of(X)
    monkeypatch.setattr(_cached_variance, "_MAX_KNOTS", 0)
    monkeypatch.setattr(_cached_variance, "_N_BINS", 100)
    cached = CachedVariance(model._posterior.system)
    assert cached._score.takes_features
    np.testing.assert_allclose(cached.of(X), expected, rtol=0.02)


@pytest.mark.parametrize("n", [1500, 3000, 5000])
def test_a_second_call_says_the_same(n):
    # What is cached was solved by a factor, which made later answers exact ones.
    rng = np.random.default_rng(0)
    X = rng.random((n, 8))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)
    model = IntersectionGPRegressor(optimizer=None, noise=0.05, random_state=0).fit(X, y)
    T = rng.random((20, 8))
    before = model.std_error_
    first, second = (model.predict(T, return_std=True)[1] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert model.std_error_ == before


def test_rows_of_zeros():
    X, y = np.zeros((30, 4)), np.arange(30) % 2
    model = IntersectionGPRegressor(
        optimizer=None, solver="cg", variance="cached", random_state=0
    ).fit(X, y)
    _, std = model.predict(X[:3], return_std=True)
    np.testing.assert_allclose(std, float(model.y_std_[0]) * model.noise_**0.5, rtol=1e-6)


def test_the_direction_of_eigenvectors_decides_nothing(rng, monkeypatch):
    X, y = additive(rng, 601)
    parameters = {"solver": "cg", "variance": "cached", "noise": 0.05, "optimizer": None}
    # Small spaces, beside which nearby rows are asked.
    monkeypatch.setattr(_cached_variance, "_RANK", 16)
    std = []
    for signs in (1.0, rng.choice([-1.0, 1.0], 16)):

        def eigh(A, signs=signs, **options):
            values, vectors = linalg.eigh(A, **options)
            return values, signs * vectors

        turned = SimpleNamespace(eigh=eigh, qr=linalg.qr)
        monkeypatch.setattr(_krylov_space, "linalg", turned)
        model = IntersectionGPRegressor(**parameters, random_state=0).fit(X, y)
        std.append(model.predict(X[:50], return_std=True)[1])
    np.testing.assert_array_equal(*std)
