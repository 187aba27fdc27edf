//! Kernels and distances of all pairs of rows.

use histrs::kernels::{self as core, AdditiveKernel};
use pyo3::prelude::*;

use crate::convert::{Histograms, with_pair};
use crate::executor::Threads;

/// Functions of `X` and `Y`, of one element type; without `Y` it is `X`.
macro_rules! of_pairs {
    ($($(#[$doc:meta])* $name:ident = $function:path $(, $kernel:expr)?;)*) => {$(
        $(#[$doc])*
        #[pyfunction]
        pub(crate) fn $name<'py>(
            x: Histograms<'py>,
            y: Option<Histograms<'py>>,
            n_threads: Threads<'py>,
        ) -> PyResult<Bound<'py, PyAny>> {
            with_pair!(&x, &y, |x, y| n_threads.any(|e| $function($($kernel,)? e, &x, y)))
        }
    )*};
}

of_pairs! {
    /// The histogram intersection kernel.
    intersection_gram = AdditiveKernel::gram, AdditiveKernel::Intersection;
    /// The additive chi-square kernel.
    additive_chi2_gram = AdditiveKernel::gram, AdditiveKernel::Chi2;
    /// The Hellinger kernel.
    hellinger_gram = AdditiveKernel::gram, AdditiveKernel::Hellinger;
    /// The Jensen-Shannon kernel.
    jensen_shannon_gram = AdditiveKernel::gram, AdditiveKernel::JensenShannon;
    /// The cubic-spline kernel.
    cubic_spline_gram = core::cubic_spline_gram;
    /// The MinMax kernel.
    minmax_gram = core::minmax_gram;
    /// 1 less the MinMax kernel.
    minmax_distances = core::minmax_distances;
    /// The chi-square distances.
    chi2_distances = core::chi2_distances;
}

/// The exponential chi-square kernel.
#[pyfunction]
pub(crate) fn exp_chi2_gram<'py>(
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    gamma: f64,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    with_pair!(&x, &y, |x, y| n_threads.any(|e| core::exp_chi2_gram(e, &x, y, gamma)))
}
