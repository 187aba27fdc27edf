"""Variances from what is solved once, and the space and rows that they are read from."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from tests.helpers import build, of_terms


def additive(rng, n=1500, d=8):
    X = rng.random((n, d))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.3 * rng.normal(size=n)


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X - X.min(axis=0), y


DATA = {
    "additive": lambda: additive(np.random.default_rng(0)),
    "diabetes": diabetes,
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "digits": lambda: load_digits(return_X_y=True),
}


PLAIN = {
    "optimizer": None,
    "feature_weights": None,
    "intercept_variance": 0.0,
    "solver": "cg",
    "noise": 0.05,
    "random_state": 0,
}


@pytest.mark.parametrize("name", [*list(DATA)[:3], pytest.param("digits", marks=pytest.mark.slow)])
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


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_near_a_row_are_conditioned_on(rng, container, weighted):
    """With near neighbours in more directions than the space has; else errors are 0.2 and more."""
    centres = rng.random((300, 12)) * (rng.random((300, 12)) < 0.6)
    X = np.abs(centres[rng.integers(300, size=1260)] + 0.02 * rng.normal(size=(1260, 12)))
    weights = rng.uniform(0.5, 2.0, 1200) if weighted else None
    parameters = {**PLAIN, "noise": 0.01, "variance": "cached"}
    model = IntersectionGPRegressor(**of_terms(**parameters))
    model.fit(container(X[:1200]), rng.normal(size=1200), weights)
    std = model.predict(container(X[1200:]), return_std=True)[1]
    said = model.std_error_
    exact = model.set_params(variance="exact").predict(X[1200:], return_std=True)[1]
    error = np.mean(np.abs(std / exact - 1.0))
    assert error < 0.05
    assert error / 3.0 < said < 0.1


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
        with pytest.raises(AttributeError, match="has no std_error_"):
            _ = model.set_params(variance=bound).std_error_


@pytest.mark.parametrize("times", [2, 40])
def test_rows_that_repeat(rng, times):
    X, y = additive(rng, 60, 3)
    X, y = np.tile(X, (times, 1)), np.tile(y, times) + 0.1 * rng.normal(size=60 * times)
    parameters = {"solver": "cg", "optimizer": None}
    model = build(IntersectionGPRegressor, variance="cached", **parameters).fit(X, y)
    X_star, _ = additive(rng, 60, 3)
    std = model.predict(X_star, return_std=True)[1]
    exact = model.set_params(variance="exact", tol=1e-8).predict(X_star, return_std=True)[1]
    assert np.mean(np.abs(std / exact - 1.0)) < 0.015


@pytest.mark.parametrize("n", [1500, 3000, pytest.param(5000, marks=pytest.mark.slow)])
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


# ---- what the correction is learned from ---------------------------------------------------------


N = 80


@pytest.mark.parametrize("unit", [2.0**-60, 2.0**60])
def test_units_of_the_kernel_do_not_matter(rng, unit):
    X = rng.random((N, 5))
    X[::9] = 0.0
    y, others = rng.normal(size=N), rng.random((20, 5))
    parameters = {**PLAIN, "variance": "cached"}
    found, scaled = (
        IntersectionGPRegressor(**of_terms(**{**parameters, "noise": 0.05 * u})).fit(X * u, y)
        for u in (1.0, unit)
    )
    assert scaled.std_error_ == pytest.approx(found.std_error_, rel=1e-6)
    _, expected = found.latent_mean_and_variance(others)
    _, variance = scaled.latent_mean_and_variance(others * unit)
    np.testing.assert_allclose(variance, expected * unit, rtol=1e-6)
