"""The constant beside the kernel of classes, in what a posterior says of functions of rows."""

import numpy as np
import pytest

from histrs.gaussian_process import IntersectionGPClassifier
from histrs.gaussian_process._posterior.functions import Minima
from tests.helpers import PLAIN, assert_close, of_terms
from tests.oracles.intersection import intersection_kernel

# The prior variance of the constant.
BIAS = 4.0


@pytest.fixture
def fitted(rng):
    X = rng.gamma(1.0, size=(60, 3))
    y = (np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=60) > 1.0).astype(int)
    model = IntersectionGPClassifier(
        **of_terms(
            **{**PLAIN, "intercept_variance": "auto", "amplitude": 0.7, "solver": "cholesky"},
            likelihood="bernoulli",
            calibration=None,
            random_state=0,
        )
    )
    return X, model.fit(X, y)


def exactly(X, posterior, rows, prior):
    """Return the covariance of functions of rows to which the constant adds as much as `prior`."""
    (system,), (amplitude,) = posterior.systems, posterior.amplitude
    noise = amplitude * system.s / system.row_scale**2
    K, k, own = (
        amplitude * intersection_kernel(A, B) for A, B in ((X, X), (rows, X), (rows, rows))
    )
    k += BIAS * prior
    A = K + BIAS + np.diag(noise)
    return own + BIAS * prior**2 - k @ np.linalg.solve(A, k.T)


def test_the_covariance_of_rows_has_the_constant(rng, fitted):
    X, model = fitted
    posterior = model._posterior
    assert posterior.of_bias
    T = np.vstack([rng.gamma(1.0, size=(6, 3)), np.zeros(3)])
    expected = exactly(X, posterior, T, 1.0)
    assert_close(posterior.latent_covariance(T)[0], expected, 1e-8)
    for method in ("exact", "auto"):
        found = posterior.latent_variance(T, method, None, 10)
        assert_close(found[:, 0], np.diag(expected), 1e-8)


def test_the_variance_of_a_feature_has_what_the_constant_leaves(rng, fitted):
    X, model = fitted
    for d in range(3):
        rows = np.zeros((5, 3))
        rows[:, d] = rng.gamma(1.0, size=5)
        rows[0, d] = 0.0
        expected = np.diag(exactly(X, model._posterior, rows, 0.0))
        found = Minima(model._posterior, model._posterior.additive, 1).features(rows, True)[1]
        assert_close(found[:, 0], expected, 1e-8)
        # Of an entry of 0 nothing is unknown.
        assert abs(found[0, 0]) < 1e-12
