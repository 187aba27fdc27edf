//! The factorisation `A = L D L^T` of as many matrices as there are lanes.
//!
//! `L D L^T` rather than `L L^T`: no square roots, whose latency would be on the critical path.
//! Rows are taken a tile at a time. Nearly all of the work is sums of products over the columns
//! before the tile, with the tile in registers. There it stays only while every loop over it has a
//! constant length: hence the conditions inside of loops over triangles.

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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::simd::{dispatch, lanes};
    use crate::spd::lanes::{Groups, Shared, vectors, vectors_mut};

    /// Factorises the sum of a matrix of each lane and of one for all.
    struct Factorisation<'a> {
        p: usize,
        own: &'a Groups,
        shared: &'a [f64],
        lower: &'a mut Groups,
        pivots: &'a mut Groups,
        inverses: &'a mut Groups,
    }

    impl WithSimd for Factorisation<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let mut buffer = vec![simd.splat_f64s(f64::NAN); Factor::<S::f64s>::len(self.p)];
            let mut out = Factor::new(self.p, &mut buffer);
            let own = Interleaved(vectors::<S>(self.own.group(0)));
            factorize(simd, self.p, own, Shared(self.shared), &mut out);
            vectors_mut::<S>(self.lower.group_mut(0)).copy_from_slice(out.lower);
            vectors_mut::<S>(self.pivots.group_mut(0)).copy_from_slice(out.pivots);
            vectors_mut::<S>(self.inverses.group_mut(0)).copy_from_slice(out.inverses);
        }
    }

    /// `-L`, `D` and `-1 / D` of a matrix for each lane, and one added to all.
    fn factors(p: usize, own: &[Vec<f64>], shared: &[f64]) -> [Vec<Vec<f64>>; 3] {
        let n = lanes::<f64>();
        let groups = Groups::new(n, triangle(p), |i| &own[i % own.len()]).unwrap();
        let mut lower = Groups::zeros(n, triangle(p)).unwrap();
        let mut pivots = Groups::zeros(n, p).unwrap();
        let mut inverses = Groups::zeros(n, p).unwrap();
        dispatch(Factorisation {
            p,
            own: &groups,
            shared,
            lower: &mut lower,
            pivots: &mut pivots,
            inverses: &mut inverses,
        });
        [(&lower, triangle(p)), (&pivots, p), (&inverses, p)].map(|(groups, len)| {
            groups.matrices().unwrap().chunks_exact(len.max(1)).map(<[f64]>::to_vec).collect()
        })
    }

    /// Entry `i, k` of `L` in a lane: an integer.
    fn entry(lane: usize, i: usize, k: usize) -> f64 {
        ((i * 5 + k * 3 + lane) % 4) as f64 - 1.0
    }

    /// Entry `k` of `D` in a lane: a power of two.
    fn pivot(lane: usize, k: usize) -> f64 {
        f64::from(1_u32 << ((k + lane) % 5)) / 4.0
    }

    fn product(lane: usize, p: usize) -> Vec<f64> {
        let l = |i: usize, k: usize| if i == k { 1.0 } else { entry(lane, i, k) };
        let sum = |i: usize, j: usize| -> f64 {
            (0..=j).map(|k| l(i, k) * pivot(lane, k) * l(j, k)).sum()
        };
        (0..p).flat_map(|i| (0..=i).map(move |j| (i, j))).map(|(i, j)| sum(i, j)).collect()
    }

    /// Of integers and powers of two nothing is rounded, whatever the order of the sums; sizes are
    /// those around one, two and three tiles of three and of four rows.
    #[test]
    fn matrices_of_integers_are_factorised_exactly() {
        let n = lanes::<f64>();
        for p in 1..=13 {
            let shared: Vec<f64> = (0..triangle(p)).map(|e| (e % 3) as f64).collect();
            let own: Vec<Vec<f64>> = (0..n)
                .map(|lane| product(lane, p).iter().zip(&shared).map(|(a, b)| a - b).collect())
                .collect();
            let [lower, pivots, inverses] = factors(p, &own, &shared);
            for lane in 0..n {
                for i in 0..p {
                    assert_eq!(pivots[lane][i], pivot(lane, i), "p = {p}, lane {lane}, row {i}");
                    assert_eq!(inverses[lane][i], -1.0 / pivot(lane, i), "p = {p}, row {i}");
                    for k in 0..i {
                        let found = lower[lane][triangle(i) + k];
                        assert_eq!(found, -entry(lane, i, k), "p = {p}, lane {lane}, [{i}, {k}]");
                    }
                }
            }
        }
    }

    #[test]
    fn a_lane_that_is_not_positive_definite_leaves_the_others_alone() {
        let zeros = [0.0; 3];
        let good = vec![4.0, 2.0, 3.0];
        let singular = vec![1.0, 1.0, 1.0];
        for (bad, last) in [
            (singular, 0.0),
            (vec![1.0, 2.0, 1.0], -3.0),
            (vec![1.0, f64::NAN, 1.0], f64::NAN),
            (vec![0.0, 1.0, 1.0], f64::NEG_INFINITY),
        ] {
            let [_, pivots, _] = factors(2, &[bad.clone(), good.clone()], &zeros);
            let normal = |pivot: &f64| *pivot > 0.0 && pivot.is_normal();
            assert!(!pivots[0].iter().all(normal), "{bad:?}: {:?}", pivots[0]);
            let found = pivots[0][1];
            assert!(found == last || (found.is_nan() && last.is_nan()), "{bad:?}: {found}");
            if lanes::<f64>() > 1 {
                assert_eq!(pivots[1], [4.0, 2.0]);
            }
        }
    }

    #[test]
    fn pivots_reach_both_ends_of_the_numbers() {
        let (large, small) = (f64::MAX / 4.0, f64::MIN_POSITIVE);
        let [lower, pivots, _] = factors(2, &[vec![large, 0.0, small]], &[0.0; 3]);
        assert_eq!(pivots[0], [large, small]);
        assert_eq!(lower[0][1], 0.0);
    }
}
