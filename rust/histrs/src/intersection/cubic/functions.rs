//! The splines that scores are sums of.

use ndarray::{Array2, ArrayView2};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::intersection::column::Column;
use crate::intersection::columns::SortedColumns;
use crate::intersection::knot_ranges::KnotRanges;
use crate::intersection::levels::level_ends;
use crate::intersection::shape::rows_at_once;
use crate::matrix::{COLUMNS_OF_X, HistogramMatrix, check_columns, visit_rows};
use crate::memory;
use crate::simd::Element;

/// Rows that are scored together.
const ROWS: std::ops::RangeInclusive<usize> = 64..=4096;
/// Numbers a knot and output: the function and its first three derivatives to the right.
const TERMS: usize = 4;

/// The score `sum_j k(x_j, x) v_j = sum_d f_d(x(d))` under the kernel of
/// [`cubic_spline_gram`](crate::kernels::cubic_spline_gram), taken apart by dimension.
///
/// Every `f_d` is a cubic between neighbouring training values (its *knots*), with two continuous
/// derivatives, zero at zero, and a line above the largest value.
#[derive(Debug, Clone)]
pub struct CubicFunctions {
    /// Where the knots of each column are; the first of each is 0.
    ranges: KnotRanges,
    knots: Vec<f64>,
    n_outputs: usize,
    /// For each knot `f`, `f'`, `f''` and `f'''` to its right, each of all outputs.
    terms: Vec<f64>,
}

impl CubicFunctions {
    /// The functions of every column for weights `alpha`, one output per column of `alpha`, under the
    /// kernel plus `slope` times that of lines, as [`SortedColumns::cubic_product`] has it.
    ///
    /// Where a column has more than `n_knots` distinct values, the function is kept at so many of
    /// these, with its slopes, and interpolated between (Hermite's cubic); `None` keeps all.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `alpha` has not one row for every stored row, [`Error::Parameter`] where
    /// `n_knots` is 0.
    pub fn new(
        exec: &Executor,
        columns: &SortedColumns,
        alpha: ArrayView2<'_, f64>,
        slope: f64,
        n_knots: Option<usize>,
    ) -> Result<Self> {
        columns.check_rows(alpha.nrows())?;
        if n_knots == Some(0) {
            return Err(Error::parameter("n_knots", 0, "1 at least"));
        }
        let n_outputs = alpha.ncols();
        let alpha = alpha.as_standard_layout();
        let alpha = memory::flat(&alpha)?;
        let held = columns.columns();
        let made = exec
            .map_blocks(held.len(), |k| column_terms(&held[k], alpha, n_outputs, slope, n_knots))?;
        let n_knots = columns.numbers().iter().zip(&made).map(|(&d, made)| (d, made.0.len()));
        let ranges = KnotRanges::new(columns.n_columns(), n_knots)?;
        let mut knots = memory::with_capacity(made.len() + 1)?;
        let mut terms = memory::with_capacity(made.len() + 1)?;
        // Of the columns that are empty.
        knots.push(vec![0.0]);
        terms.push(memory::filled(0.0, TERMS * n_outputs)?);
        for (of_column, terms_of_column) in made {
            knots.push(of_column);
            terms.push(terms_of_column);
        }
        let (knots, terms) = (memory::concatenated(&knots)?, memory::concatenated(&terms)?);
        Ok(Self { ranges, knots, n_outputs, terms })
    }

    /// Number of columns D.
    #[must_use]
    pub fn n_columns(&self) -> usize {
        self.ranges.n_columns()
    }

    /// Number of outputs.
    #[must_use]
    pub fn n_outputs(&self) -> usize {
        self.n_outputs
    }

    /// The knots of one column in ascending order, beginning with 0, and for each the function and its
    /// first three derivatives to the right, each of all outputs.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchColumn`].
    pub fn column(&self, d: usize) -> Result<(&[f64], &[f64])> {
        let n_columns = self.n_columns();
        if d >= n_columns {
            return Err(Error::NoSuchColumn { column: d, n_columns });
        }
        let (range, width) = (self.ranges.of(d), TERMS * self.n_outputs);
        Ok((&self.knots[range.clone()], &self.terms[range.start * width..range.end * width]))
    }

    /// The score of every row of `x`, of shape `(n_rows, n_outputs)`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `x` has another number of columns, [`Error::Negative`] or
    /// [`Error::NotFinite`] at its first bad entry.
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::{Executor, HistogramMatrix, intersection::{CubicFunctions, SortedColumns}};
    /// use ndarray::array;
    ///
    /// let exec = Executor::new(1)?;
    /// let x = array![[3.0], [6.0]];
    /// let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view()))?;
    /// let functions = CubicFunctions::new(&exec, &columns, array![[1.0], [2.0]].view(), 0.0, None)?;
    /// let scores = functions.predict(&exec, &HistogramMatrix::dense(array![[9.0]].view()))?;
    /// assert_eq!(scores, array![[288.0]]);
    /// # Ok::<(), histrs::Error>(())
    /// ```
    pub fn predict<T: Element>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
    ) -> Result<Array2<f64>> {
        check_columns(COLUMNS_OF_X, x, self.n_columns())?;
        x.check(exec, "X")?;
        let m = self.n_outputs;
        let mut out = memory::zero_matrix((x.n_rows(), m))?;
        let flat = memory::flat_mut(&mut out)?;
        let block_rows = rows_at_once(x.n_rows(), &ROWS);
        exec.for_chunks(flat, block_rows * m, |block, out| {
            let start = block * block_rows;
            visit_rows(x, start, out.len() / m, 0, self.n_columns(), |row, d, value| {
                self.add_column(d, value, &mut out[row * m..(row + 1) * m]);
            });
            Ok(())
        })?;
        Ok(out)
    }

    #[inline]
    fn add_column(&self, d: usize, x: f64, out: &mut [f64]) {
        let m = self.n_outputs;
        let range = self.ranges.of(d);
        let (start, knots) = (range.start, &self.knots[range]);
        // Knot 0 is 0 and x is not negative, so that one knot at least is not above it.
        let k = knots.partition_point(|&z| z <= x).saturating_sub(1);
        let u = x - knots[k];
        let terms = &self.terms[(start + k) * TERMS * m..(start + k + 1) * TERMS * m];
        for (i, out) in out.iter_mut().enumerate() {
            let [f, slope, second, third] = [0, 1, 2, 3].map(|t| terms[t * m + i]);
            *out += f + u * (slope + u * (0.5 * second + u * (third / 6.0)));
        }
    }
}

/// The knots of a column's function, the first of which is 0, and its terms there.
fn column_terms(
    column: &Column,
    alpha: &[f64],
    m: usize,
    slope: f64,
    n_knots: Option<usize>,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let (values, counts) = column.distinct()?;
    let mut knots = memory::with_capacity(values.len() + 1)?;
    knots.push(0.0);
    knots.extend_from_slice(&values);
    let mut terms = memory::filled(0.0, knots.len() * TERMS * m)?;
    // Sums of the weights above each knot, in place of the third derivative.
    let mut k = 0;
    column.for_each(|row, value| {
        if knots[k].to_bits() != value.to_bits() {
            // Values ascend where they are not few.
            k = match knots.get(k + 1) {
                Some(&next) if next.to_bits() == value.to_bits() => k + 1,
                _ => knots.partition_point(|&z| z < value),
            };
        }
        let row = row as usize * m;
        let sums = &mut terms[(k * TERMS + 3) * m..(k * TERMS + 4) * m];
        for (sum, x) in sums.iter_mut().zip(&alpha[row..row + m]) {
            *sum += x;
        }
    });
    for i in 0..m {
        let at = |k: usize, term: usize| (k * TERMS + term) * m + i;
        let (mut above, mut curvature) = (0.0, 0.0);
        for k in (0..knots.len()).rev() {
            let sum = terms[at(k, 3)];
            if let Some(&next) = knots.get(k + 1) {
                curvature += (next - knots[k]) * above;
            }
            terms[at(k, 2)] = curvature;
            terms[at(k, 3)] = -above;
            above += sum;
        }
        terms[at(0, 1)] = slope * terms[at(0, 2)];
        for k in 1..knots.len() {
            let h = knots[k] - knots[k - 1];
            let [f, first, third] = [0, 1, 3].map(|term| terms[at(k - 1, term)]);
            let second = terms[at(k, 2)];
            terms[at(k, 0)] = f + h * (first + h * (0.5 * second - h * third / 3.0));
            terms[at(k, 1)] = first + h * (second - 0.5 * h * third);
        }
    }
    match n_knots {
        Some(most) if values.len() > most => thinned(&knots, &terms, &counts, m, most),
        _ => Ok((knots, terms)),
    }
}

/// Some of the knots, and Hermite's cubics between them.
fn thinned(
    knots: &[f64],
    terms: &[f64],
    counts: &[usize],
    m: usize,
    most: usize,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let mut kept = level_ends(&knots[1..], counts, most)?;
    kept.insert(0, 0);
    let mut some = memory::with_capacity(kept.len())?;
    some.extend(kept.iter().map(|&k| knots[k]));
    let mut thin = memory::with_capacity(kept.len() * TERMS * m)?;
    for (j, &k) in kept.iter().enumerate() {
        let at = &terms[k * TERMS * m..(k + 1) * TERMS * m];
        thin.extend_from_slice(at);
        let Some(&next) = kept.get(j + 1) else { continue };
        if next == k + 1 {
            continue;
        }
        let after = &terms[next * TERMS * m..(next + 1) * TERMS * m];
        let h = knots[next] - knots[k];
        for i in 0..m {
            let (slope, slope_after) = (at[m + i], after[m + i]);
            let mean = (after[i] - at[i]) / h;
            let second = 2.0 * (3.0 * mean - 2.0 * slope - slope_after) / h;
            let third = 6.0 * (slope + slope_after - 2.0 * mean) / h / h;
            thin[(j * TERMS + 2) * m + i] = second;
            thin[(j * TERMS + 3) * m + i] = third;
        }
    }
    Ok((some, thin))
}
