//! The kernel of all pairs of rows, in tiles of the lower triangle.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, s};
use pulp::{Simd, WithSimd};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::lower_triangle::{self, TILE};
use crate::memory;
use crate::simd::{AlignedVec, Elementary, dispatch};

/// What an entry of 1 is kept as.
pub(super) const LARGEST: f64 = u16::MAX as f64;
/// Rows whose inner products with those of a tile are computed at a time.
const COLUMNS: usize = 4 * TILE;
/// Length scales that a row may be from the mean.
const MOST: f64 = 100.0;

/// Rows less their mean, times `sqrt(3) / length`.
pub(super) struct Scaled {
    rows: Array2<f32>,
    /// Half of the squared norms.
    halves: Vec<f32>,
}

impl Scaled {
    #[allow(clippy::cast_possible_truncation)] // rounded
    pub(super) fn new(x: ArrayView2<'_, f64>, length: f64) -> Result<Self> {
        let n = x.nrows() as f64;
        let mut rows = memory::zero_matrix(x.dim())?;
        let mut halves = memory::with_capacity(x.nrows())?;
        let mut mean = memory::filled(0.0, x.ncols())?;
        for (row, x) in x.rows().into_iter().enumerate() {
            for (column, (mean, &value)) in mean.iter_mut().zip(x).enumerate() {
                if !value.is_finite() {
                    return Err(Error::NotFinite { name: "X", row, column, value });
                }
                *mean += value / n;
            }
        }
        let unit = 3.0_f64.sqrt() / length;
        for (row, (mut out, x)) in rows.rows_mut().into_iter().zip(x.rows()).enumerate() {
            let mut norm = 0.0;
            for ((out, &value), &mean) in out.iter_mut().zip(x).zip(&mean) {
                *out = ((value - mean) * unit) as f32;
                norm += f64::from(*out).powi(2);
            }
            if !norm.is_finite() || norm > 3.0 * MOST * MOST {
                return Err(Error::TooFarFromMean { row, most: MOST });
            }
            halves.push((0.5 * norm) as f32);
        }
        Ok(Self { rows, halves })
    }
}

/// The kernel of all pairs, in tiles.
pub(super) fn tiles_of(exec: &Executor, x: &Scaled) -> Result<AlignedVec<u16>> {
    let n = x.rows.nrows();
    let n_tiles = n.div_ceil(TILE);
    let mut tiles = AlignedVec::zeros(lower_triangle::len::<u16>(n)?)?;
    let mut of_rows = memory::with_capacity(n_tiles)?;
    let mut rest = &mut tiles[..];
    for i in 0..n_tiles {
        let (of_row, others) = rest.split_at_mut((i + 1) * TILE * TILE);
        of_rows.push((i, of_row));
        rest = others;
    }
    // The longest first, so that none is waited for at the end.
    of_rows.reverse();
    exec.for_chunks(&mut of_rows, 1, |_, of_rows| {
        of_rows.iter_mut().try_for_each(|(i, tiles)| keep(exec, x, *i, tiles))
    })?;
    Ok(tiles)
}

/// Keeps a row of tiles.
fn keep(exec: &Executor, x: &Scaled, i: usize, tiles: &mut [u16]) -> Result<()> {
    let n = x.rows.nrows();
    let rows = i * TILE..n.min((i + 1) * TILE);
    let left = x.rows.slice(s![rows.clone(), ..]);
    let mut products = memory::zero_matrix((rows.len(), COLUMNS))?;
    for (block, tiles) in tiles.chunks_mut(COLUMNS / TILE * TILE * TILE).enumerate() {
        exec.check()?;
        let others = block * COLUMNS..n.min((block + 1) * COLUMNS).min(rows.end);
        let right = x.rows.slice(s![others.clone(), ..]);
        let mut products = products.slice_mut(s![.., ..others.len()]);
        general_mat_mul(1.0, &left, &right.t(), 0.0, &mut products);
        let halves = &x.halves[others];
        for (products, (row, &half)) in
            products.rows().into_iter().zip(x.halves[rows.clone()].iter().enumerate())
        {
            let products = products.to_slice().ok_or(Error::Internal("products lie in rows"))?;
            for ((tile, products), halves) in tiles
                .chunks_exact_mut(TILE * TILE)
                .zip(products.chunks(TILE))
                .zip(halves.chunks(TILE))
            {
                let out = &mut tile[row * TILE..][..products.len()];
                dispatch(MakeEntries { products, half, halves, out });
            }
        }
    }
    Ok(())
}

/// Entries of the kernel, from inner products and half of the squared norms.
struct MakeEntries<'a> {
    products: &'a [f32],
    half: f32,
    halves: &'a [f32],
    out: &'a mut [u16],
}

impl WithSimd for MakeEntries<'_> {
    type Output = ();

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // the lowest bits are meant
    fn with_simd<S: Simd>(self, _: S) {
        let Self { products, half, halves, out } = self;
        for ((out, &product), &other) in out.iter_mut().zip(products).zip(halves) {
            let square = 2.0 * (half + other - product);
            let r = if square > 0.0 { square } else { 0.0 }.sqrt();
            let value = (1.0 + r) * (-r).exp_in_range();
            // Added to 2^23, numbers below are rounded to whole ones, which are the lowest bits.
            *out = (value * LARGEST as f32 + 8_388_608.0).to_bits() as u16;
        }
    }
}
