//! Anderson's acceleration of fixed-point iterations that run side by side, one per lane.
//!
//! Of the last steps `g_t - g_{t-1}` of a map `g` the combination is subtracted that would have
//! made the residual `r = g(f) - f` least, had the map been linear (Anderson 1965; type II). For
//! a linear map this is GMRES; restarts and rejections are the caller's.

use crate::error::Result;
use crate::memory;
use crate::simd::{AlignedVec, Element, Elementary, vectorized};
use crate::transport::normal_equations::{DEPTH, GROUP, solve};

/// Largest entry of a correction: beyond, the linear model that it comes from says nothing.
const LARGEST_CORRECTION: f64 = 2.0;

/// What is remembered of every lane, in rows of `stride` lanes.
pub(super) struct Mixing<T> {
    stride: usize,
    /// Differences of residuals, and of the map's values, by age modulo [`DEPTH`].
    residuals: [AlignedVec<T>; DEPTH],
    steps: [AlignedVec<T>; DEPTH],
    /// Inner products of the differences of residuals, `DEPTH x DEPTH` for each lane.
    gram: Vec<f64>,
    /// The last residual of each lane.
    last: AlignedVec<T>,
    /// 0 where the last residual is of another history, else 1.
    continues: Vec<T>,
    /// How many of the newest steps are of the history of each lane.
    ages: Vec<usize>,
    slot: usize,
}

impl<T: Elementary> Mixing<T> {
    pub(super) fn new(n_rows: usize, stride: usize) -> Result<Self> {
        let zeros = || AlignedVec::<T>::zeros(n_rows * stride);
        let history = || Ok([zeros()?, zeros()?, zeros()?, zeros()?, zeros()?]);
        Ok(Self {
            stride,
            residuals: history()?,
            steps: history()?,
            gram: memory::filled(0.0, DEPTH * DEPTH * stride)?,
            last: zeros()?,
            continues: memory::filled(T::default(), stride)?,
            ages: memory::filled(0, stride)?,
            slot: 0,
        })
    }

    /// Forgets the steps of a lane, which stay where they are until others take their places.
    pub(super) fn restart(&mut self, lane: usize) {
        self.continues[lane] = T::default();
        self.ages[lane] = 0;
    }

    /// As [`Self::restart`], of a lane whose numbers may be out of range: 0 times them is not 0.
    pub(super) fn clear(&mut self, lane: usize) {
        let all = self.residuals.iter_mut().chain(&mut self.steps);
        for history in all.chain(std::iter::once(&mut self.last)) {
            history[lane..].iter_mut().step_by(self.stride).for_each(|x| *x = T::default());
        }
        self.restart(lane);
    }

    /// Moves the memory of a lane to another one.
    pub(super) fn relocate(&mut self, from: usize, to: usize) {
        let stride = self.stride;
        let all = self.residuals.iter_mut().chain(&mut self.steps);
        for history in all.chain(std::iter::once(&mut self.last)) {
            relocate(history, stride, from, to);
        }
        relocate(&mut self.gram, stride, from, to);
        self.continues[to] = self.continues[from];
        self.ages[to] = self.ages[from];
    }

    /// Replaces the map's values `next` in the first `width` lanes by their mixture with earlier
    /// ones. `previous` are the values before, `residual` is `next` less its argument, and inner
    /// products are weighted by `weight`.
    pub(super) fn mix(
        &mut self,
        weight: &[T],
        residual: &[T],
        previous: &[T],
        next: &[T],
        out: &mut [T],
        width: usize,
    ) {
        let slot = self.slot;
        self.slot = (slot + 1) % DEPTH;
        let stride = self.stride;
        let mut right = vec![T::default(); DEPTH * stride];
        let mut products = vec![T::default(); DEPTH * stride];
        remember(self, slot, [weight, residual, previous, next], &mut right, &mut products, width);
        self.continues[..width].fill(T::from_f64(1.0));
        for k in 0..DEPTH {
            let age = (slot + DEPTH - k) % DEPTH;
            for lane in 0..width {
                // What is older than the history of the lane is of another pair.
                let is_own = age < self.ages[lane];
                let at = k * stride + lane;
                let product = if is_own { products[at].to_f64() } else { 0.0 };
                right[at] = if is_own { right[at] } else { T::default() };
                self.gram[(k * DEPTH + slot) * stride + lane] = product;
                self.gram[(slot * DEPTH + k) * stride + lane] = product;
            }
        }
        self.ages[..width].iter_mut().for_each(|age| *age += 1);
        for lane in (0..width).step_by(GROUP) {
            solve::<T>(&self.gram, &mut right, stride, lane);
        }
        let (steps, gamma) = (&self.steps, &right[..]);
        combine(steps, gamma, &mut *out, stride, width);
        let largest = &mut products[..width];
        subtract(next, out, largest, stride);
    }
}

/// Copies a lane in every row.
pub(super) fn relocate<T: Copy>(rows: &mut [T], stride: usize, from: usize, to: usize) {
    for row in rows.chunks_exact_mut(stride) {
        row[to] = row[from];
    }
}

vectorized!(
    /// Stores the newest differences, and takes their inner products.
    fn remember<S: Simd, T: Element>(
        simd: S,
        memory: &mut Mixing<T>,
        slot: usize,
        /// Weight, residual, previous and next values.
        values: [&[T]; 4],
        right: &mut [T],
        products: &mut [T],
        width: usize,
    ) {
        let stride = memory.stride / T::lanes::<S>();
        let [weight, residual, previous, next] = values;
        let (weight, residual) = (T::vectors::<S>(weight).0, T::vectors::<S>(residual).0);
        let (previous, next) = (T::vectors::<S>(previous).0, T::vectors::<S>(next).0);
        let [r0, r1, r2, r3, r4] = &mut memory.residuals;
        let [r0, r1, r2, r3, r4] = [
            T::vectors_mut::<S>(r0).0,
            T::vectors_mut::<S>(r1).0,
            T::vectors_mut::<S>(r2).0,
            T::vectors_mut::<S>(r3).0,
            T::vectors_mut::<S>(r4).0,
        ];
        let steps = T::vectors_mut::<S>(&mut memory.steps[slot]).0;
        let last = T::vectors_mut::<S>(&mut memory.last).0;
        let continues = T::vectors::<S>(&memory.continues).0;
        let right = T::vectors_mut::<S>(right).0;
        let products = T::vectors_mut::<S>(products).0;
        let zero = T::splat(simd, T::default());
        for column in 0..width / T::lanes::<S>() {
            let mut dots = [[zero; 2]; DEPTH];
            let keep = continues[column];
            let mut at = column;
            while at < residual.len() {
                let r = residual[at];
                let weighted = T::mul_add(simd, weight[at], r, zero);
                let difference = T::mul_add(simd, keep, T::sub(simd, r, last[at]), zero);
                let step = T::sub(simd, next[at], previous[at]);
                steps[at] = T::mul_add(simd, keep, step, zero);
                last[at] = r;
                let product = T::mul_add(simd, weight[at], difference, zero);
                match slot {
                    0 => r0[at] = difference,
                    1 => r1[at] = difference,
                    2 => r2[at] = difference,
                    3 => r3[at] = difference,
                    _ => r4[at] = difference,
                }
                let history = [r0[at], r1[at], r2[at], r3[at], r4[at]];
                for (dots, &difference) in dots.iter_mut().zip(&history) {
                    dots[0] = T::mul_add(simd, weighted, difference, dots[0]);
                    dots[1] = T::mul_add(simd, product, difference, dots[1]);
                }
                at += stride;
            }
            for (k, dots) in dots.iter().enumerate() {
                right[k * stride + column] = dots[0];
                products[k * stride + column] = dots[1];
            }
        }
    }
);

vectorized!(
    /// `out = sum_k gamma_k steps_k`.
    fn combine<S: Simd, T: Element>(
        simd: S,
        steps: &[AlignedVec<T>; DEPTH],
        gamma: &[T],
        out: &mut [T],
        stride: usize,
        width: usize,
    ) {
        let (stride, width) = (stride / T::lanes::<S>(), width / T::lanes::<S>());
        let steps = steps.each_ref().map(|steps| T::vectors::<S>(steps).0);
        let gamma = T::vectors::<S>(gamma).0;
        let out = T::vectors_mut::<S>(out).0;
        for column in 0..width {
            let mut at = column;
            while at < out.len() {
                let mut sum = T::splat(simd, T::default());
                for (k, steps) in steps.iter().enumerate() {
                    sum = T::mul_add(simd, gamma[k * stride + column], steps[at], sum);
                }
                out[at] = sum;
                at += stride;
            }
        }
    }
);

vectorized!(
    /// `out = next - out`, where `out` is made shorter if it is too long in a lane.
    fn subtract<T: Elementary>(
        next: &[T],
        out: &mut [T],
        /// Work space, a number per lane.
        largest: &mut [T],
        stride: usize,
    ) {
        let limit = T::from_f64(LARGEST_CORRECTION);
        largest.fill(limit);
        for row in out.chunks_exact(stride) {
            raise(row, largest);
        }
        for factor in largest.iter_mut() {
            *factor = limit / *factor;
        }
        for (next, out) in next.chunks_exact(stride).zip(out.chunks_exact_mut(stride)) {
            subtract_row(next, largest, out);
        }
    }
);

#[inline(always)]
fn raise<T: Elementary>(row: &[T], largest: &mut [T]) {
    for (&x, largest) in row.iter().zip(largest) {
        let size = x.abs();
        *largest = if size > *largest { size } else { *largest };
    }
}

#[inline(always)]
fn subtract_row<T: Elementary>(next: &[T], factor: &[T], out: &mut [T]) {
    for ((&next, &factor), out) in next.iter().zip(factor).zip(out) {
        *out = next - factor * *out;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ROWS: usize = 4;
    const STRIDE: usize = 32;

    /// The affine map of a lane, which has its fixed point at 1.
    fn map(lane: usize, f: &[f64]) -> Vec<f64> {
        let shrink = |k: usize| 0.97 - 0.2 * k as f64 - 0.001 * lane as f64;
        f.iter().enumerate().map(|(k, f)| 1.0 + shrink(k) * (f - 1.0)).collect()
    }

    /// The largest distance from the fixed point after so many steps of all lanes.
    fn distance(n_steps: usize, mut forget: impl FnMut(&mut Mixing<f64>, usize)) -> f64 {
        let mut mixing = Mixing::<f64>::new(ROWS, STRIDE).unwrap();
        let zeros = || AlignedVec::<f64>::zeros(ROWS * STRIDE).unwrap();
        let (mut f, mut weight, mut previous) = (zeros(), zeros(), zeros());
        weight.fill(1.0);
        for step in 0..n_steps {
            let (mut next, mut residual) = (zeros(), zeros());
            for lane in 0..STRIDE {
                let column: Vec<f64> = (0..ROWS).map(|k| f[k * STRIDE + lane]).collect();
                for (k, g) in map(lane, &column).into_iter().enumerate() {
                    next[k * STRIDE + lane] = g;
                    residual[k * STRIDE + lane] = g - column[k];
                }
            }
            forget(&mut mixing, step);
            mixing.mix(&weight, &residual, &previous, &next, &mut f, STRIDE);
            previous = next;
        }
        f.iter().fold(0.0, |most, f| f64::max(most, (f - 1.0).abs()))
    }

    #[test]
    fn a_linear_map_of_few_dimensions_is_solved_in_as_many_steps() {
        assert!(distance(ROWS + 2, |_, _| ()) < 1e-6);
        // Without a history of a step or more there is nothing to gain.
        assert!(distance(ROWS + 2, |mixing, _| (0..STRIDE).for_each(|l| mixing.clear(l))) > 0.1);
    }

    #[test]
    fn a_lane_takes_its_history_along() {
        let mut mixing = Mixing::<f64>::new(2, STRIDE).unwrap();
        mixing.residuals[3][STRIDE + 1] = 7.0;
        mixing.last[1] = 5.0;
        mixing.gram[2 * STRIDE + 1] = 3.0;
        mixing.ages[1] = 2;
        mixing.continues[1] = 1.0;
        mixing.relocate(1, 20);
        assert_eq!(mixing.residuals[3][STRIDE + 20], 7.0);
        assert_eq!((mixing.last[20], mixing.gram[2 * STRIDE + 20]), (5.0, 3.0));
        assert_eq!((mixing.ages[20], mixing.continues[20]), (2, 1.0));
    }
}
