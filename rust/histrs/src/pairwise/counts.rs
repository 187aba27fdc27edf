//! Sums of minima where all entries are small whole numbers: in bytes or words, and exact.

use std::ops::RangeInclusive;

use ndarray::Array2;
use pulp::bytemuck::cast_slice;

use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::pairwise::{BLOCK, Term, mirror};
use crate::simd::{AlignedVec, COUNT_TILE as TILE, Count, CountLine, Element, Minima};

/// With fewer rows on either side, looking for counts takes longer than it saves.
const MIN_ROWS: usize = 16;
/// Entries for each that a sparse row stores, above which it is not written out.
const SPARSENESS: usize = 16;
/// Bytes of rows that are read again and again: they share a second-level cache.
const CACHED: usize = 1 << 19;
/// Rows that are looked at, or written, at a time.
const ROWS: usize = 256;
/// Adding and subtracting it rounds a smaller number to a whole one.
const TO_WHOLE: f64 = 4_503_599_627_370_496.0;

/// The matrix of all pairs for a term that is the minimum, or nothing where the entries are not
/// counts, or where writing them out does not pay. Entries have been checked.
pub(super) fn matrix<'a, T: Element, K: Term>(
    exec: &Executor,
    term: K,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<Option<Array2<T>>> {
    let other = y.unwrap_or(x);
    if x.n_rows().min(other.n_rows()) < MIN_ROWS || is_sparse(other) {
        return Ok(None);
    }
    let mut largest = 0.0_f64;
    for z in [Some(x), y].into_iter().flatten() {
        match largest_count(exec, z)? {
            Some(found) => largest = largest.max(found),
            None => return Ok(None),
        }
    }
    if largest <= f64::from(<u8 as Count>::LARGEST) {
        return of_counts::<T, K, u8>(exec, term, x, y).map(Some);
    }
    of_counts::<T, K, u16>(exec, term, x, y).map(Some)
}

/// Whether most of what would be written out are zeros, which the other way skips.
fn is_sparse<T: Element>(y: &HistogramMatrix<'_, T>) -> bool {
    match y {
        HistogramMatrix::Dense(_) => false,
        HistogramMatrix::Csr(y) => {
            let all = y.n_rows().saturating_mul(y.n_columns());
            y.n_stored().saturating_mul(SPARSENESS) < all
        }
    }
}

/// The largest entry where all are whole numbers that fit a [`Count`].
fn largest_count<T: Element>(exec: &Executor, x: &HistogramMatrix<'_, T>) -> Result<Option<f64>> {
    let range = 0.0..=f64::from(<u16 as Count>::LARGEST);
    let blocks = exec.map_blocks(x.n_rows().div_ceil(ROWS), |block| {
        let rows = block * ROWS..x.n_rows().min((block + 1) * ROWS);
        Ok(rows.into_iter().try_fold(0.0_f64, |largest, row| {
            let found = match x {
                HistogramMatrix::Dense(x) => {
                    let x = x.row(row);
                    match x.as_slice() {
                        Some(x) => largest_of(x.iter(), &range),
                        None => largest_of(x.iter(), &range),
                    }
                }
                HistogramMatrix::Csr(x) => {
                    largest_of(x.row_sums_of_duplicates(row).1.iter(), &range)
                }
            };
            found.map(|found| largest.max(found))
        }))
    })?;
    Ok(blocks.into_iter().try_fold(0.0_f64, |largest, found| Some(largest.max(found?))))
}

fn largest_of<'a, T: Element>(
    values: impl Iterator<Item = &'a T>,
    range: &RangeInclusive<f64>,
) -> Option<f64> {
    let (mut largest, mut whole) = (0.0_f64, true);
    for value in values {
        let value = value.to_f64();
        whole &= (value + TO_WHOLE) - TO_WHOLE == value;
        largest = if value > largest { value } else { largest };
    }
    (whole && range.contains(&largest)).then_some(largest)
}

/// All rows, each padded to whole lines and all to whole tiles.
struct Packed<E> {
    values: AlignedVec<E>,
    /// Lines of a row.
    width: usize,
    n_rows: usize,
}

impl<E: Count> Packed<E> {
    fn new<T: Element>(exec: &Executor, x: &HistogramMatrix<'_, T>) -> Result<Self> {
        let per_line = size_of::<CountLine>() / size_of::<E>();
        let width = x.n_columns().div_ceil(per_line).max(1);
        let row_len = width * per_line;
        let n_rows = x.n_rows();
        let mut values = AlignedVec::zeros(n_rows.next_multiple_of(TILE).saturating_mul(row_len))?;
        exec.for_chunks(&mut values, ROWS * row_len, |block, values| {
            for (row, out) in (block * ROWS..n_rows).zip(values.chunks_exact_mut(row_len)) {
                match x {
                    HistogramMatrix::Dense(x) => {
                        for (out, value) in out.iter_mut().zip(x.row(row)) {
                            *out = E::from_f64(value.to_f64());
                        }
                    }
                    HistogramMatrix::Csr(x) => {
                        x.for_each_sum(row, |column, value| out[column] = E::from_f64(value));
                    }
                }
            }
            Ok(())
        })?;
        Ok(Self { values, width, n_rows })
    }

    /// The lines of four rows.
    fn tile(&self, first: usize) -> [&[CountLine]; TILE] {
        let lines: &[CountLine] = cast_slice(&self.values);
        core::array::from_fn(|k| &lines[(first + k) * self.width..(first + k + 1) * self.width])
    }
}

fn of_counts<T: Element, K: Term, E: Count>(
    exec: &Executor,
    term: K,
    x: &HistogramMatrix<'_, T>,
    y: Option<&HistogramMatrix<'_, T>>,
) -> Result<Array2<T>> {
    let left = Packed::<E>::new(exec, x)?;
    let other = y.map(|y| Packed::<E>::new(exec, y)).transpose()?;
    let right = other.as_ref().unwrap_or(&left);
    let with = Minima::new();
    let n_columns = right.n_rows;
    let bytes = left.width * size_of::<CountLine>();
    let size = (CACHED / bytes).clamp(TILE, BLOCK).next_multiple_of(TILE);
    let mut out = memory::zero_matrix((left.n_rows, n_columns))?;
    exec.for_chunks(memory::flat_mut(&mut out)?, size * n_columns, |block, rows| {
        let start = block * size;
        let n_rows = rows.len() / n_columns;
        // Columns before the block are the mirror image of rows before it.
        let first = if y.is_none() { start } else { 0 };
        for from in (first..n_columns).step_by(size) {
            exec.check()?;
            let end = n_columns.min(from + size);
            for i in (0..n_rows).step_by(TILE) {
                let x = left.tile(start + i);
                for j in (from..end).step_by(TILE) {
                    let sums = E::sums(with, x, right.tile(j));
                    for (i, sums) in (i..n_rows).zip(sums) {
                        for (j, sum) in (j..end).zip(sums) {
                            #[allow(clippy::cast_precision_loss)] // below 2^53
                            let entry = term.finish(sum as f64, start + i, j);
                            rows[i * n_columns + j] = T::from_f64(entry);
                        }
                    }
                }
            }
        }
        Ok(())
    })?;
    if y.is_none() {
        mirror(&mut out);
    }
    Ok(out)
}
