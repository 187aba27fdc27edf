"""A softmax likelihood of several classes, against Laplace's approximation as in the book."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import softmax
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

from histrs.gaussian_process import IntersectionGPClassifier
from histrs.gaussian_process._bound import all_pairs
from histrs.gaussian_process._likelihoods import softmax as _softmax
from histrs.gaussian_process._likelihoods.softmax import NewtonSystem, SoftmaxPrior
from tests.helpers import build, left_out_scores
from tests.oracles import laplace
from tests.oracles.intersection import intersection_kernel

GIVEN = {"likelihood": "softmax", "optimizer": None, "feature_weights": None, "tol": 1e-9}
each = pytest.mark.parametrize


def sample(seed=0, n=40, d=4, n_classes=3):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.8)
    scores = X[:, :n_classes] + 0.2 * rng.normal(size=(n, min(n_classes, d)))
    t = np.argmax(scores, axis=1)
    t[:n_classes] = np.arange(n_classes)
    return X, t, rng.choice([0.5, 1.0, 2.0], n), rng.random((13, d))


def by_definition(X, t, w, others, amplitude, n_classes=3):
    """Mode, and means and variances of the functions of other rows, the others being known."""
    C = laplace.latent_covariance(intersection_kernel(X, X), amplitude)
    f = laplace.softmax_mode(C, t, w, n_classes)
    P = laplace.softmax(f)
    cross = laplace.latent_covariance(intersection_kernel(others, X), amplitude)
    prior = laplace.latent_covariance(others.sum(axis=1), amplitude)
    gradient = w[:, None] * (np.eye(n_classes)[t] - P)
    variance = []
    for p in P.T:
        noise = np.diag(1.0 / (w * p * (1.0 - p)))
        variance.append(prior - np.sum(cross * np.linalg.solve(C + noise, cross.T).T, axis=1))
    return C, f, cross @ gradient, np.column_stack(variance)


@each("amplitude", [1e-3, 0.7, 30.0, 1e3])
@each("weighted", [False, True])
def test_is_laplaces_approximation(amplitude, weighted):
    X, t, w, others = sample()
    w = w / w.mean() if weighted else np.ones(len(t))
    C, f, mean, variance = by_definition(X, t, w, others, amplitude)
    model = build(IntersectionGPClassifier, amplitude=amplitude, **GIVEN)
    model.fit(X, t, sample_weight=w if weighted else None)
    ours, spread = model.latent_mean_and_variance(others)
    np.testing.assert_allclose(ours, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(spread, variance, rtol=1e-5, atol=1e-6)
    assert np.all(model.residual_ <= model.tol)
    np.testing.assert_allclose(model.dual_coef_.sum(axis=1), 0.0, atol=1e-8 * amplitude)
    evidence = laplace.softmax_log_evidence(C, f, t, w)
    assert np.allclose(model.log_marginal_likelihood(return_std=True), (evidence, 0.0), rtol=1e-8)
    scores = left_out_scores(model) + model._modes.bias
    expected = laplace.softmax_left_out(C, f, t, w)
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)


@given(
    n=st.sampled_from([3, 4, 7, 8, 9, 33]),
    n_classes=st.integers(3, 5),
    amplitude=st.sampled_from([1e-8, 1.0, 1e4]),
    equal=st.booleans(),
    seed=st.integers(0, 99),
)
def test_modes_of_any_size(n, n_classes, amplitude, equal, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3))
    if equal:
        # The kernel matrix is singular, and rows that are equal differ in their classes.
        X[n // 2 :] = X[0]
    t, w = rng.integers(0, n_classes, n), rng.choice([1e-3, 1.0, 3.0], n)
    K = intersection_kernel(X, X)
    prior = SoftmaxPrior(K, amplitude)
    mode = prior.find_mode(t, n_classes, w, 1e-7)
    assert mode.residual <= 1e-7
    gradient = w[:, None] * (np.eye(n_classes)[t] - softmax(prior.covariance @ mode.alpha, axis=1))
    np.testing.assert_allclose(mode.alpha, gradient, atol=3e-7)
    # Another start has the same end.
    again = prior.find_mode(t, n_classes, w, 1e-7, rng.standard_normal((n, n_classes)))
    assert again.residual <= 1e-5
    np.testing.assert_allclose(again.log_posterior, mode.log_posterior, atol=1e-3)


@each("amplitude", [0.1, 30.0])
def test_a_newton_step_is_that_of_dense_algebra(monkeypatch, amplitude):
    rng = np.random.default_rng(0)
    X, _, w, _ = sample(12)
    C = laplace.latent_covariance(intersection_kernel(X, X), amplitude)
    system = NewtonSystem(C, w)
    # Factors of the first probabilities precondition the next ones.
    for size in (1.0, 1.5, 3.0):
        f = size * rng.normal(size=(40, 3))
        P, b = softmax(f, axis=1), rng.normal(size=(40, 3))
        b -= b.mean(axis=1, keepdims=True)
        x, Cx = system.solve(P, b)
        prior = np.kron(C, np.eye(3))
        W = laplace.softmax_curvature(f, w)
        exact = np.linalg.solve(np.eye(120) + W @ prior, b.ravel()).reshape(40, 3)
        np.testing.assert_allclose(Cx, C @ x)
        # By what a step gains: a hundredth of it is missed at most.
        off, gained = (np.sum(v * (C @ v)) for v in (x - exact, exact))
        assert 1e-10 * gained < off <= 0.01 * gained
        with monkeypatch.context() as patch:
            patch.setattr(_softmax, "_OF_STEP", 1e-8)
            np.testing.assert_allclose(system.solve(P, b)[0], exact, rtol=1e-5, atol=1e-6)
        curvature = _softmax._Curvature(P, w)
        y, u = rng.normal(size=(2, 40, 3))
        root_of = curvature.root(curvature.transposed(u))
        np.testing.assert_allclose(root_of, (W @ u.ravel()).reshape(40, 3), atol=1e-12)
        assert np.isclose(np.sum(u * curvature.root(y)), np.sum(curvature.transposed(u) * y))


def test_classes_of_more_rows_than_the_memory_holds_are_refused(monkeypatch):
    X, t, _, _ = sample(13)
    model = build(IntersectionGPClassifier, **GIVEN)
    # Two matrices for each of three classes, and two more.
    for n_matrices, fits in ((8, True), (7, False)):
        monkeypatch.setattr(all_pairs, "physical_memory", lambda n=n_matrices: 8 * 40**2 * n)
        monkeypatch.setattr(all_pairs, "_MEMORY_SHARE", 1.0)
        if fits:
            model.fit(X, t)
        else:
            with pytest.raises(MemoryError, match="8 matrices"):
                model.fit(X, t)


def test_two_classes_are_those_of_the_bernoulli_likelihood():
    X, t, w, others = sample(1, n_classes=2)
    models = [
        build(IntersectionGPClassifier, **{**GIVEN, "likelihood": name}).fit(X, t, w)
        for name in ("softmax", "bernoulli")
    ]
    assert models[0].likelihood_ == "bernoulli"
    np.testing.assert_array_equal(*[model.predict_proba(others) for model in models])


def test_a_row_of_no_weight_leaves_no_trace():
    X, t, w, others = sample(2)
    w = w * (np.arange(40) % 3 > 0)
    w[:3] = 1.0
    model = build(IntersectionGPClassifier, amplitude=2.0, **GIVEN).fit(X, t, sample_weight=w)
    kept = w > 0
    *_, mean, _ = by_definition(X[kept], t[kept], w[kept], others, 2.0)
    np.testing.assert_allclose(model.latent_mean_and_variance(others)[0], mean, atol=1e-6)


def test_rows_come_and_go():
    X, t, w, others = sample(3, n=60)
    model = build(IntersectionGPClassifier, amplitude=5.0, **{**GIVEN, "tol": 1e-8})
    grown = pickle.loads(pickle.dumps(model.fit(X[:40], t[:40], w[:40])))
    grown.partial_fit(X[40:], t[40:], sample_weight=w[40:])
    *_, mean, _ = by_definition(X, t, w, others, 5.0)
    np.testing.assert_allclose(grown.latent_mean_and_variance(others)[0], mean, atol=1e-5)
    removed = np.arange(3, 60, 7)
    kept = np.setdiff1d(np.arange(60), removed)
    grown.forget(removed)
    *_, mean, variance = by_definition(X[kept], t[kept], w[kept], others, 5.0)
    again = pickle.loads(pickle.dumps(grown))
    for one in (grown, again):
        found = one.latent_mean_and_variance(others)
        np.testing.assert_allclose(found[0], mean, atol=1e-5)
        np.testing.assert_allclose(found[1], variance, atol=1e-5)


def test_a_class_that_comes_later():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    first = y < 2
    model = build(IntersectionGPClassifier, amplitude=3.0, **GIVEN).fit(X[first], y[first], None)
    # Of two classes there is one function.
    assert model.likelihood_ == "bernoulli"
    begun = np.append(np.flatnonzero(first), 49)
    model.fit(X[begun], y[begun])
    later = np.setdiff1d(np.arange(50), begun)
    X[later[0]], y[later[0]] = X[later[0]], 3
    model.partial_fit(X[later], y[later])
    at_once = build(IntersectionGPClassifier, amplitude=3.0, **GIVEN).fit(X, y)
    order = np.argsort(np.append(begun, later))
    np.testing.assert_allclose(model.dual_coef_[order], at_once.dual_coef_, atol=1e-5)
    assert model.predict_proba(X).shape == (50, 4)


def test_tables_explanations_and_sparse_rows():
    X, t, _, others = sample(5)
    model = IntersectionGPClassifier(likelihood="softmax", random_state=0).fit(X, t)
    logits = model.decision_function(others)
    np.testing.assert_allclose(model.export_tables().scores(others), logits, atol=1e-8)
    csr = IntersectionGPClassifier(likelihood="softmax", random_state=0).fit(sparse.csr_array(X), t)
    np.testing.assert_allclose(csr.decision_function(others), logits, atol=1e-6)
    explanation = model.explain(others)
    means = explanation.values.sum(axis=1) + explanation.offset
    np.testing.assert_allclose(means, model.latent_mean_and_variance(others)[0], atol=1e-8)
    coarse = model.set_params(n_bins=64)
    off = np.abs(coarse.decision_function(others) - logits).max(axis=0)
    assert np.all(off <= coarse.quantization_error_bound_)


def test_lower_log_loss_on_digits():
    X, y = load_digits(return_X_y=True)
    X, y = X[:1000], y[:1000]
    A, B, a, b = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
    scaler = MinMaxScaler(clip=True).fit(A)
    loss = {}
    for name in ("gaussian", "softmax", "auto"):
        model = IntersectionGPClassifier(likelihood=name, random_state=0).fit(
            scaler.transform(A), a
        )
        P = model.predict_proba(scaler.transform(B))
        loss[name] = log_loss(b, P)
        np.testing.assert_array_equal(P.argmax(axis=1), model.predict(scaler.transform(B)))
    assert loss["softmax"] < 0.93 * loss["gaussian"]
    assert loss["auto"] == loss["softmax"]


def test_without_calibration():
    X, t, _, others = sample(6)
    model = build(IntersectionGPClassifier, amplitude=4.0, calibration=None, **GIVEN).fit(X, t)
    *_, mean, variance = by_definition(X, t, np.ones(40), others, 4.0)
    expected = softmax(mean / np.sqrt(1.0 + np.pi / 8.0 * variance), axis=1)
    np.testing.assert_allclose(model.predict_proba(others), expected, atol=1e-6)


@each(
    ("parameters", "said"),
    [
        ({"solver": "cg"}, "solver='cholesky'"),
        ({"n_interactions": 1}, "Interactions"),
        ({"shared_hyperparameters": False}, "shared=False"),
    ],
)
def test_what_goes_without_it(parameters, said):
    X, t, _, _ = sample()
    with pytest.raises(ValueError, match=said):
        build(IntersectionGPClassifier, likelihood="softmax", **parameters).fit(X, t)


def test_what_is_chosen():
    X, t, _, _ = sample(n=420)
    model = IntersectionGPClassifier(random_state=0).fit(X, t)
    assert model.likelihood_ == "softmax"
    assert IntersectionGPClassifier(random_state=0).fit(X[:399], t[:399]).likelihood_ == "gaussian"
    for parameters in ({"optimizer": None}, {"calibration": None}, {"solver": "cg"}):
        other = build(IntersectionGPClassifier, **parameters).fit(X, t)
        assert other.likelihood_ == "gaussian"
    assert (
        IntersectionGPClassifier(random_state=0).fit(X, np.arange(420) % 65).likelihood_
        == "gaussian"
    )
    # A bound of time: its cube, times the classes, is too large.
    many = np.random.default_rng(0).random((2400, 2))
    assert (
        IntersectionGPClassifier(random_state=0).fit(many, np.arange(2400) % 3).likelihood_
        == "gaussian"
    )


def test_units_of_columns_do_not_matter():
    X, t, _, others = sample(8, n=60)
    model = IntersectionGPClassifier(likelihood="softmax", random_state=0).fit(X, t)
    P = model.predict_proba(others)
    for scale in (1e-100, 1e100):
        scaled = IntersectionGPClassifier(likelihood="softmax", random_state=0).fit(scale * X, t)
        np.testing.assert_allclose(scaled.predict_proba(scale * others), P, atol=1e-5)


def test_classes_that_are_rare_or_alike():
    rng = np.random.default_rng(0)
    X = rng.random((50, 2))
    t = np.append(np.arange(49) % 2, 2)
    P = IntersectionGPClassifier(likelihood="softmax", random_state=0).fit(X, t).predict_proba(X)
    assert np.all(np.isfinite(P))
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    constant = IntersectionGPClassifier(likelihood="softmax", random_state=0).fit(
        np.ones((60, 2)), np.arange(60) % 3
    )
    np.testing.assert_allclose(constant.predict_proba(X[:3]), 1.0 / 3.0, atol=0.02)
