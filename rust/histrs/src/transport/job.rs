//! What is known of a pair before and after it is solved, and when its iteration ends.

/// Iterations without progress after which double precision is given up, and Newton's method takes over.
pub(super) const PATIENCE: usize = 200;

/// Histograms of mass 1 over the bins of both sides, row after row.
pub(super) struct Marginals {
    pub(super) sources: Vec<f64>,
    pub(super) targets: Vec<f64>,
}

impl Marginals {
    /// Both histograms of a pair, over so many bins.
    pub(super) fn of(
        &self,
        (source, target): (usize, usize),
        (n_source, n_target): (usize, usize),
    ) -> [&[f64]; 2] {
        [
            &self.sources[source * n_source..][..n_source],
            &self.targets[target * n_target..][..n_target],
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

impl Job {
    pub(super) fn pair(&self) -> (usize, usize) {
        (self.source, self.target)
    }
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
    /// `tr(T M) / reg`, where the domain knows it and it was asked for, else not a number.
    pub(super) transport: f64,
    /// Logarithms of both scalings; minus infinity at empty bins.
    pub(super) potentials: [Vec<f64>; 2],
}

impl Solved {
    /// A finite start from where the pair ended, or none.
    pub(super) fn start(&self) -> Vec<f64> {
        if self.status == Status::Failed {
            return Vec::new();
        }
        self.potentials[0].iter().map(|&f| if f.is_finite() { f } else { 0.0 }).collect()
    }
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
