//! Online updates: sorted columns are merged and thinned out, not sorted again.

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::intersection::column::Column;
use crate::intersection::column::MAX_CODES;
use crate::intersection::columns::SortedColumns;
use crate::matrix::{COLUMNS_OF_X, HistogramMatrix, check_columns, row_numbers};
use crate::memory;
use crate::simd::Element;

/// Entries of a column as they sort: the bits of a value, and its row.
type Pairs = Vec<(u64, u32)>;

/// Columns rebuilt with the same buffers.
const COLUMNS: usize = 16;

/// A row that is no more.
const REMOVED: u32 = u32::MAX;

impl SortedColumns {
    /// These rows and, behind them, those of `x`: what [`new`](Self::new) makes of all of them.
    ///
    /// Only the new rows are sorted; they are merged into the columns in one pass.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `x` has another number of columns, and as [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::{Executor, HistogramMatrix, intersection::SortedColumns};
    /// use ndarray::array;
    ///
    /// let exec = Executor::new(1)?;
    /// let sort = |x| SortedColumns::new(&exec, &HistogramMatrix::dense(x));
    /// let all = array![[1.0, 2.0], [3.0, 0.0], [2.0, 2.0]];
    /// let (old, new) = all.view().split_at(ndarray::Axis(0), 2);
    /// let grown = sort(old)?.insert(&exec, &HistogramMatrix::dense(new))?;
    /// assert_eq!(grown, sort(all.view())?);
    /// assert_eq!(grown.remove(&exec, &[2])?, sort(old)?);
    /// # Ok::<(), histrs::Error>(())
    /// ```
    pub fn insert<T: Element>(&self, exec: &Executor, x: &HistogramMatrix<'_, T>) -> Result<Self> {
        check_columns(COLUMNS_OF_X, x, self.n_columns())?;
        let n_rows = self.n_rows() + x.n_rows();
        let first = u32::try_from(self.n_rows()).ok().filter(|_| n_rows <= REMOVED as usize);
        let Some(first) = first else {
            return Err(Error::TooManyRows { found: n_rows, limit: REMOVED as usize });
        };
        let new = Self::new(exec, x)?;
        let mut numbers = memory::copied(self.numbers())?;
        memory::extend(&mut numbers, new.numbers().iter().copied())?;
        numbers.sort_unstable();
        numbers.dedup();
        self.rebuilt(exec, n_rows, &numbers, |d, old, spare, merged| {
            sorted_pairs(new.column(d), spare)?;
            spare.iter_mut().for_each(|pair| pair.1 += first);
            merge(old, spare, merged)
        })
    }

    /// The rows that are left without some, in their order and numbered anew.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] for a row number that is not there; naming a row twice does no harm.
    pub fn remove(&self, exec: &Executor, rows: &[i64]) -> Result<Self> {
        let mut number = memory::filled(0, self.n_rows())?;
        for row in row_numbers("rows", rows, self.n_rows())? {
            number[row] = REMOVED;
        }
        let mut n_rows = 0;
        for number in number.iter_mut().filter(|n| **n != REMOVED) {
            *number = n_rows;
            n_rows += 1;
        }
        self.rebuilt(exec, n_rows as usize, self.numbers(), |_, old, _, kept| {
            let renumbered = old.iter().map(|&(value, row)| (value, number[row as usize]));
            memory::reserve_growing(kept, old.len())?;
            kept.extend(renumbered.filter(|pair| pair.1 != REMOVED));
            Ok(())
        })
    }

    /// Encodes anew what `write` makes of the entries of some columns; all others are empty.
    /// `write` gets the number of the column, its entries, a buffer to use, and an empty one for
    /// the result.
    fn rebuilt(
        &self,
        exec: &Executor,
        n_rows: usize,
        numbers: &[usize],
        write: impl Fn(usize, &Pairs, &mut Pairs, &mut Pairs) -> Result<()> + Sync,
    ) -> Result<Self> {
        let blocks = exec.map_ranges(numbers.len(), COLUMNS, |part| {
            let (mut old, mut spare, mut pairs) = (Pairs::new(), Pairs::new(), Pairs::new());
            numbers[part]
                .iter()
                .map(|&d| {
                    exec.check()?;
                    sorted_pairs(self.column(d), &mut old)?;
                    pairs.clear();
                    write(d, &old, &mut spare, &mut pairs)?;
                    Ok((d, Column::encode(&pairs, n_rows)?))
                })
                .collect::<Result<Vec<_>>>()
        })?;
        Self::from_columns(n_rows, self.n_columns(), blocks.into_iter().flatten())
    }
}

/// Writes the entries of a column by ascending value, equal values by ascending row.
fn sorted_pairs(column: &Column, pairs: &mut Pairs) -> Result<()> {
    pairs.clear();
    memory::reserve_growing(pairs, column.n_stored())?;
    if let Column::Coded { values, codes } = column {
        // Counted by code, rows fall into place.
        let mut next = [0; MAX_CODES];
        codes.iter().for_each(|&code| next[usize::from(code)] += 1);
        let mut end = 0;
        for (code, next) in next.iter_mut().enumerate() {
            let count = if code == 0 { 0 } else { *next };
            *next = end;
            end += count;
        }
        pairs.resize(end, (0, 0));
        for (row, &code) in (0..).zip(codes).filter(|entry| *entry.1 > 0) {
            let slot = &mut next[usize::from(code)];
            pairs[*slot] = (values[usize::from(code)].to_bits(), row);
            *slot += 1;
        }
    } else {
        column.for_each(|row, value| pairs.push((value.to_bits(), row)));
    }
    Ok(())
}

/// Merges sorted entries; of equal values the old come first.
fn merge(old: &Pairs, new: &Pairs, merged: &mut Pairs) -> Result<()> {
    memory::reserve_growing(merged, old.len() + new.len())?;
    let mut rest = &old[..];
    for pair in new {
        let (below, above) = rest.split_at(rest.partition_point(|p| p.0 <= pair.0));
        merged.extend_from_slice(below);
        merged.push(*pair);
        rest = above;
    }
    merged.extend_from_slice(rest);
    Ok(())
}
