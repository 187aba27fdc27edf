//! The kernel of any rows with others, times weights of these.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView1, ArrayView2, Axis, s};

use super::blocks::{BLOCK, Way};
use super::curve::Curve;
use super::rows::Columns;
use super::{DistanceKernel, Norm};
use crate::error::{Result, check_length};
use crate::exec::Executor;
use crate::memory;
use crate::simd::{Vectors, vectorized};

/// The least part of the mean square of numbers that is variance, so that twice their products tell
/// how far rows are apart.
const CENTRED: f64 = 0.01;
/// Rows of a task, whose kernel with a block stays in the cache.
const ROWS: usize = 128;

/// `sum_i k(x, x_i) v_i` for any rows `x`: all that does not depend on these is made once.
#[derive(Debug)]
pub struct DistanceScores {
    kernel: DistanceKernel,
    others: Columns<f64>,
    way: Way,
    curve: Curve,
    /// A row for each column of weights.
    weights: Array2<f64>,
    /// Further weights, of which sums are in single precision within a block.
    singles: Array2<f32>,
}

impl DistanceScores {
    /// The scores of `weights`, and behind them those of `singles`, which are off by some 1e-7 of what
    /// terms are large.
    ///
    /// # Errors
    ///
    /// As [`DistanceKernel::gram`] for `rows`, and [`Error::Shape`](crate::Error::Shape) unless there is
    /// a row of both weights for each.
    pub fn new(
        kernel: DistanceKernel,
        rows: ArrayView2<'_, f64>,
        weights: ArrayView2<'_, f64>,
        singles: ArrayView2<'_, f32>,
    ) -> Result<Self> {
        let others = Columns::new(&kernel, rows, "Y")?;
        let cure = "give one for each row of Y";
        for n in [weights.nrows(), singles.nrows()] {
            check_length("the number of rows of V", n, others.n_rows(), cure)?;
        }
        let mut by_column = memory::zero_matrix((weights.ncols(), weights.nrows()))?;
        by_column.assign(&weights.t());
        let mut of_rows = memory::zero_matrix(singles.dim())?;
        of_rows.assign(&singles);
        let (way, curve) = (way(&kernel, &others), Curve::new(&kernel)?);
        Ok(Self { kernel, others, way, curve, weights: by_column, singles: of_rows })
    }

    /// How many scores a row has.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.weights.nrows() + self.singles.ncols()
    }

    /// Returns the scores of every row of `x`.
    ///
    /// A pair takes two operations a column, some twenty more, and two for each column of weights.
    ///
    /// # Errors
    ///
    /// As [`DistanceKernel::gram`].
    pub fn evaluate(&self, exec: &Executor, x: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        let rows = Columns::<f64>::new(&self.kernel, x, "X")?;
        let n_outputs = self.n_outputs();
        let mut scores = memory::zero_matrix((rows.n_rows(), n_outputs))?;
        exec.for_chunks(memory::flat_mut(&mut scores)?, ROWS * n_outputs, |task, out| {
            let some = task * ROWS..task * ROWS + out.len() / n_outputs;
            self.add(&rows, some, out)
        })?;
        Ok(scores)
    }

    /// Adds the scores of one row.
    pub(crate) fn add_row(&self, row: &[f64], out: &mut [f64]) -> Result<()> {
        let row = ArrayView1::from(row).insert_axis(Axis(0));
        self.add(&Columns::new(&self.kernel, row, "X")?, 0..1, out)
    }

    /// Adds the scores of some rows.
    fn add(&self, rows: &Columns<f64>, some: Range<usize>, out: &mut [f64]) -> Result<()> {
        let norms = &rows.norms[some.clone()];
        let rows = some.map(|i| rows.row(i)).collect::<Result<Vec<_>>>()?;
        let (n, n_outputs) = (self.others.n_rows(), self.n_outputs());
        let (n_weights, n_singles) = (self.weights.nrows(), self.singles.ncols());
        let half = 0.5 * self.kernel.energy();
        let (mut values, mut places) = ([0.0; BLOCK], [0; BLOCK]);
        let mut kernel = memory::zero_matrix((rows.len(), if n_singles > 0 { BLOCK } else { 0 }))?;
        let mut sums = memory::zero_matrix((rows.len(), n_singles))?;
        for start in (0..n).step_by(BLOCK) {
            let block = start..n.min(start + BLOCK);
            self.others.meet_sums(&self.kernel, self.way, &rows, &block, |r, apart| {
                let values = &mut values[..apart.len()];
                self.curve.values(&self.kernel, apart, &mut places, values);
                let of_row = self.kernel.constant() + half * norms[r];
                add_norms(half, of_row, &self.others.norms[block.clone()], values);
                let of_row = out[r * n_outputs..].iter_mut().zip(self.weights.rows());
                for (out, weights) in of_row {
                    *out += dot(values, &memory::flat(&weights)?[block.clone()]);
                }
                if n_singles > 0 {
                    round(values, &mut memory::flat_mut(&mut kernel.row_mut(r))?[..values.len()]);
                }
                Ok(())
            })?;
            if n_singles > 0 {
                let kernel = kernel.slice(s![.., ..block.len()]);
                general_mat_mul(1.0, &kernel, &self.singles.slice(s![block, ..]), 0.0, &mut sums);
                for (out, sums) in out.chunks_exact_mut(n_outputs).zip(sums.rows()) {
                    let pairs = out[n_weights..].iter_mut().zip(sums);
                    pairs.for_each(|(out, &sum)| *out += f64::from(sum));
                }
            }
        }
        Ok(())
    }
}

/// The quicker way to distances, unless roundings of it are large beside these.
fn way(kernel: &DistanceKernel, others: &Columns<f64>) -> Way {
    let n = others.n_rows() as f64;
    let total: f64 = others.totals.iter().sum();
    let columns = others.values.rows().into_iter().take(kernel.n_numbers);
    let of_means: f64 = columns.map(|column| column.sum().powi(2) / n).sum();
    // False, too, where squares are beyond all numbers.
    let is_centred = total - of_means >= CENTRED * total;
    if kernel.norm == Norm::L1 || is_centred { Way::Totals } else { Way::Differences }
}

vectorized!(
    /// Adds what rows have of the Brownian motion by themselves, and of the constant.
    fn add_norms(half: f64, of_row: f64, norms: &[f64], values: &mut [f64]) {
        values.iter_mut().zip(norms).for_each(|(value, &norm)| *value += of_row + half * norm);
    }
);

vectorized!(
    fn dot<S: Simd>(simd: S, a: &[f64], b: &[f64]) -> f64 {
        let (a, a_rest) = <f64 as Vectors>::vectors::<S>(a);
        let (b, b_rest) = <f64 as Vectors>::vectors::<S>(b);
        let mut sums = [<f64 as Vectors>::splat(simd, 0.0); 4];
        for (a, b) in a.chunks(4).zip(b.chunks(4)) {
            for ((sum, &a), &b) in sums.iter_mut().zip(a).zip(b) {
                *sum = <f64 as Vectors>::mul_add(simd, a, b, *sum);
            }
        }
        let of_vectors = sums.map(|sum| <f64 as Vectors>::reduce_sum(simd, sum));
        let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
        of_vectors.iter().sum::<f64>() + rest
    }
);

vectorized!(
    #[expect(clippy::cast_possible_truncation)] // as is asked for
    fn round(values: &[f64], out: &mut [f32]) {
        out.iter_mut().zip(values).for_each(|(out, &value)| *out = value as f32);
    }
);
