use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::matrix::{ColumnEntries, HistogramMatrix};
use crate::memory;
use crate::simd::Element;

/// At most `n_levels` quantiles of the positive values of every column, in one list, and where
/// those of each column begin.
///
/// Quantile `k` is the smallest value that a fraction of `k / n_levels` of them does not exceed;
/// equal ones count once. The last of a column is its largest value.
///
/// # Errors
///
/// [`Error::Parameter`] when `n_levels` is 0; [`Error::Negative`] or [`Error::NotFinite`] at the
/// first bad entry.
pub fn column_quantiles<T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
    n_levels: usize,
) -> Result<(Vec<f64>, Vec<i64>)> {
    if n_levels == 0 {
        let expected = "there is at least one level";
        return Err(Error::parameter("n_levels", 0, expected));
    }
    x.check(exec, "X")?;
    let reader = x.by_columns(exec)?;
    let stored = reader.stored()?;
    let columns = exec.map_blocks(stored.len(), |k| {
        let mut entries = ColumnEntries::default();
        reader.read(stored[k], &mut entries)?;
        Ok(levels(&mut entries.values, n_levels))
    })?;
    let mut offsets = memory::with_capacity(x.n_columns().saturating_add(1))?;
    let mut end = 0;
    for (&d, levels) in stored.iter().zip(&columns) {
        offsets.resize(d + 1, end);
        end += levels.len() as i64;
    }
    offsets.resize(x.n_columns() + 1, end);
    Ok((memory::concatenated(&columns)?, offsets))
}

/// Sorts the values and picks the distinct quantiles.
fn levels(values: &mut [f64], n_levels: usize) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    let rank = |level: usize| (level as u128 * n as u128).div_ceil(n_levels as u128);
    let mut levels: Vec<f64> = (1..=n_levels.min(n))
        .map(|level| if n < n_levels { level } else { rank(level) as usize })
        .map(|rank| values[rank - 1])
        .collect();
    levels.dedup();
    levels
}
