"""Rows to codes and back: what codebooks, a rotation and levels make of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from histrs import _histrs
from histrs._checks.scale import may_overflow
from histrs._checks.validation import to_core
from histrs._typing import Matrix
from histrs.metrics._registry import CodeMetricName
from histrs.quantization._metrics import METRICS, CodeMetric
from histrs.quantization._rotation import check_range, rotated

Codes = NDArray[np.uint8] | NDArray[np.uint16]

# Entries of rows that are made dense at a time.
_DENSE = 2**23


@dataclass(frozen=True)
class Blocks:
    """Blocks of columns, and the metric in which a codeword is near to a part of a row."""

    offsets: NDArray[np.int64]
    metric_name: CodeMetricName
    n_threads: int

    @property
    def metric(self) -> CodeMetric:
        """The metric by its name."""
        return METRICS[self.metric_name]

    @property
    def n_columns(self) -> int:
        """Columns of all blocks."""
        return int(self.offsets[-1])

    def edges(self) -> Iterator[tuple[int, int]]:
        """Return the first column of each block, and the one behind its last."""
        return pairwise(self.offsets.tolist())

    def nearest(self, rows: Matrix, codebooks: NDArray[Any]) -> Codes:
        """Return the nearest codewords of rows that need not be rotated."""
        with may_overflow():
            codebooks = codebooks.astype(rows.dtype, copy=False)
        if not np.isfinite(codebooks).all():
            raise ValueError(f"The codewords exceed the range of {rows.dtype}: give float64.")
        is_long = codebooks.shape[1] > 256
        return _histrs.quantization_encode(
            to_core(rows), codebooks, self.offsets, self.metric_name, is_long, self.n_threads
        )

    def decode(self, codes: Codes, codebooks: NDArray[Any]) -> NDArray[Any]:
        """Return the codewords of one level, side by side."""
        return _histrs.quantization_decode(
            codes, codebooks, self.offsets, self.n_columns, self.n_threads
        )


@dataclass(frozen=True)
class Coder:
    """Codebooks of blocks and levels, those of a block one after the other, and a rotation."""

    blocks: Blocks
    codebooks: NDArray[Any]
    rotation: NDArray[Any] | None
    n_levels: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The least that names every codeword."""
        return np.dtype(np.uint8 if self.codebooks.shape[1] <= 256 else np.uint16)

    @property
    def rows_at_a_time(self) -> int:
        """How many rows are made dense at a time."""
        return max(1, _DENSE // self.blocks.n_columns)

    @property
    def _is_of_rows(self) -> bool:
        return self.rotation is None and self.n_levels == 1

    def encode(self, rows: Matrix) -> Codes:
        """Return the codes of rows."""
        if self._is_of_rows:
            return self.blocks.nearest(rows, self.codebooks)
        n_threads = self.blocks.n_threads
        _histrs.check_finite(to_core(rows), n_threads)
        codes = np.empty((rows.shape[0], len(self.codebooks)), dtype=self.dtype)
        for start in range(0, rows.shape[0], step := self.rows_at_a_time):
            left_over = rotated(rows[start : start + step], self.rotation, n_threads, start)
            for level in range(self.n_levels):
                codebooks = self.codebooks[level :: self.n_levels]
                found = self.blocks.nearest(left_over, codebooks)
                codes[start : start + step, level :: self.n_levels] = found
                if level + 1 < self.n_levels:
                    with may_overflow():
                        left_over -= self.blocks.decode(found, codebooks)
                    check_range(left_over, start, "minus its codewords")
        return codes

    def decode(self, codes: Codes) -> NDArray[Any]:
        """Return the rows that codes stand for, not rotated back."""
        rows = self._of_level(codes, 0)
        for level in range(1, self.n_levels):
            rows += self._of_level(codes, level)
        return rows

    def _of_level(self, codes: Codes, level: int) -> NDArray[Any]:
        step = self.n_levels
        return self.blocks.decode(codes[:, level::step], self.codebooks[level::step])

    def residuals(self, rows: Matrix, codes: Codes) -> Iterator[Matrix]:
        """Yield what the codewords of each level stand for."""
        if self._is_of_rows:
            yield rows
            return
        left_over = rotated(rows, self.rotation, self.blocks.n_threads)
        for level in range(self.n_levels):
            yield left_over
            left_over -= self._of_level(codes, level)

    def checked(self, codes: Any) -> Codes:
        """Return codes in the dtype of `encode`, or raise an error that names a bad one."""
        codes = np.asarray(codes)
        n_blocks, n_codes, _ = self.codebooks.shape
        if codes.dtype.kind not in "iu":
            raise ValueError(f"codes have dtype {codes.dtype}: they must be integers.")
        if codes.ndim != 2 or codes.shape[1] != n_blocks:
            raise ValueError(
                f"codes have shape {codes.shape}: give a column for each of {n_blocks} blocks"
                f"{'' if self.n_levels == 1 else ' and levels'}; encode the rows with the "
                "quantizer whose codebooks are used."
            )
        if codes.dtype != self.dtype or n_codes <= np.iinfo(self.dtype).max:
            bad = (codes < 0) | (codes >= n_codes)
            if bad.any():
                row, column = np.argwhere(bad)[0]
                raise ValueError(
                    f"codes[{row}, {column}] = {codes[row, column]}: there are {n_codes} "
                    "codewords, numbered from 0; encode the rows with the quantizer whose "
                    "codebooks are used."
                )
        return codes.astype(self.dtype, copy=False)


def gathered(
    chunks: Iterable[Codes], width: int, dtype: np.dtype[Any], out: NDArray[Any] | None
) -> Codes:
    """Return the codes of all chunks, of shape (n_rows, width), in `out` where it is given.

    Raises ValueError if `out` has not their dtype and shape.
    """
    if out is None:
        return np.concatenate([np.empty((0, width), dtype), *chunks])
    if out.dtype != dtype or out.shape[1:] != (width,):
        raise ValueError(
            f"out has dtype {out.dtype} and shape {out.shape}: codes need {dtype} and "
            f"(n_samples, {width})."
        )
    n = 0
    for codes in chunks:
        if n + len(codes) > len(out):
            raise ValueError(f"out has {len(out)} rows, and the data have more: give as many.")
        out[n : n + len(codes)] = codes
        n += len(codes)
    if n < len(out):
        raise ValueError(f"out has {len(out)} rows, but the data {n}: give as many.")
    return out
