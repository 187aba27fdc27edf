"""Kernels and distances between histograms, by name, by callable, or computed before."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import jensenshannon
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import pairwise_distances
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.svm import SVC

from histrs.cluster import KMedoids
from histrs.gaussian_process import SPDGPClassifier
from histrs.kernel_approximation import KernelProjectionMap, SparseAdditiveMap, SparseKernelMap
from histrs.metrics import (
    additive_chi2_kernel,
    chi2_distances,
    exp_chi2_kernel,
    hellinger_kernel,
    intersection_kernel,
    jensen_shannon_kernel,
    minmax_distances,
    minmax_kernel,
)
from histrs.metrics._registry import (
    ADDITIVE_KERNELS,
    CODE_METRICS,
    COVARIANCE_KERNELS,
    KERNELS,
    METRICS,
    AdditiveKernelName,
    CodeMetricName,
    CovarianceKernelName,
    KernelName,
    _kernels,
)
from histrs.neighbors import MetricKNNClassifier, MetricKNNRegressor
from histrs.prototypes import (
    CondensedNN,
    FastCondensedNN,
    RandomMutationNN,
    RandomSubset,
    ReducedNN,
)
from histrs.quantization import ProductQuantizer
from histrs.spd import CSP, MDM, Potato, TangentSpace, Whitening
from histrs.spd._geometry import GEOMETRIES
from histrs.spd._geometry import MetricName as MeanMetricName
from histrs.testing import count_matrices, histograms
from tests.helpers import CONTAINERS, awkward_histograms, dense
from tests.oracles import chi2, minmax
from tests.oracles import intersection as oracle

pytestmark = pytest.mark.simd_paths

DEFINITIONS = {
    intersection_kernel: oracle.intersection_kernel,
    chi2_distances: chi2.chi2_distances,
    additive_chi2_kernel: chi2.additive_chi2_kernel,
    exp_chi2_kernel: chi2.exp_chi2_kernel,
    hellinger_kernel: chi2.hellinger_kernel,
    jensen_shannon_kernel: chi2.jensen_shannon_kernel,
    minmax_kernel: minmax.minmax_kernel,
    minmax_distances: minmax.minmax_distances,
}
every_metric = pytest.mark.parametrize("metric", DEFINITIONS, ids=lambda f: f.__name__)

n_columns = st.shared(st.integers(0, 40), key="n_columns")
float_dtypes = st.sampled_from([np.float32, np.float64])
# Sums of non-negative terms have no cancellation; 64 of them are added in the working precision.
RELATIVE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-13}


# For definitions that loop over every bin.
few_histograms = histograms(
    n_rows=(0, 10),
    n_columns=n_columns,
    dtype=float_dtypes,
    format="any",
    scale=st.sampled_from([1.0, "tiny", "huge", "mixed"]),
    allow_subnormal=True,
)


def assert_is(metric, K, X, Y=None):
    """Assert that `K` is what the definition says, up to rounding."""
    __tracebackhide__ = True
    expected = DEFINITIONS[metric](X, Y)
    relative, absolute = RELATIVE[K.dtype], 0.0
    if metric is not intersection_kernel:
        # Terms of subnormal numbers may be lost.
        relative, absolute = 5 * relative, (X.shape[1] + 1) * float(np.finfo(K.dtype).tiny)
    if metric in (minmax_kernel, minmax_distances):
        # Both are between 0 and 1, and one less the other.
        absolute = 10 * relative
    if metric is chi2_distances:
        # What only one of two sparse rows stores comes from a difference of masses.
        absolute += RELATIVE[np.dtype(np.float64)] * _mass(X, Y)
    if metric is exp_chi2_kernel:
        # exp turns errors of the distance, relative or absolute, into relative ones.
        distances = np.minimum(chi2.chi2_distances(X, Y), 800.0)
        relative = RELATIVE[K.dtype] * (5 + distances) + np.expm1(
            np.minimum(1e-13 * _mass(X, Y), 700.0)
        )
        absolute = 1e-300 if K.dtype == np.float64 else 1e-37
        expected = expected.astype(K.dtype)
        assert (np.abs(K - expected) <= relative * expected + absolute).all()
        return
    np.testing.assert_array_less(np.abs(K - expected), relative * expected + absolute + 5e-324)


def _mass(X, Y):
    mass = [dense(Z).sum(axis=1, dtype=np.float64) for Z in (X, X if Y is None else Y)]
    return mass[0][:, None] + mass[1]


@every_metric
@settings(max_examples=25)
@given(X=few_histograms, Y=few_histograms)
def test_a_metric_is_its_definition(metric, X, Y):
    K = metric(X, Y)
    assert K.dtype == np.result_type(X.dtype, Y.dtype)
    assert_is(metric, K, X, Y)


@every_metric
@settings(max_examples=25)
@given(X=few_histograms)
def test_a_metric_of_one_argument_is_symmetric(metric, X):
    K = metric(X)
    assert K.dtype == X.dtype
    np.testing.assert_array_equal(K, K.T)
    assert_is(metric, K, X)
    assert_is(metric, metric(X, X), X)


@given(X=histograms(n_columns=n_columns, dtype=float_dtypes, format="any"))
def test_equal_rows_have_distance_zero(X):
    for rows in (X, X[::-1]):
        for metric in (chi2_distances, minmax_distances):
            distances = metric(rows, rows)
            assert (distances >= 0).all()
            np.testing.assert_array_equal(np.diag(distances), 0.0)
        np.testing.assert_array_equal(np.diag(minmax_kernel(rows, rows)), 1.0)
        np.testing.assert_array_equal(np.diag(exp_chi2_kernel(rows)), 1.0)


@given(
    X=count_matrices(
        n_columns=n_columns,
        dtype=st.sampled_from([np.uint8, np.int8, np.int16, np.uint32, np.int64, np.uint64]),
        format="any",
    )
)
def test_counts_are_exact(X):
    K = intersection_kernel(X)
    assert K.dtype == np.float64
    np.testing.assert_array_equal(K, oracle.intersection_kernel(X))


@settings(max_examples=60)
@given(
    X=st.one_of(
        count_matrices((16, 70), n_columns, dtype=np.uint8, format="any"),
        count_matrices((16, 70), n_columns, dtype=np.uint16, format="any", max_count=65_535),
    ),
    exponent=st.integers(-200, 200),
)
def test_codes_of_one_unit_are_exact(X, exponent):
    unit = 2.0**exponent
    Y = X.astype(np.float64) * unit
    np.testing.assert_array_equal(intersection_kernel(Y), unit * intersection_kernel(X))
    np.testing.assert_array_equal(intersection_kernel(Y), oracle.intersection_kernel(Y))
    np.testing.assert_array_equal(intersection_kernel(Y, Y), oracle.intersection_kernel(Y))
    np.testing.assert_array_equal(minmax_kernel(Y), minmax_kernel(X))


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, bool, object])
def test_other_dtypes_become_double(rng, dtype):
    X = rng.integers(0, 2, size=(5, 4)).astype(dtype)
    K = intersection_kernel(X)
    assert K.dtype == np.float64
    np.testing.assert_array_equal(K, oracle.intersection_kernel(X.astype(np.float64)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
@every_metric
def test_containers_do_not_matter(rng, metric, container, dtype):
    X = awkward_histograms(rng, 17).astype(dtype)
    Y = awkward_histograms(rng, 9).astype(dtype)
    expected = metric(X, Y)
    for pair in [(container(X), Y), (X, container(Y)), (container(X), container(Y))]:
        K = metric(*pair)
        # Equal rows have distance 0 in every container.
        np.testing.assert_allclose(K, expected, rtol=10 * RELATIVE[np.dtype(dtype)])


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_arguments_are_not_changed(rng, container):
    X = awkward_histograms(rng, 8)
    given_, copy = container(X), container(X)
    intersection_kernel(given_, given_)
    for part in ("data", "indices", "indptr") if hasattr(given_, "indptr") else ():
        np.testing.assert_array_equal(getattr(given_, part), getattr(copy, part))
    np.testing.assert_array_equal(dense(given_), X)


def test_scikit_learn_takes_it_as_a_kernel(rng):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    expected = SVC(kernel="precomputed").fit(intersection_kernel(X), y)
    model = SVC(kernel=intersection_kernel).fit(X, y)
    np.testing.assert_allclose(
        model.decision_function(X), expected.decision_function(intersection_kernel(X))
    )
    pairs = pairwise_kernels(X[:9], X[:5], metric=lambda x, y: np.minimum(x, y).sum())
    np.testing.assert_allclose(intersection_kernel(X[:9], X[:5]), pairs)


@every_metric
def test_features_need_not_fit_a_vector_register(metric):
    # Wide enough for every unrolled loop and its remainder.
    for width in (1, 63, 64, 65, 1000, 4099):
        X = np.arange(3 * width, dtype=np.float64).reshape(3, width) / width**2
        np.testing.assert_allclose(metric(X), DEFINITIONS[metric](X))


@every_metric
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", ["C", "CSR array"])
def test_a_metric_has_the_same_bits_for_any_number_of_threads(rng, metric, container, dtype):
    X = CONTAINERS[container](awkward_histograms(rng, 200).astype(dtype))
    one = metric(X, n_jobs=1)
    for n_jobs in (2, 7):
        np.testing.assert_array_equal(metric(X, n_jobs=n_jobs), one)


def test_the_jensen_shannon_kernel_is_that_of_scipys_distance(rng):
    X = rng.dirichlet(np.full(9, 0.5), size=12)
    divergence = [[jensenshannon(x, y, base=2) ** 2 for y in X] for x in X]
    np.testing.assert_allclose(jensen_shannon_kernel(X), 1 - np.array(divergence), rtol=1e-9)


@pytest.mark.parametrize("gamma", [0.0, -1.0, np.nan, np.inf])
def test_gamma_is_positive(gamma):
    with pytest.raises(ValueError, match=r"gamma = .* it must be positive and finite"):
        exp_chi2_kernel(np.ones((2, 2)), gamma=gamma)


BAD_ENTRIES = {
    "NaN": (np.nan, r"\[2, 1\] = NaN.*(impute|drop)"),
    "infinity": (np.inf, r"\[2, 1\] = infinity.*(impute|drop)"),
    "minus infinity": (-np.inf, r"\[2, 1\] = -infinity.*(impute|drop)"),
    "negative": (-0.2, r"\[2, 1\] = -0\.2.*(clip|shift)"),
}


@pytest.mark.parametrize("argument", ["X", "Y"])
@pytest.mark.parametrize("container", ["C", "F", "list", "DataFrame", "CSR array"])
@pytest.mark.parametrize(("entry", "message"), BAD_ENTRIES.values(), ids=BAD_ENTRIES)
@every_metric
def test_bad_entries_are_named(rng, metric, argument, container, entry, message):
    good, bad = rng.random((4, 3)), rng.random((4, 3))
    bad[2, 1] = bad[3, 0] = entry
    arguments = {"X": good, "Y": good, argument: CONTAINERS[container](bad)}
    with pytest.raises(ValueError, match=argument + message):
        metric(**arguments)


def test_negative_duplicates_count_as_their_sum(rng):
    X = CONTAINERS["CSR, duplicates"](rng.random((4, 3)))
    X.data[::2] *= 3
    X.data[1::2] *= -1
    np.testing.assert_allclose(intersection_kernel(X), oracle.intersection_kernel(X))


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (np.ones((2, 3)), np.ones((2, 4)), "X has 3 columns but Y has 4; give both the same"),
        (np.ones(3), None, "(?i)expected 2d array.*reshape"),
        (np.float64(3.0), None, "(?i)expected 2d array.*reshape"),
        (np.ones((2, 3)), np.ones((2, 3, 1)), "dim 3"),
        ([[1.0, "a"]], None, r"X\[:, 1\] holds text .*such as 'a'"),
        (np.ones((2, 2)) * 1j, None, "Complex data not supported"),
    ],
)
def test_bad_shapes_and_types(X, Y, message):
    with pytest.raises(ValueError, match="(?s)" + message):
        intersection_kernel(X, Y)


def test_n_jobs_is_checked():
    X = np.ones((2, 2))
    with pytest.raises(ValueError, match=r"n_jobs == 0 .* use -1"):
        intersection_kernel(X, n_jobs=0)
    with pytest.raises(TypeError, match=r"n_jobs must be an integer or None, got 1\.5"):
        intersection_kernel(X, n_jobs=1.5)
    for n_jobs in (None, 1, np.int64(2), -1, -2, -1000):
        np.testing.assert_array_equal(intersection_kernel(X, n_jobs=n_jobs), 2.0)


@given(
    X=count_matrices(n_columns=n_columns, dtype=st.sampled_from([np.uint8, np.int64]), format="any")
)
def test_minmax_of_counts_is_exact(X):
    np.testing.assert_array_equal(minmax_kernel(X), minmax.minmax_kernel(X))
    np.testing.assert_array_equal(minmax_distances(X), minmax.minmax_distances(X))


def test_minmax_is_the_jaccard_index_of_sets(rng):
    X = rng.random((30, 20)) < 0.4
    expected = pairwise_distances(X, metric="jaccard")
    np.testing.assert_allclose(minmax_distances(X), expected, atol=1e-12)


def test_minmax_of_rows_whose_sum_overflows_is_refused():
    with pytest.raises(ValueError, match=r"X\[1\] sum"):
        minmax_kernel([[1.0, 1.0], [1e308, 1e308]])
    with pytest.raises(ValueError, match=r"Y\[0\] sum"):
        minmax_distances([[1.0, 1.0]], [[1e308, 1e308]])


@every_metric
def test_very_wide_sparse_rows(rng, metric):
    """Columns that no row stores take neither time nor room."""
    narrow = sparse.random_array((20, 40), density=0.2, random_state=rng, format="csr")
    wide = narrow.copy()
    wide.indices = (wide.indices.astype(np.int64) * 53_000_000).astype(np.int32)
    wide = sparse.csr_array((wide.data, wide.indices, wide.indptr), shape=(20, 2**31 - 1))
    np.testing.assert_array_equal(metric(wide), metric(narrow))
    np.testing.assert_array_equal(metric(wide, wide[:3]), metric(narrow, narrow[:3]))
    assert metric(wide[:0], wide).shape == (0, 20)


def test_names_of_the_registry_are_those_of_its_types():
    assert _kernels("histograms") == KERNELS
    assert _kernels("covariances") == COVARIANCE_KERNELS
    assert set(get_args(KernelName)) == set(KERNELS)
    assert set(get_args(AdditiveKernelName)) == ADDITIVE_KERNELS
    assert set(get_args(CovarianceKernelName)) == set(COVARIANCE_KERNELS)
    assert set(get_args(CodeMetricName)) == CODE_METRICS
    assert set(get_args(MeanMetricName)) == set(GEOMETRIES)


@pytest.mark.parametrize("name", sorted(COVARIANCE_KERNELS))
def test_kernels_of_covariances_are_those_of_their_distance(rng, name):
    A = rng.normal(size=(6, 3, 9))
    X = A @ A.mT
    D = METRICS[name].distances(X, X, n_jobs=1)
    D = D**2 if name == "logeuclid" else D  # the divergence is a square already
    np.testing.assert_allclose(COVARIANCE_KERNELS[name](X, gamma=1.5), np.exp(-1.5 * D), atol=1e-12)


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_a_name_means_the_distance_of_its_kernel(rng, name):
    X, Y = rng.dirichlet(np.ones(5), 7), rng.dirichlet(np.ones(5), 4)
    metric, kernel = METRICS[name], KERNELS[name]
    own = [np.diag(kernel(Z))[:, None] for Z in (X, Y)]
    expected = own[0] + own[1].T - 2 * kernel(X, Y)
    if name == "minmax":  # one less the kernel
        expected /= 2
    np.testing.assert_allclose(metric.distances(X, Y, n_jobs=1), expected, atol=1e-12)


@pytest.mark.parametrize("name", sorted(ADDITIVE_KERNELS))
def test_additive_kernels_are_sums_over_columns(rng, name):
    X, kernel = rng.dirichlet(np.ones(5), 7), KERNELS[name]
    by_column = sum(kernel(x[:, None]) for x in X.T)
    np.testing.assert_allclose(kernel(X), by_column, rtol=1e-12)


@pytest.mark.parametrize(
    ("estimator", "parameter", "names"),
    [
        (MetricKNNClassifier, "metric", METRICS),
        (KernelProjectionMap, "kernel", KERNELS),
        (SparseAdditiveMap, "kernel", ADDITIVE_KERNELS),
        (ProductQuantizer, "metric", CODE_METRICS),
        (MDM, "metric", GEOMETRIES),
        (Whitening, "metric", GEOMETRIES),
        (CSP, "metric", GEOMETRIES),
        (Potato, "metric", GEOMETRIES),
        (TangentSpace, "reference", GEOMETRIES),
        (SPDGPClassifier, "kernel", COVARIANCE_KERNELS),
    ],
)
def test_a_wrong_name_lists_the_right_ones(estimator, parameter, names):
    with pytest.raises(ValueError, match=parameter) as error:
        estimator(**{parameter: "exp-chi2"}).fit([[1.0, 2.0], [2.0, 1.0]], [0, 1])
    assert all(f"'{name}'" in str(error.value) for name in names)


# ---- parameters of metrics, and metrics of one's own ---------------------------------------------


def test_parameters_of_a_metric_are_named():
    X, y = np.random.default_rng(0).random((20, 4)), np.arange(20) % 2
    for make in (MetricKNNClassifier, CondensedNN):
        with pytest.raises(ValueError, match="metric_params has 'gama', which 'exp_chi2' does not"):
            make(metric="exp_chi2", metric_params={"gama": 2.0}).fit(X, y).predict(X)
        with pytest.raises(ValueError, match=r"^Give either M, .*in metric_params"):
            make(metric="emd").fit(X, y).predict(X)
    with pytest.raises(ValueError, match="kernel_params has 'gama', which 'exp_chi2' does not"):
        SparseKernelMap(kernel="exp_chi2", kernel_params={"gama": 2.0}).fit(X)
    one = SparseKernelMap(kernel="exp_chi2", kernel_params={"n_jobs": 1}, random_state=0).fit(X)
    both = SparseKernelMap(kernel="exp_chi2", random_state=0).fit(X)
    assert (one.transform(X) != both.transform(X)).sum() == 0


@pytest.mark.parametrize("make", [MetricKNNClassifier, CondensedNN, RandomSubset])
def test_what_a_callable_returns_is_checked(make):
    X, y = np.random.default_rng(0).random((20, 4)), np.arange(20) % 2

    def as_lists(A, B, n_jobs=None):
        return np.abs(A[:, None] - B).sum(axis=2).tolist()

    def as_array(A, B, n_jobs=None):
        return np.abs(A[:, None] - B).sum(axis=2)

    given = {"random_state": 0} if make is not MetricKNNClassifier else {}
    answers = [make(metric=m, **given).fit(X, y).predict(X) for m in (as_lists, as_array)]
    np.testing.assert_array_equal(*answers)
    with pytest.raises(ValueError, match="metric returned distances of shape"):
        make(metric=lambda A, B, n_jobs=None: np.zeros((3, 3)), **given).fit(X, y).predict(X)


@pytest.mark.parametrize("metric", ["airm", "jbld"])
def test_distances_to_neighbours_are_never_left_out(metric):
    A = np.random.default_rng(0).normal(size=(20, 3, 8))
    X, y = A @ A.transpose(0, 2, 1), np.arange(20) % 2
    model = MetricKNNClassifier(metric=metric, metric_params={"on_error": "nan"})
    with pytest.raises(ValueError, match=r"'on_error', which '.*' does not take: it takes n_jobs"):
        model.fit(X, y).predict(X)


# ---- distances that are computed once ------------------------------------------------------------

ESTIMATORS = [
    MetricKNNClassifier(3),
    MetricKNNClassifier("auto", weights="auto"),
    MetricKNNClassifier(3, class_weight={0: 1.0, 1: 2.0, 2: 0.0}),
    MetricKNNRegressor(3, weights="distance"),
    MetricKNNRegressor("auto"),
    CondensedNN(random_state=0),
    FastCondensedNN(),
    ReducedNN(random_state=0),
    RandomSubset(0.2, random_state=0),
    RandomSubset(0.2, n_neighbors=3, random_state=0),
    RandomMutationNN(0.1, max_iter=40, random_state=0),
    KMedoids(3, random_state=0),
]
each = pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)


@pytest.fixture
def data(rng):
    y = np.arange(60) % 3
    X = rng.random((60, 5)) + 0.02
    X[np.arange(60), y] += 0.7
    return X, y


def fitted(estimator, metric, X, y, weight=None):
    model = clone(estimator).set_params(metric=metric)
    arguments = {} if weight is None else {"sample_weight": weight}
    return model.fit(X, y, **arguments)


@each
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_answers_are_those_of_the_metric(data, estimator, dtype):
    X, y = (data[0].astype(dtype), data[1])
    given = fitted(estimator, "precomputed", chi2_distances(X[:45]), y[:45])
    named = fitted(estimator, "chi2", X[:45], y[:45])
    between = chi2_distances(X[45:], X[:45])
    assert given.__sklearn_tags__().input_tags.pairwise
    assert not named.__sklearn_tags__().input_tags.pairwise
    if isinstance(estimator, FastCondensedNN):
        # Its first prototypes are those in the middle, where there are no centroids.
        assert given.score(between, y[45:]) > 0.7
        return
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-9}
    for name in ("predict", "predict_proba", "transform", "kneighbors"):
        if hasattr(given, name):
            found, expected = getattr(given, name)(between), getattr(named, name)(X[45:])
            if name == "kneighbors":
                np.testing.assert_array_equal(found[1], expected[1])
                found, expected = found[0], expected[0]
            np.testing.assert_allclose(found, expected, **tolerance)


@pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if not isinstance(e, KMedoids)], ids=repr
)
def test_samples_of_weight_0_are_left_out(data, estimator):
    X, y = data
    weight = np.where(np.arange(60) % 4 == 0, 0.0, 1.0)
    D = chi2_distances(X)
    given = fitted(estimator, "precomputed", D, y, weight)
    if isinstance(estimator, FastCondensedNN):
        assert np.all(weight[given.sample_indices_] > 0)
        return
    named = fitted(estimator, "chi2", X, y, weight)
    np.testing.assert_allclose(given.predict(D), named.predict(X), rtol=1e-9)


def test_neighbours_of_the_training_samples_themselves(data):
    X, y = data
    given = MetricKNNClassifier(4, metric="precomputed").fit(chi2_distances(X), y)
    named = MetricKNNClassifier(4, metric="chi2").fit(X, y)
    for found, expected in zip(given.kneighbors(), named.kneighbors(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert (given.kneighbors_graph() != named.kneighbors_graph()).nnz == 0


@pytest.mark.parametrize(
    "model", [MetricKNNClassifier(), RandomSubset(3, random_state=0)], ids=repr
)
def test_a_grid_search_takes_one_matrix(data, model):
    """Folds cut rows and columns."""
    X, y = data
    search = GridSearchCV(model, {"n_neighbors": [1, 3, 5]}, cv=KFold(4))
    given = clone(search).set_params(estimator__metric="precomputed").fit(chi2_distances(X), y)
    named = clone(search).set_params(estimator__metric="chi2").fit(X, y)
    for key in ("mean_test_score", "split0_test_score"):
        np.testing.assert_array_equal(given.cv_results_[key], named.cv_results_[key])


def test_prototypes_are_places(data):
    X, y = data
    D = chi2_distances(X)
    model = CondensedNN(metric="precomputed", random_state=0).fit(D, y)
    np.testing.assert_array_equal(model.prototypes_, model.sample_indices_)
    clusters = KMedoids(3, metric="precomputed", random_state=0).fit(D)
    np.testing.assert_array_equal(clusters.cluster_centers_, clusters.medoid_indices_)


@each
def test_what_is_refused(data, estimator):
    X, y = data
    D = chi2_distances(X)
    with pytest.raises(ValueError, match=r"X has shape \(60, 5\): to fit, give the distances"):
        fitted(estimator, "precomputed", X, y)
    bad = D.copy()
    bad[3, 4] = -0.5
    with pytest.raises(ValueError, match=r"X\[3, 4\] = -0.5: distances must not be negative"):
        fitted(estimator, "precomputed", bad, y)
    bad[3, 4] = np.nan
    with pytest.raises(ValueError, match=r"X\[3, 4\] = NaN"):
        fitted(estimator, "precomputed", bad, y)
    with pytest.raises(TypeError, match=r"(?i)sparse"):
        fitted(estimator, "precomputed", sparse.csr_array(D), y)
    with pytest.raises(ValueError, match="'precomputed' takes no arguments"):
        fitted(clone(estimator).set_params(metric_params={"reg": 1.0}), "precomputed", D, y)
    model = fitted(estimator, "precomputed", D, y)
    with pytest.raises(ValueError, match="expecting 60 features"):
        model.predict(D[:, :59])


def test_indices_of_samples_end_with_precomputed_distances():
    X = np.random.default_rng(0).standard_normal((20, 3))
    y = np.arange(20) % 2
    D = np.abs(X[:, None] - X[None]).sum(axis=2)
    model = MetricKNNClassifier(metric="precomputed").fit(D, y)
    assert hasattr(model, "sample_indices_")
    assert not hasattr(model.set_params(metric="euclidean").fit(X, y), "sample_indices_")
