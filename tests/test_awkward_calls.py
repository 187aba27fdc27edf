"""Calls that used to end in messages of NumPy, or in warnings of overflow."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone, is_classifier

from histrs.descriptors import BagOfVisualWords, FisherVector, edge_points, shape_context
from histrs.feature_selection import SelectRelevant
from histrs.gaussian_process import (
    IntersectionGPRegressor,
    MinMaxGPRegressor,
    TabularGPRegressor,
    active_learning,
)
from histrs.kernel_approximation import (
    AdditiveChi2Map,
    ExpChi2Sampler,
    KernelProjectionMap,
    SlicedDistanceMap,
    SparseAdditiveMap,
    SparseKernelMap,
)
from histrs.metrics import additive_chi2_kernel, emd_distances, intersection_kernel, jbld_distances
from histrs.metrics._centroids import mean_centroid
from histrs.neighbors import MetricKNNClassifier
from histrs.prototypes import CovarianceCompressor, RandomSubset, compression_curve
from histrs.quantization import ProductQuantizer
from histrs.spd import covariance_descriptors
from histrs.streaming import Moments, PCARidge, PCARidgeClassifier, digest
from histrs.svm import BundleSVC
from histrs.transport import centroid_bounds, grid_ground_distance, sinkhorn, sinkhorn_barycenter
from tests.all_estimators import CASES, data


def histograms(rng):
    X = rng.random((40, 6)) + 0.01
    return X / X.sum(axis=1, keepdims=True), np.arange(40) % 2


def matrices(rng):
    A = rng.standard_normal((40, 20, 3))
    return A.swapaxes(1, 2) @ A


# ---- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        *[
            (name, ValueError, rf"{name} is not an .npy file of numbers.*read_csv")
            for name in ("text.txt", "objects.npy", "empty.npy")
        ],
        *[
            (name, FileNotFoundError, f"{name}: there is no such file")
            for name in ("none.npy", "none.parquet")
        ],
        ("", ValueError, "has no Parquet or CSV files"),
    ],
)
def test_files_that_are_no_rows_say_what_to_do(tmp_path, name, kind, message):
    (tmp_path / "text.txt").write_text("1,2\n3,4\n")
    np.save(tmp_path / "objects.npy", np.array([[None]]), allow_pickle=True)
    (tmp_path / "empty.npy").touch()
    with pytest.raises(kind, match=message):
        Moments.of(tmp_path / name)


# ---- labels -------------------------------------------------------------------------------------


each_classifier = pytest.mark.parametrize(
    "case",
    [case for case in CASES if is_classifier(case.make()) or "SPDProjection" in repr(case.make())],
    ids=lambda case: type(case.make()).__name__,
)


@each_classifier
def test_labels_without_an_order_are_named(case):
    X, y = data(case)
    labels = np.array(["a", "b", None], dtype=object)[y]
    with pytest.raises(ValueError, match=r"y\[2\] = None is of type NoneType.*labels of one type"):
        case.make().fit(X, labels)


# ---- scales -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
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


# ---- what the fuzzer found ----------------------------------------------------------------------


X, Y = histograms(np.random.default_rng(0))
C = matrices(np.random.default_rng(0))
HUGE_SET = np.ones((5, 20, 3))
HUGE_SET[2, 4, 1] = -1e170
SINGULAR = C * (np.arange(40) != 7)[:, None, None]
RAGGED = [[1.0], [1.0, 2.0]]
ROOT = SparseAdditiveMap(n_knots=4).fit([[1.0]]).inner_product_
IDENTITY = sparse.eye_array(4)
DAMAGED = sparse.csr_array(np.eye(3))
DAMAGED.indices = DAMAGED.indices[:1]

REFUSED = [
    (r"F\[2\]\[4, 1\] = -1e\+170: squares", lambda: covariance_descriptors(HUGE_SET)),
    (r"X\[44, 1\] = -1e\+170: squares", lambda: FisherVector(2).fit(HUGE_SET)),
    (r"X\[44, 1\] = -1e\+170: squares", lambda: BagOfVisualWords(2).fit(HUGE_SET)),
    (r"X\[7\]", lambda: CovarianceCompressor(2, gamma=3.0).fit(SINGULAR, Y)),
    ("'feature_map' parameter of BundleSVC", lambda: BundleSVC(feature_map="chi2").fit(X, Y)),
    ("'intercept_scaling' parameter", lambda: BundleSVC(intercept_scaling=1e300).fit(X, Y)),
    ("sums of kernel values overflow; divide the columns",
     lambda: MetricKNNClassifier(metric="hellinger").fit(X * 1e308, Y).predict(X * 1e308)),
    ("Complex data not supported: image", lambda: edge_points(np.ones((3, 3)) * 1j)),
    ("Complex data not supported: positions",
     lambda: centroid_bounds([[1.0, 1.0]], positions=np.ones((2, 1)) * 1j)),
    ("n_radii = 9223372036854775808: must be at least 1",
     lambda: shape_context([np.eye(9)], n_radii=2**63)),
    (r"sigma = 1e\+300 blurs away an image", lambda: edge_points(np.eye(5), sigma=1e300)),
    ("'n_components' parameter of ExpChi2Sampler",
     lambda: ExpChi2Sampler(2**63, projection="gaussian").fit(X)),
    ("n_components = 100000: a rational map has at most 1024",
     lambda: AdditiveChi2Map(100_000).fit(X)),
    ("^a is not an array of numbers: ", lambda: sinkhorn(RAGGED, [1.0], M=[[1.0]], reg=1.0)),
    ("^b is not an array of numbers: ", lambda: sinkhorn([1.0], RAGGED, M=[[1.0]], reg=1.0)),
    ("^a is not an array of numbers: ", lambda: sinkhorn(["x"], [1.0], M=[[1.0]], reg=1.0)),
    ("^M is not an array of numbers: ", lambda: sinkhorn_barycenter([[1.0]], M=RAGGED, reg=1.0)),
    ("^weights is not an array of numbers: ",
     lambda: sinkhorn_barycenter([[1.0]], M=[[1.0]], reg=1.0, weights=RAGGED)),
    ("^positions is not an array of numbers: ", lambda: centroid_bounds([[1]], positions=RAGGED)),
    ("^spacing is not an array of num", lambda: grid_ground_distance((2, 2), spacing=RAGGED)),
    *[(f"random_state = {seed}: a seed is between 0",
       partial(active_learning.query_strategy, random_state=seed)) for seed in (-1, 2**32, 2**63)],
    *[("random_state", partial(shape_context, np.eye(30)[None], random_state=seed))
      for seed in (-1, 2**32, 2**63)],
    *[("is more than float32 holds: give X in double",
       lambda model=model: model.fit(1e100 * X, Y).kneighbors(np.ones((1, 6), dtype=np.float32)))
      for model in (MetricKNNClassifier(metric="euclidean"), RandomSubset(metric="euclidean"))],
    *[(message, partial(MetricKNNClassifier().fit, np.eye(3), labels)) for labels, message in (
        ([[0.0, 1.0], [1.0, 0.0], [0.0, np.nan]], "NaN"),
        (np.array([["a", "b"], ["a", None], ["b", "a"]], dtype=object), "None"))],
    ("y has one class", partial(SelectRelevant().fit, X, np.ones(40, dtype=int))),
    *[(r"y\[0\] = None is of type|y is not an array of num",
       partial(SelectRelevant().fit, X, np.resize(np.array(labels, dtype=object), 40)))
      for labels in ([None, "a", 1], [None, "a"])],
    *[("'fdr' parameter", lambda fdr=fdr: SelectRelevant(n_sweeps=50, random_state=0).fit(
        X, X[:, 0]).set_params(fdr=fdr).get_support()) for fdr in ("a", None, 5, np.nan)],
    *[("give 4 rows", partial(operation, np.ones(shape)))
      for shape in ((3,), (5, 2), (4, 2, 1), ()) for operation in (ROOT.matmul, ROOT.solve)],
]  # fmt: skip

TOO_LARGE = [
    *[("not enough memory for an array of shape", partial(grid_ground_distance, shape))
      for shape in (2**63, (2**40, 2**40))],
    (r"\(4000000, 4000000\): it needs 128000000000000 bytes",
     lambda: intersection_kernel(np.ones((4_000_000, 1)))),
]  # fmt: skip

OF_NO_TYPE = [
    ("estimator is of type ndarray: give a class", lambda: compression_curve(X, X, Y, X, Y)),
    ("Sparse data was passed for F, but dense", lambda: covariance_descriptors(IDENTITY.tobsr())),
    ("Sparse data was passed for images, but dense", lambda: shape_context(IDENTITY.tobsr())),
    (r"Sparse data was passed for images\[0\], but dense", lambda: shape_context([IDENTITY])),
    ("Sparse data was passed for image, but dense", lambda: edge_points(IDENTITY.todok())),
    ("Sparse data was passed for shape, but d", lambda: grid_ground_distance(IDENTITY.tocsc())),
    ("model is a csr_array, not a Gaussian p", lambda: active_learning.query(DAMAGED, np.eye(3))),
    ("model is a csr_array, not a Gaussian process", lambda: list(
        active_learning.learn(DAMAGED, np.eye(3), len, labelled=[0], n_rounds=1))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "message", "call"),
    [
        (kind, *row)
        for kind, rows in ((ValueError, REFUSED), (MemoryError, TOO_LARGE), (TypeError, OF_NO_TYPE))
        for row in rows
    ],
)
def test_what_cannot_be_answered_is_named(kind, message, call):
    with pytest.raises(kind, match=message):
        call()


def test_as_many_components_as_are_asked_for():
    assert AdditiveChi2Map(2_000, method="chebyshev", n_jobs=1).fit(X).n_components_ == 2_000


@each_classifier
def test_huge_targets_of_a_regression_are_no_classes(rng, case):
    X, y = data(case)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        case.make().fit(X, rng.standard_normal(len(y)) * 1e160)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_infinities_of_both_signs_are_named_without_a_warning(rng, container):
    X, y = histograms(rng)
    model = PCARidgeClassifier().fit(X, y)
    X[3, 1], X[4, 1] = np.inf, -np.inf
    for call in (lambda: model.fit(container(X), y), lambda: model.predict(container(X))):
        with pytest.raises(ValueError, match=r"X\[3, 1\] = inf: Input X contains NaN or inf"):
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
        with pytest.raises(ValueError, match="whose sums overflow; divide X by a scale"):
            call(high * dtype(3))


def test_kernels_at_either_end_of_double_precision(rng):
    X, _ = histograms(rng)
    for model in (
        KernelProjectionMap("intersection", 5, landmarks="sample", random_state=0),
        SparseKernelMap("intersection", 5, landmarks="sample", random_state=0),
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


def test_digests_of_sparse_matrices_of_every_format():
    X = sparse.eye(3).tocsr()
    assert digest(X.todok()) != digest((2 * X).todok())


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


def test_means_of_what_has_no_sum(rng):
    X = np.full((3, 2), 1.5e308)
    for rows in (X, sparse.csr_array(X)):
        np.testing.assert_allclose(mean_centroid(rows, n_jobs=1), X[:1], rtol=1e-15)


def test_penalties_whose_square_underflows():
    X = np.repeat([[0.0, 1.0, 1.0]], 12, axis=0)
    X[:, 0] = np.arange(12)
    model = PCARidgeClassifier(3, alphas=1e-300, selection="gcv").fit(X, np.arange(12) > 5)
    assert np.isfinite(model.errors_).all()


@pytest.mark.parametrize("mass", [1e-312, 1e-30, 1.0, 1e30, 1e160, 1e300])
@pytest.mark.parametrize("cost", [1e-300, 1.0, 1e200])
def test_earth_is_moved_at_every_mass_and_cost(mass, cost):
    X = np.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]]) * mass
    bins = np.arange(3.0)
    M = np.abs(bins[:, None] - bins) * cost
    expected = 1.5 * mass * cost
    distances = emd_distances(X, M=M)
    np.testing.assert_allclose(distances[0, 1], expected, rtol=1e-6, atol=5e-324)
    assert emd_distances(X[:1], M=np.ones((3, 3)))[0, 0] == pytest.approx(mass, rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns_weight", [0.0, 2.0])
def test_projections_at_either_end_of_the_range(rng, dtype, columns_weight):
    X = rng.normal(size=(30, 5)).astype(dtype)
    sliced = SlicedDistanceMap(50, columns_weight=columns_weight, random_state=0)
    unit = clone(sliced).fit(X)
    info = np.finfo(dtype)
    for exponent in (-200, 400) if dtype == np.float64 else (-40, 90):
        scaled = clone(sliced).fit(np.ldexp(X, exponent))
        assert scaled.kernel_error_ == unit.kernel_error_
        T = scaled.transform(np.ldexp(X, exponent))
        np.testing.assert_array_equal(T, np.ldexp(unit.transform(X), exponent))
    for call in (sliced.fit, unit.transform):
        with pytest.raises(ValueError, match=r"sums of projections above .* overflow: scale X"):
            call(X / np.abs(X).max() * info.max)


@pytest.mark.parametrize("kind", [IntersectionGPRegressor, TabularGPRegressor, MinMaxGPRegressor])
def test_targets_that_are_no_numbers_are_refused_with_what_to_do(rng, kind):
    X, y = rng.random((12, 3)), rng.random(12)
    y[3] = np.nan
    with pytest.raises(ValueError, match=r"y\[3\]; drop or impute the row\.$"):
        kind().fit(X, y)
    y[3] = np.inf
    with pytest.raises(ValueError, match=r"y\[3, 1\].*, or fit each target by itself, to the rows"):
        kind().fit(X, np.column_stack([X[:, 0], y]))
    with pytest.raises(ValueError, match=r"y\[:, 1\] is NaN in every row"):
        kind().fit(X, np.column_stack([X[:, 0], np.full(12, np.nan)]))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (ProductQuantizer, "n_blocks"),
        (BagOfVisualWords, "n_words"),
        (FisherVector, "n_components"),
        (SparseKernelMap, "n_landmarks"),
        (PCARidge, "n_components"),
        (partial(SlicedDistanceMap, directions="gaussian"), "n_projections"),
        (partial(AdditiveChi2Map, method="power"), "n_components"),
    ],
)
def test_one_may_be_said_as_true(rng, kind, name):
    X = rng.random((300, 3))
    one, true = (kind(**{name: n}).fit(X, X[:, 0]) for n in (1, True))
    method = "predict" if hasattr(one, "predict") else "transform"
    rows = X[None] if kind in (BagOfVisualWords, FisherVector) else X
    found, expected = (getattr(model, method)(rows) for model in (true, one))
    assert np.shape(found) == np.shape(expected)
