"""Variances from what is solved once, against those that are solved for each row."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process._posterior import cached_variance as _cached_variance
from histrs.gaussian_process._posterior.cached_variance import CachedVariance
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


def test_rows_that_come_and_go_are_counted(rng):
    X, y = additive(rng, 400)
    parameters = {
        "variance": "cached",
        "optimizer": None,
        "solver": "cg",
        "feature_weights": None,
        "intercept_variance": 0.0,
    }
    model = build(IntersectionGPRegressor, **parameters).fit(X[:200], y[:200])
    before = model.latent_mean_and_variance(X[200:])[1]
    model.partial_fit(X[200:], y[200:])
    after = model.latent_mean_and_variance(X[200:])[1]
    assert np.all(after < before)


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


# ---- what the correction is learned from ---------------------------------------------------------


PLAIN = {
    "optimizer": None,
    "feature_weights": None,
    "intercept_variance": 0.0,
    "solver": "cg",
    "noise": 0.05,
    "random_state": 0,
}
N = 80


def test_the_error_is_of_rows_by_the_line_of_the_others(rng):
    uppers, noise = np.exp(rng.normal(size=(1, 12))), 0.3
    exact = uppers[0] * rng.uniform(0.2, 0.9, 12)
    errors = []
    for i in range(12):
        x, y = np.log(np.delete(uppers[0], i)), np.log(np.delete(exact, i))
        slope, constant = np.polyfit(x, y - x, 1)
        at = np.clip(np.log(uppers[0, i]), x.min(), x.max())
        found = min(np.exp(constant + slope * at), 1.0) * uppers[0, i]
        errors.append(abs(np.sqrt((found + noise) / (exact[i] + noise)) - 1.0))
    error = _cached_variance._error_without_itself(uppers, exact, noise)
    assert error == pytest.approx(np.mean(errors))
    # One row is predicted by what bounds it, and none is no error.
    alone = _cached_variance._error_without_itself(uppers[:, :1], exact[:1], noise)
    assert alone == pytest.approx(np.sqrt((uppers[0, 0] + noise) / (exact[0] + noise)) - 1.0)
    assert _cached_variance._error_without_itself(np.empty((1, 0)), np.empty(0), noise) == 0.0


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


@pytest.mark.parametrize(
    ("n", "n_solved"), [(0, 0), (50, 50), (32_000, 100), (100_000, 32), (10**7, 16)]
)
def test_of_many_rows_few_are_solved_for(n, n_solved):
    assert _cached_variance.n_solved_of(n) == n_solved


def system_of(X, weights=None):
    model = IntersectionGPRegressor(**of_terms(**PLAIN)).fit(X, np.arange(len(X)) % 7, weights)
    return model._posterior.system


@pytest.mark.parametrize(
    ("alone", "both", "rounding", "asked", "kept"),
    [
        (0.004, 0.001, 0.0, False, False),
        (_cached_variance._GOOD_ENOUGH, 0.001, 0.0, False, False),
        (0.02, 0.01, 0.0, True, True),
        # A little more is tolerated, ...
        (0.02, 0.0210, 0.0, True, True),
        (0.02, 0.0230, 0.0, True, False),
        # ... with what coarse tables seem to know.
        (0.02, 0.0210, 0.0020, True, False),
        (0.02, 0.0100, 0.0020, True, True),
    ],
)
def test_nearby_rows_are_asked_unless_that_is_clearly_worse(
    rng, monkeypatch, alone, both, rounding, asked, kept
):
    seen = []

    def error(uppers, exact, noise):
        seen.append(len(uppers))
        return alone if len(uppers) == 1 else both

    monkeypatch.setattr(_cached_variance, "_error_without_itself", error)
    monkeypatch.setattr(CachedVariance, "_error_of_rounding", lambda *_: rounding)
    cached = CachedVariance(system_of(rng.random((N, 3))))
    assert seen == ([1, 2] if asked else [1])
    assert (cached._nearby is not None) == kept
    assert cached.error == (both + rounding if kept else alone)
    assert len(cached._plane.slopes) == 1 + kept


@pytest.mark.parametrize(
    ("numbers", "n_outputs", "tabulated"),
    [(100, 5, False), (100, 100, True), (4000, 1, False), (4000, 2, True), (4000, 0, False)],
)
def test_scores_of_many_numbers_are_read_from_tables(monkeypatch, numbers, n_outputs, tabulated):
    monkeypatch.setattr(_cached_variance, "_MAX_KNOTS", 200)
    bound = SimpleNamespace(n_function_numbers=numbers, score=lambda *arguments: arguments)
    system = SimpleNamespace(bound=bound, row_scale=np.array([2.0, 3.0]))
    R = np.ones((2, n_outputs))
    weights, n_bins, interpolation = _cached_variance._score(system, R)
    np.testing.assert_array_equal(weights, [[2.0] * n_outputs, [3.0] * n_outputs])
    assert n_bins == (_cached_variance._N_BINS if tabulated else None)
    assert interpolation == "linear"
