//! The histogram intersection kernel, and its kin.

pub(crate) mod columns;
pub(crate) mod functions;
pub(crate) mod gram;
pub(crate) mod preconditioning;
pub(crate) mod transform;

use numpy::{PyArray1, PyArray2, PyReadonlyArray1};
use pyo3::Bound;

type Matrix<'py> = Bound<'py, PyArray2<f64>>;
type Vector<'py> = Bound<'py, PyArray1<f64>>;
type Csr64<'py> = (Vector<'py>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i64>>);

/// Row numbers.
type Rows<'py> = PyReadonlyArray1<'py, i64>;
