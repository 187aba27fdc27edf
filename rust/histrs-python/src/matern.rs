//! Products with the Matérn kernel matrix, which is kept.

use histrs::matern as core;
use numpy::{IntoPyArray, PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::executor::with_executor;

/// The Matérn kernel of all pairs of rows, kept for products.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct StoredMatern(core::StoredMatern);

#[pymethods]
impl StoredMatern {
    #[new]
    fn new(
        py: Python<'_>,
        x: PyReadonlyArray2<'_, f64>,
        length: f64,
        n_threads: usize,
    ) -> PyResult<Self> {
        let x = x.as_array();
        with_executor(py, n_threads, |exec| core::StoredMatern::new(exec, x, length)).map(Self)
    }

    fn product<'py>(
        &self,
        py: Python<'py>,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let v = v.as_array();
        let product = with_executor(py, n_threads, |exec| self.0.product(exec, v))?;
        Ok(product.into_pyarray(py))
    }

    fn n_bytes(&self) -> usize {
        self.0.n_bytes()
    }
}
