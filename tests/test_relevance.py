"""Weights of features that held-out rows are predicted best by."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process._learning import feature_weights as _relevance
from histrs.gaussian_process._learning.feature_weights import (
    _best_number_of_steps,
    _Path,
    _squares,
    relevant_weights,
)
from histrs.gaussian_process.kernels import Intersection
from tests.helpers import build
from tests.oracles import intersection as oracle


def few_of_many(n, d, seed=0):
    """Targets of eight features."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, 3.0 * np.abs(X[:, :8] - 0.2) @ np.resize([1.0, -1.0], 8) + 0.2 * rng.normal(size=n)


@pytest.mark.parametrize("intercept", [None, 0.0, 1.5])
def test_a_step_is_its_definition(rng, monkeypatch, intercept):
    """Fisher's scoring, with traces in place of means and variances of draws."""
    monkeypatch.setattr(_relevance, "_N_DRAWS", 40_000)
    X, Y = rng.random((24, 4)), rng.normal(size=(24, 2))
    # A group of its own.
    X[5:, 3] = 0.0
    start = np.array([0.5, 1.0, 2.0, 1.0])
    path = _Path(X, Y, start, intercept, np.random.default_rng(0), 1)
    K = oracle.intersection_kernel(X * start, X * start)
    K = K + (3.0 * np.trace(K) / 24 if intercept is None else intercept)
    # The noise is that of largest likelihood among the ratios that are tried.
    ratios = np.linalg.eigvalsh(K)[-1] * np.logspace(-8, 1, 60)

    def log_likelihood(s):
        A = K + s * np.eye(24)
        return -12.0 * np.log(np.trace(Y.T @ np.linalg.solve(A, Y))) - 0.5 * np.linalg.slogdet(A)[1]

    A = K + max(ratios, key=log_likelihood) * np.eye(24)
    alpha = np.linalg.solve(A, Y)

    def slope_and_information(columns):
        part = oracle.intersection_kernel(
            X[:, columns] * start[columns], X[:, columns] * start[columns]
        )
        pulls = [24.0 * (a @ part @ a) / (a @ y) for a, y in zip(alpha.T, Y.T, strict=True)]
        B = np.linalg.solve(A, part)
        return 0.5 * (sum(pulls) - 2 * np.trace(B)), 0.5 * 2 * np.trace(B @ B)

    logs = np.zeros(4)
    for d in range(4):
        slope, information = slope_and_information([d])
        logs[d] = np.clip(slope / (information + 0.3), -3.0, 3.0)
    for group in ([0, 1, 2], [3]):
        slope, information = slope_and_information(group)
        logs[group] += np.clip(slope / information, -3.0, 3.0)
    path.step()
    np.testing.assert_allclose(np.log(path.weights / start), logs - logs.max(), atol=0.1)


def steps_by_definition(X, Y, start, intercept, draws, others):
    """Weights after each step of Fisher's scoring with given draws, and predictions there."""
    n, n_outputs = Y.shape
    groups = np.unique(np.frexp(np.count_nonzero(X, axis=0))[1], return_inverse=True)[1]
    own, shared, weights = np.zeros(X.shape[1]), np.zeros(groups.max() + 1), start

    def fit():
        K = oracle.intersection_kernel(X * weights)
        constant = 3.0 * np.trace(K) / n if intercept is None else intercept
        K = K + constant

        def log_likelihood(s):
            A = K + s * np.eye(n)
            misfit = np.trace(Y.T @ np.linalg.solve(A, Y))
            return -0.5 * n_outputs * (n * np.log(misfit) + np.linalg.slogdet(A)[1])

        ratios = np.linalg.eigvalsh(K)[-1] * np.logspace(-8, 1, 60)
        A = K + max(ratios, key=log_likelihood) * np.eye(n)
        alpha = np.linalg.solve(A, Y)
        cross = oracle.intersection_kernel(others * weights, X * weights)
        return A, alpha, (cross + constant) @ alpha

    def slopes(forms):
        pull, drawn = forms[:, :n_outputs].sum(axis=1), forms[:, n_outputs:]
        slope = 0.5 * (pull - n_outputs * drawn.mean(axis=1))
        return slope, 0.25 * n_outputs * drawn.var(axis=1, ddof=1)

    A, alpha, predicted = fit()
    found = [(weights, predicted)]
    for normal in draws:
        values, vectors = np.linalg.eigh(A)
        noise = np.sum(Y * alpha, axis=0) / n
        V = np.hstack([alpha / np.sqrt(noise), vectors / np.sqrt(values) @ vectors.T @ normal])
        parts = [oracle.intersection_kernel(column[:, None]) for column in (X * weights).T]
        forms = np.array([np.einsum("ij,ik,kj->j", V, K, V) for K in parts])
        slope, information = slopes(forms)
        own = own + np.clip((slope - 0.3 * own) / (information + 0.3), -3.0, 3.0)
        of_groups = [forms[groups == g].sum(axis=0) for g in range(len(shared))]
        slope, information = slopes(np.array(of_groups))
        known = information > 0.0
        if len(shared) > 1:
            shared[known] += np.clip(slope[known] / information[known], -3.0, 3.0)
        logs = own + shared[groups]
        weights = start * np.exp(logs - logs.max())
        A, alpha, predicted = fit()
        found.append((weights, predicted))
    return found


@pytest.mark.parametrize("intercept", [None, 0.0, 1.5])
@pytest.mark.parametrize("case", ["groups", "one group", "steep", "one target"])
def test_steps_are_their_definition_draw_by_draw(intercept, case):
    rng = np.random.default_rng(1)
    X, Y = rng.random((24, 6)), rng.normal(size=(24, 1 if case == "one target" else 2))
    if case != "one group":
        X[3:, 3:5] = 0.0
    if case == "groups":
        X[:, 5] = 0.0
    if case == "steep":
        # A column that tells all, of which steps are as long as they may be.
        Y = 5.0 * X[:, :2] - Y / 100
    Y = Y - Y.mean(axis=0)
    start, others = np.array([0.5, 1.0, 2.0, 1.0, 3.0, 1.0]), rng.random((7, 6))
    generator = np.random.default_rng(3)
    draws = [generator.normal(size=(24, _relevance._N_DRAWS)) for _ in range(3)]
    expected = steps_by_definition(X, Y, start, intercept, draws, others)
    path = _Path(X, Y, start, intercept, np.random.default_rng(3), 1)
    for k, (weights, predicted) in enumerate(expected):
        if k > 0:
            path.step()
        np.testing.assert_allclose(path.weights, weights, rtol=1e-6)
        np.testing.assert_allclose(path.predicted(others), predicted, rtol=1e-6, atol=1e-8)


def test_few_features_of_many_are_found():
    X, y = few_of_many(700, 300)
    scaled = IntersectionGPRegressor(random_state=0).fit(X[:200], y[:200])
    model = IntersectionGPRegressor(Intersection(feature_weights="relevance"), random_state=0).fit(
        X[:200], y[:200]
    )
    assert set(np.argsort(-model.feature_weights_)[:8]) == set(range(8))
    assert model.score(X[200:], y[200:]) > 0.9 > scaled.score(X[200:], y[200:]) + 0.3


def test_few_features_of_many_tell_classes_apart():
    X, y = few_of_many(900, 100)
    labels = np.where(y > np.median(y), "up", "down")
    scaled = IntersectionGPClassifier(random_state=0).fit(X[:400], labels[:400])
    model = IntersectionGPClassifier(Intersection(feature_weights="relevance"), random_state=0).fit(
        X[:400], labels[:400]
    )
    assert len(set(np.argsort(-model.feature_weights_)[:8]) & set(range(8))) >= 7
    assert model.score(X[400:], labels[400:]) > scaled.score(X[400:], labels[400:]) + 0.02


def test_rare_features_count_as_much_as_they_say(rng):
    """Scaled by their spreads, two thousand rare features would drown ten that matter."""
    U = rng.random((600, 10))
    rare = sparse.random(600, 2000, density=0.01, random_state=0, format="csr")
    X = sparse.hstack([sparse.csr_array(U), rare], format="csr")
    y = np.sin(3.0 * U).sum(axis=1) + 0.1 * rng.normal(size=600)
    scaled, default, model = (
        IntersectionGPRegressor(Intersection(feature_weights=name), random_state=0)
        .fit(X[:300], y[:300])
        .score(X[300:], y[300:])
        for name in ("scale", "auto", "relevance")
    )
    assert model > 0.9 > default + 0.1 > scaled + 0.3


def test_where_all_features_matter_weights_stay(rng):
    X = rng.random((120, 3))
    y = X.sum(axis=1) + 0.3 * rng.normal(size=120)
    model = IntersectionGPRegressor(Intersection(feature_weights="relevance"), random_state=0).fit(
        X, y
    )
    scaled = IntersectionGPRegressor(random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.feature_weights_, scaled.feature_weights_)
    np.testing.assert_array_equal(model.predict(X), scaled.predict(X))


def test_classes_are_told_no_worse_for_it():
    """Smaller squares of scores are no smaller log losses where a few rows are surely wrong."""
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    parts = train_test_split(X[order], y[order], test_size=0.25, random_state=1, stratify=y[order])
    found = []
    for weights in ("auto", "relevance"):
        model = IntersectionGPClassifier(Intersection(feature_weights=weights), random_state=0)
        model = make_pipeline(MinMaxScaler(clip=True), model).fit(parts[0], parts[2])
        found.append(log_loss(parts[3], model.predict_proba(parts[1])))
    assert found[1] < 1.02 * found[0]


def test_transformed_features_are_weighted():
    X, y = few_of_many(300, 60)
    options = {"feature_transform": "power", "exponent": 0.5, "exponent_bounds": "fixed"}
    model = build(IntersectionGPRegressor, feature_weights="relevance", **options).fit(X, y)
    roots = IntersectionGPRegressor(Intersection(feature_weights="relevance"), random_state=0).fit(
        np.sqrt(X), y
    )
    np.testing.assert_allclose(model.feature_weights_, roots.feature_weights_, rtol=1e-6)


def test_many_rows_are_drawn_from(monkeypatch):
    from histrs.gaussian_process._learning import feature_weights as module

    X, y = few_of_many(300, 30)
    seen = []
    original = _Path.__init__

    def watched(self, rows, *others, **options):
        seen.append(len(rows))
        original(self, rows, *others, **options)

    monkeypatch.setattr(module, "_MAX_ROWS", 90)
    monkeypatch.setattr(_Path, "__init__", watched)
    IntersectionGPRegressor(Intersection(feature_weights="relevance"), random_state=0).fit(X, y)
    assert seen == [60, 60, 60, 90]


@pytest.mark.parametrize(("n", "y"), [(1, 1.0), (4, 1.0), (40, 0.0)])
def test_what_tells_nothing_leaves_the_start(rng, n, y):
    start = np.array([1.0, 2.0])
    weights = relevant_weights(
        rng.random((n, 2)), y * rng.normal(size=(n, 1)), start, None, np.random.default_rng(0), 1
    )
    np.testing.assert_array_equal(weights, start)


def test_columns_of_zeros_keep_a_positive_weight(rng):
    X, y = few_of_many(120, 40)
    X[:, 20] = 0.0
    model = IntersectionGPRegressor(Intersection(feature_weights="relevance"), random_state=0).fit(
        X, y
    )
    assert np.all(model.feature_weights_ > 0.0)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_automatic_relevance_starts_within_its_bounds(rng, container, size):
    X = rng.random((60, 3))
    y = np.sin(5.0 * X[:, 0]) + X[:, 1]
    X[:, 2] *= size
    model = IntersectionGPRegressor(Intersection(feature_weights="ard"), random_state=0).fit(
        container(X), y
    )
    assert np.all((model.feature_weights_ >= 1e-6) & (model.feature_weights_ <= 1e6 * (1 + 1e-9)))
    assert model.score(container(X), y) > 0.9


def test_columns_of_very_different_units_are_weighted(rng):
    """Weights are at least a part of where they start, not of the largest of all."""
    units = np.resize([1e-300, 1.0, 1e290], 30)
    X, y = few_of_many(300, 30)
    one = IntersectionGPRegressor(Intersection(feature_weights="relevance"), random_state=0).fit(
        X, y
    )
    model = IntersectionGPRegressor(Intersection(feature_weights="relevance"), random_state=0).fit(
        X * units, y
    )
    np.testing.assert_allclose(model.feature_weights_ * units, one.feature_weights_, rtol=1e-6)


class _Scripted:
    """A path whose predictions are given step by step."""

    def __init__(self, errors):
        self.errors, self.n_steps = errors, 0

    def step(self):
        self.n_steps += 1

    def predicted(self, rows):
        return np.sqrt(self.errors[self.n_steps][rows])[:, None]


def _chosen(*errors):
    """The number of steps of a path, of squared errors after each, and how many were tried."""
    errors = np.array([np.broadcast_to(e, 60) for e in errors], dtype=float)
    errors = np.vstack([errors, np.repeat(errors[-1:], 20, axis=0)])
    paths = [(_Scripted(errors), slice(k, k + 20), np.zeros((20, 1))) for k in (0, 20, 40)]
    n_steps = _best_number_of_steps(paths, _squares)
    tried = {path.n_steps for path, _, _ in paths}
    assert len(tried) == 1
    return n_steps, tried.pop()


def test_steps_are_those_of_least_error_where_that_is_clear():
    # The third is best, and four more are tried behind it.
    assert _chosen(1.0, 0.95, 0.9, 0.8, 0.85) == (3, 7)
    # A plateau does not end the search before its time.
    assert _chosen(1.0, 1.1, 1.1, 1.1, 0.5, 0.6) == (4, 8)
    assert _chosen(1.0, 1.1, 1.1, 1.1, 1.1, 0.5) == (0, 4)
    # At most twelve.
    assert _chosen(*np.linspace(1.0, 0.1, 20)) == (12, 12)
    # Less than five parts in a hundred are none.
    assert _chosen(1.0, 0.96) == (0, 5)
    assert _chosen(1.0, 0.94) == (1, 5)
    # Nor is a gain that two rows have and others pay for.
    few = np.ones(60)
    few[:2] = 10.0
    assert _chosen(few, np.where(few > 1.0, 0.0, 1.1)) == (0, 5)
    # Nothing better than the start.
    assert _chosen(1.0, 2.0) == (0, 4)
