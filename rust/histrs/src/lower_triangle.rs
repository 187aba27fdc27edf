//! A symmetric matrix in square tiles of its lower triangle, row by row.

use std::ops::Range;

/// Rows and columns of a tile: one of 16-bit numbers fills a first-level cache.
pub(crate) const TILE: usize = 128;

/// Where a tile of the lower triangle is.
pub(crate) fn tile(i: usize, j: usize) -> Range<usize> {
    let at = (i * (i + 1) / 2 + j) * TILE * TILE;
    at..at + TILE * TILE
}
