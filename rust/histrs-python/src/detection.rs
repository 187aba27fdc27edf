//! Object detection.

use histrs::detection as core;
use numpy::{
    IntoPyArray, PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3,
    PyReadonlyArray4,
};
use pyo3::prelude::*;

use crate::executor::{Threads, call};

/// Cells of all levels and the rows and columns of each.
type Pyramid<'py> = (Bound<'py, PyArray2<f32>>, Vec<(usize, usize)>);

/// The 31 features of each cell, one level below the other.
#[pyfunction]
pub(crate) fn hog_pyramid<'py>(
    py: Python<'py>,
    image: PyReadonlyArray3<'py, f32>,
    cell_size: usize,
    scales: PyReadonlyArray1<'py, f64>,
    padding: usize,
    n_threads: Threads<'py>,
) -> PyResult<Pyramid<'py>> {
    let (image, scales) = (image.as_array(), scales.as_slice()?);
    let found = n_threads.run(|e| core::hog_pyramid(e, image, cell_size, scales, padding))?;
    Ok((found.cells.into_pyarray(py), found.shapes))
}

/// Scores, and the locations that they are from.
type Transformed<'py> = (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<i32>>);

/// The best score of a part on a spring at each location, and the location of the part.
#[pyfunction]
pub(crate) fn distance_transform<'py>(
    py: Python<'py>,
    scores: PyReadonlyArray2<'py, f32>,
    deformation: [f64; 4],
) -> PyResult<Transformed<'py>> {
    let (best, locations) = call(|| core::distance_transform(scores.as_array(), deformation))?;
    let n = locations.len();
    let locations = locations.into_iter().flatten().collect();
    let locations = ndarray::Array2::from_shape_vec((n, 2), locations)
        .map_err(|e| pyo3::exceptions::PyRuntimeError::new_err(e.to_string()))?;
    Ok((best.into_pyarray(py), locations.into_pyarray(py)))
}

/// Cells by their features or codes.
#[derive(FromPyObject)]
pub(crate) enum Cells<'py> {
    Features(PyReadonlyArray2<'py, f32>),
    Short(PyReadonlyArray2<'py, u8>),
    Long(PyReadonlyArray2<'py, u16>),
}

/// Weights, the anchor and the deformation of a part.
type Part<'py> = (PyReadonlyArray4<'py, f32>, [i64; 2], [f64; 4]);

/// The scores of placements, and their numbers.
type Placements<'py> = (Bound<'py, PyArray1<f32>>, Bound<'py, PyArray2<i32>>);

/// Roots, parts and springs, laid out for scoring.
#[pyclass(frozen, module = "histrs._histrs")]
pub(crate) struct PartModel(core::PartModel);

#[pymethods]
impl PartModel {
    /// Takes for each component the weights of its root, its bias and its parts.
    #[new]
    fn new(components: Vec<(PyReadonlyArray4<'_, f32>, f64, Vec<Part<'_>>)>) -> PyResult<Self> {
        let mut model = core::PartModel::new();
        for (root, bias, parts) in &components {
            call(|| {
                let parts = parts.iter().map(|(filter, anchor, deformation)| {
                    let filter = core::Filter::new(filter.as_array())?;
                    Ok(core::Part::new(filter, *anchor, *deformation))
                });
                let parts = parts.collect::<Result<_, histrs::Error>>()?;
                model.push(core::Filter::new(root.as_array())?, *bias, parts)
            })?;
        }
        Ok(Self(model))
    }

    /// The locations whose score is at least the threshold. Levels are given by the rows and
    /// columns of each, the number of levels from a root to its parts, and the padding.
    fn placements<'py>(
        &self,
        py: Python<'py>,
        cells: Cells<'py>,
        levels: (Vec<(usize, usize)>, usize, usize),
        threshold: f64,
        n_threads: Threads<'py>,
    ) -> PyResult<Placements<'py>> {
        let cells = match &cells {
            Cells::Features(x) => core::Cells::Features(x.as_slice()?, x.as_array().ncols()),
            Cells::Short(codes) => core::Cells::Short(codes.as_slice()?, codes.as_array().ncols()),
            Cells::Long(codes) => core::Cells::Long(codes.as_slice()?, codes.as_array().ncols()),
        };
        let (shapes, octave, padding) = levels;
        let found = n_threads
            .run(|e| core::placements(e, cells, &shapes, &self.0, octave, padding, threshold))?;
        Ok((found.scores.into_pyarray(py), found.locations.into_pyarray(py)))
    }
}
