//! Centres of rows: the first ones, and the iteration from them.

use ndarray::ArrayView2;

use crate::clustering::bytes::ByteRows;
use crate::clustering::frame::Frame;
use crate::clustering::lloyd::{Iteration, KMeans};
use crate::clustering::nearest::{Fill, check_number};
use crate::clustering::seeding::first_centers;
use crate::clustering::{ROWS, block_of};
use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;
use crate::simd::{Real, dispatch};

/// When to stop.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Stop {
    /// Passes over the rows at most.
    pub max_iter: usize,
    /// The sum of the squares of how far centers move in a pass, relative to the mean variance of
    /// the columns, that ends the iteration.
    pub tol: f64,
}

impl Default for Stop {
    /// At most 300 passes, `tol = 1e-4`.
    fn default() -> Self {
        Self { max_iter: 300, tol: 1e-4 }
    }
}

impl Stop {
    /// The same with another number of passes.
    #[must_use]
    pub fn with_max_iter(self, max_iter: usize) -> Self {
        Self { max_iter, ..self }
    }

    /// The same with another tolerance.
    #[must_use]
    pub fn with_tol(self, tol: f64) -> Self {
        Self { tol, ..self }
    }
}

/// Finds centers `c_k` for which `sum_i min_k |x_i - c_k|^2` is small.
///
/// The first ones are drawn by k-means++: `draws`, of shape `(n_centers, n_candidates)`, are uniform
/// in [0, 1) and choose the candidates for each. A center that loses all rows is put on the row that
/// is furthest from its own. Distances that decide are sums in double precision; means are summed
/// in it and rounded to the type of the rows.
///
/// # Errors
///
/// [`Error::NotInRows`] for an array in another order, [`Error::Number`] when there is no center,
/// no candidate or no column, or more centers than rows, [`Error::Parameter`] when a draw is not in
/// [0, 1), [`Error::NotFinite`] at a bad entry, [`Error::Interrupted`], [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// use histrs::{Executor, clustering::{Stop, k_means}};
/// use ndarray::array;
///
/// let x = array![[0.0, 1.0], [0.0, 3.0], [8.0, 0.0], [8.0, 2.0]];
/// let draws = array![[0.1], [0.5]];
/// let found = k_means(&Executor::new(1)?, x.view(), draws.view(), Stop::default())?;
/// assert_eq!(found.centers, array![[0.0, 2.0], [8.0, 1.0]]);
/// assert_eq!((found.labels, found.inertia), (vec![0, 0, 1, 1], 4.0));
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn k_means<T: Real>(
    exec: &Executor,
    x: ArrayView2<'_, T>,
    draws: ArrayView2<'_, f64>,
    stop: Stop,
) -> Result<KMeans<T>> {
    let (n_rows, n_columns) = x.dim();
    let (n_centers, n_candidates) = draws.dim();
    check_number(n_centers)?;
    for (name, value, largest, expected) in [
        ("the number of centers", n_centers, n_rows, "give at least as many rows as centers"),
        ("the number of candidates", n_candidates, usize::MAX, "give one draw for each center"),
        ("the number of columns", n_columns, usize::MAX, "rows have a column"),
    ] {
        if value == 0 || value > largest {
            return Err(Error::Number { name, value: value as i128, expected });
        }
    }
    let x = x.as_slice().ok_or(Error::NotInRows { name: "X" })?;
    let draws = draws.as_slice().ok_or(Error::NotInRows { name: "draws" })?;
    if let Some(&value) = draws.iter().find(|draw| !(0.0..1.0).contains(*draw)) {
        return Err(Error::Parameter { name: "draws", value, expected: "draws are in [0, 1)" });
    }
    let frame = Frame::of_rows(exec, x, n_columns)?;
    let bytes = exec.map_blocks(n_rows.div_ceil(ROWS), |block| {
        let x = block_of(x, n_columns, block);
        let mut rows = ByteRows::default();
        let origin = ("X", block * ROWS);
        dispatch(Fill { rows: &mut rows, frame: &frame, x, origin })?;
        Ok(rows)
    })?;
    let chosen = first_centers(exec, &frame, x, &bytes, ROWS, draws, n_candidates)?;
    let mut centers = memory::with_capacity(n_centers * n_columns)?;
    for row in chosen {
        centers.extend_from_slice(&x[row * n_columns..(row + 1) * n_columns]);
    }
    let squares: f64 =
        bytes.iter().flat_map(|rows| &rows.rows).map(|row| f64::from(row.squares)).sum();
    let least_shift = stop.tol * squares / (n_rows * n_columns) as f64;
    Iteration::new(exec, frame, x, bytes, centers)?.run(stop.max_iter, least_shift)
}
