"""Blends on tables: their members, weights, intervals, and what users ask of them."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from histrs.gaussian_process import TabularGPClassifier, TabularGPRegressor
from histrs.gaussian_process._kernels.distances import DistanceMixture
from histrs.gaussian_process._kernels.even import EvenMixture
from histrs.gaussian_process._learning.distances import _Evidence, learn
from histrs.gaussian_process._learning.even import likely_kernels
from histrs.gaussian_process._learning.leave_one_out import leave_one_out
from histrs.gaussian_process._tabular import members
from histrs.gaussian_process._tabular.blend import simplex_weights
from histrs.gaussian_process._tabular.gaps import filled
from histrs.gaussian_process._tabular.rows import TableRows
from histrs.gaussian_process._tabular.shape import Shape
from histrs.gaussian_process._tabular.transforms import IDENTITY, Transform, candidates
from tests.oracles.tables import distance_kernel, left_out, negative_log_evidence

NORMS = ("l1", "l2")


def rows_of(seed, n, n_numbers=2, n_categories=1):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, n_numbers)).round(1)
    return np.hstack([numbers, rng.integers(0, 3, (n, n_categories))]).astype(float)


def mixture(norm, seed=0):
    rng = np.random.default_rng(seed)
    start = DistanceMixture.start(norm, 2, 1)
    return start.with_logs(start.logs + 0.5 * rng.normal(size=len(start.logs)))


def curved(seed, n, noise=0.1):
    """Return rows whose target is an interaction and a curve, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 4))
    return X, X[:, 0] * X[:, 1] + np.sin(2.0 * X[:, 2]) + noise * rng.normal(size=n)


def priced(seed, n):
    """Return a frame with words, gaps and a date, and prices over decades."""
    rng = np.random.default_rng(seed)
    size, kind = rng.uniform(20.0, 200.0, n), rng.choice(["flat", "house", "loft"], n)
    price = 50.0 * size * np.where(kind == "house", 3.0, 1.0) * np.exp(0.3 * rng.normal(size=n))
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    frame = pd.DataFrame({"size": size, "kind": kind, "day": day})
    frame.loc[rng.random(n) < 0.1, "kind"] = None
    return frame, price * np.exp(rng.normal(size=n) * 0.5)


# ---- kernels of distances -----------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
def test_kernels_are_their_formula(norm):
    X, Y, kernel = rows_of(0, 13), rows_of(1, 6), mixture(norm)
    weights, amplitudes = np.exp(kernel.log_weights), np.exp(kernel.log_amplitudes)
    for others in (X, Y):
        expected = distance_kernel(norm, 2, weights, amplitudes, X, others)
        found = kernel.between(X, None if others is X else others, 2)
        assert_allclose(found, expected, atol=1e-12)
    assert_allclose(kernel.diagonal(X, 1), np.diag(kernel.between(X, None, 1)), atol=1e-12)
    assert np.linalg.eigvalsh(kernel.between(rows_of(2, 60), None, 1))[0] > -1e-10


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n_targets", [1, 3])
def test_evidence_and_its_gradient(norm, n_targets):
    X, kernel = rows_of(0, 25), mixture(norm)
    rng = np.random.default_rng(0)
    Y = np.asfortranarray(rng.normal(size=(25, n_targets)))
    evidence = _Evidence(kernel, X, Y, rng.uniform(0.5, 2.0, 25), 1)
    theta = np.append(kernel.logs, np.log(0.3))
    value, gradient = evidence(theta)
    K = kernel.between(X, None, 1)
    size = 25 * n_targets
    without = negative_log_evidence(K, 0.3 * evidence.row_noise, Y) / size
    assert value - without == pytest.approx(evidence._pull(theta)[0] / size)
    for p, found in enumerate(gradient):
        step = np.zeros(len(theta))
        step[p] = 1e-5
        right = (evidence(theta + step)[0] - evidence(theta - step)[0]) / 2e-5
        assert found == pytest.approx(right, abs=1e-7)


def test_what_matters_has_weight():
    X, y = curved(0, 400)
    X = np.hstack([X, np.random.default_rng(1).integers(0, 3, (400, 1))])
    start = DistanceMixture.start("l2", 4, 1)
    of_rows = X, ((y - y.mean()) / y.std())[:, None], None, np.arange(400), 1
    kernel, _ = learn(start, *of_rows)
    weights = np.exp(kernel.log_weights)
    assert weights[:3].min() > 3.0 * weights[3:].max()


# ---- members, and what rows say that are left out -----------------------------------------------


@pytest.mark.parametrize("name", ["levels", "radial", "ranks"])
def test_members_leave_rows_out(name):
    X, y = curved(0, 60)
    fit = TabularGPRegressor(members=[name], target_transform="identity", random_state=0).fit(X, y)
    (member,) = fit._fits[0].members
    (system,) = member.posterior.systems
    K = member.posterior.bound.matrix() * system.amplitude
    T = ((y - y.mean()) / y.std())[:, None]
    means, variances = left_out(K, np.full(60, system.noise), T)
    found = fit.predict_leave_one_out()
    assert_allclose((found[0] - y.mean()) / y.std(), means[:, 0], atol=1e-4)
    assert_allclose(leave_one_out(member.posterior, T)[1][:, 0], variances, rtol=1e-3)


def test_kernels_for_few_rows_are_as_probable_as_their_evidence():
    X, y = rows_of(0, 9), np.random.default_rng(0).normal(size=9)
    start = EvenMixture.start(X, 2)
    found = likely_kernels(start, X, y, None)
    assert sum(likely.probability for likely in found) == pytest.approx(1.0)

    def evidence(kernel):
        # The scale of all, integrated under the prior 1 / scale^2 by a fine grid of logarithms.
        A = kernel.between(X, None, 1) + np.eye(9)
        square, log_det = y @ np.linalg.solve(A, y), np.linalg.slogdet(A)[1]
        logs = np.linspace(-12.0, 12.0, 4001)
        # The level has one degree of freedom.
        values = np.exp(-0.5 * 8 * logs - 0.5 * square * np.exp(-logs))
        return values.sum() * np.exp(-0.5 * log_det)

    first, second = found[0], found[-1]
    right = evidence(first.kernel) / evidence(second.kernel)
    assert first.probability / second.probability == pytest.approx(right, rel=1e-6)
    K = first.kernel.between(X, None, 1)
    assert_allclose(first.kernel.diagonal(X, 1), np.diag(K), atol=1e-8)
    assert np.linalg.eigvalsh(K)[0] > -1e-8


@pytest.mark.parametrize("n", [12, 25, 50, 100])
def test_intervals_of_few_rows_are_not_too_narrow(n):
    inside = []
    for seed in range(12):
        X, y = curved(seed, n + 200, noise=0.5)
        low, high = TabularGPRegressor().fit(X[:n], y[:n]).predict_interval(X[n:]).T
        inside.append(np.mean((low < y[n:]) & (y[n:] < high)))
    assert np.mean(inside) == pytest.approx(0.95, abs=0.04)
    assert min(inside) > 0.75


def test_weights_have_the_least_error_on_the_simplex():
    rng = np.random.default_rng(0)
    t = rng.normal(size=300)
    means = t[:, None] + rng.normal(size=(300, 4)) * [0.3, 0.5, 2.0, 0.4]
    row_weights = rng.uniform(0.2, 2.0, 300)
    found = simplex_weights(t, means, row_weights)
    assert found.sum() == pytest.approx(1.0)
    assert found.min() >= 0.0
    assert found[2] < 0.1
    best = minimize(
        lambda w: np.sum(row_weights * (t - means @ w) ** 2),
        np.full(4, 0.25),
        bounds=[(0.0, 1.0)] * 4,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
    ).x
    assert_allclose(found, best, atol=0.01)
    # A member that is right has all of it, however small all errors are.
    nearly = np.column_stack([t + 1e-2 * rng.normal(size=300), t + 1e-5 * rng.normal(size=300)])
    assert simplex_weights(t, nearly, None)[1] > 0.99


def test_a_blend_is_no_worse_than_its_members():
    X, y = curved(0, 500)
    model = TabularGPRegressor(random_state=0).fit(X[:300], y[:300])
    errors = [
        np.std(
            y[300:]
            - TabularGPRegressor(members=[m], random_state=0).fit(X[:300], y[:300]).predict(X[300:])
        )
        for m in ("levels", "radial", "ranks")
    ]
    assert np.std(y[300:] - model.predict(X[300:])) < 1.03 * min(errors)
    assert sum(model.weights_.values()) == pytest.approx(1.0)
    lines = model.summary().splitlines()
    assert len(lines) == 1 + len(model.weights_)
    assert re.search(r"radial +weight 0\.\d\d, error", model.summary())


# ---- intervals ----------------------------------------------------------------------------------


def test_intervals_widen_where_noise_does():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (1500, 3))
    y = np.sin(6.0 * X[:, 0]) + (0.05 + 0.8 * X[:, 1] ** 2) * rng.normal(size=1500)
    model = TabularGPRegressor(random_state=0).fit(X[:1000], y[:1000])
    low, high = model.predict_interval(X[1000:]).T
    inside, wide = (low < y[1000:]) & (y[1000:] < high), high - low
    assert inside.mean() == pytest.approx(0.95, abs=0.03)
    for rows in np.array_split(np.argsort(X[1000:, 1]), 4):
        assert inside[rows].mean() == pytest.approx(0.95, abs=0.06)
    steepest = np.argsort(X[1000:, 1])
    assert wide[steepest[-125:]].mean() > 4.0 * wide[steepest[:125]].mean()
    # The density of what it says is higher than that of one width for all.
    mean = model.predict(X[1000:])
    one = np.std(y[1000:] - mean)
    flat = -0.5 * np.mean(((y[1000:] - mean) / one) ** 2) - np.log(one) - 0.5 * np.log(2 * np.pi)
    assert model.score_density(X[1000:], y[1000:]) > flat + 0.2


def test_prices_over_decades_have_positive_intervals():
    X, y = priced(0, 900)
    model = TabularGPRegressor(random_state=0).fit(X[:600], y[:600])
    assert model.target_transform_ == "log"
    low, high = model.predict_interval(X[600:]).T
    assert low.min() > 0.0
    below, above = np.mean(y[600:] < low), np.mean(y[600:] > high)
    assert 0.005 < below < 0.06
    assert 0.005 < above < 0.06
    # The mean is that of the price, not of its logarithm.
    assert model.predict(X[600:]).mean() == pytest.approx(y[600:].mean(), rel=0.15)


def test_quantiles_are_in_order_and_the_median_is_one():
    X, y = curved(0, 200)
    model = TabularGPRegressor(random_state=0).fit(X, y)
    mean, quantiles = model.predict(X, return_quantiles=[0.001, 0.1, 0.5, 0.9, 0.999])
    assert np.all(np.diff(quantiles, axis=1) > 0.0)
    interval = model.predict_interval(X, coverage=0.8)
    assert_allclose(interval, quantiles[:, [1, 3]])
    std = model.predict(X, return_std=True)[1]
    assert np.all(np.abs(quantiles[:, 2] - mean) < std)


@pytest.mark.parametrize("n", [5, 60, 3000])
def test_a_shape_is_the_distribution_of_residuals(n):
    u = np.random.default_rng(0).standard_t(4, size=n)
    shape = Shape(u, None)
    p = np.array([0.001, 0.05, 0.4, 0.9, 0.9995])
    assert_allclose(shape.cumulative(shape.quantiles(p)), p, atol=1e-9)
    assert shape.values.mean() == pytest.approx(0.0, abs=1e-12)
    if n == 3000:
        assert_allclose(shape.quantiles(p[1:4]), np.quantile(u, p[1:4]), atol=0.1)
    twice = Shape(np.repeat(u, 2), None)
    weighted = Shape(u, np.full(n, 2.0))
    assert_allclose(weighted.quantiles(p), shape.quantiles(p))
    if n == 3000:
        assert_allclose(twice.quantiles(p), weighted.quantiles(p), atol=0.1)


# ---- transforms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["log", "zeros", "yeo-johnson", "identity"])
def test_transforms_have_an_inverse_and_a_slope(kind):
    y = np.exp(np.random.default_rng(0).normal(size=50))
    if kind == "zeros":
        y[:5] = 0.0
    transform = {
        "log": Transform.log,
        "zeros": Transform.log,
        "yeo-johnson": Transform.yeo_johnson,
        "identity": lambda _: IDENTITY,
    }[kind](y)
    t = transform.apply(y)
    assert_allclose(transform.inverse(t), y, atol=1e-10)
    step = 1e-6 * y.max()
    slope = (transform.apply(y + step) - transform.apply(y)) / step
    assert_allclose(np.exp(transform.log_slope(y)), slope, rtol=1e-3)
    far = transform.inverse(np.array([-60.0, 60.0]))
    assert np.all(np.isfinite(far))


def test_even_targets_stay_as_they_are():
    rng = np.random.default_rng(0)
    assert candidates(rng.normal(size=200)) == [IDENTITY]
    assert candidates(np.repeat([0.0, 9.0], [180, 20])) == [IDENTITY]
    assert len(candidates(np.exp(2.0 * rng.normal(size=200)))) == 3
    with pytest.raises(ValueError, match="not negative"):
        TabularGPRegressor(target_transform="log").fit(rng.normal(size=(9, 1)), np.arange(9) - 4.0)


# ---- values that only rows to predict lack ------------------------------------------------------


def test_a_gap_widens_what_it_leaves_open():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    X[:, 1] += 2.0 * X[:, 0]
    y = X[:, 1] + 0.5 * X[:, 2] + 0.1 * rng.normal(size=600)
    model = TabularGPRegressor(random_state=0).fit(X[:400], y[:400])
    rows = X[400:].copy()
    rows[:, 1] = np.nan
    mean, std = model.predict(rows, return_std=True)
    # The first column tells the second, with an error of 1.
    assert np.std(y[400:] - mean) == pytest.approx(1.0, abs=0.2)
    assert np.mean(std) == pytest.approx(1.0, abs=0.25)
    low, high = model.predict_interval(rows).T
    assert np.mean((low < y[400:]) & (y[400:] < high)) == pytest.approx(0.95, abs=0.04)
    # Rows that lack nothing are predicted as ever, in whatever company.
    rows[::2] = X[400:][::2]
    assert_allclose(model.predict(rows)[::2], model.predict(X[400:][::2]), rtol=1e-10)


def test_classes_are_less_sure_of_a_row_with_a_gap():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = X[:, 0] > 0.0
    model = TabularGPClassifier(random_state=0).fit(X[:400], y[:400])
    rows = X[400:].copy()
    assert log_loss(y[400:], model.predict_proba(rows)) < 0.2
    rows[:, 0] = np.nan
    assert log_loss(y[400:], model.predict_proba(rows)) == pytest.approx(np.log(2.0), abs=0.06)


def test_gaps_are_filled_from_near_rows():
    training = TableRows(
        np.array([[0.0, 0.0], [0.1, 1.0], [5.0, 9.0]]),
        np.array([[0.2, 0.2], [0.5, 0.5], [0.8, 0.8]]),
        np.array([[0.0], [1.0], [0.0]]),
    )
    row = TableRows(np.array([[0.05, np.nan]]), np.array([[0.3, np.nan]]), np.array([[np.nan]]))
    found = filled(row, training)
    assert_allclose(found.weights.sum(axis=1), 1.0)
    order = np.argsort(found.rows.values[:, 1])
    assert_allclose(found.rows.values[order], [[0.05, 0.0], [0.05, 1.0], [0.05, 9.0]])
    assert_allclose(found.rows.ranks[order], [[0.3, 0.2], [0.3, 0.5], [0.3, 0.8]])
    assert_allclose(found.rows.codes[order, 0], [0.0, 1.0, 0.0])
    assert found.weights[0, order[2]] < 1e-3


# ---- frames ----------------------------------------------------------------------------------


def test_frames_are_read_as_they_are():
    X, y = priced(0, 300)
    model = TabularGPRegressor(random_state=0).fit(X, y)
    new = X[:6].copy()
    new["kind"] = ["flat", "castle", None, "loft", "house", "castle"]
    assert np.all(np.isfinite(model.predict(new, return_std=True)))
    importances = dict(zip(model.feature_names_in_, model.feature_importances_, strict=True))
    assert importances["kind"] + importances["size"] > importances["day"]
    assert sum(importances.values()) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="'size'"):
        model.predict(new.assign(size="large"))


def test_the_order_of_columns_and_names_of_categories_do_not_matter():
    X, y = priced(0, 200)
    model = TabularGPRegressor(random_state=0).fit(X, y)
    turned = X[["kind", "day", "size"]].replace({"flat": "z", "house": "b", "loft": "a"})
    other = TabularGPRegressor(random_state=0).fit(turned, y)
    assert_allclose(other.predict(turned), model.predict(X), rtol=1e-3)


# ---- as scikit-learn's users expect -------------------------------------------------------------


@pytest.mark.parametrize("make", [TabularGPRegressor, TabularGPClassifier])
def test_weights_are_repeats(make):
    X, y = curved(0, 60)
    y = y if make is TabularGPRegressor else y > 0.0
    weights = np.random.default_rng(0).integers(0, 4, 60)
    weighted = make(random_state=0).fit(X, y, sample_weight=weights)
    repeated = make(random_state=0).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    ask = "predict" if make is TabularGPRegressor else "predict_proba"
    assert_allclose(getattr(weighted, ask)(X), getattr(repeated, ask)(X), rtol=1e-6, atol=1e-8)


def test_several_targets_are_each_by_itself():
    X, y = curved(0, 80)
    Y = np.column_stack([y, X[:, 0], np.exp(2.0 * X[:, 1])])
    Y[3, 1] = np.nan
    model = TabularGPRegressor(random_state=0).fit(X, Y)
    assert model.predict(X).shape == (80, 3)
    assert model.predict_interval(X).shape == (80, 2, 3)
    assert len(model.weights_) == len(model.target_transform_) == 3
    alone = TabularGPRegressor(random_state=0).fit(X, y)
    assert_allclose(model.predict(X)[:, 0], alone.predict(X), rtol=1e-6)
    with pytest.raises(ValueError, match="left out"):
        model.predict_leave_one_out()


def test_many_rows_are_fitted_by_products(monkeypatch):
    X, y = curved(0, 900)
    y = y + 3.0 * X[:, 1]
    new = curved(1, 300)[0]
    exact = TabularGPRegressor(random_state=0).fit(X, y)
    labels = y > np.median(y)
    exactly = TabularGPClassifier(random_state=0).fit(X, labels)
    monkeypatch.setattr(members, "MOST_FACTORISED", 300)
    model = TabularGPRegressor(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"^Some rows are not left out"):
        model.predict_leave_one_out()
    (mean, std), (right, width) = (m.predict(new, return_std=True) for m in (model, exact))
    assert np.sqrt(np.mean((mean - right) ** 2)) < 0.25 * width.mean()
    # Weights of members and the spread are learned from fewer rows.
    assert_allclose(np.median(std / width), 1.0, atol=0.15)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(new, return_std=True), (mean, std))
    assert len(pickle.dumps(model)) < 8 * len(X) ** 2
    classifier = TabularGPClassifier(random_state=0).fit(X, labels)
    P, Q = classifier.predict_proba(new), exactly.predict_proba(new)
    assert np.mean(np.abs(P - Q)) < 0.06
    monkeypatch.setattr(members, "_MOST_STORED", 500)
    some = TabularGPRegressor(members=["ranks", "levels"], random_state=0).fit(X, y)
    assert np.sqrt(np.mean((some.predict(new) - right) ** 2)) < 0.5 * width.mean()


def test_models_are_searched_and_kept():
    X, y = curved(0, 60)
    pipeline = make_pipeline(FunctionTransformer(), TabularGPRegressor(random_state=0))
    name = "tabulargpregressor__target_transform"
    search = GridSearchCV(pipeline, {name: ["identity", "yeo-johnson"]}, cv=2).fit(X, y)
    kept = pickle.loads(pickle.dumps(search))
    assert_allclose(kept.predict(X), search.predict(X))
    assert np.all(np.isfinite(cross_val_predict(pipeline, X, y, cv=3)))
    again = TabularGPRegressor(random_state=0).fit(X, y).predict(X)
    assert_allclose(TabularGPRegressor(random_state=0, n_jobs=1).fit(X, y).predict(X), again)


@pytest.mark.parametrize("load", [load_breast_cancer, load_iris])
def test_classes_of_tables(load):
    X, y = load(return_X_y=True)
    X, rows, y, labels = train_test_split(X, y, random_state=0, stratify=y)
    model = TabularGPClassifier(random_state=0).fit(X, y)
    P = model.predict_proba(rows)
    assert_allclose(P.sum(axis=1), 1.0)
    assert log_loss(labels, P) < 0.2
    assert np.mean(model.predict(rows) == labels) > 0.9
    assert np.array_equal(model.classes_[P.argmax(axis=1)], model.predict(rows))
    assert model.summary().count("error") == 3


def test_partial_dependence_of_a_curve():
    X, y = curved(0, 300)
    model = TabularGPRegressor(random_state=0).fit(X, y)
    found = model.partial_dependence(X, 2, grid_resolution=9)
    expected = np.sin(2.0 * found.grid[0])
    level = found.mean.mean() - expected.mean()
    assert np.abs(found.mean - expected - level).max() < 0.25
    assert np.all(found.std > 0.0)
    both = model.partial_dependence(X, (0, 1), grid_resolution=4)
    assert both.mean.shape == both.std.shape == (4, 4)


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_few_rows(n):
    X, y = curved(0, n)
    mean, std = TabularGPRegressor(random_state=0).fit(X, y).predict(X + 0.1, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std >= 0.0)


@pytest.mark.parametrize("make", [TabularGPRegressor, TabularGPClassifier])
def test_more_columns_than_rows(make):
    X = np.random.default_rng(0).normal(size=(130, 1100))
    y = X[:, 0] + X[:, 1] if make is TabularGPRegressor else X[:, 0] + X[:, 1] > 0.0
    model = make(random_state=0).fit(X, y)
    assert np.all(np.isfinite(model.predict(X)))
    assert make(members=["levels"]).fit(X[:, :90], y).score(X[:, :90], y) > 0.5


def test_awkward_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    X[:, 1], X[:, 2], X[:, 3] = 7.0, np.nan, np.where(rng.random(80) < 0.3, np.nan, 1e200)
    y = X[:, 0] + np.isnan(X[:, 3])
    model = TabularGPRegressor(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    X[:, 4] *= 1e-200
    assert np.all(np.isfinite(TabularGPRegressor(random_state=0).fit(X, y).predict(X)))
    constant = TabularGPRegressor(random_state=0).fit(X, np.full(80, 3.0))
    assert_allclose(constant.predict(X), 3.0)


@pytest.mark.parametrize("value", [0.0, 3.0, -5e8, 2e-9, 1e150])
def test_a_target_of_one_value_is_sure(value):
    X, _ = curved(0, 120)
    mean, std = TabularGPRegressor().fit(X, np.full(120, value)).predict(X, return_std=True)
    np.testing.assert_array_equal(mean, value)
    assert np.all(std <= max(1e-13 * abs(value), 1e-300))


@pytest.mark.parametrize("make", [TabularGPRegressor, TabularGPClassifier])
def test_answers_are_in_the_precision_of_rows(make):
    X, y = curved(0, 120)
    y = y if make is TabularGPRegressor else (y > 0.0).astype(int)
    single = X.astype(np.float32)
    model = make(random_state=0).fit(single, y.astype(np.float32))
    ask = "predict" if make is TabularGPRegressor else "predict_proba"
    found, double = getattr(model, ask)(single), getattr(model, ask)(single.astype(float))
    assert found.dtype == np.float32
    assert double.dtype == np.float64
    assert_allclose(found, double, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("members", [[], ["slices"], ["ranks", "ranks"]])
def test_members_that_are_none(members):
    with pytest.raises(
        ValueError, match=re.escape("give some of ['even', 'levels', 'radial', 'ranks']")
    ):
        TabularGPRegressor(members=members).fit(np.eye(4), np.arange(4.0))


def test_real_numbers_are_predicted_as_well_as_by_a_line():
    X, y = load_diabetes(return_X_y=True)
    X, rows, y, targets = train_test_split(X, y, random_state=0)
    model = TabularGPRegressor(random_state=0).fit(X, y)
    assert model.score(rows, targets) > 0.33
    low, high = model.predict_interval(rows).T
    assert np.mean((low < targets) & (targets < high)) > 0.89
