//! Random features of kernels on histograms.

use histrs::Executor;
use histrs::random_features as core;
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::chi2::AdditiveMap;
use crate::convert::{Histograms, filled_into, with_histograms};
use crate::executor::{Threads, call};

/// Random features of the exponential chi-square kernel.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct ExpChi2Features(core::ExpChi2Features);

#[pymethods]
impl ExpChi2Features {
    #[staticmethod]
    fn structured(
        map: &AdditiveMap,
        n_columns: usize,
        signs: PyReadonlyArray2<'_, i8>,
        n_projections: usize,
        gamma: f64,
    ) -> PyResult<Self> {
        let (map, signs) = (map.0.clone(), signs.as_array());
        call(|| core::ExpChi2Features::structured(map, n_columns, signs, n_projections, gamma))
            .map(Self)
    }

    #[staticmethod]
    fn dense(
        map: &AdditiveMap,
        n_columns: usize,
        matrix: PyReadonlyArray2<'_, f64>,
        gamma: f64,
    ) -> PyResult<Self> {
        call(|| core::ExpChi2Features::dense(map.0.clone(), n_columns, matrix.as_array(), gamma))
            .map(Self)
    }

    #[staticmethod]
    fn structured_size(map: &AdditiveMap, n_columns: usize) -> usize {
        core::ExpChi2Features::structured_size(&map.0, n_columns)
    }

    #[pyo3(signature = (x, n_threads, out))]
    fn transform<'py>(
        &self,
        py: Python<'py>,
        x: Histograms<'py>,
        n_threads: Threads<'py>,
        out: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        with_histograms!(&x, |x| {
            filled_into(py, (x.n_rows(), self.0.n_features()), out, |out| {
                n_threads.for_rows(x.n_rows()).run(|e| self.0.transform_into(e, &x, out))
            })
        })
    }

    #[pyo3(signature = (x, coefficients, intercepts, n_threads))]
    fn scores<'py>(
        &self,
        x: Histograms<'py>,
        coefficients: PyReadonlyArray2<'py, f64>,
        intercepts: PyReadonlyArray1<'py, f64>,
        n_threads: Threads<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (coefficients, intercepts) = (coefficients.as_array(), intercepts.as_slice()?);
        with_histograms!(&x, |x| {
            let work = |e: &Executor| self.0.scores(e, &x, coefficients, intercepts);
            n_threads.for_rows(x.n_rows()).any(work)
        })
    }
}
