//! Where the knots of each column are, in one list of those of all.

use std::ops::Range;

use crate::error::Result;
use crate::matrix::{are_few, place_of};
use crate::memory;

/// Columns that are empty share the knot at 0 that stands before all others.
#[derive(Debug, Clone)]
pub(crate) struct KnotRanges {
    n_columns: usize,
    /// The columns that are not empty, ascending, where they are few; all of them otherwise.
    numbers: Option<Vec<usize>>,
    /// Knots of the `k`-th of these columns are `offsets[k]..offsets[k + 1]`.
    offsets: Vec<usize>,
}

impl KnotRanges {
    /// Of columns that are not empty, ascending, each with its number of knots.
    pub(crate) fn new(
        n_columns: usize,
        held: impl ExactSizeIterator<Item = (usize, usize)>,
    ) -> Result<Self> {
        let few = are_few(held.len(), n_columns);
        let mut numbers = memory::with_capacity(if few { held.len() } else { 0 })?;
        let n_listed = if few { held.len() } else { n_columns };
        let mut offsets = memory::with_capacity(n_listed.saturating_add(1))?;
        let mut end = 1;
        offsets.push(end);
        for (d, n_knots) in held {
            if few {
                numbers.push(d);
            } else {
                offsets.resize(d + 1, end);
            }
            end += n_knots;
            offsets.push(end);
        }
        offsets.resize(n_listed + 1, end);
        Ok(Self { n_columns, numbers: few.then_some(numbers), offsets })
    }

    pub(crate) fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// The knots of a column, one at least.
    #[inline]
    pub(crate) fn of(&self, d: usize) -> Range<usize> {
        match place_of(self.numbers.as_deref(), d) {
            Ok(k) if self.offsets[k] < self.offsets[k + 1] => self.offsets[k]..self.offsets[k + 1],
            _ => 0..1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_without_knots_of_their_own_share_one() {
        for n_columns in [7, 100] {
            let ranges = KnotRanges::new(n_columns, [(1, 2), (4, 3)].into_iter()).unwrap();
            assert_eq!(ranges.n_columns(), n_columns);
            assert_eq!(ranges.numbers.is_some(), n_columns == 100);
            let found: Vec<_> = (0..7).map(|d| ranges.of(d)).collect();
            assert_eq!(found, [0..1, 1..3, 0..1, 0..1, 3..6, 0..1, 0..1]);
        }
    }
}
