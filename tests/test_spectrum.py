"""Likelihoods of one kernel matrix under every noise and amplitude, against dense algebra."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize, stats

from histrs.gaussian_process._learning.hyperparameters import Scales
from histrs.gaussian_process._learning.spectrum import (
    ExactSpectrum,
    LanczosSpectrum,
    profiled_costs,
)

each = pytest.mark.parametrize
SCALES = [Scales(0.3, 1.7), Scales(2.0, 0.01)]


@pytest.fixture
def problem(rng):
    X = rng.random((24, 5))
    return np.minimum(X[:, None], X[None]).sum(axis=2), rng.normal(size=(24, 3))


def system_of(K):
    """Return a matrix that is only multiplied or copied."""
    return SimpleNamespace(kernel_matrix=K.copy, product=lambda V: K @ V)


def log_density(K, Y, values):
    covariance = values.amplitude * K + values.noise * np.eye(len(K))
    return stats.multivariate_normal(cov=covariance).logpdf(Y.T).sum()


@each("values", SCALES)
@each("outputs", [slice(0, 3), slice(1, 2)])
def test_all_eigenvalues_give_the_density_and_its_slopes(problem, values, outputs):
    K, Y = problem
    found = ExactSpectrum(system_of(K), Y, log_jacobian=0.7).evaluate(values, outputs)
    n_outputs = outputs.stop - outputs.start
    assert found.value == pytest.approx(log_density(K, Y[:, outputs], values) + 0.7 * n_outputs)
    assert found.std == 0.0
    slopes = optimize.approx_fprime(
        np.log([values.noise, values.amplitude]),
        lambda theta: log_density(K, Y[:, outputs], Scales(*np.exp(theta))),
        epsilon=1e-6,
    )
    gradient = [found.gradient["noise"], found.gradient["amplitude"]]
    np.testing.assert_allclose(gradient, slopes, rtol=1e-4, atol=1e-4)


@each("kind", [ExactSpectrum, LanczosSpectrum])
@each("outputs", [slice(0, 3), slice(2, 3)])
def test_the_best_amplitude_has_the_largest_density(problem, kind, outputs):
    K, Y = problem
    spectrum = (
        kind(system_of(K), Y, np.random.default_rng(0))
        if kind is LanczosSpectrum
        else kind(system_of(K), Y)
    )
    best = spectrum.best_amplitude(0.4, outputs)
    densities = [
        log_density(K, Y[:, outputs], Scales(0.4 * a, a)) for a in (0.99 * best, best, 1.01 * best)
    ]
    assert densities[1] == max(densities)


def test_quadratures_are_refined_by_half_as_many_steps_until_nothing_is_left(rng):
    X = rng.random((150, 8))
    K = np.minimum(X[:, None], X[None]).sum(axis=2)
    Y = rng.normal(size=(150, 1))
    spectrum = LanczosSpectrum(system_of(K), Y, rng)
    exact = ExactSpectrum(system_of(K), Y)
    lengths, errors = [len(spectrum.data[0].nodes)], []
    while True:
        form, expected = (one.data[0].inverse(1e-3) for one in (spectrum, exact))
        errors.append(abs(form - expected) / expected)
        if not spectrum.refine():
            break
        lengths.append(len(spectrum.data[0].nodes))
    assert lengths == [32, 48, 72, 108, 150]
    assert errors[-1] < 1e-3 < errors[0]
    assert not exact.refine()


@each("unit", [1.0, 1e-200, 1e200])
def test_profiled_costs_are_densities_at_the_best_amplitude(problem, unit):
    K, Y = problem
    nodes, Q = np.linalg.eigh(K)
    ratios = np.array([0.01, 0.3, 5.0])
    costs = profiled_costs(unit * nodes, (Q.T @ Y) ** 2, unit * ratios)
    assert costs.shape == (3, 3)
    spectrum = ExactSpectrum(system_of(K), Y)
    for k in range(3):
        best = [spectrum.best_amplitude(s, slice(k, k + 1)) for s in ratios]
        densities = [
            log_density(K, Y[:, k : k + 1], Scales(s * a, a))
            for s, a in zip(ratios, best, strict=True)
        ]
        np.testing.assert_allclose(np.diff(costs[:, k]), -2.0 * np.diff(densities), rtol=1e-6)
    # Targets that share a noise have sums of squares.
    shared = profiled_costs(nodes, np.sum((Q.T @ Y) ** 2, axis=1, keepdims=True), ratios)
    assert shared.shape == (3, 1)


def test_profiled_costs_of_a_kernel_of_zeros_are_those_of_noise():
    costs = profiled_costs(np.zeros(4), np.ones((4, 1)), np.array([1.0, 10.0]))
    np.testing.assert_allclose(costs[0], costs[1])
