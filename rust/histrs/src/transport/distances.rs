//! The Sinkhorn distance of all pairs.

use std::collections::HashMap;

use ndarray::{Array2, Array3, ArrayView2, s};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::simd::Element;
use crate::transport::lanes::{Domain, Job, Limits, Marginals, Pairing, Solved, Status, solve};
use crate::transport::log_domain::LogDomain;
use crate::transport::newton::polish;
use crate::transport::problem::{Block, Ground, Kernels};
use crate::transport::scaling::Scaling;

/// Fewest and most pairs of a block: at its end lanes stand empty until the slowest pair is done.
const BLOCK: (usize, usize) = (128, 1024);
/// Blocks into which a small problem is cut.
const N_BLOCKS: usize = 8;
/// Largest part of the mass, of data in double and in single precision, by which rows that are to
/// have one mass may differ.
const ROUNDING: (f64, f64) = (1e-6, 1e-4);
/// Least error that sums in single precision tell from none.
pub(super) const SINGLE_ERROR: f64 = 1e-6;
/// Tolerance at which a pair is handed on from single to double precision.
pub(super) const HANDED_ON: f64 = 1e-4;
/// Iterations without progress after which single precision is given up.
pub(super) const SINGLE_PATIENCE: usize = 20;
/// The same for double precision, after which Newton's method takes over.
pub(super) const PATIENCE: usize = 200;
/// Tolerance and factor of the coarser regularisations that lead to a fine one.
pub(super) const COARSE_ERROR: f64 = 1e-2;
pub(super) const COARSER: f64 = 4.0;

/// What is computed of each pair, and how far.
#[derive(Debug, Clone, Copy)]
pub struct Sinkhorn {
    /// Weight of the entropy, `1/lambda` in the paper, in the units of the ground distance.
    pub reg: f64,
    /// Largest L1 error of a marginal, as a part of the mass.
    pub tol: f64,
    /// Most iterations of a pair.
    pub max_iter: usize,
    /// `tr(T M) - reg h(T)` instead of `tr(T M)`.
    pub regularized: bool,
    /// Whether the dual variables are kept.
    pub potentials: bool,
}

/// Distances, and how they were reached.
#[derive(Debug, Clone)]
pub struct SinkhornDistances<T> {
    /// The distances.
    pub values: Array2<T>,
    /// L1 errors of the marginals, as a part of the mass.
    pub errors: Array2<f64>,
    /// Numbers of iterations.
    pub n_iter: Array2<usize>,
    /// The dual variables `alpha` and `beta` of every pair, `T = exp((alpha_i + beta_j - M_ij) /
    /// reg)`; minus infinity at empty bins.
    pub potentials: Option<[Array3<f64>; 2]>,
}

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
/// [`Error::Shape`] when `m` has not a row for each column of `x` and a column for each column of
/// `y`; [`Error::GroundDistance`], [`Error::Negative`] and [`Error::NotFinite`] at the first bad
/// entry; [`Error::Mass`] when two rows do not sum alike or one is empty; [`Error::Parameter`]
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
/// let options =
///     Sinkhorn { reg: 0.05, tol: 1e-9, max_iter: 1000, regularized: false, potentials: false };
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
    m: ArrayView2<'_, f64>,
    options: &Sinkhorn,
) -> Result<SinkhornDistances<T>> {
    let all = AllPairs::new(exec, x, y, m, options)?;
    let pairs = Pairs {
        n_rows: x.n_rows(),
        n_columns: all.y.n_rows(),
        once: y.is_none() && all.ground.is_symmetric(),
    };
    // Where there is no room for the result, work would be in vain.
    let mut distances = zeros(&pairs, options.potentials.then_some(all.ground.m.dim()))?;
    let blocks = pairs.map_blocks(exec, |pairs| all.solve(pairs))?;
    gather(&pairs, blocks, &mut distances);
    Ok(distances)
}

pub(super) fn check_bins(what: &'static str, found: usize, expected: usize) -> Result<()> {
    let cure = "the ground distance has a row for each column of X and a column for each of Y";
    if found == expected { Ok(()) } else { Err(Error::Shape { what, found, expected, cure }) }
}

/// Fails unless all rows of `x` and `y` are histograms of one mass, which is returned; without
/// rows it is 1.
///
/// # Errors
///
/// [`Error::Negative`], [`Error::NotFinite`] and [`Error::Mass`] at the first bad entry or row.
pub fn check_masses<T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
    y: Option<&HistogramMatrix<'_, T>>,
) -> Result<f64> {
    x.check(exec, "X")?;
    let mass = common_mass(exec, "X", x, None)?;
    if let Some(y) = y {
        y.check(exec, "Y")?;
        common_mass(exec, "Y", y, mass)?;
    }
    Ok(mass.unwrap_or(1.0))
}

/// Largest part of the mass that may be missing.
pub(super) fn rounding<T>() -> f64 {
    if size_of::<T>() < size_of::<f64>() { ROUNDING.1 } else { ROUNDING.0 }
}

/// The mass that every row has, up to rounding.
fn common_mass<T: Element>(
    exec: &Executor,
    name: &'static str,
    x: &HistogramMatrix<'_, T>,
    expected: Option<f64>,
) -> Result<Option<f64>> {
    let masses = x.row_sums(exec)?;
    let Some(expected) = expected.or(masses.first().copied()) else { return Ok(None) };
    // Rows divided by their sum in the precision of the data, or rounded to it afterwards.
    let rounding = rounding::<T>();
    let differs = |mass: f64| !((mass - expected).abs() <= rounding * expected && mass > 0.0);
    match masses.iter().position(|&mass| differs(mass)) {
        Some(row) => Err(Error::Mass { name, row, mass: masses[row], expected }),
        None => Ok(Some(expected)),
    }
}

/// The pairs in the order in which they are solved: row by row, from the diagonal where each pair
/// is solved once.
pub(super) struct Pairs {
    pub(super) n_rows: usize,
    pub(super) n_columns: usize,
    pub(super) once: bool,
}

impl Pairs {
    pub(super) fn len(&self) -> usize {
        self.start_of_row(self.n_rows)
    }

    /// Solves them in blocks.
    pub(super) fn map_blocks(
        &self,
        exec: &Executor,
        solve: impl Fn(Vec<Pair>) -> Result<Vec<Found>> + Sync,
    ) -> Result<Vec<Vec<Found>>> {
        let size = (self.len() / N_BLOCKS).clamp(BLOCK.0, BLOCK.1);
        exec.map_blocks(self.len().div_ceil(size), |block| solve(self.range(block * size, size)))
    }

    fn start_of_row(&self, row: usize) -> usize {
        row * self.n_columns - if self.once { row * row.saturating_sub(1) / 2 } else { 0 }
    }

    pub(super) fn range(&self, start: usize, len: usize) -> Vec<Pair> {
        let (mut low, mut high) = (0, self.n_rows);
        while low < high {
            let middle = low.midpoint(high);
            if self.start_of_row(middle + 1) <= start { low = middle + 1 } else { high = middle }
        }
        let first = |row: usize| if self.once { row } else { 0 };
        let skipped = start - self.start_of_row(low);
        (low..self.n_rows)
            .flat_map(|row| (first(row)..self.n_columns).map(move |column| (row, column)))
            .skip(skipped)
            .take(len)
            .collect()
    }
}

/// Histograms on both sides, any pairs of which may be solved.
pub(super) struct AllPairs<'a, 'm, T> {
    exec: &'a Executor,
    pub(super) x: &'a HistogramMatrix<'m, T>,
    pub(super) y: &'a HistogramMatrix<'m, T>,
    pub(super) ground: Ground<'a>,
    options: &'a Sinkhorn,
    mass: f64,
}

/// A row of `x` and a row of `y`.
pub(super) type Pair = (usize, usize);

/// Logarithms of the scalings of sources from which pairs begin, over all bins.
pub(super) type Starts = HashMap<Pair, Vec<f64>>;

/// What is kept of a pair.
pub(super) struct Found {
    pub(super) pair: Pair,
    pub(super) value: f64,
    pub(super) error: f64,
    pub(super) n_iter: usize,
    pub(super) potentials: Option<[Vec<f64>; 2]>,
}

impl Found {
    /// Of a pair between which no plan is allowed; `bins` of both sides where potentials are kept.
    pub(super) fn without_plan(pair: Pair, bins: Option<(usize, usize)>) -> Self {
        Self { value: f64::INFINITY, ..Self::empty(pair, bins) }
    }

    /// Of a pair between which nothing moves, at no cost.
    pub(super) fn empty(pair: Pair, bins: Option<(usize, usize)>) -> Self {
        let potentials = bins.map(|(n, m)| [n, m].map(|n| vec![f64::NEG_INFINITY; n]));
        Self { pair, value: 0.0, error: 0.0, n_iter: 0, potentials }
    }
}

impl<'a, 'm, T: Element> AllPairs<'a, 'm, T> {
    /// Looks at every argument of [`sinkhorn_distances`].
    pub(super) fn new(
        exec: &'a Executor,
        x: &'a HistogramMatrix<'m, T>,
        y: Option<&'a HistogramMatrix<'m, T>>,
        m: ArrayView2<'a, f64>,
        options: &'a Sinkhorn,
    ) -> Result<Self> {
        let ground = Ground::new(m, options.reg, !options.regularized)?;
        if options.tol.is_nan() || options.tol <= 0.0 {
            let expected = "it is positive; 1e-9 is as small as double precision is sure to reach";
            return Err(Error::Parameter { name: "tol", value: options.tol, expected });
        }
        let other = y.unwrap_or(x);
        check_bins("the number of rows of M", m.nrows(), x.n_columns())?;
        check_bins("the number of columns of M", m.ncols(), other.n_columns())?;
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
        let place = |list: &[usize], k: usize| list.partition_point(|&other| other < k);
        let places = |&(i, j): &(usize, usize)| (place(&rows, i), place(&columns, j));
        let (possible, impossible): (Vec<_>, Vec<_>) = pairs.into_iter().partition(|pair| {
            let (source, target) = places(pair);
            let needed = 1.0 - rounding::<T>();
            !self.ground.forbids || block.passable(&self.ground, source, target) >= needed
        });
        let (equal, different): (Vec<_>, Vec<_>) = possible.into_iter().partition(|pair| {
            let (source, target) = places(pair);
            self.ground.is_symmetric() && block.is_equal(source, target)
        });
        let places = different.iter().map(places).collect();
        let mut found = self.solve_block(&block, different, places, starts)?;
        let bins = self.options.potentials.then_some(self.ground.m.dim());
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
        let places = (0..rows.len()).map(|k| (k, k)).collect();
        self.solve_block(&block, pairs, places, None)
    }

    fn solve_block(
        &self,
        block: &Block,
        pairs: Vec<Pair>,
        places: Vec<Pair>,
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
        let solved = self.climb(block, pairs.iter().zip(&places).map(job).collect())?;
        let found = solved.into_iter().zip(pairs).zip(places);
        Ok(found.map(|((s, pair), place)| self.found(block, pair, place, s)).collect())
    }

    /// Solves the jobs in single precision, what that leaves in double, the rest in the log domain,
    /// and what is left then by Newton's method.
    pub(super) fn climb(&self, block: &Block, mut jobs: Vec<Job>) -> Result<Vec<Solved>> {
        let Block { marginals, bins, pairing, .. } = block;
        let kernels: &Kernels = block.kernels.as_ref().unwrap_or(self.ground.whole());
        let Sinkhorn { tol, max_iter, .. } = *self.options;
        let mut ladder = Ladder::new(jobs.len())?;
        if self.ground.fits_single() {
            let is_final = size_of::<T>() < size_of::<f64>() && tol >= SINGLE_ERROR;
            let tol = if is_final { tol } else { tol.max(HANDED_ON) };
            let limits =
                Limits { tol, max_iter, patience: SINGLE_PATIENCE, plain_after: usize::MAX };
            let mut domain = Scaling::new(self.ground.single(kernels, bins)?, *pairing)?;
            let solved = solve(self.exec, &mut domain, marginals, &jobs, limits)?;
            jobs = ladder.keep(solved, jobs, |s| is_final && s.status == Status::Converged)?;
        }
        let limits = Limits { tol, max_iter, patience: PATIENCE, plain_after: usize::MAX };
        if self.ground.fits_double() && !jobs.is_empty() {
            let mut domain = Scaling::new(self.ground.double(kernels, bins)?, *pairing)?;
            let solved = solve(self.exec, &mut domain, marginals, &jobs, limits)?;
            jobs = ladder.keep(solved, jobs, |s| s.status != Status::Failed)?;
        }
        if !jobs.is_empty() {
            jobs = self.approach(block, jobs)?;
            let exponents = self.ground.finest(kernels, bins)?;
            let mut domain = LogDomain::new(exponents, *pairing)?;
            let solved = solve(self.exec, &mut domain, marginals, &jobs, limits)?;
            let shape = domain.shape();
            let polished = solved.into_iter().zip(&jobs).map(|(solved, job)| {
                polish(self.exec, exponents, marginals.of(job, shape), [0.0; 2], solved, limits)
            });
            let solved = polished.collect::<Result<_>>()?;
            ladder.keep(solved, jobs, |_| true)?;
        }
        Ok(ladder.solved.into_iter().flatten().collect())
    }

    /// Starts for the log domain from coarser regularisations, each a start of the next.
    fn approach(&self, block: &Block, mut jobs: Vec<Job>) -> Result<Vec<Job>> {
        let mut coarseness = 1.0;
        while self.ground.largest / coarseness > 10.0 * COARSER {
            coarseness *= COARSER;
        }
        let max_iter = self.options.max_iter / 2;
        let limits =
            Limits { tol: COARSE_ERROR, max_iter, patience: PATIENCE, plain_after: usize::MAX };
        jobs.iter_mut().for_each(|job| job.start.clear());
        while coarseness > 1.0 {
            let exponents = self.ground.exponents(&block.bins, coarseness)?;
            let mut domain = LogDomain::new(&exponents, block.pairing)?;
            let solved = solve(self.exec, &mut domain, &block.marginals, &jobs, limits)?;
            for (job, solved) in jobs.iter_mut().zip(solved) {
                // The potentials in units of the distance change little.
                job.start = start(&solved).iter().map(|f| f * COARSER).collect();
                job.n_iter = solved.n_iter;
            }
            coarseness /= COARSER;
        }
        Ok(jobs)
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
                spread(f, &block.bins.sources, self.ground.m.nrows(), log_mass),
                spread(g, &block.bins.targets, self.ground.m.ncols(), 0.0),
            ]
        });
        Found { pair, value, error: solved.error, n_iter: solved.n_iter, potentials }
    }
}

/// Room for the results of all pairs; `bins` of both sides where potentials are kept.
pub(super) fn zeros<T: Element>(
    pairs: &Pairs,
    bins: Option<(usize, usize)>,
) -> Result<SinkhornDistances<T>> {
    let shape = (pairs.n_rows, pairs.n_columns);
    let of_side = |n: usize| memory::zeros((pairs.n_rows, pairs.n_columns, n));
    let potentials = match bins {
        Some((n_source, n_target)) => Some([of_side(n_source)?, of_side(n_target)?]),
        None => None,
    };
    Ok(SinkhornDistances {
        values: memory::zeros(shape)?,
        errors: memory::zeros(shape)?,
        n_iter: memory::zeros(shape)?,
        potentials,
    })
}

/// Puts results in their places, both of them where one pair was solved for two.
pub(super) fn gather<T: Element>(
    pairs: &Pairs,
    blocks: Vec<Vec<Found>>,
    distances: &mut SinkhornDistances<T>,
) {
    let SinkhornDistances { values, errors, n_iter, potentials } = distances;
    for block in blocks {
        for found in block {
            let (i, j) = found.pair;
            let mirrored = pairs.once.then_some((j, i));
            for place in std::iter::once((i, j)).chain(mirrored) {
                values[place] = T::from_f64(found.value);
                errors[place] = found.error;
                n_iter[place] = found.n_iter;
            }
            if let (Some([alpha, beta]), Some([f, g])) = (&mut *potentials, &found.potentials) {
                let assign = |out: &mut Array3<f64>, (i, j): (usize, usize), from: &[f64]| {
                    out.slice_mut(s![i, j, ..]).iter_mut().zip(from).for_each(|(o, f)| *o = *f);
                };
                assign(alpha, (i, j), f);
                assign(beta, (i, j), g);
                if let Some(place) = mirrored.filter(|_| i != j) {
                    assign(alpha, place, g);
                    assign(beta, place, f);
                }
            }
        }
    }
}

pub(super) fn distinct(items: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut items: Vec<usize> = items.collect();
    items.sort_unstable();
    items.dedup();
    items
}

/// The mean of a potential under a marginal; an empty bin adds nothing.
pub(super) fn expectation(a: &[f64], f: &[f64]) -> f64 {
    a.iter().zip(f).filter(|(a, _)| **a > 0.0).map(|(a, f)| a * f).sum()
}

/// A finite start from where a pair ended, or none.
pub(super) fn start(solved: &Solved) -> Vec<f64> {
    if solved.status == Status::Failed {
        return Vec::new();
    }
    solved.potentials[0].iter().map(|&f| if f.is_finite() { f } else { 0.0 }).collect()
}

/// Which pairs are solved, and which are handed on.
pub(super) struct Ladder {
    pub(super) solved: Vec<Option<Solved>>,
    /// Place of each job that is left.
    places: Vec<usize>,
}

impl Ladder {
    pub(super) fn new(n_jobs: usize) -> Result<Self> {
        Ok(Self { solved: memory::filled(None, n_jobs)?, places: memory::collected(0..n_jobs)? })
    }

    /// Keeps what is final, and returns the jobs of the rest, to begin where they ended.
    pub(super) fn keep(
        &mut self,
        solved: Vec<Solved>,
        jobs: Vec<Job>,
        is_final: impl Fn(&Solved) -> bool,
    ) -> Result<Vec<Job>> {
        let (mut left, mut places) = (Vec::new(), Vec::new());
        for ((found, job), &place) in solved.into_iter().zip(jobs).zip(&self.places) {
            if is_final(&found) {
                self.solved[place] = Some(found);
            } else {
                memory::push(&mut left, Job { start: start(&found), n_iter: found.n_iter, ..job })?;
                memory::push(&mut places, place)?;
            }
        }
        self.places = places;
        Ok(left)
    }
}
