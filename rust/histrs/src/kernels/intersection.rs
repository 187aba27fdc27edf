//! The histogram intersection kernel.

use pulp::Simd;

use crate::kernels::forms::{DistanceTerm, Projection};
use crate::pairwise::{Entries, Term};
use crate::simd::Element;

/// `min(x, y)`.
#[derive(Clone, Copy)]
pub(crate) struct Intersection;

impl Term for Intersection {
    const MINIMA: bool = true;

    #[inline(always)]
    fn of<T: Element, S: Simd>(simd: S, x: Entries<T, S>, y: Entries<T, S>) -> T::Vector<S> {
        T::min(simd, x.value, y.value)
    }
}

/// `|x - z|`.
impl DistanceTerm for Intersection {
    #[inline(always)]
    fn add<T: Element, S: Simd>(
        simd: S,
        x: T::Vector<S>,
        z: T::Vector<S>,
        sum: T::Vector<S>,
    ) -> T::Vector<S> {
        T::add(simd, sum, T::sub(simd, T::max(simd, x, z), T::min(simd, x, z)))
    }
}

impl Projection for Intersection {
    #[inline(always)]
    fn single(z: f64, x: f64) -> f64 {
        if x < z { x / z } else { 1.0 }
    }

    /// Eq. 8.
    #[inline(always)]
    fn pair(a: f64, b: f64, x: f64) -> (f64, f64) {
        let width = b - a;
        ((b - x) / width, (x - a) / width)
    }
}
