//! Scores of some rows and columns.

use crate::error::Result;
use std::ops::Range;

use ndarray::{ArrayView2, s};
use pulp::{Simd, WithSimd};

use crate::intersection::lookup::LookupTable;
use crate::intersection::lookup::cells::Cells;
use crate::memory;

use crate::matrix::{HistogramMatrix, visit_rows};
use crate::simd::{Element, dispatch, vectorized};

/// Columns of a row-major matrix that are read together: a cache line of single precision.
const TILE: usize = 64;
/// Values between the columns of a tile.
const PADDING: usize = 16;

/// Where the values of some rows lie in two columns: cells and offsets.
#[derive(Default)]
pub(super) struct Placed([Vec<(u32, f32)>; 2]);

impl LookupTable {
    /// Adds the tabulated scores of some rows and columns of `x` to `sums`.
    pub(super) fn add_columns<T: Element>(
        &self,
        x: &HistogramMatrix<'_, T>,
        rows: Range<usize>,
        columns: Range<usize>,
        placed: &mut Placed,
        sums: &mut [f32],
    ) -> Result<()> {
        match x {
            HistogramMatrix::Dense(x) => self.add_dense(x, rows, columns, placed, sums)?,
            HistogramMatrix::Csr(_) => {
                let (first, n_columns) = (columns.start, columns.len());
                let mut entries = Vec::new();
                visit_rows(x, rows.start, rows.len(), first, n_columns, |row, column, value| {
                    let (cell, offset) = self.columns[first + column].place(value);
                    entries.push(Entry { row, column, cell, offset });
                });
                let cells = &self.columns[columns];
                add_entries(&entries, cells, self.width, sums);
            }
        }
        Ok(())
    }

    /// Column by column, whose cells then stay in the cache; rows are read a cache line at a time.
    fn add_dense<T: Element>(
        &self,
        x: &ArrayView2<'_, T>,
        rows: Range<usize>,
        columns: Range<usize>,
        placed: &mut Placed,
        sums: &mut [f32],
    ) -> Result<()> {
        // A stride that is a power of two would put a row of the tile into one set of the cache.
        let stride = rows.len() + PADDING;
        let mut tile = memory::filled(T::default(), TILE * stride)?;
        let [first_placed, second_placed] = &mut placed.0;
        for first in columns.clone().step_by(TILE) {
            let last = columns.end.min(first + TILE);
            let x = x.slice(s![rows.clone(), first..last]);
            for (i, row) in x.rows().into_iter().enumerate() {
                for (k, value) in row.iter().enumerate() {
                    tile[k * stride + i] = *value;
                }
            }
            let values = |column: usize| &tile[(column - first) * stride..][..rows.len()];
            for column in (first..last).step_by(2) {
                self.columns[column].place_all(values(column), first_placed);
                let first = (&self.columns[column], &first_placed[..]);
                let second = (column + 1 < last).then(|| {
                    self.columns[column + 1].place_all(values(column + 1), second_placed);
                    (&self.columns[column + 1], &second_placed[..])
                });
                dispatch(AddColumns { first, second, width: self.width, sums });
            }
        }
        Ok(())
    }
}

/// A value of a test row, found in the table of its column.
struct Entry {
    row: usize,
    column: usize,
    cell: usize,
    offset: f32,
}

vectorized!(
    fn add_entries<S: Simd>(
        simd: S,
        entries: &[Entry],
        cells: &[Cells],
        width: usize,
        sums: &mut [f32],
    ) {
        let width = width / S::F32_LANES;
        let sums = S::as_mut_simd_f32s(sums).0;
        for &Entry { row, column, cell, offset } in entries {
            let table = S::as_simd_f32s(&cells[column].table).0;
            let offset = simd.splat_f32s(offset);
            let (at, rise) = table[2 * cell * width..2 * (cell + 1) * width].split_at(width);
            let sums = &mut sums[row * width..(row + 1) * width];
            for ((sum, &at), &rise) in sums.iter_mut().zip(at).zip(rise) {
                *sum = simd.add_f32s(*sum, simd.mul_add_e_f32s(rise, offset, at));
            }
        }
    }
);

/// One or two columns at once, which share each update of the sums.
struct AddColumns<'a> {
    first: (&'a Cells, &'a [(u32, f32)]),
    second: Option<(&'a Cells, &'a [(u32, f32)])>,
    width: usize,
    sums: &'a mut [f32],
}

impl WithSimd for AddColumns<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.width / S::F32_LANES {
            1 => self.add::<S, 1>(simd, 1),
            2 => self.add::<S, 2>(simd, 2),
            4 => self.add::<S, 4>(simd, 4),
            width => self.add::<S, 1>(simd, width),
        }
    }
}

impl AddColumns<'_> {
    /// `NV` vectors at a time of the `width` of a row.
    #[inline(always)]
    fn add<S: Simd, const NV: usize>(self, simd: S, width: usize) {
        let sums = S::as_mut_simd_f32s(self.sums).0;
        let (cells, placed) = self.first;
        let table = S::as_simd_f32s(&cells.table).0;
        if let Some((other_cells, other_placed)) = self.second {
            let other = S::as_simd_f32s(&other_cells.table).0;
            let rows = sums.chunks_exact_mut(width).zip(placed).zip(other_placed);
            for ((sums, &cell), &other_cell) in rows {
                for start in (0..width).step_by(NV) {
                    let a = interpolated::<S, NV>(simd, table, cell, width, start);
                    let b = interpolated::<S, NV>(simd, other, other_cell, width, start);
                    for i in 0..NV {
                        let sum = &mut sums[start + i];
                        *sum = simd.add_f32s(*sum, simd.add_f32s(a[i], b[i]));
                    }
                }
            }
        } else {
            for (sums, &cell) in sums.chunks_exact_mut(width).zip(placed) {
                for start in (0..width).step_by(NV) {
                    let a = interpolated::<S, NV>(simd, table, cell, width, start);
                    for i in 0..NV {
                        sums[start + i] = simd.add_f32s(sums[start + i], a[i]);
                    }
                }
            }
        }
    }
}

/// Some vectors of the tabulated function at one cell.
#[inline(always)]
fn interpolated<S: Simd, const NV: usize>(
    simd: S,
    table: &[S::f32s],
    (cell, offset): (u32, f32),
    width: usize,
    start: usize,
) -> [S::f32s; NV] {
    let offset = simd.splat_f32s(offset);
    let entry = &table[2 * cell as usize * width..2 * (cell as usize + 1) * width];
    let mut f = [offset; NV];
    for (i, f) in f.iter_mut().enumerate() {
        *f = simd.mul_add_e_f32s(entry[width + start + i], offset, entry[start + i]);
    }
    f
}
