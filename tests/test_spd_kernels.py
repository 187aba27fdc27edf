"""Kernels between covariance matrices, and distances where some matrices are bad."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from histrs.metrics import (
    airm_distances,
    airm_kernel,
    jbld_distances,
    jbld_kernel,
    log_euclidean_kernel,
)
from histrs.prototypes import CovarianceCompressor
from histrs.spd import MDM, TangentSpace, Whitening
from histrs.testing import spd_matrices
from tests.helpers import wishart
from tests.oracles import spd as oracle

pytestmark = pytest.mark.simd_paths

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


@each_kernel
def test_kernels_in_machines(rng, kernel):
    X, y = classes(rng)
    K = KERNELS[kernel](X)
    assert cross_val_score(SVC(kernel="precomputed"), K, y).mean() > 0.9
    model = SVC(kernel=KERNELS[kernel]).fit(X.reshape(len(X), -1), y)
    assert model.score(X.reshape(len(X), -1), y) > 0.9
    target = np.log(np.linalg.det(X))
    ridge = KernelRidge(kernel="precomputed", alpha=1e-3)
    assert cross_val_score(ridge, K, target).mean() > 0.6


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


def test_other_errors_remain(rng):
    X = wishart(rng, 3, 4)
    with pytest.raises(ValueError, match='"raise" or "nan"'):
        jbld_distances(X, on_error="warn")
    with pytest.raises(ValueError, match="number of rows"):
        jbld_distances(X, wishart(rng, 3, 2), on_error="nan")
    with pytest.raises(ValueError, match="number of matrices"):
        jbld_distances(X, X[:2], paired=True, on_error="nan")
    with pytest.raises(ValueError, match="give Y"):
        jbld_distances(X, paired=True, on_error="nan")


# ---- what is given by mistake ------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", [MDM(), TangentSpace(), Whitening(), CovarianceCompressor(1, random_state=0)]
)
def test_a_single_matrix_and_raw_signals_are_recognised(rng, model):
    X, y = classes(rng)
    model.fit(X, y)
    call = model.predict if hasattr(model, "predict") else model.transform
    with pytest.raises(ValueError, match=r"shape \(4, 4\), that of a single matrix: .* A\[None\]"):
        call(X[0])
    with pytest.raises(ValueError, match=r"signals of shape .* become matrices by spd\.Covar"):
        call(rng.standard_normal((5, 4, 30)))
    assert len(call(X[:1])) == 1
