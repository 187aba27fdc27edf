"""What a model of pairs of features is made of, each part against its definition."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse

from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process._bound.pairs import (
    PairKernel,
    PairRows,
    PairTerm,
    knots_of,
)
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._learning import pairs as choice
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters, Scales
from histrs.gaussian_process._learning.likelihood import Likelihood
from histrs.gaussian_process._learning.pairs import (
    HalvesLikelihood,
    scores_without_pairs_of,
    strongest_pairs,
)
from tests.helpers import build
from tests.oracles import interactions as oracle
from tests.oracles.intersection import intersection_kernel

each = pytest.mark.parametrize
PAIRS = np.array([[0, 1], [2, 4], [0, 4]])
WEIGHTS = np.array([0.5, 3.0, 1.0, 2.0, 4.0])


def training_rows():
    """Rows of distinct values, of few values, and of columns of other sizes."""
    rng = np.random.default_rng(0)
    columns = [rng.random(50), rng.integers(0, 3, 50), rng.exponential(9.0, 50)]
    return np.column_stack([*columns, np.full(50, 2.0), rng.random(50)])


def other_rows():
    """Rows within the training rows, and beyond them on either side."""
    return training_rows()[:13] * np.random.default_rng(1).uniform(-0.5, 2.5, (13, 5))


def by_definition(A, B, pairs=PAIRS, n_knots=6):
    X = training_rows()
    knots = [knots_of(column, n_knots) for column in X.T]
    return [oracle.pair_kernel(A, B, X, pair, [knots[d] for d in pair]) for pair in pairs]


# ---- kernels -----------------------------------------------------------------------------------


@each("weights", [None, WEIGHTS])
@each("container", [np.asarray, sparse.csr_array])
def test_a_term_is_its_definition(rng, weights, container):
    X, others = training_rows(), other_rows()
    kernel = PairKernel.of(container(X), PAIRS, 6)
    w = 1.0 if weights is None else weights
    rows, more = (PairRows(kernel, container(A * w), weights) for A in (X, others))
    assert (len(rows), len(more)) == (50, 13)
    term = PairTerm(kernel, 0.3, rows)
    K, k, own = (0.3 * sum(by_definition(A, B)) for A, B in ((X, X), (X, others), (others, others)))
    V = rng.normal(size=(50, 2))
    np.testing.assert_allclose(term.diagonal, np.diag(K))
    np.testing.assert_allclose(term.prior(more), np.diag(own))
    np.testing.assert_allclose(term.product(V), K @ V, atol=1e-12)
    np.testing.assert_allclose(more.cells @ term.cell_values(V), k.T @ V, atol=1e-12)
    np.testing.assert_allclose(term.quadratic_forms(V), np.sum(V * (K @ V), axis=0))
    np.testing.assert_allclose(term.cross(more), k, atol=1e-12)
    np.testing.assert_allclose(term.gram(more), own, atol=1e-12)
    alone = np.column_stack([np.diag(K) for K in by_definition(others, others)])
    np.testing.assert_allclose(more.diagonals, alone, atol=1e-12)


# ---- which pairs there are ---------------------------------------------------------------------


def slow_gains(X, residuals, n_knots):
    """What a histogram of each pair explains, by the matrices of the formula."""
    parts = []
    for column in X.T:
        knots = knots_of(column, n_knots)
        C = oracle.feature_kernel(knots, knots, column, knots)
        position = np.interp(column, knots, np.arange(len(knots)))
        # Of values in the middle, the lesser knot is the nearest.
        parts.append((C, np.ceil(position - 0.5).astype(int)))
    gains = {}
    for i, j in combinations(range(X.shape[1]), 2):
        (C_i, at_i), (C_j, at_j) = parts[i], parts[j]
        H = np.zeros((len(X), len(C_i) * len(C_j)))
        H[np.arange(len(X)), at_i * len(C_j) + at_j] = 1.0
        C = np.kron(C_i, C_j)
        trace = np.trace(H @ C @ H.T)
        T = H.T @ residuals
        gains[i, j] = np.trace(T.T @ C @ T) / trace if trace > 0.0 else 0.0
    return gains


def no_rng():
    raise AssertionError("no row needs to be drawn")


@each("n_outputs", [1, 3])
def test_pairs_are_in_the_order_of_what_they_explain(rng, n_outputs):
    X, residuals = training_rows(), rng.normal(size=(50, n_outputs))
    gains = slow_gains(X, residuals, 7)
    # Of the feature that does not vary there are none.
    expected = sorted((pair for pair in gains if 3 not in pair), key=lambda pair: -gains[pair])
    found = dict(choice._gains(X, residuals, 7))
    assert set(found) == set(expected)
    for pair in expected:
        assert found[pair] == pytest.approx(gains[pair])
    for n_pairs in (1, 4, 99):
        pairs = strongest_pairs(X, residuals, np.ones(5), n_pairs, 7, no_rng)
        assert pairs.tolist() == [list(pair) for pair in expected[:n_pairs]]


def test_of_many_rows_some_tell_the_pairs(monkeypatch, rng):
    seen = []
    monkeypatch.setattr(choice, "_gains", lambda X, residuals, _: seen.append((X, residuals)) or ())
    rows = np.arange(50.0)[:, None]
    monkeypatch.setattr(choice, "_MOST_SEARCHED", 50)
    strongest_pairs(rows, rows, np.ones(1), 1, 7, no_rng)
    monkeypatch.setattr(choice, "_MOST_SEARCHED", 40)
    strongest_pairs(rows, rows, np.ones(1), 1, 7, lambda: rng)
    for (X, residuals), n in zip(seen, (50, 40), strict=True):
        np.testing.assert_array_equal(X, residuals)
        assert len(np.unique(X)) == len(X) == n


# ---- how much they weigh -----------------------------------------------------------------------


def model_of(X, y, sample_weight=None, **options):
    given = {"optimizer": None, "noise": 0.2, "amplitude": 0.7, "feature_weights": None}
    model = build(IntersectionGPRegressor, **{**given, **options})
    return model.fit(X, y, sample_weight=sample_weight)


KERNEL = GeneralizedKernel(intercept_variance=0.5)


def problem_of(model, X, Y):
    return model._problem(X, Y, model.sample_weight_fit_)


def likelihood_of_pairs(model, X, Y):
    asked = model._asked.terms.pairs
    return choice.likelihood_of_pairs(problem_of(model, X, Y), asked, values_of())


def values_of(kernel=KERNEL, noise=0.2, amplitude=0.7):
    return Hyperparameters(np.array([noise]), np.array([amplitude]), kernel)


def test_halves_have_one_best_amplitude(rng):
    X, Y = rng.random((61, 4)), rng.normal(size=(61, 1))
    model = model_of(X, Y[:, 0], n_interactions=1, n_interaction_knots=4)
    likelihood = likelihood_of_pairs(model, X, Y)
    assert likelihood.has_gradient
    kernel = values_of().kernel
    spectrum = likelihood.spectrum(kernel)
    assert spectrum.n_rows == 61
    best = spectrum.best_amplitude(0.4, slice(0, 1))
    at = [
        likelihood.evaluate(values_of(kernel, 0.4 * a, a)).value
        for a in (0.99 * best, best, 1.01 * best)
    ]
    assert at[1] > max(at[0], at[2])
    assert at[0] == pytest.approx(at[2], abs=1e-4)
    found = spectrum.evaluate(Scales(0.4 * best, best), slice(0, 1))
    assert found.value == pytest.approx(at[1])
    assert not spectrum.refine()
    parts = [part.diagonal_mean(replace(values_of(), kernel=replace(kernel, pairs=pairs)))
             for part, pairs in likelihood._halves]  # fmt: skip
    mean = likelihood.diagonal_mean(values_of())
    assert mean == pytest.approx(sum(parts) / 2)


def log_likelihood(K, Y, noise):
    """Of the columns of Y, under `K + diag(noise)`."""
    A = K + np.diag(np.broadcast_to(noise, len(K)))
    determinant = np.linalg.slogdet(2.0 * np.pi * A)[1]
    return -0.5 * (np.trace(Y.T @ np.linalg.solve(A, Y)) + Y.shape[1] * determinant)


def test_few_rows_choose_pairs_for_each_other(rng, monkeypatch):
    X, Y = rng.random((90, 4)), rng.normal(size=(90, 1))
    monkeypatch.setattr(choice, "_MOST_ROWS", 40)

    def made(n, **options):
        model = model_of(X[:n], Y[:n, 0], n_interaction_knots=4, **options)
        return likelihood_of_pairs(model, X[:n], Y[:n])

    for n, expected in ((31, 31), (32, None), (80, None), (81, 40)):
        likelihood = made(n, n_interactions=2)
        assert isinstance(likelihood, Likelihood if expected else HalvesLikelihood)
        if expected:
            assert likelihood.shape == (expected, 1)
    # Pairs that are given were not chosen by any row.
    for n, expected in ((31, 31), (80, 80), (81, 40)):
        assert made(n, interactions=[(0, 1)]).shape == (expected, 1)


def test_halves_are_the_sum_of_likelihoods_with_the_pairs_of_the_other(rng):
    X, Y = rng.random((61, 4)), rng.normal(size=(61, 1))
    model = model_of(X, Y[:, 0], n_interactions=2, n_interaction_knots=4)
    likelihood = likelihood_of_pairs(model, X, Y)
    rows = [part.shape[0] for part, _ in likelihood._halves]
    assert sorted(rows) == [30, 31]
    order = np.random.default_rng(model._seed).permutation(61)
    halves = [np.sort(order[:30]), np.sort(order[30:])]
    chosen = []
    for half in halves:
        A = intersection_kernel(X[half]) + 0.5 + 0.2 / 0.7 * np.eye(len(half))
        alpha = np.linalg.solve(A, Y[half])
        gains = slow_gains(X[half], alpha, 4)
        chosen.append(sorted(gains, key=lambda pair: -gains[pair])[:2])
    knots = [knots_of(column, 4) for column in X.T]
    kernel = replace(values_of().kernel, interaction_weight=0.3)
    expected = 0.0
    for half, pairs in zip(halves, chosen[::-1], strict=True):
        K = intersection_kernel(X[half]) + 0.5
        for pair in pairs:
            t = [knots[d] for d in pair]
            K += 0.3 * oracle.pair_kernel(X[half], X[half], X, pair, t)
        expected += log_likelihood(0.7 * K, Y[half], 0.2)
    assert likelihood.evaluate(values_of(kernel)).value == pytest.approx(expected)


@each("weighted", [False, True])
def test_rows_are_scored_by_fits_that_have_chosen_pairs_without_them(rng, weighted):
    X, Y = rng.random((40, 3)), rng.normal(size=(40, 2))
    # A feature that varies in one row alone: without it, no pair of it tells anything.
    X[:, 1:] = np.eye(40)[:, [7]]
    X[8:20, 2] = 1.0
    weight = rng.uniform(0.5, 2.0, 40) if weighted else None
    model = model_of(X, Y[:, 0], weight, n_interactions=1, n_interaction_knots=4)
    posterior = model._state()["_posterior"]
    system = posterior.system
    found = scores_without_pairs_of(problem_of(model, X, Y), model._asked.terms.pairs, posterior)
    share = model.sample_weight_fit_ if weighted else np.ones(40)
    order = np.random.default_rng(model._seed).permutation(40)
    for fold in range(5):
        held = np.sort(order[fold::5])
        kept = np.setdiff1d(np.arange(40), held)
        K = intersection_kernel(X, X[kept]) + system.kernel.intercept_variance
        A = np.diag(posterior.noise[0] / posterior.amplitude[0] / share[kept])
        alpha = np.linalg.solve(K[kept] + A, Y[kept])
        alpha /= np.linalg.norm(alpha, axis=0)
        gains = slow_gains(X[kept], alpha, 4)
        pair = max(gains, key=gains.__getitem__)
        if gains[pair] > 0.0:
            knots = [knots_of(X[kept, d], 4) for d in pair]
            part = oracle.pair_kernel(X, X[kept], X[kept], pair, knots)
            K += system.kernel.interaction_weight * part
        expected = K[held] @ np.linalg.solve(K[kept] + A, Y[kept])
        np.testing.assert_allclose(found[held], expected, rtol=1e-5, atol=1e-7)
