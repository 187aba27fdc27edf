//! One column in the encoding that its values make the cheapest, zeros left out.

use crate::error::Result;
use crate::memory;

/// Distinct values, zero among them, that a one-byte code can name.
pub(crate) const MAX_CODES: usize = 256;

/// A column in the encoding that costs least for its values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Column {
    /// Few distinct values, most rows stored: `values[codes[i]]` is the entry of row `i` and
    /// `values[0]` is 0. One byte per row, and tables that stay in the first-level cache.
    Coded { values: Vec<f64>, codes: Vec<u8> },
    /// Few distinct values, few rows stored: rows `rows[starts[k]..starts[k + 1]]`, ascending,
    /// hold `values[k]`.
    Runs { values: Vec<f64>, starts: Vec<u32>, rows: Vec<u32> },
    /// Mostly distinct values: row `rows[k]` holds `values[k]`, ascending in value.
    Sorted { values: Vec<f64>, rows: Vec<u32> },
}

impl Column {
    #[allow(clippy::cast_possible_truncation)] // codes are below 256, rows fit the row index
    pub(crate) fn encode(pairs: &[(u64, u32)], n_rows: usize) -> Result<Self> {
        let n_distinct = pairs.chunk_by(|a, b| a.0 == b.0).count();
        Ok(if n_distinct < MAX_CODES && pairs.len() >= n_rows.div_ceil(4) {
            let mut values = memory::with_capacity(n_distinct + 1)?;
            values.push(0.0);
            let mut codes = memory::filled(0, n_rows)?;
            for run in pairs.chunk_by(|a, b| a.0 == b.0) {
                let code = values.len() as u8;
                values.push(f64::from_bits(run[0].0));
                for &(_, row) in run {
                    codes[row as usize] = code;
                }
            }
            Self::Coded { values, codes }
        } else if 2 * n_distinct <= pairs.len() && !pairs.is_empty() {
            let mut values = memory::with_capacity(n_distinct)?;
            let mut starts = memory::with_capacity(n_distinct + 1)?;
            starts.push(0);
            for run in pairs.chunk_by(|a, b| a.0 == b.0) {
                values.push(f64::from_bits(run[0].0));
                starts.push(starts[starts.len() - 1] + run.len() as u32);
            }
            Self::Runs { values, starts, rows: memory::collected(pairs.iter().map(|p| p.1))? }
        } else {
            Self::Sorted {
                values: memory::collected(pairs.iter().map(|p| f64::from_bits(p.0)))?,
                rows: memory::collected(pairs.iter().map(|p| p.1))?,
            }
        })
    }

    /// Calls `visit(row, value)` for every non-zero entry, by value or by row.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u32, f64)) {
        match self {
            Self::Coded { values, codes } => {
                for (row, &code) in (0..).zip(codes) {
                    if code > 0 {
                        visit(row, values[usize::from(code)]);
                    }
                }
            }
            Self::Runs { values, starts, rows } => {
                for (value, run) in values.iter().zip(starts.windows(2)) {
                    for &row in &rows[run[0] as usize..run[1] as usize] {
                        visit(row, *value);
                    }
                }
            }
            Self::Sorted { values, rows } => {
                for (&row, &value) in rows.iter().zip(values) {
                    visit(row, value);
                }
            }
        }
    }

    /// The distinct non-zero values in ascending order, with how many rows hold each.
    pub(crate) fn distinct(&self) -> Result<(Vec<f64>, Vec<usize>)> {
        Ok(match self {
            Self::Coded { values, codes } => {
                let mut counts = memory::filled(0, values.len())?;
                for &code in codes {
                    counts[usize::from(code)] += 1;
                }
                (values[1..].to_vec(), counts[1..].to_vec())
            }
            Self::Runs { values, starts, .. } => {
                let counts = starts.windows(2).map(|w| (w[1] - w[0]) as usize);
                (memory::copied(values)?, memory::collected(counts)?)
            }
            Self::Sorted { values, .. } => {
                let mut distinct: Vec<f64> = memory::with_capacity(values.len())?;
                let mut counts: Vec<usize> = memory::with_capacity(values.len())?;
                for &value in values {
                    match (distinct.last(), counts.last_mut()) {
                        (Some(&last), Some(count)) if last.to_bits() == value.to_bits() => {
                            *count += 1;
                        }
                        _ => {
                            distinct.push(value);
                            counts.push(1);
                        }
                    }
                }
                (distinct, counts)
            }
        })
    }

    /// Number of stored entries: what a pass over the column costs.
    pub(crate) fn n_stored(&self) -> usize {
        match self {
            Self::Coded { codes, .. } => codes.len(),
            Self::Runs { rows, .. } | Self::Sorted { rows, .. } => rows.len(),
        }
    }

    /// A number of distinct values that the column does not exceed.
    pub(crate) fn most_knots(&self) -> usize {
        match self {
            Self::Coded { values, .. }
            | Self::Runs { values, .. }
            | Self::Sorted { values, .. } => values.len(),
        }
    }

    /// The largest value; 0 in an empty column.
    pub(crate) fn largest(&self) -> f64 {
        match self {
            Self::Coded { values, .. }
            | Self::Runs { values, .. }
            | Self::Sorted { values, .. } => values.last().copied().unwrap_or(0.0),
        }
    }

    /// Memory held, in bytes.
    pub(crate) fn n_bytes(&self) -> usize {
        match self {
            Self::Coded { values, codes } => size_of_val(&values[..]) + codes.len(),
            Self::Runs { values, starts, rows } => {
                size_of_val(&values[..]) + size_of_val(&starts[..]) + size_of_val(&rows[..])
            }
            Self::Sorted { values, rows } => size_of_val(&values[..]) + size_of_val(&rows[..]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries of so many values, each in so many rows.
    fn encoded(n_values: usize, each: usize, n_rows: usize) -> Column {
        let value = |k: usize| (1.5 + (k / each) as f64).to_bits();
        let pairs: Vec<_> = (0..n_values * each).map(|k| (value(k), k as u32)).collect();
        Column::encode(&pairs, n_rows).unwrap()
    }

    #[test]
    fn a_column_takes_the_encoding_of_its_values() {
        let cases = [
            // One byte a row, and zero beside the values.
            (255, 2, 2040, 0, 8 * 256 + 2040),
            // A code more than there are.
            (256, 2, 2040, 1, 8 * 256 + 4 * 257 + 4 * 512),
            // Less than a quarter of the rows.
            (255, 2, 2041, 1, 8 * 255 + 4 * 256 + 4 * 510),
            (3, 2, 100, 1, 8 * 3 + 4 * 4 + 4 * 6),
            (3, 1, 100, 2, 12 * 3),
            (0, 1, 100, 2, 0),
        ];
        for (n_values, each, n_rows, kind, n_bytes) in cases {
            let column = encoded(n_values, each, n_rows);
            let found = match &column {
                Column::Coded { .. } => 0,
                Column::Runs { .. } => 1,
                Column::Sorted { .. } => 2,
            };
            assert_eq!((found, column.n_bytes()), (kind, n_bytes), "{n_values} {each} {n_rows}");
            let values: Vec<f64> = (0..n_values).map(|k| 1.5 + k as f64).collect();
            assert_eq!(column.distinct().unwrap(), (values, vec![each; n_values]));
            let mut rows = Vec::new();
            column.for_each(|row, value| rows.push((row, value)));
            let want: Vec<_> =
                (0..n_values * each).map(|k| (k as u32, 1.5 + (k / each) as f64)).collect();
            assert_eq!(rows, want);
        }
    }

    #[test]
    fn equal_values_that_are_sorted_are_counted_together() {
        let pairs: Vec<_> = [1.0, 2.0, 2.0, 3.0].map(f64::to_bits).into_iter().zip(0..).collect();
        let column = Column::encode(&pairs, 100).unwrap();
        assert!(matches!(column, Column::Sorted { .. }));
        assert_eq!(column.distinct().unwrap(), (vec![1.0, 2.0, 3.0], vec![1, 2, 1]));
    }
}
