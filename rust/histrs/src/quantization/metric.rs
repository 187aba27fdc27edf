//! What makes a codeword the nearest.

use pulp::Simd;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::kernels::{AdditiveKernel, DistanceTerm, Hellinger};
use crate::matrix::HistogramMatrix;
use crate::pairwise::Term;
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
        if self == Self::Hellinger { Hellinger::prepare(value) } else { value }
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

impl TryFrom<AdditiveKernel> for Metric {
    type Error = Error;

    /// The metric that a kernel induces.
    fn try_from(kernel: AdditiveKernel) -> Result<Self> {
        match kernel {
            AdditiveKernel::Hellinger => Ok(Self::Hellinger),
            AdditiveKernel::Chi2 => Ok(Self::Chi2),
            AdditiveKernel::Intersection => Ok(Self::Intersection),
            // Its distance takes a logarithm for each entry of each codeword.
            AdditiveKernel::JensenShannon => Err(unknown(kernel.name())),
        }
    }
}

impl std::str::FromStr for Metric {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "euclidean" => Ok(Self::Euclidean),
            _ => name.parse::<AdditiveKernel>().map_err(|_| unknown(name))?.try_into(),
        }
    }
}

fn unknown(name: &str) -> Error {
    Error::parameter(
        "metric",
        name,
        "use \"euclidean\", \"hellinger\", \"chi2\" or \"intersection\"",
    )
}

/// `x z`, where `z` is a codeword with its sign changed: half the Euclidean distance, up to what does
/// not depend on `z` and what is added for it.
#[derive(Clone, Copy)]
pub(super) struct InnerProduct;

impl DistanceTerm for InnerProduct {
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
