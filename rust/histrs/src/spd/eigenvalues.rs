//! Eigenvalues of symmetric tridiagonal matrices, in all lanes.

use pulp::Simd;

use crate::spd::lanes::LaneValues;

/// Sweeps after which an eigenvalue is given up; it takes two or three.
const MAX_SWEEPS: usize = 60;

/// The rational QL iteration of Pal, Walker and Kahan, which needs no square roots in its inner
/// loop: `diagonal` becomes the eigenvalues, in no order. `couplings[i]` is the square of the
/// entry between rows `i` and `i + 1`. Returns the lanes that converged.
///
/// All lanes take the same sweeps; a lane that is ready waits, unchanged.
///
/// Source: B. N. Parlett, *The symmetric eigenvalue problem*, SIAM 1998, section 8.15.
#[inline(always)]
pub(crate) fn tridiagonal_eigenvalues<S: Simd>(
    diagonal: &mut [f64],
    couplings: &mut [f64],
) -> [bool; 8] {
    let p = diagonal.len() / S::F64_LANES;
    let mut converged = [true; 8];
    for first in 0..p.saturating_sub(1) {
        let mut active = [true; 8];
        for _ in 0..MAX_SWEEPS {
            for lane in 0..S::F64_LANES {
                let (at, below) = (first * S::F64_LANES + lane, (first + 1) * S::F64_LANES + lane);
                let size = f64::EPSILON * f64::EPSILON * (diagonal[at] * diagonal[below]).abs();
                active[lane] = couplings[at] > size + f64::MIN_POSITIVE;
            }
            if active[..S::F64_LANES].iter().all(|active| !active) {
                break;
            }
            sweep::<S>(first, active, diagonal, couplings);
        }
        for lane in 0..S::F64_LANES {
            converged[lane] &= !active[lane];
        }
    }
    converged
}

/// One QL sweep from the last row up to row `first` in the active lanes.
#[inline(always)]
fn sweep<S: Simd>(first: usize, active: [bool; 8], diagonal: &mut [f64], couplings: &mut [f64]) {
    let lanes = S::F64_LANES;
    let p = diagonal.len() / lanes;
    let mut sigma = LaneValues::default();
    let mut gamma = LaneValues::default();
    let mut product = LaneValues::default();
    let mut cosine = [1.0; 8];
    let mut sine = LaneValues::default();
    for lane in 0..lanes {
        sigma[lane] = wilkinson_shift(
            diagonal[first * lanes + lane],
            diagonal[(first + 1) * lanes + lane],
            couplings[first * lanes + lane],
        );
        gamma[lane] = diagonal[(p - 1) * lanes + lane] - sigma[lane];
        product[lane] = gamma[lane] * gamma[lane];
    }
    for i in (first..p - 1).rev() {
        let (own, below) = diagonal[i * lanes..(i + 2) * lanes].split_at_mut(lanes);
        let (coupling, after) = couplings[i * lanes..].split_at_mut(lanes);
        for lane in 0..lanes {
            let square = coupling[lane];
            let r = product[lane] + square;
            if i + 2 < p {
                let value = sine[lane] * r;
                after[lane] = if active[lane] { value } else { after[lane] };
            }
            let old_cosine = cosine[lane];
            let inverse = 1.0 / r;
            cosine[lane] = if r > 0.0 { product[lane] * inverse } else { 1.0 };
            sine[lane] = if r > 0.0 { square * inverse } else { 0.0 };
            let old_gamma = gamma[lane];
            gamma[lane] = cosine[lane] * (own[lane] - sigma[lane]) - sine[lane] * old_gamma;
            let value = old_gamma + (own[lane] - gamma[lane]);
            below[lane] = if active[lane] { value } else { below[lane] };
            let ratio = gamma[lane] * gamma[lane] / cosine[lane];
            product[lane] = if cosine[lane] == 0.0 { old_cosine * square } else { ratio };
        }
    }
    for lane in 0..lanes {
        let at = first * lanes + lane;
        let (coupling, value) = (sine[lane] * product[lane], sigma[lane] + gamma[lane]);
        couplings[at] = if active[lane] { coupling } else { couplings[at] };
        diagonal[at] = if active[lane] { value } else { diagonal[at] };
    }
}

/// The eigenvalue of `[[a, e], [e, b]]` that is closer to `a`, where `square = e^2`.
#[inline(always)]
fn wilkinson_shift(a: f64, b: f64, square: f64) -> f64 {
    let half = 0.5 * (b - a);
    let root = (half * half + square).sqrt();
    a - square / (half + root.copysign(half))
}
