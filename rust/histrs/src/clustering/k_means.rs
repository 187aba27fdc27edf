//! Centres of rows: the first ones, and the iteration from them.

use ndarray::ArrayView2;

use crate::clustering::bytes::ByteRows;
use crate::clustering::frame::Frame;
use crate::clustering::lloyd::{Iteration, KMeans};
use crate::clustering::nearest::{check_number, fill};
use crate::clustering::seeding::first_centers;
use crate::clustering::{ROWS, block_of};
use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;
use crate::random::Random;
use crate::simd::Real;
use crate::stop::{Stop, with_fields, with_stop};

/// How [`k_means`] looks for centers.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct KMeansParameters {
    /// What the first centers are drawn from.
    pub seed: u64,
    /// Rows that are tried for each further center; `2 + ln(n_centers)` if it is not said.
    pub n_candidates: Option<usize>,
    /// At a sum of the squares of how far centers move in a pass, relative to the mean variance of the
    /// columns, or after so many passes over the rows.
    pub stop: Stop,
}

impl Default for KMeansParameters {
    /// Of seed 0, in at most 300 passes, to a tolerance of 1e-4.
    fn default() -> Self {
        Self { seed: 0, n_candidates: None, stop: Stop::new(1e-4, 300) }
    }
}

impl KMeansParameters {
    /// With another number of [candidates](Self::n_candidates).
    #[must_use]
    pub const fn with_n_candidates(self, n_candidates: usize) -> Self {
        Self { n_candidates: Some(n_candidates), ..self }
    }
}

with_fields!(KMeansParameters: with_seed(seed: u64));
with_stop!(KMeansParameters);

/// Finds centers `c_k` for which `sum_i min_k |x_i - c_k|^2` is small.
///
/// The first ones are drawn by k-means++, of a few candidates each. A center that loses all rows is put on the row that
/// is furthest from its own. Distances that decide are sums in double precision; means are summed
/// in it and rounded to the type of the rows.
///
/// # Errors
///
/// [`Error::NotInRows`] for an array in another order, [`Error::Parameter`] when there is no center,
/// no candidate or no column, or more centers than rows, [`Error::NotFinite`] at a bad entry,
/// [`Error::Interrupted`], [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// use histrs::{Executor, clustering::{KMeansParameters, k_means}};
/// use ndarray::array;
///
/// let x = array![[0.0, 1.0], [0.0, 3.0], [8.0, 0.0], [8.0, 2.0]];
/// let found = k_means(&Executor::new(1)?, x.view(), 2, KMeansParameters::default())?;
/// assert_eq!(found.labels[0], found.labels[1]);
/// assert_eq!(found.inertia, 4.0);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn k_means<T: Real>(
    exec: &Executor,
    x: ArrayView2<'_, T>,
    n_centers: usize,
    parameters: KMeansParameters,
) -> Result<KMeans<T>> {
    let (n_rows, n_columns) = x.dim();
    check_number(n_centers)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a small number
    let usual = || 2 + (n_centers as f64).ln() as usize;
    let n_candidates = parameters.n_candidates.unwrap_or_else(usual);
    for (name, value, largest, expected) in [
        ("the number of centers", n_centers, n_rows, "give at least as many rows as centers"),
        ("the number of candidates", n_candidates, usize::MAX, "give one for each center at least"),
        ("the number of columns", n_columns, usize::MAX, "rows have a column"),
    ] {
        if value == 0 || value > largest {
            return Err(Error::parameter(name, value, expected));
        }
    }
    let x = x.as_slice().ok_or(Error::NotInRows { name: "X" })?;
    let mut draws = memory::with_capacity(memory::size::<f64>(&[n_centers, n_candidates])?)?;
    let mut random = Random(parameters.seed);
    draws.extend((0..n_centers * n_candidates).map(|_| random.unit()));
    let frame = Frame::of_rows(exec, x, n_columns)?;
    let bytes = exec.map_blocks(n_rows.div_ceil(ROWS), |block| {
        let x = block_of(x, n_columns, block);
        let mut rows = ByteRows::default();
        let origin = ("X", block * ROWS);
        fill(&mut rows, &frame, x, origin)?;
        Ok(rows)
    })?;
    let chosen = first_centers(exec, &frame, x, &bytes, ROWS, &draws, n_candidates)?;
    let mut centers = memory::with_capacity(n_centers * n_columns)?;
    for row in chosen {
        centers.extend_from_slice(&x[row * n_columns..(row + 1) * n_columns]);
    }
    let squares: f64 =
        bytes.iter().flat_map(|rows| &rows.rows).map(|row| f64::from(row.squares)).sum();
    let Stop { tol, max_iter, .. } = parameters.stop;
    let least_shift = tol * squares / (n_rows * n_columns) as f64;
    Iteration::new(exec, frame, x, bytes, centers)?.run(max_iter, least_shift)
}
