//! Products of the kernel between rows, which is not kept.

use ndarray::{Array2, ArrayView2};

use super::{DistanceKernel, DistanceScores};
use crate::error::Result;
use crate::exec::Executor;
use crate::memory;

impl DistanceKernel {
    /// Returns `K v`, where `K` is the kernel of rows of `x` with those of `y`.
    ///
    /// Functions of distances are read from a table. Nothing of the kernel is written to memory.
    ///
    /// # Errors
    ///
    /// As [`DistanceKernel::gram`], and [`Error::Shape`](crate::Error::Shape) unless `v` has a row for
    /// each row of `y`.
    pub fn cross_product(
        &self,
        exec: &Executor,
        x: ArrayView2<'_, f64>,
        y: ArrayView2<'_, f64>,
        v: ArrayView2<'_, f64>,
    ) -> Result<Array2<f64>> {
        let none = memory::zero_matrix((v.nrows(), 0))?;
        DistanceScores::new(self.clone(), y, v, none.view())?.evaluate(exec, x)
    }
}
