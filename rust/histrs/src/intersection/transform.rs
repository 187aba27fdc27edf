//! Generalised kernels: the same sorted columns with other values.
//!
//! A transform that keeps the order of the values and maps zero to zero keeps every column's
//! order, codes and runs, so that nothing is sorted again.

use ndarray::Array2;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::intersection::column::Column;
use crate::intersection::columns::SortedColumns;
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::simd::Element;

/// Rows of a matrix that are transformed together.
const ROWS: usize = 256;

/// An increasing function `g` with `g(0) = 0`, applied to every feature (eq. 14).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Transform {
    /// `g(x) = x`, eq. 5.
    Identity,
    /// `g(x) = x^exponent`, eq. 15.
    Power {
        /// Above 0.
        exponent: f64,
    },
    /// `g(x) = (e^(exponent x) - 1) / (e^exponent - 1)`, eq. 16.
    Exponential {
        /// Above 0.
        exponent: f64,
    },
    /// The increasing part of the derivative of [`Power`](Self::Power) by its exponent,
    /// `x^exponent ln(x / unit)`.
    PowerSlope {
        /// That of the power.
        exponent: f64,
        /// Below every value that occurs.
        unit: f64,
    },
    /// The increasing part of the derivative of [`Exponential`](Self::Exponential) by its
    /// exponent.
    ExponentialSlope {
        /// That of the exponential.
        exponent: f64,
    },
}

impl Transform {
    /// `g(x)` of a non-negative `x`.
    #[must_use]
    pub fn apply(&self, x: f64) -> f64 {
        match *self {
            _ if x == 0.0 => 0.0,
            Self::Identity => x,
            Self::Power { exponent } => x.powf(exponent),
            Self::Exponential { exponent } => exponential(exponent, x),
            Self::PowerSlope { exponent, unit } => x.powf(exponent) * (x.ln() - unit.ln()).max(0.0),
            Self::ExponentialSlope { exponent } => {
                exponential(exponent, x) * excess(exponent * x) / exponent
            }
        }
    }

    /// The exponent; 1 where there is none.
    #[must_use]
    pub fn exponent(&self) -> f64 {
        match *self {
            Self::Identity => 1.0,
            Self::Power { exponent }
            | Self::Exponential { exponent }
            | Self::PowerSlope { exponent, .. }
            | Self::ExponentialSlope { exponent } => exponent,
        }
    }

    /// The derivative of the kernel by the exponent, as an intersection kernel again.
    ///
    /// The derivative `h` of `g` by the exponent does not increase everywhere, but `h = u + c g`
    /// with an increasing `u` on values of at least `smallest`; so the derivative of
    /// `min(g(x), g(y))` is `min(u(x), u(y)) + c min(g(x), g(y))`. Returns `u` and `c`, or nothing
    /// for a transform without exponent.
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::intersection::Transform;
    ///
    /// let power = |exponent| Transform::Power { exponent };
    /// let (u, c) = power(2.0).exponent_slope(0.1).unwrap();
    /// let x = 0.7;
    /// let slope = u.apply(x) + c * power(2.0).apply(x);
    /// let difference = (power(2.0 + 1e-6).apply(x) - power(2.0 - 1e-6).apply(x)) / 2e-6;
    /// assert!((slope - difference).abs() < 1e-9);
    /// ```
    #[must_use]
    pub fn exponent_slope(&self, smallest: f64) -> Option<(Self, f64)> {
        match *self {
            Self::Power { exponent } => {
                let unit = 0.5 * smallest;
                Some((Self::PowerSlope { exponent, unit }, unit.ln()))
            }
            Self::Exponential { exponent } => {
                Some((Self::ExponentialSlope { exponent }, -excess(exponent) / exponent))
            }
            _ => None,
        }
    }

    fn check(&self) -> Result<()> {
        let exponent = self.exponent();
        if exponent > 0.0 && exponent.is_finite() {
            return Ok(());
        }
        Err(Error::Parameter {
            name: "exponent",
            value: exponent,
            expected: "an order-preserving transform needs a positive, finite exponent",
        })
    }

    /// `weight g(x)`, which must be finite.
    fn weighted(&self, x: f64, weight: f64) -> Result<f64> {
        let value = weight * self.apply(x);
        if value.is_finite() {
            return Ok(value);
        }
        Err(Error::Parameter {
            name: "exponent",
            value: self.exponent(),
            expected: "transformed features overflow; lower it or feature_weights, or scale the \
                       features down",
        })
    }
}

/// Eq. 16 in a form that overflows only where its value does.
fn exponential(exponent: f64, x: f64) -> f64 {
    (exponent * (x - 1.0)).exp() * ((-exponent * x).exp_m1() / (-exponent).exp_m1())
}

/// `t / (1 - e^-t) - 1`, which increases from 0.
fn excess(t: f64) -> f64 {
    if t < 1e-3 {
        // The next term is below rounding.
        t * (0.5 + t * (1.0 / 12.0 - t * t / 720.0))
    } else {
        -t / (-t).exp_m1() - 1.0
    }
}

fn check_weights(weights: Option<&[f64]>, n_columns: usize) -> Result<()> {
    let Some(weights) = weights else { return Ok(()) };
    if weights.len() != n_columns {
        return Err(Error::Shape {
            what: "the number of feature weights",
            found: weights.len(),
            expected: n_columns,
            cure: "give one for every column of X",
        });
    }
    match weights.iter().find(|w| !(**w > 0.0 && w.is_finite())) {
        None => Ok(()),
        Some(&value) => Err(Error::Parameter {
            name: "feature_weights",
            value,
            expected: "weights are positive and finite; drop a column to leave it out",
        }),
    }
}

impl SortedColumns {
    /// The columns of the generalised kernel `sum_d min(w_d g(x(d)), w_d g(y(d)))` (eqs. 14 to
    /// 17), from the same order.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when there is not one weight a column, [`Error::Parameter`] when a weight
    /// or the exponent is not positive and finite, or transformed values overflow.
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::{Executor, HistogramMatrix, intersection::{SortedColumns, Transform}};
    /// use ndarray::array;
    ///
    /// let exec = Executor::new(1)?;
    /// let x = array![[1.0, 2.0], [3.0, 0.0]];
    /// let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view()))?;
    /// let squares = Transform::Power { exponent: 2.0 };
    /// let columns = columns.transformed(&exec, &squares, Some(&[1.0, 0.5]))?;
    /// assert_eq!(columns.row_sums(&exec)?, vec![3.0, 9.0]);
    /// # Ok::<(), histrs::Error>(())
    /// ```
    pub fn transformed(
        &self,
        exec: &Executor,
        transform: &Transform,
        weights: Option<&[f64]>,
    ) -> Result<Self> {
        transform.check()?;
        check_weights(weights, self.n_columns())?;
        let columns = exec.map_blocks(self.n_columns(), |d| {
            let weight = weights.map_or(1.0, |w| w[d]);
            transform_column(&self.columns()[d], transform, weight, self.n_rows())
        })?;
        Ok(Self::from_columns(self.n_rows(), columns))
    }

    /// `k(x, x)` of every row.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`].
    pub fn row_sums(&self, exec: &Executor) -> Result<Vec<f64>> {
        let blocks = self.blocks();
        let parts = exec.map_blocks(blocks.len(), |block| {
            let mut sums = memory::filled(0.0, self.n_rows())?;
            for column in &self.columns()[blocks[block].clone()] {
                exec.check()?;
                column.for_each(|row, value| sums[row as usize] += value);
            }
            Ok(sums)
        })?;
        let mut sums = memory::filled(0.0, self.n_rows())?;
        for part in parts {
            for (sum, x) in sums.iter_mut().zip(part) {
                *sum += x;
            }
        }
        Ok(sums)
    }

    /// The smallest value above zero; 1 where there is none.
    #[must_use]
    pub fn smallest(&self) -> f64 {
        let first = |column: &Column| match column {
            Column::Coded { values, .. } => values.get(1).copied(),
            Column::Runs { values, .. } | Column::Sorted { values, .. } => values.first().copied(),
        };
        self.columns().iter().filter_map(first).reduce(f64::min).unwrap_or(1.0)
    }
}

fn transform_column(
    column: &Column,
    transform: &Transform,
    weight: f64,
    n_rows: usize,
) -> Result<Column> {
    let map = |values: &[f64]| {
        values.iter().map(|&x| transform.weighted(x, weight)).collect::<Result<Vec<f64>>>()
    };
    let ascends = |values: &[f64]| {
        values.first().is_none_or(|&x| x > 0.0) && values.windows(2).all(|w| w[0] < w[1])
    };
    match column {
        Column::Coded { values, codes } => {
            let values = map(values)?;
            if ascends(&values[1..]) {
                return Ok(Column::Coded { values, codes: codes.clone() });
            }
        }
        Column::Runs { values, starts, rows } => {
            let values = map(values)?;
            if ascends(&values) {
                return Ok(Column::Runs { values, starts: starts.clone(), rows: rows.clone() });
            }
        }
        Column::Sorted { values, rows } => {
            let values = map(values)?;
            let positive = values.first().is_none_or(|&x| x > 0.0);
            if positive && values.windows(2).all(|w| w[0] <= w[1]) {
                return Ok(Column::Sorted { values, rows: rows.clone() });
            }
        }
    }
    reencode(column, transform, weight, n_rows)
}

/// Where rounding has merged, swapped or lost values, the column is encoded anew.
fn reencode(column: &Column, transform: &Transform, weight: f64, n_rows: usize) -> Result<Column> {
    let mut pairs = memory::with_capacity(column.n_stored())?;
    column.for_each(|row, x| {
        let value = weight * transform.apply(x);
        if value > 0.0 {
            pairs.push((value.to_bits(), row));
        }
    });
    pairs.sort_unstable();
    Column::encode(&pairs, n_rows)
}

/// Rows with `w_d g(x(d))` in place of `x(d)`.
#[derive(Debug, Clone, PartialEq)]
pub enum TransformedRows {
    /// Of a dense matrix.
    Dense(Array2<f64>),
    /// Of a CSR matrix: values, column indices, and where each row begins and ends.
    Csr(Vec<f64>, Vec<i32>, Vec<i64>),
}

/// The rows of `x` as the generalised kernel sees them: `w_d g(x(d))`.
///
/// # Errors
///
/// As [`SortedColumns::transformed`]; [`Error::Negative`] or [`Error::NotFinite`] at the first bad
/// entry of `x`.
pub fn transform_rows<T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
    transform: &Transform,
    weights: Option<&[f64]>,
) -> Result<TransformedRows> {
    transform.check()?;
    check_weights(weights, x.n_columns())?;
    x.check(exec, "X")?;
    let value = |d: usize, x: f64| transform.weighted(x, weights.map_or(1.0, |w| w[d]));
    match x {
        HistogramMatrix::Dense(x) => {
            let mut out = memory::zero_matrix(x.dim())?;
            let n_columns = x.ncols();
            let flat = memory::flat_mut(&mut out)?;
            exec.for_chunks(flat, ROWS * n_columns, |block, chunk| {
                for (row, out) in (block * ROWS..).zip(chunk.chunks_exact_mut(n_columns)) {
                    for ((d, out), x) in out.iter_mut().enumerate().zip(x.row(row)) {
                        *out = value(d, x.to_f64())?;
                    }
                }
                Ok(())
            })?;
            Ok(TransformedRows::Dense(out))
        }
        HistogramMatrix::Csr(x) => {
            let n_rows = x.n_rows();
            let blocks = exec.map_blocks(n_rows.div_ceil(ROWS), |block| {
                let (mut data, mut indices, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
                for row in block * ROWS..n_rows.min((block + 1) * ROWS) {
                    let (columns, values) = x.row_sums_of_duplicates(row);
                    memory::push(&mut lengths, columns.len())?;
                    memory::extend(&mut indices, columns.iter().copied())?;
                    memory::reserve_growing(&mut data, columns.len())?;
                    for (&column, x) in columns.iter().zip(values.iter()) {
                        data.push(value(column.unsigned_abs() as usize, x.to_f64())?);
                    }
                }
                Ok((data, indices, lengths))
            })?;
            let n_stored = blocks.iter().map(|block| block.0.len()).sum();
            let mut data = memory::with_capacity(n_stored)?;
            let mut indices = memory::with_capacity(n_stored)?;
            let mut indptr = memory::with_capacity(n_rows + 1)?;
            let mut end: i64 = 0;
            indptr.push(end);
            for (block_data, block_indices, lengths) in blocks {
                data.extend(block_data);
                indices.extend(block_indices);
                for length in lengths {
                    end += length as i64;
                    indptr.push(end);
                }
            }
            Ok(TransformedRows::Csr(data, indices, indptr))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    const TRANSFORMS: [Transform; 4] = [
        Transform::Power { exponent: 0.3 },
        Transform::Power { exponent: 3.0 },
        Transform::Exponential { exponent: 1e-9 },
        Transform::Exponential { exponent: 40.0 },
    ];

    #[test]
    fn transforms_and_slopes_increase() {
        for transform in TRANSFORMS {
            let (slope, _) = transform.exponent_slope(0.01).unwrap();
            for transform in [transform, slope] {
                let values: Vec<f64> =
                    (1..200).map(|i| transform.apply(f64::from(i) * 0.01)).collect();
                assert!(values.windows(2).all(|w| w[0] < w[1]), "{transform:?}");
                assert_eq!(transform.apply(0.0), 0.0);
            }
        }
        assert!((TRANSFORMS[2].apply(0.4) - 0.4).abs() < 1e-9);
        assert!(Transform::Identity.exponent_slope(1.0).is_none());
    }

    #[test]
    fn values_that_rounding_merges_or_loses_are_encoded_anew() {
        let exec = Executor::new(1).unwrap();
        let next = 1.0 + f64::EPSILON;
        let x = array![[1e-200], [1.0], [0.0], [next], [next], [4.0], [4.0], [4.0]];
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        let levels = |exponent| {
            let power = Transform::Power { exponent };
            columns.transformed(&exec, &power, None).unwrap().columns()[0].distinct().unwrap()
        };
        assert_eq!(levels(0.5), (vec![1e-100, 1.0, 2.0], vec![1, 3, 3]));
        assert_eq!(levels(2.0).1, vec![1, 2, 3]);
    }

    #[test]
    fn bad_parameters_are_refused() {
        let exec = Executor::new(1).unwrap();
        let x = array![[1e200, 1.0]];
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        let refuses = |exponent, weights: Option<&[f64]>| {
            columns.transformed(&exec, &Transform::Power { exponent }, weights).is_err()
        };
        assert!(refuses(0.0, None) && refuses(f64::NAN, None) && refuses(2.0, None));
        assert!(refuses(1.0, Some(&[1.0])) && refuses(1.0, Some(&[1.0, 0.0])));
        assert!(!refuses(1.0, Some(&[1.0, 2.0])));
    }
}
