//! The matrices whose columns are lanes: histograms and potentials of pairs that are solved side by
//! side.

use crate::error::Result;
use crate::memory;
use crate::simd::{AlignedVec, Elementary};
use crate::transport::job::Job;
use crate::transport::mixing::{Mixing, relocate};
use crate::transport::step::Step;

/// Bytes of a row of lanes: the kernel is read once for as many pairs.
const ROW_BYTES: usize = 256;

/// Number of lanes for numbers of this type.
pub(super) fn stride<T>() -> usize {
    ROW_BYTES / size_of::<T>()
}

/// Histograms and potentials, a column per lane.
pub(super) struct Lanes<T> {
    stride: usize,
    source: AlignedVec<T>,
    target: AlignedVec<T>,
    /// Logarithm of the scaling of the source, from which the next step is.
    potential: AlignedVec<T>,
    residual: AlignedVec<T>,
    /// The potential after an unaccelerated step, now and before.
    unaccelerated: AlignedVec<T>,
    unaccelerated_before: AlignedVec<T>,
    errors: Vec<T>,
}

impl<T: Elementary> Lanes<T> {
    /// Empty lanes, for so many bins of a source and of a target.
    pub(super) fn new((n_source, n_target): (usize, usize)) -> Result<Self> {
        let stride = stride::<T>();
        let zeros = || AlignedVec::zeros(n_source * stride);
        Ok(Self {
            stride,
            source: zeros()?,
            target: AlignedVec::zeros(n_target * stride)?,
            potential: zeros()?,
            residual: zeros()?,
            unaccelerated: zeros()?,
            unaccelerated_before: zeros()?,
            errors: memory::filled(T::default(), stride)?,
        })
    }

    /// L1 error of the marginal of the source at the last step.
    pub(super) fn error(&self, lane: usize) -> f64 {
        self.errors[lane].to_f64()
    }

    /// Puts both histograms of a pair into a lane, and the potential that it starts from.
    pub(super) fn load(&mut self, lane: usize, job: &Job, [source, target]: [&[f64]; 2]) {
        let [of_source, of_target] = job.masses.unwrap_or([1.0; 2]);
        let stride = self.stride;
        let fill = |rows: &mut [T], values: &mut dyn Iterator<Item = f64>| {
            for (x, value) in rows[lane..].iter_mut().step_by(stride).zip(values) {
                *x = T::from_f64(value);
            }
        };
        fill(&mut self.source, &mut source.iter().map(|a| a * of_source));
        fill(&mut self.target, &mut target.iter().map(|b| b * of_target));
        for array in [&mut self.potential, &mut self.unaccelerated_before] {
            if job.start.is_empty() {
                fill(array, &mut std::iter::repeat_n(0.0, source.len()));
            } else {
                fill(array, &mut job.start.iter().copied());
            }
        }
    }

    /// A lane without mass meets no numbers out of range.
    pub(super) fn empty(&mut self, lane: usize) {
        for array in [&mut self.source, &mut self.target, &mut self.potential] {
            array[lane..].iter_mut().step_by(self.stride).for_each(|x| *x = T::default());
        }
    }

    /// Moves a pair to another lane.
    pub(super) fn relocate(&mut self, from: usize, to: usize) {
        let arrays = [
            &mut self.source,
            &mut self.target,
            &mut self.potential,
            &mut self.unaccelerated_before,
        ];
        for array in arrays {
            relocate(array, self.stride, from, to);
        }
    }

    /// What the next step of the first `width` lanes reads and writes.
    pub(super) fn next_step(&mut self, width: usize) -> Step<'_, T> {
        self.errors.fill(T::default());
        Step {
            source: &self.source,
            target: &self.target,
            potential: &self.potential,
            residual: &mut self.residual,
            unaccelerated: &mut self.unaccelerated,
            errors: &mut self.errors,
            stride: self.stride,
            width,
        }
    }

    /// Makes the next potential of the last step and those before.
    pub(super) fn accelerate(&mut self, mixing: &mut Mixing<T>, width: usize) {
        mixing.mix(
            &self.source,
            &self.residual,
            &self.unaccelerated_before,
            &self.unaccelerated,
            &mut self.potential,
            width,
        );
    }

    /// Returns to the unaccelerated step before, which cannot raise the error.
    pub(super) fn take_back(&mut self, lane: usize) {
        for row in (lane..self.potential.len()).step_by(self.stride) {
            self.potential[row] = self.unaccelerated_before[row];
            self.unaccelerated[row] = self.unaccelerated_before[row];
        }
    }

    /// Makes the next potential of the last step alone.
    pub(super) fn take_unaccelerated(&mut self, lane: usize) {
        for row in (lane..self.potential.len()).step_by(self.stride) {
            self.potential[row] = self.unaccelerated[row];
        }
    }

    /// Keeps the unaccelerated potentials as those before the next step.
    pub(super) fn remember_unaccelerated(&mut self) {
        std::mem::swap(&mut self.unaccelerated, &mut self.unaccelerated_before);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_loaded_moved_and_emptied_in_its_own_lane() {
        let mut lanes = Lanes::<f64>::new((2, 3)).unwrap();
        let stride = stride::<f64>();
        let job = Job { start: vec![0.5, -0.5], masses: Some([2.0, 4.0]), ..Job::default() };
        lanes.load(3, &job, [&[0.25, 0.75], &[0.5, 0.25, 0.25]]);
        lanes.relocate(3, 1);
        lanes.empty(3);
        let step = lanes.next_step(stride);
        let column = |rows: &[f64], lane: usize| -> Vec<f64> {
            rows.iter().skip(lane).step_by(stride).copied().collect()
        };
        assert_eq!(column(step.source, 1), [0.5, 1.5]);
        assert_eq!(column(step.target, 1), [2.0, 1.0, 1.0]);
        assert_eq!(column(step.potential, 1), [0.5, -0.5]);
        for lane in (0..stride).filter(|&lane| lane != 1) {
            assert!(column(step.source, lane).iter().all(|&x| x == 0.0), "{lane}");
            assert!(column(step.target, lane).iter().all(|&x| x == 0.0), "{lane}");
        }
    }
}
