"""Weights of features: by evidence, and by how well rows left out are predicted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    LikelihoodSearch,
)
from histrs.gaussian_process._learning import feature_weights as _relevance
from histrs.gaussian_process._learning.feature_weights import (
    _CLEAR,
    _best_number_of_steps,
    _Path,
    _squares,
)
from histrs.gaussian_process.kernels import Intersection
from tests.helpers import build, of_terms
from tests.oracles import hyperparameters as oracle
from tests.oracles import intersection


def counts(rng, n=300, d=40):
    """Return counts of frequent and of rare words, of which the frequent ones tell the target."""
    X = rng.poisson(np.geomspace(30.0, 0.02, d), (n, d)).astype(float)
    y = np.sqrt(X[:, :6]).sum(axis=1) + 0.3 * rng.normal(size=n)
    return X, y


def units(rng, n=300):
    """Return columns of different units that tell equally much."""
    X = rng.random((n, 4))
    y = np.sin(5 * X).sum(axis=1) + 0.1 * rng.normal(size=n)
    return X * [1e-6, 1.0, 30.0, 1e9], y


def is_unweighted(model):
    return np.all(model.feature_weights_ == 1.0)


@pytest.mark.parametrize("model_class", [IntersectionGPRegressor, IntersectionGPClassifier])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_counts_are_left_as_they_are(rng, model_class, container):
    X, y = counts(rng)
    if model_class is IntersectionGPClassifier:
        y = y > np.median(y)
    chosen = model_class(random_state=0).fit(container(X), y)
    given = build(model_class, feature_weights=None).fit(container(X), y)
    assert is_unweighted(chosen)
    np.testing.assert_array_equal(
        chosen.latent_mean_and_variance(container(X))[0],
        given.latent_mean_and_variance(container(X))[0],
    )


@pytest.mark.parametrize("model_class", [IntersectionGPRegressor, IntersectionGPClassifier])
def test_units_are_divided_out(rng, model_class):
    X, y = units(rng)
    if model_class is IntersectionGPClassifier:
        y = y > np.median(y)
    chosen, given = (
        model_class(random_state=0).fit(X, y),
        build(model_class, feature_weights="scale").fit(X, y),
    )
    np.testing.assert_array_equal(chosen.feature_weights_, given.feature_weights_)
    np.testing.assert_array_equal(
        chosen.latent_mean_and_variance(X)[0], given.latent_mean_and_variance(X)[0]
    )


def log_evidence(X, Y, *, shared, intercept="auto"):
    """Return the likelihood of eq. 4, a constant less, at the best of a grid of noises."""
    K = oracle.generalized_kernel(X)
    K = K + (3.0 * np.mean(np.diag(K)) if intercept == "auto" else intercept)
    n = len(X)
    groups = [Y] if shared else [Y[:, [k]] for k in range(Y.shape[1])]
    best = np.full(len(groups), -np.inf)
    for ratio in np.logspace(-6, 3, 60) * np.mean(np.diag(K)):
        A = K + ratio * np.eye(n)
        log_det = np.linalg.slogdet(A)[1]
        for k, group in enumerate(groups):
            width = group.shape[1]
            amplitude = np.sum(group * np.linalg.solve(A, group)) / (n * width)
            value = -0.5 * width * (n * np.log(amplitude) + log_det)
            best[k] = max(best[k], value)
    return best.sum()


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(2, 40),
    d=st.integers(1, 6),
    n_outputs=st.integers(1, 3),
    shared=st.booleans(),
    decades=st.floats(0.0, 3.0),
    seed=st.integers(0, 1000),
)
def test_choice_is_that_of_the_dense_evidence(n, d, n_outputs, shared, decades, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) * 10.0 ** rng.uniform(-decades, decades, d)
    Y = X[:, [0]] / X[:, 0].max() + 0.1 * rng.normal(size=(n, n_outputs))
    model = IntersectionGPRegressor(random_state=0, optimizer=LikelihoodSearch(shared=shared)).fit(
        X, Y
    )
    scaled = IntersectionGPRegressor(
        Intersection(feature_weights="scale"), optimizer=None, random_state=0
    ).fit(X, Y)
    T = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    one = shared or n_outputs == 1
    gain = log_evidence(X, T, shared=one)
    gain -= log_evidence(X * scaled.feature_weights_, T, shared=one)
    if abs(gain - _CLEAR) > 1e-3:
        assert is_unweighted(model) == (gain > _CLEAR)
        if gain < _CLEAR:
            np.testing.assert_array_equal(model.feature_weights_, scaled.feature_weights_)


def test_targets_that_share_their_noise_tell_less_of_one_that_has_less():
    rng = np.random.default_rng(34)
    X = rng.poisson(np.geomspace(30.0, 0.05, 12), (60, 12)).astype(float)
    y = np.sqrt(X[:, :3]).sum(axis=1)
    Y = np.column_stack([y + 0.1 * y.std() * rng.normal(size=60), rng.normal(size=60)])
    T = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    scaled = IntersectionGPRegressor(
        Intersection(feature_weights="scale"), optimizer=None, random_state=0
    )
    W = X * scaled.fit(X, Y).feature_weights_
    for shared in (False, True):
        gain = log_evidence(X, T, shared=shared) - log_evidence(W, T, shared=shared)
        assert (gain > _CLEAR + 1.0) if not shared else (gain < _CLEAR - 1.0)
        model = IntersectionGPRegressor(
            random_state=0, optimizer=LikelihoodSearch(shared=shared)
        ).fit(X, Y)
        assert is_unweighted(model) == (not shared)


@pytest.mark.parametrize("exponent", [0, 12])
def test_noise_is_relative_to_the_unit_of_all_columns(rng, exponent):
    X = rng.poisson(np.geomspace(30.0, 0.02, 40), (200, 40)).astype(float)
    y = np.sqrt(X[:, :6]).sum(axis=1) + rng.normal(size=200)
    assert is_unweighted(IntersectionGPRegressor(random_state=0).fit(np.ldexp(X, exponent), y))


@pytest.mark.parametrize("exponent", [-900, -40, 0, 3, 40, 500])
def test_the_unit_of_all_columns_does_not_matter(rng, exponent):
    X, y = counts(rng, 100)
    unit = 2.0**exponent
    model = IntersectionGPRegressor(random_state=0).fit(X * unit, y)
    (weight,) = np.unique(model.feature_weights_)
    # As they are, or all by one power of two.
    assert weight == 1.0 if abs(exponent) < 10 else np.frexp(weight)[0] == 0.5
    expected = IntersectionGPRegressor(random_state=0).fit(X, y).predict(X)
    np.testing.assert_allclose(model.predict(X * unit), expected, atol=1e-4 * np.ptp(y))


@pytest.mark.parametrize(
    "fixed", [{"optimizer": None}, {"noise_bounds": "fixed"}, {"amplitude_bounds": "fixed"}]
)
def test_given_noise_and_amplitude_are_of_columns_by_their_spread(rng, fixed):
    X, y = counts(rng)
    model = build(IntersectionGPRegressor, **fixed).fit(X, y)
    given = build(IntersectionGPRegressor, feature_weights="scale", **fixed).fit(X, y)
    np.testing.assert_array_equal(model.feature_weights_, given.feature_weights_)


def test_noise_does_not_tell(rng):
    X = rng.poisson(np.geomspace(30.0, 0.02, 40), (200, 40)).astype(float)
    assert not is_unweighted(IntersectionGPRegressor(random_state=0).fit(X, rng.normal(size=200)))
    with pytest.warns(UserWarning, match="constant"):
        assert not is_unweighted(IntersectionGPRegressor(random_state=0).fit(X, np.zeros(200)))


# The search for the noise of a target of one value ends at a bound, and says so.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_targets_of_one_value_have_no_say(rng):
    X, y = counts(rng)
    for shared in (False, True):
        model = IntersectionGPRegressor(random_state=0, optimizer=LikelihoodSearch(shared=shared))
        assert is_unweighted(model.fit(X, np.column_stack([np.ones(300), y])))


def test_numbers_that_overflow_are_weighted(rng):
    X, y = counts(rng)
    model = IntersectionGPRegressor(random_state=0).fit(np.ldexp(X, 1015), y)
    assert not is_unweighted(model)
    assert np.all(np.isfinite(model.predict(X)))


@pytest.mark.parametrize("exponent", [-990, -1010, -1074])
def test_numbers_that_nearly_vanish(rng, exponent):
    X = np.ldexp(1.0 + np.arange(12.0)[:, None], exponent)
    model = IntersectionGPRegressor(random_state=0).fit(X, np.arange(12.0) ** 2)
    assert np.all(np.isfinite(model.predict(X)))


def test_some_of_many_rows_tell(rng):
    X, y = counts(rng, 1500)
    # The others, which are no rows of the choice, have no say.
    order = np.random.default_rng(
        IntersectionGPRegressor(random_state=0).fit(X, y)._seed
    ).permutation(1500)
    X[order[512:]], y[order[512:]] = rng.random((988, 40)), rng.normal(size=988)
    y -= y.mean()
    assert is_unweighted(IntersectionGPRegressor(random_state=0).fit(X, y))


def test_rows_of_hardly_any_weight_do_not_tell(rng):
    X, y = counts(rng)
    others, noise = rng.random((200, 40)) * np.geomspace(1e4, 1.0, 40), rng.normal(size=200)
    weights = np.repeat([1.0, 1e-6], [300, 200])
    model = IntersectionGPRegressor(random_state=0)
    model.fit(np.vstack([X, others]), np.append(y, 100 * noise), weights)
    assert is_unweighted(model)


def test_rows_that_come_and_go_leave_the_weights(rng):
    X, y = counts(rng)
    model = IntersectionGPRegressor(random_state=0).fit(X, y)
    model.partial_fit(np.ones((5, 40)), np.zeros(5)).forget([0, 1])
    assert is_unweighted(model)


@pytest.mark.parametrize("smoothness", ["cubic", "both"])
def test_smooth_functions_have_the_weights_of_the_others(rng, smoothness):
    for make, unweighted in ((counts, True), (units, False)):
        X, y = make(rng, 60)
        X, y = X[:, :4], y
        linear = IntersectionGPRegressor(random_state=0).fit(X, y)
        model = IntersectionGPRegressor(**of_terms(smoothness=smoothness), random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.feature_weights_, linear.feature_weights_)
        assert unweighted or not is_unweighted(model)


# ---- weights by rows left out --------------------------------------------------------------------


def few_of_many(n, d, seed=0):
    """Targets of eight features."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, 3.0 * np.abs(X[:, :8] - 0.2) @ np.resize([1.0, -1.0], 8) + 0.2 * rng.normal(size=n)


def steps_by_definition(X, Y, start, intercept, draws, others):
    """Weights after each step of Fisher's scoring with given draws, and predictions there."""
    n, n_outputs = Y.shape
    groups = np.unique(np.frexp(np.count_nonzero(X, axis=0))[1], return_inverse=True)[1]
    own, shared, weights = np.zeros(X.shape[1]), np.zeros(groups.max() + 1), start

    def fit():
        K = intersection.intersection_kernel(X * weights)
        constant = 3.0 * np.trace(K) / n if intercept is None else intercept
        K = K + constant

        def log_likelihood(s):
            A = K + s * np.eye(n)
            misfit = np.trace(Y.T @ np.linalg.solve(A, Y))
            return -0.5 * n_outputs * (n * np.log(misfit) + np.linalg.slogdet(A)[1])

        ratios = np.linalg.eigvalsh(K)[-1] * np.logspace(-8, 1, 60)
        A = K + max(ratios, key=log_likelihood) * np.eye(n)
        alpha = np.linalg.solve(A, Y)
        cross = intersection.intersection_kernel(others * weights, X * weights)
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
        parts = [intersection.intersection_kernel(column[:, None]) for column in (X * weights).T]
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


def test_of_many_rows_some_tell_what_is_relevant(monkeypatch):
    X, y = few_of_many(300, 30)
    model = IntersectionGPRegressor(Intersection(feature_weights="relevance"), random_state=0)
    of_all = model.fit(X, y).feature_weights_
    monkeypatch.setattr(_relevance, "_MAX_ROWS", 150)
    of_some = model.fit(X, y).feature_weights_
    assert not np.array_equal(of_some, of_all)
    for weights in (of_all, of_some):
        assert weights[:8].mean() > 3.0 * weights[8:].mean()
    np.testing.assert_array_equal(model.fit(X, y).feature_weights_, of_some)
