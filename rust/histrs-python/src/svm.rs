//! The support vector machine with the intersection kernel.

use histrs::svm as core;
use numpy::{IntoPyArray, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::convert::{Histograms, filled, with_histograms};
use crate::door::enter;

type Matrix<'py> = PyReadonlyArray2<'py, f64>;

/// The weights after a pass; `steps` is `(margin, eta, alpha, smoothing)`.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // Python's call, argument by argument
pub(crate) fn svm_epoch<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    signs: Matrix<'py>,
    weights: Matrix<'py>,
    order: PyReadonlyArray1<'py, i64>,
    coef: Matrix<'py>,
    steps: (f64, f64, f64, f64),
    n_threads: usize,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let (margin, eta, alpha, smoothing) = steps;
    let steps = core::Steps { margin, eta, alpha, smoothing };
    let (signs, weights, coef) = (signs.as_array(), weights.as_array(), coef.as_array());
    let order = order.as_slice()?;
    let learned = with_histograms!(&x, |x| {
        enter(py, n_threads, |e| core::epoch(e, &x, signs, weights, order, coef, steps))?
    });
    Ok(learned.into_pyarray(py))
}

/// The scores of every row and class.
#[pyfunction]
pub(crate) fn svm_scores<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    coef: Matrix<'py>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let coef = coef.as_array();
    with_histograms!(&x, |x| {
        filled(py, (x.n_rows(), coef.nrows()), |out| {
            enter(py, n_threads, |e| core::scores(e, &x, coef, out))
        })
    })
}
