"""Kernels between histograms against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.metrics.pairwise import manhattan_distances, pairwise_kernels
from sklearn.svm import SVC

from histrs.metrics import intersection_kernel
from histrs.testing import count_matrices, histograms
from tests.helpers import CONTAINERS, awkward_histograms, dense
from tests.oracles import intersection as oracle

pytestmark = pytest.mark.simd_paths

n_columns = st.shared(st.integers(0, 40), key="n_columns")
float_dtypes = st.sampled_from([np.float32, np.float64])
# Sums of non-negative terms have no cancellation; 64 of them are added in the working precision.
RELATIVE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-13}

any_histograms = histograms(
    n_columns=n_columns,
    dtype=float_dtypes,
    format="any",
    scale=st.sampled_from([1.0, "tiny", "huge", "mixed"]),
    allow_subnormal=True,
)


@given(X=any_histograms, Y=any_histograms)
def test_intersection_kernel_is_its_definition(X, Y):
    K = intersection_kernel(X, Y)
    assert K.dtype == np.result_type(X.dtype, Y.dtype)
    np.testing.assert_allclose(K, oracle.intersection_kernel(X, Y), rtol=RELATIVE[K.dtype])


@given(X=any_histograms)
def test_intersection_kernel_of_one_argument_is_symmetric(X):
    K = intersection_kernel(X)
    assert K.dtype == X.dtype
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K, oracle.intersection_kernel(X), rtol=RELATIVE[K.dtype])
    np.testing.assert_allclose(K, intersection_kernel(X, X), rtol=RELATIVE[K.dtype])


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


@pytest.mark.parametrize("dtype", [np.float16, np.longdouble, bool, object])
def test_other_dtypes_become_double(rng, dtype):
    X = rng.integers(0, 2, size=(5, 4)).astype(dtype)
    K = intersection_kernel(X)
    assert K.dtype == np.float64
    np.testing.assert_array_equal(K, oracle.intersection_kernel(X.astype(np.float64)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_containers_do_not_matter(rng, container, dtype):
    X = awkward_histograms(rng, 17).astype(dtype)
    Y = awkward_histograms(rng, 9).astype(dtype)
    expected = intersection_kernel(X, Y)
    for pair in [(container(X), Y), (X, container(Y)), (container(X), container(Y))]:
        K = intersection_kernel(*pair)
        np.testing.assert_allclose(K, expected, rtol=RELATIVE[np.dtype(dtype)])


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_arguments_are_not_changed(rng, container):
    X = awkward_histograms(rng, 8)
    given_, copy = container(X), container(X)
    intersection_kernel(given_, given_)
    for part in ("data", "indices", "indptr") if hasattr(given_, "indptr") else ():
        np.testing.assert_array_equal(getattr(given_, part), getattr(copy, part))
    np.testing.assert_array_equal(dense(given_), X)


@pytest.mark.parametrize(
    ("left", "right", "columns"),
    [(0, 0, 0), (0, 0, 3), (0, 4, 3), (4, 0, 3), (2, 3, 0), (1, 1, 1), (1, 5, 1), (5, 1, 70)],
)
@pytest.mark.parametrize("container", ["C", "CSR array"])
def test_edge_sizes(rng, left, right, columns, container):
    X, Y = rng.random((left, columns)), rng.random((right, columns))
    K = intersection_kernel(CONTAINERS[container](X), CONTAINERS[container](Y))
    assert K.shape == (left, right)
    np.testing.assert_allclose(K, oracle.intersection_kernel(X, Y))


@given(X=histograms(n_columns=n_columns), Y=histograms(n_columns=n_columns))
def test_agrees_with_scikit_learn(X, Y):
    # min(a, b) = (a + b - |a - b|) / 2
    if min(X.shape[0], Y.shape[0], X.shape[1]) > 0:
        mass = X.sum(axis=1)[:, None] + Y.sum(axis=1)[None, :]
        K = (mass - manhattan_distances(X, Y)) / 2
        tolerance = 1e-12 * mass.max()
        np.testing.assert_allclose(intersection_kernel(X, Y), K, rtol=0, atol=tolerance)


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


def test_features_need_not_fit_a_vector_register():
    # Wide enough for every unrolled loop and its remainder.
    for width in (1, 63, 64, 65, 1000, 4099):
        X = np.arange(3 * width, dtype=np.float64).reshape(3, width)
        np.testing.assert_allclose(intersection_kernel(X), oracle.intersection_kernel(X))


BAD_ENTRIES = {
    "NaN": (np.nan, r"\[2, 1\] = NaN.*(impute|drop)"),
    "infinity": (np.inf, r"\[2, 1\] = infinity.*(impute|drop)"),
    "minus infinity": (-np.inf, r"\[2, 1\] = -infinity.*(impute|drop)"),
    "negative": (-0.2, r"\[2, 1\] = -0\.2.*(clip|shift)"),
}


@pytest.mark.parametrize("argument", ["X", "Y"])
@pytest.mark.parametrize("container", ["C", "F", "list", "DataFrame", "CSR array"])
@pytest.mark.parametrize(("entry", "message"), BAD_ENTRIES.values(), ids=BAD_ENTRIES)
def test_bad_entries_are_named(rng, argument, container, entry, message):
    good, bad = rng.random((4, 3)), rng.random((4, 3))
    bad[2, 1] = bad[3, 0] = entry
    arguments = {"X": good, "Y": good, argument: CONTAINERS[container](bad)}
    with pytest.raises(ValueError, match=argument + message):
        intersection_kernel(**arguments)


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
        ([[1.0, "a"]], None, "could not convert string to float"),
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
