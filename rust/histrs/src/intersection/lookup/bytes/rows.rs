//! Rows looked up one value after the other: few rows, sparse rows, and machines without registers
//! that hold a table.

use ndarray::{Array2, ArrayView2};

use crate::error::Result;
use crate::exec::Executor;
use crate::intersection::lookup::bytes::entry::Entry;
use crate::intersection::lookup::bytes::steps::MOST_HALVINGS;
use crate::intersection::lookup::bytes::{ByteTable, weight};
use crate::matrix::CsrView;
use crate::memory;
use crate::simd::{BYTE_CELLS, Element, vectorized};

/// Rows whose sums are in the cache at a time.
const ROWS: usize = 64;
/// Entries of a row until sums of 32 bits are emptied: each is at most `128 * 254 + 127 * 127`,
/// less than `2^16`.
const ENTRIES: usize = 1 << 14;
/// Powers of two that steps may be smaller by.
#[allow(clippy::cast_sign_loss)] // 8
const LEVELS: usize = MOST_HALVINGS as usize + 1;

impl ByteTable {
    /// The scores of dense rows; whether all values were valid.
    pub(super) fn add_by_entries<E: Entry>(
        &self,
        x: &ArrayView2<'_, E>,
        start: usize,
        n_rows: usize,
        out: &mut [f64],
    ) -> Result<bool> {
        let (width, n_outputs, n_sums) = (self.width, self.n_outputs, self.n_sums());
        let mut valid = true;
        let mut sums = memory::filled(0_i32, ROWS * width)?;
        let mut totals = memory::filled(0.0_f64, ROWS * n_sums)?;
        let mut codes = Vec::with_capacity(ROWS);
        for first in (0..n_rows).step_by(ROWS) {
            let n = ROWS.min(n_rows - first);
            let rows = x.slice(ndarray::s![start + first..start + first + n, ..]);
            totals.fill(0.0);
            for panel in &self.panels {
                for (slots, weight) in &panel.groups[0] {
                    sums.fill(0);
                    for column in panel.columns[slots.clone()].iter().flatten() {
                        let placement = self.placements[*column];
                        codes.clear();
                        for &value in rows.column(*column) {
                            valid &= value.is_valid();
                            codes.push(placement.code(value.single()));
                        }
                        let table = self.column(*column);
                        add_column(table, &codes, width, &mut sums);
                    }
                    for (totals, sums) in
                        totals.chunks_exact_mut(n_sums).zip(sums.chunks_exact(width)).take(n)
                    {
                        for (total, &sum) in totals.iter_mut().zip(sums) {
                            *total += f64::from(sum) * weight;
                        }
                    }
                }
            }
            let out = &mut out[first * n_outputs..(first + n) * n_outputs];
            for (row, totals) in out.chunks_exact_mut(n_outputs).zip(totals.chunks_exact(n_sums)) {
                self.write_scores(|at| totals[at], row);
            }
        }
        Ok(valid)
    }

    /// The scores of sparse rows.
    pub(super) fn evaluate_sparse<T: Element>(
        &self,
        exec: &Executor,
        x: &CsrView<'_, T>,
    ) -> Result<Array2<f64>> {
        let n_outputs = self.n_outputs;
        let mut out = memory::zero_matrix((x.n_rows(), n_outputs))?;
        let flat = memory::flat_mut(&mut out)?;
        exec.for_chunks(flat, ROWS * n_outputs, |block, out| {
            let mut sums = memory::filled(0_i32, LEVELS * self.width)?;
            let mut totals = memory::filled(0.0_f64, self.n_sums())?;
            let mut entries = Vec::new();
            for (i, scores) in out.chunks_exact_mut(n_outputs).enumerate() {
                entries.clear();
                x.for_each_sum(block * ROWS + i, |column, value| {
                    entries.push((column, self.placements[column].code(value.single())));
                });
                totals.fill(0.0);
                for entries in entries.chunks(ENTRIES) {
                    sums.fill(0);
                    add_entries(self, entries, &mut sums);
                    for (level, sums) in (0..).zip(sums.chunks_exact(self.width)) {
                        for (total, &sum) in totals.iter_mut().zip(sums) {
                            *total += f64::from(sum) * weight(level);
                        }
                    }
                }
                self.write_scores(|at| totals[at], scores);
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// The entries of a column.
    fn column(&self, column: usize) -> &[i16] {
        let size = BYTE_CELLS * 2 * self.width;
        &self.entries[column * size..(column + 1) * size]
    }
}

/// Adds what an entry says at a code.
#[inline(always)]
#[allow(clippy::cast_possible_wrap)] // 7 bits
fn add(sums: &mut [i32], table: &[i16], code: u32, width: usize) {
    let (cell, step) = ((code >> 7) as usize, (code & 127) as i32);
    let (values, rises) = table[cell * 2 * width..(cell + 1) * 2 * width].split_at(width);
    let sums = sums.as_chunks_mut::<8>().0;
    let (values, rises) = (values.as_chunks::<8>().0, rises.as_chunks::<8>().0);
    for ((sums, v), r) in sums.iter_mut().zip(values).zip(rises) {
        for i in 0..8 {
            sums[i] += 128 * i32::from(v[i]) + i32::from(r[i]) * step;
        }
    }
}

vectorized!(
    /// One column of some rows.
    fn add_column(table: &[i16], codes: &[u32], width: usize, sums: &mut [i32]) {
        for (sums, &code) in sums.chunks_exact_mut(width).zip(codes) {
            add(sums, table, code, width);
        }
    }
);

vectorized!(
    /// One sparse row, whose sums are kept apart by the steps of columns.
    fn add_entries(table: &ByteTable, entries: &[(usize, u32)], sums: &mut [i32]) {
        let width = table.width;
        for &(column, code) in entries {
            let level = usize::from(table.halvings[column]);
            let sums = &mut sums[level * width..(level + 1) * width];
            add(sums, table.column(column), code, width);
        }
    }
);
