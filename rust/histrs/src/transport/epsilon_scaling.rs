//! Epsilon scaling: starts for the log domain from coarser regularisations, each a start of the next.

use crate::error::Result;
use crate::transport::cascade::{PATIENCE, start};
use crate::transport::job::{Job, Limits, Solved};
use crate::transport::log_domain::Exponents;
use crate::transport::problem::{Block, Ground};

/// Tolerance and factor of the coarser regularisations that lead to a fine one.
pub(super) const COARSE_ERROR: f64 = 1e-2;
pub(super) const COARSER: f64 = 4.0;
/// Largest cost of the ground distance, in units of the regularisation, that is coarse enough.
const COARSEST: f64 = 10.0;

/// Returns the jobs with starts for the finest regularisation.
///
/// `solve` solves them with the exponents of a regularisation that is coarser by a factor, and
/// `zero` is the logarithm of the scaling of the source where the potential is zero, or empty where
/// that is zero, too.
pub(super) fn scale_epsilon(
    ground: &Ground<'_>,
    block: &Block,
    mut jobs: Vec<Job>,
    (max_iter, unaccelerated_after): (usize, usize),
    zero: impl Fn(&Job) -> Vec<f64>,
    solve: impl Fn(&Exponents, f64, &[Job], Limits) -> Result<Vec<Solved>>,
) -> Result<Vec<Job>> {
    let mut coarseness = 1.0;
    while ground.largest / coarseness > COARSEST * COARSER {
        coarseness *= COARSER;
    }
    let limits = Limits {
        tol: COARSE_ERROR,
        max_iter: max_iter / 2,
        patience: PATIENCE,
        unaccelerated_after,
    };
    jobs.iter_mut().for_each(|job| job.start = zero(job));
    while coarseness > 1.0 {
        let exponents = ground.exponents(&block.bins, coarseness)?;
        let solved = solve(&exponents, coarseness, &jobs, limits)?;
        for (job, solved) in jobs.iter_mut().zip(solved) {
            let zero = zero(job);
            job.n_iter = solved.n_iter;
            job.start = start(&solved);
            if job.start.is_empty() {
                job.start = zero;
                continue;
            }
            // The potentials in units of the distance change little.
            for (k, f) in job.start.iter_mut().enumerate() {
                let zero = zero.get(k).copied().unwrap_or_default();
                *f = zero + (*f - zero) * COARSER;
            }
        }
        coarseness /= COARSER;
    }
    Ok(jobs)
}
