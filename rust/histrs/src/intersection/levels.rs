//! Where to cut a column into a few levels, and which of some levels is the nearest.

use std::hint::select_unpredictable;

use ndarray::{Array2, ArrayView2, s};

use crate::error::{Result, check_length};
use crate::exec::Executor;
use crate::memory;

/// Rows that are rounded together.
const ROWS: usize = 256;
/// Columns whose entries are brought together.
const COLUMNS: usize = 8;

/// Cuts ascending distinct `values`, held by `counts` rows each, into at most `n_levels` runs of
/// nearly equal `n h`, `n` being the number of rows in a run and `h` its width, and returns where
/// the runs end.
///
/// What rounding to levels, or interpolating between their ends, leaves of the kernel has
/// eigenvalues of order `n h`, so that no run is much worse than the others. Quantiles, equal `n`,
/// would leave long gaps in the tail; equal widths would crowd the values near zero.
pub(crate) fn level_ends(values: &[f64], counts: &[usize], n_levels: usize) -> Result<Vec<usize>> {
    if values.len() <= n_levels {
        return memory::collected(1..values.len() + 1);
    }
    // The sum of sqrt(gap) over the rows of a run is near sqrt(n h).
    let mut cumulative = memory::with_capacity(values.len())?;
    let (mut previous, mut total) = (0.0, 0.0);
    for (&value, &count) in values.iter().zip(counts) {
        total += ((value - previous) * count as f64).sqrt();
        previous = value;
        cumulative.push(total);
    }
    let mut ends: Vec<usize> = (1..n_levels)
        .map(|level| total * (level as f64 / n_levels as f64))
        .map(|limit| cumulative.partition_point(|&weight| weight <= limit))
        .filter(|&end| end > 0)
        .collect();
    ends.push(values.len());
    ends.dedup();
    Ok(ends)
}

/// Every entry of `x` rounded to the nearest of the levels of its column, a row of `levels` in
/// ascending order for each; from the middle of two, to the lower one.
///
/// # Errors
///
/// [`Error::Shape`](crate::Error::Shape) unless every column has levels, one at least.
#[allow(clippy::cast_possible_truncation)] // single precision holds a level as well as an entry
pub fn nearest_levels(
    exec: &Executor,
    x: ArrayView2<'_, f64>,
    levels: ArrayView2<'_, f64>,
) -> Result<Array2<f32>> {
    let n_columns = x.ncols();
    let cure = "give a row of levels for each column";
    check_length("the number of rows of the levels", levels.nrows(), n_columns, cure)?;
    check_length("the number of levels", levels.ncols().min(1), 1, "give one level at least")?;
    let mut rounded = memory::zeros((x.nrows(), n_columns))?;
    let out = memory::flat_mut(&mut rounded)?;
    exec.for_chunks(out, ROWS * n_columns, |block, out| {
        let rows = x.slice(s![block * ROWS..x.nrows().min((block + 1) * ROWS), ..]);
        let n_rows = rows.nrows();
        let mut middles = memory::filled(0.0, levels.ncols() - 1)?;
        let mut tile = memory::filled(0.0, COLUMNS * n_rows)?;
        let mut below = memory::filled(0, n_rows)?;
        for first in (0..n_columns).step_by(COLUMNS) {
            let columns = first..n_columns.min(first + COLUMNS);
            // Columns are read and written some at a time: those of a row share a line of the cache.
            for (i, row) in rows.slice(s![.., columns.clone()]).rows().into_iter().enumerate() {
                for (k, &x) in row.iter().enumerate() {
                    tile[k * n_rows + i] = x;
                }
            }
            for (tile, d) in tile.chunks_exact_mut(n_rows).zip(columns.clone()) {
                let levels = levels.row(d);
                for (k, middle) in middles.iter_mut().enumerate() {
                    *middle = 0.5 * (levels[k] + levels[k + 1]);
                }
                count_below(&middles, tile, &mut below);
                for (x, &k) in tile.iter_mut().zip(&below) {
                    *x = levels[k];
                }
            }
            for (i, out) in out.chunks_exact_mut(n_columns).enumerate() {
                for (k, out) in out[columns.clone()].iter_mut().enumerate() {
                    *out = tile[k * n_rows + i] as f32;
                }
            }
        }
        Ok(())
    })?;
    Ok(rounded)
}

/// For every value how many of the ascending `sorted` are below it.
///
/// All values go through the halves together: none waits for another, and no branch depends on them.
fn count_below(sorted: &[f64], values: &[f64], counts: &mut [usize]) {
    counts.fill(0);
    let mut size = sorted.len();
    while size > 0 {
        let half = size.div_ceil(2);
        for (count, &x) in counts.iter_mut().zip(values) {
            *count += select_unpredictable(sorted[*count + half - 1] < x, half, 0);
        }
        size -= half;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;
    use proptest::prelude::*;

    #[test]
    fn entries_go_to_the_nearest_level_of_their_column() {
        let exec = Executor::new(2).unwrap();
        let levels = array![[0.0, 1.0, 4.0], [2.0, 2.0, 3.0]];
        let x = array![[-7.0, 2.0], [0.5, 2.5], [0.51, 2.51], [2.5, 9.0], [2.6, 0.0]];
        let expected = array![[0.0, 2.0], [0.0, 2.0], [1.0, 3.0], [1.0, 3.0], [4.0, 2.0]];
        let n_columns = 2 * COLUMNS + 3;
        let repeated = |a: &Array2<f64>, n_rows: usize| {
            Array2::from_shape_fn((n_rows, n_columns), |(i, d)| a[[i % 5, d % 2]])
        };
        let x = repeated(&x, 5 * ROWS);
        let levels = Array2::from_shape_fn((n_columns, 3), |(d, k)| levels[[d % 2, k]]);
        let found = nearest_levels(&exec, x.view(), levels.view()).unwrap();
        assert_eq!(found.mapv(f64::from), repeated(&expected, 5 * ROWS));
        assert!(nearest_levels(&exec, x.view(), levels.slice(s![..1, ..])).is_err());
        assert!(nearest_levels(&exec, x.view(), levels.slice(s![.., ..0])).is_err());
    }

    #[test]
    fn evenly_spaced_values_are_cut_into_equal_runs() {
        let values: Vec<f64> = (1..=8).map(f64::from).collect();
        assert_eq!(level_ends(&values, &[1; 8], 4).unwrap(), [2, 4, 6, 8]);
        assert_eq!(level_ends(&values, &[1; 8], 8).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
        // Twice as wide with four times the rows: as much as four gaps of one row each.
        assert_eq!(level_ends(&[1.0, 2.0, 3.0, 4.0, 8.0], &[1, 1, 1, 1, 4], 2).unwrap(), [4, 5]);
    }

    proptest! {
        #[test]
        fn ends_ascend_to_the_last_value(
            gaps in prop::collection::vec((1e-300..1e300_f64, 1..50_usize), 0..200),
            n_levels in 1..40_usize,
        ) {
            let mut values: Vec<f64> = gaps.iter().map(|g| g.0).collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            let counts: Vec<usize> = gaps.iter().take(values.len()).map(|g| g.1).collect();
            let ends = level_ends(&values, &counts, n_levels).unwrap();
            prop_assert!(ends.len() <= n_levels);
            prop_assert!(ends.windows(2).all(|w| w[0] < w[1]));
            prop_assert_eq!(ends.last().copied().unwrap_or(0), values.len());
            prop_assert!(ends.first().is_none_or(|&end| end > 0));
            // No run but for its first value has more than its part of the sum.
            let gaps: Vec<f64> =
                values.iter().scan(0.0, |previous, &x| Some(x - std::mem::replace(previous, x))).collect();
            let roots: Vec<f64> =
                gaps.iter().zip(&counts).map(|(gap, &count)| (gap * count as f64).sqrt()).collect();
            let limit = roots.iter().sum::<f64>() / n_levels as f64 * (1.0 + 1e-9);
            let starts = std::iter::once(&0).chain(&ends);
            for (&start, &end) in starts.zip(&ends) {
                prop_assert!(values.len() <= n_levels || roots[start + 1..end].iter().sum::<f64>() <= limit);
            }
        }
    }

    #[test]
    fn a_long_tail_gets_levels_of_its_own() {
        let values: Vec<f64> = (1..=1000).map(|i| 1.0 / f64::from(1001 - i)).collect();
        let ends = level_ends(&values, &vec![1; 1000], 10).unwrap();
        assert!(ends[ends.len() - 2] > 990, "{ends:?}");
    }
}
