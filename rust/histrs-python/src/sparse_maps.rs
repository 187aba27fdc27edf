//! Sparse feature maps.

use histrs::sparse_maps as core;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::convert::{Histograms, csr_parts, with_histograms};
use crate::executor::{Threads, call, to_python};

/// The map of an additive kernel.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct SparseAdditiveMap(core::SparseAdditiveMap);

#[pymethods]
impl SparseAdditiveMap {
    #[new]
    fn new(
        kernel: &str,
        knots: PyReadonlyArray1<'_, f64>,
        offsets: PyReadonlyArray1<'_, i64>,
    ) -> PyResult<Self> {
        let kernel = kernel.parse().map_err(to_python)?;
        let (knots, offsets) = (knots.as_slice()?, offsets.as_slice()?);
        call(|| core::SparseAdditiveMap::new(kernel, knots, offsets)).map(Self)
    }

    /// The parts of a CSR matrix.
    fn transform<'py>(
        &self,
        py: Python<'py>,
        x: Histograms<'py>,
        n_threads: Threads<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        with_histograms!(&x, |x| csr_parts(py, n_threads.run(|e| self.0.transform(e, &x))?))
    }
}

type Levels<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<i64>>);

/// The quantiles of the positive values of every column, and where those of each begin.
#[pyfunction]
pub(crate) fn column_quantiles<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    n_levels: usize,
    n_threads: Threads<'py>,
) -> PyResult<Levels<'py>> {
    let (knots, offsets) =
        with_histograms!(&x, |x| n_threads.run(|e| core::column_quantiles(e, &x, n_levels))?);
    Ok((knots.into_pyarray(py), offsets.into_pyarray(py)))
}

/// The parts of a CSR matrix of coordinates.
#[pyfunction]
pub(crate) fn sparse_codes<'py>(
    py: Python<'py>,
    k_xz: PyReadonlyArray2<'py, f64>,
    k_zz: PyReadonlyArray2<'py, f64>,
    n_nonzero: usize,
    selection: &str,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let selection = selection.parse().map_err(to_python)?;
    let (k_xz, k_zz) = (k_xz.as_array(), k_zz.as_array());
    csr_parts(py, n_threads.run(|e| core::sparse_codes(e, k_xz, k_zz, n_nonzero, selection))?)
}
