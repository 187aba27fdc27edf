//! Compressed sparse rows.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::memory;
use crate::simd::Element;

/// The parts of a compressed sparse row matrix, as SciPy stores them.
///
/// Column indices may be in any order within a row; duplicates add up; stored zeros are allowed.
#[derive(Debug, Clone, Copy)]
pub struct CsrView<'a, T> {
    data: &'a [T],
    indices: &'a [i32],
    indptr: &'a [i64],
    n_columns: usize,
}

impl<'a, T: Element> CsrView<'a, T> {
    /// Checks that the parts form a matrix.
    ///
    /// # Errors
    ///
    /// [`Error::MalformedCsr`] when they do not.
    pub fn new(
        data: &'a [T],
        indices: &'a [i32],
        indptr: &'a [i64],
        n_columns: usize,
    ) -> Result<Self> {
        let malformed = |what: String| Err(Error::MalformedCsr(what));
        if n_columns > i32::MAX as usize {
            return malformed(format!(
                "{n_columns} columns are more than 32-bit indices can name: hash or select features"
            ));
        }
        if data.len() != indices.len() {
            return malformed(format!("{} values but {} indices", data.len(), indices.len()));
        }
        if indptr.first() != Some(&0) {
            return malformed("indptr must begin with 0".into());
        }
        if indptr.last() != i64::try_from(data.len()).ok().as_ref() {
            return malformed(format!("indptr must end with {} values", data.len()));
        }
        if let Some(row) = indptr.windows(2).position(|w| w[0] > w[1]) {
            return malformed(format!("indptr decreases after row {row}"));
        }
        // A negative index is a large one without its sign. Without branches several are compared
        // at a time.
        let outside = |i: i32| i.cast_unsigned() as usize >= n_columns;
        if indices.iter().fold(false, |bad, &i| bad | outside(i))
            && let Some(bad) = indices.iter().find(|&&i| outside(i))
        {
            return malformed(format!("column index {bad} is not in 0..{n_columns}"));
        }
        Ok(Self { data, indices, indptr, n_columns })
    }

    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.indptr.len() - 1
    }

    /// Number of columns.
    pub(crate) fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// The column of every stored entry.
    pub(crate) fn indices(&self) -> &'a [i32] {
        self.indices
    }

    /// The same entries in columns of other numbers, all below `n_columns`.
    pub(crate) fn renumbered(&self, indices: &'a [i32], n_columns: usize) -> Self {
        Self { indices, n_columns, ..*self }
    }

    /// Where some consecutive rows begin and end, from 0.
    pub(crate) fn indptr_of(&self, rows: Range<usize>) -> Result<Vec<i64>> {
        let indptr = &self.indptr[rows.start..=rows.end];
        memory::collected(indptr.iter().map(|&end| end - indptr[0]))
    }

    /// These rows, with what `indptr_of` says of them.
    pub(crate) fn rows<'b>(&self, rows: Range<usize>, indptr: &'b [i64]) -> CsrView<'b, T>
    where
        'a: 'b,
    {
        let entries = self.entries_before(rows.start)..self.entries_before(rows.end);
        let (data, indices) = (&self.data[entries.clone()], &self.indices[entries]);
        CsrView { data, indices, indptr, n_columns: self.n_columns }
    }

    /// Number of stored entries.
    pub(crate) fn n_stored(&self) -> usize {
        self.data.len()
    }

    /// Column indices and values stored in a row.
    pub(crate) fn row(&self, row: usize) -> (&'a [i32], &'a [T]) {
        let range = self.range(row);
        (&self.indices[range.clone()], &self.data[range])
    }

    /// Column indices and values of a row with duplicates added up, which takes a copy of the row
    /// when its columns are not in strictly ascending order.
    pub(crate) fn row_sums_of_duplicates(&self, row: usize) -> (Cow<'a, [i32]>, Cow<'a, [T]>) {
        let (indices, values) = self.row(row);
        let next = indices.get(1..).unwrap_or_default();
        if indices.iter().zip(next).fold(true, |ascend, (i, next)| ascend & (i < next)) {
            return (Cow::Borrowed(indices), Cow::Borrowed(values));
        }
        let mut entries: Vec<(i32, T)> =
            indices.iter().copied().zip(values.iter().copied()).collect();
        entries.sort_by_key(|e| e.0);
        let sum = |run: &[(i32, T)]| T::from_f64(run.iter().map(|e| e.1.to_f64()).sum());
        let (indices, values): (Vec<i32>, Vec<T>) =
            entries.chunk_by(|a, b| a.0 == b.0).map(|run| (run[0].0, sum(run))).unzip();
        (Cow::Owned(indices), Cow::Owned(values))
    }

    /// Visits the entries of a row, duplicates added up.
    #[inline]
    pub(crate) fn for_each_sum(&self, row: usize, mut visit: impl FnMut(usize, f64)) {
        let (indices, values) = self.row_sums_of_duplicates(row);
        for (&index, value) in indices.iter().zip(values.iter()) {
            visit(index.unsigned_abs() as usize, value.to_f64());
        }
    }

    fn range(&self, row: usize) -> Range<usize> {
        self.entries_before(row)..self.entries_before(row + 1)
    }

    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)] // checked by `new`
    fn entries_before(&self, row: usize) -> usize {
        self.indptr[row] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csr_parts_are_checked() {
        let bad = |indices: &[i32], indptr: &[i64]| {
            CsrView::new(&[1.0_f64, 2.0], indices, indptr, 3).is_err()
        };
        assert!(bad(&[0], &[0, 2]));
        assert!(bad(&[0, 3], &[0, 2]));
        assert!(bad(&[0, -1], &[0, 2]));
        assert!(bad(&[0, 1], &[1, 2]));
        assert!(bad(&[0, 1], &[0, 1]));
        assert!(bad(&[0, 1], &[0, 2, 1, 2]));
        assert!(bad(&[0, 1], &[]));
        assert!(!bad(&[0, 1], &[0, 2]));
    }
}
