"""Standard deviations lie between their certified bounds."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from histrs.gaussian_process import IntersectionGPRegressor, MinMaxGPRegressor
from histrs.gaussian_process.kernels import Splines
from tests.helpers import ExactGP, build_plain


def _histograms(rng, n, d=7):
    X = rng.gamma(0.7, size=(n, d)) * (rng.random((n, d)) < 0.8)
    return X, np.sin(3 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


def _exact_std(model, X_train, y, X):
    """Return predictive standard deviations from the dense kernel."""
    exact = ExactGP.of(X_train, y[:, None], model.noise_, model.amplitude_)
    return np.sqrt(exact.latent_variance(X) + model.noise_) * model.y_std_


@pytest.mark.parametrize("solver", ["cg", "cholesky", "coordinate-descent"])
@pytest.mark.parametrize("noise", [1e-4, 0.03, 10.0])
@pytest.mark.parametrize("rtol", [0.5, 0.01, 1e-5])
def test_exact_deviations_are_between_the_bounds(rng, solver, noise, rtol):
    X, y = _histograms(rng, 163)
    model = build_plain(
        IntersectionGPRegressor, noise=noise, solver=solver, max_iter=5000, amplitude=0.7
    ).fit(X[:120], y[:120])
    lower, upper = model.std_bounds(X[120:], rtol)
    exact = _exact_std(model, X[:120], y[:120], X[120:])
    assert np.all(lower <= exact * (1 + 1e-9))
    assert np.all(exact <= upper * (1 + 1e-9))
    assert np.all(upper <= lower * (1 + rtol) * (1 + 1e-9))


def test_bounds_hold_where_they_are_not_near(rng):
    X, y = _histograms(rng, 163)
    model = build_plain(
        IntersectionGPRegressor, noise=1e-5, solver="cg", preconditioner=None, max_iter=1
    )
    with pytest.warns(ConvergenceWarning):
        model.fit(X[:120], y[:120])
    with pytest.warns(ConvergenceWarning, match=r"bounds of \d rows hold") as caught:
        lower, upper = model.std_bounds(X[160:], 0.01)
    exact = _exact_std(model, X[:120], y[:120], X[160:])
    assert np.all((lower <= exact * (1 + 1e-9)) & (exact <= upper * (1 + 1e-9)))
    far = np.sum(upper > 1.01 * lower)
    assert far > 1
    assert f"bounds of {far} rows" in str(caught[0].message)


def test_bounds_of_more_rows_than_are_solved_at_a_time_and_of_csr(rng):
    X, y = _histograms(rng, 230)
    model = build_plain(IntersectionGPRegressor, noise=0.1, solver="cg").fit(X[:60], y[:60])
    bounds = model.std_bounds(X[60:])
    exact = _exact_std(model, X[:60], y[:60], X[60:])
    assert np.all((bounds[0] <= exact * (1 + 1e-9)) & (exact <= bounds[1] * (1 + 1e-9)))
    alike = model.std_bounds(sparse.csr_array(X[60:]))
    np.testing.assert_allclose(alike, bounds, rtol=1e-3)


@pytest.mark.parametrize("name", ["intersection", "smooth", "minmax"])
def test_every_regressor_has_bounds_around_its_exact_deviations(rng, name):
    X, y = _histograms(rng, 100)
    Y = np.column_stack([y, 100 * X[:, 2] + rng.normal(size=100)])
    model = {
        "intersection": IntersectionGPRegressor(variance="exact", random_state=0),
        "smooth": IntersectionGPRegressor(Splines(), random_state=0),
        "minmax": MinMaxGPRegressor(random_state=0),
    }[name].fit(X[:80], Y[:80])
    lower, upper = model.std_bounds(X[80:])
    _, std = model.predict(X[80:], return_std=True)
    assert lower.shape == upper.shape == std.shape == (20, 2)
    assert np.all((lower <= std * (1 + 1e-7)) & (std <= upper * (1 + 1e-7)))
    assert np.all(upper <= 1.01 * lower)


@pytest.mark.parametrize("rtol", [0.0, -1.0, np.nan])
def test_a_gap_must_be_positive(rng, rtol):
    X, y = _histograms(rng, 20)
    model = IntersectionGPRegressor(optimizer=None, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="rtol"):
        model.std_bounds(X, rtol)


@pytest.mark.parametrize("noise", [1e-6, 1e-10, 1e-12])
def test_rounding_is_counted_where_noise_hardly_is_there(rng, noise):
    """Thirty rows, each ten times: as one row with a tenth of the noise."""
    X = rng.gamma(0.7, size=(30, 5))
    y = rng.normal(size=30)
    model = build_plain(IntersectionGPRegressor, noise=noise, solver="cg", max_iter=3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(np.repeat(X, 10, axis=0), np.repeat(y, 10))
        lower, upper = model.std_bounds(X)
    values, vectors = np.linalg.eigh(np.minimum(X[:, None], X[None]).sum(axis=2))
    left = noise / 10.0
    variance = np.einsum("ij,j->i", vectors**2, values * left / (values + left))
    exact = np.sqrt(variance + noise) * model.y_std_
    assert np.all((lower <= exact * (1 + 1e-9)) & (exact <= upper * (1 + 1e-9)))
