//! Distances of queries and candidates among rows as they are.

use ndarray::{Array2, ArrayView2, Axis};

use crate::error::{Result, check_length};
use crate::exec::Executor;
use crate::matrix::row_numbers;
use crate::memory;
use crate::simd::{Real, Vectors, vectorized};

/// Sums that are carried side by side.
const TOGETHER: usize = 4;

/// Squared distances of each query and its candidates, numbers of rows, or their inner products where
/// `inner`; of shape `(n_queries, n_candidates)`.
///
/// # Errors
///
/// [`Error::Shape`](crate::Error::Shape) when shapes disagree,
/// [`Error::Parameter`](crate::Error::Parameter) at a candidate that is no row,
/// [`Error::Interrupted`](crate::Error::Interrupted).
///
/// # Examples
///
/// ```
/// use histrs::{Executor, quantization::candidate_values};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let (rows, queries) = (array![[0.0, 1.0], [3.0, 4.0]], array![[0.0, 0.0]]);
/// let candidates = array![[1, 0]];
/// let squares = candidate_values(&exec, rows.view(), queries.view(), candidates.view(), false)?;
/// assert_eq!(squares, array![[25.0, 1.0]]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn candidate_values<T: Real>(
    exec: &Executor,
    rows: ArrayView2<'_, T>,
    queries: ArrayView2<'_, T>,
    candidates: ArrayView2<'_, i64>,
    inner: bool,
) -> Result<Array2<T>> {
    let cure = "give both the same columns";
    check_length("the number of columns of the queries", queries.ncols(), rows.ncols(), cure)?;
    let cure = "give candidates of each query";
    check_length(
        "the number of rows of the candidates",
        candidates.nrows(),
        queries.nrows(),
        cure,
    )?;
    let (n_queries, n_candidates) = candidates.dim();
    let mut out = memory::zero_matrix((n_queries, n_candidates))?;
    let flat = memory::flat_mut(&mut out)?;
    exec.for_chunks(flat, n_candidates, |query, out| {
        let numbers: Vec<i64> = candidates.row(query).iter().copied().collect();
        let numbers = row_numbers("a candidate", &numbers, rows.nrows())?;
        let query = queries.row(query);
        let query = query.as_standard_layout();
        for (out, number) in out.iter_mut().zip(numbers) {
            let row = rows.index_axis(Axis(0), number);
            let row = row.as_standard_layout();
            *out = distance_of_pair(memory::flat(&query)?, memory::flat(&row)?, inner);
        }
        Ok(())
    })?;
    Ok(out)
}

vectorized!(
    fn distance_of_pair<S: Simd, T: Real>(simd: S, x: &[T], y: &[T], inner: bool) -> T {
        let zero = T::splat(simd, T::default());
        let ((x, x_rest), (y, y_rest)) = (T::vectors::<S>(x), T::vectors::<S>(y));
        let mut sums = [zero; TOGETHER];
        for (x, y) in x.chunks(TOGETHER).zip(y.chunks(TOGETHER)) {
            for ((sum, &x), &y) in sums.iter_mut().zip(x).zip(y) {
                *sum = if inner {
                    T::mul_add(simd, x, y, *sum)
                } else {
                    let apart = <T as Vectors>::sub(simd, x, y);
                    T::mul_add(simd, apart, apart, *sum)
                };
            }
        }
        let mut all = zero;
        for sum in sums {
            all = <T as Vectors>::add(simd, all, sum);
        }
        let mut total = T::reduce_sum(simd, all);
        for (&x, &y) in x_rest.iter().zip(y_rest) {
            total = total + if inner { x * y } else { (x - y) * (x - y) };
        }
        total
    }
);
