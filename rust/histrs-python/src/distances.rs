//! Kernels of a weighted distance between rows.

use histrs::distances::{self as core, DistanceKernel as Core, Norm, Shape};
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::executor::{Threads, call};

type Matrix<'py> = PyReadonlyArray2<'py, f64>;

/// A mixture of functions of a distance: first those of `laplace` lengths, then those of `matern`.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct DistanceKernel(Core);

#[pymethods]
impl DistanceKernel {
    #[new]
    fn new(
        is_l1: bool,
        n_numbers: usize,
        weights: Vec<f64>,
        laplace: Vec<f64>,
        matern: Vec<f64>,
        amplitudes: Vec<f64>,
    ) -> PyResult<Self> {
        let norm = if is_l1 { Norm::L1 } else { Norm::L2 };
        let laplace = laplace.into_iter().map(Shape::Laplace);
        let shapes = laplace.chain(matern.into_iter().map(Shape::Matern)).collect();
        call(|| Core::new(norm, n_numbers, weights, shapes, amplitudes)).map(Self)
    }

    fn matrix<'py>(
        &self,
        x: Matrix<'py>,
        y: Option<Matrix<'py>>,
        n_threads: Threads<'py>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (x, y) = (x.as_array(), y.as_ref().map(|y| y.as_array()));
        n_threads.array(|exec| self.0.gram(exec, x, y))
    }

    fn stored(
        &self,
        x: Matrix<'_>,
        factor: Matrix<'_>,
        n_threads: Threads<'_>,
    ) -> PyResult<StoredDistances> {
        let (x, factor) = (x.as_array(), factor.as_array().to_owned());
        let make = |exec: &_| core::StoredDistances::new(exec, &self.0, x, factor);
        n_threads.run(make).map(StoredDistances)
    }

    #[allow(clippy::type_complexity)] // a pair of arrays
    fn slopes<'py>(
        &self,
        py: Python<'py>,
        x: Matrix<'py>,
        g: Matrix<'py>,
        n_threads: Threads<'py>,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>)> {
        let (x, g) = (x.as_array(), g.as_array());
        let found = n_threads.run(|exec| self.0.slopes(exec, x, g))?;
        Ok((found.weights.into_pyarray(py), found.amplitudes.into_pyarray(py)))
    }
}

/// The kernel with rows, times weights of these.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct DistanceScores(core::DistanceScores);

#[pymethods]
impl DistanceScores {
    #[new]
    fn new(
        kernel: &DistanceKernel,
        rows: Matrix<'_>,
        weights: Matrix<'_>,
        singles: PyReadonlyArray2<'_, f32>,
    ) -> PyResult<Self> {
        let (rows, weights, singles) = (rows.as_array(), weights.as_array(), singles.as_array());
        call(|| core::DistanceScores::new(kernel.0.clone(), rows, weights, singles)).map(Self)
    }

    fn evaluate<'py>(
        &self,
        x: Matrix<'py>,
        n_threads: Threads<'py>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let x = x.as_array();
        n_threads.for_rows(x.nrows()).array(|exec| self.0.evaluate(exec, x))
    }
}

/// The kernel of all pairs of rows, kept for products.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct StoredDistances(core::StoredDistances);

#[pymethods]
impl StoredDistances {
    fn product<'py>(
        &self,
        v: Matrix<'py>,
        n_threads: Threads<'py>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let v = v.as_array();
        n_threads.array(|exec| self.0.product(exec, v))
    }

    fn mean_rest(&self) -> f64 {
        self.0.mean_rest()
    }

    fn n_bytes(&self) -> usize {
        self.0.n_bytes()
    }
}
