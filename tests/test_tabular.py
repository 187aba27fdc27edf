"""Blends on tables: their members, weights, intervals, and what users ask of them."""

import pickle
import re
import threading
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PowerTransformer, StandardScaler

import histrs
from histrs._checks.memory import free_memory, physical_memory
from histrs._progress import StageProgress
from histrs.gaussian_process import IntersectionGPRegressor, TabularGPClassifier, TabularGPRegressor
from histrs.gaussian_process._bound.all_pairs import MatrixBound
from histrs.gaussian_process._kernels.distances import DistanceMixture
from histrs.gaussian_process._kernels.even import EvenMixture
from histrs.gaussian_process._learning.distances import _Evidence
from histrs.gaussian_process._learning.even import likely_kernels
from histrs.gaussian_process._learning.leave_one_out import leave_one_out
from histrs.gaussian_process._tabular import (
    base,
    classification,
    groups,
    means,
    members,
    regression,
)
from histrs.gaussian_process._tabular import numbers as columns
from histrs.gaussian_process._tabular.blend import ClassPool, simplex_weights
from histrs.gaussian_process._tabular.gaps import filled
from histrs.gaussian_process._tabular.numbers import NumberColumns, rows_of_powers, yeo_johnson
from histrs.gaussian_process._tabular.rows import TableRows
from histrs.gaussian_process._tabular.shape import Correction, Shape
from histrs.gaussian_process._tabular.spread import Spread
from histrs.gaussian_process._tabular.together import means_of, predictions_of
from histrs.gaussian_process._tabular.transforms import IDENTITY, Transform, candidates
from tests.oracles.leave_one_out import refits
from tests.oracles.tables import distance_kernel

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
    evidence = _Evidence(kernel, X, Y, rng.uniform(0.5, 2.0, 25), 7.0, 1)
    theta = np.append(kernel.logs, np.log(0.3))
    found = evidence(theta)
    K = kernel.between(X, None, 1)
    A = K + np.diag(0.3 * evidence.row_noise)
    without = -multivariate_normal(cov=A).logpdf(Y.T).sum()
    without += 0.5 * n_targets * (7.0 * np.log(0.3) - 25 * np.log(2.0 * np.pi))
    assert found.value - without == pytest.approx(evidence._pull(theta)[0])
    squares = np.mean((Y - refits(A, Y)[0]) ** 2, axis=1)
    assert found.left_out == pytest.approx(np.average(squares, weights=1.0 / evidence.row_noise))
    for p, slope in enumerate(found.slopes):
        step = np.zeros(len(theta))
        step[p] = 1e-5
        right = (evidence(theta + step).value - evidence(theta - step).value) / 2e-5
        assert slope == pytest.approx(right, rel=1e-6, abs=1e-6)


def ridges(seed, n, p=4):
    """Return rows whose target is a sum of curves along axes that are not the columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    axes = np.linalg.qr(rng.normal(size=(p, p)))[0]
    Z = X @ axes
    return X, np.sin(2.0 * Z[:, 0]) + 0.3 * np.abs(Z[:, 1]) + 0.05 * rng.normal(size=n), axes


def test_distances_along_axes_are_those_of_turned_rows():
    X, Y, start = rows_of(0, 13), rows_of(1, 6), mixture("l2")
    axes = np.linalg.qr(np.random.default_rng(2).normal(size=(2, 2)))[0]
    kernel = replace(start, axes=axes)
    weights, amplitudes = np.exp(kernel.log_weights), np.exp(kernel.log_amplitudes)
    Z, others = (np.hstack([rows[:, :2] @ axes, rows[:, 2:]]) for rows in (X, Y))
    expected = distance_kernel("l2", 2, weights, amplitudes, Z, others)
    assert_allclose(kernel.between(kernel.turned(X), kernel.turned(Y), 1), expected, atol=1e-12)
    # Equal weights make the same distances along any axes.
    equal = replace(kernel, log_weights=np.zeros(3))
    plain = replace(equal, axes=None)
    assert_allclose(equal.spreads(equal.turned(X)), plain.spreads(X), rtol=1e-12)


def test_a_table_whose_axes_are_not_its_columns(tmp_path):
    X, y, _ = ridges(0, 800, 3)
    model = TabularGPRegressor(members=["radial"], random_state=0).fit(X[:400], y[:400])
    kernel = model._fits[0].blend.members[0].posterior.system.kernel
    assert kernel.axes is not None
    mean, std = model.predict(X[400:], return_std=True)
    assert np.sqrt(np.mean((mean - y[400:]) ** 2)) < 0.12
    assert 0.9 < np.mean(np.abs(mean - y[400:]) < 1.96 * std) < 0.99
    model.save(tmp_path / "model.histrs")
    assert_allclose(histrs.load(tmp_path / "model.histrs").predict(X[400:]), mean, atol=1e-9)
    # Each column has a part in the function, by its part in the axes.
    assert model.feature_importances_.min() > 0.01
    more = model.partial_fit(X[400:], y[400:])
    assert np.sqrt(np.mean((more.predict(X[400:]) - y[400:]) ** 2)) < 0.08
    # Columns stay where other axes gain nothing.
    straight = TabularGPRegressor(members=["radial"], random_state=0).fit(X, np.sin(3.0 * X[:, 0]))
    assert straight._fits[0].blend.members[0].posterior.system.kernel.axes is None


def test_gaps_are_filled_from_near_rows():
    training = TableRows.of(
        np.array([[0.0, 0.0], [0.1, 1.0], [5.0, 9.0]]),
        np.array([[0.2, 0.2], [0.5, 0.5], [0.8, 0.8]]),
        np.array([[0.0], [1.0], [0.0]]),
    )
    row = TableRows.of(np.array([[0.05, np.nan]]), np.array([[0.3, np.nan]]), np.array([[np.nan]]))
    found = filled(row, training)
    assert_allclose(found.weights.sum(axis=1), 1.0)
    order = np.argsort(found.rows.values[:, 1])
    assert_allclose(found.rows.values[order], [[0.05, 0.0], [0.05, 1.0], [0.05, 9.0]])
    assert_allclose(found.rows.with_ranks[order, :2], [[0.3, 0.2], [0.3, 0.5], [0.3, 0.8]])
    assert_allclose(found.rows.codes[order, 0], [0.0, 1.0, 0.0])
    assert found.weights[0, order[2]] < 1e-3


# ---- frames ----------------------------------------------------------------------------------


def test_prices_and_classes_along_axes():
    X, y, _ = ridges(0, 800, 3)
    prices = np.exp(2.0 * y)
    model = TabularGPRegressor(members=["radial"], random_state=0).fit(X[:400], prices[:400])
    assert model.target_transform_ == "log"
    # The blend of prices themselves begins with the axes of the logarithm.
    both = model._fits[0].blend, model._fits[0].plain
    assert all(blend.members[0].posterior.system.kernel.axes is not None for blend in both)
    assert np.median(np.abs(np.log(model.predict(X[400:])) - 2.0 * y[400:])) < 0.15
    classifier = TabularGPClassifier(members=["radial"], random_state=0).fit(X[:400], y[:400] > 0.3)
    assert classifier._of_classes.members[0].posterior.system.kernel.axes is not None
    assert classifier.score(X[400:], y[400:] > 0.3) > 0.93


# ---- columns ------------------------------------------------------------------------------------


def test_columns_are_standardised_straightened_and_clipped():
    rng = np.random.default_rng(0)
    wild = rng.normal(size=200)
    wild[:2] = -60.0, 60.0
    two = (np.arange(200) % 20 == 0) * 4.0
    known = [rng.normal(3.0, 5.0, 200), np.exp(rng.normal(size=200)), two, wild, np.full(200, 2.5)]
    numbers = np.column_stack(known)
    numbers[3:40:4, 0] = np.nan
    others = numbers[:30] * rng.uniform(-1.0, 3.0, (30, 5))
    for rows in (numbers, others):
        values, ranks = NumberColumns(numbers).apply(rows)
        lacking = np.isnan(rows)
        filled = np.where(lacking, np.nanmean(numbers, axis=0), rows)
        fitted = np.where(np.isnan(numbers), np.nanmean(numbers, axis=0), numbers)
        first = StandardScaler().fit(fitted)
        fitted, filled = first.transform(fitted), first.transform(filled)
        power = PowerTransformer().fit(fitted[:, [1]])
        fitted[:, [1]], filled[:, [1]] = (
            power.transform(fitted[:, [1]]),
            power.transform(filled[:, [1]]),
        )
        last = StandardScaler().fit(np.clip(fitted, -6.0, 6.0))
        expected = last.transform(np.clip(filled, -6.0, 6.0))
        # What is constant says nothing of other rows.
        expected[:, 4] = 0.0
        assert_allclose(values[:, :5], expected, atol=1e-7)
        assert_allclose(values[:, 5], np.sqrt(2.0) * lacking[:, 0])
        assert ranks.shape == values.shape
    values, ranks = NumberColumns(numbers[:, 1:2]).apply(numbers[:, 1:2])
    order = np.argsort(numbers[:, 1])
    assert_allclose(ranks[order, 0], (np.arange(200) + 0.5) / 200, atol=1e-12)


@pytest.mark.parametrize("power", [-3.0, -0.5, 0.0, 0.3, 1.0, 1.7, 2.0, 4.0])
def test_columns_are_straightened_as_scikit_learn_does(power):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=500) * 3.0, [0.0, -0.0, 1e-20, -1e-20, 40.0, -40.0]])
    transformer = PowerTransformer(standardize=False).fit(X[:, None])
    transformer.lambdas_ = np.array([power])
    expected = transformer.transform(X[:, None])[:, 0]
    assert_allclose(yeo_johnson(X, power), expected, rtol=1e-12, atol=1e-15)


def test_exponents_are_learned_from_rows_with_the_ends_of_each_column(monkeypatch):
    monkeypatch.setattr(columns, "_POWER_ROWS", 10)
    rows = np.random.default_rng(0).normal(size=(300, 3))
    some = rows_of_powers(rows)
    assert 10 <= len(some) == len(np.unique(some)) <= 16
    assert set(some) >= {*rows.argmin(axis=0), *rows.argmax(axis=0)}


# ---- members, and what rows say that are left out -----------------------------------------------


@pytest.mark.parametrize("name", ["levels", "radial", "ranks"])
def test_members_leave_rows_out(name):
    X, y = curved(0, 310)
    fit = TabularGPRegressor(members=[name], target_transform="identity", random_state=0).fit(X, y)
    (member,) = fit._fits[0].blend.members
    (system,) = member.posterior.systems
    K = member.posterior.bound.matrix() * system.amplitude
    T = ((y - y.mean()) / y.std())[:, None]
    means, variances = refits(K + system.noise * np.eye(310), T)
    found = fit.predict_leave_one_out()
    assert_allclose((found[0] - y.mean()) / y.std(), means[:, 0], atol=1e-4)
    assert_allclose(leave_one_out(member.posterior, T)[1][:, 0], variances, rtol=1e-3)


@pytest.mark.parametrize("name", ["radial", "ranks"])
def test_few_rows_are_left_out_of_learning_too(name):
    """Weights of many columns fit noise of few rows, which these do not see when they are asked."""
    inside, too_sure = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1150, 30))
        f = 2.0 * X[:, 0] + 2.0 * np.abs(X[:, 1]) - 1.6
        y, classes = f + rng.normal(size=1150), rng.random(1150) < 1.0 / (1.0 + np.exp(-f))
        fit = TabularGPRegressor(members=[name], random_state=0).fit(X[:150], y[:150])
        low, high = fit.predict_interval(X[150:]).T
        inside.append(np.mean((low < y[150:]) & (y[150:] < high)))
        fit = TabularGPClassifier(members=[name], random_state=0).fit(X[:150], classes[:150])
        P = fit.predict_proba(X[150:])
        too_sure.append(P.max(axis=1).mean() - np.mean((P[:, 1] > 0.5) == classes[150:]))
    assert np.mean(inside) == pytest.approx(0.95, abs=0.03)
    assert np.mean(too_sure) < 0.055


@pytest.mark.parametrize("n", [12, 150, 800])
def test_members_that_share_matrices_say_what_each_says_alone(n):
    X, random = rows_of(0, n + 300), np.random.default_rng(0)
    frame = pd.DataFrame(X).assign(word=random.choice(list("abc"), len(X))).rename(columns=str)
    y = X[:, 0] + 0.5 * (frame["word"] == "a").to_numpy() + random.normal(size=len(X))
    model = TabularGPRegressor(random_state=0).fit(frame[:n], y[:n])
    asked = [member for _, member in model._weighted_members()]
    assert sum(member.name == "even" for member in asked) > 1
    ((_, rows, _),) = model._to_predict(frame[n:])
    of_all = zip(asked, means_of(asked, rows), predictions_of(asked, rows), strict=True)
    for member, alone, (mean, variance) in of_all:
        own_mean, own_variance = member.predict(rows)
        assert_allclose(alone, own_mean, atol=1e-9)
        assert_allclose(mean, own_mean, atol=1e-9)
        assert_allclose(variance, own_variance, rtol=1e-7)


def test_kernels_for_few_rows_are_as_probable_as_their_evidence():
    X, y = rows_of(0, 9), np.random.default_rng(0).normal(size=9)
    start = EvenMixture.start(X, 2)
    found = likely_kernels(start, X, y[:, None], None, None)
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


@pytest.mark.parametrize("n_columns", [4, 40])
def test_columns_are_also_treated_alike_where_rows_are_few_for_their_weights(
    n_columns, monkeypatch
):
    monkeypatch.setattr(groups, "_MOST_EVEN", 100)
    random = np.random.default_rng(0)
    X = random.normal(size=(250, n_columns))
    y = X.sum(axis=1) + random.normal(size=250)
    model = TabularGPRegressor(random_state=0).fit(X, y)
    assert ("even" in model.weights_) == (n_columns == 40)


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


@pytest.mark.parametrize("n", [1, 2, 9, 16])
def test_spreads_of_weighted_rows_are_those_of_repeats(n):
    rng = np.random.default_rng(n)
    X, y = curved(n, n)
    counts = rng.integers(1, 4, n)
    mean, std = 0.3 * rng.normal(size=n), 0.2 + 5.0 * rng.random(n) ** 4
    found = []
    for repeats, weights in ((np.ones(n, dtype=int), counts.astype(float)), (counts, None)):
        rows = TableRows.of(
            *(np.repeat(X, repeats, axis=0) for _ in range(2)), np.empty((repeats.sum(), 0))
        )
        T = np.repeat(y, repeats)[:, None]
        progress = StageProgress("", 0)
        few = members.Targets(rows, T, weights, None, np.arange(len(T)), 0, 1, progress)
        of_few = (np.repeat(part, repeats) for part in (mean, std))
        found.append(Spread.candidates(few, *of_few)[0][0])
    # Only how many rows there are is told otherwise.
    assert found[0].widest == found[1].widest
    assert_allclose(found[0].least * found[1].scale, found[1].least * found[0].scale)


@pytest.mark.parametrize("of_few_values", [True, False])
def test_a_spread_that_blurs_residuals_of_few_sizes_is_refused(of_few_values, monkeypatch):
    rng = np.random.default_rng(0)
    n, even = 2000, Spread(None, 1.0)
    std = np.exp(rng.normal(size=n))
    # A target of two values, and noise that is as wide as it is said to be.
    y = rng.choice([-1.0, 1.0], n) if of_few_values else std * rng.normal(size=n)
    varied = Spread(None, 2.0)
    found = [(even, np.full(n, np.std(y))), (varied, std)]
    monkeypatch.setattr(regression.Spread, "candidates", lambda *_: found)
    rows = TableRows.of(rng.normal(size=(n, 1)), np.zeros((n, 1)), np.empty((n, 0)))
    progress = StageProgress("", 0)
    mean = rng.normal(size=n)
    T = (mean + y)[:, None]
    targets = members.Targets(rows, T, None, None, np.arange(n), 0, 1, progress)
    spread, left_out, _ = regression._with_spread(targets, means.Located(mean, std), mean)
    expected = found[0] if of_few_values else found[1]
    assert spread is expected[0]
    assert_allclose(left_out.std, expected[1])


def test_intervals_of_repeated_rows_hold_one_of_them():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.choice(["u", "v", "w"], 1200), "b": rng.integers(0, 4, 1200)})
    # Many zeros, so that most rows are equal to others, targets too.
    y = rng.integers(0, 30, 1200) * (rng.random(1200) < 0.5) + 4.0 * (X["a"] == "u")
    model = TabularGPRegressor(random_state=0).fit(X[:800], y[:800])
    assert len(model._rows.values) < 400
    low, high = model.predict_interval(X[800:]).T
    assert 0.91 < np.mean((low <= y[800:]) & (y[800:] <= high)) < 0.99


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
    rng = np.random.default_rng(0)
    u, means = rng.standard_t(4, size=n), rng.normal(size=n)
    shape = Shape(u, means, None)
    p = np.array([0.001, 0.05, 0.4, 0.9, 0.9995])
    at = np.array([-9.0, 0.0, 0.3, 9.0])
    quantiles = shape.quantiles(at, p)
    assert np.all(np.diff(quantiles) > 0.0)
    assert_allclose(shape.values(at).mean(axis=1), 0.0, atol=1e-12)
    # Numerical integrals of the density.
    grid = np.linspace(-12.0, 12.0, 4001)
    density = shape.density(at[:, None], np.tile(grid, (4, 1)))
    below = np.cumsum(density, axis=1) * (grid[1] - grid[0])
    for row, of_row in zip(below, quantiles, strict=True):
        assert_allclose(np.interp(of_row, grid, row), p, atol=0.02)
    if n == 3000:
        assert_allclose(quantiles[1, 1:4], np.quantile(u, p[1:4]), atol=0.3)
    weighted = Shape(u, means, np.full(n, 2.0))
    assert_allclose(weighted.quantiles(at, p), quantiles)
    order = rng.permutation(n)
    assert_allclose(Shape(u[order], means[order], None).quantiles(at, p), quantiles)


@pytest.mark.parametrize("heavy", [1, 3, 40])
def test_a_shape_of_unequal_weights_is_finite(heavy):
    rng = np.random.default_rng(0)
    u, means, weights = rng.normal(size=900), rng.normal(size=900), np.ones(900)
    weights[:heavy] = 1e4
    quantiles = Shape(u, means, weights).quantiles(means, np.array([0.01, 0.5, 0.99]))
    assert np.all(np.isfinite(quantiles))
    assert np.all(np.diff(quantiles) > 0.0)


def test_predictions_are_corrected_where_residuals_have_means():
    rng = np.random.default_rng(0)
    means, noise = rng.normal(size=3000), rng.normal(size=3000)
    at = np.array([-1.5, 0.0, 1.5])
    assert_allclose(Correction.of(noise, means, None).apply(at), at)
    found = Correction.of(noise + np.sin(means), means, None)
    assert_allclose(found.apply(at), at + np.sin(at), atol=0.25)
    assert_allclose(found.apply(np.array([99.0])), 99.0 + found.added[-1])
    weighted = Correction.of(noise + np.sin(means), means, np.full(3000, 0.5))
    assert_allclose(weighted.apply(at), found.apply(at))
    # The means of a shape are those of its residuals, too.
    shape = Shape(noise + np.sin(means), means, None)
    assert_allclose(shape.quantiles(at, np.array([0.5]))[:, 0], np.sin(at), atol=0.25)


def test_means_of_residuals_are_corrected_in_predictions():
    # A step is drawn out by kernels; targets at both of its sides are not.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 6))
    y = np.where(X.sum(axis=1) > 0.0, 1.0, 0.0) + 0.01 * rng.normal(size=1500)
    model = TabularGPRegressor(target_transform="identity", random_state=0).fit(X[:700], y[:700])
    (fit,) = model._fits
    assert np.any(fit.blend.correction.added != 0.0)
    nothing = Correction(np.zeros(1), np.zeros(1))
    plain = replace(fit, blend=replace(fit.blend, correction=nothing))
    rows = model._reader.rows(X[700:], np.empty((800, 0)))
    error, before = (np.mean((f.mean(rows) - y[700:]) ** 2) for f in (fit, plain))
    assert error < before
    assert_allclose(fit.mean(rows), model.predict(X[700:], return_std=True)[0], atol=1e-9)


def test_both_ends_of_intervals_are_right_where_noise_leans_one_way_or_the_other():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=4000)
    y = 4.0 * x + (rng.exponential(size=4000) - 1.0) * np.where(x < 0.5, 1.0, -1.0)
    X = x[:, None]
    model = TabularGPRegressor(target_transform="identity", random_state=0).fit(X[:2000], y[:2000])
    low, high = model.predict_interval(X[2000:], coverage=0.8).T
    for half in (x[2000:] < 0.45, x[2000:] > 0.55):
        assert 0.05 <= np.mean(y[2000:][half] < low[half]) <= 0.15
        assert 0.05 <= np.mean(y[2000:][half] > high[half]) <= 0.15


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


# ---- frames ----------------------------------------------------------------------------------


def test_the_order_of_columns_and_names_of_categories_do_not_matter():
    X, y = priced(0, 200)
    model = TabularGPRegressor(random_state=0).fit(X, y)
    turned = X[["kind", "day", "size"]].replace({"flat": "z", "house": "b", "loft": "a"})
    other = TabularGPRegressor(random_state=0).fit(turned, y)
    assert_allclose(other.predict(turned), model.predict(X), rtol=1e-3)


# ---- as scikit-learn's users expect -------------------------------------------------------------


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
    with pytest.raises(ValueError, match="Leave-one-out predictions need"):
        model.predict_leave_one_out()


def test_pickles_hold_nothing_that_can_be_made_again():
    X, y = curved(0, 700)
    new = curved(1, 50)[0]
    for model in (TabularGPRegressor(random_state=0), TabularGPClassifier(random_state=0)):
        is_classifier = isinstance(model, TabularGPClassifier)
        model.fit(X, y > np.median(y) if is_classifier else y)
        pickled = pickle.dumps(model)
        # Two tables and a hundred directions, where all pairs of rows are 3.9 MB a kernel.
        assert len(pickled) < 60 * X.nbytes
        copy = pickle.loads(pickled)
        if is_classifier:
            assert_allclose(copy.predict_proba(new), model.predict_proba(new), rtol=1e-9)
        else:
            both = [m.predict(new, return_std=True) for m in (copy, model)]
            assert_allclose(*both, rtol=1e-9)


def test_members_share_the_training_rows_in_a_pickle_too():
    X, y = curved(0, 300)
    frame = pd.DataFrame(X, columns=[f"x{d}" for d in range(X.shape[1])])
    frame["word"] = np.where(X[:, 0] > 0.0, "more", "less")
    model = pickle.loads(pickle.dumps(TabularGPRegressor(random_state=0).fit(frame, y)))
    rows = model._rows
    seen = [member.posterior.bound.X for member in model._fits[0].blend.members]
    whole = [X for X in seen if X.shape == rows.with_values.shape]
    kept = {id(X) for X in whole if not any(X is part for part in rows)}
    turned = [
        m
        for m in model._fits[0].blend.members
        if getattr(m.posterior.bound.kernel, "axes", None) is not None
    ]
    assert len(whole) > 0
    assert len(kept) == len(turned)


def test_many_rows_are_fitted_by_products(monkeypatch):
    X, y = curved(0, 600)
    y = y + 3.0 * X[:, 1]
    new = curved(1, 300)[0]
    exact = TabularGPRegressor(random_state=0).fit(X, y)
    labels = y > np.median(y)
    exactly = TabularGPClassifier(random_state=0).fit(X, labels)
    monkeypatch.setattr(members, "MOST_FACTORISED", 300)
    model = TabularGPRegressor(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"^Leave-one-out predictions need"):
        model.predict_leave_one_out()
    (mean, std), (right, width) = (m.predict(new, return_std=True) for m in (model, exact))
    assert np.sqrt(np.mean((mean - right) ** 2)) < 0.25 * width.mean()
    # Weights of members and the spread are learned from fewer rows.
    assert_allclose(np.median(std / width), 1.0, atol=0.15)
    copy = pickle.loads(pickle.dumps(model))
    assert_allclose(copy.predict(new, return_std=True), (mean, std), rtol=1e-6)
    assert len(pickle.dumps(model)) < 8 * len(X) ** 2
    classifier = TabularGPClassifier(random_state=0).fit(X, labels)
    P, Q = classifier.predict_proba(new), exactly.predict_proba(new)
    assert np.mean(np.abs(P - Q)) < 0.06
    monkeypatch.setattr(members, "_MOST_STORED", 400)
    some = TabularGPRegressor(members=["ranks", "levels"], random_state=0).fit(X, y)
    assert np.sqrt(np.mean((some.predict(new) - right) ** 2)) < width.mean()


@pytest.mark.parametrize("most", [6000, 250])
def test_added_rows_are_those_of_a_fit_with_what_was_learned(monkeypatch, most):
    monkeypatch.setattr(members, "MOST_FACTORISED", most)
    X, y = curved(0, 300)
    new = curved(1, 50)[0]
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=300)
    weights[7] = weights[290] = 0.0
    given = X[:200], y[:200], weights[:200]
    model = TabularGPRegressor(target_transform="identity", random_state=0).fit(*given)
    before = model.predict(new)
    blend = model._fits[0].blend
    model.partial_fit(X[200:], y[200:], weights[200:])
    some = weights > 0.0
    mean = np.zeros(50)
    for share, member in zip(blend.weights, blend.members, strict=True):
        system = member.posterior.system
        bound = MatrixBound(X=member.view(model._rows), kernel=system.kernel, n_threads=1)
        if member.name == "levels":
            bound = system.bound.inserted(member.view(model._rows)[199:], None)
        K = system.amplitude * bound.matrix()
        noise = system.noise * weights[:200][some[:200]].mean() / weights[some]
        t = (y[some] - blend.centre) / blend.unit
        alpha = np.linalg.solve(K + np.diag(noise), t)
        rows = bound.rows_of(member.view(model._reader.rows(new, np.empty((50, 0)))))
        mean += share * system.amplitude * bound.cross_product(rows, alpha[:, None])[:, 0]
    found, std = model.predict(new, return_std=True)
    assert_allclose(found, blend.centre + blend.unit * mean, atol=1e-4 if most == 6000 else 1e-2)
    assert np.mean((found - curved(1, 50, 0.0)[1]) ** 2) < np.mean(
        (before - curved(1, 50, 0.0)[1]) ** 2
    )
    assert np.all(std > 0.0)
    with pytest.raises(ValueError, match=r"^Leave-one-out predictions need"):
        model.predict_leave_one_out()


def test_rows_that_cannot_be_added_leave_everything_as_it_was():
    X, y = curved(0, 60)
    model = TabularGPRegressor(target_transform="log", random_state=0).fit(X, np.exp(y))
    before = model.predict(X)
    gap = X[:3].copy()
    gap[1, 2] = np.nan
    for rows, targets, message in (
        (gap, y[:3], r"^X\[1, 2\] is missing, and the fit had no missing"),
        (X[:3], -np.exp(y[:3]), r"^A target is -.*, which the transform 'log'"),
        (X[:3], np.ones((3, 2)), r"^y has 2 targets, but fit had 1"),
        (X[:3, :2], y[:3], "features"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(rows, targets)
    np.testing.assert_array_equal(model.predict(X), before)
    labels = np.where(y > 0.0, "a", "b")
    classifier = TabularGPClassifier(random_state=0).partial_fit(X[:40], labels[:40])
    with pytest.raises(ValueError, match=r"^y has the class 'c', which fit has not seen"):
        classifier.partial_fit(X[:1], ["c"])
    before = log_loss(labels, classifier.predict_proba(X))
    classifier.partial_fit(X[40:], labels[40:])
    assert log_loss(labels, classifier.predict_proba(X)) < before


def test_standard_deviations_go_through_the_tools_that_the_guide_names():
    X, y = curved(0, 60)
    y = np.exp(y)
    model = TabularGPRegressor(random_state=0)
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    search = GridSearchCV(model, {"target_transform": ["log"]}, cv=2).fit(X, y)
    transformed = TransformedTargetRegressor(clone(model), func=np.log, inverse_func=np.exp)
    transformed.fit(X, y)
    others = (
        (search, TypeError),
        (transformed, AttributeError),
        (VotingRegressor([("model", model)]).fit(X, y), TypeError),
        (MultiOutputRegressor(model).fit(X, np.column_stack([y, y])), TypeError),
    )
    for asked in ({"return_std": True}, {"return_quantiles": [0.1, 0.5]}):
        expected = pipeline[-1].predict(pipeline[:-1].transform(X), **asked)
        for one, other in zip(pipeline.predict(X, **asked), expected, strict=True):
            np.testing.assert_array_equal(one, other)
        assert len(search.best_estimator_.predict(X, **asked)) == 2
        for tool, error in others:
            with pytest.raises(error):
                tool.predict(X, **asked)
    scores = cross_val_score(model, X, y, cv=2, scoring=lambda m, X, y: m.score_density(X, y))
    assert np.all(np.isfinite(scores))


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
    assert model.summary().count("error") == len(model.weights_)
    assert sum(model.weights_.values()) == pytest.approx(1.0)


@pytest.mark.parametrize("n_rare", [1, 2])
def test_rare_classes_are_not_learned_the_wrong_way_round(n_rare):
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = np.arange(40) < n_rare
    X[y] += 4.0
    P = TabularGPClassifier(random_state=0).fit(X, y).predict_proba(X)[:, 1]
    assert P[y].min() >= P[~y].max()
    noise = np.random.default_rng(1).normal(size=(40, 3))
    P = TabularGPClassifier(random_state=0).fit(noise, y).predict_proba(noise)[:, 1]
    assert np.all(P < 0.3)


def test_scores_that_say_nothing_leave_frequencies():
    codes = np.arange(30) % 3
    others = (np.bincount(codes) - (codes[:, None] == np.arange(3))) / 29.0
    P = ClassPool(others, codes, None).probabilities(np.full((1, 3), 1.0 / 3.0))
    assert_allclose(P, np.full((1, 3), 1.0 / 3.0), atol=1e-6)


def test_coefficients_of_a_pool_have_the_least_loss():
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=200)
    scores = np.clip(0.5 + 0.3 * (2 * codes - 1) + 0.4 * rng.normal(size=200), 0, 1)[:, None]
    weights = rng.uniform(0.5, 2.0, size=200)
    pool = ClassPool(scores, codes, weights)
    best = pool._parameters.copy()
    # Without ridges to speak of, beside 200 rows.
    for step in 0.3 * np.eye(8):
        for moved in (best + step, best - step):
            pool._parameters = np.maximum(moved, [0.0, 0.0, *6 * [-9.0]])
            worse = pool.loss(scores, codes, weights)
            pool._parameters = best
            assert worse > pool.loss(scores, codes, weights) - 2e-3
    assert pool.probabilities(scores)[:, 1] == pytest.approx(1 - pool.probabilities(scores)[:, 0])


@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_few_rows(n):
    X, y = curved(0, n)
    mean, std = TabularGPRegressor(random_state=0).fit(X, y).predict(X + 0.1, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std >= 0.0)


@pytest.mark.parametrize("make", [TabularGPRegressor, TabularGPClassifier])
def test_more_columns_than_rows(make):
    X = np.random.default_rng(0).normal(size=(40, 1100))
    y = X[:, 0] + X[:, 1] if make is TabularGPRegressor else X[:, 0] + X[:, 1] > 0.0
    model = make(random_state=0).fit(X, y)
    assert np.all(np.isfinite(model.predict(X)))
    assert make(members=["levels"]).fit(X[:, :90], y).score(X[:, :90], y) > 0.5


def test_awkward_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    X[:, 1], X[:, 2], X[:, 3] = 7.0, np.nan, np.where(rng.random(80) < 0.3, np.nan, 1e308)
    y = X[:, 0] + np.isnan(X[:, 3])
    model = TabularGPRegressor(random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    X[:, 4] *= 1e-200
    assert np.all(np.isfinite(TabularGPRegressor(random_state=0).fit(X, y).predict(X)))


@pytest.mark.parametrize("value", [0.0, 3.0, -5e8, 2e-9, 1e150])
def test_a_target_of_one_value_is_sure(value):
    X, _ = curved(0, 120)
    mean, std = TabularGPRegressor().fit(X, np.full(120, value)).predict(X, return_std=True)
    np.testing.assert_array_equal(mean, value)
    assert np.all(std <= max(1e-13 * abs(value), 1e-300))


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


# ---- what changes nothing -----------------------------------------------------------------------

BOTH = pytest.mark.parametrize("make", [TabularGPRegressor, TabularGPClassifier])


def told(make, n=120):
    """Return rows, and targets or words for them."""
    X, y = curved(0, n)
    return X, y if make is TabularGPRegressor else np.where(y > 0.0, "up", "down")


def answers(model, X):
    """Return all that a model says of rows."""
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    mean, std = model.predict(X, return_std=True)
    return np.column_stack([mean, std, model.predict_interval(X)])


@BOTH
@pytest.mark.parametrize(
    "change", [(1e-300, 0.0), (1e300, 0.0), (3.0, 0.0), (1.0, -1000.0)], ids=str
)
def test_units_and_origins_of_columns_do_not_matter(make, change):
    X, y = told(make)
    expected = answers(make(random_state=0).fit(X, y), X)
    Z = change[0] * X + change[1]
    assert_allclose(answers(make(random_state=0).fit(Z, y), Z), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "change", [(1e-200, 0.0), (1e200, 0.0), (7.0, 0.0), (1.0, 1000.0)], ids=str
)
def test_unit_and_origin_of_a_target_do_not_matter(change):
    X, y = curved(0, 120)
    expected = answers(TabularGPRegressor(random_state=0).fit(X, y), X)
    found = answers(TabularGPRegressor(random_state=0).fit(X, change[0] * y + change[1]), X)
    means = [0, 2, 3]
    assert_allclose((found[:, means] - change[1]) / change[0], expected[:, means], atol=1e-4)
    assert_allclose(found[:, 1] / change[0], expected[:, 1], rtol=1e-3)


@BOTH
def test_the_order_of_rows_does_not_matter(make):
    X, y = told(make)
    expected = answers(make(random_state=0).fit(X, y), X)
    order = np.random.default_rng(1).permutation(len(X))
    assert_allclose(answers(make(random_state=0).fit(X[order], y[order]), X), expected, atol=1e-4)
    assert_allclose(answers(make(random_state=0).fit(X, y), X[order]), expected[order], atol=1e-9)


@BOTH
@pytest.mark.parametrize("n", [9, 16, 120])
def test_rows_without_weight_leave_no_trace_and_weights_have_no_unit(make, n):
    X, y = told(make, n)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    weights[::7] = 0.0
    seen, wild = weights > 0.0, X.copy()
    wild[~seen] = 1e9
    expected = answers(make(random_state=0).fit(X[seen], y[seen], weights[seen]), X)
    found = answers(make(random_state=0).fit(wild, y, 3.0 * weights), X)
    assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    plain = answers(make(random_state=0).fit(X, y), X)
    assert not np.allclose(found, plain, rtol=1e-3)
    twice = answers(make(random_state=0).fit(np.tile(X, (2, 1)), np.tile(y, 2)), X)
    assert_allclose(twice, plain, rtol=1e-4, atol=1e-4)


@BOTH
def test_rows_are_answered_some_at_a_time(make, monkeypatch):
    X, y = told(make, 60)
    model = make(random_state=0).fit(X, y)
    rows = X.copy()
    rows[::5, 1] = np.nan
    expected = answers(model, rows)
    monkeypatch.setattr(base, "_BLOCK", 7)
    monkeypatch.setattr(base, "_GAPPY", 1)
    assert_allclose(answers(model, rows), expected, rtol=1e-6, atol=1e-9)


def test_several_answers_at_once_do_not_meet():
    X, y = curved(0, 60)
    model = TabularGPRegressor(random_state=0).fit(X, y)
    expected, wrong = answers(model, X), []

    def ask():
        wrong.extend(not np.allclose(answers(model, X), expected) for _ in range(5))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(wrong)


# ---- what is awkward, and what is refused -------------------------------------------------------

AWKWARD = {
    "two rows": (2, lambda X: X),
    "equal rows": (20, np.ones_like),
    "one column": (20, lambda X: X[:, :1]),
    "constant column": (20, lambda X: np.column_stack([X, np.full(len(X), 1e9 + 0.1)])),
    "nothing known": (20, lambda X: np.column_stack([X, np.full(len(X), np.nan)])),
    "one known": (20, lambda X: np.where(np.arange(len(X))[:, None] == 0, X, np.nan)),
    "one wild value": (20, lambda X: np.column_stack([X, 1e12 * (np.arange(len(X)) == 3)])),
}


@BOTH
@pytest.mark.parametrize("case", AWKWARD.values(), ids=AWKWARD)
def test_awkward_rows(make, case):
    n, change = case
    X = change(curved(0, n)[0])
    model = make(random_state=0).fit(X, np.arange(n) % 2)
    for rows in (X, np.full((2, X.shape[1]), -1e9)):
        assert np.all(np.isfinite(answers(model, rows)))
    assert np.all(np.isfinite(model.feature_importances_))


def test_standard_deviations_grow_away_from_the_rows():
    X, y = curved(0, 150)
    model = TabularGPRegressor(random_state=0).fit(X, y)
    far = np.array([[6.0, 6, 6, 6], [-6, -6, -6, -6], [50, -50, 50, -50], [1e300, -1e300, 0, 0]])
    mean, std = model.predict(far, return_std=True)
    assert np.all(np.isfinite(mean))
    assert std.min() > 2.0 * np.median(model.predict(X, return_std=True)[1])
    # Rows beyond six deviations count as those there.
    assert_allclose(*model.predict([[100.0, 0, 0, 0], [1e9, 0, 0, 0]]))


@BOTH
@pytest.mark.parametrize("as_given", [pd.DataFrame, np.asarray])
def test_text_among_numbers_is_told_once(make, as_given):
    X, y = priced(0, 120)
    X = X[["size", "kind"]].fillna("none").astype(object)
    X.iloc[:8, 0], X.iloc[8:12, 0] = "n/a", "unknown"
    y = y if make is TabularGPRegressor else (y > np.median(y)).astype(int)
    weights = np.append(np.ones(119), 0.0)
    name = "Column 'size' of X" if as_given is pd.DataFrame else "X[:, 0]"
    with pytest.warns(UserWarning, match="to_numeric") as told:
        model = make().fit(as_given(X), y, weights)
    (message,) = [str(warning.message) for warning in told]
    assert message.startswith(f"{name} holds numbers, and text such as 'n/a', 'unknown': ")
    assert "astype(str)" in message
    model.predict(as_given(X))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["a", "b", "c"] * 40),
        pd.Series(["1", "2", "n/a"] * 40),
        pd.Series([1, 2, "n/a"] * 40).astype(str),
        pd.Series([1, 2, "n/a"] * 40).astype("category"),
        pd.Series([1, "b", "c"] * 40),
        pd.Series([1.5, 2, None] * 40, dtype=object),
        pd.Series([True, False, "maybe"] * 40),
    ],
)
def test_categories_that_are_meant_are_read_without_a_word(column):
    TabularGPRegressor().fit(pd.DataFrame({"kind": column}), np.arange(120.0) % 3)


def test_a_category_that_the_fit_had_not_is_uncertain():
    rng = np.random.default_rng(0)
    kind, x = rng.choice(["left", "right"], 150), rng.uniform(-2.0, 2.0, 150)
    X = pd.DataFrame({"x": x, "kind": kind})
    y = np.where(kind == "left", -1.0, 1.0) * (1.0 + x**2) + 0.05 * rng.normal(size=150)
    model = TabularGPRegressor(random_state=0).fit(X, y)
    rows = X[:3].assign(kind=["left", "unheard of", "new"])
    mean, std = model.predict(rows.assign(x=1.0), return_std=True)
    assert mean[1] == pytest.approx(mean[2], abs=1e-8)
    assert std[1] > 2.0 * std[0]


@pytest.mark.parametrize("n", [40, 100, 150])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_intervals_hold_rows_of_categories_that_the_fit_had_not(n, noise):
    inside, stds = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        kind, x, effects = rng.integers(0, 15, n), rng.uniform(-1.0, 1.0, n), rng.normal(size=15)
        y = x + effects[kind] + noise * rng.normal(size=n)
        X, seen = pd.DataFrame({"x": x, "kind": kind.astype(str)}), kind < 10
        model = TabularGPRegressor(random_state=0).fit(X[seen], y[seen])
        low, high = model.predict_interval(X[~seen]).T
        inside.append(np.mean((low < y[~seen]) & (y[~seen] < high)))
        stds.append(model.predict(X[~seen], return_std=True)[1])
    assert np.mean(inside) > 0.85
    assert 0.4 < np.median(np.concatenate(stds)) < 2.0


@pytest.mark.parametrize("members", [["radial"], ["ranks"], ["levels"], "auto"])
@pytest.mark.parametrize("transform", [None, np.exp])
def test_no_member_is_sure_of_a_new_category_without_noise(members, transform):
    rows = rows_of(0, 300)
    y = rows @ [1.0, 0.5, 1.0]
    X = pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "kind": rows[:, 2].astype(str)})
    model = TabularGPRegressor(members=members, target_transform="log" if transform else "identity")
    model.fit(X, y if transform is None else transform(y))
    mean, std = model.predict(X.assign(kind="new"), return_std=True)
    assert np.median(std / (1.0 if transform is None else mean)) > 0.15


def test_rows_beyond_the_range_are_uncertain_without_noise():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (200, 2))
    y, far = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2, X + np.array([4.0, 0.0])
    model = TabularGPRegressor(members=["radial"], random_state=0).fit(X, y)
    mean, std = model.predict(far, return_std=True)
    errors = mean - np.sin(3.0 * far[:, 0]) - far[:, 1] ** 2
    assert np.median(std) > 0.3 * np.median(np.abs(errors))


@BOTH
def test_bad_tables_are_refused_and_change_nothing(make):
    X, y = priced(0, 60)
    X = X[["size", "kind"]]
    y = y if make is TabularGPRegressor else y > np.median(y)
    model = make(random_state=0).fit(X, y)
    before = answers(model, X)
    refused = [
        (X.assign(size=np.inf), r"Column 'size' of X is infinite in row 0: Input X contains inf"),
        (X[["kind", "size"]], "same order"),
        (X[["size"]], "missing"),
        (X[:0], "Found 0 rows"),
    ]
    for bad, message in refused:
        with pytest.raises(ValueError, match=message):
            model.predict(bad)
    for bad, targets, message in (
        (X.assign(size=np.inf), y, "Input X contains inf"),
        (X, y[:-1], "inconsistent numbers of samples"),
        (X.assign(kind=[[0]] * 60), y, "are neither numbers nor categories"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(bad, targets)
    np.testing.assert_array_equal(answers(model, X), before)


@BOTH
def test_a_fit_that_memory_does_not_hold_is_refused_with_what_would_fit(make, monkeypatch):
    X, y = told(make, 120)
    model = make(random_state=0).fit(X, y)
    before = answers(model, X)
    monkeypatch.setattr(base, "free_memory", lambda: 8.0 * 9 * 100.5**2)
    with pytest.raises(MemoryError, match=r"120 rows takes .* GB, .* Fit at most 100 rows, or mem"):
        model.fit(X, y)
    np.testing.assert_array_equal(answers(model, X), before)
    model.fit(X[:100], y[:100])
    make(members=["levels"]).fit(X, y)
    # Of many rows, pairs take two bytes each.
    monkeypatch.setattr(base, "MOST_FACTORISED", 50)
    monkeypatch.setattr(base, "most_rows_of_pairs", lambda n: n)
    model.fit(X, y)
    monkeypatch.setattr(base, "free_memory", lambda: 110.5**2)
    with pytest.raises(MemoryError, match=r"Fit at most 13 rows"):
        model.fit(X, y)
    monkeypatch.setattr(base, "MOST_FACTORISED", 10)
    with pytest.raises(MemoryError, match=r"Fit at most 110 rows"):
        model.fit(X, y)


def test_free_memory_is_part_of_all():
    assert 0.0 < free_memory() <= physical_memory()


def test_filters_of_warnings_that_cross_let_none_of_a_search_through():
    first_entered, second_entered, first_left = (threading.Event() for _ in range(3))

    def search(is_first, _):
        # As SciPy's line search does.
        if not is_first:
            first_entered.wait(10)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            if is_first:
                first_entered.set()
                second_entered.wait(10)
            else:
                second_entered.set()
                first_left.wait(10)
                message = "The line search algorithm did not converge"
                warnings.warn(message, RuntimeWarning, stacklevel=1)
        first_left.set()

    targets = SimpleNamespace(n_threads=2, T=np.zeros((5, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        groups._in_threads(search, [True, False], targets)
        assert list(warnings.filters) == before


@BOTH
@pytest.mark.parametrize("stage", ["learn", "leave_one_out", "simplex_weights", "members_of"])
def test_a_fit_that_is_left_changes_nothing(make, stage, monkeypatch):
    X, y = told(make, 120)
    model = make(random_state=0).fit(X, y)
    before, expected = dict(vars(model)), answers(model, X)

    def leave(*_, **__):
        raise KeyboardInterrupt

    for module in (groups, members, classification, means):
        if hasattr(module, stage):
            monkeypatch.setattr(module, stage, leave)
    for ask in (model.fit, make().fit):
        with pytest.raises(KeyboardInterrupt):
            ask(X[:110], y[:110])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is value for name, value in before.items())
    np.testing.assert_array_equal(answers(model, X), expected)


@BOTH
def test_what_is_no_model_yet_says_so(make):
    X, _ = told(make, 40)
    for ask in (
        lambda model: model.summary(),
        lambda model: model.partial_dependence(X, 0),
        lambda model: model.feature_importances_,
    ):
        with pytest.raises(NotFittedError):
            ask(make())


def test_classes_of_words_rare_ones_and_one_alone():
    X, y = curved(0, 120)
    codes = np.digitize(y, [-0.5, 0.5])
    model = TabularGPClassifier(random_state=0).fit(X, np.array(["low", "mid", "top"])[codes])
    # Names are no more than names.
    other = TabularGPClassifier(random_state=0).fit(X, np.array(["z", "m", "a"])[codes])
    assert_allclose(other.predict_proba(X)[:, ::-1], model.predict_proba(X), atol=1e-5)
    two = TabularGPClassifier(random_state=0).fit(X, codes > 1)
    assert_allclose(1.0 / (1.0 + np.exp(-two.decision_function(X))), two.predict_proba(X)[:, 1])
    rare = TabularGPClassifier(random_state=0).fit(X, np.repeat([0, 1, 2], [118, 1, 1]))
    assert np.all(rare.predict(curved(1, 200)[0]) == 0)
    with pytest.raises(ValueError, match=r"y has one class, .*'a'"):
        TabularGPClassifier().fit(X, ["a"] * 120)


def test_interactions_are_found_where_an_additive_model_fails():
    X, _ = curved(0, 200)
    y = X[:, 0] * X[:, 1] + 0.1 * np.random.default_rng(1).normal(size=200)
    model = TabularGPRegressor(random_state=0).fit(X[:140], y[:140])
    additive = make_pipeline(MinMaxScaler(clip=True), IntersectionGPRegressor(random_state=0))
    assert model.score(X[140:], y[140:]) > 0.9
    assert additive.fit(X[:140], y[:140]).score(X[140:], y[140:]) < 0.3
    assert model.feature_importances_[:2].min() > 2.0 * model.feature_importances_[2:].max()


def test_targets_of_a_table_score_as_single_ones():
    X, y = curved(0, 80)
    Y = np.column_stack([y, X[:, 0]])
    model = TabularGPRegressor(random_state=0).fit(X, Y)
    gaps = Y.copy()
    gaps[::3, 0] = np.nan
    single = [
        r2_score(Y[:, k][~np.isnan(gaps[:, k])], model.predict(X)[~np.isnan(gaps[:, k]), k])
        for k in (0, 1)
    ]
    assert model.score(X, gaps) == pytest.approx(np.mean(single))


def test_standard_deviations_from_few_directions_are_close():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(1100, 3))
    y = np.sin(5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(1100)
    model = TabularGPRegressor(members=["radial"], random_state=0).fit(X[:900], y[:900])
    (member,) = model._fits[0].blend.members
    assert member.cached is not None
    rows = model._reader.rows(X[900:], np.empty((200, 0)))
    noise = member.posterior.noise[0]
    exact = member.posterior.latent_variance(member.view(rows), "exact", None, 0)[:, 0]
    np.testing.assert_allclose(
        np.sqrt(member.latent_variance(rows) + noise), np.sqrt(exact + noise), rtol=0.05
    )
    assert len(pickle.dumps(model)) < 100 * X.nbytes
    one, many = (np.array(model.predict(rows, return_std=True)) for rows in (X[:1], X))
    assert_allclose(one, many[:, :1], rtol=1e-9)


def test_sparse_rows_are_refused_whatever_was_fitted():
    frame = pd.DataFrame({"size": np.arange(20.0), "colour": ["red", "blue"] * 10})
    model = TabularGPRegressor(random_state=0).fit(frame.to_numpy(), frame["size"])
    with pytest.raises(TypeError, match="Sparse data was passed"):
        model.predict(sparse.csr_array(np.ones((3, 2))))
