//! Sinkhorn's scaling where the marginals are not kept: a step, in every domain.
//!
//! Sources: L. Chizat, G. Peyre, B. Schmitzer and F.-X. Vialard, *Scaling algorithms for unbalanced
//! optimal transport problems*, Mathematics of Computation 87, 2018; J.-D. Benamou, G. Carlier, M.
//! Cuturi, L. Nenna and G. Peyre, *Iterative Bregman projections for regularized transportation
//! problems*, SIAM J. Sci. Comput. 37, 2015 (section 5); T. Sejourne, F.-X. Vialard and G. Peyre,
//! *Faster unbalanced optimal transport: translation invariant Sinkhorn and 1-D Frank-Wolfe*, AISTATS
//! 2022.
//!
//! The plan is `T_ij = exp(f_i + g_j - M_ij / reg)`, and each half-step maximises the dual over one
//! of the potentials. What the dual gains by moving a constant from one to the other is taken with
//! the second half-step: that direction alone would converge as slowly as the penalty is large. Of a
//! partial plan each half-step is over the dual variable of the mass as well: no sum of a side exceeds
//! its marginal, and all others have one common factor, with which the plan has its mass.

mod log_kernel;
mod partial;
mod penalties;

pub(super) use log_kernel::{Logarithms, Shifted, Side};

use crate::error::Result;
use crate::memory;
use crate::simd::{AlignedVec, Elementary, dispatch};
use crate::transport::job::Pairing;
use crate::transport::lanes::stride;
use crate::transport::log_domain::{Masked, nothing};
use crate::transport::product::padded;
use crate::transport::relaxed::log_kernel::{LogKernel, Work};
use crate::transport::relaxed::partial::{Fill, FilledPotential, MassStep};
use crate::transport::relaxed::penalties::{PenaltyStep, TargetStep};
use crate::transport::step::{Domain, Step};

/// What takes the place of the marginals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Hold {
    /// Divergences from them, with these weights in units of the regularisation; an infinite one
    /// keeps its marginal.
    Penalties([f64; 2]),
    /// Neither is exceeded, and 1 is moved.
    Mass,
}

impl Hold {
    /// What the logarithm of a sum is multiplied by, on either side.
    fn exponent(self, side: usize) -> f64 {
        match self {
            Self::Penalties(weights) => 1.0 / (1.0 + 1.0 / weights[side]),
            Self::Mass => 1.0,
        }
    }

    fn inverse_weight(self, side: usize) -> f64 {
        match self {
            Self::Penalties(weights) => 1.0 / weights[side],
            Self::Mass => 0.0,
        }
    }

    /// How far a constant moves for the logarithm of the ratio of both sides; nowhere, where both
    /// keep their marginals.
    fn leverage(self) -> f64 {
        let sum = self.inverse_weight(0) + self.inverse_weight(1);
        if sum > 0.0 { 1.0 / sum } else { 0.0 }
    }
}

/// Work space of a domain whose plans need not keep the marginals.
pub(super) struct Relaxed<'a, T, K> {
    kernel: &'a K,
    hold: Hold,
    pairing: Pairing,
    f: AlignedVec<T>,
    g: AlignedVec<T>,
    work: Work<T>,
    /// Numbers a lane: what the potentials let either marginal be, and the constant that moves.
    totals: [Vec<T>; 2],
    shift: Vec<T>,
    /// Of a partial plan, the logarithm of the factor at which a bin is full, and of the common one.
    limits: AlignedVec<T>,
    open: Vec<T>,
    kept: Vec<[Vec<f64>; 2]>,
}

impl<'a, T: Elementary, K: LogKernel<T>> Relaxed<'a, T, K> {
    pub(super) fn new(kernel: &'a K, hold: Hold, pairing: Pairing) -> Result<Self> {
        let stride = stride::<T>();
        let (n_source, n_target) = kernel.shape();
        let zeros = |n_rows: usize| AlignedVec::zeros(n_rows * stride);
        let of_lanes = || memory::filled(T::default(), stride);
        let most = padded(n_source.max(n_target));
        let work = Work { sums: zeros(most)?, weights: zeros(most)?, largest: of_lanes()? };
        Ok(Self {
            kernel,
            hold,
            pairing,
            f: zeros(n_source)?,
            g: zeros(n_target)?,
            work,
            totals: [of_lanes()?, of_lanes()?],
            shift: of_lanes()?,
            limits: zeros(n_source.max(n_target))?,
            open: of_lanes()?,
            kept: Vec::new(),
        })
    }
}

impl<T: Elementary, K: LogKernel<T>> Domain<T> for Relaxed<'_, T, K> {
    fn shape(&self) -> (usize, usize) {
        self.kernel.shape()
    }

    fn step(&mut self, step: Step<'_, T>) {
        let Step { source, target, potential, residual, unaccelerated, errors, stride, width } =
            step;
        let Self { kernel, hold, pairing, f, g, work, totals, shift, limits, open, .. } = self;
        let hold = *hold;
        dispatch(Masked { mass: source, values: potential, out: &mut *f, stride, width });
        if *pairing == Pairing::Equal {
            g.copy_from_slice(f);
        } else {
            kernel.log_sums(Side::Target, f, work, stride, width);
            let sums = &work.sums[..target.len()];
            match hold {
                Hold::Penalties(_) => {
                    let total = &mut totals[1];
                    dispatch(TargetStep { hold, target, sums, g, total, stride, width });
                }
                Hold::Mass => {
                    dispatch(Fill { mass: target, sums, limits, open, stride, width });
                    dispatch(FilledPotential { target, limits, open, g, stride, width });
                }
            }
        }
        kernel.log_sums(Side::Source, g, work, stride, width);
        let sums = &work.sums[..source.len()];
        let outputs = Outputs { residual, unaccelerated, errors: &mut *errors };
        match hold {
            Hold::Penalties(_) => {
                let relaxation = T::from_f64(pairing.relaxation());
                let is_equal = *pairing == Pairing::Equal;
                dispatch(PenaltyStep {
                    hold,
                    inputs: [source, f, sums],
                    totals,
                    shift,
                    outputs,
                    relaxation,
                    is_equal,
                    stride,
                    width,
                });
            }
            Hold::Mass => {
                dispatch(Fill { mass: source, sums, limits, open, stride, width });
                let inputs = [source, &f[..], sums, &limits[..source.len()]];
                dispatch(MassStep { inputs, open, outputs, stride, width });
            }
        }
    }

    fn keep(&mut self, lane: usize, slot: usize) {
        let empty = nothing::<T>().to_f64();
        let column = |x: &[T]| -> Vec<f64> {
            let value = |x: &T| match x.to_f64() {
                x if x > empty => x,
                _ => f64::NEG_INFINITY,
            };
            x[lane..].iter().step_by(stride::<T>()).map(value).collect()
        };
        self.kept.truncate(slot);
        self.kept.push([column(&self.f), column(&self.g)]);
    }

    /// The cost is that of the finest kernel, whatever the domain: the caller computes it.
    fn results(&mut self, n: usize) -> Vec<(f64, [Vec<f64>; 2])> {
        self.kept.drain(..).take(n).map(|potentials| (f64::NAN, potentials)).collect()
    }
}

/// What a step leaves.
struct Outputs<'a, T> {
    residual: &'a mut [T],
    unaccelerated: &'a mut [T],
    errors: &'a mut [T],
}
