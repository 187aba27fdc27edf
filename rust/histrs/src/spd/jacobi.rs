//! One-sided Jacobi rotations: singular values and left singular vectors, in all lanes.
//!
//! Applied to a factor `K` rather than to `K K^T`, they lose half as many digits of the small
//! eigenvalues of `K K^T`. At a condition of `1e10`, ten digits of the smallest are right; a
//! tridiagonal reduction of `K K^T` leaves six.
//!
//! Source: J. Demmel and K. Veselic, *Jacobi's method is more accurate than QR*, SIAM J. Matrix
//! Anal. Appl. 13, 1992.

use pulp::Simd;

use crate::simd::outlined;
use crate::spd::lanes::{minus, vectors_mut};

/// Sweeps after which a lane is given up; it takes six to nine.
const MAX_SWEEPS: usize = 40;

/// Makes the rows of `g`, square with `p` rows, orthogonal by rotations of pairs of rows; writes
/// the squares of their lengths. Row `k` is then a left singular vector of the transposed matrix
/// times its singular value. Returns whether every lane converged.
///
/// Lanes take the same rotations in turn; where a pair is orthogonal in all, it is left alone.
#[inline(always)]
pub(crate) fn orthogonalize<S: Simd>(
    simd: S,
    p: usize,
    g: &mut [S::f64s],
    squares: &mut [S::f64s],
) -> bool {
    let [g, squares] = [g, squares].map(pulp::bytemuck::cast_slice_mut);
    run_sweeps(simd, p, g, squares)
}

outlined!(
    fn run_sweeps<S: Simd>(simd: S, p: usize, g: &mut [f64], squares: &mut [f64]) -> bool {
        sweeps(simd, p, vectors_mut::<S>(g), vectors_mut::<S>(squares))
    }
);

#[inline(always)]
fn sweeps<S: Simd>(simd: S, p: usize, g: &mut [S::f64s], squares: &mut [S::f64s]) -> bool {
    // What the rounding of a product of `p` terms leaves.
    let tolerance = p.max(8) as f64 * f64::EPSILON;
    let tolerance = simd.splat_f64s(tolerance * tolerance);
    for _ in 0..MAX_SWEEPS {
        lengths(simd, p, g, squares);
        let mut rotated = false;
        for i in 0..p {
            let (head, tail) = g.split_at_mut((i + 1) * p);
            let first = &mut head[i * p..];
            for j in i + 1..p {
                let second = &mut tail[(j - i - 1) * p..][..p];
                let product = dot(simd, first, second);
                let (a, b) = (squares[i], squares[j]);
                let bound = simd.mul_f64s(tolerance, simd.mul_f64s(a, b));
                let large = simd.less_than_f64s(bound, simd.mul_f64s(product, product));
                if simd.first_true_m64s(large) == S::F64_LANES {
                    continue;
                }
                rotated = true;
                let (tangent, cosine, sine) = angle(simd, large, (a, b), product);
                squares[i] = simd.mul_add_e_f64s(minus(simd, tangent), product, a);
                squares[j] = simd.mul_add_e_f64s(tangent, product, b);
                rotate(simd, cosine, sine, first, second);
            }
        }
        if !rotated {
            lengths(simd, p, g, squares);
            return true;
        }
    }
    false
}

/// The tangent, cosine and sine of the rotation that makes two rows orthogonal, whose squared
/// lengths and inner product are given; none where it is not `wanted`.
#[inline(always)]
fn angle<S: Simd>(
    simd: S,
    wanted: S::m64s,
    (a, b): (S::f64s, S::f64s),
    product: S::f64s,
) -> (S::f64s, S::f64s, S::f64s) {
    // With d = b - a, e = 2 x y and h = sqrt(d^2 + e^2): tan = e / (d +- h), cos = 1 / sqrt(1 + tan^2).
    let (zero, one) = (simd.splat_f64s(0.0), simd.splat_f64s(1.0));
    let twice = simd.add_f64s(product, product);
    let difference = simd.sub_f64s(b, a);
    let square = simd.mul_add_e_f64s(difference, difference, simd.mul_f64s(twice, twice));
    let root = simd.sqrt_f64s(square);
    let below = simd.less_than_f64s(difference, zero);
    let root = simd.select_f64s(below, minus(simd, root), root);
    let tangent = simd.div_f64s(twice, simd.add_f64s(difference, root));
    let tangent = simd.select_f64s(wanted, tangent, zero);
    let cosine = simd.div_f64s(one, simd.sqrt_f64s(simd.mul_add_e_f64s(tangent, tangent, one)));
    (tangent, cosine, simd.mul_f64s(tangent, cosine))
}

#[inline(always)]
fn lengths<S: Simd>(simd: S, p: usize, g: &[S::f64s], squares: &mut [S::f64s]) {
    for i in 0..p {
        let row = &g[i * p..][..p];
        squares[i] = dot(simd, row, row);
    }
}

#[inline(always)]
fn dot<S: Simd>(simd: S, x: &[S::f64s], y: &[S::f64s]) -> S::f64s {
    let n = x.len();
    let y = &y[..n];
    let whole = n - n % 4;
    // Four sums, so that none waits for the one before.
    let mut sums = [simd.splat_f64s(0.0); 4];
    for start in (0..whole).step_by(4) {
        let (x, y) = (&x[start..start + 4], &y[start..start + 4]);
        for k in 0..4 {
            sums[k] = simd.mul_add_e_f64s(x[k], y[k], sums[k]);
        }
    }
    for k in whole..n {
        sums[0] = simd.mul_add_e_f64s(x[k], y[k], sums[0]);
    }
    simd.add_f64s(simd.add_f64s(sums[0], sums[1]), simd.add_f64s(sums[2], sums[3]))
}

/// Turns two rows.
#[inline(always)]
fn rotate<S: Simd>(simd: S, cosine: S::f64s, sine: S::f64s, x: &mut [S::f64s], y: &mut [S::f64s]) {
    let less = minus(simd, sine);
    let n = x.len();
    let y = &mut y[..n];
    for k in 0..n {
        let (a, b) = (x[k], y[k]);
        x[k] = simd.mul_add_e_f64s(less, b, simd.mul_f64s(cosine, a));
        y[k] = simd.mul_add_e_f64s(sine, a, simd.mul_f64s(cosine, b));
    }
}
