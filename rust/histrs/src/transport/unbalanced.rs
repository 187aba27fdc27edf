//! Transport between histograms whose mass need not be kept: all pairs.

use ndarray::ArrayView2;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::simd::{Element, dispatch};
use crate::transport::cascade::{
    COARSE_ERROR, COARSER, HANDED_ON, PATIENCE, PendingSet, SINGLE_ERROR, SINGLE_PATIENCE, start,
};
use crate::transport::engine::solve;
use crate::transport::job::{Job, Limits, Pairing, Solved, Status};
use crate::transport::log_domain::Exponents;
use crate::transport::masses::{check_bins, rounding};
use crate::transport::newton::refine;
use crate::transport::order::{Pair, Pairs, distinct};
use crate::transport::plan_sums::{Sums, divergence};
use crate::transport::problem::{Block, Ground, Kernels};
use crate::transport::relaxation::{Cost, Relaxation, RelaxedSinkhorn};
use crate::transport::relaxed::{Hold, Relaxed};
use crate::transport::results::{Found, SinkhornDistances, gather, zeros};

/// Iterations without progress after which steps of a partial plan are unaccelerated.
const UNACCELERATED_AFTER: usize = 20;
/// Logarithm of a mass that is all of it, but for rounding.
const WHOLE: f64 = 1e-12;
/// Logarithm of the largest mass, in units of the pair, for which single precision is tried.
const SINGLE_MASS: f64 = 10.0;

/// Distances by transport that need not keep the mass, between the rows of `x` and those of `y`;
/// `y = None` means `y = x`.
///
/// With penalties the plan minimises
/// `tr(T M) + reg KL(T | a b^T / sqrt(|a| |b|)) + p_1 KL(T 1 | a) + p_2 KL(T^T 1 | b)`, where
/// `KL(s | t) = sum s log(s / t) - s + t`: a change of the unit of mass changes nothing but the unit
/// of the result. With a mass it minimises `tr(T M) + reg sum T log T` over `T 1 <= a`, `T^T 1 <= b`,
/// `sum T = mass`. Where `m` is infinite, transport is forbidden; a pair between which no plan is left
/// is infinitely distant.
///
/// # Errors
///
/// [`Error::Shape`] when `m` has not a row for each column of `x` and a column for each column of
/// `y`; [`Error::GroundDistance`], [`Error::Negative`] and [`Error::NotFinite`] at the first bad
/// entry; [`Error::TooLittle`] when a row has less mass than is to move; [`Error::Parameter`] when
/// `reg`, `tol`, a penalty or the mass is out of range.
///
/// # Examples
///
/// ```
/// use histrs::transport::{Cost, Relaxation, RelaxedSinkhorn, relaxed_distances};
/// use histrs::{Executor, HistogramMatrix};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[1.0_f64, 0.0], [0.0, 1.0]];
/// let m = array![[0.0, 9.0], [9.0, 0.0]];
/// let relaxation = Relaxation::Penalties([1.0; 2]);
/// let options = RelaxedSinkhorn::new(0.01, relaxation).with_tol(1e-9).with_cost(Cost::Penalized);
/// let x = HistogramMatrix::dense(x.view());
/// let found = relaxed_distances(&exec, &x, None, m.view(), &options)?;
/// // It is cheaper to destroy the mass of one and create that of the other than to move it.
/// assert!((found.values[[0, 1]] - 2.0).abs() < 0.05);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn relaxed_distances<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
    m: ArrayView2<'_, f64>,
    options: &RelaxedSinkhorn,
) -> Result<SinkhornDistances<T>> {
    let ground = Ground::new(m, options.reg, false)?;
    if options.tol.is_nan() || options.tol <= 0.0 {
        let expected = "it is positive; 1e-9 is as small as double precision is sure to reach";
        return Err(Error::Parameter { name: "tol", value: options.tol, expected });
    }
    options.check_relaxation()?;
    let other = y.unwrap_or(x);
    check_bins("the number of rows of M", m.nrows(), x.n_columns())?;
    check_bins("the number of columns of M", m.ncols(), other.n_columns())?;
    x.check(exec, "X")?;
    let of_x = log_masses(exec, x)?;
    let of_y = match y {
        Some(y) => {
            y.check(exec, "Y")?;
            Some(log_masses(exec, y)?)
        }
        None => None,
    };
    let problem = Problem {
        exec,
        x,
        y: other,
        ground,
        options,
        of_x: &of_x,
        of_y: of_y.as_ref().unwrap_or(&of_x),
    };
    problem.check_masses(y.is_some())?;
    let is_even = match options.relaxation {
        Relaxation::Penalties([p, q]) => p == q,
        Relaxation::Mass(_) => true,
    };
    let pairs = Pairs {
        n_rows: x.n_rows(),
        n_columns: other.n_rows(),
        once: y.is_none() && is_even && problem.ground.is_symmetric(),
    };
    let mut distances = zeros(&pairs, problem.kept_bins())?;
    let blocks = pairs.map_blocks(exec, |pairs| problem.solve(pairs))?;
    gather(&pairs, blocks, &mut distances);
    Ok(distances)
}

/// Logarithms of the sums of rows, which may themselves be out of range.
fn log_masses<T: Element>(exec: &Executor, x: &HistogramMatrix<'_, T>) -> Result<Vec<f64>> {
    const BLOCK: usize = 256;
    let n = x.n_rows();
    let blocks = exec.map_blocks(n.div_ceil(BLOCK), |block| {
        let rows = block * BLOCK..n.min((block + 1) * BLOCK);
        let mut row_values = memory::filled(T::default(), x.n_columns())?;
        let mut logs = memory::with_capacity(rows.len())?;
        for row in rows {
            x.copy_row(row, &mut row_values);
            let largest = row_values.iter().fold(0.0_f64, |a, v| a.max(v.to_f64()));
            // Twice, because tiny numbers have no finite inverse.
            let sum: f64 = row_values.iter().map(|v| v.to_f64() / largest).sum();
            logs.push(if largest > 0.0 { largest.ln() + sum.ln() } else { f64::NEG_INFINITY });
        }
        Ok(logs)
    })?;
    memory::concatenated(&blocks)
}

struct Problem<'a, 'm, T> {
    exec: &'a Executor,
    x: &'a HistogramMatrix<'m, T>,
    y: &'a HistogramMatrix<'m, T>,
    ground: Ground<'a>,
    options: &'a RelaxedSinkhorn,
    /// Logarithms of masses.
    of_x: &'a [f64],
    of_y: &'a [f64],
}

impl<T: Element> Problem<'_, '_, T> {
    /// Fails where a row has less than is to move.
    fn check_masses(&self, is_pair: bool) -> Result<()> {
        let Relaxation::Mass(Some(expected)) = self.options.relaxation else { return Ok(()) };
        let least = expected.ln() - rounding::<T>();
        let sides = [("X", self.of_x), ("Y", self.of_y)];
        for (name, masses) in sides.into_iter().take(if is_pair { 2 } else { 1 }) {
            if let Some(row) = masses.iter().position(|&mass| mass < least) {
                return Err(Error::TooLittle { name, row, mass: masses[row].exp(), expected });
            }
        }
        Ok(())
    }

    fn kept_bins(&self) -> Option<(usize, usize)> {
        self.options.potentials.then_some(self.ground.m.dim())
    }

    /// What a pair is held to: of equal masses that move as a whole, both marginals are kept.
    fn hold(&self, pair: Pair) -> Hold {
        match self.weights() {
            Some(weights) => Hold::Penalties(weights),
            None if self.units(pair).1.iter().all(|mass| *mass <= WHOLE) => {
                Hold::Penalties([f64::INFINITY; 2])
            }
            None => Hold::Mass,
        }
    }

    /// The penalties in units of the regularisation.
    fn weights(&self) -> Option<[f64; 2]> {
        match self.options.relaxation {
            Relaxation::Penalties(penalties) => Some(penalties.map(|p| p / self.options.reg)),
            Relaxation::Mass(_) => None,
        }
    }

    /// The logarithm of the unit in which a pair is solved, and of both masses in it.
    fn units(&self, (i, j): Pair) -> (f64, [f64; 2]) {
        let (a, b) = (self.of_x[i], self.of_y[j]);
        match self.options.relaxation {
            Relaxation::Penalties(_) => (0.5 * (a + b), [0.5 * (a - b), 0.5 * (b - a)]),
            Relaxation::Mass(mass) => {
                let unit = mass.map_or(f64::INFINITY, f64::ln).min(a).min(b);
                (unit, [a - unit, b - unit])
            }
        }
    }

    fn solve(&self, pairs: Vec<Pair>) -> Result<Vec<Found>> {
        let (empty, filled): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|&pair| !self.units(pair).0.is_finite());
        let mut found: Vec<Found> = empty.into_iter().map(|pair| self.without_mass(pair)).collect();
        let rows = distinct(filled.iter().map(|p| p.0));
        let columns = distinct(filled.iter().map(|p| p.1));
        if filled.is_empty() {
            return Ok(found);
        }
        let histograms = [self.x, self.y];
        let block = Block::new(&self.ground, histograms, [&rows, &columns], Pairing::Different)?;
        let place = |list: &[usize], k: usize| list.partition_point(|&other| other < k);
        let places = |(i, j): Pair| (place(&rows, i), place(&columns, j));
        let (possible, impossible): (Vec<_>, Vec<_>) =
            filled.into_iter().partition(|&pair| self.is_possible(&block, pair, places(pair)));
        found.extend(impossible.into_iter().map(|p| Found::without_plan(p, self.kept_bins())));
        let is_equal = |pair: Pair| {
            let (source, target) = places(pair);
            matches!(self.hold(pair), Hold::Penalties([p, q]) if p == q)
                && self.ground.is_symmetric()
                && self.of_x[pair.0] == self.of_y[pair.1]
                && block.is_equal(source, target)
        };
        let (equal, different): (Vec<_>, Vec<_>) =
            possible.into_iter().partition(|&pair| is_equal(pair));
        let (part, whole): (Vec<_>, Vec<_>) =
            different.into_iter().partition(|&pair| self.hold(pair) == Hold::Mass);
        for pairs in [part, whole] {
            let at = pairs.iter().map(|&pair| places(pair)).collect();
            found.extend(self.solve_block(&block, &pairs, at)?);
        }
        if !equal.is_empty() {
            let rows: Vec<usize> = equal.iter().map(|p| p.0).collect();
            let block = Block::new(&self.ground, [self.x; 2], [&rows; 2], Pairing::Equal)?;
            let at = (0..rows.len()).map(|k| (k, k)).collect();
            found.extend(self.solve_block(&block, &equal, at)?);
        }
        Ok(found)
    }

    /// What a pair costs of which one histogram or both have no mass, or of which none is to move.
    fn without_mass(&self, pair: Pair) -> Found {
        let found = Found::empty(pair, self.kept_bins());
        let Relaxation::Penalties(penalties) = self.options.relaxation else { return found };
        let masses = [self.of_x[pair.0].exp(), self.of_y[pair.1].exp()];
        let lost = penalties.iter().zip(masses).filter(|(_, mass)| *mass > 0.0);
        let value: f64 = lost.map(|(penalty, mass)| penalty * mass).sum();
        if value == f64::INFINITY {
            return Found::without_plan(pair, self.kept_bins());
        }
        match self.options.cost {
            Cost::Transport => found,
            Cost::Penalized | Cost::Regularized => Found { value, ..found },
        }
    }

    /// Whether the cells that are not forbidden leave a plan.
    fn is_possible(&self, block: &Block, pair: Pair, (source, target): Pair) -> bool {
        if !self.ground.forbids {
            return true;
        }
        let Block { bins, marginals, .. } = block;
        let (n, m) = (bins.sources.len(), bins.targets.len());
        let a = &marginals.sources[source * n..][..n];
        let b = &marginals.targets[target * m..][..m];
        let is_open = |i: usize, j: usize| {
            b[j] > 0.0
                && a[i] > 0.0
                && self.ground.m[[bins.sources[i], bins.targets[j]]].is_finite()
        };
        match self.options.relaxation {
            // A marginal that is kept needs a way out of each of its bins.
            Relaxation::Penalties(penalties) => {
                let keeps = penalties.map(f64::is_infinite);
                let rows = (0..n).all(|i| a[i] <= 0.0 || (0..m).any(|j| is_open(i, j)));
                let columns = (0..m).all(|j| b[j] <= 0.0 || (0..n).any(|i| is_open(i, j)));
                (rows || !keeps[0]) && (columns || !keeps[1])
            }
            Relaxation::Mass(_) => {
                let [mass_a, mass_b] = self.units(pair).1.map(f64::exp);
                let scaled = |x: &[f64], mass: f64| x.iter().map(|x| x * mass).collect::<Vec<_>>();
                block.passable_of(&self.ground, [&scaled(a, mass_a), &scaled(b, mass_b)])
                    >= 1.0 - rounding::<T>()
            }
        }
    }

    /// Solves pairs that are held to the same.
    fn solve_block(&self, block: &Block, pairs: &[Pair], places: Vec<Pair>) -> Result<Vec<Found>> {
        let Some(&first) = pairs.first() else { return Ok(Vec::new()) };
        let hold = self.hold(first);
        let jobs = |(&pair, &(source, target)): (&Pair, &Pair)| Job {
            source,
            target,
            masses: Some(self.units(pair).1.map(f64::exp)),
            ..Job::default()
        };
        let jobs: Vec<Job> = pairs.iter().zip(&places).map(jobs).collect();
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
        let RelaxedSinkhorn { tol, max_iter, .. } = *self.options;
        let mut pending = PendingSet::new(jobs.len())?;
        seed(block, hold, &mut jobs);
        if self.ground.fits_single() && self.masses_fit_single(&jobs) {
            let is_final = size_of::<T>() < size_of::<f64>() && tol >= SINGLE_ERROR;
            let tol = if is_final { tol } else { tol.max(HANDED_ON) };
            let limits = Limits {
                tol,
                max_iter,
                patience: SINGLE_PATIENCE,
                unaccelerated_after: usize::MAX,
            };
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

    /// Epsilon scaling: starts for the log domain from coarser regularisations, each a start of the
    /// next.
    fn scale_epsilon(&self, block: &Block, hold: Hold, mut jobs: Vec<Job>) -> Result<Vec<Job>> {
        let mut coarseness = 1.0;
        while self.ground.largest / coarseness > 10.0 * COARSER {
            coarseness *= COARSER;
        }
        let max_iter = self.options.max_iter / 2;
        let unaccelerated_after = if hold == Hold::Mass { UNACCELERATED_AFTER } else { usize::MAX };
        let limits =
            Limits { tol: COARSE_ERROR, max_iter, patience: PATIENCE, unaccelerated_after };
        jobs.iter_mut().for_each(|job| job.start.clear());
        seed(block, hold, &mut jobs);
        while coarseness > 1.0 {
            let exponents = self.ground.exponents(&block.bins, coarseness)?;
            let coarse = match hold {
                Hold::Penalties(weights) => Hold::Penalties(weights.map(|w| w / coarseness)),
                Hold::Mass => Hold::Mass,
            };
            let mut domain = Relaxed::new(&exponents, coarse, block.pairing)?;
            let solved = solve(self.exec, &mut domain, &block.marginals, &jobs, limits)?;
            for (job, solved) in jobs.iter_mut().zip(solved) {
                // The dual variables in units of the distance change little.
                let zero = match hold {
                    Hold::Penalties(_) => log_source(block, job),
                    Hold::Mass => Vec::new(),
                };
                job.start = start(&solved);
                for (k, f) in job.start.iter_mut().enumerate() {
                    let zero = zero.get(k).copied().unwrap_or_default();
                    *f = zero + (*f - zero) * COARSER;
                }
                job.n_iter = solved.n_iter;
            }
            seed(block, hold, &mut jobs);
            coarseness /= COARSER;
        }
        Ok(jobs)
    }

    fn found(
        &self,
        block: &Block,
        exponents: &Exponents,
        pair: Pair,
        job: &Job,
        solved: Solved,
    ) -> Found {
        let reg = self.ground.reg;
        let (unit, _) = self.units(pair);
        let [f, g] = solved.potentials;
        let histograms = block.marginals.of(job, (f.len(), g.len()));
        let masses = job.masses.unwrap_or([1.0; 2]);
        let plan = dispatch(Sums { exponents, f: &f, g: &g });
        let mut value = plan.transport;
        let sides = [(&plan.rows, &f), (&plan.columns, &g)];
        match self.weights() {
            Some(weights) => {
                let mut entropy = masses[0] * masses[1] - plan.rows.iter().sum::<f64>() - value;
                for side in 0..2 {
                    let (sums, potential) = sides[side];
                    let own = histograms[side].iter().map(|x| x * masses[side]);
                    for ((&sum, &potential), own) in sums.iter().zip(potential).zip(own) {
                        if own > 0.0 {
                            // Of infinite weight, the marginal is kept.
                            if weights[side].is_finite() && self.options.cost != Cost::Transport {
                                value += weights[side] * own * divergence(sum / own);
                            }
                            entropy += if sum > 0.0 { sum * (potential - own.ln()) } else { 0.0 };
                        }
                    }
                }
                if self.options.cost == Cost::Regularized {
                    value += entropy;
                }
            }
            None => {
                if self.options.cost == Cost::Regularized {
                    value = unit;
                    for (sums, potential) in sides {
                        let filled = sums.iter().zip(potential).filter(|(sum, _)| **sum > 0.0);
                        value += filled.map(|(sum, potential)| sum * potential).sum::<f64>();
                    }
                }
            }
        }
        let spread = |values: &[f64], bins: &[usize], n: usize, shift: f64| {
            let mut out = vec![f64::NEG_INFINITY; n];
            bins.iter().zip(values).for_each(|(&k, f)| out[k] = reg * (f + shift));
            out
        };
        let potentials = self.options.potentials.then(|| {
            [
                spread(&f, &block.bins.sources, self.ground.m.nrows(), unit),
                spread(&g, &block.bins.targets, self.ground.m.ncols(), 0.0),
            ]
        });
        let value = unit.exp() * (reg * value);
        Found { pair, value, error: solved.error, n_iter: solved.n_iter, potentials }
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
