//! Every column sorted once, zeros left out.

use std::ops::Range;
use std::sync::OnceLock;

use crate::error::Result;
use crate::exec::{Executor, balanced_blocks};
use crate::intersection::coded_rows::CodedRows;
use crate::intersection::sort::Sorter;
use crate::matrix::{ColumnEntries, HistogramMatrix};
use crate::memory;
use crate::simd::Element;

/// Distinct values, zero among them, that a one-byte code can name.
pub(crate) const MAX_CODES: usize = 256;

/// A column in the encoding that costs least for its values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Column {
    /// Few distinct values, most rows stored: `values[codes[i]]` is the entry of row `i` and
    /// `values[0]` is 0. One byte a row, and tables that stay in the first-level cache.
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

    fn n_bytes(&self) -> usize {
        match self {
            Self::Coded { values, codes } => size_of_val(&values[..]) + codes.len(),
            Self::Runs { values, starts, rows } => {
                size_of_val(&values[..]) + size_of_val(&starts[..]) + size_of_val(&rows[..])
            }
            Self::Sorted { values, rows } => size_of_val(&values[..]) + size_of_val(&rows[..]),
        }
    }
}

/// A training set with every column in ascending order, zeros left out.
///
/// Sorting takes `O(N D log N)` once; afterwards `K V` costs one pass over the stored values.
#[derive(Debug, Clone)]
pub struct SortedColumns {
    n_rows: usize,
    columns: Vec<Column>,
    /// Columns of few values by rows, made for the first product.
    coded_rows: OnceLock<CodedRows>,
}

impl PartialEq for SortedColumns {
    fn eq(&self, other: &Self) -> bool {
        self.n_rows == other.n_rows && self.columns == other.columns
    }
}

/// Column blocks are the unit of parallel work and of summation; their number must not depend on
/// the number of threads, or results would.
const COLUMN_BLOCKS: usize = 8;

impl SortedColumns {
    /// Sorts the columns of `x`, in parallel.
    ///
    /// # Errors
    ///
    /// [`Error::Negative`](crate::Error::Negative) or
    /// [`Error::NotFinite`](crate::Error::NotFinite) at the first bad entry,
    /// [`Error::TooManyRows`](crate::Error::TooManyRows) above `u32::MAX` rows.
    pub fn new<T: Element>(exec: &Executor, x: &HistogramMatrix<'_, T>) -> Result<Self> {
        // The count of rows is known before any entry is read.
        let reader = x.by_columns(exec)?;
        x.check(exec, "X")?;
        let n_rows = x.n_rows();
        // Sixteen columns a block: neighbours share the cache lines of a row-major matrix.
        let n_columns = reader.n_columns();
        let blocks = exec.map_blocks(n_columns.div_ceil(16), |block| {
            let mut entries = ColumnEntries::default();
            let mut sorter = Sorter::default();
            (block * 16..n_columns.min((block + 1) * 16))
                .map(|d| {
                    exec.check()?;
                    reader.read(d, &mut entries)?;
                    Column::encode(sorter.sort(&entries)?, n_rows)
                })
                .collect::<Result<Vec<_>>>()
        })?;
        Ok(Self::from_columns(n_rows, blocks.into_iter().flatten().collect()))
    }

    /// Number of rows N.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Number of columns D.
    #[must_use]
    pub fn n_columns(&self) -> usize {
        self.columns.len()
    }

    /// Number of stored values a product passes over.
    #[must_use]
    pub fn n_stored(&self) -> usize {
        self.columns.iter().map(Column::n_stored).sum()
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(Column::n_bytes).sum();
        columns + self.coded_rows.get().map_or(0, CodedRows::n_bytes)
    }

    /// The largest value of every column; 0 for a column of zeros.
    #[must_use]
    pub fn maxima(&self) -> Vec<f64> {
        self.columns
            .iter()
            .map(|c| match c {
                Column::Coded { values, .. }
                | Column::Runs { values, .. }
                | Column::Sorted { values, .. } => values.last().copied().unwrap_or(0.0),
            })
            .collect()
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(crate) fn from_columns(n_rows: usize, columns: Vec<Column>) -> Self {
        Self { n_rows, columns, coded_rows: OnceLock::new() }
    }

    /// Columns of few values by rows.
    pub(crate) fn coded_rows(&self, exec: &Executor) -> Result<&CodedRows> {
        if let Some(rows) = self.coded_rows.get() {
            return Ok(rows);
        }
        let rows = CodedRows::new(exec, self.n_rows, &self.columns)?;
        Ok(self.coded_rows.get_or_init(|| rows))
    }

    /// Column blocks of nearly equal work.
    pub(crate) fn blocks(&self) -> Vec<Range<usize>> {
        column_blocks(self.columns.iter())
    }
}

/// Blocks of consecutive columns of nearly equal work.
pub(crate) fn column_blocks<'a>(columns: impl Iterator<Item = &'a Column>) -> Vec<Range<usize>> {
    let weights: Vec<usize> = columns.map(|c| c.n_stored() + 1).collect();
    balanced_blocks(&weights, COLUMN_BLOCKS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, array};

    fn entries(column: &Column) -> Vec<(u32, f64)> {
        let mut all = Vec::new();
        column.for_each(|row, value| all.push((row, value)));
        all.sort_by_key(|e| e.0);
        all
    }

    #[test]
    fn every_encoding_keeps_every_entry() {
        let exec = Executor::new(2).unwrap();
        let n = 400;
        let x = Array2::from_shape_fn((n, 4), |(i, d)| match d {
            0 => (i % 7) as f64,
            1 => (i as f64).sqrt(),
            2 if i % 50 == 0 => 2.0,
            _ => 0.0,
        });
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        assert!(matches!(columns.columns[0], Column::Coded { .. }));
        assert!(matches!(columns.columns[1], Column::Sorted { .. }));
        assert!(matches!(columns.columns[2], Column::Runs { .. }));
        for (d, column) in columns.columns.iter().enumerate() {
            let expected: Vec<_> = (0..).zip(x.column(d).to_vec()).filter(|e| e.1 > 0.0).collect();
            assert_eq!(entries(column), expected, "column {d}");
            let (values, counts) = column.distinct().unwrap();
            assert!(values.windows(2).all(|w| w[0] < w[1]));
            assert_eq!(counts.iter().sum::<usize>(), expected.len());
        }
    }

    #[test]
    fn empty_matrices_are_matrices() {
        let exec = Executor::new(1).unwrap();
        for shape in [(0, 0), (0, 3), (3, 0)] {
            let x = Array2::<f64>::zeros(shape);
            let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
            assert_eq!((columns.n_rows(), columns.n_columns()), shape);
        }
        let x = array![[0.0_f32, 2.0]];
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        assert_eq!(columns.maxima(), vec![0.0, 2.0]);
    }
}
