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
                memory::push(&mut left, Job { start: start(&found), n_iter: found.n_iter, ..job })?;
                memory::push(&mut indices, index)?;
            }
        }
        self.indices = indices;
        Ok(left)
    }
}
