"""Additive processes and log odds on levels of columns, against dense definitions."""

import pickle

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import expit, log_expit
from sklearn.base import clone

from histrs import _histrs
from histrs.gaussian_process import (
    GPClassifier,
    GPRegressor,
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    LikelihoodSearch,
    Solver,
    TabularGPClassifier,
)
from histrs.gaussian_process._bound.levels import LevelBound
from histrs.gaussian_process._kernels.levels import LevelColumn
from histrs.gaussian_process._tabular.log_odds import LogOdds
from histrs.gaussian_process.kernels import Interactions, Intersection, Radial
from tests.helpers import assert_slope
from tests.oracles import leave_one_out
from tests.oracles import levels as oracle

GIVEN = {"noise": 0.3, "optimizer": None}


def data(rng, n=60):
    """Columns of many values, of few, of one, of ties, and of negative numbers."""
    X = rng.normal(size=(n, 5))
    X[:, 1] = rng.integers(0, 3, n)
    X[:, 2] = 4.0
    X[:, 3] = np.round(np.exp(2 * X[:, 3]), 1) ** 1.1
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


def knots_of(column):
    points, n = column.points, column.n_levels
    if len(points) <= n:
        return points
    return points[np.unique(np.round(np.linspace(0, len(points) - 1, n)).astype(int))]


def columns_of(model):
    columns = model.kernel_.terms[: model.n_features_in_]
    return [(column.points, knots_of(column)) for column in columns]


def dense(model, X, Z, X_train, weights=None):
    weights = np.ones(len(X_train)) if weights is None else weights
    parts = columns_of(model), model.level_weights_, model.intercept_variance_, weights
    K = oracle.kernel(X, Z, X_train, *parts)
    for pair, weight in zip(
        model.kernel_.terms[model.n_features_in_ :], model.interaction_weight_, strict=True
    ):
        grids = [
            (column.feature, column.points, knots_of(column))
            for column in (pair.first, pair.second)
        ]
        K += weight * oracle.pair_kernel(X, Z, X_train, grids, weights)
    return model.amplitude_ * K


@pytest.mark.parametrize("levels", [2, 7, 200])
@pytest.mark.parametrize("pairs", [None, [(0, 1), (3, 0)], 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_answers_are_those_of_a_dense_process(rng, levels, pairs, weighted):
    X, y = data(rng)
    T = np.vstack([3 * rng.normal(size=(9, 5)), X[:3]])
    weights = rng.choice([0.5, 1.0, 2.0], len(y)) if weighted else None
    w = np.ones(len(y)) if weights is None else weights
    kernel = Intersection(levels=levels)
    kernel = kernel if pairs is None else kernel + Interactions(pairs, n_knots=5)
    model = GPRegressor(0.7 * kernel, **GIVEN, tol=1e-10)
    model.fit(X, y, weights)
    assert len(model.interactions_) == (0 if pairs is None else 2)
    mean = np.average(y, weights=w)
    unit = np.sqrt(np.average((y - mean) ** 2, weights=w))
    z, noise = (y - mean) / unit, 0.3 / w
    A = dense(model, X, X, X, w) + np.diag(noise)
    k, prior = dense(model, X, T, X, w), dense(model, T, T, X, w)
    found, std = model.predict(T, return_std=True)
    np.testing.assert_allclose(found, mean + unit * k.T @ np.linalg.solve(A, z), rtol=1e-8)
    covariance = prior - k.T @ np.linalg.solve(A, k) + 0.3 * np.eye(len(T))
    np.testing.assert_allclose(std, unit * np.sqrt(np.diag(covariance)), rtol=1e-8)
    np.testing.assert_allclose(
        model.predict(T, return_cov=True)[1], unit**2 * covariance, rtol=1e-6, atol=1e-8
    )
    if not weighted:
        # Whole weights are repeats, which tell noise of their own.
        normal = stats.multivariate_normal(np.zeros(len(z)), A)
        assert model.log_marginal_likelihood() == pytest.approx(normal.logpdf(z), rel=1e-9)
    left_out, deviation = model.predict_leave_one_out()
    means, variances = leave_one_out.refits(A, z)
    np.testing.assert_allclose(left_out, mean + unit * means, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(deviation, unit * np.sqrt(variances), rtol=1e-7)


@pytest.mark.parametrize("shared", [True, False])
def test_the_slope_of_the_evidence_is_that_of_differences(rng, shared):
    X, y = data(rng, 40)
    Y = np.column_stack([y, rng.normal(size=40)])
    search = LikelihoodSearch(shared=shared)
    kernel = Intersection(levels=6) + Interactions([(0, 1)])
    model = GPRegressor(kernel, optimizer=search, random_state=0).fit(X, Y)
    assert_slope(model, model.theta_ + 0.1 * rng.normal(size=len(model.theta_)), 1e-4, 1e-4)


def test_a_search_ends_where_the_evidence_is_larger(rng):
    X, y = data(rng, 200)
    model = GPRegressor(Intersection(levels=20), random_state=0).fit(X, y)
    given = clone(model).set_params(**GIVEN).fit(X, y)
    assert model.log_marginal_likelihood() > given.log_marginal_likelihood() + 1.0
    # Columns that the target does not depend on vary less than those that it does.
    assert model.level_weights_[4].sum() < 0.1 * model.level_weights_[0].sum()


def test_functions_of_pairs_add_up_to_the_mean(rng):
    X, y = data(rng)
    model = GPRegressor(Intersection(levels=9) + Interactions([(0, 1), (0, 3)]), **GIVEN, tol=1e-10)
    model.fit(X, y)
    explained = model.explain(X)
    np.testing.assert_allclose(explained.values.sum(axis=1) + explained.offset, model.predict(X))
    assert explained.names[-1] == "x0 & x3"
    for k, function in enumerate(model.pair_functions(return_std=True)):
        at = tuple(
            np.argmin(np.abs(X[:, [d]] - knots), axis=1)
            for d, knots in zip(function.features, function.knots, strict=True)
        )
        np.testing.assert_allclose(function.values[at], explained.values[:, 5 + k])
        np.testing.assert_allclose(function.std[at], explained.std[:, 5 + k])
        # It has no main effect: no mean over the rows of either column.
        counts = [
            np.bincount(a, minlength=n) for a, n in zip(at, function.values.shape, strict=True)
        ]
        np.testing.assert_allclose(counts[0] @ function.values, 0.0, atol=1e-9)
        np.testing.assert_allclose(function.values @ counts[1], 0.0, atol=1e-9)


def test_a_product_is_found_among_pairs(rng):
    X = rng.normal(size=(1500, 6))
    y = X[:, 1] * X[:, 4] + np.abs(X[:, 0]) + 0.1 * rng.normal(size=1500)
    kernel = Intersection(levels=24)
    additive = GPRegressor(kernel, random_state=0).fit(X[:1000], y[:1000])
    model = GPRegressor(kernel + Interactions(1), random_state=0).fit(X[:1000], y[:1000])
    np.testing.assert_array_equal(model.interactions_, [[1, 4]])
    assert additive.score(X[1000:], y[1000:]) < 0.4
    assert model.score(X[1000:], y[1000:]) > 0.8


@pytest.mark.parametrize("kind", [GPRegressor, GPClassifier])
def test_functions_of_features_add_up_to_the_mean(rng, kind):
    X, y = data(rng)
    model = kind(Intersection(levels=9), optimizer=None, tol=1e-10)
    model.fit(X, y if kind is GPRegressor else y > 0.5)
    functions = model.shape_functions(return_std=True)
    added = model.intercept_ + sum(
        f.values[np.argmin(np.abs(X[:, [d]] - f.knots), axis=1)] for d, f in enumerate(functions)
    )
    np.testing.assert_allclose(added, model.latent_mean_and_variance(X)[0], rtol=1e-7)
    assert [len(f.knots) for f in model.shape_functions([0, 2], max_knots=4)] == [4, 1]
    explained = model.explain(X)
    latent = model.latent_mean_and_variance(X)[0]
    np.testing.assert_allclose(explained.values.sum(axis=1) + explained.offset, latent, rtol=1e-7)
    of_first = np.argmin(np.abs(X[:, [0]] - functions[0].knots), axis=1)
    np.testing.assert_allclose(explained.std[:, 0], functions[0].std[of_first])
    if kind is GPClassifier:
        return
    # The posterior of a dense process, less its mean over the training rows.
    A = dense(model, X, X, X) + 0.1 * np.eye(len(X))
    for d in (0, 1, 3):
        knots = functions[d].knots
        T = np.tile(X[:1], (len(knots), 1))
        T[:, d] = knots
        k = dense(model, T, X, X)
        covariance = dense(model, T, T, X) - k @ np.linalg.solve(A, k.T)
        at = np.argmin(np.abs(X[:, [d]] - knots), axis=1)
        centring = np.eye(len(knots)) - np.bincount(at, minlength=len(knots)) / len(X)
        variance = np.diag(centring @ covariance @ centring.T)
        expected = y.std() * np.sqrt(np.maximum(variance, 0.0))
        np.testing.assert_allclose(functions[d].std, expected, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(np.mean(functions[d].values[at]), 0.0, atol=1e-12)


def test_shifts_and_scales_of_columns_do_not_matter(rng):
    X, y = data(rng)
    T, y_train = X[40:], y[:40]
    for kind in (IntersectionGPRegressor, IntersectionGPClassifier):
        target = y_train if kind is IntersectionGPRegressor else y_train > 0.5
        model = kind(Intersection(levels=9), random_state=0).fit(X[:40], target)
        moved = clone(model).fit(8.0 * X[:40] - 64.0, target)
        np.testing.assert_allclose(model.predict(T), moved.predict(8.0 * T - 64.0), rtol=1e-5)


def test_neighbouring_numbers_have_codes_of_their_own():
    x = np.array([1.0, np.nextafter(1.0, 2.0), np.nextafter(np.nextafter(1.0, 2.0), 2.0)])
    column = LevelColumn.of(x[:, None], 0, None, 5, 10)
    for rows, expected in [(x, [0, 1, 2]), (np.array([0.0, 9.0]), [0, 2])]:
        codes = _histrs.level_codes(rows[:, None], [(0, column.cuts)], 1)
        np.testing.assert_array_equal(codes, [expected])


@pytest.mark.parametrize("weighted", [False, True])
def test_points_of_many_rows_are_values_of_some(rng, monkeypatch, weighted):
    x = np.column_stack([rng.exponential(size=3000), np.arange(3000) % 7, rng.random(3000)])
    x[0, 1] = 100.0  # A rare value, which some rows would miss.
    weights = rng.integers(1, 4, 3000).astype(float) if weighted else None
    y = np.log1p(x[:, 0]) + (x[:, 1] == 3) - x[:, 2] + 0.1 * rng.normal(size=3000)
    of_all = GPRegressor(Intersection(levels=30), **GIVEN).fit(x, y, weights).predict(x)
    monkeypatch.setattr("histrs.gaussian_process._kernels.levels._SOME_ROWS", 600)
    model = GPRegressor(Intersection(levels=30), **GIVEN).fit(x, y, weights)
    first, second, _ = model.kernel_.terms
    assert np.isin(first.points, x[:, 0]).all()
    assert len(first.points) > 30
    # All rows are counted.
    (codes,) = _histrs.level_codes(x, [(0, first.cuts)], 1)
    counts = np.bincount(codes, weights)
    np.testing.assert_allclose(first.counts / first.counts.sum(), counts / counts.sum())
    np.testing.assert_array_equal(second.points, [0, 1, 2, 3, 4, 5, 6, 100])
    assert np.sqrt(np.mean((model.predict(x) - of_all) ** 2)) < 0.3 * 0.1


def test_rows_of_single_precision_are_as_good(rng):
    X = rng.normal(size=(90, 4)).astype(np.float32)
    kernel = Intersection(levels=40) + Interactions([(0, 3)])
    singles = GPRegressor(kernel, **GIVEN).fit(X, X[:, 0] * X[:, 3])
    doubles = GPRegressor(kernel, **GIVEN).fit(X.astype(float), (X[:, 0] * X[:, 3]).astype(float))
    T = rng.normal(size=(30, 4)).astype(np.float32)
    np.testing.assert_allclose(singles.predict(T), doubles.predict(T.astype(float)), rtol=1e-5)


@pytest.mark.parametrize(("likelihood", "error"), [("gaussian", 0.06), ("bernoulli", 0.05)])
def test_classes_of_many_rows_are_solved_for_weights(rng, monkeypatch, likelihood, error):
    X = rng.random((3000, 4))
    expected = 1 / (1 + np.exp(3 - 6 * X[:, 0]))
    matrix = LevelBound.matrix

    def of_few(bound):
        assert bound.n_rows < 2000
        return matrix(bound)

    monkeypatch.setattr(LevelBound, "matrix", of_few)
    model = GPClassifier(Intersection(levels=12), likelihood=likelihood, random_state=0)
    model.fit(X, rng.random(3000) < expected)
    assert np.mean(np.abs(model.predict_proba(X)[:, 1] - expected)) < error


@pytest.mark.parametrize(
    ("kernel", "parameters", "message"),
    [
        (Intersection(levels=1), {}, "levels = 1: give a number from 2 on"),
        (Intersection(levels=2.5), {}, "levels = 2.5"),
        (Intersection(levels=8, feature_weights="scale"), {}, "learn weights of their own"),
        (Intersection("power", levels=8), {}, "learn weights of their own"),
        (Intersection(levels=8) + Interactions(weight_bounds="fixed"), {}, "leave weight_bounds"),
        (Intersection(levels=8) + Interactions([(0, 9)]), {}, r"pairs\[0\] = \(0, 9\)"),
        (Intersection(levels=8) * Radial(), {}, "must be the whole kernel"),
        (Intersection(levels=8), {"solver": "cg"}, "does not work with Intersection"),
        (Intersection(levels=8), {"variance": "coarse"}, "does not work with variance='coarse'"),
        (Intersection(levels=8), {"n_bins": 10}, "does not work with n_bins=10"),
        (
            Intersection(levels=8),
            {"solver": Solver(preconditioner="knots")},
            "does not work with preconditioner='knots'",
        ),
        (Intersection(levels=3000), {}, "set levels=None, which keeps every value"),
    ],
    ids=str,
)
def test_what_does_not_go_with_levels_is_refused(rng, kernel, parameters, message):
    n = 20_000 if kernel.get_params().get("levels") == 3000 else 20
    X = rng.random((n, 4))
    with pytest.raises(ValueError, match=message):
        GPRegressor(kernel, **parameters).fit(X, X[:, 0])


# ---- log odds of classes -------------------------------------------------------------------------

BIAS_VARIANCE = 4.0


def rows(n, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    scores = np.column_stack([np.zeros(n), 2.0 * X[:, 0], np.sin(2 * X[:, 1]) - 0.5])
    draws = scores[:, :n_classes] + rng.gumbel(size=(n, n_classes))
    return X, draws.argmax(axis=1)


def fitted(n=240, n_classes=2, **options):
    X, y = rows(n, n_classes)
    model = TabularGPClassifier(members=["levels"], random_state=0).fit(X, y, **options)
    (member,) = model._of_classes.members
    assert isinstance(member, LogOdds)
    return model, member, y


def mode(K, positive, w):
    """The mode of the log odds under the prior covariance `K` and a normal bias, by BFGS."""
    n = len(K)
    C = K + BIAS_VARIANCE
    L = np.linalg.cholesky(C + 1e-10 * np.trace(C) / n * np.eye(n))
    sign = np.where(positive, 1.0, -1.0)

    def loss(u):
        f = L @ u
        slope = -w * sign * expit(-sign * f)
        return 0.5 * u @ u - w @ log_expit(sign * f), u + L.T @ slope

    u = optimize.minimize(loss, np.zeros(n), jac=True, options={"gtol": 1e-8}).x
    return L @ u


@pytest.mark.parametrize("n_classes", [2, 3])
def test_log_odds_are_the_mode_under_the_kernel(n_classes):
    model, member, y = fitted(n_classes=n_classes)
    K, indicators = member.posterior.bound.matrix(), np.eye(n_classes)[y]
    indicators = indicators[:, 1:] if n_classes == 2 else indicators
    p = model._of_classes.scores(model._rows)
    for k, variance in enumerate(member.variances):
        f = mode(variance * K, indicators[:, k] > 0, np.ones(len(y)))
        np.testing.assert_allclose(p[:, k], expit(f), atol=2e-3)


def test_further_rows_are_as_a_fit_of_all():
    X, y = rows(300)
    model = TabularGPClassifier(members=["levels"], random_state=0).fit(X[:240], y[:240])
    model.partial_fit(X[240:], y[240:])
    (member,) = model._of_classes.members
    K, (variance,) = member.posterior.bound.matrix(), member.variances
    f = mode(variance * K, y == 1, np.ones(300))
    np.testing.assert_allclose(model._of_classes.scores(model._rows)[:, 0], expit(f), atol=2e-3)


@pytest.mark.slow
def test_probabilities_near_0_and_1_are_told_apart():
    rng = np.random.default_rng(0)
    X = rng.uniform(-4.0, 4.0, (3000, 2))
    p = expit(2.0 * X[:, 0] - 4.0)
    y = rng.random(3000) < p
    model = TabularGPClassifier(random_state=0).fit(X[:1500], y[:1500])
    found = model.predict_proba(X[1500:])[:, 1]
    truth = p[1500:]
    loss = -np.mean(truth * np.log(found) + (1 - truth) * np.log1p(-found))
    best = -np.mean(truth * np.log(truth) + (1 - truth) * np.log1p(-truth))
    assert loss < best + 0.01


@pytest.mark.parametrize("n_classes", [2, 3])
def test_partial_dependence_is_an_average_probability(n_classes):
    model, _, _ = fitted(n_classes=n_classes)
    X, _ = rows(240, n_classes)
    found = model.partial_dependence(X, 0, grid_resolution=5, max_rows=None)
    for k, value in enumerate(found.grid[0]):
        moved = X.copy()
        moved[:, 0] = value
        scores = model._of_classes.scores(model._reader.rows(moved, np.empty((240, 0))))
        np.testing.assert_allclose(found.mean[k], scores.mean(axis=0).squeeze(), atol=1e-10)
    assert np.all((found.mean >= 0.0) & (found.mean <= 1.0))
    assert np.all((found.std > 0.0) & (found.std < 0.5))


def test_a_pickle_does_not_grow_with_predictions():
    model, _, _ = fitted()
    X, _ = rows(240)
    before = len(pickle.dumps(model))
    model.predict_proba(X)
    assert len(pickle.dumps(model)) == before
