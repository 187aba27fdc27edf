//! Matrices read by columns.

use std::ops::Range;

use ndarray::ArrayView2;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::matrix::csr::CsrView;
use crate::memory;
use crate::simd::Element;

impl<'a, T: Element> HistogramMatrix<'a, T> {
    /// Prepares the matrix for reading by columns; a CSR matrix is transposed once.
    pub(crate) fn by_columns(&self, exec: &Executor) -> Result<ColumnReader<'a, T>> {
        let limit = u32::MAX as usize;
        if self.n_rows() > limit {
            return Err(Error::TooManyRows { found: self.n_rows(), limit });
        }
        exec.check()?;
        Ok(match self {
            Self::Dense(x) => ColumnReader::Dense(*x),
            Self::Csr(x) => ColumnReader::Sparse(Transposed::new(x)?),
        })
    }
}

/// The non-zero entries of one column, by ascending row.
#[derive(Debug, Default)]
pub(crate) struct ColumnEntries {
    pub(crate) rows: Vec<u32>,
    pub(crate) values: Vec<f64>,
}

/// A matrix prepared for reading by columns.
#[derive(Debug)]
pub(crate) enum ColumnReader<'a, T> {
    Dense(ArrayView2<'a, T>),
    Sparse(Transposed<T>),
}

impl<T: Element> ColumnReader<'_, T> {
    /// The numbers of the columns that may have entries, ascending.
    pub(crate) fn stored(&self) -> Result<Vec<usize>> {
        match self {
            Self::Dense(x) => memory::collected(0..x.ncols()),
            Self::Sparse(x) => match &x.numbers {
                Some(numbers) => memory::copied(numbers),
                None => memory::collected(0..x.offsets.len() - 1),
            },
        }
    }

    /// Reads the non-zero entries of `column` into `entries`.
    #[allow(clippy::cast_possible_truncation)] // rows are checked by `by_columns`
    pub(crate) fn read(&self, column: usize, entries: &mut ColumnEntries) -> Result<()> {
        entries.rows.clear();
        entries.values.clear();
        let most = match self {
            Self::Dense(x) => x.nrows(),
            Self::Sparse(x) => x.range(column).len(),
        };
        memory::reserve(&mut entries.rows, most)?;
        memory::reserve(&mut entries.values, most)?;
        match self {
            Self::Dense(x) => {
                for (row, value) in x.column(column).iter().enumerate() {
                    let value = value.to_f64();
                    if value > 0.0 {
                        entries.rows.push(row as u32);
                        entries.values.push(value);
                    }
                }
            }
            Self::Sparse(x) => x.read(column, entries),
        }
        Ok(())
    }
}

/// A CSR matrix stored by columns.
#[derive(Debug)]
pub(crate) struct Transposed<T> {
    /// The columns with entries, ascending, where there are few of many; all of them otherwise.
    numbers: Option<Vec<usize>>,
    /// Entries of the `k`-th of these columns are `offsets[k]..offsets[k + 1]`.
    offsets: Vec<usize>,
    rows: Vec<u32>,
    values: Vec<T>,
}

/// Whether so many columns that have something are so few of all that the others are left out.
pub(crate) fn are_few(n_held: usize, n_columns: usize) -> bool {
    n_held < n_columns / 8
}

impl<T: Element> Transposed<T> {
    #[allow(clippy::cast_possible_truncation)] // rows are checked by `by_columns`
    fn new(x: &CsrView<'_, T>) -> Result<Self> {
        let column = |i: i32| i.unsigned_abs() as usize;
        let numbers = if are_few(x.n_stored(), x.n_columns()) {
            let mut numbers = memory::collected(x.indices().iter().map(|&i| column(i)))?;
            numbers.sort_unstable();
            numbers.dedup();
            Some(numbers)
        } else {
            None
        };
        let place = |i: i32| place_of(numbers.as_deref(), column(i)).unwrap_or_else(|next| next);
        let n_held = numbers.as_ref().map_or(x.n_columns(), Vec::len);
        let mut offsets = memory::filled(0, n_held + 1)?;
        for &i in x.indices() {
            offsets[place(i) + 1] += 1;
        }
        for k in 0..n_held {
            offsets[k + 1] += offsets[k];
        }
        let mut next = memory::copied(&offsets)?;
        let mut rows = memory::filled(0, x.n_stored())?;
        let mut values = memory::filled(T::default(), x.n_stored())?;
        for row in 0..x.n_rows() {
            let (indices, data) = x.row(row);
            for (&i, &value) in indices.iter().zip(data) {
                let slot = &mut next[place(i)];
                rows[*slot] = row as u32;
                values[*slot] = value;
                *slot += 1;
            }
        }
        Ok(Self { numbers, offsets, rows, values })
    }

    /// Where the entries of a column are.
    fn range(&self, column: usize) -> Range<usize> {
        match place_of(self.numbers.as_deref(), column) {
            Ok(k) => self.offsets[k]..self.offsets[k + 1],
            Err(_) => 0..0,
        }
    }

    /// There is room for as many entries as the column has.
    fn read(&self, column: usize, entries: &mut ColumnEntries) {
        let range = self.range(column);
        for (&row, value) in self.rows[range.clone()].iter().zip(&self.values[range]) {
            let value = value.to_f64();
            match (entries.rows.last(), entries.values.last_mut()) {
                // Rows arrive in order, so that duplicates of an entry are neighbours.
                (Some(&last), Some(sum)) if last == row => *sum += value,
                _ if value > 0.0 => {
                    entries.rows.push(row);
                    entries.values.push(value);
                }
                _ => {}
            }
        }
    }
}

/// The place of a column among some, or of all; or of the next one, where it is not among them.
#[inline]
pub(crate) fn place_of(
    numbers: Option<&[usize]>,
    column: usize,
) -> std::result::Result<usize, usize> {
    numbers.map_or(Ok(column), |numbers| numbers.binary_search(&column))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_add_up_and_zeros_vanish() {
        let view = CsrView::new(&[1.0, 2.0, 0.0, 4.0], &[1, 1, 0, 1], &[0, 3, 4], 2).unwrap();
        let exec = Executor::new(1).unwrap();
        let reader = HistogramMatrix::csr(view).by_columns(&exec).unwrap();
        let mut entries = ColumnEntries::default();
        reader.read(0, &mut entries).unwrap();
        assert!(entries.rows.is_empty());
        reader.read(1, &mut entries).unwrap();
        assert_eq!((entries.rows, entries.values), (vec![0, 1], vec![3.0, 4.0]));
    }

    #[test]
    fn few_entries_of_many_columns() {
        let exec = Executor::new(1).unwrap();
        let view = CsrView::new(&[3.0, 1.0, 2.0, 4.0], &[90, 7, 90, 90], &[0, 2, 4], 100).unwrap();
        let reader = HistogramMatrix::csr(view).by_columns(&exec).unwrap();
        assert_eq!(reader.stored().unwrap(), vec![7, 90]);
        let mut entries = ColumnEntries::default();
        for (d, expected) in
            [(0, (vec![], vec![])), (7, (vec![0], vec![1.0])), (90, (vec![0, 1], vec![3.0, 6.0]))]
        {
            reader.read(d, &mut entries).unwrap();
            assert_eq!((&entries.rows, &entries.values), (&expected.0, &expected.1), "column {d}");
        }
    }
}
