//! Training samples among prototypes.

use histrs::neighborhood::{self as core, Labels};
use ndarray::Ix2;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::convert::{EitherArray, with_either};
use crate::executor::Threads;

/// The labels of both sides, and what samples weigh.
pub(crate) fn labels_of<'a>(
    rows: &'a PyReadonlyArray1<'_, i64>,
    prototypes: &'a PyReadonlyArray1<'_, i64>,
    weights: Option<&'a PyReadonlyArray1<'_, f64>>,
) -> PyResult<Labels<'a>> {
    let labels = Labels::new(rows.as_slice()?, prototypes.as_slice()?);
    Ok(match weights {
        Some(weights) => labels.with_weights(weights.as_slice()?),
        None => labels,
    })
}

/// Which prototypes are left when those without which nothing gets worse are dropped.
#[pyfunction]
pub(crate) fn needed_prototypes<'py>(
    distances: EitherArray<'py, Ix2>,
    labels: PyReadonlyArray1<'py, i64>,
    prototype_labels: PyReadonlyArray1<'py, i64>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let labels = labels_of(&labels, &prototype_labels, weights.as_ref())?;
    with_either!(&distances, |distances| {
        let distances = distances.as_array();
        n_threads.array(|e| core::needed_prototypes(e, distances, labels))
    })
}
