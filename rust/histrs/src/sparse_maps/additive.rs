//! Every value of a matrix on the two knots around it.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::kernels::{AdditiveKernel, Projection, with_kernel};
use crate::matrix::{COLUMNS_OF_X, CsrParts, HistogramMatrix, check_columns, check_width};
use crate::memory;
use crate::simd::Element;

/// Rows in a block.
const ROWS: usize = 64;

/// The sparse feature map of an additive kernel, with a feature for every knot of every column.
///
/// A value between two knots has two coordinates, the projection on both (eqs. 5, 8, 9). A value
/// below the first or above the last knot is projected on that knot alone. A zero has no
/// coordinates. A knot at 0 would have none either, and is left out.
///
/// # Examples
///
/// ```
/// use histrs::kernels::AdditiveKernel;
/// use histrs::sparse_maps::SparseAdditiveMap;
/// use histrs::{Executor, HistogramMatrix};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let map = SparseAdditiveMap::new(AdditiveKernel::Intersection, &[1.0, 2.0, 4.0], &[0, 3])?;
/// let x = array![[0.0], [2.5], [0.5]];
/// let features = map.transform(&exec, &HistogramMatrix::dense(x.view()))?;
/// assert_eq!(features.data, [0.75, 0.25, 0.5]);
/// assert_eq!(features.indices, [1, 2, 0]);
/// assert_eq!(features.indptr, [0, 0, 2, 3]);
/// # Ok::<(), histrs::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SparseAdditiveMap {
    kernel: AdditiveKernel,
    knots: Vec<f64>,
    columns: Vec<Column>,
}

#[derive(Debug, Clone)]
struct Column {
    /// Its knots among those of all columns, which are its features as well.
    knots: Range<usize>,
    first: f64,
    last: f64,
    /// One over the distance of knots that are evenly spaced from 0; else 0.
    per_step: f64,
}

impl SparseAdditiveMap {
    /// The map with the knots of column `d` at `knots[offsets[d]..offsets[d + 1]]`.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless the knots of a column are positive, finite and ascending.
    /// [`Error::Shape`] unless the offsets ascend from 0 to their number. [`Error::MalformedCsr`]
    /// when they are more than 32-bit indices can name.
    pub fn new(kernel: AdditiveKernel, knots: &[f64], offsets: &[i64]) -> Result<Self> {
        check_width(knots.len())?;
        let offsets: Vec<usize> =
            offsets.iter().map(|&offset| usize::try_from(offset).unwrap_or(usize::MAX)).collect();
        let last = offsets.last().copied().unwrap_or(usize::MAX);
        if offsets.first() != Some(&0) || last != knots.len() || !offsets.is_sorted() {
            return Err(Error::Shape {
                what: "the last offset of the knots",
                found: last,
                expected: knots.len(),
                cure: "give offsets that ascend from 0 to the number of knots",
            });
        }
        let columns = offsets
            .windows(2)
            .map(|ends| Column::new(knots, ends[0]..ends[1]))
            .collect::<Result<_>>()?;
        Ok(Self { kernel, knots: knots.to_vec(), columns })
    }

    /// The features of every row: at most two for every positive value.
    ///
    /// A value that equals a knot has a stored 0 beside its 1, unless it is the first.
    ///
    /// # Errors
    ///
    /// [`Error::Negative`] or [`Error::NotFinite`] at the first bad entry, [`Error::Shape`] when
    /// the number of columns differs.
    pub fn transform<T: Element>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
    ) -> Result<CsrParts<T>> {
        check_columns(COLUMNS_OF_X, x, self.columns.len())?;
        x.check(exec, "X")?;
        let indptr = self.row_ends(exec, x)?;
        let n_stored = indptr.last().map_or(0, |&end| end as usize);
        let mut data = memory::filled(T::default(), n_stored)?;
        let mut indices = memory::filled(0, n_stored)?;
        let mut blocks = Vec::new();
        let mut rest = (data.as_mut_slice(), indices.as_mut_slice());
        for start in (0..x.n_rows()).step_by(ROWS) {
            let end = x.n_rows().min(start + ROWS);
            let length = (indptr[end] - indptr[start]) as usize;
            let (data, more_data) = rest.0.split_at_mut(length);
            let (indices, more_indices) = rest.1.split_at_mut(length);
            blocks.push((start..end, Features { data, indices, length: 0 }));
            rest = (more_data, more_indices);
        }
        exec.for_chunks(&mut blocks, 1, |_, blocks| {
            for (rows, features) in blocks {
                with_kernel!(self.kernel, |kernel| self.map(kernel, x, rows, features));
            }
            Ok(())
        })?;
        Ok(CsrParts { data, indices, indptr, n_columns: self.knots.len() })
    }

    /// Where the features of each row end, behind a 0.
    fn row_ends<T: Element>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
    ) -> Result<Vec<i64>> {
        let mut ends = memory::filled(0, x.n_rows() + 1)?;
        exec.for_chunks(&mut ends[1..], ROWS, |block, counts| {
            for (row, count) in (block * ROWS..).zip(counts) {
                match x {
                    HistogramMatrix::Dense(x) => {
                        for (column, value) in self.columns.iter().zip(x.row(row)) {
                            *count += column.count(value.to_f64());
                        }
                    }
                    HistogramMatrix::Csr(x) => {
                        x.for_each_sum(row, |d, value| *count += self.columns[d].count(value));
                    }
                }
            }
            Ok(())
        })?;
        for row in 1..ends.len() {
            ends[row] += ends[row - 1];
        }
        Ok(ends)
    }

    fn map<P: Projection, T: Element>(
        &self,
        _: P,
        x: &HistogramMatrix<'_, T>,
        rows: &Range<usize>,
        features: &mut Features<'_, T>,
    ) {
        for row in rows.clone() {
            match x {
                HistogramMatrix::Dense(x) => {
                    for (column, value) in self.columns.iter().zip(x.row(row)) {
                        self.map_value::<P, T>(column, value.to_f64(), features);
                    }
                }
                HistogramMatrix::Csr(x) => x.for_each_sum(row, |d, value| {
                    self.map_value::<P, T>(&self.columns[d], value, features);
                }),
            }
        }
    }

    #[inline(always)]
    fn map_value<P: Projection, T: Element>(
        &self,
        column: &Column,
        value: f64,
        features: &mut Features<'_, T>,
    ) {
        match column.count(value) {
            0 => {}
            1 if value <= column.first => {
                features.push(column.knots.start, P::single(column.first, value));
            }
            1 => features.push(column.knots.end - 1, P::single(column.last, value)),
            _ => {
                let knots = &self.knots[column.knots.clone()];
                let upper = column.upper_knot(knots, value);
                let (low, high) = P::pair(knots[upper - 1], knots[upper], value);
                features.push(column.knots.start + upper - 1, low);
                features.push(column.knots.start + upper, high);
            }
        }
    }
}

impl Column {
    fn new(all: &[f64], knots: Range<usize>) -> Result<Self> {
        let own = &all[knots.clone()];
        let mut previous = 0.0;
        for &knot in own {
            if !(knot > previous && knot < f64::INFINITY) {
                let expected = "the knots of a column are positive, finite and ascending";
                return Err(Error::parameter("knots", knot, expected));
            }
            previous = knot;
        }
        let (first, last) = match own {
            [] => (f64::INFINITY, 0.0),
            [first, ..] => (*first, previous),
        };
        let step = last / own.len() as f64;
        let even = |(k, &knot): (usize, &f64)| (knot - step * (k + 1) as f64).abs() <= 1e-9 * last;
        let per_step = if own.iter().enumerate().all(even) { 1.0 / step } else { 0.0 };
        Ok(Self { knots, first, last, per_step: if per_step.is_finite() { per_step } else { 0.0 } })
    }

    /// Number of features of a value.
    #[inline(always)]
    fn count(&self, value: f64) -> i64 {
        let any = value > 0.0 && self.last > 0.0;
        i64::from(any) + i64::from(value > self.first && value <= self.last)
    }

    /// The first knot that is not below a value, which is between the first and the last.
    #[inline(always)]
    fn upper_knot(&self, knots: &[f64], value: f64) -> usize {
        if self.per_step == 0.0 {
            return knots.partition_point(|&z| z < value);
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // positive; truncated
        let mut upper = ((value * self.per_step) as usize).clamp(1, knots.len() - 1);
        // The guess is off by one at a knot.
        while upper > 1 && knots[upper - 1] >= value {
            upper -= 1;
        }
        while knots[upper] < value {
            upper += 1;
        }
        upper
    }
}

/// The features of some rows, as they come.
struct Features<'a, T> {
    data: &'a mut [T],
    indices: &'a mut [i32],
    length: usize,
}

impl<T: Element> Features<'_, T> {
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // checked by `new`
    fn push(&mut self, index: usize, value: f64) {
        self.indices[self.length] = index as i32;
        self.data[self.length] = T::from_f64(value);
        self.length += 1;
    }
}
