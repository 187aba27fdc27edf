//! The kernel projected on a few knots a column, which preconditions the exact one.
//!
//! `min(x, y)` is the covariance of Brownian motion. Given its values at knots
//! `0 < z_1 < ... < z_q`, the motion is known on average by linear interpolation, so that the part
//! of the kernel that the knots explain is `phi(x)^T K_ZZ phi(y)` with `phi` the hat functions on
//! the knots, `K_ZZ[k, l] = min(z_k, z_l)`, and `K_ZZ^-1` tridiagonal. What is left are Brownian
//! bridges between neighbouring knots, whose covariance shrinks with the square of their number.

use ndarray::{Array2, ArrayView2, s};
use pulp::Simd;

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::intersection::column::Column;
use crate::intersection::columns::SortedColumns;
use crate::intersection::levels::level_ends;
use crate::intersection::panel::{
    MAX_WIDTH, Panel, PanelKernel, ROW_BLOCK, by_panels, panel_widths, run_kernel,
};
use crate::intersection::scan::{add_to, load};
use crate::matrix::row_numbers;
use crate::memory;
use crate::simd::{AlignedVec, Element};

/// Knots that a one-byte cell number allows.
const MAX_KNOTS: usize = 255;

/// Hat functions on knots among the values of every column, evaluated at the training rows.
///
/// The matrix `Phi` of `n_rows` by [`n_features`](Self::n_features) holds two values for every
/// stored entry and is kept in that form. It is the caller's to combine it with `K_ZZ`: the
/// regularised inverse is
///
/// ```text
/// (Phi K_ZZ Phi^T + s I)^-1 = (1/s) (I - Phi (Phi^T Phi + s K_ZZ^-1)^-1 Phi^T)
/// ```
#[derive(Debug, Clone)]
pub struct KnotProjection {
    n_rows: usize,
    columns: Vec<KnotColumn>,
    /// Features of column `d` are `offsets[d]..offsets[d + 1]`.
    offsets: Vec<usize>,
}

#[derive(Debug, Clone)]
struct KnotColumn {
    /// Ascending and above 0.
    knots: Vec<f64>,
    /// The stored rows; `None` when there is an entry for every row.
    rows: Option<Vec<u32>>,
    /// Entry `i` lies between knots `cells[i]` and `cells[i] + 1`, counted from 0 at zero, ...
    cells: Vec<u8>,
    /// ... at this part of the way.
    weights: Vec<f32>,
}

impl KnotProjection {
    /// Projects on at most `n_knots` of the non-zero values of every column, chosen so that the number
    /// of rows between neighbours times their distance is nearly the same for all.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless `1 <= n_knots <= 255`.
    pub fn new(exec: &Executor, columns: &SortedColumns, n_knots: usize) -> Result<Self> {
        if !(1..=MAX_KNOTS).contains(&n_knots) {
            return Err(Error::Number {
                name: "n_knots",
                value: n_knots as i128,
                expected: "1 to 255 knots a column",
            });
        }
        let n_rows = columns.n_rows();
        let columns = exec.map_blocks(columns.n_columns(), |d| {
            KnotColumn::new(&columns.columns()[d], n_rows, n_knots)
        })?;
        let mut offsets = vec![0];
        for column in &columns {
            offsets.push(offsets[offsets.len() - 1] + column.knots.len());
        }
        Ok(Self { n_rows, columns, offsets })
    }

    /// The projection of other rows on the same knots; a value above the last one counts as that.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when there is another number of columns.
    pub fn of_rows(&self, exec: &Executor, columns: &SortedColumns) -> Result<Self> {
        check_columns_of(self, columns.n_columns())?;
        let columns_of_rows = exec.map_blocks(columns.n_columns(), |d| {
            let knots = self.columns[d].knots.clone();
            KnotColumn::place(&columns.columns()[d], columns.n_rows(), knots)
        })?;
        Ok(self.with_columns(columns.n_rows(), columns_of_rows))
    }

    /// These rows and, behind them, those of another projection on the same knots.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when the other has another number of columns.
    pub fn concatenate(&self, exec: &Executor, other: &Self) -> Result<Self> {
        check_columns_of(self, other.columns.len())?;
        let n_rows = self.n_rows + other.n_rows;
        let columns = exec.map_blocks(self.columns.len(), |d| {
            let entries = self.columns[d].entries(0).chain(other.columns[d].entries(self.n_rows));
            KnotColumn::collect(self.columns[d].knots.clone(), n_rows, entries)
        })?;
        Ok(self.with_columns(n_rows, columns))
    }

    /// Some of the rows, in ascending order.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] for a row number that is not there.
    pub fn select(&self, exec: &Executor, rows: &[i64]) -> Result<Self> {
        let mut number = memory::filled(None, self.n_rows)?;
        for row in row_numbers("rows", rows, self.n_rows)? {
            number[row] = Some(0);
        }
        let mut n_rows = 0;
        for number in number.iter_mut().flatten() {
            *number = n_rows;
            n_rows += 1;
        }
        let columns = exec.map_blocks(self.columns.len(), |d| {
            let column = &self.columns[d];
            let entries = column.entries(0).filter_map(|(row, cell)| Some((number[row]?, cell)));
            KnotColumn::collect(column.knots.clone(), n_rows, entries)
        })?;
        Ok(self.with_columns(n_rows, columns))
    }

    fn with_columns(&self, n_rows: usize, columns: Vec<KnotColumn>) -> Self {
        Self { n_rows, columns, offsets: self.offsets.clone() }
    }

    /// Number of rows N.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Number of knots of all columns together.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.offsets[self.columns.len()]
    }

    /// Diagonal and superdiagonal of `K_ZZ^-1`, which is block diagonal by columns and
    /// tridiagonal in each; the superdiagonal is 0 between columns and at the end.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub fn inverse_kernel(&self) -> Result<(Vec<f64>, Vec<f64>)> {
        let mut diagonal = memory::filled(0.0, self.n_features())?;
        let mut upper = memory::filled(0.0, self.n_features())?;
        for (column, &start) in self.columns.iter().zip(&self.offsets) {
            let mut previous = 0.0;
            for (k, &knot) in column.knots.iter().enumerate() {
                let precision = 1.0 / (knot - previous);
                previous = knot;
                diagonal[start + k] += precision;
                if k > 0 {
                    diagonal[start + k - 1] += precision;
                    upper[start + k - 1] = -precision;
                }
            }
        }
        Ok((diagonal, upper))
    }

    /// `Phi^T Phi`.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`].
    pub fn gram(&self, exec: &Executor) -> Result<Array2<f64>> {
        self.gram_of(exec, None)
    }

    /// `Phi^T W Phi` with a weight for every row on the diagonal of `W`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when there is not one weight for every row, [`Error::Interrupted`].
    pub fn weighted_gram(&self, exec: &Executor, weights: &[f64]) -> Result<Array2<f64>> {
        check_rows("the number of weights", weights.len(), self.n_rows)?;
        self.gram_of(exec, Some(weights))
    }

    fn gram_of(&self, exec: &Executor, row_weights: Option<&[f64]>) -> Result<Array2<f64>> {
        let n_columns = self.columns.len();
        let strips = exec.map_blocks(n_columns, |d| {
            let spread = self.columns[d].spread(self.n_rows)?;
            (d..n_columns)
                .map(|e| {
                    exec.check()?;
                    pair_gram(&self.columns[d], &spread, &self.columns[e], row_weights)
                })
                .collect::<Result<Vec<_>>>()
        })?;
        let mut gram = memory::zeros((self.n_features(), self.n_features()))?;
        for (d, strip) in strips.iter().enumerate() {
            let rows = self.offsets[d]..self.offsets[d + 1];
            for (e, tile) in (d..n_columns).zip(strip) {
                let columns = self.offsets[e]..self.offsets[e + 1];
                gram.slice_mut(s![rows.clone(), columns.clone()]).assign(tile);
                gram.slice_mut(s![columns, rows.clone()]).assign(&tile.t());
            }
        }
        Ok(gram)
    }

    /// `Phi^T V`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `v` has not one row for every stored row.
    pub fn project(&self, exec: &Executor, v: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        check_rows("the number of rows of V", v.nrows(), self.n_rows)?;
        let mut out = memory::zeros((self.n_features(), v.ncols()))?;
        let mut start = 0;
        for width in panel_widths::<f64>(v.ncols(), MAX_WIDTH) {
            let end = v.ncols().min(start + width);
            let panel = Panel::<f64>::pack(exec, v.slice(s![.., start..end]), width)?;
            let tables = exec.map_blocks(self.columns.len(), |d| {
                let mut table = AlignedVec::zeros((self.columns[d].knots.len() + 1) * width)?;
                let column = &self.columns[d];
                run_kernel(width, Project { column, panel: &panel, table: &mut table });
                Ok(table)
            })?;
            for (d, table) in tables.iter().enumerate() {
                let rows = self.offsets[d]..self.offsets[d + 1];
                for (row, sums) in rows.zip(table.chunks_exact(width).skip(1)) {
                    for (k, sum) in sums[..end - start].iter().enumerate() {
                        out[[row, start + k]] = *sum;
                    }
                }
            }
            start = end;
        }
        Ok(out)
    }

    /// `Phi W`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `w` has not one row for every feature.
    pub fn expand(&self, exec: &Executor, w: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        check_rows("the number of rows of W", w.nrows(), self.n_features())?;
        by_panels::<f64, f64>(exec, w, self.n_rows, |panel| {
            let width = panel.width;
            let mut out = AlignedVec::zeros(self.n_rows * width)?;
            exec.for_chunks(&mut out, ROW_BLOCK * width, |block, out| {
                let start = block * ROW_BLOCK;
                run_kernel(width, Expand { projection: self, panel, start, out });
                Ok(())
            })?;
            Ok(vec![out])
        })
    }
}

fn check_rows(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Shape {
        what,
        found,
        expected,
        cure: "give one row for every row of the projection",
    })
}

fn check_columns_of(projection: &KnotProjection, found: usize) -> Result<()> {
    check_length(
        "the number of columns",
        found,
        projection.columns.len(),
        "give rows with the columns of the projection",
    )
}

impl KnotColumn {
    fn new(column: &Column, n_rows: usize, n_knots: usize) -> Result<Self> {
        let (values, counts) = column.distinct()?;
        let ends = level_ends(&values, &counts, n_knots)?;
        Self::place(column, n_rows, ends.iter().map(|&end| values[end - 1]).collect())
    }

    /// The entries of a column between given knots.
    #[allow(clippy::cast_possible_truncation)] // cells fit a byte; weights are what they round to
    fn place(column: &Column, n_rows: usize, knots: Vec<f64>) -> Result<Self> {
        let mut placed =
            Self { knots: Vec::new(), rows: None, cells: Vec::new(), weights: Vec::new() };
        if knots.is_empty() {
            // Nothing to hold on to: the rows lie at zero.
            placed.rows = Some(Vec::new());
            return Ok(placed);
        }
        let place = |x: f64| {
            let cell = knots.partition_point(|&z| z < x).min(knots.len() - 1);
            let low = if cell == 0 { 0.0 } else { knots[cell - 1] };
            (cell as u8, ((x - low) / (knots[cell] - low)).min(1.0) as f32)
        };
        let mut n_stored = 0;
        column.for_each(|_, _| n_stored += 1);
        if 2 * n_stored >= n_rows {
            placed.cells = memory::filled(0, n_rows)?;
            placed.weights = memory::filled(0.0, n_rows)?;
            column.for_each(|row, x| {
                let (cell, weight) = place(x);
                placed.cells[row as usize] = cell;
                placed.weights[row as usize] = weight;
            });
        } else {
            let mut entries = memory::with_capacity(n_stored)?;
            column.for_each(|row, x| entries.push((row, place(x))));
            entries.sort_unstable_by_key(|e| e.0);
            placed.rows = Some(memory::collected(entries.iter().map(|e| e.0))?);
            placed.cells = memory::collected(entries.iter().map(|e| e.1.0))?;
            placed.weights = memory::collected(entries.iter().map(|e| e.1.1))?;
        }
        placed.knots = knots;
        Ok(placed)
    }

    /// Row, cell and weight of the stored entries by ascending row, rows counted from `first`.
    fn entries(&self, first: usize) -> impl Iterator<Item = (usize, (u8, f32))> {
        self.cells.iter().zip(&self.weights).enumerate().map(move |(i, (&cell, &weight))| {
            let row = self.rows.as_ref().map_or(i, |rows| rows[i] as usize);
            (first + row, (cell, weight))
        })
    }

    /// A column of such entries, with one for every row when half of them have one.
    #[allow(clippy::cast_possible_truncation)] // rows fit the row index of the columns
    fn collect(
        knots: Vec<f64>,
        n_rows: usize,
        entries: impl Iterator<Item = (usize, (u8, f32))>,
    ) -> Result<Self> {
        let (rows, mut placed): (Vec<u32>, Vec<(u8, f32)>) =
            entries.map(|(row, placed)| (row as u32, placed)).unzip();
        let dense = 2 * rows.len() >= n_rows && !knots.is_empty();
        if dense {
            let mut all = memory::filled((0, 0.0), n_rows)?;
            for (&row, &placed) in rows.iter().zip(&placed) {
                all[row as usize] = placed;
            }
            placed = all;
        }
        let (cells, weights) = placed.into_iter().unzip();
        Ok(Self { knots, rows: (!dense).then_some(rows), cells, weights })
    }

    /// Cell and weight of every row; a row that is not stored lies at zero.
    fn spread(&self, n_rows: usize) -> Result<(Vec<u8>, Vec<f32>)> {
        Ok(match &self.rows {
            None => (self.cells.clone(), self.weights.clone()),
            Some(rows) => {
                let mut cells = memory::filled(0, n_rows)?;
                let mut weights = memory::filled(0.0, n_rows)?;
                for ((&row, &cell), &weight) in rows.iter().zip(&self.cells).zip(&self.weights) {
                    cells[row as usize] = cell;
                    weights[row as usize] = weight;
                }
                (cells, weights)
            }
        })
    }
}

/// The block of `Phi^T W Phi` for two columns, the first spread over all rows; `W` is 1 where no
/// weights are given.
fn pair_gram(
    a: &KnotColumn,
    spread: &(Vec<u8>, Vec<f32>),
    b: &KnotColumn,
    row_weights: Option<&[f64]>,
) -> Result<Array2<f64>> {
    let (n_a, n_b) = (a.knots.len(), b.knots.len());
    if n_a == 0 || n_b == 0 {
        return memory::zeros((n_a, n_b));
    }
    // Moments 1, s, t and s t of the rows in each pair of cells give all four hat products.
    let mut moments = memory::filled([0.0_f64; 4], n_a * n_b)?;
    let mut add = |row: usize, cell: u8, weight: f32, other: u8, other_weight: f32| {
        let (s, t) = (f64::from(weight), f64::from(other_weight));
        let w = row_weights.map_or(1.0, |weights| weights[row]);
        let m = &mut moments[usize::from(cell) * n_b + usize::from(other)];
        let add = [w, w * s, w * t, w * s * t];
        for k in 0..4 {
            m[k] += add[k];
        }
    };
    let (cells, weights) = spread;
    let entries = b.cells.iter().zip(&b.weights);
    match &b.rows {
        None => {
            for (row, ((&i, &s), (&j, &t))) in cells.iter().zip(weights).zip(entries).enumerate() {
                add(row, i, s, j, t);
            }
        }
        Some(rows) => {
            for (&row, (&j, &t)) in rows.iter().zip(entries) {
                let row = row as usize;
                add(row, cells[row], weights[row], j, t);
            }
        }
    }
    let mut gram = memory::zeros((n_a, n_b))?;
    for i in 0..n_a {
        for j in 0..n_b {
            let [n, s, t, st] = moments[i * n_b + j];
            gram[[i, j]] += st;
            if i > 0 {
                gram[[i - 1, j]] += t - st;
            }
            if j > 0 {
                gram[[i, j - 1]] += s - st;
            }
            if i > 0 && j > 0 {
                gram[[i - 1, j - 1]] += n - s - t + st;
            }
        }
    }
    Ok(gram)
}

struct Project<'a> {
    column: &'a KnotColumn,
    panel: &'a Panel<f64>,
    table: &'a mut [f64],
}

impl PanelKernel<f64> for Project<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let v = f64::vectors::<S>(&self.panel.data).0;
        let table = f64::vectors_mut::<S>(self.table).0;
        // Plain loops: vectors inside a closure may not be inlined, and are slow then.
        for (i, (&cell, &weight)) in self.column.cells.iter().zip(&self.column.weights).enumerate()
        {
            let row = self.column.rows.as_ref().map_or(i, |rows| rows[i] as usize);
            let weight = f64::splat(simd, f64::from(weight));
            let x = load::<_, NV>(v, row);
            let mut upper = x;
            let mut lower = x;
            for k in 0..NV {
                upper[k] = simd.mul_f64s(weight, x[k]);
                lower[k] = simd.sub_f64s(x[k], upper[k]);
            }
            add_to::<f64, S, NV>(simd, table, usize::from(cell), lower);
            add_to::<f64, S, NV>(simd, table, usize::from(cell) + 1, upper);
        }
    }
}

struct Expand<'a> {
    projection: &'a KnotProjection,
    panel: &'a Panel<f64>,
    start: usize,
    out: &'a mut [f64],
}

impl PanelKernel<f64> for Expand<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let w = f64::vectors::<S>(&self.panel.data).0;
        let out = f64::vectors_mut::<S>(self.out).0;
        let (start, n_rows) = (self.start, out.len() / NV);
        let mut knots: Vec<S::f64s> = Vec::new();
        for (column, &offset) in self.projection.columns.iter().zip(&self.projection.offsets) {
            // The function is 0 at 0, then as given at the knots.
            knots.clear();
            knots.resize(NV, simd.splat_f64s(0.0));
            knots.extend_from_slice(&w[offset * NV..(offset + column.knots.len()) * NV]);
            if column.knots.is_empty() {
                continue;
            }
            let entries = match &column.rows {
                None => start..start + n_rows,
                Some(rows) => {
                    rows.partition_point(|&row| (row as usize) < start)
                        ..rows.partition_point(|&row| (row as usize) < start + n_rows)
                }
            };
            for i in entries {
                let row = column.rows.as_ref().map_or(i, |rows| rows[i] as usize) - start;
                let weight = simd.splat_f64s(f64::from(column.weights[i]));
                let low = load::<_, NV>(&knots, usize::from(column.cells[i]));
                let high = load::<_, NV>(&knots, usize::from(column.cells[i]) + 1);
                let mut value = low;
                for k in 0..NV {
                    let rise = simd.sub_f64s(high[k], low[k]);
                    value[k] = simd.mul_add_e_f64s(weight, rise, low[k]);
                }
                add_to::<f64, S, NV>(simd, out, row, value);
            }
        }
    }
}
