//! The exact piecewise-linear functions `f_d`: tables A and B.

use std::ops::{Range, RangeInclusive};

use ndarray::{Array2, ArrayView2, s};
use pulp::Simd;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::intersection::column::Column;
use crate::intersection::columns::SortedColumns;
use crate::intersection::knot_ranges::KnotRanges;
use crate::intersection::panel::{MAX_WIDTH, Panel, PanelKernel, panel_widths, run_kernel};
use crate::intersection::scan::column_table;
use crate::intersection::transform::{Transform, check_weights};
use crate::matrix::{COLUMNS_OF_X, HistogramMatrix, check_columns, visit_rows};
use crate::memory;
use crate::simd::{Element, Vectors, vectorized};

/// Test rows scored together, so that a column's knots are brought into the cache for many, and
/// fewer when there are few, so that all threads have some.
const ROWS: RangeInclusive<usize> = 64..=4096;
/// Entries that are placed before their functions are added.
const PLACED: usize = 1024;
/// Blocks of rows that there should be.
const ROW_BLOCKS: usize = 8;

/// How many of `n_rows` test rows are scored together, at most as many as `rows` allows.
pub(crate) fn rows_at_once(n_rows: usize, rows: &RangeInclusive<usize>) -> usize {
    n_rows.div_ceil(ROW_BLOCKS).clamp(*rows.start(), *rows.end())
}
/// Bytes of functions that are held at a time where they are not kept.
const FUNCTION_BYTES: usize = 64 << 20;

/// The score `sum_i alpha_i k(x_i, x) = sum_d f_d(x(d))` taken apart by dimension (eqs. 6 to 8).
///
/// Every `f_d` is continuous and linear between neighbouring training values (its *knots*), zero
/// at zero and constant above the largest value. It is stored as its values at the knots; the
/// line to the right of a knot is `A + x B` with the paper's tables A and B, see
/// [`intercepts_and_slopes`](Self::intercepts_and_slopes).
#[derive(Debug, Clone)]
pub struct ShapeFunctions {
    /// Where the knots of each column are; the first of each is 0.
    ranges: KnotRanges,
    knots: Vec<f64>,
    /// `f_d` at each knot, of shape `(n_knots, n_outputs)`.
    values: Array2<f64>,
}

impl ShapeFunctions {
    /// The functions of every column for weights `alpha`, one output per column of `alpha`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) when `alpha` has not one row for every stored row.
    pub fn new<T: Element>(
        exec: &Executor,
        columns: &SortedColumns,
        alpha: ArrayView2<'_, T>,
    ) -> Result<Self> {
        Self::of_range(exec, columns, alpha, 0..columns.n_columns())
    }

    pub(crate) fn of_range<T: Element>(
        exec: &Executor,
        columns: &SortedColumns,
        alpha: ArrayView2<'_, T>,
        range: Range<usize>,
    ) -> Result<Self> {
        columns.check_rows(alpha.nrows())?;
        let numbers = columns.numbers();
        let [first, last] = [range.start, range.end].map(|d| numbers.partition_point(|&n| n < d));
        let (numbers, columns) = (&numbers[first..last], &columns.columns()[first..last]);
        let mut knots = memory::with_capacity(columns.len() + 1)?;
        knots.push(vec![0.0]);
        knots.extend(exec.map_blocks(columns.len(), |k| {
            let distinct = columns[k].distinct()?.0;
            let mut knots = memory::with_capacity(distinct.len() + 1)?;
            knots.push(0.0);
            knots.extend(distinct);
            Ok(knots)
        })?);
        let held = numbers.iter().zip(&knots[1..]);
        let held = held.map(|(&d, knots)| (d - range.start, knots.len()));
        let ranges = KnotRanges::new(range.len(), held)?;
        let knots = memory::concatenated(&knots)?;
        let n_outputs = alpha.ncols();
        let mut values = memory::zeros((knots.len(), n_outputs))?;
        let mut start = 0;
        for width in panel_widths::<f64>(n_outputs, MAX_WIDTH) {
            let end = n_outputs.min(start + width);
            let panel = Panel::<f64>::pack(exec, alpha.slice(s![.., start..end]), width)?;
            let tables = exec.map_blocks(columns.len(), |k| {
                run_kernel::<f64, _>(width, ColumnTable { column: &columns[k], panel: &panel })
            })?;
            for (&d, table) in numbers.iter().zip(&tables) {
                // The row of the knot at zero stays zero.
                let rows = ranges.of(d - range.start).skip(1);
                for (row, values_at) in rows.zip(table.chunks_exact(width)) {
                    for (k, value) in values_at[..end - start].iter().enumerate() {
                        values[[row, start + k]] = *value;
                    }
                }
            }
            start = end;
        }
        Ok(Self { ranges, knots, values })
    }

    /// Number of columns D.
    #[must_use]
    pub fn n_columns(&self) -> usize {
        self.ranges.n_columns()
    }

    /// Number of outputs.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.values.ncols()
    }

    /// The knots of one column in ascending order, beginning with 0, and `f_d` at each.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchColumn`](crate::Error::NoSuchColumn).
    pub fn column(&self, d: usize) -> Result<(&[f64], ArrayView2<'_, f64>)> {
        let n_columns = self.n_columns();
        if d >= n_columns {
            return Err(Error::NoSuchColumn { column: d, n_columns });
        }
        let range = self.ranges.of(d);
        Ok((&self.knots[range.clone()], self.values.slice(s![range, ..])))
    }

    /// The paper's tables for one column: between knot `k` and the next, `f_d(x) = A_k + x B_k`.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchColumn`](crate::Error::NoSuchColumn).
    pub fn intercepts_and_slopes(&self, d: usize) -> Result<(Array2<f64>, Array2<f64>)> {
        let (knots, values) = self.column(d)?;
        let mut intercepts = memory::zero_matrix(values.dim())?;
        intercepts.assign(&values);
        let mut slopes = memory::zero_matrix(values.dim())?;
        for k in 0..knots.len().saturating_sub(1) {
            for output in 0..values.ncols() {
                let rise = values[[k + 1, output]] - values[[k, output]];
                let slope = rise / (knots[k + 1] - knots[k]);
                slopes[[k, output]] = slope;
                intercepts[[k, output]] = values[[k, output]] - knots[k] * slope;
            }
        }
        Ok((intercepts, slopes))
    }

    /// The score of every row of `x`, of shape `(n_rows, n_outputs)` (eq. 8).
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) when `x` has another number of columns, [`Error::Negative`](crate::Error::Negative) or
    /// [`Error::NotFinite`](crate::Error::NotFinite) at its first bad entry.
    pub fn predict<T: Element>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
    ) -> Result<Array2<f64>> {
        check_columns(COLUMNS_OF_X, x, self.n_columns())?;
        x.check(exec, "X")?;
        let mut out = memory::zero_matrix((x.n_rows(), self.n_outputs()))?;
        self.add_to(exec, x, 0, |_, value| Ok(value), &mut out)?;
        Ok(out)
    }

    /// The score of every row of `x` where the columns are of `w_d g(x(d))`: that of
    /// [`transform_rows`](crate::intersection::transform_rows), without these rows.
    ///
    /// # Errors
    ///
    /// As [`predict`](Self::predict) and
    /// [`transform_rows`](crate::intersection::transform_rows).
    pub fn predict_transformed<T: Element>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
        transform: &Transform,
        weights: Option<&[f64]>,
    ) -> Result<Array2<f64>> {
        check_columns(COLUMNS_OF_X, x, self.n_columns())?;
        transform.check()?;
        check_weights(weights, x.n_columns())?;
        x.check(exec, "X")?;
        let mut out = memory::zero_matrix((x.n_rows(), self.n_outputs()))?;
        let seen = |d: usize, value| transform.weighted(value, weights.map_or(1.0, |w| w[d]));
        self.add_to(exec, x, 0, seen, &mut out)?;
        Ok(out)
    }

    /// Adds the scores of rows as they are `seen`; column 0 of the functions is column `first` of `x`.
    fn add_to<T: Element>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
        first: usize,
        seen: impl Fn(usize, f64) -> Result<f64> + Sync,
        out: &mut Array2<f64>,
    ) -> Result<()> {
        let n_outputs = self.n_outputs();
        let (values, out) = (memory::flat(&self.values)?, memory::flat_mut(out)?);
        let block_rows = rows_at_once(x.n_rows(), &ROWS);
        exec.for_chunks(out, block_rows * n_outputs, |block, out| {
            let (start, n_rows) = (block * block_rows, out.len() / n_outputs);
            let mut placed = memory::with_capacity(PLACED)?;
            let mut add = |placed: &mut Vec<Place>| {
                add_placed(placed, values, n_outputs, &mut *out);
                placed.clear();
            };
            let mut failed = None;
            visit_rows(x, start, n_rows, first, self.n_columns(), |row, d, value| {
                match seen(d, value) {
                    Ok(value) => placed.push(self.place(row, d, value)),
                    Err(error) => failed = Some(error),
                }
                if placed.len() == PLACED {
                    add(&mut placed);
                }
            });
            add(&mut placed);
            failed.map_or(Ok(()), Err)
        })
    }

    /// Where a positive entry of a row lies between the knots of its column.
    #[inline]
    fn place(&self, row: usize, d: usize, x: f64) -> Place {
        let range = self.ranges.of(d);
        let knots = &self.knots[range.clone()];
        // Knot 0 is 0 and x is not negative, so that one knot at least is not above it.
        let k = knots.partition_point(|&z| z <= x).saturating_sub(1);
        match knots.get(k + 1) {
            Some(&next) => {
                let t = (x - knots[k]) / (next - knots[k]);
                Place { row, knot: range.start + k, t }
            }
            None => Place { row, knot: range.start + k, t: 0.0 },
        }
    }
}

/// An entry of a test row: the knot that is not above it, and how far it lies to the next one.
struct Place {
    row: usize,
    knot: usize,
    t: f64,
}

vectorized!(
    /// Adds the functions at some cells to the scores of their rows.
    fn add_placed<S: Simd>(
        simd: S,
        placed: &[Place],
        values: &[f64],
        n_outputs: usize,
        out: &mut [f64],
    ) {
        let n = n_outputs;
        for &Place { row, knot, t } in placed {
            let out = &mut out[row * n..(row + 1) * n];
            let at = &values[knot * n..(knot + 1) * n];
            // A knot at which nothing is left to the next may be the last of all.
            let next = if t > 0.0 { &values[(knot + 1) * n..(knot + 2) * n] } else { at };
            let (out, out_left) = S::as_mut_simd_f64s(out);
            let (at, at_left) = S::as_simd_f64s(at);
            let (next, next_left) = S::as_simd_f64s(next);
            let part = simd.splat_f64s(t);
            for ((out, &a), &b) in out.iter_mut().zip(at).zip(next) {
                *out = simd.add_f64s(*out, simd.mul_add_e_f64s(part, simd.sub_f64s(b, a), a));
            }
            for ((out, &a), &b) in out_left.iter_mut().zip(at_left).zip(next_left) {
                *out += a + t * (b - a);
            }
        }
    }
);

struct ColumnTable<'a> {
    column: &'a Column,
    panel: &'a Panel<f64>,
}

impl PanelKernel<f64> for ColumnTable<'_> {
    type Output = Result<Vec<f64>>;

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) -> Result<Vec<f64>> {
        let v = f64::vectors::<S>(&self.panel.data).0;
        let mut table = Vec::new();
        column_table::<f64, S, NV>(simd, self.column, v, &mut table)?;
        let mut flat = memory::filled(0.0, table.len() * S::F64_LANES)?;
        f64::vectors_mut::<S>(&mut flat).0.copy_from_slice(&table);
        Ok(flat)
    }
}

impl SortedColumns {
    /// The product `K(X*, X) V` with the kernel between the rows of `x` and the stored ones.
    ///
    /// The tables of a few columns are made, used and dropped at a time; to score many small
    /// batches with the same weights build [`ShapeFunctions`] once.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) when `x` has another number of columns or `v` another number of rows,
    /// [`Error::Negative`](crate::Error::Negative) or [`Error::NotFinite`](crate::Error::NotFinite) at the first bad entry of `x`.
    pub fn cross_product<T: Element, V: Element>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
        v: ArrayView2<'_, V>,
    ) -> Result<Array2<f64>> {
        check_columns(COLUMNS_OF_X, x, self.n_columns())?;
        self.check_rows(v.nrows())?;
        x.check(exec, "X")?;
        let mut out = memory::zero_matrix((x.n_rows(), v.ncols()))?;
        for range in self.function_ranges(v.ncols()) {
            let first = range.start;
            let functions = ShapeFunctions::of_range(exec, self, v, range)?;
            functions.add_to(exec, x, first, |_, value| Ok(value), &mut out)?;
        }
        Ok(out)
    }

    /// Ranges of columns whose functions are made together: those of one share the passes over the
    /// weights, and fit the memory that there is for them.
    pub(crate) fn function_ranges(&self, n_outputs: usize) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        let (mut first, mut bytes) = (0, 0);
        for (d, column) in self.numbered() {
            if d > first && bytes >= FUNCTION_BYTES {
                ranges.push(first..d);
                (first, bytes) = (d, 0);
            }
            bytes += column.most_knots() * (n_outputs + 1) * size_of::<f64>();
        }
        if first < self.n_columns() {
            ranges.push(first..self.n_columns());
        }
        ranges
    }

    /// Number of knots that [`ShapeFunctions`] of these columns hold.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn n_knots(&self) -> Result<usize> {
        self.columns()
            .iter()
            .map(|c| Ok(c.distinct()?.0.len() + 1))
            .sum::<Result<usize>>()
            .map(|n| n + 1)
    }
}
