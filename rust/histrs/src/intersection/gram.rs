//! Blocks of the kernel matrix itself.

use ndarray::Array2;
use pulp::{Simd, WithSimd};

use crate::error::Result;
use crate::exec::Executor;
use crate::intersection::shape::{check_columns, visit_rows};
use crate::matrix::{CsrView, HistogramMatrix};
use crate::simd::{AlignedVec, Element, dispatch, lanes};

/// Rows in a block: two packed blocks fit the second-level cache for a thousand columns.
const BLOCK: usize = 64;
/// Rows by rows of a register tile.
const TILE: usize = 4;
/// Vectors added in the working precision before they are added up in double precision.
const CHUNK: usize = 64;

/// The kernel matrix `K[i, j] = sum_d min(x_i(d), y_j(d))` (eq. 5); `y = None` means `y = x` and
/// computes each entry once.
///
/// # Errors
///
/// [`Error::Shape`](crate::Error::Shape) when `x` and `y` have different numbers of columns,
/// [`Error::Negative`](crate::Error::Negative) or [`Error::NotFinite`](crate::Error::NotFinite)
/// at the first bad entry.
///
/// # Examples
///
/// ```
/// use histrs::{Executor, HistogramMatrix, intersection::gram};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[1.0, 2.0], [3.0, 0.0]];
/// let k = gram(&exec, &HistogramMatrix::dense(x.view()), None)?;
/// assert_eq!(k, array![[3.0, 1.0], [1.0, 3.0]]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn gram<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<Array2<T>> {
    x.check(exec, "X")?;
    if let Some(y) = y {
        check_columns("the number of columns of Y", y, x.n_columns())?;
        y.check(exec, "Y")?;
    }
    let other = y.unwrap_or(x);
    let n_columns = other.n_rows();
    let mut out = Array2::from_elem((x.n_rows(), n_columns), T::default());
    let Some(flat) = out.as_slice_mut() else { return Ok(out) };
    exec.for_chunks(flat, BLOCK * n_columns, |block, rows| {
        let start = block * BLOCK;
        let n_rows = rows.len() / n_columns;
        // Columns before the block are the mirror image of rows before it.
        let first = if y.is_none() { start } else { 0 };
        match other {
            HistogramMatrix::Csr(y) => {
                let kernel = SparseRows { x, start, n_rows, y, first, out: rows };
                exec.check()?;
                dispatch(kernel);
            }
            HistogramMatrix::Dense(_) => {
                let left = PackedRows::new(x, start, n_rows);
                for from in (first..n_columns).step_by(BLOCK) {
                    exec.check()?;
                    let right = PackedRows::new(other, from, BLOCK.min(n_columns - from));
                    let out = &mut rows[from..];
                    dispatch(DenseTile { left: &left, right: &right, out, stride: n_columns });
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

/// Some rows, dense and padded with zeros to whole vectors and whole tiles.
struct PackedRows<T> {
    data: AlignedVec<T>,
    width: usize,
    n_rows: usize,
}

impl<T: Element> PackedRows<T> {
    fn new(x: &HistogramMatrix<'_, T>, start: usize, n_rows: usize) -> Self {
        let width = x.n_columns().next_multiple_of(lanes::<T>());
        let mut data = AlignedVec::zeros(width * n_rows.next_multiple_of(TILE));
        for row in 0..n_rows {
            let out = &mut data[row * width..row * width + x.n_columns()];
            match x {
                HistogramMatrix::Dense(x) => {
                    for (out, &value) in out.iter_mut().zip(x.row(start + row)) {
                        *out = value;
                    }
                }
                HistogramMatrix::Csr(x) => {
                    x.for_each_sum(start + row, |column, value| out[column] = T::from_f64(value));
                }
            }
        }
        Self { data, width, n_rows }
    }
}

struct DenseTile<'a, T> {
    left: &'a PackedRows<T>,
    right: &'a PackedRows<T>,
    out: &'a mut [T],
    stride: usize,
}

impl<T: Element> WithSimd for DenseTile<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { left, right, out, stride } = self;
        let width = left.width / T::lanes::<S>();
        let a = T::vectors::<S>(&left.data).0;
        let b = T::vectors::<S>(&right.data).0;
        for i in (0..left.n_rows).step_by(TILE) {
            for j in (0..right.n_rows).step_by(TILE) {
                let rows = core::array::from_fn(|k| &a[(i + k) * width..(i + k + 1) * width]);
                let columns = core::array::from_fn(|k| &b[(j + k) * width..(j + k + 1) * width]);
                let sums = tile_sums::<T, S>(simd, rows, columns);
                for (i, sums) in (i..left.n_rows).zip(sums) {
                    for (j, sum) in (j..right.n_rows).zip(sums) {
                        out[i * stride + j] = T::from_f64(sum);
                    }
                }
            }
        }
    }
}

/// `sum_d min(a(d), b(d))` for every pair of four rows and four rows.
#[inline(always)]
fn tile_sums<T: Element, S: Simd>(
    simd: S,
    a: [&[T::Vector<S>]; TILE],
    b: [&[T::Vector<S>]; TILE],
) -> [[f64; TILE]; TILE] {
    let mut sums = [[0.0; TILE]; TILE];
    let width = a[0].len();
    for start in (0..width).step_by(CHUNK) {
        let end = width.min(start + CHUNK);
        let [a0, a1, a2, a3] = a.map(|row| &row[start..end]);
        let [b0, b1, b2, b3] = b.map(|row| &row[start..end]);
        let mut acc = [[T::splat(simd, T::default()); TILE]; TILE];
        let left = a0.iter().zip(a1).zip(a2).zip(a3);
        let right = b0.iter().zip(b1).zip(b2).zip(b3);
        for ((((&a0, &a1), &a2), &a3), (((&b0, &b1), &b2), &b3)) in left.zip(right) {
            let (x, y) = ([a0, a1, a2, a3], [b0, b1, b2, b3]);
            for i in 0..TILE {
                for j in 0..TILE {
                    acc[i][j] = T::add(simd, acc[i][j], T::min(simd, x[i], y[j]));
                }
            }
        }
        for i in 0..TILE {
            for j in 0..TILE {
                sums[i][j] += T::reduce_sum(simd, acc[i][j]).to_f64();
            }
        }
    }
    sums
}

/// Rows of `K` against a sparse `y`: as many rows of `x` as a vector has lanes are laid side by
/// side, and each stored value of `y` meets all of them at once.
struct SparseRows<'a, 'm, T> {
    x: &'a HistogramMatrix<'m, T>,
    start: usize,
    n_rows: usize,
    y: &'a CsrView<'m, T>,
    first: usize,
    out: &'a mut [T],
}

impl<T: Element> WithSimd for SparseRows<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, start, n_rows, y, first, out } = self;
        let lanes = f64::lanes::<S>();
        let stride = y.n_rows();
        let mut interleaved = AlignedVec::<f64>::zeros(x.n_columns() * lanes);
        for group in (0..n_rows).step_by(lanes) {
            interleaved.fill(0.0);
            let size = lanes.min(n_rows - group);
            visit_rows(x, start + group, size, 0, x.n_columns(), |row, column, value| {
                interleaved[column * lanes + row] = value;
            });
            let rows = f64::vectors::<S>(&interleaved).0;
            for j in first..stride {
                let mut acc = f64::splat(simd, 0.0);
                // A plain loop: vectors inside a closure may not be inlined, and are slow then.
                let (columns, values) = y.row_sums_of_duplicates(j);
                for (&column, &value) in columns.iter().zip(values.iter()) {
                    let row = rows[column.unsigned_abs() as usize];
                    acc = simd.add_f64s(acc, simd.min_f64s(row, simd.splat_f64s(value.to_f64())));
                }
                let acc = [acc];
                let sums: &[f64] = pulp::bytemuck::cast_slice(&acc);
                for (row, &sum) in sums[..size].iter().enumerate() {
                    out[(group + row) * stride + j] = T::from_f64(sum);
                }
            }
        }
    }
}
