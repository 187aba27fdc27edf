//! Sinkhorn's scaling by logarithms, whether the marginals are kept or not: a step, in every domain.
//!
//! Sources: L. Chizat, G. Peyre, B. Schmitzer and F.-X. Vialard, *Scaling algorithms for unbalanced
//! optimal transport problems*, Mathematics of Computation 87, 2018. J.-D. Benamou, G. Carlier, M.
//! Cuturi, L. Nenna and G. Peyre, *Iterative Bregman projections for regularized transportation
//! problems*, SIAM J. Sci. Comput. 37, 2015 (section 5). T. Sejourne, F.-X. Vialard and G. Peyre,
//! *Faster unbalanced optimal transport: translation invariant Sinkhorn and 1-D Frank-Wolfe*, AISTATS
//! 2022.
//!
//! The plan is `T_ij = exp(f_i + g_j - M_ij / reg)`, and each half-step maximises the dual over one
//! of the potentials. The second half-step also moves the best constant from one potential to the
//! other: that direction alone would converge slowly if the penalty is large. For a partial plan,
//! each half-step is over the dual variable of the mass as well. No sum of a side exceeds its
//! marginal, and all others have one common factor, with which the plan has its mass.

mod log_kernel;
mod marginals;
mod partial;
mod penalties;

use crate::error::Result;
use crate::memory;
use crate::simd::{AlignedVec, Elementary, dispatch};
use crate::transport::job::Pairing;
use crate::transport::lanes::stride;
use crate::transport::log_domain::mask;
use crate::transport::product::padded;
use crate::transport::range::{Side, nothing};
use crate::transport::relaxed::log_kernel::{LogKernel, Work};
use crate::transport::relaxed::marginals::{log_ratio, log_residual};
use crate::transport::relaxed::partial::{fill, filled_potential, mass_step};
use crate::transport::relaxed::penalties::{PenaltyStep, target_step};
use crate::transport::step::{Domain, Step};

/// What the marginals of a plan are held to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Hold {
    /// Both are kept.
    Marginals,
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
            Self::Marginals | Self::Mass => 1.0,
        }
    }

    fn inverse_weight(self, side: usize) -> f64 {
        match self {
            Self::Penalties(weights) => 1.0 / weights[side],
            Self::Marginals | Self::Mass => 0.0,
        }
    }

    /// One over both penalties, 0 of a marginal that is kept; none of a partial plan.
    pub(super) fn inverse_weights(self) -> Option<[f64; 2]> {
        (self != Self::Mass).then(|| [0, 1].map(|side| self.inverse_weight(side)))
    }

    /// Whether a pair of one histogram twice has equal potentials.
    pub(super) fn is_even(self) -> bool {
        match self {
            Self::Marginals => true,
            Self::Penalties([p, q]) => p == q,
            Self::Mass => false,
        }
    }

    /// How far a constant moves for the logarithm of the ratio of both sides; nowhere, where both
    /// keep their marginals.
    fn leverage(self) -> f64 {
        let sum = self.inverse_weight(0) + self.inverse_weight(1);
        if sum > 0.0 { 1.0 / sum } else { 0.0 }
    }
}

/// Work space of the domain of logarithms.
pub(super) struct LogDomain<'a, T, K> {
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

impl<'a, T: Elementary, K: LogKernel<T>> LogDomain<'a, T, K> {
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

impl<T: Elementary, K: LogKernel<T>> Domain<T> for LogDomain<'_, T, K> {
    fn shape(&self) -> (usize, usize) {
        self.kernel.shape()
    }

    fn step(&mut self, step: Step<'_, T>) {
        let Step { source, target, potential, residual, unaccelerated, errors, stride, width } =
            step;
        let Self { kernel, hold, pairing, f, g, work, totals, shift, limits, open, .. } = self;
        let hold = *hold;
        mask(source, potential, &mut *f, stride, width);
        if *pairing == Pairing::Equal {
            g.copy_from_slice(f);
        } else {
            kernel.log_sums(Side::Target, f, work, stride, width);
            let sums = &work.sums[..target.len()];
            match hold {
                Hold::Marginals => log_ratio(target, sums, g, stride, width),
                Hold::Penalties(_) => {
                    let total = &mut totals[1];
                    target_step(hold, target, sums, g, total, stride, width);
                }
                Hold::Mass => {
                    fill(target, sums, limits, open, stride, width);
                    filled_potential(target, limits, open, g, stride, width);
                }
            }
        }
        kernel.log_sums(Side::Source, g, work, stride, width);
        let sums = &work.sums[..source.len()];
        let outputs = Outputs { residual, unaccelerated, errors: &mut *errors };
        let relaxation = T::from_f64(pairing.relaxation());
        match hold {
            Hold::Marginals => {
                log_residual([source, f, sums], outputs, relaxation, stride, width);
            }
            Hold::Penalties(_) => {
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
                fill(source, sums, limits, open, stride, width);
                let inputs = [source, &f[..], sums, &limits[..source.len()]];
                mass_step(inputs, open, outputs, stride, width);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::transport::engine::GROUP;
    use crate::transport::log_domain::{Axis, Exponents};
    use crate::transport::product::Packed;
    use crate::transport::range::FORBIDDEN;
    use crate::transport::scaling::Kernel;

    /// One lane of a step, in double precision.
    struct Lane {
        a: Vec<f64>,
        b: Vec<f64>,
        f: Vec<f64>,
    }

    /// What a step finds: residual, the next potential, error, and the potential of the target.
    struct Found {
        residual: Vec<f64>,
        next: Vec<f64>,
        error: f64,
        g: Vec<f64>,
    }

    /// `log sum exp`; minus infinity of nothing.
    fn log_sum(terms: impl Iterator<Item = f64> + Clone) -> f64 {
        let largest = terms.clone().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = terms.map(|term| (term - largest).exp()).sum();
        if largest > -1e299 { largest + sum.ln() } else { f64::NEG_INFINITY }
    }

    /// Logarithms of the sums over the bins of the other side; `cost(i, j)` of bins of both.
    fn log_sums(n: usize, other: &[f64], cost: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        (0..n).map(|i| log_sum(other.iter().enumerate().map(|(j, g)| g - cost(i, j)))).collect()
    }

    /// The factor with which `sum_i min(mass_i, exp(open + sums_i))` is 1, by bisection; infinity
    /// where all has to move.
    fn open(mass: &[f64], sums: &[f64]) -> f64 {
        if mass.iter().sum::<f64>() <= 1.0 + 1e-6 {
            return f64::INFINITY;
        }
        let (mut low, mut high) = (-2000.0, 2000.0);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            let moved: f64 = mass.iter().zip(sums).map(|(a, s)| a.min((middle + s).exp())).sum();
            if moved < 1.0 { low = middle } else { high = middle }
        }
        low
    }

    /// The potential that is best under a penalty of weight `w`, with a constant that is moved.
    fn best(mass: &[f64], sums: &[f64], w: f64, shift: f64) -> Vec<f64> {
        let exponent = if w.is_finite() { w / (1.0 + w) } else { 1.0 };
        let bin = |(mass, sum): (&f64, &f64)| match *sum {
            f64::NEG_INFINITY => mass.ln(),
            sum => mass.ln() + exponent * (shift - sum),
        };
        mass.iter().zip(sums).map(bin).collect()
    }

    /// What a side of a penalty of weight `w` would hold at its potential.
    fn wishes(mass: &[f64], potential: &[f64], sums: &[f64], w: f64) -> Vec<f64> {
        let bins = mass.iter().zip(potential).zip(sums);
        let wish = |((&mass, potential), &sum): ((&f64, &f64), &f64)| {
            let asks = mass > 0.0 && sum > f64::NEG_INFINITY;
            if asks { mass * (-(potential - mass.ln()) / w).exp() } else { 0.0 }
        };
        bins.map(wish).collect()
    }

    /// The potential that is best where no bin is exceeded and 1 is moved.
    fn filled(mass: &[f64], sums: &[f64]) -> Vec<f64> {
        let open = open(mass, sums);
        mass.iter().zip(sums).map(|(mass, sum)| (mass.ln() - sum).min(open)).collect()
    }

    /// Minus infinity where there is no mass.
    fn masked(potential: &[f64], mass: &[f64]) -> Vec<f64> {
        let bins = potential.iter().zip(mass);
        bins.map(|(&x, &mass)| if mass > 0.0 { x } else { f64::NEG_INFINITY }).collect()
    }

    fn expected(
        Lane { a, b, f }: &Lane,
        hold: Hold,
        pairing: Pairing,
        cost: impl Fn(usize, usize) -> f64,
    ) -> Found {
        // Marginals are kept under infinite penalties.
        let hold = if hold == Hold::Marginals { HOLDS[4] } else { hold };
        let own = masked(f, a);
        let of_target = log_sums(b.len(), &own, |j, i| cost(i, j));
        let g = match hold {
            _ if pairing == Pairing::Equal => own.clone(),
            Hold::Penalties([_, w]) => best(b, &of_target, w, 0.0),
            Hold::Marginals | Hold::Mass => filled(b, &of_target),
        };
        let g = masked(&g, b);
        let of_source = log_sums(a.len(), &g, &cost);
        let moved = |f: &[f64]| -> Vec<f64> {
            f.iter().zip(&of_source).map(|(f, sum)| (f + sum).exp()).collect()
        };
        let (wished, next) = match hold {
            Hold::Penalties([v, w]) => {
                let wished = wishes(a, f, &of_source, v);
                let totals = [&wished, &wishes(b, &g, &of_target, w)];
                let [own, other] = totals.map(|wishes| wishes.iter().sum::<f64>().ln());
                let both = 1.0 / v + 1.0 / w;
                let moves = pairing == Pairing::Different && both > 0.0;
                let shift = if moves { (own - other) / both } else { 0.0 };
                (wished, best(a, &of_source, v, shift))
            }
            Hold::Marginals | Hold::Mass => {
                let next = filled(a, &of_source);
                (moved(&next), next)
            }
        };
        let step = |((next, f), &mass): ((&f64, &f64), &f64)| match hold {
            _ if mass == 0.0 => 0.0,
            Hold::Penalties(_) => pairing.relaxation() * (next - f),
            Hold::Marginals | Hold::Mass => next - f,
        };
        let residual: Vec<f64> = next.iter().zip(f).zip(a).map(step).collect();
        Found {
            next: f.iter().zip(&residual).map(|(f, r)| f + r).collect(),
            residual,
            error: moved(&own).iter().zip(&wished).map(|(moved, wish)| (moved - wish).abs()).sum(),
            g,
        }
    }

    /// Lanes of random histograms, some bins empty, and potentials.
    fn random_lanes((n, m): (usize, usize), hold: Hold, pairing: Pairing, seed: u64) -> Vec<Lane> {
        let mut draws = Random(seed);
        let mut histogram = |n: usize, mass: f64| -> Vec<f64> {
            let some = |draw: f64, k: usize| if draw < 0.3 && k > 0 { 0.0 } else { draw };
            let values: Vec<f64> = (0..n).map(|k| some(draws.unit() + 1e-3, k)).collect();
            let sum: f64 = values.iter().sum();
            values.iter().map(|v| v * mass / sum).collect()
        };
        // Of a partial plan every third side moves all it has, and some have much more.
        let masses = |k: usize| match hold {
            Hold::Mass => [1.0, 1.3, 40.0][k % 3],
            Hold::Marginals | Hold::Penalties(_) => [0.7, 1.3, 5.0][k % 3],
        };
        let mut lanes = Vec::new();
        for lane in 0..GROUP {
            let a = histogram(n, masses(lane));
            let other = histogram(m, masses(lane + 1 + lane / 3));
            let b = if pairing == Pairing::Equal { a.clone() } else { other };
            lanes.push(Lane { a, b, f: Vec::new() });
        }
        for lane in &mut lanes {
            lane.f = lane.a.iter().map(|_| 6.0 * draws.unit() - 3.0).collect();
        }
        lanes
    }

    /// A step of random lanes is what it should be, in all that it leaves.
    fn check<T: Elementary, K: LogKernel<T>>(
        kernel: &K,
        cost: impl Fn(usize, usize) -> f64,
        (hold, pairing): (Hold, Pairing),
        seed: u64,
        tol: f64,
    ) {
        const UNTOUCHED: f64 = 7.0;
        let (stride, width) = (stride::<T>(), GROUP);
        let (n, m) = kernel.shape();
        let lanes = random_lanes((n, m), hold, pairing, seed);
        let packed = |column: &dyn Fn(&Lane) -> &Vec<f64>, n: usize| {
            let mut out = AlignedVec::<T>::zeros(n * stride).unwrap();
            for (lane, values) in lanes.iter().map(column).enumerate() {
                for (row, &value) in values.iter().enumerate() {
                    out[row * stride + lane] = T::from_f64(value);
                }
            }
            out
        };
        let (source, target) = (packed(&|l| &l.a, n), packed(&|l| &l.b, m));
        let potential = packed(&|l| &l.f, n);
        let mut residual = vec![T::from_f64(UNTOUCHED); n * stride];
        let mut unaccelerated = residual.clone();
        let mut errors = vec![T::default(); stride];
        let mut domain = LogDomain::new(kernel, hold, pairing).unwrap();
        domain.step(Step {
            source: &source,
            target: &target,
            potential: &potential,
            residual: &mut residual,
            unaccelerated: &mut unaccelerated,
            errors: &mut errors,
            stride,
            width,
        });
        let kept = [2, 0, width - 1];
        kept.iter().enumerate().for_each(|(slot, &lane)| domain.keep(lane, slot));
        let results = domain.results(kept.len());
        let close = |found: f64, expected: f64, what: &str| {
            let is_close =
                expected.is_finite() && (found - expected).abs() <= tol * (1.0 + expected.abs());
            assert!(is_close || found == expected, "{what}: {found} {expected} {hold:?} {seed}");
        };
        for (at, lane) in lanes.iter().enumerate() {
            let want = expected(lane, hold, pairing, &cost);
            for (i, (r, next)) in want.residual.iter().zip(&want.next).enumerate() {
                close(residual[i * stride + at].to_f64(), *r, "residual");
                let next = if lane.a[i] > 0.0 { *next } else { 0.0 };
                close(unaccelerated[i * stride + at].to_f64(), next, "next");
            }
            close(errors[at].to_f64(), want.error, "error");
            if let Some(slot) = kept.iter().position(|&lane| lane == at) {
                let (transport, [f, g]) = &results[slot];
                assert!(transport.is_nan());
                for ((&f, &want), &a) in f.iter().zip(&lane.f).zip(&lane.a) {
                    close(f, if a > 0.0 { want } else { f64::NEG_INFINITY }, "f");
                }
                g.iter().zip(&want.g).for_each(|(&g, &want)| close(g, want, "g"));
            }
        }
        for row in residual.chunks_exact(stride).chain(unaccelerated.chunks_exact(stride)) {
            assert!(row[width..].iter().all(|x| x.to_f64() == UNTOUCHED));
        }
    }

    const HOLDS: [Hold; 7] = [
        Hold::Penalties([2.0, 2.0]),
        Hold::Penalties([0.3, 40.0]),
        Hold::Penalties([f64::INFINITY, 1.5]),
        Hold::Penalties([0.7, f64::INFINITY]),
        Hold::Penalties([f64::INFINITY; 2]),
        Hold::Marginals,
        Hold::Mass,
    ];

    #[test]
    fn a_step_is_the_best_of_either_side_in_every_domain() {
        for (k, &hold) in HOLDS.iter().enumerate() {
            for (n, m) in [(1, 1), (5, 3), (4, 9)] {
                let seed = (100 * k + 10 * n + m) as u64;
                let cost = |i: usize, j: usize| ((3 * i + 7 * j) % 11) as f64 / 2.0;
                let different = (hold, Pairing::Different);
                let exponents = Exponents::new(vec![Axis::new(n, m, cost).unwrap()]).unwrap();
                check::<f64, _>(&exponents, cost, different, seed, 1e-11);
                check::<f64, _>(&kernel::<f64>(n, m, cost), cost, different, seed, 1e-11);
                check::<f32, _>(&kernel::<f32>(n, m, cost), cost, different, seed, 3e-5);
                // Equal histograms under a symmetric distance.
                let cost = |i: usize, j: usize| i.abs_diff(j) as f64;
                let equal = (hold, Pairing::Equal);
                if hold != Hold::Mass {
                    let exponents = Exponents::new(vec![Axis::new(n, n, cost).unwrap()]).unwrap();
                    check::<f64, _>(&exponents, cost, equal, seed, 1e-11);
                    check::<f32, _>(&kernel::<f32>(n, n, cost), cost, equal, seed, 3e-5);
                }
            }
        }
    }

    /// The last bin of either side has no cell that is allowed, and asks for nothing.
    #[test]
    fn bins_that_nothing_reaches_ask_for_nothing() {
        let (n, m) = (4, 3);
        let cost = |i: usize, j: usize| match i + 1 == n || j + 1 == m {
            true => FORBIDDEN,
            false => i.abs_diff(j) as f64,
        };
        let exponents = Exponents::new(vec![Axis::new(n, m, cost).unwrap()]).unwrap();
        for (k, &hold) in
            HOLDS.iter().enumerate().filter(|(_, hold)| matches!(hold, Hold::Penalties(_)))
        {
            check::<f64, _>(&exponents, cost, (hold, Pairing::Different), 900 + k as u64, 1e-11);
        }
    }

    /// The logarithm of a sum is told, or that it is too small for the kernel.
    #[test]
    fn sums_that_the_kernel_loses_are_not_numbers() {
        fn log_sum_of_one<T: Elementary>(cost: f64) -> f64 {
            let kernel = kernel::<T>(1, 1, |_, _| cost);
            let zeros = |n| AlignedVec::zeros(n * stride::<T>()).unwrap();
            let largest = vec![T::default(); stride::<T>()];
            let mut work = Work { sums: zeros(padded(1)), weights: zeros(1), largest };
            kernel.log_sums(Side::Source, &zeros(1), &mut work, stride::<T>(), GROUP);
            work.sums[GROUP - 1].to_f64()
        }
        assert!((log_sum_of_one::<f32>(40.0) + 40.0).abs() <= 1e-5);
        assert!((log_sum_of_one::<f64>(320.0) + 320.0).abs() <= 1e-12);
        assert!(log_sum_of_one::<f32>(42.0).is_nan() && log_sum_of_one::<f64>(323.0).is_nan());
    }

    /// Limits of all bins and the common factor of every lane.
    fn fill<T: Elementary>(mass: &[T], sums: &[T]) -> (Vec<T>, Vec<T>) {
        let (mut limits, mut open) = (vec![T::default(); mass.len()], vec![T::default(); GROUP]);
        let (stride, width) = (GROUP, GROUP);
        super::fill(mass, sums, &mut limits, &mut open, stride, width);
        (limits, open)
    }

    /// Of a mass that is whole but for rounding no bin waits, however little it holds.
    #[test]
    fn where_all_mass_moves_every_bin_is_full() {
        let rounding = f64::EPSILON;
        for mass in [1.0, 1.0 - 2.0 * rounding, 1.0 + 2.0 * rounding] {
            let packed = |bins: [f64; 3]| bins.map(|x| [x; GROUP]).concat();
            let mass = packed([0.5, mass - 0.5, 1e-20]);
            let sums = packed([0.0, 0.0, -60.0]);
            let (limits, open) = fill(&mass, &sums);
            assert!(limits.iter().zip(open.iter().cycle()).all(|(limit, open)| limit <= open));
        }
    }

    /// Two bins are nearly all that moves, and the third, far away, takes what rounding leaves.
    #[test]
    fn no_bin_is_filled_for_a_rest_that_is_rounding() {
        fn moved<T: Elementary>(seed: u64) {
            let mut draws = Random(seed);
            let mut lanes = |low: f64, high: f64| -> Vec<T> {
                (0..GROUP).map(|_| T::from_f64(low + (high - low) * draws.unit())).collect()
            };
            let first = lanes(0.2, 0.8);
            let ulps = lanes(-4.0, 4.0);
            let rest = |(&a, ulps): (&T, &T)| 1.0 - a.to_f64() + ulps.to_f64() * T::EPSILON;
            let second: Vec<T> = first.iter().zip(&ulps).map(rest).map(T::from_f64).collect();
            let mass = [first, second, lanes(3.0, 3.0)].concat();
            let sums = [lanes(-1.0, 1.0), lanes(-1.0, 1.0), lanes(-60.0, -60.0)].concat();
            let (_, open) = fill(&mass, &sums);
            for (lane, open) in open.iter().enumerate() {
                let row = |k: usize| {
                    let at = k * GROUP + lane;
                    mass[at].to_f64().min((open.to_f64() + sums[at].to_f64()).exp())
                };
                let total: f64 = (0..3).map(row).sum();
                assert!((total - 1.0).abs() <= 16.0 * T::EPSILON, "{total} {seed}");
            }
        }
        for seed in 0..50 {
            moved::<f64>(seed);
            moved::<f32>(seed);
        }
    }

    fn kernel<T: Elementary>(n: usize, m: usize, cost: impl Fn(usize, usize) -> f64) -> Kernel<T> {
        Kernel {
            forward: Packed::new(n, m, |i, j| (-cost(i, j)).exp()).unwrap().into(),
            backward: Packed::new(m, n, |j, i| (-cost(i, j)).exp()).unwrap().into(),
            costs: Vec::new(),
            largest_potential: 80.0,
        }
    }
}
