//! The kernel matrix itself.

use ndarray::Array2;
use pulp::Simd;

use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::pairwise::{Entry, Term, pairwise};
use crate::simd::Element;

/// `min(x, y)`.
#[derive(Clone, Copy)]
pub(super) struct Minimum;

impl Term for Minimum {
    const MINIMA: bool = true;

    #[inline(always)]
    fn of<T: Element, S: Simd>(
        simd: S,
        x: Entry<T::Vector<S>>,
        y: Entry<T::Vector<S>>,
    ) -> T::Vector<S> {
        T::min(simd, x.value, y.value)
    }
}

/// The kernel matrix `K[i, j] = sum_d min(x_i(d), y_j(d))` (eq. 5); `y = None` means `y = x` and
/// computes each entry once.
///
/// # Errors
///
/// [`Error::Shape`](crate::Error::Shape) when `x` and `y` have different numbers of columns,
/// [`Error::Negative`](crate::Error::Negative) or [`Error::NotFinite`](crate::Error::NotFinite)
/// at the first bad entry.
///
/// # Examples
///
/// ```
/// use histrs::{Executor, HistogramMatrix, intersection::gram};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[1.0, 2.0], [3.0, 0.0]];
/// let k = gram(&exec, &HistogramMatrix::dense(x.view()), None)?;
/// assert_eq!(k, array![[3.0, 1.0], [1.0, 3.0]]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn gram<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<Array2<T>> {
    pairwise(exec, Minimum, x, y)
}
