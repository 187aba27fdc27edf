//! Scores of all classes in one pass over the rows.

use std::borrow::Cow;

use ndarray::{ArrayView2, s};
use pulp::{Simd, WithSimd};

use crate::error::{GIVE_WHOLE_ROWS, OUTPUT, Result, check_length};
use crate::exec::Executor;
use crate::matrix::{COLUMNS_OF_X, CsrView, HistogramMatrix, check_columns};
use crate::simd::{Element, dispatch};

/// Rows of a block.
const ROWS: usize = 64;
/// Columns summed in the element type before the sum is carried in double precision.
const COLUMNS: usize = 256;

/// Writes `f(w_c, x_i) = sum_d sign(w_cd) min(x_id, |w_cd|)` for every row `i` and class `c`.
///
/// # Errors
///
/// [`Error::Negative`](crate::Error::Negative) or [`Error::NotFinite`](crate::Error::NotFinite) at
/// the first bad entry, [`Error::Shape`](crate::Error::Shape) when lengths disagree,
/// [`Error::Interrupted`](crate::Error::Interrupted).
pub fn scores<T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
    coef: ArrayView2<'_, f64>,
    out: &mut [T],
) -> Result<()> {
    check_columns(COLUMNS_OF_X, x, coef.ncols())?;
    let n_classes = coef.nrows();
    check_length(OUTPUT, out.len(), x.n_rows() * n_classes, GIVE_WHOLE_ROWS)?;
    x.check(exec, "X")?;
    match x {
        HistogramMatrix::Dense(x) => {
            let parts = Parts::new(coef.iter());
            exec.for_chunks(out, ROWS * n_classes, |block, out| {
                let start = block * ROWS;
                let rows = x.slice(s![start..start + out.len() / n_classes, ..]);
                for (row, out) in rows.rows().into_iter().zip(out.chunks_exact_mut(n_classes)) {
                    let row =
                        row.as_slice().map_or_else(|| Cow::Owned(row.to_vec()), Cow::Borrowed);
                    dispatch(DenseRow { row: &row, parts: &parts, out });
                }
                Ok(())
            })
        }
        HistogramMatrix::Csr(x) => {
            let parts = Parts::new(coef.t().iter());
            exec.for_chunks(out, ROWS * n_classes, |block, out| {
                for (row, out) in (block * ROWS..).zip(out.chunks_exact_mut(n_classes)) {
                    score_sparse(x, row, &parts, out);
                }
                Ok(())
            })
        }
    }
}

/// `max(w, 0)` and `max(-w, 0)`: `sign(w) min(x, |w|) = min(x, w+) - min(x, w-)`.
struct Parts<T> {
    positive: Vec<T>,
    negative: Vec<T>,
}

impl<T: Element> Parts<T> {
    fn new<'a>(coef: impl Iterator<Item = &'a f64> + Clone) -> Self {
        Self {
            positive: coef.clone().map(|w| T::from_f64(w.max(0.0))).collect(),
            negative: coef.map(|w| T::from_f64((-w).max(0.0))).collect(),
        }
    }
}

fn term<T: Element>(x: T, positive: T, negative: T) -> f64 {
    let x = x.to_f64();
    x.min(positive.to_f64()) - x.min(negative.to_f64())
}

fn score_sparse<T: Element>(x: &CsrView<'_, T>, row: usize, parts: &Parts<T>, out: &mut [T]) {
    let n_classes = out.len();
    let mut sums = vec![0.0; n_classes];
    let (indices, values) = x.row_sums_of_duplicates(row);
    for (&d, &value) in indices.iter().zip(values.iter()) {
        let first = d.unsigned_abs() as usize * n_classes;
        let positive = &parts.positive[first..first + n_classes];
        let negative = &parts.negative[first..first + n_classes];
        for ((sum, &p), &n) in sums.iter_mut().zip(positive).zip(negative) {
            *sum += term(value, p, n);
        }
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = T::from_f64(sum);
    }
}

/// The scores of one row.
struct DenseRow<'a, T> {
    row: &'a [T],
    parts: &'a Parts<T>,
    out: &'a mut [T],
}

impl<T: Element> WithSimd for DenseRow<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { row, parts, out } = self;
        let n = row.len();
        for (class, out) in out.iter_mut().enumerate() {
            let positive = &parts.positive[class * n..(class + 1) * n];
            let negative = &parts.negative[class * n..(class + 1) * n];
            let chunks = row.chunks(COLUMNS).zip(positive.chunks(COLUMNS));
            let mut sum = 0.0;
            for ((x, p), n) in chunks.zip(negative.chunks(COLUMNS)) {
                sum += chunk_sum(simd, x, p, n);
            }
            *out = T::from_f64(sum);
        }
    }
}

#[inline(always)]
fn chunk_sum<S: Simd, T: Element>(simd: S, x: &[T], positive: &[T], negative: &[T]) -> f64 {
    let (x, x_tail) = T::vectors::<S>(x);
    let (p, p_tail) = T::vectors::<S>(positive);
    let (n, n_tail) = T::vectors::<S>(negative);
    let mut sums = [T::splat(simd, T::default()); 2];
    for (k, ((&x, &p), &n)) in x.iter().zip(p).zip(n).enumerate() {
        let term = T::sub(simd, T::min(simd, x, p), T::min(simd, x, n));
        sums[k % 2] = T::add(simd, sums[k % 2], term);
    }
    let mut sum = T::reduce_sum(simd, T::add(simd, sums[0], sums[1])).to_f64();
    for ((&x, &p), &n) in x_tail.iter().zip(p_tail).zip(n_tail) {
        sum += term(x, p, n);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, array};

    #[test]
    fn dense_scores_are_their_definition() {
        let exec = Executor::new(2).unwrap();
        for n in [1, 7, 8, 9, 255, 257, 300] {
            let x = Array2::from_shape_fn((3, n), |(i, d)| f64::from((i * 7 + d * 5) as u32 % 11));
            let w = Array2::from_shape_fn((2, n), |(c, d)| f64::from((c + d * 3) as u32 % 9) - 4.0);
            let mut out = [0.0; 6];
            scores(&exec, &HistogramMatrix::dense(x.view()), w.view(), &mut out).unwrap();
            for (k, &score) in out.iter().enumerate() {
                let terms = x
                    .row(k / 2)
                    .into_iter()
                    .zip(w.row(k % 2))
                    .map(|(x, w)| if *w == 0.0 { 0.0 } else { w.signum() * x.min(w.abs()) });
                assert!((score - terms.sum::<f64>()).abs() < 1e-9);
            }
        }
        let x = array![[-1.0]];
        let x = HistogramMatrix::dense(x.view());
        assert!(scores(&exec, &x, array![[1.0]].view(), &mut [0.0]).is_err());
    }
}
