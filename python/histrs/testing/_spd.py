"""Strategy for stacks of symmetric positive definite matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray

from histrs.testing._common import (
    LAYOUTS,
    DType,
    Layout,
    Size,
    check_scale,
    draw_bytes,
    draw_scale,
    floating,
    lay_out,
    named,
    option,
    power_of_two,
    sizes,
)

# Determinants of small matrices should still be representable.
_SCALES = {"float32": {"tiny": 1e-12, "huge": 1e12}, "float64": {"tiny": 1e-100, "huge": 1e100}}


def spd_matrices(
    n: Size = (0, 17),
    p: Size = (1, 17),
    *,
    condition: float | SearchStrategy[float] | None = None,
    dtype: DType = np.float64,
    scale: float | str | SearchStrategy[float | str] = 1.0,
    layout: Layout | SearchStrategy[Layout] = "any",
) -> SearchStrategy[NDArray[Any]]:
    """Strategy for stacks of symmetric positive definite matrices.

    Each matrix is exactly symmetric. Its smallest eigenvalue is above the error bound of a
    floating-point Cholesky factorisation, which therefore succeeds in the dtype of the matrix.
    Diagonal matrices, multiples of the identity and repeated matrices are common.

    Parameters
    ----------
    n : int, (int, int) or strategy of int, default=(0, 17)
        Number of matrices; a pair is an inclusive range.
    p : int, (int, int) or strategy of int, default=(1, 17)
        Number of rows and columns of each matrix, at least 1.
    condition : float, strategy of float or None, default=None
        Ratio of the largest to the smallest eigenvalue, reached to within a quarter. Infinity
        stands for the largest ratio the proof allows, `0.4 / (p * (p + 1) * eps)`: the
        matrices are then singular as far as most computations can tell. None draws from 1 to
        infinity. Matrices with one row have ratio 1.
    dtype : dtype or strategy of dtypes, default=numpy.float64
        `float32` or `float64`.
    scale : float, {"tiny", "huge", "any"} or strategy of them, default=1.0
        Largest eigenvalue, within a factor 8. "tiny" and "huge" are 1e-100 and 1e100, or 1e-12
        and 1e12 in single precision; "any" is one of these or ordinary.
    layout : {"any", "C", "F", "sliced", "strided", "reversed", "readonly"} or strategy of them, \
default="any"
        Memory layout of the stack, as in `histograms`.

    Returns
    -------
    strategy of ndarray of shape (n, p, p)
        Strategy for stacks of symmetric positive definite matrices.

    References
    ----------
    .. [1] S. M. Rump, "Verification of positive definiteness", BIT Numerical Mathematics 46,
       433-452, 2006.
    .. [2] N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd edition,
       theorem 10.7, SIAM, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from hypothesis import given, settings
    >>> from histrs.testing import spd_matrices
    >>> @settings(max_examples=20, database=None)
    ... @given(X=spd_matrices(n=(1, 9), p=5, condition=1e6))
    ... def test_cholesky_succeeds(X):
    ...     assert np.array_equal(X, X.transpose(0, 2, 1))
    ...     np.linalg.cholesky(X)
    >>> test_cholesky_succeeds()
    """
    if condition is None:
        condition = st.sampled_from((1.0, 10.0, 1e3, 1e6, np.inf))
    return _spd_matrices(
        sizes("n", n),
        sizes("p", p),
        option(condition, _check_condition),
        option(dtype, floating),
        option(scale, check_scale("tiny", "huge", "any")),
        named("layout", layout, LAYOUTS),
    )


def _check_condition(condition: float) -> float:
    if not condition >= 1.0:
        raise ValueError(f"condition = {condition}: must be at least 1")
    return float(condition)


@st.composite
def _spd_matrices(
    draw: st.DrawFn,
    n_strategy: SearchStrategy[int],
    p_strategy: SearchStrategy[int],
    condition_strategy: SearchStrategy[float],
    dtype_strategy: SearchStrategy[np.dtype[Any]],
    scale_strategy: SearchStrategy[float | str],
    layout_strategy: SearchStrategy[str],
) -> NDArray[Any]:
    n, p = draw(n_strategy), draw(p_strategy)
    if p < 1:
        raise ValueError(f"p = {p}: a matrix has at least one row")
    dtype = draw(dtype_strategy)
    margin = 1.25 * p * (p + 1) * float(np.finfo(dtype).eps)
    condition = min(draw(condition_strategy), 0.5 / margin)
    spread = float(p * p / np.finfo(dtype).eps)
    scale = power_of_two(draw_scale(draw, scale_strategy, dtype, _SCALES, spread))

    position = np.arange(p) / max(p - 1, 1)
    spectrum = {
        "geometric": condition**-position,
        "one small": np.where(position == 1.0, 1.0 / condition, 1.0),
        "one large": np.where(position == 0.0, 1.0, 1.0 / condition),
    }[draw(st.sampled_from(("geometric", "one small", "one large")))]

    # Two reflections mix all coordinates, and a zero vector leaves them alone, so that a stack
    # shrinks to diagonal matrices.
    drawn = draw_bytes(draw, n * (2 * p + 1)).reshape(n, 2 * p + 1)
    vectors = np.where(drawn < 128, drawn, 128 - drawn).astype(np.float64)
    basis = np.broadcast_to(np.eye(p), (n, p, p))
    for vector in (vectors[:, 1 : p + 1], vectors[:, p + 1 :]):
        length2 = np.square(vector).sum(axis=1)
        factor = np.divide(2.0, length2, out=np.zeros(n), where=length2 > 0)
        reflected = np.einsum("nij,nj->ni", basis, vector)
        basis = basis - factor[:, None, None] * reflected[:, :, None] * vector[:, None, :]
    stack = np.einsum("nik,k,njk->nij", basis, spectrum, basis)
    stack = ((stack + stack.transpose(0, 2, 1)) / 2).astype(dtype)
    stack = _certify(stack, margin)

    # Powers of two from here on: they keep the symmetry and the proof.
    sizes_ = np.ldexp(1.0, drawn[:, 0] % 4).astype(dtype)
    stack = stack * sizes_[:, None, None] * dtype.type(scale)
    if n > 1 and draw(st.booleans()):
        which = st.integers(0, n - 1)
        stack[draw(which)] = stack[draw(which)]
    return lay_out(stack, draw(layout_strategy))


def _certify(stack: NDArray[Any], margin: float) -> NDArray[Any]:
    """Prove that each matrix is positive definite, raising the diagonal where it is not.

    If a Cholesky factorisation of A - c I runs to completion, the smallest eigenvalue of A is above
    c less the rounding error. c is twice the bound for this error.
    """
    identity = np.eye(stack.shape[-1])
    while True:
        try:
            np.linalg.cholesky(stack.astype(np.float64) - margin * identity)
        except np.linalg.LinAlgError:
            stack = (stack.astype(np.float64) + margin * identity).astype(stack.dtype)
        else:
            return stack
