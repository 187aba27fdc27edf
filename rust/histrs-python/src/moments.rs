//! Linear models from moments.

use histrs::moments as core;
use numpy::{IntoPyArray, PyArray2, PyArray3, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::executor::{Threads, call};

type Matrix<'py> = PyReadonlyArray2<'py, f64>;
type Path<'py> = (Bound<'py, PyArray3<f64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<i64>>);

/// Coefficients, duality gaps and numbers of passes, for each penalty `(l1, l2)`; `groups` are
/// the ends and the weights of the groups. Where `positive`, no coefficient is negative.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // Python's call, argument by argument
pub(crate) fn group_lasso_path<'py>(
    py: Python<'py>,
    moments: (Matrix<'py>, Matrix<'py>, PyReadonlyArray1<'py, f64>),
    groups: (PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, f64>),
    penalties: Vec<(f64, f64)>,
    positive: bool,
    start: Matrix<'py>,
    tol: f64,
    max_iter: usize,
    n_threads: Threads<'py>,
) -> PyResult<Path<'py>> {
    let (gram, cross, y_squares) = &moments;
    let (gram, cross, y_squares) = (gram.as_array(), cross.as_array(), y_squares.as_array());
    let (ends, weights) = (groups.0.as_slice()?, groups.1.as_slice()?);
    let problem = call(|| core::LassoProblem::new(gram, cross, y_squares, ends, weights))?;
    let penalty = |(l1, l2)| core::Penalty::new(l1).with_l2(l2).with_positive(positive);
    let penalties: Vec<_> = penalties.into_iter().map(penalty).collect();
    let parameters = core::LassoParameters::default()
        .with_start(Some(start.as_array()))
        .with_tol(tol)
        .with_max_iter(max_iter);
    let path = n_threads.run(|e| core::group_lasso_path(e, &problem, &penalties, parameters))?;
    let gaps = path.gaps.into_pyarray(py);
    Ok((path.coefficients.into_pyarray(py), gaps, path.n_iter.into_pyarray(py)))
}
