"""Queries against their equations, and the loop around them."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge

from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    MinMaxGPClassifier,
    MinMaxGPRegressor,
    active_learning,
)
from histrs.gaussian_process.kernels import Intersection
from histrs.streaming import Moments
from histrs.testing import histograms
from tests.helpers import build_plain
from tests.oracles import intersection as oracle

FIXED = build_plain(IntersectionGPClassifier)
STRATEGIES = ["variance-reduction", "mean", "variance", "uncertainty", "random"]
each_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def fitted(rng, n_classes=2, n_rows=30):
    X = rng.random((n_rows, 5))
    y = np.arange(n_rows) % n_classes
    return build_plain(IntersectionGPClassifier, tol=1e-8).fit(X, y), X, y


def scores_by_definition(X, y, pool, strategy, noise=0.1):
    """Eqs. 33 to 35 from the posterior of a dense factorisation; large is wanted."""
    K = oracle.intersection_kernel(X) + noise * np.eye(len(X))
    k = oracle.intersection_kernel(X, pool)
    _, targets = oracle.one_vs_all_targets(y)
    mean = k.T @ np.linalg.solve(K, targets)
    ordered = np.sort(mean, axis=1)
    margin = (ordered[:, -1] - ordered[:, -2]) / 2
    variance = pool.sum(axis=1) - np.sum(k * np.linalg.solve(K, k), axis=0) + noise
    return {"mean": -margin, "variance": variance, "uncertainty": -margin / np.sqrt(variance)}[
        strategy
    ]


@pytest.mark.parametrize("strategy", ["mean", "variance", "uncertainty"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_chooses_the_best_by_definition(rng, strategy, n_classes):
    model, X, y = fitted(rng, n_classes)
    pool = 2 * rng.random((40, 5))
    wanted = scores_by_definition(X, y, pool, strategy)
    chosen = active_learning.query(model, pool, strategy, 7)
    np.testing.assert_array_equal(chosen, np.argsort(-wanted)[:7])


def reduction(X, pool, chosen, row, noise=0.1):
    """By how much a label of a row lowers the variance of every row of the pool (eq. 3)."""

    def variances(known):
        K = oracle.intersection_kernel(known) + noise * np.eye(len(known))
        k = oracle.intersection_kernel(known, pool)
        return pool.sum(axis=1) - np.sum(k * np.linalg.solve(K, k), axis=0)

    known = np.vstack([X, pool[chosen]])
    return variances(known) - variances(np.vstack([known, pool[[row]]]))


def greedily(X, pool, unsure, n, noise=0.1):
    """The rows whose labels lower variances most, one after the other."""
    wanted = []
    for _ in range(n):
        gains = [
            -np.inf if row in wanted else unsure @ reduction(X, pool, wanted, row, noise)
            for row in range(len(pool))
        ]
        wanted.append(int(np.argmax(gains)))
    return wanted


@pytest.mark.parametrize("n_classes", [0, 2, 4])
def test_variances_are_reduced_most_by_definition(rng, n_classes):
    model, X, y = fitted(rng, max(n_classes, 2))
    pool = 2 * rng.random((25, 5))
    if n_classes == 0:
        model, unsure = (build_plain(IntersectionGPRegressor).fit(X, X[:, 0] + y), np.ones(25))
    else:
        unsure = 1.0 - np.sum(model.predict_proba(pool) ** 2, axis=1)
    chosen = active_learning.query(model, pool, n_instances=6, random_state=0)
    np.testing.assert_array_equal(chosen, greedily(X, pool, unsure, 6))


def test_random_rows_are_any(rng):
    model, _, _ = fitted(rng)
    pool = rng.random((20, 5))
    drawn = [active_learning.query(model, pool, "random", 5, random_state=s) for s in range(40)]
    counts = np.bincount(np.concatenate(drawn), minlength=20)
    assert np.all((counts > 1) & (counts < 25))


def test_what_is_no_gaussian_process_is_named(rng):
    X = rng.random((10, 2))
    for model in (Ridge(), Moments(2)):
        message = f"model is a {type(model).__name__}, not a Gaussian process"
        with pytest.raises(TypeError, match=message):
            active_learning.query(model, X)
        with pytest.raises(TypeError, match=message):
            next(active_learning.learn(model, X, X[:, 0].take, labelled=[0, 1], n_rounds=1))


def test_a_batch_is_not_of_rows_that_are_alike(rng):
    X = np.repeat(rng.random((4, 5)), 10, axis=0)
    model = build_plain(IntersectionGPRegressor).fit(np.eye(5), np.arange(5.0))
    chosen = active_learning.query(model, X, n_instances=4, random_state=0)
    assert set(chosen // 10) == set(range(4))


def test_of_a_large_pool_some_rows_are_drawn(rng, monkeypatch):
    monkeypatch.setattr(active_learning, "_MOST_COVARIED", 10)
    model, _, _ = fitted(rng)
    pool = rng.random((60, 5))
    firsts = {active_learning.query(model, pool, random_state=seed)[0] for seed in range(10)}
    assert len(firsts) > 1
    assert len(set(active_learning.query(model, pool, n_instances=30, random_state=0))) == 30


@each_strategy
@given(pool=histograms((1, 12), 5), seed=st.integers(0, 9))
def test_chooses_rows_once(strategy, pool, seed):
    model, _, _ = fitted(np.random.default_rng(seed))
    chosen = active_learning.query(model, pool, strategy, len(pool), random_state=seed)
    assert sorted(chosen) == list(range(len(pool)))
    again = active_learning.query(model, pool, strategy, len(pool), random_state=seed)
    np.testing.assert_array_equal(chosen, again)


def test_ties_are_broken_at_random(rng):
    model, _, _ = fitted(rng)
    pool = np.ones((50, 5))
    firsts = {active_learning.query(model, pool, "mean", random_state=s)[0] for s in range(20)}
    assert len(firsts) > 5


@each_strategy
def test_bad_input_is_refused(rng, strategy):
    model, X, y = fitted(rng)
    query = active_learning.query
    with pytest.raises(ValueError, match="6 features"):
        query(model, np.ones((3, 6)), strategy)
    for n_instances in (0, 4):
        with pytest.raises(ValueError, match="a pool of 3 rows"):
            query(model, np.ones((3, 5)), strategy, n_instances)
    with pytest.raises(ValueError, match="'variances': choose one of"):
        query(model, np.ones((3, 5)), "variances")
    with pytest.raises(ValueError, match="'variances': choose one of"):
        active_learning.query_strategy("variances")
    new = build_plain(IntersectionGPClassifier)
    with pytest.raises(ValueError, match="not fitted"):
        query(new, np.ones((3, 5)), strategy)
    for labelled in ([0, 0], [0, 30], [-1, 2]):
        with pytest.raises(ValueError, match=r"rows of X, 0 to 29, each once\."):
            list(active_learning.learn(new, X, y.take, labelled=labelled, n_rounds=1))
    given = {"labelled": [0, 1], "n_rounds": 1, "strategy": "x"}
    with pytest.raises(ValueError, match="choose one of"):
        list(active_learning.learn(new, X, y.take, **given))


@pytest.mark.parametrize("n_targets", [(), (2,)])
def test_a_regression_is_asked_where_it_varies_most(rng, n_targets):
    X, pool = rng.random((30, 5)), 2 * rng.random((40, 5))
    y = rng.random((30, *n_targets))
    model = build_plain(IntersectionGPRegressor, tol=1e-8).fit(X, y)
    wanted = scores_by_definition(X, np.arange(30) % 2, pool, "variance")
    chosen = active_learning.query(model, pool, "variance", 7)
    np.testing.assert_array_equal(chosen, np.argsort(-wanted)[:7])
    assert len(set(active_learning.query(model, pool, "random", 7, random_state=0))) == 7
    for strategy in ("mean", "uncertainty"):
        with pytest.raises(ValueError, match="a regressor does not have: choose"):
            active_learning.query(model, pool, strategy)
        with pytest.raises(ValueError, match="a regressor does not have: choose"):
            next(
                active_learning.learn(model, X, y.take, labelled=[0], n_rounds=1, strategy=strategy)
            )


@each_strategy
@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: SimpleNamespace(estimator=m)])
def test_serves_modal(rng, strategy, wrap):
    model, _, _ = fitted(rng)
    pool = rng.random((9, 5))
    ask = active_learning.query_strategy(strategy, random_state=3)
    indices, rows = ask(wrap(model), pool, n_instances=2)
    np.testing.assert_array_equal(rows, pool[indices])
    expected = active_learning.query(
        model, pool, strategy, 2, random_state=np.random.RandomState(3)
    )
    np.testing.assert_array_equal(indices, expected)


# ---- the loop ----------------------------------------------------------------------------------


@each_strategy
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, sparse.coo_array])
def test_learns_from_the_labels_it_asked_for(rng, strategy, convert):
    _, X, y = fitted(rng, 3)
    asked = []

    def label(rows):
        asked.extend(rows)
        return y[rows]

    model = build_plain(IntersectionGPClassifier)
    rounds = list(
        active_learning.learn(
            model, convert(X), label, labelled=[0, 1, 2], n_rounds=4, n_instances=2,
            strategy=strategy, random_state=0,
        )
    )  # fmt: skip
    assert [len(r.labelled) for r in rounds] == [3, 5, 7, 9, 11]
    np.testing.assert_array_equal(rounds[-1].labelled, asked)
    assert len(set(asked)) == len(asked)
    assert not hasattr(model, "classes_")
    last = rounds[-1]
    expected = build_plain(IntersectionGPClassifier).fit(X[asked], y[asked]).decision_function(X)
    np.testing.assert_allclose(last.model.decision_function(X), expected)


def test_a_regression_learns_from_the_targets_it_asked_for(rng):
    X = rng.random((30, 5))
    y = rng.random((30, 2))
    model = build_plain(IntersectionGPRegressor)
    rounds = active_learning.learn(
        model, X, lambda rows: y[rows], labelled=[3, 4], n_rounds=3, strategy="variance"
    )
    *_, last = rounds
    assert len(set(last.labelled)) == 5
    expected = build_plain(IntersectionGPRegressor).fit(X[last.labelled], y[last.labelled])
    np.testing.assert_allclose(last.model.predict(X), expected.predict(X))


@pytest.mark.parametrize("optimizer", [None, "l-bfgs-b"])
def test_hyperparameters_are_learned_anew_unless_they_are_given(rng, monkeypatch, optimizer):
    """Rows are added to a model whose hyper-parameters stay; others are fitted to all rows."""
    X = rng.random((40, 3))
    y = (X[:, 0] > 0.5).astype(int)
    fits = []
    original = IntersectionGPClassifier.fit

    def counted(self, X, y):
        fits.append(len(y))
        return original(self, X, y)

    monkeypatch.setattr(IntersectionGPClassifier, "fit", counted)
    model = IntersectionGPClassifier(optimizer=optimizer, random_state=0)
    labelled = [int(np.argmin(y)), 30, 31, 32, 33, 34, 35, 36, int(np.argmax(y))]
    *_, last = active_learning.learn(
        model, X, y.take, labelled=labelled, n_rounds=2, n_instances=4, random_state=0
    )
    assert fits == ([9] if optimizer is None else [9, 13, 17])
    if optimizer is not None:
        alone = original(
            IntersectionGPClassifier(random_state=0), X[last.labelled], y[last.labelled]
        )
        assert last.model.noise_ == alone.noise_


def test_earlier_rounds_stay_as_they_were(rng):
    _, X, y = fitted(rng, 3)
    rounds = active_learning.learn(FIXED, X, y.take, labelled=[0, 1, 2], n_rounds=5)
    kept = [(r, r.model.decision_function(X)) for r in rounds]
    for r, scores in kept:
        np.testing.assert_array_equal(r.model.decision_function(X), scores)
        alone = build_plain(IntersectionGPClassifier).fit(X[r.labelled], y[r.labelled])
        np.testing.assert_allclose(alone.decision_function(X), scores)


def test_asking_beats_chance_on_digits():
    X, y = load_digits(return_X_y=True)
    train, test = np.arange(0, 900), np.arange(900, 1797)
    first = [int(np.flatnonzero(y[train] == c)[0]) for c in range(10)]

    def accuracy(strategy, seed):
        model = build_plain(IntersectionGPClassifier, noise=10.0)
        rounds = active_learning.learn(
            model, X[train], y.take, labelled=first, n_rounds=15, n_instances=5,
            strategy=strategy, random_state=seed,
        )  # fmt: skip
        *_, last = rounds
        return last.model.score(X[test], y[test])

    chance = np.mean([accuracy("random", seed) for seed in range(3)])
    assert accuracy("uncertainty", 0) > chance
    assert accuracy("variance-reduction", 0) > chance + 0.02


@pytest.mark.parametrize("kind", [MinMaxGPClassifier, MinMaxGPRegressor])
def test_dense_models_choose_rows_too(rng, kind):
    X = rng.random((40, 4))
    y = (X[:, 0] > X[:, 1]).astype(int)
    model = kind(optimizer=None).fit(X[:20], y[:20])
    chosen = active_learning.query(model, X[20:], n_instances=3)
    (C,) = model._state()["_posterior"].latent_covariance(X[20:])
    unsure = np.ones(20)
    if kind is MinMaxGPClassifier:
        unsure -= np.sum(model.predict_proba(X[20:]) ** 2, axis=1)
    gain = unsure @ C**2 / (np.diag(C) + model.noise_)
    assert chosen[0] == np.argmax(gain)
    assert len(np.unique(chosen)) == 3


@pytest.mark.parametrize("likelihood", ["bernoulli", "softmax"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_label_is_as_noisy_as_its_probability_says(rng, likelihood, n_classes):
    X, pool = rng.random((30, 5)), 2 * rng.random((20, 5))
    y = np.argmax(X[:, :n_classes], axis=1)
    model = IntersectionGPClassifier(
        20.0 * Intersection(), likelihood=likelihood, optimizer=None, random_state=0
    ).fit(X, y)
    f, _ = model.latent_mean_and_variance(pool)
    # Of two classes, the difference of two functions is one.
    p = softmax(f, axis=1) if model.likelihood_ == "softmax" else expit(f)
    assert np.ptp(p) > 0.3
    noise = model._noise_of_labels(model._state(), model._check_test(pool))
    np.testing.assert_allclose(noise.T.reshape(p.shape), 1.0 / (p * (1.0 - p)))
