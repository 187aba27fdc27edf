//! A symmetric matrix in square tiles of its lower triangle, row by row.

use std::ops::Range;

use crate::error::Result;
use crate::memory;

/// Rows and columns of a tile: one of 16-bit numbers fills a first-level cache.
pub(crate) const TILE: usize = 128;

/// Where a tile of the lower triangle is.
pub(crate) fn tile(i: usize, j: usize) -> Range<usize> {
    let at = (i * (i + 1) / 2 + j) * TILE * TILE;
    at..at + TILE * TILE
}

/// Numbers in the tiles of a matrix of so many rows.
pub(crate) fn len<T>(n_rows: usize) -> Result<usize> {
    let n = n_rows.div_ceil(TILE);
    let (half, other) = if n.is_multiple_of(2) { (n / 2, n + 1) } else { (n, n.div_ceil(2)) };
    memory::size::<T>(&[half, other, TILE, TILE])
}

/// The tiles of some rows of tiles, which lie from the start of `tiles` on, each with its row.
pub(crate) fn rows_of_tiles<E>(
    tiles: &mut [E],
    rows: Range<usize>,
) -> Result<Vec<(usize, &mut [E])>> {
    let mut found = memory::with_capacity(rows.len())?;
    let mut rest = tiles;
    for i in rows {
        // Side by side, each row with one more than that before.
        let (of_row, others) = rest.split_at_mut((i + 1) * TILE * TILE);
        found.push((i, of_row));
        rest = others;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_numbers_as_before_the_next_row_of_tiles() {
        for n_tiles in [0, 1, 2, 3, 8, 9] {
            assert_eq!(len::<u16>(n_tiles * TILE), Ok(tile(n_tiles, 0).start));
        }
        assert!(len::<u16>(usize::MAX).is_err() && len::<u16>(1 << 48).is_err());
    }
}
