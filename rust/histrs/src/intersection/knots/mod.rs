//! The kernel projected on a few knots per column, which preconditions the exact one.
//!
//! `min(x, y)` is the covariance of Brownian motion. Given its values at knots
//! `0 < z_1 < ... < z_q`, linear interpolation is the mean of the motion. So the knots explain the
//! part `phi(x)^T K_ZZ phi(y)` of the kernel. Here `phi` are the hat functions on the knots,
//! `K_ZZ[k, l] = min(z_k, z_l)`, and `K_ZZ^-1` is tridiagonal. The rest are Brownian bridges
//! between neighbouring knots, whose covariance shrinks with the square of their number.

mod column;
mod gram;
mod products;

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::intersection::columns::SortedColumns;
use crate::intersection::knots::column::KnotColumn;
use crate::matrix::row_numbers;
use crate::memory;

/// Knots that a one-byte cell number allows.
const MAX_KNOTS: usize = 255;

/// Hat functions on knots among the values of every column, evaluated at the training rows.
///
/// The matrix `Phi` of `n_rows` by [`n_features`](Self::n_features) holds two values for every
/// stored entry and is kept in that form. It is the caller's to combine it with `K_ZZ`: the
/// regularised inverse is
///
/// ```text
/// (Phi K_ZZ Phi^T + s I)^-1 = (1/s) (I - Phi (Phi^T Phi + s K_ZZ^-1)^-1 Phi^T)
/// ```
#[derive(Debug, Clone)]
pub struct KnotProjection {
    n_rows: usize,
    /// Number of columns of the rows.
    n_columns: usize,
    /// Those of them that have knots, ascending.
    numbers: Vec<usize>,
    columns: Vec<KnotColumn>,
    /// Features of the `k`-th of these are `offsets[k]..offsets[k + 1]`.
    offsets: Vec<usize>,
}

impl KnotProjection {
    /// Projects on at most `n_knots` of the non-zero values of every column, chosen so that the number
    /// of rows between neighbours times their distance is nearly the same for all.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless `1 <= n_knots <= 255`.
    pub fn new(exec: &Executor, columns: &SortedColumns, n_knots: usize) -> Result<Self> {
        if !(1..=MAX_KNOTS).contains(&n_knots) {
            return Err(Error::parameter("n_knots", n_knots, "1 to 255 knots per column"));
        }
        let (n_rows, n_columns) = (columns.n_rows(), columns.n_columns());
        let numbers = memory::copied(columns.numbers())?;
        let columns = exec.map_blocks(numbers.len(), |k| {
            KnotColumn::new(&columns.columns()[k], n_rows, n_knots)
        })?;
        let mut offsets = vec![0];
        for column in &columns {
            offsets.push(offsets[offsets.len() - 1] + column.knots.len());
        }
        Ok(Self { n_rows, n_columns, numbers, columns, offsets })
    }

    /// The projection of other rows on the same knots; a value above the last one counts as that.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when there is another number of columns.
    pub fn of_rows(&self, exec: &Executor, columns: &SortedColumns) -> Result<Self> {
        check_columns_of(self, columns.n_columns())?;
        let columns_of_rows = exec.map_blocks(self.columns.len(), |k| {
            let knots = self.columns[k].knots.clone();
            KnotColumn::place(columns.column(self.numbers[k]), columns.n_rows(), knots)
        })?;
        Ok(self.with_columns(columns.n_rows(), columns_of_rows))
    }

    /// These rows and, behind them, those of another projection on the same knots.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when the other has another number of columns, or of columns with knots.
    pub fn concatenate(&self, exec: &Executor, other: &Self) -> Result<Self> {
        check_columns_of(self, other.n_columns)?;
        let cure = "give a projection on the same knots";
        let found = other.columns.len();
        check_length("the number of columns with knots", found, self.columns.len(), cure)?;
        for (own, other) in self.columns.iter().zip(&other.columns) {
            let what = "the number of knots of a column";
            check_length(what, other.knots.len(), own.knots.len(), cure)?;
        }
        let n_rows = self.n_rows + other.n_rows;
        let columns = exec.map_blocks(self.columns.len(), |d| {
            let entries = self.columns[d].entries(0).chain(other.columns[d].entries(self.n_rows));
            KnotColumn::collect(self.columns[d].knots.clone(), n_rows, entries)
        })?;
        Ok(self.with_columns(n_rows, columns))
    }

    /// Some of the rows, in ascending order.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] for a row number that is not there.
    pub fn select(&self, exec: &Executor, rows: &[i64]) -> Result<Self> {
        let mut number = memory::filled(None, self.n_rows)?;
        for row in row_numbers("rows", rows, self.n_rows)? {
            number[row] = Some(0);
        }
        let mut n_rows = 0;
        for number in number.iter_mut().flatten() {
            *number = n_rows;
            n_rows += 1;
        }
        let columns = exec.map_blocks(self.columns.len(), |d| {
            let column = &self.columns[d];
            let entries = column.entries(0).filter_map(|(row, cell)| Some((number[row]?, cell)));
            KnotColumn::collect(column.knots.clone(), n_rows, entries)
        })?;
        Ok(self.with_columns(n_rows, columns))
    }

    fn with_columns(&self, n_rows: usize, columns: Vec<KnotColumn>) -> Self {
        let (numbers, offsets) = (self.numbers.clone(), self.offsets.clone());
        Self { n_rows, n_columns: self.n_columns, numbers, columns, offsets }
    }

    /// Number of rows N.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Number of knots of all columns together.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.offsets[self.columns.len()]
    }

    /// Diagonal and superdiagonal of `K_ZZ^-1`, which is block diagonal by columns and
    /// tridiagonal in each; the superdiagonal is 0 between columns and at the end.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub fn inverse_kernel(&self) -> Result<(Vec<f64>, Vec<f64>)> {
        let mut diagonal = memory::filled(0.0, self.n_features())?;
        let mut upper = memory::filled(0.0, self.n_features())?;
        for (column, &start) in self.columns.iter().zip(&self.offsets) {
            let mut previous = 0.0;
            for (k, &knot) in column.knots.iter().enumerate() {
                let precision = 1.0 / (knot - previous);
                previous = knot;
                diagonal[start + k] += precision;
                if k > 0 {
                    diagonal[start + k - 1] += precision;
                    upper[start + k - 1] = -precision;
                }
            }
        }
        Ok((diagonal, upper))
    }
}

fn check_rows(what: &'static str, found: usize, expected: usize) -> Result<()> {
    check_length(what, found, expected, "give one row for every row of the projection")
}

fn check_columns_of(projection: &KnotProjection, found: usize) -> Result<()> {
    check_length(
        "the number of columns",
        found,
        projection.n_columns,
        "give rows with the columns of the projection",
    )
}
