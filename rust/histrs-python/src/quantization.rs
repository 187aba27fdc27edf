//! Product quantisation.

use histrs::HistogramMatrix;
use histrs::quantization as core;
use ndarray::{ArrayView3, Ix1, Ix2, Ix3};
use numpy::{
    IntoPyArray, PyArray2, PyArray3, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray2,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::convert::{
    Either, EitherArray, Histograms, as_f32, as_f64, filled, with_alike, with_either,
    with_histograms,
};
use crate::executor::{Threads, call, to_python};

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

/// Evaluates an expression with an array of codes, of the type that was given.
macro_rules! with_codes {
    ($codes:expr, |$c:ident| $body:expr) => {
        match $codes {
            Codes::Short(codes) => {
                let $c = codes.as_array();
                $body
            }
            Codes::Long(codes) => {
                let $c = codes.as_array();
                $body
            }
        }
    };
}

/// Evaluates an expression with arrays of codes and of tables.
macro_rules! with_codes_and_tables {
    ($codes:expr, $tables:expr, |$c:ident, $t:ident| $body:expr) => {
        with_codes!($codes, |$c| with_either!($tables, |tables| {
            let $t = tables.as_array();
            $body
        }))
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
    n_threads: Threads<'py>,
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
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let codebooks = call(|| core::Codebooks::new(metric, codebooks, offsets))?;
    let shape = (x.n_rows(), codebooks.n_blocks());
    let n_threads = n_threads.for_rows(shape.0);
    if wide {
        filled::<u16>(py, shape, |out| n_threads.run(|e| core::encode_into(e, x, &codebooks, out)))
    } else {
        filled::<u8>(py, shape, |out| n_threads.run(|e| core::encode_into(e, x, &codebooks, out)))
    }
}

/// Sums of table entries, of the shape (classes, rows); `tables` has the shape (blocks, codewords, classes).
#[pyfunction]
pub(crate) fn quantization_scores<'py>(
    py: Python<'py>,
    codes: Codes<'py>,
    tables: Tables<'py>,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    with_codes_and_tables!(&codes, &tables, |c, t| {
        filled(py, (t.dim().2, c.nrows()), |out| {
            n_threads.run(|e| core::code_scores_into(e, c, t, out))
        })
    })
}

/// As `quantization_scores`, written to `out`.
#[pyfunction]
pub(crate) fn quantization_scores_into<'py>(
    codes: Codes<'py>,
    tables: Tables<'py>,
    mut out: PyReadwriteArray2<'py, f64>,
    n_threads: Threads<'py>,
) -> PyResult<()> {
    let out = out.as_slice_mut()?;
    with_codes_and_tables!(&codes, &tables, |c, t| {
        n_threads.run(|e| core::code_scores_into(e, c, t, out))
    })
}

/// Sums of the weights of the rows that share a code, of the shape (blocks, codewords, classes).
#[pyfunction]
pub(crate) fn quantization_sums<'py>(
    codes: Codes<'py>,
    n_codes: usize,
    weights: PyReadonlyArray2<'py, f64>,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyArray3<f64>>> {
    let weights = weights.as_array();
    with_codes!(&codes, |c| n_threads.array(|e| core::code_sums(e, c, n_codes, weights)))
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
    n_threads: Threads<'py>,
) -> PyResult<Found<'py>> {
    with_codes!(&codes, |c| with_alike!((&tables, &biases), "tables and biases", |t, b| {
        let b = (!b.is_empty()).then_some(b);
        let (rows, sums) = match &lists {
            None => n_threads.run(|e| core::neighbors(e, c, t, b, n_neighbors)),
            Some((starts, probed)) => {
                let (starts, probed) = (starts.as_slice()?, probed.as_array());
                n_threads.run(|e| core::neighbors_in_lists(e, c, t, b, starts, probed, n_neighbors))
            }
        }?;
        Ok((rows.into_pyarray(py), sums.into_pyarray(py).into_any()))
    }))
}

/// Where lists of rows begin, and which of them each query looks into.
type Lists<'py> = (PyReadonlyArray1<'py, i64>, PyReadonlyArray2<'py, bool>);

type Found<'py> = (Bound<'py, PyArray2<i64>>, Bound<'py, PyAny>);

/// Squared distances, or inner products, of queries and their candidates among rows.
#[pyfunction]
pub(crate) fn candidate_values<'py>(
    rows: EitherArray<'py, Ix2>,
    queries: EitherArray<'py, Ix2>,
    candidates: PyReadonlyArray2<'py, i64>,
    inner: bool,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let candidates = candidates.as_array();
    with_alike!((&rows, &queries), "rows and queries", |x, q| {
        n_threads.any(|e| core::candidate_values(e, x, q, candidates, inner))
    })
}

/// The codewords that codes stand for, side by side.
#[pyfunction]
pub(crate) fn quantization_decode<'py>(
    py: Python<'py>,
    codes: Codes<'py>,
    codebooks: Tables<'py>,
    offsets: PyReadonlyArray1<'py, i64>,
    n_columns: usize,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let offsets = offsets.as_slice()?;
    with_codes_and_tables!(&codes, &codebooks, |c, z| {
        filled(py, (c.nrows(), n_columns), |out| {
            n_threads.run(|e| core::decode_into(e, c, z, offsets, out))
        })
    })
}

/// Fails at the first entry that is not finite.
#[pyfunction]
pub(crate) fn check_finite(x: Histograms<'_>, n_threads: Threads<'_>) -> PyResult<()> {
    with_histograms!(&x, |x| n_threads.run(|e| x.check_finite(e, "X")))
}
