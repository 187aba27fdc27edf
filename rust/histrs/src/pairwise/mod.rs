//! Matrices of `sum_d t(x_i(d), y_j(d))` over all pairs of rows, dense or sparse.
//!
//! | file | concept |
//! |---|---|
//! | `compact` | columns that nobody stores are left out |
//! | `counts` | minima of small multiples of a power of two, exact in bytes and words |
//! | `packed` | rows side by side, padded to whole vectors |
//! | `dense` | register tiles of packed rows |
//! | `sparse` | rows against a CSR matrix, which is never made dense |

use std::marker::PhantomData;

use ndarray::Array2;
use pulp::Simd;

use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::{HistogramMatrix, check_columns};
use crate::memory;
use crate::simd::{Element, Vectors, dispatch};

mod compact;
mod counts;
mod dense;
mod packed;
mod sparse;

use compact::Compact;
use counts::Format;
use dense::{SelfSums, dense_tile};
use packed::PackedRows;
use sparse::sparse_rows;

/// Rows in a block: two packed blocks fit the second-level cache for a thousand columns.
const BLOCK: usize = 64;
/// Bytes of rows that are held packed, or one block.
const PACKED_BYTES: usize = 32 << 20;

/// An entry of a row, and its binary logarithm where the term asks for it (0 for 0).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<V> {
    pub(crate) value: V,
    pub(crate) log: V,
}

/// Entries of as many rows as a vector has elements.
pub(crate) type Entries<T, S> = Entry<<T as Vectors>::Vector<S>>;

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
    fn of<T: Element, S: Simd>(simd: S, x: Entries<T, S>, y: Entries<T, S>) -> T::Vector<S>;

    /// A sum with one more summand.
    #[inline(always)]
    fn add<T: Element, S: Simd>(
        simd: S,
        sum: T::Vector<S>,
        x: Entries<T, S>,
        y: Entries<T, S>,
    ) -> T::Vector<S> {
        T::add(simd, sum, Self::of::<T, S>(simd, x, y))
    }

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
        && let Some(format) = Format::of(exec, x, y)?
    {
        return counts::matrix(exec, term, x, y, format);
    }
    let other = y.unwrap_or(x);
    let n_columns = other.n_rows();
    let mut out = memory::zero_matrix((x.n_rows(), n_columns))?;
    let flat = memory::flat_mut(&mut out)?;
    // Columns before a block of rows are the mirror image of rows before it.
    let first_of = |start: usize| if y.is_none() { start } else { 0 };
    match other {
        HistogramMatrix::Csr(y) => exec.for_chunks(flat, BLOCK * n_columns, |block, rows| {
            exec.check()?;
            let (start, n_rows) = (block * BLOCK, rows.len() / n_columns);
            let first = first_of(start);
            sparse_rows(term, x, start, n_rows, y, first, rows)
        })?,
        HistogramMatrix::Dense(_) => {
            for from in (0..n_columns).step_by(rows_at_once::<T>(x.n_columns())) {
                let right = packed::<T, K>(exec, other, from)?;
                exec.for_chunks(flat, BLOCK * n_columns, |block, rows| {
                    let (start, n_rows) = (block * BLOCK, rows.len() / n_columns);
                    let needed = (from..).step_by(BLOCK).zip(&right);
                    let mut needed = needed.filter(|(from, _)| *from >= first_of(start)).peekable();
                    if needed.peek().is_none() {
                        return Ok(());
                    }
                    let left = PackedRows::new::<K>(x, start, n_rows)?;
                    for (from, right) in needed {
                        exec.check()?;
                        let out = &mut rows[from..];
                        let (stride, origin) = (n_columns, (start, from));
                        dense_tile(term, &left, right, out, stride, origin);
                    }
                    Ok(())
                })?;
            }
        }
    }
    if y.is_none() {
        mirror(exec, &mut out)?;
    }
    Ok(out)
}

/// Rows that are packed together, so that each is packed once for many blocks of others.
fn rows_at_once<T: Element>(n_columns: usize) -> usize {
    let n_rows = PACKED_BYTES / (n_columns.max(1) * size_of::<T>());
    n_rows.max(1).next_multiple_of(BLOCK)
}

/// As many rows from one on, packed in blocks.
fn packed<T: Element, K: Term>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
    from: usize,
) -> Result<Vec<PackedRows<T>>> {
    let to = x.n_rows().min(from + rows_at_once::<T>(x.n_columns()));
    exec.map_blocks((to - from).div_ceil(BLOCK), |block| {
        let start = from + block * BLOCK;
        PackedRows::new::<K>(x, start, BLOCK.min(to - start))
    })
}

/// The sum of the minima of every row of `x`, and of `y`, with itself, to the bit as [`pairwise`]
/// has it for the pairs of `x` and `y`. Entries have been checked.
pub(crate) fn own_sums<'a, T: Element, K: Term>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<(Vec<f64>, Option<Vec<f64>>)> {
    // Those of counts are exact, and rows against sparse ones are added up in their order.
    let row_by_row =
        matches!(y.unwrap_or(x), HistogramMatrix::Csr(_)) || Format::of(exec, x, y)?.is_some();
    let of = |z: &HistogramMatrix<'a, T>| {
        if row_by_row {
            return z.row_sums(exec);
        }
        let mut sums = memory::filled(0.0, z.n_rows())?;
        exec.for_chunks(&mut sums, BLOCK, |block, sums| {
            let rows = PackedRows::new::<K>(z, block * BLOCK, sums.len())?;
            dispatch(SelfSums { term: PhantomData::<K>, rows: &rows, out: sums });
            Ok(())
        })?;
        Ok(sums)
    };
    Ok((of(x)?, y.map(of).transpose()?))
}

/// Copies the upper triangle to the lower one.
pub(crate) fn mirror<T: Element>(exec: &Executor, k: &mut Array2<T>) -> Result<()> {
    let n = k.nrows();
    mirror_rows(exec, memory::flat_mut(k)?, n, 0)
}

/// The same for consecutive rows of `n` columns, from row `start`, and the columns of their
/// numbers. The lower half of the rows is computed from the upper one, and then each half by
/// itself.
fn mirror_rows<T: Element>(exec: &Executor, rows: &mut [T], n: usize, start: usize) -> Result<()> {
    let n_rows = rows.len() / n.max(1);
    if n_rows <= BLOCK {
        for i in 1..n_rows {
            for j in 0..i {
                rows[i * n + start + j] = rows[j * n + start + i];
            }
        }
        return Ok(());
    }
    let half = (n_rows / 2).next_multiple_of(BLOCK);
    let (upper, lower) = rows.split_at_mut(half * n);
    exec.for_chunks(lower, BLOCK * n, |block, lower| {
        let first = start + half + block * BLOCK;
        let of_rows = first..first + lower.len() / n;
        // What is read row by row is written row by row: only the part between has short strides.
        let mut turned = [T::default(); BLOCK * BLOCK];
        for (tile, upper) in upper.chunks(BLOCK * n).enumerate() {
            for (j, row) in upper.chunks_exact(n).enumerate() {
                for (i, &value) in row[of_rows.clone()].iter().enumerate() {
                    turned[i * BLOCK + j] = value;
                }
            }
            let columns = start + tile * BLOCK..start + tile * BLOCK + upper.len() / n;
            for (out, turned) in lower.chunks_exact_mut(n).zip(turned.chunks_exact(BLOCK)) {
                out[columns.clone()].copy_from_slice(&turned[..columns.len()]);
            }
        }
        Ok(())
    })?;
    mirror_rows(exec, upper, n, start)?;
    mirror_rows(exec, lower, n, start + half)
}
