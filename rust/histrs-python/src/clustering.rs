//! Nearest centres and k-means.

use histrs::clustering as core;
use ndarray::Ix2;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

use crate::convert::{EitherArray, with_alike, with_either};
use crate::executor::Threads;

/// Rows or centers.
type Rows<'py> = EitherArray<'py, Ix2>;

type Found<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<i32>>, f64, usize);

/// The numbers of the nearest centers.
#[pyfunction]
pub(crate) fn nearest_centers<'py>(
    x: Rows<'py>,
    centers: Rows<'py>,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyArray1<i32>>> {
    with_alike!((&x, &centers), "X and the centers", |x, centers| {
        n_threads.array(|e| core::nearest_centers(e, x, centers))
    })
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
    n_threads: Threads<'py>,
) -> PyResult<Found<'py>> {
    let parameters =
        core::KMeansParameters::default().with_seed(seed).with_max_iter(max_iter).with_tol(tol);
    with_either!(&x, |x| {
        let x = x.as_array();
        let found = n_threads.run(|e| core::k_means(e, x, n_centers, parameters))?;
        let centers = found.centers.into_pyarray(py).into_any();
        Ok((centers, found.labels.into_pyarray(py), found.inertia, found.n_iter))
    })
}
