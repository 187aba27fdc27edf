use std::iter::zip;
use std::marker::PhantomData;
use std::ops::Range;

use pulp::{Simd, WithSimd};

use crate::pairwise::packed::{PackedRows, TILE};
use crate::pairwise::{Entry, Term};
use crate::simd::{Element, vectorized};

/// Vectors added in the working precision before they are added up in double precision.
const CHUNK: usize = 64;

vectorized!(
    /// The pairs of two packed blocks.
    pub(super) fn dense_tile<S: Simd, T: Element, K: Term>(
        simd: S,
        term: K,
        left: &PackedRows<T>,
        right: &PackedRows<T>,
        out: &mut [T],
        stride: usize,
        /// The first row and column of the matrix.
        origin: (usize, usize),
    ) {
        let width = left.width / T::lanes::<S>();
        let [a, log_a] = [left.values(), left.logs::<K>()].map(|x| T::vectors::<S>(x).0);
        let [b, log_b] = [right.values(), right.logs::<K>()].map(|x| T::vectors::<S>(x).0);
        for i in (0..left.n_rows).step_by(TILE) {
            for j in (0..right.n_rows).step_by(TILE) {
                let x = [rows(a, i, width), rows(log_a, i, width)];
                let y = [rows(b, j, width), rows(log_b, j, width)];
                let sums = tile_sums::<T, K, S>(simd, x, y);
                for (i, sums) in (i..left.n_rows).zip(sums) {
                    for (j, sum) in (j..right.n_rows).zip(sums) {
                        out[i * stride + j] =
                            T::from_f64(term.finish(sum, origin.0 + i, origin.1 + j));
                    }
                }
            }
        }
    }
);

/// The sums of the minima of rows with themselves, which read no logarithms.
pub(super) struct SelfSums<'a, T, K> {
    pub(super) term: PhantomData<K>,
    pub(super) rows: &'a PackedRows<T>,
    pub(super) out: &'a mut [f64],
}

impl<T: Element, K: Term> WithSimd for SelfSums<'_, T, K> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.rows.width / T::lanes::<S>();
        let values = T::vectors::<S>(self.rows.values()).0;
        for (tile, out) in self.out.chunks_mut(TILE).enumerate() {
            let x = [rows(values, tile * TILE, width); 2];
            let sums = tile_sums::<T, K, S>(simd, x, x);
            for (i, out) in out.iter_mut().enumerate() {
                *out = sums[i][i];
            }
        }
    }
}

/// Four rows, as vectors.
type Rows<'a, V> = [&'a [V]; TILE];

#[inline(always)]
fn rows<V>(x: &[V], first: usize, width: usize) -> Rows<'_, V> {
    core::array::from_fn(|k| &x[(first + k) * width..(first + k + 1) * width])
}

/// Without `map`, whose code may stand apart.
#[inline(always)]
fn part<V>([a, b, c, d]: Rows<'_, V>, of: Range<usize>) -> Rows<'_, V> {
    [&a[of.clone()], &b[of.clone()], &c[of.clone()], &d[of]]
}

#[inline(always)]
fn of_four<'a, V>(((a, b), (c, d)): ((&'a V, &'a V), (&'a V, &'a V))) -> [&'a V; TILE] {
    [a, b, c, d]
}

/// The sums of the terms for every pair of four rows and four rows, given with their logarithms.
#[inline(always)]
fn tile_sums<T: Element, K: Term, S: Simd>(
    simd: S,
    x: [Rows<'_, T::Vector<S>>; 2],
    y: [Rows<'_, T::Vector<S>>; 2],
) -> [[f64; TILE]; TILE] {
    let mut sums = [[0.0; TILE]; TILE];
    let width = x[0][0].len();
    for start in (0..width).step_by(CHUNK) {
        let end = width.min(start + CHUNK);
        let [a0, a1, a2, a3] = part(x[0], start..end);
        let [p0, p1, p2, p3] = part(x[1], start..end);
        let [b0, b1, b2, b3] = part(y[0], start..end);
        let [q0, q1, q2, q3] = part(y[1], start..end);
        let mut acc = [[T::splat(simd, T::default()); TILE]; TILE];
        // All rows have as many vectors, which indices would check for each. No closures here: vectors
        // inside one may not be inlined, and are slow then.
        let (left, left_logs) = (zip(zip(a0, a1), zip(a2, a3)), zip(zip(p0, p1), zip(p2, p3)));
        let (right, right_logs) = (zip(zip(b0, b1), zip(b2, b3)), zip(zip(q0, q1), zip(q2, q3)));
        for ((values, logs), (others, other_logs)) in
            zip(zip(left, left_logs), zip(right, right_logs))
        {
            let (value, log) = (of_four(values), of_four(logs));
            let (other, other_log) = (of_four(others), of_four(other_logs));
            for i in 0..TILE {
                for j in 0..TILE {
                    let left = Entry { value: *value[i], log: *log[i] };
                    let right = Entry { value: *other[j], log: *other_log[j] };
                    acc[i][j] = K::add::<T, S>(simd, acc[i][j], left, right);
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
