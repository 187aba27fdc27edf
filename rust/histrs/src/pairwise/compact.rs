//! Sparse rows of many more columns than entries: the columns that nobody stores are left out.

use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::{CsrView, HistogramMatrix};
use crate::memory;
use crate::simd::Element;

/// Columns for each stored entry, above which renumbering them pays.
const WIDE: usize = 2;
/// Column numbers that are looked up at a time.
const PART: usize = 1 << 16;

/// Column numbers of two sparse matrices among those that either stores.
pub(super) struct Compact {
    of_x: Vec<i32>,
    of_y: Option<Vec<i32>>,
    n_columns: usize,
}

impl Compact {
    /// The numbers, where there are matrices and columns for which they pay.
    pub(super) fn new<T: Element>(
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
        y: Option<&HistogramMatrix<'_, T>>,
    ) -> Result<Option<Self>> {
        let (HistogramMatrix::Csr(x), None | Some(HistogramMatrix::Csr(_))) = (x, y) else {
            return Ok(None);
        };
        let of_y = match y {
            Some(HistogramMatrix::Csr(y)) => Some(y.indices()),
            _ => None,
        };
        let n_stored = x.n_stored() + of_y.map_or(0, <[i32]>::len);
        if x.n_columns() / WIDE <= n_stored {
            return Ok(None);
        }
        let mut stored = memory::with_capacity(n_stored)?;
        stored.extend_from_slice(x.indices());
        stored.extend_from_slice(of_y.unwrap_or_default());
        stored.sort_unstable();
        stored.dedup();
        let positions = |indices: &[i32]| -> Result<Vec<i32>> {
            let mut positions = memory::copied(indices)?;
            exec.for_chunks(&mut positions, PART, |_, positions| {
                for position in positions {
                    // Fewer than there are columns, whose numbers fit.
                    *position =
                        i32::try_from(stored.partition_point(|i| i < position)).unwrap_or(0);
                }
                Ok(())
            })?;
            Ok(positions)
        };
        let of_x = positions(x.indices())?;
        let of_y = of_y.map(positions).transpose()?;
        Ok(Some(Self { of_x, of_y, n_columns: stored.len() }))
    }

    /// The first matrix with these column numbers.
    pub(super) fn of_x<'a, T: Element>(&'a self, x: &CsrView<'a, T>) -> CsrView<'a, T> {
        x.renumbered(&self.of_x, self.n_columns)
    }

    /// The second one.
    pub(super) fn of_y<'a, T: Element>(&'a self, y: &CsrView<'a, T>) -> CsrView<'a, T> {
        y.renumbered(self.of_y.as_deref().unwrap_or_default(), self.n_columns)
    }
}
