//! Models that were saved.

use histrs::model as core;
use numpy::PyArray2;
use pyo3::prelude::*;

use crate::convert::{EitherArray, with_either};
use crate::executor::{Threads, call};

/// A model from the bytes of its file.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct Model(core::Model);

#[pymethods]
impl Model {
    #[new]
    fn new(content: &[u8]) -> PyResult<Self> {
        call(|| core::Model::from_bytes(content)).map(Self)
    }

    fn predict<'py>(
        &self,
        x: EitherArray<'py, ndarray::Ix2>,
        n_threads: Threads<'py>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        with_either!(&x, |x| {
            let x = x.as_array();
            n_threads.for_rows(x.nrows()).array(|exec| self.0.predict(exec, x))
        })
    }

    fn predict_proba<'py>(
        &self,
        x: EitherArray<'py, ndarray::Ix2>,
        n_threads: Threads<'py>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        with_either!(&x, |x| {
            let x = x.as_array();
            n_threads.for_rows(x.nrows()).array(|exec| self.0.predict_proba(exec, x))
        })
    }
}
