//! What a factor leaves of the kernel of all pairs of rows, in tiles of the lower triangle.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, s};

use crate::distances::DistanceKernel;
use crate::distances::rows::Columns;
use crate::distances::tile::Tile;
use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::lower_triangle::{self, TILE};
use crate::memory;
use crate::simd::{AlignedVec, Elementary, Real, vectorized};

/// What an entry of 1 is kept as.
pub(super) const LARGEST: f64 = i16::MAX as f64;
/// Rows whose products with those of a tile are computed at a time.
const COLUMNS: usize = 4 * TILE;

/// Rows with a factor.
pub(super) struct Rest<'a, T> {
    kernel: &'a DistanceKernel,
    rows: Columns<T>,
    factor: Array2<T>,
    /// What an entry is multiplied by for each of its rows.
    units: Vec<T>,
}

impl<'a, T: Elementary + Real> Rest<'a, T> {
    /// `roots` are those of what is left of the variances of rows.
    pub(super) fn new(
        kernel: &'a DistanceKernel,
        rows: Columns<T>,
        factor: &Array2<f64>,
        roots: &[f64],
    ) -> Result<Self> {
        let unit = |&r: &f64| T::from_f64(if r > 0.0 { LARGEST.sqrt() / r } else { 0.0 });
        let factor = factor.mapv(T::from_f64);
        let units = memory::collected(roots.iter().map(unit))?;
        Ok(Self { kernel, rows, factor, units })
    }

    /// All entries over the roots of what is left of the variances of their rows, in tiles.
    pub(super) fn tiles(&self, exec: &Executor) -> Result<AlignedVec<i16>> {
        let n = self.rows.n_rows();
        let n_tiles = n.div_ceil(TILE);
        let mut tiles = AlignedVec::zeros(lower_triangle::len::<i16>(n)?)?;
        let mut of_rows = lower_triangle::rows_of_tiles(&mut tiles, 0..n_tiles)?;
        // The longest first, so that none is waited for at the end.
        of_rows.reverse();
        exec.for_chunks(&mut of_rows, 1, |_, of_rows| {
            of_rows.iter_mut().try_for_each(|(i, tiles)| self.keep(exec, *i, tiles))
        })?;
        Ok(tiles)
    }

    /// Keeps a row of tiles: a tile of columns stays in the cache while all rows meet it.
    fn keep(&self, exec: &Executor, i: usize, tiles: &mut [i16]) -> Result<()> {
        let Self { kernel, rows, factor, units } = self;
        let own = i * TILE..rows.n_rows().min((i + 1) * TILE);
        let of_own = own.clone().map(|i| rows.row(i)).collect::<Result<Vec<_>>>()?;
        let mut products = memory::zero_matrix((own.len(), COLUMNS))?;
        let mut values = [T::default(); TILE];
        for (j, of_tile) in tiles.chunks_exact_mut(TILE * TILE).enumerate() {
            exec.check()?;
            let first = j * TILE;
            if first.is_multiple_of(COLUMNS) && factor.ncols() > 0 {
                let others = first..own.end.min(first + COLUMNS);
                let mut products = products.slice_mut(s![.., ..others.len()]);
                let (left, right) =
                    (factor.slice(s![own.clone(), ..]), factor.slice(s![others, ..]));
                general_mat_mul(T::one(), &left, &right.t(), T::zero(), &mut products);
            }
            let block = first..own.end.min(first + TILE);
            let known = first % COLUMNS..first % COLUMNS + block.len();
            rows.meet(kernel, &of_own, &block, |r, distances| {
                let known = products.slice(s![r, known.clone()]);
                let known = known.to_slice().ok_or(Error::Internal("products lie in rows"))?;
                let (i, row) = (own.start + r, &of_own[r]);
                let tile =
                    Tile { kernel, row, norm: rows.norms[i], others: rows, block: block.clone() };
                let values = &mut values[..block.len()];
                tile.values_of(distances, values);
                let units = (units[i], &units[block.clone()]);
                round(values, known, units, &mut of_tile[r * TILE..][..TILE]);
                Ok(())
            })?;
        }
        Ok(())
    }
}

vectorized!(
    /// Rounds what is left of entries to whole multiples.
    fn round<T: Elementary>(values: &[T], known: &[T], units: (T, &[T]), out: &mut [i16]) {
        const MOST: f32 = LARGEST as f32;
        let entries = values.iter().zip(known).zip(units.1);
        for (out, ((&value, &known), &unit)) in out.iter_mut().zip(entries) {
            let left = ((value - known) * units.0 * unit).to_f64() as f32;
            let left = if left < MOST { left } else { MOST };
            let left = if left > -MOST { left } else { -MOST };
            // Added to 1.5 * 2^23, numbers are rounded to whole ones, which are the lowest bits.
            *out = (left + 12_582_912.0).to_bits() as i16;
        }
    }
);
