//! The pairs of a block, each in the cheapest domain that holds.

use crate::error::Result;
use crate::simd::Element;
use crate::stop::Stop;
use crate::transport::cascade::{PATIENCE, PendingSet, in_single};
use crate::transport::engine::solve;
use crate::transport::epsilon_scaling::scale_epsilon;
use crate::transport::job::{Job, Limits, Solved, Status};
use crate::transport::newton::refine;
use crate::transport::order::Pair;
use crate::transport::problem::{Block, Kernels};
use crate::transport::relaxed::{Hold, Relaxed};
use crate::transport::results::Found;
use crate::transport::unbalanced::Problem;

/// Iterations without progress after which steps of a partial plan are unaccelerated.
const UNACCELERATED_AFTER: usize = 20;
/// Logarithm of the largest mass, in units of the pair, for which single precision is tried.
const SINGLE_MASS: f64 = 10.0;

impl<T: Element> Problem<'_, '_, T> {
    /// Solves pairs that are held to the same.
    pub(super) fn solve_block(
        &self,
        block: &Block,
        pairs: &[Pair],
        indices: Vec<Pair>,
    ) -> Result<Vec<Found>> {
        let Some(&first) = pairs.first() else { return Ok(Vec::new()) };
        let hold = self.hold(first);
        let jobs = |(&pair, &(source, target)): (&Pair, &Pair)| Job {
            source,
            target,
            masses: Some(self.units(pair).1.map(f64::exp)),
            ..Job::default()
        };
        let jobs: Vec<Job> = pairs.iter().zip(&indices).map(jobs).collect();
        let solved = self.solve_cascade(block, hold, jobs.clone())?;
        let kernels: &Kernels = block.kernels.as_ref().unwrap_or(self.ground.whole());
        let exponents = self.ground.finest(kernels, &block.bins)?;
        let found = solved.into_iter().zip(pairs).zip(&jobs);
        Ok(found.map(|((s, &pair), job)| self.found(block, exponents, pair, job, s)).collect())
    }

    /// As of the pairs that keep their mass: in single precision, in double, and in the log domain.
    fn solve_cascade(&self, block: &Block, hold: Hold, mut jobs: Vec<Job>) -> Result<Vec<Solved>> {
        let Block { marginals, bins, pairing, .. } = block;
        let kernels: &Kernels = block.kernels.as_ref().unwrap_or(self.ground.whole());
        let Stop { tol, max_iter, .. } = self.options.stop;
        let mut pending = PendingSet::new(jobs.len())?;
        seed(block, hold, &mut jobs);
        if self.ground.fits_single() && self.masses_fit_single(&jobs) {
            let (limits, is_final) = in_single::<T>(tol, max_iter);
            let mut domain = Relaxed::new(self.ground.single(kernels, bins)?, hold, *pairing)?;
            let solved = solve(self.exec, &mut domain, marginals, &jobs, limits)?;
            jobs = pending.keep(solved, jobs, |s| is_final && s.status == Status::Converged)?;
            seed(block, hold, &mut jobs);
        }
        let (patience, unaccelerated_after) = match hold {
            Hold::Penalties(_) => (PATIENCE, usize::MAX),
            Hold::Mass => (max_iter, UNACCELERATED_AFTER),
        };
        let limits = Limits { tol, max_iter, patience, unaccelerated_after };
        if self.ground.fits_double() && !jobs.is_empty() {
            let mut domain = Relaxed::new(self.ground.double(kernels, bins)?, hold, *pairing)?;
            let solved = solve(self.exec, &mut domain, marginals, &jobs, limits)?;
            jobs = pending.keep(solved, jobs, |s| s.status != Status::Failed)?;
            seed(block, hold, &mut jobs);
        }
        if !jobs.is_empty() {
            jobs = self.scale_epsilon(block, hold, jobs)?;
            let exponents = self.ground.finest(kernels, bins)?;
            let mut domain = Relaxed::new(exponents, hold, *pairing)?;
            let solved = match hold {
                Hold::Penalties(weights) => {
                    let solved = solve(self.exec, &mut domain, marginals, &jobs, limits)?;
                    let inverse = weights.map(|weight| 1.0 / weight);
                    let refined = solved.into_iter().zip(&jobs).map(|(solved, job)| {
                        let [a, b] = scaled(block, job);
                        refine(self.exec, exponents, [&a, &b], inverse, solved, limits)
                    });
                    refined.collect::<Result<_>>()?
                }
                Hold::Mass => solve(self.exec, &mut domain, marginals, &jobs, limits)?,
            };
            pending.keep(solved, jobs, |_| true)?;
        }
        Ok(pending.solved.into_iter().flatten().collect())
    }

    fn masses_fit_single(&self, jobs: &[Job]) -> bool {
        let fits = |mass: f64| mass.ln().abs() <= SINGLE_MASS;
        jobs.iter().all(|job| job.masses.unwrap_or([1.0; 2]).into_iter().all(fits))
    }

    /// From coarser regularisations, beside which the cost of mass is as it was.
    fn scale_epsilon(&self, block: &Block, hold: Hold, jobs: Vec<Job>) -> Result<Vec<Job>> {
        let zero = |job: &Job| match hold {
            Hold::Penalties(_) => log_source(block, job),
            Hold::Mass => Vec::new(),
        };
        let unaccelerated_after = if hold == Hold::Mass { UNACCELERATED_AFTER } else { usize::MAX };
        let steps = (self.options.stop.max_iter, unaccelerated_after);
        scale_epsilon(
            &self.ground,
            block,
            jobs,
            steps,
            zero,
            |exponents, coarseness, jobs, limits| {
                let hold = match hold {
                    Hold::Penalties(weights) => Hold::Penalties(weights.map(|w| w / coarseness)),
                    Hold::Mass => Hold::Mass,
                };
                let mut domain = Relaxed::new(exponents, hold, block.pairing)?;
                solve(self.exec, &mut domain, &block.marginals, jobs, limits)
            },
        )
    }
}

/// Lets a job without a start begin at the potential zero, where the plan is the product of both
/// histograms and the kernel.
fn seed(block: &Block, hold: Hold, jobs: &mut [Job]) {
    if hold == Hold::Mass {
        return;
    }
    for job in jobs.iter_mut().filter(|job| job.start.is_empty()) {
        job.start = log_source(block, job);
    }
}

/// Both histograms of a pair, with their masses.
fn scaled(block: &Block, job: &Job) -> [Vec<f64>; 2] {
    let shape = (block.bins.sources.len(), block.bins.targets.len());
    let [a, b] = block.marginals.of(job, shape);
    let [mass_a, mass_b] = job.masses.unwrap_or([1.0; 2]);
    [a.iter().map(|a| a * mass_a).collect(), b.iter().map(|b| b * mass_b).collect()]
}

/// Logarithms of the masses of the source; 0 at empty bins.
fn log_source(block: &Block, job: &Job) -> Vec<f64> {
    let [a, _] = scaled(block, job);
    a.iter().map(|&a| if a > 0.0 { a.ln() } else { 0.0 }).collect()
}
