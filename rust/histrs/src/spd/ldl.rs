//! The factorisation `A = L D L^T` of as many matrices as there are lanes.
//!
//! `L D L^T` rather than `L L^T`: no square roots, whose latency would be on the critical path.
//! Rows are taken a tile at a time; the sums of products that make up nearly all of the work run
//! over the columns before the tile, with the tile in registers. There it stays only while every
//! loop over it has a constant length: hence the conditions inside of loops over triangles.

use pulp::Simd;

use crate::small_matrix::triangle;
use crate::spd::lanes::{Entries, Interleaved};

/// Rows and columns of a tile where there are 32 vector registers.
const TILE: usize = 4;
/// The same for 16 registers.
const SMALL_TILE: usize = 3;

/// Where a factorisation is written, vectors of all lanes each.
pub(crate) struct Factor<'a, V> {
    /// The strict lower triangle of `-L`, packed; what is in the places of the diagonal is not
    /// defined. The sign makes every subtraction a fused addition.
    pub(crate) lower: &'a mut [V],
    /// The diagonal of `D`.
    pub(crate) pivots: &'a mut [V],
    /// `-1` over each.
    pub(crate) inverses: &'a mut [V],
    /// Rows of `L D`.
    scratch: &'a mut [V],
}

impl<'a, V> Factor<'a, V> {
    /// Vectors that a factorisation of `p` rows takes.
    pub(crate) const fn len(p: usize) -> usize {
        triangle(p) + (2 + TILE) * p
    }

    /// Splits a buffer of [`Self::len`] vectors.
    #[inline(always)]
    pub(crate) fn new(p: usize, buffer: &'a mut [V]) -> Self {
        let (lower, rest) = buffer.split_at_mut(triangle(p));
        let (pivots, rest) = rest.split_at_mut(p);
        let (inverses, scratch) = rest.split_at_mut(p);
        Self { lower, pivots, inverses, scratch }
    }
}

/// Factorises the sum of `x` and `y` in every lane.
///
/// Lanes whose matrix is not positive definite are left with pivots that are not positive normal
/// numbers.
#[inline(always)]
pub(crate) fn factorize<S, X, Y>(simd: S, p: usize, x: X, y: Y, out: &mut Factor<'_, S::f64s>)
where
    S: Simd,
    X: Entries<S>,
    Y: Entries<S>,
{
    if S::REGISTER_COUNT >= 32 {
        by_tiles::<S, X, Y, TILE>(simd, p, x, y, out);
    } else {
        by_tiles::<S, X, Y, SMALL_TILE>(simd, p, x, y, out);
    }
}

#[inline(always)]
fn by_tiles<S, X, Y, const T: usize>(simd: S, p: usize, x: X, y: Y, out: &mut Factor<'_, S::f64s>)
where
    S: Simd,
    X: Entries<S>,
    Y: Entries<S>,
{
    for start in (0..p).step_by(T) {
        match p - start {
            1 => rows::<S, X, Y, 1, T>(simd, p, start, x, y, out),
            2 => rows::<S, X, Y, 2, T>(simd, p, start, x, y, out),
            3 => rows::<S, X, Y, 3, T>(simd, p, start, x, y, out),
            _ => rows::<S, X, Y, T, T>(simd, p, start, x, y, out),
        }
    }
}

/// Factorises `R` rows from row `start` on.
#[inline(always)]
fn rows<S, X, Y, const R: usize, const T: usize>(
    simd: S,
    p: usize,
    start: usize,
    x: X,
    y: Y,
    out: &mut Factor<'_, S::f64s>,
) where
    S: Simd,
    X: Entries<S>,
    Y: Entries<S>,
{
    let (done, current) = out.lower.split_at_mut(triangle(start));
    let scaled = &mut out.scratch[..R * p];
    for j in (0..start).step_by(T) {
        let left: [_; R] = core::array::from_fn(|r| Interleaved(&scaled[r * p..r * p + j]));
        let above: [_; T] = core::array::from_fn(|c| row(done, j + c));
        let mut tile = means::<S, X, Y, R, T>(simd, start, j, x, y);
        add_products(simd, j, left, above.map(|row| &row[..j]), &mut tile);
        for r in 0..R {
            for c in 0..T {
                for k in 0..T {
                    if k < c {
                        tile[r][c] = simd.mul_add_e_f64s(tile[r][k], above[c][j + k], tile[r][c]);
                    }
                }
            }
            scaled[r * p + j..r * p + j + T].copy_from_slice(&tile[r]);
        }
    }
    for r in 0..R {
        let to = &mut current[triangle(start + r) - triangle(start)..][..start];
        let from = scaled[r * p..r * p + start].iter().zip(&out.inverses[..start]);
        for (to, (&value, &inverse)) in to.iter_mut().zip(from) {
            *to = simd.mul_f64s(value, inverse);
        }
    }
    let left: [_; R] = core::array::from_fn(|r| Interleaved(&scaled[r * p..r * p + start]));
    let above: [_; R] =
        core::array::from_fn(|r| &current[triangle(start + r) - triangle(start)..][..start]);
    let mut tile = diagonal_means::<S, X, Y, R>(simd, start, x, y);
    add_products(simd, start, left, above, &mut tile);
    for c in 0..R {
        let inverse = simd.div_f64s(simd.splat_f64s(-1.0), tile[c][c]);
        out.pivots[start + c] = tile[c][c];
        out.inverses[start + c] = inverse;
        for r in 0..R {
            if r > c {
                let entry = simd.mul_f64s(tile[r][c], inverse);
                for k in 0..R {
                    if c < k && k <= r {
                        tile[r][k] = simd.mul_add_e_f64s(entry, tile[k][c], tile[r][k]);
                    }
                }
                current[triangle(start + r) - triangle(start) + start + c] = entry;
            }
        }
    }
}

/// `x + y` in the tile at row `i` and column `j`, below the diagonal.
#[inline(always)]
fn means<S, X, Y, const R: usize, const C: usize>(
    simd: S,
    i: usize,
    j: usize,
    x: X,
    y: Y,
) -> [[S::f64s; C]; R]
where
    S: Simd,
    X: Entries<S>,
    Y: Entries<S>,
{
    let mut tile = [[simd.splat_f64s(0.0); C]; R];
    for r in 0..R {
        let (x, y) = (x.part(triangle(i + r) + j, C), y.part(triangle(i + r) + j, C));
        for c in 0..C {
            tile[r][c] = simd.add_f64s(x.get(simd, c), y.get(simd, c));
        }
    }
    tile
}

/// `x + y` in the tile at row and column `i`; zeros above the diagonal.
#[inline(always)]
fn diagonal_means<S, X, Y, const R: usize>(simd: S, i: usize, x: X, y: Y) -> [[S::f64s; R]; R]
where
    S: Simd,
    X: Entries<S>,
    Y: Entries<S>,
{
    let mut tile = [[simd.splat_f64s(0.0); R]; R];
    for r in 0..R {
        let (x, y) = (x.part(triangle(i + r) + i, r + 1), y.part(triangle(i + r) + i, r + 1));
        for c in 0..R {
            if c <= r {
                tile[r][c] = simd.add_f64s(x.get(simd, c), y.get(simd, c));
            }
        }
    }
    tile
}

/// Row `i` of a packed triangle, without its diagonal.
#[inline(always)]
pub(crate) fn row<V>(packed: &[V], i: usize) -> &[V] {
    &packed[triangle(i)..triangle(i) + i]
}

/// Adds `sum_k a[r][k] b[c][k]` over the first `n` columns.
#[inline(always)]
pub(crate) fn add_products<S: Simd, A: Entries<S>, const R: usize, const C: usize>(
    simd: S,
    n: usize,
    a: [A; R],
    b: [&[S::f64s]; C],
    sums: &mut [[S::f64s; C]; R],
) {
    let a = a.map(|row| row.part(0, n));
    let b = b.map(|row| &row[..n]);
    let mut acc = *sums;
    for k in 0..n {
        for r in 0..R {
            let left = a[r].get(simd, k);
            for c in 0..C {
                acc[r][c] = simd.mul_add_e_f64s(left, b[c][k], acc[r][c]);
            }
        }
    }
    *sums = acc;
}
