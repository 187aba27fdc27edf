"""Strategies for non-negative matrices: histograms and counts, dense and CSR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

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
    sizes,
)

Format: TypeAlias = Literal["any", "dense", "csr", "csr_array", "csr_matrix"]
Normalize: TypeAlias = Literal["l1", "l2", "max"] | None

_FORMATS = {
    "any": ("dense", "csr_array", "csr_matrix"),
    "csr": ("csr_array", "csr_matrix"),
    "dense": ("dense",),
    "csr_array": ("csr_array",),
    "csr_matrix": ("csr_matrix",),
}
_FLAWS = ("unsorted", "duplicates", "explicit zeros")
_SCALES = {
    "float32": {"tiny": 1e-30, "huge": 1e30},
    "float64": {"tiny": 1e-300, "huge": 1e30},
}
_SPREAD = 1024.0  # drawn values lie within this factor of the scale
# Positive values within that factor of one, exact in single precision.
_VALUES: SearchStrategy[float] = st.one_of(
    st.integers(1, 16).map(float),
    st.sampled_from((0.5, 0.25, 1 / 1024, 1024.0)),
    st.floats(1 / 1024, 1024.0, width=32),
)
_MAX_POOL = 32  # values drawn one by one; more distinct values than this are computed


@dataclass(frozen=True)
class _Options:
    """The options that both strategies share, each as a strategy or as a plain flag."""

    n_rows: SearchStrategy[int]
    n_columns: SearchStrategy[int]
    dtype: SearchStrategy[np.dtype[Any]]
    formats: tuple[str, ...]
    layout: SearchStrategy[str]
    always_readonly: bool
    canonical: bool | None
    density: SearchStrategy[float] | None
    n_distinct: SearchStrategy[int] | None
    allow_zero_rows: bool
    allow_zero_columns: bool


def _options(
    n_rows: Size,
    n_columns: Size,
    dtype: SearchStrategy[np.dtype[Any]],
    format: str,
    layout: str | SearchStrategy[str],
    canonical: bool | None,
    density: float | SearchStrategy[float] | None,
    n_distinct: int | SearchStrategy[int] | None,
    allow_zero_rows: bool,
    allow_zero_columns: bool,
) -> _Options:
    if format not in _FORMATS:
        words = ", ".join(repr(word) for word in _FORMATS)
        raise ValueError(f"format = {format!r}: must be one of {words}")
    return _Options(
        n_rows=sizes("n_rows", n_rows),
        n_columns=sizes("n_columns", n_columns),
        dtype=dtype,
        formats=_FORMATS[format],
        layout=named("layout", layout, LAYOUTS),
        always_readonly=layout == "readonly",
        canonical=canonical,
        density=None if density is None else option(density, _check_density),
        n_distinct=None if n_distinct is None else option(n_distinct, _check_n_distinct),
        allow_zero_rows=allow_zero_rows,
        allow_zero_columns=allow_zero_columns,
    )


def _check_density(density: float) -> float:
    if not 0.0 <= density <= 1.0:
        raise ValueError(f"density = {density}: must be between 0 and 1")
    return float(density)


def _check_n_distinct(n_distinct: int) -> int:
    if n_distinct < 1:
        raise ValueError(f"n_distinct = {n_distinct}: must be at least 1")
    return int(n_distinct)


def _draw_values(
    draw: st.DrawFn,
    options: _Options,
    shape: tuple[int, int],
    values: SearchStrategy[float],
    many: Any,
) -> NDArray[np.float64]:
    """Draw the matrix before scaling: zeros, and values from a small pool or all distinct.

    `many` turns arrays of codes and of cell numbers below a period into distinct values.
    """
    n_cells = shape[0] * shape[1]
    density = draw(st.sampled_from((0.5, 0.1, 1.0)) if options.density is None else options.density)
    n_distinct = draw(
        st.sampled_from((1, 2, 3, 8, 0)) if options.n_distinct is None else options.n_distinct
    )
    n_zero_codes = round(256 * (1.0 - density))
    codes = draw_bytes(draw, n_cells) - n_zero_codes
    stored = codes >= 0
    if n_distinct > 0:
        size = min(n_distinct, _MAX_POOL)
        pool = np.array(draw(st.lists(values, min_size=1, max_size=size)), dtype=np.float64)
        matrix = np.where(stored, pool[codes % len(pool)], 0.0)
        filler = pool[0]
    else:
        # An odd multiplier permutes 0..2**k-1, so neighbouring cells get values far apart.
        period = 1 << n_cells.bit_length()
        spread = (np.arange(n_cells) * 7919) % period
        matrix = np.where(stored, many(np.maximum(codes, 0), spread, period), 0.0)
        filler = float(many(np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp), period)[0])
    matrix = matrix.reshape(shape)
    if n_cells > 0:
        # Asked for a full matrix, nobody wants zeros back.
        full = options.density is not None and density == 1.0
        _draw_structure(draw, options, matrix, full)
        if not options.allow_zero_rows:
            (rows,) = np.nonzero(~matrix.any(axis=1))
            matrix[rows, rows % shape[1]] = filler
        if not options.allow_zero_columns:
            (columns,) = np.nonzero(~matrix.any(axis=0))
            matrix[columns % shape[0], columns] = filler
    return matrix


def _draw_structure(
    draw: st.DrawFn, options: _Options, matrix: NDArray[np.float64], full: bool
) -> None:
    """Change the matrix in place at a few drawn positions, so that rare structure is common."""
    kinds = ["duplicate row", "constant column"]
    if not full:
        kinds += ["single-entry row", "single-entry column"]
        kinds += ["zero row"] if options.allow_zero_rows else []
        kinds += ["zero column"] if options.allow_zero_columns else []
    n_rows, n_columns = matrix.shape
    # Four bytes a change: as one choice they are drawn faster than tuples, and shrink to none.
    raw = draw(st.binary(max_size=15))
    for at in range(0, len(raw) - 3, 4):
        kind = kinds[raw[at] % len(kinds)]
        i, j, other = raw[at + 1] % n_rows, raw[at + 2] % n_columns, raw[at + 3] % n_rows
        entry = matrix[i, j]
        if kind == "duplicate row":
            matrix[other] = matrix[i]
        elif kind == "constant column":
            matrix[:, j] = entry
        elif kind == "zero row":
            matrix[i] = 0.0
        elif kind == "zero column":
            matrix[:, j] = 0.0
        elif kind == "single-entry row":
            matrix[i] = 0.0
            matrix[i, j] = entry
        else:
            matrix[:, j] = 0.0
            matrix[i, j] = entry


def _draw_container(draw: st.DrawFn, options: _Options, matrix: NDArray[Any]) -> Any:
    """Put the finished matrix into a drawn format and memory layout."""
    format_ = draw(st.sampled_from(options.formats))
    layout = draw(options.layout)
    if format_ == "dense":
        return lay_out(matrix, layout)
    if options.canonical is True:
        flaws: Sequence[str] = ()
    else:
        least = 0 if options.canonical is None else 1
        flaws = _possible(
            matrix, draw(st.lists(st.sampled_from(_FLAWS), min_size=least, unique=True))
        )
    container = sparse.csr_array if format_ == "csr_array" else sparse.csr_matrix
    rng = np.random.default_rng(draw(st.integers(0, 255)) if flaws else 0)
    result = _csr(matrix, container, flaws, rng)
    if draw(st.booleans()):
        # SciPy makes 64-bit indices for large matrices only; code must take both.
        result.indices = result.indices.astype(np.int64)
        result.indptr = result.indptr.astype(np.int64)
    # SciPy repairs flawed matrices in place, so on read-only ones even `X.sum()` fails.
    if layout == "readonly" and (options.always_readonly or not flaws):
        for part in (result.data, result.indices, result.indptr):
            part.flags.writeable = False
    return result


def _possible(matrix: NDArray[Any], flaws: Sequence[str]) -> Sequence[str]:
    """Keep the flaws there is room for, or take another one; only an empty matrix has none."""
    n_stored = np.count_nonzero(matrix)
    room = {
        "unsorted": np.count_nonzero(matrix, axis=1).max(initial=0) > 1,
        "duplicates": n_stored > 0,
        "explicit zeros": n_stored < matrix.size,
    }
    possible = [flaw for flaw in flaws if room[flaw]]
    return possible or [flaw for flaw in _FLAWS if flaws and room[flaw]][-1:]


def _csr(
    matrix: NDArray[Any], container: Any, flaws: Sequence[str], rng: np.random.Generator
) -> Any:
    """Build a CSR matrix that means `matrix` exactly, with flaws it has room for."""
    rows, columns = np.nonzero(matrix)
    data = matrix[rows, columns]
    if "duplicates" in flaws:
        # Two halves add up exactly, in any order.
        (split,) = np.nonzero(_some(len(data), rng))
        half = data[split] // 2 if matrix.dtype.kind in "iu" else data[split] / 2
        rest = data[split] - half
        data[split] = half
        rows = np.concatenate([rows, rows[split]])
        columns = np.concatenate([columns, columns[split]])
        data = np.concatenate([data, rest])
    if "explicit zeros" in flaws:
        empty_rows, empty_columns = np.nonzero(matrix == 0)
        kept = _some(len(empty_rows), rng)
        rows = np.concatenate([rows, empty_rows[kept]])
        columns = np.concatenate([columns, empty_columns[kept]])
        data = np.concatenate([data, np.zeros(int(kept.sum()), dtype=data.dtype)])
    order = np.lexsort((columns, rows))
    if "unsorted" in flaws:
        shuffled = np.lexsort((rng.random(len(rows)), rows))
        still_sorted = np.array_equal(columns[shuffled], columns[order])
        order = np.lexsort((-columns, rows)) if still_sorted else shuffled
    counts = np.bincount(rows, minlength=matrix.shape[0])
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return container((data[order], columns[order], indptr), shape=matrix.shape)


def _some(count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mark about a third of `count` positions, and at least one when there is one."""
    marked = rng.random(count) < 0.3
    if count > 0:
        marked[rng.integers(count)] = True
    return marked


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
        writeable. Of these, CSR matrices know "readonly" only: their three parts are not
        writeable. Under "any" that happens to canonical ones alone, because SciPy repairs the
        others in place and fails.
    canonical : bool or None, default=None
        Whether the column indices of CSR matrices are sorted, without duplicates, and without
        stored zeros. False asks for at least one of these flaws in every matrix with entries,
        None allows either. The matrix meant, `X.toarray()`, is exact either way.
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
    options = _options(
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


def _many_floats(
    codes: NDArray[np.intp], cells: NDArray[np.intp], period: int
) -> NDArray[np.float64]:
    """Distinct multiples of a power of two between 1 and 257, the first of them 1."""
    values: NDArray[np.float64] = codes + 1 + cells / period
    return values


@st.composite
def _histograms(
    draw: st.DrawFn,
    options: _Options,
    normalize: SearchStrategy[Normalize],
    scale: SearchStrategy[float | str],
    allow_subnormal: bool,
) -> Any:
    shape = (draw(options.n_rows), draw(options.n_columns))
    dtype = draw(options.dtype)
    info = np.finfo(dtype)
    matrix = _draw_values(draw, options, shape, _VALUES, _many_floats)
    extremes = _SCALES[dtype.name]
    drawn_scale = draw(scale)
    if drawn_scale == "mixed":
        scales = np.array([1.0, extremes["tiny"], extremes["huge"]])
        matrix *= scales[draw_bytes(draw, shape[1]) % 3]
    else:
        matrix *= draw_scale(draw, st.just(drawn_scale), dtype, _SCALES, _SPREAD)
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
    return _draw_container(draw, options, result)


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

    options = _options(
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
def _count_matrices(draw: st.DrawFn, options: _Options, max_count: int | None) -> Any:
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
    matrix = _draw_values(draw, options, shape, counts, many_counts)
    return _draw_container(draw, options, matrix.astype(dtype))
