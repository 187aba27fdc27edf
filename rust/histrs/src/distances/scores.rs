//! The kernel of one row with others, times weights of these.

use ndarray::ArrayView2;

use super::blocks::BLOCK;
use super::rows::Columns;
use super::tile::Tile;
use super::{DistanceKernel, Norm};
use crate::error::Result;

/// `sum_i k(x, x_i) v_i` for any row `x`.
#[derive(Debug)]
pub(crate) struct DistanceScores {
    kernel: DistanceKernel,
    others: Columns<f64>,
    /// The weights of one row after those of another.
    weights: Vec<f64>,
}

impl DistanceScores {
    /// The scores of `weights`, whose number is a multiple of that of the rows.
    pub(crate) fn new(
        kernel: DistanceKernel,
        rows: ArrayView2<'_, f64>,
        weights: Vec<f64>,
    ) -> Result<Self> {
        let others = Columns::new(&kernel, rows, "rows")?;
        Ok(Self { kernel, others, weights })
    }

    /// Adds the scores of a row of finite numbers, which are multiplied by their weights.
    pub(crate) fn add(&self, row: &mut [f64], out: &mut [f64]) -> Result<()> {
        let mut norm = 0.0;
        for (d, (x, &weight)) in row.iter_mut().zip(&self.kernel.weights).enumerate() {
            let is_number = d < self.kernel.n_numbers;
            *x = if is_number { *x * weight } else { *x };
            let part = if is_number { x.abs() } else { weight };
            norm += if self.kernel.norm == Norm::L1 { part } else { part * part };
        }
        if self.kernel.norm == Norm::L2 {
            norm = norm.sqrt();
        }
        let (mut distances, mut values) = ([[0.0; BLOCK]], [0.0; BLOCK]);
        let n = self.others.n_rows();
        for start in (0..n).step_by(BLOCK) {
            let block = start..n.min(start + BLOCK);
            let weights = self.weights[start * out.len()..].chunks_exact(out.len().max(1));
            self.others.distances(&self.kernel, [row], &block, &mut distances)?;
            let (distances, values) = (&distances[0][..block.len()], &mut values[..block.len()]);
            let tile = Tile { kernel: &self.kernel, row, norm, others: &self.others, block };
            tile.values_of(distances, values);
            for (value, weights) in values.iter().zip(weights) {
                out.iter_mut().zip(weights).for_each(|(out, weight)| *out += value * weight);
            }
        }
        Ok(())
    }
}
