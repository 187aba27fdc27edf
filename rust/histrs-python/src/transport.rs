//! Optimal transport.

use histrs::transport as core;
use histrs::{Element, Executor, HistogramMatrix};
use numpy::{IntoPyArray, PyArray2, PyArray3, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::convert::{Histograms, double, single};
use crate::door::enter;

type Matrix<'py> = Bound<'py, PyArray2<f64>>;
type Potentials<'py> = (Bound<'py, PyArray3<f64>>, Bound<'py, PyArray3<f64>>);
type Distances<'py> =
    (Bound<'py, PyAny>, Matrix<'py>, Bound<'py, PyArray2<usize>>, Option<Potentials<'py>>);

/// Sinkhorn distances, errors, numbers of iterations and potentials of all pairs; both arguments
/// have the same element type.
#[pyfunction]
#[pyo3(signature = (x, y, m, reg, tol, max_iter, regularized, potentials, n_threads))]
#[allow(clippy::too_many_arguments)] // those of the Python function
pub(crate) fn sinkhorn_distances<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    m: PyReadonlyArray2<'py, f64>,
    reg: f64,
    tol: f64,
    max_iter: usize,
    regularized: bool,
    potentials: bool,
    n_threads: usize,
) -> PyResult<Distances<'py>> {
    let options = core::Sinkhorn { reg, tol, max_iter, regularized, potentials };
    match &x {
        Histograms::Dense64(_) | Histograms::Csr64(_) => {
            let y = y.as_ref().map(double).transpose()?;
            distances(py, &double(&x)?, y.as_ref(), &m, &options, n_threads)
        }
        _ => {
            let y = y.as_ref().map(single).transpose()?;
            distances(py, &single(&x)?, y.as_ref(), &m, &options, n_threads)
        }
    }
}

fn distances<'a, 'py, T: Element + numpy::Element>(
    py: Python<'py>,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
    m: &PyReadonlyArray2<'py, f64>,
    options: &core::Sinkhorn,
    n_threads: usize,
) -> PyResult<Distances<'py>> {
    let m = m.as_array();
    let work = |exec: &Executor| core::sinkhorn_distances(exec, x, y, m, options);
    let found = enter(py, n_threads, work)?;
    Ok((
        found.values.into_pyarray(py).into_any(),
        found.errors.into_pyarray(py),
        found.n_iter.into_pyarray(py),
        found.potentials.map(|[f, g]| (f.into_pyarray(py), g.into_pyarray(py))),
    ))
}

/// Fails unless all rows are histograms of one mass; both arguments have the same element type.
#[pyfunction]
#[pyo3(signature = (x, y, n_threads))]
pub(crate) fn check_masses(
    py: Python<'_>,
    x: Histograms<'_>,
    y: Option<Histograms<'_>>,
    n_threads: usize,
) -> PyResult<()> {
    match &x {
        Histograms::Dense64(_) | Histograms::Csr64(_) => {
            let (x, y) = (double(&x)?, y.as_ref().map(double).transpose()?);
            enter(py, n_threads, |exec| core::check_masses(exec, &x, y.as_ref()).map(drop))
        }
        _ => {
            let (x, y) = (single(&x)?, y.as_ref().map(single).transpose()?);
            enter(py, n_threads, |exec| core::check_masses(exec, &x, y.as_ref()).map(drop))
        }
    }
}
