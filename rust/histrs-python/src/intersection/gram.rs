//! Kept sums of minima, diagonals of the kernel matrix, and the check of histograms.

use histrs::intersection as core;
use numpy::PyReadonlyArray2;
use pyo3::prelude::*;

use crate::convert::{Histograms, with_histograms};
use crate::executor::Threads;
use crate::intersection::{Matrix, Vector};

/// Sums of minima of all pairs of rows, kept for products.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct StoredMinima(core::StoredMinima);

#[pymethods]
impl StoredMinima {
    #[new]
    fn new(x: Histograms<'_>, n_threads: Threads<'_>) -> PyResult<Self> {
        with_histograms!(&x, |x| {
            n_threads.run(|exec| core::StoredMinima::new(exec, &x)).map(Self)
        })
    }

    fn product<'py>(
        &self,
        minmax: f64,
        intersection: f64,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        n_threads.array(|e| self.0.product(e, minmax, intersection, v))
    }

    fn n_bytes(&self) -> usize {
        self.0.n_bytes()
    }
}

/// `k(x, x)` of every row.
#[pyfunction]
pub(crate) fn row_sums<'py>(x: Histograms<'py>, n_threads: Threads<'py>) -> PyResult<Vector<'py>> {
    with_histograms!(&x, |x| n_threads.for_rows(x.n_rows()).array(|e| x.row_sums(e)))
}

/// Fails at the first entry that is negative or not finite.
#[pyfunction]
pub(crate) fn check_histograms(x: Histograms<'_>, n_threads: Threads<'_>) -> PyResult<()> {
    with_histograms!(&x, |x| n_threads.for_rows(x.n_rows()).run(|e| x.check(e, "X")))
}
