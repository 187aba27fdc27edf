//! The product of a tile and some right-hand sides, in single precision.

use ndarray::ArrayView2;
use pulp::{Simd, WithSimd};

use crate::error::Result;
use crate::lower_triangle::TILE;
use crate::memory;
use crate::simd::AlignedVec;

/// Right-hand sides side by side: those of a vector of the widest kind.
pub(super) const OUTPUTS: usize = 16;
/// Rows that are multiplied at a time.
const GROUP: usize = 8;

/// Right-hand sides in single precision, each over its largest magnitude: `OUTPUTS` of them side by
/// side, and zeros up to whole tiles.
pub(super) struct Panels {
    numbers: AlignedVec<f32>,
    scales: Vec<f64>,
    n_padded: usize,
}

impl Panels {
    #[allow(clippy::cast_possible_truncation)] // rounded
    pub(super) fn new(v: ArrayView2<'_, f64>) -> Result<Self> {
        let n_padded = v.nrows().next_multiple_of(TILE);
        let n_panels = v.ncols().div_ceil(OUTPUTS);
        let mut numbers = AlignedVec::zeros(n_panels * n_padded * OUTPUTS)?;
        let mut scales = memory::with_capacity(v.ncols())?;
        for (k, v) in v.columns().into_iter().enumerate() {
            let largest = v.iter().fold(0.0_f64, |largest, v| largest.max(v.abs()));
            let scale = if largest > 0.0 { largest } else { 1.0 };
            let panel = k / OUTPUTS * n_padded * OUTPUTS;
            for (row, &v) in v.iter().enumerate() {
                numbers[panel + row * OUTPUTS + k % OUTPUTS] = (v / scale) as f32;
            }
            scales.push(scale);
        }
        Ok(Self { numbers, scales, n_padded })
    }

    pub(super) fn n_panels(&self) -> usize {
        self.scales.len().div_ceil(OUTPUTS)
    }

    /// What a right-hand side was divided by.
    pub(super) fn scale(&self, k: usize) -> f64 {
        self.scales[k]
    }
}

/// Adds the product with a tile to that of the rows `i`, from numbers of the rows `j`.
pub(super) struct AddTile<'a> {
    pub(super) tile: &'a [u16],
    /// Whether the rows of the tile are the rows `j`.
    pub(super) turned: bool,
    pub(super) panels: &'a Panels,
    /// The first of the rows `j`.
    pub(super) first: usize,
    /// Of the rows `i`, panel after panel.
    pub(super) out: &'a mut [f64],
}

impl WithSimd for AddTile<'_> {
    type Output = ();

    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // counted loops are unrolled whatever the profile
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { tile, turned, panels, first, out } = self;
        let numbers = panels.numbers.chunks_exact((panels.n_padded * OUTPUTS).max(1));
        for (numbers, out) in numbers.zip(out.chunks_exact_mut(TILE * OUTPUTS)) {
            let numbers = &numbers[first * OUTPUTS..][..TILE * OUTPUTS];
            let mut sums = [0.0_f32; TILE * OUTPUTS];
            let mut entries = [[0.0_f32; TILE]; GROUP];
            for (group, tile) in tile.chunks_exact(GROUP * TILE).enumerate() {
                for k in 0..GROUP {
                    let tile = &tile[k * TILE..(k + 1) * TILE];
                    for j in 0..TILE {
                        entries[k][j] = f32::from(tile[j]);
                    }
                }
                let of_group = group * GROUP * OUTPUTS..(group + 1) * GROUP * OUTPUTS;
                if turned {
                    add_of_columns(simd, &entries, &numbers[of_group], &mut sums);
                } else {
                    add_of_rows(simd, &entries, numbers, &mut sums[of_group]);
                }
            }
            out.iter_mut().zip(&sums).for_each(|(out, &sum)| *out += f64::from(sum));
        }
    }
}

/// Adds the sums over the columns of some rows, to those of each row.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // counted loops are unrolled whatever the profile
fn add_of_rows<S: Simd>(simd: S, rows: &[[f32; TILE]; GROUP], numbers: &[f32], out: &mut [f32]) {
    let width = OUTPUTS / S::F32_LANES;
    let (out, numbers) = (S::as_mut_simd_f32s(out).0, S::as_simd_f32s(numbers).0);
    let (out, numbers) = (&mut out[..GROUP * width], &numbers[..TILE * width]);
    for part in 0..width {
        let mut sums = [simd.splat_f32s(0.0); GROUP];
        for j in 0..TILE {
            let v = numbers[j * width + part];
            for k in 0..GROUP {
                sums[k] = simd.mul_add_e_f32s(simd.splat_f32s(rows[k][j]), v, sums[k]);
            }
        }
        for k in 0..GROUP {
            out[k * width + part] = simd.add_f32s(out[k * width + part], sums[k]);
        }
    }
}

/// Adds the sums over some rows, to those of each column.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // as above
fn add_of_columns<S: Simd>(simd: S, rows: &[[f32; TILE]; GROUP], numbers: &[f32], out: &mut [f32]) {
    let width = OUTPUTS / S::F32_LANES;
    let (out, numbers) = (S::as_mut_simd_f32s(out).0, S::as_simd_f32s(numbers).0);
    let (out, numbers) = (&mut out[..TILE * width], &numbers[..GROUP * width]);
    for part in 0..width {
        let mut v = [simd.splat_f32s(0.0); GROUP];
        for k in 0..GROUP {
            v[k] = numbers[k * width + part];
        }
        for i in 0..TILE {
            let mut sum = out[i * width + part];
            for k in 0..GROUP {
                sum = simd.mul_add_e_f32s(simd.splat_f32s(rows[k][i]), v[k], sum);
            }
            out[i * width + part] = sum;
        }
    }
}
