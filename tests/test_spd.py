"""Covariance matrices: distances against their definitions, means, descriptors, projections."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from histrs.metrics import airm_distances, jbld_distances
from histrs.testing import spd_matrices
from histrs.testing._common import LAYOUTS, lay_out
from tests.helpers import run_python
from tests.oracles import spd as oracle

pytestmark = pytest.mark.simd_paths

DISTANCES = {"jbld": (jbld_distances, oracle.jbld), "airm": (airm_distances, oracle.airm)}
each_distance = pytest.mark.parametrize("metric", DISTANCES)

sizes = st.shared(st.integers(1, 9) | st.sampled_from([12, 13, 17]), key="p")
counts = st.sampled_from([0, 1, 2, 7, 8, 9, 17])
# So that X^-1 Y has eigenvalues which double precision resolves.
conditions = st.sampled_from([1.0, 10.0, 1e3])


def wishart(rng, n, p, dtype=np.float64):
    A = rng.standard_normal((n, p, p + 4))
    return (A @ A.transpose(0, 2, 1) / p).astype(dtype)


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
    in_turn = fast(X[:n], Y[:n], paired=True)
    assert in_turn.shape == (n,)
    atol = tolerance(D.dtype, X.shape[1])
    np.testing.assert_allclose(in_turn, np.diagonal(expected)[:n], rtol=1e-9, atol=atol)


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


@each_distance
@given(X=spd_matrices((1, 9), sizes, condition=conditions, scale="any"))
def test_neither_scale_nor_basis_matters(metric, X):
    fast, _ = DISTANCES[metric]
    D = fast(X)
    # Log-determinants are in the hundreds.
    np.testing.assert_allclose(fast(X * 2.0**-40), D, rtol=1e-12, atol=1e-11)
    reverse = np.ascontiguousarray(X[:, ::-1, ::-1])
    atol = tolerance(D.dtype, X.shape[1])
    np.testing.assert_allclose(fast(reverse), D, rtol=1e-9, atol=atol)
    # The inverse is an isometry.
    np.testing.assert_allclose(fast(symmetric(np.linalg.inv(X))), D, rtol=1e-9, atol=atol)


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
def test_the_root_of_jbld_and_airm_are_metrics(rng, metric):
    D = DISTANCES[metric][0](wishart(rng, 40, 4))
    D = np.sqrt(D) if metric == "jbld" else D
    assert np.all(D[:, None] <= D[:, :, None] + D[None] + 1e-12)


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


def test_pyriemann_agrees(rng):
    pyriemann = pytest.importorskip("pyriemann.utils.distance", reason="pyriemann is not installed")
    X, Y = wishart(rng, 9, 6), wishart(rng, 5, 6)
    expected = pyriemann.pairwise_distance(X, Y, metric="riemann")
    np.testing.assert_allclose(airm_distances(X, Y), expected, rtol=1e-10)
    expected = pyriemann.pairwise_distance(X, Y, metric="logdet")
    np.testing.assert_allclose(np.sqrt(jbld_distances(X, Y)), expected, rtol=1e-7)


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


@each_distance
def test_scalar_instructions_agree(rng, metric, tmp_path):
    fast, _ = DISTANCES[metric]
    X = wishart(rng, 20, 7)
    np.save(tmp_path / "X.npy", X)
    code = (
        "import json, sys, numpy as np; from histrs.metrics import " + metric + "_distances as f;"
        "print(json.dumps(f(np.load(sys.argv[1])).tolist()))"
    )
    scalar = run_python(code, str(tmp_path / "X.npy"), HISTRS_SIMD="scalar")
    np.testing.assert_allclose(fast(X), scalar, rtol=1e-10, atol=1e-13)


@each_distance
def test_no_matrices(metric):
    fast, _ = DISTANCES[metric]
    none, some = np.empty((0, 3, 3)), np.eye(3)[None]
    assert fast(none).shape == (0, 0)
    assert fast(none, some).shape == (0, 1)
    assert fast(some, none).shape == (1, 0)
    assert fast(none, none, paired=True).shape == (0,)


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
        "singular": (singular, r"\[9\] is not positive definite: pivot 1 .*shrink"),
    }


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


@each_distance
@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (np.ones((2, 10)), None, "X has 10 columns, which is not a square number"),
        (np.ones((2, 3, 4)), None, r"X has shape \(2, 3, 4\): give square matrices"),
        (np.ones((2, 2, 2, 2)), None, "give square matrices"),
        (np.ones((2, 0, 0)), None, "at least one row"),
        (np.eye(2)[None], np.eye(3)[None], "rows of a matrix of Y is 3, expected 2"),
        (np.eye(2), None, "X has 2 columns"),
        ([[1.0, "a", "b", 1.0]], None, "could not convert string to float"),
        (np.eye(2)[None] * 1j, None, "Complex data not supported"),
    ],
)
def test_bad_shapes_and_types(metric, X, Y, message):
    with pytest.raises(ValueError, match="(?s)" + message):
        DISTANCES[metric][0](X, Y)


@each_distance
def test_bad_pairs(rng, metric):
    fast, _ = DISTANCES[metric]
    X = wishart(rng, 3, 2)
    with pytest.raises(ValueError, match="give Y"):
        fast(X, paired=True)
    with pytest.raises(ValueError, match="number of matrices of Y is 2, expected 3"):
        fast(X, X[:2], paired=True)
    with pytest.raises(ValueError, match="n_jobs == 0"):
        fast(X, n_jobs=0)


def test_matrices_too_far_apart_are_named():
    X = np.stack([np.eye(2), np.diag([1.0, 1e-10])])
    Y = np.stack([np.eye(2), np.diag([1e-10, 1.0])])
    with pytest.raises(ValueError, match=r"X\[1\] and Y\[1\] are too far apart.*project_to_spd"):
        airm_distances(X, Y)
    with pytest.raises(ValueError, match=r"X\[1\] and Y\[1\]"):
        airm_distances(X, Y, paired=True)
    assert np.isfinite(jbld_distances(X, Y)).all()
