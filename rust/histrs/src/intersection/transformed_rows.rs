//! Rows as a generalised kernel sees them.

use ndarray::Array2;

use crate::error::Result;
use crate::exec::Executor;
use crate::intersection::transform::{Transform, check_weights};
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::simd::Element;

/// Rows of a matrix that are transformed together.
const ROWS: usize = 256;

/// Rows with `w_d g(x(d))` in place of `x(d)`.
#[derive(Debug, Clone, PartialEq)]
pub enum TransformedRows {
    /// Of a dense matrix.
    Dense(Array2<f64>),
    /// Of a CSR matrix: values, column indices, and where each row begins and ends.
    Csr(Vec<f64>, Vec<i32>, Vec<i64>),
}

/// The rows of `x` as the generalised kernel sees them: `w_d g(x(d))`.
///
/// # Errors
///
/// As [`SortedColumns::transformed`](crate::intersection::SortedColumns::transformed);
/// [`Error::Negative`](crate::Error::Negative) or
/// [`Error::NotFinite`](crate::Error::NotFinite) at the first bad
/// entry of `x`.
pub fn transform_rows<T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
    transform: &Transform,
    weights: Option<&[f64]>,
) -> Result<TransformedRows> {
    transform.check()?;
    check_weights(weights, x.n_columns())?;
    x.check(exec, "X")?;
    let value = |d: usize, x: f64| transform.weighted(x, weights.map_or(1.0, |w| w[d]));
    match x {
        HistogramMatrix::Dense(x) => {
            let mut out = memory::zero_matrix(x.dim())?;
            let n_columns = x.ncols();
            let flat = memory::flat_mut(&mut out)?;
            exec.for_chunks(flat, ROWS * n_columns, |block, chunk| {
                for (row, out) in (block * ROWS..).zip(chunk.chunks_exact_mut(n_columns)) {
                    for ((d, out), x) in out.iter_mut().enumerate().zip(x.row(row)) {
                        *out = value(d, x.to_f64())?;
                    }
                }
                Ok(())
            })?;
            Ok(TransformedRows::Dense(out))
        }
        HistogramMatrix::Csr(x) => {
            let n_rows = x.n_rows();
            let blocks = exec.map_ranges(n_rows, ROWS, |rows| {
                let (mut data, mut indices, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
                for row in rows {
                    let (columns, values) = x.row_sums_of_duplicates(row);
                    memory::push(&mut lengths, columns.len())?;
                    memory::extend(&mut indices, columns.iter().copied())?;
                    memory::reserve_growing(&mut data, columns.len())?;
                    for (&column, x) in columns.iter().zip(values.iter()) {
                        data.push(value(column.unsigned_abs() as usize, x.to_f64())?);
                    }
                }
                Ok((data, indices, lengths))
            })?;
            let n_stored = blocks.iter().map(|block| block.0.len()).sum();
            let mut data = memory::with_capacity(n_stored)?;
            let mut indices = memory::with_capacity(n_stored)?;
            let mut indptr = memory::with_capacity(n_rows + 1)?;
            let mut end: i64 = 0;
            indptr.push(end);
            for (block_data, block_indices, lengths) in blocks {
                data.extend(block_data);
                indices.extend(block_indices);
                for length in lengths {
                    end += length as i64;
                    indptr.push(end);
                }
            }
            Ok(TransformedRows::Csr(data, indices, indptr))
        }
    }
}
