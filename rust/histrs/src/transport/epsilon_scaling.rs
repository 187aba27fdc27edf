//! Epsilon scaling: starts for the log domain from coarser regularisations, each a start of the next.

use crate::error::Result;
use crate::transport::job::{Job, Limits, PATIENCE, Solved};
use crate::transport::log_domain::Exponents;
use crate::transport::problem::{Block, Ground};

/// Tolerance and factor of the coarser regularisations that lead to a fine one.
pub(super) const COARSE_ERROR: f64 = 1e-2;
pub(super) const COARSER: f64 = 4.0;
/// Largest cost, in units of the regularisation, that is coarse enough.
const COARSEST: f64 = 10.0;

/// Returns the jobs with starts for the finest regularisation.
///
/// `solve` solves them with the exponents of a regularisation that is coarser by a factor. `zero`
/// is the logarithm of the scaling of the source where the potential is zero, or empty if this is
/// zero, too.
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
            job.start = solved.start();
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use ndarray::array;

    use super::*;
    use crate::matrix::HistogramMatrix;
    use crate::transport::job::{Pairing, Status};

    /// Potentials in units of the distance; what has failed has none.
    const POTENTIALS: [f64; 2] = [0.3, -0.7];

    #[test]
    fn every_regularisation_starts_where_the_coarser_one_ended() {
        let x = array![[0.5, 0.5], [0.25, 0.75]];
        let x = HistogramMatrix::dense(x.view());
        for (largest, coarsest) in
            [(1.0, 1.0), (40.0, 1.0), (41.0, 4.0), (160.0, 4.0), (161.0, 16.0), (1000.0, 64.0)]
        {
            let reg = 1.0 / largest;
            let m = array![[0.0, 1.0], [1.0, 0.0]];
            let ground = Ground::new(m.view(), reg, false).unwrap();
            let block = Block::new(&ground, [&x; 2], [&[0], &[1]], Pairing::Different).unwrap();
            for zeros in [Vec::new(), vec![0.25, 0.5]] {
                let zero = |k: usize| zeros.get(k).copied().unwrap_or(0.0);
                let called = RefCell::new(Vec::new());
                let solve = |exponents: &Exponents, coarseness: f64, jobs: &[Job], limits| {
                    let Limits { tol, max_iter, .. } = limits;
                    assert!((exponents.entry(0, 1) * coarseness / largest - 1.0).abs() < 1e-12);
                    assert_eq!((tol, max_iter), (COARSE_ERROR, 50));
                    let before = called.borrow().last().copied();
                    for (k, job) in jobs.iter().enumerate() {
                        // The second has failed.
                        if k == 1 || before.is_none() {
                            assert_eq!(job.start, zeros);
                        } else {
                            for (bin, start) in job.start.iter().enumerate() {
                                let want = zero(bin) + POTENTIALS[bin] / (reg * coarseness);
                                assert!((start - want).abs() <= 1e-12 * want.abs(), "{start}");
                            }
                        }
                        assert_eq!(job.n_iter, if before.is_none() { 3 } else { 20 + k });
                    }
                    called.borrow_mut().push(coarseness);
                    let solved = |(n_iter, status)| {
                        let f = |bin: usize| zero(bin) + POTENTIALS[bin] / (reg * coarseness);
                        let potentials = [vec![f(0), f(1)], Vec::new()];
                        Solved { status, error: 0.0, n_iter, transport: 0.0, potentials }
                    };
                    Ok([(20, Status::Limit), (21, Status::Failed)].map(solved).to_vec())
                };
                let jobs = vec![Job { n_iter: 3, start: vec![9.0, 9.0], ..Job::default() }; 2];
                let jobs = scale_epsilon(&ground, &block, jobs, (100, 7), |_| zeros.clone(), solve)
                    .unwrap();
                let called = called.into_inner();
                if coarsest > 1.0 {
                    assert_eq!(called[0], coarsest);
                    assert_eq!(called[called.len() - 1], COARSER);
                    for (bin, start) in jobs[0].start.iter().enumerate() {
                        let want = zero(bin) + POTENTIALS[bin] / reg;
                        assert!((start - want).abs() <= 1e-12 * want.abs(), "{start}");
                    }
                } else {
                    assert!(called.is_empty());
                    assert_eq!(jobs[0].start, zeros);
                }
                assert!(called.windows(2).all(|pair| pair[0] == COARSER * pair[1]));
                assert_eq!(jobs[1].start, zeros);
            }
        }
    }
}
