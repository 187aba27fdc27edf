"""How matrices are drawn: options, values, structure, containers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from numpy.typing import NDArray
from scipy import sparse

from histrs.testing._common import LAYOUTS, Size, draw_bytes, lay_out, named, option, sizes

_FORMATS = {
    "any": ("dense", "csr_array", "csr_matrix"),
    "csr": ("csr_array", "csr_matrix"),
    "dense": ("dense",),
    "csr_array": ("csr_array",),
    "csr_matrix": ("csr_matrix",),
}
_FLAWS = ("unsorted", "duplicates", "explicit zeros")
SCALES = {"float32": {"tiny": 1e-30, "huge": 1e30}, "float64": {"tiny": 1e-300, "huge": 1e30}}
SPREAD = 1024.0  # drawn values lie within this factor of the scale
_MAX_POOL = 32  # values drawn one by one; more distinct values than this are computed


@dataclass(frozen=True)
class Options:
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


def options_of(
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
) -> Options:
    if format not in _FORMATS:
        words = ", ".join(repr(word) for word in _FORMATS)
        raise ValueError(f"format = {format!r}: must be one of {words}")
    return Options(
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


def draw_values(
    draw: st.DrawFn,
    options: Options,
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
    draw: st.DrawFn, options: Options, matrix: NDArray[np.float64], full: bool
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


def draw_container(draw: st.DrawFn, options: Options, matrix: NDArray[Any]) -> Any:
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


def many_floats(
    codes: NDArray[np.intp], cells: NDArray[np.intp], period: int
) -> NDArray[np.float64]:
    """Distinct multiples of a power of two between 1 and 257, the first of them 1."""
    values: NDArray[np.float64] = codes + 1 + cells / period
    return values
