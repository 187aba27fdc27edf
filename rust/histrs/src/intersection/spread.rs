//! How far the values of a column lie apart.

use crate::error::Result;
use crate::exec::Executor;
use crate::intersection::column::Column;
use crate::intersection::columns::SortedColumns;

/// The part of the rows at either end whose values count as those next to them.
const TAIL: f64 = 0.005;

impl SortedColumns {
    /// Winsorised standard deviation of every column, zeros included. Values beyond the 0.5% and
    /// 99.5% quantiles count as these, so that few outliers do not decide the scale of a column.
    /// The upper quantile leaves out 0.5% of the entries that are not zero, since columns may have
    /// few of them. If this leaves no spread, the result is the standard deviation. It is 0 for
    /// constant columns alone.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`](crate::Error::Interrupted), or
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn spreads(&self, exec: &Executor) -> Result<Vec<f64>> {
        let columns = self.columns();
        let found = exec.map_blocks(columns.len(), |k| spread(&columns[k], self.n_rows()))?;
        self.by_number(found, 0.0)
    }

    /// 1 over the [`spreads`](Self::spreads), weights with which all columns count alike; 1 for
    /// constant columns, whose weight is moot, and less than the inverse where that overflows.
    ///
    /// # Errors
    ///
    /// As [`spreads`](Self::spreads).
    pub fn inverse_spreads(&self, exec: &Executor) -> Result<Vec<f64>> {
        let columns = self.columns();
        let found = exec.map_blocks(columns.len(), |k| {
            let spread = spread(&columns[k], self.n_rows())?;
            Ok(if spread == 0.0 { 1.0 } else { 1.0 / spread.max(f64::MIN_POSITIVE) })
        })?;
        self.by_number(found, 1.0)
    }
}

fn spread(column: &Column, n_rows: usize) -> Result<f64> {
    let (mut values, mut counts) = column.distinct()?;
    let n_zeros = n_rows - counts.iter().sum::<usize>();
    if n_zeros > 0 {
        values.insert(0, 0.0);
        counts.insert(0, n_zeros);
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below the number of rows
    let tail = |n: usize| (TAIL * n as f64) as usize;
    let low = value_of_rank(&values, &counts, tail(n_rows));
    // Of few entries among zeros none is an outlier: the least of them may be next to nothing.
    let n_entries = n_rows - if values.first() == Some(&0.0) { counts[0] } else { 0 };
    let high = value_of_rank(&values, &counts, n_rows.saturating_sub(tail(n_entries) + 1));
    let winsorised = deviation(&values, &counts, low, high);
    Ok(if winsorised > 0.0 { winsorised } else { deviation(&values, &counts, 0.0, f64::INFINITY) })
}

/// The value with so many entries below it, in ascending order.
fn value_of_rank(values: &[f64], counts: &[usize], rank: usize) -> f64 {
    let mut below = 0;
    for (&value, &count) in values.iter().zip(counts) {
        below += count;
        if below > rank {
            return value;
        }
    }
    0.0
}

/// Standard deviation of the values, clipped; at the scale of the largest, which is above zero, so
/// that squares of no value leave the range.
fn deviation(values: &[f64], counts: &[usize], low: f64, high: f64) -> f64 {
    let n = counts.iter().sum::<usize>() as f64;
    let largest = values.last().copied().unwrap_or(0.0).min(high);
    let terms =
        || values.iter().zip(counts).map(|(v, &c)| (v.clamp(low, high) / largest, c as f64));
    let mean = terms().map(|(v, c)| c * v).sum::<f64>() / n;
    let variance = terms().map(|(v, c)| c * (v - mean) * (v - mean)).sum::<f64>() / n;
    // A constant column has a mean that is its value but for rounding.
    if values.len() == 1 { 0.0 } else { largest * variance.sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::HistogramMatrix;
    use ndarray::Array2;

    #[test]
    fn outliers_and_rare_entries() {
        let exec = Executor::new(2).unwrap();
        let n = 1000;
        let x = Array2::from_shape_fn((n, 5), |(i, d)| match d {
            0 => (i % 10) as f64,
            1 if i == 3 => 1e300,
            1 => (i % 10) as f64,
            2 if i == 7 => 2.0,
            3 => 0.1,
            _ => 0.0,
        });
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        let spreads = columns.spreads(&exec).unwrap();
        let uniform = (99.0_f64 / 12.0).sqrt();
        assert!((spreads[0] - uniform).abs() < 1e-12);
        assert!((spreads[1] - uniform).abs() < 0.02);
        let rare = 2.0 * (0.001_f64 * 0.999).sqrt();
        assert!((spreads[2] - rare).abs() < 1e-12);
        assert_eq!(&spreads[3..], &[0.0, 0.0]);
        let inverse = columns.inverse_spreads(&exec).unwrap();
        assert_eq!(inverse[..3], [0, 1, 2].map(|d| 1.0 / spreads[d]));
        assert_eq!(&inverse[3..], &[1.0, 1.0]);
    }

    #[test]
    fn few_entries_are_no_outliers() {
        let exec = Executor::new(1).unwrap();
        let values = [0.9, 0.5, 1e-9];
        let x = Array2::from_shape_fn((500, 1), |(i, _)| *values.get(i).unwrap_or(&0.0));
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        let mean = values.iter().sum::<f64>() / 500.0;
        let square = values.iter().map(|v| v * v).sum::<f64>() / 500.0;
        let spread = columns.spreads(&exec).unwrap()[0];
        assert!((spread - (square - mean * mean).sqrt()).abs() < 1e-12);
    }

    /// A rough column, half of it zeros, and one that is constant but for few rows.
    #[test]
    fn spreads_are_their_definition() {
        let exec = Executor::new(1).unwrap();
        let n = 2000;
        let x = Array2::from_shape_fn((n, 2), |(i, d)| match d {
            0 if i % 2 == 0 => 0.0,
            0 => ((i * 37 % n) as f64 / n as f64).powi(4),
            _ if i % 500 == 3 => 5.0,
            _ => 0.1,
        });
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        let found = columns.spreads(&exec).unwrap();
        let mut sorted = x.column(0).to_vec();
        sorted.sort_by(f64::total_cmp);
        // 0.5 % of 2,000 rows and of 1,000 entries.
        let (low, high) = (sorted[10], sorted[n - 1 - 5]);
        let clipped = x.column(0).mapv(|x| x.clamp(low, high));
        assert!((found[0] - clipped.std(0.0)).abs() < 1e-12, "{} {}", found[0], clipped.std(0.0));
        assert!((found[1] - x.column(1).std(0.0)).abs() < 1e-12, "{}", found[1]);
    }

    #[test]
    fn inverses_do_not_overflow() {
        let exec = Executor::new(1).unwrap();
        let x = ndarray::array![[0.0], [1e-320]];
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        assert_eq!(columns.inverse_spreads(&exec).unwrap(), vec![1.0 / f64::MIN_POSITIVE]);
    }

    #[test]
    fn no_rows() {
        let exec = Executor::new(1).unwrap();
        let x = Array2::<f64>::zeros((0, 2));
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        assert_eq!(columns.spreads(&exec).unwrap(), vec![0.0, 0.0]);
    }
}
