"""Calls that used to end in messages of NumPy, or in warnings of overflow."""

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import NotFittedError

from histrs._validation import count_threads
from histrs.descriptors import BagOfVisualWords, FisherVector, edge_points, shape_context
from histrs.kernel_approximation import AdditiveChi2Map, KernelProjectionMap, SparseKernelMap
from histrs.metrics import additive_chi2_kernel, jbld_distances
from histrs.neighbors import MetricKNNClassifier, _metrics
from histrs.neighbors._centroids import mean_centroid
from histrs.prototypes import (
    CondensedNN,
    CovarianceCompressor,
    HistogramCompressor,
    RandomSubset,
    compression_curve,
)
from histrs.quantization import ProductQuantizer
from histrs.spd import SPDProjection, covariance_descriptors
from histrs.streaming import MomentLasso, Moments, PCARidge, PCARidgeClassifier, fingerprint
from histrs.svm import BundleSVC, IntersectionSVC
from histrs.transport import centroid_bounds, grid_ground_distance


def histograms(rng):
    X = rng.random((40, 6)) + 0.01
    return X / X.sum(axis=1, keepdims=True), np.arange(40) % 2


def matrices(rng):
    A = rng.standard_normal((40, 20, 3))
    return A.swapaxes(1, 2) @ A


# ---- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["archive.npz", "table.csv", "objects.npy", "empty.npy"])
def test_files_that_are_no_arrays_say_what_to_do(tmp_path, name):
    np.savez(tmp_path / "archive.npz", X=np.ones((3, 2)))
    (tmp_path / "table.csv").write_text("1,2\n3,4\n")
    np.save(tmp_path / "objects.npy", np.array([[None]]), allow_pickle=True)
    (tmp_path / "empty.npy").touch()
    with pytest.raises(ValueError, match=rf"{name} is not an .npy file of numbers.*read_csv"):
        Moments.of(tmp_path / name)


def test_paths_without_rows(tmp_path):
    for name in ("none.npy", "none.parquet"):
        with pytest.raises(FileNotFoundError, match=f"{name}: there is no such file"):
            Moments.of(tmp_path / name)
    with pytest.raises(ValueError, match="is a folder without Parquet files"):
        Moments.of(tmp_path)


# ---- labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        BundleSVC(),
        IntersectionSVC(),
        PCARidgeClassifier(),
        MetricKNNClassifier(),
        CondensedNN(),
        HistogramCompressor(2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_labels_without_an_order_are_named(rng, model):
    X, _ = histograms(rng)
    y = np.array(["a", "b", "a", None] * 10, dtype=object)
    with pytest.raises(ValueError, match=r"y\[3\] = None is of type NoneType.*labels of one type"):
        model.fit(X, y)


def test_labels_of_matrices_without_an_order_are_named(rng):
    y = np.array(["a", "b", "a", None] * 10, dtype=object)
    for model in (SPDProjection(2), CovarianceCompressor(2)):
        with pytest.raises(ValueError, match=r"y\[3\] = None is of type NoneType"):
            model.fit(matrices(rng), y)


# ---- scales -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "model",
    [
        BundleSVC(),
        MetricKNNClassifier(metric="euclidean"),
        SparseKernelMap("chi2", 5, random_state=0),
        KernelProjectionMap("chi2", 5, random_state=0),
        ProductQuantizer(2, 8, random_state=0),
        ProductQuantizer(2, 8, "intersection", random_state=0),
    ],
    ids=repr,
)
def test_squares_that_would_overflow_are_named(rng, model, container):
    X, y = histograms(rng)
    X[7, 3] = 1e160
    with pytest.raises(ValueError, match=r"X\[7, 3\] = 1e\+160: squares of such values overflow"):
        model.fit(container(X), y)
    X[7, 3] = 1e100
    model.fit(container(X), y)


def test_squares_of_sets_that_would_overflow_are_named(rng):
    A = rng.standard_normal((5, 20, 3))
    A[2, 4, 1] = -1e170
    with pytest.raises(ValueError, match=r"F\[2\]\[4, 1\] = -1e\+170: squares"):
        covariance_descriptors(A)
    for model in (FisherVector(2, random_state=0), BagOfVisualWords(2, random_state=0)):
        with pytest.raises(ValueError, match=r"X\[44, 1\] = -1e\+170: squares"):
            model.fit(A)


# ---- single precision ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_have_the_precision_of_the_rows(rng, dtype):
    X, y = histograms(rng)
    X, P = X.astype(dtype), matrices(rng).astype(dtype)
    for model, rows in (
        (BundleSVC(), X),
        (IntersectionSVC(random_state=0), X),
        (PCARidgeClassifier(), X),
        (PCARidge(), X),
        (MomentLasso(), X),
        (HistogramCompressor(2, random_state=0), X),
        (MetricKNNClassifier(3, weights="distance"), X),
        (CondensedNN(random_state=0), X),
        (MetricKNNClassifier(3, metric="airm"), P),
        (CovarianceCompressor(2, random_state=0), P),
    ):
        model.fit(rows, y)
        for name in ("decision_function", "predict_proba", "kneighbors"):
            if hasattr(model, name):
                scores = getattr(model, name)(rows)
                scores = scores[0] if name == "kneighbors" else scores
                assert scores.dtype == dtype, (model, name)
        if isinstance(model, (PCARidge, MomentLasso)):
            assert model.predict(rows).dtype == dtype


# ---- what the fuzzer found ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [MetricKNNClassifier(metric="euclidean"), CondensedNN(), BundleSVC(), PCARidgeClassifier()],
    ids=lambda model: type(model).__name__,
)
def test_huge_targets_of_a_regression_are_no_classes(rng, model):
    X, _ = histograms(rng)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        model.fit(X, rng.standard_normal(40) * 1e160)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_infinities_of_both_signs_are_named_without_a_warning(rng, container):
    X, y = histograms(rng)
    model = PCARidgeClassifier().fit(X, y)
    X[3, 1], X[4, 1] = np.inf, -np.inf
    for call in (lambda: model.fit(container(X), y), lambda: model.predict(container(X))):
        with pytest.raises(ValueError, match="contains infinity"):
            call()
    with pytest.raises(ValueError, match=r"X\[0, 0, 0\] = infinity"):
        jbld_distances(np.full((1, 2, 2), np.inf) * [[1, -1], [-1, 1]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_whose_sums_overflow_have_no_poles(rng, dtype):
    X = histograms(rng)[0].astype(dtype)
    largest = np.finfo(dtype).max
    high = X / X.max() * (largest / 4)
    features = AdditiveChi2Map().fit_transform(high)
    expected = additive_chi2_kernel(high / largest) * float(largest)
    assert np.isfinite(features).all()
    np.testing.assert_allclose(
        features.astype(float) @ features.T.astype(float), expected, rtol=1e-3, atol=0.0
    )
    model = AdditiveChi2Map().fit(X)
    for call in (AdditiveChi2Map().fit, model.transform):
        with pytest.raises(ValueError, match="a sum of two overflows; divide X by a scale"):
            call(high * dtype(3))


def test_kernels_at_either_end_of_double_precision(rng):
    X, _ = histograms(rng)
    for model in (
        KernelProjectionMap("intersection", 5, representatives="sample", random_state=0),
        SparseKernelMap("intersection", 5, representatives="sample", random_state=0),
    ):
        with pytest.raises(ValueError, match=r"inverse of which overflows; multiply X by a scale"):
            model.fit(X * 1e-305)
        small = model.fit(X * 1e-280).transform(X * 1e-280)
        expected = model.fit(X).transform(X)
        np.testing.assert_allclose(*map(to_dense, (small, expected)), rtol=1e-8, atol=1e-10)
        # A kernel that is symmetric needs no sum of two of its entries.
        assert np.isfinite(to_dense(model.fit(X * 1e308).transform(X))).all()


def to_dense(X):
    return X.toarray() if sparse.issparse(X) else X


def test_singular_matrices_are_named_where_the_sharpness_is_given(rng):
    X = matrices(rng)
    X[7] = 0.0
    with pytest.raises(ValueError, match=r"X\[7\]"):
        CovarianceCompressor(2, gamma=3.0).fit(X, np.arange(40) % 2)


def test_a_feature_map_that_is_none_is_named(rng):
    X, y = histograms(rng)
    model = BundleSVC(feature_map="chi2")
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(ValueError, match="'feature_map' parameter of BundleSVC"):
        model.fit(X, y)


def test_curves_of_what_is_no_classifier_of_prototypes(rng):
    X, y = histograms(rng)
    with pytest.raises(TypeError, match=r"estimator is of type ndarray: give a classifier of"):
        compression_curve(X, X, y, X, y)


def test_sparse_matrices_where_none_is_read(rng):
    X = sparse.random(5, 4, 0.5, random_state=0)
    for name, call in (
        ("F", lambda: covariance_descriptors(X.tobsr())),
        ("images", lambda: shape_context(X.tobsr())),
        (r"images\[0\]", lambda: shape_context([X])),
        ("image", lambda: edge_points(X.todok())),
        ("shape", lambda: grid_ground_distance(X.tocsc())),
    ):
        with pytest.raises(TypeError, match=rf"Sparse data was passed for {name}, but dense"):
            call()


def test_pictures_are_real_and_rings_are_few():
    with pytest.raises(ValueError, match="Complex data not supported: image"):
        edge_points(np.ones((3, 3)) * 1j)
    with pytest.raises(ValueError, match="n_radii = 9223372036854775808: must be at least 1"):
        shape_context([np.eye(9)], n_radii=2**63)


def test_fingerprints_of_sparse_matrices_of_every_format():
    X = sparse.eye(3).tocsr()
    assert fingerprint(X.todok()) != fingerprint((2 * X).todok())


def test_single_precision_holds_no_square_of_these(rng):
    X = (rng.random((20, 3)) * 1e25).astype(np.float32)
    y = np.arange(20) % 2
    for container in (np.asarray, sparse.csr_array):
        model = MetricKNNClassifier(2, metric="euclidean").fit(container(X), y)
        distances, indices = model.kneighbors(container(X))
        expected = np.sort(cdist(X.astype(float), X.astype(float)), axis=1)[:, :2]
        assert distances.dtype == np.float32
        np.testing.assert_allclose(distances, expected, rtol=1e-4, atol=1e19)
        np.testing.assert_array_equal(indices[:, 0], np.arange(20))


def test_distances_that_single_precision_does_not_hold_are_named(rng):
    X = rng.random((20, 3)) * 1e100
    y = np.arange(20) % 2
    for model in (MetricKNNClassifier(metric="euclidean"), RandomSubset(metric="euclidean")):
        with pytest.raises(ValueError, match=r"is more than float32 holds: give X in double"):
            model.fit(X, y).kneighbors(np.ones((1, 3), dtype=np.float32))


def test_means_of_what_has_no_sum(rng):
    X = np.full((3, 2), 1.5e308)
    for rows in (X, sparse.csr_array(X)):
        np.testing.assert_allclose(mean_centroid(rows, n_jobs=1), X[:1], rtol=1e-15)


def test_penalties_whose_square_underflows():
    X = np.repeat([[0.0, 1.0, 1.0]], 12, axis=0)
    X[:, 0] = np.arange(12)
    model = PCARidgeClassifier(3, alphas=1e-300, selection="gcv").fit(X, np.arange(12) > 5)
    assert np.isfinite(model.errors_).all()


def test_an_intercept_without_a_finite_penalty(rng):
    X, y = histograms(rng)
    with pytest.raises(ValueError, match="'intercept_scaling' parameter of BundleSVC"):
        BundleSVC(intercept_scaling=1e300).fit(X, y)


def test_distances_of_kernels_whose_sums_overflow(rng):
    X, y = histograms(rng)
    with pytest.raises(ValueError, match="sums of kernel values overflow; divide the columns"):
        MetricKNNClassifier(metric="hellinger").fit(X * 1e308, y).predict(X * 1e308)


def test_positions_are_real():
    with pytest.raises(ValueError, match="Complex data not supported: positions"):
        centroid_bounds([[1.0, 1.0]], [[1.0, 1.0]], positions=np.ones((2, 1)) * 1j)


def test_euclidean_distances_start_few_threads(rng, monkeypatch):
    X, y = histograms(rng)
    asked = []

    def distances(X, Y, *, n_jobs):
        asked.append(n_jobs)
        return cdist(X, Y)

    monkeypatch.setattr(_metrics, "pairwise_distances", distances)
    for n_jobs in (None, 10**5):
        MetricKNNClassifier(1, metric="euclidean", n_jobs=n_jobs).fit(X, y).predict(X)
    assert set(asked) == {None, count_threads(10**5)}
