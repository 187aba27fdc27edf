"""Strategies for non-negative matrices: histograms and counts, dense and CSR."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from numpy.typing import DTypeLike, NDArray

from histrs.testing._common import (
    DType,
    Layout,
    Size,
    check_scale,
    draw_bytes,
    draw_scale,
    floating,
    option,
)
from histrs.testing._drawing import (
    SCALES,
    SPREAD,
    Options,
    draw_container,
    draw_values,
    many_floats,
    options_of,
)

Format: TypeAlias = Literal["any", "dense", "csr", "csr_array", "csr_matrix"]
Normalize: TypeAlias = Literal["l1", "l2", "max"] | None

# Positive values within that factor of one, exact in single precision.
_VALUES: SearchStrategy[float] = st.one_of(
    st.integers(1, 16).map(float),
    st.sampled_from((0.5, 0.25, 1 / 1024, 1024.0)),
    st.floats(1 / 1024, 1024.0, width=32),
)


def histograms(
    n_rows: Size = (0, 33),
    n_columns: Size = (0, 33),
    *,
    dtype: DType = np.float64,
    format: Format = "dense",
    layout: Layout | SearchStrategy[Layout] = "any",
    canonical: bool | None = None,
    normalize: Normalize | SearchStrategy[Normalize] = None,
    density: float | SearchStrategy[float] | None = None,
    n_distinct: int | SearchStrategy[int] | None = None,
    scale: float | str | SearchStrategy[float | str] = 1.0,
    allow_zero_rows: bool = True,
    allow_zero_columns: bool = True,
    allow_subnormal: bool = False,
) -> SearchStrategy[Any]:
    """Strategy for matrices of non-negative floating-point features.

    Rows are samples, columns are bins. Ties, zeros, zero rows and columns, duplicated rows,
    constant columns, and rows and columns with a single entry are all common.

    Parameters
    ----------
    n_rows, n_columns : int, (int, int) or strategy of int, default=(0, 33)
        Number of rows and columns. A pair is an inclusive range, in which 0, 1 and the
        neighbours of 8, 16, 32, ... are drawn more often. Matrices with more than 1,089
        entries are filled from a drawn seed, and their entries shrink less well.
    dtype : dtype or strategy of dtypes, default=numpy.float64
        `float32` or `float64`.
    format : {"dense", "csr", "csr_array", "csr_matrix", "any"}, default="dense"
        "csr" is either of SciPy's two CSR classes; "any" is that or a NumPy array.
    layout : {"any", "C", "F", "sliced", "strided", "reversed", "readonly"} or strategy of them, \
default="any"
        Memory layout of a dense matrix. "sliced" leaves a gap after each row, "strided" one
        after each entry, "reversed" has negative strides, "readonly" is C-ordered and not
        writeable. CSR matrices take "readonly" only: their three parts are not
        writeable. Under "any" that happens to canonical ones alone, because SciPy repairs the
        others in place and fails.
    canonical : bool or None, default=None
        Whether the column indices of CSR matrices are sorted, without duplicates, and without
        stored zeros. False puts at least one of these flaws into every matrix with entries, None
        allows either. The matrix meant, `X.toarray()`, is exact either way.
    normalize : {"l1", "l2", "max"}, None or strategy of them, default=None
        Divide each row by its sum, its Euclidean norm or its maximum. Zero rows stay zero.
    density : float, strategy of float or None, default=None
        Expected fraction of non-zero entries. Given 1.0, no entry is zero. None draws sparse,
        half-full and full matrices.
    n_distinct : int, strategy of int or None, default=None
        The most distinct non-zero values, before normalisation and "mixed" scales; above 32 it
        counts as 32. None draws from one value for all entries to all entries distinct.
    scale : float, {"tiny", "huge", "any", "mixed"} or strategy of them, default=1.0
        Non-zero entries lie within a factor 1024 of it. "tiny" is 1e-300, or 1e-30 in single
        precision; "huge" is 1e30; "any" is one of these or ordinary; "mixed" draws one for each
        column. Rows are scaled before they are normalised.
    allow_zero_rows, allow_zero_columns : bool, default=True
        Whether a row, or a column, may be zero throughout.
    allow_subnormal : bool, default=False
        Whether some entries may be subnormal numbers. The other entries never are.

    Returns
    -------
    strategy of ndarray, csr_array or csr_matrix of shape (n_rows, n_columns)
        Strategy for matrices with finite entries of at least zero.

    Examples
    --------
    >>> from hypothesis import given, settings
    >>> from histrs.testing import histograms
    >>> X_strategy = histograms(
    ...     n_rows=(1, 17), n_columns=5, format="any", normalize="l1", allow_zero_rows=False
    ... )
    >>> @settings(max_examples=20, database=None)
    ... @given(X=X_strategy)
    ... def test_rows_sum_to_one(X):
    ...     assert X.shape[1] == 5
    ...     assert abs(X.sum(axis=1) - 1.0).max() < 1e-12
    >>> test_rows_sum_to_one()
    """
    options = options_of(
        n_rows,
        n_columns,
        option(dtype, floating),
        format,
        layout,
        canonical,
        density,
        n_distinct,
        allow_zero_rows,
        allow_zero_columns,
    )
    return _histograms(
        options,
        option(normalize, _check_normalize),
        option(scale, check_scale("tiny", "huge", "any", "mixed")),
        allow_subnormal,
    )


def _check_normalize(normalize: Normalize) -> Normalize:
    if normalize not in ("l1", "l2", "max", None):
        raise ValueError(f"normalize = {normalize!r}: must be one of 'l1', 'l2', 'max', None")
    return normalize


@st.composite
def _histograms(
    draw: st.DrawFn,
    options: Options,
    normalize: SearchStrategy[Normalize],
    scale: SearchStrategy[float | str],
    allow_subnormal: bool,
) -> Any:
    shape = (draw(options.n_rows), draw(options.n_columns))
    dtype = draw(options.dtype)
    info = np.finfo(dtype)
    matrix = draw_values(draw, options, shape, _VALUES, many_floats)
    extremes = SCALES[dtype.name]
    drawn_scale = draw(scale)
    if drawn_scale == "mixed":
        scales = np.array([1.0, extremes["tiny"], extremes["huge"]])
        matrix *= scales[draw_bytes(draw, shape[1]) % 3]
    else:
        matrix *= draw_scale(draw, st.just(drawn_scale), dtype, SCALES, SPREAD)
    norm = draw(normalize)
    if norm is not None and matrix.size > 0:
        largest = matrix.max(axis=1, keepdims=True)
        # By the maximum first: squares and sums of extreme values would overflow.
        relative = matrix / np.where(largest > 0, largest, 1.0)
        if norm == "l1":
            total = relative.sum(axis=1, keepdims=True)
        elif norm == "l2":
            total = np.sqrt(np.square(relative).sum(axis=1, keepdims=True))
        else:
            total = np.ones_like(largest)
        # What underflows becomes the smallest normal number: a zero would change the pattern.
        relative[(matrix > 0) & (relative < float(info.tiny))] = float(info.tiny)
        matrix = relative / np.where(total > 0, total, 1.0)
    # Within a factor of 1024, rounding to the dtype may still reach below its normal numbers.
    matrix[(matrix > 0) & (matrix < float(info.tiny))] = float(info.tiny)
    result = matrix.astype(dtype)
    if allow_subnormal and result.size > 0:
        cell = st.tuples(
            st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1), st.integers(1, 3)
        )
        for i, j, multiple in draw(st.lists(cell, max_size=3)):
            # Replacing a large entry would undo the normalisation.
            if norm is None or result[i, j] == 0:
                result[i, j] = multiple * info.smallest_subnormal
    return draw_container(draw, options, result)


def count_matrices(
    n_rows: Size = (0, 33),
    n_columns: Size = (0, 33),
    *,
    dtype: DType = np.int64,
    format: Format = "dense",
    layout: Layout | SearchStrategy[Layout] = "any",
    canonical: bool | None = None,
    max_count: int | None = None,
    density: float | SearchStrategy[float] | None = None,
    n_distinct: int | SearchStrategy[int] | None = None,
    allow_zero_rows: bool = True,
    allow_zero_columns: bool = True,
) -> SearchStrategy[Any]:
    """Strategy for matrices of counts: bags of words, block counts, contingency tables.

    Columns often hold few distinct values, or a single non-zero one.

    Parameters
    ----------
    n_rows, n_columns : int, (int, int) or strategy of int, default=(0, 33)
        Number of rows and columns; a pair is an inclusive range.
    dtype : dtype or strategy of dtypes, default=numpy.int64
        An integer dtype, or `float32` or `float64` for integers stored as floats.
    format : {"dense", "csr", "csr_array", "csr_matrix", "any"}, default="dense"
        As in `histograms`.
    layout : {"any", "C", "F", "sliced", "strided", "reversed", "readonly"} or strategy of them, \
default="any"
        As in `histograms`.
    canonical : bool or None, default=None
        As in `histograms`.
    max_count : int or None, default=None
        The largest count. None stands for 1,000, or the largest integer of the dtype if that is
        less.
    density : float, strategy of float or None, default=None
        As in `histograms`.
    n_distinct : int, strategy of int or None, default=None
        The most distinct non-zero counts; above 32 it counts as 32. None draws from one to as
        many as possible.
    allow_zero_rows, allow_zero_columns : bool, default=True
        Whether a row, or a column, may be zero throughout.

    Returns
    -------
    strategy of ndarray, csr_array or csr_matrix of shape (n_rows, n_columns)
        Strategy for matrices of integers between 0 and `max_count`.

    Examples
    --------
    >>> import numpy as np
    >>> from hypothesis import given, settings
    >>> from histrs.testing import count_matrices
    >>> @settings(max_examples=20, database=None)
    ... @given(X=count_matrices(dtype=np.uint8, max_count=9, format="any"))
    ... def test_counts_fit_a_digit(X):
    ...     assert X.dtype == np.uint8
    ...     assert X.sum() <= 9 * X.shape[0] * X.shape[1]
    >>> test_counts_fit_a_digit()
    """
    if max_count is not None and max_count < 1:
        raise ValueError(f"max_count = {max_count}: must be at least 1")

    def check_dtype(value: DTypeLike) -> np.dtype[Any]:
        resolved = np.dtype(value)
        if resolved.kind not in "iu":
            return floating(resolved)
        if max_count is not None and max_count > np.iinfo(resolved).max:
            raise ValueError(f"max_count = {max_count}: above the largest {resolved}")
        return resolved

    options = options_of(
        n_rows,
        n_columns,
        option(dtype, check_dtype),
        format,
        layout,
        canonical,
        density,
        n_distinct,
        allow_zero_rows,
        allow_zero_columns,
    )
    return _count_matrices(options, max_count)


@st.composite
def _count_matrices(draw: st.DrawFn, options: Options, max_count: int | None) -> Any:
    shape = (draw(options.n_rows), draw(options.n_columns))
    dtype = draw(options.dtype)
    if max_count is not None:
        largest = max_count
    else:
        largest = min(1000, np.iinfo(dtype).max) if dtype.kind in "iu" else 1000

    def many_counts(
        codes: NDArray[np.intp], cells: NDArray[np.intp], period: int
    ) -> NDArray[np.intp]:
        return 1 + (codes * period + cells) % largest

    counts = st.one_of(st.integers(1, min(largest, 8)), st.integers(1, largest)).map(float)
    matrix = draw_values(draw, options, shape, counts, many_counts)
    return draw_container(draw, options, matrix.astype(dtype))
