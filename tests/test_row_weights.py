"""Weights of rows and of classes in Gaussian processes, against the joint normal distribution."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    LikelihoodSearch,
    MinMaxGPClassifier,
    MinMaxGPRegressor,
    SPDGPClassifier,
    SPDGPRegressor,
)
from histrs.gaussian_process.kernels import Intersection, MinMax
from histrs.metrics import minmax_kernel
from tests.helpers import assert_slope, build, of_terms, solvers, with_amplitude
from tests.oracles import intersection, leave_one_out
from tests.oracles import row_weights as oracle

pytestmark = pytest.mark.simd_paths

SOLVERS = solvers(tol=1e-10)
GIVEN = {"noise": 0.3, "amplitude": 0.7, "optimizer": None}
REGRESSORS = [IntersectionGPRegressor, MinMaxGPRegressor, SPDGPRegressor]
CLASSIFIERS = [IntersectionGPClassifier, MinMaxGPClassifier, SPDGPClassifier]
KERNELS = {
    IntersectionGPRegressor: intersection.intersection_kernel,
    MinMaxGPRegressor: minmax_kernel,
}
each = pytest.mark.parametrize


def sample(seed=0, n=60, d=4):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.8)
    weights = rng.choice([0.05, 0.5, 1.0, 3.0, 40.0], n)
    return X, X[:, 0] - 2.0 * X[:, 1] + rng.normal(size=n) / np.sqrt(weights), weights


def matrices(model_class, X):
    """The rows, or matrices made of them where the model wants such."""
    if model_class not in (SPDGPRegressor, SPDGPClassifier):
        return X
    signals = np.random.default_rng(0).normal(size=(len(X), 3, 12))
    return (1.0 + X[:, :1, None]) * (signals @ signals.transpose(0, 2, 1) + np.eye(3))


def expected(K_of, X, y, weights, rows):
    """Mean and predictive standard deviation by the definition, with the given variances."""
    noise, amplitude = GIVEN["noise"], GIVEN["amplitude"]
    z, mean, spread = oracle.standardised(y, weights)
    prior = np.diag(K_of(rows))
    found, variance = oracle.condition(K_of(X), K_of(X, rows), prior, z, weights, noise, amplitude)
    return mean + spread * found, spread * np.sqrt(variance + noise)


# ---- what is predicted ------------------------------------------------------------------------


@each("container", [np.asarray, sparse.csr_matrix])
@each("solver", SOLVERS.values(), ids=SOLVERS)
def test_intersection_kernel(solver, container):
    X, y, weights = sample()
    rows = sample(1, 9)[0]
    model = build(
        IntersectionGPRegressor,
        feature_weights=None,
        intercept_variance=0.0,
        variance="exact",
        **{**GIVEN, **solver},
    ).fit(container(X), y, sample_weight=weights)
    mean, std = model.predict(container(rows), return_std=True)
    want_mean, want_std = expected(intersection.intersection_kernel, X, y, weights, rows)
    np.testing.assert_allclose(mean, want_mean, rtol=1e-6)
    np.testing.assert_allclose(std, want_std, rtol=1e-6)
    lower, upper = model.std_bounds(rows, rtol=1e-3)
    assert np.all(lower <= want_std * (1 + 1e-6))
    assert np.all(want_std <= upper * (1 + 1e-6))


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.floats(-6, 1))
def test_any_weights(seed, n, scale):
    rng = np.random.default_rng(seed)
    X, y = rng.random((n, 3)), rng.normal(size=n)
    weights = 10.0**scale * 10.0 ** rng.uniform(-3, 3, n)
    model = build(
        IntersectionGPRegressor,
        feature_weights=None,
        intercept_variance=0.0,
        variance="exact",
        **GIVEN,
    )
    mean, std = model.fit(X, y, weights).predict(X, return_std=True)
    want_mean, want_std = expected(intersection.intersection_kernel, X, y, weights, X)
    size = np.ptp(y)
    np.testing.assert_allclose(mean, want_mean, rtol=1e-8, atol=1e-8 * size)
    np.testing.assert_allclose(std, want_std, rtol=1e-8)


@each("model_class", REGRESSORS)
def test_samples_and_covariances_agree_with_standard_deviations(model_class):
    X, y, weights = sample()
    model = model_class(random_state=0).fit(matrices(model_class, X), y, weights)
    rows = matrices(model_class, X)[:5]
    _, std = model.predict(rows, return_std=True)
    _, covariance = model.predict(rows, return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), std, rtol=1e-3)


@each("name", ["fine", "coarse", "coarse-quantized"])
def test_bounds_of_the_variance_bound_it(name):
    X, y, weights = sample()
    parameters = {"feature_weights": None, "intercept_variance": 0.0, **GIVEN}
    exact = build(IntersectionGPRegressor, variance="exact", **parameters).fit(X, y, weights)
    bound = build(IntersectionGPRegressor, variance=name, **parameters).fit(X, y, weights)
    std, upper = (model.predict(X, return_std=True)[1] for model in (exact, bound))
    assert np.all(upper >= std * (1 - 1e-9))
    # Nor is it the prior.
    assert np.mean(upper) < np.sqrt(np.mean(X.sum(axis=1)) * 0.7 + 0.3) * np.std(y) * 2


def test_cached_standard_deviations():
    X, y, weights = sample(n=1500)
    parameters = {"solver": "cg", "tol": 1e-8}
    model = build(IntersectionGPRegressor, variance="cached", **parameters).fit(X, y, weights)
    exact = build(IntersectionGPRegressor, variance="exact", **parameters).fit(X, y, weights)
    rows = sample(1, 40)[0]
    std, want = (m.predict(rows, return_std=True)[1] for m in (model, exact))
    assert np.mean(np.abs(std / want - 1)) < 0.01
    assert model.std_error_ < 0.01


@each("model_class", KERNELS)
def test_leave_one_out(model_class):
    X, y, weights = sample()
    extra = (
        {"feature_weights": None, "intercept_variance": 0.0}
        if model_class is IntersectionGPRegressor
        else {"kernel": MinMax(0.0)}
    )
    options = with_amplitude(model_class, {**GIVEN, **extra})
    model = build(model_class, **options).fit(X, y, weights)
    mean, std = model.predict_leave_one_out()
    z, centre, spread = oracle.standardised(y, weights)
    A = GIVEN["amplitude"] * KERNELS[model_class](X) + np.diag(GIVEN["noise"] / weights)
    means, variances = leave_one_out.refits(A, z[:, None])
    np.testing.assert_allclose(mean, centre + spread * means[:, 0], rtol=1e-8)
    np.testing.assert_allclose(std, spread * np.sqrt(variances), rtol=1e-8)


# ---- the likelihood ---------------------------------------------------------------------------


def test_likelihood_is_the_density():
    X, y, weights = sample()
    model = build(
        IntersectionGPRegressor, feature_weights=None, intercept_variance=0.0, **GIVEN
    ).fit(X, y, weights)
    in_units = weights / weights.mean()
    z, _, _ = oracle.standardised(y, in_units)
    K = intersection.intersection_kernel(X)
    want = oracle.log_density(K, z, in_units, GIVEN["noise"], GIVEN["amplitude"])
    assert model.log_marginal_likelihood() == pytest.approx(want, rel=1e-10)


@each(
    "model",
    [
        IntersectionGPRegressor(Intersection("power", feature_weights="ard"), random_state=0),
        MinMaxGPRegressor(random_state=0),
        SPDGPRegressor(random_state=0),
        IntersectionGPClassifier(random_state=0, optimizer=LikelihoodSearch(shared=False)),
    ],
)
def test_gradient_of_the_likelihood(model):
    X, y, weights = sample()
    y = np.digitize(y, [-1, 0]) if isinstance(model, IntersectionGPClassifier) else y
    model.fit(matrices(type(model), X), y, weights)
    assert_slope(model, model.theta_ + 0.1, 1e-4, 1e-4 * abs(model.log_marginal_likelihood()))


def test_likeliest_noise_is_that_of_an_average_row():
    rng = np.random.default_rng(0)
    X = rng.random((800, 2))
    weights = rng.choice([0.1, 1.0, 10.0], 800)
    weights /= weights.mean()
    y = np.sin(4 * X[:, 0]) + 0.2 * rng.normal(size=800) / np.sqrt(weights)
    model = IntersectionGPRegressor(random_state=0).fit(X, y, weights)
    noise = np.sqrt(model.noise_) * model.y_std_[0]
    assert noise == pytest.approx(0.2, rel=0.1)
    truth = np.sin(4 * X[:, 0])
    plain = IntersectionGPRegressor(random_state=0).fit(X, y)
    errors = [np.mean((m.predict(X) - truth) ** 2) for m in (model, plain)]
    assert errors[0] < 0.7 * errors[1]


# ---- what weights mean ------------------------------------------------------------------------


def answers(model, rows):
    if hasattr(model, "predict_proba"):
        return model.predict_proba(rows)
    return np.column_stack(model.predict(rows, return_std=True))


@each("model_class", [*REGRESSORS, *CLASSIFIERS])
@each("weighted", ["all", "first", "further"])
def test_unpickled_models_take_and_forget_rows(model_class, weighted):
    X, y, weights = sample()
    rows = matrices(model_class, X)
    if model_class in CLASSIFIERS:
        y = np.array(["a", "b", "c"])[np.digitize(y, [-1.5, 0])]
    first = None if weighted == "further" else weights[:40]
    further = None if weighted == "first" else weights[40:]
    saved = pickle.dumps(model_class(random_state=0).fit(rows[:40], y[:40], first))

    def assert_same(change):
        fitted = model_class(random_state=0).fit(rows[:40], y[:40], first)
        expected = answers(change(fitted), rows)
        found = answers(change(pickle.loads(saved)), rows)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)

    assert_same(lambda one: one.partial_fit(rows[40:], y[40:], sample_weight=further))
    if hasattr(model_class, "forget"):
        assert_same(lambda one: one.forget([0, 3, 7]))


@each("model_class", [*REGRESSORS, *CLASSIFIERS])
def test_rows_of_no_weight_are_not_there_and_units_do_not_matter(model_class):
    X, y, weights = sample()
    rows = matrices(model_class, X)
    if model_class in CLASSIFIERS:
        y = np.array(["a", "b", "c"])[np.digitize(y, [-1.5, 0])]
    weights[::5] = 0.0
    kept = weights > 0
    model = model_class(random_state=0).fit(rows, y, weights)
    without = model_class(random_state=0).fit(rows[kept], y[kept], 54321.9 * weights[kept])
    plain = model_class(random_state=0).fit(rows[kept], y[kept])
    np.testing.assert_allclose(answers(model, rows), answers(without, rows), rtol=1e-6)
    equal = model_class(random_state=0).fit(rows[kept], y[kept], np.full(kept.sum(), 3.0))
    assert equal.sample_weight_fit_ is None if hasattr(equal, "sample_weight_fit_") else True
    np.testing.assert_array_equal(answers(equal, rows), answers(plain, rows))


@each("model_class", CLASSIFIERS)
def test_weights_of_classes(model_class):
    X, y, weights = sample(n=90)
    rows, labels = matrices(model_class, X), np.where(y > 0.7, "rare", "common")
    heavy = model_class(class_weight={"rare": 30.0, "common": 1.0}, random_state=0).fit(
        rows, labels
    )
    plain = model_class(random_state=0).fit(rows, labels)
    assert heavy.predict_proba(rows)[:, 1].mean() > 1.3 * plain.predict_proba(rows)[:, 1].mean()
    # The likelihood on covariances has several maxima, between which the last bit decides.
    fixed = {"optimizer": None} if model_class is SPDGPClassifier else {}
    balanced = build(model_class, class_weight="balanced", **fixed)
    balanced.fit(rows, labels, weights)
    sums = {label: weights[labels == label].sum() for label in ("common", "rare")}
    of_classes = {label: weights.sum() / (2 * total) for label, total in sums.items()}
    product = weights * np.array([of_classes[label] for label in labels])
    by_hand = build(model_class, **fixed).fit(rows, labels, product)
    np.testing.assert_allclose(answers(balanced, rows), answers(by_hand, rows), rtol=1e-6)
    with pytest.raises(ValueError, match="all rows at once"):
        balanced.partial_fit(rows, labels)
    without = model_class(class_weight={"rare": 1.0, "common": 0.0}, random_state=0)
    with pytest.raises(ValueError, match="2 classes"):
        without.fit(rows, labels)
    with pytest.raises(ValueError, match=r"class_weight of 'rare' is -1"):
        model_class(class_weight={"rare": -1.0}, random_state=0).fit(rows, labels)


@each("model_class", CLASSIFIERS)
def test_rare_classes_that_nothing_tells_apart_stay_rare(model_class):
    X, _, _ = sample(n=200)
    labels = np.resize([0] * 9 + [1], 200)
    rows = matrices(model_class, X)
    shares = model_class(random_state=0).fit(rows, labels).predict_proba(rows).mean(axis=0)
    assert shares[1] == pytest.approx(0.1, abs=0.03)
    balanced = (
        model_class(class_weight="balanced", random_state=0).fit(rows, labels).predict_proba(rows)
    )
    assert balanced.mean(axis=0)[1] == pytest.approx(0.5, abs=0.1)


@each("model_class", [IntersectionGPRegressor, IntersectionGPClassifier, MinMaxGPRegressor])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_weights_of_all_sizes_of_double_precision(model_class):
    X, y, _ = sample()
    if model_class in CLASSIFIERS:
        y = np.digitize(y, [-0.5])
    weights = np.geomspace(1e-300, 1e300, len(y))
    model = model_class(optimizer=None, random_state=0).fit(X, y, weights)
    assert np.all(np.isfinite(answers(model, X)))
    assert np.isfinite(model.log_marginal_likelihood())


@each("solver", ["cg", "coordinate-descent", "greedy-block"])
def test_every_solver_solves_with_weights(solver):
    X, y, weights = sample()
    settings = {"optimizer": None, "tol": 1e-10, "max_iter": 10_000, "intercept_variance": 0.0}
    want = IntersectionGPRegressor(**of_terms(solver="cholesky", **settings)).fit(X, y, weights)
    got = IntersectionGPRegressor(**of_terms(solver=solver, **settings)).fit(X, y, weights)
    np.testing.assert_allclose(got.predict(X), want.predict(X), rtol=1e-7, atol=1e-7 * np.ptp(y))
