//! Every column sorted once, zeros left out.

use std::ops::Range;
use std::sync::OnceLock;

use crate::error::Result;
use crate::exec::{Executor, balanced_blocks};
use crate::intersection::coded_rows::CodedRows;
use crate::intersection::column::Column;
use crate::intersection::sort::Sorter;
use crate::matrix::{ColumnEntries, HistogramMatrix};
use crate::memory;
use crate::simd::Element;

/// A training set with every column in ascending order, zeros left out.
///
/// Sorting takes `O(N D log N)` once; afterwards `K V` costs one pass over the stored values.
/// Columns of zeros take no memory and no time.
#[derive(Debug, Clone)]
pub struct SortedColumns {
    n_rows: usize,
    n_columns: usize,
    /// The columns that are not empty,
    columns: Vec<Column>,
    /// and which of all they are, ascending.
    numbers: Vec<usize>,
    /// Columns of few values by rows, made for the first product.
    coded_rows: OnceLock<CodedRows>,
}

impl PartialEq for SortedColumns {
    fn eq(&self, other: &Self) -> bool {
        (self.n_rows, self.n_columns) == (other.n_rows, other.n_columns)
            && self.numbers == other.numbers
            && self.columns == other.columns
    }
}

/// Column blocks are the unit of parallel work and of summation; their number must not depend on
/// the number of threads, or results would.
const COLUMN_BLOCKS: usize = 8;

static EMPTY: Column = Column::Sorted { values: Vec::new(), rows: Vec::new() };

impl SortedColumns {
    /// Sorts the columns of `x`, in parallel.
    ///
    /// # Errors
    ///
    /// [`Error::Negative`](crate::Error::Negative) or
    /// [`Error::NotFinite`](crate::Error::NotFinite) at the first bad entry,
    /// [`Error::TooManyRows`](crate::Error::TooManyRows) above `u32::MAX` rows.
    pub fn new<T: Element>(exec: &Executor, x: &HistogramMatrix<'_, T>) -> Result<Self> {
        // The count of rows is known before any entry is read.
        let reader = x.by_columns(exec)?;
        x.check(exec, "X")?;
        let n_rows = x.n_rows();
        let stored = reader.stored()?;
        // Sixteen columns per block: neighbours share the cache lines of a row-major matrix.
        let blocks = exec.map_ranges(stored.len(), 16, |part| {
            let mut entries = ColumnEntries::default();
            let mut sorter = Sorter::default();
            stored[part]
                .iter()
                .map(|&d| {
                    exec.check()?;
                    reader.read(d, &mut entries)?;
                    Ok((d, Column::encode(sorter.sort(&entries)?, n_rows)?))
                })
                .collect::<Result<Vec<_>>>()
        })?;
        Self::from_columns(n_rows, x.n_columns(), blocks.into_iter().flatten())
    }

    /// Number of rows N.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Number of columns D.
    #[must_use]
    pub fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// Number of stored values a product passes over.
    #[must_use]
    pub fn n_stored(&self) -> usize {
        self.columns.iter().map(Column::n_stored).sum()
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(Column::n_bytes).sum();
        columns
            + size_of_val(&self.numbers[..])
            + self.coded_rows.get().map_or(0, CodedRows::n_bytes)
    }

    /// The largest value of every column; 0 for a column of zeros.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn maxima(&self) -> Result<Vec<f64>> {
        self.by_number(self.columns.iter().map(Column::largest), 0.0)
    }

    /// The columns that are not empty.
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns that are not empty, with their numbers, ascending.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.numbers.iter().copied().zip(&self.columns)
    }

    /// The numbers of the columns that are not empty, ascending.
    pub(crate) fn numbers(&self) -> &[usize] {
        &self.numbers
    }

    /// Any column.
    pub(crate) fn column(&self, d: usize) -> &Column {
        self.numbers.binary_search(&d).map_or(&EMPTY, |k| &self.columns[k])
    }

    /// The same without the columns that are empty.
    pub(crate) fn without_empty(&self) -> Result<Self> {
        Self::from_columns(
            self.n_rows,
            self.columns.len(),
            self.columns.iter().cloned().enumerate(),
        )
    }

    /// What was found for the columns that are not empty, for every column, and `other` for others.
    pub(crate) fn by_number(
        &self,
        found: impl IntoIterator<Item = f64>,
        other: f64,
    ) -> Result<Vec<f64>> {
        let mut all = memory::filled(other, self.n_columns)?;
        for (&d, value) in self.numbers.iter().zip(found) {
            all[d] = value;
        }
        Ok(all)
    }

    /// Numbered columns in ascending order, of which empty ones are left out.
    pub(crate) fn from_columns(
        n_rows: usize,
        n_columns: usize,
        numbered: impl Iterator<Item = (usize, Column)>,
    ) -> Result<Self> {
        let most = numbered.size_hint().1.unwrap_or(0);
        let (mut numbers, mut columns) =
            (memory::with_capacity(most)?, memory::with_capacity(most)?);
        for (d, column) in numbered.filter(|(_, column)| column.n_stored() > 0) {
            memory::push(&mut numbers, d)?;
            memory::push(&mut columns, column)?;
        }
        Ok(Self { n_rows, n_columns, columns, numbers, coded_rows: OnceLock::new() })
    }

    /// Columns of few values by rows.
    pub(crate) fn coded_rows(&self, exec: &Executor) -> Result<&CodedRows> {
        if let Some(rows) = self.coded_rows.get() {
            return Ok(rows);
        }
        let rows = CodedRows::new(exec, self.n_rows, &self.columns)?;
        Ok(self.coded_rows.get_or_init(|| rows))
    }

    /// Blocks of the columns that are not empty, of nearly equal work.
    pub(crate) fn blocks(&self) -> Vec<Range<usize>> {
        column_blocks(self.columns.iter())
    }
}

/// Blocks of consecutive columns of nearly equal work.
pub(crate) fn column_blocks<'a>(columns: impl Iterator<Item = &'a Column>) -> Vec<Range<usize>> {
    let weights: Vec<usize> = columns.map(|c| c.n_stored() + 1).collect();
    balanced_blocks(&weights, COLUMN_BLOCKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, array};

    fn entries(column: &Column) -> Vec<(u32, f64)> {
        let mut all = Vec::new();
        column.for_each(|row, value| all.push((row, value)));
        all.sort_by_key(|e| e.0);
        all
    }

    #[test]
    fn every_encoding_keeps_every_entry() {
        let exec = Executor::new(2).unwrap();
        let n = 400;
        let x = Array2::from_shape_fn((n, 4), |(i, d)| match d {
            0 => (i % 7) as f64,
            1 => (i as f64).sqrt(),
            2 if i % 50 == 0 => 2.0,
            _ => 0.0,
        });
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        assert!(matches!(columns.columns[0], Column::Coded { .. }));
        assert!(matches!(columns.columns[1], Column::Sorted { .. }));
        assert!(matches!(columns.columns[2], Column::Runs { .. }));
        for (d, column) in columns.columns.iter().enumerate() {
            let expected: Vec<_> = (0..).zip(x.column(d).to_vec()).filter(|e| e.1 > 0.0).collect();
            assert_eq!(entries(column), expected, "column {d}");
            let (values, counts) = column.distinct().unwrap();
            assert!(values.windows(2).all(|w| w[0] < w[1]));
            assert_eq!(counts.iter().sum::<usize>(), expected.len());
        }
    }

    #[test]
    fn empty_matrices_are_matrices() {
        let exec = Executor::new(1).unwrap();
        for shape in [(0, 0), (0, 3), (3, 0)] {
            let x = Array2::<f64>::zeros(shape);
            let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
            assert_eq!((columns.n_rows(), columns.n_columns()), shape);
        }
        let x = array![[0.0_f32, 2.0]];
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        assert_eq!(columns.maxima().unwrap(), vec![0.0, 2.0]);
    }
}
