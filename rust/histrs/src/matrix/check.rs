//! Whether entries, columns and row numbers are what they must be.

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::simd::Element;

impl<T: Element> HistogramMatrix<'_, T> {
    /// Fails at the first entry, in row order, that is negative or not finite.
    ///
    /// # Errors
    ///
    /// [`Error::Negative`] or [`Error::NotFinite`], which name the index.
    pub fn check(&self, exec: &Executor, name: &'static str) -> Result<()> {
        self.check_rows(exec, name, T::all_non_negative)
    }

    /// Fails at the first entry, in row order, that is not finite.
    ///
    /// # Errors
    ///
    /// [`Error::NotFinite`], which names the index.
    pub fn check_finite(&self, exec: &Executor, name: &'static str) -> Result<()> {
        self.check_rows(exec, name, T::all_finite)
    }

    fn check_rows(
        &self,
        exec: &Executor,
        name: &'static str,
        all_valid: impl Fn(&[T]) -> bool + Copy + Sync,
    ) -> Result<()> {
        const ROWS: usize = 256;
        let n_rows = self.n_rows();
        exec.map_ranges(n_rows, ROWS, |rows| {
            rows.into_iter().try_for_each(|row| self.check_row(row, name, all_valid))
        })
        .map(drop)
    }

    fn check_row(
        &self,
        row: usize,
        name: &'static str,
        all_valid: impl Fn(&[T]) -> bool,
    ) -> Result<()> {
        let is_valid = |v: T| all_valid(&[v]);
        let complain = |column: usize, value: f64| {
            if value.is_finite() {
                Error::Negative { name, row, column, value }
            } else {
                Error::NotFinite { name, row, column, value }
            }
        };
        match self {
            Self::Dense(x) => {
                let x = x.row(row);
                if x.as_slice().is_some_and(&all_valid) {
                    return Ok(());
                }
                match x.iter().position(|&v| !is_valid(v)) {
                    Some(column) => Err(complain(column, x[column].to_f64())),
                    None => Ok(()),
                }
            }
            Self::Csr(x) => {
                let (indices, values) = x.row(row);
                if !all_valid(values)
                    && let Some(k) = values.iter().position(|&v| !is_valid(v))
                {
                    return Err(complain(indices[k].unsigned_abs() as usize, values[k].to_f64()));
                }
                // Duplicates may add up to infinity, though rarely: no part exceeds the whole.
                if is_valid(T::from_f64(values.iter().map(|v| v.to_f64()).sum())) {
                    return Ok(());
                }
                let mut result = Ok(());
                x.for_each_sum(row, |column, value| {
                    let value = T::from_f64(value);
                    if result.is_ok() && !is_valid(value) {
                        result = Err(complain(column, value.to_f64()));
                    }
                });
                result
            }
        }
    }
}

/// What [`check_columns`] complains about.
pub(crate) const COLUMNS_OF_X: &str = "the number of columns of X";

/// Fails unless `x` has as many columns as expected; `what` says so.
pub(crate) fn check_columns<T: Element>(
    what: &'static str,
    x: &HistogramMatrix<'_, T>,
    expected: usize,
) -> Result<()> {
    let cure = "give the features that the training data had, in the same order";
    check_length(what, x.n_columns(), expected, cure)
}

/// Row numbers as indices, each of which must be that of a row. They come signed, as callers have
/// them, so that none has to be converted before it can be refused by its value.
pub(crate) fn row_numbers(name: &'static str, rows: &[i64], n_rows: usize) -> Result<Vec<usize>> {
    let index = |row: i64| usize::try_from(row).ok().filter(|&r| r < n_rows);
    rows.iter()
        .map(|&row| index(row).ok_or_else(|| Error::parameter(name, row, "a row number of X")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn values_at_the_ends_of_the_range() {
        fn check<T: Element>(ends: [f64; 2]) {
            let [tiny, huge] = ends.map(T::from_f64);
            let nan = T::from_f64(f64::NAN);
            let [least, most] = [f64::NEG_INFINITY, f64::INFINITY].map(T::from_f64);
            let zeros = [0.0, -0.0].map(T::from_f64);
            assert!(T::all_non_negative(&[]) && T::all_finite(&[]));
            for good in [tiny, huge, zeros[0], zeros[1], T::from_f64(1.0)] {
                assert!(T::all_non_negative(&[good; 9]) && T::all_finite(&[good; 9]), "{good:?}");
            }
            let negative = [-tiny.to_f64(), -huge.to_f64(), -1.0].map(T::from_f64);
            for bad in negative.into_iter().chain([nan, T::from_f64(-f64::NAN), least, most]) {
                for at in 0..9 {
                    let mut values = [huge; 9];
                    values[at] = bad;
                    assert!(!T::all_non_negative(&values), "{bad:?} at {at}");
                    assert_eq!(T::all_finite(&values), bad.to_f64().is_finite(), "{bad:?} at {at}");
                }
            }
        }
        check::<f32>([f64::from(f32::from_bits(1)), f64::from(f32::MAX)]);
        check::<f64>([f64::from_bits(1), f64::MAX]);
    }

    #[test]
    fn the_first_bad_entry_is_named() {
        let exec = Executor::new(2).unwrap();
        let x = array![[0.0, 1.0], [-0.0, 2.0], [3.0, -0.2], [f64::NAN, 0.0]];
        let error = HistogramMatrix::dense(x.view()).check(&exec, "X").unwrap_err();
        assert!(error.to_string().contains("X[2, 1] = -0.2"), "{error}");
        let x = array![[f64::INFINITY]];
        let error = HistogramMatrix::dense(x.view()).check(&exec, "X").unwrap_err();
        assert!(error.to_string().contains("X[0, 0] = infinity"), "{error}");
    }
}
