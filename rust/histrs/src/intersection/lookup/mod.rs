//! The table T: scores in constant time per value, with a certified error.

mod bytes;
mod cells;
mod moments;
mod scores;

use ndarray::{Array1, Array2, ArrayView2};

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::intersection::column::Column;
use crate::intersection::columns::SortedColumns;
use crate::intersection::lookup::bytes::{ByteTable, Fitted, Steps, fit_column};
use crate::intersection::lookup::cells::{Cells, linear_cells, nearest_cells};
use crate::intersection::lookup::moments::Moments;
use crate::intersection::lookup::scores::Placed;
use crate::intersection::shape::{ShapeFunctions, rows_at_once};
use crate::matrix::{COLUMNS_OF_X, HistogramMatrix, check_columns};
use crate::memory;
use crate::simd::{AlignedVec, BYTE_CELLS, Element, lanes};

/// Test rows scored together: enough to pay for bringing a column's cells into the cache, and
/// fewer when there are few, so that all threads have some.
const ROWS: std::ops::RangeInclusive<usize> = 64..=1024;
/// Columns added in single precision before they are added up in double precision.
const COLUMNS: usize = 64;

/// Cells from which on a table may be of bytes: fewer take less memory than those.
const LEAST_BINS: usize = 64;
/// Tables of bytes are taken if the errors of scores of the training rows are no larger than with
/// other tables. They may be so many times as large, if that is at most so little of the spread;
const ERROR_FACTOR: f64 = 2.0;
const SMALL: f64 = 0.0125;
/// or, where the others have no more cells, by so little of the largest spread of an output.
const NEGLIGIBLE: f64 = 0.001;

/// What a cell of the table stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interpolation {
    /// A value and a slope per cell, cells between training values, chosen so that the number of
    /// training values times the width is nearly the same for all. Exact where a column has no
    /// more distinct values than cells.
    Linear,
    /// The paper's table (eq. 10): one value for each of `n_bins` prototypes, evenly spaced from 0
    /// to the largest training value `u_d` of the column.
    Nearest,
}

/// The table T of a score `sum_d f_d(x(d))` with at most `n_bins` cells per column (eq. 10).
///
/// Theorem 1 of the paper bounds the error by `D eps |alpha|_1 / 2`, whose factor one half needs
/// rounding to keep the norm of the histogram, which it does not in general. Here the error of
/// every column is measured where it can be largest, at the training values and at the ends of the
/// cells. So [`error_bound`](Self::error_bound) holds for every non-negative `x`. It is never
/// larger than `|alpha|_1 sum_d |x(d) - q(x(d))|`, apart from single-precision rounding, which is
/// included.
#[derive(Debug, Clone)]
pub struct LookupTable {
    n_columns: usize,
    /// The columns that the table is of, ascending, where most are empty; all of them otherwise.
    held: Option<Vec<usize>>,
    n_outputs: usize,
    /// The table in bytes, in place of the columns.
    bytes: Option<ByteTable>,
    /// Outputs padded to whole vectors.
    width: usize,
    columns: Vec<Cells>,
    /// What an entry of the tables is worth, which keeps huge and tiny scores in single precision.
    scale: Vec<f64>,
    error_bound: Vec<f64>,
}

impl LookupTable {
    /// Tabulates the score with weights `alpha`, one output per column of `alpha`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `alpha` has not one row for every stored row, [`Error::Parameter`]
    /// unless `2 <= n_bins <= 65535`.
    pub fn new<T: Element>(
        exec: &Executor,
        columns: &SortedColumns,
        alpha: ArrayView2<'_, T>,
        n_bins: usize,
        interpolation: Interpolation,
    ) -> Result<Self> {
        Self::tabulate(exec, columns, alpha, n_bins, interpolation, None)
    }

    /// The same with linear cells, or with 128 cells per column whose values are of one byte, or of
    /// two in as many columns as it takes. Cells of bytes are looked up several times faster. They
    /// are taken for 64 cells or more, if the errors of scores of the training rows are no larger
    /// than otherwise. The errors may be twice as large, if they are at most an 80th of the scores'
    /// standard deviation. For 128 cells or fewer, they may also be a thousandth of the largest
    /// standard deviation of an output. Outputs are taken to be in one unit, as scores of classes
    /// are. Errors are root mean squares, as if the columns erred independently of each other;
    /// [`error_bound`](Self::error_bound) holds in any case.
    ///
    /// Cells of bytes are equally wide, or double their width one, three or seven times towards the
    /// largest value, whichever suits the column. Small multiples of one number are edges or
    /// middles of cells.
    ///
    /// A table of bytes takes rows before they are multiplied by `weights`, which the columns have
    /// been; any other takes rows as the columns are.
    ///
    /// # Errors
    ///
    /// As [`LookupTable::new`]; [`Error::Shape`] when there is not one weight per column.
    pub fn compact<T: Element>(
        exec: &Executor,
        columns: &SortedColumns,
        alpha: ArrayView2<'_, T>,
        n_bins: usize,
        weights: Option<&[f64]>,
    ) -> Result<Self> {
        if let Some(weights) = weights {
            let cure = "give one weight for each feature";
            check_length("the number of weights", weights.len(), columns.n_columns(), cure)?;
        }
        let compact = (n_bins >= LEAST_BINS).then_some(weights);
        Self::tabulate(exec, columns, alpha, n_bins, Interpolation::Linear, compact)
    }

    fn tabulate<T: Element>(
        exec: &Executor,
        columns: &SortedColumns,
        alpha: ArrayView2<'_, T>,
        n_bins: usize,
        interpolation: Interpolation,
        compact: Option<Option<&[f64]>>,
    ) -> Result<Self> {
        if !(2..=usize::from(u16::MAX)).contains(&n_bins) {
            return Err(Error::parameter("n_bins", n_bins, "2 to 65535 cells per column"));
        }
        columns.check_rows(alpha.nrows())?;
        if 2 * columns.numbers().len() < columns.n_columns() {
            let held = memory::copied(columns.numbers())?;
            let weights = compact.flatten().map(|w| memory::collected(held.iter().map(|&d| w[d])));
            let weights = weights.transpose()?;
            let compact = compact.map(|_| weights.as_deref());
            let narrow = columns.without_empty()?;
            let table = Self::tabulate(exec, &narrow, alpha, n_bins, interpolation, compact)?;
            return Ok(Self { n_columns: columns.n_columns(), held: Some(held), ..table });
        }
        let scale = output_scales(columns, alpha)?;
        // One vector at least: cells have a size even when nobody asks for a score.
        let width = alpha.ncols().max(1).next_multiple_of(lanes::<f32>());
        let (n_columns, n_outputs) = (columns.n_columns(), alpha.ncols());
        let mut error_bound = memory::filled(0.0, n_outputs)?;
        let mut moments = memory::filled(Moments::default(), n_outputs)?;
        let n_rows = columns.n_rows();
        let mut tables = memory::with_capacity(n_columns)?;
        let mut fits: Option<Vec<Fitted>> = (compact.is_some() && n_outputs > 0).then(Vec::new);
        for range in columns.function_ranges(n_outputs) {
            let first = range.start;
            let functions = ShapeFunctions::of_range(exec, columns, alpha, range)?;
            let fitted = fits.is_some();
            let built = exec.map_blocks(functions.n_columns(), |d| {
                let counts = columns.column(first + d).distinct()?.1;
                let (knots, values) = functions.column(d)?;
                let scaled = &values / &scale;
                let weight = compact.flatten().map_or(1.0, |weights| weights[first + d]);
                let rows = (&counts[..], n_rows);
                let fit = if fitted { fit_column(knots, weight, &scaled, rows)? } else { None };
                let table = tabulate((knots, values, &scaled), rows, n_bins, width, interpolation)?;
                Ok((table, fit))
            })?;
            for ((cells, errors, of_column), fit) in built {
                for ((bound, error), scale) in error_bound.iter_mut().zip(errors).zip(&scale) {
                    *bound += error * scale;
                }
                moments.iter_mut().zip(of_column).for_each(|(all, one)| all.add(one));
                tables.push(cells);
                match (&mut fits, fit) {
                    (Some(fits), Some(fit)) => memory::push(fits, fit)?,
                    _ => fits = None,
                }
            }
        }
        let scale = scale.to_vec();
        let mut table = Self {
            n_columns,
            held: None,
            n_outputs,
            bytes: None,
            width,
            columns: tables,
            scale,
            error_bound,
        };
        if let Some(fits) = fits
            && ByteTable::is_exact(n_columns)
            && let Some(steps) =
                good_enough(exec, columns, alpha, (&table, n_bins), (&fits, &moments))?
        {
            let bytes = ByteTable::new(&fits, steps, &table.scale)?;
            table.error_bound = bytes.error_bound().to_vec();
            table.columns = Vec::new();
            table.bytes = Some(bytes);
        }
        Ok(table)
    }

    /// Whether the table is of bytes.
    #[must_use]
    pub fn is_compact(&self) -> bool {
        self.bytes.is_some()
    }

    /// For every output a number that `|score - tabulated score|` never exceeds.
    #[must_use]
    pub fn error_bound(&self) -> &[f64] {
        &self.error_bound
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.columns.iter().map(|c| c.n_bytes()).sum::<usize>()
            + self.held.as_ref().map_or(0, |held| size_of_val(&held[..]))
            + self.bytes.as_ref().map_or(0, ByteTable::n_bytes)
    }

    /// The tabulated score of every row of `x`, of shape `(n_rows, n_outputs)`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `x` has another number of columns, [`Error::Negative`] or
    /// [`Error::NotFinite`] at its first bad entry.
    pub fn predict<T: Element>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
    ) -> Result<Array2<f64>> {
        check_columns(COLUMNS_OF_X, x, self.n_columns)?;
        match &self.held {
            None => self.evaluate_held(exec, x),
            Some(held) => {
                x.check(exec, "X")?;
                self.evaluate_held(exec, &x.select(exec, held)?.view()?)
            }
        }
    }

    /// The score of rows that have the columns of the table alone.
    fn evaluate_held<T: Element>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
    ) -> Result<Array2<f64>> {
        if let Some(bytes) = &self.bytes {
            return bytes.evaluate(exec, x);
        }
        x.check(exec, "X")?;
        let mut out = memory::zero_matrix((x.n_rows(), self.n_outputs))?;
        let n_outputs = self.n_outputs;
        let flat = memory::flat_mut(&mut out)?;
        let block_rows = rows_at_once(x.n_rows(), &ROWS);
        exec.for_chunks(flat, block_rows * n_outputs, |block, out| {
            let mut sums = AlignedVec::zeros(block_rows * self.width)?;
            let mut placed = Placed::default();
            let (start, n_rows) = (block * block_rows, out.len() / n_outputs);
            for first in (0..self.columns.len()).step_by(COLUMNS) {
                let end = self.columns.len().min(first + COLUMNS);
                sums.fill(0.0);
                self.add_columns(x, start..start + n_rows, first..end, &mut placed, &mut sums)?;
                let sums = sums.chunks_exact(self.width);
                for (out, sums) in out.chunks_exact_mut(n_outputs).zip(sums) {
                    for ((out, &sum), scale) in out.iter_mut().zip(sums).zip(&self.scale) {
                        *out += f64::from(sum) * scale;
                    }
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// The same for rows of bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `x` has another number of columns.
    pub fn predict_bytes(&self, exec: &Executor, x: ArrayView2<'_, u8>) -> Result<Array2<f64>> {
        let is_whole = self.held.is_none() && x.ncols() == self.n_columns;
        if let Some(bytes) = self.bytes.as_ref().filter(|_| is_whole) {
            return Ok(bytes.evaluate_dense(exec, &x)?.0);
        }
        let single = memory::collected(x.iter().map(|&value| f32::from(value)))?;
        let shaped = ArrayView2::from_shape(x.dim(), &single)
            .map_err(|_| Error::out_of_memory::<f32>(&[x.nrows(), x.ncols()]))?;
        self.predict(exec, &HistogramMatrix::dense(shaped))
    }
}

/// The cells of one column, and for every output how far they are off, both in units of `scale`.
fn tabulate(
    (knots, values, scaled): (&[f64], ArrayView2<'_, f64>, &Array2<f64>),
    rows: (&[usize], usize),
    n_bins: usize,
    width: usize,
    interpolation: Interpolation,
) -> Result<(Cells, Vec<f64>, Vec<Moments>)> {
    let cells = match interpolation {
        Interpolation::Linear => linear_cells(knots, rows.0, scaled.view(), n_bins, width)?,
        Interpolation::Nearest => nearest_cells(knots, scaled.view(), n_bins, width)?,
    };
    let (mut errors, moments) = cells.errors(knots, scaled.view(), width, rows)?;
    // Values far below the scale vanish.
    for (error, values) in errors.iter_mut().zip(values.columns()) {
        if values.iter().any(|&value| value != 0.0) {
            *error += f64::from(f32::MIN_POSITIVE);
        }
    }
    Ok((cells, errors, moments))
}

/// The steps of a table of few bytes that is as good as the other one, of `n_bins` cells that are off
/// by `moments`.
fn good_enough<T: Element>(
    exec: &Executor,
    columns: &SortedColumns,
    alpha: ArrayView2<'_, T>,
    (table, n_bins): (&LookupTable, usize),
    (fits, moments): (&[Fitted], &[Moments]),
) -> Result<Option<Steps>> {
    // Who asks for more cells than those of bytes wants what only more cells can give.
    let share = if n_bins <= BYTE_CELLS { NEGLIGIBLE } else { 0.0 };
    let spreads = spreads(exec, columns, alpha, &table.scale)?;
    let in_one_unit = spreads.iter().zip(&table.scale).map(|(spread, scale)| spread * scale);
    let largest = in_one_unit.fold(0.0, f64::max).min(f64::MAX);
    let limits = moments.iter().zip(&spreads).zip(&table.scale).map(|((other, spread), scale)| {
        let small = (ERROR_FACTOR * other.rms()).min(SMALL * spread);
        other.rms().max(small).max(share * largest / scale)
    });
    Steps::within(fits, &memory::collected(limits)?)
}

/// The standard deviation of every score over the training rows, in units of `scale`.
fn spreads<T: Element>(
    exec: &Executor,
    columns: &SortedColumns,
    alpha: ArrayView2<'_, T>,
    scale: &[f64],
) -> Result<Vec<f64>> {
    let scores = columns.product(exec, alpha)?;
    let n_rows = scores.nrows().max(1) as f64;
    memory::collected(scores.columns().into_iter().zip(scale).map(|(scores, scale)| {
        let mean = scores.iter().map(|s| s.to_f64() / scale).sum::<f64>() / n_rows;
        let square = |s: &T| (s.to_f64() / scale - mean).powi(2);
        (scores.iter().map(square).sum::<f64>() / n_rows).sqrt()
    }))
}

/// For every output a size that no `|f_d|` exceeds: `|alpha|_1 max_d u_d`.
fn output_scales<T: Element>(
    columns: &SortedColumns,
    alpha: ArrayView2<'_, T>,
) -> Result<Array1<f64>> {
    let largest = columns.columns().iter().map(Column::largest).fold(0.0, f64::max);
    let mut scales = memory::with_capacity(alpha.ncols())?;
    scales.extend(alpha.columns().into_iter().map(|alpha| {
        let scale = largest * alpha.iter().map(|a| a.to_f64().abs()).sum::<f64>();
        if scale > 0.0 { scale.min(f64::MAX) } else { 1.0 }
    }));
    Ok(Array1::from_vec(scales))
}
