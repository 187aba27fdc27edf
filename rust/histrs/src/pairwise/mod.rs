//! Matrices of `sum_d t(x_i(d), y_j(d))` over all pairs of rows, dense or sparse.
//!
//! | file | concept |
//! |---|---|
//! | `compact` | columns that nobody stores are left out |
//! | `counts` | minima of small whole numbers, exact in bytes and words |
//! | `packed` | rows side by side, padded to whole vectors |
//! | `dense` | register tiles of packed rows |
//! | `sparse` | rows against a CSR matrix, which is never made dense |

use ndarray::Array2;
use pulp::Simd;

use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::{HistogramMatrix, check_columns};
use crate::memory;
use crate::simd::{Element, dispatch};

mod compact;
mod counts;
mod dense;
mod packed;
mod sparse;

use compact::Compact;
use dense::{DenseTile, OwnSums};
use packed::PackedRows;
use sparse::SparseRows;

/// Rows in a block: two packed blocks fit the second-level cache for a thousand columns.
const BLOCK: usize = 64;

/// An entry of a row, and its binary logarithm where the term asks for it (0 for 0).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<V> {
    pub(crate) value: V,
    pub(crate) log: V,
}

/// One summand `t(x, y)`, symmetric and `t(0, 0) = 0`.
pub(crate) trait Term: Copy + Send + Sync {
    /// Whether `of` reads logarithms.
    const LOGS: bool = false;
    /// Whether the summand is the smaller entry.
    const MINIMA: bool = false;
    /// Whether `t(x, 0) = x`; otherwise it is 0.
    const KEEPS_UNMATCHED: bool = false;

    /// What is stored of an entry.
    fn prepare(value: f64) -> f64 {
        value
    }

    /// The summand.
    fn of<T: Element, S: Simd>(
        simd: S,
        x: Entry<T::Vector<S>>,
        y: Entry<T::Vector<S>>,
    ) -> T::Vector<S>;

    /// The entry of the matrix that follows from the sum of a row of `x` and one of `y`.
    fn finish(self, sum: f64, _row: usize, _column: usize) -> f64 {
        sum
    }
}

/// The matrix of all pairs; `y = None` means `y = x` and computes each pair once.
///
/// # Errors
///
/// [`Error::Shape`](crate::Error::Shape) when `x` and `y` have different numbers of columns, [`Error::Negative`](crate::Error::Negative) or
/// [`Error::NotFinite`](crate::Error::NotFinite) at the first bad entry.
pub(crate) fn pairwise<'a, T: Element, K: Term>(
    exec: &Executor,
    term: K,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<Array2<T>> {
    x.check(exec, "X")?;
    if let Some(y) = y {
        check_columns("the number of columns of Y", y, x.n_columns())?;
        y.check(exec, "Y")?;
    }
    let Some(compact) = Compact::new(exec, x, y)? else {
        return of_checked(exec, term, x, y);
    };
    match (x, y) {
        (HistogramMatrix::Csr(x), None) => {
            of_checked(exec, term, &HistogramMatrix::csr(compact.of_x(x)), None)
        }
        (HistogramMatrix::Csr(x), Some(HistogramMatrix::Csr(y))) => {
            let y = HistogramMatrix::csr(compact.of_y(y));
            of_checked(exec, term, &HistogramMatrix::csr(compact.of_x(x)), Some(&y))
        }
        _ => of_checked(exec, term, x, y),
    }
}

/// As [`pairwise`], of matrices that have been checked.
fn of_checked<'a, T: Element, K: Term>(
    exec: &Executor,
    term: K,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<Array2<T>> {
    if K::MINIMA
        && let Some(out) = counts::matrix(exec, term, x, y)?
    {
        return Ok(out);
    }
    let other = y.unwrap_or(x);
    let n_columns = other.n_rows();
    let mut out = memory::zero_matrix((x.n_rows(), n_columns))?;
    let flat = memory::flat_mut(&mut out)?;
    exec.for_chunks(flat, BLOCK * n_columns, |block, rows| {
        let start = block * BLOCK;
        let n_rows = rows.len() / n_columns;
        // Columns before the block are the mirror image of rows before it.
        let first = if y.is_none() { start } else { 0 };
        match other {
            HistogramMatrix::Csr(y) => {
                exec.check()?;
                dispatch(SparseRows { term, x, start, n_rows, y, first, out: rows })?;
            }
            HistogramMatrix::Dense(_) => {
                let left = PackedRows::new::<K>(x, start, n_rows)?;
                for from in (first..n_columns).step_by(BLOCK) {
                    exec.check()?;
                    let right = PackedRows::new::<K>(other, from, BLOCK.min(n_columns - from))?;
                    let out = &mut rows[from..];
                    let (stride, place) = (n_columns, (start, from));
                    dispatch(DenseTile { term, left: &left, right: &right, out, stride, place });
                }
            }
        }
        Ok(())
    })?;
    if y.is_none() {
        mirror(&mut out);
    }
    Ok(out)
}

/// The sum of the terms of every row of `x` with itself, to the bit as [`pairwise`] has it for the
/// same rows in `other`, unless both are counts, of which all sums are exact.
pub(crate) fn own_sums<T: Element, K: Term>(
    exec: &Executor,
    term: K,
    x: &HistogramMatrix<'_, T>,
    other: &HistogramMatrix<'_, T>,
) -> Result<Vec<f64>> {
    if matches!(other, HistogramMatrix::Csr(_)) {
        return x.row_sums(exec);
    }
    let mut sums = memory::filled(0.0, x.n_rows())?;
    exec.for_chunks(&mut sums, BLOCK, |block, sums| {
        let rows = PackedRows::new::<K>(x, block * BLOCK, sums.len())?;
        dispatch(OwnSums { term, rows: &rows, out: sums });
        Ok(())
    })?;
    Ok(sums)
}

/// Copies the upper triangle to the lower one, block by block.
pub(crate) fn mirror<T: Element>(k: &mut Array2<T>) {
    let n = k.nrows();
    for i0 in (0..n).step_by(BLOCK) {
        for j0 in (0..=i0).step_by(BLOCK) {
            for i in i0..n.min(i0 + BLOCK) {
                for j in j0..i.min(j0 + BLOCK) {
                    k[[i, j]] = k[[j, i]];
                }
            }
        }
    }
}
