//! Sums of the rows that share a code, all classes in one pass over the codes.

use std::ops::Range;

use ndarray::{Array3, ArrayView2, Axis, s};
use pulp::{Simd, WithSimd};

use crate::error::{Result, check_length};
use crate::exec::Executor;
use crate::memory;
use crate::quantization::Code;
use crate::quantization::codes::check_codes;
use crate::quantization::scores::PANEL;
use crate::simd::{AlignedVec, dispatch};

/// Rows of a block.
const ROWS: usize = 4096;
/// Bytes of weights that are laid out before they are added up.
const LAID_OUT: usize = 1 << 21;
/// Bytes of sums that are added to again and again, and so should stay in the nearest cache.
const CACHED: usize = 1 << 15;
/// Least number of blocks of columns that are added to at a time, so that their sums do not wait
/// for one another. Blocks are cut into as many parts.
const INTERLEAVED: usize = 4;
const N_PARTS: usize = 4;

/// `sums[m, k, c]`, the sum of `weights[c, i]` over the rows `i` with `codes[i, m] = k`, for each of
/// the `n_codes` codewords of each block: the transpose of
/// [`code_scores_into`](crate::quantization::code_scores_into).
///
/// Rows are added in their order, whatever the number of threads; rows of weight 0 cost nothing.
///
/// # Errors
///
/// [`Error::CodeOutOfRange`](crate::Error::CodeOutOfRange) at the first code that is not below
/// `n_codes`, [`Error::Shape`](crate::Error::Shape) when lengths disagree,
/// [`Error::Interrupted`](crate::Error::Interrupted).
///
/// # Examples
///
/// ```
/// use histrs::{Executor, quantization::code_sums};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let codes = array![[0_u8, 1], [1, 1]];
/// let sums = code_sums(&exec, codes.view(), 2, array![[1.0, 10.0]].view())?;
/// assert_eq!(sums, array![[[1.0], [10.0]], [[0.0], [11.0]]]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn code_sums<C: Code>(
    exec: &Executor,
    codes: ArrayView2<'_, C>,
    n_codes: usize,
    weights: ArrayView2<'_, f64>,
) -> Result<Array3<f64>> {
    let (n_rows, n_blocks) = codes.dim();
    let cure = "give a weight for each row and class";
    check_length("the number of columns of the weights", weights.ncols(), n_rows, cure)?;
    check_codes(exec, codes, n_codes)?;
    let mut sums = memory::zeros((n_blocks, n_codes, weights.nrows()))?;
    let codes = codes.as_standard_layout();
    let codes = memory::flat(&codes)?;
    if sums.is_empty() {
        return Ok(sums);
    }
    let panels = panels(exec, weights)?;
    let width = panels.iter().map(ExactSizeIterator::len).max().unwrap_or(1).next_power_of_two();
    let table = n_codes * width;
    let most = n_blocks.div_ceil(N_PARTS).max(INTERLEAVED);
    let group = (CACHED / (table * size_of::<f64>())).clamp(INTERLEAVED, most);
    let mut padded = AlignedVec::zeros(n_blocks * table * panels.len())?;
    let n_chunks = n_rows.div_ceil(ROWS);
    let at_a_time = (LAID_OUT / (ROWS * width * size_of::<f64>())).max(1);
    for first in (0..n_chunks).step_by(at_a_time) {
        let rows = exec.map_blocks(at_a_time.min(n_chunks - first), |chunk| {
            let start = (first + chunk) * ROWS;
            let of = |panel: &Range<usize>| {
                weighted_rows(weights.slice(s![panel.clone(), ..]), start, width)
            };
            panels.iter().map(of).collect::<Result<Vec<_>>>()
        })?;
        exec.for_chunks(&mut padded, group * table * panels.len(), |part, out| {
            let first = part * group;
            let n_here = out.len() / (table * panels.len());
            for rows in &rows {
                exec.check()?;
                for (rows, out) in rows.iter().zip(out.chunks_exact_mut(n_here * table)) {
                    dispatch(AddRows { codes, n_blocks, first, rows, n_codes, width, out });
                }
            }
            Ok(())
        })?;
    }
    for (part, padded) in padded.chunks(group * table * panels.len()).enumerate() {
        let n_here = padded.len() / (table * panels.len());
        for (panel, padded) in panels.iter().zip(padded.chunks_exact(n_here * table)) {
            let blocks = part * group..part * group + n_here;
            let mut out = sums.slice_mut(s![blocks, .., panel.clone()]);
            let out = out.lanes_mut(Axis(2)).into_iter();
            for (mut out, padded) in out.zip(padded.chunks_exact(width)) {
                for (out, &sum) in out.iter_mut().zip(padded) {
                    *out = sum;
                }
            }
        }
    }
    Ok(sums)
}

/// The classes that are added up together; each by itself if few rows have a weight in several.
/// Reading a row's codes once for each class then costs less than adding up zeros.
fn panels(exec: &Executor, weights: ArrayView2<'_, f64>) -> Result<Vec<Range<usize>>> {
    let (n_classes, n_rows) = weights.dim();
    let counts = exec.map_ranges(n_rows, ROWS, |rows| {
        let weights = weights.slice(s![.., rows]);
        let mut of_row = memory::filled(0_u32, weights.ncols())?;
        for weights in weights.rows() {
            for (count, &weight) in of_row.iter_mut().zip(weights) {
                *count += u32::from(weight != 0.0);
            }
        }
        let kept = of_row.iter().filter(|&&count| count > 0).count();
        Ok((of_row.iter().map(|&count| count as usize).sum::<usize>(), kept))
    })?;
    let total: usize = counts.iter().map(|count| count.0).sum();
    let kept: usize = counts.iter().map(|count| count.1).sum();
    let width = n_classes.min(PANEL).next_power_of_two();
    // A row of `width` sums takes about as long as `1 + width / 8` single ones.
    let panel = if 8 * total < kept * (8 + width) { 1 } else { PANEL };
    Ok((0..n_classes).step_by(panel).map(|c| c..n_classes.min(c + panel)).collect())
}

/// The rows of a block whose weights are not all 0, and their weights.
struct WeightedRows {
    rows: Vec<usize>,
    weights: Vec<f64>,
}

fn weighted_rows(weights: ArrayView2<'_, f64>, start: usize, width: usize) -> Result<WeightedRows> {
    let end = weights.ncols().min(start + ROWS);
    let mut all = memory::filled(0.0, (end - start) * width)?;
    for (class, weights) in weights.slice(s![.., start..end]).rows().into_iter().enumerate() {
        for (row, &weight) in weights.iter().enumerate() {
            all[row * width + class] = weight;
        }
    }
    let mut kept = WeightedRows { rows: Vec::new(), weights: Vec::new() };
    for (row, weights) in (start..).zip(all.chunks_exact(width)) {
        if weights.iter().any(|&weight| weight != 0.0) {
            kept.rows.push(row);
            kept.weights.extend_from_slice(weights);
        }
    }
    Ok(kept)
}

/// Adds some rows to the sums of some blocks of columns.
struct AddRows<'a, C> {
    codes: &'a [C],
    n_blocks: usize,
    first: usize,
    rows: &'a WeightedRows,
    n_codes: usize,
    width: usize,
    out: &'a mut [f64],
}

impl<C: Code> WithSimd for AddRows<'_, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        match self.width {
            1 => self.add::<1>(),
            2 => self.add::<2>(),
            4 => self.add::<4>(),
            8 => self.add::<8>(),
            16 => self.add::<16>(),
            _ => self.add::<PANEL>(),
        }
    }
}

impl<C: Code> AddRows<'_, C> {
    #[inline(always)]
    fn add<const N: usize>(self) {
        let Self { codes, n_blocks, first, rows, n_codes, width: _, out } = self;
        let weights = rows.weights.as_chunks::<N>().0;
        let sums = out.as_chunks_mut::<N>().0;
        let n_here = sums.len() / n_codes;
        for (&row, weights) in rows.rows.iter().zip(weights) {
            let from = row * n_blocks + first;
            for (block, code) in codes[from..from + n_here].iter().enumerate() {
                for (sum, weight) in sums[block * n_codes + code.index()].iter_mut().zip(weights) {
                    *sum += weight;
                }
            }
        }
    }
}
