"""What Gaussian processes of dask arrays are made of, each part against the whole in one place."""

import pickle
import re
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from histrs import _histrs
from histrs._distributed.rows import Part
from histrs._solvers.low_rank import Landmarks
from histrs.gaussian_process import Solver
from histrs.gaussian_process._bound.additive import MinimaBound
from histrs.gaussian_process._bound.scores import TabulatedScore
from histrs.gaussian_process._distributed import bound as bound_module
from histrs.gaussian_process._distributed import columns as columns_module
from histrs.gaussian_process._distributed.arrays import check_entries, weighted
from histrs.gaussian_process._distributed.bound import (
    DistributedBound,
    DistributedProjection,
    RowProjection,
)
from histrs.gaussian_process._distributed.columns import (
    BlockScore,
    ColumnBlock,
    DistributedColumns,
    DistributedScore,
    edges_of,
    spreads_of,
    weighted_rows,
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


@each_chunks
@each("entry", [(0, 0), (8, 1), (9, 2), (29, 6), (17, 4)])
def test_an_entry_that_is_refused_is_named_by_its_place(X, chunks, entry):
    array = dask_array.from_array(X, chunks=chunks)
    check_entries(array)
    X[entry] = -1.0
    with pytest.raises(ValueError, match=re.escape(f"X[{entry[0]}, {entry[1]}] = -1")):
        check_entries(dask_array.from_array(X, chunks=chunks))
    # Of partitions of unknown sizes, by its place in the partition.
    unknown = dask_array.from_array(X, chunks=(10, 7)).map_blocks(lambda part: part)
    unknown._chunks = ((np.nan,) * 3, (7,))
    with pytest.raises(ValueError, match=re.escape(f"X[{entry[0] % 10}, {entry[1]}] = -1")):
        check_entries(unknown)


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


def test_rows_of_a_block_are_in_double_precision(rng, X):
    single = X.astype(np.float32)
    weights = weights_of(rng, True)
    for given, expected in ((None, single.astype(np.float64)), (weights, single * weights)):
        found = weighted_rows(single, given)
        assert found.dtype == np.float64
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(found, expected)


def test_what_a_block_cannot_take_is_named_by_its_place_in_the_whole(X):
    X[4, 2] = np.inf
    for make in (lambda part: ColumnBlock.of(X, None, 1, part), lambda p: spreads_of(X, 1, p)):
        with pytest.raises(ValueError, match=r"X\[104, 12\]"):
            make(Part(100, 10))


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


def test_rows_are_read_once(X):
    reads = []

    def read(part):
        reads.append(part.shape)
        return part

    array = dask_array.from_array(X, chunks=(30, 4)).map_blocks(read, dtype=X.dtype, meta=X[:0])
    columns = DistributedColumns(array, 1)
    assert reads == []
    for _ in range(2):
        columns.product(np.ones((30, 1)), 1)
        columns.remove(np.array([1]), 1).row_sums(1)
        columns.spreads(1)
    assert sorted(reads) == [(30, 3), (30, 4)]
    # What is read for spreads alone is not kept.
    reads.clear()
    columns = DistributedColumns(array, 1)
    for n in (1, 2):
        columns.spreads(1)
        assert sorted(reads) == sorted([(30, 3), (30, 4)] * n)


def test_bad_entries_of_columns_are_named_by_their_place(X):
    X[17, 4] = np.nan
    array = dask_array.from_array(X, chunks=(10, 2))
    for ask in (lambda c: c.spreads(1), lambda c: c.row_sums(1)):
        with pytest.raises(ValueError, match=r"X\[17, 4\]"):
            ask(DistributedColumns(array, 1))


@each("sent", [1, 2 * 7 * 8, 3 * 7 * 8, 4 * 7 * 8 - 1, 1 << 26])
@each("n", [0, 1, 6, 7])
def test_scores_of_rows_that_are_sent_some_at_a_time(rng, monkeypatch, X, sent, n):
    monkeypatch.setattr(columns_module, "_SENT_BYTES", sent)
    columns = DistributedColumns(dask_array.from_array(X, chunks=(30, 3)), 1)
    V, Z = rng.normal(size=(30, 2)), rng.gamma(1.0, size=(n, 7))
    sizes, split = [], columns.split
    monkeypatch.setattr(columns, "split", lambda rows: sizes.append(len(rows)) or split(rows))
    score = DistributedScore(columns, V)
    found = score.evaluate(Z, 1)
    assert found.shape == (n, 2)
    assert_close(found, intersection_kernel(Z, X) @ V, 1e-10)
    size = max(1, sent // 56)
    assert sizes == [min(size, n - start) for start in range(0, max(n, 1), size)]
    assert not score.takes_features
    assert score.error_bound().tolist() == [0.0, 0.0]


@each("chunks", [(4, 5), (11, 7), (3, 2)])
def test_scores_of_rows_of_dask_stay_in_their_partitions(rng, monkeypatch, X, chunks):
    columns = DistributedColumns(dask_array.from_array(X, chunks=(30, 3)), 1)
    V, Z = rng.normal(size=(30, 2)), rng.gamma(1.0, size=(11, 7))
    others = dask_array.from_array(Z, chunks=chunks)
    assert len(columns.partitions_of(others)) == others.numblocks[0]
    score = DistributedScore(columns, V)
    with monkeypatch.context() as patch:
        # They are not sent.
        patch.setattr(DistributedColumns, "split", None)
        for _ in range(2):
            assert_close(score.evaluate(others, 1), intersection_kernel(Z, X) @ V, 1e-10)
        assert_close(columns.cross_kernel(others), intersection_kernel(X, Z), 1e-10)
    kept = score._parts
    score.evaluate(Z, 1)
    # What was made for the columns stays.
    assert score._parts is kept
    table = DistributedScore(columns, V, 16, "nearest")
    whole = TabulatedScore(_histrs.SortedColumns(X, 1), V, 16, "nearest", 1)
    assert_close(table.evaluate(others, 1), whole.evaluate(Z, 1), 1e-6)
    assert np.all(table.error_bound() >= np.abs(table.evaluate(Z, 1) - score.evaluate(Z, 1)).max(0))


# ---- rows projected on knots ---------------------------------------------------------------------


@each_chunks
def test_projections_of_rows_are_those_of_one_machine(rng, X, chunks):
    X[:, 5] = rng.random(30)
    array = dask_array.from_array(X, chunks=chunks)
    found = DistributedProjection(array, 4, 1)
    whole = _histrs.KnotProjection(_histrs.SortedColumns(X, 1), 4, 1)
    V, weights = rng.normal(size=(30, 2)), rng.random(30)
    some = np.array([0, 3, 8, 9, 20, 29])
    for projection, expected, rows in (
        (found, whole, np.arange(30)),
        (found.select(some, 1), whole.select(some, 1), some),
        (found.select(some[3:], 1), whole.select(some[3:], 1), some[3:]),
        (found.select(some, 1).select(np.array([1, 4]), 1), whole.select(some[[1, 4]], 1), [3, 20]),
    ):
        for _ in range(2):
            assert_close(projection.gram(1), expected.gram(1), 1e-10)
        right = expected.weighted_gram(weights[rows], 1)
        assert_close(projection.weighted_gram(weights[rows], 1), right, 1e-10)
        assert_close(projection.project(V[rows], 1), expected.project(V[rows], 1), 1e-10)
        W = rng.normal(size=(len(expected.gram(1)), 2))
        assert_close(projection.expand(W, 1), expected.expand(W, 1), 1e-10)
        for a, b in zip(projection.inverse_kernel(), expected.inverse_kernel(), strict=True):
            assert_close(a, b, 1e-10)
        # What is kept may not be written to, and what is returned may.
        projection.gram(1)[:] = np.nan
        assert_close(projection.gram(1), expected.gram(1), 1e-10)


@each(
    ("chunks", "sizes"),
    [
        ((9, 2), [9, 9, 9, 3]),
        ((9, 7), [9, 9, 9, 3]),
        ((20, 3), [20, 10]),
        # Chunked by columns alone: as many parts, of nearly as many rows each.
        ((30, 3), [10, 10, 10]),
        ((30, 2), [7, 8, 7, 8]),
        ((30, 7), [30]),
    ],
)
def test_parts_are_chunks_of_rows_or_as_many_as_chunks_of_columns(X, chunks, sizes):
    found = DistributedProjection(dask_array.from_array(X, chunks=chunks), 4, 1)
    parts = dask.compute(*found._parts)
    assert [len(part._rows) for part in parts] == sizes
    np.testing.assert_array_equal(np.vstack([part._rows for part in parts]), X)
    assert found._parts is found._parts
    assert len(DistributedProjection(dask_array.zeros((2, 9), chunks=(2, 3)), 4, 1)._parts) == 2


def test_knots_are_quantiles_of_different_rows(X, monkeypatch):
    array = dask_array.from_array(X, chunks=(9, 7))
    samples, projection_of = [], bound_module._projection_of

    def watched(sample, n_knots, n_threads):
        samples.append(sample)
        return projection_of(sample, n_knots, n_threads)

    monkeypatch.setattr(bound_module, "_projection_of", watched)
    for n, expected in ((30, 30), (31, 30), (29, 29), (12, 12)):
        monkeypatch.setattr(bound_module, "_SAMPLE_ROWS", n)
        samples.clear()
        DistributedProjection(array, 4, 1)
        (sample,) = samples
        # In the order of the rows.
        places = [np.flatnonzero((row == X).all(axis=1)) for row in sample]
        chosen = [place[0] for place in places]
        assert len(set(chosen)) == len(sample) == expected
        assert chosen == sorted(chosen)


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


@each("name", [None, "knots", "pivoted-cholesky"])
@each_weights
def test_preconditioners_are_those_of_one_machine(rng, X, name, has_weights):
    X[:, 5] = rng.random(30)
    scale = weights_of(rng, has_weights, 30)
    system, whole = systems(X, (9, 7), scale, preconditioner=name)
    V = rng.normal(size=(30, 2))
    found = system.preconditioner.solve(V)
    if name is None:
        np.testing.assert_array_equal(found, V)
    elif name == "knots":
        assert_close(found, whole.preconditioner.solve(V), 1e-8)
    else:
        assert isinstance(system.preconditioner, Landmarks)
        # Of few pivots, which need not be the same.
        errors = [system.preconditioner.solve(system.multiply(V)) - V]
        assert np.linalg.norm(errors) < np.linalg.norm(system.multiply(V) / system.s - V)


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
