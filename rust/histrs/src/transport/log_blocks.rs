//! Logarithms of sums of exponentials of any range, by products with a kernel cut into blocks.
//!
//! The exponents of a row differ little within a block of columns. Measured from the least of them,
//! the kernel is in range there, and the sums of a block are a product. This takes one exponential
//! for each row and block, instead of one for each entry.

use crate::error::Result;
use crate::memory;
use crate::simd::{Elementary, vectorized};
use crate::transport::product::{Packed, padded};
use crate::transport::range::{DOUBLE_RANGE, least_sum, shift};

/// Fewest columns of a block of several: with fewer, exponentials of all entries are as fast.
const FEWEST: usize = 8;

/// `exp(-matrix)` in blocks of columns.
pub(super) struct Blocks {
    n_rows: usize,
    /// Columns of a block, but for the last one.
    width: usize,
    packed: Vec<Packed<f64>>,
    /// The least exponent of each row in each block, block after block.
    least: Vec<f64>,
}

/// Memory that is kept from one product to the next.
#[derive(Default)]
pub(super) struct BlockWork {
    weights: Vec<f64>,
    image: Vec<f64>,
    sums: Vec<f64>,
    /// Of each block, the largest value of each lane.
    largest: Vec<f64>,
    /// From where the sum of each row and lane is measured.
    origins: Vec<f64>,
}

impl Blocks {
    /// Cuts exponents, row by row, into as few blocks as hold them; none where these would be small.
    pub(super) fn new(n_rows: usize, n_columns: usize, matrix: &[f64]) -> Result<Option<Self>> {
        let mut width = n_columns;
        while !is_in_range(matrix, n_columns, width) {
            width = width.div_ceil(2);
            if width < FEWEST {
                return Ok(None);
            }
        }
        let (mut packed, mut least) = (Vec::new(), Vec::new());
        for start in (0..n_columns).step_by(width.max(1)) {
            let block = start..n_columns.min(start + width);
            let rows = matrix.chunks_exact(n_columns).map(|row| least_of(&row[block.clone()]));
            let own = memory::collected(rows)?;
            packed.push(Packed::new(n_rows, block.len(), |i, j| {
                (own[i] - matrix[i * n_columns + start + j]).exp()
            })?);
            least.extend(own);
        }
        Ok(Some(Self { n_rows, width, packed, least }))
    }

    /// `out = log sum_j exp(values_j - matrix_ij)` in every lane.
    pub(super) fn log_sums(
        &self,
        values: &[f64],
        out: &mut [f64],
        work: &mut BlockWork,
        stride: usize,
        width: usize,
    ) {
        let Self { n_rows, packed, least, .. } = self;
        let BlockWork { weights, image, sums, largest, origins } = work;
        weights.resize(values.len(), 0.0);
        image.resize(padded(*n_rows) * stride, 0.0);
        largest.resize(packed.len() * stride, 0.0);
        origins.resize(n_rows * stride, 0.0);
        let size = (self.width * stride).max(1);
        let values = values.chunks(size).zip(weights.chunks_mut(size));
        for ((values, weights), largest) in values.zip(largest.chunks_exact_mut(stride)) {
            shift(values, largest, weights, stride, width);
        }
        let out = &mut out[..n_rows * stride];
        if packed.len() > 1 {
            sums.clear();
            sums.resize(out.len(), 0.0);
        }
        find_origins(least, largest, origins, stride, width);
        for (k, (packed, weights)) in packed.iter().zip(weights.chunks(size)).enumerate() {
            packed.product(weights, image, stride, width);
            if self.packed.len() == 1 {
                break;
            }
            let least = &least[k * n_rows..][..*n_rows];
            let largest = &largest[k * stride..][..width];
            add_block(image, least, largest, origins, sums, stride, width);
        }
        let sums = if packed.len() > 1 { sums } else { image };
        finish(sums, origins, out, stride, width);
    }
}

fn least_of(exponents: &[f64]) -> f64 {
    exponents.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Whether the exponents of each row differ little within blocks of this width.
fn is_in_range(matrix: &[f64], n_columns: usize, width: usize) -> bool {
    let mut blocks = matrix.chunks_exact(n_columns.max(1)).flat_map(|row| row.chunks(width));
    blocks.all(|block| {
        let most = least_of(block) + DOUBLE_RANGE;
        block.iter().all(|&m| m <= most)
    })
}

vectorized!(
    /// `origins = max_block (largest - least)` of every row and lane.
    fn find_origins(
        least: &[f64],
        largest: &[f64],
        origins: &mut [f64],
        stride: usize,
        width: usize,
    ) {
        let n_rows = origins.len() / stride;
        origins.fill(f64::NEG_INFINITY);
        for (largest, least) in largest.chunks_exact(stride).zip(least.chunks_exact(n_rows.max(1)))
        {
            for (origins, least) in origins.chunks_exact_mut(stride).zip(least) {
                for (origin, largest) in origins[..width].iter_mut().zip(largest) {
                    let value = largest - least;
                    // NaN is kept.
                    *origin = if value <= *origin { *origin } else { value };
                }
            }
        }
    }
);

vectorized!(
    /// `sums += image exp(largest - least - origins)`.
    fn add_block(
        image: &[f64],
        least: &[f64],
        largest: &[f64],
        origins: &[f64],
        sums: &mut [f64],
        stride: usize,
        width: usize,
    ) {
        let rows = sums.chunks_exact_mut(stride).zip(origins.chunks_exact(stride));
        for (((sums, origins), image), least) in rows.zip(image.chunks_exact(stride)).zip(least) {
            let inputs = origins.iter().zip(&image[..width]).zip(largest);
            for (sum, ((origin, image), largest)) in sums.iter_mut().zip(inputs) {
                *sum += image * (largest - least - origin).exp_in_range();
            }
        }
    }
);

vectorized!(
    /// `out = log(sums) + origins`.
    fn finish(sums: &[f64], origins: &[f64], out: &mut [f64], stride: usize, width: usize) {
        let least = least_sum();
        let rows = out.chunks_exact_mut(stride).zip(origins.chunks_exact(stride));
        for ((out, origins), sums) in rows.zip(sums.chunks_exact(stride)) {
            let inputs = origins[..width].iter().zip(sums);
            for (out, (origin, &sum)) in out.iter_mut().zip(inputs) {
                let log = sum.ln_of_normal() + origin;
                *out = if sum >= least { log } else { f64::NAN };
            }
        }
    }
);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn sums_are_their_definition_in_as_many_blocks_as_it_takes() {
        for (reach, n_blocks) in [(300.0, Some(1)), (900.0, Some(4)), (1e6, None)] {
            let (n_rows, n_columns, stride, width) = (5, 40, 32, 16);
            // Of a line, whose last cells cost most.
            let exponent = |i: usize, j: usize| reach * (j as f64 - i as f64).abs() / 39.0;
            let matrix: Vec<f64> =
                (0..n_rows * n_columns).map(|k| exponent(k / n_columns, k % n_columns)).collect();
            let blocks = Blocks::new(n_rows, n_columns, &matrix).unwrap();
            assert_eq!(blocks.as_ref().map(|blocks| blocks.packed.len()), n_blocks);
            let Some(blocks) = blocks else { continue };
            let mut draws = Random(7);
            for size in [1.0, 1000.0] {
                let values: Vec<f64> =
                    (0..n_columns * stride).map(|_| size * (draws.unit() - 0.5)).collect();
                let mut out = vec![f64::NAN; n_rows * stride];
                blocks.log_sums(&values, &mut out, &mut BlockWork::default(), stride, width);
                for i in 0..n_rows {
                    for lane in 0..width {
                        let terms =
                            (0..n_columns).map(|j| values[j * stride + lane] - exponent(i, j));
                        let largest = terms.clone().fold(f64::NEG_INFINITY, f64::max);
                        let sum: f64 = terms.map(|term| (term - largest).exp()).sum();
                        let expected = largest + sum.ln();
                        let found = out[i * stride + lane];
                        assert!((found - expected).abs() < 1e-11, "{found} {expected}");
                    }
                }
            }
        }
    }
}
