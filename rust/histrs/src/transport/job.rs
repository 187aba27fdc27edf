//! What is known of a pair before and after it is solved, and when its iteration ends.

/// Histograms of mass 1 over the bins of both sides, row after row.
pub(super) struct Marginals {
    pub(super) sources: Vec<f64>,
    pub(super) targets: Vec<f64>,
}

impl Marginals {
    /// Both histograms of a pair, over so many bins.
    pub(super) fn of(&self, job: &Job, (n_source, n_target): (usize, usize)) -> [&[f64]; 2] {
        [
            &self.sources[job.source * n_source..][..n_source],
            &self.targets[job.target * n_target..][..n_target],
        ]
    }
}

/// One pair to be solved.
#[derive(Debug, Clone, Default)]
pub(super) struct Job {
    pub(super) source: usize,
    pub(super) target: usize,
    /// Logarithm of the scaling of the source to start from; zeros when empty.
    pub(super) start: Vec<f64>,
    /// Factors of the masses of both histograms, 1 when `None`.
    pub(super) masses: Option<[f64; 2]>,
    /// Iterations done before.
    pub(super) n_iter: usize,
}

/// How a pair ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Converged,
    /// The iterations ran out.
    Limit,
    /// The precision or the range of the numbers ran out.
    Failed,
}

/// What is known of a pair at the end.
#[derive(Debug, Clone)]
pub(super) struct Solved {
    pub(super) status: Status,
    /// L1 error of the marginal of the source; that of the target is exact.
    pub(super) error: f64,
    pub(super) n_iter: usize,
    /// `tr(T M)`, where it was asked for.
    pub(super) transport: f64,
    /// Logarithms of both scalings; minus infinity at empty bins.
    pub(super) potentials: [Vec<f64>; 2],
}

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) tol: f64,
    pub(super) max_iter: usize,
    /// Iterations without a smaller error after which a pair has failed.
    pub(super) patience: usize,
    /// The same after which its steps are unaccelerated, where that leads to the end: a map with
    /// corners may keep accelerated steps going round.
    pub(super) unaccelerated_after: usize,
}

/// Whether every pair of a block is one histogram twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pairing {
    Different,
    /// Under a symmetric cost matrix both scalings are equal. Alternating would hardly move
    /// bins that keep their mass; halving the logarithm of the step keeps the scalings equal and
    /// converges within some ten steps.
    Equal,
}

impl Pairing {
    /// What the logarithm of a step is multiplied by.
    pub(super) fn relaxation(self) -> f64 {
        match self {
            Self::Different => 1.0,
            Self::Equal => 0.5,
        }
    }
}

/// The larger error; not a number is the largest, so that it is seen.
pub(super) fn worse(a: f64, b: f64) -> f64 {
    if a.is_nan() || b <= a { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_hides_one_that_is_not_a_number() {
        assert_eq!([worse(1.0, 2.0), worse(2.0, 1.0), worse(2.0, 2.0)], [2.0; 3]);
        let of = |errors: [f64; 3]| errors.into_iter().fold(0.0, worse);
        assert_eq!(of([0.5, 3.0, 1.0]), 3.0);
        for k in 0..3 {
            let mut errors = [0.5, f64::INFINITY, 1.0];
            errors[k] = f64::NAN;
            assert!(of(errors).is_nan());
        }
    }
}
