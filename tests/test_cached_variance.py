"""Variances from what is solved once, against those that are solved for each row."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import linalg
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process._posterior import cached_variance as _cached_variance
from histrs.gaussian_process._posterior import subspace as _subspace
from histrs.gaussian_process._posterior.cached_variance import CachedVariance
from histrs.gaussian_process._posterior.subspace import KrylovSpace
from tests.helpers import CONTAINERS, ExactGP, awkward_histograms, of_terms
from tests.oracles.intersection import intersection_kernel


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
    model = IntersectionGPRegressor(
        **of_terms(variance="cached", **parameters, random_state=0)
    ).fit(X, y)
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
    model = IntersectionGPRegressor(**of_terms(**parameters, random_state=0)).fit(
        X, rng.normal(size=60)
    )
    cached = CachedVariance(model._posterior.system)
    X_star = rng.random((20, 4))
    exact = ExactGP.of(X, np.zeros((60, 1)), 0.1).latent_variance(X_star)
    np.testing.assert_allclose(
        cached._uppers(X_star, X_star, X_star.sum(axis=1))[-1], exact, rtol=1e-6
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
    model = IntersectionGPRegressor(**of_terms(**parameters, random_state=0)).fit(X, y)
    cached = CachedVariance(model._posterior.system)
    X_star = rng.random((50, 8))
    exact = ExactGP.of(X, np.zeros((600, 1)), 0.01).latent_variance(X_star)
    assert np.all(cached._uppers(X_star, X_star, X_star.sum(axis=1))[-1] >= exact - 1e-9)


def test_directions_of_many_rows_are_few(rng, monkeypatch):
    X, y = additive(rng, 400)
    model = IntersectionGPRegressor(optimizer=None, solver="cg", random_state=0).fit(X, y)
    monkeypatch.setattr(_cached_variance, "_MAX_NUMBERS", 20 * 400)
    cached = CachedVariance(model._posterior.system)
    assert cached._scores(X, cached._system.bound.rows_of(X)).shape == (400, 20)


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
    model = IntersectionGPRegressor(
        **of_terms(variance="cached", **parameters, random_state=0)
    ).fit(X, y)
    X_star, _ = additive(rng, 60, 3)
    std = model.predict(X_star, return_std=True)[1]
    exact = model.set_params(variance="exact", tol=1e-8).predict(X_star, return_std=True)[1]
    assert np.mean(np.abs(std / exact - 1.0)) < 0.015


def test_containers_and_calls_do_not_matter(rng):
    X = awkward_histograms(rng, 150)
    y = rng.normal(size=150)
    parameters = {"variance": "cached", "optimizer": None, "solver": "cg"}
    expected = (
        IntersectionGPRegressor(**of_terms(**parameters, random_state=0))
        .fit(X, y)
        .predict(X, return_std=True)[1]
    )
    for container in ("F", "CSR array", "COO"):
        M = CONTAINERS[container](X)
        model = IntersectionGPRegressor(**of_terms(**parameters, random_state=0)).fit(M, y)
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
    model = IntersectionGPRegressor(**of_terms(**parameters, random_state=0)).fit(X[:200], y[:200])
    before = model.latent_mean_and_variance(X[200:])[1]
    model.partial_fit(X[200:], y[200:])
    after = model.latent_mean_and_variance(X[200:])[1]
    assert np.all(after < before)


def test_tables_of_large_data_are_near_scores(rng, monkeypatch):
    X, y = additive(rng, 500)
    parameters = {"variance": "cached", "optimizer": None, "solver": "cg"}
    expected = (
        IntersectionGPRegressor(**of_terms(**parameters, random_state=0))
        .fit(X, y)
        .predict(X, return_std=True)[1]
    )
    monkeypatch.setattr(_cached_variance, "_MAX_KNOTS", 0)
    found = (
        IntersectionGPRegressor(**of_terms(**parameters, random_state=0))
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

        turned = SimpleNamespace(**{**vars(linalg), "eigh": eigh})
        monkeypatch.setattr(_subspace, "linalg", turned)
        model = IntersectionGPRegressor(**of_terms(**parameters, random_state=0)).fit(X, y)
        std.append(model.predict(X[:50], return_std=True)[1])
    np.testing.assert_array_equal(*std)


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


def system_of(X, weights=None):
    model = IntersectionGPRegressor(**of_terms(**PLAIN)).fit(X, np.arange(len(X)) % 7, weights)
    return model._posterior.system


def without_each(X, weights, noise=0.05):
    """The variance of every row's latent function by the other rows."""
    found = np.empty(len(X))
    for i in range(len(X)):
        rest = np.delete(np.arange(len(X)), i)
        A = intersection_kernel(X[rest]) + noise * np.diag(1.0 / weights[rest])
        k = intersection_kernel(X[rest], X[[i]])[:, 0]
        found[i] = X[i].sum() - k @ np.linalg.solve(A, k)
    return found


@pytest.fixture(name="planes")
def fitted_planes(monkeypatch):
    """What planes are fitted to: upper bounds, and what they bound."""
    planes, plane = [], _cached_variance._Plane

    def spy(uppers, exact):
        planes.append((uppers, exact))
        return plane(uppers, exact)

    monkeypatch.setattr(_cached_variance, "_Plane", spy)
    return planes


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("nearby", [False, True])
def test_the_plane_is_of_rows_that_are_predicted_without_themselves(
    rng, monkeypatch, planes, weighted, nearby
):
    monkeypatch.setattr(_cached_variance, "_RANK", 12)
    monkeypatch.setattr(_cached_variance, "_GOOD_ENOUGH", -1.0 if nearby else np.inf)
    monkeypatch.setattr(_cached_variance, "_TOLERATED", np.inf)
    X = rng.random((N, 6))
    weights = rng.choice([0.25, 1.0, 4.0], N) if weighted else np.ones(N)
    weights /= weights.mean()
    cached = CachedVariance(system_of(X, weights if weighted else None), n_solved=N)
    uppers, exact = planes[-1]
    assert len(uppers) == 1 + nearby
    np.testing.assert_allclose(exact, without_each(X, weights), rtol=2e-3)
    # Less is known in a subspace than by all rows, and more with rows nearby than without.
    assert np.all(uppers >= exact * (1.0 - 1e-3))
    assert np.all(uppers[0] >= uppers[-1] * (1.0 - 1e-9))
    assert np.all(uppers <= X.sum(axis=1))
    if nearby:
        assert np.mean(uppers[1] / uppers[0]) < 0.95
    others = rng.random((20, 6))
    of_others = cached._uppers(others, others, others.sum(axis=1))
    assert len(of_others) == 1 + nearby
    assert np.all(of_others[0] >= of_others[-1] * (1.0 - 1e-9))
    K = intersection_kernel(X) + 0.05 * np.diag(1.0 / weights)
    k = intersection_kernel(X, others)
    left = others.sum(axis=1) - np.sum(k * np.linalg.solve(K, k), axis=0)
    assert np.all(of_others >= left * (1.0 - 1e-3))
    np.testing.assert_allclose(np.sqrt(cached.of(others)), np.sqrt(left), rtol=0.2)


@pytest.mark.parametrize(("n_solved", "n_rows"), [(None, 30), (9, 9), (500, N)])
def test_every_row_is_solved_for_once(rng, monkeypatch, n_solved, n_rows):
    monkeypatch.setattr(_cached_variance, "_N_SOLVED", 30)
    solve, solved, spaces, space = _cached_variance._without_itself, [], [], KrylovSpace

    def without_itself(system, rows):
        solved.append(rows)
        return solve(system, rows)

    def space_of(system, rank, rows, rng):
        spaces.append(rows)
        return space(system, rank, rows, rng)

    monkeypatch.setattr(_cached_variance, "_without_itself", without_itself)
    monkeypatch.setattr(_cached_variance, "KrylovSpace", space_of)
    system = system_of(rng.random((N, 3)))
    CachedVariance(system, n_solved=n_solved)
    assert len(np.unique(solved[0])) == len(solved[0]) == n_rows
    # All rows may be near others.
    np.testing.assert_array_equal(spaces[0], np.arange(N))
    monkeypatch.setattr(type(system.bound), "has_nearby_rows", False)
    CachedVariance(system, n_solved=n_solved)
    np.testing.assert_array_equal(spaces[1], solved[1])
    np.testing.assert_array_equal(solved[1], solved[0])


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


def test_variances_without_rows_are_those_of_the_inverse(rng):
    system = system_of(rng.random((N, 5)), rng.uniform(0.3, 3.0, N))
    rows = np.array([0, 7, 30, 79])
    inverse = np.linalg.inv(system.multiply(np.eye(N)))
    found = _cached_variance._without_itself(system, rows)
    np.testing.assert_allclose(found, 1.0 / np.diag(inverse)[rows] - system.s, rtol=1e-3)


def test_variances_without_rows_are_off_by_the_square_of_what_solutions_are(rng):
    system = system_of(rng.random((N, 5)))
    A, rows = system.multiply(np.eye(N)), np.array([0, 7, 30, 79])
    inverse = np.linalg.inv(A)

    def solve(Y, tol):
        # Solutions that are three per cent too long.
        return SimpleNamespace(X=1.03 * inverse @ Y)

    inexact = SimpleNamespace(
        diagonal=system.diagonal, s=system.s, multiply=system.multiply, solve=solve
    )
    found = _cached_variance._without_itself(inexact, rows) + system.s
    np.testing.assert_allclose(found * np.diag(inverse)[rows], 1.0 / (1.0 - 0.03**2))


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


def test_what_coarse_tables_seem_to_know_is_an_error(rng):
    X = rng.random((N, 3))
    cached = CachedVariance(system_of(X))
    rows, exact = np.array([3, 8, 50]), np.array([0.1, 0.2, 0.4])
    coordinates, seeming = cached._scores(X[rows], X[rows]), np.array([0.01, 0.0, 0.03])
    asked = []

    def known_by_rounding(of, errors):
        asked.append((of, errors))
        return seeming

    nearby = SimpleNamespace(known_by_rounding=known_by_rounding)
    error = cached._error_of_rounding(nearby, rows, coordinates - 0.25, exact)
    # To first order, that of roots is half of that of variances.
    assert error == pytest.approx(0.5 * np.mean(seeming / (exact + cached._system.s)))
    np.testing.assert_array_equal(asked[0][0], coordinates - 0.25)
    np.testing.assert_allclose(asked[0][1], 0.25)
