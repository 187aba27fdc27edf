"""What every Gaussian process keeps: weights of rows, weights of targets, and a posterior."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    _classifier,
)
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.pairs import PairKernel
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._likelihoods import classes
from histrs.gaussian_process._likelihoods.classes import FittedClasses
from histrs.gaussian_process._process import GaussianProcess
from histrs.gaussian_process.kernels import Interactions, Intersection
from tests.helpers import of_terms
from tests.oracles.intersection import intersection_kernel

each = pytest.mark.parametrize
FIXED = {
    "optimizer": None,
    "feature_weights": None,
    "intercept_variance": 0.0,
    "solver": "cholesky",
    "noise": 0.3,
    "amplitude": 2.0,
    "random_state": 0,
}


@pytest.fixture(name="X")
def rows(rng):
    return rng.random((30, 3))


@pytest.fixture
def y(rng):
    return 5.0 * rng.normal(size=30)


def again(model):
    return pickle.loads(pickle.dumps(model))


# ---- weights of rows ---------------------------------------------------------------------------


@each("unpickled", [False, True])
@each(
    ("first", "further", "kept"),
    [
        (None, None, None),
        (None, 1.0, None),
        (None, 2.0, [1.0, 2.0]),
        (3.0, None, [3.0, 1.0]),
        (3.0, 6.0, [3.0, 6.0]),
        (3.0, 3.0, [3.0, 3.0]),
    ],
)
def test_weights_of_further_rows_are_beside_those_of_the_first(
    X, y, unpickled, first, further, kept
):
    def of(weight, n):
        return None if weight is None else np.full(n, weight)

    model = IntersectionGPRegressor(**of_terms(**FIXED)).fit(X[:20], y[:20], of(first, 20))
    model = again(model) if unpickled else model
    model.partial_fit(X[20:], y[20:], sample_weight=of(further, 10))
    if kept is None:
        assert model.sample_weight_fit_ is None
        kept = [1.0, 1.0]
    else:
        np.testing.assert_allclose(model.sample_weight_fit_, np.repeat(kept, [20, 10]))
    w = np.repeat(kept, [20, 10])
    K = 2.0 * intersection_kernel(X) + 0.3 * np.diag(1.0 / w)
    Y = (y - model.y_mean_) / model.y_std_
    expected = np.linalg.solve(K, Y) * model.y_std_
    np.testing.assert_allclose(model.dual_coef_[:, 0], expected, rtol=1e-8)


@each("unpickled", [False, True])
@each("weighted", [False, True])
def test_rows_that_go_take_their_weights_along(rng, X, y, unpickled, weighted):
    weights = rng.uniform(0.5, 2.0, 30)
    model = IntersectionGPRegressor(**of_terms(**FIXED)).fit(X, y, weights if weighted else None)
    model = again(model) if unpickled else model
    model.forget([0, 7])
    kept = np.delete(np.arange(30), [0, 7])
    if not weighted:
        assert model.sample_weight_fit_ is None
    else:
        np.testing.assert_allclose(model.sample_weight_fit_, weights[kept])
    w = weights[kept] if weighted else np.ones(28)
    K = 2.0 * intersection_kernel(X[kept]) + 0.3 * np.diag(1.0 / w)
    Y = (y[kept] - model.y_mean_) / model.y_std_
    expected = np.linalg.solve(K, Y) * model.y_std_
    np.testing.assert_allclose(model.dual_coef_[:, 0], expected, rtol=1e-8)


def test_rows_of_no_weight_are_left_out(X, y):
    weights = np.repeat([1.0, 0.0], [20, 10])
    model = IntersectionGPRegressor(**of_terms(**FIXED)).fit(X, y, weights)
    np.testing.assert_array_equal(model.X_fit_, X[:20])
    expected = IntersectionGPRegressor(**of_terms(**FIXED)).fit(X[:20], y[:20])
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


# ---- weights of targets ------------------------------------------------------------------------


@each(
    ("weights", "unit", "amplitude", "fails"),
    [
        (1.0, 1.0, 1.0, False),
        # What users see, and what predicts.
        (1e200, 1.0, 1e-200, True),
        (1e200, 1e200, 1.0, True),
        (1e200, 1e200, 1e200, True),
        (1e200, 1e-200, 1.0, False),
        (1e200, 1.0, 1.0, False),
    ],
)
def test_weights_that_overflow_are_refused(weights, unit, amplitude, fails):
    process = GaussianProcess()
    process._units = lambda: np.array([unit])
    arguments = np.array([[weights]]), np.array([amplitude])
    if fails:
        with pytest.raises(ValueError, match="The weights overflow"):
            process._keep_weights(*arguments)
    else:
        process._keep_weights(*arguments)
        np.testing.assert_allclose(process.dual_coef_, weights * unit / amplitude)
        np.testing.assert_array_equal(process._standard_weights, weights)


# ---- the posterior -----------------------------------------------------------------------------


def test_a_copy_from_disk_is_the_model(X, y):
    model = IntersectionGPRegressor(**of_terms(**FIXED)).fit(X, y)
    state = model.__getstate__()
    assert "_posterior" not in state
    assert "dual_coef_" not in state
    copy = again(model)
    np.testing.assert_array_equal(copy.dual_coef_, model.dual_coef_)
    assert "_posterior" not in vars(copy)
    np.testing.assert_allclose(copy.predict(X), model.predict(X), rtol=1e-10)
    # It is made once.
    posterior = copy._state()["_posterior"]
    assert copy._state()["_posterior"] is posterior
    unfitted = again(IntersectionGPRegressor(noise=0.7))
    assert unfitted.noise == 0.7
    assert not hasattr(unfitted, "dual_coef_")


def test_what_is_not_fitted_has_no_state(X):
    for model in (IntersectionGPRegressor(), IntersectionGPClassifier()):
        assert not model.__sklearn_is_fitted__()
        with pytest.raises(NotFittedError):
            model._state()
        with pytest.raises(NotFittedError):
            model.predict(X)


def test_predictions_have_the_noise_that_functions_have_not(X, y):
    model = IntersectionGPRegressor(**of_terms(**FIXED)).fit(X, y)
    _, variance = model.latent_mean_and_variance(X)
    _, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(std**2, variance + 0.3 * model.y_std_**2)


# ---- classes -----------------------------------------------------------------------------------


@each("n_classes", [2, 3])
def test_probabilities_without_calibration_are_those_of_target_vectors(rng, X, n_classes):
    t = rng.permutation(np.arange(30) % n_classes)
    model = IntersectionGPClassifier(
        **of_terms(calibration=None, likelihood="gaussian", **FIXED)
    ).fit(X, t)
    others = rng.random((9, 3))
    mean, variance = model.latent_mean_and_variance(others)
    labels, std = model.predict(others, return_std=True)
    np.testing.assert_allclose(std**2, variance + 0.3)
    np.testing.assert_array_equal(labels, model.predict(others))
    np.testing.assert_array_equal(model.decision_function(others), mean)
    assert mean.shape == ((9,) if n_classes == 2 else (9, 3))
    assert std.shape == (9,)
    # Each vector of targets with a single +1, under normal distributions of its entries.
    density = np.empty((9, n_classes))
    for c in range(n_classes):
        targets = np.where(np.arange(n_classes) == c, 1.0, -1.0) if n_classes > 2 else 2.0 * c - 1.0
        off = np.reshape(mean, (9, -1)) - targets
        density[:, c] = np.exp(-0.5 * np.sum(off**2, axis=1) / std**2)
    expected = density / density.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(others), expected)


@each("n_rows", [9, 10, 11])
@each("has_pairs", [False, True])
@each("given", [None, [(0, 1)]])
def test_pairs_that_rows_chose_are_chosen_again_without_them(
    monkeypatch, rng, n_rows, has_pairs, given
):
    monkeypatch.setattr(_classifier, "MOST_ROWS", 10)
    monkeypatch.setattr(
        *(_classifier, "scores_without_pairs_of"),
        lambda problem, asked, posterior: ("without pairs", problem.Y),
    )
    monkeypatch.setattr(classes, "leave_one_out", lambda posterior, Y, *_: [("left out", Y)])
    model = IntersectionGPClassifier(Intersection() + Interactions(20 if given is None else given))
    model.likelihood_ = "gaussian"
    X, Y = rng.random((n_rows, 2)), rng.normal(size=(n_rows, 1))
    pairs = PairKernel.of(X, [(0, 1)], 3) if has_pairs else None
    bound = MinimaBound(X=X, n_threads=1, kernel=GeneralizedKernel(pairs=pairs))
    posterior = SimpleNamespace(bound=bound, system=SimpleNamespace(kernel=bound.kernel))
    level = np.array([0.25])
    fit = FittedClasses(posterior, Y, level, None, None, None)
    how, targets = model._scores_left_out(fit)
    chosen = has_pairs and given is None and n_rows <= 10
    assert how == ("without pairs" if chosen else "left out")
    np.testing.assert_array_equal(targets, Y - 0.25)
