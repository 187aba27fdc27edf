//! Nearest centres and k-means.

use histrs::clustering as core;
use ndarray::{ArrayView2, Ix2};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::convert::{Either, EitherArray, into_any, with_either};
use crate::executor::with_executor;

/// Rows or centers.
type Rows<'py> = EitherArray<'py, Ix2>;

type Found<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<i32>>, f64, usize);

/// The numbers of the nearest centers.
#[pyfunction]
pub(crate) fn nearest_centers<'py>(
    py: Python<'py>,
    x: Rows<'py>,
    centers: Rows<'py>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyArray1<i32>>> {
    let labels = match (&x, &centers) {
        (Either::F64(x), Either::F64(centers)) => {
            let (x, centers) = (x.as_array(), centers.as_array());
            with_executor(py, n_threads, |e| core::nearest_centers(e, x, centers))
        }
        (Either::F32(x), Either::F32(centers)) => {
            let (x, centers) = (x.as_array(), centers.as_array());
            with_executor(py, n_threads, |e| core::nearest_centers(e, x, centers))
        }
        _ => Err(PyTypeError::new_err("X and the centers must have the same dtype")),
    };
    Ok(labels?.into_pyarray(py))
}

/// Centers, labels, the inertia and the number of passes.
#[pyfunction]
pub(crate) fn k_means<'py>(
    py: Python<'py>,
    x: Rows<'py>,
    n_centers: usize,
    seed: u64,
    max_iter: usize,
    tol: f64,
    n_threads: usize,
) -> PyResult<Found<'py>> {
    let parameters =
        core::KMeansParameters::default().with_seed(seed).with_max_iter(max_iter).with_tol(tol);
    with_either!(&x, |x| found(py, x.as_array(), n_centers, parameters, n_threads))
}

fn found<'py, T: histrs::Real + numpy::Element>(
    py: Python<'py>,
    x: ArrayView2<'_, T>,
    n_centers: usize,
    parameters: core::KMeansParameters,
    n_threads: usize,
) -> PyResult<Found<'py>> {
    let found = with_executor(py, n_threads, |e| core::k_means(e, x, n_centers, parameters))?;
    let labels = found.labels.into_pyarray(py);
    Ok((into_any(py, found.centers)?, labels, found.inertia, found.n_iter))
}
