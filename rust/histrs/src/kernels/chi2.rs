//! The chi-square kernel, the distance that it induces, and the kernel made of that.

use ndarray::Array2;
use pulp::Simd;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::kernels::forms::{DistanceTerm, Projection};
use crate::matrix::HistogramMatrix;
use crate::pairwise::{Entries, Term, pairwise};
use crate::simd::Element;

/// `2 x y / (x + y)` (eq. 4, right-hand side).
#[derive(Clone, Copy)]
pub(crate) struct Chi2;

/// `(x - y)^2 / (x + y)`.
#[derive(Clone, Copy)]
struct Distance;

/// The distance, to become `exp(-gamma distance)`.
#[derive(Clone, Copy)]
struct Exponential {
    gamma: f64,
}

impl Term for Chi2 {
    #[inline(always)]
    fn of<T: Element, S: Simd>(simd: S, x: Entries<T, S>, y: Entries<T, S>) -> T::Vector<S> {
        let (larger, smaller) = (T::max(simd, x.value, y.value), T::min(simd, x.value, y.value));
        // At least one half, so that it cannot underflow.
        let ratio = T::div(simd, larger, positive_sum::<T, S>(simd, x.value, y.value));
        let half = T::mul(simd, smaller, ratio);
        T::add(simd, half, half)
    }
}

impl DistanceTerm for Chi2 {
    #[inline(always)]
    fn add<T: Element, S: Simd>(
        simd: S,
        x: T::Vector<S>,
        z: T::Vector<S>,
        sum: T::Vector<S>,
    ) -> T::Vector<S> {
        let (difference, ratio) = difference_and_ratio::<T, S>(simd, x, z);
        T::mul_add(simd, difference, ratio, sum)
    }
}

impl Projection for Chi2 {
    #[inline(always)]
    fn single(z: f64, x: f64) -> f64 {
        2.0 * (x / (z + x))
    }

    /// Eq. 9 for any two knots; its second entry is `x - i`, not `x - 1` as printed.
    #[inline(always)]
    fn pair(a: f64, b: f64, x: f64) -> (f64, f64) {
        let scale = 2.0 * (x / (a + x)) * ((a + b) / (b + x));
        let width = b - a;
        (scale * ((b - x) / width), scale * ((x - a) / width))
    }
}

impl Term for Distance {
    const KEEPS_UNMATCHED: bool = true;

    #[inline(always)]
    fn of<T: Element, S: Simd>(simd: S, x: Entries<T, S>, y: Entries<T, S>) -> T::Vector<S> {
        let (difference, ratio) = difference_and_ratio::<T, S>(simd, x.value, y.value);
        T::mul(simd, difference, ratio)
    }
}

impl Term for Exponential {
    const KEEPS_UNMATCHED: bool = true;

    #[inline(always)]
    fn of<T: Element, S: Simd>(simd: S, x: Entries<T, S>, y: Entries<T, S>) -> T::Vector<S> {
        Distance::of::<T, S>(simd, x, y)
    }

    #[inline(always)]
    fn finish(self, sum: f64, _: usize, _: usize) -> f64 {
        (-self.gamma * sum).exp()
    }
}

/// `x - y` and `(x - y) / (x + y)`: divided first, so that no square overflows.
#[inline(always)]
fn difference_and_ratio<T: Element, S: Simd>(
    simd: S,
    x: T::Vector<S>,
    y: T::Vector<S>,
) -> (T::Vector<S>, T::Vector<S>) {
    let difference = T::sub(simd, x, y);
    (difference, T::div(simd, difference, positive_sum::<T, S>(simd, x, y)))
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
/// use histrs::{Executor, HistogramMatrix, kernels::chi2_distances};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[1.0, 3.0], [1.0, 1.0]];
/// let distances = chi2_distances(&exec, &HistogramMatrix::dense(x.view()), None)?;
/// assert_eq!(distances, array![[0.0, 1.0], [1.0, 0.0]]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn chi2_distances<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<Array2<T>> {
    pairwise(exec, Distance, x, y)
}

/// The kernel `exp(-gamma distance)` (eq. 1).
///
/// # Errors
///
/// As [`chi2_distances`]; [`Error::Parameter`] unless `gamma` is positive and finite.
pub fn exp_chi2_gram<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
    gamma: f64,
) -> Result<Array2<T>> {
    if !(gamma > 0.0 && gamma < f64::INFINITY) {
        let expected = "it must be positive and finite";
        return Err(Error::parameter("gamma", gamma, expected));
    }
    pairwise(exec, Exponential { gamma }, x, y)
}
