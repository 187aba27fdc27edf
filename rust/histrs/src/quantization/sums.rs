//! Sums of the rows that share a code, all classes in one pass over the codes.

use ndarray::{Array3, ArrayView2, Axis, s};
use pulp::{Simd, WithSimd};

use crate::error::{Result, check_length};
use crate::exec::Executor;
use crate::quantization::Code;
use crate::quantization::codes::check_codes;
use crate::quantization::scores::PANEL;
use crate::simd::{AlignedVec, dispatch};

/// Rows of a block.
const ROWS: usize = 2048;
/// Bytes of sums that are added to again and again, and so should stay in the nearest cache.
const CACHED: usize = 1 << 15;
/// Parts into which the blocks of columns are cut, where there are as many.
const N_PARTS: usize = 16;

/// `sums[m, k, c]`, the sum of `weights[c, i]` over the rows `i` with `codes[i, m] = k`, for each of
/// the `n_codes` codewords of each block: the transpose of
/// [`code_scores`](crate::quantization::code_scores).
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
    let mut sums = Array3::zeros((n_blocks, n_codes, weights.nrows()));
    let codes = codes.as_standard_layout();
    let Some(codes) = codes.as_slice() else { return Ok(sums) };
    if n_blocks * n_codes == 0 {
        return Ok(sums);
    }
    for first in (0..weights.nrows()).step_by(PANEL) {
        let classes = first..weights.nrows().min(first + PANEL);
        let weights = weights.slice(s![classes.clone(), ..]);
        let width = classes.len().next_power_of_two();
        let rows = exec.map_blocks(n_rows.div_ceil(ROWS), |block| {
            Ok(weighted_rows(weights, block * ROWS, width))
        })?;
        let table = n_codes * width;
        let group = n_blocks.div_ceil(N_PARTS);
        let mut padded = AlignedVec::zeros(n_blocks * table);
        exec.for_chunks(&mut padded, group * table, |part, out| {
            for rows in &rows {
                exec.check()?;
                let first = part * group;
                dispatch(AddRows { codes, n_blocks, first, rows, n_codes, width, out });
            }
            Ok(())
        })?;
        let mut out = sums.slice_mut(s![.., .., classes]);
        let out = out.lanes_mut(Axis(2)).into_iter();
        for (mut out, padded) in out.zip(padded.chunks_exact(width)) {
            for (out, &sum) in out.iter_mut().zip(padded) {
                *out = sum;
            }
        }
    }
    Ok(sums)
}

/// The rows of a block whose weights are not all 0, and their weights.
struct WeightedRows {
    rows: Vec<usize>,
    weights: Vec<f64>,
}

fn weighted_rows(weights: ArrayView2<'_, f64>, start: usize, width: usize) -> WeightedRows {
    let end = weights.ncols().min(start + ROWS);
    let mut all = vec![0.0; (end - start) * width];
    for (class, weights) in weights.slice(s![.., start..end]).rows().into_iter().enumerate() {
        for (row, &weight) in weights.iter().enumerate() {
            all[row * width + class] = weight;
        }
    }
    let mut kept = WeightedRows { rows: Vec::new(), weights: Vec::with_capacity(all.len()) };
    for (row, weights) in (start..).zip(all.chunks_exact(width)) {
        if weights.iter().any(|&weight| weight != 0.0) {
            kept.rows.push(row);
            kept.weights.extend_from_slice(weights);
        }
    }
    kept
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
        let table = n_codes * N;
        let cached = (CACHED / (table * size_of::<f64>())).max(1);
        let mut here = vec![C::default(); rows.rows.len() * cached];
        for (i, sums) in out.chunks_mut(cached * table).enumerate() {
            let sums = sums.as_chunks_mut::<N>().0;
            let n_here = sums.len() / n_codes;
            let first = first + i * cached;
            // Side by side: a row's codes of a few blocks share no cache line with the next row's.
            for (&row, here) in rows.rows.iter().zip(here.chunks_exact_mut(n_here)) {
                let from = row * n_blocks + first;
                here.copy_from_slice(&codes[from..from + n_here]);
            }
            for (codes, weights) in here.chunks_exact(n_here).zip(weights) {
                for (code, sums) in codes.iter().zip(sums.chunks_exact_mut(n_codes)) {
                    for (sum, weight) in sums[code.index()].iter_mut().zip(weights) {
                        *sum += weight;
                    }
                }
            }
        }
    }
}
