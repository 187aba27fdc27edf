//! Products of the kernel between rows, which is not kept.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, s};

use super::DistanceKernel;
use super::blocks::BLOCK;
use super::rows::Columns;
use super::tile::Tile;
use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::memory;

/// Rows of a task, whose kernel with a block stays in the cache.
const ROWS: usize = 128;

impl DistanceKernel {
    /// Returns `K v`, where `K` is the kernel of rows of `x` with those of `y`.
    ///
    /// A pair takes as many operations as in [`gram`](Self::gram), and two for each column of `v`.
    /// Nothing of the kernel is written to memory.
    ///
    /// # Errors
    ///
    /// As [`DistanceKernel::gram`], and [`Error::Shape`] unless `v` has a row for each row of `y`.
    pub fn cross_product(
        &self,
        exec: &Executor,
        x: ArrayView2<'_, f64>,
        y: ArrayView2<'_, f64>,
        v: ArrayView2<'_, f64>,
    ) -> Result<Array2<f64>> {
        let rows = Columns::<f64>::new(self, x, "X")?;
        let others = Columns::<f64>::new(self, y, "Y")?;
        let (n, n_outputs) = v.dim();
        check_length("the number of rows of V", n, others.n_rows(), "give one for each row of Y")?;
        let mut product = memory::zero_matrix((rows.n_rows(), n_outputs))?;
        exec.for_chunks(memory::flat_mut(&mut product)?, ROWS * n_outputs, |task, out| {
            let first = task * ROWS;
            let n_own = out.len() / n_outputs;
            let own = (first..first + n_own).map(|i| rows.row(i)).collect::<Result<Vec<_>>>()?;
            let mut out = ArrayViewMut2::from_shape((n_own, n_outputs), out)
                .map_err(|_| Error::Internal("rows of a task lie in memory"))?;
            let mut kernel = memory::zero_matrix((n_own, BLOCK))?;
            for start in (0..n).step_by(BLOCK) {
                let block = start..n.min(start + BLOCK);
                others.meet(self, &own, &block, |r, distances| {
                    let (row, norm) = (&own[r], rows.norms[first + r]);
                    let tile =
                        Tile { kernel: self, row, norm, others: &others, block: block.clone() };
                    let mut values = kernel.slice_mut(s![r, ..block.len()]);
                    let values = values.as_slice_mut().ok_or(Error::Internal("rows lie in memory"));
                    tile.values_of(distances, values?);
                    Ok(())
                })?;
                let (kernel, v) = (kernel.slice(s![.., ..block.len()]), v.slice(s![block, ..]));
                general_mat_mul(1.0, &kernel, &v, 1.0, &mut out);
            }
            Ok(())
        })?;
        Ok(product)
    }
}
