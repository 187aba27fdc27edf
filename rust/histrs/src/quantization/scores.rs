//! Sums of table entries, all classes in one pass over the codes.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, ArrayView3, Axis};
use pulp::{Simd, WithSimd};

use crate::error::{GIVE_WHOLE_ROWS, OUTPUT, Result, check_length};
use crate::exec::{Executor, rows_by_block};
use crate::memory;
use crate::quantization::Code;
use crate::quantization::codes::check_codes;
use crate::simd::{AlignedVec, Real, dispatch};

/// Rows of a block.
const ROWS: usize = 1024;
/// Bytes of tables that are read again and again, and so should stay in the cache.
const CACHED: usize = 1 << 18;
/// Look-ups added in the element type before the sum is carried in double precision.
const LOOK_UPS: usize = 16;
/// Rows whose sums are carried side by side, so that none waits for its last addition.
const INTERLEAVED: usize = 4;
/// Classes of a panel.
pub(super) const PANEL: usize = 32;

/// The sums that [`code_scores_into`] writes, of shape `(n_classes, n_rows)`.
///
/// # Errors
///
/// As [`code_scores_into`].
pub fn code_scores<T: Real, C: Code>(
    exec: &Executor,
    codes: ArrayView2<'_, C>,
    tables: ArrayView3<'_, T>,
) -> Result<Array2<f64>> {
    let shape = (tables.dim().2, codes.nrows());
    memory::filled_by(shape, |out| code_scores_into(exec, codes, tables, out))
}

/// Writes `sum_m tables[m, codes[i, m], c]` for every class `c` and row `i`, one class after the
/// other; `tables` has the shape (blocks, codewords, classes).
///
/// # Errors
///
/// [`Error::CodeOutOfRange`](crate::Error::CodeOutOfRange) at the first code that has no codeword,
/// [`Error::Shape`](crate::Error::Shape) when lengths disagree,
/// [`Error::Interrupted`](crate::Error::Interrupted).
///
/// # Examples
///
/// ```
/// use histrs::{Executor, quantization::code_scores_into};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let codes = array![[0_u8, 1], [1, 1]];
/// let tables = array![[[1.0, 10.0], [2.0, 20.0]], [[4.0, 40.0], [8.0, 80.0]]];
/// let mut scores = [0.0; 4];
/// code_scores_into(&exec, codes.view(), tables.view(), &mut scores)?;
/// assert_eq!(scores, [9.0, 10.0, 90.0, 100.0]);
/// # Ok::<(), histrs::Error>(())
/// ```
#[allow(clippy::cast_possible_truncation)] // codes have 16 bits at most
pub fn code_scores_into<T: Real, C: Code>(
    exec: &Executor,
    codes: ArrayView2<'_, C>,
    tables: ArrayView3<'_, T>,
    out: &mut [f64],
) -> Result<()> {
    let (n_rows, n_blocks) = codes.dim();
    let (n_tables, n_codes, n_classes) = tables.dim();
    check_length(
        "the number of tables",
        n_tables,
        n_blocks,
        "give one for each column of the codes",
    )?;
    check_length(OUTPUT, out.len(), n_rows * n_classes, GIVE_WHOLE_ROWS)?;
    check_codes(exec, codes, n_codes)?;
    let codes = codes.as_standard_layout();
    let codes = memory::flat(&codes)?;
    if n_rows * n_blocks == 0 {
        out.fill(0.0);
        return Ok(());
    }
    for (panel, out) in out.chunks_mut(PANEL * n_rows).enumerate() {
        let first = panel * PANEL;
        let n_classes = out.len() / n_rows;
        let width = n_classes.next_power_of_two();
        let mut padded = AlignedVec::zeros(n_tables * n_codes * width)?;
        let entries = tables.lanes(Axis(2)).into_iter();
        for (entries, padded) in entries.zip(padded.chunks_exact_mut(width)) {
            let entries = entries.iter().skip(first).take(n_classes);
            for (padded, &value) in padded.iter_mut().zip(entries) {
                *padded = value;
            }
        }
        let mut blocks = rows_by_block(out, n_rows, ROWS);
        exec.for_chunks(&mut blocks, 1, |block, out| {
            let start = block * ROWS;
            let Some(out) = out.first_mut() else { return Ok(()) };
            let end = n_rows.min(start + ROWS);
            let codes = codes[start * n_blocks..end * n_blocks].iter();
            // Of one type, so that the kernels are compiled once for all codes.
            let codes = &memory::collected(codes.map(|code| code.index() as u16))?;
            dispatch(ScoreRows { codes, n_blocks, n_codes, tables: &padded, width, out });
            Ok(())
        })?;
    }
    Ok(())
}

/// The scores of some rows.
struct ScoreRows<'a, 'o, T> {
    codes: &'a [u16],
    n_blocks: usize,
    n_codes: usize,
    tables: &'a [T],
    width: usize,
    out: &'a mut Vec<&'o mut [f64]>,
}

impl<T: Real> WithSimd for ScoreRows<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        match self.width {
            1 => self.score::<1>(),
            2 => self.score::<2>(),
            4 => self.score::<4>(),
            8 => self.score::<8>(),
            16 => self.score::<16>(),
            _ => self.score::<PANEL>(),
        }
    }
}

impl<T: Real> ScoreRows<'_, '_, T> {
    #[inline(always)]
    fn score<const N: usize>(self) {
        let Self { codes, n_blocks, n_codes, tables, width: _, out } = self;
        let tables = tables.as_chunks::<N>().0;
        let group = (CACHED / (n_codes * N * size_of::<T>()).max(1)).clamp(1, n_blocks.max(1));
        let mut sums = vec![[0.0; N]; out.first().map_or(0, |out| out.len())];
        for first in (0..n_blocks).step_by(group) {
            let blocks = first..n_blocks.min(first + group);
            let mut rows = codes.chunks_exact(n_blocks * INTERLEAVED);
            let (sums, last) = sums.as_chunks_mut::<INTERLEAVED>();
            for (codes, sums) in rows.by_ref().zip(sums) {
                add_entries(codes, n_blocks, blocks.clone(), tables, n_codes, sums);
            }
            for (codes, sums) in rows.remainder().chunks_exact(n_blocks).zip(last) {
                let sums = std::array::from_mut(sums);
                add_entries(codes, n_blocks, blocks.clone(), tables, n_codes, sums);
            }
        }
        for (class, out) in out.iter_mut().enumerate() {
            for (out, sums) in out.iter_mut().zip(&sums) {
                *out = sums[class];
            }
        }
    }
}

/// Adds the entries of some blocks of the codes of `R` rows.
#[inline(always)]
fn add_entries<T: Real, const N: usize, const R: usize>(
    codes: &[u16],
    n_blocks: usize,
    blocks: Range<usize>,
    tables: &[[T; N]],
    n_codes: usize,
    sums: &mut [[f64; N]; R],
) {
    for first in blocks.clone().step_by(LOOK_UPS) {
        let here = first..blocks.end.min(first + LOOK_UPS);
        let codes: [&[u16]; R] = std::array::from_fn(|r| &codes[r * n_blocks..][here.clone()]);
        let mut partial = [[T::default(); N]; R];
        for k in 0..here.len() {
            let table = (first + k) * n_codes;
            for (codes, partial) in codes.iter().zip(&mut partial) {
                let entries = &tables[table + usize::from(codes[k])];
                for (sum, &entry) in partial.iter_mut().zip(entries) {
                    *sum = *sum + entry;
                }
            }
        }
        for (sums, partial) in sums.iter_mut().zip(partial) {
            for (sum, partial) in sums.iter_mut().zip(partial) {
                *sum += partial.to_f64();
            }
        }
    }
}
