"""Probabilities of linear classifiers: they agree with predictions, and are good ones."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import log_loss

from histrs.prototypes import RandomSubset
from histrs.streaming import Moments, PCARidgeClassifier
from histrs.streaming._classes import SignedTargets
from histrs.svm import IntersectionSVC


def noisy(rng, n, n_classes):
    """Rows of classes that overlap, and what their probabilities are."""
    X = rng.standard_normal((n, 6))
    logits = 1.5 * X[:, :n_classes]
    P = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = np.array([rng.choice(n_classes, p=p) for p in P])
    return X, np.array(["b", "a", "c", "d"])[y]


def positive(rng, n, n_classes):
    X, y = noisy(rng, n, n_classes)
    return np.exp(0.5 * X), y


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("calibrate", [None, "softmax", "equal-rate", "SVM"])
def test_probabilities_agree_with_predictions_and_are_calibrated(rng, n_classes, calibrate):
    X, y = (positive if calibrate == "SVM" else noisy)(rng, 900, n_classes)
    if calibrate == "SVM":
        model = IntersectionSVC(probability=True, random_state=0)
    else:
        model = PCARidgeClassifier(calibrate=calibrate)
    P = model.fit(X[:500], y[:500]).predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))
    loss = log_loss(y[500:], P[500:])
    assert loss < 0.9 * np.log(n_classes)
    # Scores of twice or half the inverse temperature would be worse.
    for factor in (0.5, 2.0):
        other = P[500:] ** factor
        assert loss < log_loss(y[500:], other / other.sum(axis=1, keepdims=True))
    if calibrate == "softmax":
        np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, _columns(model, X))
    if calibrate == "SVM":
        plain = IntersectionSVC(random_state=0).fit(X[:500], y[:500])
        np.testing.assert_array_equal(model.coef_, plain.coef_)


def _columns(model, X):
    scores = model.decision_function(X)
    return scores[:, None] if scores.ndim == 1 else scores


def test_scores_beyond_single_precision_have_probabilities(rng):
    X, y = noisy(rng, 200, 3)
    model = PCARidgeClassifier().fit(1e-3 * X, y)
    far = np.full((1, 6), 3e38, dtype=np.float32) * np.sign(model.coef_[1]).astype(np.float32)
    P = model.predict_proba(far)
    assert P.dtype == np.float32
    np.testing.assert_allclose(P.sum(axis=1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("calibrate", [None, "softmax"])
def test_every_so_many_rows_of_a_large_set_are_read(rng, monkeypatch, calibrate):
    X, y = noisy(rng, 900, 3)
    model = PCARidgeClassifier(calibrate=calibrate)
    whole = clone(model).fit(X, y).predict_proba(X)
    for name in ("TEMPERATURE_ROWS", "SOFTMAX_ROWS"):
        monkeypatch.setattr(f"histrs.streaming._ridge_classifier.{name}", 300)
    chunks = [(X[i : i + 70], y[i : i + 70]) for i in range(0, 900, 70)]
    some = clone(model).fit_rows(chunks, classes=np.unique(y))
    P = some.predict_proba(X)
    assert 0 < np.abs(P - whole).max() < 0.15
    np.testing.assert_allclose(P, clone(model).fit(X, y).predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("calibrate", [None, "softmax"])
def test_probabilities_of_rows_of_large_weights_are_learned_from_many_of_them(rng, calibrate):
    X, y = noisy(rng, 600, 3)
    model = PCARidgeClassifier(alphas=[0.1], calibrate=calibrate)
    unit = clone(model).fit(X, y).predict_proba(X)
    heavy = clone(model).set_params(alphas=[1e5]).fit(X, y, np.full(600, 1e6)).predict_proba(X)
    np.testing.assert_allclose(heavy, unit, atol=0.05)


@pytest.mark.parametrize("scale", [1e-3, 1e-200])
@pytest.mark.parametrize("calibrate", [None, "softmax"])
def test_the_unit_of_small_weights_does_not_matter_to_probabilities(rng, calibrate, scale):
    X, y = noisy(rng, 300, 3)
    weights = rng.random(300)
    one, other = (
        PCARidgeClassifier(calibrate=calibrate).fit(X, y, unit * weights).predict_proba(X)
        for unit in (1.0, scale)
    )
    np.testing.assert_allclose(other, one, atol=1e-4)


def test_the_unit_of_small_weights_does_not_matter_to_prototypes(rng):
    X, y = positive(rng, 200, 2)
    weights = rng.random(200)
    one, other = (
        RandomSubset(0.1, random_state=0).fit(X, y, unit * weights).inverse_temperature_
        for unit in (1.0, 1e-3)
    )
    assert other == pytest.approx(one, rel=1e-4)


def test_rows_without_weight_are_not_those_that_are_read(rng, monkeypatch):
    X, y = noisy(rng, 600, 3)
    monkeypatch.setattr("histrs.streaming._ridge_classifier.TEMPERATURE_ROWS", 150)
    weights = np.tile([0.0, 1.0], 300)
    source = [(X, y, weights)]
    found = PCARidgeClassifier().fit_rows(source, classes=np.unique(y)).inverse_temperature_
    expected = PCARidgeClassifier().fit(X[1::2], y[1::2]).inverse_temperature_
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_moments_alone_have_no_probabilities(rng):
    X, y = noisy(rng, 200, 3)
    model = PCARidgeClassifier().fit(X, y)
    assert hasattr(model, "predict_proba")
    model.fit_rows(iter([(X, y)]), classes=np.unique(y))
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError):
        model.predict_proba(X)
    moments = Moments.of(X, SignedTargets(np.unique(y))(y))
    with pytest.raises(ValueError, match="needs the rows and their classes"):
        PCARidgeClassifier(calibrate="softmax").fit_moments(moments, np.unique(y))
    with pytest.raises(ValueError, match="more than one pass"):
        PCARidgeClassifier(calibrate="softmax").fit_rows(iter([(X, y)]), classes=np.unique(y))
