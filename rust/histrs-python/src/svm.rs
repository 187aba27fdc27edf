//! The support vector machine with the intersection kernel, and the steps of the bundle solver.

use histrs::svm as core;
use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray2,
};
use pyo3::prelude::*;

use crate::convert::{Histograms, filled, with_histograms};
use crate::executor::{Threads, to_python};

type Matrix<'py> = PyReadonlyArray2<'py, f64>;
type Vector<'py> = PyReadonlyArray1<'py, f64>;
type NewVector<'py> = Bound<'py, PyArray1<f64>>;
type NewMatrix<'py> = Bound<'py, PyArray2<f64>>;
/// The class and the weight of each row, and the class that each problem is about.
type Targets<'py> = (PyReadonlyArray1<'py, i32>, Vector<'py>, PyReadonlyArray1<'py, i32>);

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
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let (margin, eta, alpha, smoothing) = steps;
    let steps = core::SgdParameters::default()
        .with_margin(margin)
        .with_eta(eta)
        .with_alpha(alpha)
        .with_smoothing(smoothing);
    let (signs, weights, coef) = (signs.as_array(), weights.as_array(), coef.as_array());
    let order = order.as_slice()?;
    let learned = with_histograms!(&x, |x| {
        n_threads.run(|e| core::epoch(e, &x, signs, weights, order, coef, steps))?
    });
    Ok(learned.into_pyarray(py))
}

/// The scores of every row and class; `units` are where the columns begin, and their units.
#[pyfunction]
pub(crate) fn svm_scores<'py>(
    py: Python<'py>,
    x: Histograms<'py>,
    coef: Matrix<'py>,
    units: Option<(Vector<'py>, Vector<'py>)>,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let coef = coef.as_array();
    let units = match &units {
        Some((offset, scale)) => {
            Some(core::ColumnUnits { offset: offset.as_slice()?, scale: scale.as_slice()? })
        }
        None => None,
    };
    with_histograms!(&x, |x| {
        filled(py, (x.n_rows(), coef.nrows()), |out| {
            n_threads.for_rows(x.n_rows()).run(|e| core::scores_into(e, &x, units, coef, out))
        })
    })
}

macro_rules! targets {
    ($targets:expr) => {{
        let (labels, weights, positive) = &$targets;
        core::Targets::new(labels.as_slice()?, weights.as_slice()?, positive.as_slice()?)
    }};
}

/// The losses and slopes of all problems, each at some points on the line between two arrays of
/// scores.
#[pyfunction]
pub(crate) fn svm_line_losses<'py>(
    py: Python<'py>,
    loss: &str,
    start: Matrix<'py>,
    end: Matrix<'py>,
    targets: Targets<'py>,
    points: Matrix<'py>,
    n_threads: Threads<'py>,
) -> PyResult<(NewMatrix<'py>, NewMatrix<'py>)> {
    let loss = loss.parse().map_err(to_python)?;
    let line = core::Line::new(start.as_array(), end.as_array());
    let (targets, points) = (targets!(targets), points.as_array());
    let found = n_threads.run(|e| line.losses(e, loss, &targets, points))?;
    Ok((found.map(|at| at.loss).into_pyarray(py), found.map(|at| at.slope).into_pyarray(py)))
}

/// The places on the line where problems' regularised losses are nearly least, and their values.
/// `norms` are the regularisers of the models at the ends and that of their product.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // Python's call, argument by argument
pub(crate) fn svm_line_minima<'py>(
    py: Python<'py>,
    loss: &str,
    start: Matrix<'py>,
    end: Matrix<'py>,
    targets: Targets<'py>,
    norms: (Vector<'py>, Vector<'py>, Vector<'py>),
    values: Vector<'py>,
    n_threads: Threads<'py>,
) -> PyResult<(NewVector<'py>, NewVector<'py>)> {
    let loss = loss.parse().map_err(to_python)?;
    let line = core::Line::new(start.as_array(), end.as_array());
    let (first, mixed, last) = (norms.0.as_slice()?, norms.1.as_slice()?, norms.2.as_slice()?);
    let norms = first.iter().zip(mixed).zip(last);
    let norms: Vec<_> = norms.map(|((u, uv), v)| core::LineNorm::new(*u, *uv, *v)).collect();
    let (targets, values) = (targets!(targets), values.as_slice()?);
    let minima = n_threads.run(|e| line.minimise(e, loss, &targets, &norms, values))?;
    let (points, values): (Vec<f64>, Vec<f64>) =
        minima.iter().map(|least| (least.point, least.value)).unzip();
    Ok((points.into_pyarray(py), values.into_pyarray(py)))
}

/// Moves `start` to the best points and makes `end` the gradients at the cuts; returns the losses
/// there, and what their tangents are at 0.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // Python's call, argument by argument
pub(crate) fn svm_line_step<'py>(
    py: Python<'py>,
    loss: &str,
    mut start: PyReadwriteArray2<'py, f64>,
    mut end: PyReadwriteArray2<'py, f64>,
    targets: Targets<'py>,
    best: Vector<'py>,
    cut: Vector<'py>,
    n_threads: Threads<'py>,
) -> PyResult<(NewVector<'py>, NewVector<'py>)> {
    let loss = loss.parse().map_err(to_python)?;
    let line = core::LineMut::new(start.as_array_mut(), end.as_array_mut());
    let (targets, best, cut) = (targets!(targets), best.as_slice()?, cut.as_slice()?);
    let tangents = n_threads.run(|e| line.step(e, loss, &targets, best, cut))?;
    let (losses, offsets): (Vec<f64>, Vec<f64>) =
        tangents.iter().map(|tangent| (tangent.loss, tangent.offset)).unzip();
    Ok((losses.into_pyarray(py), offsets.into_pyarray(py)))
}

/// The weights of the planes, and how far their objective may be from the largest.
#[pyfunction]
pub(crate) fn svm_simplex_maximum<'py>(
    py: Python<'py>,
    h: Matrix<'py>,
    b: Vector<'py>,
    alpha: Vector<'py>,
    tol: f64,
    max_steps: usize,
    n_threads: Threads<'py>,
) -> PyResult<(NewVector<'py>, f64)> {
    let (h, b) = (h.as_array(), b.as_slice()?);
    let mut alpha = alpha.as_slice()?.to_vec();
    let bound = n_threads.run(|e| core::simplex_maximum(e, h, b, &mut alpha, tol, max_steps))?;
    Ok((alpha.into_pyarray(py), bound))
}
