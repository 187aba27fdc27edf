//! The sorted columns, and descent on them.

use histrs::intersection as core;
use ndarray::Array2;
use numpy::{IntoPyArray, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::convert::{Histograms, weights_of_features, with_histograms};
use crate::executor::{Threads, call};
use crate::intersection::transform::Transform;
use crate::intersection::{Matrix, Rows, Vector};

/// Training rows with every column sorted.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct SortedColumns(pub(super) core::SortedColumns);

#[pymethods]
impl SortedColumns {
    #[new]
    fn new(x: Histograms<'_>, n_threads: Threads<'_>) -> PyResult<Self> {
        with_histograms!(&x, |x| {
            n_threads.run(|exec| core::SortedColumns::new(exec, &x)).map(Self)
        })
    }

    fn insert(&self, x: Histograms<'_>, n_threads: Threads<'_>) -> PyResult<Self> {
        with_histograms!(&x, |x| n_threads.run(|exec| self.0.insert(exec, &x)).map(Self))
    }

    fn remove(&self, rows: Rows<'_>, n_threads: Threads<'_>) -> PyResult<Self> {
        let rows = rows.as_slice()?;
        n_threads.run(|exec| self.0.remove(exec, rows)).map(Self)
    }

    #[pyo3(signature = (transform, weights, n_threads))]
    fn transformed(
        &self,
        transform: &Transform,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        n_threads: Threads<'_>,
    ) -> PyResult<Self> {
        let weights = weights_of_features(&weights)?;
        let weights = weights.as_deref();
        n_threads.run(|exec| self.0.transformed(exec, &transform.0, weights)).map(Self)
    }

    fn quadratic_forms<'py>(
        &self,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        n_threads.array(|exec| self.0.quadratic_forms(exec, v))
    }

    fn row_sums<'py>(&self, n_threads: Threads<'py>) -> PyResult<Vector<'py>> {
        n_threads.array(|exec| self.0.row_sums(exec))
    }

    fn spreads<'py>(&self, n_threads: Threads<'py>) -> PyResult<Vector<'py>> {
        n_threads.array(|exec| self.0.spreads(exec))
    }

    fn inverse_spreads<'py>(&self, n_threads: Threads<'py>) -> PyResult<Vector<'py>> {
        n_threads.array(|exec| self.0.inverse_spreads(exec))
    }

    fn smallest(&self) -> f64 {
        self.0.smallest()
    }

    fn product<'py>(
        &self,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        n_threads.array(|exec| self.0.product(exec, v))
    }

    fn cubic_product<'py>(
        &self,
        v: PyReadonlyArray2<'py, f64>,
        slope: f64,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        n_threads.array(|exec| self.0.cubic_product(exec, v, slope))
    }

    fn product_f32<'py>(
        &self,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        n_threads.array(|exec| self.0.product_f32(exec, v))
    }

    fn cross_product<'py>(
        &self,
        py: Python<'py>,
        x: Histograms<'py>,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        with_histograms!(&x, |x| {
            let out: Array2<f64> = n_threads.run(|e| self.0.cross_product(e, &x, v))?;
            Ok(out.into_pyarray(py))
        })
    }

    fn maxima<'py>(&self, py: Python<'py>) -> PyResult<Vector<'py>> {
        Ok(call(|| self.0.maxima())?.into_pyarray(py))
    }

    #[getter]
    fn n_rows(&self) -> usize {
        self.0.n_rows()
    }

    #[getter]
    fn n_columns(&self) -> usize {
        self.0.n_columns()
    }

    #[getter]
    fn n_stored(&self) -> usize {
        self.0.n_stored()
    }

    #[getter]
    fn n_knots(&self) -> PyResult<usize> {
        call(|| self.0.n_knots())
    }

    #[getter]
    fn n_bytes(&self) -> usize {
        self.0.n_bytes()
    }
}

/// Training rows for coordinate descent.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct CoordinateDescent(core::CoordinateDescent);

#[pymethods]
impl CoordinateDescent {
    #[new]
    fn new(columns: &SortedColumns, n_threads: Threads<'_>) -> PyResult<Self> {
        n_threads.run(|e| core::CoordinateDescent::new(e, &columns.0)).map(Self)
    }

    fn descend<'py>(
        &self,
        alpha: PyReadonlyArray2<'py, f64>,
        y: PyReadonlyArray2<'py, f64>,
        s: PyReadonlyArray1<'py, f64>,
        order: Rows<'py>,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let (alpha, y) = (alpha.as_array(), y.as_array());
        let (s, order) = (s.as_slice()?, order.as_slice()?);
        n_threads.array(|e| self.0.descend(e, alpha, y, s, order))
    }
}
