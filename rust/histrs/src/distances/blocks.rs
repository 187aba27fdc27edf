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
        self.meet_sums(kernel, Way::Differences, rows, block, |r, sums| {
            if kernel.norm == Norm::L2 {
                take_roots(sums);
            }
            visit(r, sums)
        })
    }

    /// The same in one way or another, with squares of distances of the L2 norm.
    pub(super) fn meet_sums(
        &self,
        kernel: &DistanceKernel,
        way: Way,
        rows: &[Vec<T>],
        block: &Range<usize>,
        mut visit: impl FnMut(usize, &mut [T]) -> Result<()>,
    ) -> Result<()> {
        let mut out = [[T::default(); BLOCK]; ROWS];
        for (k, few) in rows.chunks(ROWS).enumerate() {
            if let [a, b, c, d] = few {
                self.sums(kernel, way, [a, b, c, d], block, &mut out)?;
            } else {
                for (row, out) in few.iter().zip(&mut out) {
                    self.sums(kernel, way, [row], block, std::array::from_mut(out))?;
                }
            }
            for (r, out) in out[..few.len()].iter_mut().enumerate() {
                visit(k * ROWS + r, &mut out[..block.len()])?;
            }
        }
        Ok(())
    }

    /// Writes sums over columns. What is behind the block is of no meaning.
    fn sums<const R: usize>(
        &self,
        kernel: &DistanceKernel,
        way: Way,
        rows: [&[T]; R],
        block: &Range<usize>,
        out: &mut [[T; BLOCK]; R],
    ) -> Result<()> {
        let (norm, n_numbers, stride) = (kernel.norm, kernel.n_numbers, self.values.ncols());
        let values = self.values.as_slice().ok_or(Error::Internal("columns lie in memory"))?;
        let (of, totals) = ((norm, way), &*self.totals);
        dispatch(Numbers { of, n_numbers, rows, values, totals, stride, block, out });
        for d in n_numbers..kernel.weights.len() {
            let values = &values[d * stride..][block.clone()];
            let weight = T::from_f64(kernel.part_of_column(d));
            for (row, out) in rows.iter().zip(out.iter_mut()) {
                add_category(row[d], weight, values, out);
            }
        }
        Ok(())
    }
}

/// How sums over columns come about.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// Of differences, column by column.
    Differences,
    /// In half as many operations: twice the larger numbers, or the products, beside the sums that
    /// each row has with itself. They are off by roundings of these.
    Totals,
}

/// Writes sums over columns of numbers.
struct Numbers<'a, T, const R: usize> {
    of: (Norm, Way),
    n_numbers: usize,
    rows: [&'a [T]; R],
    /// Column after column, each of `stride`.
    values: &'a [T],
    /// What each row has with itself.
    totals: &'a [T],
    stride: usize,
    block: &'a Range<usize>,
    out: &'a mut [[T; BLOCK]; R],
}

impl<T: Elementary, const R: usize> WithSimd for Numbers<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.of {
            (Norm::L1, Way::Differences) => self.add(
                simd,
                |sum, x, y| {
                    let apart = <T as Vectors>::sub(simd, x, y);
                    <T as Vectors>::add(simd, sum, T::magnitude(simd, apart))
                },
                |sum, _| sum,
            ),
            (Norm::L2, Way::Differences) => self.add(
                simd,
                |sum, x, y| {
                    let apart = <T as Vectors>::sub(simd, x, y);
                    T::mul_add(simd, apart, apart, sum)
                },
                |sum, _| sum,
            ),
            (Norm::L1, Way::Totals) => self.add(
                simd,
                |sum, x, y| <T as Vectors>::add(simd, sum, T::max(simd, x, y)),
                |sum, totals| {
                    let apart =
                        <T as Vectors>::sub(simd, <T as Vectors>::add(simd, sum, sum), totals);
                    T::max(simd, apart, T::splat(simd, T::default()))
                },
            ),
            (Norm::L2, Way::Totals) => self.add(
                simd,
                |sum, x, y| T::mul_add(simd, x, y, sum),
                |sum, totals| {
                    let apart =
                        <T as Vectors>::sub(simd, totals, <T as Vectors>::add(simd, sum, sum));
                    T::max(simd, apart, T::splat(simd, T::default()))
                },
            ),
        }
    }
}

impl<T: Elementary, const R: usize> Numbers<'_, T, R> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // counted loops are unrolled whatever the profile
    fn add<S: Simd>(
        self,
        simd: S,
        add: impl Fn(T::Vector<S>, T::Vector<S>, T::Vector<S>) -> T::Vector<S> + Copy,
        finish: impl Fn(T::Vector<S>, T::Vector<S>) -> T::Vector<S> + Copy,
    ) {
        // Whose lengths are known, so that no index is checked.
        let rows = self.rows.map(|row| &row[..self.n_numbers]);
        let mut own = [T::splat(simd, T::default()); R];
        for r in 0..R {
            // In the same order as those of the others, so that equal rows are not apart.
            for d in 0..self.n_numbers {
                let x = T::splat(simd, rows[r][d]);
                own[r] = add(own[r], x, x);
            }
        }
        let width = VECTORS * T::lanes::<S>();
        let columns = self.values.chunks_exact(self.stride.max(1)).take(self.n_numbers);
        for start in (0..self.block.len()).step_by(width) {
            let mut sums = [[T::splat(simd, T::default()); VECTORS]; R];
            let first = self.block.start + start;
            for (d, values) in columns.clone().enumerate() {
                let values = T::vectors::<S>(&values[first..][..width]).0;
                for r in 0..R {
                    let x = T::splat(simd, rows[r][d]);
                    for v in 0..VECTORS {
                        sums[r][v] = add(sums[r][v], x, values[v]);
                    }
                }
            }
            let totals = T::vectors::<S>(&self.totals[first..][..width]).0;
            for r in 0..R {
                for v in 0..VECTORS {
                    sums[r][v] = finish(sums[r][v], <T as Vectors>::add(simd, own[r], totals[v]));
                }
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
    pub(super) fn take_roots<T: Elementary>(out: &mut [T]) {
        out.iter_mut().for_each(|out| *out = out.sqrt());
    }
);
