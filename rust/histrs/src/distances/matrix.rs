//! The kernel between any rows.

use ndarray::{Array2, ArrayView2};

use super::DistanceKernel;
use super::rows::Columns;
use super::tile::{BLOCK, Tile};
use crate::error::Result;
use crate::exec::Executor;
use crate::memory;

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
    pub fn matrix(
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
        exec.for_chunks(memory::flat_mut(&mut matrix)?, n, |i, out| {
            let row = rows.row(i)?;
            let mut distances = [0.0; BLOCK];
            for (k, out) in out.chunks_mut(BLOCK).enumerate() {
                let block = k * BLOCK..k * BLOCK + out.len();
                let tile = Tile { kernel: self, row: &row, norm: rows.norms[i], others, block };
                let distances = &mut distances[..out.len()];
                tile.distances(distances)?;
                tile.values_of(distances, out);
            }
            Ok(())
        })?;
        Ok(matrix)
    }
}
