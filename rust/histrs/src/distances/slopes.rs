//! Sums of slopes of the kernel matrix by the logarithms of its parameters.

use std::ops::Range;

use ndarray::{ArrayView2, s};

use super::blocks::BLOCK;
use super::rows::Columns;
use super::tile::Tile;
use super::{DistanceKernel, Norm};
use crate::error::{Result, check_length};
use crate::exec::Executor;
use crate::memory;

/// Rows whose sums are added up at a time.
const ROWS: usize = 32;

/// `sum_ij G_ij dK_ij / dlog(p)` for every parameter `p` of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Slopes {
    /// By the weights of columns.
    pub weights: Vec<f64>,
    /// By the amplitudes of shapes, of the Brownian motion, and by the constant.
    pub amplitudes: Vec<f64>,
}

impl DistanceKernel {
    /// Returns sums of the slopes of the kernel matrix of `x` by logarithms, weighted by the lower
    /// triangle of a symmetric `g`.
    ///
    /// Half of the pairs are met, each of which takes about six operations a column and twenty a shape.
    ///
    /// # Errors
    ///
    /// As [`DistanceKernel::gram`], and [`Error::Shape`](crate::Error::Shape) unless `g` has a row
    /// and a column for each row.
    pub fn slopes(
        &self,
        exec: &Executor,
        x: ArrayView2<'_, f64>,
        g: ArrayView2<'_, f64>,
    ) -> Result<Slopes> {
        let rows = Columns::<f64>::new(self, x, "X")?;
        let n = rows.n_rows();
        let cure = "give one for each row of X";
        check_length("the number of rows of G", g.nrows(), n, cure)?;
        check_length("the number of columns of G", g.ncols(), n, cure)?;
        let parts = exec.map_ranges(n, ROWS, |some| {
            let mut part = self.zeros(n)?;
            self.add_rows(&rows, some, g, &mut part)?;
            Ok(part)
        })?;
        let mut total = self.zeros(n)?;
        for part in &parts {
            total.add(part);
        }
        self.add_norms(&rows, &mut total);
        let Part { weights, amplitudes, .. } = total;
        Ok(Slopes { weights, amplitudes })
    }

    fn zeros(&self, n: usize) -> Result<Part> {
        Ok(Part {
            weights: memory::filled(0.0, self.weights.len())?,
            amplitudes: memory::filled(0.0, self.amplitudes.len())?,
            of_rows: memory::filled(0.0, if self.energy() > 0.0 { n } else { 0 })?,
        })
    }

    /// Adds a few rows of the lower triangle.
    fn add_rows(
        &self,
        rows: &Columns<f64>,
        some: Range<usize>,
        g: ArrayView2<'_, f64>,
        part: &mut Part,
    ) -> Result<()> {
        let own = some.clone().map(|i| rows.row(i)).collect::<Result<Vec<_>>>()?;
        let (mut slopes, mut twice) = ([0.0; BLOCK], [0.0; BLOCK]);
        for first in (0..some.end).step_by(BLOCK) {
            let block = first..(first + BLOCK).min(some.end);
            rows.meet(self, &own, &block, |r, distances| {
                let i = some.start + r;
                let block = first..(first + BLOCK).min(i + 1);
                let n = block.len();
                let (slopes, twice) = (&mut slopes[..n], &mut twice[..n]);
                for ((j, twice), g) in
                    block.clone().zip(twice.iter_mut()).zip(g.row(i).slice(s![block.clone()]))
                {
                    // Each pair stands for two entries.
                    *twice = if j < i { 2.0 * g } else { *g };
                    if !part.of_rows.is_empty() {
                        part.of_rows[j] += 0.5 * *twice;
                        part.of_rows[i] += 0.5 * *twice;
                    }
                }
                let tile =
                    Tile { kernel: self, row: &own[r], norm: rows.norms[i], others: rows, block };
                tile.slopes(&distances[..n], twice, slopes, &mut part.amplitudes);
                tile.add_columns(slopes, &mut part.weights)
            })?;
        }
        Ok(())
    }

    /// Adds what the norms of rows, which the Brownian motion has, change by.
    fn add_norms(&self, rows: &Columns<f64>, total: &mut Part) {
        for (i, of_row) in total.of_rows.iter().enumerate() {
            let times = self.energy() * of_row;
            for (d, (sum, &weight)) in total.weights.iter_mut().zip(&self.weights).enumerate() {
                let part = if d < self.n_numbers { rows.values[[d, i]].abs() } else { weight };
                *sum += match self.norm {
                    Norm::L1 => times * part,
                    Norm::L2 if rows.norms[i] > 0.0 => times * part * part / rows.norms[i],
                    Norm::L2 => 0.0,
                };
            }
        }
    }
}

/// What some rows add.
struct Part {
    weights: Vec<f64>,
    amplitudes: Vec<f64>,
    /// Halves of the sums of rows and columns of `G`; none where no norm is asked for.
    of_rows: Vec<f64>,
}

impl Part {
    fn add(&mut self, other: &Self) {
        for (own, others) in [
            (&mut self.weights, &other.weights),
            (&mut self.amplitudes, &other.amplitudes),
            (&mut self.of_rows, &other.of_rows),
        ] {
            own.iter_mut().zip(others).for_each(|(own, other)| *own += other);
        }
    }
}
