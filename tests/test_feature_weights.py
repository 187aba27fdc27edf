"""Weights of features by evidence: columns count by their spread unless they clearly should not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    LikelihoodSearch,
)
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._learning.feature_weights import _CLEAR, _log_evidence
from histrs.gaussian_process.kernels import Intersection
from tests.helpers import build, of_terms
from tests.oracles import hyperparameters as oracle


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


@pytest.mark.parametrize("intercept", ["auto", 0.0, 70.0])
@pytest.mark.parametrize("shared", [False, True])
def test_gain_is_of_the_intercept_that_is_given(rng, intercept, shared):
    X, Y = 5.0 * rng.random((30, 3)), rng.normal(size=(30, 2))
    model = IntersectionGPRegressor(
        Intersection(intercept_variance=intercept), optimizer=None, random_state=0
    )
    likelihood = model.fit(X, Y)._likelihood_of_fit(vars(model))
    weights, T = np.array([0.1, 2.0, 1.0]), (Y - Y.mean(axis=0)) / Y.std(axis=0)
    found = [
        _log_evidence(likelihood, GeneralizedKernel(weights=w), intercept, shared=shared)
        for w in (None, weights)
    ]
    expected = [log_evidence(X * w, T, shared=shared, intercept=intercept) for w in (1.0, weights)]
    np.testing.assert_allclose(found[0] - found[1], expected[0] - expected[1], rtol=1e-6)


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
    "fixed",
    [{"optimizer": None}, {"noise_bounds": "fixed"}, {"amplitude_bounds": "fixed"}],
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


@pytest.mark.parametrize("make", [counts, units])
def test_distributed_rows_tell_the_same(rng, make):
    array = pytest.importorskip("dask.array", reason="needs dask: histrs[dask]")
    X, y = make(rng, 200)
    model = IntersectionGPRegressor(random_state=0).fit(array.from_array(X, chunks=(70, 2)), y)
    expected = IntersectionGPRegressor(random_state=0).fit(X, y)
    np.testing.assert_allclose(model.feature_weights_, expected.feature_weights_, rtol=1e-12)


@pytest.mark.parametrize("smoothness", ["cubic", "both"])
def test_smooth_functions_have_the_weights_of_the_others(rng, smoothness):
    for make, unweighted in ((counts, True), (units, False)):
        X, y = make(rng, 60)
        X, y = X[:, :4], y
        linear = IntersectionGPRegressor(random_state=0).fit(X, y)
        model = IntersectionGPRegressor(**of_terms(smoothness=smoothness), random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.feature_weights_, linear.feature_weights_)
        assert unweighted or not is_unweighted(model)
