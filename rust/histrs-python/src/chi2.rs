//! Feature maps of the chi-square kernel.

use histrs::{Error, HistogramMatrix, Real, chi2 as core};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::convert::{Histograms, csr_parts, filled, with_histograms};
use crate::executor::{Threads, call, to_python};

type Vector<'py> = Bound<'py, PyArray1<f64>>;

/// The smallest positive and the largest entry of every column.
#[pyfunction]
pub(crate) fn column_ranges<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    n_threads: Threads<'py>,
) -> PyResult<(Vector<'py>, Vector<'py>)> {
    let (low, high) = with_histograms!(&x, |x| n_threads.run(|e| core::column_ranges(e, &x))?);
    Ok((low.into_pyarray(py), high.into_pyarray(py)))
}

/// A feature map of the additive chi-square kernel.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct AdditiveMap(pub(crate) core::AdditiveMap);

#[pymethods]
impl AdditiveMap {
    #[staticmethod]
    fn rational(poles: PyReadonlyArray2<'_, f64>) -> PyResult<Self> {
        call(|| core::AdditiveMap::rational(poles.as_array())).map(Self)
    }

    #[staticmethod]
    fn chebyshev(n_components: usize) -> PyResult<Self> {
        call(|| core::AdditiveMap::chebyshev(n_components)).map(Self)
    }

    #[staticmethod]
    fn periodic(n_components: usize, sample_interval: f64) -> PyResult<Self> {
        call(|| core::AdditiveMap::periodic(n_components, sample_interval)).map(Self)
    }

    /// The features: an array, or the parts of a CSR matrix.
    fn transform<'py>(
        &self,
        py: Python<'py>,
        x: Histograms<'py>,
        n_threads: Threads<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        with_histograms!(&x, |x| self.transform_matrix(py, &x, n_threads))
    }
}

impl AdditiveMap {
    fn transform_matrix<'py, T: Real + numpy::Element>(
        &self,
        py: Python<'py>,
        x: &HistogramMatrix<'_, T>,
        n_threads: Threads<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let n_threads = n_threads.for_rows(x.n_rows());
        match x {
            HistogramMatrix::Dense(x) => {
                let shape = (x.nrows(), x.ncols() * self.0.n_components());
                filled(py, shape, |out| n_threads.run(|e| self.0.transform_into(e, *x, out)))
            }
            HistogramMatrix::Csr(x) => {
                csr_parts(py, n_threads.run(|e| self.0.transform_csr(e, x))?)
            }
            _ => Err(to_python(Error::Internal("a matrix is neither dense nor CSR"))),
        }
    }
}
