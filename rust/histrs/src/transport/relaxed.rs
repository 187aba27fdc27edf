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

use pulp::{Simd, WithSimd};

use crate::error::Result;
use crate::memory;
use crate::simd::{AlignedVec, Elementary, dispatch};
use crate::transport::lanes::{Domain, Pairing, Step, stride};
use crate::transport::log_domain::{Exponents, LogSums, Masked, nothing};
use crate::transport::product::padded;
use crate::transport::scaling::Kernel;

/// Most rounds in which the common factor of a partial plan is sought; each fills a bin at least.
const MOST_ROUNDS: usize = 64;

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

/// A kernel of which logarithms of sums are taken.
pub(super) trait LogKernel<T> {
    /// Number of bins of a source and of a target.
    fn shape(&self) -> (usize, usize);

    /// `out = log sum exp(values - M / reg)` over the bins of the other side, in every lane; at most
    /// [`unreached`] where every cell is forbidden, and NaN where the range of numbers ran out.
    fn log_sums(&self, side: Side, values: &[T], work: &mut Work<T>, stride: usize, width: usize);
}

/// Of which bins the sums are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Target,
}

/// Where sums are computed; the result is in `sums`.
pub(super) struct Work<T> {
    sums: AlignedVec<T>,
    weights: AlignedVec<T>,
    largest: Vec<T>,
}

/// Sums below are of forbidden cells.
fn unreached<T: Elementary>() -> T {
    T::from_f64(0.5 * nothing::<T>().to_f64())
}

impl LogKernel<f64> for Exponents {
    fn shape(&self) -> (usize, usize) {
        (self.n_source, self.n_target)
    }

    fn log_sums(
        &self,
        side: Side,
        values: &[f64],
        work: &mut Work<f64>,
        stride: usize,
        width: usize,
    ) {
        let (matrix, n) = match side {
            Side::Source => (&self.by_source, self.n_source),
            Side::Target => (&self.by_target, self.n_target),
        };
        dispatch(LogSums { matrix, values, out: &mut work.sums[..n * stride], stride, width });
    }
}

impl<T: Elementary> LogKernel<T> for Kernel<T> {
    fn shape(&self) -> (usize, usize) {
        (self.forward.n_rows(), self.forward.n_columns())
    }

    /// Potentials are measured from the largest of their lane, so that they may be of any size.
    fn log_sums(&self, side: Side, values: &[T], work: &mut Work<T>, stride: usize, width: usize) {
        let packed = match side {
            Side::Source => &self.forward,
            Side::Target => &self.backward,
        };
        let Work { sums, weights, largest } = work;
        let n = packed.n_columns() * stride;
        let weights = &mut weights[..n];
        dispatch(Shifted { values: &values[..n], largest, weights, stride, width });
        packed.product(weights, sums, stride, width);
        // No sum is below the least entry of the kernel, unless the cells of the largest are
        // forbidden.
        let least = T::from_f64(if size_of::<T>() < size_of::<f64>() { 1e-18 } else { 1e-140 });
        let sums = &mut sums[..packed.n_rows() * stride];
        dispatch(Logarithms { sums, largest, least, stride, width });
    }
}

/// `weights = exp(values - largest)`.
struct Shifted<'a, T> {
    values: &'a [T],
    largest: &'a mut [T],
    weights: &'a mut [T],
    stride: usize,
    width: usize,
}

impl<T: Elementary> WithSimd for Shifted<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { values, largest, weights, stride, width } = self;
        let largest = &mut largest[..width];
        largest.fill(nothing());
        for values in values.chunks_exact(stride) {
            for (&value, largest) in values.iter().zip(&mut *largest) {
                // NaN is kept: it is to be seen in the sums.
                *largest = if value <= *largest { *largest } else { value };
            }
        }
        for (values, weights) in values.chunks_exact(stride).zip(weights.chunks_exact_mut(stride)) {
            for ((&value, &largest), weight) in values.iter().zip(&*largest).zip(weights) {
                *weight = (value - largest).exp_in_range();
            }
        }
    }
}

/// `sums = log(sums) + largest`.
struct Logarithms<'a, T> {
    sums: &'a mut [T],
    largest: &'a [T],
    least: T,
    stride: usize,
    width: usize,
}

impl<T: Elementary> WithSimd for Logarithms<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { sums, largest, least, stride, width } = self;
        let nan = T::from_f64(f64::NAN);
        for sums in sums.chunks_exact_mut(stride) {
            for (sum, &largest) in sums[..width].iter_mut().zip(largest) {
                let log = sum.ln_of_normal() + largest;
                *sum = if *sum >= least { log } else { nan };
            }
        }
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
        let Step { source, target, potential, residual, plain, errors, stride, width } = step;
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
        let outputs = Outputs { residual, plain, errors: &mut *errors };
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

/// The potential of the target under a penalty, and the mass that this asks for.
struct TargetStep<'a, T> {
    hold: Hold,
    target: &'a [T],
    sums: &'a [T],
    g: &'a mut [T],
    total: &'a mut [T],
    stride: usize,
    width: usize,
}

impl<T: Elementary> WithSimd for TargetStep<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { hold, target, sums, g, total, stride, width } = self;
        let (zero, limit) = (T::default(), unreached::<T>());
        let exponent = T::from_f64(hold.exponent(1));
        let inverse = T::from_f64(hold.inverse_weight(1));
        let total = &mut total[..width];
        total.fill(zero);
        let rows = target.chunks_exact(stride).zip(sums.chunks_exact(stride));
        for ((target, sums), g) in rows.zip(g.chunks_exact_mut(stride)) {
            for (((&b, &sum), g), total) in target.iter().zip(sums).zip(g).zip(&mut *total) {
                let log = b.ln_of_normal();
                // A bin that nothing reaches asks for nothing.
                let own = if sum < limit { zero } else { zero - exponent * sum };
                let wish = b * (zero - own * inverse).exp_in_range();
                let wish = if sum < limit { zero } else { wish };
                *total = *total + if b > zero { wish } else { zero };
                *g = if b > zero { log + own } else { nothing() };
            }
        }
    }
}

/// What a step leaves.
struct Outputs<'a, T> {
    residual: &'a mut [T],
    plain: &'a mut [T],
    errors: &'a mut [T],
}

/// The potential of the source under a penalty.
struct PenaltyStep<'a, T> {
    hold: Hold,
    /// Mass, potential and sums of the source.
    inputs: [&'a [T]; 3],
    totals: &'a mut [Vec<T>; 2],
    shift: &'a mut [T],
    outputs: Outputs<'a, T>,
    relaxation: T,
    is_equal: bool,
    stride: usize,
    width: usize,
}

impl<T: Elementary> WithSimd for PenaltyStep<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { hold, inputs, totals, shift, outputs, relaxation, is_equal, stride, width } =
            self;
        let Outputs { residual, plain, errors } = outputs;
        let (zero, limit) = (T::default(), unreached::<T>());
        let exponent = T::from_f64(hold.exponent(0));
        let inverse = T::from_f64(hold.inverse_weight(0));
        let [own, other] = totals;
        let own = &mut own[..width];
        own.fill(zero);
        let rows = |x: &'_ [T], at: usize| -> std::ops::Range<usize> {
            debug_assert!(at + width <= x.len());
            at..at + width
        };
        for at in (0..inputs[0].len()).step_by(stride) {
            let row = rows(inputs[0], at);
            let [source, f, sums] = inputs.map(|x| &x[row.clone()]);
            let lanes = source.iter().zip(f).zip(sums);
            for ((((&a, &f), &sum), own), error) in lanes.zip(&mut *own).zip(&mut *errors) {
                let wish = a * ((a.ln_of_normal() - f) * inverse).exp_in_range();
                let wish = if sum < limit { zero } else { wish };
                let mass = if sum < limit { zero } else { (f + sum).exp_in_range() };
                *own = *own + if a > zero { wish } else { zero };
                *error = *error + if a > zero { (mass - wish).abs() } else { zero };
            }
        }
        let leverage = T::from_f64(if is_equal { 0.0 } else { hold.leverage() });
        let extreme = if size_of::<T>() < size_of::<f64>() { 1e30 } else { 1e300 };
        let log = |x: T| {
            let x = if x > T::from_f64(extreme) { T::from_f64(extreme) } else { x };
            let x = if x < T::from_f64(1.0 / extreme) { T::from_f64(1.0 / extreme) } else { x };
            x.ln_of_normal()
        };
        for ((shift, &own), &other) in shift[..width].iter_mut().zip(&*own).zip(&*other) {
            *shift = if is_equal { zero } else { leverage * (log(own) - log(other)) };
        }
        for at in (0..inputs[0].len()).step_by(stride) {
            let row = rows(inputs[0], at);
            let [source, f, sums] = inputs.map(|x| &x[row.clone()]);
            let lanes = source.iter().zip(f).zip(sums).zip(&*shift);
            let outputs = residual[row.clone()].iter_mut().zip(&mut plain[row]);
            for ((((&a, &f), &sum), &shift), (residual, plain)) in lanes.zip(outputs) {
                let present = f - a.ln_of_normal();
                let next = if sum < limit { zero } else { exponent * (shift - sum) };
                let difference = (next - present) * relaxation;
                *residual = if a > zero { difference } else { zero };
                *plain = if a > zero { f + difference } else { zero };
            }
        }
    }
}

/// The logarithm `open` of the common factor of a partial plan: the row sums `exp(open + sums)`, cut at
/// the marginal, add up to 1. A row is full where `open` is above its `limits`.
struct Fill<'a, T> {
    mass: &'a [T],
    sums: &'a [T],
    limits: &'a mut [T],
    open: &'a mut [T],
    stride: usize,
    width: usize,
}

impl<T: Elementary> WithSimd for Fill<'_, T> {
    type Output = ();

    /// Newton's method for the factor, in which the total is increasing and concave, from the left: no
    /// step goes too far, and each ends past a corner at least. What is rounded up to the least
    /// number makes steps shorter only.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { mass, sums, limits, open, stride, width } = self;
        let (zero, one) = (T::default(), T::from_f64(1.0));
        let (limits, open) = (&mut limits[..mass.len()], &mut open[..width]);
        let mut totals = vec![[zero; 2]; width];
        open.fill(nothing());
        let lanes = mass.chunks_exact(stride).zip(sums.chunks_exact(stride));
        for ((mass, sums), limits) in lanes.clone().zip(limits.chunks_exact_mut(stride)) {
            let lanes = mass[..width].iter().zip(sums).zip(limits).zip(&mut *open);
            for (((&a, &sum), limit), open) in lanes {
                *limit = a.ln_of_normal() - sum;
                let larger = if sum <= *open { *open } else { sum };
                *open = if a > zero { larger } else { *open };
            }
        }
        for (mass, sums) in lanes {
            let lanes = mass[..width].iter().zip(sums).zip(&*open).zip(&mut totals);
            for (((&a, &sum), &open), [mass, total]) in lanes {
                let row = (sum - open).exp_in_range();
                *mass = *mass + a;
                *total = *total + if a > zero { row } else { zero };
            }
        }
        // Where all mass moves, no bin waits for the others.
        let whole = T::from_f64(1.0 + 4.0 * T::EPSILON);
        for (open, [mass, total]) in open.iter_mut().zip(&totals) {
            let first = zero - *open - total.ln_of_normal();
            *open = if *mass <= whole { zero - nothing() } else { first };
        }
        for _ in 0..MOST_ROUNDS {
            totals.fill([zero; 2]);
            for (mass, limits) in mass.chunks_exact(stride).zip(limits.chunks_exact(stride)) {
                let lanes = mass[..width].iter().zip(limits).zip(&*open).zip(&mut totals);
                for (((&a, &limit), &open), [full, part]) in lanes {
                    let share = a * (open - limit).exp_in_range();
                    let is_full = limit <= open || a <= zero;
                    *full = *full + if is_full { a } else { zero };
                    *part = *part + if is_full { zero } else { share };
                }
            }
            let mut moved = false;
            for (open, &[full, part]) in open.iter_mut().zip(&totals) {
                let rest = one - full;
                let next = *open + (rest / part).ln_of_normal();
                let is_better = part > zero && rest > zero && next > *open;
                moved |= is_better;
                *open = if is_better { next } else { *open };
            }
            if !moved {
                break;
            }
        }
    }
}

/// The potential of the target of a partial plan.
struct FilledPotential<'a, T> {
    target: &'a [T],
    limits: &'a [T],
    open: &'a [T],
    g: &'a mut [T],
    stride: usize,
    width: usize,
}

impl<T: Elementary> WithSimd for FilledPotential<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { target, limits, open, g, stride, width } = self;
        let rows = target.chunks_exact(stride).zip(limits.chunks_exact(stride));
        for ((target, limits), g) in rows.zip(g.chunks_exact_mut(stride)) {
            let lanes = target[..width].iter().zip(limits).zip(open);
            for (((&b, &limit), &open), g) in lanes.zip(g) {
                let next = if limit <= open { limit } else { open };
                *g = if b > T::default() { next } else { nothing() };
            }
        }
    }
}

/// The potential of the source of a partial plan.
struct MassStep<'a, T> {
    /// Mass, potential, sums and limits of the source.
    inputs: [&'a [T]; 4],
    open: &'a [T],
    outputs: Outputs<'a, T>,
    stride: usize,
    width: usize,
}

impl<T: Elementary> WithSimd for MassStep<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { inputs, open, outputs, stride, width } = self;
        let Outputs { residual, plain, errors } = outputs;
        let zero = T::default();
        for at in (0..inputs[0].len()).step_by(stride) {
            let row = at..at + width;
            let [source, f, sums, limits] = inputs.map(|x| &x[row.clone()]);
            let lanes = source.iter().zip(f).zip(sums).zip(limits).zip(open);
            let outputs = residual[row.clone()].iter_mut().zip(&mut plain[row]).zip(&mut *errors);
            for (((((&a, &f), &sum), &limit), &open), ((residual, plain), error)) in
                lanes.zip(outputs)
            {
                let is_full = limit <= open;
                let share = a * (open - limit).exp_in_range();
                let wish = if is_full { a } else { share };
                let mass = (f + sum).exp_in_range();
                let next = if is_full { limit } else { open };
                *error = *error + if a > zero { (mass - wish).abs() } else { zero };
                *residual = if a > zero { next - f } else { zero };
                *plain = if a > zero { next } else { zero };
            }
        }
    }
}
