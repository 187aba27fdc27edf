use ndarray::ArrayView2;

use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::{ColumnEntries, HistogramMatrix};
use crate::memory;
use crate::simd::Element;

/// The smallest positive and the largest entry of every column, both 0 where there is none.
///
/// # Errors
///
/// [`Error::Negative`](crate::Error::Negative) or [`Error::NotFinite`](crate::Error::NotFinite) at
/// the first bad entry, [`Error::TooManyRows`](crate::Error::TooManyRows) above `u32::MAX` sparse rows.
pub fn column_ranges<T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    x.check(exec, "X")?;
    match x {
        HistogramMatrix::Dense(x) => by_rows(exec, *x),
        HistogramMatrix::Csr(_) => by_columns(exec, x),
    }
}

/// Row by row, as dense entries lie in memory.
fn by_rows<T: Element>(exec: &Executor, x: ArrayView2<'_, T>) -> Result<(Vec<f64>, Vec<f64>)> {
    const ROWS: usize = 256;
    let (n_rows, n_columns) = x.dim();
    let blocks = exec.map_blocks(n_rows.div_ceil(ROWS), |block| {
        let start = block * ROWS;
        let mut range =
            (memory::filled(f64::INFINITY, n_columns)?, memory::filled(0.0, n_columns)?);
        for row in start..n_rows.min(start + ROWS) {
            let columns = range.0.iter_mut().zip(&mut range.1);
            for ((low, high), value) in columns.zip(x.row(row)) {
                let value = value.to_f64();
                *low = low.min(if value > 0.0 { value } else { f64::INFINITY });
                *high = f64::max(*high, value);
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

/// Column by column, of those that have entries: there may be very many others.
fn by_columns<T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    const COLUMNS: usize = 64;
    let reader = x.by_columns(exec)?;
    let stored = reader.stored()?;
    let blocks = exec.map_ranges(stored.len(), COLUMNS, |part| {
        let numbers = &stored[part];
        let mut entries = ColumnEntries::default();
        let mut found = memory::with_capacity(numbers.len())?;
        for &d in numbers {
            reader.read(d, &mut entries)?;
            let values = || entries.values.iter().copied();
            found.push((values().reduce(f64::min), values().reduce(f64::max)));
        }
        Ok(found)
    })?;
    let n_columns = x.n_columns();
    let mut range = (memory::filled(0.0, n_columns)?, memory::filled(0.0, n_columns)?);
    for (&d, (low, high)) in stored.iter().zip(blocks.iter().flatten()) {
        (range.0[d], range.1[d]) = (low.unwrap_or(0.0), high.unwrap_or(0.0));
    }
    Ok(range)
}
