//! What preconditions the exact kernel.

use histrs::intersection as core;
use ndarray::Ix2;
use numpy::{IntoPyArray, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::convert::{Either, EitherArray, with_either};
use crate::executor::{Threads, call};
use crate::intersection::columns::SortedColumns;
use crate::intersection::{Matrix, Rows, Vector};

/// The kernel projected on knots.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct KnotProjection(core::KnotProjection);

#[pymethods]
impl KnotProjection {
    #[new]
    fn new(columns: &SortedColumns, n_knots: usize, n_threads: Threads<'_>) -> PyResult<Self> {
        n_threads.run(|e| core::KnotProjection::new(e, &columns.0, n_knots)).map(Self)
    }

    fn of_rows(&self, columns: &SortedColumns, n_threads: Threads<'_>) -> PyResult<Self> {
        n_threads.run(|e| self.0.of_rows(e, &columns.0)).map(Self)
    }

    fn concatenate(&self, other: &Self, n_threads: Threads<'_>) -> PyResult<Self> {
        n_threads.run(|e| self.0.concatenate(e, &other.0)).map(Self)
    }

    fn select(&self, rows: Rows<'_>, n_threads: Threads<'_>) -> PyResult<Self> {
        let rows = rows.as_slice()?;
        n_threads.run(|e| self.0.select(e, rows)).map(Self)
    }

    #[getter]
    fn n_features(&self) -> usize {
        self.0.n_features()
    }

    fn inverse_kernel<'py>(&self, py: Python<'py>) -> PyResult<(Vector<'py>, Vector<'py>)> {
        let (diagonal, upper) = call(|| self.0.inverse_kernel())?;
        Ok((diagonal.into_pyarray(py), upper.into_pyarray(py)))
    }

    fn gram<'py>(&self, n_threads: Threads<'py>) -> PyResult<Matrix<'py>> {
        n_threads.array(|e| self.0.gram(e))
    }

    fn weighted_gram<'py>(
        &self,
        weights: PyReadonlyArray1<'py, f64>,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let weights = weights.as_slice()?;
        n_threads.array(|e| self.0.weighted_gram(e, weights))
    }

    fn project<'py>(
        &self,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        n_threads.array(|e| self.0.project(e, v))
    }

    fn expand<'py>(
        &self,
        w: PyReadonlyArray2<'py, f64>,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let w = w.as_array();
        n_threads.array(|e| self.0.expand(e, w))
    }
}

/// The inverse that a low-rank factor gives, in the precision of the factor.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct LowRankInverse(Either<core::LowRankInverse<f64>, core::LowRankInverse<f32>>);

#[pymethods]
impl LowRankInverse {
    #[new]
    #[pyo3(signature = (factor_transposed, root, s, n_threads))]
    fn new(
        factor_transposed: EitherArray<'_, Ix2>,
        root: Option<PyReadonlyArray2<'_, f64>>,
        s: f64,
        n_threads: Threads<'_>,
    ) -> PyResult<Self> {
        let root = root.as_ref().map(PyReadonlyArray2::as_array);
        Ok(Self(match &factor_transposed {
            Either::F64(e) => {
                let e = e.as_array();
                Either::F64(n_threads.run(|exec| core::LowRankInverse::new(exec, e, root, s))?)
            }
            Either::F32(e) => {
                let e = e.as_array();
                Either::F32(n_threads.run(|exec| core::LowRankInverse::new(exec, e, root, s))?)
            }
        }))
    }

    fn factor_transposed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        with_either!(&self.0, |inverse| {
            Ok(call(|| inverse.factor_transposed())?.into_pyarray(py).into_any())
        })
    }

    fn apply<'py>(
        &self,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        with_either!(&self.0, |inverse| { n_threads.array(|exec| inverse.apply(exec, v)) })
    }

    fn apply_f32<'py>(
        &self,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: Threads<'py>,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        with_either!(&self.0, |inverse| { n_threads.array(|exec| inverse.apply_f32(exec, v)) })
    }
}
