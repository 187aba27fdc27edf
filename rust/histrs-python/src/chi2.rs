//! The chi-square kernel and its relatives.

use histrs::chi2 as core;
use pyo3::prelude::*;

use crate::convert::{Histograms, into_any, with_pair};
use crate::door::enter;

/// The distances between rows.
#[pyfunction]
pub(crate) fn chi2_distances<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    with_pair!(&x, &y, |x, y| into_any(py, enter(py, n_threads, |e| core::distances(e, &x, y))?))
}

/// The additive chi-square kernel.
#[pyfunction]
pub(crate) fn additive_chi2_gram<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    with_pair!(&x, &y, |x, y| into_any(
        py,
        enter(py, n_threads, |e| core::additive_gram(e, &x, y))?
    ))
}

/// The exponential chi-square kernel.
#[pyfunction]
pub(crate) fn exp_chi2_gram<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    gamma: f64,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    with_pair!(&x, &y, |x, y| {
        into_any(py, enter(py, n_threads, |e| core::exp_gram(e, &x, y, gamma))?)
    })
}

/// The Hellinger kernel.
#[pyfunction]
pub(crate) fn hellinger_gram<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    with_pair!(&x, &y, |x, y| {
        into_any(py, enter(py, n_threads, |e| core::hellinger_gram(e, &x, y))?)
    })
}

/// The Jensen-Shannon kernel.
#[pyfunction]
pub(crate) fn jensen_shannon_gram<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    with_pair!(&x, &y, |x, y| {
        into_any(py, enter(py, n_threads, |e| core::jensen_shannon_gram(e, &x, y))?)
    })
}
