//! What makes a codeword the nearest.

use pulp::Simd;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::simd::Element;

/// The squared distance that an additive kernel induces, `k(x, x) + k(z, z) - 2 k(x, z)`, or the
/// Euclidean one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Metric {
    /// `sum (x - z)^2`, of any finite values.
    Euclidean,
    /// `sum (sqrt x - sqrt z)^2`, of the kernel `sum sqrt(x z)`.
    Hellinger,
    /// `sum (x - z)^2 / (x + z)`, of the kernel `sum 2 x z / (x + z)`.
    Chi2,
    /// `sum |x - z|`, of the kernel `sum min(x, z)`.
    Intersection,
}

impl Metric {
    /// The coordinates in which the distance is evaluated.
    pub(super) fn coordinate(self, value: f64) -> f64 {
        if self == Self::Hellinger { value.sqrt() } else { value }
    }

    /// Whether the distance is `|z|^2 - 2 x z`, up to what does not depend on `z`.
    pub(super) fn is_inner_product(self) -> bool {
        matches!(self, Self::Euclidean | Self::Hellinger)
    }

    /// Fails at the first entry for which there is no distance.
    pub(super) fn check<T: Element>(
        self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
    ) -> Result<()> {
        if self == Self::Euclidean { x.check_finite(exec, "X") } else { x.check(exec, "X") }
    }
}

impl std::str::FromStr for Metric {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "euclidean" => Ok(Self::Euclidean),
            "hellinger" => Ok(Self::Hellinger),
            "chi2" => Ok(Self::Chi2),
            "intersection" => Ok(Self::Intersection),
            _ => Err(Error::Unknown {
                name: "metric",
                value: name.into(),
                known: "\"euclidean\", \"hellinger\", \"chi2\" or \"intersection\"",
            }),
        }
    }
}

/// One column's part of a distance.
pub(super) trait Term: Copy + Sync {
    fn add<T: Element, S: Simd>(
        simd: S,
        x: T::Vector<S>,
        z: T::Vector<S>,
        sum: T::Vector<S>,
    ) -> T::Vector<S>;
}

/// `x z`, where `z` is a codeword with its sign changed.
#[derive(Clone, Copy)]
pub(super) struct InnerProduct;

impl Term for InnerProduct {
    #[inline(always)]
    fn add<T: Element, S: Simd>(
        simd: S,
        x: T::Vector<S>,
        z: T::Vector<S>,
        sum: T::Vector<S>,
    ) -> T::Vector<S> {
        T::mul_add(simd, x, z, sum)
    }
}

/// `|x - z|`.
#[derive(Clone, Copy)]
pub(super) struct Difference;

impl Term for Difference {
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

/// `(x - z)^2 / (x + z)`.
#[derive(Clone, Copy)]
pub(super) struct ChiSquare;

impl Term for ChiSquare {
    #[inline(always)]
    fn add<T: Element, S: Simd>(
        simd: S,
        x: T::Vector<S>,
        z: T::Vector<S>,
        sum: T::Vector<S>,
    ) -> T::Vector<S> {
        // The smallest number keeps 0/0 away, and is lost in every other sum.
        let total = T::max(simd, T::add(simd, x, z), T::splat(simd, T::TINY));
        let difference = T::sub(simd, x, z);
        // Divided first: a square may overflow.
        T::mul_add(simd, difference, T::div(simd, difference, total), sum)
    }
}
