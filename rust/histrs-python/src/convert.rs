//! NumPy and SciPy arguments as views.

use std::borrow::Cow;

use histrs::{CsrParts, CsrView, Element, Error, HistogramMatrix};
use numpy::{
    IntoPyArray, PyArray2, PyArrayMethods, PyReadonlyArray, PyReadonlyArray1, PyReadonlyArray2,
};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::executor::{call, to_python};

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
    let view = call(|| CsrView::new(data, indices, indptr, *n_columns))?;
    Ok(HistogramMatrix::csr(view))
}

/// The weights of features, if there are any. What arrives from another process may lie at any
/// address, and is copied then.
pub(crate) fn weights_of_features<'a>(
    weights: &'a Option<PyReadonlyArray1<'_, f64>>,
) -> PyResult<Option<Cow<'a, [f64]>>> {
    let contiguous = |weights: &'a PyReadonlyArray1<'_, f64>| match weights.as_slice() {
        Ok(slice) => Ok(Cow::Borrowed(slice)),
        Err(_) => weights.as_any().extract::<Vec<f64>>().map(Cow::Owned),
    };
    weights.as_ref().map(contiguous).transpose()
}

pub(crate) fn as_f64<'a>(x: &'a Histograms<'_>) -> PyResult<HistogramMatrix<'a, f64>> {
    match x {
        Histograms::Dense64(x) => Ok(HistogramMatrix::dense(x.as_array())),
        Histograms::Csr64(x) => csr(x),
        _ => Err(PyTypeError::new_err("X and Y must have the same dtype")),
    }
}

pub(crate) fn as_f32<'a>(x: &'a Histograms<'_>) -> PyResult<HistogramMatrix<'a, f32>> {
    match x {
        Histograms::Dense32(x) => Ok(HistogramMatrix::dense(x.as_array())),
        Histograms::Csr32(x) => csr(x),
        _ => Err(PyTypeError::new_err("X and Y must have the same dtype")),
    }
}

/// What there is in either precision: an argument as it was given, or what was made of one.
#[derive(FromPyObject)]
pub(crate) enum Either<D, S> {
    F64(D),
    F32(S),
}

/// An array of either element type, with as many axes as `D` says.
pub(crate) type EitherArray<'py, D> =
    Either<PyReadonlyArray<'py, f64, D>, PyReadonlyArray<'py, f32, D>>;

/// Evaluates an expression with what there is, in the precision that it is in.
macro_rules! with_either {
    ($x:expr, |$value:ident| $body:expr) => {
        match $x {
            $crate::convert::Either::F64($value) => $body,
            $crate::convert::Either::F32($value) => $body,
        }
    };
}
pub(crate) use with_either;

/// Evaluates an expression with two arrays of the same element type; what they are is for the
/// message where theirs differ.
macro_rules! with_alike {
    (($x:expr, $y:expr), $what:literal, |$a:ident, $b:ident| $body:expr) => {
        match ($x, $y) {
            ($crate::convert::Either::F64($a), $crate::convert::Either::F64($b)) => {
                let ($a, $b) = ($a.as_array(), $b.as_array());
                $body
            }
            ($crate::convert::Either::F32($a), $crate::convert::Either::F32($b)) => {
                let ($a, $b) = ($a.as_array(), $b.as_array());
                $body
            }
            _ => Err(pyo3::exceptions::PyTypeError::new_err(concat!(
                $what,
                " must have the same dtype"
            ))),
        }
    };
}
pub(crate) use with_alike;

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

/// Evaluates an expression with two matrices of the element type of the first.
macro_rules! with_pair {
    ($x:expr, $y:expr, |$left:ident, $right:ident| $body:expr) => {
        match $x {
            $crate::convert::Histograms::Dense64(_) | $crate::convert::Histograms::Csr64(_) => {
                let $left = $crate::convert::as_f64($x)?;
                let $right = $y.as_ref().map($crate::convert::as_f64).transpose()?;
                let $right = $right.as_ref();
                $body
            }
            _ => {
                let $left = $crate::convert::as_f32($x)?;
                let $right = $y.as_ref().map($crate::convert::as_f32).transpose()?;
                let $right = $right.as_ref();
                $body
            }
        }
    };
}
pub(crate) use with_pair;

/// `(data, indices, indptr, n_columns)` of a new CSR matrix.
pub(crate) fn csr_parts<T: numpy::Element>(
    py: Python<'_>,
    parts: CsrParts<T>,
) -> PyResult<Bound<'_, PyAny>> {
    let data = parts.data.into_pyarray(py);
    let indices = parts.indices.into_pyarray(py);
    let indptr = parts.indptr.into_pyarray(py);
    Ok((data, indices, indptr, parts.n_columns).into_pyobject(py)?.into_any())
}

/// Zeros in NumPy's memory. Its own function panics where there is none.
fn zeros<T: numpy::Element>(
    py: Python<'_>,
    shape: (usize, usize),
) -> PyResult<Bound<'_, PyArray2<T>>> {
    let array = py.import("numpy")?.call_method1("zeros", (shape, T::get_dtype(py)));
    array
        .map_err(|error| match error.is_instance_of::<PyMemoryError>(py) {
            true => to_python(Error::out_of_memory::<T>(&[shape.0, shape.1])),
            false => error,
        })?
        .cast_into()
        .map_err(PyErr::from)
}

/// A new array whose rows `fill` writes; NumPy's own memory has large pages where it is large.
pub(crate) fn filled<'py, T: numpy::Element>(
    py: Python<'py>,
    shape: (usize, usize),
    fill: impl FnOnce(&mut [T]) -> PyResult<()>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = zeros(py, shape)?;
    fill(array.readwrite().as_slice_mut()?)?;
    Ok(array.into_any())
}

/// The same in an array of the caller, of rows one after the other, where there is one.
pub(crate) fn filled_into<'py, T: numpy::Element>(
    py: Python<'py>,
    shape: (usize, usize),
    out: Option<Bound<'py, PyAny>>,
    fill: impl FnOnce(&mut [T]) -> PyResult<()>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(out) = out else {
        return filled(py, shape, fill);
    };
    let array = out.cast_into::<PyArray2<T>>()?;
    fill(array.try_readwrite()?.as_slice_mut()?)?;
    Ok(array.into_any())
}
