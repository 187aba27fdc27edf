//! The table in bytes: 128 cells per column, looked up in registers where the machine can.
//!
//! A value becomes a code of its column. Codes stand for whole numbers of a byte. Their steps are a
//! power of two for each output times one for each column. Sums of them are exact, so that dense
//! and sparse rows, alone or many at once, have the same scores on every machine.

mod entry;
mod fit;
mod function;
mod rows;
mod steps;

use ndarray::{Array2, ArrayView2};

use crate::error::Result;
use crate::exec::Executor;
use crate::intersection::lookup::bytes::entry::Entry;
use crate::intersection::lookup::bytes::fit::PART;
use crate::intersection::shape::rows_at_once;
use crate::matrix::{CsrView, HistogramMatrix};
use crate::memory;
use crate::simd::{
    AlignedVec, BYTE_BIAS, BYTE_CELLS, BYTE_CODES, BYTE_COLUMNS, BYTE_ROWS, BYTE_TABLE, ByteGroup,
    ByteLookup, BytePlacements, Element, Placement, Placements, index_of_sum,
};

pub(super) use steps::{Fitted, Steps, fit_column};

/// Columns whose codes and tables are in the cache at a time.
const PANEL: usize = 128;
/// Rows whose codes are.
const ROWS: std::ops::RangeInclusive<usize> = 64..=1024;
/// So few rows are looked up one by one.
const FEW: usize = 8;
/// Sparse rows of which at least one value in so many is stored are looked up as dense ones.
const DENSITY: usize = 16;
/// Sums are exact for so many columns.
const MOST_COLUMNS: usize = 1 << 24;

/// The table of bytes.
#[derive(Debug, Clone)]
pub(super) struct ByteTable {
    n_columns: usize,
    n_outputs: usize,
    /// Bytes that a value is made of at most, the second of which counts 64ths: all outputs of the
    /// first part stand before those of the second.
    n_parts: usize,
    /// Whether values of a column are of two bytes.
    finer: Vec<bool>,
    /// Outputs of all parts of an entry, padded to whole vectors.
    width: usize,
    /// What the sum of an output counts.
    unit: Vec<f64>,
    /// The sums that registers find for a row of zeros, whose scores are 0.
    zeros: Vec<f64>,
    placements: Vec<Placement>,
    /// Powers of two that the steps of a column are smaller by.
    halvings: Vec<u8>,
    /// For every column and cell the values of all outputs, less those at 0, then their rises.
    entries: AlignedVec<i16>,
    panels: Vec<Panel>,
    error_bound: Vec<f64>,
}

/// Some columns, in the order of their steps.
#[derive(Debug, Clone)]
struct Panel {
    first: usize,
    n_columns: usize,
    n_slots: usize,
    /// The column of every slot that has one.
    columns: Vec<Option<usize>>,
    /// All columns, and those whose values have a second part.
    groups: [Vec<ByteGroup>; 2],
    placements: Placements,
    bytes: Option<BytePlacements>,
    /// Every slot of the first output, then those of the next: where there are registers for it.
    tables: AlignedVec<u8>,
}

impl ByteTable {
    /// Whether the sums of so many columns are exact.
    pub(super) fn is_exact(n_columns: usize) -> bool {
        n_columns <= MOST_COLUMNS
    }

    /// Puts fitted columns together; `scale` is what a value of an output is worth.
    pub(super) fn new(fits: &[Fitted], steps: Steps, scale: &[f64]) -> Result<Self> {
        let (n_columns, n_outputs) = (fits.len(), scale.len());
        let Steps { finer, tops, halvings, mut error_bound, .. } = steps;
        let n_parts = if finer.contains(&true) { 2 } else { 1 };
        let width = (n_parts * n_outputs).next_multiple_of(8);
        let mut entries = AlignedVec::zeros(n_columns * BYTE_CELLS * 2 * width)?;
        for (d, Fitted(fit)) in fits.iter().enumerate() {
            let column = &mut entries[d * BYTE_CELLS * 2 * width..][..BYTE_CELLS * 2 * width];
            for (output, found) in fit.outputs.iter().enumerate() {
                if found.exponent.is_none() {
                    continue;
                }
                let exponent = tops[output].saturating_sub(halvings[d].into());
                for part in 0..1 + usize::from(finer[d]) {
                    let at = part * n_outputs + output;
                    let mut zero = None;
                    for (entry, (v, r)) in
                        column.chunks_exact_mut(2 * width).zip(fit.table(output, exponent, part))
                    {
                        let zero = *zero.get_or_insert(v);
                        entry[at] = i16::from(v) - i16::from(zero);
                        entry[width + at] = i16::from(r);
                    }
                }
            }
        }
        let mut unit = memory::with_capacity(n_outputs)?;
        for (output, &scale) in scale.iter().enumerate() {
            unit.push(if tops[output] == i32::MIN {
                0.0
            } else {
                2.0_f64.powi(tops[output]) / 128.0 * scale
            });
            error_bound[output] *= scale;
        }
        let placements: Vec<Placement> =
            memory::collected(fits.iter().map(|Fitted(fit)| fit.placement))?;
        let mut table = Self {
            n_columns,
            n_outputs,
            n_parts,
            finer,
            width,
            unit,
            zeros: Vec::new(),
            placements,
            halvings,
            entries,
            panels: Vec::new(),
            error_bound,
        };
        let mut zeros = memory::filled(0.0_f64, table.n_sums())?;
        for first in (0..n_columns).step_by(PANEL) {
            let panel = table.panel(first, PANEL.min(n_columns - first), &mut zeros)?;
            table.panels.push(panel);
        }
        table.zeros = zeros;
        Ok(table)
    }

    /// Sums that a row has: one for every part of an output.
    fn n_sums(&self) -> usize {
        self.n_parts * self.n_outputs
    }

    /// Writes the scores of a row whose sums are given.
    fn write_scores(&self, sum: impl Fn(usize) -> f64, scores: &mut [f64]) {
        for (output, score) in scores.iter_mut().enumerate() {
            let mut total = sum(output);
            if self.n_parts > 1 {
                total += sum(self.n_outputs + output) * PART;
            }
            *score = self.unit[output] * total;
        }
    }

    /// Lays out some columns, and adds the sums of a row of zeros.
    fn panel(&self, first: usize, n_columns: usize, zeros: &mut [f64]) -> Result<Panel> {
        let mut order: Vec<usize> = (first..first + n_columns).collect();
        order.sort_by_key(|&column| (self.halvings[column], !self.finer[column]));
        let (mut columns, mut groups) = (Vec::new(), [Vec::new(), Vec::new()]);
        for run in order.chunk_by(|&a, &b| self.halvings[a] == self.halvings[b]) {
            debug_assert!(run.len() <= BYTE_COLUMNS);
            let (start, weight) = (columns.len(), weight(self.halvings[run[0]].into()));
            columns.extend(run.iter().map(|&column| Some(column)));
            columns.resize(columns.len().next_multiple_of(4), None);
            groups[0].push((start..columns.len(), weight));
            let n_finer = run.iter().filter(|&&column| self.finer[column]).count();
            if n_finer > 0 {
                groups[1].push((start..start + n_finer.next_multiple_of(4), weight));
            }
        }
        let n_slots = columns.len();
        let mut placed = vec![(Placement { scale: 0.0, shift: 9, last: 0 }, 0); n_columns];
        for (slot, column) in columns.iter().enumerate() {
            if let Some(column) = column {
                placed[column - first] = (self.placements[*column], slot);
            }
        }
        let placements = Placements::new(&placed, n_slots);
        let mut tables = AlignedVec::zeros(0)?;
        if ByteLookup::in_registers().is_some() {
            tables = AlignedVec::zeros(self.n_sums() * n_slots * BYTE_TABLE)?;
            for (at, table) in tables.chunks_exact_mut(BYTE_TABLE).enumerate() {
                let (output, slot) = (at / n_slots, at % n_slots);
                let groups = &groups[output / self.n_outputs];
                if !groups.iter().any(|(slots, _)| slots.contains(&slot)) {
                    continue;
                }
                let (values, rises) = table.split_at_mut(BYTE_CELLS);
                let Some(column) = columns[slot] else {
                    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 128
                    values.fill(BYTE_BIAS as u8);
                    continue;
                };
                let lowest = (0..BYTE_CELLS).map(|cell| self.entry(column, cell)[output]).min();
                let lowest = lowest.unwrap_or(0);
                for (cell, (v, r)) in values.iter_mut().zip(rises).enumerate() {
                    let entry = self.entry(column, cell);
                    // From the lowest to the highest there are at most 254.
                    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                    let (value, rise) =
                        ((entry[output] - lowest) as u8, entry[self.width + output] as i8);
                    (*v, *r) = (value, rise.cast_unsigned());
                }
                zeros[output] += f64::from(128 * (-i32::from(lowest) - BYTE_BIAS))
                    * weight(self.halvings[column].into());
            }
        }
        let bytes = BytePlacements::new(&placements);
        Ok(Panel { first, n_columns, n_slots, columns, groups, placements, bytes, tables })
    }

    /// Values and rises of all outputs.
    fn entry(&self, column: usize, cell: usize) -> &[i16] {
        &self.entries[(column * BYTE_CELLS + cell) * 2 * self.width..][..2 * self.width]
    }

    pub(super) fn error_bound(&self) -> &[f64] {
        &self.error_bound
    }

    pub(super) fn n_bytes(&self) -> usize {
        size_of_val(&self.entries[..])
            + self.panels.iter().map(|panel| size_of_val(&panel.tables[..])).sum::<usize>()
            + size_of_val(&self.placements[..])
    }

    /// The scores of rows that have as many columns; those of bad rows are an error.
    pub(super) fn evaluate<T: Element>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
    ) -> Result<Array2<f64>> {
        match x {
            HistogramMatrix::Dense(view) => {
                let (scores, valid) = self.evaluate_dense(exec, view)?;
                if !valid {
                    x.check(exec, "X")?;
                }
                Ok(scores)
            }
            HistogramMatrix::Csr(csr) => {
                x.check(exec, "X")?;
                let in_registers = ByteLookup::in_registers().filter(|_| x.n_rows() >= FEW);
                match in_registers {
                    Some(with) if DENSITY * csr.n_stored() >= x.n_rows() * x.n_columns() => {
                        self.evaluate_full(exec, with, csr)
                    }
                    _ => self.evaluate_sparse(exec, csr),
                }
            }
        }
    }

    /// The scores of dense rows, and whether all values were valid.
    pub(super) fn evaluate_dense<E: Entry>(
        &self,
        exec: &Executor,
        x: &ArrayView2<'_, E>,
    ) -> Result<(Array2<f64>, bool)> {
        let valid = std::sync::atomic::AtomicBool::new(true);
        let mut out = memory::zero_matrix((x.nrows(), self.n_outputs))?;
        let flat = memory::flat_mut(&mut out)?;
        let rows = rows_at_once(x.nrows(), &ROWS).next_multiple_of(BYTE_ROWS);
        let with = ByteLookup::in_registers().filter(|_| x.nrows() >= FEW);
        exec.for_chunks(flat, rows * self.n_outputs, |block, out| {
            let (start, n_rows) = (block * rows, out.len() / self.n_outputs);
            let good = match with {
                Some(with) => self.add_in_registers(with, x, start, n_rows, out)?,
                None => self.add_by_entries(x, start, n_rows, out)?,
            };
            valid.fetch_and(good, std::sync::atomic::Ordering::Relaxed);
            Ok(())
        })?;
        Ok((out, valid.into_inner()))
    }

    /// The scores of sparse rows that are nearly full: a few of them are made dense at a time.
    fn evaluate_full<T: Element>(
        &self,
        exec: &Executor,
        with: ByteLookup,
        x: &CsrView<'_, T>,
    ) -> Result<Array2<f64>> {
        let mut out = memory::zero_matrix((x.n_rows(), self.n_outputs))?;
        let flat = memory::flat_mut(&mut out)?;
        let rows = rows_at_once(x.n_rows(), &ROWS).next_multiple_of(BYTE_ROWS);
        exec.for_chunks(flat, rows * self.n_outputs, |block, out| {
            let (start, n_rows) = (block * rows, out.len() / self.n_outputs);
            let mut dense = memory::zero_matrix::<f32>((n_rows, self.n_columns))?;
            for (i, mut row) in dense.rows_mut().into_iter().enumerate() {
                x.for_each_sum(start + i, |column, value| row[column] = value.single());
            }
            self.add_in_registers(with, &dense.view(), 0, n_rows, out).map(drop)
        })?;
        Ok(out)
    }

    fn add_in_registers<E: Entry>(
        &self,
        with: ByteLookup,
        x: &ArrayView2<'_, E>,
        start: usize,
        n_rows: usize,
        out: &mut [f64],
    ) -> Result<bool> {
        let n_blocks = n_rows.div_ceil(BYTE_ROWS);
        let most = self.panels.iter().map(|panel| panel.n_slots).max().unwrap_or(0);
        let mut codes = AlignedVec::<u8>::zeros(n_blocks * most * BYTE_CODES)?;
        let n_sums = self.n_sums();
        let mut sums = memory::filled(0.0_f64, n_blocks * n_sums * BYTE_ROWS)?;
        let mut tile = memory::filled(E::default(), BYTE_ROWS * PANEL)?;
        let mut singles = memory::filled(0.0_f32, BYTE_ROWS * PANEL)?;
        let (mut valid, mut between) = (true, memory::filled(false, n_blocks)?);
        for panel in &self.panels {
            for (q, codes) in codes.chunks_exact_mut(most * BYTE_CODES).enumerate() {
                let row = start + q * BYTE_ROWS;
                let n = (start + n_rows - row).min(BYTE_ROWS);
                let (values, stride) = match x.as_slice() {
                    Some(x) if n == BYTE_ROWS => {
                        (&x[row * self.n_columns + panel.first..], self.n_columns)
                    }
                    _ => {
                        valid &= copy_tile(x, row, n, panel, &mut tile);
                        (&tile[..], PANEL)
                    }
                };
                let seen = if let (Some(values), Some(bytes)) = (E::bytes(values), &panel.bytes) {
                    with.encode_bytes(values, stride, bytes, codes)
                } else if let Some(values) = E::singles(values) {
                    with.encode(values, stride, &panel.placements, codes)
                } else {
                    for (i, to) in singles.chunks_exact_mut(PANEL).enumerate() {
                        let row = &values[i * stride..][..panel.n_columns];
                        for (to, &value) in to.iter_mut().zip(row) {
                            valid &= value.is_valid();
                            *to = value.single();
                        }
                    }
                    with.encode(&singles, PANEL, &panel.placements, codes)
                };
                valid &= seen.valid;
                between[q] = seen.between;
            }
            // All rows of an output, whose table then stays where it is.
            let of_output = panel.n_slots * BYTE_TABLE;
            for (output, table) in panel.tables.chunks_exact(of_output).enumerate() {
                let groups = &panel.groups[output / self.n_outputs];
                for (q, codes) in codes.chunks_exact(most * BYTE_CODES).enumerate() {
                    let at = (q * n_sums + output) * BYTE_ROWS;
                    let sums = &mut sums[at..at + BYTE_ROWS];
                    with.add((codes, between[q]), table, panel.n_slots, groups, sums);
                }
            }
        }
        for (rows, sums) in
            out.chunks_mut(BYTE_ROWS * self.n_outputs).zip(sums.chunks_exact(n_sums * BYTE_ROWS))
        {
            for (i, row) in rows.chunks_exact_mut(self.n_outputs).enumerate() {
                let index = index_of_sum(i);
                self.write_scores(|at| sums[at * BYTE_ROWS + index] - self.zeros[at], row);
            }
        }
        Ok(valid)
    }
}

/// Copies rows of a panel to a tile, and says whether all values are valid.
fn copy_tile<E: Entry>(
    x: &ArrayView2<'_, E>,
    row: usize,
    n_rows: usize,
    panel: &Panel,
    tile: &mut [E],
) -> bool {
    let mut valid = true;
    let columns = panel.first..panel.first + panel.n_columns;
    let x = x.slice(ndarray::s![row..row + n_rows, columns]);
    tile.fill(E::default());
    for (to, from) in tile.chunks_exact_mut(PANEL).zip(x.rows()) {
        for (to, &from) in to.iter_mut().zip(from) {
            valid &= from.is_valid();
            *to = from;
        }
    }
    valid
}

/// What steps count that are smaller by some powers of two.
fn weight(halvings: i32) -> f64 {
    2.0_f64.powi(-halvings)
}
