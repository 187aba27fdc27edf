//! Sums of minima, in tiles of the lower triangle.

use ndarray::{ArrayView2, Axis, s};
use pulp::bytemuck::Zeroable;

use crate::error::Result;
use crate::exec::Executor;
use crate::kernels::Intersection;
use crate::lower_triangle::{self, TILE, tile};
use crate::matrix::HistogramMatrix;
use crate::pairwise::pairwise;
use crate::simd::{AlignedVec, Element};

/// Rows whose sums are computed at a time, whole tiles.
const ROWS: usize = 4 * TILE;

/// Tiles of the lower triangle, row by row.
#[derive(Debug)]
pub(super) enum Tiles {
    Words(AlignedVec<u16>),
    Singles(AlignedVec<f32>),
}

/// How a sum is kept.
pub(super) trait Stored: Copy + Default + Zeroable + Send + Sync {
    /// What is kept of a sum that is not beyond the range.
    fn of(sum: f64) -> Self;

    fn sum(self) -> f64;
}

impl Stored for u16 {
    #[inline]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a whole number below 2^16
    fn of(sum: f64) -> Self {
        sum as Self
    }

    #[inline(always)]
    fn sum(self) -> f64 {
        f64::from(self)
    }
}

impl Stored for f32 {
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // rounded
    fn of(sum: f64) -> Self {
        sum as Self
    }

    #[inline(always)]
    fn sum(self) -> f64 {
        f64::from(self)
    }
}

/// Whether all entries are whole numbers.
pub(super) fn is_whole<T: Element>(exec: &Executor, x: &HistogramMatrix<'_, T>) -> Result<bool> {
    let whole = |value: &T| value.to_f64().fract() == 0.0;
    let blocks = exec.map_ranges(x.n_rows(), ROWS, |mut rows| {
        Ok(match x {
            HistogramMatrix::Dense(x) => rows.all(|row| x.row(row).iter().all(whole)),
            HistogramMatrix::Csr(x) => rows.all(|row| x.row(row).1.iter().all(whole)),
        })
    })?;
    Ok(blocks.into_iter().all(|whole| whole))
}

/// The sums of all pairs, in tiles.
pub(super) fn tiles_of<T: Element, E: Stored>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
) -> Result<AlignedVec<E>> {
    let n_rows = x.n_rows();
    let mut tiles = AlignedVec::<E>::zeros(lower_triangle::len::<E>(n_rows)?)?;
    for start in (0..n_rows).step_by(ROWS) {
        let rows = start..n_rows.min(start + ROWS);
        let (of_rows, of_before) = (x.indptr_of(rows.clone())?, x.indptr_of(0..rows.end)?);
        let before = x.rows(0..rows.end, &of_before);
        let sums = pairwise(exec, Intersection, &x.rows(rows.clone(), &of_rows), Some(&before))?;
        let (first, last) = (start / TILE, rows.end.div_ceil(TILE));
        let own = &mut tiles[tile(first, 0).start..];
        let mut of_rows = lower_triangle::rows_of_tiles(own, first..last)?;
        exec.for_chunks(&mut of_rows, 1, |_, of_rows| {
            for (i, tiles) in of_rows {
                let from = *i * TILE - start;
                keep(sums.slice(s![from..sums.nrows().min(from + TILE), ..]), tiles);
            }
            Ok(())
        })?;
    }
    Ok(tiles)
}

/// Keeps the sums of a row of tiles; those of rows that come later are in other tiles.
fn keep<T: Element, E: Stored>(sums: ArrayView2<'_, T>, tiles: &mut [E]) {
    for (tile, sums) in
        tiles.chunks_exact_mut(TILE * TILE).zip(sums.axis_chunks_iter(Axis(1), TILE))
    {
        for (out, sums) in tile.chunks_exact_mut(TILE).zip(sums.rows()) {
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = E::of(sum.to_f64()));
        }
    }
}
