//! How often levels of two columns occur together.

use ndarray::{Array2, ArrayView1, s};

use super::LevelCodes;
use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;

/// Pairs of columns whose tables are in memory at once.
const PAIRS: usize = 64;

impl LevelCodes<'_> {
    /// Returns `H' W H`: for each two levels, the sum of the weights of the rows that are at both,
    /// which without weights is their number.
    ///
    /// A pair of columns is a pass over two bytes of each for every row, and an addition into a table of
    /// their levels, which stays in the cache up to about 256 levels each. A table is of one thread, so
    /// that sums have the same bits for any number of these.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] unless there is a weight for each row, [`Error::OutOfMemory`] where there is
    /// no room for a number for each pair of levels, [`Error::Interrupted`].
    pub fn co_occurrence(
        &self,
        exec: &Executor,
        weights: Option<ArrayView1<'_, f64>>,
    ) -> Result<Array2<f64>> {
        let weights = weights.map(|w| self.of_rows(w)).transpose()?;
        if u32::try_from(self.n_rows()).is_err() {
            return Err(Error::TooManyRows { found: self.n_rows(), limit: u32::MAX as usize });
        }
        let mut sums = memory::zero_matrix((self.n_levels(), self.n_levels()))?;
        let pairs: Vec<(usize, usize)> =
            (0..self.n_columns()).flat_map(|d| (0..=d).map(move |e| (d, e))).collect();
        for some in pairs.chunks(PAIRS) {
            let tables = exec.map_blocks(some.len(), |k| self.table(some[k], weights))?;
            for (&(d, e), table) in some.iter().zip(&tables) {
                let (rows, columns) = (self.levels_of(d), self.levels_of(e));
                sums.slice_mut(s![rows.clone(), columns.clone()]).assign(table);
                sums.slice_mut(s![columns, rows]).assign(&table.t());
            }
        }
        Ok(sums)
    }

    fn table(&self, (d, e): (usize, usize), weights: Option<&[f64]>) -> Result<Array2<f64>> {
        let shape = (self.levels_of(d).len(), self.levels_of(e).len());
        let codes = self.column(d).iter().zip(self.column(e));
        let cells = codes.map(|(&a, &b)| usize::from(a) * shape.1 + usize::from(b));
        let mut table = memory::zeros(shape)?;
        let sums: &mut [f64] = memory::flat_mut(&mut table)?;
        if let Some(weights) = weights {
            for (cell, weight) in cells.zip(weights) {
                sums[cell] += weight;
            }
            return Ok(table);
        }
        let mut counts = memory::filled(0_u32, sums.len())?;
        for cell in cells {
            counts[cell] += 1;
        }
        for (sum, &count) in sums.iter_mut().zip(&counts) {
            *sum = f64::from(count);
        }
        Ok(table)
    }
}
