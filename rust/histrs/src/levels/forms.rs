//! Quadratic forms of the indicators of each row.

use ndarray::{Array1, ArrayView2};

use super::LevelCodes;
use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;

/// Rows of a block: their sums stay in the cache while pairs of columns pass.
const ROWS: usize = 4096;

impl LevelCodes<'_> {
    /// Returns the diagonal of `H Q H'`: for each row the sum of a symmetric `Q` over all pairs of its
    /// levels, as leverages are. Of `Q` the lower triangle is read, a look-up for each pair of columns.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] unless `Q` has a row and a column for each level, [`Error::NotInRows`] unless
    /// it is laid out row after row, [`Error::OutOfMemory`], [`Error::Interrupted`].
    pub fn forms(&self, exec: &Executor, q: ArrayView2<'_, f64>) -> Result<Array1<f64>> {
        let n = self.n_levels();
        for (what, found) in [("the rows of q", q.nrows()), ("the columns of q", q.ncols())] {
            self.check(what, found, n, "give one for each level of each column")?;
        }
        let q = q.to_slice().ok_or(Error::NotInRows { name: "q" })?;
        let mut forms = memory::zeros(self.n_rows())?;
        exec.for_chunks(memory::flat_mut(&mut forms)?, ROWS, |block, sums| {
            let rows = block * ROWS..block * ROWS + sums.len();
            for d in 0..self.n_columns() {
                let (of_d, first) = (&self.column(d)[rows.clone()], self.levels_of(d).start);
                for e in 0..=d {
                    let of_e = &self.column(e)[rows.clone()];
                    let (second, times) = (self.levels_of(e).start, if e < d { 2.0 } else { 1.0 });
                    for ((sum, &a), &b) in sums.iter_mut().zip(of_d).zip(of_e) {
                        let at = (first + usize::from(a)) * n + second + usize::from(b);
                        *sum += times * q[at];
                    }
                }
            }
            Ok(())
        })?;
        Ok(forms)
    }
}
