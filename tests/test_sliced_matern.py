"""Classifiers with the Matérn kernel in a learned metric, and what is kept of its matrix."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics import log_loss

from histrs import _histrs
from histrs.gaussian_process import GPClassifier, SlicedGPClassifier, Solver, _memory
from histrs.gaussian_process._learning.leave_one_out import _means_without
from histrs.gaussian_process._sliced import classification_learning, fitting, matern
from histrs.gaussian_process._sliced.matern import LearnedMatern, of_length
from histrs.gaussian_process.kernels import Radial
from tests.helpers import assert_close
from tests.oracles.matern import matern_kernel

pytestmark = pytest.mark.simd_paths

GIVEN = {"noise": 0.05, "optimizer": None, "random_state": 0, "tol": 1e-4}
LENGTH = 1.3


@pytest.fixture(autouse=True)
def few_landmarks(monkeypatch):
    """So many columns as there are rows would leave nothing to iterate."""
    monkeypatch.setattr(Radial, "n_landmarks", lambda self, n: 8)


def process(**parameters):
    """The inner process, whose hyper-parameters are given."""
    return GPClassifier(0.8 * of_length(LENGTH), **{**GIVEN, **parameters})


def make(**parameters):
    return SlicedGPClassifier(**{"kernel": "matern", "random_state": 0, **parameters})


def blobs(rng, n, n_classes=3, d=4):
    y = rng.integers(n_classes, size=n)
    return rng.normal(size=(n, d)) + 1.5 * np.eye(n_classes, d)[y], y


def definition(X, Y, X_star, weights=None):
    """Return mean and latent variance by the matrix of all pairs."""
    weights = np.ones(len(X)) if weights is None else weights
    A = 0.8 * matern_kernel(X, X, LENGTH) + 0.05 * np.diag(1.0 / weights)
    k = 0.8 * matern_kernel(X, X_star, LENGTH)
    level = np.average(Y, axis=0, weights=weights)
    return level + k.T @ np.linalg.solve(A, Y - level), 0.8 - np.sum(
        k * np.linalg.solve(A, k), axis=0
    )


def targets(y):
    Y = np.where(y[:, None] == np.unique(y), 1.0, -1.0)
    return Y[:, 1:] if Y.shape[1] == 2 else Y


# ---- the kernel, and what is kept of it ----------------------------------------------------------


@given(
    n=st.sampled_from([0, 1, 2, 7, 8, 127, 128, 129, 300]),
    d=st.integers(0, 6),
    m=st.sampled_from([0, 1, 3, 15, 16, 17, 40]),
    scale=st.sampled_from([1e-150, 1.0, 1e150]),
    n_threads=st.sampled_from([1, 2, 7]),
    seed=st.integers(0, 5),
)
def test_products_are_their_definition(n, d, m, scale, n_threads, seed):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, d)), 1)
    X[n // 2 :] = X[: n - n // 2]
    V = scale * rng.normal(size=(n, m))
    kept = _histrs.StoredMatern(1e-3 * scale * X, 1.3e-3 * scale, n_threads)
    found = kept.product(V, n_threads)
    r = np.sqrt(3.0 * np.sum((X[:, None] - X) ** 2, axis=2)) / LENGTH
    K = (1.0 + r) * np.exp(-r)
    size = np.sum(np.abs(V / scale), axis=0)
    assert found.shape == (n, m)
    assert np.all(np.abs(found / scale - K @ (V / scale)) <= 2e-5 * size)


@pytest.mark.parametrize("n", [1, 130, 300])
def test_the_same_bits_for_any_number_of_threads(rng, n):
    X, V = rng.normal(size=(n, 5)), rng.normal(size=(n, 19))
    products = [_histrs.StoredMatern(X, 2.0, k).product(V, k) for k in (1, 2, 7)]
    np.testing.assert_array_equal(products[1], products[0])
    np.testing.assert_array_equal(products[2], products[0])


def test_two_bytes_a_pair():
    assert _histrs.StoredMatern(np.zeros((1280, 2)), 1.0, 1).n_bytes() == 55 * 128 * 128 * 2


@pytest.mark.parametrize("length", [0.0, -1.0, np.nan, np.inf])
def test_bad_lengths_are_refused(length):
    with pytest.raises(ValueError, match="length"):
        _histrs.StoredMatern(np.zeros((2, 2)), length, 1)


def test_bad_rows_are_refused():
    X = np.zeros((3, 2))
    X[1, 1] = np.inf
    with pytest.raises(ValueError, match=r"X\[1, 1\]"):
        _histrs.StoredMatern(X, 1.0, 1)
    X[1, 1] = 1e9
    with pytest.raises(ValueError, match="single precision"):
        _histrs.StoredMatern(X, 1.0, 1)


@pytest.mark.parametrize("length", [0.1, 2.0])
def test_kernel_is_its_definition_and_that_of_scikit_learn(rng, length):
    X, Y = rng.normal(size=(9, 3)), rng.normal(size=(5, 3))
    kernel = of_length(length).taken(X)
    assert_close(kernel.between(Y, X, 1), matern_kernel(Y, X, length), 1e-12)
    assert_close(kernel.between(X, None, 1), Matern(length, nu=1.5)(X), 1e-7)
    np.testing.assert_array_equal(kernel.diagonal(X, 1), np.ones(9))


def test_rounded_entries_leave_a_system_definite(rng):
    """The least noise is more than rounding takes from the smallest eigenvalue."""
    for n in (200, 900):
        X = rng.normal(size=(n, 2))
        kernel = of_length(30.0).taken(X)
        K = kernel.stored(X, 1).product(np.eye(n), 1)
        assert np.linalg.eigvalsh(0.5 * (K + K.T))[0] > -0.5 * kernel.least_ratio(n)


def test_length_is_a_part_of_the_distance_between_rows(rng):
    A, root = rng.normal(size=(60, 3)) + 5.0, rng.normal(size=(3, 3))
    learned = LearnedMatern.of(A, root @ root.T)
    B = A @ root
    squares = np.sum((B[:, None] - B) ** 2, axis=2)
    assert_close(learned.length, matern._LENGTH * np.sqrt(squares.mean()), 1e-10)
    K = matern_kernel(B, B, learned.length)
    assert_close(learned.kernel(A), K, 1e-6)
    assert_close(learned.kernel(A, A[:7]), K[:7], 1e-6)
    assert LearnedMatern.of(np.ones((4, 2)), np.eye(2)).length == 1.0


# ---- the process -------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "cg", "cholesky"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_predictions_are_their_definition(rng, solver, n_classes, weighted):
    (X, y), (X_star, _) = blobs(rng, 150, n_classes), blobs(rng, 9, n_classes)
    weights = rng.uniform(0.5, 2.0, size=150) if weighted else None
    model = process(solver=solver).fit(X, y, weights)
    mean, variance = definition(X, targets(y), X_star, None if weights is None else weights)
    found = model.latent_mean_and_variance(X_star)
    assert_close(found[0], mean[:, 0] if n_classes == 2 else mean, 1e-2 if solver == "cg" else 1e-8)
    assert_close(found[1], variance, 0.1 if solver == "cg" else 1e-8)
    model.set_params(variance="exact")
    exact = model.latent_mean_and_variance(X_star)[1]
    assert_close(exact, variance, 1e-2 if solver == "cg" else 1e-8)
    assert model.std_error_ == 0.0
    assert np.all(model.n_iter_ == 1) == (solver != "cg")


def test_many_rows_are_not_factorised(rng, monkeypatch):
    monkeypatch.setattr(Radial, "most_factorised", 100)
    X, y = blobs(rng, 101)
    assert np.all(process().fit(X, y).n_iter_ > 1)
    assert np.all(process().fit(X[:100], y[:100]).n_iter_ == 1)
    assert 0.0 < process().fit(X, y).std_error_ < 0.2


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_held_out_are_predicted_by_a_fit_of_the_others(rng, weighted):
    X, y = blobs(rng, 140)
    weights = rng.uniform(0.5, 2.0, size=140) if weighted else None
    model = process(solver="cg").fit(X, y, weights)
    held = np.array([3, 4, 70, 139])
    others = np.setdiff1d(np.arange(140), held)
    Y = targets(y)
    Y = Y - np.average(Y, axis=0, weights=weights)
    found = _means_without(model._posterior, held, Y, 1e-5)
    w = np.ones(136) if weights is None else weights[others]
    A = 0.8 * matern_kernel(X[others], X[others], LENGTH) + 0.05 * np.diag(1.0 / w)
    k = 0.8 * matern_kernel(X[others], X[held], LENGTH)
    assert_close(found, k.T @ np.linalg.solve(A, Y[others]), 1e-2)


def test_scores_held_out_calibrate_as_those_left_out(rng):
    X, y = blobs(rng, 300)
    X_star, y_star = blobs(rng, 200)
    losses = [
        log_loss(y_star, process(solver=solver).fit(X, y).predict_proba(X_star))
        for solver in ("cg", "cholesky")
    ]
    assert abs(losses[0] - losses[1]) < 0.05 * losses[1]


def test_rows_come_and_go(rng):
    X, y = blobs(rng, 160)
    for solver in ("cg", "cholesky"):
        model = process(solver=solver).fit(X[:120], y[:120])
        model.partial_fit(X[120:], y[120:]).forget(np.arange(5))
        mean, _ = definition(X[5:], targets(y[5:]), X[:9])
        assert_close(model.latent_mean_and_variance(X[:9])[0], mean, 1e-2)


def test_little_noise_is_raised_to_what_kept_entries_ask_for(rng):
    X, y = blobs(rng, 200)
    model = process(solver="cg", noise=1e-9, calibration=None).fit(X, y)
    assert_close(model.noise_, 0.8 * of_length(LENGTH).least_ratio(200), 1e-12)
    assert process(solver="cholesky", noise=1e-9, calibration=None).fit(X, y).noise_ == 1e-9


def test_a_system_that_is_not_solved_warns(rng, monkeypatch):
    monkeypatch.setattr(Radial, "n_landmarks", lambda self, n: 1)
    X, y = blobs(rng, 150)
    with pytest.warns(match="stopped after 2 iterations with a residual .* above the tolerance"):
        process(solver=Solver("cg", max_iter=2), calibration=None).fit(X, y)


# ---- the classifier ------------------------------------------------------------------------------


def test_kernel_is_in_the_metric_that_is_kept(rng):
    X, y = blobs(rng, 200)
    model = make().fit(X, y)
    B = model._projection.columns.apply(X) @ model.directions_
    assert_close(model.directions_ @ model.directions_.T, model.metric_, 1e-10)
    K = matern_kernel(B, B, model.length_scale_)
    inner = model._inner
    s = inner.noise_ / inner.amplitude_
    Y = targets(y)
    mean = Y.mean(axis=0) + K @ np.linalg.solve(K + s * np.eye(200), Y - Y.mean(axis=0))
    assert_close(model.latent_mean_and_variance(X)[0], mean, 1e-5)
    assert model.kernel_ == "matern"
    assert model.interactions_ == []
    assert_close(model.feature_importances_.sum(), 1.0, 1e-12)
    assert_close(model.predict_proba(X).sum(axis=1), np.ones(200), 1e-12)


def test_many_classes_choose_it_and_an_additive_table_does_not(rng):
    digits = load_digits()
    X, y = digits.data[:1200], digits.target[:1200]
    assert SlicedGPClassifier(random_state=0).fit(X, y).kernel_ == "matern"
    X = rng.normal(size=(1500, 12))
    y = np.sum(np.sign(X[:, :6]), axis=1) + 0.5 * rng.normal(size=1500) > 0.0
    assert SlicedGPClassifier(random_state=0).fit(X, y).kernel_ == "sliced"


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_projections": 64},
        {"n_bins": 32},
        {"solver": "coordinate-descent"},
        {"variance": "coarse"},
    ],
    ids=str,
)
def test_what_asks_for_projections_gets_them(parameters):
    assert SlicedGPClassifier()._kernel_to_try(2000) == "auto"
    assert SlicedGPClassifier(**parameters)._kernel_to_try(2000) == "sliced"


def test_a_metric_that_is_given_and_few_rows_take_projections(monkeypatch):
    monkeypatch.setattr(classification_learning, "_LIKE_MATERN", 0.0)
    X, y = load_digits(return_X_y=True)
    few = SlicedGPClassifier(random_state=0).fit(X[:300], y[:300])
    given = SlicedGPClassifier(metric="identity", random_state=0).fit(X[:1001], y[:1001])
    assert few.kernel_ == given.kernel_ == "sliced"


@pytest.mark.parametrize(
    "parameters",
    [{"n_bins": 32}, {"solver": "greedy-block"}, {"variance": "coarse"}],
    ids=str,
)
def test_what_has_no_such_kernel_is_refused(rng, parameters):
    X, y = blobs(rng, 60)
    model = make(**parameters)
    with pytest.raises(ValueError, match='kernel="sliced"'):
        model.fit(X, y)
    assert not hasattr(model, "classes_")
    if "n_bins" in parameters:
        model = make().fit(X, y).set_params(**parameters)
        with pytest.raises(ValueError, match='kernel="sliced"'):
            model.predict(X)


def test_more_rows_than_memory_holds(rng, monkeypatch):
    X, y = blobs(rng, 60)
    monkeypatch.setattr(_memory, "physical_memory", lambda: 2 * 59**2)
    with pytest.raises(MemoryError, match="of 59 rows at most, and there are 60"):
        make().fit(X, y)
    assert make().fit(X[:59], y[:59]).kernel_ == "matern"


def test_many_rows_take_noise_from_some(rng, monkeypatch):
    X, y = blobs(rng, 400)
    monkeypatch.setattr(Radial, "most_factorised", 150)
    monkeypatch.setattr(classification_learning, "LEARNING_ROWS", 100)
    monkeypatch.setattr(fitting, "_SCALE_ROWS", 100)
    model = make().fit(X, y)
    assert model._inner.optimizer is None
    assert np.all(model.n_iter_ > 1)
    assert model.score(X, y) > 0.6
    assert 0.0 < model.std_error_ < 0.2
    np.testing.assert_array_equal(clone(model).fit(X, y).predict_proba(X), model.predict_proba(X))
    for n_jobs in (1, 7):
        other = make(n_jobs=n_jobs).fit(X, y)
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    model.partial_fit(X[:5] + 0.1, y[:5])
    assert model._inner.X_fit_.shape[0] == 405


def test_weights_of_classes_and_rows():
    X, y = make_moons(300, noise=0.3, random_state=0)
    plain, weighted = make().fit(X, y), make(class_weight={0: 1.0, 1: 9.0}).fit(X, y)
    assert np.mean(weighted.predict(X) == 1) > np.mean(plain.predict(X) == 1)
    by_rows = make().fit(X, y, np.where(y == 1, 9.0, 1.0))
    np.testing.assert_allclose(by_rows.predict_proba(X), weighted.predict_proba(X), rtol=1e-6)


def test_effects_have_bands(rng):
    X, y = blobs(rng, 150, 2)
    found = make().fit(X, y).partial_dependence(X, 1, grid_resolution=5)
    assert found.mean[-1] > found.mean[0]
    assert np.all(found.std > 0.0)
