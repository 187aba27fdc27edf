"""Product quantisation: nearest codewords, sums over codes, inner products, files, and errors."""

import itertools
import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from histrs.quantization import ProductQuantizer, _rotation
from histrs.streaming import Moments
from histrs.svm import BundleSVC
from tests.helpers import assert_close
from tests.oracles import quantization as oracle

pytestmark = pytest.mark.simd_paths

METRICS = ["euclidean", "hellinger", "chi2", "intersection"]


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)[0]


def offsets_of(d, n_blocks):
    sizes = [len(part) for part in np.array_split(np.arange(d), n_blocks)]
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


# ---- learning -----------------------------------------------------------------------------------


# The oracle's distances, a whole array at a time.
DISTANCES = {
    "euclidean": lambda x, z: (x - z) ** 2,
    "hellinger": lambda x, z: (np.sqrt(x) - np.sqrt(z)) ** 2,
    "chi2": lambda x, z: (x - z) ** 2 / np.maximum(x + z, 1e-300),
    "intersection": lambda x, z: np.abs(x - z),
}


def distortion(X, pq):
    decoded = np.maximum(pq.inverse_transform(pq.transform(X)), 0.0)
    return DISTANCES[pq.metric_](X, decoded).sum()


@pytest.mark.parametrize("metric", METRICS)
def test_codebooks_fit_their_metric(digits, metric):
    X = digits[:300]
    pq = ProductQuantizer(4, 16, metric, random_state=0).fit(X)
    assert pq.codebooks_.shape == (4, 16, 16)
    np.testing.assert_array_equal(pq.counts_.sum(axis=1), 300)
    ours = distortion(X, pq)
    # Less distortion than with the codewords of any other metric.
    for other in METRICS:
        theirs = ProductQuantizer(4, 16, other, random_state=0).fit(X)
        theirs.metric_ = metric
        # k-means leaves means of zeros a rounding below 0, where there is no root.
        theirs.codebooks_ = np.maximum(theirs.codebooks_, 0.0)
        assert ours <= distortion(X, theirs) * 1.02
    # Much less than with the mean alone.
    single = clone(pq).set_params(n_codes=2).fit(X)
    assert ours < 0.75 * distortion(X, single)


def test_euclidean_codebooks_are_those_of_kmeans(digits):
    from sklearn.cluster import KMeans

    pq = ProductQuantizer(2, 8, random_state=0, n_jobs=1).fit(digits)
    seed = np.random.RandomState(0).randint(np.iinfo(np.int32).max, size=2)[1]
    means = KMeans(8, n_init=1, max_iter=25, random_state=int(seed)).fit(digits[:, 32:])
    np.testing.assert_allclose(pq.codebooks_[1], means.cluster_centers_, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(pq.transform(digits)[:, 1], means.predict(digits[:, 32:]))


def test_blocks_need_not_divide_the_columns(digits):
    pq = ProductQuantizer(7, 8, random_state=0).fit(digits)
    np.testing.assert_array_equal(pq.block_offsets_, offsets_of(64, 7))
    decoded = pq.inverse_transform(codes := pq.transform(digits))
    assert decoded.shape == digits.shape
    start, stop = pq.block_offsets_[6:8]
    np.testing.assert_array_equal(
        decoded[:, start:stop], pq.codebooks_[6, codes[:, 6], : stop - start]
    )
    np.testing.assert_array_equal(pq.codebooks_[6, :, stop - start :], 0.0)


def test_max_samples_draws_rows(digits):
    pq = ProductQuantizer(2, 8, max_samples=100, random_state=0).fit(digits)
    np.testing.assert_array_equal(pq.counts_.sum(axis=1), 100)
    pq.set_params(max_samples=3).fit(digits)  # as many as codes
    np.testing.assert_array_equal(pq.counts_.sum(axis=1), 8)


def test_single_precision_stays(digits):
    X = digits.astype(np.float32)
    pq = ProductQuantizer(4, 300, random_state=0).fit(X)
    assert pq.codebooks_.dtype == np.float32
    codes = pq.transform(X)
    assert codes.dtype == np.uint16
    assert pq.inverse_transform(codes).dtype == np.float32
    assert np.mean(codes == pq.transform(digits)) > 0.999


@pytest.mark.parametrize("metric", METRICS)
def test_partial_fit_takes_means_over_all_chunks(digits, metric):
    X = digits[:900]
    pq = ProductQuantizer(4, 8, metric, random_state=0).partial_fit(X[:300])
    first = clone(pq).fit(X[:300])
    np.testing.assert_array_equal(pq.codebooks_, first.codebooks_)
    pq.partial_fit(X[300:600])
    codes = first.transform(X[300:600])
    root = np.sqrt if metric in ("hellinger", "chi2") else np.asarray
    for m in range(4):
        rows = root(X[300:600, 16 * m : 16 * m + 16])
        for k in range(8):
            count = first.counts_[m, k]
            total = count * root(first.codebooks_[m, k]) + rows[codes[:, m] == k].sum(axis=0)
            count += np.sum(codes[:, m] == k)
            assert pq.counts_[m, k] == count
            np.testing.assert_allclose(root(pq.codebooks_[m, k]), total / count, atol=1e-12)
    before = distortion(X[600:], first)
    assert distortion(X[600:], pq.partial_fit(X[600:])) < 1.05 * before


# ---- streams and files --------------------------------------------------------------------------


def test_encoding_of_chunks_and_memory_maps(digits, tmp_path):
    pq = ProductQuantizer(4, 16, random_state=0).fit(digits)
    expected = pq.transform(digits)
    np.save(tmp_path / "rows.npy", digits)
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    out = np.lib.format.open_memmap(
        tmp_path / "codes.npy", mode="w+", dtype=np.uint8, shape=expected.shape
    )
    assert pq.encode(rows, chunk_size=100, out=out) is out
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), expected)
    np.testing.assert_array_equal(pq.encode(tmp_path / "rows.npy", chunk_size=7), expected)
    chunks = (sparse.csr_array(digits[i : i + 500]) for i in range(0, len(digits), 500))
    np.testing.assert_array_equal(pq.encode(chunks), expected)
    assert pq.encode(iter([])).shape == (0, 4)
    for bad in (np.empty((9, 4), np.uint8), np.empty((1798, 4), np.uint8)):
        with pytest.raises(ValueError, match="out has"):
            pq.encode(rows, out=bad)
    with pytest.raises(ValueError, match="dtype uint16"):
        pq.encode(rows, out=np.empty(expected.shape, np.uint16))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_files_keep_all_bits(digits, tmp_path, dtype):
    pq = ProductQuantizer(5, 16, "chi2", random_state=np.int64(3)).fit(digits.astype(dtype))
    pq.save(tmp_path / "pq")
    loaded = ProductQuantizer.load(tmp_path / "pq")
    assert loaded.codebooks_.tobytes() == pq.codebooks_.tobytes()
    assert loaded.codebooks_.dtype == dtype
    assert loaded.get_params() == pq.get_params()
    np.testing.assert_array_equal(loaded.transform(digits), pq.transform(digits))
    np.testing.assert_array_equal(
        loaded.partial_fit(digits).codebooks_, pq.partial_fit(digits).codebooks_
    )
    content = bytearray((tmp_path / "pq").read_bytes())
    content[-50] ^= 1
    (tmp_path / "pq").write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        ProductQuantizer.load(tmp_path / "pq")
    Moments(3).save(tmp_path / "moments")
    (tmp_path / "pq").write_bytes((tmp_path / "moments").read_bytes())
    with pytest.raises(ValueError, match="holds no product quantizer of histrs"):
        ProductQuantizer.load(tmp_path / "pq")
    pq.random_state = np.random.RandomState(0)
    with pytest.raises(ValueError, match="random_state"):
        pq.save(tmp_path / "pq")


# ---- the inner product --------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n_blocks", [1, 3])
def test_the_inner_product_is_the_kernel_of_codewords(digits, metric, n_blocks, rng):
    pq = ProductQuantizer(n_blocks, 6, metric, random_state=0).fit(digits[:200, :10])
    K = oracle.codeword_kernel(pq.codebooks_, metric)
    product = pq.inner_product_
    assert product.shape == K.shape
    V = rng.standard_normal((len(K), 3))
    # Features of the chi-square kernel have an error.
    error = 1e-4 if metric == "chi2" else 1e-12
    assert_close(product.matmul(V), K @ V, error)
    if metric != "chi2":
        assert_close(product.solve(V), np.linalg.pinv(K, hermitian=True) @ V, 1e-8)
    # Any operator: K K^+ K = K.
    assert_close(product.matmul(product.solve(product.matmul(V))), product.matmul(V), 1e-6)


# ---- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "X", "message"),
    [
        ({"n_blocks": 5}, np.ones((9, 4)), "n_blocks = 5 is more than n_features = 4"),
        ({"n_blocks": 2, "n_codes": 10}, np.ones((9, 4)), "n_samples = 9 is fewer than n_codes"),
        ({"n_codes": 65537}, np.ones((9, 8)), "n_codes"),
        ({"metric": "chi2", "n_codes": 2}, -np.eye(8), r"X\[0, 0\] = -1: histograms are non-neg"),
    ],
)
def test_bad_input(digits, parameters, X, message):
    pq = ProductQuantizer(4, 8, random_state=0).fit(digits)
    before = pickle.dumps(pq.__dict__)
    saved = pq.get_params()
    with pytest.raises(ValueError, match=message):
        pq.set_params(**parameters).fit(X)
    assert pickle.dumps(pq.set_params(**saved).__dict__) == before


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ([[0, 0, 0, 8]], r"codes\[0, 3\] = 8: there are 8 codewords"),
        ([[0, 0, 0, 0], [0, -1, 0, 0]], r"codes\[1, 1\] = -1"),
        ([[0, 0, 0]], "a column for each of 4 blocks"),
        ([0, 0, 0, 0], "a column for each of 4 blocks"),
        ([[0.0, 0.0, 0.0, 0.0]], "integers"),
    ],
)
def test_bad_codes(digits, codes, message):
    pq = ProductQuantizer(4, 8, random_state=0).fit(digits)
    with pytest.raises(ValueError, match=message):
        pq.inverse_transform(codes)


# ---- rotation and levels ------------------------------------------------------------------------

REFINED = {
    "rotation": {"rotation": "opq"},
    "levels": {"n_levels": 3},
    "both": {"rotation": "opq", "n_levels": 2},
}


def refined(name, n_blocks=5, n_codes=16, **parameters):
    return ProductQuantizer(
        n_blocks, n_codes, random_state=0, max_iter=8, **REFINED[name], **parameters
    )


@pytest.mark.parametrize("name", REFINED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_of_levels_and_rotated_rows_are_their_definition(digits, name, dtype):
    X = digits[:200].astype(dtype)
    pq = refined(name).fit(X)
    rotation = np.eye(64) if pq.rotation_ is None else pq.rotation_.astype(float)
    np.testing.assert_allclose(rotation.T @ rotation, np.eye(64), atol=1e-6)
    n_levels = pq.n_levels_
    assert pq.codebooks_.shape == (5 * n_levels, 16, 13)
    codes = pq.transform(X)
    assert codes.shape == (200, 5 * n_levels)
    assert codes.dtype == np.uint8
    expected = oracle.levels_of_codes(X @ rotation, pq.codebooks_, pq.block_offsets_, n_levels)
    assert np.mean(codes == expected) > (0.99 if dtype == np.float32 else 0.999)
    decoded = pq.inverse_transform(codes)
    assert decoded.dtype == dtype
    expected = oracle.decoded(codes, pq.codebooks_, pq.block_offsets_, n_levels, rotation)
    np.testing.assert_allclose(decoded, expected, atol=1e-4 if dtype == np.float32 else 1e-12)
    np.testing.assert_allclose(
        pq.quantization_error(X), ((X - decoded) ** 2).sum(axis=1).mean(), rtol=1e-5
    )
    in_csr = pq.transform(sparse.csr_array(X))
    assert np.mean(codes == in_csr) > (0.99 if dtype == np.float32 else 0.999)


@pytest.mark.parametrize("metric", METRICS)
def test_the_error_is_the_mean_distance_of_the_metric(digits, metric, monkeypatch):
    X = digits[:300]
    pq = ProductQuantizer(4, 8, metric, random_state=0).fit(X)
    expected = distortion(X, pq) / 300
    np.testing.assert_allclose(pq.quantization_error(X), expected, rtol=1e-6)
    monkeypatch.setattr("histrs.quantization._coder._DENSE", 640)
    np.testing.assert_allclose(pq.quantization_error(sparse.csr_array(X)), expected, rtol=1e-6)


@pytest.mark.parametrize("rotation", [None, "opq"])
def test_the_error_falls_with_levels(digits, rotation):
    train, test = digits[:1000], digits[1000:]
    found = [
        ProductQuantizer(
            4, 32, rotation=rotation, n_levels=n_levels, random_state=0, max_iter=10
        ).fit(train)
        for n_levels in (1, 2, 3, 4)
    ]
    for rows in (train, test):
        errors = np.array([pq.quantization_error(rows) for pq in found])
        assert np.all(errors[1:] < 0.9 * errors[:-1])
    # A further level changes none before it.
    for pq in found:
        np.testing.assert_array_equal(pq.codebooks_[:: pq.n_levels_], found[0].codebooks_)
        codes = pq.transform(test)
        np.testing.assert_array_equal(codes[:, :: pq.n_levels_], found[0].transform(test))


def test_a_rotation_loses_less(digits, rng):
    train, test = digits[:1000], digits[1000:]
    plain = ProductQuantizer(8, 32, random_state=0).fit(train)
    rotated = clone(plain).set_params(rotation="opq").fit(train)
    for rows in (train, test):
        assert rotated.quantization_error(rows) < 0.98 * plain.quantization_error(rows)
    # Columns in any order, or mixed: what is lost is no more than for blocks that go together.
    mixing, _ = np.linalg.qr(rng.standard_normal((64, 64)))
    unmixed = clone(rotated).fit(train @ mixing)
    assert unmixed.quantization_error(test @ mixing) < 0.8 * clone(plain).fit(
        train @ mixing
    ).quantization_error(test @ mixing)


def test_axes_are_dealt_out_with_equal_products(rng):
    variances = 2.0 ** np.arange(8)
    axes, _ = np.linalg.qr(rng.standard_normal((8, 8)))
    # Rows whose covariance is known.
    left = np.linalg.qr(np.column_stack([np.ones(50), rng.standard_normal((50, 8))]))[0][:, 1:]
    X = (left * np.sqrt(variances)) @ axes.T
    dealt = _rotation.by_eigenvalues(X, np.array([0, 2, 4, 6, 8]))
    of_axes = np.diag(dealt.T @ (axes * variances) @ axes.T @ dealt)
    np.testing.assert_allclose(np.sort(of_axes), variances, rtol=1e-9)
    np.testing.assert_allclose(of_axes.reshape(4, 2).prod(axis=1), 2.0**7, rtol=1e-9)


@pytest.mark.parametrize("name", REFINED)
@pytest.mark.parametrize("scale", [2.0**-500, 2.0**400])
def test_rotation_and_levels_do_not_depend_on_units(digits, name, scale):
    expected = refined(name).fit(digits[:200])
    pq = refined(name).fit(digits[:200] * scale)
    if scale > 1:
        np.testing.assert_array_equal(pq.transform(digits * scale), expected.transform(digits))
    assert pq.quantization_error(digits * scale) <= np.sum((digits * scale) ** 2)


@pytest.mark.parametrize("name", REFINED)
def test_rows_without_variance_are_coded(name):
    X = np.ones((20, 5))
    pq = refined(name, n_blocks=2, n_codes=3).fit(X)
    np.testing.assert_allclose(pq.inverse_transform(pq.transform(X)), X, atol=1e-12)
    assert refined(name, n_blocks=1, n_codes=2).fit(np.arange(4.0)[:, None]).n_features_in_ == 1


@pytest.mark.parametrize("name", REFINED)
def test_inner_products_of_levels_and_rotated_rows(digits, name, rng):
    pq = refined(name).fit(digits[:200])
    codes = pq.transform(digits[:50])
    decoded = pq.inverse_transform(codes)
    Phi = oracle.one_hot(codes, 16)
    product = pq.inner_product_
    np.testing.assert_allclose(Phi @ product.matmul(Phi.T), decoded @ decoded.T, rtol=1e-9)
    V = rng.standard_normal((Phi.shape[1], 2))
    assert_close(product.matmul(product.solve(product.matmul(V))), product.matmul(V), 1e-8)


@pytest.mark.parametrize("name", REFINED)
def test_linear_models_of_codes_are_those_of_decoded_rows(digits, name):
    y = load_digits(return_X_y=True)[1] % 2
    pq = refined(name).fit(digits)
    codes = pq.transform(digits)
    model = BundleSVC(pq, alpha=0.01, input="features", tol=1e-4).fit(codes, y)
    rows = BundleSVC(alpha=0.01, tol=1e-4).fit(pq.inverse_transform(codes), y)
    np.testing.assert_allclose(model.objective_, rows.objective_, rtol=3e-4)


@pytest.mark.parametrize("name", REFINED)
def test_partial_fit_of_rotation_and_levels(digits, name):
    pq = refined(name).partial_fit(digits[:600])
    first = refined(name).fit(digits[:600])
    np.testing.assert_array_equal(pq.codebooks_, first.codebooks_)
    before = first.quantization_error(digits[1200:])
    for start in (600, 900):
        pq.partial_fit(digits[start : start + 300])
    np.testing.assert_array_equal(pq.counts_.sum(axis=1), 1200)
    if pq.rotation_ is not None:
        np.testing.assert_array_equal(pq.rotation_, first.rotation_)
    assert pq.quantization_error(digits[1200:]) < before
    # Each codeword is the mean of what the levels before have left over.
    rows, codes = digits[:300], first.transform(digits[:300])
    left_over = rows if first.rotation_ is None else rows @ first.rotation_
    again = pickle.loads(pickle.dumps(first)).partial_fit(rows)
    step = first.n_levels_
    for level in range(step):
        books = first.codebooks_[level::step]
        for m, (start, stop) in enumerate(itertools.pairwise(first.block_offsets_)):
            book = m * step + level
            for k in np.unique(codes[:, book]):
                own = left_over[codes[:, book] == k, start:stop]
                count = first.counts_[book, k]
                total = count * first.codebooks_[book, k, : stop - start] + own.sum(axis=0)
                np.testing.assert_allclose(
                    again.codebooks_[book, k, : stop - start], total / (count + len(own)), atol=1e-9
                )
        left_over = left_over - oracle.decoded(
            codes[:, level::step], books, first.block_offsets_, 1
        )


@pytest.mark.parametrize("name", REFINED)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_files_keep_rotation_and_levels(digits, tmp_path, name, dtype):
    pq = refined(name).fit(digits.astype(dtype))
    pq.save(tmp_path / "pq")
    for again in (ProductQuantizer.load(tmp_path / "pq"), pickle.loads(pickle.dumps(pq))):
        assert again.codebooks_.tobytes() == pq.codebooks_.tobytes()
        assert again.n_levels_ == pq.n_levels_
        if pq.rotation_ is None:
            assert again.rotation_ is None
        else:
            assert again.rotation_.tobytes() == pq.rotation_.tobytes()
        np.testing.assert_array_equal(again.transform(digits), pq.transform(digits))


def test_files_with_what_is_no_rotation_are_refused(digits, tmp_path):
    pq = refined("both").fit(digits)
    for change in (lambda R: 2 * R, lambda R: R[:3], lambda R: R + 0.01):
        bad = pickle.loads(pickle.dumps(pq))
        bad.rotation_ = change(bad.rotation_)
        bad.save(tmp_path / "bad")
        with pytest.raises(ValueError, match="rotation"):
            ProductQuantizer.load(tmp_path / "bad")
        (tmp_path / "bad").unlink()
    bad = pickle.loads(pickle.dumps(pq))
    bad.n_levels_ = 3
    bad.save(tmp_path / "bad")
    with pytest.raises(ValueError, match="n_levels"):
        ProductQuantizer.load(tmp_path / "bad")


@pytest.mark.parametrize("parameters", [{"rotation": "opq"}, {"n_levels": 2}])
@pytest.mark.parametrize("metric", ["hellinger", "chi2", "intersection"])
def test_histograms_have_no_rotation_and_one_level(digits, metric, parameters):
    pq = ProductQuantizer(4, 8, metric, **parameters)
    with pytest.raises(ValueError, match="are not histograms"):
        pq.fit(digits)
    assert not hasattr(pq, "codebooks_")


@pytest.mark.parametrize("name", REFINED)
def test_rows_that_are_no_numbers_are_named(digits, name, monkeypatch):
    pq = refined(name).fit(digits)
    monkeypatch.setattr("histrs.quantization._coder._DENSE", 640)
    bad = digits[:50].copy()
    bad[33, 5] = np.nan
    with pytest.raises(ValueError, match=r"X\[33, 5\] = NaN"):
        pq.transform(bad)
    beyond = digits[:50].astype(np.float32)
    if pq.rotation_ is not None:
        mixed = np.abs(pq.rotation_).sum(axis=0).argmax()
        beyond[41] = np.finfo(np.float32).max * np.sign(pq.rotation_[:, mixed])
        with pytest.raises(ValueError, match=r"X\[41\].*float64"):
            pq.transform(beyond)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_partial_fit_collects_its_first_rows(digits, container):
    X = digits
    quantizer = ProductQuantizer(4, 64, random_state=0)
    for start in range(0, 60, 20):
        quantizer.partial_fit(container(X[start : start + 20]))
        with pytest.raises(NotFittedError):
            quantizer.transform(X[:1])
    quantizer = pickle.loads(pickle.dumps(quantizer)).partial_fit(container(X[60:80]))
    expected = ProductQuantizer(4, 64, random_state=0).partial_fit(container(X[:80]))
    np.testing.assert_array_equal(quantizer.codebooks_, expected.codebooks_)
    with pytest.raises(ValueError, match="features"):
        ProductQuantizer(4, 64).partial_fit(X[:9]).partial_fit(X[:9, :5])
