//! Kept sums of minima, diagonals of the kernel matrix, and the check of histograms.

use histrs::intersection as core;
use numpy::{IntoPyArray, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::convert::{Histograms, with_histograms};
use crate::executor::with_executor;
use crate::intersection::{Matrix, Vector};

/// Sums of minima of all pairs of rows, kept for products.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct StoredMinima(core::StoredMinima);

#[pymethods]
impl StoredMinima {
    #[new]
    fn new(py: Python<'_>, x: Histograms<'_>, n_threads: usize) -> PyResult<Self> {
        with_histograms!(&x, |x| {
            with_executor(py, n_threads, |exec| core::StoredMinima::new(exec, &x)).map(Self)
        })
    }

    fn product<'py>(
        &self,
        py: Python<'py>,
        minmax: f64,
        intersection: f64,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        let product = with_executor(py, n_threads, |e| self.0.product(e, minmax, intersection, v))?;
        Ok(product.into_pyarray(py))
    }

    fn n_bytes(&self) -> usize {
        self.0.n_bytes()
    }
}

/// `k(x, x)` of every row.
#[pyfunction]
pub(crate) fn row_sums<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    n_threads: usize,
) -> PyResult<Vector<'py>> {
    with_histograms!(&x, |x| Ok(with_executor(py, n_threads, |e| x.row_sums(e))?.into_pyarray(py)))
}

/// Fails at the first entry that is negative or not finite.
#[pyfunction]
pub(crate) fn check_histograms(
    py: Python<'_>,
    x: Histograms<'_>,
    n_threads: usize,
) -> PyResult<()> {
    with_histograms!(&x, |x| with_executor(py, n_threads, |e| x.check(e, "X")))
}
