"""Gaussian processes with the MinMax kernel against their definition."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from histrs.gaussian_process import MinMaxGPRegressor
from histrs.gaussian_process._bound import all_pairs as system
from histrs.gaussian_process.kernels import Constant, MinMax
from tests.helpers import assert_close, assert_slope
from tests.oracles import intersection, minmax

pytestmark = pytest.mark.simd_paths

NOISE, AMPLITUDE, WEIGHT = 0.2, 1.5, 0.3


def given(weight, amplitude=AMPLITUDE):
    """Return parameters of a fit that learns nothing."""
    kernel = Constant(amplitude) * MinMax(weight, "fixed")
    return {"kernel": kernel, "noise": NOISE, "optimizer": None}


GIVEN = given(0.5)


def counts(rng, n):
    """Return rows of counts, one of which is empty, and a target of their sums and ratios."""
    X = rng.poisson(0.5 * (1 + np.arange(12) % 3), size=(n, 12)).astype(np.float64)
    X[n // 2] = 0.0
    y = 4.0 + X[:, 0] - 2.0 * X[:, 1] / (1.0 + X.sum(axis=1)) + 0.2 * rng.normal(size=n)
    return X, y


def covariance(X, Z, weight, size):
    K = (1.0 - weight) * minmax.minmax_kernel(X, Z)
    return AMPLITUDE * (K + weight / size * intersection.intersection_kernel(X, Z))


@pytest.mark.parametrize("weight", [0, WEIGHT, 1.0])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_predictions_are_their_definition(rng, weight, container):
    (X, y), (X_star, _) = counts(rng, 50), counts(rng, 8)
    model = MinMaxGPRegressor(**given(weight), random_state=0).fit(container(X), y)
    size = X.sum(axis=1).mean()
    A = covariance(X, X, weight, size) + NOISE * np.eye(50)
    k = covariance(X, X_star, weight, size)
    mean = y.mean() + k.T @ np.linalg.solve(A, y - y.mean())
    latent = covariance(X_star, X_star, weight, size) - k.T @ np.linalg.solve(A, k)
    found, cov = model.predict(container(X_star), return_cov=True)
    assert_close(found, mean, 1e-10)
    assert_close(cov, y.var() * (latent + NOISE * np.eye(8)), 1e-9)
    std = model.predict(X_star, return_std=True)[1]
    assert_close(std, np.sqrt(np.diag(cov)), 1e-9)
    assert_close(model.kernel_.mean_sum_, size, 1e-12)
    assert model.kernel_.intersection_weight_ == weight


def test_the_weight_of_largest_likelihood_is_found(rng):
    X, y = counts(rng, 80)
    model = MinMaxGPRegressor(random_state=0).fit(X, y)
    assert len(model.theta_) == 3
    learned = model.log_marginal_likelihood()
    for weight in (0.0, 0.2, 0.5, 0.8, 1.0):
        other = MinMaxGPRegressor(MinMax(weight, "fixed"), random_state=0).fit(X, y)
        assert len(other.theta_) == 2
        assert learned > other.log_marginal_likelihood() - 0.05
    assert_slope(model, np.log([0.1, 0.7, 0.4]), 0.0, 1e-4)
    assert (
        0.001
        < MinMaxGPRegressor(optimizer="nelder-mead", random_state=0)
        .fit(X, y)
        .kernel_.intersection_weight_
        < 0.999
    )


def test_the_kernel_that_targets_come_from_is_found(rng):
    X = rng.poisson(rng.gamma(0.5, size=(150, 1)) * np.ones(10))
    weights = []
    for kernel in (minmax.minmax_kernel(X), intersection.intersection_kernel(X)):
        y = rng.multivariate_normal(np.zeros(150), kernel + 1e-2 * np.eye(150))
        weights.append(MinMaxGPRegressor(random_state=0).fit(X, y).kernel_.intersection_weight_)
    assert weights[0] < 0.3
    assert weights[1] > 0.7


def test_empty_rows_and_constant_targets(rng):
    X, y = counts(rng, 20)
    model = MinMaxGPRegressor(**GIVEN, random_state=0).fit(np.zeros((20, 5)), y)
    assert_close(model.predict(np.zeros((2, 5))), np.full(2, y.mean()), 1e-9)
    assert model.kernel_.mean_sum_ == 1.0
    with pytest.warns(UserWarning, match="y is constant"):
        model = MinMaxGPRegressor(random_state=0).fit(X, np.full(20, 3.0))
    assert_close(model.predict(X), np.full(20, 3.0), 1e-12)


@pytest.mark.parametrize("size", [1e-300, 1e306])
def test_the_mean_of_sums_of_any_size(rng, size):
    X, y = counts(rng, 30)
    X *= size
    model = MinMaxGPRegressor(**GIVEN, random_state=0).fit(X, y)
    assert model.kernel_.mean_sum_ == pytest.approx((X / size).sum(axis=1).mean() * size)


def test_bad_entries_are_named_by_their_place(rng, monkeypatch):
    X, y = counts(rng, 20)
    model = MinMaxGPRegressor(**GIVEN, random_state=0).fit(X, y)
    broken = X.copy()
    broken[17, 2] = -1.0
    # Neither in the part of the rows that is looked at first, nor at its place among those that
    # have weight.
    monkeypatch.setattr(system, "_ENTRIES", 20 * 3)
    weights = (np.arange(20) > 4).astype(float)
    for call in (
        lambda: clone(model).fit(broken, y, weights),
        lambda: clone(model).fit(sparse.csr_array(broken), y),
        lambda: model.partial_fit(broken, y, weights),
        lambda: model.predict(broken),
        lambda: model.predict(sparse.csr_array(broken), return_std=True),
    ):
        with pytest.raises(ValueError, match=r"X\[17, 2\] = -1"):
            call()


def test_variances_that_overflow_are_refused(rng):
    X, y = rng.random((12, 4)), rng.normal(size=12)
    model = MinMaxGPRegressor(1e6 * MinMax(), noise=1e-3, optimizer=None, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(np.full((2, 4), 1e290), return_std=True)[1]).all()
    with pytest.raises(ValueError, match=r"Variances of X\[0\] overflow: scale X down"):
        model.predict(np.full((2, 4), 1e305), return_std=True)
