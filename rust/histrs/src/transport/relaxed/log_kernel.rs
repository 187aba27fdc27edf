//! Logarithms of products with the kernel, in every domain.

use crate::simd::{AlignedVec, Elementary};
use crate::transport::log_domain::Exponents;
use crate::transport::range::{Side, least_sum, logarithms, nothing, shift};
use crate::transport::scaling::Kernel;

/// A kernel of which logarithms of sums are taken.
pub(in crate::transport) trait LogKernel<T> {
    /// Number of bins of a source and of a target.
    fn shape(&self) -> (usize, usize);

    /// `out = log sum exp(values - M / reg)` over the bins of the other side, in every lane; at most
    /// [`unreached`] where every cell is forbidden, and NaN where the range of numbers ran out.
    fn log_sums(&self, side: Side, values: &[T], work: &mut Work<T>, stride: usize, width: usize);
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
        let n = if side == Side::Source { self.n_source } else { self.n_target };
        self.log_sums(side, values, &mut work.sums[..n * stride], stride, width);
    }
}

impl<T: Elementary> LogKernel<T> for Kernel<T> {
    fn shape(&self) -> (usize, usize) {
        (self.forward.n_rows(), self.forward.n_columns())
    }

    /// Potentials are measured from the largest of their lane, so that they may be of any size.
    fn log_sums(&self, side: Side, values: &[T], work: &mut Work<T>, stride: usize, width: usize) {
        let kernel = match side {
            Side::Source => &self.forward,
            Side::Target => &self.backward,
        };
        let Work { sums, weights, largest } = work;
        let n = kernel.n_columns() * stride;
        let weights = &mut weights[..n];
        shift(&values[..n], largest, weights, stride, width);
        kernel.product(weights, sums, stride, width);
        let sums = &mut sums[..kernel.n_rows() * stride];
        logarithms(sums, largest, least_sum(), stride, width);
    }
}
