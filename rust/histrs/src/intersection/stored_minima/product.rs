//! The product of a tile, made of its sums, and some right-hand sides.

use pulp::Simd;

use crate::intersection::stored_minima::tiles::Stored;
use crate::lower_triangle::TILE;
use crate::simd::vectorized;

/// Rows of a tile that are multiplied at a time.
const GROUP: usize = 4;

vectorized!(
    /// Adds the product with a tile to that of the rows `i`, from numbers of the rows `j`.
    pub(super) fn add_tile<S: Simd, E: Stored>(
        simd: S,
        tile: &[E],
        /// Whether the rows of the tile are the rows `j`.
        turned: bool,
        weights: (f64, f64),
        /// Of the rows `i`, and `j`.
        sums: (&[f64], &[f64]),
        /// Of `V`, and how many numbers each has, of which those of the rows `j` begin at `first`.
        columns: (&[f64], usize),
        first: usize,
        out: &mut [f64],
    ) {
        let (of_rows, of_columns) = if turned { (sums.1, sums.0) } else { sums };
        let mut entries = [[0.0; TILE]; GROUP];
        for (group, tile) in tile.chunks_exact(GROUP * TILE).enumerate() {
            let start = group * GROUP;
            for (k, entries) in entries.iter_mut().enumerate() {
                let tile = &tile[k * TILE..(k + 1) * TILE];
                make_entries(tile, of_rows[start + k], of_columns, weights, entries);
            }
            let numbers = columns.0.chunks_exact(columns.1).map(|v| &v[first..first + TILE]);
            for (v, out) in numbers.zip(out.chunks_exact_mut(TILE)) {
                if turned {
                    add_scaled(simd, &entries, &v[start..start + GROUP], out);
                } else {
                    add_dots(simd, &entries, v, &mut out[start..start + GROUP]);
                }
            }
        }
    }
);

/// Makes a row of a tile of `K` of its sums.
#[inline(always)]
fn make_entries<E: Stored>(
    tile: &[E],
    of_row: f64,
    of_columns: &[f64],
    (minmax, intersection): (f64, f64),
    entries: &mut [f64; TILE],
) {
    for ((entry, &sum), &of_column) in entries.iter_mut().zip(tile).zip(of_columns) {
        let sum = sum.sum();
        let maxima = of_row - sum + of_column;
        let ratio = if maxima > 0.0 { sum / maxima } else { 1.0 };
        *entry = minmax * ratio + intersection * sum;
    }
}

/// Adds the dot products of some rows with `v`.
#[inline(always)]
fn add_dots<S: Simd>(simd: S, rows: &[[f64; TILE]; GROUP], v: &[f64], out: &mut [f64]) {
    let [(a, _), (b, _), (c, _), (d, _)] = rows.each_ref().map(|row| S::as_simd_f64s(row));
    let (v, _) = S::as_simd_f64s(v);
    let zero = simd.splat_f64s(0.0);
    let mut sums = [zero; GROUP];
    for ((((&v, &a), &b), &c), &d) in v.iter().zip(a).zip(b).zip(c).zip(d) {
        sums[0] = simd.mul_add_e_f64s(a, v, sums[0]);
        sums[1] = simd.mul_add_e_f64s(b, v, sums[1]);
        sums[2] = simd.mul_add_e_f64s(c, v, sums[2]);
        sums[3] = simd.mul_add_e_f64s(d, v, sums[3]);
    }
    for (out, sum) in out.iter_mut().zip(sums) {
        *out += simd.reduce_sum_f64s(sum);
    }
}

/// Adds some rows, each times its number in `v`.
#[inline(always)]
fn add_scaled<S: Simd>(simd: S, rows: &[[f64; TILE]; GROUP], v: &[f64], out: &mut [f64]) {
    let [(a, _), (b, _), (c, _), (d, _)] = rows.each_ref().map(|row| S::as_simd_f64s(row));
    let (out, _) = S::as_mut_simd_f64s(out);
    let of = |k: usize| simd.splat_f64s(v[k]);
    let (va, vb, vc, vd) = (of(0), of(1), of(2), of(3));
    for ((((out, &a), &b), &c), &d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
        let first = simd.mul_add_e_f64s(b, vb, simd.mul_add_e_f64s(a, va, *out));
        *out = simd.mul_add_e_f64s(d, vd, simd.mul_add_e_f64s(c, vc, first));
    }
}
