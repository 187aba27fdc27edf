//! Where a model scores above a threshold.

use ndarray::Array2;

use super::distance::{Grid, transform};
use super::filter::{Cells, Filter, score_level};
use super::model::{Component, PartModel};
use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;

/// Locations of a model, by component, level, row and column.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Placements {
    /// The score of each.
    pub scores: Vec<f32>,
    /// For each its component, its level, row and column of its root and of each part, counted from
    /// the first cell of their level.
    pub locations: Array2<i32>,
}

/// Returns the locations of all components at all levels whose score is at least `threshold`.
///
/// `shapes` has rows and columns of each level, and `cells` their cells one level below the other.
/// Parts are looked for `octave` levels before the root's, which has twice as many cells a side; so a
/// model with parts has its roots from level `octave` on. Levels have `padding` cells around the
/// image.
///
/// # Errors
///
/// [`Error::Shape`] when the filters do not fit the cells, or the shapes not the number of cells;
/// [`Error::CodeOutOfRange`], [`Error::NotFinite`], [`Error::OutOfMemory`], [`Error::Interrupted`].
///
/// # Examples
///
/// ```
/// use histrs::Executor;
/// use histrs::detection::{Cells, Filter, PartModel, placements};
/// use ndarray::Array4;
///
/// let exec = Executor::new(1)?;
/// // One cell, one block, three codes that score 0, 1 and 5.
/// let table = Array4::from_shape_vec((1, 1, 1, 3), vec![0.0, 1.0, 5.0]).unwrap();
/// let mut model = PartModel::new();
/// model.push(Filter::new(table.view())?, -2.0, Vec::new())?;
/// let codes = [0_u8, 2, 1, 2];
/// let found = placements(&exec, Cells::Short(&codes, 1), &[(2, 2)], &model, 0, 0, 0.0)?;
/// assert_eq!(found.scores, [3.0, 3.0]);
/// assert_eq!(found.locations.row(0).to_vec(), [0, 0, 0, 1]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn placements(
    exec: &Executor,
    cells: Cells<'_>,
    shapes: &[(usize, usize)],
    model: &PartModel,
    octave: usize,
    padding: usize,
    threshold: f64,
) -> Result<Placements> {
    let mut firsts = memory::with_capacity(shapes.len())?;
    let mut n_cells = 0_usize;
    for (rows, columns) in shapes {
        firsts.push(n_cells);
        n_cells = n_cells.saturating_add(rows.saturating_mul(*columns));
    }
    cells.check(n_cells, model.filters())?;
    let work = Work { cells, shapes, firsts, octave, padding, threshold };
    let octave = if model.n_parts() == 0 { 0 } else { octave };
    let n_roots = shapes.len().saturating_sub(octave);
    let found = exec.map_blocks(model.components.len() * n_roots, |block| {
        let (number, level) = (block / n_roots, octave + block % n_roots);
        work.level(exec, number, &model.components[number], level)
    })?;
    let mut scores = memory::with_capacity(found.iter().map(|found| found.0.len()).sum())?;
    let mut locations = memory::with_capacity(found.iter().map(|found| found.1.len()).sum())?;
    for (own, numbers) in &found {
        scores.extend_from_slice(own);
        locations.extend_from_slice(numbers);
    }
    let width = 4 + 2 * model.n_parts();
    let locations = Array2::from_shape_vec((scores.len(), width), locations)
        .map_err(|_| Error::Internal("a location has as many numbers as its model has parts"))?;
    Ok(Placements { scores, locations })
}

/// What all levels share.
struct Work<'a> {
    cells: Cells<'a>,
    shapes: &'a [(usize, usize)],
    firsts: Vec<usize>,
    octave: usize,
    padding: usize,
    threshold: f64,
}

impl Work<'_> {
    fn filtered(&self, filter: &Filter, level: usize) -> Result<Vec<f32>> {
        score_level(filter, self.cells, self.firsts[level], self.shapes[level])
    }

    /// The locations of a component's root at a level: scores, and rows of numbers.
    fn level(
        &self,
        exec: &Executor,
        number: usize,
        component: &Component,
        level: usize,
    ) -> Result<(Vec<f32>, Vec<i32>)> {
        let (rows, columns) = component.root.fits(self.shapes[level]);
        if rows * columns == 0 {
            return Ok((Vec::new(), Vec::new()));
        }
        let root = self.filtered(&component.root, level)?;
        let mut totals = memory::collected(root.iter().map(|s| component.bias + f64::from(*s)))?;
        let mut parts = memory::with_capacity(component.parts.len())?;
        for part in &component.parts {
            exec.check()?;
            let below = level - self.octave;
            let (n, m) = part.filter.fits(self.shapes[below]);
            let scores = self.filtered(&part.filter, below)?;
            // Twice the location in the image; padding is as wide at every level.
            let start = |anchor: i64| anchor.saturating_sub_unsigned(self.padding as u64);
            let grid = |anchor: i64, n: usize| Grid { start: start(anchor), step: 2, n };
            let (down, across) = (grid(part.anchor[0], rows), grid(part.anchor[1], columns));
            let best = transform(&scores, n, m, part.deformation, down, across)?;
            for (total, value) in totals.iter_mut().zip(&best.values) {
                *total += value;
            }
            parts.push(best.locations);
        }
        let kept = totals.iter().filter(|&&total| total >= self.threshold).count();
        let mut scores = memory::with_capacity(kept)?;
        let mut locations = memory::with_capacity(kept * (4 + 2 * parts.len()))?;
        for (at, &total) in totals.iter().enumerate() {
            if total >= self.threshold {
                scores.push(total as f32);
                let root = [number, level, at / columns, at % columns];
                locations.extend(root.map(|value| value as i32));
                locations.extend(parts.iter().flat_map(|part| part[at]));
            }
        }
        Ok((scores, locations))
    }
}
