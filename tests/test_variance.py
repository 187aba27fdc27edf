"""Bounds of the posterior variance against their equations, and that they bound."""

import itertools
import pickle
import warnings
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    MinMaxGPRegressor,
)
from histrs.gaussian_process._posterior import variance as variance_module
from histrs.gaussian_process.kernels import Intersection, Splines
from histrs.testing import histograms
from tests.helpers import (
    CONTAINERS,
    PLAIN,
    ExactGP,
    assert_close,
    awkward_histograms,
    build,
    build_plain,
    dense,
    of_terms,
)
from tests.oracles import intersection as oracle

pytestmark = pytest.mark.simd_paths


def fit(X, noise=0.1, amplitude=1.0, **parameters):
    y = np.sin(1.0 + np.arange(len(dense(X))))
    parameters = {**PLAIN, "noise": noise, "amplitude": amplitude, "tol": 1e-10, **parameters}
    return build(IntersectionGPRegressor, **parameters).fit(X, y)


def variance(model, X, name, **parameters):
    """The latent variance of a fitted model by another method, for a target of variance 1."""
    found = model.set_params(**of_terms(variance=name, **parameters)).latent_mean_and_variance(X)[1]
    return found / model.y_std_**2


def fine_by_definition(X, X_star, noise, k):
    """Eq. 29 from all eigenpairs."""
    K = oracle.intersection_kernel(X) + noise * np.eye(len(X))
    xi, V = np.linalg.eigh(K)
    xi, V = xi[::-1], V[:, ::-1]
    k_star = oracle.intersection_kernel(X, X_star)
    squares = (V[:, :k].T @ k_star) ** 2
    left = (k_star**2).sum(axis=0) - squares.sum(axis=0)
    rest = left / xi[k] if k < len(X) else 0.0
    return X_star.sum(axis=1) - (squares / xi[:k, None]).sum(axis=0) - rest


def coarse_by_definition(X, X_star, noise, c=0.0, w=1.0):
    """Eqs. 30 and 32, with an intercept of variance `c`, and weights of rows."""
    w = w * np.ones(len(X))
    K = np.sqrt(np.outer(w, w)) * (oracle.intersection_kernel(X) + c) + noise * np.eye(len(X))
    squares = oracle.intersection_kernel(X**2, X_star**2)
    squares += 2.0 * c * oracle.intersection_kernel(X, X_star) + c**2
    return X_star.sum(axis=1) + c - w @ squares / np.linalg.eigvalsh(K)[-1]


@pytest.mark.parametrize(
    ("k", "container"), [*((7, name) for name in CONTAINERS), (1, "C"), (2, "C"), (40, "C")]
)
def test_fine_is_its_definition(rng, k, container):
    X, X_star = rng.random((40, 6)), rng.random((15, 6))
    model = fit(CONTAINERS[container](X), noise=0.2)
    found = variance(model, CONTAINERS[container](X_star), "fine", n_eigenvectors=k)
    scale = X_star.sum(axis=1)
    expected = fine_by_definition(X.astype(float), X_star, 0.2, k)
    assert_close(found / scale, expected / scale, 1e-6)


def test_fine_by_lanczos_is_its_definition(rng, monkeypatch):
    monkeypatch.setattr(variance_module, "_DENSE_ROWS", 0)
    X, X_star = rng.random((120, 6)), rng.random((15, 6))
    found = variance(fit(X, noise=0.2), X_star, "fine", n_eigenvectors=5)
    expected = fine_by_definition(X, X_star, 0.2, 5)
    assert np.all(found >= expected - 1e-9)
    np.testing.assert_allclose(found, expected, rtol=2e-2)


@pytest.mark.parametrize("error", [1e-3, 0.01, 0.03, 0.1])
def test_fine_is_above_with_eigenvectors_that_are_off(rng, monkeypatch, error):
    """What eigenvalues are off by, of which the residual tells, is added to them."""
    X = rng.random((120, 6))
    K = oracle.intersection_kernel(X)
    vectors = np.linalg.eigh(K)[1][:, :-7:-1]
    vectors = np.linalg.qr(vectors + error / 11 * rng.normal(size=vectors.shape))[0]
    values = np.einsum("ij,ij->j", vectors, K @ vectors)
    monkeypatch.setattr(variance_module, "_leading_eigenpairs", lambda *_: (values, vectors))
    exact = ExactGP.of(X, np.zeros((120, 1)), 0.01).latent_variance(X)
    model = fit(X, noise=0.01)
    assert np.all(variance(model, X, "fine", n_eigenvectors=5) >= exact - 1e-9)
    fine = variance_module.FineVariance(model._posterior.system, 5)
    residuals = np.linalg.norm(K @ vectors - vectors * values, axis=0)
    residual = np.linalg.norm(residuals[:5])
    largest = np.linalg.eigvalsh(K)[-1]
    added = np.append(fine._upper, fine._rest) - 0.01
    np.testing.assert_allclose(
        added[1:], np.minimum(values + residuals + residual, largest)[1:], rtol=1e-6
    )
    # The largest eigenvalue is known without.
    assert largest <= added[0] <= 1.001 * largest


@pytest.mark.parametrize("container", CONTAINERS)
def test_coarse_is_its_definition(rng, container):
    X, X_star = rng.random((40, 6)), 1.5 * rng.random((15, 6))
    model = fit(CONTAINERS[container](X), noise=0.2)
    found = variance(model, CONTAINERS[container](X_star), "coarse")
    expected = coarse_by_definition(X, X_star, 0.2)
    assert np.all(found >= expected - 1e-9)
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    tabulated = variance(model, CONTAINERS[container](X_star), "coarse-quantized", n_bins=300)
    assert np.all(tabulated >= found - 1e-9)
    np.testing.assert_allclose(tabulated, found, rtol=0.02)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("c", [0.0, 0.7, 3.0])
def test_coarse_with_an_intercept_and_weights_is_its_definition(rng, c, weighted):
    X, X_star = rng.random((40, 6)), 1.5 * rng.random((15, 6))
    w = rng.choice([0.1, 1.0, 3.0], 40) if weighted else np.ones(40)
    model = build(IntersectionGPRegressor, **{**PLAIN, "intercept_variance": c}, noise=0.2).fit(
        X, np.sin(np.arange(40)), sample_weight=w
    )
    expected = coarse_by_definition(X, X_star, 0.2, c, w)
    for name, parameters in [("coarse", {}), ("coarse-quantized", {"n_bins": 5000})]:
        found = variance(model, X_star, name, **parameters)
        assert np.all(found >= expected - 1e-9)
        np.testing.assert_allclose(found, expected, rtol=3e-3)


def test_tables_are_for_the_quantized_bound_alone(rng):
    X, X_star = rng.random((300, 2)), rng.random((15, 2))
    model = fit(X)
    exact = variance(model, X_star, "coarse", n_bins=None)
    np.testing.assert_array_equal(variance(model, X_star, "coarse", n_bins=3), exact)
    by_default = variance(model, X_star, "coarse-quantized", n_bins=None)
    hundred = variance(model, X_star, "coarse-quantized", n_bins=variance_module.DEFAULT_BINS)
    np.testing.assert_array_equal(by_default, hundred)
    assert np.all(exact < by_default)
    assert np.all(by_default < variance(model, X_star, "coarse-quantized", n_bins=3))


@pytest.mark.parametrize("dense_rows", [0, variance_module._DENSE_ROWS])
@given(data=st.data())
def test_bounds_are_above_and_in_order(dense_rows, data):
    n_columns = data.draw(st.integers(1, 12))
    kinds = {"dtype": st.sampled_from([np.float32, np.float64]), "format": "any"}
    scale = data.draw(st.sampled_from([1.0, "tiny", "huge", "mixed"]))
    X = data.draw(histograms((1, 30), n_columns, normalize="max", scale=scale, **kinds))
    X_star = data.draw(histograms((1, 9), n_columns, normalize="l1", **kinds))
    noise = data.draw(st.sampled_from([1e-3, 0.1, 10.0]))
    model = fit(X, noise=noise, solver="cholesky")
    exact = ExactGP.of(X, np.zeros((X.shape[0], 1)), noise).latent_variance(X_star)
    # With Lanczos, or without where there are no more rows than twice the eigenvectors.
    with mock.patch.object(variance_module, "_DENSE_ROWS", dense_rows):
        bounds = [
            variance(model, X_star, "coarse-quantized"),
            variance(model, X_star, "coarse"),
            variance(model, X_star, "fine", n_eigenvectors=2),
            variance(model, X_star, "fine", n_eigenvectors=8),
            variance(model, X_star, "fine", n_eigenvectors=30),
            exact,
        ]
    prior = dense(X_star).astype(float).sum(axis=1)
    for larger, smaller in itertools.pairwise(bounds):
        assert np.all(larger >= smaller - 1e-9 * prior.max())
    assert np.all(np.abs(bounds[-2] - exact) <= 1e-6 * prior.max())


@pytest.mark.parametrize("name", ["fine", "coarse", "coarse-quantized"])
def test_rows_without_entries_say_nothing_of_others(name, monkeypatch):
    monkeypatch.setattr(variance_module, "_DENSE_ROWS", 0)
    model = fit(np.zeros((20, 3)))
    found = variance(model, [[0.0, 0.0, 0.0], [1.0, 0.5, 0.0]], name)
    np.testing.assert_allclose(found, [0.0, 1.5], rtol=1e-12)


@pytest.mark.parametrize("name", ["fine", "coarse", "coarse-quantized"])
def test_amplitude_and_weights_count(rng, name):
    X, X_star = awkward_histograms(rng, 40), awkward_histograms(rng, 9)
    weights = 1.0 + np.arange(X.shape[1])
    weighted = fit(X, 0.3, 2.0, feature_weights=weights, feature_transform="power", exponent=2.0)
    plain = fit(weights * X**2, 0.3, 2.0)
    found, expected = variance(weighted, X_star, name), variance(plain, weights * X_star**2, name)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    scaled = fit(2.0 * weights * X**2, 0.3, 1.0)
    np.testing.assert_allclose(variance(scaled, 2.0 * weights * X_star**2, name), expected, 1e-6)


@pytest.mark.parametrize("name", ["fine", "coarse", "coarse-quantized"])
def test_everything_that_needs_a_variance_uses_it(rng, name):
    X, y = load_digits(n_class=4, return_X_y=True)
    model = IntersectionGPClassifier(
        Intersection(feature_weights=None, intercept_variance=0.0),
        noise=3.0,
        variance=name,
        optimizer=None,
        calibration=None,
        random_state=0,
    ).fit(X[:300], y[:300])
    latent = model.latent_mean_and_variance(X[300:])[1]
    np.testing.assert_allclose(model.predict(X[300:], return_std=True)[1] ** 2, latent + 3.0)
    exact = build_plain(IntersectionGPClassifier, noise=3.0, calibration=None).fit(X[:300], y[:300])
    assert np.all(latent >= exact.latent_mean_and_variance(X[300:])[1])
    probabilities = model.predict_proba(X[300:])
    assert probabilities.max(axis=1).mean() < exact.predict_proba(X[300:]).max(axis=1).mean()
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(copy.predict_proba(X[300:]), probabilities)
    with pytest.raises(ValueError, match="variance"):
        model.set_params(variance="finest").fit(X[:300], y[:300])


# ---- certified bounds of standard deviations -----------------------------------------------------


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
