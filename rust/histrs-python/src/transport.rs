//! Optimal transport.

use histrs::transport as core;
use histrs::{Element, Executor};
use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyArray3, PyReadonlyArray1, PyReadonlyArray2,
    PyReadwriteArray3,
};
use pyo3::prelude::*;

use crate::convert::{Histograms, with_histograms, with_pair};
use crate::executor::{Threads, to_python};
use crate::neighborhood::labels_of;

type Matrix<'py> = Bound<'py, PyArray2<f64>>;
type Potentials<'py> = (Bound<'py, PyArray3<f64>>, Bound<'py, PyArray3<f64>>);
type Distances<'py> =
    (Bound<'py, PyAny>, Matrix<'py>, Bound<'py, PyArray2<usize>>, Option<Potentials<'py>>);

/// A matrix of costs, or one for each axis of a grid.
#[derive(FromPyObject)]
pub(crate) enum Costs<'py> {
    Matrix(PyReadonlyArray2<'py, f64>),
    Axes(Vec<PyReadonlyArray2<'py, f64>>),
}

impl Costs<'_> {
    fn core(&self) -> PyResult<core::Costs<'_>> {
        match self {
            Self::Matrix(m) => Ok(m.as_array().into()),
            Self::Axes(axes) => {
                let axes = axes.iter().map(|axis| axis.as_array()).collect();
                core::Costs::of_axes(axes).map_err(to_python)
            }
        }
    }
}

/// Sinkhorn distances, errors, numbers of iterations and potentials of all pairs; both arguments
/// have the same element type.
#[pyfunction]
#[pyo3(signature = (x, y, m, reg, tol, max_iter, regularized, potentials, n_threads))]
#[allow(clippy::too_many_arguments)] // those of the Python function
pub(crate) fn sinkhorn_distances<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    m: Costs<'py>,
    reg: f64,
    tol: f64,
    max_iter: usize,
    regularized: bool,
    potentials: bool,
    n_threads: Threads<'py>,
) -> PyResult<Distances<'py>> {
    let options = core::Sinkhorn::new(reg)
        .with_tol(tol)
        .with_max_iter(max_iter)
        .with_regularized(regularized)
        .with_potentials(potentials);
    let m = m.core()?;
    with_pair!(&x, y, |left, right| {
        let work = |e: &Executor| core::sinkhorn_distances(e, &left, right, m.clone(), &options);
        Ok(converted(py, n_threads.run(work)?))
    })
}

fn converted<T: Element + numpy::Element>(
    py: Python<'_>,
    found: core::SinkhornDistances<T>,
) -> Distances<'_> {
    (
        found.values.into_pyarray(py).into_any(),
        found.errors.into_pyarray(py),
        found.n_iter.into_pyarray(py),
        found.potentials.map(|[f, g]| (f.into_pyarray(py), g.into_pyarray(py))),
    )
}

/// As `sinkhorn_distances`, where mass need not be kept: with penalties, or with a mass that moves,
/// or the smaller one of each pair.
#[pyfunction]
#[pyo3(signature = (x, y, m, reg, penalties, mass, tol, max_iter, cost, potentials, n_threads))]
#[allow(clippy::too_many_arguments)] // those of the Python function
pub(crate) fn relaxed_distances<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    m: PyReadonlyArray2<'py, f64>,
    reg: f64,
    penalties: Option<[f64; 2]>,
    mass: Option<f64>,
    tol: f64,
    max_iter: usize,
    cost: &str,
    potentials: bool,
    n_threads: Threads<'py>,
) -> PyResult<Distances<'py>> {
    let relaxation = penalties.map_or(core::Relaxation::Mass(mass), core::Relaxation::Penalties);
    let cost: core::Cost = cost.parse().map_err(to_python)?;
    let options = core::RelaxedSinkhorn::new(reg, relaxation)
        .with_tol(tol)
        .with_max_iter(max_iter)
        .with_cost(cost)
        .with_potentials(potentials);
    let m = m.as_array();
    with_pair!(&x, y, |left, right| {
        let work = |e: &Executor| core::relaxed_distances(e, &left, right, m, &options);
        Ok(converted(py, n_threads.run(work)?))
    })
}

/// Fails unless all rows are histograms of one mass; both arguments have the same element type.
#[pyfunction]
#[pyo3(signature = (x, y, n_threads))]
pub(crate) fn check_masses(
    x: Histograms<'_>,
    y: Option<Histograms<'_>>,
    n_threads: Threads<'_>,
) -> PyResult<()> {
    with_pair!(&x, y, |left, right| n_threads
        .run(|e| core::check_masses(e, &left, right).map(drop)))
}

type Pairs<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<f64>>);

/// Sinkhorn distances and errors of the pairs `(rows[k], columns[k])`, from scalings to start with.
#[pyfunction]
#[pyo3(signature = (x, y, rows, columns, starts, m, reg, tol, max_iter, regularized, n_threads))]
#[allow(clippy::too_many_arguments)] // those of the Python function
pub(crate) fn sinkhorn_pairs<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    y: Histograms<'py>,
    rows: PyReadonlyArray1<'py, i64>,
    columns: PyReadonlyArray1<'py, i64>,
    starts: Option<PyReadonlyArray2<'py, f32>>,
    m: Costs<'py>,
    reg: f64,
    tol: f64,
    max_iter: usize,
    regularized: bool,
    n_threads: Threads<'py>,
) -> PyResult<Pairs<'py>> {
    let options = core::Sinkhorn::new(reg)
        .with_tol(tol)
        .with_max_iter(max_iter)
        .with_regularized(regularized);
    let pairs = pairs_of(&rows, &columns)?;
    let (m, y) = (m.core()?, Some(y));
    let starts = starts.as_ref().map(|starts| starts.as_array());
    with_pair!(&x, y, |left, right| {
        let right = right.unwrap_or(&left);
        let work = |e: &Executor| {
            core::sinkhorn_pairs(e, &left, right, &pairs, starts, m.clone(), &options)
        };
        let found = n_threads.run(work)?;
        Ok((found.values.into_pyarray(py).into_any(), found.errors.into_pyarray(py)))
    })
}

type Barycenters<'py> = (Matrix<'py>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<usize>>);

/// Barycentres, one for each row of weights, with their errors and numbers of iterations.
#[pyfunction]
#[pyo3(signature = (x, weights, m, reg, tol, max_iter, debiased, n_threads))]
#[allow(clippy::too_many_arguments)] // those of the Python function
pub(crate) fn sinkhorn_barycenters<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    weights: PyReadonlyArray2<'py, f64>,
    m: Costs<'py>,
    reg: f64,
    tol: f64,
    max_iter: usize,
    debiased: bool,
    n_threads: Threads<'py>,
) -> PyResult<Barycenters<'py>> {
    let options =
        core::Barycenter::new(reg).with_tol(tol).with_max_iter(max_iter).with_debiased(debiased);
    let (weights, m) = (weights.as_array(), m.core()?);
    with_histograms!(&x, |x| {
        let work = |e: &Executor| core::sinkhorn_barycenters(e, &x, weights, m.clone(), &options);
        let found = n_threads.run(work)?;
        Ok((
            found.values.into_pyarray(py),
            found.errors.into_pyarray(py),
            found.n_iter.into_pyarray(py),
        ))
    })
}

/// Exact earth mover's distances of all pairs; both arguments have the same element type.
#[pyfunction]
#[pyo3(signature = (x, y, m, n_threads))]
pub(crate) fn emd_distances<'py>(
    x: Histograms<'py>,
    y: Option<Histograms<'py>>,
    m: PyReadonlyArray2<'py, f64>,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let m = m.as_array();
    with_pair!(&x, y, |left, right| {
        let work = |e: &Executor| core::emd_distances(e, &left, right, m);
        n_threads.any(work)
    })
}

/// Exact earth mover's distances of the pairs `(rows[k], columns[k])`.
#[pyfunction]
#[pyo3(signature = (x, y, rows, columns, m, n_threads))]
pub(crate) fn emd_pairs<'py>(
    x: Histograms<'py>,
    y: Histograms<'py>,
    rows: PyReadonlyArray1<'py, i64>,
    columns: PyReadonlyArray1<'py, i64>,
    m: PyReadonlyArray2<'py, f64>,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let pairs = pairs_of(&rows, &columns)?;
    let (m, y) = (m.as_array(), Some(y));
    with_pair!(&x, y, |left, right| {
        let right = right.unwrap_or(&left);
        let work = |e: &Executor| core::emd_pairs(e, &left, right, &pairs, m);
        n_threads.any(work)
    })
}

/// The exact plan between two histograms, or none where no plan is allowed.
#[pyfunction]
#[pyo3(signature = (a, b, m, n_threads))]
pub(crate) fn emd_plan<'py>(
    py: Python<'py>,
    a: PyReadonlyArray1<'py, f64>,
    b: PyReadonlyArray1<'py, f64>,
    m: PyReadonlyArray2<'py, f64>,
    n_threads: Threads<'py>,
) -> PyResult<Option<Matrix<'py>>> {
    let (a, b, m) = (a.as_array(), b.as_array(), m.as_array());
    let plan = n_threads.run(|e| core::emd_plan(e, a, b, m))?;
    Ok(plan.map(|plan| plan.into_pyarray(py)))
}

fn pairs_of(
    rows: &PyReadonlyArray1<'_, i64>,
    columns: &PyReadonlyArray1<'_, i64>,
) -> PyResult<Vec<(usize, usize)>> {
    let (rows, columns) = (rows.as_slice()?, columns.as_slice()?);
    Ok(rows.iter().zip(columns).map(|(&i, &j)| (i as usize, j as usize)).collect())
}

type LossAndGradient<'py> = (f64, Matrix<'py>, f64);

/// The objective of stochastic histogram compression, its gradient, and the largest error of a
/// marginal; `starts` is written to.
#[pyfunction]
#[pyo3(signature = (x, labels, prototypes, prototype_labels, weights, m, reg, gamma, tol, max_iter, starts, n_threads))]
#[allow(clippy::too_many_arguments)] // those of the Rust function
pub(crate) fn histogram_compression_loss<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    labels: PyReadonlyArray1<'py, i64>,
    prototypes: Histograms<'py>,
    prototype_labels: PyReadonlyArray1<'py, i64>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    m: Costs<'py>,
    reg: f64,
    gamma: f64,
    tol: f64,
    max_iter: usize,
    starts: Option<PyReadwriteArray3<'py, f32>>,
    n_threads: Threads<'py>,
) -> PyResult<LossAndGradient<'py>> {
    let options = core::Sinkhorn::new(reg).with_tol(tol).with_max_iter(max_iter);
    let labels = labels_of(&labels, &prototype_labels, weights.as_ref())?;
    let (m, prototypes) = (m.core()?, Some(prototypes));
    let mut starts = starts;
    let starts = starts.as_mut().map(|starts| starts.as_slice_mut()).transpose()?;
    with_pair!(&x, prototypes, |left, right| {
        let pair = [&left, right.unwrap_or(&left)];
        let work = |e: &Executor| {
            core::histogram_compression_loss(e, pair, labels, m.clone(), gamma, &options, starts)
        };
        let found = n_threads.run(work)?;
        Ok((found.loss, found.gradient.into_pyarray(py), found.error))
    })
}
