//! Non-negative matrices, dense or CSR.
//!
//! | file | concept |
//! |---|---|
//! | `csr` | [`CsrView`]: compressed sparse rows |
//! | `csr_parts` | [`CsrParts`]: a sparse matrix as a result |
//! | `check` | entries, numbers of columns and row numbers, looked at |
//! | `columns` | the same matrix column by column |
//! | `select` | some of the columns |

mod check;
mod columns;
mod csr;
mod csr_parts;
mod select;

use std::ops::Range;

pub use csr::CsrView;
pub use csr_parts::CsrParts;
use ndarray::{ArrayView2, s};

pub(crate) use check::{COLUMNS_OF_X, check_columns, row_numbers};
pub(crate) use columns::{ColumnEntries, are_few, place_of};
pub(crate) use csr_parts::check_width;

use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::simd::Element;

/// A matrix of histograms, one per row: dense with any strides, or CSR.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
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
            Self::Csr(x) => x.n_columns(),
        }
    }

    /// What [`rows`](Self::rows) needs beside the matrix.
    pub(crate) fn indptr_of(&self, rows: Range<usize>) -> Result<Vec<i64>> {
        match self {
            Self::Dense(_) => Ok(Vec::new()),
            Self::Csr(x) => x.indptr_of(rows),
        }
    }

    /// Some consecutive rows.
    pub(crate) fn rows<'b>(&self, rows: Range<usize>, indptr: &'b [i64]) -> HistogramMatrix<'b, T>
    where
        'a: 'b,
    {
        match *self {
            Self::Dense(x) => HistogramMatrix::Dense(x.slice_move(s![rows, ..])),
            Self::Csr(x) => HistogramMatrix::Csr(x.rows(rows, indptr)),
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

    /// `k(x, x) = sum_d x(d)` of every row: the diagonal of the intersection kernel matrix.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`](crate::Error::Interrupted).
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
