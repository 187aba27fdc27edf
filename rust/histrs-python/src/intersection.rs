//! The histogram intersection kernel.

use histrs::intersection as core;
use ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert::{Histograms, into_any, with_histograms, with_pair};
use crate::door::{call, enter};

type Matrix<'py> = Bound<'py, PyArray2<f64>>;
type Vector<'py> = Bound<'py, PyArray1<f64>>;
type Csr64<'py> = (Vector<'py>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i64>>);

/// Row numbers.
type Rows<'py> = PyReadonlyArray1<'py, i64>;

/// An increasing function of every feature.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct Transform(core::Transform);

#[pymethods]
impl Transform {
    #[new]
    fn new(name: &str, exponent: f64) -> PyResult<Self> {
        match name {
            "identity" => Ok(Self(core::Transform::Identity)),
            "power" => Ok(Self(core::Transform::Power { exponent })),
            "exponential" => Ok(Self(core::Transform::Exponential { exponent })),
            other => Err(PyValueError::new_err(format!("transform = {other:?}"))),
        }
    }

    fn exponent_slope(&self, smallest: f64) -> Option<(Self, f64)> {
        self.0.exponent_slope(smallest).map(|(slope, offset)| (Self(slope), offset))
    }
}

/// Training rows with every column sorted.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct SortedColumns(core::SortedColumns);

#[pymethods]
impl SortedColumns {
    #[new]
    fn new(py: Python<'_>, x: Histograms<'_>, n_threads: usize) -> PyResult<Self> {
        with_histograms!(&x, |x| {
            enter(py, n_threads, |exec| core::SortedColumns::new(exec, &x)).map(Self)
        })
    }

    fn insert(&self, py: Python<'_>, x: Histograms<'_>, n_threads: usize) -> PyResult<Self> {
        with_histograms!(&x, |x| enter(py, n_threads, |exec| self.0.insert(exec, &x)).map(Self))
    }

    fn remove(&self, py: Python<'_>, rows: Rows<'_>, n_threads: usize) -> PyResult<Self> {
        let rows = rows.as_slice()?;
        enter(py, n_threads, |exec| self.0.remove(exec, rows)).map(Self)
    }

    #[pyo3(signature = (transform, weights, n_threads))]
    fn transformed(
        &self,
        py: Python<'_>,
        transform: &Transform,
        weights: Option<Vec<f64>>,
        n_threads: usize,
    ) -> PyResult<Self> {
        let weights = weights.as_deref();
        enter(py, n_threads, |exec| self.0.transformed(exec, &transform.0, weights)).map(Self)
    }

    fn quadratic_forms<'py>(
        &self,
        py: Python<'py>,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        Ok(enter(py, n_threads, |exec| self.0.quadratic_forms(exec, v))?.into_pyarray(py))
    }

    fn row_sums<'py>(&self, py: Python<'py>, n_threads: usize) -> PyResult<Vector<'py>> {
        Ok(enter(py, n_threads, |exec| self.0.row_sums(exec))?.into_pyarray(py))
    }

    fn spreads<'py>(&self, py: Python<'py>, n_threads: usize) -> PyResult<Vector<'py>> {
        Ok(enter(py, n_threads, |exec| self.0.spreads(exec))?.into_pyarray(py))
    }

    fn smallest(&self) -> f64 {
        self.0.smallest()
    }

    fn product<'py>(
        &self,
        py: Python<'py>,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        Ok(enter(py, n_threads, |exec| self.0.product(exec, v))?.into_pyarray(py))
    }

    fn cubic_product<'py>(
        &self,
        py: Python<'py>,
        v: PyReadonlyArray2<'py, f64>,
        slope: f64,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        Ok(enter(py, n_threads, |exec| self.0.cubic_product(exec, v, slope))?.into_pyarray(py))
    }

    fn product_single<'py>(
        &self,
        py: Python<'py>,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        Ok(enter(py, n_threads, |exec| self.0.product_single(exec, v))?.into_pyarray(py))
    }

    fn cross_product<'py>(
        &self,
        py: Python<'py>,
        x: Histograms<'py>,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        with_histograms!(&x, |x| {
            let out: Array2<f64> = enter(py, n_threads, |e| self.0.cross_product(e, &x, v))?;
            Ok(out.into_pyarray(py))
        })
    }

    fn maxima<'py>(&self, py: Python<'py>) -> Vector<'py> {
        self.0.maxima().into_pyarray(py)
    }

    #[getter]
    fn n_rows(&self) -> usize {
        self.0.n_rows()
    }

    #[getter]
    fn n_columns(&self) -> usize {
        self.0.n_columns()
    }

    #[getter]
    fn n_stored(&self) -> usize {
        self.0.n_stored()
    }

    #[getter]
    fn n_knots(&self) -> PyResult<usize> {
        call(|| self.0.n_knots())
    }

    #[getter]
    fn n_bytes(&self) -> usize {
        self.0.n_bytes()
    }
}

/// The exact piecewise-linear functions of a score.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct ShapeFunctions(core::ShapeFunctions);

#[pymethods]
impl ShapeFunctions {
    #[new]
    fn new(
        py: Python<'_>,
        columns: &SortedColumns,
        alpha: PyReadonlyArray2<'_, f64>,
        n_threads: usize,
    ) -> PyResult<Self> {
        let alpha = alpha.as_array();
        enter(py, n_threads, |e| core::ShapeFunctions::new(e, &columns.0, alpha)).map(Self)
    }

    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        x: Histograms<'py>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        with_histograms!(&x, |x| {
            Ok(enter(py, n_threads, |e| self.0.evaluate(e, &x))?.into_pyarray(py))
        })
    }

    fn column<'py>(&self, py: Python<'py>, d: usize) -> PyResult<(Vector<'py>, Matrix<'py>)> {
        let (knots, values) = call(|| self.0.column(d))?;
        Ok((knots.to_vec().into_pyarray(py), values.to_owned().into_pyarray(py)))
    }

    fn intercepts_and_slopes<'py>(
        &self,
        py: Python<'py>,
        d: usize,
    ) -> PyResult<(Matrix<'py>, Matrix<'py>)> {
        let (intercepts, slopes) = call(|| self.0.intercepts_and_slopes(d))?;
        Ok((intercepts.into_pyarray(py), slopes.into_pyarray(py)))
    }
}

/// The functions of a score under the kernel of cubic splines.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct CubicFunctions(core::CubicFunctions);

#[pymethods]
impl CubicFunctions {
    #[new]
    #[pyo3(signature = (columns, alpha, slope, n_knots, n_threads))]
    fn new(
        py: Python<'_>,
        columns: &SortedColumns,
        alpha: PyReadonlyArray2<'_, f64>,
        slope: f64,
        n_knots: Option<usize>,
        n_threads: usize,
    ) -> PyResult<Self> {
        let alpha = alpha.as_array();
        enter(py, n_threads, |e| core::CubicFunctions::new(e, &columns.0, alpha, slope, n_knots))
            .map(Self)
    }

    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        x: Histograms<'py>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        with_histograms!(&x, |x| {
            Ok(enter(py, n_threads, |e| self.0.evaluate(e, &x))?.into_pyarray(py))
        })
    }
}

/// The table of a score with its certified error.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct LookupTable(core::LookupTable);

#[pymethods]
impl LookupTable {
    #[new]
    fn new(
        py: Python<'_>,
        columns: &SortedColumns,
        alpha: PyReadonlyArray2<'_, f64>,
        n_bins: usize,
        interpolation: &str,
        n_threads: usize,
    ) -> PyResult<Self> {
        let interpolation = match interpolation {
            "linear" => core::Interpolation::Linear,
            "nearest" => core::Interpolation::Nearest,
            other => return Err(PyValueError::new_err(format!("interpolation = {other:?}"))),
        };
        let alpha = alpha.as_array();
        enter(py, n_threads, |e| {
            core::LookupTable::new(e, &columns.0, alpha, n_bins, interpolation)
        })
        .map(Self)
    }

    #[staticmethod]
    #[pyo3(signature = (columns, alpha, n_bins, weights, n_threads))]
    fn compact(
        py: Python<'_>,
        columns: &SortedColumns,
        alpha: PyReadonlyArray2<'_, f64>,
        n_bins: usize,
        weights: Option<Vec<f64>>,
        n_threads: usize,
    ) -> PyResult<Self> {
        let alpha = alpha.as_array();
        let weights = weights.as_deref();
        enter(py, n_threads, |e| core::LookupTable::compact(e, &columns.0, alpha, n_bins, weights))
            .map(Self)
    }

    fn evaluate_bytes<'py>(
        &self,
        py: Python<'py>,
        x: PyReadonlyArray2<'py, u8>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let x = x.as_array();
        Ok(enter(py, n_threads, |e| self.0.evaluate_bytes(e, x))?.into_pyarray(py))
    }

    #[getter]
    fn is_compact(&self) -> bool {
        self.0.is_compact()
    }

    fn evaluate<'py>(
        &self,
        py: Python<'py>,
        x: Histograms<'py>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        with_histograms!(&x, |x| {
            Ok(enter(py, n_threads, |e| self.0.evaluate(e, &x))?.into_pyarray(py))
        })
    }

    fn error_bound<'py>(&self, py: Python<'py>) -> Vector<'py> {
        self.0.error_bound().to_vec().into_pyarray(py)
    }

    #[getter]
    fn n_bytes(&self) -> usize {
        self.0.n_bytes()
    }
}

/// The kernel projected on knots.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct KnotProjection(core::KnotProjection);

#[pymethods]
impl KnotProjection {
    #[new]
    fn new(
        py: Python<'_>,
        columns: &SortedColumns,
        n_knots: usize,
        n_threads: usize,
    ) -> PyResult<Self> {
        enter(py, n_threads, |e| core::KnotProjection::new(e, &columns.0, n_knots)).map(Self)
    }

    fn of_rows(&self, py: Python<'_>, columns: &SortedColumns, n_threads: usize) -> PyResult<Self> {
        enter(py, n_threads, |e| self.0.of_rows(e, &columns.0)).map(Self)
    }

    fn concatenate(&self, py: Python<'_>, other: &Self, n_threads: usize) -> PyResult<Self> {
        enter(py, n_threads, |e| self.0.concatenate(e, &other.0)).map(Self)
    }

    fn select(&self, py: Python<'_>, rows: Rows<'_>, n_threads: usize) -> PyResult<Self> {
        let rows = rows.as_slice()?;
        enter(py, n_threads, |e| self.0.select(e, rows)).map(Self)
    }

    #[getter]
    fn n_features(&self) -> usize {
        self.0.n_features()
    }

    fn inverse_kernel<'py>(&self, py: Python<'py>) -> PyResult<(Vector<'py>, Vector<'py>)> {
        let (diagonal, upper) = call(|| self.0.inverse_kernel())?;
        Ok((diagonal.into_pyarray(py), upper.into_pyarray(py)))
    }

    fn gram<'py>(&self, py: Python<'py>, n_threads: usize) -> PyResult<Matrix<'py>> {
        Ok(enter(py, n_threads, |e| self.0.gram(e))?.into_pyarray(py))
    }

    fn weighted_gram<'py>(
        &self,
        py: Python<'py>,
        weights: PyReadonlyArray1<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let weights = weights.as_slice()?;
        Ok(enter(py, n_threads, |e| self.0.weighted_gram(e, weights))?.into_pyarray(py))
    }

    fn project<'py>(
        &self,
        py: Python<'py>,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        Ok(enter(py, n_threads, |e| self.0.project(e, v))?.into_pyarray(py))
    }

    fn expand<'py>(
        &self,
        py: Python<'py>,
        w: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let w = w.as_array();
        Ok(enter(py, n_threads, |e| self.0.expand(e, w))?.into_pyarray(py))
    }
}

/// The inverse that a low-rank factor gives, in the precision of the factor.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct LowRankInverse(Precision);

enum Precision {
    Single(core::LowRankInverse<f32>),
    Double(core::LowRankInverse<f64>),
}

impl From<core::LowRankInverse<f32>> for Precision {
    fn from(inverse: core::LowRankInverse<f32>) -> Self {
        Self::Single(inverse)
    }
}

impl From<core::LowRankInverse<f64>> for Precision {
    fn from(inverse: core::LowRankInverse<f64>) -> Self {
        Self::Double(inverse)
    }
}

/// A factor of either precision.
#[derive(FromPyObject)]
pub(crate) enum Factor<'py> {
    Single(PyReadonlyArray2<'py, f32>),
    Double(PyReadonlyArray2<'py, f64>),
}

/// Evaluates an expression with what is there in either precision.
macro_rules! in_either_precision {
    ($precision:ident, $value:expr, |$inner:ident| $body:expr) => {
        match $value {
            $precision::Single($inner) => $body,
            $precision::Double($inner) => $body,
        }
    };
}

#[pymethods]
impl LowRankInverse {
    #[new]
    fn new(py: Python<'_>, e_transposed: Factor<'_>, s: f64, n_threads: usize) -> PyResult<Self> {
        in_either_precision!(Factor, &e_transposed, |e| {
            let e = e.as_array();
            enter(py, n_threads, |exec| core::LowRankInverse::new(exec, e, s))
                .map(|inverse| Self(inverse.into()))
        })
    }

    fn e_transposed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        in_either_precision!(Precision, &self.0, |inverse| into_any(
            py,
            call(|| inverse.e_transposed())?
        ))
    }

    fn apply<'py>(
        &self,
        py: Python<'py>,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        in_either_precision!(Precision, &self.0, |inverse| {
            Ok(enter(py, n_threads, |exec| inverse.apply(exec, v))?.into_pyarray(py))
        })
    }

    fn apply_single<'py>(
        &self,
        py: Python<'py>,
        v: PyReadonlyArray2<'py, f64>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let v = v.as_array();
        in_either_precision!(Precision, &self.0, |inverse| {
            Ok(enter(py, n_threads, |exec| inverse.apply_single(exec, v))?.into_pyarray(py))
        })
    }
}

/// Training rows for coordinate descent.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct CoordinateDescent(core::CoordinateDescent);

#[pymethods]
impl CoordinateDescent {
    #[new]
    fn new(py: Python<'_>, columns: &SortedColumns, n_threads: usize) -> PyResult<Self> {
        enter(py, n_threads, |e| core::CoordinateDescent::new(e, &columns.0)).map(Self)
    }

    fn descend<'py>(
        &self,
        py: Python<'py>,
        alpha: PyReadonlyArray2<'py, f64>,
        y: PyReadonlyArray2<'py, f64>,
        s: f64,
        order: Rows<'py>,
        n_threads: usize,
    ) -> PyResult<Matrix<'py>> {
        let (alpha, y, order) = (alpha.as_array(), y.as_array(), order.as_slice()?);
        Ok(enter(py, n_threads, |e| self.0.descend(e, alpha, y, s, order))?.into_pyarray(py))
    }
}

/// Rows as a generalised kernel sees them: a dense matrix, or the parts of a CSR matrix.
#[derive(IntoPyObject)]
pub(crate) enum TransformedRows<'py> {
    Dense(Matrix<'py>),
    Csr(Csr64<'py>),
}

/// Transformed and weighted features.
#[pyfunction]
#[pyo3(signature = (x, transform, weights, n_threads))]
pub(crate) fn transform_rows<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    transform: &Transform,
    weights: Option<Vec<f64>>,
    n_threads: usize,
) -> PyResult<TransformedRows<'py>> {
    let weights = weights.as_deref();
    with_histograms!(&x, |x| {
        let rows = enter(py, n_threads, |e| core::transform_rows(e, &x, &transform.0, weights))?;
        Ok(match rows {
            core::TransformedRows::Dense(rows) => TransformedRows::Dense(rows.into_pyarray(py)),
            core::TransformedRows::Csr(data, indices, indptr) => TransformedRows::Csr((
                data.into_pyarray(py),
                indices.into_pyarray(py),
                indptr.into_pyarray(py),
            )),
        })
    })
}

/// `k(x, x)` of every row.
#[pyfunction]
pub(crate) fn row_sums<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    n_threads: usize,
) -> PyResult<Vector<'py>> {
    with_histograms!(&x, |x| Ok(enter(py, n_threads, |e| x.row_sums(e))?.into_pyarray(py)))
}

/// Fails at the first entry that is negative or not finite.
#[pyfunction]
pub(crate) fn check_histograms(
    py: Python<'_>,
    x: Histograms<'_>,
    n_threads: usize,
) -> PyResult<()> {
    with_histograms!(&x, |x| enter(py, n_threads, |e| x.check(e, "X")))
}

/// The MinMax kernel; both arguments have the same element type.
#[pyfunction]
pub(crate) fn minmax_gram<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    with_pair!(&x, &y, |x, y| into_any(py, enter(py, n_threads, |e| core::minmax_gram(e, &x, y))?))
}

/// 1 less the MinMax kernel.
#[pyfunction]
pub(crate) fn minmax_distances<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    with_pair!(&x, &y, |x, y| into_any(
        py,
        enter(py, n_threads, |e| core::minmax_distances(e, &x, y))?
    ))
}

/// The kernel matrix; both arguments have the same element type.
#[pyfunction]
pub(crate) fn intersection_gram<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    with_pair!(&x, &y, |x, y| into_any(py, enter(py, n_threads, |e| core::gram(e, &x, y))?))
}

/// The matrix of the cubic-spline kernel; both arguments have the same element type.
#[pyfunction]
pub(crate) fn cubic_spline_gram<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    n_threads: usize,
) -> PyResult<Bound<'py, PyAny>> {
    with_pair!(&x, &y, |x, y| into_any(
        py,
        enter(py, n_threads, |e| core::cubic_spline_gram(e, &x, y))?
    ))
}
