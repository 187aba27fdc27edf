"""What Gaussian processes of dask arrays are made of, each part against the whole in one place."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from histrs import _histrs
from histrs._distributed.rows import Part
from histrs.gaussian_process import Solver
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.scores import TabulatedScore
from histrs.gaussian_process._distributed import bound as bound_module
from histrs.gaussian_process._distributed.arrays import weighted
from histrs.gaussian_process._distributed.bound import (
    DistributedBound,
    RowProjection,
)
from histrs.gaussian_process._distributed.columns import (
    BlockScore,
    ColumnBlock,
    DistributedColumns,
    edges_of,
    spreads_of,
)
from histrs.gaussian_process._kernels.generalized import GeneralizedKernel
from histrs.gaussian_process._systems.system import System
from tests.helpers import assert_close
from tests.oracles.intersection import intersection_kernel

dask = pytest.importorskip("dask", reason="needs dask: histrs[dask]")
dask_array = pytest.importorskip("dask.array", reason="needs dask: histrs[dask]")

each = pytest.mark.parametrize
each_chunks = each("chunks", [(9, 2), (9, 7), (30, 3), (30, 7)], ids=str)
each_weights = each("has_weights", [False, True], ids=["plain", "weighted"])


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(name="X")
def rows(rng):
    """Rows with ties, a constant column and a tiny one."""
    X = np.round(rng.gamma(1.0, size=(30, 7)), 1)
    X[:, 3] = 0.7
    X[:, 5] *= 1e-300
    return X


def weights_of(rng, has_weights, n=7):
    return rng.uniform(0.5, 2.0, n) if has_weights else None


def times(X, weights):
    return X if weights is None else X * weights


# ---- arrays ------------------------------------------------------------------------------------


@each_chunks
@each("dtype", [np.float32, np.float64])
def test_each_feature_is_multiplied_by_its_weight(rng, X, chunks, dtype):
    array, weights = dask_array.from_array(X.astype(dtype), chunks=chunks), weights_of(rng, True)
    assert weighted(array, None) is array
    found = weighted(array, weights)
    assert found.dtype == found.compute().dtype == np.float64
    np.testing.assert_array_equal(found.compute(), X.astype(dtype).astype(np.float64) * weights)


# ---- blocks of columns ---------------------------------------------------------------------------


@each_weights
@each("dtype", [np.float32, np.float64])
def test_a_block_is_its_part_of_the_kernel(rng, X, has_weights, dtype):
    X, V = X.astype(dtype), rng.normal(size=(30, 2))
    weights = weights_of(rng, has_weights)
    block = ColumnBlock.of(X, weights, 1, Part(0, 0))
    A = times(X.astype(np.float64), weights)
    K, Z = intersection_kernel(A), rng.gamma(1.0, size=(4, 7))
    for same in (block, pickle.loads(pickle.dumps(block))):
        assert_close(same.product(V), K @ V, 1e-6)
        assert_close(same.product_f32(V), K @ V, 1e-5)
        assert_close(same.row_sums(), np.diag(K), 1e-6)
        assert_close(same.kernel_matrix(), K, 1e-12)
        assert_close(same.cross_kernel(Z), intersection_kernel(A, Z), 1e-12)
        some = np.array([4, 0, 29])
        assert_close(same.columns_of_kernel(some), K[some], 1e-12)
        np.testing.assert_array_equal(same.weighted(), A)
        assert same.n_threads == 1
        assert same.n_knots() == same.core.n_knots
    forms = [np.sum(V * (np.minimum.outer(a, a) @ V), axis=0) for a in A.T]
    assert_close(block.quadratic_forms(V), np.array(forms), 1e-6)
    unweighted = ColumnBlock.of(X, None, 1, Part(0, 0))
    np.testing.assert_allclose(block.spreads(), times(unweighted.spreads(), weights), rtol=1e-6)
    np.testing.assert_array_equal(spreads_of(X, 1, Part(0, 0)), unweighted.spreads())
    # Its rows and what is sorted.
    assert block.__sizeof__() == X.nbytes + block.core.n_bytes
    rest = block.without(np.array([0, 3, 29]))
    kept = np.setdiff1d(np.arange(30), [0, 3, 29])
    for same in (rest, pickle.loads(pickle.dumps(rest))):
        assert_close(same.kernel_matrix(), K[np.ix_(kept, kept)], 1e-12)
        assert_close(same.product(V[kept]), K[np.ix_(kept, kept)] @ V[kept], 1e-6)


@each(("n_bins", "interpolation"), [(None, "linear"), (16, "linear"), (16, "nearest")])
@each_weights
def test_scores_of_blocks_add_up(rng, X, n_bins, interpolation, has_weights):
    X[:, 5] = rng.random(30)
    V, weights = rng.normal(size=(30, 3)), weights_of(rng, has_weights)
    A, Z = times(X, weights), times(rng.gamma(1.0, size=(11, 7)), weights)
    blocks = [
        ColumnBlock(np.ascontiguousarray(X[:, a:b]), None if weights is None else weights[a:b], 1)
        for a, b in ((0, 3), (3, 7))
    ]
    scores = [BlockScore(block, V, n_bins, interpolation) for block in blocks]
    scores = pickle.loads(pickle.dumps(scores))
    found = scores[0].evaluate(Z[:, :3]) + scores[1].evaluate(Z[:, 3:])
    bound = scores[0].error_bound() + scores[1].error_bound()
    exact = intersection_kernel(Z, A) @ V
    if n_bins is None:
        assert_close(found, exact, 1e-10)
        assert bound.tolist() == [0.0, 0.0, 0.0]
        return
    table = TabulatedScore(_histrs.SortedColumns(A, 1), V, n_bins, interpolation, 1)
    # Of numbers in single precision.
    assert_close(found, table.evaluate(Z, 1), 1e-6)
    assert np.max(np.abs(found - exact)) > 1e-6
    assert np.all(np.abs(found - exact) <= bound * (1.0 + 1e-9))


# ---- columns on workers --------------------------------------------------------------------------


@each_chunks
@each_weights
def test_columns_are_those_of_one_machine(rng, X, chunks, has_weights):
    V, weights = rng.normal(size=(30, 2)), weights_of(rng, has_weights)
    array = dask_array.from_array(X, chunks=chunks)
    whole = _histrs.SortedColumns(times(X, weights), 1)

    def made():
        return DistributedColumns(array, 1).transformed(None, weights, 1)

    columns, K = made(), intersection_kernel(times(X, weights))
    # Before anything is kept, and after.
    for _ in range(2):
        np.testing.assert_allclose(columns.spreads(1), whole.spreads(1))
        np.testing.assert_allclose(columns.inverse_spreads(1), whole.inverse_spreads(1))
        _ = columns.blocks
    assert columns.blocks is columns.blocks
    assert len(columns.blocks) == len(edges_of(array)) - 1
    assert (columns.n_rows, columns.n_columns) == (30, 7)
    edges = edges_of(array)
    of_blocks = [_histrs.SortedColumns(X[:, a:b].copy(), 1) for a, b in pairwise(edges)]
    assert columns.n_knots == sum(block.n_knots for block in of_blocks)
    assert_close(columns.product(V, 1), K @ V, 1e-10)
    assert_close(columns.product_f32(V, 1), K @ V, 1e-5)
    assert_close(columns.row_sums(1), np.diag(K), 1e-10)
    assert_close(columns.quadratic_forms(V, 1), whole.quadratic_forms(V, 1), 1e-10)
    assert_close(columns.kernel_matrix(), K, 1e-12)
    some = np.array([4, 0, 29])
    assert_close(columns.columns_of_kernel(some), K[some], 1e-12)
    Z = times(rng.gamma(1.0, size=(11, 7)), weights)
    cross = intersection_kernel(times(X, weights), Z)
    for others in (Z, sparse.csr_array(Z), dask_array.from_array(Z, chunks=(4, 5))):
        assert_close(columns.cross_kernel(others), cross, 1e-12)
    removed = np.array([0, 12, 29])
    kept = np.setdiff1d(np.arange(30), removed)
    rest = columns.remove(removed, 1)
    assert rest.n_rows == 27
    assert_close(rest.product(V[kept], 1), K[np.ix_(kept, kept)] @ V[kept], 1e-10)
    again = DistributedColumns(array[kept], 1, weights)
    np.testing.assert_allclose(rest.spreads(1), again.spreads(1))


# ---- rows projected on knots ---------------------------------------------------------------------


def test_some_projected_rows_are_pickled_as_rows(rng, X):
    part = RowProjection(X[:12], X, 4, 2)
    V = rng.normal(size=(12, 2))
    for made, rows in ((part, slice(None)), (part.select(np.array([0, 5, 11])), [0, 5, 11])):
        again = pickle.loads(pickle.dumps(made))
        assert again.n_threads == made.n_threads <= 2
        np.testing.assert_array_equal(again.project(V[:12][rows]), made.project(V[:12][rows]))
        # A row's numbers, and an index and a number for each.
        n = len(V[:12][rows]) * 7
        assert again.__sizeof__() == made.__sizeof__() == 8 * n + 12 * n


# ---- systems -------------------------------------------------------------------------------------


def systems(X, chunks, scale, solver="cg", preconditioner="auto"):
    """Return the system of a dask array, and that of the same rows in memory."""
    given = {"kernel": GeneralizedKernel(intercept_variance=0.7), "n_threads": 1}
    array = dask_array.from_array(X, chunks=chunks)
    bounds = DistributedBound(X=array, n_jobs=1, **given), MinimaBound(X=X, **given)
    solver = Solver(solver, preconditioner=preconditioner)
    of_all = {"noise": 0.4, "amplitude": 2.0, "solver": solver, "row_scale": scale}
    return tuple(System(bound=bound, **of_all) for bound in bounds)


@each("chunks", [(9, 7), (30, 2)], ids=str)
@each_weights
def test_a_system_is_that_of_one_machine(rng, X, chunks, has_weights):
    scale = weights_of(rng, has_weights, 30)
    system, whole = systems(X, chunks, scale)
    r = np.ones(30) if scale is None else scale
    K = r[:, None] * (intersection_kernel(X) + 0.7) * r
    found = system.kernel_matrix()
    assert_close(found, K, 1e-12)
    assert found.flags.c_contiguous
    # It may be written to.
    found[:] = np.nan
    assert_close(system.kernel_matrix(), K, 1e-12)
    V = rng.normal(size=(30, 2))
    assert_close(system.multiply(V), K @ V + 0.2 * V, 1e-10)
    Z = rng.gamma(1.0, size=(5, 7))
    lazy = dask_array.from_array(Z, chunks=(3, 4))
    cross = r[:, None] * (intersection_kernel(X, Z) + 0.7)
    for others in (Z, lazy):
        bound = system.bound
        assert_close(bound.gram(others), intersection_kernel(Z) + 0.7, 1e-12)
        assert_close(bound.prior(others), Z.sum(axis=1) + 0.7, 1e-12)
        assert_close(bound.cross_product(others, V), whole.bound.cross_product(Z, V), 1e-10)
        assert_close(system.cross(others), cross, 1e-12)
    Y = rng.normal(size=(30, 2))
    A = intersection_kernel(X) + 0.7 + 0.2 * np.diag(r**-2.0)
    solution = system.solve_targets(Y, np.full(2, 1e-10), None)
    assert_close(solution.X, np.linalg.solve(A, Y), 1e-7)


@each(
    ("shape", "chunks", "expected"),
    [
        ((30, 7), (10, 3), [0, 3, 6, 7]),
        ((30, 7), (10, 4), [0, 4, 7]),
        ((30, 7), (30, 7), [0, 7]),
        # Chunked by rows alone: as many blocks, of nearly as many columns each.
        ((30, 7), (10, 7), [0, 2, 4, 7]),
        ((30, 7), (15, 7), [0, 3, 7]),
        ((30, 2), (3, 2), [0, 1, 2]),
        ((30, 1), (3, 1), [0, 1]),
        ((30, 0), (30, 0), [0, 0]),
    ],
)
def test_blocks_are_chunks_of_columns_or_as_many_as_chunks_of_rows(shape, chunks, expected):
    assert edges_of(dask_array.zeros(shape, chunks=chunks)) == expected


@each("solver", ["auto", "cg", "cholesky"])
@each(("most", "stored"), [(29, False), (30, True)])
def test_the_matrix_of_many_rows_stays_away_unless_it_is_asked_for(
    rng, monkeypatch, X, solver, most, stored
):
    monkeypatch.setattr(bound_module, "_MAX_STORED_ROWS", most)
    system, _ = systems(X, (9, 7), None, solver=solver)
    assert system.uses_cholesky(1) == (solver == "cholesky" or (solver == "auto" and stored))
    if solver == "auto":
        # One that is at hand is used.
        _ = system.factor
        assert system.uses_cholesky(1)
