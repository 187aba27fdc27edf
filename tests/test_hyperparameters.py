"""Generalised kernels and learned hyper-parameters against exact likelihoods."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from histrs._solvers.lanczos import Lanczos
from histrs._solvers.log_det import (
    lanczos_log_det,
    largest_eigenvalue_bound,
    log_det_bound,
    rademacher,
)
from histrs.gaussian_process import (
    Bins,
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    LikelihoodSearch,
    Solver,
)
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._learning import learner as _optimizer
from histrs.gaussian_process._learning import spectrum as _spectrum
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters, SearchSpace
from histrs.gaussian_process.kernels import Constant, Intersection
from histrs.testing import histograms
from tests.helpers import (
    CONTAINERS,
    PLAIN,
    assert_close,
    assert_slope,
    awkward_histograms,
    build,
    build_plain,
    dense,
    of_terms,
    solvers,
    standardised,
)
from tests.oracles import hyperparameters as oracle
from tests.oracles import intersection

pytestmark = pytest.mark.simd_paths

MODELS = [IntersectionGPClassifier, IntersectionGPRegressor]
each_model = pytest.mark.parametrize("model_class", MODELS)
SOLVERS = {name: way for name, way in solvers().items() if name != "plain"}
each_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)
TRANSFORMS = {
    "identity": ("identity", 1.0),
    "root": ("power", 0.4),
    "square": ("power", 2.0),
    "exponential": ("exponential", 1.5),
}
each_transform = pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)


def regression(rng, n=60, d=6):
    X = awkward_histograms(rng, n, d) / 4
    Y = np.sin(3 * X[:, :1]) + X[:, 4:5] + 0.1 * rng.normal(size=(n, 2))
    return X, standardised(Y)


# ---- generalised kernels -----------------------------------------------------------------------


@each_solver
@each_transform
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("container", ["C", "CSR array"])
def test_agrees_with_the_exact_solution(rng, solver, transform, weighted, container):
    X, Y = regression(rng)
    X_star = awkward_histograms(rng, 20) / 2
    name, exponent = transform
    weights = rng.random(6) + 0.1 if weighted else None
    model = build(
        IntersectionGPRegressor,
        optimizer=None,
        noise=0.2,
        amplitude=0.5,
        feature_transform=name,
        exponent=exponent,
        feature_weights=weights,
        variance="exact",
        tol=1e-9,
        **solver,
    ).fit(CONTAINERS[container](X), Y)
    kernel = {"name": name, "exponent": exponent, "weights": weights}
    kernel["intercept"] = model.intercept_variance_
    K = 0.5 * oracle.generalized_kernel(X, **kernel)
    exact = intersection.gp_fit(K, Y - Y.mean(axis=0), 0.2)
    assert_close(model.dual_coef_, exact.alpha, 1e-6)
    K_star = 0.5 * oracle.generalized_kernel(X_star, X, **kernel)
    prior = 0.5 * np.diag(oracle.generalized_kernel(X_star, **kernel))
    mean, variance = model.latent_mean_and_variance(CONTAINERS[container](X_star))
    assert_close(mean, intersection.gp_mean(exact, K_star) + Y.mean(axis=0), 1e-6)
    assert_close(variance[:, 0], intersection.gp_latent_variance(exact, K_star, prior), 1e-6)
    assert (model.exponent_, model.feature_transform_) == (exponent, name)
    np.testing.assert_array_equal(
        model.feature_weights_, np.ones(6) if weights is None else weights
    )


@pytest.mark.parametrize("interpolation", ["linear", "nearest"])
def test_tables_of_generalised_kernels_are_within_their_bound(rng, interpolation):
    X, Y = regression(rng)
    options = {
        "feature_transform": "power",
        "exponent": 0.5,
        "feature_weights": rng.random(6) + 0.1,
    }
    exact = build(IntersectionGPRegressor, optimizer=None, **options).fit(X, Y)
    table = clone(exact).set_params(n_bins=Bins(5, interpolation)).fit(X, Y)
    X_star = awkward_histograms(rng, 30)
    error = np.abs(table.predict(X_star) - exact.predict(X_star))
    assert (error <= table.quantization_error_bound_ * (1 + 1e-12)).all()
    assert error.max() > 0


def test_single_precision_is_transformed_in_double(rng):
    X, Y = regression(rng)
    options = {"feature_transform": "exponential", "exponent": 2.0, "optimizer": None, "tol": 1e-8}
    double = build(IntersectionGPRegressor, **options).fit(X, Y).predict(X)
    single = build(IntersectionGPRegressor, **options).fit(X.astype(np.float32), Y)
    # The histograms are exact in single precision up to the division by 4.
    assert_close(single.predict(X.astype(np.float32)), double, 1e-6)


ATTRIBUTES = {
    "feature_weights": ({"feature_weights": [1.0, 2.0, 3.0, 4.0]}, {}),
    "pairs": (
        {"interactions": [(3, 1)], "interaction_weight": 0.7},
        {"interactions_": [[1, 3]], "interaction_weight_": 0.7},
    ),
    "cubic": ({"smoothness": "cubic", "slope_weight": 0.4}, {"slope_weight_": 0.4}),
    "both": (
        {"smoothness": "both", "slope_weight": 0.4, "rough_weight": 0.6},
        {"slope_weight_": 0.4, "rough_weight_": 0.6},
    ),
    "intercept": ({"intercept_variance": 2.0}, {"intercept_variance_": 2.0}),
    "transform": (
        {"feature_transform": "power", "exponent": 0.5},
        {"feature_transform_": "power", "exponent_": 0.5},
    ),
}


@pytest.mark.parametrize(("given", "expected"), ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_attributes_tell_the_kernel(rng, given, expected):
    model = build_plain(IntersectionGPRegressor, **given).fit(rng.random((50, 4)), np.arange(50))
    attributes = {
        "feature_weights_": given.get("feature_weights", np.ones(4)),
        "interactions_": np.empty((0, 2)),
        "interaction_weight_": 0.0,
        "smoothness_": given.get("smoothness", "linear"),
        "slope_weight_": 0.0,
        "rough_weight_": 0.0,
        "intercept_variance_": 0.0,
        "feature_transform_": "identity",
        "exponent_": 1.0,
        **expected,
    }
    for name, value in attributes.items():
        np.testing.assert_array_equal(getattr(model, name), value, err_msg=name)
    # The knots of each feature that has part in a pair.
    assert len(model.interaction_knots_) == len(np.unique(model.interactions_))


# ---- the log-determinant -----------------------------------------------------------------------


def kernel_matrix(rng, n=80, noise=0.05):
    return intersection.intersection_kernel(rng.random((n, 3))) + noise * np.eye(n)


def test_lanczos_estimates_the_log_det(rng):
    A = kernel_matrix(rng, 300)
    exact = np.linalg.slogdet(A)[1]
    errors, stds = [], []
    for seed in range(20):
        Z = rademacher(300, 16, np.random.default_rng(seed))
        found = lanczos_log_det(lambda V: A @ V, Z, derivative=False)
        # With the logarithm itself: nothing is lost but by the choice of vectors.
        values, Q = np.linalg.eigh(A)
        quadrature = np.mean(np.sum(np.log(values)[:, None] * (Q.T @ Z) ** 2, axis=0))
        assert found.value == pytest.approx(quadrature, abs=0.1 * found.std)
        errors.append((found.value - exact) / found.std)
        stds.append(found.std)
    assert max(stds) < 0.05 * abs(exact)
    # Errors in standard errors, of about unit variance.
    assert 0.5 < np.std(errors) < 2.0
    assert abs(np.mean(errors)) < 1.0


@pytest.mark.parametrize("n", [1, 2, 5])
def test_lanczos_is_exact_on_small_and_trivial_matrices(rng, n):
    for A in (np.eye(n), 3.0 * np.eye(n), kernel_matrix(rng, n)):
        Z = rademacher(n, 3, rng)
        found = lanczos_log_det(lambda V, A=A: A @ V, Z, derivative=True)
        values, Q = np.linalg.eigh(A)
        expected = np.mean(np.sum(np.log(values)[:, None] * (Q.T @ Z) ** 2, axis=0))
        assert found.value == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert np.isfinite(found.V).all()


@given(
    X=histograms((1, 40), (1, 12), normalize="max", scale="mixed"),
    n_outputs=st.integers(1, 12),
    ratio=st.sampled_from([1e-6, 1e-2, 1.0, 100.0]),
)
def test_bound_bounds_the_log_det(X, n_outputs, ratio):
    y = np.random.default_rng(0).normal(size=(X.shape[0], n_outputs))
    noise = ratio * max(dense(X).sum(axis=1).max(), 1e-3)
    model = build_plain(IntersectionGPRegressor, noise=noise, log_det="bound", solver="cholesky")
    bounded, std = model.fit(X, y).log_marginal_likelihood(return_std=True)
    assert std == 0.0
    exact = oracle.log_likelihood(X, (y - y.mean(axis=0)) / model.y_std_, noise, 1.0)
    assert bounded <= exact + 1e-9 * (1 + abs(exact))


@given(
    values=st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=30),
    slack=st.floats(0, 10),
    part=st.floats(0, 1),
)
def test_bound_is_above_for_any_spectrum(values, slack, part):
    values = np.array(values)
    n, beta, trace, squares = len(values), values.max() + slack, values.sum(), (values**2).sum()
    exact = np.log(values).sum()
    tight = log_det_bound(n, beta, trace, squares)
    loose = log_det_bound(n, beta, trace, part * squares)
    rounding = 1e-6 * (1 + np.abs(np.log(values)).sum())
    assert exact <= tight + rounding
    assert tight <= loose + rounding


def test_bound_is_the_papers(rng):
    values = rng.random(20) + 0.1
    moments = values.sum(), (values**2).sum()
    expected = oracle.bound(1.3, *moments, 20)
    assert log_det_bound(20, 1.3, *moments) == pytest.approx(expected, rel=1e-9)
    # It is tight for u u^T + tau I.
    A = np.outer(values, values) + 0.3 * np.eye(20)
    spectrum = np.linalg.eigvalsh(A)
    found = log_det_bound(20, spectrum[-1], spectrum.sum(), (spectrum**2).sum())
    assert found == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-9)


@given(X=histograms((1, 40), (1, 9)), seed=st.integers(0, 9))
def test_the_largest_eigenvalue_is_never_above_its_bound(X, seed):
    A = intersection.intersection_kernel(X) + 0.1 * np.eye(X.shape[0])
    start = np.random.default_rng(seed).normal(size=len(A))
    exact = np.linalg.eigvalsh(A)[-1]
    for v in (start, np.linalg.eigh(A)[1][:, -1], 0 * start, np.eye(len(A))[0]):
        bound = largest_eigenvalue_bound(lambda V: A @ V, v, np.trace(A))
        assert exact <= bound * (1 + 1e-12)
        assert bound <= np.trace(A) * (1 + 1e-9)


# ---- likelihood and gradient -------------------------------------------------------------------


def given_model(rng, transform, weighted, **options):
    X, Y = regression(rng)
    name, exponent = transform
    options["feature_weights"] = "ard" if weighted else None
    model = build(
        IntersectionGPRegressor,
        noise=0.2,
        amplitude=0.5,
        feature_transform=name,
        exponent=exponent,
        noise_bounds=(0.01, 1.0),
        shared_hyperparameters=True,
        tol=1e-9,
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return X, Y, model.fit(X, Y)


def exact_likelihood(X, Y, model, theta):
    noise, amplitude, *rest = np.exp(theta)
    kernel = {"name": model.feature_transform_, "intercept": model.intercept_variance_}
    if model.feature_transform_ != "identity":
        kernel["exponent"], *rest = rest
    if len(rest) > 0:
        kernel["weights"] = rest
    return oracle.log_likelihood(X, Y - Y.mean(axis=0), noise, amplitude, **kernel)


@each_transform
@pytest.mark.parametrize("weighted", [False, True])
def test_exact_likelihood_and_gradient(rng, transform, weighted):
    X, Y, model = given_model(rng, transform, weighted)
    n_free = 2 + (transform[0] != "identity") + (6 if weighted else 0)
    assert model.theta_.shape == (n_free,)
    for theta in (None, rng.normal(size=n_free) / 2 - 0.5):
        value, gradient = model.log_marginal_likelihood(theta, eval_gradient=True)
        at = model.theta_ if theta is None else theta
        assert value == pytest.approx(exact_likelihood(X, Y, model, at), rel=1e-8)
        numeric = optimize.approx_fprime(
            at, lambda t, X=X: exact_likelihood(X, Y, model, t), epsilon=1e-6
        )
        np.testing.assert_allclose(gradient, numeric, rtol=1e-3, atol=2e-3)
        assert model.log_marginal_likelihood(theta, return_std=True) == (pytest.approx(value), 0.0)


@each_transform
def test_estimated_gradient_is_that_of_the_estimate(rng, transform):
    X, Y, model = given_model(rng, transform, True, solver="cg", preconditioner="knots")
    theta = rng.normal(size=len(model.theta_)) / 3 - 1.0
    assert_slope(model, theta, 2e-2, 2e-2)
    value, std = model.log_marginal_likelihood(theta, return_std=True)
    assert std > 0.0
    assert abs(value - exact_likelihood(X, Y, model, theta)) < 5 * std


@each_model
def test_every_class_counts(rng, model_class):
    X = rng.random((40, 3))
    y = np.resize([0, 1, 2], 40)
    model = build_plain(model_class).fit(X, y)
    Y = intersection.one_vs_all_targets(y)[1] if model_class is MODELS[0] else standardised(y)
    expected = oracle.log_likelihood(X, Y, 0.1, 1.0)
    assert model.log_marginal_likelihood() == pytest.approx(expected, rel=1e-9)


def test_likelihood_refuses_what_it_cannot_do(rng):
    X, Y = regression(rng)
    model = build_plain(IntersectionGPRegressor, log_det="bound").fit(X, Y)
    with pytest.raises(ValueError, match=r"no gradient.*lanczos"):
        model.log_marginal_likelihood(eval_gradient=True)
    with pytest.raises(ValueError, match=r"theta has shape \(1,\), expected \(2,\)"):
        model.log_marginal_likelihood([0.0])


def test_a_likelihood_whose_system_is_not_solved_says_so(rng):
    X, y = smooth(rng, 80)
    given = {"optimizer": None, "solver": "cg", "preconditioner": None}
    model = build(IntersectionGPRegressor, **given).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solved = model.log_marginal_likelihood()
        value, gradient, std = model.log_marginal_likelihood(eval_gradient=True, return_std=True)
    assert value == solved
    assert gradient.shape == model.theta_.shape
    assert std > 0.0
    model.set_params(solver=Solver("cg", max_iter=2, preconditioner=None))
    with pytest.warns(ConvergenceWarning, match="likelihood is too large") as told:
        assert model.log_marginal_likelihood() > solved
    assert [w.filename for w in told] == [__file__]


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_gradient_of_outputs_with_scales_of_their_own(rng, solver):
    X, Y = regression(rng)
    model = IntersectionGPRegressor(
        Intersection(feature_weights="ard"),
        solver=solver,
        tol=1e-8,
        random_state=0,
        optimizer=LikelihoodSearch(shared=False),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, Y)
    # Noise and amplitude of two outputs, and weights that they share.
    assert_slope(model, rng.normal(size=2 + 2 + 6) / 3 - 0.5, 2e-2, 2e-2)


def test_a_constant_target_beside_another_one_counts(rng):
    X, Y = regression(rng)
    Y[:, 1] = 3.0
    model = build_plain(IntersectionGPRegressor, solver="cg").fit(X, Y)
    exact = oracle.log_likelihood(X, Y - Y.mean(axis=0), 0.1, 1.0)
    value, std = model.log_marginal_likelihood(return_std=True)
    assert abs(value - exact) < 5 * std


# ---- learning ----------------------------------------------------------------------------------

EXACTLY = {"exact": {}, "estimated": {"solver": "cg"}}
each_way = pytest.mark.parametrize("way", EXACTLY.values(), ids=EXACTLY)


def smooth(rng, n=300, noise=0.3):
    X = rng.random((n, 4))
    return X, np.sin(4 * X[:, 0]) + 2 * X[:, 1] ** 2 + noise * rng.normal(size=n)


@each_way
def test_learned_scales_are_the_most_likely(rng, way):
    X, y = smooth(rng)
    parameters = {
        "noise": 5.0,
        "amplitude": 0.01,
        "feature_weights": None,
        "intercept_variance": 0.0,
    }
    model = build(IntersectionGPRegressor, **parameters, **way).fit(X, y)
    K = oracle.generalized_kernel(X)
    centred = standardised(y)

    def negative(theta):
        A = np.exp(theta[1]) * K
        return intersection.gp_negative_log_likelihood(
            intersection.gp_fit(A, centred, np.exp(theta[0])), centred
        )

    best = optimize.minimize(negative, np.log([0.1, 1.0]), method="Nelder-Mead")
    found = np.log([model.noise_, model.amplitude_])
    np.testing.assert_allclose(model.theta_, found)
    assert negative(found) <= best.fun + (0.01 if way == {} else 0.5)
    assert 0.2 < model.y_std_[0] * np.sqrt(model.noise_) < 0.4


@each_way
@pytest.mark.parametrize(("name", "exponent"), [("power", 0.4), ("exponential", 3.0)])
def test_learned_exponent_is_the_one_that_made_the_data(rng, way, name, exponent):
    X = np.exp(4 * rng.random((300, 2)) - 3)
    K = 4 * oracle.generalized_kernel(X, name=name, exponent=exponent) + 0.01 * np.eye(300)
    y = np.linalg.cholesky(K) @ rng.normal(size=300)
    parameters = {"feature_weights": None, "intercept_variance": 0.0, **way}
    plain = build(IntersectionGPRegressor, **parameters).fit(X, y)
    model = build(IntersectionGPRegressor, feature_transform=name, **parameters).fit(X, y)
    assert 0.7 < model.exponent_ / exponent < 1.4
    gain = model.log_marginal_likelihood() - plain.log_marginal_likelihood()
    assert gain > 5.0
    _, gradient = model.log_marginal_likelihood(eval_gradient=True)
    assert np.abs(gradient).max() < 5.0
    truth = np.log([0.01 / y.var(), 4.0 / y.var(), exponent])
    at_truth = exact_likelihood(X, standardised(y)[:, None], model, truth)
    _, std = model.log_marginal_likelihood(return_std=True)
    assert model.log_marginal_likelihood() > at_truth - 3 * std


def test_an_exponent_that_ends_at_its_bound_is_reported(rng):
    X = rng.random((200, 3)) ** 4
    y = (X**0.25).sum(axis=1)
    model = IntersectionGPRegressor(Intersection("exponential", exponent=0.9), random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"exponent at its lower bound 5\.0e-02"):
        model.fit(X, y)
    assert model.exponent_ == pytest.approx(0.05)


@pytest.mark.parametrize("log_det", ["lanczos", "bound"])
def test_nelder_mead_learns_too(rng, log_det):
    X, y = smooth(rng, 100)
    options = {"feature_transform": "power", "noise": 1.0}
    model = build(IntersectionGPRegressor, optimizer="nelder-mead", log_det=log_det, **options).fit(
        X, y
    )
    history = model.optimization_history_["log_marginal_likelihood"]
    assert model.log_marginal_likelihood() == pytest.approx(history.max(), rel=1e-6)
    assert history.max() > history[0]
    given = clone(model).set_params(**of_terms(**PLAIN)).fit(X, y)
    assert model.log_marginal_likelihood() > given.log_marginal_likelihood()
    if log_det == "lanczos":
        other = clone(model).set_params(optimizer="l-bfgs-b").fit(X, y)
        assert model.log_marginal_likelihood() == pytest.approx(
            other.log_marginal_likelihood(), abs=0.5
        )


def test_relevance_of_few_features_in_many():
    rng = np.random.default_rng(0)
    n, d, k = 300, 400, 8
    signs = np.resize([1.0, -1.0], k)
    X, X_star = rng.random((n, d)), rng.random((500, d))
    y, y_star = (3 * np.abs(M[:, :k] - 0.2) @ signs for M in (X, X_star))
    y = y + 0.2 * rng.normal(size=n)
    plain = IntersectionGPRegressor(Constant(1 / d) * Intersection(), random_state=0).fit(X, y)
    model = IntersectionGPRegressor(
        Constant(1 / d) * Intersection(feature_weights="ard"), random_state=0
    ).fit(X, y)
    assert set(np.argsort(-model.feature_weights_)[:k]) == set(range(k))
    assert model.score(X_star, y_star) > plain.score(X_star, y_star) + 0.2
    assert model.feature_weights_[k:].mean() < 0.1 * model.feature_weights_[:k].mean()


def test_history_is_kept(rng):
    X, y = smooth(rng)
    model = IntersectionGPRegressor(
        Intersection("power", feature_weights="ard"), noise=1.0, random_state=0
    ).fit(X, y)
    history = model.optimization_history_
    assert list(history) == [
        "log_marginal_likelihood",
        "noise",
        "amplitude",
        "exponent",
        "feature_weights",
    ]
    n = len(history["log_marginal_likelihood"])
    assert history["feature_weights"].shape == (n, 4)
    best = np.argmax(history["log_marginal_likelihood"])
    assert history["noise"][best] == model.noise_
    np.testing.assert_array_equal(history["feature_weights"][best], model.feature_weights_)
    assert pickle.loads(pickle.dumps(model)).optimization_history_["noise"][best] == model.noise_
    model.set_params(**of_terms(**PLAIN)).fit(X, y)
    assert not hasattr(model, "optimization_history_")


def test_fixed_hyper_parameters_stay(rng):
    X, y = smooth(rng)
    model = IntersectionGPRegressor(noise=0.3, noise_bounds="fixed", random_state=0).fit(X, y)
    assert model.noise_ == 0.3
    assert model.amplitude_ != 1.0
    model = IntersectionGPRegressor(Constant(0.3, "fixed") * Intersection(), random_state=0).fit(
        X, y
    )
    assert model.amplitude_ == 0.3
    assert model.noise_ != 0.1
    bounds = {f"{name}_bounds": "fixed" for name in ("noise", "amplitude", "exponent")}
    model = build(IntersectionGPRegressor, feature_transform="power", exponent=0.5, **bounds).fit(
        X, y
    )
    assert (model.noise_, model.amplitude_, model.exponent_) == (0.1, 1.0, 0.5)
    assert not hasattr(model, "optimization_history_")


@pytest.mark.parametrize("with_gradient", [True, False])
def test_a_start_that_fails_says_so_and_further_on_it_is_worse_than_all(with_gradient):
    def fail(values, names):
        raise ValueError("not positive definite")

    start = Hyperparameters(np.array([1.0]), np.array([1.0]), GeneralizedKernel())
    space = SearchSpace(start, {"noise": (1e-3, 1e3), "amplitude": (1e-2, 1e2)})
    found = _optimizer._Objective(fail, space, None, np.zeros(2), with_gradient)
    with pytest.raises(ValueError, match="not positive definite"):
        found(np.zeros(2))
    found.worst = 7.0
    # A cliff that a line search comes back from.
    value = found(np.zeros(2))
    assert (value[0] if with_gradient else value) == 7.0 + 7.0 + 1.0


def test_a_search_that_ends_at_a_bound_says_so(rng):
    X, y = smooth(rng)
    model = IntersectionGPRegressor(noise=0.005, noise_bounds=(1e-3, 0.01), random_state=0)
    with pytest.warns(
        ConvergenceWarning, match=r"noise at its upper bound 1\.0e-02.*kept"
    ) as caught:
        model.fit(X, y)
    assert [w.filename for w in caught] == [__file__]
    assert model.noise_ == pytest.approx(0.01)


@pytest.mark.parametrize("optimizer", ["l-bfgs-b", "nelder-mead"])
def test_a_search_that_runs_out_of_steps_says_so(rng, monkeypatch, optimizer):
    monkeypatch.setattr(_optimizer, "_MAX_ITER", 1)
    X, y = smooth(rng)
    model = IntersectionGPRegressor(
        Intersection("power", exponent=5.0), optimizer=optimizer, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="stopped early.*best hyper-param.*kept") as caught:
        model.fit(X, y)
    assert [w.filename for w in caught] == [__file__]
    best = model.optimization_history_["log_marginal_likelihood"].max()
    assert model.log_marginal_likelihood() == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(
    "search", [LikelihoodSearch("nelder-mead", log_det="bound"), LikelihoodSearch()], ids=str
)
def test_a_start_that_cannot_be_solved_is_passed_over(rng, search):
    """With rows that repeat, a noise that vanishes beside the kernel leaves a singular matrix."""
    X, y = smooth(rng, 30)
    X, y = np.vstack([X, X]), np.hstack([y, y])
    model = IntersectionGPRegressor(
        Constant(1.0, "fixed") * Intersection(),
        noise_bounds=(1e-30, 1e3),
        optimizer=search,
        solver="cholesky",
        random_state=0,
    )
    alone = model.fit(X, y).log_marginal_likelihood()
    restarted = (
        model.set_params(optimizer=replace(search, n_restarts=6))
        .fit(X, y)
        .log_marginal_likelihood()
    )
    assert restarted >= alone - 1e-9 * abs(alone)


def test_restarts_search_from_further_starts(rng):
    X, y = smooth(rng, 40)
    model = IntersectionGPRegressor(random_state=0)
    found = []
    for n in (0, 3):
        model.set_params(optimizer=LikelihoodSearch(n_restarts=n)).fit(X, y)
        history = model.optimization_history_["log_marginal_likelihood"]
        found.append((len(history), model.log_marginal_likelihood()))
    assert found[1][0] > 1.5 * found[0][0]
    assert found[1][1] >= found[0][1] - 1e-9


def test_estimates_of_the_likelihood_are_refined_where_they_decide(rng):
    """With little noise the first quadrature sees none."""
    X = rng.random((400, 6))
    X[:, 0] *= 30
    K = oracle.generalized_kernel(X)
    y = np.linalg.cholesky(K + 1e-3 * np.eye(400)) @ rng.normal(size=400)
    learned = [
        IntersectionGPRegressor(noise=1.0, random_state=0, solver=solver).fit(X, y).noise_
        for solver in ("cholesky", "cg")
    ]
    assert 0.5 < learned[1] / learned[0] < 2.0


@pytest.mark.parametrize("n_steps", [1, 4, 20])
def test_quadratures_bound_the_likelihood_from_below(rng, n_steps):
    """Too few steps make no small noise likely that they do not resolve."""
    A = kernel_matrix(rng, 60, noise=0.0)
    y = rng.normal(size=60)
    values, Q = np.linalg.eigh(A)
    lanczos = Lanczos(lambda V: A @ V, y[:, None], keep_basis=False, max_steps=60)
    lanczos.run(n_steps)
    (known,) = lanczos.tridiagonals()
    for noise in np.logspace(-8, 2, 11):
        exact = np.sum((Q.T @ y) ** 2 / (values + noise))
        logarithm = np.sum((Q.T @ y) ** 2 * np.log(values + noise))
        nodes, weights = known.with_node_at_zero().measure()
        nodes = np.maximum(nodes, 0.0)
        assert np.sum(weights / (nodes + noise)) >= exact * (1 - 1e-9)
        nodes, weights = known.measure()
        assert np.sum(weights / (nodes + noise)) <= exact * (1 + 1e-9)
        assert np.sum(weights * np.log(nodes + noise)) >= logarithm - 1e-9 * abs(logarithm)


def test_noise_that_few_steps_do_not_resolve_is_not_learned(rng, monkeypatch):
    X = rng.random((3000, 6))
    y = np.sin(9 * X).sum(axis=1) + 0.3 * rng.normal(size=3000)
    exact = IntersectionGPRegressor(random_state=0).fit(X, y).noise_
    monkeypatch.setattr(_spectrum, "_MAX_STEPS", 33)
    assert IntersectionGPRegressor(random_state=0).fit(X, y).noise_ == pytest.approx(exact, rel=0.5)


WRONG = {
    "noise": [np.inf, np.nan],
    "amplitude": [0.0, np.inf],
    "tol": [np.nan],
    "max_iter": [0, 1.5],
    "preconditioner": ["none"],
    "n_bins": [65536, 2.5],
}


@each_model
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        *(({name: value}, name) for name, values in WRONG.items() for value in values),
        ({"n_bins": 5, "interpolation": "cubic"}, "interpolation"),
        ({"feature_transform": "log"}, "transform"),
        ({"feature_transform": "power", "exponent": 0.0}, "exponent"),
        ({"feature_transform": "power", "exponent": -1.0}, "exponent"),
        ({"exponent": 2.0}, "no effect with transform='identity'"),
        ({"feature_weights": "ARD"}, "feature_weights"),
        ({"feature_weights": "ard", "optimizer": None}, "give an optimizer"),
        ({"feature_weights": "ard", "feature_weights_bounds": "fixed"}, "feature_weights_bounds"),
        ({"feature_weights": [1.0, 2.0]}, r"shape \(2,\), and X has 3 features"),
        ({"feature_weights": [1.0, -2.0, 1.0]}, r"feature_weights\[1\] = -2\.0"),
        ({"feature_weights": [1.0, 2.0, np.nan]}, r"feature_weights\[2\] = nan"),
        ({"feature_weights": [0.0, 2.0, 1.0]}, r"feature_weights\[0\] = 0\.0"),
        ({"log_det": "exact"}, "log_det"),
        ({"log_det": "bound"}, r"log_det='bound' has no gradient.*nelder-mead"),
        ({"noise_bounds": (1.0, 0.1)}, "noise_bounds"),
        ({"noise_bounds": (0.0, 1.0)}, "noise_bounds"),
        ({"amplitude_bounds": "free"}, "amplitude_bounds"),
        ({"noise_bounds": (1.0, 2.0)}, r"noise = 0\.1 is outside noise_bounds"),
        ({"n_restarts_optimizer": -1}, "n_restarts"),
        (
            {"feature_transform": "power", "exponent": 9.0, "X": 1e60},
            r"exponent = 9 .*overflow.*lower",
        ),
    ],
)
def test_parameters_are_checked_and_the_model_stays(rng, model_class, parameters, message):
    X, y = rng.random((20, 3)), np.arange(20) % 2
    model = model_class(random_state=0).fit(X, y)
    expected = model.predict(X)
    state = {name: value for name, value in vars(model).items() if name.endswith("_")}
    parameters = dict(parameters)
    scale = parameters.pop("X", 1.0)
    model.set_params(**of_terms(**parameters))
    with pytest.raises(ValueError, match=message):
        model.fit(scale * X, y)
    assert {name: value for name, value in vars(model).items() if name.endswith("_")} == state
    model.set_params(**model_class(random_state=0).get_params())
    np.testing.assert_array_equal(model.predict(X), expected)


# ---- shape functions ---------------------------------------------------------------------------


@each_transform
@pytest.mark.parametrize("container", ["C", "CSR array"])
def test_shape_functions_add_up_to_the_mean(rng, transform, container):
    X, Y = regression(rng)
    name, exponent = transform
    weights = rng.random(6) + 0.1
    model = IntersectionGPRegressor(
        Intersection(name, exponent=exponent, feature_weights=weights),
        optimizer=None,
        random_state=0,
    ).fit(CONTAINERS[container](X), Y)
    functions = model.shape_functions(return_std=True)
    total = np.tile(model.intercept_, (len(X), 1))
    kernel = {"name": name, "exponent": exponent, "weights": weights}
    for d, function in enumerate(functions):
        assert function.feature == d
        np.testing.assert_array_equal(function.knots, np.union1d([0.0], X[:, d]))
        total += function.values[np.searchsorted(function.knots, X[:, d])]
        K = oracle.generalized_kernel(X, **kernel, intercept=model.intercept_variance_)
        part = np.zeros((len(function.knots), 6))
        part[:, d] = function.knots
        k = oracle.generalized_kernel(part, X, **kernel)
        prior = np.diag(oracle.generalized_kernel(part, **kernel))
        variance = prior - np.einsum("ij,ij->i", k, np.linalg.solve(K + 0.1 * np.eye(60), k.T).T)
        variance = variance[:, None] * model.y_std_**2
        np.testing.assert_allclose(function.std**2, variance, atol=1e-8)
    assert_close(total, model.predict(X), 1e-9)


def test_some_knots_of_some_features(rng):
    X, y = smooth(rng)
    model = IntersectionGPRegressor(random_state=0).fit(X, y)
    (some,) = model.shape_functions([1], max_knots=10)
    (every,) = model.shape_functions([1])
    assert len(some.knots) == 10
    assert some.std is None
    assert some.knots[-1] == X[:, 1].max()
    np.testing.assert_allclose(some.values, np.interp(some.knots, every.knots, every.values))
    with pytest.raises(ValueError, match=r"feature 4 is not one of 0 to 3"):
        model.shape_functions([4])
