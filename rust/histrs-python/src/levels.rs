//! Columns coded as levels.

use histrs::levels::{self as core, LevelCodes};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::executor::{call, with_executor};

type Codes<'py> = PyReadonlyArray2<'py, u16>;
type Matrix<'py> = PyReadonlyArray2<'py, f64>;

/// How often levels of two columns occur together, of codes of shape `(n_columns, n_rows)`.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct LevelCounts(core::LevelCounts);

#[pymethods]
impl LevelCounts {
    #[new]
    fn new(
        py: Python<'_>,
        codes: Codes<'_>,
        n_levels: Vec<usize>,
        weights: Option<PyReadonlyArray1<'_, f64>>,
        n_threads: usize,
    ) -> PyResult<Self> {
        let codes = call(|| LevelCodes::new(codes.as_array(), &n_levels))?;
        let weights = weights.as_ref().map(|w| w.as_array());
        with_executor(py, n_threads, |exec| codes.counts(exec, weights)).map(Self)
    }

    fn normal_matrix<'py>(
        &self,
        py: Python<'py>,
        functions: Vec<Matrix<'py>>,
        n_threads: usize,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let functions: Vec<_> = functions.iter().map(|f| f.as_array()).collect();
        let normal = with_executor(py, n_threads, |exec| self.0.normal_matrix(exec, &functions))?;
        Ok(normal.into_pyarray(py))
    }
}

/// `H' V`.
#[pyfunction]
pub(crate) fn level_sums<'py>(
    py: Python<'py>,
    codes: Codes<'py>,
    n_levels: Vec<usize>,
    v: Matrix<'py>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let codes = call(|| LevelCodes::new(codes.as_array(), &n_levels))?;
    let v = v.as_array();
    Ok(with_executor(py, n_threads, |exec| codes.sums(exec, v))?.into_pyarray(py))
}

/// `H T`.
#[pyfunction]
pub(crate) fn level_scores<'py>(
    py: Python<'py>,
    codes: Codes<'py>,
    n_levels: Vec<usize>,
    tables: Matrix<'py>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let codes = call(|| LevelCodes::new(codes.as_array(), &n_levels))?;
    let tables = tables.as_array();
    Ok(with_executor(py, n_threads, |exec| codes.scores(exec, tables))?.into_pyarray(py))
}

/// The diagonal of `H Q H'`.
#[pyfunction]
pub(crate) fn level_forms<'py>(
    py: Python<'py>,
    codes: Codes<'py>,
    n_levels: Vec<usize>,
    q: Matrix<'py>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let codes = call(|| LevelCodes::new(codes.as_array(), &n_levels))?;
    let q = q.as_array();
    Ok(with_executor(py, n_threads, |exec| codes.forms(exec, q))?.into_pyarray(py))
}
