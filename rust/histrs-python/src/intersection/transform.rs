//! Generalised kernels, and rows as a kernel takes them.

use histrs::intersection as core;
use numpy::{IntoPyArray, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert::{Histograms, weights_of_features, with_histograms};
use crate::executor::Threads;
use crate::intersection::{Csr64, Matrix};

/// An increasing function of every feature.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct Transform(pub(super) core::Transform);

#[pymethods]
impl Transform {
    #[new]
    fn new(name: &str, exponent: f64) -> PyResult<Self> {
        match name {
            "identity" => Ok(Self(core::Transform::Identity)),
            "power" => Ok(Self(core::Transform::Power { exponent })),
            "exponential" => Ok(Self(core::Transform::Exponential { exponent })),
            other => Err(PyValueError::new_err(format!("transform = {other:?}"))),
        }
    }

    fn exponent_slope(&self, smallest: f64) -> Option<(Self, f64)> {
        self.0.exponent_slope(smallest).map(|(slope, offset)| (Self(slope), offset))
    }
}

/// Rows as a generalised kernel sees them: a dense matrix, or the parts of a CSR matrix.
#[derive(IntoPyObject)]
pub(crate) enum TransformedRows<'py> {
    Dense(Matrix<'py>),
    Csr(Csr64<'py>),
}

/// Transformed and weighted features.
#[pyfunction]
#[pyo3(signature = (x, transform, weights, n_threads))]
pub(crate) fn transform_rows<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    transform: &Transform,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    n_threads: Threads<'py>,
) -> PyResult<TransformedRows<'py>> {
    let weights = weights_of_features(&weights)?;
    let weights = weights.as_deref();
    with_histograms!(&x, |x| {
        let rows = n_threads.run(|e| core::transform_rows(e, &x, &transform.0, weights))?;
        Ok(match rows {
            core::TransformedRows::Dense(rows) => TransformedRows::Dense(rows.into_pyarray(py)),
            core::TransformedRows::Csr(data, indices, indptr) => TransformedRows::Csr((
                data.into_pyarray(py),
                indices.into_pyarray(py),
                indptr.into_pyarray(py),
            )),
        })
    })
}
