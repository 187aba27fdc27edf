//! Histograms of oriented gradients, at many scales.

// Directions are counted: several arrays share an index.
#![allow(clippy::needless_range_loop)]

use ndarray::{Array2, ArrayView3};

use super::gradients::{CellHistograms, N_DIRECTIONS, N_HALF, count_gradients};
use super::image::{Image, Octaves};
use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;
use crate::simd::vectorized;

/// Numbers that describe a cell: 18 directions, 9 directions of half a turn, 4 sums.
pub const N_FEATURES: usize = N_DIRECTIONS + N_HALF + N_BLOCKS;

/// Room for the features of a cell.
const PADDED: usize = N_FEATURES.next_multiple_of(16);
/// Blocks of two by two cells that a cell is in.
const N_BLOCKS: usize = 4;
/// The largest fraction of a block's energy.
const CLIP: f32 = 0.2;
/// Added to the energy of a block of an image in [0, 1], in which all is flat below about 1%.
const FLAT: f32 = 1e-4;
/// One over the square root of 18, as the DPM paper scales its sums.
const SUM_SCALE: f32 = 0.2357;

/// The cells of all levels, one below the other.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Pyramid {
    /// A cell per row, the cells of a level row by row.
    pub cells: Array2<f32>,
    /// Rows and columns of cells of each level, with the padding.
    pub shapes: Vec<(usize, usize)>,
}

/// Describes the cells of `cell x cell` pixels of an image at some scales.
///
/// A level has one cell for each `cell` pixels of the scaled image, rounded to the nearest whole
/// number and at least one, and `padding` cells of zeros around. The image has the shape
/// (rows, columns, channels), and values in [0, 1].
///
/// # Errors
///
/// [`Error::NotFinite`] at the first pixel that is not finite; [`Error::Parameter`] for an image without
/// pixels, cells without size, or a scale that is not positive,
/// [`Error::OutOfMemory`], [`Error::Interrupted`].
///
/// # Examples
///
/// ```
/// use histrs::Executor;
/// use histrs::detection::hog_pyramid;
/// use ndarray::Array3;
///
/// let exec = Executor::new(1)?;
/// // A ramp to the right has all its gradients in the first direction.
/// let image = Array3::from_shape_fn((32, 48, 1), |(_, x, _)| x as f32 / 48.0);
/// let pyramid = hog_pyramid(&exec, image.view(), 8, &[1.0, 0.5], 0)?;
/// assert_eq!(pyramid.shapes, [(4, 6), (2, 3)]);
/// assert_eq!(pyramid.cells.dim(), (30, 31));
/// assert!((pyramid.cells[[8, 0]] - 0.4).abs() < 1e-6 && pyramid.cells[[8, 1]] == 0.0);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn hog_pyramid(
    exec: &Executor,
    image: ArrayView3<'_, f32>,
    cell: usize,
    scales: &[f64],
    padding: usize,
) -> Result<Pyramid> {
    if cell == 0 {
        let expected = "a cell has at least one pixel a side";
        return Err(Error::parameter("cell_size", 0, expected));
    }
    if let Some(&value) = scales.iter().find(|scale| !(scale.is_finite() && **scale > 0.0)) {
        let expected = "scales are positive";
        return Err(Error::parameter("a scale", value, expected));
    }
    let image = Image::new(image)?;
    let levels =
        memory::collected(scales.iter().map(|&scale| Level::new(&image, scale, cell, padding)))?;
    let shapes = memory::collected(levels.iter().map(Level::padded))?;
    let n_cells = shapes
        .iter()
        .fold(0_usize, |n, (rows, columns)| n.saturating_add(rows.saturating_mul(*columns)));
    // More cells than there is memory for are refused before anything is computed.
    let mut cells: Array2<f32> = memory::zeros((n_cells, N_FEATURES))?;
    let smallest = scales.iter().fold(1.0_f64, |least, &scale| least.min(scale));
    let octaves = Octaves::new(exec, image, smallest)?;
    let mut parts = memory::with_capacity(levels.len())?;
    let mut rest = memory::flat_mut(&mut cells)?;
    for (level, (rows, columns)) in levels.iter().zip(&shapes) {
        let (part, behind) = rest.split_at_mut(rows * columns * N_FEATURES);
        parts.push((level, part));
        rest = behind;
    }
    exec.for_chunks(&mut parts, 1, |_, parts| {
        for (level, out) in parts {
            let image = octaves.at(level.scale, level.pixels.0, level.pixels.1)?;
            exec.check()?;
            let (rows, columns) = level.cells;
            let histograms = count_gradients(&image, cell, rows, columns)?;
            describe_cells(&histograms, padding, out)?;
        }
        Ok(())
    })?;
    Ok(Pyramid { cells, shapes })
}

/// One level.
struct Level {
    scale: f64,
    /// Rows and columns of the scaled image.
    pixels: (usize, usize),
    /// Rows and columns of cells, without the padding.
    cells: (usize, usize),
    padding: usize,
}

impl Level {
    fn new(image: &Image, scale: f64, cell: usize, padding: usize) -> Self {
        let rounded = |n: f64| (n + 0.5).floor().max(1.0) as usize;
        let pixels = |n: usize| rounded(n as f64 * scale);
        let cells = |n: usize| rounded(n as f64 * scale / cell as f64);
        Self {
            scale,
            pixels: (pixels(image.rows), pixels(image.columns)),
            cells: (cells(image.rows), cells(image.columns)),
            padding,
        }
    }

    fn padded(&self) -> (usize, usize) {
        let around = self.padding.saturating_mul(2);
        (self.cells.0.saturating_add(around), self.cells.1.saturating_add(around))
    }
}

vectorized!(
    /// Writes the features of each cell, normalised by each of the four blocks that it is in.
    ///
    /// With `u_o = h_o + h_{o+9}` and the energy `|u|^2` of a block's cells, `n_k` is one over the
    /// root of the energy of block `k`. A block that reaches over the border has the border's cells
    /// twice. The features are `1/2 sum_k min(h_o n_k, 0.2)` for 18 directions, the same of `u_o`
    /// for 9, and `sum_o min(h_o n_k, 0.2) / sqrt(18)` for each block.
    fn describe_cells(histograms: &CellHistograms, padding: usize, out: &mut [f32]) -> Result<()> {
        let CellHistograms { rows, columns, values } = histograms;
        let (rows, columns) = (*rows, *columns);
        let (values, _) = values.as_chunks::<N_DIRECTIONS>();
        let mut energies = memory::with_capacity(values.len())?;
        energies.extend(values.iter().map(|h| unsigned(h).iter().fold(0.0, |sum, u| sum + u * u)));
        let (out, _) = out.as_chunks_mut::<N_FEATURES>();
        let pitch = columns + 2 * padding;
        for y in 0..rows {
            let beside = [y.saturating_sub(1), (y + 1).min(rows - 1)];
            for x in 0..columns {
                let next = [x.saturating_sub(1), (x + 1).min(columns - 1)];
                let norms: [f32; N_BLOCKS] = std::array::from_fn(|k| {
                    let (y2, x2) = (beside[k / 2], next[k % 2]);
                    let energy = (energies[y * columns + x] + energies[y * columns + x2])
                        + (energies[y2 * columns + x] + energies[y2 * columns + x2]);
                    1.0 / (energy + FLAT).sqrt()
                });
                let features = describe(&values[y * columns + x], &norms);
                out[(y + padding) * pitch + x + padding].copy_from_slice(&features[..N_FEATURES]);
            }
        }
        Ok(())
    }
);

/// The features of a cell, in two whole vectors of most machines.
#[inline(always)]
fn describe(h: &[f32; N_DIRECTIONS], norms: &[f32; N_BLOCKS]) -> [f32; PADDED] {
    let mut counts = [0.0; PADDED];
    counts[..N_DIRECTIONS].copy_from_slice(h);
    for o in 0..N_HALF {
        counts[N_DIRECTIONS + o] = h[o] + h[o + N_HALF];
    }
    let mut shares = [[0.0; PADDED]; N_BLOCKS];
    for (shares, &norm) in shares.iter_mut().zip(norms) {
        for (share, &count) in shares.iter_mut().zip(&counts) {
            let part = count * norm;
            *share = if part < CLIP { part } else { CLIP };
        }
    }
    let mut features = [0.0; PADDED];
    for o in 0..PADDED {
        features[o] = 0.5 * ((shares[0][o] + shares[1][o]) + (shares[2][o] + shares[3][o]));
    }
    for (sum, s) in features[N_DIRECTIONS + N_HALF..].iter_mut().zip(&shares) {
        let pairs: [f32; 8] = std::array::from_fn(|o| s[o] + s[o + 8]);
        let even = (pairs[0] + pairs[4]) + (pairs[2] + pairs[6]);
        let odd = (pairs[1] + pairs[5]) + (pairs[3] + pairs[7]);
        *sum = SUM_SCALE * ((even + odd) + (s[16] + s[17]));
    }
    features
}

/// Directions without their sign.
#[inline(always)]
fn unsigned(h: &[f32; N_DIRECTIONS]) -> [f32; N_HALF] {
    std::array::from_fn(|o| h[o] + h[o + N_HALF])
}
