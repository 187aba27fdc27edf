use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::{HistogramMatrix, visit_rows};
use crate::memory;
use crate::simd::Element;

/// The smallest positive and the largest entry of every column, both 0 where there is none.
///
/// # Errors
///
/// [`Error::Negative`](crate::Error::Negative) or [`Error::NotFinite`](crate::Error::NotFinite) at
/// the first bad entry.
pub fn column_ranges<T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    const ROWS: usize = 256;
    x.check(exec, "X")?;
    let (n_rows, n_columns) = (x.n_rows(), x.n_columns());
    let blocks = exec.map_blocks(n_rows.div_ceil(ROWS), |block| {
        let start = block * ROWS;
        let mut range =
            (memory::filled(f64::INFINITY, n_columns)?, memory::filled(0.0, n_columns)?);
        match x {
            // Row by row, as it lies in memory.
            HistogramMatrix::Dense(x) => {
                for row in start..n_rows.min(start + ROWS) {
                    let columns = range.0.iter_mut().zip(&mut range.1);
                    for ((low, high), value) in columns.zip(x.row(row)) {
                        let value = value.to_f64();
                        *low = low.min(if value > 0.0 { value } else { f64::INFINITY });
                        *high = f64::max(*high, value);
                    }
                }
            }
            HistogramMatrix::Csr(_) => {
                let size = ROWS.min(n_rows - start);
                visit_rows(x, start, size, 0, n_columns, |_, column, value| {
                    range.0[column] = range.0[column].min(value);
                    range.1[column] = f64::max(range.1[column], value);
                });
            }
        }
        Ok(range)
    })?;
    let mut range = (memory::filled(f64::INFINITY, n_columns)?, memory::filled(0.0, n_columns)?);
    for (low, high) in blocks {
        for d in 0..n_columns {
            range.0[d] = range.0[d].min(low[d]);
            range.1[d] = f64::max(range.1[d], high[d]);
        }
    }
    for low in &mut range.0 {
        if *low == f64::INFINITY {
            *low = 0.0;
        }
    }
    Ok(range)
}
