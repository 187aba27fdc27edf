//! Sums of rows by level, and sums of tables by row.

use ndarray::{Array2, ArrayView2, s};

use super::LevelCodes;
use crate::error::Result;
use crate::exec::Executor;
use crate::memory;

/// Rows of a block.
const ROWS: usize = 1024;

impl LevelCodes<'_> {
    /// Returns `H' V`: for each level, the sum of the rows of `V` that are at it.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Shape`] unless `V` has a row for each row, [`crate::Error::OutOfMemory`],
    /// [`crate::Error::Interrupted`].
    pub fn sums(&self, exec: &Executor, v: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        self.check("the rows of v", v.nrows(), self.n_rows(), "give one for each row of codes")?;
        let tables = exec.map_blocks(self.n_columns(), |d| {
            let mut table = memory::zero_matrix((self.levels_of(d).len(), v.ncols()))?;
            for (&code, row) in self.column(d).iter().zip(v.rows()) {
                table.row_mut(usize::from(code)).zip_mut_with(&row, |sum, value| *sum += value);
            }
            Ok(table)
        })?;
        let mut sums = memory::zero_matrix((self.n_levels(), v.ncols()))?;
        for (d, table) in tables.iter().enumerate() {
            sums.slice_mut(s![self.levels_of(d), ..]).assign(table);
        }
        Ok(sums)
    }

    /// Returns `H T`: for each row, the sum of the rows of tables `T` that are its levels'.
    ///
    /// # Errors
    ///
    /// [`crate::Error::Shape`] unless `T` has a row for each level, [`crate::Error::OutOfMemory`],
    /// [`crate::Error::Interrupted`].
    pub fn scores(&self, exec: &Executor, tables: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        let n_outputs = tables.ncols();
        let cure = "give one for each level of each column";
        self.check("the rows of tables", tables.nrows(), self.n_levels(), cure)?;
        let mut scores = memory::zero_matrix((self.n_rows(), n_outputs))?;
        if n_outputs == 0 {
            return Ok(scores);
        }
        exec.for_chunks(memory::flat_mut(&mut scores)?, ROWS * n_outputs, |block, sums| {
            let first = block * ROWS;
            for d in 0..self.n_columns() {
                let codes = &self.column(d)[first..first + sums.len() / n_outputs];
                let table = tables.slice(s![self.levels_of(d), ..]);
                for (row, &code) in sums.chunks_exact_mut(n_outputs).zip(codes) {
                    for (sum, value) in row.iter_mut().zip(table.row(usize::from(code))) {
                        *sum += value;
                    }
                }
            }
            Ok(())
        })?;
        Ok(scores)
    }
}
