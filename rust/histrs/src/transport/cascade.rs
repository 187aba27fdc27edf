//! The cascade of domains in which pairs are solved, cheap ones first: when a pair is handed on, and
//! from where it goes on.

use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::simd::Elementary;
use crate::stop::Stop;
use crate::transport::engine::solve;
use crate::transport::epsilon_scaling::scale_epsilon;
use crate::transport::job::{Job, Limits, PATIENCE, Solved, Status};
use crate::transport::log_domain::Exponents;
use crate::transport::newton::refine;
use crate::transport::problem::{Block, Ground};
use crate::transport::relaxed::{Hold, LogDomain};
use crate::transport::scaling::{Kernel, Scaling};

/// Least error that sums in single precision tell from none.
const SINGLE_ERROR: f64 = 1e-6;
/// Tolerance at which a pair is handed on from single to double precision.
const HANDED_ON: f64 = 1e-4;
/// Iterations without progress after which single precision is given up.
const SINGLE_PATIENCE: usize = 20;
/// Iterations in the log domain from where pairs ended before, until they take the way through coarser
/// regularisations.
pub(super) const WARM_STEPS: usize = 100;
/// Iterations without progress after which steps of a partial plan are unaccelerated.
const UNACCELERATED_AFTER: usize = 20;
/// Logarithm of the largest mass, in units of the pair, for which single precision is tried.
const SINGLE_MASS: f64 = 10.0;

/// How the pairs of a block are solved, which are held to the same.
pub(super) struct Cascade<'a, 'g> {
    pub(super) exec: &'a Executor,
    pub(super) ground: &'a Ground<'g>,
    pub(super) block: &'a Block,
    pub(super) hold: Hold,
    pub(super) stop: Stop,
}

impl Cascade<'_, '_> {
    /// Solves the jobs in single precision, what that leaves in double, the rest in the log domain,
    /// and what is left then by Newton's method; for results of type `T`.
    pub(super) fn solve<T>(&self, mut jobs: Vec<Job>) -> Result<Vec<Solved>> {
        let Self { ground, block, hold, .. } = *self;
        let (kernels, bins) = (block.kernels(ground), &block.bins);
        let Stop { tol, max_iter, .. } = self.stop;
        let mut pending = PendingSet::new(jobs.len())?;
        self.seed(&mut jobs);
        if ground.fits_single() && masses_fit_single(&jobs) {
            let (limits, is_final) = in_single::<T>(tol, max_iter);
            let solved = self.solve_with(ground.single(kernels, bins)?, &jobs, limits)?;
            jobs = pending.keep(solved, jobs, |s| is_final && s.status == Status::Converged)?;
            self.seed(&mut jobs);
        }
        let (patience, unaccelerated_after) = match hold {
            Hold::Marginals | Hold::Penalties(_) => (PATIENCE, usize::MAX),
            Hold::Mass => (max_iter, UNACCELERATED_AFTER),
        };
        let limits = Limits { tol, max_iter, patience, unaccelerated_after };
        let fits_double = match hold {
            Hold::Marginals => ground.may_fit_scalings(),
            Hold::Penalties(_) | Hold::Mass => ground.fits_double(),
        };
        if fits_double && !jobs.is_empty() {
            let solved = self.solve_with(ground.double(kernels, bins)?, &jobs, limits)?;
            jobs = pending.keep(solved, jobs, |s| s.status != Status::Failed)?;
            self.seed(&mut jobs);
        }
        let is_warm = |job: &&Job| job.start.iter().any(|&f| f != 0.0);
        if hold == Hold::Marginals && 2 * jobs.iter().filter(is_warm).count() > jobs.len() {
            // From where most ended before it is a few steps, which coarser regularisations
            // would only lead away from.
            let few = Limits { max_iter: max_iter.min(WARM_STEPS), ..limits };
            let solved = self.solve_log(ground.finest(kernels, bins)?, 1.0, &jobs, few)?;
            jobs = pending.keep(solved, jobs, |s| s.status == Status::Converged)?;
        }
        if !jobs.is_empty() {
            let steps = (max_iter, unaccelerated_after);
            let at = |exponents: &_, coarseness, jobs: &[Job], limits| {
                self.solve_log(exponents, coarseness, jobs, limits)
            };
            jobs = scale_epsilon(ground, block, jobs, steps, |job| self.zero(job), at)?;
            let exponents = ground.finest(kernels, bins)?;
            let mut solved = self.solve_log(exponents, 1.0, &jobs, limits)?;
            if let Some(inverse) = hold.inverse_weights() {
                let refined = solved.into_iter().zip(&jobs).map(|(solved, job)| {
                    let [a, b] = block.masses(job);
                    refine(self.exec, exponents, [&a, &b], inverse, solved, limits)
                });
                solved = refined.collect::<Result<_>>()?;
            }
            pending.keep(solved, jobs, |_| true)?;
        }
        Ok(pending.solved.into_iter().flatten().collect())
    }

    /// By products with a kernel: of scalings where both marginals are kept.
    fn solve_with<T: Elementary>(
        &self,
        kernel: &Kernel<T>,
        jobs: &[Job],
        limits: Limits,
    ) -> Result<Vec<Solved>> {
        let Block { marginals, pairing, .. } = self.block;
        if self.hold == Hold::Marginals {
            return solve(self.exec, &mut Scaling::new(kernel, *pairing)?, marginals, jobs, limits);
        }
        let mut domain = LogDomain::new(kernel, self.hold, *pairing)?;
        solve(self.exec, &mut domain, marginals, jobs, limits)
    }

    /// By the exponents of a coarser regularisation, beside which the cost of mass is as it was.
    fn solve_log(
        &self,
        exponents: &Exponents,
        coarseness: f64,
        jobs: &[Job],
        limits: Limits,
    ) -> Result<Vec<Solved>> {
        let hold = match self.hold {
            Hold::Penalties(weights) => Hold::Penalties(weights.map(|w| w / coarseness)),
            hold => hold,
        };
        let mut domain = LogDomain::new(exponents, hold, self.block.pairing)?;
        solve(self.exec, &mut domain, &self.block.marginals, jobs, limits)
    }

    /// Lets a job without a start begin at the potential zero.
    fn seed(&self, jobs: &mut [Job]) {
        for job in jobs.iter_mut().filter(|job| job.start.is_empty()) {
            job.start = self.zero(job);
        }
    }

    /// The logarithm of the scaling where the potential is zero, or empty where that is zero, too.
    ///
    /// Under penalties the plan is then the product of both histograms and the kernel.
    fn zero(&self, job: &Job) -> Vec<f64> {
        if !matches!(self.hold, Hold::Penalties(_)) {
            return Vec::new();
        }
        let [a, _] = self.block.masses(job);
        a.iter().map(|&a| if a > 0.0 { a.ln() } else { 0.0 }).collect()
    }
}

fn masses_fit_single(jobs: &[Job]) -> bool {
    let fits = |mass: f64| mass.ln().abs() <= SINGLE_MASS;
    jobs.iter().all(|job| job.masses.unwrap_or([1.0; 2]).into_iter().all(fits))
}

/// When single precision stops, and whether what it converges to is final: for results in it that
/// need be no better than its sums.
pub(super) fn in_single<T>(tol: f64, max_iter: usize) -> (Limits, bool) {
    let is_final = size_of::<T>() < size_of::<f64>() && tol >= SINGLE_ERROR;
    let tol = if is_final { tol } else { tol.max(HANDED_ON) };
    let patience = SINGLE_PATIENCE;
    (Limits { tol, max_iter, patience, unaccelerated_after: usize::MAX }, is_final)
}

/// Which pairs are solved, and which are handed on.
pub(super) struct PendingSet {
    pub(super) solved: Vec<Option<Solved>>,
    /// Place of each job that is left.
    indices: Vec<usize>,
}

impl PendingSet {
    pub(super) fn new(n_jobs: usize) -> Result<Self> {
        Ok(Self { solved: memory::filled(None, n_jobs)?, indices: memory::collected(0..n_jobs)? })
    }

    /// Keeps what is final, and returns the jobs of the rest, to begin where they ended.
    pub(super) fn keep(
        &mut self,
        solved: Vec<Solved>,
        jobs: Vec<Job>,
        is_final: impl Fn(&Solved) -> bool,
    ) -> Result<Vec<Job>> {
        let (mut left, mut indices) = (Vec::new(), Vec::new());
        for ((found, job), &index) in solved.into_iter().zip(jobs).zip(&self.indices) {
            if is_final(&found) {
                self.solved[index] = Some(found);
            } else {
                let ended = found.start();
                // What was out of range in one domain may be a good start in the next.
                let start = if ended.is_empty() { job.start } else { ended };
                memory::push(&mut left, Job { start, n_iter: found.n_iter, ..job })?;
                memory::push(&mut indices, index)?;
            }
        }
        self.indices = indices;
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_precision_is_final_for_results_in_it_that_need_no_more() {
        let of = |(limits, is_final): (Limits, bool)| (limits.tol, is_final);
        assert_eq!(of(in_single::<f32>(1e-3, 9)), (1e-3, true));
        assert_eq!(of(in_single::<f32>(SINGLE_ERROR, 9)), (SINGLE_ERROR, true));
        assert_eq!(of(in_single::<f32>(0.5 * SINGLE_ERROR, 9)), (HANDED_ON, false));
        assert_eq!(of(in_single::<f64>(1e-9, 9)), (HANDED_ON, false));
        assert_eq!(of(in_single::<f64>(1e-3, 9)), (1e-3, false));
        assert_eq!(in_single::<f64>(1e-3, 9).0.max_iter, 9);
    }

    fn solved(status: Status, n_iter: usize) -> Solved {
        let potentials = [vec![0.5, f64::NEG_INFINITY, f64::NAN], Vec::new()];
        Solved { status, error: 0.0, n_iter, transport: 0.0, potentials }
    }

    #[test]
    fn what_is_left_goes_on_from_where_it_ended() {
        let mut pending = PendingSet::new(5).unwrap();
        let start = |source| if source == 4 { vec![7.0] } else { Vec::new() };
        let jobs = (0..5).map(|source| Job { source, start: start(source), ..Job::default() });
        let jobs = jobs.collect();
        let [limit, converged, failed] = [Status::Limit, Status::Converged, Status::Failed];
        let status = [limit, converged, failed, converged, failed];
        let ended = (10..).zip(status).map(|(n_iter, status)| solved(status, n_iter)).collect();
        let is_final = |found: &Solved| found.status == Status::Converged;
        let left = pending.keep(ended, jobs, is_final).unwrap();
        let begin: Vec<_> = left.iter().map(|job| (job.source, job.n_iter)).collect();
        assert_eq!(begin, [(0, 10), (2, 12), (4, 14)]);
        assert_eq!(left[0].start, [0.5, 0.0, 0.0]);
        assert!(left[1].start.is_empty());
        assert_eq!(left[2].start, [7.0]);
        let ended = [20, 22, 24].map(|n_iter| solved(limit, n_iter)).to_vec();
        assert!(pending.keep(ended, left, |_| true).unwrap().is_empty());
        let n_iter: Vec<_> = pending.solved.iter().flatten().map(|found| found.n_iter).collect();
        assert_eq!(n_iter, [20, 11, 22, 13, 24]);
    }
}
