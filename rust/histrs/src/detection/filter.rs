//! Filters over cells: weights of features, or tables of what each code scores.

// Lanes are counted: several arrays share an index.
#![allow(clippy::needless_range_loop)]

use ndarray::ArrayView4;

use crate::error::{Error, Result, check_length};
use crate::memory;
use crate::quantization::Code;
use crate::simd::{AlignedVec, vectorized};

/// Columns of a filter that are summed side by side.
const LANES: usize = 8;

/// The cells of a pyramid, by their features or by their codes, a cell per row.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Cells<'a> {
    /// Features, so many per cell.
    Features(&'a [f32], usize),
    /// Codes of 8 bits, so many per cell.
    Short(&'a [u8], usize),
    /// Codes of 16 bits, so many per cell.
    Long(&'a [u16], usize),
}

impl Cells<'_> {
    /// Fails unless these are so many cells, all filters have weights for what describes a cell, and
    /// cells are sound.
    pub(super) fn check<'f>(
        &self,
        n_cells: usize,
        filters: impl Iterator<Item = &'f Filter>,
    ) -> Result<()> {
        let (found, width) = match self {
            Cells::Features(values, width) => (values.len(), *width),
            Cells::Short(values, width) => (values.len(), *width),
            Cells::Long(values, width) => (values.len(), *width),
        };
        let (what, cure) = ("the number of numbers of all cells", "give the cells of every level");
        check_length(what, found, n_cells.saturating_mul(width), cure)?;
        let mut n_codes = usize::MAX;
        for filter in filters {
            match self {
                Cells::Features(_, width) => {
                    let cure = "give weights of shape (h, w, 1, features of a cell)";
                    let what = "the number of features of a filter";
                    check_length(what, filter.n_codes, *width, cure)?;
                    check_length("the number of blocks of a filter", filter.n_blocks, 1, cure)?;
                }
                Cells::Short(_, width) | Cells::Long(_, width) => {
                    let cure = "give one table for each code of a cell";
                    check_length(
                        "the number of tables of a filter",
                        filter.n_blocks,
                        *width,
                        cure,
                    )?;
                }
            }
            n_codes = n_codes.min(filter.n_codes);
        }
        match self {
            Cells::Features(values, width) => {
                match values.iter().position(|value| !value.is_finite()) {
                    Some(at) => Err(Error::NotFinite {
                        name: "cells",
                        row: at / width,
                        column: at % width,
                        value: f64::from(values[at]),
                    }),
                    None => Ok(()),
                }
            }
            Cells::Short(codes, width) => check_codes(codes, *width, n_codes),
            Cells::Long(codes, width) => check_codes(codes, *width, n_codes),
        }
    }
}

fn check_codes<C: Code>(codes: &[C], width: usize, n_codes: usize) -> Result<()> {
    if n_codes >= C::LIMIT {
        return Ok(());
    }
    match codes.iter().position(|code| code.index() >= n_codes) {
        None => Ok(()),
        Some(at) => Err(Error::CodeOutOfRange {
            row: at / width,
            block: at % width,
            code: codes[at].index(),
            n_codes,
        }),
    }
}

/// A filter of `h x w` cells.
#[derive(Debug, Clone)]
pub struct Filter {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) n_blocks: usize,
    pub(super) n_codes: usize,
    /// For every eight columns, row, block and code the entries of the columns side by side; behind
    /// the last column there are zeros.
    entries: AlignedVec<f32>,
}

impl Filter {
    /// Takes weights of shape `(h, w, 1, d)` for `d` features of a cell, or tables of shape
    /// `(h, w, M, D)` for codes, `D` codewords in each of `M` blocks.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] for a filter without cells, or an entry that is not
    /// finite, [`Error::OutOfMemory`].
    pub fn new(weights: ArrayView4<'_, f32>) -> Result<Self> {
        let (rows, columns, n_blocks, n_codes) = weights.dim();
        if weights.is_empty() {
            let expected = "a filter has at least one cell and one weight";
            return Err(Error::parameter("the size of a filter", 0, expected));
        }
        if let Some(value) = weights.iter().find(|value| !value.is_finite()) {
            let expected = "weights of a filter are finite";
            return Err(Error::parameter("a weight", f64::from(*value), expected));
        }
        let shape = [columns.div_ceil(LANES), rows, n_blocks, n_codes, LANES];
        let mut entries = AlignedVec::zeros(memory::size::<f32>(&shape)?)?;
        for ((y, x, block, code), &value) in weights.indexed_iter() {
            let index = ((x / LANES * rows + y) * n_blocks + block) * n_codes + code;
            entries[index * LANES + x % LANES] = value;
        }
        Ok(Self { rows, columns, n_blocks, n_codes, entries })
    }

    /// The shape of the scores on a level; nothing where the filter does not fit.
    pub(super) fn fits(&self, (rows, columns): (usize, usize)) -> (usize, usize) {
        if rows < self.rows || columns < self.columns {
            return (0, 0);
        }
        (rows - self.rows + 1, columns - self.columns + 1)
    }
}

/// What describes a cell, and what it adds to the scores of eight columns of a filter.
trait Describe: Copy {
    fn add(self, cell: usize, entries: &[[f32; LANES]], sums: [f32; LANES]) -> [f32; LANES];
}

/// Numbers of all cells, so many per cell.
#[derive(Clone, Copy)]
struct Described<'a, T> {
    values: &'a [T],
    width: usize,
    n_codes: usize,
}

impl Describe for Described<'_, f32> {
    #[inline(always)]
    fn add(self, cell: usize, entries: &[[f32; LANES]], mut sums: [f32; LANES]) -> [f32; LANES] {
        let features = &self.values[cell * self.width..][..self.width];
        for (&value, entries) in features.iter().zip(entries) {
            for k in 0..LANES {
                sums[k] += value * entries[k];
            }
        }
        sums
    }
}

/// Cells by their codes.
#[derive(Clone, Copy)]
struct Looked<'a, C>(Described<'a, C>);

impl<C: Code> Describe for Looked<'_, C> {
    #[inline(always)]
    fn add(self, cell: usize, entries: &[[f32; LANES]], mut sums: [f32; LANES]) -> [f32; LANES] {
        let codes = &self.0.values[cell * self.0.width..][..self.0.width];
        for (m, code) in codes.iter().enumerate() {
            let entries = &entries[m * self.0.n_codes + code.index()];
            for k in 0..LANES {
                sums[k] += entries[k];
            }
        }
        sums
    }
}

/// The scores of a filter wherever it lies within a level whose first cell is `first`, row by row.
pub(super) fn score_level(
    filter: &Filter,
    cells: Cells<'_>,
    first: usize,
    shape: (usize, usize),
) -> Result<Vec<f32>> {
    let n_codes = filter.n_codes;
    match cells {
        Cells::Features(values, width) => {
            let cells = Described { values, width, n_codes };
            score_cells(filter, cells, first, shape)
        }
        Cells::Short(values, width) => {
            let cells = Looked(Described { values, width, n_codes });
            score_cells(filter, cells, first, shape)
        }
        Cells::Long(values, width) => {
            let cells = Looked(Described { values, width, n_codes });
            score_cells(filter, cells, first, shape)
        }
    }
}

vectorized!(
    fn score_cells<D: Describe>(
        filter: &Filter,
        cells: D,
        first: usize,
        shape: (usize, usize),
    ) -> Result<Vec<f32>> {
        let (rows, columns) = filter.fits(shape);
        let mut out = memory::filled(0.0_f32, rows * columns)?;
        if out.is_empty() {
            return Ok(out);
        }
        let pitch = shape.1;
        let size = filter.n_blocks * filter.n_codes;
        let (entries, _) = filter.entries.as_chunks::<LANES>();
        // What each cell of a row adds as each column of the filter, over all rows of it.
        let mut lines = memory::filled([0.0_f32; LANES], pitch)?;
        for (strip, entries) in entries.chunks_exact(filter.rows * size).enumerate() {
            let start = strip * LANES;
            let width = LANES.min(filter.columns - start);
            for (y, out) in out.chunks_exact_mut(columns).enumerate() {
                for (x, line) in lines.iter_mut().enumerate().skip(start) {
                    let mut sums = [0.0; LANES];
                    for (dy, entries) in entries.chunks_exact(size).enumerate() {
                        sums = cells.add(first + (y + dy) * pitch + x, entries, sums);
                    }
                    *line = sums;
                }
                for dx in 0..width {
                    for (out, line) in out.iter_mut().zip(&lines[start + dx..]) {
                        *out += line[dx];
                    }
                }
            }
        }
        Ok(out)
    }
);
