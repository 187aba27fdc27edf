"""A constant beside the functions of the features, against a column that is one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor
from histrs.gaussian_process.kernels import Intersection
from tests.helpers import assert_close, build, solvers

pytestmark = pytest.mark.simd_paths

C = 2.5
GIVEN = {"noise": 0.05, "amplitude": 0.8, "optimizer": None, "feature_weights": None}
SOLVERS = solvers(tol=1e-10)
each = pytest.mark.parametrize
each_solver = each("solver", SOLVERS.values(), ids=SOLVERS)


def data(rng, n=80, d=4):
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.8)
    return X, 3.0 + np.exp(-4.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)


def with_column(X):
    """Return rows with a column of one value, whose minima are that value."""
    column = np.full((X.shape[0], 1), C)
    if sparse.issparse(X):
        return sparse.csr_array(sparse.hstack([X, column]))
    return np.hstack([X, column])


def pair(X, y, model_class=IntersectionGPRegressor, sample_weight=None, **given):
    """Return a model with an intercept, and one with the column in its place."""
    given = {**GIVEN, **given}
    model = build(model_class, intercept_variance=C, **given).fit(X, y, sample_weight=sample_weight)
    other = build(model_class, intercept_variance=0.0, **given)
    return model, other.fit(with_column(X), y, sample_weight=sample_weight)


# ---- it is as a column of one value --------------------------------------------------------------


@each_solver
@each("container", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
@each("weighted", [False, True])
def test_predictions_and_their_uncertainty(rng, solver, container, weighted):
    X, y = data(rng)
    T = container(np.vstack([data(rng, 20)[0], np.zeros(4)]))
    weights = rng.random(len(y)) + 0.1 if weighted else None
    model, other = pair(container(X), y, sample_weight=weights, **solver)
    for asked in ({}, {"return_std": True}, {"return_cov": True}):
        found, expected = model.predict(T, **asked), other.predict(with_column(T), **asked)
        pairs = zip(found, expected, strict=True) if asked else [(found, expected)]
        for a, b in pairs:
            # Covariances are solved to a tolerance of their own.
            assert_close(a, b, 1e-3 if "return_cov" in asked else 1e-5)
    assert_close(model.dual_coef_, other.dual_coef_, 1e-5)


EXACTLY = {"exact": {"solver": "cholesky"}, "by iterations": {"solver": "cg", "tol": 1e-9}}
ASKED = {
    "blocks of coordinates": ({"solver": "greedy-block", "tol": 1e-6}, "predict", 1e-4),
    "rows left out": ({}, "predict_leave_one_out", 1e-6),
    "slopes": ({}, "log_marginal_likelihood", 1e-6),
    "pairs": ({"interactions": [(0, 1), (2, 3)]}, "predict", 1e-8),
    **{
        f"{name}, {variance}": ({**way, "variance": variance}, "deviations", 1e-5)
        for name, way in EXACTLY.items()
        for variance in ("exact", "cached", "fine")
    },
    **{
        f"{name}, {log_det}": ({**way, "log_det": log_det}, "likelihood", 1e-6)
        for name, way in EXACTLY.items()
        for log_det in ("lanczos", "bound")
    },
}


def asked(model, name, T):
    match name:
        case "predict_leave_one_out":
            return np.stack(model.predict_leave_one_out())
        case "log_marginal_likelihood":
            return model.log_marginal_likelihood(eval_gradient=True)[1]
        case "likelihood":
            return model.log_marginal_likelihood()
        case "deviations":
            return model.predict(T, return_std=True)[1]
    return getattr(model, name)(T)


@each(("given", "name", "rtol"), ASKED.values(), ids=ASKED)
def test_all_that_is_asked(rng, given, name, rtol):
    X, y = data(rng, 30 if given.get("solver") == "greedy-block" else 100)
    T = data(rng, 30)[0]
    model, other = pair(X, y + X[:, 2] * X[:, 3], **given)
    assert_close(asked(model, name, T), asked(other, name, with_column(T)), rtol)


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 20), d=st.integers(1, 4), seed=st.integers(0, 1000))
def test_of_few_rows(n, d, seed):
    rng = np.random.default_rng(seed)
    X, T = np.round(rng.random((n, d)), 1), rng.random((3, d))
    model, other = pair(X, rng.standard_normal((n, 2)))
    assert_close(model.predict(T), other.predict(with_column(T)), 1e-9)


def test_certain_bounds(rng):
    X, y = data(rng)
    T = data(rng, 10)[0]
    model, _ = pair(X, y, solver="cg", tol=1e-8)
    exact = model.set_params(variance="exact").predict(T, return_std=True)[1]
    lower, upper = model.std_bounds(T)
    assert np.all(lower <= exact * (1 + 1e-9))
    assert np.all(upper >= exact * (1 - 1e-9))


@each("n_classes", [2, 3])
@each("solver", ["cholesky", "cg"])
def test_classes(rng, n_classes, solver):
    X, y = data(rng)
    labels = np.digitize(y, np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]))
    given = {"likelihood": "gaussian", "solver": solver, "tol": 1e-9}
    model, other = pair(X, labels, IntersectionGPClassifier, **given)
    T = data(rng, 20)[0]
    for name in ("decision_function", "predict_proba"):
        found, expected = getattr(model, name)(T), getattr(other, name)(with_column(T))
        assert_close(found, expected, 1e-4)


# ---- what is made of predictions -----------------------------------------------------------------


def test_tables(rng):
    X, y = data(rng)
    T = data(rng, 20)[0]
    model, _ = pair(X, y)
    exact = model.predict(T)
    assert_close(model.export_tables(n_bins=200).scores(T)[:, 0], exact, 1e-9)
    for n_bins in (100, 128):
        model.set_params(n_bins=n_bins)
        bound = model.quantization_error_bound_ * (1 + 1e-6) + 1e-9
        assert np.all(np.abs(model.predict(T) - exact) <= bound)


# ---- its variance --------------------------------------------------------------------------------


def test_default_is_of_the_kernels_size(rng):
    X, y = data(rng)
    X *= [1.0, 1e6, 1e-6, 1.0]
    model = IntersectionGPRegressor(random_state=0).fit(X, y)
    weighed = (X * model.feature_weights_).sum(axis=1)
    assert_close(model.intercept_variance_, 3.0 * weighed.mean(), 1e-12)


def test_a_row_of_zeros_is_predicted_as_its_neighbours_say(rng):
    X = rng.random((400, 2)) ** 3
    y = 10.0 + 5.0 * np.exp(-8.0 * X[:, 0]) + 0.01 * rng.standard_normal(400)
    near = abs(IntersectionGPRegressor(random_state=0).fit(X, y).predict([[0.0, 0.0]])[0] - 15.0)
    far = abs(
        IntersectionGPRegressor(Intersection(intercept_variance=0), random_state=0)
        .fit(X, y)
        .predict([[0, 0]])[0]
        - 15.0
    )
    assert near < 0.1 < 1.0 < far


def test_rows_of_zeros_alone(rng):
    model = IntersectionGPRegressor(random_state=0).fit(np.zeros((10, 3)), np.arange(10.0))
    assert model.intercept_variance_ == 0.0
    assert_close(model.predict(np.ones((1, 3))), [4.5], 1e-9)


def test_smooth_functions_and_coordinate_descent_go_without(rng):
    X, y = data(rng)
    for other in ({"smoothness": "cubic"}, {"solver": "coordinate-descent"}):
        assert build(IntersectionGPRegressor, **other).fit(X, y).intercept_variance_ == 0.0
    with pytest.raises(ValueError, match="intercept_variance"):
        IntersectionGPRegressor(
            Intersection(intercept_variance=1.0), solver="coordinate-descent", random_state=0
        ).fit(X, y)


def test_classes_have_a_bias_of_their_own(rng):
    X, y = data(rng)
    labels = y > np.median(y)
    model = IntersectionGPClassifier(likelihood="bernoulli", random_state=0).fit(X, labels)
    assert model.intercept_variance_ == 0.0
    asked = IntersectionGPClassifier(Intersection(intercept_variance=1.0), random_state=0)
    assert asked.fit(X, labels).likelihood_ == "gaussian"
    with pytest.raises(ValueError, match="intercept_variance"):
        asked.set_params(likelihood="bernoulli").fit(X, labels)


@each("variance", [-1.0, np.nan, np.inf, "large"])
def test_it_is_no_negative_or_infinite_number(rng, variance):
    with pytest.raises(ValueError, match="intercept_variance"):
        IntersectionGPRegressor(Intersection(intercept_variance=variance), random_state=0).fit(
            *data(rng)
        )
