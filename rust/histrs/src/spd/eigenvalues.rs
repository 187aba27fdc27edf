//! Eigenvalues of symmetric tridiagonal matrices, in all lanes.

use pulp::Simd;

use crate::spd::lanes::minus;

/// Sweeps after which an eigenvalue is given up; it takes two or three.
const MAX_SWEEPS: usize = 60;

/// The rational QL iteration of Pal, Walker and Kahan, which needs no square roots in its inner
/// loop: `diagonal` becomes the eigenvalues, in no order. Entry `i` of `squared_off_diagonal` is the
/// square of the entry between rows `i` and `i + 1`. Returns the lanes that converged; what is not
/// finite may be among them, and ends as NaN.
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

#[cfg(test)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::simd::{AlignedVec, dispatch};
    use crate::spd::lanes::vectors_mut;

    /// Of lane `l` the diagonal and off-diagonal entries, and the eigenvalues if all went well.
    struct Solve<'a> {
        p: usize,
        entries: &'a dyn Fn(usize, usize) -> (f64, f64),
    }

    impl WithSimd for Solve<'_> {
        type Output = Vec<Option<Vec<f64>>>;

        fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
            let (p, lanes) = (self.p, S::F64_LANES);
            let mut buffer = AlignedVec::zeros(2 * p * lanes).unwrap();
            for i in 0..p {
                for lane in 0..lanes {
                    let (diagonal, off) = (self.entries)(lane, i);
                    buffer[i * lanes + lane] = diagonal;
                    buffer[(p + i) * lanes + lane] = off * off;
                }
            }
            let (diagonal, off) = vectors_mut::<S>(&mut buffer).split_at_mut(p);
            let converged = tridiagonal_eigenvalues(simd, diagonal, off);
            (0..lanes)
                .map(|lane| {
                    let mut values: Vec<f64> = (0..p).map(|i| buffer[i * lanes + lane]).collect();
                    values.sort_by(f64::total_cmp);
                    converged[lane].then_some(values)
                })
                .collect()
        }
    }

    /// Lanes in other units, one of which is diagonal from the start.
    #[test]
    fn second_differences_have_the_eigenvalues_of_sines() {
        for p in [1_usize, 2, 3, 4, 7, 20] {
            let unit = |lane: usize| [1.0, 1e-9, 1e12, 3.0][lane % 4];
            let entries = |lane: usize, i: usize| {
                let off = if lane == 3 { 0.0 } else { -unit(lane) };
                (if lane == 3 { i as f64 } else { 2.0 * unit(lane) }, off)
            };
            for (lane, found) in dispatch(Solve { p, entries: &entries }).into_iter().enumerate() {
                let found = found.unwrap();
                for (k, found) in found.into_iter().enumerate() {
                    let angle = std::f64::consts::PI * (k + 1) as f64 / (2 * (p + 1)) as f64;
                    let want = if lane == 3 { k as f64 } else { 4.0 * angle.sin().powi(2) };
                    let want = if lane == 3 { want } else { want * unit(lane) };
                    let size = if lane == 3 { p as f64 } else { 4.0 * unit(lane) };
                    assert!((found - want).abs() <= 1e-14 * size, "{p} {lane} {found} {want}");
                }
            }
        }
    }

    #[test]
    fn a_lane_that_is_not_finite_disturbs_no_other() {
        let entries = |lane: usize, i: usize| {
            (2.0 + i as f64, if lane == 0 && i == 1 { f64::INFINITY } else { 1.0 })
        };
        let found = dispatch(Solve { p: 4, entries: &entries });
        let alone = dispatch(Solve { p: 4, entries: &|_, i| entries(1, i) });
        assert!(found[0].as_ref().is_none_or(|values| values.iter().any(|value| value.is_nan())));
        assert_eq!(found[1..], alone[1..]);
    }
}
