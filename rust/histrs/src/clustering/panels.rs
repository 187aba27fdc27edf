//! Rows side by side, scored with a few others.

use pulp::Simd;

use crate::clustering::bytes::{ByteRow, ByteRows, OFFSET, rounding};
use crate::error::Result;
use crate::memory;
use crate::simd::{AlignedVec, ByteProducts, PRODUCT_GROUP, Panel, Quad};

/// Scores looked through at a time.
pub(super) const CHUNK: usize = 16;
/// Less than any distance that is told apart.
const LEAST: f32 = 1e-30;

/// Rows `c` that are scored with a row `x`: `|c|^2 / 2 - x . c`, which is half of
/// `|x - c|^2 - |x|^2`.
#[derive(Debug)]
pub(super) struct Panels {
    pub(super) n_rows: usize,
    n_columns: usize,
    bytes: AlignedVec<u8>,
    steps: AlignedVec<f32>,
    /// Half the squared norms; infinite in the padding.
    halves: AlignedVec<f32>,
    largest_norm: f32,
    largest_error: f32,
}

/// The least scores of a row, and how far they may be off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Least {
    pub(super) first: f32,
    /// The second, of another index; equal to the first where two are.
    pub(super) second: f32,
    /// No score is further from that of the exact rows.
    pub(super) bound: f32,
}

impl Panels {
    /// Lays out rows of so many columns.
    pub(super) fn new(rows: &ByteRows, n_columns: usize) -> Result<Self> {
        let n_rows = rows.rows.len();
        let padded = n_rows.next_multiple_of(PRODUCT_GROUP);
        let mut bytes = AlignedVec::zeros(padded * rows.n_quads * size_of::<Quad>())?;
        let mut steps = AlignedVec::zeros(padded)?;
        let mut halves = AlignedVec::zeros(padded)?;
        halves[n_rows..].fill(f32::INFINITY);
        for (i, row) in rows.rows.iter().enumerate() {
            (steps[i], halves[i]) = (row.step, row.squares / 2.0);
            let (group, index) = (i / PRODUCT_GROUP, i % PRODUCT_GROUP);
            let group = group * rows.n_quads * size_of::<Panel>();
            for (q, quad) in rows.quads_of(i).iter().enumerate() {
                let at = group + q * size_of::<Panel>() + index * size_of::<Quad>();
                #[allow(clippy::cast_possible_truncation)] // a byte plus 128 is at most 255
                let quad = quad.map(|byte| (i32::from(byte) + OFFSET).cast_unsigned() as u8);
                bytes[at..at + size_of::<Quad>()].copy_from_slice(&quad);
            }
        }
        let largest = |of: fn(&ByteRow) -> f32| {
            // NaN where one is.
            rows.rows.iter().map(of).fold(0.0_f32, |a, b| if b <= a { a } else { b })
        };
        let (largest_norm, largest_error) = (largest(|row| row.norm), largest(|row| row.error));
        Ok(Self { n_rows, n_columns, bytes, steps, halves, largest_norm, largest_error })
    }

    /// Number of scores of a row, with those of the padding.
    pub(super) fn n_padded(&self) -> usize {
        self.steps.len()
    }

    /// No less than the error of each score of a row; not finite where nothing is known of it.
    pub(super) fn bound(&self, x: &ByteRow) -> f32 {
        let largest = x.norm + self.largest_norm;
        x.error * self.largest_norm
            + x.norm * self.largest_error
            + rounding(self.n_columns) * largest * largest
            + LEAST
    }

    /// Writes the products of bytes of some rows, `start` having one entry for each.
    pub(super) fn products(&self, with: ByteProducts, x: &[Quad], start: &[i32], out: &mut [f32]) {
        let panels: &[Panel] = pulp::bytemuck::cast_slice(&self.bytes);
        with.fill(x, start, panels, out);
    }

    /// Writes the scores of a row, of its products.
    #[inline(always)]
    fn scores<S: Simd>(&self, simd: S, x: &ByteRow, products: &[f32], out: &mut [f32]) -> Least {
        let step = simd.splat_f32s(x.step);
        let (mut first, mut second) =
            (simd.splat_f32s(f32::INFINITY), simd.splat_f32s(f32::INFINITY));
        let (products, out) = (S::as_simd_f32s(products).0, S::as_mut_simd_f32s(out).0);
        let (steps, halves) = (S::as_simd_f32s(&self.steps).0, S::as_simd_f32s(&self.halves).0);
        for (((out, &product), &steps), &half) in
            out.iter_mut().zip(products).zip(steps).zip(halves)
        {
            let score = simd.sub_f32s(half, simd.mul_f32s(simd.mul_f32s(step, steps), product));
            *out = score;
            second = simd.min_f32s(second, simd.max_f32s(first, score));
            first = simd.min_f32s(first, score);
        }
        let (firsts, seconds) = ([first], [second]);
        let firsts: &[f32] = pulp::bytemuck::cast_slice(&firsts);
        let seconds: &[f32] = pulp::bytemuck::cast_slice(&seconds);
        let mut least = Least { first: firsts[0], second: seconds[0], bound: self.bound(x) };
        for (&first, &second) in firsts[1..].iter().zip(&seconds[1..]) {
            least.second = least.first.max(first).min(least.second).min(second);
            least.first = least.first.min(first);
        }
        least
    }
}

/// A few rows, one after the other, with room for their products.
#[derive(Debug)]
pub(super) struct Tile {
    pub(super) quads: Vec<Quad>,
    pub(super) start: Vec<i32>,
    pub(super) products: AlignedVec<f32>,
    pub(super) scores: AlignedVec<f32>,
}

impl Tile {
    /// Room for so many rows, and scores of so many others.
    pub(super) fn new(n_rows: usize, n_quads: usize, n_padded: usize) -> Result<Self> {
        Ok(Self {
            quads: memory::with_capacity(n_rows * n_quads)?,
            start: memory::with_capacity(n_rows)?,
            products: AlignedVec::zeros(n_rows * n_padded)?,
            scores: AlignedVec::zeros(n_padded)?,
        })
    }

    pub(super) fn clear(&mut self) {
        self.quads.clear();
        self.start.clear();
    }

    /// Adds a row, for which there is room.
    pub(super) fn push(&mut self, rows: &ByteRows, row: usize) {
        self.quads.extend_from_slice(rows.quads_of(row));
        self.start.push(rows.rows[row].start);
    }

    /// The products of all rows with those of the panels.
    pub(super) fn multiply(&mut self, with: ByteProducts, panels: &Panels) {
        let n = self.start.len() * panels.n_padded();
        panels.products(with, &self.quads, &self.start, &mut self.products[..n]);
    }

    /// The scores of one of the rows, in `scores`.
    #[inline(always)]
    pub(super) fn score<S: Simd>(
        &mut self,
        simd: S,
        index: usize,
        x: &ByteRow,
        panels: &Panels,
    ) -> Least {
        let n = panels.n_padded();
        panels.scores(simd, x, &self.products[index * n..(index + 1) * n], &mut self.scores)
    }
}
