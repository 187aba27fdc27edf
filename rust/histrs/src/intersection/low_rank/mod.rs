//! The inverse of a low-rank matrix plus a multiple of the identity.

mod kernels;

use ndarray::{Array2, ArrayView2, s};

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::intersection::low_rank::kernels::{Expand, Project};
use crate::intersection::panel::{Panel, panel_widths, run_kernel};
use crate::memory;
use crate::simd::{AlignedVec, Element};

/// Columns of `E` stored side by side.
const GROUP: usize = 8;
/// Columns of them that are worked on together, where each takes several vectors: as many sums as
/// hide the latency of an addition, and fit the registers.
const HALF: usize = GROUP / 2;
/// Rows of `E` stored one after the other, group by group, so that right-hand sides stay in the cache
/// while `E` streams by without a jump.
const ROWS: usize = 256;
/// Blocks of rows that are summed apart; their number must not depend on the number of threads.
const ROW_BLOCKS: usize = 8;

/// `(F F^T + s I)^-1 = (I - E E^T) / s` with `E = F R^T`, `R = L^-1` and `L L^T = F^T F + s I`.
///
/// By the Woodbury identity: a preconditioner for `K + s I` when `F F^T` is near `K`. Each
/// application reads `E`, or `F` beside `R`, stored as `T`, twice, whatever the number of
/// right-hand sides up to four vectors. The rounding error of `E` must be within `s` over the
/// largest eigenvalue of the matrix. For `F` the root of this suffices, since the inverse is exact
/// for the matrix that the rounded factor makes.
#[derive(Debug, Clone)]
pub struct LowRankInverse<T> {
    n_rows: usize,
    rank: usize,
    s: f64,
    /// Of `ROWS` rows at a time: group by group, row by row, `GROUP` columns of `E` or `F`, zeros
    /// after the last.
    groups: AlignedVec<T>,
    /// `R` where `F` is stored: lower triangular.
    root: Option<Array2<f64>>,
}

impl<T: Element> LowRankInverse<T> {
    /// Lays out `E`, or `F` where `R` is given, as the transpose with one row for each column.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless `s` is positive and finite; [`Error::Shape`] unless `R` has a row
    /// and a column for each column of `F`.
    pub fn new(
        exec: &Executor,
        factor_transposed: ArrayView2<'_, T>,
        root: Option<ArrayView2<'_, f64>>,
        s: f64,
    ) -> Result<Self> {
        if !(s > 0.0 && s.is_finite()) {
            let expected = "it is divided by: positive and finite";
            return Err(Error::parameter("s", s, expected));
        }
        let (rank, n_rows) = factor_transposed.dim();
        let root = root.map(|root| {
            let cure = "give a square matrix with a row for each column of the factor";
            check_length("the number of rows of the root", root.nrows(), rank, cure)?;
            check_length("the number of columns of the root", root.ncols(), rank, cure)?;
            let mut copy = memory::zero_matrix((rank, rank))?;
            copy.assign(&root);
            Ok(copy)
        });
        let root = root.transpose()?;
        let padded = rank.next_multiple_of(GROUP);
        let mut groups = AlignedVec::zeros(n_rows * padded)?;
        exec.for_chunks(&mut groups, ROWS * padded, |block, out| {
            let rows = rows_of(block, n_rows);
            for (group, out) in out.chunks_exact_mut(rows.len() * GROUP).enumerate() {
                let first = group * GROUP;
                let columns =
                    factor_transposed.slice(s![first..rank.min(first + GROUP), rows.clone()]);
                for (k, column) in columns.rows().into_iter().enumerate() {
                    for (out, &value) in out.iter_mut().skip(k).step_by(GROUP).zip(column) {
                        *out = value;
                    }
                }
            }
            Ok(())
        })?;
        Ok(Self { n_rows, rank, s, groups, root })
    }

    /// Number of columns of `E` or `F`.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The transpose of `E` or `F`, as [`new`](Self::new) takes it.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub fn factor_transposed(&self) -> Result<Array2<T>> {
        let mut out = memory::zero_matrix((self.rank, self.n_rows))?;
        if out.is_empty() {
            return Ok(out);
        }
        for block in 0..self.n_rows.div_ceil(ROWS) {
            let rows = rows_of(block, self.n_rows);
            for (group, e) in self.of_block(block).enumerate() {
                for (row, e) in rows.clone().zip(e.chunks_exact(GROUP)) {
                    for (k, &e) in (group * GROUP..self.rank).zip(e) {
                        out[[k, row]] = e;
                    }
                }
            }
        }
        Ok(out)
    }

    /// `(V - E E^T V) / s`, sums in double precision.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `v` has not one row for every row of `E`.
    pub fn apply(&self, exec: &Executor, v: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        self.apply_in::<f64>(exec, v)
    }

    /// The same with products `E E^T V` in single precision, in half the time. For inner
    /// iterations: rounding makes it a little different for every right-hand side.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `v` has not one row for every row of `E`.
    pub fn apply_f32(&self, exec: &Executor, v: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        self.apply_in::<f32>(exec, v)
    }

    fn apply_in<E: Element>(&self, exec: &Executor, v: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        let cure = "give one row for every row of E";
        check_length("the number of rows of V", v.nrows(), self.n_rows, cure)?;
        let mut out = memory::zero_matrix(v.dim())?;
        if out.is_empty() {
            return Ok(out);
        }
        let mut start = 0;
        for width in panel_widths::<E>(v.ncols(), usize::MAX) {
            let columns = start..v.ncols().min(start + width);
            let panel = Panel::<E>::pack(exec, v.slice(s![.., columns.clone()]), width)?;
            let mut weights = self.project(exec, &panel)?;
            if let Some(root) = &self.root {
                weights = squared(root, &weights, width)?;
            }
            self.subtract(exec, v, &weights, width, columns.clone(), &mut out)?;
            start = columns.end;
        }
        Ok(out)
    }

    /// `E^T V`, group by group.
    fn project<E: Element>(&self, exec: &Executor, panel: &Panel<E>) -> Result<AlignedVec<E>> {
        let width = panel.width;
        let n_blocks = self.n_rows.div_ceil(ROWS);
        let together = n_blocks.div_ceil(ROW_BLOCKS).max(1);
        let parts = exec.map_ranges(n_blocks, together, |blocks| {
            let mut sums = AlignedVec::zeros(self.rank.next_multiple_of(GROUP) * width)?;
            for block in blocks {
                exec.check()?;
                run_kernel::<E, _>(width, Project { inverse: self, block, panel, sums: &mut sums });
            }
            Ok(sums)
        })?;
        let mut parts = parts.into_iter();
        let Some(mut weights) = parts.next() else { return AlignedVec::zeros(0) };
        for part in parts {
            for (sum, x) in weights.iter_mut().zip(part.iter()) {
                *sum = E::from_f64(sum.to_f64() + x.to_f64());
            }
        }
        Ok(weights)
    }

    /// Writes `(V - E W) / s` to some columns of `out`.
    fn subtract<E: Element>(
        &self,
        exec: &Executor,
        v: ArrayView2<'_, f64>,
        weights: &AlignedVec<E>,
        width: usize,
        columns: std::ops::Range<usize>,
        out: &mut Array2<f64>,
    ) -> Result<()> {
        let n_columns = out.ncols();
        let out = memory::flat_mut(out)?;
        exec.for_chunks(out, ROWS * n_columns, |block, out| {
            let rows = rows_of(block, self.n_rows);
            let mut sums = AlignedVec::zeros(rows.len() * width)?;
            run_kernel::<E, _>(width, Expand { inverse: self, block, weights, sums: &mut sums });
            let sums = sums.chunks_exact(width);
            for ((row, out), sums) in rows.zip(out.chunks_exact_mut(n_columns)).zip(sums) {
                let v = v.row(row);
                for (k, sum) in columns.clone().zip(sums) {
                    out[k] = (v[k] - sum.to_f64()) / self.s;
                }
            }
            Ok(())
        })
    }

    /// `GROUP` columns of `E` for each row of a block, one item per group.
    fn of_block(&self, block: usize) -> impl Iterator<Item = &[T]> {
        let padded = self.rank.next_multiple_of(GROUP);
        let rows = rows_of(block, self.n_rows);
        let of_block = &self.groups[rows.start * padded..rows.end * padded];
        of_block.chunks_exact(rows.len() * GROUP)
    }
}

/// `R^T R W` for rows `W` of a width.
fn squared<E: Element>(
    root: &Array2<f64>,
    weights: &AlignedVec<E>,
    width: usize,
) -> Result<AlignedVec<E>> {
    let rank = root.nrows();
    let mut turned = memory::filled(0.0, rank * width)?;
    for (i, turned) in turned.chunks_exact_mut(width).enumerate() {
        for (&r, w) in root.row(i).iter().zip(weights.chunks_exact(width)).take(i + 1) {
            for (t, w) in turned.iter_mut().zip(w) {
                *t += r * w.to_f64();
            }
        }
    }
    let mut squared = memory::filled(0.0, rank * width)?;
    for (i, turned) in turned.chunks_exact(width).enumerate() {
        for (&r, out) in root.row(i).iter().zip(squared.chunks_exact_mut(width)).take(i + 1) {
            for (o, t) in out.iter_mut().zip(turned) {
                *o += r * t;
            }
        }
    }
    let mut out = AlignedVec::zeros(weights.len())?;
    for (out, x) in out.iter_mut().zip(squared) {
        *out = E::from_f64(x);
    }
    Ok(out)
}

/// The rows of a block.
fn rows_of(block: usize, n_rows: usize) -> std::ops::Range<usize> {
    block * ROWS..n_rows.min((block + 1) * ROWS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Ordering;

    proptest! {
        #[test]
        fn applies_the_woodbury_identity(
            n_rows in 0..600_usize,
            rank in 0..11_usize,
            n_columns in 0..20_usize,
            n_threads in 1..4_usize,
        ) {
            let exec = Executor::new(n_threads).unwrap();
            let entry = |i: usize, k: usize| ((i * 31 + k * 17) % 23) as f64 / 23.0 - 0.5;
            let e = Array2::from_shape_fn((rank, n_rows), |(k, i)| entry(i, k));
            let v = Array2::from_shape_fn((n_rows, n_columns), |(i, k)| entry(k, i + 5));
            let expected = (&v - &e.t().dot(&e.dot(&v))) / 0.25;
            let size = 1.0 + n_rows as f64 * rank as f64;
            let found = LowRankInverse::new(&exec, e.view(), None, 0.25).unwrap();
            prop_assert_eq!(found.factor_transposed().unwrap(), e.view());
            let found = found.apply(&exec, v.view()).unwrap();
            prop_assert!((&found - &expected).iter().all(|d| d.abs() <= 1e-13 * size));
            // E is F R^T for any R; what is above its diagonal is not looked at.
            let root = Array2::from_shape_fn((rank, rank), |(i, j)| match i.cmp(&j) {
                Ordering::Less => f64::NAN,
                Ordering::Equal => 1.0,
                Ordering::Greater => entry(i + 3, j) / 4.0,
            });
            let lower = root.mapv(|r| if r.is_nan() { 0.0 } else { r });
            let e_of_f = lower.dot(&e);
            let of_f = (&v - &e_of_f.t().dot(&e_of_f.dot(&v))) / 0.25;
            let found = LowRankInverse::new(&exec, e.view(), Some(root.view()), 0.25).unwrap();
            let found = found.apply(&exec, v.view()).unwrap();
            prop_assert!((&found - &of_f).iter().all(|d| d.abs() <= 1e-12 * size * size));
            let single =
                LowRankInverse::new(&exec, e.mapv(|x| x as f32).view(), None, 0.25).unwrap();
            for found in [single.apply(&exec, v.view()), single.apply_f32(&exec, v.view())] {
                let difference = &found.unwrap() - &expected;
                prop_assert!(difference.iter().all(|d| d.abs() <= 1e-5 * size));
            }
        }
    }

    /// More blocks than are summed apart, and more right-hand sides than are taken together.
    #[test]
    fn applies_to_many_rows_and_columns() {
        let exec = Executor::new(2).unwrap();
        let entry = |i: usize, k: usize| ((i * 31 + k * 17) % 23) as f64 / 23.0 - 0.5;
        let (n_rows, rank, n_columns) = (ROWS * ROW_BLOCKS * 2 + 9, 3, 71);
        let e = Array2::from_shape_fn((rank, n_rows), |(k, i)| entry(i, k));
        let v = Array2::from_shape_fn((n_rows, n_columns), |(i, k)| entry(k, i + 5));
        let expected = (&v - &e.t().dot(&e.dot(&v))) / 0.25;
        let inverse = LowRankInverse::new(&exec, e.view(), None, 0.25).unwrap();
        for (found, tolerance) in
            [(inverse.apply(&exec, v.view()), 1e-11), (inverse.apply_f32(&exec, v.view()), 1e-2)]
        {
            let difference = &found.unwrap() - &expected;
            assert!(difference.iter().all(|d| d.abs() <= tolerance));
        }
    }

    #[test]
    fn refuses_other_rows() {
        let exec = Executor::new(1).unwrap();
        let e = Array2::<f64>::zeros((2, 3));
        let inverse = LowRankInverse::new(&exec, e.view(), None, 1.0).unwrap();
        assert_eq!(inverse.rank(), 2);
        let error = inverse.apply(&exec, Array2::zeros((4, 1)).view()).unwrap_err();
        assert!(matches!(error, Error::Shape { found: 4, expected: 3, .. }));
        for shape in [(3, 2), (2, 1)] {
            let root = Array2::zeros(shape);
            let error = LowRankInverse::new(&exec, e.view(), Some(root.view()), 1.0).unwrap_err();
            assert!(matches!(error, Error::Shape { expected: 2, .. }));
        }
    }
}
