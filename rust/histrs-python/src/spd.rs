//! Symmetric positive definite matrices.

use histrs::spd as core;
use ndarray::Ix3;
use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyArray3, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3,
};
use pyo3::prelude::*;

use crate::convert::{EitherArray, with_alike, with_either};
use crate::executor::{Threads, to_python};
use crate::neighborhood::labels_of;

/// A stack of matrices of shape `(n, p, p)`.
type Stack<'py> = EitherArray<'py, Ix3>;

/// Defines a function of all pairs and a function of pairs in turn.
macro_rules! distance {
    ($(#[$doc:meta])* $all:ident, $paired:ident) => {
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, y, n_threads))]
        pub(crate) fn $all<'py>(
            x: Stack<'py>,
            y: Option<Stack<'py>>,
            n_threads: Threads<'py>,
        ) -> PyResult<Bound<'py, PyAny>> {
            match &y {
                None => with_either!(&x, |x| {
                    let x = x.as_array();
                    n_threads.any(|e| core::$all(e, x, None))
                }),
                Some(y) => with_alike!((&x, y), "X and Y", |x, y| {
                    n_threads.any(|e| core::$all(e, x, Some(y)))
                }),
            }
        }

        $(#[$doc])*
        #[pyfunction]
        pub(crate) fn $paired<'py>(
            x: Stack<'py>,
            y: Stack<'py>,
            n_threads: Threads<'py>,
        ) -> PyResult<Bound<'py, PyAny>> {
            with_alike!((&x, &y), "X and Y", |x, y| n_threads.any(|e| core::$paired(e, x, y)))
        }
    };
}

distance! {
    /// The Jensen-Bregman log-det divergence.
    jbld_distances, jbld_paired
}
distance! {
    /// The affine-invariant Riemannian metric.
    airm_distances, airm_paired
}

type LossAndSums<'py> = (f64, Bound<'py, PyArray3<f64>>, Bound<'py, PyArray1<f64>>);

/// The objective of stochastic covariance compression, with sums of inverses and of weights.
#[pyfunction]
#[pyo3(signature = (x, labels, prototypes, prototype_labels, weights, gamma, n_threads))]
#[allow(clippy::too_many_arguments)] // labels and weights apart
pub(crate) fn compression_loss<'py>(
    py: Python<'py>,
    x: PyReadonlyArray3<'py, f64>,
    labels: PyReadonlyArray1<'py, i64>,
    prototypes: PyReadonlyArray3<'py, f64>,
    prototype_labels: PyReadonlyArray1<'py, i64>,
    weights: Option<PyReadonlyArray1<'py, f64>>,
    gamma: f64,
    n_threads: Threads<'py>,
) -> PyResult<LossAndSums<'py>> {
    let (x, prototypes) = (x.as_array(), prototypes.as_array());
    let labels = labels_of(&labels, &prototype_labels, weights.as_ref())?;
    let result = n_threads.run(|e| core::compression_loss(e, x, prototypes, labels, gamma))?;
    let (sums, weights) = (result.inverse_sums, result.weight_sums);
    Ok((result.loss, sums.into_pyarray(py), weights.into_pyarray(py)))
}

/// Coordinates in the tangent space at a reference, a row for each matrix.
#[pyfunction]
pub(crate) fn tangent_vectors<'py>(
    x: Stack<'py>,
    whitener: Option<PyReadonlyArray2<'py, f64>>,
    n_threads: Threads<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let whitener = whitener.as_ref().map(PyReadonlyArray2::as_array);
    with_either!(&x, |x| {
        let x = x.as_array();
        n_threads.any(|e| core::tangent_vectors(e, x, whitener))
    })
}

type MeanStepsResidual<'py> = (Bound<'py, PyArray2<f64>>, usize, f64);

/// The mean of a dispersion, the steps that it took and what is left of the gradient.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "as the crate's function")]
pub(crate) fn dispersion_mean<'py>(
    py: Python<'py>,
    x: Stack<'py>,
    weights: PyReadonlyArray1<'py, f64>,
    dispersion: &str,
    start: Option<PyReadonlyArray2<'py, f64>>,
    tol: f64,
    max_iter: usize,
    n_threads: Threads<'py>,
) -> PyResult<MeanStepsResidual<'py>> {
    let dispersion: core::Dispersion = dispersion.parse().map_err(to_python)?;
    let (weights, start) = (weights.as_slice()?, start.as_ref().map(PyReadonlyArray2::as_array));
    let parameters =
        core::MeanParameters::default().with_start(start).with_tol(tol).with_max_iter(max_iter);
    let mean = with_either!(&x, |x| {
        let x = x.as_array();
        n_threads.run(|e| core::dispersion_mean(e, x, weights, dispersion, parameters))?
    });
    Ok((mean.matrix.into_pyarray(py), mean.n_iter, mean.residual))
}

/// The weight of the identity: a number, or the name of a rule.
#[derive(FromPyObject)]
pub(crate) enum Shrinkage {
    Fixed(f64),
    Rule(String),
}

impl TryFrom<Shrinkage> for core::Shrinkage {
    type Error = histrs::Error;

    fn try_from(shrinkage: Shrinkage) -> Result<Self, histrs::Error> {
        match shrinkage {
            Shrinkage::Fixed(weight) => Ok(Self::Fixed(weight)),
            Shrinkage::Rule(name) => name.parse(),
        }
    }
}

type CovariancesAndFlat<'py> = (Bound<'py, PyAny>, Vec<(usize, usize)>);

/// Covariances of the signals of trials, and where a signal is constant.
#[pyfunction]
pub(crate) fn signal_covariances<'py>(
    py: Python<'py>,
    x: Stack<'py>,
    shrinkage: Shrinkage,
    n_threads: Threads<'py>,
) -> PyResult<CovariancesAndFlat<'py>> {
    let shrinkage: core::Shrinkage = shrinkage.try_into().map_err(to_python)?;
    with_either!(&x, |x| {
        let x = x.as_array();
        let result = n_threads.run(|e| core::signal_covariances(e, x, shrinkage))?;
        Ok((result.covariances.into_pyarray(py).into_any(), result.flat))
    })
}
