//! Product quantisation.

use histrs::HistogramMatrix;
use histrs::quantization as core;
use ndarray::{ArrayView2, ArrayView3, Ix1, Ix2, Ix3};
use numpy::{
    IntoPyArray, PyArray2, PyArray3, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3,
    PyReadwriteArray2,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::convert::{
    Either, EitherArray, Histograms, as_f32, as_f64, filled, with_either, with_histograms,
};
use crate::executor::{call, to_python, with_executor};

/// Codebooks of the shape (blocks, codewords, columns).
type Tables<'py> = EitherArray<'py, Ix3>;

/// What the sum of a row begins with.
type Biases<'py> = EitherArray<'py, Ix1>;

/// Codes of shape `(n_rows, n_blocks)`.
#[derive(FromPyObject)]
pub(crate) enum Codes<'py> {
    Short(PyReadonlyArray2<'py, u8>),
    Long(PyReadonlyArray2<'py, u16>),
}

/// Evaluates an expression with arrays of codes and of tables, of the types that were given.
macro_rules! with_codes_and_tables {
    ($codes:expr, $tables:expr, |$c:ident, $t:ident| $body:expr) => {
        match $codes {
            Codes::Short($c) => with_either!($tables, |$t| $body),
            Codes::Long($c) => with_either!($tables, |$t| $body),
        }
    };
}

/// The nearest codewords; `wide` asks for 16 bits a code.
#[pyfunction]
pub(crate) fn quantization_encode<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    codebooks: Tables<'py>,
    offsets: PyReadonlyArray1<'py, i64>,
    metric: &str,
    wide: bool,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let (metric, offsets) = (metric.parse().map_err(to_python)?, offsets.as_slice()?);
    match (&x, &codebooks) {
        (Histograms::Dense64(_) | Histograms::Csr64(_), Either::F64(codebooks)) => {
            encode(py, &as_f64(&x)?, codebooks.as_array(), offsets, metric, wide, n_threads)
        }
        (Histograms::Dense32(_) | Histograms::Csr32(_), Either::F32(codebooks)) => {
            encode(py, &as_f32(&x)?, codebooks.as_array(), offsets, metric, wide, n_threads)
        }
        _ => Err(PyTypeError::new_err("X and the codebooks must have the same dtype")),
    }
}

fn encode<'py, T: histrs::Element>(
    py: Python<'py>,
    x: &HistogramMatrix<'_, T>,
    codebooks: ArrayView3<'_, T>,
    offsets: &[i64],
    metric: core::Metric,
    wide: bool,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let codebooks = call(|| core::Codebooks::new(metric, codebooks, offsets))?;
    let shape = (x.n_rows(), codebooks.n_blocks());
    if wide {
        filled::<u16>(py, shape, |out| {
            with_executor(py, n_threads, |e| core::encode_into(e, x, &codebooks, out))
        })
    } else {
        filled::<u8>(py, shape, |out| {
            with_executor(py, n_threads, |e| core::encode_into(e, x, &codebooks, out))
        })
    }
}

/// Sums of table entries, of the shape (classes, rows); `tables` has the shape (blocks, codewords, classes).
#[pyfunction]
pub(crate) fn quantization_scores<'py>(
    py: Python<'py>,
    codes: Codes<'py>,
    tables: Tables<'py>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    with_codes_and_tables!(codes, tables, |c, t| scores(py, &c, t.as_array(), n_threads))
}

fn scores<'py, T: histrs::Real, C: core::Code + numpy::Element>(
    py: Python<'py>,
    codes: &PyReadonlyArray2<'_, C>,
    tables: ArrayView3<'_, T>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    filled(py, (tables.dim().2, codes.as_array().nrows()), |out| {
        write(py, codes, tables, out, n_threads)
    })
}

/// As `quantization_scores`, written to `out`.
#[pyfunction]
pub(crate) fn quantization_scores_into<'py>(
    py: Python<'py>,
    codes: Codes<'py>,
    tables: Tables<'py>,
    mut out: PyReadwriteArray2<'py, f64>,
    n_threads: usize,
) -> PyResult<()> {
    let out = out.as_slice_mut()?;
    with_codes_and_tables!(codes, tables, |c, t| write(py, &c, t.as_array(), out, n_threads))
}

fn write<T: histrs::Real, C: core::Code + numpy::Element>(
    py: Python<'_>,
    codes: &PyReadonlyArray2<'_, C>,
    tables: ArrayView3<'_, T>,
    out: &mut [f64],
    n_threads: usize,
) -> PyResult<()> {
    let codes = codes.as_array();
    with_executor(py, n_threads, |e| core::code_scores_into(e, codes, tables, out))
}

/// Sums of the weights of the rows that share a code, of the shape (blocks, codewords, classes).
#[pyfunction]
pub(crate) fn quantization_sums<'py>(
    py: Python<'py>,
    codes: Codes<'py>,
    n_codes: usize,
    weights: PyReadonlyArray2<'py, f64>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyArray3<f64>>> {
    let weights = weights.as_array();
    let sums = match &codes {
        Codes::Short(codes) => {
            let codes = codes.as_array();
            with_executor(py, n_threads, |e| core::code_sums(e, codes, n_codes, weights))?
        }
        Codes::Long(codes) => {
            let codes = codes.as_array();
            with_executor(py, n_threads, |e| core::code_sums(e, codes, n_codes, weights))?
        }
    };
    Ok(sums.into_pyarray(py))
}

/// The rows of least sums of table entries and these sums, a query per row; `biases` has the dtype of
/// the tables, and an entry per row or none. With lists, a query looks into some of them alone.
#[pyfunction]
pub(crate) fn quantization_neighbors<'py>(
    py: Python<'py>,
    codes: Codes<'py>,
    tables: Tables<'py>,
    biases: Biases<'py>,
    lists: Option<Lists<'py>>,
    n_neighbors: usize,
    n_threads: usize,
) -> PyResult<Found<'py>> {
    let at = (lists, n_neighbors, n_threads);
    match (codes, tables, biases) {
        (Codes::Short(c), Either::F64(t), Either::F64(b)) => neighbors(py, &c, &t, &b, at),
        (Codes::Short(c), Either::F32(t), Either::F32(b)) => neighbors(py, &c, &t, &b, at),
        (Codes::Long(c), Either::F64(t), Either::F64(b)) => neighbors(py, &c, &t, &b, at),
        (Codes::Long(c), Either::F32(t), Either::F32(b)) => neighbors(py, &c, &t, &b, at),
        _ => Err(PyTypeError::new_err("tables and biases must have the same dtype")),
    }
}

/// Where lists of rows begin, and which of them each query looks into.
type Lists<'py> = (PyReadonlyArray1<'py, i64>, PyReadonlyArray2<'py, bool>);

type Found<'py> = (Bound<'py, PyArray2<i64>>, Bound<'py, PyAny>);

fn neighbors<'py, T: histrs::Real + numpy::Element, C: core::Code + numpy::Element>(
    py: Python<'py>,
    codes: &PyReadonlyArray2<'_, C>,
    tables: &PyReadonlyArray3<'_, T>,
    biases: &PyReadonlyArray1<'_, T>,
    (lists, n_neighbors, n_threads): (Option<Lists<'py>>, usize, usize),
) -> PyResult<Found<'py>> {
    let (codes, tables, biases) = (codes.as_array(), tables.as_array(), biases.as_array());
    let biases = (!biases.is_empty()).then_some(biases);
    let (rows, sums) = match &lists {
        None => {
            with_executor(py, n_threads, |e| core::neighbors(e, codes, tables, biases, n_neighbors))
        }
        Some((starts, probed)) => {
            let (starts, probed) = (starts.as_slice()?, probed.as_array());
            with_executor(py, n_threads, |e| {
                core::neighbors_in_lists(e, codes, tables, biases, starts, probed, n_neighbors)
            })
        }
    }?;
    Ok((rows.into_pyarray(py), sums.into_pyarray(py).into_any()))
}

/// Squared distances, or inner products, of queries and their candidates among rows.
#[pyfunction]
pub(crate) fn candidate_values<'py>(
    py: Python<'py>,
    rows: EitherArray<'py, Ix2>,
    queries: EitherArray<'py, Ix2>,
    candidates: PyReadonlyArray2<'py, i64>,
    inner: bool,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let at = (candidates.as_array(), inner, n_threads);
    match (&rows, &queries) {
        (Either::F64(x), Either::F64(q)) => values(py, x.as_array(), q.as_array(), at),
        (Either::F32(x), Either::F32(q)) => values(py, x.as_array(), q.as_array(), at),
        _ => Err(PyTypeError::new_err("rows and queries must have the same dtype")),
    }
}

fn values<'py, T: histrs::Real + numpy::Element>(
    py: Python<'py>,
    rows: ArrayView2<'_, T>,
    queries: ArrayView2<'_, T>,
    (candidates, inner, n_threads): (ArrayView2<'_, i64>, bool, usize),
) -> PyResult<Bound<'py, PyAny>> {
    let work = |e: &histrs::Executor| core::candidate_values(e, rows, queries, candidates, inner);
    Ok(with_executor(py, n_threads, work)?.into_pyarray(py).into_any())
}

/// The codewords that codes stand for, side by side.
#[pyfunction]
pub(crate) fn quantization_decode<'py>(
    py: Python<'py>,
    codes: Codes<'py>,
    codebooks: Tables<'py>,
    offsets: PyReadonlyArray1<'py, i64>,
    n_columns: usize,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let at = (offsets.as_slice()?, n_columns, n_threads);
    with_codes_and_tables!(codes, codebooks, |c, z| decode(py, &c, z.as_array(), at))
}

fn decode<'py, T: histrs::Element + numpy::Element, C: core::Code + numpy::Element>(
    py: Python<'py>,
    codes: &PyReadonlyArray2<'_, C>,
    codebooks: ArrayView3<'_, T>,
    (offsets, n_columns, n_threads): (&[i64], usize, usize),
) -> PyResult<Bound<'py, PyAny>> {
    let codes = codes.as_array();
    filled(py, (codes.nrows(), n_columns), |out| {
        with_executor(py, n_threads, |e| core::decode_into(e, codes, codebooks, offsets, out))
    })
}

/// Fails at the first entry that is not finite.
#[pyfunction]
pub(crate) fn check_finite(py: Python<'_>, x: Histograms<'_>, n_threads: usize) -> PyResult<()> {
    with_histograms!(&x, |x| with_executor(py, n_threads, |e| x.check_finite(e, "X")))
}
