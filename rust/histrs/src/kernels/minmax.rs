//! Minima over maxima: the count Tanimoto kernel.

use ndarray::Array2;
use pulp::Simd;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::kernels::Intersection;
use crate::matrix::{HistogramMatrix, check_columns};
use crate::pairwise::{Entries, Term, own_sums, pairwise};
use crate::simd::Element;

/// `min(x, y)`, to become `S / (|x| + |y| - S)`, or 1 less that.
#[derive(Clone, Copy)]
struct Ratio<'a> {
    x: &'a [f64],
    y: &'a [f64],
    distance: bool,
}

impl Term for Ratio<'_> {
    const MINIMA: bool = true;

    #[inline(always)]
    fn of<T: Element, S: Simd>(simd: S, x: Entries<T, S>, y: Entries<T, S>) -> T::Vector<S> {
        Intersection::of::<T, S>(simd, x, y)
    }

    #[inline(always)]
    fn finish(self, sum: f64, row: usize, column: usize) -> f64 {
        // The sum of maxima; in this order 0 is left where the rows are equal, and nothing overflows.
        let only_x = self.x[row] - sum;
        let maxima = only_x + self.y[column];
        if maxima <= 0.0 {
            return if self.distance { 0.0 } else { 1.0 };
        }
        if self.distance {
            // Not 1 less the ratio, which would lose small distances in rounding.
            ((only_x + (self.y[column] - sum)) / maxima).clamp(0.0, 1.0)
        } else {
            (sum / maxima).min(1.0)
        }
    }
}

/// The MinMax kernel `K[i, j] = sum_d min(x_i(d), y_j(d)) / sum_d max(x_i(d), y_j(d))`, 1 for two
/// empty rows; `y = None` means `y = x` and computes each entry once.
///
/// # Errors
///
/// As [`AdditiveKernel::gram`](crate::kernels::AdditiveKernel::gram), and [`Error::SumTooLarge`] where the entries of a row
/// do not add up.
///
/// # Examples
///
/// ```
/// use histrs::{Executor, HistogramMatrix, kernels::minmax_gram};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[1.0, 2.0], [3.0, 0.0]];
/// let k = minmax_gram(&exec, &HistogramMatrix::dense(x.view()), None)?;
/// assert_eq!(k, array![[1.0, 0.2], [0.2, 1.0]]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn minmax_gram<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<Array2<T>> {
    of_pairs(exec, x, y, false)
}

/// 1 less the entries of [`minmax_gram`].
///
/// # Errors
///
/// As [`minmax_gram`].
pub fn minmax_distances<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<Array2<T>> {
    of_pairs(exec, x, y, true)
}

fn of_pairs<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
    distance: bool,
) -> Result<Array2<T>> {
    x.check(exec, "X")?;
    if let Some(y) = y {
        check_columns("the number of columns of Y", y, x.n_columns())?;
        y.check(exec, "Y")?;
    }
    let (of_x, of_y) = own_sums::<T, Intersection>(exec, x, y)?;
    for (name, sums) in [("X", Some(&of_x)), ("Y", of_y.as_ref())] {
        let too_large = |&sum: &f64| !T::from_f64(sum).to_f64().is_finite();
        if let Some(row) = sums.and_then(|sums| sums.iter().position(too_large)) {
            return Err(Error::SumTooLarge { name, row });
        }
    }
    let of_y = of_y.as_deref().unwrap_or(&of_x);
    pairwise(exec, Ratio { x: &of_x, y: of_y, distance }, x, y)
}
