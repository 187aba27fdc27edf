use pulp::Simd;

use crate::error::Result;
use crate::matrix::{CsrView, HistogramMatrix, visit_rows};
use crate::pairwise::packed::log_or_zero;
use crate::pairwise::{Entry, Term};
use crate::simd::{AlignedVec, Element, Vectors, vectorized};

vectorized!(
    /// Rows of the matrix against a sparse `y`. As many rows of `x` as a vector has lanes are laid
    /// side by side, and each stored value of `y` meets all of them at once.
    pub(super) fn sparse_rows<S: Simd, T: Element, K: Term>(
        simd: S,
        term: K,
        x: &HistogramMatrix<'_, T>,
        start: usize,
        n_rows: usize,
        y: &CsrView<'_, T>,
        first: usize,
        out: &mut [T],
    ) -> Result<()> {
        let lanes = f64::lanes::<S>();
        let stride = y.n_rows();
        let mut values = AlignedVec::<f64>::zeros(x.n_columns() * lanes)?;
        let mut logs = AlignedVec::<f64>::zeros(if K::LOGS { values.len() } else { 0 })?;
        for group in (0..n_rows).step_by(lanes) {
            let size = lanes.min(n_rows - group);
            values.fill(0.0);
            visit_rows(x, start + group, size, 0, x.n_columns(), |row, column, value| {
                values[column * lanes + row] = K::prepare(value);
            });
            for (log, &value) in logs.iter_mut().zip(values.iter()) {
                *log = log_or_zero(value);
            }
            let rows = f64::vectors::<S>(&values).0;
            let log_rows = if K::LOGS { f64::vectors::<S>(&logs).0 } else { rows };
            let mass = if K::KEEPS_UNMATCHED { sum(simd, rows) } else { f64::splat(simd, 0.0) };
            for j in first..stride {
                let mut acc = f64::splat(simd, 0.0);
                let mut matched = f64::splat(simd, 0.0);
                // A plain loop: vectors inside a closure may not be inlined, and are slow then.
                let (columns, entries) = y.row_sums_of_duplicates(j);
                for (&column, &value) in columns.iter().zip(entries.iter()) {
                    let column = column.unsigned_abs() as usize;
                    let value = K::prepare(value.to_f64());
                    let log = if K::LOGS { log_or_zero(value) } else { value };
                    let left = Entry { value: rows[column], log: log_rows[column] };
                    let right =
                        Entry { value: f64::splat(simd, value), log: f64::splat(simd, log) };
                    acc = simd.add_f64s(acc, K::of::<f64, S>(simd, left, right));
                    matched = simd.add_f64s(matched, rows[column]);
                }
                if K::KEEPS_UNMATCHED {
                    // Both are summed in ascending columns, so that their difference is 0 where
                    // `y` stores all that `x` does, and never negative.
                    acc = simd.add_f64s(acc, simd.sub_f64s(mass, matched));
                }
                let acc = [acc];
                let sums: &[f64] = pulp::bytemuck::cast_slice(&acc);
                for (row, &sum) in sums[..size].iter().enumerate() {
                    out[(group + row) * stride + j] =
                        T::from_f64(term.finish(sum, start + group + row, j));
                }
            }
        }
        Ok(())
    }
);

/// The sum of the vectors, in order.
#[inline(always)]
fn sum<S: Simd>(simd: S, rows: &[S::f64s]) -> S::f64s {
    let mut acc = f64::splat(simd, 0.0);
    for &row in rows {
        acc = simd.add_f64s(acc, row);
    }
    acc
}
