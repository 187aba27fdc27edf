//! The smooth companion of the minimum: once-integrated Brownian motion.

use ndarray::Array2;
use pulp::Simd;

use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::pairwise::{Entries, Term, pairwise};
use crate::simd::Element;

/// `s^2 (3 t - s) / 6` for `s <= t`.
#[derive(Clone, Copy)]
struct CubicSpline;

impl Term for CubicSpline {
    #[inline(always)]
    fn of<T: Element, S: Simd>(simd: S, x: Entries<T, S>, y: Entries<T, S>) -> T::Vector<S> {
        let smaller = T::min(simd, x.value, y.value);
        let larger = T::max(simd, x.value, y.value);
        // (2 t + (t - s)) / 6, of which nothing cancels.
        let gap = T::sub(simd, larger, smaller);
        let rest = T::mul_add(simd, T::splat(simd, T::from_f64(2.0)), larger, gap);
        let sixth = T::splat(simd, T::from_f64(1.0 / 6.0));
        T::mul(simd, T::mul(simd, smaller, smaller), T::mul(simd, rest, sixth))
    }
}

/// The kernel matrix `K[i, j] = sum_d s^2 (3 t - s) / 6` with `s` the smaller and `t` the larger of
/// `x_i(d)` and `y_j(d)`; `y = None` means `y = x` and computes each entry once.
///
/// `min(s, t)` is the covariance of Brownian motion, and this is the covariance of its integral.
/// Posterior means are cubic smoothing splines (Wahba, *Improper priors, spline smoothing and the
/// problem of guarding against model errors in regression*, JRSS B, 1978).
///
/// # Errors
///
/// As [`AdditiveKernel::gram`](crate::kernels::AdditiveKernel::gram).
///
/// # Examples
///
/// ```
/// use histrs::{Executor, HistogramMatrix, kernels::cubic_spline_gram};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[3.0], [6.0]];
/// let k = cubic_spline_gram(&exec, &HistogramMatrix::dense(x.view()), None)?;
/// assert_eq!(k, array![[9.0, 22.5], [22.5, 72.0]]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn cubic_spline_gram<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<Array2<T>> {
    pairwise(exec, CubicSpline, x, y)
}
