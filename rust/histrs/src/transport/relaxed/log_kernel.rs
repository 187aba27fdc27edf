//! Logarithms of products with the kernel, in every domain.

use pulp::{Simd, WithSimd};

use crate::simd::{AlignedVec, Elementary, dispatch};
use crate::transport::log_domain::{Exponents, LogSums, nothing};
use crate::transport::scaling::Kernel;

/// A kernel of which logarithms of sums are taken.
pub(in crate::transport) trait LogKernel<T> {
    /// Number of bins of a source and of a target.
    fn shape(&self) -> (usize, usize);

    /// `out = log sum exp(values - M / reg)` over the bins of the other side, in every lane; at most
    /// [`unreached`] where every cell is forbidden, and NaN where the range of numbers ran out.
    fn log_sums(&self, side: Side, values: &[T], work: &mut Work<T>, stride: usize, width: usize);
}

/// Of which bins the sums are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::transport) enum Side {
    Source,
    Target,
}

/// Where sums are computed; the result is in `sums`.
pub(in crate::transport) struct Work<T> {
    pub(super) sums: AlignedVec<T>,
    pub(super) weights: AlignedVec<T>,
    pub(super) largest: Vec<T>,
}

/// Sums below are of forbidden cells.
pub(super) fn unreached<T: Elementary>() -> T {
    T::from_f64(0.5 * nothing::<T>().to_f64())
}

impl LogKernel<f64> for Exponents {
    fn shape(&self) -> (usize, usize) {
        (self.n_source, self.n_target)
    }

    fn log_sums(
        &self,
        side: Side,
        values: &[f64],
        work: &mut Work<f64>,
        stride: usize,
        width: usize,
    ) {
        let (matrix, n) = match side {
            Side::Source => (&self.by_source, self.n_source),
            Side::Target => (&self.by_target, self.n_target),
        };
        dispatch(LogSums { matrix, values, out: &mut work.sums[..n * stride], stride, width });
    }
}

impl<T: Elementary> LogKernel<T> for Kernel<T> {
    fn shape(&self) -> (usize, usize) {
        (self.forward.n_rows(), self.forward.n_columns())
    }

    /// Potentials are measured from the largest of their lane, so that they may be of any size.
    fn log_sums(&self, side: Side, values: &[T], work: &mut Work<T>, stride: usize, width: usize) {
        let packed = match side {
            Side::Source => &self.forward,
            Side::Target => &self.backward,
        };
        let Work { sums, weights, largest } = work;
        let n = packed.n_columns() * stride;
        let weights = &mut weights[..n];
        dispatch(Shifted { values: &values[..n], largest, weights, stride, width });
        packed.product(weights, sums, stride, width);
        // No sum is below the least entry of the kernel, unless the cells of the largest are
        // forbidden.
        let least = T::from_f64(if size_of::<T>() < size_of::<f64>() { 1e-18 } else { 1e-140 });
        let sums = &mut sums[..packed.n_rows() * stride];
        dispatch(Logarithms { sums, largest, least, stride, width });
    }
}

/// `weights = exp(values - largest)`.
pub(in crate::transport) struct Shifted<'a, T> {
    pub(in crate::transport) values: &'a [T],
    pub(in crate::transport) largest: &'a mut [T],
    pub(in crate::transport) weights: &'a mut [T],
    pub(in crate::transport) stride: usize,
    pub(in crate::transport) width: usize,
}

impl<T: Elementary> WithSimd for Shifted<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { values, largest, weights, stride, width } = self;
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
                *weight = (value - largest).exp_in_range();
            }
        }
    }
}

/// `sums = log(sums) + largest`.
pub(in crate::transport) struct Logarithms<'a, T> {
    pub(in crate::transport) sums: &'a mut [T],
    pub(in crate::transport) largest: &'a [T],
    pub(in crate::transport) least: T,
    pub(in crate::transport) stride: usize,
    pub(in crate::transport) width: usize,
}

impl<T: Elementary> WithSimd for Logarithms<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { sums, largest, least, stride, width } = self;
        let nan = T::from_f64(f64::NAN);
        for sums in sums.chunks_exact_mut(stride) {
            for (sum, &largest) in sums[..width].iter_mut().zip(largest) {
                let log = sum.ln_of_normal() + largest;
                *sum = if *sum >= least { log } else { nan };
            }
        }
    }
}
