//! The cascade of domains in which pairs are solved, cheap ones first: when a pair is handed on, and
//! from where it goes on.

use crate::error::Result;
use crate::memory;
use crate::transport::job::{Job, Limits, Solved, Status};

/// Least error that sums in single precision tell from none.
const SINGLE_ERROR: f64 = 1e-6;
/// Tolerance at which a pair is handed on from single to double precision.
const HANDED_ON: f64 = 1e-4;
/// Iterations without progress after which single precision is given up.
const SINGLE_PATIENCE: usize = 20;
/// The same for double precision, after which Newton's method takes over.
pub(super) const PATIENCE: usize = 200;
/// Iterations in the log domain from where pairs ended before, until they take the way through coarser
/// regularisations.
pub(super) const WARM_STEPS: usize = 100;

/// When single precision stops, and whether what it converges to is final: for results in it that
/// need be no better than its sums.
pub(super) fn in_single<T>(tol: f64, max_iter: usize) -> (Limits, bool) {
    let is_final = size_of::<T>() < size_of::<f64>() && tol >= SINGLE_ERROR;
    let tol = if is_final { tol } else { tol.max(HANDED_ON) };
    let patience = SINGLE_PATIENCE;
    (Limits { tol, max_iter, patience, unaccelerated_after: usize::MAX }, is_final)
}

/// A finite start from where a pair ended, or none.
pub(super) fn start(solved: &Solved) -> Vec<f64> {
    if solved.status == Status::Failed {
        return Vec::new();
    }
    solved.potentials[0].iter().map(|&f| if f.is_finite() { f } else { 0.0 }).collect()
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
                let ended = start(&found);
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
