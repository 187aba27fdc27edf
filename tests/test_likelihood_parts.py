"""What evaluations of a likelihood share, and which of them are exact."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.utils import get_tags

from histrs.gaussian_process import (
    IntersectionGPClassifier,
    IntersectionGPRegressor,
    MinMaxGPRegressor,
)
from histrs.gaussian_process._bound import additive
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._learning.feature_weights import Scales
from histrs.gaussian_process.kernels import MinMax
from tests.helpers import PLAIN, of_terms


def fitted(X, y, **parameters):
    model = IntersectionGPRegressor(**of_terms(**{**PLAIN, **parameters}, random_state=0)).fit(X, y)
    return model, model._likelihood_of_fit(vars(model))


@pytest.fixture
def data(rng):
    X = rng.random((30, 4))
    return X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=30)


@pytest.mark.parametrize("interactions", [0, [(0, 1)]])
def test_systems_of_one_kernel_share_what_is_of_its_rows(data, interactions):
    model, likelihood = fitted(*data, interactions=interactions, feature_weights="scale")
    kernel = model._posterior.system.kernel
    one, other = (likelihood.system(kernel, Scales(s, 1.0)) for s in (0.1, 0.3))
    assert one.bound is other.bound
    assert (one.noise, other.noise) == (0.1, 0.3)
    assert (one.bound.pairs is None) == (interactions == 0)
    rows = one.bound.sorted_base, None if interactions == 0 else one.bound.pairs.rows
    changed = likelihood.system(replace(kernel, weights=2.0 * kernel.weights), Scales(0.1, 1.0))
    assert changed.bound.columns is not one.bound.columns
    pairs = changed.bound.pairs
    assert (changed.bound.sorted_base, None if pairs is None else pairs.rows) == rows


def test_systems_of_a_smooth_kernel_share_its_rows(data):
    model, likelihood = fitted(*data, smoothness="both")
    kernel = model._posterior.system.kernel
    one = likelihood.system(kernel, Scales(0.1, 1.0))
    other = likelihood.system(replace(kernel, slope_weight=0.7), Scales(0.3, 1.0))
    assert one.bound.smooth.rows is other.bound.smooth.rows
    # The columns are not asked for.
    assert "columns" not in vars(other.bound)


@pytest.mark.parametrize(("solver", "tolerance"), [("cholesky", 1e-8), ("cg", 0.1)])
def test_targets_of_zeros_have_a_likelihood(data, solver, tolerance):
    X, y = data
    Y = np.column_stack([y, np.zeros(30)])
    parameters = {"noise": 0.3, "amplitude": 0.7, "solver": solver, "tol": 1e-10}
    model, _ = fitted(X, Y, **parameters)
    K = np.minimum(X[:, None], X).sum(axis=2)
    A = 0.7 * K + 0.3 * np.eye(30)
    y = (y - y.mean()) / y.std()
    expected = -0.5 * y @ np.linalg.solve(A, y) - np.linalg.slogdet(A)[1]
    expected -= 30 * np.log(2 * np.pi)
    # Where there is no factor the determinant is estimated.
    assert model.log_marginal_likelihood() == pytest.approx(expected, rel=tolerance)


def test_few_rows_and_terms_are_exact(rng, monkeypatch):
    X = sparse.random_array((30, 20), density=0.1, random_state=rng, format="csr")
    stored = X.nnz
    assert stored < 30 * 20
    y = rng.normal(size=30)
    for rows, what in ((X, stored), (X.toarray(), 600)):
        _, likelihood = fitted(rows, y, solver="auto")
        assert likelihood.is_exact
        for limit, exact in ((30 * what, True), (30 * what - 1, False)):
            monkeypatch.setattr(additive, "_MAX_EXACT_TERMS", limit)
            assert fitted(rows, y, solver="auto")[1].is_exact == exact
        monkeypatch.undo()
        for limit, exact in ((30, True), (29, False)):
            monkeypatch.setattr(additive, "_MAX_EXACT_ROWS", limit)
            assert fitted(rows, y, solver="auto")[1].is_exact == exact
        monkeypatch.undo()
    for solver, exact in (("cholesky", True), ("cg", False)):
        _, likelihood = fitted(X, y, solver=solver)
        assert likelihood.is_exact == exact


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("transform", ["identity", "power"])
def test_transformed_rows_are_stored_as_the_rows_are(data, container, transform):
    X, _ = data
    kernel = GeneralizedKernel(transform, 2.0, np.array([1.0, 2.0, 3.0, 0.5]))
    found = kernel.rows(container(X), 1)
    assert sparse.issparse(found) == (container is not np.asarray)
    dense = found.toarray() if sparse.issparse(found) else found
    expected = (X if transform == "identity" else X**2) * [1.0, 2.0, 3.0, 0.5]
    np.testing.assert_allclose(dense, expected, rtol=1e-12)


def test_some_outputs_of_a_posterior_have_their_systems(data):
    X, y = data
    Y = np.column_stack([y, y**2, -y])
    model, _ = fitted(X, Y, shared_hyperparameters=True)
    posterior = model._posterior
    some = posterior.of_outputs(np.array([2, 0]), {})
    assert some.system is posterior.system
    np.testing.assert_array_equal(some.weights, posterior.weights[:, [2, 0]])
    assert (posterior.n_outputs_a_system, some.n_outputs_a_system) == (3, 2)
    model, _ = fitted(X, Y, shared_hyperparameters=False, noise=np.array([0.1, 0.2, 0.3]))
    posterior = model._posterior
    some = posterior.of_outputs(np.array([2, 0]), {})
    assert [system.noise for system in some.systems] == [0.3, 0.1]
    assert (posterior.n_outputs_a_system, some.n_outputs_a_system) == (1, 1)


@pytest.mark.parametrize(("most", "is_factorised"), [(30, True), (29, False)])
def test_a_posterior_of_many_rows_is_not_factorised(data, monkeypatch, most, is_factorised):
    monkeypatch.setattr(MinMax, "most_factorised", most)
    posterior = MinMaxGPRegressor(optimizer=None).fit(*data)._posterior
    assert posterior.is_factorised == is_factorised


@pytest.mark.parametrize(("solver", "is_factorised"), [("cholesky", True), ("cg", False)])
def test_a_posterior_says_whether_it_is_factorised(data, solver, is_factorised):
    assert fitted(*data, solver=solver)[0]._posterior.is_factorised == is_factorised


def test_variances_are_cached_where_a_factor_is_not_worth_it(rng, data):
    X, y = data
    T = rng.random((5, 4))
    for solver, name in (("cg", "cached"), ("cholesky", "exact")):
        posterior = fitted(X, y, solver=solver, tol=1e-8)[0]._posterior
        assert posterior.has_exact_variance(0) == (name == "exact")
        auto, found, other = (
            posterior.latent_variance(T, method, None, 10)
            for method in ("auto", name, "exact" if name == "cached" else "cached")
        )
        np.testing.assert_array_equal(auto, found)
        assert np.any(found != other)


@pytest.mark.parametrize("model", [IntersectionGPRegressor(), IntersectionGPClassifier()])
def test_sparse_histograms_are_said_to_be_taken(model):
    tags = get_tags(model).input_tags
    assert (tags.sparse, tags.positive_only) == (True, True)


def test_tables_of_pairs_have_no_graph(data):
    pytest.importorskip("onnx", reason='onnx is not installed: pip install "histrs[onnx]"')
    tables = fitted(*data, interactions=[(0, 1), (2, 3)])[0].export_tables(n_bins=5)
    with pytest.raises(ValueError, match="The tables have 2 pairs of features, which to_onnx"):
        tables.to_onnx()
