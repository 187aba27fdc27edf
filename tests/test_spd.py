"""Covariance matrices: distances, kernels, descriptors and projections, each by its definition."""

import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn import covariance
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from histrs.gaussian_process import SPDGPRegressor
from histrs.metrics import (
    airm_distances,
    airm_kernel,
    jbld_distances,
    jbld_kernel,
    log_euclidean_kernel,
)
from histrs.prototypes import CovarianceCompressor
from histrs.spd import (
    CSP,
    MDM,
    CommonRange,
    Covariances,
    Potato,
    SPDProjection,
    TangentSpace,
    Whitening,
    covariance_descriptors,
    project_to_spd,
)
from histrs.testing import spd_matrices
from histrs.testing._common import LAYOUTS, lay_out
from tests.helpers import wishart
from tests.oracles import spd as oracle
from tests.test_spd_signals import trials

pytestmark = pytest.mark.simd_paths

DISTANCES = {"jbld": (jbld_distances, oracle.jbld), "airm": (airm_distances, oracle.airm)}
each_distance = pytest.mark.parametrize("metric", DISTANCES)

sizes = st.shared(st.integers(1, 9) | st.sampled_from([12, 13, 17]), key="p")
counts = st.sampled_from([0, 1, 2, 7, 8, 9, 17])
# So that X^-1 Y has eigenvalues which double precision resolves.
conditions = st.sampled_from([1.0, 10.0, 1e3])


def tolerance(dtype, p, condition=1e3):
    """Of an absolute difference; distances here are of order 1 to 100."""
    eps = np.finfo(np.float64).eps * condition**2
    return 100 * p * max(eps, np.finfo(dtype).eps)


# ---- distances: definitions --------------------------------------------------------------------


@each_distance
@given(data=st.data())
def test_distances_are_their_definitions(metric, data):
    fast, slow = DISTANCES[metric]
    X = data.draw(spd_matrices(counts, sizes, condition=conditions))
    Y = data.draw(spd_matrices(counts, sizes, condition=conditions))
    expected = oracle.all_pairs(slow, X, Y)
    D = fast(X, Y)
    np.testing.assert_allclose(D, expected, rtol=1e-9, atol=tolerance(D.dtype, X.shape[1]))
    n = min(len(X), len(Y))
    of_pairs = fast(X[:n], Y[:n], paired=True)
    assert of_pairs.shape == (n,)
    atol = tolerance(D.dtype, X.shape[1])
    np.testing.assert_allclose(of_pairs, np.diagonal(expected)[:n], rtol=1e-9, atol=atol)


@each_distance
@given(X=spd_matrices(counts, sizes, condition=conditions))
def test_distances_to_themselves(metric, X):
    fast, slow = DISTANCES[metric]
    D = fast(X)
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_array_equal(np.diagonal(D), 0.0)
    assert np.all(D >= 0)
    atol = tolerance(D.dtype, X.shape[1])
    np.testing.assert_allclose(D, oracle.all_pairs(slow, X, X), rtol=1e-9, atol=atol)


@each_distance
@given(X=spd_matrices(counts, sizes))
def test_equal_matrices_are_at_distance_zero(metric, X):
    fast, _ = DISTANCES[metric]
    np.testing.assert_array_equal(fast(X, X.copy(), paired=True), 0.0)
    equal = np.all(X[:, None] == X[None], axis=(2, 3))
    if metric == "jbld":  # never too far apart, however near to singular
        D = fast(X, X.copy())
        assert np.all(D >= 0)
        np.testing.assert_array_equal(D[equal], 0.0)


def symmetric(A):
    return (A + A.transpose(0, 2, 1)) / 2


@each_distance
def test_scales_from_one_end_of_the_doubles_to_the_other(rng, metric):
    fast, _ = DISTANCES[metric]
    X = wishart(rng, 5, 6)
    D = fast(X)
    for scale in (1e-290, 1e-100, 1e100, 1e290):
        np.testing.assert_allclose(fast(X * scale), D, rtol=1e-9, atol=1e-12)
    # log det((1 + c)/2 I) - 1/2 log det(c I), and the norm of log(c I).
    eye = np.eye(6)[None]
    for c in (1e-150, 1e-8, 1e8, 1e150):
        expected = {
            "jbld": 6 * (np.log1p(c) - np.log(2) - np.log(c) / 2),
            "airm": np.sqrt(6) * abs(np.log(c)),
        }
        np.testing.assert_allclose(fast(eye, c * eye), expected[metric], rtol=1e-13)


@each_distance
@given(data=st.data())
def test_single_precision(metric, data):
    fast, slow = DISTANCES[metric]
    X = data.draw(spd_matrices(counts, sizes, condition=10.0, dtype=np.float32))
    Y = data.draw(spd_matrices(counts, sizes, condition=10.0, dtype=np.float32))
    D = fast(X, Y)
    assert D.dtype == fast(X, Y[:0]).dtype == np.float32
    assert fast(X, Y.astype(np.float64)).dtype == np.float64
    # Sums are in double precision: only the result is rounded.
    np.testing.assert_allclose(D, oracle.all_pairs(slow, X, Y), rtol=2e-7, atol=1e-9)


@each_distance
@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 8, 23, 31, 64, 65])
def test_sizes_around_every_tile(rng, metric, p):
    fast, slow = DISTANCES[metric]
    X, Y = wishart(rng, 3, p), wishart(rng, 10, p)
    np.testing.assert_allclose(fast(X, Y), oracle.all_pairs(slow, X, Y), rtol=1e-8)


def test_more_pivots_than_mantissas_are_multiplied_at_once():
    p = 600
    X = np.stack([np.eye(p) * 1e-3, np.diag(np.linspace(1, 9, p))])
    expected = oracle.all_pairs(oracle.jbld, X, X)
    np.testing.assert_allclose(jbld_distances(X), expected, rtol=1e-11, atol=1e-12)


@each_distance
def test_diagonal_and_repeated_eigenvalues(metric):
    fast, slow = DISTANCES[metric]
    X = np.stack(
        [np.eye(7), np.diag([1.0, 1, 1, 4, 4, 4, 4]), np.diag(np.arange(1.0, 8)), 1e-9 + np.eye(7)]
    )
    np.testing.assert_allclose(fast(X), oracle.all_pairs(slow, X, X), rtol=1e-12, atol=1e-13)
    near = np.stack([np.eye(7), np.eye(7) + 1e-9 * np.diag(np.arange(7.0))])
    if metric == "airm":
        np.testing.assert_allclose(fast(near)[0, 1], 1e-9 * np.sqrt(91), rtol=1e-5)


# ---- distances: arguments ----------------------------------------------------------------------


@each_distance
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_forms_of_the_argument_do_not_matter(rng, metric, dtype):
    fast, _ = DISTANCES[metric]
    X = wishart(rng, 11, 3, dtype)
    expected = fast(X)
    for layout in LAYOUTS:
        np.testing.assert_array_equal(fast(lay_out(X, layout)), expected)
    np.testing.assert_array_equal(fast(X.reshape(11, 9)), expected)
    np.testing.assert_array_equal(fast(X.reshape(11, 9), X[:4]), fast(X, X[:4]))
    np.testing.assert_allclose(fast(X.tolist()), expected, rtol=1e-5, atol=1e-5)
    counts = np.stack([np.eye(3, dtype=int), np.diag([4, 1, 1])])
    assert fast(counts).dtype == np.float64


@each_distance
def test_bits_do_not_depend_on_the_number_of_threads(rng, metric):
    fast, _ = DISTANCES[metric]
    X, Y = wishart(rng, 37, 6), wishart(rng, 3, 6)
    for arguments in [(X,), (X, Y), (Y, X)]:
        one, two, seven = (fast(*arguments, n_jobs=n).tobytes() for n in (1, 2, 7))
        assert one == two == seven


def bad_matrices(rng):
    """By name: what is done to matrix 9, and what the error says."""
    p = 4
    nan, infinite, skew, negative, singular = (wishart(rng, 12, p) for _ in range(5))
    nan[9, 1, 2] = nan[11, 0, 0] = np.nan
    infinite[9, 3, 3] = -np.inf
    skew[9, 2, 1] += 0.1
    negative[9] *= -1
    negative[10] *= -1
    singular[9] = np.ones((p, p))
    return {
        "NaN": (nan, r"\[9, 1, 2\] = NaN.*contains NaN.*drop"),
        "infinity": (infinite, r"\[9, 3, 3\] = -infinity"),
        "asymmetric": (skew, r"\[9\] is not symmetric: .\[9, 2, 1\] = .*swapaxes"),
        "negative": (negative, r"\[9\] is not positive definite: pivot 0 .*project_to_spd"),
        "singular": (
            singular,
            r"\[9\] is not positive definite: it is singular, of rank 1 in 4 .*shrink",
        ),
    }


@each_distance
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_signals_about_their_average_are_refused_with_their_rank(rng, metric, dtype):
    fast, _ = DISTANCES[metric]
    signals = rng.standard_normal((60, 200, 8)) @ rng.standard_normal((8, 8)) * 1e-5
    signals -= signals.mean(axis=2, keepdims=True)
    X = np.array([np.cov(trial.T) for trial in signals]).astype(dtype)
    for i in range(len(X)):
        with pytest.raises(
            ValueError, match=r"X\[0\] is not positive.*of rank 7 in 8 .*common range"
        ):
            fast(X[i : i + 1])
    # The cures.
    assert np.isfinite(fast(project_to_spd(X))).all()
    basis = np.linalg.svd(X.sum(axis=0, dtype=np.float64))[0][:, :7]
    expected = fast(basis.T @ np.array([np.cov(trial.T) for trial in signals]) @ basis)
    np.testing.assert_allclose(fast((basis.T @ X @ basis).astype(dtype)), expected, atol=1e-2)


@each_distance
@pytest.mark.parametrize("argument", ["X", "Y"])
@pytest.mark.parametrize("kind", ["NaN", "infinity", "asymmetric", "negative", "singular"])
def test_bad_matrices_are_named(rng, metric, argument, kind):
    fast, _ = DISTANCES[metric]
    bad, message = bad_matrices(rng)[kind]
    arguments = {"X": wishart(rng, 12, 4), "Y": wishart(rng, 12, 4), argument: bad}
    for n_jobs in (1, 2):
        for paired in (False, True):
            with pytest.raises(ValueError, match="(?s)" + argument + message):
                fast(**arguments, paired=paired, n_jobs=n_jobs)


@each_distance
def test_rounding_of_symmetry_is_forgiven(rng, metric):
    fast, _ = DISTANCES[metric]
    X = wishart(rng, 5, 4)
    noisy = X * (1 + 1e-12 * rng.standard_normal(X.shape))
    np.testing.assert_allclose(fast(noisy), fast(symmetric(noisy)), rtol=1e-12, atol=1e-14)


def test_matrices_too_far_apart_are_named():
    X = np.stack([np.eye(2), np.diag([1.0, 1e-10])])
    Y = np.stack([np.eye(2), np.diag([1e-10, 1.0])])
    with pytest.raises(ValueError, match=r"X\[1\] and Y\[1\] are too far apart.*project_to_spd"):
        airm_distances(X, Y)
    with pytest.raises(ValueError, match=r"X\[1\] and Y\[1\]"):
        airm_distances(X, Y, paired=True)
    assert np.isfinite(jbld_distances(X, Y)).all()


# ---- projection on the cone --------------------------------------------------------------------


@given(n=counts, p=sizes, seed=st.integers(0, 99), floor=st.sampled_from([1e-6, 0.01, 1.0]))
def test_project_to_spd_is_its_definition(n, p, seed, floor):
    X = np.random.default_rng(seed).standard_normal((n, p, p)) + 2 * np.eye(p)
    X = X[np.linalg.eigvalsh(symmetric(X))[:, -1] > 0.1]
    P = project_to_spd(X, floor=floor)
    np.testing.assert_array_equal(P, symmetric(P))
    for matrix, projected in zip(X, P, strict=True):
        largest = np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1]
        np.testing.assert_allclose(projected, oracle.project(matrix, floor * largest), atol=1e-12)
    # So that distances take it.
    assert np.isfinite(jbld_distances(P)).all()
    np.testing.assert_allclose(project_to_spd(P, floor=floor), P, atol=1e-12)


def test_project_to_spd_of_other_forms(rng):
    X = rng.standard_normal((3, 4, 4)) + 3 * np.eye(4)
    P = project_to_spd(X)
    np.testing.assert_array_equal(project_to_spd(X.reshape(3, 16)), P)
    single = project_to_spd(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, P, rtol=1e-4, atol=1e-5)


# ---- descriptors -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*fewer samples:UserWarning")
@given(
    counts=st.lists(st.integers(2, 20), min_size=1, max_size=5),
    p=st.integers(1, 6),
    seed=st.integers(0, 99),
)
def test_covariances_are_their_definition(counts, p, seed):
    rng = np.random.default_rng(seed)
    F = [rng.standard_normal((n, p)) + 3 for n in counts]
    X = covariance_descriptors(F)
    for f, matrix in zip(F, X, strict=True):
        np.testing.assert_allclose(matrix, oracle.covariance(f), rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*fewer samples:UserWarning")
@pytest.mark.parametrize(
    ("shrinkage", "reference"),
    [
        ("lwf", lambda f: covariance.ledoit_wolf(f)[0]),
        ("oas", lambda f: covariance.oas(f)[0]),
        (0.3, lambda f: covariance.shrunk_covariance(covariance.empirical_covariance(f), 0.3)),
        (0, covariance.empirical_covariance),
        (1, lambda f: covariance.shrunk_covariance(covariance.empirical_covariance(f), 1.0)),
        ("scm", covariance.empirical_covariance),
    ],
)
def test_shrinkage_is_that_of_scikit_learn(rng, shrinkage, reference):
    for n, p in [(2, 2), (5, 3), (4, 9), (100, 4), (50, 1)]:
        f = rng.standard_normal((n, p)) * np.arange(1, p + 1) + 5
        X = covariance_descriptors(f[None], shrinkage=shrinkage)
        np.testing.assert_allclose(X[0], reference(f) * n / (n - 1), rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*fewer samples:UserWarning")
@pytest.mark.parametrize("shrinkage", ["scm", 0.2, "oas"])
def test_regions_are_sets_of_pixels(rng, shrinkage):
    image = rng.standard_normal((13, 17, 4)) + 1000 * np.arange(4)
    regions = [(0, 0, 13, 17), (0, 0, 1, 2), (3, 5, 9, 6), (12, 15, 13, 17), (4, 4, 8, 12)]
    X = covariance_descriptors(image, regions=regions, shrinkage=shrinkage)
    sets = [image[a:c, b:d].reshape(-1, 4) for a, b, c, d in regions]
    expected = covariance_descriptors(sets, shrinkage=shrinkage)
    np.testing.assert_allclose(X, expected, rtol=1e-9, atol=1e-9)
    single = covariance_descriptors(image.astype(np.float32), regions=regions)
    assert single.dtype == np.float32


@pytest.mark.parametrize("shrinkage", ["scm", 0, 0.1, "oas", "lwf"])
def test_swapped_axes_are_noticed(rng, shrinkage):
    trials = rng.standard_normal((5, 4, 100))  # trials, channels, times
    with pytest.warns(UserWarning, match=r"F\[0\] has fewer samples, 4, than.*swapaxes") as caught:
        assert covariance_descriptors(trials, shrinkage=shrinkage).shape == (5, 100, 100)
    assert caught[0].filename == __file__
    covariance_descriptors(trials.swapaxes(1, 2), shrinkage=shrinkage)
    sets = [rng.standard_normal((n, 4)) for n in (9, 3)]
    if shrinkage not in ("scm", 0):
        covariance_descriptors(sets, shrinkage=shrinkage)
    else:
        with pytest.warns(UserWarning, match=r"F\[1\] has fewer samples, 3, than features, 4"):
            covariance_descriptors(sets, shrinkage=shrinkage)


def test_dtypes_of_descriptors(rng):
    F = rng.integers(0, 9, size=(3, 10, 2))
    X = covariance_descriptors(F)
    assert X.dtype == np.float64
    single = covariance_descriptors(F.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, X, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(covariance_descriptors(list(F)), X)


# ---- supervised projection ---------------------------------------------------------------------


def two_classes(rng, n=40, p=6):
    """Matrices whose second and fifth features tell the classes apart."""
    y = np.arange(n) % 2
    A = rng.standard_normal((n, p, 60)) * np.arange(1, p + 1)[:, None]
    A[:, 1] *= 1 + y[:, None]
    A[:, 4] *= 1 + 2 * y[:, None]
    return covariance_descriptors(A.transpose(0, 2, 1)), y


def objective(U, X, pairs):
    """The mean over pairs of matrices of their weighted divergence after projection."""
    P = U.T @ X @ U
    return np.mean([weight * oracle.jbld(P[i], P[j]) for (i, j), weight in pairs.items()])


def affinities(X, y, n_within, n_between):
    """Section 4.1 of the paper: 1 of neighbours of a class, -1 of those of others."""
    D = jbld_distances(X)
    found = {}
    for i in range(len(X)):
        for same, n, weight in ((True, n_within, 1.0), (False, n_between, -1.0)):
            allowed = [j for j in range(len(X)) if j != i and (y[i] == y[j]) == same]
            for j in sorted(allowed, key=lambda j: D[i, j])[:n]:
                found[min(i, j), max(i, j)] = weight
    return found


@pytest.mark.parametrize("init", ["pca", "random"])
@pytest.mark.parametrize(("n", "n_within", "n_between"), [(40, 5, 5), (13, 2, 3)])
def test_the_projection_minimises_its_objective(rng, init, n, n_within, n_between):
    X, y = two_classes(rng, n)
    neighbors = {"n_neighbors_within": n_within, "n_neighbors_between": n_between}
    model = SPDProjection(2, init=init, random_state=0, tol=1e-7, **neighbors).fit(X, y)
    U = model.components_
    np.testing.assert_allclose(U.T @ U, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(model.transform(X), U.T @ X @ U, rtol=1e-10)
    pairs = affinities(X, y, n_within, n_between)
    np.testing.assert_allclose(model.objective_, objective(U, X, pairs), rtol=1e-8)
    for size in (0.1, 1e-3):  # above rounding, and as near as the gradient tells
        for _ in range(10):
            other = np.linalg.qr(U + size * rng.standard_normal(U.shape))[0]
            assert objective(other, X, pairs) > model.objective_
    if n == 40:
        assert np.linalg.norm(U[[1, 4]]) ** 2 > 1.9


def test_the_projection_is_a_transformer(rng):
    X, y = two_classes(rng)
    flat = X.reshape(len(X), -1)
    model = SPDProjection(2).fit(flat, y)
    assert model.transform(flat).shape == (40, 4)
    labels = np.where(y == 1, "b", "a")
    np.testing.assert_allclose(SPDProjection(2).fit(X, labels).components_, model.components_)
    pipeline = make_pipeline(SPDProjection(2), KNeighborsClassifier(1, metric=flat_jbld))
    assert pipeline.fit(flat[:30], y[:30]).score(flat[30:], y[30:]) > 0.8
    with pytest.raises(ValueError, match="1 class"):
        model.fit(X, np.zeros(len(X)))
    with pytest.raises(ValueError, match="n_components = 9 is more than the 6 rows"):
        SPDProjection(9).fit(X, y)


def flat_jbld(x, y):
    return jbld_distances(x[None], y[None])[0, 0]


# ---- kernels, and distances where some matrices are bad ------------------------------------------

KERNELS = {"jbld": jbld_kernel, "logeuclid": log_euclidean_kernel, "airm": airm_kernel}
each_kernel = pytest.mark.parametrize("kernel", KERNELS)


def definition(kernel, x, y, gamma):
    if kernel == "jbld":
        return np.exp(-gamma * oracle.jbld(x, y))
    if kernel == "airm":
        return np.exp(-gamma * oracle.airm(x, y) ** 2)
    logs = [oracle.matrix_function(a, np.log) for a in (x, y)]
    return np.exp(-gamma * np.sum((logs[0] - logs[1]) ** 2))


@each_kernel
@given(data=st.data())
def test_kernels_are_their_definitions(kernel, data):
    sizes = st.shared(st.integers(1, 6), key="p")
    X = data.draw(spd_matrices(st.sampled_from([1, 2, 9]), sizes, condition=10.0))
    Y = data.draw(spd_matrices(st.sampled_from([0, 1, 9]), sizes, condition=10.0))
    gamma = data.draw(st.sampled_from([0.5, 3.0]))
    function = KERNELS[kernel]
    K = function(X, Y, gamma=gamma)
    expected = [[definition(kernel, x, y, gamma) for y in Y] for x in X]
    np.testing.assert_allclose(K, np.reshape(expected, K.shape), rtol=1e-5, atol=1e-9)
    K = function(X, gamma=gamma)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diagonal(K), 1.0)


@each_kernel
def test_precision_and_arguments_of_kernels(rng, kernel):
    function = KERNELS[kernel]
    X = wishart(rng, 9, 4)
    K = function(X)
    assert function(X.astype(np.float32)).dtype == np.float32
    assert function(X.astype(np.float32), X).dtype == np.float64
    np.testing.assert_allclose(function(X.astype(np.float32)), K, rtol=1e-5)
    np.testing.assert_array_equal(function(X.reshape(9, 16)), K)
    for n_jobs in (1, 2, 7):
        np.testing.assert_array_equal(function(X, n_jobs=n_jobs), K)
    if kernel != "jbld":
        np.testing.assert_array_equal(function(X, gamma=0.1), K)  # 1 / 10 coordinates
    for gamma in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=r"gamma = .* is out of range"):
            function(X, gamma=gamma)
    with pytest.raises(TypeError, match="gamma = 'scale': must be a real number"):
        function(X, gamma="scale")
    with pytest.raises(ValueError, match="rows"):
        function(X, wishart(rng, 2, 3))
    with pytest.raises(ValueError, match=r"Y\[1\] is not positive definite"):
        function(X, np.stack([X[0], -X[0]]))


def spread(rng, n, p, size):
    Q = np.linalg.qr(rng.standard_normal((n, p, p)))[0]
    X = (Q * np.exp(size * rng.standard_normal((n, 1, p)))) @ Q.transpose(0, 2, 1)
    return (X + X.transpose(0, 2, 1)) / 2


def least_eigenvalue(K):
    return np.linalg.eigvalsh(K)[0]


def test_where_the_kernel_of_the_divergence_is_definite():
    """Sra's condition: between the values that it allows Gram matrices have eigenvalues below 0."""
    rng = np.random.default_rng(0)
    for p, size in ((2, 1.0), (3, 0.3), (5, 1.0)):
        X = spread(rng, 200, p, size)
        for gamma in (0.5, 1.0, 2.0, 2.3, 7.7):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert least_eigenvalue(jbld_kernel(X, gamma=gamma)) > -1e-11
        with pytest.warns(UserWarning, match=rf"gamma = 0.25: .*from {(p - 1) / 2:g} on; take 0.5"):
            assert least_eigenvalue(jbld_kernel(X, gamma=0.25)) < -1e-4
        assert least_eigenvalue(log_euclidean_kernel(X, gamma=0.01)) > -1e-11
    with pytest.warns(UserWarning, match="take 0.5 or 1"):
        assert least_eigenvalue(jbld_kernel(spread(rng, 400, 3, 0.2), gamma=0.75)) < -1e-8
    assert least_eigenvalue(jbld_kernel(X[:, :1, :1], gamma=0.01)) > -1e-11


def classes(rng, n=80):
    y = np.arange(n) % 2
    A = rng.standard_normal((n, 4, 30))
    A[:, 1] *= 1 + y[:, None]
    return A @ A.transpose(0, 2, 1) / 30, y


# ---- bad pairs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("distances", [jbld_distances, airm_distances])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bad_matrices_have_no_distance(rng, distances, dtype):
    X = wishart(rng, 30, 4, dtype)
    good = distances(X)
    X[3] = 0.0
    X[17, 0, 0] = np.nan
    X[18, 0, 1] += 5.0
    X[29] = -X[29]
    bad = np.isin(np.arange(30), [3, 17, 18, 29])
    with pytest.raises(ValueError, match=r"X\[\d+"):
        distances(X)
    D = distances(X, on_error="nan")
    assert D.dtype == dtype
    np.testing.assert_array_equal(np.isnan(D), bad[:, None] | bad)
    np.testing.assert_array_equal(D[np.ix_(~bad, ~bad)], good[np.ix_(~bad, ~bad)])
    D = distances(X, X[:5], on_error="nan")
    np.testing.assert_array_equal(np.isnan(D), bad[:, None] | bad[:5])
    D = distances(X, X[::-1], paired=True, on_error="nan")
    np.testing.assert_array_equal(np.isnan(D), bad | bad[::-1])
    assert np.isnan(distances(0 * X, on_error="nan")).all()


def test_pairs_too_far_apart_have_no_distance():
    far = np.stack([np.eye(3), np.diag([1.0, 1e20, 1e-20]), 2 * np.eye(3)])
    with pytest.raises(ValueError, match="too far apart"):
        airm_distances(far)
    D = airm_distances(far, on_error="nan")
    np.testing.assert_array_equal(np.isnan(D), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    of_pairs = airm_distances(far, far[[0, 0, 0]], paired=True, on_error="nan")
    np.testing.assert_array_equal(np.isnan(of_pairs), [False, True, False])


# ---- what is given by mistake ------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        MDM(),
        TangentSpace(),
        Whitening(),
        CovarianceCompressor(1, random_state=0),
        SPDGPRegressor(optimizer=None),
    ],
)
def test_a_single_matrix_and_raw_signals_are_recognised(rng, model):
    X, y = classes(rng)
    model.fit(X, y)
    call = model.predict if hasattr(model, "predict") else model.transform
    with pytest.raises(ValueError, match=r"shape \(4, 4\), that of a single matrix: .* A\[None\]"):
        call(X[0])
    with pytest.raises(ValueError, match=r"Signals of shape .* become matrices by spd\.Covar"):
        call(rng.standard_normal((5, 4, 30)))
    assert len(call(X[:1])) == 1


# ---- what is refused ---------------------------------------------------------------------------

TWO, THREE = wishart(np.random.default_rng(0), 3, 2), wishart(np.random.default_rng(1), 60, 3)
HALVES = np.arange(60) % 2
FAR = np.stack([np.eye(3), np.diag([1.0, 1e20, 1e-20])])
SIGNALS = trials(np.random.default_rng(0))


class Epochs:
    """What MNE hands out."""

    def get_data(self):
        raise AssertionError


def with_value(table, place, value):
    table = table.copy()
    table[place] = value
    return table


REFUSED = [
    *[(message, partial(distances, X, **options)) for distances in (airm_distances, jbld_distances)
      for X, options, message in (
          (np.ones((2, 10)), {}, "X has 10 columns, which is not a square number"),
          (np.ones((2, 3, 4)), {}, r"X has shape \(2, 3, 4\): give square matrices"),
          (np.ones((2, 2, 2, 2)), {}, "give square matrices"),
          (np.ones((2, 0, 0)), {}, "at least one row"), (np.eye(2), {}, "X has 2 columns"),
          (TWO, {"Y": np.eye(3)[None]}, "rows of a matrix of Y is 3, expected 2"),
          ([[1.0, "a", "b", 1.0]], {}, r"X\[:, 1\] holds text .*such as 'a'"),
          (TWO * 1j, {}, "Complex data not supported"),
          ([np.eye(2), np.eye(3)], {}, r"X\[1\] has shape \(3, 3\), and X\[0\] \(2, 2\)"),
          (TWO, {"Y": [np.eye(2), np.eye(1)]}, r"Y\[1\] has shape \(1, 1\), and Y\[0\]"),
          (TWO, {"paired": True}, "give Y"), (TWO, {"n_jobs": 0}, "n_jobs == 0"),
          (TWO, {"Y": TWO[:2], "paired": True}, "number of matrices of Y is 2, expected 3"),
          (TWO, {"on_error": "warn"}, '"raise" or "nan"'),
          (TWO, {"Y": THREE, "on_error": "nan"}, "number of rows"),
          (TWO, {"Y": TWO[:2], "paired": True, "on_error": "nan"}, "number of matrices"),
          (TWO, {"paired": True, "on_error": "nan"}, "give Y"))],
    *[(r"floor = .* is out of range.*\(0, 1\]", partial(project_to_spd, TWO, floor=floor))
      for floor in (0.0, -1.0, 1.5, np.nan)],
    (r"X\[1\] has no positive eigenvalue", lambda: project_to_spd(with_value(TWO, 1, -TWO[1]))),
    (r"X\[1, 0, 1\] = NaN", lambda: project_to_spd(with_value(TWO, (1, 0, 1), np.nan))),
    *[(message, partial(covariance_descriptors, F, **options)) for F, options, message in (
          ([[[1.0, 2.0]]], {}, r"F\[0\] has 1 sample"), ([], {}, "no sets"),
          (np.ones((3, 2)), {}, r"a single set f is f\[None\]"), (3, {}, "not a sequence"),
          ([np.ones((3, 2)), np.ones((3, 4))], {}, r"F\[1\] has 4 features, but F\[0\] has 2"),
          ([np.ones((3, 2)), [[1.0, np.nan]] * 2], {}, r"F\[1\]\[0, 1\] = NaN"),
          (np.ones((1, 3, 2)), {"shrinkage": 1.5}, "shrinkage = 1.5 is not known"),
          (np.ones((1, 3, 2)), {"shrinkage": "lw"}, "shrinkage = 'lw' is not known"),
          (np.ones((5, 5, 2)), {"regions": [(0, 0, 6, 2)]}, r"regions\[0\] = \[0, 0, 6, 2\] is n"),
          (np.ones((5, 5, 2)), {"regions": [(0, 0, 1, 1)]}, "at least 2 pixels"),
          (np.ones((5, 5, 2)), {"regions": [(0.0, 0, 3, 2)]}, "whole numbers"),
          (np.ones((5, 5)), {"regions": [(0, 0, 3, 2)]}, "regions are of an image"),
          (np.full((5, 5, 1), np.inf), {"regions": [(0, 0, 3, 2)]}, r"F\[0, 0, 0\] = inf"),
          (np.ones((5, 5, 2)), {"regions": [(0, 0, 3, 2)], "shrinkage": "lwf"},
           "needs the samples of each set"))],
    ("reference has 2 rows, and the matrices of X have 3",
     lambda: TangentSpace(np.eye(2)).fit(THREE)),
    ("^reference is not positive definite", lambda: TangentSpace(-np.eye(3)).fit(THREE)),
    ("sample_weight", lambda: TangentSpace().fit(THREE, sample_weight=[1.0])),
    ("rows of 6 coordinates",
     lambda: TangentSpace().fit(THREE).inverse_transform(np.ones((2, 5)))),
    (r"X\[1\] is too far from the reference", lambda: TangentSpace().fit(THREE).transform(FAR)),
    (r"domain has shape \(2,\), expected \(60,\)", lambda: Whitening().fit(THREE, domain=[1, 2])),
    ("give domain",
     lambda: Whitening().fit(THREE, domain=["a", "b"] * 30).partial_fit(THREE[:3])),
    (r"domain\[0\] is NaN", lambda: Whitening().fit(THREE, domain=[np.nan, 0.0] * 30)),
    *[(r"X\[3, 2, 17\] = .*drop trial 3, or interpolate channel 2",
       partial(Covariances().fit_transform, with_value(SIGNALS, (3, 2, 17), value)))
      for value in (np.nan, np.inf, -np.inf)],
    *[(r"X\[2\] has values whose squares overflow",
       partial(Covariances().fit_transform, with_value(X, 2, size * X[2])))
      for X, size in ((SIGNALS, 1e200), (np.float32(SIGNALS), 1e25))],
    *[(message, partial(Covariances().fit, X)) for X, message in (
          (SIGNALS[0], r"shape \(n_trials, n_channels, n_times\); a single trial x is x\[None\]"),
          (np.ones((4, 50, 2, 2)), r"shape \(n_trials, n_channels, n_times\)\."),
          (np.ones((4, 3, 1)), "two times"), (sparse.eye_array(3), "Sparse data"),
          ([np.ones((3, 9)), np.ones((3, 8))], r"X\[1\] has shape \(3, 8\), and X\[0\] \(3, 9\)"),
          (Epochs(), r"give its signals, X\.get_data\(\)"))],
    ("X has 3 channels, but Covariances was fitted with 4",
     lambda: Covariances().fit(SIGNALS).transform(SIGNALS[:, :3])),
    ("no direction in which all matrices have variance",
     lambda: CommonRange().fit(Covariances("scm").fit_transform(
         trials(np.random.default_rng(0), 20, 8, 5)))),
    (r"X\[0, 0, 0\] = -1: the variance", lambda: CommonRange().fit(-np.eye(3)[None])),
    (r"shape \(n, 3, 3\)",
     lambda: CommonRange().fit(np.eye(3)[None]).inverse_transform(np.eye(2)[None])),
    ("y has 1 class", lambda: CSP().fit(THREE, np.zeros(60))),
    ("Complex data not supported", lambda: CSP().fit(THREE * 1j, HALVES)),
    (r"X\[7\] has a variance of -.* in filter 0",
     lambda: CSP().fit(THREE, HALVES).transform(with_value(THREE, 7, -THREE[7]))),
    (r"X\[3\] overflow",
     lambda: CSP(log=False).fit(1e-200 * THREE, HALVES).transform(
         with_value(THREE, 3, 1e200 * THREE[3]))),
    (r"X has 1 sample\(s\) that are clean, of 1", lambda: Potato().fit(THREE[:1])),
    ("raise threshold", lambda: Potato(threshold=0.01).fit(THREE)),
    ("equally far from their mean", lambda: Potato().fit(np.tile(np.eye(3), (5, 1, 1)))),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:X has .* times of .* channels")
@pytest.mark.parametrize(("message", "call"), REFUSED)
def test_what_is_bad_is_named(message, call):
    with pytest.raises((ValueError, TypeError), match="(?s)" + message):
        call()
