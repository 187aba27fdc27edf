"""BLAS and LAPACK without SciPy's wrappers: against these, over sizes, sides and layouts."""

import sys
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg

from histrs._solvers import lapack

SIZES = [1, 2, 7, 64, 301]


def positive(rng, n):
    A = rng.normal(size=(n, n))
    return A @ A.T + n * np.eye(n)


def placed(A):
    """Return the matrix as part of a larger one, in Fortran order."""
    n, m = A.shape
    found = np.full((n + 3, m + 2), np.nan, order="F")[1 : n + 1, 1 : m + 1]
    found[...] = A
    return found


@pytest.mark.parametrize("lay_out", [np.asfortranarray, placed], ids=["whole", "part"])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n", SIZES)
def test_factors_solve_and_invert(rng, n, lower, lay_out):
    A, B = positive(rng, n), rng.normal(size=(n, 3))
    L = lay_out(A.copy())
    assert lapack.factorised(L, lower=lower)
    side, other = (np.tril, np.triu) if lower else (np.triu, np.tril)
    assert_allclose(side(L), linalg.cholesky(A, lower=lower), rtol=1e-12)
    # What is beyond the triangle stays.
    assert_array_equal(other(L) - np.diag(np.diag(L)), other(A) - np.diag(np.diag(A)))
    assert_allclose(lapack.solved(L, B, lower=lower), linalg.solve(A, B), rtol=1e-9, atol=1e-12)
    lapack.invert_factorised(L, lower=lower)
    assert_allclose(side(L), side(linalg.inv(A)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("lay_out", [np.asfortranarray, placed], ids=["whole", "part"])
@pytest.mark.parametrize("from_right", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n", SIZES)
def test_triangles_are_solved_for(rng, n, lower, transposed, from_right, lay_out):
    # What is on the other side of the triangle says nothing.
    L = lay_out(rng.normal(size=(n, n)) + 2.0 * n * np.eye(n))
    T = np.tril(L) if lower else np.triu(L)
    T = T.T if transposed else T
    B = rng.normal(size=(4, n) if from_right else (n, 4))
    X = lay_out(B.copy())
    how = {"lower": lower, "transposed": transposed, "from_right": from_right}
    lapack.solve_triangle(L, X, **how)
    assert_allclose(X @ T if from_right else T @ X, B, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n", SIZES)
def test_lower_triangles_are_inverted(rng, n):
    L = np.asfortranarray(np.tril(rng.normal(size=(n, n))) + 2.0 * n * np.eye(n))
    inverse = L.copy(order="F")
    lapack.invert_triangle(inverse)
    assert_allclose(np.tril(inverse) @ L, np.eye(n), atol=1e-12)


def test_what_has_no_factor_or_inverse_says_so():
    assert not lapack.factorised(np.asfortranarray([[1.0, 2.0], [2.0, 1.0]]), lower=True)
    with pytest.raises(np.linalg.LinAlgError, match="dtrtri failed: info = 2"):
        lapack.invert_triangle(np.asfortranarray([[1.0, 0.0], [3.0, 0.0]]))


@pytest.mark.parametrize("A", [np.eye(3)[:, ::-1], np.ones((3, 3)), np.eye(3, dtype=np.float32)])
def test_matrices_in_another_layout_or_precision_are_refused(A):
    if A.flags.f_contiguous:
        A = np.ascontiguousarray(A)
    with pytest.raises(TypeError, match="double precision in Fortran order"):
        lapack.factorised(A, lower=True)


def test_other_threads_run_beside_a_call():
    began, ended = threading.Event(), threading.Event()
    A = np.asfortranarray(np.diag(np.arange(1.0, 3001.0)))

    def work():
        began.set()
        lapack.factorised(A, lower=True)
        ended.set()

    # None takes the interpreter from a thread that does not leave it.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60.0)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        began.wait()
        assert not ended.is_set()
    finally:
        sys.setswitchinterval(interval)
    thread.join()
