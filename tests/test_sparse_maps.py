"""Sparse feature maps and their inner products against definitions, and what they approximate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import SGDClassifier
from sklearn.metrics.pairwise import linear_kernel
from sklearn.pipeline import make_union
from sklearn.svm import SVC, LinearSVC

from histrs.kernel_approximation import (
    AdditiveChi2Map,
    KernelProjectionMap,
    SparseAdditiveMap,
    SparseKernelMap,
)
from histrs.metrics import (
    additive_chi2_kernel,
    exp_chi2_kernel,
    hellinger_kernel,
    intersection_kernel,
    jensen_shannon_kernel,
    minmax_kernel,
)
from histrs.testing import histograms
from tests.helpers import awkward_histograms, dense
from tests.oracles import sparse_maps as oracle

pytestmark = pytest.mark.simd_paths

KERNELS = {
    "intersection": intersection_kernel,
    "chi2": additive_chi2_kernel,
    "hellinger": hellinger_kernel,
    "jensen_shannon": jensen_shannon_kernel,
}
SPACINGS = ["uniform", "quantile", "log"]
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_spacing = pytest.mark.parametrize("spacing", SPACINGS)


def approximation(model, X, Y=None):
    """Eq. 6."""
    Y = X if Y is None else Y
    product = model.inner_product_.matmul(dense(model.transform(Y)).T)
    return model.transform(X) @ product


# ---- features of additive kernels ---------------------------------------------------------------


@given(
    X=histograms(
        n_rows=(1, 12),
        n_columns=(1, 8),
        dtype=st.sampled_from([np.float32, np.float64]),
        format="any",
        scale=st.sampled_from([1.0, 1.0, "tiny", "huge", "mixed"]),
    ),
    kernel=st.sampled_from(list(KERNELS)),
    spacing=st.sampled_from(SPACINGS),
    n_knots=st.integers(1, 9),
    n_jobs=st.sampled_from([1, 2, 7]),
)
def test_features_are_projections(X, kernel, spacing, n_knots, n_jobs):
    model = SparseAdditiveMap(kernel, n_knots, spacing=spacing, n_jobs=n_jobs).fit(X)
    features = model.transform(X)
    assert features.dtype == X.dtype
    assert features.has_canonical_format
    assert features.nnz <= 2 * np.count_nonzero(dense(X))
    assert np.diff(model.offsets_).max(initial=0) <= n_knots
    X = dense(X).astype(np.float64)
    # Subnormal knots have few digits, and ratios of them none.
    wide = np.repeat(X.max(axis=0, initial=0), np.diff(model.offsets_)) > 1e-290
    expected = oracle.additive_features(kernel, X, model.knots_, model.offsets_)
    tolerance = 3e-6 if features.dtype == np.float32 else 1e-9
    np.testing.assert_allclose(
        dense(features)[:, wide], expected[:, wide], rtol=tolerance, atol=tolerance
    )


@every_kernel
@pytest.mark.parametrize("gap", [1e-12, 1e-8, 1e-4, 0.3, 0.6, 1e3, 1e12])
def test_projections_lose_no_digits(kernel, gap):
    a, b = 0.7, 0.7 * (1 + gap)
    model = SparseAdditiveMap(kernel, 2, spacing="quantile").fit([[a], [b]])
    np.testing.assert_array_equal(model.knots_, [a, b])
    x = np.array([[a / 3], [a + (b - a) / 3], [a + (b - a) / 2], [b], [b * 5]])
    x[1:3] = np.clip(x[1:3], np.nextafter(a, 1), b)
    actual = dense(model.transform(x))
    if kernel == "jensen_shannon" and gap < 1e-4:
        # Extended precision is not enough for the definition, but to the first order in the gap
        # the projection is interpolation.
        expected = oracle.additive_features("intersection", x, model.knots_, model.offsets_)
        ends = oracle.additive_features(kernel, x[[0, -1]], model.knots_, model.offsets_)
        expected[[0, -1]] = ends
        np.testing.assert_allclose(actual, expected, rtol=2 * gap + 1e-12, atol=2 * gap + 1e-12)
    else:
        expected = oracle.additive_features(kernel, x, model.knots_, model.offsets_)
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-10)


@every_spacing
def test_knots_are_where_they_are_said_to_be(rng, spacing):
    X = awkward_histograms(rng, 40)
    model = SparseAdditiveMap(n_knots=5, spacing=spacing).fit(X)
    for d, column in enumerate(X.T):
        knots = model.knots_[model.offsets_[d] : model.offsets_[d + 1]]
        positive = np.sort(column[column > 0])
        if spacing == "uniform":
            expected = np.arange(1, 6) / 5 * column.max()
        elif spacing == "log":
            expected = np.geomspace(positive[0], positive[-1], 5) if len(positive) else []
        else:
            levels = np.arange(1, 6) / 5
            expected = np.quantile(positive, levels, method="inverted_cdf") if len(positive) else []
        expected = np.unique(np.round(expected, 12))
        expected = expected[expected > 0]
        np.testing.assert_allclose(knots, expected, rtol=1e-9)


def test_feature_names(rng):
    model = SparseAdditiveMap("chi2", 3, spacing="log").fit(awkward_histograms(rng, 12))
    names = model.get_feature_names_out()
    assert list(names[:4]) == ["x0_0", "x0_1", "x0_2", "x1_0"]
    assert len(names) == len(model.knots_) == model.offsets_[-1]


def test_nothing_to_map():
    model = SparseAdditiveMap("chi2", 3).fit(np.zeros((2, 3)))
    assert model.transform(np.ones((4, 3))).shape == (4, 0)
    assert model.inner_product_.matmul(np.ones((0, 2))).shape == (0, 2)
    assert model.inner_product_.solve(np.ones((0, 2))).shape == (0, 2)
    half = SparseAdditiveMap("jensen_shannon", 3).fit([[0.0, 2.0]])
    np.testing.assert_array_equal(half.offsets_, [0, 0, 3])
    assert half.transform(sparse.csr_array((5, 2))).nnz == 0


# ---- their inner product ------------------------------------------------------------------------


@given(
    X=histograms(n_rows=(1, 12), n_columns=(1, 6), scale=st.sampled_from([1.0, 1e-60, 1e60])),
    kernel=st.sampled_from(list(KERNELS)),
    spacing=st.sampled_from(SPACINGS),
    n_knots=st.integers(1, 9),
    k=st.integers(0, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_inner_product_is_the_kernel_of_the_knots(X, kernel, spacing, n_knots, k, seed):
    model = SparseAdditiveMap(kernel, n_knots, spacing=spacing).fit(X)
    product = model.inner_product_
    K = oracle.knot_kernel(kernel, model.knots_, model.offsets_)
    assert product.shape == K.shape
    V = np.random.default_rng(seed).normal(size=(len(K), k))
    scale = K.max(initial=0.0)
    np.testing.assert_allclose(product.matmul(V), K @ V, rtol=0, atol=1e-12 * scale)
    # Of the conditions of Penrose, those that do not magnify rounding.
    W = K @ V
    np.testing.assert_allclose(K @ product.solve(W), W, rtol=0, atol=1e-9 * scale)
    symmetric = V.T @ product.solve(V)
    tolerance = 1e-12 * np.abs(symmetric).max(initial=0.0)
    np.testing.assert_allclose(symmetric, symmetric.T, rtol=0, atol=tolerance)


@every_kernel
@every_spacing
def test_solve_is_the_pseudo_inverse(rng, kernel, spacing):
    X = awkward_histograms(rng, 30)
    model = SparseAdditiveMap(kernel, 3, spacing=spacing).fit(X)
    K = oracle.knot_kernel(kernel, model.knots_, model.offsets_)
    expected = np.linalg.pinv(K, hermitian=True)
    actual = model.inner_product_.solve(np.eye(len(K)))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-8 * np.abs(expected).max())
    vector = rng.normal(size=len(K))
    np.testing.assert_array_equal(
        model.inner_product_.solve(vector), model.inner_product_.solve(vector[:, None])[:, 0]
    )


# ---- what they approximate ----------------------------------------------------------------------


@given(
    X=histograms(n_rows=(1, 20), n_columns=(1, 8)),
    n_knots=st.integers(1, 12),
    spacing=st.sampled_from(SPACINGS),
)
def test_the_intersection_kernel_is_off_by_a_quarter_of_a_gap(X, n_knots, spacing):
    model = SparseAdditiveMap("intersection", n_knots, spacing=spacing).fit(X)
    columns = np.split(model.knots_, model.offsets_[1:-1])
    bound = sum(np.diff(knots, prepend=0.0).max(initial=0.0) / 4 for knots in columns)
    error = np.abs(approximation(model, X) - intersection_kernel(X))
    assert error.max(initial=0.0) <= bound * (1 + 1e-12) + 1e-12 * intersection_kernel(X).max()


@every_kernel
def test_the_error_falls_with_the_number_of_knots(rng, kernel):
    X = rng.dirichlet(np.ones(6), size=60)
    K = KERNELS[kernel](X)
    errors = []
    for n_knots in (8, 16, 32):
        model = SparseAdditiveMap(kernel, n_knots, spacing="log").fit(X)
        errors.append(np.abs(approximation(model, X) - K).max())
    if kernel == "hellinger":
        assert max(errors) < 1e-14
    else:
        # The intersection kernel's error is linear in the gaps, those of smooth ones quadratic.
        factor = 1.9 if kernel == "intersection" else 3.0
        assert errors[0] > factor * errors[1] > factor**2 * errors[2]


# ---- maps of any kernel on landmarks ------------------------------------------------------

MAPS = [KernelProjectionMap, SparseKernelMap]
every_map = pytest.mark.parametrize("Map", MAPS)
SELECTIONS = ["nearest", "matching-pursuit", "orthogonal-matching-pursuit"]
every_selection = pytest.mark.parametrize("selection", SELECTIONS)


def residuals(model, X, kernel):
    """Squared distances of rows from their projections in the kernel's space."""
    K = kernel(X, model.landmarks_)
    Phi = dense(model.transform(X))
    fitted = np.einsum("ij,ij->i", Phi, model.inner_product_.matmul(Phi.T).T)
    return np.diag(kernel(X, X)) - 2 * np.einsum("ij,ij->i", K, Phi) + fitted


@pytest.mark.parametrize("kernel", [*KERNELS, "exp_chi2", "minmax"])
@pytest.mark.parametrize("landmarks", ["kmeans", "sample"])
def test_projections_are_equation_5(rng, kernel, landmarks):
    X = awkward_histograms(rng, 30)
    model = KernelProjectionMap(
        kernel, 8, landmarks=landmarks, kernel_params=None, random_state=0
    ).fit(X)
    function = {**KERNELS, "exp_chi2": exp_chi2_kernel, "minmax": minmax_kernel}[kernel]
    Z = model.landmarks_
    K = function(Z)
    K_ZX = function(Z, X)
    expected = np.linalg.pinv(K, hermitian=True) @ K_ZX
    np.testing.assert_allclose(model.transform(X).T, expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(model.inner_product_.matmul(np.eye(len(Z))), K, rtol=1e-12)
    approximated = approximation(model, X)
    np.testing.assert_allclose(approximated, K_ZX.T @ expected, atol=1e-8)
    whitened = clone(model).set_params(whiten=True).fit(X)
    features = whitened.transform(X)
    np.testing.assert_allclose(features @ features.T, approximated, atol=1e-8)
    assert features.shape[1] == np.linalg.matrix_rank(K, hermitian=True)
    np.testing.assert_allclose(approximation(whitened, X), approximated, atol=1e-8)


@every_kernel
@every_spacing
def test_a_root_of_the_inner_product_takes_it_into_additive_features(rng, kernel, spacing):
    X = awkward_histograms(rng, 30)
    X[:, 0] *= 1e6
    plain = SparseAdditiveMap(kernel, n_knots=5, spacing=spacing).fit(X)
    model = clone(plain).set_params(whiten=True).fit(X)
    features = model.transform(X)
    K = approximation(plain, X)
    np.testing.assert_allclose((features @ features.T).toarray(), K, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(approximation(model, X), K, rtol=1e-9, atol=1e-9)
    assert features.indices.dtype == np.int32
    names = model.get_feature_names_out()
    assert len(names) == len(set(names)) == features.shape[1] == model.inner_product_.shape[0]
    of_columns = [name.partition("_")[0] for name in names]
    alone = np.zeros_like(X)
    alone[:, 2] = X[:, 2]
    used = np.unique(model.transform(alone).nonzero()[1])
    assert {of_columns[k] for k in used} <= {"x2"}
    single = model.transform(sparse.csr_array(X.astype(np.float32)))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.toarray(), features.toarray(), rtol=1e-3, atol=1e-4)
    plain_again = model.set_params(whiten=False).fit(X)
    np.testing.assert_array_equal(plain_again.transform(X).toarray(), plain.transform(X).toarray())


def test_a_root_of_no_columns_and_of_empty_ones():
    X = np.zeros((3, 2))
    assert SparseAdditiveMap(whiten=True).fit(X).transform(X).shape == (3, 0)
    X[:, 1] = [0.0, 1.0, 2.0]
    features = SparseAdditiveMap("hellinger", whiten=True).fit(X).transform(X)
    np.testing.assert_allclose(features.toarray(), np.sqrt(X[:, 1:]))


@every_selection
def test_a_root_of_the_inner_product_takes_it_into_sparse_codes(rng, selection):
    X = awkward_histograms(rng, 30)
    plain = SparseKernelMap("chi2", 8, 3, selection=selection, random_state=0).fit(X)
    model = clone(plain).set_params(whiten=True).fit(X)
    features = model.transform(X)
    np.testing.assert_allclose(features @ features.T, approximation(plain, X), atol=1e-9)
    np.testing.assert_allclose(approximation(model, X), approximation(plain, X), atol=1e-9)
    assert model.get_feature_names_out().shape == (features.shape[1],)


@every_selection
@given(
    X=histograms(n_rows=(2, 12), n_columns=(1, 5), format="any"),
    kernel=st.sampled_from(list(KERNELS)),
    n_nonzero=st.integers(1, 4),
    n_jobs=st.sampled_from([1, 2]),
)
def test_sparse_coordinates_are_projections_on_what_they_select(
    selection, X, kernel, n_nonzero, n_jobs
):
    model = SparseKernelMap(
        kernel, 6, n_nonzero, selection=selection, landmarks="sample", n_jobs=n_jobs
    ).fit(X)
    features = model.transform(X)
    assert features.has_canonical_format
    assert np.diff(features.indptr).max(initial=0) <= n_nonzero
    K, K_XZ = KERNELS[kernel](model.landmarks_), KERNELS[kernel](X, model.landmarks_)
    scale = np.sqrt(K.max(initial=0.0) * max(K_XZ.max(initial=0.0), 1e-300))
    for i, row in enumerate(dense(features)):
        chosen = features.indices[features.indptr[i] : features.indptr[i + 1]]
        # The residual is orthogonal to what is projected on.
        np.testing.assert_allclose(K[chosen] @ row, K_XZ[i, chosen], rtol=1e-6, atol=1e-6 * scale)
        if selection == "nearest" and len(chosen) == n_nonzero:
            distances = np.diag(K) - 2 * K_XZ[i]
            others = np.setdiff1d(np.arange(len(K)), chosen)
            slack = 1e-12 * np.abs(distances).max()
            assert distances[chosen].max() <= distances[others].min(initial=np.inf) + slack


@every_selection
def test_more_landmarks_leave_less(rng, selection):
    X = rng.dirichlet(np.ones(6), size=50)
    left = []
    for n_nonzero in (1, 2, 4, 8):
        model = SparseKernelMap(
            "chi2", 20, n_nonzero, selection=selection, landmarks="sample", random_state=0
        ).fit(X)
        left.append(residuals(model, X, additive_chi2_kernel))
    assert np.min(left) > -1e-12
    assert (np.diff(left, axis=0) <= 1e-12).all()
    full = KernelProjectionMap("chi2", 20, landmarks="sample", random_state=0).fit(X)
    best = residuals(full, X, additive_chi2_kernel)
    assert (left[-1] >= best - 1e-10).all()


def test_pursuit_is_nearly_the_best_subset(rng):
    X = rng.dirichlet(np.ones(4), size=30)
    left = {}
    for selection in SELECTIONS:
        model = SparseKernelMap(
            "chi2", 8, 2, selection=selection, landmarks="sample", random_state=0
        ).fit(X)
        left[selection] = residuals(model, X, additive_chi2_kernel)
    Z = model.landmarks_
    K, K_XZ = additive_chi2_kernel(Z), additive_chi2_kernel(X, Z)
    best = [oracle.best_subset_residual(x.sum(), k, K, 2) for x, k in zip(X, K_XZ, strict=True)]
    for selection, residual in left.items():
        assert (residual >= np.array(best) - 1e-12).all()
        if selection != "nearest":
            assert residual.sum() < 1.5 * np.sum(best)


@every_map
def test_a_callable_kernel_takes_any_data(rng, Map):
    X = rng.normal(size=(30, 3))
    model = Map(linear_kernel, 6, random_state=0).fit(X)
    error = approximation(model, X) - X @ X.T
    # Six points span three dimensions, and so do up to five of them.
    np.testing.assert_allclose(error, 0, atol=1e-8)
    single = model.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert len(model.get_feature_names_out()) == 6


@every_map
def test_errors_of_kernels_and_landmarks(rng, Map):
    X = rng.random((8, 3))
    with pytest.raises(ValueError, match=r"landmarks have shape \(2, 4\)"):
        Map(landmarks=np.ones((2, 4))).fit(X)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        Map(lambda X, Z: np.ones(3), 4).fit(X)
    with pytest.raises(ValueError, match="row 0 and landmark 0 is nan"):
        Map(lambda X, Z: np.full((len(X), len(Z)), np.nan), 4).fit(X)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        Map(lambda X, Z: -linear_kernel(X, Z), 4).fit(X)
    for landmarks in ("kmeans", "sample"):
        bad = X.copy()
        bad[3, 1] = -0.5
        model = Map(n_landmarks=4, landmarks=landmarks).fit(X)
        with pytest.raises(ValueError, match=r"X\[3, 1\] = -0.5"):
            model.transform(bad)
    with pytest.raises(ValueError, match=r"X\[3, 1\] = -0.5"):
        Map(n_landmarks=4).fit(bad)
    with pytest.raises(ValueError, match="gamma"):
        Map("chi2", 4, kernel_params={"gamma": 1.0}).fit(X)


@pytest.mark.parametrize(
    "feature_map",
    [
        AdditiveChi2Map(3),
        AdditiveChi2Map(3, method="periodic"),
        SparseAdditiveMap("intersection", n_knots=4),
        SparseKernelMap(n_landmarks=5, random_state=0),
        make_union(AdditiveChi2Map(3), SparseAdditiveMap("chi2", n_knots=3)),
    ],
    ids=lambda feature_map: type(feature_map).__name__,
)
def test_models_of_scikit_learn_take_sparse_features(rng, feature_map):
    X = sparse.csr_array(rng.random((60, 8)) * (rng.random((60, 8)) < 0.4))
    y = np.arange(60) % 2
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    features = feature_map.fit(X).transform(X)
    assert sparse.issparse(features)
    assert features.indices.dtype == features.indptr.dtype == np.int32
    models = [
        LinearSVC(),
        SVC(kernel="linear"),
        SGDClassifier(random_state=0),
        RandomForestClassifier(3, random_state=0),
    ]
    for model in models:
        assert model.fit(features, y).predict(features).shape == (60,)
