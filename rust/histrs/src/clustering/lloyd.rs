//! Lloyd's iteration, with bounds that are carried from pass to pass.

use ndarray::Array2;
use pulp::{Simd, WithSimd};

use crate::clustering::bytes::ByteRows;
use crate::clustering::frame::Frame;
use crate::clustering::means::Members;
use crate::clustering::nearest::{Nearest, nearest, panels};
use crate::clustering::panels::{Panels, Tile};
use crate::clustering::{ROWS, block_of};
use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;
use crate::simd::{ByteProducts, PRODUCT_TILE, Real, dispatch};

/// What rounding may add to distances and to how far centers move, relative to them.
const ROUNDING: f64 = 1e-9;

/// What is known of the rows of a block. Distances are in the coordinates of the frame.
#[derive(Debug)]
struct Block {
    rows: ByteRows,
    labels: Vec<usize>,
    /// No less than the distance from the own center.
    own: Vec<f64>,
    /// No more than the distance from any other.
    other: Vec<f64>,
    /// How many rows have another center than before.
    n_changed: usize,
    /// The centers that have lost or won a row.
    changed: Vec<usize>,
}

/// How far centers have moved.
#[derive(Debug, Default)]
struct Shifts {
    each: Vec<f64>,
    /// The largest, and the center it is of.
    largest: (f64, usize),
    /// The largest of the others.
    second: f64,
}

impl Shifts {
    /// How far a center other than this one has moved at most.
    fn of_others(&self, center: usize) -> f64 {
        if center == self.largest.1 { self.second } else { self.largest.0 }
    }
}

/// What k-means has found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct KMeans<T> {
    /// The centers, of shape `(n_centers, n_columns)`.
    pub centers: Array2<T>,
    /// The number of the nearest center of each row.
    pub labels: Vec<i32>,
    /// The sum of the squared distances of rows from these.
    pub inertia: f64,
    /// Number of passes.
    pub n_iter: usize,
}

/// Rows, their centers, and what is known of both.
pub(super) struct Iteration<'a, T> {
    exec: &'a Executor,
    frame: Frame<T>,
    x: &'a [T],
    blocks: Vec<Block>,
    centers: Vec<T>,
    shifts: Shifts,
}

impl<'a, T: Real> Iteration<'a, T> {
    pub(super) fn new(
        exec: &'a Executor,
        frame: Frame<T>,
        x: &'a [T],
        bytes: Vec<ByteRows>,
        centers: Vec<T>,
    ) -> Result<Self> {
        let mut blocks = memory::with_capacity(bytes.len())?;
        for rows in bytes {
            let n = rows.rows.len();
            blocks.push(Block {
                labels: memory::filled(usize::MAX, n)?,
                own: memory::filled(f64::INFINITY, n)?,
                other: memory::filled(0.0, n)?,
                n_changed: 0,
                changed: Vec::new(),
                rows,
            });
        }
        let each = memory::filled(0.0, centers.len() / frame.centre.len())?;
        let shifts = Shifts { each, ..Shifts::default() };
        Ok(Self { exec, frame, x, blocks, centers, shifts })
    }

    pub(super) fn run(mut self, max_iter: usize, least_shift: f64) -> Result<KMeans<T>> {
        let mut n_iter = 0;
        while n_iter < max_iter {
            n_iter += 1;
            if self.assign()? == 0 {
                break;
            }
            if self.move_centers()? <= least_shift {
                break;
            }
        }
        // Of the centers as they are now.
        self.assign()?;
        let n_columns = self.frame.centre.len();
        let inertia: f64 = self.squared_distances()?.iter().flatten().sum();
        let labels = self.blocks.iter().flat_map(|block| &block.labels);
        let mut numbers = memory::with_capacity(self.x.len() / n_columns)?;
        numbers.extend(labels.map(|&label| i32::try_from(label).unwrap_or(0)));
        let n_centers = self.centers.len() / n_columns;
        let centers = Array2::from_shape_vec((n_centers, n_columns), self.centers);
        let lost = |_| Error::Internal("centers are no longer as many as there were");
        Ok(KMeans {
            centers: centers.map_err(lost)?,
            labels: numbers,
            inertia: inertia / (self.frame.inverse * self.frame.inverse),
            n_iter,
        })
    }

    /// Finds the nearest center of every row, and returns how many rows have a new one.
    fn assign(&mut self) -> Result<usize> {
        let panels = panels(&self.frame, &self.centers)?;
        let (frame, centers, shifts) = (&self.frame, &self.centers[..], &self.shifts);
        let n_columns = frame.centre.len();
        self.exec.for_chunks(&mut self.blocks, 1, |number, blocks| {
            blocks.iter_mut().try_for_each(|block| {
                let x = block_of(self.x, n_columns, number);
                dispatch(Assign { frame, centers, panels: &panels, shifts, x, block })
            })
        })?;
        // The bounds know of them now.
        self.shifts.each.fill(0.0);
        (self.shifts.largest, self.shifts.second) = ((0.0, usize::MAX), 0.0);
        Ok(self.blocks.iter().map(|block| block.n_changed).sum())
    }

    /// Squared distances of rows from their centers.
    fn squared_distances(&self) -> Result<Vec<Vec<f64>>> {
        let n_columns = self.frame.centre.len();
        self.exec.map_blocks(self.blocks.len(), |block| {
            let x = block_of(self.x, n_columns, block).chunks_exact(n_columns);
            let rows = x.zip(&self.blocks[block].labels);
            memory::collected(rows.map(|(x, &label)| {
                let center = &self.centers[label * n_columns..(label + 1) * n_columns];
                self.frame.squared_distance(x, center)
            }))
        })
    }

    /// Puts centers on the means of their rows, and returns the sum of the squares of how far they
    /// have moved.
    fn move_centers(&mut self) -> Result<f64> {
        let n_columns = self.frame.centre.len();
        let n_centers = self.centers.len() / n_columns;
        let mut members = self.members(n_centers)?;
        let mut has_changed = memory::filled(false, n_centers)?;
        for &center in self.blocks.iter().flat_map(|block| &block.changed) {
            has_changed[center] = true;
        }
        let empty = members.empty();
        if !empty.is_empty() {
            for (center, row) in empty.iter().copied().zip(self.furthest(empty.len())?) {
                let (block, row) = (&mut self.blocks[row / ROWS], row % ROWS);
                has_changed[block.labels[row]] = true;
                has_changed[center] = true;
                block.labels[row] = center;
                (block.own[row], block.other[row]) = (f64::INFINITY, 0.0);
            }
            members = self.members(n_centers)?;
        }
        let mut means = memory::with_capacity(self.centers.len())?;
        means.extend_from_slice(&self.centers);
        members.means(self.exec, self.x, n_columns, &has_changed, &mut means)?;
        let moved = self.centers.chunks_exact(n_columns).zip(means.chunks_exact(n_columns));
        let mut sum = 0.0;
        (self.shifts.largest, self.shifts.second) = ((0.0, usize::MAX), 0.0);
        for (center, (old, new)) in moved.enumerate() {
            let square = self.frame.squared_distance(old, new);
            sum += square;
            let shift = square.sqrt() * (1.0 + ROUNDING);
            self.shifts.each[center] = shift;
            if shift > self.shifts.largest.0 {
                self.shifts.second = self.shifts.largest.0;
                self.shifts.largest = (shift, center);
            } else {
                self.shifts.second = self.shifts.second.max(shift);
            }
        }
        self.centers = means;
        Ok(sum)
    }

    fn members(&self, n_centers: usize) -> Result<Members> {
        let mut labels = memory::with_capacity(self.x.len() / self.frame.centre.len())?;
        self.blocks.iter().for_each(|block| labels.extend_from_slice(&block.labels));
        Members::new(&labels, n_centers)
    }

    /// The rows that are furthest from their centers, the furthest first; fewer where others are on
    /// theirs.
    fn furthest(&self, n: usize) -> Result<Vec<usize>> {
        let distances = self.squared_distances()?;
        let mut rows: Vec<(f64, usize)> =
            memory::with_capacity(self.x.len() / self.frame.centre.len())?;
        rows.extend(
            distances.iter().flatten().copied().zip(0..).filter(|(square, _)| *square > 0.0),
        );
        rows.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        Ok(rows.into_iter().take(n).map(|(_, row)| row).collect())
    }
}

/// Finds the nearest centers of the rows of a block.
struct Assign<'a, T> {
    frame: &'a Frame<T>,
    centers: &'a [T],
    panels: &'a Panels,
    shifts: &'a Shifts,
    x: &'a [T],
    block: &'a mut Block,
}

impl<T: Real> Assign<'_, T> {
    /// The rows that may have another center, after its own has been looked at.
    #[inline(always)]
    fn undecided(&mut self) -> Result<Vec<(usize, Nearest)>> {
        let n_columns = self.frame.centre.len();
        let mut rows = memory::with_capacity(self.block.labels.len())?;
        for (row, &label) in self.block.labels.iter().enumerate() {
            let (own, other) = (&mut self.block.own[row], &mut self.block.other[row]);
            if own.is_infinite() {
                rows.push((row, Nearest::NONE));
                continue;
            }
            *own = (*own + self.shifts.each[label]) * (1.0 + ROUNDING);
            *other = (*other - self.shifts.of_others(label)) * (1.0 - ROUNDING);
            if *own < *other {
                continue;
            }
            let x = &self.x[row * n_columns..(row + 1) * n_columns];
            let center = &self.centers[label * n_columns..(label + 1) * n_columns];
            let squared_distance = self.frame.squared_distance(x, center);
            *own = squared_distance.sqrt() * (1.0 + ROUNDING);
            if *own >= *other {
                rows.push((row, Nearest { label, squared_distance }));
            }
        }
        Ok(rows)
    }
}

impl<T: Real> WithSimd for Assign<'_, T> {
    type Output = Result<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> Result<()> {
        let undecided = self.undecided()?;
        let Self { frame, centers, panels, x, block, .. } = self;
        let with = ByteProducts::new();
        let n_columns = frame.centre.len();
        block.n_changed = 0;
        block.changed.clear();
        let mut tile = Tile::new(PRODUCT_TILE, block.rows.n_quads, panels.n_padded())?;
        for undecided in undecided.chunks(PRODUCT_TILE) {
            tile.clear();
            undecided.iter().for_each(|&(row, _)| tile.push(&block.rows, row));
            tile.multiply(with, panels);
            for (index, &(row, known)) in undecided.iter().enumerate() {
                let bytes = &block.rows.rows[row];
                let least = tile.score(simd, index, bytes, panels);
                let x = &x[row * n_columns..(row + 1) * n_columns];
                let scores = &tile.scores[..];
                let found = nearest(frame, centers, x, bytes, (scores, least), known);
                let label = if found.label < panels.n_rows { found.label } else { 0 };
                block.own[row] = found.squared_distance.sqrt() * (1.0 + ROUNDING);
                block.other[row] = {
                    let is_first = scores[label] == least.first;
                    let score = if is_first { least.second } else { least.first };
                    let square = f64::from(bytes.squares) + 2.0 * f64::from(score - least.bound);
                    if square > 0.0 { square.sqrt() * (1.0 - ROUNDING) } else { 0.0 }
                };
                let old = std::mem::replace(&mut block.labels[row], label);
                if old != label {
                    block.n_changed += 1;
                    memory::push(&mut block.changed, label)?;
                    if old < panels.n_rows {
                        memory::push(&mut block.changed, old)?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clustering::nearest::fill;

    #[test]
    fn a_center_that_loses_all_rows_is_put_on_the_furthest_row() {
        let exec = Executor::new(2).unwrap();
        let x = [0.0, 1.0, 10.0, 13.0];
        let frame = Frame::new(vec![6.0], &x);
        let mut bytes = ByteRows::default();
        fill(&mut bytes, &frame, &x, ("X", 0)).unwrap();
        let centers = vec![0.5, 100.0, 11.0];
        let iteration = Iteration::new(&exec, frame, &x, vec![bytes], centers).unwrap();
        let found = iteration.run(300, 0.0).unwrap();
        assert_eq!(found.centers.as_slice().unwrap(), [0.5, 13.0, 10.0]);
        assert_eq!((found.labels, found.inertia, found.n_iter), (vec![0, 0, 2, 1], 0.5, 2));
    }
}
