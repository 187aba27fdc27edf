"""The oracles against each other, against scikit-learn, and against examples solved by hand."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Kernel

from tests.oracles import intersection as oracle


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def data(rng):
    """Histograms with ties, zeros, a zero column and a zero row, and weights for two outputs."""
    X = rng.integers(0, 6, size=(23, 7)) * rng.random(7)
    X[:, 3] = 0.0
    X[5] = 0.0
    X_star = np.vstack([X[:4], rng.random((9, 7)) * 7.0, np.zeros((1, 7))])
    return X, X_star, rng.normal(size=(23, 2))


def test_kernel_by_hand():
    X = np.array([[0.0, 2.0, 1.0], [3.0, 1.0, 1.0]])
    Y = np.array([[1.0, 1.0, 1.0]])
    np.testing.assert_array_equal(oracle.intersection_kernel(X), [[3.0, 2.0], [2.0, 5.0]])
    np.testing.assert_array_equal(oracle.intersection_kernel(X, Y), [[2.0], [3.0]])
    np.testing.assert_array_equal(oracle.intersection_kernel(sparse.csr_array(X), Y), [[2], [3]])


def test_kernel_is_half_of_mass_less_distance(data):
    # min(a, b) = (a + b - |a - b|) / 2
    X, X_star, _ = data
    mass = X_star.sum(axis=1)[:, None] + X.sum(axis=1)[None, :]
    distance = np.abs(X_star[:, None, :] - X[None, :, :]).sum(axis=2)
    np.testing.assert_allclose(oracle.intersection_kernel(X_star, X), (mass - distance) / 2)


def test_products_are_the_kernel_times_v(data):
    X, X_star, V = data
    K, K_star = oracle.intersection_kernel(X), oracle.intersection_kernel(X_star, X)
    np.testing.assert_allclose(oracle.kernel_product(X, V), K @ V, rtol=1e-12)
    np.testing.assert_allclose(oracle.cross_product(X_star, X, V[:, 0]), K_star @ V[:, 0], 1e-12)
    assert (np.abs(K_star @ V) <= oracle.cross_product_scale(X_star, X, V) * (1 + 1e-12)).all()


def test_components_sum_to_the_score(data):
    X, X_star, alpha = data
    total = sum(oracle.component(X, alpha, k, X_star[:, k]) for k in range(X.shape[1]))
    np.testing.assert_allclose(total, oracle.cross_product(X_star, X, alpha), atol=1e-12)


def test_nearest_table_by_hand():
    table = oracle.nearest_lookup_table([[4.0], [1.0]], [1.0, 1.0], n_bins=3)
    np.testing.assert_array_equal(table.prototypes, [[0.0, 2.0, 4.0]])
    np.testing.assert_array_equal(table.T, [[0.0, 3.0, 5.0]])
    X_star = np.array([[0.9], [1.0], [2.9], [3.1], [9.0]])
    np.testing.assert_array_equal(oracle.nearest_index(table, X_star).T, [[0, 1, 1, 2, 2]])
    np.testing.assert_array_equal(oracle.nearest_lookup(table, X_star), [0.0, 3.0, 3.0, 5.0, 5.0])
    bound = oracle.nearest_error_bound(table, [1.0, 1.0], X_star)
    np.testing.assert_allclose(bound, [1.8, 2.0, 1.8, 1.8, 0.0])


@pytest.mark.parametrize("n_bins", [2, 3, 10, 100])
def test_nearest_lookup_is_within_its_bound(data, n_bins):
    X, X_star, alpha = data
    table = oracle.nearest_lookup_table(X, alpha, n_bins)
    error = np.abs(oracle.nearest_lookup(table, X_star) - oracle.cross_product(X_star, X, alpha))
    bound = oracle.nearest_error_bound(table, alpha, X_star)
    assert (error <= bound + 1e-12).all()


def test_one_vs_all_targets():
    classes, targets = oracle.one_vs_all_targets(["b", "a", "c", "a"])
    np.testing.assert_array_equal(classes, ["a", "b", "c"])
    expected = [[-1, 1, -1], [1, -1, -1], [-1, -1, 1], [1, -1, -1]]
    np.testing.assert_array_equal(targets, expected)


def test_gp_by_hand():
    # K + noise I = [[3, 1], [1, 3]], whose inverse is [[3, -1], [-1, 3]] / 8.
    fit = oracle.gp_fit([[2.0, 1.0], [1.0, 2.0]], [1.0, -1.0], noise=1.0)
    np.testing.assert_allclose(fit.alpha, [0.5, -0.5])
    np.testing.assert_allclose(oracle.gp_mean(fit, [[2.0, 1.0]]), [0.5])
    np.testing.assert_allclose(oracle.gp_latent_variance(fit, [[2.0, 1.0]], [2.0]), [2 - 11 / 8])
    # y^T alpha = 1 and det = 8
    expected = 0.5 + np.log(8) / 2 + np.log(2 * np.pi)
    np.testing.assert_allclose(oracle.gp_negative_log_likelihood(fit, [1.0, -1.0]), expected)


class Intersection(Kernel):
    """The intersection kernel for scikit-learn."""

    def __init__(self):
        pass

    def __call__(self, X, Y=None, eval_gradient=False):
        K = oracle.intersection_kernel(X, Y)
        return (K, np.empty((*K.shape, 0))) if eval_gradient else K

    def diag(self, X):
        return X.sum(axis=1)

    def is_stationary(self):
        return False


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_gp_is_scikit_learns(data, n_outputs):
    X, X_star, Y = data
    Y = Y[:, 0] if n_outputs == 1 else Y
    noise = 0.3
    peer = GaussianProcessRegressor(Intersection(), alpha=noise, optimizer=None).fit(X, Y)
    mean, std = peer.predict(X_star, return_std=True)

    fit = oracle.gp_fit(oracle.intersection_kernel(X), Y, noise)
    K_star = oracle.intersection_kernel(X_star, X)
    prior = oracle.intersection_kernel(X_star).diagonal()
    np.testing.assert_allclose(oracle.gp_mean(fit, K_star), mean, rtol=1e-8, atol=1e-10)
    variance = oracle.gp_latent_variance(fit, K_star, prior)
    np.testing.assert_allclose(
        np.broadcast_to(variance, std.T.shape), std.T**2, rtol=1e-8, atol=1e-10
    )
    likelihood = oracle.gp_negative_log_likelihood(fit, Y).sum()
    np.testing.assert_allclose(likelihood, -peer.log_marginal_likelihood_value_)
