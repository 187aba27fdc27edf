//! Hellinger's kernel.

use pulp::Simd;

use crate::kernels::forms::Projection;
use crate::pairwise::{Entries, Term};
use crate::simd::Element;

/// `sqrt(x) sqrt(y)`.
#[derive(Clone, Copy)]
pub(crate) struct Hellinger;

impl Term for Hellinger {
    #[inline]
    fn prepare(value: f64) -> f64 {
        value.sqrt()
    }

    #[inline(always)]
    fn of<T: Element, S: Simd>(simd: S, x: Entries<T, S>, y: Entries<T, S>) -> T::Vector<S> {
        T::mul(simd, x.value, y.value)
    }

    /// One operation where the machine has it.
    #[inline(always)]
    fn add<T: Element, S: Simd>(
        simd: S,
        sum: T::Vector<S>,
        x: Entries<T, S>,
        y: Entries<T, S>,
    ) -> T::Vector<S> {
        T::mul_add(simd, x.value, y.value, sum)
    }
}

impl Projection for Hellinger {
    #[inline(always)]
    fn single(z: f64, x: f64) -> f64 {
        (x / z).sqrt()
    }

    /// The kernel is of rank one, so that this is its pseudo-inverse, and no error is made.
    #[inline(always)]
    fn pair(a: f64, b: f64, x: f64) -> (f64, f64) {
        let (low, high) = (a / b, x / b);
        let scale = high.sqrt() / (1.0 + low);
        (low.sqrt() * scale, scale)
    }
}
