"""Neighbours among codes: the core's search, distances and inner products, indexes, and errors."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator

from histrs.quantization import CodeNeighbors, ProductQuantizer
from tests.oracles import quantization as oracle

pytestmark = pytest.mark.simd_paths

METRICS = ["euclidean", "sqeuclidean", "inner_product"]
QUANTIZERS = {
    "plain": {},
    "rotation": {"rotation": "opq"},
    "levels": {"n_levels": 2},
    "both": {"rotation": "opq", "n_levels": 3},
}


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)[0]


@pytest.fixture(scope="module")
def quantizers(digits):
    return {
        name: ProductQuantizer(5, 16, random_state=0, max_iter=5, **parameters).fit(digits[:600])
        for name, parameters in QUANTIZERS.items()
    }


# ---- answers ------------------------------------------------------------------------------------


def assert_neighbors(found, X, indexed, metric, atol):
    """Distances are those of the rows named, and no other row is nearer, but for rounding."""
    values, rows = found
    expected, _ = oracle.neighbors(X, indexed, rows.shape[1], metric)
    np.testing.assert_allclose(values, expected, rtol=0, atol=atol)
    if metric == "inner_product":
        named = np.einsum("qd,qkd->qk", X, indexed[rows])
    else:
        named = ((X[:, None] - indexed[rows]) ** 2).sum(axis=2)
        named = np.sqrt(named) if metric == "euclidean" else named
    np.testing.assert_allclose(values, named, rtol=0, atol=atol)
    assert all(len(set(row)) == len(row) for row in rows.tolist())


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", QUANTIZERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbors_are_those_among_decoded_rows(digits, quantizers, name, metric, dtype):
    quantizer = quantizers[name]
    codes = quantizer.transform(digits[:600])
    index = CodeNeighbors(quantizer, 7, metric).fit_codes(codes)
    indexed = quantizer.inverse_transform(codes)
    queries = digits[600:650].astype(dtype)
    found = index.kneighbors(queries)
    assert found[0].dtype == dtype
    scale = (digits**2).sum(axis=1).max()
    # A root of what has cancelled.
    eps = 1e-6 if dtype == np.float32 else 1e-13
    atol = eps * scale if metric != "euclidean" else np.sqrt(scale) * max(eps, 1e-10)
    assert_neighbors(found, queries.astype(float), indexed, metric, atol)
    np.testing.assert_array_equal(index.kneighbors(queries, return_distance=False), found[1])
    few = index.kneighbors(queries, 3)
    np.testing.assert_array_equal(few[1], found[1][:, :3])
    in_csr = index.kneighbors(sparse.csr_array(queries))
    np.testing.assert_allclose(in_csr[0], found[0], rtol=0, atol=atol)


@pytest.mark.parametrize("name", QUANTIZERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_codes_stand_for_is_at_distance_zero(digits, quantizers, name, dtype):
    quantizer = clone(quantizers[name]).fit(digits[:600].astype(dtype))
    codes = np.unique(quantizer.transform(digits[:600]), axis=0)
    queries = quantizer.inverse_transform(codes)
    distances, rows = CodeNeighbors(quantizer, 1).fit_codes(codes).kneighbors(queries)
    np.testing.assert_array_equal(rows[:, 0], np.arange(len(codes)))
    # Queries of single precision are rotated in it.
    eps = np.finfo(dtype).eps if name in ("rotation", "both") else np.finfo(np.float64).eps
    assert distances.max() <= 10 * np.sqrt(eps) * np.linalg.norm(digits, axis=1).max()


def test_a_row_is_no_neighbor_of_itself(quantizers):
    # More copies than neighbours: a row may be behind all that are returned.
    codes = np.zeros((9, 5), dtype=np.uint8)
    codes[7:] = 3
    index = CodeNeighbors(quantizers["plain"], 3).fit_codes(codes)
    distances, rows = index.kneighbors()
    assert not np.any(rows == np.arange(9)[:, None])
    np.testing.assert_array_equal(rows[0], [1, 2, 3])
    np.testing.assert_array_equal(rows[6], [0, 1, 2])
    np.testing.assert_array_equal(rows[8], [7, 0, 1])
    np.testing.assert_allclose(distances[:7], 0.0, atol=1e-6)
    assert index.kneighbors(n_neighbors=8)[1].shape == (9, 8)
    with pytest.raises(ValueError, match="n_neighbors = 9 is more than the 8 samples"):
        index.kneighbors(n_neighbors=9)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["plain", "both"])
@pytest.mark.parametrize(
    ("dtype", "scale"), [(np.float64, 1e-150), (np.float64, 1e120), (np.float32, 2.0**-90)]
)
def test_units_do_not_matter(digits, quantizers, name, metric, dtype, scale):
    scale = 2.0 ** np.round(np.log2(scale))
    X = digits[:300].astype(dtype)
    queries = digits[300:310].astype(dtype)
    unscaled, scaled = (
        CodeNeighbors(quantizers[name], 5, metric).fit(unit * X).kneighbors(unit * queries)
        for unit in (dtype(1.0), dtype(scale))
    )
    np.testing.assert_array_equal(scaled[1], unscaled[1])
    unit = scale if metric == "euclidean" else scale**2
    np.testing.assert_allclose(scaled[0] / unit, unscaled[0], rtol=1e-5 if unit > 1e-38 else 1)


def test_many_queries_and_many_neighbors_are_answered_in_parts(digits, quantizers, monkeypatch):
    index = CodeNeighbors(quantizers["levels"], 600).fit_codes(
        quantizers["levels"].transform(digits[:600])
    )
    whole = index.kneighbors(digits[:100])
    assert sorted(whole[1][0].tolist()) == list(range(600))
    monkeypatch.setattr("histrs.quantization._neighbors._AT_A_TIME", 2**16)
    in_parts = index.kneighbors(digits[:100])
    np.testing.assert_allclose(in_parts[0], whole[0], rtol=0, atol=1e-6)


# ---- the index ----------------------------------------------------------------------------------


def test_fit_learns_what_is_not_frozen(digits, quantizers):
    quantizer = quantizers["rotation"]
    fitted = CodeNeighbors(quantizer).fit(digits[:300])
    assert fitted.quantizer_ is not quantizer
    expected = clone(quantizer).fit(digits[:300])
    np.testing.assert_array_equal(fitted.codes_, expected.transform(digits[:300]))
    frozen = CodeNeighbors(FrozenEstimator(quantizer)).fit(digits[:300])
    assert frozen.quantizer_.codebooks_ is quantizer.codebooks_
    default = CodeNeighbors().fit(digits)
    assert default.codes_.shape == (len(digits), 8)
    assert default.n_samples_fit_ == len(digits)
    assert default.kneighbors(digits[:2])[1].shape == (2, 5)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.kneighbors(digits)[0], fitted.kneighbors(digits)[0])


def test_the_answers_are_of_what_was_fitted(digits, quantizers):
    index = CodeNeighbors(quantizers["levels"], 3).fit(digits[:300])
    before = index.kneighbors(digits[:9])
    index.set_params(metric="inner_product")
    np.testing.assert_array_equal(index.kneighbors(digits[:9])[0], before[0])


def test_codes_of_a_memory_map_are_not_copied(digits, quantizers, tmp_path):
    quantizer = quantizers["plain"]
    np.save(tmp_path / "codes.npy", quantizer.transform(digits))
    codes = np.load(tmp_path / "codes.npy", mmap_mode="r")
    index = CodeNeighbors(quantizer, 2).fit_codes(codes)
    assert np.shares_memory(index.codes_, codes)
    assert index.n_features_in_ == 64
    np.testing.assert_array_equal(
        index.kneighbors(digits[:3])[1],
        CodeNeighbors(FrozenEstimator(quantizer), 2).fit(digits).kneighbors(digits[:3])[1],
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i, X: i.kneighbors(X, 0), "n_neighbors = 0"),
        (lambda i, X: i.kneighbors(X, 301), "n_neighbors = 301 is more than the 300 samples"),
        (lambda i, X: i.kneighbors(X[:, :8]), "64 features"),
        (lambda i, X: i.kneighbors(np.full((2, 64), np.nan)), r"X\[0, 0\] = NaN"),
        (lambda i, X: i.kneighbors(1e300 * X), "overflow"),
        (lambda i, X: i.fit_codes(np.full((3, 10), 16)), r"codes\[0, 0\] = 16"),
        (lambda i, X: i.fit_codes(np.empty((0, 10), np.uint8)), "0 rows"),
        (lambda i, X: i.fit(X[:3]), "fewer than n_codes"),
        (lambda i, X: i.set_params(n_neighbors=0).fit(X), "n_neighbors"),
        (lambda i, X: i.set_params(metric="cosine").fit(X), "metric"),
        (lambda i, X: i.set_params(quantizer=None).fit_codes(i.codes_), "quantizer = None"),
        (
            lambda i, X: i.set_params(quantizer=ProductQuantizer(metric="chi2")).fit(X),
            'quantizer has metric = "chi2"',
        ),
    ],
)
def test_bad_calls_change_nothing(digits, quantizers, call, message):
    index = CodeNeighbors(quantizers["levels"], 4).fit(digits[:300])
    before = pickle.dumps({k: v for k, v in vars(index).items() if k.endswith("_")})
    with pytest.raises(ValueError, match=message):
        call(index, digits[300:600])
    assert pickle.dumps({k: v for k, v in vars(index).items() if k.endswith("_")}) == before


@pytest.mark.parametrize("n_levels", [1, 2])
def test_an_index_keeps_the_codewords_that_its_codes_name(rng, n_levels):
    X, Q = rng.random((200, 8)), rng.random((5, 8))
    quantizer = ProductQuantizer(2, 8, n_levels=n_levels, random_state=0).fit(X)
    index = CodeNeighbors(quantizer).fit_codes(quantizer.transform(X))
    before = index.kneighbors(Q)
    quantizer.partial_fit(rng.random((500, 8)) + 1.0)
    for a, b in zip(index.kneighbors(Q), before, strict=True):
        np.testing.assert_array_equal(a, b)


# ---- an index that is kept ----------------------------------------------------------------------

KEPT = {
    "codes": {},
    "lists": {"n_lists": 12, "n_probes": 3},
    "every list": {"n_lists": 12, "n_probes": 12},
    "rows": {"rerank": 40},
    "both": {"n_lists": 5, "n_probes": 5, "rerank": 40},
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("levels", ["plain", "both"])
def test_added_and_removed_rows_are_as_if_indexed_at_once(
    digits, quantizers, name, metric, levels, tmp_path
):
    frozen, ids = FrozenEstimator(quantizers[levels]), np.arange(1000, 1600)
    whole = CodeNeighbors(frozen, 7, metric, **KEPT[name]).fit(digits[:600], ids=ids)
    grown = CodeNeighbors(frozen, 7, metric, **KEPT[name]).fit(digits[:600], ids=ids)
    grown.add(digits[600:700]).remove(np.arange(1600, 1700))
    queries = digits[700:750]
    for a, b in zip(grown.kneighbors(queries), whole.kneighbors(queries), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    grown.save(tmp_path / "index")
    grown.save(tmp_path / "index")
    loaded = CodeNeighbors.load(tmp_path / "index")
    assert loaded.get_params(deep=False).keys() == grown.get_params(deep=False).keys()
    for a, b in zip(loaded.kneighbors(queries), grown.kneighbors(queries), strict=True):
        np.testing.assert_array_equal(a, b)
    loaded.remove([1000]).add(digits[:1], ids=[7])
    np.testing.assert_array_equal(np.sort(loaded.ids_), [7, *range(1001, 1600)])


@pytest.mark.parametrize("metric", METRICS)
def test_every_list_is_the_whole_index(digits, quantizers, metric):
    codes = quantizers["levels"].transform(digits[:600])
    plain = CodeNeighbors(quantizers["levels"], 9, metric).fit_codes(codes)
    lists = CodeNeighbors(quantizers["levels"], 9, metric, n_lists=7, n_probes=7).fit_codes(codes)
    np.testing.assert_allclose(lists.kneighbors(digits)[0], plain.kneighbors(digits)[0], rtol=1e-9)
    itself = lists.kneighbors()
    assert not np.any(itself[1] == lists.ids_[:, None])
    order = np.argsort(lists.ids_)
    np.testing.assert_allclose(itself[0][order], plain.kneighbors()[0], rtol=1e-9)
    few = CodeNeighbors(quantizers["levels"], 9, metric, n_lists=7, n_probes=1).fit_codes(codes)
    found = few.kneighbors(digits, 500)[1]
    assert all(len(set(row)) == 500 for row in found.tolist())
    recall = np.mean(few.kneighbors(digits)[1][:, :1] == plain.kneighbors(digits)[1][:, :1])
    assert recall > 0.5


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_candidates_ranked_again_are_exact_neighbors(digits, quantizers, metric, dtype):
    X, queries = digits[:300].astype(dtype), digits[300:340].astype(dtype)
    frozen = FrozenEstimator(quantizers["plain"])
    index = CodeNeighbors(frozen, 6, metric, rerank=300).fit(X)
    found = index.kneighbors(queries)
    assert found[0].dtype == dtype
    assert_neighbors(found, queries.astype(float), digits[:300], metric, 1e-3)
    distances, rows = index.kneighbors()
    assert not np.any(rows == np.arange(300)[:, None])
    expected = oracle.neighbors(digits[:300], digits[:300], 7, "euclidean")[0][:, 1:]
    if metric == "euclidean":
        np.testing.assert_allclose(distances, expected, atol=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda i, X: i.add(X, ids=[1]), "ids has shape"),
        (lambda i, X: i.add(X, ids=np.zeros(len(X))), "dtype float64"),
        (lambda i, X: i.add(X, ids=np.arange(len(X)) + 299), "ids has 299 twice"),
        (lambda i, X: i.add(X[:, :8]), "64 features"),
        (lambda i, X: i.add(np.full((1, 64), np.inf)), r"X\[0, 0\]"),
        (lambda i, X: i.add(sparse.csr_array(X)), "rerank keeps rows as they are"),
        (lambda i, X: i.remove([5, 300]), "ids has 300, which is not in the index"),
        (lambda i, X: i.remove(np.arange(300)), "at least one"),
        (lambda i, X: i.fit_codes(i.codes_), "rerank = 9 needs rows"),
        (lambda i, X: i.set_params(n_lists=1).fit(X), "n_lists"),
    ],
)
def test_bad_changes_change_nothing(digits, quantizers, call, message):
    index = CodeNeighbors(quantizers["plain"], 4, n_lists=3, rerank=9).fit(digits[:300])
    before = pickle.dumps({k: v for k, v in vars(index).items() if k.endswith("_")})
    with pytest.raises(ValueError, match=message):
        call(index, digits[300:600])
    assert pickle.dumps({k: v for k, v in vars(index).items() if k.endswith("_")}) == before


def test_files_of_other_indexes_are_refused(digits, quantizers, tmp_path):
    index = CodeNeighbors(quantizers["plain"], 4, n_lists=3).fit(digits[:300])
    quantizers["plain"].save(tmp_path / "quantizer")
    with pytest.raises(ValueError, match="holds no code neighbors of histrs"):
        index.save(tmp_path / "quantizer")
    for name, value in {
        "ids_": np.zeros(300, np.int64),
        "codes_": index.codes_[:10],
        "list_starts_": index.list_starts_[::-1].copy(),
        "lists_": quantizers["plain"],
        "norms_": np.ones(300),
        "rows_": np.zeros((2, 64)),
    }.items():
        bad = pickle.loads(pickle.dumps(index))
        setattr(bad, name, value)
        bad.save(tmp_path / name)
        with pytest.raises(ValueError, match="is damaged"):
            CodeNeighbors.load(tmp_path / name)


def test_long_codes_are_saved(digits, tmp_path):
    index = CodeNeighbors(ProductQuantizer(2, 300, random_state=0), 3).fit(digits[:400])
    index.save(tmp_path / "index")
    loaded = CodeNeighbors.load(tmp_path / "index")
    assert loaded.codes_.dtype == np.uint16
    np.testing.assert_array_equal(loaded.codes_, index.codes_)
