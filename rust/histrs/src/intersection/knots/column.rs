//! One column on its knots: between which each value lies, and where.

use crate::error::Result;
use crate::intersection::column::Column;
use crate::intersection::levels::level_ends;
use crate::memory;

#[derive(Debug, Clone)]
pub(super) struct KnotColumn {
    /// Ascending and above 0.
    pub(super) knots: Vec<f64>,
    /// The stored rows; `None` when there is an entry for every row.
    pub(super) rows: Option<Vec<u32>>,
    /// Entry `i` lies between knots `cells[i]` and `cells[i] + 1`, counted from 0 at zero, ...
    pub(super) cells: Vec<u8>,
    /// ... at this part of the way.
    pub(super) weights: Vec<f32>,
}

impl KnotColumn {
    pub(super) fn new(column: &Column, n_rows: usize, n_knots: usize) -> Result<Self> {
        let (values, counts) = column.distinct()?;
        let ends = level_ends(&values, &counts, n_knots)?;
        Self::place(column, n_rows, ends.iter().map(|&end| values[end - 1]).collect())
    }

    /// The entries of a column between given knots.
    #[allow(clippy::cast_possible_truncation)] // cells fit a byte; weights are what they round to
    pub(super) fn place(column: &Column, n_rows: usize, knots: Vec<f64>) -> Result<Self> {
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
    pub(super) fn entries(&self, first: usize) -> impl Iterator<Item = (usize, (u8, f32))> {
        self.cells.iter().zip(&self.weights).enumerate().map(move |(i, (&cell, &weight))| {
            let row = self.rows.as_ref().map_or(i, |rows| rows[i] as usize);
            (first + row, (cell, weight))
        })
    }

    /// A column of such entries, with one for every row when half of them have one.
    #[allow(clippy::cast_possible_truncation)] // rows fit the row index of the columns
    pub(super) fn collect(
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
    pub(super) fn spread(&self, n_rows: usize) -> Result<(Vec<u8>, Vec<f32>)> {
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
