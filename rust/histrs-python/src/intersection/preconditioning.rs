//! What preconditions the exact kernel.

use histrs::intersection as core;
use numpy::{IntoPyArray, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::convert::into_any;
use crate::executor::{call, with_executor};
use crate::intersection::columns::SortedColumns;
use crate::intersection::{Matrix, Rows, Vector};

/// The kernel projected on knots.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct KnotProjection(core::KnotProjection);

#[pymethods]
impl KnotProjection {
    #[new]
    fn new(
        py: Python<'_>,
        columns: &SortedColumns,
        n_knots: usize,
        n_threads: usize,
    ) -> PyResult<Self> {
        with_executor(py, n_threads, |e| core::KnotProjection::new(e, &columns.0, n_knots))
            .map(Self)
    }

    fn of_rows(&self, py: Python<'_>, columns: &SortedColumns, n_threads: usize) -> PyResult<Self> {
        with_executor(py, n_threads, |e| self.0.of_rows(e, &columns.0)).map(Self)
    }

    fn concatenate(&self, py: Python<'_>, other: &Self, n_threads: usize) -> PyResult<Self> {
        with_executor(py, n_threads, |e| self.0.concatenate(e, &other.0)).map(Self)
    }

    fn select(&self, py: Python<'_>, rows: Rows<'_>, n_threads: usize) -> PyResult<Self> {
        let rows = rows.as_slice()?;
        with_executor(py, n_threads, |e| self.0.select(e, rows)).map(Self)
    }

    #[getter]
    fn n_features(&self) -> usize {
        self.0.n_features()
    }

    fn inverse_kernel<'py>(&self, py: Python<'py>) -> PyResult<(Vector<'py>, Vector<'py>)> {
        let (diagonal, upper) = call(|| self.0.inverse_kernel())?;
        Ok((diagonal.into_pyarray(py), upper.into_pyarray(py)))
    }

    fn gram<'py>(&self, py: Python<'py>, n_threads: usize) -> PyResult<Matrix<'py>> {
        Ok(with_executor(py, n_threads, |e| self.0.gram(e))?.into_pyarray(py))
    }

    fn weighted_gram<'py>(
        &self,
        py: Python<'py>,
        weights: PyReadonlyArray1<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let weights = weights.as_slice()?;
        Ok(with_executor(py, n_threads, |e| self.0.weighted_gram(e, weights))?.into_pyarray(py))
    }

    fn project<'py>(
        &self,
        py: Python<'py>,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        Ok(with_executor(py, n_threads, |e| self.0.project(e, v))?.into_pyarray(py))
    }

    fn expand<'py>(
        &self,
        py: Python<'py>,
        w: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let w = w.as_array();
        Ok(with_executor(py, n_threads, |e| self.0.expand(e, w))?.into_pyarray(py))
    }
}

/// The inverse that a low-rank factor gives, in the precision of the factor.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct LowRankInverse(Precision);

enum Precision {
    F32(core::LowRankInverse<f32>),
    F64(core::LowRankInverse<f64>),
}

impl From<core::LowRankInverse<f32>> for Precision {
    fn from(inverse: core::LowRankInverse<f32>) -> Self {
        Self::F32(inverse)
    }
}

impl From<core::LowRankInverse<f64>> for Precision {
    fn from(inverse: core::LowRankInverse<f64>) -> Self {
        Self::F64(inverse)
    }
}

/// A factor of either precision.
#[derive(FromPyObject)]
pub(crate) enum Factor<'py> {
    F32(PyReadonlyArray2<'py, f32>),
    F64(PyReadonlyArray2<'py, f64>),
}

/// Evaluates an expression with what is there in either precision.
macro_rules! in_either_precision {
    ($precision:ident, $value:expr, |$inner:ident| $body:expr) => {
        match $value {
            $precision::F32($inner) => $body,
            $precision::F64($inner) => $body,
        }
    };
}

#[pymethods]
impl LowRankInverse {
    #[new]
    #[pyo3(signature = (factor_transposed, root, s, n_threads))]
    fn new(
        py: Python<'_>,
        factor_transposed: Factor<'_>,
        root: Option<PyReadonlyArray2<'_, f64>>,
        s: f64,
        n_threads: usize,
    ) -> PyResult<Self> {
        let root = root.as_ref().map(PyReadonlyArray2::as_array);
        in_either_precision!(Factor, &factor_transposed, |e| {
            let e = e.as_array();
            with_executor(py, n_threads, |exec| core::LowRankInverse::new(exec, e, root, s))
                .map(|inverse| Self(inverse.into()))
        })
    }

    fn factor_transposed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        in_either_precision!(Precision, &self.0, |inverse| into_any(
            py,
            call(|| inverse.factor_transposed())?
        ))
    }

    fn apply<'py>(
        &self,
        py: Python<'py>,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        in_either_precision!(Precision, &self.0, |inverse| {
            Ok(with_executor(py, n_threads, |exec| inverse.apply(exec, v))?.into_pyarray(py))
        })
    }

    fn apply_f32<'py>(
        &self,
        py: Python<'py>,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        in_either_precision!(Precision, &self.0, |inverse| {
            Ok(with_executor(py, n_threads, |exec| inverse.apply_f32(exec, v))?.into_pyarray(py))
        })
    }
}
