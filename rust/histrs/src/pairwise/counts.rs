//! Sums of minima where all entries are small multiples of one power of two, as counts, bytes and
//! codes are: in bytes or words, and exact.

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
/// Powers of two that no sum of so many multiples leaves the normal numbers with.
const EXPONENTS: std::ops::RangeInclusive<i32> = -900..=900;
/// Bits of a number behind the first, and what its exponent is counted from.
const MANTISSA_BITS: u32 = 52;
const BIAS: i32 = 1075;

/// What all entries are whole multiples of, and how many fit a [`Count`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Format {
    unit: f64,
    fits_bytes: bool,
}

impl Format {
    /// The format of matrices that have one, unless storing them in it does not pay.
    pub(super) fn of<'a, T: Element>(
        exec: &Executor,
        x: &HistogramMatrix<'a, T>,
        y: Option<&HistogramMatrix<'a, T>>,
    ) -> Result<Option<Self>> {
        let other = y.unwrap_or(x);
        if x.n_rows().min(other.n_rows()) < MIN_ROWS || is_sparse(other) {
            return Ok(None);
        }
        let mut range = Range::EMPTY;
        for z in [Some(x), y].into_iter().flatten() {
            match range_of(exec, z)?.and_then(|found| range.and(found)) {
                Some(both) => range = both,
                None => return Ok(None),
            }
        }
        Ok(range.format())
    }
}

/// The matrix of all pairs for a term that is the minimum, of entries that have the format.
pub(super) fn matrix<'a, T: Element, K: Term>(
    exec: &Executor,
    term: K,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
    format: Format,
) -> Result<Array2<T>> {
    if format.fits_bytes {
        of_counts::<T, K, u8>(exec, term, x, y, format.unit)
    } else {
        of_counts::<T, K, i16>(exec, term, x, y, format.unit)
    }
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

/// The largest of some entries, and the exponent of a power of two that divides them all.
#[derive(Debug, Clone, Copy)]
struct Range {
    largest: f64,
    exponent: i32,
}

impl Range {
    const EMPTY: Self = Self { largest: 0.0, exponent: i32::MAX };

    /// The range of both, where words hold it.
    fn and(self, other: Self) -> Option<Self> {
        let both = Self {
            largest: self.largest.max(other.largest),
            exponent: self.exponent.min(other.exponent),
        };
        (both.largest == 0.0 || both.fits(<i16 as Count>::LARGEST)).then_some(both)
    }

    fn fits(self, largest: u16) -> bool {
        EXPONENTS.contains(&self.exponent)
            && self.largest <= f64::from(largest) * 2_f64.powi(self.exponent)
    }

    fn format(self) -> Option<Format> {
        if self.largest == 0.0 {
            return Some(Format { unit: 1.0, fits_bytes: true });
        }
        let fits_bytes = self.fits(<u8 as Count>::LARGEST);
        Some(Format { unit: 2_f64.powi(self.exponent), fits_bytes })
    }
}

/// The range of all entries, where words hold it.
fn range_of<T: Element>(exec: &Executor, x: &HistogramMatrix<'_, T>) -> Result<Option<Range>> {
    let blocks = exec.map_ranges(x.n_rows(), ROWS, |rows| {
        Ok(rows.into_iter().try_fold(Range::EMPTY, |range, row| {
            let found = match x {
                HistogramMatrix::Dense(x) => {
                    let x = x.row(row);
                    match x.as_slice() {
                        Some(x) => range_of_values(x.iter()),
                        None => range_of_values(x.iter()),
                    }
                }
                HistogramMatrix::Csr(x) => range_of_values(x.row_sums_of_duplicates(row).1.iter()),
            };
            range.and(found?)
        }))
    })?;
    Ok(blocks.into_iter().try_fold(Range::EMPTY, |range, found| range.and(found?)))
}

fn range_of_values<'a, T: Element>(values: impl Iterator<Item = &'a T> + Clone) -> Option<Range> {
    let (mut largest, mut whole) = (0.0_f64, true);
    for value in values.clone() {
        let value = value.to_f64();
        whole &= (value + TO_WHOLE) - TO_WHOLE == value;
        largest = if value > largest { value } else { largest };
    }
    if largest == 0.0 {
        return Some(Range::EMPTY);
    }
    if whole && largest <= f64::from(<i16 as Count>::LARGEST) {
        return Some(Range { largest, exponent: 0 });
    }
    let mut exponent = i32::MAX;
    for value in values.map(|value| value.to_f64()).filter(|&value| value != 0.0) {
        let bits = value.to_bits();
        // Without its sign, which no entry has; of less than eleven bits.
        let biased = i32::try_from((bits >> MANTISSA_BITS) & 0x7ff).ok().filter(|&e| e > 0)?;
        let zeros = (bits | 1 << MANTISSA_BITS).trailing_zeros();
        exponent = exponent.min(biased - BIAS + i32::try_from(zeros).ok()?);
    }
    Some(Range { largest, exponent })
}

/// All rows, each padded to whole lines and all to whole tiles.
struct Packed<E> {
    values: AlignedVec<E>,
    /// Lines of a row.
    width: usize,
    n_rows: usize,
}

impl<E: Count> Packed<E> {
    fn new<T: Element>(exec: &Executor, x: &HistogramMatrix<'_, T>, unit: f64) -> Result<Self> {
        let per_line = size_of::<CountLine>() / size_of::<E>();
        let width = x.n_columns().div_ceil(per_line).max(1);
        let row_len = width * per_line;
        let n_rows = x.n_rows();
        let per_unit = unit.recip();
        let mut values = AlignedVec::zeros(n_rows.next_multiple_of(TILE).saturating_mul(row_len))?;
        exec.for_chunks(&mut values, ROWS * row_len, |block, values| {
            for (row, out) in (block * ROWS..n_rows).zip(values.chunks_exact_mut(row_len)) {
                match x {
                    HistogramMatrix::Dense(x) => {
                        for (out, value) in out.iter_mut().zip(x.row(row)) {
                            *out = E::from_f64(value.to_f64() * per_unit);
                        }
                    }
                    HistogramMatrix::Csr(x) => {
                        out[..x.n_columns()].fill(E::from_f64(0.0));
                        x.for_each_sum(row, |column, value| {
                            out[column] = E::from_f64(value * per_unit);
                        });
                    }
                }
            }
            Ok(())
        })?;
        Ok(Self { values, width, n_rows })
    }

    /// The lines of some rows, up to whole tiles.
    fn lines(&self, rows: std::ops::Range<usize>) -> &[CountLine] {
        let lines: &[CountLine] = cast_slice(&self.values);
        &lines[rows.start * self.width..rows.end.next_multiple_of(TILE) * self.width]
    }

    /// The lines of four rows.
    fn tile(&self, first: usize) -> [&[CountLine]; TILE] {
        let lines = self.lines(first..first + TILE);
        core::array::from_fn(|k| &lines[k * self.width..(k + 1) * self.width])
    }
}

fn of_counts<T: Element, K: Term, E: Count>(
    exec: &Executor,
    term: K,
    x: &HistogramMatrix<'_, T>,
    y: Option<&HistogramMatrix<'_, T>>,
    unit: f64,
) -> Result<Array2<T>> {
    let left = Packed::<E>::new(exec, x, unit)?;
    let other = y.map(|y| Packed::<E>::new(exec, y, unit)).transpose()?;
    let right = other.as_ref().unwrap_or(&left);
    let with = Minima::new();
    let n_columns = right.n_rows;
    let bytes = left.width * size_of::<CountLine>();
    let size = (CACHED / bytes).clamp(TILE, BLOCK).next_multiple_of(TILE);
    #[allow(clippy::cast_precision_loss)] // below 2^53
    let offset = f64::from(E::OFFSET) * x.n_columns() as f64;
    let mut out = memory::zero_matrix((left.n_rows, n_columns))?;
    exec.for_chunks(memory::flat_mut(&mut out)?, size * n_columns, |block, rows| {
        let start = block * size;
        let n_rows = rows.len() / n_columns;
        // Columns before the block are the mirror image of rows before it.
        let first = if y.is_none() { start } else { 0 };
        let mut sums = vec![0.0; TILE * size];
        for from in (first..n_columns).step_by(size) {
            exec.check()?;
            let columns = from..n_columns.min(from + size);
            let y = right.lines(columns.clone());
            let stride = columns.len().next_multiple_of(TILE);
            for i in (0..n_rows).step_by(TILE) {
                let sums = &mut sums[..TILE * stride];
                sums.fill(offset);
                E::add_minima(with, left.tile(start + i), y, sums);
                for (i, sums) in (i..n_rows).zip(sums.chunks_exact(stride)) {
                    let out = &mut rows[i * n_columns..][columns.clone()];
                    for ((j, out), &sum) in columns.clone().zip(out).zip(sums) {
                        *out = T::from_f64(term.finish(sum * unit, start + i, j));
                    }
                }
            }
        }
        Ok(())
    })?;
    if y.is_none() {
        mirror(exec, &mut out)?;
    }
    Ok(out)
}
