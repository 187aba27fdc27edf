//! Some columns of a matrix.

use ndarray::Array2;

use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::{CsrParts, CsrView, HistogramMatrix};
use crate::memory;
use crate::simd::Element;

/// Rows in a block.
const ROWS: usize = 256;

/// Columns of a matrix, copied.
#[derive(Debug)]
pub(crate) enum SelectedColumns<T> {
    Dense(Array2<T>),
    Csr(CsrParts<T>),
}

impl<T: Element> SelectedColumns<T> {
    pub(crate) fn view(&self) -> Result<HistogramMatrix<'_, T>> {
        Ok(match self {
            Self::Dense(x) => HistogramMatrix::dense(x.view()),
            Self::Csr(x) => {
                HistogramMatrix::csr(CsrView::new(&x.data, &x.indices, &x.indptr, x.n_columns)?)
            }
        })
    }
}

impl<T: Element> HistogramMatrix<'_, T> {
    /// The columns of these ascending numbers, which are there.
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // fewer columns than before
    pub(crate) fn select(&self, exec: &Executor, numbers: &[usize]) -> Result<SelectedColumns<T>> {
        match self {
            Self::Dense(x) => {
                let mut selected = memory::zeros((x.nrows(), numbers.len()))?;
                let out = memory::flat_mut(&mut selected)?;
                let width = numbers.len().max(1);
                exec.for_chunks(out, ROWS * width, |block, out| {
                    for (row, out) in (block * ROWS..).zip(out.chunks_exact_mut(width)) {
                        let x = x.row(row);
                        out.iter_mut().zip(numbers).for_each(|(out, &d)| *out = x[d]);
                    }
                    Ok(())
                })?;
                Ok(SelectedColumns::Dense(selected))
            }
            Self::Csr(x) => {
                let mut parts = CsrParts { indptr: vec![0], ..CsrParts::empty(numbers.len()) };
                for row in 0..x.n_rows() {
                    let (indices, values) = x.row(row);
                    for (&i, &value) in indices.iter().zip(values) {
                        if let Ok(k) = numbers.binary_search(&(i.unsigned_abs() as usize)) {
                            memory::push(&mut parts.indices, k as i32)?;
                            memory::push(&mut parts.data, value)?;
                        }
                    }
                    memory::push(&mut parts.indptr, parts.data.len() as i64)?;
                }
                Ok(SelectedColumns::Csr(parts))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn dense_and_sparse_columns() {
        let exec = Executor::new(2).unwrap();
        let x = array![[1.0, 0.0, 3.0], [0.0, 5.0, 6.0]];
        let selected = HistogramMatrix::dense(x.view()).select(&exec, &[0, 2]).unwrap();
        let mut row = [0.0; 2];
        selected.view().unwrap().copy_row(1, &mut row);
        assert_eq!(row, [0.0, 6.0]);
        let x = CsrView::new(&[3.0, 1.0, 5.0, 6.0, 1.0], &[2, 0, 1, 2, 2], &[0, 2, 5], 3).unwrap();
        let selected = HistogramMatrix::csr(x).select(&exec, &[0, 2]).unwrap();
        let view = selected.view().unwrap();
        assert_eq!((view.n_rows(), view.n_columns()), (2, 2));
        for (k, expected) in [[1.0, 3.0], [0.0, 7.0]].into_iter().enumerate() {
            view.copy_row(k, &mut row);
            assert_eq!(row, expected);
        }
        let none = HistogramMatrix::csr(x).select(&exec, &[]).unwrap();
        assert_eq!(none.view().unwrap().n_columns(), 0);
    }
}
