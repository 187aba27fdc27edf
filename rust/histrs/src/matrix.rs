//! Non-negative matrices, dense or CSR, read column by column.

use std::borrow::Cow;
use std::ops::Range;

use ndarray::{ArrayView2, s};

use crate::error::{Error, Result};
use crate::exec::Executor;
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

    #[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)] // checked by `new`
    fn range(&self, row: usize) -> Range<usize> {
        self.indptr[row] as usize..self.indptr[row + 1] as usize
    }
}

/// A matrix of histograms, one a row: dense with any strides, or CSR.
#[derive(Debug, Clone, Copy)]
pub enum HistogramMatrix<'a, T> {
    /// A dense view.
    Dense(ArrayView2<'a, T>),
    /// A sparse view.
    Csr(CsrView<'a, T>),
}

impl<'a, T: Element> HistogramMatrix<'a, T> {
    /// A dense matrix.
    #[must_use]
    pub fn dense(view: ArrayView2<'a, T>) -> Self {
        Self::Dense(view)
    }

    /// A sparse matrix.
    #[must_use]
    pub fn csr(view: CsrView<'a, T>) -> Self {
        Self::Csr(view)
    }

    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        match self {
            Self::Dense(x) => x.nrows(),
            Self::Csr(x) => x.n_rows(),
        }
    }

    /// Number of columns.
    #[must_use]
    pub fn n_columns(&self) -> usize {
        match self {
            Self::Dense(x) => x.ncols(),
            Self::Csr(x) => x.n_columns,
        }
    }

    /// Copies a row, with its zeros.
    pub(crate) fn copy_row(&self, row: usize, out: &mut [T]) {
        match self {
            Self::Dense(x) => {
                let x = x.row(row);
                match x.as_slice() {
                    Some(x) => out.copy_from_slice(x),
                    None => out.iter_mut().zip(x).for_each(|(out, &value)| *out = value),
                }
            }
            Self::Csr(x) => {
                out.fill(T::default());
                x.for_each_sum(row, |column, value| out[column] = T::from_f64(value));
            }
        }
    }

    /// Fails at the first entry, in row order, that is negative or not finite.
    ///
    /// # Errors
    ///
    /// [`Error::Negative`] or [`Error::NotFinite`], which name the place.
    pub fn check(&self, exec: &Executor, name: &'static str) -> Result<()> {
        self.check_rows(exec, name, all_valid)
    }

    /// Fails at the first entry, in row order, that is not finite.
    ///
    /// # Errors
    ///
    /// [`Error::NotFinite`], which names the place.
    pub fn check_finite(&self, exec: &Executor, name: &'static str) -> Result<()> {
        self.check_rows(exec, name, all_finite)
    }

    fn check_rows(
        &self,
        exec: &Executor,
        name: &'static str,
        all_valid: impl Fn(&[T]) -> bool + Copy + Sync,
    ) -> Result<()> {
        const ROWS: usize = 256;
        let n_rows = self.n_rows();
        exec.map_blocks(n_rows.div_ceil(ROWS), |block| {
            (block * ROWS..n_rows.min((block + 1) * ROWS))
                .try_for_each(|row| self.check_row(row, name, all_valid))
        })
        .map(drop)
    }

    fn check_row(
        &self,
        row: usize,
        name: &'static str,
        all_valid: impl Fn(&[T]) -> bool,
    ) -> Result<()> {
        let is_valid = |v: T| all_valid(&[v]);
        let complain = |column: usize, value: f64| {
            if value.is_finite() {
                Error::Negative { name, row, column, value }
            } else {
                Error::NotFinite { name, row, column, value }
            }
        };
        match self {
            Self::Dense(x) => {
                let x = x.row(row);
                if x.as_slice().is_some_and(&all_valid) {
                    return Ok(());
                }
                match x.iter().position(|&v| !is_valid(v)) {
                    Some(column) => Err(complain(column, x[column].to_f64())),
                    None => Ok(()),
                }
            }
            Self::Csr(x) => {
                let (indices, values) = x.row(row);
                if let Some(k) = values.iter().position(|&v| !is_valid(v)) {
                    return Err(complain(indices[k].unsigned_abs() as usize, values[k].to_f64()));
                }
                // Duplicates may add up to infinity, though rarely: no part exceeds the whole.
                if is_valid(T::from_f64(values.iter().map(|v| v.to_f64()).sum())) {
                    return Ok(());
                }
                let mut result = Ok(());
                x.for_each_sum(row, |column, value| {
                    let value = T::from_f64(value);
                    if result.is_ok() && !is_valid(value) {
                        result = Err(complain(column, value.to_f64()));
                    }
                });
                result
            }
        }
    }

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

    /// `k(x, x) = sum_d x(d)` of every row: the diagonal of the intersection kernel matrix.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`].
    pub fn row_sums(&self, exec: &Executor) -> Result<Vec<f64>> {
        const ROWS: usize = 256;
        let mut sums = memory::filled(0.0, self.n_rows())?;
        exec.for_chunks(&mut sums, ROWS, |block, sums| {
            for (row, sum) in (block * ROWS..).zip(sums) {
                // Not `sum`, which makes -0 of nothing.
                match self {
                    Self::Dense(x) => x.row(row).iter().for_each(|v| *sum += v.to_f64()),
                    Self::Csr(x) => x.row(row).1.iter().for_each(|v| *sum += v.to_f64()),
                }
            }
            Ok(())
        })?;
        Ok(sums)
    }
}

/// Visits the non-zero entries `(row - start, column - first, value)` of some rows and columns,
/// column by column where the matrix is dense.
pub(crate) fn visit_rows<T: Element>(
    x: &HistogramMatrix<'_, T>,
    start: usize,
    n_rows: usize,
    first: usize,
    n_columns: usize,
    mut visit: impl FnMut(usize, usize, f64),
) {
    match x {
        HistogramMatrix::Dense(x) => {
            let x = x.slice(s![start..start + n_rows, first..first + n_columns]);
            for (d, column) in x.columns().into_iter().enumerate() {
                for (row, value) in column.iter().enumerate() {
                    let value = value.to_f64();
                    if value > 0.0 {
                        visit(row, d, value);
                    }
                }
            }
        }
        HistogramMatrix::Csr(x) => {
            for row in 0..n_rows {
                x.for_each_sum(start + row, |column, value| {
                    if let Some(d) = column.checked_sub(first)
                        && d < n_columns
                        && value > 0.0
                    {
                        visit(row, d, value);
                    }
                });
            }
        }
    }
}

/// What [`check_columns`] complains about.
pub(crate) const COLUMNS_OF_X: &str = "the number of columns of X";

/// Fails unless `x` has as many columns as expected; `what` says so.
pub(crate) fn check_columns<T: Element>(
    what: &'static str,
    x: &HistogramMatrix<'_, T>,
    expected: usize,
) -> Result<()> {
    if x.n_columns() == expected {
        return Ok(());
    }
    Err(Error::Shape {
        what,
        found: x.n_columns(),
        expected,
        cure: "give the features that the training data had, in the same order",
    })
}

/// Row numbers as indices, each of which must be that of a row.
pub(crate) fn row_numbers(name: &'static str, rows: &[i64], n_rows: usize) -> Result<Vec<usize>> {
    let index = |row: i64| usize::try_from(row).ok().filter(|&r| r < n_rows);
    rows.iter()
        .map(|&row| {
            index(row).ok_or(Error::Number {
                name,
                value: row as i128,
                expected: "a row number of X",
            })
        })
        .collect()
}

/// Whether all are non-negative and finite. Looks at every value, without the branches that would keep it from taking several at a time.
pub(crate) fn all_valid<T: Element>(values: &[T]) -> bool {
    let infinity = T::from_f64(f64::INFINITY);
    values.iter().fold(true, |valid, &v| valid & (v >= T::default()) & (v < infinity))
}

/// As [`all_valid`], of either sign.
fn all_finite<T: Element>(values: &[T]) -> bool {
    let infinity = T::from_f64(f64::INFINITY);
    let negative = T::from_f64(f64::NEG_INFINITY);
    values.iter().fold(true, |valid, &v| valid & (v > negative) & (v < infinity))
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
    pub(crate) fn n_columns(&self) -> usize {
        match self {
            Self::Dense(x) => x.ncols(),
            Self::Sparse(x) => x.offsets.len() - 1,
        }
    }

    /// Reads the non-zero entries of `column` into `entries`.
    #[allow(clippy::cast_possible_truncation)] // rows are checked by `by_columns`
    pub(crate) fn read(&self, column: usize, entries: &mut ColumnEntries) -> Result<()> {
        entries.rows.clear();
        entries.values.clear();
        let most = match self {
            Self::Dense(x) => x.nrows(),
            Self::Sparse(x) => x.offsets[column + 1] - x.offsets[column],
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
    offsets: Vec<usize>,
    rows: Vec<u32>,
    values: Vec<T>,
}

impl<T: Element> Transposed<T> {
    #[allow(clippy::cast_possible_truncation)] // rows are checked by `by_columns`
    fn new(x: &CsrView<'_, T>) -> Result<Self> {
        let column = |i: i32| i.unsigned_abs() as usize;
        let mut offsets = memory::filled(0, x.n_columns + 1)?;
        for &i in x.indices {
            offsets[column(i) + 1] += 1;
        }
        for d in 0..x.n_columns {
            offsets[d + 1] += offsets[d];
        }
        let mut next = memory::copied(&offsets)?;
        let mut rows = memory::filled(0, x.data.len())?;
        let mut values = memory::filled(T::default(), x.data.len())?;
        for row in 0..x.n_rows() {
            let (indices, data) = x.row(row);
            for (&i, &value) in indices.iter().zip(data) {
                let slot = &mut next[column(i)];
                rows[*slot] = row as u32;
                values[*slot] = value;
                *slot += 1;
            }
        }
        Ok(Self { offsets, rows, values })
    }

    /// There is room for as many entries as the column has.
    fn read(&self, column: usize, entries: &mut ColumnEntries) {
        let range = self.offsets[column]..self.offsets[column + 1];
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

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

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
    fn the_first_bad_entry_is_named() {
        let exec = Executor::new(2).unwrap();
        let x = array![[0.0, 1.0], [-0.0, 2.0], [3.0, -0.2], [f64::NAN, 0.0]];
        let error = HistogramMatrix::dense(x.view()).check(&exec, "X").unwrap_err();
        assert!(error.to_string().contains("X[2, 1] = -0.2"), "{error}");
        let x = array![[f64::INFINITY]];
        let error = HistogramMatrix::dense(x.view()).check(&exec, "X").unwrap_err();
        assert!(error.to_string().contains("X[0, 0] = infinity"), "{error}");
    }
}
