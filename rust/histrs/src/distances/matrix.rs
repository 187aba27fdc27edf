//! The kernel between any rows.

use ndarray::{Array2, ArrayView2};

use super::DistanceKernel;
use super::blocks::BLOCK;
use super::rows::Columns;
use super::tile::Tile;
use crate::error::Result;
use crate::exec::Executor;
use crate::memory;

/// Rows of a task, which meet a block while that is in the cache.
const ROWS: usize = 32;

impl DistanceKernel {
    /// Returns the kernel of rows of `x` with those of `y`, or of `x`.
    ///
    /// A pair takes about three operations a column and fifteen a shape, and eight bytes are written.
    /// The matrix of `x` alone is symmetric to the last bit.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) unless there is a column for each weight,
    /// [`Error::NotFinite`](crate::Error::NotFinite) at the first bad entry, or one whose square
    /// overflows, [`Error::OutOfMemory`](crate::Error::OutOfMemory),
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn gram(
        &self,
        exec: &Executor,
        x: ArrayView2<'_, f64>,
        y: Option<ArrayView2<'_, f64>>,
    ) -> Result<Array2<f64>> {
        let rows = Columns::<f64>::new(self, x, "X")?;
        let of_y = y.map(|y| Columns::<f64>::new(self, y, "Y")).transpose()?;
        let others = of_y.as_ref().unwrap_or(&rows);
        let n = others.n_rows();
        let mut matrix = memory::zero_matrix((rows.n_rows(), n))?;
        exec.for_chunks(memory::flat_mut(&mut matrix)?, ROWS * n, |task, out| {
            let first = task * ROWS;
            let of_task = (first..first + out.len() / n).map(|i| rows.row(i));
            let of_task = of_task.collect::<Result<Vec<_>>>()?;
            for start in (0..n).step_by(BLOCK) {
                let block = start..n.min(start + BLOCK);
                others.meet(self, &of_task, &block, |r, distances| {
                    let norm = rows.norms[first + r];
                    let tile =
                        Tile { kernel: self, row: &of_task[r], norm, others, block: block.clone() };
                    tile.values_of(distances, &mut out[r * n..][block.clone()]);
                    Ok(())
                })?;
            }
            Ok(())
        })?;
        Ok(matrix)
    }
}
