//! NumPy and SciPy arguments as views.

use histrs::{CsrView, Element, HistogramMatrix};
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::door::to_python;

/// `(data, indices, indptr, n_columns)` of a CSR matrix.
pub(crate) type Csr<'py, T> =
    (PyReadonlyArray1<'py, T>, PyReadonlyArray1<'py, i32>, PyReadonlyArray1<'py, i64>, usize);

/// A matrix of histograms: a two-dimensional array, or the parts of a CSR matrix.
#[derive(FromPyObject)]
pub(crate) enum Histograms<'py> {
    Dense64(PyReadonlyArray2<'py, f64>),
    Dense32(PyReadonlyArray2<'py, f32>),
    Csr64(Csr<'py, f64>),
    Csr32(Csr<'py, f32>),
}

pub(crate) fn csr<'a, T: Element + numpy::Element>(
    (data, indices, indptr, n_columns): &'a Csr<'_, T>,
) -> PyResult<HistogramMatrix<'a, T>> {
    let not_contiguous = |_| PyValueError::new_err("the parts of a CSR matrix must be contiguous");
    let data = data.as_slice().map_err(not_contiguous)?;
    let indices = indices.as_slice().map_err(not_contiguous)?;
    let indptr = indptr.as_slice().map_err(not_contiguous)?;
    let view = CsrView::new(data, indices, indptr, *n_columns).map_err(to_python)?;
    Ok(HistogramMatrix::csr(view))
}

pub(crate) fn double<'a>(x: &'a Histograms<'_>) -> PyResult<HistogramMatrix<'a, f64>> {
    match x {
        Histograms::Dense64(x) => Ok(HistogramMatrix::dense(x.as_array())),
        Histograms::Csr64(x) => csr(x),
        _ => Err(PyTypeError::new_err("X and Y must have the same dtype")),
    }
}

pub(crate) fn single<'a>(x: &'a Histograms<'_>) -> PyResult<HistogramMatrix<'a, f32>> {
    match x {
        Histograms::Dense32(x) => Ok(HistogramMatrix::dense(x.as_array())),
        Histograms::Csr32(x) => csr(x),
        _ => Err(PyTypeError::new_err("X and Y must have the same dtype")),
    }
}

/// Evaluates an expression with a [`HistogramMatrix`] of the element type that was given.
macro_rules! with_histograms {
    ($x:expr, |$matrix:ident| $body:expr) => {
        match $x {
            $crate::convert::Histograms::Dense64(x) => {
                let $matrix = histrs::HistogramMatrix::dense(x.as_array());
                $body
            }
            $crate::convert::Histograms::Dense32(x) => {
                let $matrix = histrs::HistogramMatrix::dense(x.as_array());
                $body
            }
            $crate::convert::Histograms::Csr64(x) => {
                let $matrix = $crate::convert::csr(x)?;
                $body
            }
            $crate::convert::Histograms::Csr32(x) => {
                let $matrix = $crate::convert::csr(x)?;
                $body
            }
        }
    };
}
pub(crate) use with_histograms;
