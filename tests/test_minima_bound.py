"""Additive kernels on their training rows, against the entries of their matrix."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from histrs import _histrs
from histrs.gaussian_process import Solver
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.pairs import PairKernel
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._systems.system import System
from tests.oracles.intersection import intersection_kernel

each = pytest.mark.parametrize
N, D = 40, 4
WEIGHTS = np.array([0.5, 3.0, 1.0, 2.0])


def training_rows():
    rng = np.random.default_rng(0)
    return rng.gamma(1.0, size=(N, D)) * (rng.random((N, D)) < 0.8)


def other_rows():
    return 2.0 * np.random.default_rng(1).random((13, D))


PAIRS = PairKernel.of(training_rows(), [(0, 2), (1, 3)], 5)
KERNELS = {
    "plain": GeneralizedKernel(),
    "with an intercept": GeneralizedKernel(intercept_variance=0.7),
    "weighted": GeneralizedKernel(weights=WEIGHTS, intercept_variance=0.7),
    "transformed": GeneralizedKernel("power", 0.5, WEIGHTS),
    "with pairs": GeneralizedKernel(
        weights=WEIGHTS, pairs=PAIRS, interaction_weight=0.3, intercept_variance=0.7
    ),
    "smooth": GeneralizedKernel(smoothness="cubic", slope_weight=2.0),
    "both": GeneralizedKernel(weights=WEIGHTS, smoothness="both", rough_weight=0.6),
}
MINIMA = ["plain", "with an intercept", "weighted", "transformed"]
each_kernel = each("name", KERNELS)
each_container = each("container", [np.asarray, sparse.csr_array])


def made(name, container=np.asarray, **options):
    X = container(training_rows())
    return MinimaBound(X=X, n_threads=1, kernel=KERNELS[name], **options)


def in_system(bound, row_scale):
    given = {"noise": 0.3, "amplitude": 1.7, "solver": Solver()}
    return System(bound=bound, row_scale=row_scale, **given)


def transformed(name, X):
    kernel = KERNELS[name]
    X = np.sqrt(X) if kernel.transform == "power" else X
    return X if kernel.weights is None else kernel.weights * X


def by_definition(name, A, B):
    """Return the kernel of minima between rows."""
    K = intersection_kernel(transformed(name, A), transformed(name, B))
    return K + KERNELS[name].intercept_variance


@pytest.fixture(name="scale", params=[False, True], ids=["equal rows", "weighted rows"])
def row_scale(request):
    return np.random.default_rng(2).uniform(0.5, 2.0, N) if request.param else None


@each("name", MINIMA)
@each_container
def test_entries_are_sums_of_minima(name, container, scale):
    bound = made(name, container)
    system = in_system(bound, scale)
    X, others = training_rows(), other_rows()
    r = np.ones(N) if scale is None else scale
    K = by_definition(name, X, X)
    np.testing.assert_allclose(bound.matrix(), K)
    np.testing.assert_allclose(system.kernel_matrix(), r[:, None] * K * r)
    rows = bound.rows_of(container(others))
    np.testing.assert_allclose(
        rows.toarray() if sparse.issparse(rows) else rows, transformed(name, others)
    )
    np.testing.assert_allclose(bound.gram(rows), by_definition(name, others, others))
    cross = r[:, None] * by_definition(name, X, others)
    np.testing.assert_allclose(system.cross(rows), cross)
    some = np.array([3, 7, 31])
    np.testing.assert_allclose(system.cross_of(some, rows), cross[some])
    np.testing.assert_allclose(system.matrix_of(some), (r[:, None] * K * r)[np.ix_(some, some)])
    np.testing.assert_allclose(bound.columns_of_matrix(some), K[:, some])
    # Rows in another container than the training rows.
    dense = bound.rows_of(others)
    np.testing.assert_allclose(system.cross(dense), cross)
    assert bound.has_nearby_rows


@each_kernel
def test_what_is_asked_of_the_matrix_is_that_of_its_entries(name, scale, rng):
    bound, others = made(name, weights=None if scale is None else scale**2), other_rows()
    system = in_system(bound, scale)
    K, constant = system.kernel_matrix(), KERNELS[name].intercept_variance
    r = np.ones(N) if scale is None else scale
    V = rng.normal(size=(N, 3))
    np.testing.assert_allclose(system.product(V), K @ V)
    np.testing.assert_allclose(system.multiply(V), K @ V + system.s * V)
    np.testing.assert_allclose(system.diagonal, np.diag(K))
    assert system.mean_variance == pytest.approx(np.mean(np.diag(K) - constant * r**2))
    np.testing.assert_allclose(bound.intercepts(V), constant * V.sum(axis=0))
    of_pairs = 0.0 if bound.pairs is None else bound.pairs.diagonal
    np.testing.assert_allclose(bound.row_sums, np.diag(K) / r**2 - constant - of_pairs)
    # Between rows, as the kernel sees them.
    rows = bound.rows_of(others)
    cross = bound.cross(rows)
    np.testing.assert_allclose(bound.cross_product(rows, V), cross.T @ V)
    np.testing.assert_allclose(bound.prior(rows), np.diag(bound.gram(rows)))
    mean, among = bound.average(others)
    np.testing.assert_allclose(mean, cross.mean(axis=1))
    assert among == pytest.approx(bound.gram(rows).mean())
    # Training rows are rows like others.
    np.testing.assert_allclose(bound.gram(bound.rows), K / np.outer(r, r))
    np.testing.assert_allclose(bound.cross(bound.rows), K / np.outer(r, r))


@each("name", MINIMA)
def test_products_in_single_precision_are_nearly_those_in_double(name, scale, rng):
    system = in_system(made(name), scale)
    V = rng.normal(size=(N, 3))
    exact = system.multiply(V)
    found = system.multiply_cheaply(V)
    np.testing.assert_allclose(found, exact, atol=1e-5 * np.abs(exact).max())
    assert np.any(found != exact)


@each_kernel
def test_covariances_of_features_are_without_pairs_and_intercept(name):
    bound = made(name)
    others = other_rows()
    prior, cross = bound.of_features(others)
    rows, constant = bound.rows_of(others), KERNELS[name].intercept_variance
    of_prior, of_cross = bound.prior(rows) - constant, bound.cross(rows)
    if bound.pairs is not None:
        seen = KERNELS[name].pair_rows(rows)
        of_prior -= bound.pairs.prior(seen)
        of_cross -= bound.pairs.cross(seen)
    np.testing.assert_allclose(prior, of_prior, atol=1e-12)
    part = slice(3, 9)
    np.testing.assert_allclose(cross(part), of_cross[:, part] - constant, atol=1e-12)


def test_smooth_functions_are_centred_by_the_weights_of_rows(scale):
    found = made("smooth", weights=None if scale is None else scale**2)
    masses = np.ones(N) if scale is None else scale**2
    # The kernel of a row with all others, by their weights, is 0.
    K = found.smooth.kernel_matrix()
    np.testing.assert_allclose(K @ masses, 0.0, atol=1e-9 * np.abs(K).max() * N)


def test_what_is_known_is_not_made_again():
    X = training_rows()
    base = _histrs.SortedColumns(X, 1)
    of_kernel = KERNELS["weighted"].columns(base, 1)
    bound = made("weighted", base=base, transformed=of_kernel)
    assert bound.sorted_base is base
    assert bound.columns is of_kernel
    np.testing.assert_allclose(bound.row_sums, (WEIGHTS * X).sum(axis=1))
    # Nor for another kernel of the same minima.
    other = bound.with_kernel(replace(KERNELS["weighted"], intercept_variance=0.1))
    assert other.columns is of_kernel
    assert other.sorted_base is base
    assert bound.with_kernel(KERNELS["transformed"]).columns is not of_kernel
    pairs = made("with pairs").pairs.rows
    assert made("with pairs", pair_rows=pairs).pairs.rows is pairs
    smooth = made("both").smooth.rows
    assert made("both", smooth_rows=smooth).smooth.rows is smooth


@each_kernel
def test_functions_take_as_many_numbers_as_their_knots(name):
    bound = made(name)
    knots = sum(len(np.unique(column)) for column in transformed(name, training_rows()).T)
    # A cubic has four coefficients from each knot on.
    expected = 4 * knots if KERNELS[name].is_smooth else knots
    assert abs(bound.n_function_numbers - expected) <= 4 * D
    rows_nearby = name in MINIMA
    assert bound.has_nearby_rows == rows_nearby
