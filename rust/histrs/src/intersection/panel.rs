//! Right-hand sides side by side.
//!
//! A panel holds up to sixteen columns of a right-hand side row by row, padded to whole vectors,
//! so that one pass over the data serves all of them.

use ndarray::{Array2, ArrayView2, s};
use pulp::{Simd, WithSimd};

use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::simd::{AlignedVec, Element, lanes};

/// Rows in a block of row-parallel work.
pub(crate) const ROW_BLOCK: usize = 4096;
/// Columns in a panel whose rows are read at random, at most.
pub(crate) const MAX_WIDTH: usize = 16;

/// Columns of a right-hand side in the layout of the kernels: `data[row * width + column]`.
#[derive(Debug)]
pub(crate) struct Panel<E> {
    pub(crate) data: AlignedVec<E>,
    pub(crate) width: usize,
}

impl<E: Element> Panel<E> {
    /// Copies `v`, converted and padded with zeros.
    pub(crate) fn pack<T: Element>(
        exec: &Executor,
        v: ArrayView2<'_, T>,
        width: usize,
    ) -> Result<Self> {
        let mut data = AlignedVec::zeros(v.nrows() * width)?;
        exec.for_chunks(&mut data, ROW_BLOCK * width, |block, chunk| {
            for (row, out) in (block * ROW_BLOCK..).zip(chunk.chunks_exact_mut(width)) {
                let values = v.row(row);
                match values.as_slice() {
                    Some(values) => convert(values, out),
                    None => convert(values, out),
                }
            }
            Ok(())
        })?;
        Ok(Self { data, width })
    }

    /// The sum of the rows, added block by block.
    pub(crate) fn column_sums(&self, exec: &Executor) -> Result<AlignedVec<E>> {
        let chunk_len = ROW_BLOCK * self.width;
        let n_blocks = self.data.len().div_ceil(chunk_len);
        let partial = exec.map_blocks(n_blocks, |block| {
            let chunk = &self.data[block * chunk_len..self.data.len().min((block + 1) * chunk_len)];
            let mut sums = memory::filled(0.0, self.width)?;
            for row in chunk.chunks_exact(self.width) {
                for (sum, x) in sums.iter_mut().zip(row) {
                    *sum += x.to_f64();
                }
            }
            Ok(sums)
        })?;
        let mut sums = AlignedVec::zeros(self.width)?;
        for (k, sum) in sums.iter_mut().enumerate() {
            *sum = E::from_f64(partial.iter().map(|p| p[k]).sum());
        }
        Ok(sums)
    }
}

/// Widths of the panels that cover `n_columns` right-hand sides, none above `widest` or four vectors.
pub(crate) fn panel_widths<E: Element>(n_columns: usize, widest: usize) -> Vec<usize> {
    let lanes = lanes::<E>();
    let widest = (4 * lanes).min(widest);
    let mut widths = Vec::new();
    let mut left = n_columns;
    while left > 0 {
        // One right-hand side has kernels of its own, which waste no lane.
        let width = if left == 1 {
            1
        } else {
            [lanes, 2 * lanes, 4 * lanes].into_iter().find(|w| left <= *w).unwrap_or(widest)
        };
        let width = width.min(widest);
        widths.push(width);
        left = left.saturating_sub(width);
    }
    widths
}

/// Panels of `v` one after the other: `apply` maps each to the matching panel of the result.
pub(crate) fn by_panels<E: Element, T: Element>(
    exec: &Executor,
    v: ArrayView2<'_, T>,
    n_rows_out: usize,
    mut apply: impl FnMut(&Panel<E>) -> Result<Vec<AlignedVec<E>>>,
) -> Result<Array2<T>> {
    let mut out = memory::zero_matrix((n_rows_out, v.ncols()))?;
    if out.is_empty() {
        return Ok(out);
    }
    let mut start = 0;
    for width in panel_widths::<E>(v.ncols(), MAX_WIDTH) {
        let end = v.ncols().min(start + width);
        let panel = Panel::pack(exec, v.slice(s![.., start..end]), width)?;
        let parts = apply(&panel)?;
        unpack_sum(exec, &parts, width, &mut out, start..end)?;
        start = end;
    }
    Ok(out)
}

/// Writes the sum of `parts`, added in order, to some columns of `out`.
fn unpack_sum<E: Element, T: Element>(
    exec: &Executor,
    parts: &[AlignedVec<E>],
    width: usize,
    out: &mut Array2<T>,
    columns: std::ops::Range<usize>,
) -> Result<()> {
    let n_columns = out.ncols();
    let out = memory::flat_mut(out)?;
    exec.for_chunks(out, ROW_BLOCK * n_columns, |block, chunk| {
        for (row, out) in (block * ROW_BLOCK..).zip(chunk.chunks_exact_mut(n_columns)) {
            let out = &mut out[columns.clone()];
            let row = row * width..row * width + out.len();
            if let [part] = parts {
                convert(&part[row], out);
                continue;
            }
            let mut sums = [0.0; MAX_WIDTH];
            for part in parts {
                for (sum, x) in sums.iter_mut().zip(&part[row.clone()]) {
                    *sum += x.to_f64();
                }
            }
            convert(&sums, out);
        }
        Ok(())
    })
}

/// Copies as many values as there is room for.
#[inline(always)]
fn convert<'a, A: Element, B: Element>(from: impl IntoIterator<Item = &'a A>, to: &mut [B]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = B::from_f64(from.to_f64());
    }
}

/// A kernel over rows of `NV` vectors.
pub(crate) trait PanelKernel<E: Element> {
    /// What the kernel returns.
    type Output;
    /// Elements of a row, at most: for wider ones it is not compiled.
    const MAX_WIDTH: usize = MAX_WIDTH;
    /// Runs it; `NV` vectors of `S` make one row of the panel.
    fn run<S: Simd, const NV: usize>(self, simd: S) -> Self::Output;
}

/// Runs `kernel` with the instruction set of the machine for rows of `width` elements.
pub(crate) fn run_kernel<E: Element, K: PanelKernel<E>>(width: usize, kernel: K) -> K::Output {
    crate::simd::dispatch(Dispatch { width, kernel, element: std::marker::PhantomData::<E> })
}

struct Dispatch<E, K> {
    width: usize,
    kernel: K,
    element: std::marker::PhantomData<E>,
}

impl<E: Element, K: PanelKernel<E>> WithSimd for Dispatch<E, K> {
    type Output = K::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> K::Output {
        let lanes = E::lanes::<S>();
        if self.width == 1 && lanes > 1 {
            return self.kernel.run::<pulp::Scalar, 1>(pulp::Scalar);
        }
        match self.width / lanes {
            2 if 2 * lanes <= K::MAX_WIDTH => self.kernel.run::<S, 2>(simd),
            4 if 4 * lanes <= K::MAX_WIDTH => self.kernel.run::<S, 4>(simd),
            _ => self.kernel.run::<S, 1>(simd),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_cover_all_columns_with_whole_vectors() {
        let lanes = lanes::<f64>();
        for n in 0..70 {
            let widths = panel_widths::<f64>(n, MAX_WIDTH);
            assert!(widths.iter().sum::<usize>() >= n);
            for (i, &width) in widths.iter().enumerate() {
                assert!(width <= MAX_WIDTH && (width == 1 || width % lanes == 0));
                assert!(i + 1 == widths.len() || widths[..=i].iter().sum::<usize>() < n);
            }
        }
    }
}
