//! Distances of a few rows to a block of others.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::rows::Columns;
use super::{DistanceKernel, Norm};
use crate::error::{Error, Result};
use crate::simd::{Elementary, Vectors, dispatch, vectorized};

/// Rows of a block: their distances stay in the first-level cache.
pub(super) const BLOCK: usize = 256;
/// Rows that meet a block at once: each number of the block is read once for all.
const ROWS: usize = 4;
/// Vectors of a block whose sums are in registers.
const VECTORS: usize = 2;

impl<T: Elementary> Columns<T> {
    /// Calls `visit` with each of `rows`, by its place, and its distances to a block of these.
    pub(super) fn meet(
        &self,
        kernel: &DistanceKernel,
        rows: &[Vec<T>],
        block: &Range<usize>,
        mut visit: impl FnMut(usize, &[T]) -> Result<()>,
    ) -> Result<()> {
        let mut out = [[T::default(); BLOCK]; ROWS];
        for (k, few) in rows.chunks(ROWS).enumerate() {
            if let [a, b, c, d] = few {
                self.distances(kernel, [a, b, c, d], block, &mut out)?;
            } else {
                for (row, out) in few.iter().zip(&mut out) {
                    self.distances(kernel, [row], block, std::array::from_mut(out))?;
                }
            }
            for (r, out) in out[..few.len()].iter().enumerate() {
                visit(k * ROWS + r, &out[..block.len()])?;
            }
        }
        Ok(())
    }

    /// Writes the distances of rows to a block of these. What is behind the block is of no meaning.
    pub(super) fn distances<const R: usize>(
        &self,
        kernel: &DistanceKernel,
        rows: [&[T]; R],
        block: &Range<usize>,
        out: &mut [[T; BLOCK]; R],
    ) -> Result<()> {
        let values = self.values.as_slice().ok_or(Error::Internal("columns lie in memory"))?;
        let (norm, n_numbers, stride) = (kernel.norm, kernel.n_numbers, self.values.ncols());
        dispatch(Numbers { norm, n_numbers, rows, values, stride, block, out });
        for d in n_numbers..kernel.weights.len() {
            let values = &values[d * stride..][block.clone()];
            let weight = T::from_f64(kernel.part_of_column(d));
            for (row, out) in rows.iter().zip(out.iter_mut()) {
                add_category(row[d], weight, values, out);
            }
        }
        if norm == Norm::L2 {
            out.iter_mut().for_each(|out| take_roots(&mut out[..block.len()]));
        }
        Ok(())
    }
}

/// Writes sums over columns of numbers.
struct Numbers<'a, T, const R: usize> {
    norm: Norm,
    n_numbers: usize,
    rows: [&'a [T]; R],
    /// Column after column, each of `stride`.
    values: &'a [T],
    stride: usize,
    block: &'a Range<usize>,
    out: &'a mut [[T; BLOCK]; R],
}

impl<T: Elementary, const R: usize> WithSimd for Numbers<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.norm {
            Norm::L1 => self
                .add(simd, |sum, apart| <T as Vectors>::add(simd, sum, T::magnitude(simd, apart))),
            Norm::L2 => self.add(simd, |sum, apart| T::mul_add(simd, apart, apart, sum)),
        }
    }
}

impl<T: Elementary, const R: usize> Numbers<'_, T, R> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // counted loops are unrolled whatever the profile
    fn add<S: Simd>(
        self,
        simd: S,
        add: impl Fn(T::Vector<S>, T::Vector<S>) -> T::Vector<S> + Copy,
    ) {
        let width = VECTORS * T::lanes::<S>();
        for start in (0..self.block.len()).step_by(width) {
            let mut sums = [[T::splat(simd, T::default()); VECTORS]; R];
            let first = self.block.start + start;
            for d in 0..self.n_numbers {
                let values = T::vectors::<S>(&self.values[d * self.stride + first..][..width]).0;
                for r in 0..R {
                    let x = T::splat(simd, self.rows[r][d]);
                    for v in 0..VECTORS {
                        sums[r][v] = add(sums[r][v], <T as Vectors>::sub(simd, x, values[v]));
                    }
                }
            }
            for r in 0..R {
                let out = T::vectors_mut::<S>(&mut self.out[r][start..start + width]).0;
                out.copy_from_slice(&sums[r]);
            }
        }
    }
}

vectorized!(
    /// Adds a column of categories.
    fn add_category<T: Elementary>(x: T, weight: T, values: &[T], out: &mut [T]) {
        for (out, &y) in out.iter_mut().zip(values) {
            *out = *out + if x == y { T::default() } else { weight };
        }
    }
);

vectorized!(
    fn take_roots<T: Elementary>(out: &mut [T]) {
        out.iter_mut().for_each(|out| *out = out.sqrt());
    }
);
