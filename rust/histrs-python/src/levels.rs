//! Columns coded as levels.

use histrs::levels::{self as core, LevelCodes};
use numpy::{Ix2, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::convert::{EitherArray, with_either};
use crate::executor::{Threads, call};

type Codes<'py> = PyReadonlyArray2<'py, u16>;
type Matrix<'py> = PyReadonlyArray2<'py, f64>;

/// How often levels of two columns occur together, of codes of shape `(n_columns, n_rows)`.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct LevelCounts(core::LevelCounts);

#[pymethods]
impl LevelCounts {
    #[new]
    fn new(
        codes: Codes<'_>,
        n_levels: Vec<usize>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        n_threads: Threads<'_>,
    ) -> PyResult<Self> {
        let codes = call(|| LevelCodes::new(codes.as_array(), &n_levels))?;
        let weights = weights.as_ref().map(|w| w.as_array());
        n_threads.run(|exec| codes.counts(exec, weights)).map(Self)
    }

    fn normal_matrix<'py>(
        &self,
        functions: Vec<Matrix<'py>>,
        n_threads: Threads<'py>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let functions: Vec<_> = functions.iter().map(|f| f.as_array()).collect();
        n_threads.array(|exec| self.0.normal_matrix(exec, &functions))
    }
}

/// The codes of rows by the cuts of columns, each with the number of its column.
#[pyfunction]
pub(crate) fn level_codes<'py>(
    x: EitherArray<'py, Ix2>,
    columns: Vec<(usize, PyReadonlyArray1<'py, f64>)>,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyArray2<u16>>> {
    let columns: Vec<_> = columns.iter().map(|(d, cuts)| (*d, cuts.as_array())).collect();
    with_either!(&x, |x| {
        let x = x.as_array();
        n_threads.for_rows(x.nrows()).array(|exec| core::level_codes(exec, x, &columns))
    })
}

/// `H' V`.
#[pyfunction]
pub(crate) fn level_sums<'py>(
    codes: Codes<'py>,
    n_levels: Vec<usize>,
    v: Matrix<'py>,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let codes = call(|| LevelCodes::new(codes.as_array(), &n_levels))?;
    let v = v.as_array();
    n_threads.array(|exec| codes.sums(exec, v))
}

/// `H T`.
#[pyfunction]
pub(crate) fn level_scores<'py>(
    codes: Codes<'py>,
    n_levels: Vec<usize>,
    tables: Matrix<'py>,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let n_threads = n_threads.for_rows(codes.as_array().ncols());
    let codes = call(|| LevelCodes::new(codes.as_array(), &n_levels))?;
    let tables = tables.as_array();
    n_threads.array(|exec| codes.scores(exec, tables))
}

/// The diagonal of `H Q H'`.
#[pyfunction]
pub(crate) fn level_forms<'py>(
    codes: Codes<'py>,
    n_levels: Vec<usize>,
    q: Matrix<'py>,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let n_threads = n_threads.for_rows(codes.as_array().ncols());
    let codes = call(|| LevelCodes::new(codes.as_array(), &n_levels))?;
    let q = q.as_array();
    n_threads.array(|exec| codes.forms(exec, q))
}
