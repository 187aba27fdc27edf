//! The table T: scores in constant time a value, with a certified error.

use std::ops::Range;

use ndarray::{Array1, Array2, ArrayView2, Axis, s};
use pulp::{Simd, WithSimd};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::intersection::columns::SortedColumns;
use crate::intersection::levels::level_ends;
use crate::intersection::shape::ShapeFunctions;
use crate::matrix::{COLUMNS_OF_X, HistogramMatrix, check_columns, visit_rows};
use crate::simd::{AlignedVec, Element, dispatch, lanes};

/// Test rows scored together: enough to pay for bringing a column's cells into the cache.
const ROWS: usize = 1024;
/// Columns of a row-major matrix that are read together: a cache line of single precision.
const TILE: usize = 16;
/// Columns added in single precision before they are added up in double precision.
const COLUMNS: usize = 64;
/// Buckets of the grid that finds a cell; a few for each cell.
const BUCKETS_PER_CELL: usize = 8;
/// Cells in a bucket that are walked through one by one.
const MAX_WALK: usize = 8;

/// What a cell of the table stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interpolation {
    /// A value and a slope a cell, cells between training values, chosen so that the number of
    /// training values times the width is nearly the same for all. Exact where a column has no
    /// more distinct values than cells.
    Linear,
    /// The paper's table (eq. 10): one value for each of `n_bins` prototypes, evenly spaced from 0
    /// to the largest training value `u_d` of the column.
    Nearest,
}

/// The table T of a score `sum_d f_d(x(d))` with at most `n_bins` cells a column (eq. 10).
///
/// Theorem 1 of the paper bounds the error by `D eps |alpha|_1 / 2`, whose factor one half needs
/// rounding to keep the norm of the histogram, which it does not in general. Here the error of
/// every column is measured where it can be largest, at the training values and at the ends of
/// the cells, so that [`error_bound`](Self::error_bound) holds for every non-negative `x` and is
/// never larger than `|alpha|_1 sum_d |x(d) - q(x(d))|`, apart from single-precision rounding,
/// which is included.
#[derive(Debug, Clone)]
pub struct LookupTable {
    n_outputs: usize,
    /// Outputs padded to whole vectors.
    width: usize,
    columns: Vec<Cells>,
    /// What an entry of the tables is worth, which keeps huge and tiny scores in single precision.
    scale: Vec<f64>,
    error_bound: Vec<f64>,
}

/// The cells of one column.
#[derive(Debug, Clone)]
struct Cells {
    /// Lower ends, the first of which is 0, and the upper end of the last.
    edges: Vec<f64>,
    /// Value at the lower end of every cell and rise to its upper end, each `width` long, in
    /// units of the scale; the last cell lies above all edges.
    table: AlignedVec<f32>,
    /// The cell at the lower end of each bucket.
    grid: Vec<u16>,
    buckets_per_unit: f64,
}

impl LookupTable {
    /// Tabulates the score with weights `alpha`, one output a column of `alpha`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `alpha` has not one row for every stored row, [`Error::Parameter`]
    /// unless `2 <= n_bins <= 65535`.
    pub fn new<T: Element>(
        exec: &Executor,
        columns: &SortedColumns,
        alpha: ArrayView2<'_, T>,
        n_bins: usize,
        interpolation: Interpolation,
    ) -> Result<Self> {
        if !(2..=usize::from(u16::MAX)).contains(&n_bins) {
            return Err(Error::Parameter {
                name: "n_bins",
                value: n_bins as f64,
                expected: "2 to 65535 cells a column",
            });
        }
        columns.check_rows(alpha.nrows())?;
        let scale = output_scales(columns, alpha);
        // One vector at least: cells have a size even when nobody asks for a score.
        let width = alpha.ncols().max(1).next_multiple_of(lanes::<f32>());
        let n_outputs = alpha.ncols();
        let built = exec.map_blocks(columns.n_columns(), |d| {
            let counts = columns.columns()[d].distinct().1;
            let functions = ShapeFunctions::of_range(exec, columns, alpha, d..d + 1)?;
            let (knots, values) = functions.column(0);
            let values = &values / &scale;
            let values = values.view();
            let cells = match interpolation {
                Interpolation::Linear => linear_cells(knots, &counts, values, n_bins, width),
                Interpolation::Nearest => nearest_cells(knots, values, n_bins, width),
            };
            let mut errors = cells.errors(knots, values, width);
            // Values far below the scale vanish.
            for (error, values) in errors.iter_mut().zip(functions.column(0).1.columns()) {
                if values.iter().any(|&value| value != 0.0) {
                    *error += f64::from(f32::MIN_POSITIVE);
                }
            }
            Ok((cells, errors))
        })?;
        let mut error_bound = vec![0.0; n_outputs];
        let mut columns = Vec::with_capacity(built.len());
        for (cells, errors) in built {
            for ((bound, error), scale) in error_bound.iter_mut().zip(errors).zip(&scale) {
                *bound += error * scale;
            }
            columns.push(cells);
        }
        Ok(Self { n_outputs, width, columns, scale: scale.to_vec(), error_bound })
    }

    /// For every output a number that `|score - tabulated score|` never exceeds.
    #[must_use]
    pub fn error_bound(&self) -> &[f64] {
        &self.error_bound
    }

    /// Memory held, in bytes.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.columns
            .iter()
            .map(|c| {
                size_of_val(&c.table[..]) + size_of_val(&c.grid[..]) + size_of_val(&c.edges[..])
            })
            .sum()
    }

    /// The tabulated score of every row of `x`, one column an output.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `x` has another number of columns, [`Error::Negative`] or
    /// [`Error::NotFinite`] at its first bad entry.
    pub fn evaluate<T: Element>(
        &self,
        exec: &Executor,
        x: &HistogramMatrix<'_, T>,
    ) -> Result<Array2<f64>> {
        check_columns(COLUMNS_OF_X, x, self.columns.len())?;
        x.check(exec, "X")?;
        let mut out = Array2::zeros((x.n_rows(), self.n_outputs));
        let n_outputs = self.n_outputs;
        let Some(flat) = out.as_slice_mut() else { return Ok(out) };
        exec.for_chunks(flat, ROWS * n_outputs, |block, out| {
            let mut sums = AlignedVec::zeros(ROWS * self.width);
            let mut placed = Vec::with_capacity(ROWS);
            let (start, n_rows) = (block * ROWS, out.len() / n_outputs);
            for first in (0..self.columns.len()).step_by(COLUMNS) {
                let end = self.columns.len().min(first + COLUMNS);
                sums.fill(0.0);
                self.add_columns(x, start..start + n_rows, first..end, &mut placed, &mut sums);
                let sums = sums.chunks_exact(self.width);
                for (out, sums) in out.chunks_exact_mut(n_outputs).zip(sums) {
                    for ((out, &sum), scale) in out.iter_mut().zip(sums).zip(&self.scale) {
                        *out += f64::from(sum) * scale;
                    }
                }
            }
            Ok(())
        })?;
        Ok(out)
    }
}

impl LookupTable {
    /// Adds the tabulated scores of some rows and columns of `x` to `sums`.
    fn add_columns<T: Element>(
        &self,
        x: &HistogramMatrix<'_, T>,
        rows: Range<usize>,
        columns: Range<usize>,
        placed: &mut Vec<Placed>,
        sums: &mut [f32],
    ) {
        let mut add = |columns: Range<usize>, placed: &[Placed]| {
            let columns = &self.columns[columns];
            dispatch(AddCells { placed, columns, width: self.width, sums });
        };
        placed.clear();
        let HistogramMatrix::Dense(x) = x else {
            let cells = &self.columns[columns.clone()];
            let (first, n_columns) = (columns.start, columns.len());
            visit_rows(x, rows.start, rows.len(), first, n_columns, |row, column, value| {
                placed.push(Placed::new(cells, row, column, value));
            });
            add(columns, placed);
            return;
        };
        // A dense matrix is scored column by column, whose cells then stay in the cache; rows are
        // read a cache line at a time.
        let mut tile = vec![0.0; TILE * rows.len()];
        for first in columns.clone().step_by(TILE) {
            let width = TILE.min(columns.end - first);
            for (i, row) in rows.clone().enumerate() {
                for (k, value) in x.slice(s![row, first..first + width]).iter().enumerate() {
                    tile[k * rows.len() + i] = value.to_f64();
                }
            }
            for (column, values) in (first..).zip(tile.chunks_exact(rows.len()).take(width)) {
                placed.clear();
                let cells = &self.columns[column..column + 1];
                for (row, &value) in values.iter().enumerate() {
                    if value > 0.0 {
                        placed.push(Placed::new(cells, row, 0, value));
                    }
                }
                add(column..column + 1, placed);
            }
        }
    }
}

/// A value of a test row, found in the table of its column.
struct Placed {
    row: u32,
    column: u32,
    cell: u32,
    offset: f32,
}

impl Placed {
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // all three count within a block
    fn new(columns: &[Cells], row: usize, column: usize, x: f64) -> Self {
        let cell = columns[column].find(x);
        let offset = columns[column].offset(cell, x);
        Self { row: row as u32, column: column as u32, cell: cell as u32, offset }
    }
}

struct AddCells<'a> {
    placed: &'a [Placed],
    columns: &'a [Cells],
    width: usize,
    sums: &'a mut [f32],
}

impl WithSimd for AddCells<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { placed, columns, width, sums } = self;
        let width = width / S::F32_LANES;
        let sums = S::as_mut_simd_f32s(sums).0;
        for &Placed { row, column, cell, offset } in placed {
            let (row, column, cell) = (row as usize, column as usize, cell as usize);
            let table = S::as_simd_f32s(&columns[column].table).0;
            let offset = simd.splat_f32s(offset);
            let (at, rise) = table[2 * cell * width..2 * (cell + 1) * width].split_at(width);
            let sums = &mut sums[row * width..(row + 1) * width];
            for ((sum, &at), &rise) in sums.iter_mut().zip(at).zip(rise) {
                *sum = simd.add_f32s(*sum, simd.mul_add_e_f32s(rise, offset, at));
            }
        }
    }
}

impl Cells {
    /// Lays out cells with the given lower `edges`; `fill` writes value and rise of each.
    #[allow(clippy::cast_possible_truncation)] // at most 65536 cells
    fn new(edges: Vec<f64>, width: usize, fill: impl Fn(usize, &mut [f32], &mut [f32])) -> Self {
        let mut table = AlignedVec::zeros(2 * width * edges.len());
        for (cell, entry) in table.chunks_exact_mut(2 * width).enumerate() {
            let (at, rise) = entry.split_at_mut(width);
            fill(cell, at, rise);
        }
        let top = edges[edges.len() - 1];
        let n_buckets = BUCKETS_PER_CELL * edges.len();
        let buckets_per_unit = n_buckets as f64 / top;
        let mut cells = Self { edges, table, grid: Vec::new(), buckets_per_unit: 0.0 };
        if buckets_per_unit.is_finite() {
            cells.buckets_per_unit = buckets_per_unit;
            cells.grid = (0..=n_buckets)
                .map(|b| cells.search(b as f64 / buckets_per_unit, 0, cells.edges.len()) as u16)
                .collect();
        }
        cells
    }

    /// How far `x` lies between the lower edge of its cell, 0, and the upper one, 1.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // single precision is the point
    fn offset(&self, cell: usize, x: f64) -> f32 {
        match self.edges.get(cell + 1) {
            Some(&next) => ((x - self.edges[cell]) / (next - self.edges[cell])) as f32,
            None => 0.0,
        }
    }

    /// The cell that holds `x`, by the grid and a short walk, or a search in a crowded bucket.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // the cast saturates
    fn find(&self, x: f64) -> usize {
        let bucket = (x * self.buckets_per_unit) as usize;
        let Some(&[low, high]) = self.grid.get(bucket..bucket.saturating_add(2)) else {
            return self.search(x, 0, self.edges.len());
        };
        let mut cell = usize::from(low);
        if usize::from(high - low) > MAX_WALK {
            cell = self.search(x, cell, usize::from(high) + 1);
        }
        while cell + 1 < self.edges.len() && self.edges[cell + 1] <= x {
            cell += 1;
        }
        // Rounding may put a value into the bucket above its own.
        while cell > 0 && self.edges[cell] > x {
            cell -= 1;
        }
        cell
    }

    /// The last cell from `low` to below `high` whose lower edge is not above `x`.
    #[inline(always)]
    fn search(&self, x: f64, low: usize, high: usize) -> usize {
        low + self.edges[low..high].partition_point(|&edge| edge <= x).saturating_sub(1)
    }

    /// The largest error over all `x >= 0` for every output.
    fn errors(&self, knots: &[f64], values: ArrayView2<'_, f64>, width: usize) -> Vec<f64> {
        let n_outputs = values.ncols();
        let mut errors = vec![0.0_f64; n_outputs];
        let mut largest = vec![0.0_f64; n_outputs];
        let mut visit = |cell: usize, x: f64| {
            let entry = &self.table[2 * cell * width..2 * (cell + 1) * width];
            for output in 0..n_outputs {
                let exact = interpolate(knots, values, x, output);
                let at = f64::from(entry[output]);
                let step = f64::from(entry[width + output]) * f64::from(self.offset(cell, x));
                errors[output] = errors[output].max((exact - (at + step)).abs());
                largest[output] = largest[output].max(at.abs() + step.abs());
            }
        };
        // Both functions are linear between these points, so that the difference peaks at one.
        for cell in 0..self.edges.len() {
            visit(cell, self.edges[cell]);
            if let Some(&end) = self.edges.get(cell + 1) {
                visit(cell, end);
            }
        }
        for &knot in knots {
            visit(self.find(knot), knot);
        }
        // Rounding the offset, the product, the sum and up to COLUMNS partial sums.
        let rounding = f64::from(f32::EPSILON) * (COLUMNS as f64 + 4.0);
        errors.iter().zip(&largest).map(|(e, l)| e + rounding * l).collect()
    }
}

/// Cells between some of the training values; above the last, `f_d` is constant.
#[allow(clippy::cast_possible_truncation)] // tables are single precision
fn linear_cells(
    knots: &[f64],
    counts: &[usize],
    values: ArrayView2<'_, f64>,
    n_bins: usize,
    width: usize,
) -> Cells {
    let mut picked = vec![0];
    picked.extend(level_ends(&knots[1..], counts, n_bins));
    let edges: Vec<f64> = picked.iter().map(|&k| knots[k]).collect();
    Cells::new(edges, width, |cell, at, rise| {
        let k = picked[cell];
        for output in 0..values.ncols() {
            at[output] = values[[k, output]] as f32;
            if let Some(&next) = picked.get(cell + 1) {
                rise[output] = (values[[next, output]] - values[[k, output]]) as f32;
            }
        }
    })
}

/// The paper's cells: prototypes `k u_d / (n_bins - 1)`, each standing for the values nearest it.
#[allow(clippy::cast_possible_truncation)] // tables are single precision
fn nearest_cells(knots: &[f64], values: ArrayView2<'_, f64>, n_bins: usize, width: usize) -> Cells {
    let top = knots[knots.len() - 1];
    let step = top / (n_bins - 1) as f64;
    let mut edges = vec![0.0];
    // A step too small for its half to be told from zero leaves one cell.
    if 0.5 * step > 0.0 {
        edges.extend((1..n_bins).map(|k| (k as f64 - 0.5) * step));
    }
    Cells::new(edges, width, |cell, at, _| {
        let prototype = (cell as f64 * step).min(top);
        for (output, at) in at.iter_mut().take(values.ncols()).enumerate() {
            *at = interpolate(knots, values, prototype, output) as f32;
        }
    })
}

/// `f_d(x)` between its knots.
fn interpolate(knots: &[f64], values: ArrayView2<'_, f64>, x: f64, output: usize) -> f64 {
    let k = knots.partition_point(|&z| z <= x).saturating_sub(1);
    let at = values[[k, output]];
    match knots.get(k + 1) {
        Some(&next) => {
            let t = (x - knots[k]) / (next - knots[k]);
            at + t * (values[[k + 1, output]] - at)
        }
        None => at,
    }
}

/// For every output a size that no `|f_d|` exceeds: `|alpha|_1 max_d u_d`.
fn output_scales<T: Element>(columns: &SortedColumns, alpha: ArrayView2<'_, T>) -> Array1<f64> {
    let largest = columns.maxima().into_iter().fold(0.0, f64::max);
    alpha.map_axis(Axis(0), |alpha| {
        let scale = largest * alpha.iter().map(|a| a.to_f64().abs()).sum::<f64>();
        if scale > 0.0 { scale.min(f64::MAX) } else { 1.0 }
    })
}
