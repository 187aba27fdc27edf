//! Training samples among prototypes.

use histrs::neighborhood::{self as core, Labels};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::executor::with_executor;

/// Distances in either precision.
#[derive(FromPyObject)]
pub(crate) enum Distances<'py> {
    F64(PyReadonlyArray2<'py, f64>),
    F32(PyReadonlyArray2<'py, f32>),
}

/// Which prototypes are left when those without which nothing gets worse are dropped.
#[pyfunction]
pub(crate) fn needed_prototypes<'py>(
    py: Python<'py>,
    distances: Distances<'py>,
    labels: PyReadonlyArray1<'py, i64>,
    prototype_labels: PyReadonlyArray1<'py, i64>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let labels = Labels {
        of_rows: labels.as_slice()?,
        of_prototypes: prototype_labels.as_slice()?,
        weights: weights.as_ref().map(|weights| weights.as_slice()).transpose()?,
    };
    let needed = match &distances {
        Distances::F64(d) => {
            let d = d.as_array();
            with_executor(py, n_threads, |e| core::needed_prototypes(e, d, labels))
        }
        Distances::F32(d) => {
            let d = d.as_array();
            with_executor(py, n_threads, |e| core::needed_prototypes(e, d, labels))
        }
    };
    Ok(needed?.into_pyarray(py))
}
