"""What can be asked of a posterior beside means and standard deviations."""

import pickle

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.exceptions import ConvergenceWarning

from histrs.gaussian_process import IntersectionGPClassifier, IntersectionGPRegressor, Solver
from tests.helpers import PLAIN, assert_close, build_plain, of_terms, standardised
from tests.oracles import intersection as oracle

pytestmark = pytest.mark.simd_paths

NOISE, AMPLITUDE = 0.2, 0.5
SOLVERS = {"cholesky": {"solver": "cholesky"}, "cg": {"solver": "cg", "tol": 1e-10}}
each_solver = pytest.mark.parametrize("solver", SOLVERS.values(), ids=SOLVERS)


@pytest.fixture
def data(rng):
    X, X_star = rng.gamma(1.0, size=(40, 4)), rng.gamma(1.0, size=(7, 4))
    X_star[0] = 0.0
    return X, 3.0 + 10.0 * standardised(np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)), X_star


def fitted(X, y, **options):
    return build_plain(IntersectionGPRegressor, noise=NOISE, amplitude=AMPLITUDE, **options).fit(
        X, y
    )


def exact_covariance(X, X_star):
    """Return the predictive covariance of targets of variance 1, by definition."""
    K, k, prior = (
        AMPLITUDE * oracle.intersection_kernel(A, B)
        for A, B in [(X, X), (X, X_star), (X_star, X_star)]
    )
    inverse = np.linalg.inv(K + NOISE * np.eye(len(K)))
    return prior - k.T @ inverse @ k + NOISE * np.eye(len(X_star))


@each_solver
def test_covariance_is_its_definition(data, solver):
    X, y, X_star = data
    model = fitted(X, y, **solver)
    mean, covariance = model.predict(X_star, return_cov=True)
    np.testing.assert_array_equal(mean, model.predict(X_star))
    assert_close(covariance, 100.0 * exact_covariance(X, X_star), 1e-6)
    _, std = model.predict(X_star, return_std=True)
    assert_close(np.sqrt(np.diag(covariance)), std, 1e-6)


def test_covariances_of_several_targets(data):
    X, y, X_star = data
    expected = exact_covariance(X, X_star)
    for options in ({}, {"shared_hyperparameters": True}):
        model = fitted(X, np.column_stack([y, -7.0 * y]), **options)
        _, covariance = model.predict(X_star, return_cov=True)
        assert covariance.shape == (7, 7, 2)
        assert_close(covariance[:, :, 0], 100.0 * expected, 1e-9)
        assert_close(covariance[:, :, 1], 4900.0 * expected, 1e-9)
        draws = model.sample_y(X_star, 9, random_state=1)
        assert draws.shape == (7, 2, 9)
        assert_close(draws[:, 0], fitted(X, y).sample_y(X_star, 9, random_state=1), 1e-6)
    noise, amplitude = [NOISE, 3.0], [AMPLITUDE, 0.1]
    model.set_params(**of_terms(**{**PLAIN, "noise": noise, "amplitude": amplitude}))
    mean, covariance = model.fit(X, np.column_stack([y, -7.0 * y])).predict(X_star, return_cov=True)
    assert_close(covariance[:, :, 0], 100.0 * expected, 1e-9)
    alone = (
        fitted(X, y)
        .set_params(**of_terms(**{**PLAIN, "noise": 3.0, "amplitude": 0.1}))
        .fit(X, -7.0 * y)
    )
    for of_second, of_one in zip((mean[:, 1], covariance[:, :, 1]),
                                 alone.predict(X_star, return_cov=True), strict=True):  # fmt: skip
        assert_close(of_second, of_one, 1e-9)
    assert_close(
        model.sample_y(X_star, 9, random_state=1)[:, 0],
        fitted(X, y).sample_y(X_star, 9, random_state=1),
        1e-6,
    )
    assert_close(covariance[:, :, 0], 100.0 * exact_covariance(X, X_star), 1e-6)


def test_samples_have_the_posterior_moments(data):
    X, y, X_star = data
    model = fitted(X, y)
    samples = model.sample_y(X_star, 20_000, random_state=0)
    mean, covariance = model.predict(X_star, return_cov=True)
    spread = np.sqrt(np.diag(covariance))
    assert (np.abs(samples.mean(axis=1) - mean) < 5 * spread / np.sqrt(20_000)).all()
    error = np.abs(np.cov(samples) - covariance) / np.outer(spread, spread)
    assert error.max() < 0.05
    np.testing.assert_array_equal(samples, model.sample_y(X_star, 20_000, random_state=0))
    assert fitted(X, np.column_stack([y, y])).sample_y(X_star, 3).shape == (7, 2, 3)


def test_quantiles_are_those_of_the_normal_distribution(data):
    X, y, X_star = data
    model = fitted(X, y)
    mean, std = model.predict(X_star, return_std=True)
    same, quantiles = model.predict(X_star, return_quantiles=[0.025, 0.5, 0.9])
    np.testing.assert_array_equal(same, mean)
    for column, p in zip(quantiles.T, [0.025, 0.5, 0.9], strict=True):
        np.testing.assert_allclose(column, stats.norm.ppf(p, mean, std))
    both = fitted(X, np.column_stack([y, 2 * y]))
    two = both.predict(X_star, return_quantiles=[0.1, 0.2])[1]
    assert two.shape == (7, 2, 2)
    mean, std = both.predict(X_star, return_std=True)
    np.testing.assert_allclose(two[:, 1], stats.norm.ppf(0.2, mean, std))
    one = model.predict(X_star, return_quantiles=0.9)[1]
    np.testing.assert_array_equal(one, quantiles[:, 2:])


WRONG = {
    "probabilities between 0 and 1": [
        {"return_quantiles": wrong} for wrong in (0.0, 1.0, -0.1, np.nan, [[0.5]])
    ],
    "one of return_std, return_cov": [
        {"return_std": True, "return_cov": True},
        {"return_std": True, "return_quantiles": [0.5]},
        {"return_cov": True, "return_quantiles": [0.5]},
    ],
}


def test_what_cannot_be_asked_is_named(data):
    X, y, X_star = data
    model = fitted(X, y)
    for message, options in WRONG.items():
        for asked in options:
            with pytest.raises(ValueError, match=message):
                model.predict(X_star, **asked)
    with pytest.raises(ValueError, match=r'solver="cholesky"'):
        fitted(X, y, solver="cg").predict_leave_one_out()
    for feature in (-1, 4):
        with pytest.raises(ValueError, match=rf"feature {feature} is not one of 0 to 3"):
            model.shape_functions([0, feature])
    assert [function.feature for function in model.shape_functions([3, 0])] == [3, 0]
    X_star[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"X\[3, 1\] = NaN"):
        model.explain(X_star)


@pytest.mark.parametrize("smoothness", ["linear", "both"])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_explanations_have_the_terms_of_shape_functions(rng, smoothness, n_targets):
    X, X_star = rng.random((40, 3)), 1.2 * rng.random((9, 3))
    X_star[0] = 0.0
    Y = 7.0 * rng.normal(size=(40, n_targets))
    model = IntersectionGPRegressor(
        **of_terms(smoothness=smoothness), optimizer=None, random_state=0
    )
    model.fit(X, Y[:, 0] if n_targets == 1 else Y)
    found = model.explain(X_star)
    assert found.pairs.shape == (0, 2)
    assert found.pairs.dtype == np.intp
    shape = (9, 3) if n_targets == 1 else (9, 3, 2)
    assert found.values.shape == found.std.shape == shape
    assert np.shape(found.offset) == shape[2:]
    assert_close(found.values.sum(axis=1) + found.offset, model.predict(X_star), 1e-9)
    if smoothness == "linear":
        # Where a feature is 0 it adds 0 for certain.
        np.testing.assert_array_equal(found.values[0], 0.0)
        np.testing.assert_array_equal(found.std[0], 0.0)
    of_sparse = model.explain(sparse.csr_array(X_star))
    for ours, theirs in zip(found[1:5], of_sparse[1:5], strict=True):
        assert_close(theirs, ours, 1e-9)
    for d, function in enumerate(model.shape_functions(return_std=True)):
        rows = np.zeros((len(function.knots), 3))
        rows[:, d] = function.knots
        terms = model.explain(rows)
        assert_close(terms.values[:, d], function.values, 1e-9)
        assert_close(terms.std[:, d], function.std, 1e-6)
        # Other features do not matter to it.
        rows = np.zeros((9, 3))
        rows[:, d] = X_star[:, d]
        assert_close(model.explain(rows).values[:, d], found.values[:, d], 1e-9)


def test_explanations_of_classes_and_frames(data):
    pd = pytest.importorskip("pandas")
    X, y, X_star = data
    names = ["a", "b", "c", "d"]
    model = build_plain(IntersectionGPClassifier).fit(
        pd.DataFrame(X, columns=names), np.digitize(y, np.quantile(y, [0.3, 0.7]))
    )
    found = model.explain(pd.DataFrame(X_star, columns=names))
    assert found.names.tolist() == names
    assert found.values.shape == (7, 4, 3)
    mean, _ = model.latent_mean_and_variance(pd.DataFrame(X_star, columns=names))
    np.testing.assert_allclose(found.values.sum(axis=1) + found.offset, mean, atol=1e-12)


def test_terms_whose_variance_is_not_solved_are_counted(data):
    X, y, _ = data
    model = fitted(X, y, solver="cg", preconditioner=None)
    model.set_params(solver=Solver("cg", max_iter=1, preconditioner=None))
    model = pickle.loads(pickle.dumps(model))
    # The term of 0, one of the knots, is solved without iterations.
    with pytest.warns(ConvergenceWarning, match="The variance of 4 rows did not"):
        (function,) = model.shape_functions([0], max_knots=5, return_std=True)
    assert len(function.knots) == 5
