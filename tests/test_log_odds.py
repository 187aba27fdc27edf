"""Classes of TabularGPClassifier by functions on levels: log odds, against dense definitions."""

import pickle

import numpy as np
import pytest
from scipy import optimize
from scipy.special import expit, log_expit

from histrs.gaussian_process import TabularGPClassifier
from histrs.gaussian_process._tabular.log_odds import LogOdds

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


def test_weights_are_repeats_of_rows():
    X, y = rows(200)
    w = np.random.default_rng(1).integers(1, 4, 200)
    model = TabularGPClassifier(members=["levels"], random_state=0)
    weighted = model.fit(X, y, sample_weight=w).predict_proba(X)
    repeated = model.fit(np.repeat(X, w, axis=0), np.repeat(y, w)).predict_proba(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)


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
