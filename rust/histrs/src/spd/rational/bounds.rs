//! Bounds of the eigenvalues of tridiagonal matrices, in all lanes.

use pulp::Simd;

use crate::spd::lanes::{LaneValues, MAX_LANES};
use crate::spd::rational::approximations::{APPROXIMATIONS, Approximation};

/// What is known of the eigenvalues of the matrix of each lane.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Not less than the largest.
    largest: LaneValues,
    /// The first approximation that reaches down to the smallest.
    indices: [usize; MAX_LANES],
}

impl Bounds {
    /// Lanes whose condition is too large, or that are not positive definite.
    pub(crate) fn is_beyond(&self, lane: usize) -> bool {
        self.indices[lane] >= APPROXIMATIONS.len()
    }

    /// The first approximation that reaches down to the smallest, if any does, and what the largest is
    /// not above.
    pub(super) fn approximation(&self, lane: usize) -> Option<(&'static Approximation, f64)> {
        APPROXIMATIONS.get(self.indices[lane]).map(|found| (found, self.largest[lane]))
    }

    /// The logarithm of the root of what bounds the condition.
    pub(crate) fn spread(&self, lane: usize) -> f64 {
        0.5 * self.approximation(lane).map_or(f64::INFINITY, |(a, _)| a.condition.ln())
    }
}

/// Bounds of the eigenvalues: discs hold the largest, and pivots are positive for shifts that are
/// smaller than the smallest.
#[inline(always)]
pub(crate) fn bounds<S: Simd>(simd: S, diagonal: &[S::f64s], off: &[S::f64s]) -> Bounds {
    const N: usize = APPROXIMATIONS.len();
    let p = diagonal.len();
    let zero = simd.splat_f64s(0.0);
    let (mut largest, mut before) = (zero, zero);
    for i in 0..p {
        let after = if i + 1 < p { simd.abs_f64s(off[i]) } else { zero };
        let disc = simd.add_f64s(diagonal[i], simd.add_f64s(before, after));
        largest = simd.max_f64s(largest, disc);
        before = after;
    }
    // No closures: what they call is not compiled for the instruction set.
    let (mut shifts, mut pivots) = ([zero; N], [zero; N]);
    for k in 0..N {
        let part = simd.splat_f64s(1.0 / APPROXIMATIONS[k].condition);
        shifts[k] = simd.mul_f64s(largest, part);
        pivots[k] = simd.sub_f64s(diagonal[0], shifts[k]);
    }
    // Comparisons, of which those with NaN are false.
    let mut positive = [simd.splat_f64s(1.0); N];
    for k in 0..N {
        let above = simd.less_than_f64s(zero, pivots[k]);
        positive[k] = simd.select_f64s(above, positive[k], zero);
    }
    for i in 1..p {
        let square = simd.mul_f64s(off[i - 1], off[i - 1]);
        for k in 0..N {
            let entry = simd.sub_f64s(diagonal[i], shifts[k]);
            pivots[k] = simd.sub_f64s(entry, simd.div_f64s(square, pivots[k]));
            let above = simd.less_than_f64s(zero, pivots[k]);
            positive[k] = simd.select_f64s(above, positive[k], zero);
        }
    }
    let mut found = Bounds { largest: LaneValues::default(), indices: [N; MAX_LANES] };
    let largest: &[f64] = pulp::bytemuck::cast_slice(core::slice::from_ref(&largest));
    found.largest[..S::F64_LANES].copy_from_slice(largest);
    for (k, positive) in positive.iter().enumerate().rev() {
        let positive: &[f64] = pulp::bytemuck::cast_slice(core::slice::from_ref(positive));
        for lane in 0..S::F64_LANES {
            if positive[lane] > 0.0 && largest[lane] < f64::INFINITY {
                found.indices[lane] = k;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eigenvalues_of_second_differences_are_within() {
        for p in [1_usize, 2, 3, 4, 9] {
            for shift in [1e-3, 0.1, 10.0] {
                let mut off = vec![1.0; p];
                off[p - 1] = 0.0;
                let found = bounds(pulp::Scalar, &vec![2.0 + shift; p], &off);
                let (approximation, largest) = found.approximation(0).unwrap();
                let cos = (std::f64::consts::PI / (p + 1) as f64).cos();
                assert!(
                    2.0 + shift + 2.0 * cos <= largest * (1.0 + 1e-14),
                    "{p} {shift} {largest}"
                );
                assert!(2.0 + shift - 2.0 * cos >= largest / approximation.condition);
                assert_eq!(found.spread(0), 0.5 * approximation.condition.ln());
            }
        }
    }
}
