//! The range of the numbers, and exponentials and logarithms that stay in it.

use crate::simd::{Element, Elementary, vectorized};

/// Largest `M / reg` in double precision: neither the kernel nor the scalings, which may be as large as
/// its inverse, leave the range of the numbers.
pub(super) const DOUBLE_RANGE: f64 = 320.0;
/// Exponent of a forbidden cell: above every other, and finite.
pub(super) const FORBIDDEN: f64 = 1e300;
/// Logarithm of an empty bin: below everything, and finite.
pub(super) const NOTHING: f64 = -1e300;

/// [`NOTHING`] in the precision of `T`.
pub(super) fn nothing<T: Element>() -> T {
    T::from_f64(if size_of::<T>() < size_of::<f64>() { -1e30 } else { NOTHING })
}

/// No sum of exponentials from the largest is below the least entry of a kernel in range, unless the
/// cells of the largest are forbidden.
pub(super) fn least_sum<T: Element>() -> T {
    T::from_f64(if size_of::<T>() < size_of::<f64>() { 1e-18 } else { 1e-140 })
}

/// Of which bins the sums are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Target,
}

vectorized!(
    /// `weights = exp(values - largest)`.
    pub(super) fn shift<T: Elementary>(
        values: &[T],
        largest: &mut [T],
        weights: &mut [T],
        stride: usize,
        width: usize,
    ) {
        // So much below the least sum that nothing is lost, and no product with the kernel is too small
        // for a normal number, which would take many times as long.
        let least = if size_of::<T>() < size_of::<f64>() { NOTHING } else { -DOUBLE_RANGE - 40.0 };
        let negligible = T::from_f64(least);
        let largest = &mut largest[..width];
        largest.fill(nothing());
        for values in values.chunks_exact(stride) {
            for (&value, largest) in values.iter().zip(&mut *largest) {
                // NaN is kept: it is to be seen in the sums.
                *largest = if value <= *largest { *largest } else { value };
            }
        }
        for (values, weights) in values.chunks_exact(stride).zip(weights.chunks_exact_mut(stride)) {
            for ((&value, &largest), weight) in values.iter().zip(&*largest).zip(weights) {
                let exponent = value - largest;
                let exponential = exponent.exp_in_range();
                *weight = if exponent < negligible { T::default() } else { exponential };
            }
        }
    }
);

vectorized!(
    /// `sums = log(sums) + largest`.
    pub(super) fn logarithms<T: Elementary>(
        sums: &mut [T],
        largest: &[T],
        least: T,
        stride: usize,
        width: usize,
    ) {
        let nan = T::from_f64(f64::NAN);
        for sums in sums.chunks_exact_mut(stride) {
            for (sum, &largest) in sums[..width].iter_mut().zip(largest) {
                let log = sum.ln_of_normal() + largest;
                *sum = if *sum >= least { log } else { nan };
            }
        }
    }
);
