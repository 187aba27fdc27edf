"""What the support vector machines are made of, each part against its definition."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler

from histrs.kernel_approximation import SparseAdditiveMap
from histrs.quantization import ProductQuantizer
from histrs.svm import BundleSVC
from histrs.svm._composition import BlockDiagonalProduct, inner_product_of
from histrs.svm._distributed import _n_bytes, _RowBlock
from histrs.svm._held_out import folds
from histrs.svm._planes import Planes
from histrs.svm._rows import CodeRows, FeatureRows, RowsWithIntercept
from histrs.svm._units import Columns
from tests.oracles import bundle as oracle
from tests.oracles import quantization as codes_oracle

CONTAINERS = [np.asarray, sparse.csr_array]


# ---- columns ------------------------------------------------------------------------------------


@given(
    n=st.integers(1, 9),
    n_before=st.integers(0, 4),
    chunk=st.integers(1, 10),
    seed=st.integers(0, 999),
)
def test_columns_are_where_entries_begin_and_their_spread(n, n_before, chunk, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, (n, 6)) * rng.integers(0, 2, 6) + rng.integers(0, 3, 6) / 4
    before = rng.integers(0, 4, 6) / 2
    seen = np.vstack([np.tile(before, (n_before, 1)), X])
    begin = np.where((seen > 0).all(axis=0), seen.min(axis=0), 0.0)
    spread = np.where(seen > 0, seen - begin, 0.0).std(axis=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("histrs.svm._units._CHUNK", chunk)
        for container in CONTAINERS:
            known = (n_before, before) if n_before else None
            columns, constant = Columns.of(container(X), spread=True, n_threads=1, before=known)
            np.testing.assert_array_equal(columns.offset, begin)
            np.testing.assert_array_equal(constant, np.ptp(seen, axis=0) == 0)
            unit = np.where(constant, 1.0, spread)
            np.testing.assert_allclose(columns.unit, unit, rtol=1e-9)
            columns, constant = Columns.of(container(X), spread=False, n_threads=1, before=known)
            np.testing.assert_array_equal(columns.offset, begin)
            np.testing.assert_array_equal(columns.unit, 1.0)
            kept = (np.ptp(seen, axis=0) == 0) & (seen > 0).all(axis=0)
            np.testing.assert_array_equal(constant, kept)


# ---- folds --------------------------------------------------------------------------------------


@given(
    sizes=st.lists(st.integers(0, 7), min_size=1, max_size=4),
    n_folds=st.integers(2, 6),
    seed=st.integers(0, 99),
)
def test_folds_hold_each_row_out_once(sizes, n_folds, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    labels = np.random.default_rng(seed).permutation(labels)
    parts = list(folds(labels, np.random.RandomState(seed), n_folds))
    held_out = [others for _, others in parts]
    expected = [i for i, label in enumerate(labels) if sizes[label] > 1]
    assert sorted(np.concatenate([*held_out, np.empty(0, int)])) == expected
    for learned, others in parts:
        assert len(others)
        np.testing.assert_array_equal(np.sort(np.append(learned, others)), np.arange(len(labels)))
        assert set(labels[learned]) == set(labels)
    # Dealt in turn: no fold has two more than another, of one class or of all.
    counts = np.array([np.bincount(labels[part], minlength=len(sizes)) for part in held_out])
    if len(parts) == n_folds:
        assert np.all(np.ptp(counts, axis=0) <= 1)
    if min(sizes) > 1 and len(parts) == n_folds:
        assert np.ptp(counts.sum(axis=1)) <= 1


# ---- inner products -----------------------------------------------------------------------------


def test_products_side_by_side_are_blocks(rng):
    phi = SparseAdditiveMap("intersection", n_knots=3).fit(rng.random((20, 2)))
    inner = phi.inner_product_
    m = inner.shape[0]
    product = BlockDiagonalProduct([(2, None), (m, inner), (0, None), (1, None)])
    K = np.eye(m + 3)
    K[2 : m + 2, 2 : m + 2] = inner.matmul(np.eye(m))
    assert product.shape == (m + 3, m + 3)
    V = rng.standard_normal((m + 3, 4))
    np.testing.assert_allclose(product.matmul(V), K @ V, rtol=1e-12)
    np.testing.assert_allclose(product.solve(V), np.linalg.pinv(K) @ V, rtol=1e-8)


def test_the_width_of_one_part_of_a_union_follows_from_the_others(rng):
    X = rng.random((20, 3))
    knots = SparseAdditiveMap("intersection", n_knots=4)
    double = FunctionTransformer(lambda rows: np.hstack([rows, rows]))

    def product(*members):
        union = FeatureUnion([(str(k), member) for k, member in enumerate(members)]).fit(X)
        n = union.transform(X).shape[1]
        return inner_product_of(union, n), n

    phi = knots.fit(X)
    K, m = (
        phi.inner_product_.matmul(np.eye(phi.inner_product_.shape[0])),
        phi.inner_product_.shape[0],
    )
    for members, start in (
        ((double, knots), 6),
        ((knots, double), 0),
        ((MaxAbsScaler(), knots, double), 3),
        ((double, "drop", knots), 6),
        ((double, knots, "drop"), 6),
        (("passthrough", knots), 3),
    ):
        found, n = product(*members)
        expected = np.eye(n)
        expected[start : start + m, start : start + m] = K
        np.testing.assert_allclose(found.matmul(np.eye(n)), expected, rtol=1e-12, atol=1e-15)
    assert product(double, MaxAbsScaler())[0] is None
    with pytest.raises(ValueError, match="which features of the union belong to the maps"):
        product(double, knots, FunctionTransformer(lambda rows: rows[:, :1]))


class Hat(TransformerMixin, BaseEstimator):
    """A map that has its inner product once it is fitted."""

    def fit(self, X, y=None):
        self.inner_product_ = SimpleNamespace(shape=(X.shape[1],) * 2, matmul=lambda V: 2 * V)
        return self

    def transform(self, X):
        return X


class Around(TransformerMixin, BaseEstimator):
    """A transformer of what another one returns."""

    def __init__(self, inner):
        self.inner = inner

    def fit(self, X, y=None):
        self.inner.fit(X)
        return self

    def transform(self, X):
        return np.sqrt(self.inner.transform(X))


def test_features_of_an_inner_product_that_are_changed_are_refused(rng):
    X = rng.random((9, 3))
    knots = SparseAdditiveMap("intersection", n_knots=4).fit(X)
    for inside in (knots, Hat().fit(X), Around(knots), [Around(Around(Hat().fit(X)))]):
        wrapped = Around(inside)
        with pytest.raises(ValueError, match="as a part of Around its features are changed"):
            inner_product_of(wrapped, 3)
        with pytest.raises(ValueError, match="as step 'a' of a pipeline its features are changed"):
            inner_product_of(Pipeline([("a", wrapped), ("b", MaxAbsScaler())]), 3)
    assert inner_product_of(Around(MaxAbsScaler()), 3) is None
    assert inner_product_of(Hat().fit(X), 3).matmul(1.0) == 2.0


def test_what_is_frozen_has_the_inner_product_that_it_had(rng):
    X = rng.random((9, 3))
    made = Pipeline([("scale", MaxAbsScaler()), ("hat", FrozenEstimator(Hat().fit(X)))]).fit(X)
    assert inner_product_of(FrozenEstimator(made), 3).matmul(1.0) == 2.0


def test_parts_of_columns_of_any_width(rng):
    X = rng.random((20, 4))
    knots = SparseAdditiveMap("intersection", n_knots=4)
    double = FunctionTransformer(lambda rows: np.hstack([rows, rows]))
    # A part inside whose width follows from the others, one without columns, and the rest.
    nested = FeatureUnion([("double", double), ("knots", knots)])
    columns = ColumnTransformer(
        [("none", ProductQuantizer(), []), ("gone", "drop", [3]), ("nested", nested, [1, 2])],
        remainder="passthrough",
    ).fit(X)
    n = columns.transform(X).shape[1]
    m = SparseAdditiveMap("intersection", n_knots=4).fit(X[:, 1:3]).inner_product_.shape[0]
    assert n == 4 + m + 1
    found = inner_product_of(columns, n).matmul(np.eye(n))
    expected = np.eye(n)
    expected[4 : 4 + m, 4 : 4 + m] = (
        SparseAdditiveMap("intersection", n_knots=4).fit(X[:, 1:3]).inner_product_.matmul(np.eye(m))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    # Features that are compared by their scalar product have none of their own.
    whitened = SparseAdditiveMap("intersection", n_knots=4, whiten=True).fit(X)
    assert inner_product_of(whitened, whitened.transform(X).shape[1]) is None


# ---- planes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [20_000, 1])
@pytest.mark.parametrize("rank", [2, 5])
def test_the_dual_of_planes_is_that_of_their_definition(rng, most, rank, monkeypatch):
    monkeypatch.setattr("histrs.svm._planes._MAX_EXCHANGES", most)
    root = rng.standard_normal((5, rank))
    K = root @ root.T
    alpha, best = 0.3, K @ rng.standard_normal(5)
    A, b = rng.standard_normal((20, 5)), rng.random(20)
    planes, idle, kept = Planes(5, 1.0).with_alpha(alpha), np.zeros(20, int), np.arange(0)
    for k in range(20):
        planes.add(A[k], K @ A[k], b[k], A[k] @ best)
        kept = np.append(kept, k)
        value = planes.solve(1e-10, 1)
        w, H = planes.weights, A[kept] @ K @ A[kept].T
        assert len(planes) == len(w) == len(kept)
        assert w.min() >= 0
        assert w.sum() == pytest.approx(1)
        assert value == pytest.approx(b[kept] @ w - w @ H @ w / (2 * alpha), rel=1e-9)
        assert value == pytest.approx(oracle.simplex_maximum(H / alpha, b[kept]), abs=1e-6)
        v = K @ A[kept].T @ w / alpha
        np.testing.assert_allclose(planes.model(), v, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(planes.at_model(), A[kept] @ v, rtol=1e-8, atol=1e-10)
        assert planes.square() == pytest.approx(v @ np.linalg.pinv(K) @ v, rel=1e-6, abs=1e-12)
        assert planes.with_best() == pytest.approx(w @ (A[kept] @ best) / alpha)
        idle[kept] = np.where(w > 0, 0, idle[kept] + 1)
        planes.remove_idle()
        assert len(planes) == len(kept)


# ---- features of maps -------------------------------------------------------------------------


def test_sparse_features_of_any_format(rng):
    X, y = rng.random((40, 4)), np.arange(40) % 2
    parts = {"alpha": [0.1, 1.0], "cv": 2, "random_state": 0}
    expected = BundleSVC(FunctionTransformer(sparse.csr_array), **parts).fit(X, y)
    for made in (sparse.coo_array, sparse.coo_matrix, sparse.csc_array, sparse.bsr_array):
        model = BundleSVC(FunctionTransformer(made), **parts).fit(X, y)
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X))


def test_workers_are_told_how_large_blocks_are(rng):
    X = rng.random((10, 4)) * (rng.random((10, 4)) < 0.5)
    S = sparse.csr_array(X)
    assert _n_bytes(X) == 320
    assert _n_bytes(S) == S.data.nbytes + S.indices.nbytes + S.indptr.nbytes
    assert _n_bytes(sparse.coo_array(X)) == _n_bytes(S)
    block = _RowBlock(FeatureRows(X, None), 800)
    assert block.__sizeof__() == 800
    assert block.part(np.arange(5)).__sizeof__() == 400
    assert _RowBlock(FeatureRows(X[:1], None), 80).part(np.arange(1)).__sizeof__() == 80
    assert _RowBlock(FeatureRows(X[:0], None), 80).part(np.arange(0)).__sizeof__() == 0


# ---- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 3, 4, 2048])
@pytest.mark.parametrize("kind", ["dense", "sparse", "mapped", "codes", "factored"])
@pytest.mark.parametrize("intercept", [False, True])
def test_rows_are_their_features(rng, chunk, kind, intercept, monkeypatch):
    monkeypatch.setattr("histrs.svm._rows._CHUNK", chunk)
    X = np.abs(rng.standard_normal((11, 4)))
    product = None
    if kind in ("dense", "sparse", "mapped"):
        features, K = X, np.eye(4)
        if kind == "mapped":
            phi = SparseAdditiveMap("intersection", n_knots=3).fit(X)
            product, features = phi.inner_product_, phi.transform(X).toarray()
            K = product.matmul(np.eye(features.shape[1]))
        rows = FeatureRows(sparse.csr_array(X) if kind == "sparse" else features, product)
    else:
        metric = "intersection" if kind == "codes" else "hellinger"
        pq = ProductQuantizer(2, 3, metric, random_state=0).fit(X)
        codes = pq.transform(X)
        features = codes_oracle.one_hot(codes, 3)
        K = codes_oracle.codeword_kernel(pq.codebooks_, metric)
        rows = CodeRows(codes, pq.inner_product_, 3, pq.codebooks_.dtype, 1)
    if intercept:
        rows = RowsWithIntercept(rows, 3.0)
        K = np.block([[K, np.zeros((len(K), 1))], [np.zeros((1, len(K))), 9.0 * np.eye(1)]])
        features = np.hstack([features, np.ones((11, 1))])
    assert len(rows) == 11
    G, others = rng.standard_normal((2, 2, 11))
    a, product_a = rows.gradients(G)
    assert a.shape == product_a.shape == (2, rows.width)
    # A model is made of gradients; its scores are those of the kernel between rows.
    kernel = features @ K @ features.T
    np.testing.assert_allclose(rows.scores(product_a), G @ kernel, rtol=1e-5, atol=1e-6)
    out = np.empty((2, 11))
    assert rows.scores(product_a, out) is out
    np.testing.assert_array_equal(out, rows.scores(product_a))
    np.testing.assert_allclose(
        rows.gradients(others)[0] @ product_a.T, others @ kernel @ G.T, rtol=1e-5, atol=1e-5
    )
    coef = rows.coef(product_a)
    width = features.shape[1] - intercept
    np.testing.assert_allclose(coef, (G @ features @ K)[:, :width], rtol=1e-5, atol=1e-5)
    some = np.array([9, 2, 3])
    part = rows.part(some)
    assert (len(part), part.width) == (3, rows.width)
    np.testing.assert_allclose(part.scores(product_a), out[:, some], rtol=1e-5, atol=1e-6)
