//! The columns of a generalised kernel: the same order with other values.
//!
//! A transform that keeps the order of the values and maps zero to zero keeps every column's
//! order, codes and runs, so that nothing is sorted again.

use crate::error::Result;
use crate::exec::Executor;
use crate::intersection::column::Column;
use crate::intersection::columns::SortedColumns;
use crate::intersection::transform::{Transform, check_weights};
use crate::memory;

/// Columns that are transformed together.
const COLUMNS: usize = 16;

impl SortedColumns {
    /// The columns of the generalised kernel `sum_d min(w_d g(x(d)), w_d g(y(d)))` (eqs. 14 to
    /// 17), from the same order.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) when there is not one weight per column,
    /// [`Error::Parameter`](crate::Error::Parameter) when a weight
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
        let (numbers, columns) = (self.numbers(), self.columns());
        let parts = exec.map_ranges(columns.len(), COLUMNS, |part| {
            part.map(|k| {
                let weight = weights.map_or(1.0, |w| w[numbers[k]]);
                transform_column(&columns[k], transform, weight, self.n_rows())
            })
            .collect::<Result<Vec<_>>>()
        })?;
        let transformed = numbers.iter().copied().zip(parts.into_iter().flatten());
        Self::from_columns(self.n_rows(), self.n_columns(), transformed)
    }

    /// `k(x, x)` of every row.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`](crate::Error::Interrupted).
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::HistogramMatrix;
    use ndarray::array;

    #[test]
    fn values_that_rounding_merges_or_loses_are_encoded_anew() {
        let exec = Executor::new(1).unwrap();
        let next = 1.0 + f64::EPSILON;
        let x = array![[1e-200], [1.0], [0.0], [next], [next], [4.0], [4.0], [4.0]];
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        let levels = |exponent| {
            let power = Transform::Power { exponent };
            columns.transformed(&exec, &power, None).unwrap().column(0).distinct().unwrap()
        };
        assert_eq!(levels(0.5), (vec![1e-100, 1.0, 2.0], vec![1, 3, 3]));
        assert_eq!(levels(2.0).1, vec![1, 2, 3]);
    }

    /// The same of columns whose values are stored one by one.
    #[test]
    fn values_of_sorted_columns_that_underflow_are_left_out() {
        let exec = Executor::new(1).unwrap();
        let sorted = |pairs: &[(f64, u32)]| Column::Sorted {
            values: pairs.iter().map(|p| p.0).collect(),
            rows: pairs.iter().map(|p| p.1).collect(),
        };
        let first = sorted(&[(1e-200, 0), (1e-190, 1)]);
        let second = sorted(&[(1e-180, 2), (2.0, 1), (3.0, 0)]);
        let columns =
            SortedColumns::from_columns(4, 2, [(0, first), (1, second)].into_iter()).unwrap();
        let squares = Transform::Power { exponent: 2.0 };
        let squares = columns.transformed(&exec, &squares, None).unwrap();
        assert_eq!(squares.column(0).distinct().unwrap(), (vec![], vec![]));
        assert_eq!(squares.column(1).distinct().unwrap(), (vec![4.0, 9.0], vec![1, 1]));
        assert_eq!(squares.smallest(), 4.0);
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
