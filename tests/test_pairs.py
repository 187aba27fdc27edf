"""What a model of pairs of features is made of, each part against its definition."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from scipy.interpolate import RegularGridInterpolator

from histrs import _histrs
from histrs._solvers.preconditioners import Identity
from histrs.gaussian_process import IntersectionGPRegressor
from histrs.gaussian_process._bound import scores
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.pairs import (
    PairKernel,
    PairRows,
    PairTerm,
    cell_among,
    centred_covariance,
    knots_of,
)
from histrs.gaussian_process._bound.preconditioners import WithPairs
from histrs.gaussian_process._bound.scores import ExactScore, PairScore, SumOfScores
from histrs.gaussian_process._kernels.additive import check_pairs
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._learning import pairs as choice
from histrs.gaussian_process._learning.hyperparameters import Hyperparameters, Scales
from histrs.gaussian_process._learning.likelihood import Likelihood
from histrs.gaussian_process._learning.pairs import (
    HalvesLikelihood,
    _SpectrumOfHalves,
    _sum,
    scores_without_pairs_of,
    strongest_pairs,
)
from histrs.gaussian_process._learning.spectrum import Evaluation
from histrs.gaussian_process._posterior.tables import PairTable
from tests.helpers import of_terms
from tests.oracles import interactions as oracle
from tests.oracles import smooth as smooth_oracle
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


@each("pair", [(3, 4), (0, 3)])
def test_a_feature_of_one_value_has_one_knot(pair):
    rows = PairRows(PairKernel.of(training_rows(), np.array([pair]), 6), other_rows())
    # No cell is one of a knot beyond.
    rows.cells.check_format(full_check=True)
    assert rows.cells.shape == (13, 6)
    assert rows.diagonal.tolist() == [0.0] * 13


def test_a_pair_alone_is_its_definition():
    X, others = training_rows(), other_rows()
    kernel = PairKernel.of(X, PAIRS, 6)
    term = PairTerm(kernel, 0.3, PairRows(kernel, X))
    for k in range(3):
        part = slice(kernel.starts[k], kernel.starts[k + 1])
        mixtures = PairRows(kernel, others).cells.toarray()[:, part].T
        prior, cross = term.of_pair(k, mixtures)
        np.testing.assert_allclose(prior, 0.3 * np.diag(by_definition(others, others)[k]))
        expected = 0.3 * by_definition(X, others)[k]
        np.testing.assert_allclose(cross(slice(3, 9)), expected[:, 3:9], atol=1e-12)


def test_the_root_of_a_covariance_has_as_many_columns_as_its_rank():
    kernel = PairKernel.of(training_rows(), PAIRS, 6)
    cells = np.eye(kernel.starts[-1])
    covariance = kernel.covary(cells)
    root = kernel.root.toarray()
    np.testing.assert_allclose(root @ root.T, covariance, atol=1e-12)
    # Means over the rows are 0, so that of n knots there are n - 1 steps.
    assert root.shape[1] == 5 * 2 + 5 * 5 + 5 * 5
    still = PairKernel.of(training_rows(), np.array([[0, 3]]), 6)
    assert still.root.shape == (6, 0)


@each("n_knots", [2, 3, 9])
def test_knots_are_quantiles_of_the_rows(rng, n_knots):
    column = rng.exponential(size=40)
    knots = knots_of(column, n_knots)
    assert len(knots) == n_knots
    assert set(knots) <= set(column)
    assert (knots[0], knots[-1]) == (column.min(), column.max())
    below = np.mean(column[:, None] <= knots, axis=0)
    np.testing.assert_allclose(below, np.linspace(0.0, 1.0, n_knots), atol=0.03)
    few = rng.integers(0, n_knots, 60).astype(float)
    np.testing.assert_array_equal(knots_of(few, n_knots), np.arange(n_knots))
    # A value that many rows have is one knot.
    assert knots_of(np.append(np.zeros(100), column), 4).tolist() == [0.0, column.max()]


def test_a_value_lies_between_two_knots():
    knots = np.array([1.0, 2.0, 4.0])
    left, share = cell_among(np.array([0.0, 1.0, 1.25, 2.0, 3.0, 4.0, 9.0]), knots)
    assert left.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert share.tolist() == [0.0, 0.0, 0.25, 0.0, 0.5, 1.0, 1.0]
    left, share = cell_among(np.array([-1.0, 3.0]), knots[:1])
    assert (left.tolist(), share.tolist()) == ([0, 0], [0.0, 0.0])
    # Knots that a small weight has brought together.
    left, share = cell_among(np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 1.0]))
    assert np.all((left >= 0) & (left <= 1))
    assert np.all(np.isfinite(share))


def test_a_feature_that_does_not_vary_has_no_covariance():
    assert centred_covariance(np.full(9, 2.0), np.array([2.0])).tolist() == [[0.0]]


@each("n", [1, 2, 3, 5])
def test_a_covariance_is_that_of_a_centred_walk(rng, n):
    knots = np.sort(rng.normal(size=n))
    column = np.append(knots, rng.normal(size=20))
    expected = oracle.feature_kernel(knots, knots, column, knots)
    np.testing.assert_allclose(centred_covariance(column, knots), expected, atol=1e-12)


# ---- preconditioners and scores ----------------------------------------------------------------


@each("row_scale", [False, True])
@each("weights", [None, WEIGHTS])
def test_a_preconditioner_is_extended_by_the_pairs(rng, row_scale, weights):
    X = training_rows()
    w = 1.0 if weights is None else weights
    r = rng.uniform(0.5, 2.0, 50) if row_scale else np.ones(50)
    kernel = PairKernel.of(X, PAIRS, 10)
    term = PairTerm(kernel, 0.3, PairRows(kernel, X[:40] * w, weights))
    extended = WithPairs.of(Identity(), term, weights, r[:40] if row_scale else None)
    K = 0.3 * sum(by_definition(X, X, n_knots=10))
    inverse = np.linalg.inv(np.eye(50) + r[:, None] * K * r)
    V = rng.normal(size=(50, 3))

    def of(rows):
        return np.linalg.inv(np.eye(len(rows)) + (r[:, None] * K * r)[np.ix_(rows, rows)])

    np.testing.assert_allclose(extended.solve(V[:40]), of(np.arange(40)) @ V[:40], atol=1e-9)
    np.testing.assert_array_equal(extended.solve_cheaply(V[:40]), extended.solve(V[:40]))
    grown = extended.insert(X[40:] * w, r[40:] if row_scale else None)
    np.testing.assert_allclose(grown.solve(V), inverse @ V, atol=1e-9)
    removed = np.array([0, 3, 49])
    kept = np.delete(np.arange(50), removed)
    left = grown.remove(kept, removed)
    np.testing.assert_allclose(left.solve(V[kept]), of(kept) @ V[kept], atol=1e-9)


def test_scores_are_sums_of_both_kernels(rng, monkeypatch):
    X, others = np.abs(training_rows()), np.abs(other_rows())
    kernel = PairKernel.of(X, PAIRS, 6)
    V = rng.normal(size=(50, 2))
    columns = _histrs.SortedColumns(X, 1)
    additive = ExactScore(columns, V, 1)
    both = SumOfScores(additive, PairScore(PairTerm(kernel, 0.3, PairRows(kernel, X)), V, None))
    expected = (intersection_kernel(others, X) + 0.3 * sum(by_definition(others, X))) @ V
    np.testing.assert_allclose(both.evaluate(others, 1), expected)
    monkeypatch.setattr(scores, "_ROWS", 5)
    np.testing.assert_allclose(both.evaluate(others, 1), expected)
    np.testing.assert_array_equal(both.error_bound(), additive.error_bound())


def test_tables_are_bilinear_between_nodes_and_constant_beyond(rng):
    nodes = np.array([0.0, 1.0, 5.0]), np.array([-2.0, 0.5, 1.0, 3.0])
    values = rng.normal(size=(3, 4, 2))
    table = PairTable((2, 0), nodes, values)
    X = rng.uniform(-4.0, 7.0, (60, 3))
    within = [np.clip(X[:, d], t[0], t[-1]) for d, t in zip((2, 0), nodes, strict=True)]
    expected = RegularGridInterpolator(nodes, values)(np.column_stack(within))
    np.testing.assert_allclose(table.scores(X), expected, atol=1e-12)
    constant = PairTable((0, 1), (nodes[0][:1], nodes[1]), values[:1])
    expected = [np.interp(X[:, 1], nodes[1], f) for f in values[0].T]
    np.testing.assert_allclose(constant.scores(X), np.transpose(expected), atol=1e-12)
    other = PairTable((1, 0), (nodes[1], nodes[0][:1]), values[:1].swapaxes(0, 1))
    np.testing.assert_allclose(other.scores(X), np.transpose(expected), atol=1e-12)


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


def test_pairs_that_explain_nothing_are_none(rng):
    pairs = strongest_pairs(training_rows(), np.zeros((50, 1)), np.ones(5), 3, 7, no_rng)
    assert pairs.shape == (0, 2)
    assert pairs.dtype == np.intp


def test_pairs_that_explain_alike_are_found_in_the_order_of_columns(rng):
    X = np.tile(rng.random((50, 1)), 4)
    pairs = strongest_pairs(X, rng.normal(size=(50, 1)), np.ones(4), 6, 7, no_rng)
    assert pairs.tolist() == [list(pair) for pair in combinations(range(4), 2)]


def test_of_many_features_those_that_vary_most_have_pairs(rng, monkeypatch):
    X, residuals = rng.random((50, 6)), rng.normal(size=(50, 1))
    monkeypatch.setattr(choice, "MOST_FEATURES", 3)
    strength = np.array([0.1, 3.0, 0.2, 2.0, 0.3, 1.0])
    pairs = strongest_pairs(X, residuals, strength, 99, 7, no_rng)
    gains = slow_gains(X, residuals, 7)
    expected = sorted(combinations([1, 3, 5], 2), key=lambda pair: -gains[pair])
    assert pairs.tolist() == [list(pair) for pair in expected]
    # Of those that vary alike, the first ones.
    pairs = strongest_pairs(X, residuals, np.ones(6), 99, 7, no_rng)
    assert np.unique(pairs).tolist() == [0, 1, 2]


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


@each(
    ("pairs", "said"),
    [
        ([(True, 1)], "by its index or by its name"),
        ([(1, None)], "by its index or by its name"),
        ([(0, 5)], r"feature 5 is not in 0\.\.5"),
        ([(4, 0), (-1, 2)], r"\[1\] = \(-1, 2\): feature -1"),
        ([("a", "z")], r"no feature 'z'; features are \['a', 'b', 'c', 'd', 'e'\]"),
        ([[[0], [1]]], "give pairs of features"),
        ([("c", 2)], "two features"),
        ([("b", "a"), (0, 2), (0, 1)], r"\[2\] = \(0, 1\) is there twice"),
    ],
)
def test_what_is_no_pair_of_features_is_refused(pairs, said):
    with pytest.raises(ValueError, match=f"^chosen.*{said}"):
        check_pairs(pairs, 5, np.array(list("abcde")), "chosen")


def test_pairs_are_named_by_index_or_by_name():
    names = np.array(list("abcde"))
    found = check_pairs([("e", "b"), (0, 4), ("c", 0)], 5, names)
    assert found.tolist() == [[1, 4], [0, 4], [0, 2]]
    assert check_pairs(np.array([[3, 1]], dtype=np.int16), 5, None).tolist() == [[1, 3]]
    assert check_pairs([], 5, None).shape == (0, 2)


# ---- how much they weigh -----------------------------------------------------------------------


def model_of(X, y, sample_weight=None, **options):
    given = {"optimizer": None, "noise": 0.2, "amplitude": 0.7, "feature_weights": None}
    model = IntersectionGPRegressor(**of_terms(**{**given, **options}, random_state=0))
    return model.fit(X, y, sample_weight=sample_weight)


KERNEL = GeneralizedKernel(intercept_variance=0.5)


def problem_of(model, X, Y):
    return model._problem(X, Y, model.sample_weight_fit_)


def likelihood_of_pairs(model, X, Y):
    asked = model._asked.terms.pairs
    return choice.likelihood_of_pairs(problem_of(model, X, Y), asked, values_of())


def values_of(kernel=KERNEL, noise=0.2, amplitude=0.7):
    return Hyperparameters(np.array([noise]), np.array([amplitude]), kernel)


def log_likelihood(K, Y, noise):
    """Of the columns of Y, under `K + diag(noise)`."""
    A = K + np.diag(np.broadcast_to(noise, len(K)))
    determinant = np.linalg.slogdet(2.0 * np.pi * A)[1]
    return -0.5 * (np.trace(Y.T @ np.linalg.solve(A, Y)) + Y.shape[1] * determinant)


@each("weighted", [False, True])
def test_the_likelihood_of_some_rows_is_exact(rng, weighted):
    X, Y = training_rows(), rng.normal(size=(50, 1))
    weight = rng.uniform(0.5, 2.0, 50) if weighted else None
    model = model_of(X, Y[:, 0], weight, solver="cg")
    rows = np.array([1, 5, 6, 30, 49])
    likelihood = problem_of(model, X, Y).exact_likelihood(rows, KERNEL)
    share = model.sample_weight_fit_[rows] if weighted else np.ones(5)
    expected = log_likelihood(0.7 * (intersection_kernel(X[rows]) + 0.5), Y[rows], 0.2 / share)
    assert likelihood.evaluate(values_of()).value == pytest.approx(expected)
    assert likelihood.system(values_of().kernel, Scales(0.2, 0.7)).solver.name == "cholesky"
    # The model keeps the weights of all rows.
    assert not weighted or len(model.sample_weight_fit_) == 50


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


def test_halves_are_refined_together():
    class Part:
        n_rows = 3

        def __init__(self, n_steps):
            self.n_steps = n_steps

        def refine(self):
            self.n_steps -= 1
            return self.n_steps >= 0

    parts = [Part(1), Part(2)]
    spectrum = _SpectrumOfHalves(parts)
    assert [spectrum.refine() for _ in range(3)] == [True, True, False]
    assert [part.n_steps for part in parts] == [-2, -1]


def test_errors_of_halves_are_independent():
    parts = [
        Evaluation(1.0, 3.0, {"noise": 0.5, "amplitude": 2.0}),
        Evaluation(2.0, 4.0, {"noise": 0.25, "amplitude": -3.0}),
    ]
    both = {"noise": 0.75, "amplitude": -1.0}
    assert _sum(parts) == Evaluation(3.0, 5.0, both)
    assert not _sum([parts[0], replace(parts[1], solved=False)]).solved


@each("weighted", [False, True])
def test_residuals_are_those_of_the_additive_fit(rng, weighted):
    X, Y = training_rows(), 1e-3 * rng.normal(size=(50, 2))
    Y[:, 1] = 0.0
    weight = rng.uniform(0.5, 2.0, 50) if weighted else None
    model = model_of(X, Y[:, 0], weight)
    share = model.sample_weight_fit_ if weighted else np.ones(50)
    likelihood = problem_of(model, X, Y).exact_likelihood(np.arange(50), KERNEL)
    alpha, strength = choice._additive_fit(likelihood, values_of())
    A = intersection_kernel(X) + 0.5 + 0.2 / 0.7 * np.diag(1.0 / share)
    expected = np.linalg.solve(A, Y[:, 0])
    expected /= np.linalg.norm(expected)
    np.testing.assert_allclose(alpha[:, 0], expected, rtol=1e-6)
    assert np.all(alpha[:, 1] == 0.0)
    forms = [expected @ np.minimum.outer(column, column) @ expected for column in X.T]
    np.testing.assert_allclose(strength, forms, rtol=1e-6)


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


def test_a_fit_without_pairs_scores_rows_that_others_have_pairs_for(rng):
    """Of four fifths of the rows, both features may be constant."""
    X, Y = np.zeros((20, 2)), rng.normal(size=(20, 1))
    model = model_of(rng.random((20, 2)), Y[:, 0], n_interactions=1)
    held = np.sort(np.random.default_rng(model._seed).permutation(20)[::5])
    X[held] = rng.random((4, 2))
    model = model_of(X, Y[:, 0], n_interactions=1)
    posterior = model._state()["_posterior"]
    assert len(model.interactions_) == 1
    found = scores_without_pairs_of(problem_of(model, X, Y), model._asked.terms.pairs, posterior)
    kept = np.setdiff1d(np.arange(20), held)
    c = posterior.system.kernel.intercept_variance
    K = intersection_kernel(X, X[kept]) + c
    noise = posterior.noise[0] / posterior.amplitude[0]
    expected = K[held] @ np.linalg.solve(K[kept] + noise * np.eye(16), Y[kept])
    np.testing.assert_allclose(found[held], expected, rtol=1e-5, atol=1e-7)


# ---- what goes with pairs ----------------------------------------------------------------------

REFUSED = [
    ("log_det", "bound"),
    ("variance", "fine"),
    ("variance", "coarse"),
    ("variance", "coarse-quantized"),
    ("solver", "coordinate-descent"),
]


@each(("name", "value"), REFUSED)
def test_what_goes_without_pairs_goes_with_none(name, value):
    model = IntersectionGPRegressor(**of_terms(**{name: value}))
    model._asked.check(np.eye(3))
    for pairs in ({"n_interactions": 1}, {"interactions": [(0, 1)]}):
        model = IntersectionGPRegressor(**of_terms(**{name: value}, **pairs))
        with pytest.raises(ValueError, match=f"{name}='{value}'"):
            model._asked.check(np.eye(3))


@each("pairs", [{"n_interactions": 1}, {"interactions": [(0, 1)]}, {}])
def test_pairs_are_given_or_found(pairs):
    IntersectionGPRegressor(**of_terms(**pairs))._asked.check(np.eye(3))


def test_pairs_of_one_feature_are_refused(rng):
    X, y = rng.random((30, 1)), rng.random(30)
    with pytest.raises(ValueError, match=r"Interactions\(pairs=3\) needs two features or more"):
        model_of(X, y, n_interactions=3)


def test_of_no_pairs_none_is_chosen(rng):
    X, Y = rng.random((30, 3)), rng.random((30, 1))
    model = model_of(X, Y[:, 0], n_interactions=0)
    problem, asked = problem_of(model, X, Y), model._asked.terms.pairs
    likelihood = problem.likelihood(problem.bind(KERNEL))
    assert choice.chosen_pairs(problem, asked, likelihood, values_of()).shape == (0, 2)


def test_functions_of_no_pairs_are_none(rng):
    X, y = rng.random((30, 3)), rng.random(30)
    additive, of_pairs = model_of(X, y), model_of(X, y, interactions=[(0, 1), (2, 1)])
    for model in (additive, of_pairs):
        assert model.pair_functions([]) == []
    functions = of_pairs.pair_functions([(1, 2)], return_std=True)
    assert [function.features for function in functions] == [(1, 2)]
    assert functions[0].values.shape == functions[0].std.shape
    assert of_pairs.pair_functions([(1, 2)])[0].std is None


SCORED = {
    "plain": GeneralizedKernel(),
    "with an intercept": GeneralizedKernel(intercept_variance=0.5),
    "transformed": GeneralizedKernel("power", 0.5),
    "with pairs": GeneralizedKernel(
        pairs=PairKernel.of(training_rows(), PAIRS, 6), interaction_weight=0.3
    ),
    "smooth": GeneralizedKernel(smoothness="cubic"),
}


@each("name", SCORED)
@each("n_bins", [None, 2000])
def test_scores_are_of_the_kernel_of_the_system(rng, name, n_bins):
    X, others, V = training_rows(), np.abs(other_rows()), rng.normal(size=(50, 2))
    kernel = SCORED[name]
    bound = MinimaBound(X=X, n_threads=1, kernel=kernel)
    if name == "smooth":
        K = smooth_oracle.kernel(others, X, X, 1.0, 0.0)
    else:
        T, S = (np.sqrt(A) if name == "transformed" else A for A in (others, X))
        K = intersection_kernel(T, S) + kernel.intercept_variance
    if name == "with pairs":
        K += 0.3 * sum(by_definition(others, X))
    score = bound.score(V, n_bins, "linear")
    found = score.evaluate(others if score.takes_features else kernel.rows(others, 1), 1)
    error = score.error_bound()
    assert np.all(np.abs(found - K @ V) <= error + 1e-2 * (n_bins is not None) + 1e-9)
    assert np.any(error > 0.0) == (n_bins is not None and name != "smooth")


@each("name", SCORED)
def test_rows_are_read_as_bytes_where_nothing_is_done_with_them(rng, name):
    X = rng.integers(0, 40, (50, 5)).astype(float)
    kernel = SCORED[name]
    score = MinimaBound(X=X, n_threads=1, kernel=kernel).score(
        rng.normal(size=(50, 2)), 64, "linear"
    )
    assert score.takes_features == (name in ("plain", "with an intercept"))
