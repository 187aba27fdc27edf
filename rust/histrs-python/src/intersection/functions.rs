//! The functions of columns: exact, smooth, and in tables.

use histrs::intersection as core;
use numpy::{IntoPyArray, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert::{Histograms, weights_of_features, with_histograms};
use crate::executor::{Threads, call};
use crate::intersection::columns::SortedColumns;
use crate::intersection::transform::Transform;
use crate::intersection::{Matrix, Vector};

/// The exact piecewise-linear functions of a score.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct ShapeFunctions(core::ShapeFunctions);

#[pymethods]
impl ShapeFunctions {
    #[new]
    fn new(
        columns: &SortedColumns,
        alpha: PyReadonlyArray2<'_, f64>,
        n_threads: Threads<'_>,
    ) -> PyResult<Self> {
        let alpha = alpha.as_array();
        n_threads.run(|e| core::ShapeFunctions::new(e, &columns.0, alpha)).map(Self)
    }

    fn evaluate<'py>(&self, x: Histograms<'py>, n_threads: Threads<'py>) -> PyResult<Matrix<'py>> {
        with_histograms!(&x, |x| n_threads.for_rows(x.n_rows()).array(|e| self.0.predict(e, &x)))
    }

    fn evaluate_transformed<'py>(
        &self,
        x: Histograms<'py>,
        transform: &Transform,
        weights: Option<PyReadonlyArray1<'py, f64>>,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let weights = weights_of_features(&weights)?;
        let weights = weights.as_deref();
        with_histograms!(&x, |x| {
            let evaluate = |e: &_| self.0.predict_transformed(e, &x, &transform.0, weights);
            n_threads.for_rows(x.n_rows()).array(evaluate)
        })
    }

    fn column<'py>(&self, py: Python<'py>, d: usize) -> PyResult<(Vector<'py>, Matrix<'py>)> {
        let (knots, values) = call(|| self.0.column(d))?;
        Ok((knots.to_vec().into_pyarray(py), values.to_owned().into_pyarray(py)))
    }

    fn intercepts_and_slopes<'py>(
        &self,
        py: Python<'py>,
        d: usize,
    ) -> PyResult<(Matrix<'py>, Matrix<'py>)> {
        let (intercepts, slopes) = call(|| self.0.intercepts_and_slopes(d))?;
        Ok((intercepts.into_pyarray(py), slopes.into_pyarray(py)))
    }
}

/// The functions of a score under the kernel of cubic splines.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct CubicFunctions(core::CubicFunctions);

#[pymethods]
impl CubicFunctions {
    #[new]
    #[pyo3(signature = (columns, alpha, slope, n_knots, n_threads))]
    fn new(
        columns: &SortedColumns,
        alpha: PyReadonlyArray2<'_, f64>,
        slope: f64,
        n_knots: Option<usize>,
        n_threads: Threads<'_>,
    ) -> PyResult<Self> {
        let alpha = alpha.as_array();
        n_threads.run(|e| core::CubicFunctions::new(e, &columns.0, alpha, slope, n_knots)).map(Self)
    }

    fn evaluate<'py>(&self, x: Histograms<'py>, n_threads: Threads<'py>) -> PyResult<Matrix<'py>> {
        with_histograms!(&x, |x| n_threads.for_rows(x.n_rows()).array(|e| self.0.predict(e, &x)))
    }

    fn column<'py>(&self, py: Python<'py>, d: usize) -> PyResult<(Vector<'py>, Vector<'py>)> {
        let (knots, terms) = call(|| self.0.column(d))?;
        Ok((knots.to_vec().into_pyarray(py), terms.to_vec().into_pyarray(py)))
    }
}

/// The table of a score with its certified error.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct LookupTable(core::LookupTable);

#[pymethods]
impl LookupTable {
    #[new]
    fn new(
        columns: &SortedColumns,
        alpha: PyReadonlyArray2<'_, f64>,
        n_bins: usize,
        interpolation: &str,
        n_threads: Threads<'_>,
    ) -> PyResult<Self> {
        let interpolation = match interpolation {
            "linear" => core::Interpolation::Linear,
            "nearest" => core::Interpolation::Nearest,
            other => return Err(PyValueError::new_err(format!("interpolation = {other:?}"))),
        };
        let alpha = alpha.as_array();
        n_threads
            .run(|e| core::LookupTable::new(e, &columns.0, alpha, n_bins, interpolation))
            .map(Self)
    }

    #[staticmethod]
    #[pyo3(signature = (columns, alpha, n_bins, weights, n_threads))]
    fn compact(
        columns: &SortedColumns,
        alpha: PyReadonlyArray2<'_, f64>,
        n_bins: usize,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        n_threads: Threads<'_>,
    ) -> PyResult<Self> {
        let alpha = alpha.as_array();
        let weights = weights_of_features(&weights)?;
        let weights = weights.as_deref();
        n_threads
            .run(|e| core::LookupTable::compact(e, &columns.0, alpha, n_bins, weights))
            .map(Self)
    }

    fn evaluate_bytes<'py>(
        &self,
        x: PyReadonlyArray2<'py, u8>,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let x = x.as_array();
        n_threads.for_rows(x.nrows()).array(|e| self.0.predict_bytes(e, x))
    }

    #[getter]
    fn is_compact(&self) -> bool {
        self.0.is_compact()
    }

    fn evaluate<'py>(&self, x: Histograms<'py>, n_threads: Threads<'py>) -> PyResult<Matrix<'py>> {
        with_histograms!(&x, |x| n_threads.for_rows(x.n_rows()).array(|e| self.0.predict(e, &x)))
    }

    fn error_bound<'py>(&self, py: Python<'py>) -> Vector<'py> {
        self.0.error_bound().to_vec().into_pyarray(py)
    }

    #[getter]
    fn n_bytes(&self) -> usize {
        self.0.n_bytes()
    }
}
