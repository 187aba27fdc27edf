//! Eigenvalues of symmetric tridiagonal matrices, in all lanes.

use pulp::Simd;

use crate::spd::lanes::minus;

/// Sweeps after which an eigenvalue is given up; it takes two or three.
const MAX_SWEEPS: usize = 60;

/// The rational QL iteration of Pal, Walker and Kahan, which needs no square roots in its inner
/// loop: `diagonal` becomes the eigenvalues, in no order. Entry `i` of `squared_off_diagonal` is the
/// square of the entry between rows `i` and `i + 1`. Returns the lanes that converged.
///
/// All lanes take the same sweeps; a lane that is ready waits, unchanged.
///
/// Source: B. N. Parlett, *The symmetric eigenvalue problem*, SIAM 1998, section 8.15.
#[inline(always)]
pub(crate) fn tridiagonal_eigenvalues<S: Simd>(
    simd: S,
    diagonal: &mut [S::f64s],
    squared_off_diagonal: &mut [S::f64s],
) -> [bool; 8] {
    let mut converged = [true; 8];
    for first in 0..diagonal.len().saturating_sub(1) {
        let mut active = [true; 8];
        for _ in 0..MAX_SWEEPS {
            let bound = negligible(simd, diagonal[first], diagonal[first + 1]);
            active = [false; 8];
            let bounds: &[f64] = pulp::bytemuck::cast_slice(core::slice::from_ref(&bound));
            let squares: &[f64] =
                pulp::bytemuck::cast_slice(core::slice::from_ref(&squared_off_diagonal[first]));
            for lane in 0..S::F64_LANES {
                active[lane] = squares[lane] > bounds[lane];
            }
            if active == [false; 8] {
                break;
            }
            let active = simd.less_than_f64s(bound, squared_off_diagonal[first]);
            sweep(simd, active, &mut diagonal[first..], &mut squared_off_diagonal[first..]);
        }
        for lane in 0..S::F64_LANES {
            converged[lane] &= !active[lane];
        }
    }
    converged
}

/// The square of an off-diagonal that no longer matters between two entries of the diagonal.
#[inline(always)]
fn negligible<S: Simd>(simd: S, a: S::f64s, b: S::f64s) -> S::f64s {
    let size = simd.mul_f64s(a, b);
    let size = simd.max_f64s(size, minus(simd, size));
    let epsilon = simd.splat_f64s(f64::EPSILON * f64::EPSILON);
    simd.mul_add_e_f64s(epsilon, size, simd.splat_f64s(f64::MIN_POSITIVE))
}

/// One QL sweep from the last row up to the first in the active lanes.
#[inline(always)]
fn sweep<S: Simd>(
    simd: S,
    active: S::m64s,
    diagonal: &mut [S::f64s],
    squared_off_diagonal: &mut [S::f64s],
) {
    let (zero, one) = (simd.splat_f64s(0.0), simd.splat_f64s(1.0));
    let last = diagonal.len() - 1;
    let sigma = wilkinson_shift(simd, diagonal[0], diagonal[1], squared_off_diagonal[0]);
    let mut gamma = simd.sub_f64s(diagonal[last], sigma);
    let mut product = simd.mul_f64s(gamma, gamma);
    let (mut cosine, mut sine) = (one, zero);
    for i in (0..last).rev() {
        let square = squared_off_diagonal[i];
        let r = simd.add_f64s(product, square);
        if i + 1 < last {
            let value = simd.mul_f64s(sine, r);
            squared_off_diagonal[i + 1] =
                simd.select_f64s(active, value, squared_off_diagonal[i + 1]);
        }
        let old_cosine = cosine;
        let inverse = simd.div_f64s(one, r);
        let turned = simd.less_than_f64s(zero, r);
        cosine = simd.select_f64s(turned, simd.mul_f64s(product, inverse), one);
        sine = simd.select_f64s(turned, simd.mul_f64s(square, inverse), zero);
        let old_gamma = gamma;
        let left = simd.mul_f64s(sine, old_gamma);
        gamma = simd.sub_f64s(simd.mul_f64s(cosine, simd.sub_f64s(diagonal[i], sigma)), left);
        let value = simd.add_f64s(old_gamma, simd.sub_f64s(diagonal[i], gamma));
        diagonal[i + 1] = simd.select_f64s(active, value, diagonal[i + 1]);
        let ratio = simd.div_f64s(simd.mul_f64s(gamma, gamma), cosine);
        let limit = simd.mul_f64s(old_cosine, square);
        product = simd.select_f64s(simd.less_than_f64s(zero, cosine), ratio, limit);
    }
    squared_off_diagonal[0] =
        simd.select_f64s(active, simd.mul_f64s(sine, product), squared_off_diagonal[0]);
    diagonal[0] = simd.select_f64s(active, simd.add_f64s(sigma, gamma), diagonal[0]);
}

/// The eigenvalue of `[[a, e], [e, b]]` that is closer to `a`, where `square = e^2`.
#[inline(always)]
fn wilkinson_shift<S: Simd>(simd: S, a: S::f64s, b: S::f64s, square: S::f64s) -> S::f64s {
    let zero = simd.splat_f64s(0.0);
    let half = simd.mul_f64s(simd.splat_f64s(0.5), simd.sub_f64s(b, a));
    let root = simd.sqrt_f64s(simd.mul_add_e_f64s(half, half, square));
    let below = simd.less_than_f64s(half, zero);
    let sum = simd.add_f64s(half, simd.select_f64s(below, minus(simd, root), root));
    simd.sub_f64s(a, simd.div_f64s(square, sum))
}
