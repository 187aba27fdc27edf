//! The Sinkhorn distance of all pairs.

use std::collections::HashMap;

use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::simd::Element;
use crate::stop::{Stop, with_stop};
use crate::transport::cascade::{PATIENCE, PendingSet, WARM_STEPS, in_single};
use crate::transport::costs::Costs;
use crate::transport::engine::solve;
use crate::transport::epsilon_scaling::scale_epsilon;
use crate::transport::job::{Job, Limits, Marginals, Pairing, Solved, Status};
use crate::transport::log_domain::LogDomain;
use crate::transport::masses::{check_bins, check_masses, check_tol, rounding};
use crate::transport::newton::refine;
use crate::transport::order::{Pair, Pairs, distinct};
use crate::transport::problem::{Block, Ground, Kernels};
use crate::transport::results::{Found, SinkhornDistances, gather, zeros};
use crate::transport::scaling::Scaling;
use crate::transport::step::Domain;

/// What is computed of each pair, and how far.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Sinkhorn {
    /// Weight of the entropy, `1/lambda` in the paper, in the units of the cost matrix.
    pub reg: f64,
    /// At a largest L1 error of a marginal, as a part of the mass; of each pair.
    pub stop: Stop,
    /// `tr(T M) - reg h(T)` instead of `tr(T M)`.
    pub regularized: bool,
    /// Whether the dual variables are kept.
    pub potentials: bool,
}

impl Sinkhorn {
    /// Distances `tr(T M)` with this weight of the entropy, to a relative error of 1e-6 in at most
    /// 10,000 iterations, without dual variables.
    pub const fn new(reg: f64) -> Self {
        let stop = Stop::new(1e-6, 10_000);
        Self { reg, stop, regularized: false, potentials: false }
    }

    /// With another [`reg`](Self::reg).
    pub const fn with_reg(self, reg: f64) -> Self {
        Self { reg, ..self }
    }

    /// With another [`regularized`](Self::regularized).
    pub const fn with_regularized(self, regularized: bool) -> Self {
        Self { regularized, ..self }
    }

    /// With another [`potentials`](Self::potentials).
    pub const fn with_potentials(self, potentials: bool) -> Self {
        Self { potentials, ..self }
    }
}

with_stop!(Sinkhorn);

/// Sinkhorn distances between the rows of `x` and those of `y`; `y = None` means `y = x`, and
/// computes each pair once when `m` is symmetric.
///
/// The distance of `a` and `b` is `tr(T M)`, where `T >= 0` with row sums `a` and column sums `b`
/// minimises `tr(T M) - reg h(T)`, `h(T) = -sum T log T` (equation 3 of the paper, `reg` being
/// its `1/lambda`). The scaling `T = diag(u) K diag(v)`, `K = exp(-M / reg)`, is iterated with
/// Anderson's acceleration for many pairs side by side, so that a half-step is the product of `K`
/// and a matrix; in single precision while that resolves the error, and in the log domain where
/// `K` would underflow. Where `m` is infinite, transport is forbidden, and a pair between which no
/// plan is left is infinitely distant.
///
/// # Errors
///
/// [`Error::Shape`](crate::Error::Shape) when `m` has not a row for each column of `x` and a column for each column of
/// `y`; [`Error::GroundDistance`](crate::Error::GroundDistance), [`Error::Negative`](crate::Error::Negative) and [`Error::NotFinite`](crate::Error::NotFinite) at the first bad
/// entry; [`Error::Mass`](crate::Error::Mass) when two rows do not sum alike or one is empty; [`Error::Parameter`](crate::Error::Parameter)
/// when `reg` or `tol` is not positive, or `reg` is so small that it underflows.
///
/// # Examples
///
/// ```
/// use histrs::transport::{Sinkhorn, sinkhorn_distances};
/// use histrs::{Executor, HistogramMatrix};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[1.0_f64, 0.0], [0.25, 0.75]];
/// let m = array![[0.0, 1.0], [1.0, 0.0]];
/// let options = Sinkhorn::new(0.05).with_tol(1e-9);
/// let x = HistogramMatrix::dense(x.view());
/// let found = sinkhorn_distances(&exec, &x, None, m.view(), &options)?;
/// // Three quarters of the mass move by 1.
/// assert!((found.values[[0, 1]] - 0.75).abs() < 1e-9);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn sinkhorn_distances<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
    m: impl Into<Costs<'a>>,
    options: &Sinkhorn,
) -> Result<SinkhornDistances<T>> {
    let all = AllPairs::new(exec, x, y, m, options)?;
    let pairs = Pairs {
        n_rows: x.n_rows(),
        n_columns: all.y.n_rows(),
        once: y.is_none() && all.ground.is_symmetric(),
    };
    // Where there is no room for the result, work would be in vain.
    let mut distances = zeros(&pairs, options.potentials.then_some(all.ground.costs.dim()))?;
    let blocks = pairs.map_blocks(exec, |pairs| all.solve(pairs))?;
    gather(&pairs, blocks, &mut distances);
    Ok(distances)
}

/// Histograms on both sides, any pairs of which may be solved.
pub(super) struct AllPairs<'a, 'm, T> {
    exec: &'a Executor,
    pub(super) x: &'a HistogramMatrix<'m, T>,
    pub(super) y: &'a HistogramMatrix<'m, T>,
    pub(super) ground: Ground<'m>,
    options: &'a Sinkhorn,
    mass: f64,
}

/// Logarithms of the scalings of sources from which pairs begin, over all bins.
pub(super) type Starts = HashMap<Pair, Vec<f64>>;

impl<'a, 'm, T: Element> AllPairs<'a, 'm, T> {
    /// Looks at every argument of [`sinkhorn_distances`].
    pub(super) fn new(
        exec: &'a Executor,
        x: &'a HistogramMatrix<'m, T>,
        y: Option<&'a HistogramMatrix<'m, T>>,
        m: impl Into<Costs<'m>>,
        options: &'a Sinkhorn,
    ) -> Result<Self> {
        let ground = Ground::new(m, options.reg, !options.regularized)?;
        check_tol(options.stop)?;
        let other = y.unwrap_or(x);
        let (n, m) = ground.costs.dim();
        check_bins("the number of rows of M", n, x.n_columns())?;
        check_bins("the number of columns of M", m, other.n_columns())?;
        let mass = check_masses(exec, x, y)?;
        Ok(Self { exec, x, y: other, ground, options, mass })
    }

    pub(super) fn solve(&self, pairs: Vec<Pair>) -> Result<Vec<Found>> {
        self.solve_from(pairs, None)
    }

    /// Solves pairs, those of different histograms from where they are said to begin.
    pub(super) fn solve_from(
        &self,
        pairs: Vec<Pair>,
        starts: Option<&Starts>,
    ) -> Result<Vec<Found>> {
        let (found, equal) = self.solve_different(pairs, starts)?;
        Ok(found.into_iter().chain(self.solve_equal(equal)?).collect())
    }

    /// Solves the pairs of different histograms, and lists the others.
    fn solve_different(
        &self,
        pairs: Vec<Pair>,
        starts: Option<&Starts>,
    ) -> Result<(Vec<Found>, Vec<Pair>)> {
        let rows = distinct(pairs.iter().map(|p| p.0));
        let columns = distinct(pairs.iter().map(|p| p.1));
        let histograms = [self.x, self.y];
        let block = Block::new(&self.ground, histograms, [&rows, &columns], Pairing::Different)?;
        let index = |list: &[usize], k: usize| list.partition_point(|&other| other < k);
        let indices = |&(i, j): &(usize, usize)| (index(&rows, i), index(&columns, j));
        let (possible, impossible): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|pair| {
            let (source, target) = indices(pair);
            let needed = 1.0 - rounding::<T>();
            !self.ground.forbids || block.passable(&self.ground, source, target) >= needed
        });
        let (equal, different): (Vec<_>, Vec<_>) = possible.into_iter().partition(|pair| {
            let (source, target) = indices(pair);
            self.ground.is_symmetric() && block.is_equal(source, target)
        });
        let indices = different.iter().map(indices).collect();
        let mut found = self.solve_block(&block, different, indices, starts)?;
        let bins = self.options.potentials.then_some(self.ground.costs.dim());
        found.extend(impossible.into_iter().map(|pair| Found::without_plan(pair, bins)));
        Ok((found, equal))
    }

    /// Solves the pairs of one histogram twice.
    fn solve_equal(&self, pairs: Vec<Pair>) -> Result<Vec<Found>> {
        if pairs.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<usize> = pairs.iter().map(|p| p.0).collect();
        let block = Block::new(&self.ground, [self.x; 2], [&rows; 2], Pairing::Equal)?;
        let indices = (0..rows.len()).map(|k| (k, k)).collect();
        self.solve_block(&block, pairs, indices, None)
    }

    fn solve_block(
        &self,
        block: &Block,
        pairs: Vec<Pair>,
        indices: Vec<Pair>,
        starts: Option<&Starts>,
    ) -> Result<Vec<Found>> {
        let start = |pair: &Pair| match starts.and_then(|starts| starts.get(pair)) {
            Some(start) => block.bins.sources.iter().map(|&bin| start[bin]).collect(),
            None => Vec::new(),
        };
        let job = |(pair, &(source, target)): (&Pair, &Pair)| Job {
            source,
            target,
            start: start(pair),
            ..Job::default()
        };
        let solved = self.solve_cascade(block, pairs.iter().zip(&indices).map(job).collect())?;
        let found = solved.into_iter().zip(pairs).zip(indices);
        Ok(found.map(|((s, pair), index)| self.found(block, pair, index, s)).collect())
    }

    /// Solves the jobs in single precision, what that leaves in double, the rest in the log domain,
    /// and what is left then by Newton's method.
    pub(super) fn solve_cascade(&self, block: &Block, mut jobs: Vec<Job>) -> Result<Vec<Solved>> {
        let Block { marginals, bins, pairing, .. } = block;
        let kernels: &Kernels = block.kernels.as_ref().unwrap_or(self.ground.whole());
        let Stop { tol, max_iter, .. } = self.options.stop;
        let mut pending = PendingSet::new(jobs.len())?;
        if self.ground.fits_single() {
            let (limits, is_final) = in_single::<T>(tol, max_iter);
            let mut domain = Scaling::new(self.ground.single(kernels, bins)?, *pairing)?;
            let solved = solve(self.exec, &mut domain, marginals, &jobs, limits)?;
            jobs = pending.keep(solved, jobs, |s| is_final && s.status == Status::Converged)?;
        }
        let limits = Limits { tol, max_iter, patience: PATIENCE, unaccelerated_after: usize::MAX };
        if self.ground.may_fit_scalings() && !jobs.is_empty() {
            let mut domain = Scaling::new(self.ground.double(kernels, bins)?, *pairing)?;
            let solved = solve(self.exec, &mut domain, marginals, &jobs, limits)?;
            jobs = pending.keep(solved, jobs, |s| s.status != Status::Failed)?;
        }
        if !jobs.is_empty() {
            let exponents = self.ground.finest(kernels, bins)?;
            let is_warm = |job: &&Job| job.start.iter().any(|&f| f != 0.0);
            if 2 * jobs.iter().filter(is_warm).count() > jobs.len() {
                // From where most ended before it is a few steps, which coarser regularisations
                // would only lead away from.
                let few = Limits { max_iter: max_iter.min(WARM_STEPS), ..limits };
                let mut domain = LogDomain::new(exponents, *pairing)?;
                let solved = solve(self.exec, &mut domain, marginals, &jobs, few)?;
                jobs = pending.keep(solved, jobs, |s| s.status == Status::Converged)?;
            }
        }
        if !jobs.is_empty() {
            let accelerated = (max_iter, usize::MAX);
            let at = |exponents: &_, _, jobs: &[Job], limits| {
                let mut domain = LogDomain::new(exponents, *pairing)?;
                solve(self.exec, &mut domain, marginals, jobs, limits)
            };
            jobs = scale_epsilon(&self.ground, block, jobs, accelerated, |_| Vec::new(), at)?;
            let exponents = self.ground.finest(kernels, bins)?;
            let mut domain = LogDomain::new(exponents, *pairing)?;
            let solved = solve(self.exec, &mut domain, marginals, &jobs, limits)?;
            let shape = domain.shape();
            let refined = solved.into_iter().zip(&jobs).map(|(solved, job)| {
                refine(self.exec, exponents, marginals.of(job, shape), [0.0; 2], solved, limits)
            });
            let solved = refined.collect::<Result<_>>()?;
            pending.keep(solved, jobs, |_| true)?;
        }
        Ok(pending.solved.into_iter().flatten().collect())
    }

    fn found(
        &self,
        block: &Block,
        pair: Pair,
        (source, target): (usize, usize),
        solved: Solved,
    ) -> Found {
        let reg = self.ground.reg;
        let Marginals { sources, targets } = &block.marginals;
        let [f, g] = solved.potentials;
        let log_mass = self.mass.ln();
        let value = if self.options.regularized {
            // The dual, whose error is the square of that of the scalings.
            let a = &sources[source * f.len()..][..f.len()];
            let b = &targets[target * g.len()..][..g.len()];
            self.mass * reg * (expectation(a, &f) + expectation(b, &g) + log_mass)
        } else {
            self.mass * reg * solved.transport
        };
        let spread = |values: Vec<f64>, bins: &[usize], n: usize, shift: f64| {
            let mut out = vec![f64::NEG_INFINITY; n];
            bins.iter().zip(values).for_each(|(&k, f)| out[k] = reg * (f + shift));
            out
        };
        let potentials = self.options.potentials.then(|| {
            [
                spread(f, &block.bins.sources, self.ground.costs.n_rows(), log_mass),
                spread(g, &block.bins.targets, self.ground.costs.n_columns(), 0.0),
            ]
        });
        Found { pair, value, error: solved.error, n_iter: solved.n_iter, potentials }
    }
}

/// The mean of a potential under a marginal; an empty bin adds nothing.
pub(super) fn expectation(a: &[f64], f: &[f64]) -> f64 {
    a.iter().zip(f).filter(|(a, _)| **a > 0.0).map(|(a, f)| a * f).sum()
}
