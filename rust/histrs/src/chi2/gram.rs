//! The chi-square distance and the kernels made of it.

use ndarray::Array2;
use pulp::Simd;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::pairwise::{Entry, Term, pairwise};
use crate::simd::Element;

/// `(x - y)^2 / (x + y)`.
#[derive(Clone, Copy)]
struct Distance;

/// `2 x y / (x + y)`.
#[derive(Clone, Copy)]
struct Additive;

/// The distance, to become `exp(-gamma distance)`.
#[derive(Clone, Copy)]
struct Exponential {
    gamma: f64,
}

impl Term for Distance {
    const KEEPS_UNMATCHED: bool = true;

    #[inline(always)]
    fn of<T: Element, S: Simd>(
        simd: S,
        x: Entry<T::Vector<S>>,
        y: Entry<T::Vector<S>>,
    ) -> T::Vector<S> {
        let difference = T::sub(simd, x.value, y.value);
        // Divided first, so that no square overflows.
        let ratio = T::div(simd, difference, positive_sum::<T, S>(simd, x.value, y.value));
        T::mul(simd, difference, ratio)
    }
}

impl Term for Additive {
    #[inline(always)]
    fn of<T: Element, S: Simd>(
        simd: S,
        x: Entry<T::Vector<S>>,
        y: Entry<T::Vector<S>>,
    ) -> T::Vector<S> {
        let (larger, smaller) = (T::max(simd, x.value, y.value), T::min(simd, x.value, y.value));
        // At least one half, so that it cannot underflow.
        let ratio = T::div(simd, larger, positive_sum::<T, S>(simd, x.value, y.value));
        let half = T::mul(simd, smaller, ratio);
        T::add(simd, half, half)
    }
}

impl Term for Exponential {
    const KEEPS_UNMATCHED: bool = true;

    #[inline(always)]
    fn of<T: Element, S: Simd>(
        simd: S,
        x: Entry<T::Vector<S>>,
        y: Entry<T::Vector<S>>,
    ) -> T::Vector<S> {
        Distance::of::<T, S>(simd, x, y)
    }

    #[inline(always)]
    fn finish(self, sum: f64, _: usize, _: usize) -> f64 {
        (-self.gamma * sum).exp()
    }
}

/// `x + y`, or the smallest normal number where that is more: bins that are empty on both sides
/// add nothing. A term of subnormal numbers may come out too small, and is subnormal itself.
#[inline(always)]
fn positive_sum<T: Element, S: Simd>(simd: S, x: T::Vector<S>, y: T::Vector<S>) -> T::Vector<S> {
    T::max(simd, T::add(simd, x, y), T::splat(simd, T::TINY))
}

/// The distances `sum_d (x_i(d) - y_j(d))^2 / (x_i(d) + y_j(d))` (eq. 14); bins that are empty in
/// both rows add nothing, and `y = None` means `y = x`.
///
/// # Errors
///
/// [`Error::Shape`] when `x` and `y` have different numbers of columns, [`Error::Negative`] or
/// [`Error::NotFinite`] at the first bad entry.
///
/// # Examples
///
/// ```
/// use histrs::{Executor, HistogramMatrix, chi2};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[1.0, 3.0], [1.0, 1.0]];
/// let distances = chi2::distances(&exec, &HistogramMatrix::dense(x.view()), None)?;
/// assert_eq!(distances, array![[0.0, 1.0], [1.0, 0.0]]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn distances<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<Array2<T>> {
    pairwise(exec, Distance, x, y)
}

/// The kernel `sum_d 2 x_i(d) y_j(d) / (x_i(d) + y_j(d))` (eq. 4, right-hand side).
///
/// # Errors
///
/// As [`distances`].
pub fn additive_gram<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<Array2<T>> {
    pairwise(exec, Additive, x, y)
}

/// The kernel `exp(-gamma distance)` (eq. 1).
///
/// # Errors
///
/// As [`distances`]; [`Error::Parameter`] unless `gamma` is positive and finite.
pub fn exp_gram<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
    gamma: f64,
) -> Result<Array2<T>> {
    if !(gamma > 0.0 && gamma < f64::INFINITY) {
        let expected = "it must be positive and finite";
        return Err(Error::Parameter { name: "gamma", value: gamma, expected });
    }
    pairwise(exec, Exponential { gamma }, x, y)
}
