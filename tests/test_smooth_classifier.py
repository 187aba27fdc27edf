"""Smooth functions of classes, against the dense kernel."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal

from histrs.gaussian_process import IntersectionGPClassifier
from histrs.gaussian_process.kernels import Splines
from tests.helpers import build
from tests.oracles import laplace
from tests.oracles import smooth as oracle

KINDS = pytest.mark.parametrize(("smoothness", "rough"), [("cubic", 0.0), ("both", 0.6)])
SOLVERS = pytest.mark.parametrize("solver", ["cholesky", "cg"])


def sample(n_classes=2, n=60):
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.random(n), rng.integers(0, 3, n), 50 + 9 * rng.exponential(size=n)])
    score = np.sin(6 * X[:, 0]) + X[:, 1] - 0.05 * X[:, 2] + 0.3 * rng.normal(size=n)
    y = np.searchsorted(np.quantile(score, [0.7] if n_classes == 2 else [0.3, 0.7]), score)
    return X, y, rng.choice([0.5, 1.0, 2.0], n), X[:11] * rng.uniform(0.9, 1.2, (11, 3))


def make(smoothness, rough, solver="cholesky", **given):
    extra = {"rough_weight": rough} if smoothness == "both" else {}
    given = {"optimizer": None, "slope_weight": 0.8, "amplitude": 0.7, "noise": 0.2, **given}
    return build(
        IntersectionGPClassifier,
        smoothness=smoothness,
        solver=solver,
        tol=1e-9,
        variance="exact",
        **extra,
        **given,
    )


def kernel(model, A, B, X, weights=None):
    w = model.feature_weights_
    slope, rough = model.slope_weight_, model.rough_weight_
    return oracle.kernel(A * w, B * w, X * w, slope, rough, weights)


@KINDS
@SOLVERS
@pytest.mark.parametrize("weighted", [False, True])
def test_is_laplaces_approximation(smoothness, rough, solver, weighted):
    X, t, w, others = sample()
    w = w / w.mean() if weighted else np.ones(len(X))
    model = make(smoothness, rough, solver, likelihood="bernoulli").fit(X, t, w)
    C, cross, prior = (
        laplace.latent_covariance(kernel(model, A, B, X, w), 0.7)
        for A, B in ((X, X), (others, X), (others, others))
    )
    f = laplace.mode(C, t, w)
    mean, variance = laplace.prediction(C, cross, np.diag(prior), f, t, w)
    found = model.latent_mean_and_variance(others)
    np.testing.assert_allclose(found[0], mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1], variance, rtol=1e-5, atol=1e-7)
    explained = model.explain(others)
    total = explained.values.sum(axis=1) + explained.offset
    np.testing.assert_allclose(total, mean, rtol=1e-5, atol=1e-6)
    if solver == "cholesky":
        evidence = model.log_marginal_likelihood()
        assert evidence == pytest.approx(laplace.log_evidence(C, f, t, w), rel=1e-8)
    # The term of a feature, whose posterior is told apart from the bias.
    d, noise = 0, np.diag(1.0 / (w * np.exp(f) / (1.0 + np.exp(f)) ** 2))
    part = [(A * model.feature_weights_)[:, [d]] for A in (X, others, X)]
    slope, of_min = model.slope_weight_, model.rough_weight_
    k = 0.7 * oracle.kernel(part[1], part[0], part[2], slope, of_min, w)
    own = 0.7 * oracle.kernel(part[1], part[1], part[2], slope, of_min, w)
    expected = np.diag(own) - np.sum(k * np.linalg.solve(C + noise, k.T).T, axis=1)
    np.testing.assert_allclose(explained.std[:, d] ** 2, expected, rtol=1e-4, atol=1e-7)


@KINDS
@SOLVERS
@pytest.mark.parametrize("n_classes", [2, 3])
def test_regression_of_labels_less_their_means(smoothness, rough, solver, n_classes):
    X, y, w, others = sample(n_classes)
    w = w / w.mean()
    model = make(smoothness, rough, solver, likelihood="gaussian").fit(X, y, w)
    Y = np.where(y[:, None] == ([1] if n_classes == 2 else np.arange(3)), 1.0, -1.0)
    level = np.average(Y, axis=0, weights=w)
    A = 0.7 * kernel(model, X, X, X, w) + 0.2 * np.diag(1.0 / w)
    k = 0.7 * kernel(model, others, X, X, w)
    mean, variance = model.latent_mean_and_variance(others)
    expected = level + k @ np.linalg.solve(A, Y - level)
    np.testing.assert_allclose(mean.reshape(expected.shape), expected, rtol=1e-6, atol=1e-7)
    if solver == "cholesky":
        squares = np.sum((Y - level) * np.linalg.solve(A, Y - level))
        constant = np.linalg.slogdet(A)[1] + len(Y) * np.log(2.0 * np.pi)
        evidence = -0.5 * (squares + Y.shape[1] * constant)
        assert model.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-8)
    prior = np.diag(0.7 * kernel(model, others, others, X, w))
    left = prior - np.sum(k * np.linalg.solve(A, k.T).T, axis=1)
    np.testing.assert_allclose(variance, left, rtol=1e-5, atol=1e-8)
    explained = model.explain(others)
    total = explained.values.sum(axis=1) + explained.offset
    np.testing.assert_allclose(total.reshape(expected.shape), expected, rtol=1e-6, atol=1e-7)
    (shape,) = model.shape_functions([0], max_knots=9, return_std=True)
    assert shape.values.shape[0] == len(shape.knots) == 9
    probabilities = model.predict_proba(others)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(
        model.classes_[probabilities.argmax(axis=1)], model.predict(others)
    )


@KINDS
@SOLVERS
@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_rows_that_come_and_go(smoothness, rough, solver, likelihood):
    X, y, w, others = sample()
    kept = np.delete(np.arange(60), [0, 7, 50])
    # Weights count in the unit of the first fit, which is that of all rows.
    first, later = kept[kept < 40], kept[kept >= 40]
    w[40:] *= (len(kept) * w[:40].mean() - w[first].sum()) / w[later].sum()
    options = {"likelihood": likelihood, "feature_weights": [1.0, 0.5, 0.1]}
    model = make(smoothness, rough, solver, **options).fit(X[:40], y[:40], w[:40])
    model.partial_fit(X[40:], y[40:], sample_weight=w[40:]).forget([0, 7, 50])
    whole = make(smoothness, rough, solver, **options).fit(X[kept], y[kept], w[kept])
    found, expected = (m.latent_mean_and_variance(others) for m in (model, whole))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(again.predict_proba(others), model.predict_proba(others), atol=1e-7)
    for one, other in zip(
        again.latent_mean_and_variance(others), model.latent_mean_and_variance(others), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_learns_how_smooth_functions_are(n_classes):
    X, y, w, others = sample(n_classes, n=150)
    model = IntersectionGPClassifier(Splines(rough_weight=1.0), random_state=0).fit(X, y, w)
    assert model.likelihood_ == ("bernoulli" if n_classes == 2 else "gaussian")
    assert model.smoothness_ == "both"
    assert model.slope_weight_ > 0.0
    assert model.rough_weight_ > 0.0
    assert model.score(X, y) > 0.8
    rows = sparse.csr_array(X)
    same = IntersectionGPClassifier(Splines(rough_weight=1.0), random_state=0).fit(rows, y, w)
    np.testing.assert_allclose(same.predict_proba(others), model.predict_proba(others), atol=1e-5)


def test_many_weighted_rows():
    """Some rows tell the variance of the logit, with their own weights."""
    rng = np.random.default_rng(0)
    X = rng.random((1300, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=1300) > 0.6).astype(int)
    model = IntersectionGPClassifier(Splines(), likelihood="bernoulli", random_state=0)
    assert model.fit(X, y, rng.choice([0.5, 2.0], 1300)).score(X, y) > 0.75


@pytest.mark.parametrize(
    "options",
    [
        {"n_interactions": 1},
        {"n_bins": 20},
        {"feature_weights": "ard"},
        {"variance": "coarse"},
        {"solver": "coordinate-descent"},
    ],
    ids=str,
)
def test_what_smooth_functions_do_not_go_with_is_refused(options):
    X, y, _, others = sample()
    with pytest.raises(ValueError, match=r"Splines|feature_weights|can only choose pairs"):
        build(IntersectionGPClassifier, smoothness="both", **options).fit(X, y)
    model = IntersectionGPClassifier(Splines(rough_weight=1.0), random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="smooth"):
        model.export_tables()
    with pytest.raises(ValueError, match="Splines"):
        model.set_params(n_bins=20).predict(others)


@KINDS
def test_likelihoods_of_regression_are_of_targets_about_their_mean(smoothness, rough):
    X, t, _, _ = sample()
    model = make(smoothness, rough, likelihood="gaussian", optimizer="l-bfgs-b").fit(X, t)
    Y = np.where(t == 1, 1.0, -1.0)
    C = model.amplitude_ * kernel(model, X, X, X) + model.noise_ * np.eye(len(X))
    expected = multivariate_normal(cov=C).logpdf(Y - Y.mean())
    largest = model.log_marginal_likelihood()
    assert largest == pytest.approx(expected, abs=1e-6)
    for step in 0.1 * np.eye(len(model.theta_)):
        for theta in (model.theta_ - step, model.theta_ + step):
            assert model.log_marginal_likelihood(theta) < largest + 1e-3
