//! The nearest centres of all rows.

use ndarray::ArrayView2;

use crate::clustering::ROWS;
use crate::clustering::bytes::{ByteRow, ByteRows};
use crate::clustering::frame::Frame;
use crate::clustering::panels::{CHUNK, Least, Panels, Tile};
use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::memory;
use crate::simd::{ByteProducts, PRODUCT_TILE, Real, vectorized};

/// Returns the number of the nearest centre of each row, `argmin_k |x_i - c_k|^2`; of several that
/// are equally near, the least.
///
/// Distances that decide are sums in double precision.
///
/// # Errors
///
/// [`Error::NotInRows`] for arrays in another order, [`Error::Shape`] when the numbers of columns
/// differ, [`Error::Parameter`] when there is no centre, [`Error::NotFinite`] at a bad entry,
/// [`Error::Interrupted`], [`Error::OutOfMemory`].
///
/// # Examples
///
/// ```
/// use histrs::{Executor, clustering::nearest_centers};
/// use ndarray::array;
///
/// let centers = array![[0.0, 0.0], [1.0, 1.0], [0.0, 2.0]];
/// let x = array![[0.9, 0.8], [0.1, 1.5], [0.5, 0.5]];
/// let exec = Executor::new(1)?;
/// assert_eq!(nearest_centers(&exec, x.view(), centers.view())?, [1, 2, 0]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn nearest_centers<T: Real>(
    exec: &Executor,
    x: ArrayView2<'_, T>,
    centers: ArrayView2<'_, T>,
) -> Result<Vec<i32>> {
    check_length(
        "the number of columns of the centers",
        centers.ncols(),
        x.ncols(),
        "give rows and centers of the same columns",
    )?;
    let (n_rows, n_columns) = x.dim();
    check_number(centers.nrows())?;
    let mut labels = memory::filled(0, n_rows)?;
    let x = x.as_slice().ok_or(Error::NotInRows { name: "X" })?;
    let centers = centers.as_slice().ok_or(Error::NotInRows { name: "centers" })?;
    if n_columns == 0 || n_rows == 0 {
        return Ok(labels);
    }
    let centers = Centers::new(Frame::of_rows(exec, centers, n_columns)?, centers)?;
    exec.for_chunks(&mut labels, ROWS, |block, labels| {
        let first = block * ROWS;
        let x = &x[first * n_columns..(first + labels.len()) * n_columns];
        assign(&centers, x, first, labels)
    })?;
    Ok(labels)
}

/// Fails unless centres can be numbered.
pub(super) fn check_number(n_centers: usize) -> Result<()> {
    if n_centers > 0 && i32::try_from(n_centers).is_ok() {
        return Ok(());
    }
    let expected = "there is a center, and at most 2,147,483,647";
    Err(Error::parameter("the number of centers", n_centers, expected))
}

/// Centres, as they are and in bytes.
#[derive(Debug)]
pub(super) struct Centers<'a, T> {
    pub(super) frame: Frame<T>,
    pub(super) centers: &'a [T],
    pub(super) panels: Panels,
}

impl<'a, T: Real> Centers<'a, T> {
    pub(super) fn new(frame: Frame<T>, centers: &'a [T]) -> Result<Self> {
        let panels = panels(&frame, centers)?;
        Ok(Self { frame, centers, panels })
    }
}

/// Centres side by side.
pub(super) fn panels<T: Real>(frame: &Frame<T>, centers: &[T]) -> Result<Panels> {
    let mut rows = ByteRows::default();
    fill(&mut rows, frame, centers, ("centers", 0))?;
    Panels::new(&rows, frame.centre.len())
}

vectorized!(
    /// Rounds rows to bytes.
    pub(super) fn fill<T: Real>(
        rows: &mut ByteRows,
        frame: &Frame<T>,
        x: &[T],
        origin: (&'static str, usize),
    ) -> Result<()> {
        rows.fill(frame, x, origin)
    }
);

/// The nearest centre of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nearest {
    pub(super) label: usize,
    /// In the coordinates of the frame.
    pub(super) squared_distance: f64,
}

impl Nearest {
    /// Before any centre was looked at.
    pub(super) const NONE: Self = Self { label: usize::MAX, squared_distance: f64::INFINITY };
}

/// Finds the nearest centre of `x`, of the scores of all; `known` is one of them.
#[inline(always)]
pub(super) fn nearest<T: Real>(
    frame: &Frame<T>,
    centers: &[T],
    x: &[T],
    row: &ByteRow,
    (scores, least): (&[f32], Least),
    known: Nearest,
) -> Nearest {
    // A centre with a larger score is further away than the best one. Where nothing is known of the
    // scores, none is larger.
    let limit = |squared_distance: f64| {
        #[allow(clippy::cast_possible_truncation)] // the bound has room for rounding
        let half = (squared_distance / 2.0) as f32;
        half - row.squares / 2.0 + least.bound
    };
    let is_known = least.bound.is_finite() && least.first.is_finite();
    let mut threshold = if is_known { least.first + 2.0 * least.bound } else { f32::INFINITY };
    if is_known {
        threshold = threshold.min(limit(known.squared_distance));
    }
    let mut best = known;
    for (chunk, scores) in scores.as_chunks::<CHUNK>().0.iter().enumerate() {
        // Whether all are larger, which numbers that are none are not.
        if scores.iter().fold(true, |all, &score| all & (score > threshold)) {
            continue;
        }
        for (k, &score) in scores.iter().enumerate() {
            let label = chunk * CHUNK + k;
            let Some(center) = centers.get(label * x.len()..(label + 1) * x.len()) else { break };
            if score > threshold || label == known.label {
                continue;
            }
            let squared_distance = frame.squared_distance(x, center);
            let found = (squared_distance, label);
            if found < (best.squared_distance, best.label) {
                best = Nearest { label, squared_distance };
                if is_known {
                    threshold = threshold.min(limit(squared_distance));
                }
            }
        }
    }
    best
}

vectorized!(
    /// Writes the numbers of the nearest centres of some rows, of which the first is row `first`.
    fn assign<S: Simd, T: Real>(
        simd: S,
        centers: &Centers<'_, T>,
        x: &[T],
        first: usize,
        labels: &mut [i32],
    ) -> Result<()> {
        let Centers { frame, centers, panels } = centers;
        let with = ByteProducts::new();
        let n_columns = frame.centre.len();
        let mut rows = ByteRows::default();
        rows.fill(frame, x, ("X", first))?;
        let mut tile = Tile::new(PRODUCT_TILE, rows.n_quads, panels.n_padded())?;
        for (start, labels) in (0..).step_by(PRODUCT_TILE).zip(labels.chunks_mut(PRODUCT_TILE)) {
            tile.clear();
            (start..start + labels.len()).for_each(|row| tile.push(&rows, row));
            tile.multiply(with, panels);
            for (index, label) in labels.iter_mut().enumerate() {
                let row = start + index;
                let least = tile.score(simd, index, &rows.rows[row], panels);
                let x = &x[row * n_columns..(row + 1) * n_columns];
                let scores = (&tile.scores[..], least);
                let found = nearest(frame, centers, x, &rows.rows[row], scores, Nearest::NONE);
                // All are numbered by 32 bits; 0 where every distance overflows.
                *label = i32::try_from(found.label).unwrap_or(0);
            }
        }
        Ok(())
    }
);
