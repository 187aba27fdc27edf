"""Bernoulli and softmax likelihoods, against Laplace's approximation as in the book."""

import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import expit, softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

from histrs.gaussian_process import IntersectionGPClassifier
from histrs.gaussian_process._bound import all_pairs
from histrs.gaussian_process._likelihoods.softmax import SoftmaxPrior
from histrs.gaussian_process.kernels import Intersection
from tests.helpers import build, left_out_scores, solvers
from tests.oracles import laplace
from tests.oracles.intersection import intersection_kernel

GIVEN = {"likelihood": "bernoulli", "optimizer": None, "feature_weights": None, "tol": 1e-9}
SOLVERS = solvers()
each = pytest.mark.parametrize


def sample(seed=0, n=60, d=4):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.8)
    t = X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=n) > 0.0
    return X, t.astype(int), rng.choice([0.5, 1.0, 2.0], n), rng.random((17, d))


def by_definition(X, t, w, others, amplitude):
    """Mode, and mean and variance of the latent function of other rows."""
    C = laplace.latent_covariance(intersection_kernel(X, X), amplitude)
    f = laplace.mode(C, t, w)
    cross = laplace.latent_covariance(intersection_kernel(others, X), amplitude)
    prior = laplace.latent_covariance(others.sum(axis=1), amplitude)
    return C, f, *laplace.prediction(C, cross, prior, f, t, w)


@each("amplitude", [1e-4, 0.7, 30.0, 1e4])
@each("solver", SOLVERS.values(), ids=SOLVERS)
def test_is_laplaces_approximation(solver, amplitude):
    X, t, w, others = sample()
    w = w / w.mean()
    C, f, mean, variance = by_definition(X, t, w, others, amplitude)
    model = build(
        IntersectionGPClassifier, amplitude=amplitude, variance="exact", **GIVEN, **solver
    )
    model.fit(X, t, sample_weight=w)
    ours, spread = model.latent_mean_and_variance(others)
    assert np.allclose(ours, mean, rtol=1e-5, atol=1e-6)
    assert np.allclose(spread, variance, rtol=1e-5, atol=1e-7)
    assert np.all(model.residual_ <= model.tol)
    if solver["solver"] == "cholesky":
        evidence = model.log_marginal_likelihood()
        assert np.isclose(evidence, laplace.log_evidence(C, f, t, w), rtol=1e-8)
        scores = left_out_scores(model)[:, 0] + model._modes.bias
        assert np.allclose(scores, laplace.left_out(C, f, t, w), rtol=1e-6, atol=1e-6)


def test_one_mode_a_class():
    X, y = load_iris(return_X_y=True)
    # No row twice, of which the dense kernel matrix would be singular.
    X += 0.01 * np.random.default_rng(0).random(X.shape)
    model = build(IntersectionGPClassifier, amplitude=3.0, **GIVEN).fit(X, y)
    mean, variance = model.latent_mean_and_variance(X)
    for k in range(3):
        t = (y == k).astype(float)
        *_, expected, spread = by_definition(X, t, np.ones(len(X)), X, 3.0)
        assert np.allclose(mean[:, k], expected, atol=1e-5)
        assert np.allclose(variance[:, k], spread, atol=1e-5)
    P = model.set_params(calibration=None).fit(X, y).predict_proba(X)
    weighed = expit(mean / np.sqrt(1.0 + np.pi / 8.0 * variance))
    assert np.allclose(P, weighed / weighed.sum(axis=1, keepdims=True))


def test_a_class_that_comes_later():
    X, y = load_iris(return_X_y=True)
    model = build(IntersectionGPClassifier, amplitude=3.0, **GIVEN).fit(X[:100], y[:100])
    model.partial_fit(X[100:], y[100:])
    at_once = build(IntersectionGPClassifier, amplitude=3.0, **GIVEN).fit(X, y)
    means = [one.latent_mean_and_variance(X)[0] for one in (model, at_once)]
    assert np.allclose(*means, atol=1e-5)
    assert model.predict_proba(X).shape == (150, 3)


@each("weighted", [False, True])
def test_rows_held_out_are_fits_without_them(weighted):
    X, t, w, _ = sample(4, n=80)
    w = w / w.mean() if weighted else np.ones(80)
    model = build(IntersectionGPClassifier, amplitude=5.0, solver="cg", **GIVEN)
    model.fit(X, t, w if weighted else None)
    scores, rows = model._classes(vars(model)).held_out(
        model._fit_of(model._posterior, model.Y_fit_), model._seed
    )
    held = rows[:8]
    kept = np.setdiff1d(np.arange(80), held)
    *_, mean, _ = by_definition(X[kept], t[kept], w[kept], X[held], 5.0)
    assert np.allclose(scores[:8, 0] + model._modes.bias, mean, atol=1e-5)
    assert np.array_equal(np.sort(rows), np.arange(80))


@each("likelihood", ["bernoulli", "softmax"])
def test_tables_explanations_and_sparse_rows(likelihood):
    X, t, _, others = sample(5) if likelihood == "bernoulli" else sample_of_classes(5)
    make = partial(IntersectionGPClassifier, likelihood=likelihood, random_state=0)
    model, csr = make().fit(X, t), make().fit(sparse.csr_array(X), t)
    logits = model.decision_function(others)
    scores = model.export_tables().scores(others)
    scores = scores[:, -1] if likelihood == "bernoulli" else scores
    np.testing.assert_allclose(scores, logits, atol=1e-8)
    explanation = model.explain(others)
    means = (explanation.values.sum(axis=1) + explanation.offset).reshape(logits.shape)
    np.testing.assert_allclose(means, model.latent_mean_and_variance(others)[0], atol=1e-8)
    found = csr.decision_function(sparse.csr_array(others))
    np.testing.assert_allclose(found, logits, atol=1e-5)
    for n_bins in (64, 5000):
        coded = model.set_params(n_bins=n_bins)
        error = np.abs(coded.decision_function(others) - logits).max(axis=0)
        assert np.all(error <= coded.quantization_error_bound_ + 1e-12)


def test_auto_is_bernoulli_where_it_is_better():
    X, y = load_breast_cancer(return_X_y=True)
    losses = {"auto": [], "gaussian": []}
    for seed in range(3):
        A, B, a, b = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
        scaler = MinMaxScaler(clip=True).fit(A)
        for name, found in losses.items():
            model = IntersectionGPClassifier(likelihood=name, random_state=0).fit(
                scaler.transform(A), a
            )
            found.append(log_loss(b, model.predict_proba(scaler.transform(B))))
    assert np.mean(losses["auto"]) < np.mean(losses["gaussian"])
    assert model.likelihood_ == "gaussian"


@each(
    "parameters",
    [
        {"likelihood": "gaussian"},
        {"optimizer": None},
        {"calibration": None},
        {"solver": "cg"},
        {"n_interactions": 1},
        {"amplitude_bounds": "fixed"},
        {"noise_bounds": "fixed"},
        {"intercept_variance": 1.0},
        {"shared_hyperparameters": False},
    ],
)
def test_auto_is_gaussian_where_the_noise_of_targets_is_asked_for(parameters):
    X, t, _, _ = sample(6)
    assert build(IntersectionGPClassifier, **parameters).fit(X, t).likelihood_ == "gaussian"


@each("likelihood", ["bernoulli", "softmax"])
def test_labels_of_rows_that_hardly_count_choose_no_amplitude(likelihood):
    X, _, _, _ = sample(21, n=40)
    t = np.argmax(X[:, :3], axis=1)

    def amplitude(others, weight):
        model = IntersectionGPClassifier(
            Intersection(feature_weights=None),
            likelihood=likelihood,
            calibration=None,
            random_state=0,
        )
        model.fit(np.vstack([X, X]), np.append(t, others), np.repeat([1.0, weight], 40))
        return model.amplitude_

    # The same rows have other labels.
    wrong, other = (t + 1) % 3, (t + 2) % 3
    assert amplitude(wrong, 1e-9) == pytest.approx(amplitude(other, 1e-9), rel=1e-6)
    assert amplitude(wrong, 1.0) < amplitude(t, 1.0)


@each(("likelihood", "has_matrix"), [("bernoulli", True), ("softmax", False)])
def test_classes_that_were_learned_together_are_calibrated_without_a_matrix(likelihood, has_matrix):
    X, _, _, _ = sample(24)
    t = np.argmax(X[:, :3], axis=1)
    given = {**GIVEN, "likelihood": likelihood}
    matrix = build(IntersectionGPClassifier, **given).fit(X, t).calibration_.matrix
    mixed = matrix - matrix[0, 0] * np.eye(3)
    assert np.any(np.abs(mixed) > 1e-3) == has_matrix


def test_another_likelihood_leaves_nothing_of_the_one_before():
    X, t, _, others = sample(19)
    model = build(IntersectionGPClassifier, **GIVEN).fit(X, t)
    model.set_params(likelihood="gaussian").fit(X, t)
    fresh = build(IntersectionGPClassifier, **{**GIVEN, "likelihood": "gaussian"})
    assert vars(model).keys() == vars(fresh.fit(X, t)).keys()
    np.testing.assert_array_equal(model.predict_proba(others), fresh.predict_proba(others))


@each("n_classes", [2, 3])
def test_the_spread_of_predictions_is_that_of_the_logit(n_classes):
    X, _, _, others = sample(20)
    t = np.argmax(X[:, :n_classes], axis=1)
    model = build(IntersectionGPClassifier, amplitude=5.0, **GIVEN).fit(X, t)
    _, variance = model.latent_mean_and_variance(others)
    labels, std = model.predict(others, return_std=True)
    np.testing.assert_allclose(std**2, variance)
    np.testing.assert_array_equal(labels, model.predict(others))


def test_modes_that_are_not_found_are_told_of():
    X, _, _, _ = sample(15)
    t = np.argmax(X[:, :3], axis=1)
    model = build(IntersectionGPClassifier, **{**GIVEN, "tol": 1e-30})
    with pytest.warns(ConvergenceWarning) as told:
        model.fit(X, t)
    worst = np.argmax(model.residual_)
    assert str(told[0].message) == (
        f"IntersectionGPClassifier: Newton's method stopped after {model.n_iter_[worst]} steps "
        f"with a gradient of {model.residual_[worst]:.2e} in output {worst}, above the tolerance "
        "1e-30. Raise tol, or lower the bounds of the constant that multiplies the kernel."
    )


@each(
    ("likelihood", "parameters", "said"),
    [
        ("bernoulli", {"n_interactions": 1}, "cannot be combined with .*Interactions"),
        ("bernoulli", {"interactions": [(0, 1)]}, "cannot be combined with .*Interactions"),
        ("bernoulli", {"intercept_variance": 0.0}, "cannot be combined with .*intercept_variance="),
        ("bernoulli", {"shared_hyperparameters": False}, "cannot be combined with .*shared"),
        ("bernoulli", {"solver": "coordinate-descent"}, "cannot be combined with .*coordinate-d"),
        ("softmax", {"solver": "cg"}, "solver='cholesky'"),
        ("softmax", {"n_interactions": 1}, "Interactions"),
        ("softmax", {"shared_hyperparameters": False}, "shared=False"),
    ],
)
def test_what_it_does_not_know_is_refused(likelihood, parameters, said):
    X, t, _, _ = sample_of_classes()
    with pytest.raises(ValueError, match=said):
        build(IntersectionGPClassifier, likelihood=likelihood, **parameters).fit(X, t)


def test_likelihood_has_no_gradient_but_other_amplitudes():
    X, t, _, _ = sample(8)
    model = build(IntersectionGPClassifier, amplitude=3.0, **GIVEN).fit(X, t)
    with pytest.raises(ValueError, match="no gradient"):
        model.log_marginal_likelihood(eval_gradient=True)
    C = laplace.latent_covariance(intersection_kernel(X, X), 0.5)
    f = laplace.mode(C, t, np.ones(len(t)))
    expected = laplace.log_evidence(C, f, t, np.ones(len(t)))
    found = model.log_marginal_likelihood(np.log([1.0, 0.5]), return_std=True)
    assert np.allclose(found, (expected, 0.0))


def test_classes_share_one_amplitude():
    X, y = load_iris(return_X_y=True)
    X += 0.01 * np.random.default_rng(0).random(X.shape)
    model = build(IntersectionGPClassifier, amplitude=3.0, **GIVEN).fit(X, y)
    assert (model.noise_, model.amplitude_) == (1.0, 3.0)
    assert np.allclose(model.theta_, np.log([1.0, 3.0]))
    C = laplace.latent_covariance(intersection_kernel(X, X), 0.5)
    expected = 0.0
    for k in range(3):
        t = (y == k).astype(float)
        f = laplace.mode(C, t, np.ones(len(X)))
        expected += laplace.log_evidence(C, f, t, np.ones(len(X)))
    assert np.isclose(model.log_marginal_likelihood(np.log([1.0, 0.5])), expected)
    again = pickle.loads(pickle.dumps(model)).partial_fit(X[:5] + 0.01, y[:5])
    assert again.amplitude_ == 3.0


def test_terms_and_covariances_know_of_the_bias():
    X, t, w, others = sample(11)
    w = w / w.mean()
    model = build(IntersectionGPClassifier, amplitude=5.0, **GIVEN).fit(X, t, sample_weight=w)
    C = laplace.latent_covariance(intersection_kernel(X, X), 5.0)
    p = expit(laplace.mode(C, t, w))
    inverse = np.linalg.inv(C + np.diag(1.0 / (w * p * (1.0 - p))))

    def covariance(prior, cross):
        return prior - cross @ inverse @ cross.T

    for feature, function in enumerate(model.shape_functions(return_std=True)):
        one = np.zeros((len(function.knots), 4))
        one[:, feature] = function.knots
        cross = 5.0 * intersection_kernel(one, X)
        spread = covariance(5.0 * intersection_kernel(one, one), cross)
        assert np.allclose(function.std**2, np.diag(spread), atol=1e-6)
    explained = model.explain(function.knots[:, None] * np.eye(4)[3])
    assert np.allclose(explained.std[:, 3], function.std)
    cross = laplace.latent_covariance(intersection_kernel(others, X), 5.0)
    joint = covariance(laplace.latent_covariance(intersection_kernel(others, others), 5.0), cross)
    for one in (model, pickle.loads(pickle.dumps(model))):
        found = one._state()["_posterior"].latent_covariance(others)
        assert np.allclose(found[0], joint, atol=1e-6)


def test_separable_and_degenerate_rows():
    X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 20, axis=0)
    # Not one measurement twenty times.
    X += 1e-6 * np.random.default_rng(0).random(X.shape)
    y = np.repeat([0, 1], 20)
    model = IntersectionGPClassifier(likelihood="bernoulli", random_state=0).fit(X, y)
    P = model.predict_proba([[0.0, 1.0], [1.0, 0.0]])
    assert np.diag(P).min() > 0.9
    constant = IntersectionGPClassifier(likelihood="bernoulli", random_state=0).fit(
        np.ones((40, 2)), y
    )
    assert np.allclose(constant.predict_proba([[1.0, 1.0]]), 0.5, atol=1e-3)
    rare = IntersectionGPClassifier(likelihood="bernoulli", random_state=0).fit(
        X, np.arange(40) == 39
    )
    assert np.all(np.isfinite(rare.predict_proba(X)))


def test_a_loose_tolerance_leaves_more_than_nothing():
    X, t, _, others = sample(11)
    model = build(IntersectionGPClassifier, **{**GIVEN, "tol": 0.9}).fit(X, t)
    assert np.ptp(model.latent_mean_and_variance(others)[0]) > 0.1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@each("spread", [0.0, 1e-15, 1e-12, 1e-9, 1e-7, 1e-6])
def test_rows_that_hardly_differ(spread):
    X, t, _, _ = sample(12)
    X = 1.0 + spread * X
    for rows in (slice(None), slice(0, 2)):
        y = np.resize([0, 1], len(t))[rows]
        P = (
            IntersectionGPClassifier(likelihood="bernoulli", random_state=0)
            .fit(X[rows], y)
            .predict_proba(X)
        )
        assert np.all(np.isfinite(P))


def test_an_amplitude_beside_which_rounding_counts_is_refused():
    X, t, _, _ = sample(13)
    with pytest.raises(ValueError, match="not positive definite"):
        build(IntersectionGPClassifier, amplitude=1e30, solver="cholesky", **GIVEN).fit(
            np.vstack([X, X]), np.append(t, 1 - t)
        )


@each(
    ("n_rows", "n_outputs", "expected"),
    [
        (60, 1, "bernoulli"),
        (4096, 1, "bernoulli"),
        (4097, 1, "gaussian"),
        (399, 3, "gaussian"),
        (400, 3, "softmax"),
        (400, 64, "softmax"),
        (400, 65, "gaussian"),
        # The cube of the rows, times the classes, is 4e10.
        (2000, 5, "softmax"),
        (2001, 5, "gaussian"),
    ],
)
def test_auto_depends_on_rows_and_classes_as_it_is_documented(n_rows, n_outputs, expected):
    model = IntersectionGPClassifier(random_state=0)
    assert model._likelihood_for(np.empty((n_rows, n_outputs))) == expected


# ---- a softmax likelihood of several classes -----------------------------------------------------

SOFTMAX = {"likelihood": "softmax", "optimizer": None, "feature_weights": None, "tol": 1e-9}


def sample_of_classes(seed=0, n=40, d=4, n_classes=3):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.8)
    scores = X[:, :n_classes] + 0.2 * rng.normal(size=(n, min(n_classes, d)))
    t = np.argmax(scores, axis=1)
    t[:n_classes] = np.arange(n_classes)
    return X, t, rng.choice([0.5, 1.0, 2.0], n), rng.random((13, d))


def softmax_by_definition(X, t, w, others, amplitude, n_classes=3):
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
def test_softmax_is_laplaces_approximation(amplitude, weighted):
    X, t, w, others = sample_of_classes()
    w = w / w.mean() if weighted else np.ones(len(t))
    C, f, mean, variance = softmax_by_definition(X, t, w, others, amplitude)
    model = build(IntersectionGPClassifier, amplitude=amplitude, **SOFTMAX)
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


def test_classes_of_more_rows_than_the_memory_holds_are_refused(monkeypatch):
    X, t, _, _ = sample_of_classes(13)
    model = build(IntersectionGPClassifier, **SOFTMAX)
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
    X, t, w, others = sample_of_classes(1, n_classes=2)
    models = [
        build(IntersectionGPClassifier, **{**SOFTMAX, "likelihood": name}).fit(X, t, w)
        for name in ("softmax", "bernoulli")
    ]
    assert models[0].likelihood_ == "bernoulli"
    np.testing.assert_array_equal(*[model.predict_proba(others) for model in models])


def test_a_class_that_comes_later_has_a_function():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    first = y < 2
    model = build(IntersectionGPClassifier, amplitude=3.0, **SOFTMAX).fit(X[first], y[first], None)
    # Of two classes there is one function.
    assert model.likelihood_ == "bernoulli"
    begun = np.append(np.flatnonzero(first), 49)
    model.fit(X[begun], y[begun])
    later = np.setdiff1d(np.arange(50), begun)
    X[later[0]], y[later[0]] = X[later[0]], 3
    model.partial_fit(X[later], y[later])
    at_once = build(IntersectionGPClassifier, amplitude=3.0, **SOFTMAX).fit(X, y)
    order = np.argsort(np.append(begun, later))
    np.testing.assert_allclose(model.dual_coef_[order], at_once.dual_coef_, atol=1e-5)
    assert model.predict_proba(X).shape == (50, 4)


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
    X, t, _, others = sample_of_classes(6)
    model = build(IntersectionGPClassifier, amplitude=4.0, calibration=None, **SOFTMAX).fit(X, t)
    *_, mean, variance = softmax_by_definition(X, t, np.ones(40), others, 4.0)
    expected = softmax(mean / np.sqrt(1.0 + np.pi / 8.0 * variance), axis=1)
    np.testing.assert_allclose(model.predict_proba(others), expected, atol=1e-6)


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
