//! Pairs of histograms, whatever their plans are held to.

use std::collections::HashMap;

use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::simd::Element;
use crate::stop::Stop;
use crate::transport::cascade::Cascade;
use crate::transport::job::{Job, Pairing, Solved};
use crate::transport::masses::check_bins;
use crate::transport::order::{Pair, Pairs, distinct};
use crate::transport::problem::{Block, Ground};
use crate::transport::relaxed::Hold;
use crate::transport::results::{Found, SinkhornDistances, gather, zeros};

/// What plans are held to, and what is asked of them.
pub(super) trait Plans: Sync {
    /// What a pair is held to.
    fn hold(&self, pair: Pair) -> Hold;

    /// Whether a pair and that of the same histograms the other way round have the same cost, where the
    /// cost matrix is symmetric.
    fn is_even(&self) -> bool;

    /// Whether both histograms of a pair have the same mass.
    fn has_equal_masses(&self, _: Pair) -> bool {
        true
    }

    /// The cost of a pair whose plan is empty.
    fn without_plan(&self, _: Pair) -> Option<f64> {
        None
    }

    /// Whether the cells that are not forbidden leave a plan; `at` are the numbers in the block.
    fn is_possible(&self, ground: &Ground<'_>, block: &Block, pair: Pair, at: Pair) -> bool;

    /// The logarithm of the unit of mass of a pair.
    fn log_unit(&self, pair: Pair) -> f64;

    /// Masses of both histograms in that unit, where they are not 1.
    fn masses(&self, _: Pair) -> Option<[f64; 2]> {
        None
    }

    /// The cost of a solved pair.
    fn cost(
        &self,
        ground: &Ground<'_>,
        block: &Block,
        pair: Pair,
        job: &Job,
        solved: &Solved,
    ) -> Result<f64>;
}

/// Histograms on both sides, any pairs of which may be solved.
pub(super) struct AllPairs<'a, 'm, 'g, T, P> {
    pub(super) exec: &'a Executor,
    pub(super) x: &'a HistogramMatrix<'m, T>,
    pub(super) y: &'a HistogramMatrix<'m, T>,
    pub(super) ground: Ground<'g>,
    pub(super) stop: Stop,
    /// Whether potentials are kept.
    pub(super) potentials: bool,
    pub(super) plans: P,
}

/// Logarithms of the scalings of sources from which pairs begin, over all bins.
pub(super) type Starts = HashMap<Pair, Vec<f64>>;

/// Fails where the cost matrix has not the bins of both sides.
pub(super) fn check_shapes<T: Element>(
    ground: &Ground<'_>,
    [x, y]: [&HistogramMatrix<'_, T>; 2],
) -> Result<()> {
    let (n, m) = ground.costs.dim();
    check_bins("the number of rows of M", n, x.n_columns())?;
    check_bins("the number of columns of M", m, y.n_columns())
}

impl<T: Element, P: Plans> AllPairs<'_, '_, '_, T, P> {
    /// The distances of all pairs, of one matrix twice once where that is enough.
    pub(super) fn distances(&self, is_one: bool) -> Result<SinkhornDistances<T>> {
        let once = is_one && self.plans.is_even() && self.ground.is_symmetric();
        let pairs = Pairs { n_rows: self.x.n_rows(), n_columns: self.y.n_rows(), once };
        // Where there is no room for the result, work would be in vain.
        let mut distances = zeros(&pairs, self.kept_bins())?;
        let blocks = pairs.map_blocks(self.exec, |pairs| self.solve(pairs, None))?;
        gather(&pairs, blocks, &mut distances);
        Ok(distances)
    }

    /// Solves pairs, those of different histograms from where they are said to begin.
    pub(super) fn solve(&self, pairs: Vec<Pair>, starts: Option<&Starts>) -> Result<Vec<Found>> {
        let (empty, filled): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|&pair| self.plans.without_plan(pair).is_some());
        let cost = |pair: Pair| self.plans.without_plan(pair).unwrap_or(f64::INFINITY);
        let without_plan = |pair: Pair| Found::without_plan(pair, cost(pair), self.kept_bins());
        let mut found: Vec<Found> = empty.into_iter().map(without_plan).collect();
        if filled.is_empty() {
            return Ok(found);
        }
        let rows = distinct(filled.iter().map(|p| p.0));
        let columns = distinct(filled.iter().map(|p| p.1));
        let histograms = [self.x, self.y];
        let block = Block::new(&self.ground, histograms, [&rows, &columns], Pairing::Different)?;
        let index = |list: &[usize], k: usize| list.partition_point(|&other| other < k);
        let at = |(i, j): Pair| (index(&rows, i), index(&columns, j));
        let (possible, impossible): (Vec<_>, Vec<_>) = filled.into_iter().partition(|&pair| {
            !self.ground.forbids || self.plans.is_possible(&self.ground, &block, pair, at(pair))
        });
        found.extend(impossible.into_iter().map(without_plan));
        let (equal, different): (Vec<_>, Vec<_>) = possible.into_iter().partition(|&pair| {
            self.plans.hold(pair).is_even()
                && self.ground.is_symmetric()
                && self.plans.has_equal_masses(pair)
                && block.is_equal(at(pair))
        });
        let (part, whole): (Vec<_>, Vec<_>) =
            different.into_iter().partition(|&pair| self.plans.hold(pair) == Hold::Mass);
        for pairs in [part, whole] {
            let at = pairs.iter().map(|&pair| at(pair)).collect();
            found.extend(self.solve_block(&block, pairs, at, starts)?);
        }
        if !equal.is_empty() {
            let rows: Vec<usize> = equal.iter().map(|p| p.0).collect();
            let block = Block::new(&self.ground, [self.x; 2], [&rows; 2], Pairing::Equal)?;
            let at = (0..rows.len()).map(|k| (k, k)).collect();
            found.extend(self.solve_block(&block, equal, at, None)?);
        }
        Ok(found)
    }

    /// Solves pairs that are held to the same.
    fn solve_block(
        &self,
        block: &Block,
        pairs: Vec<Pair>,
        at: Vec<Pair>,
        starts: Option<&Starts>,
    ) -> Result<Vec<Found>> {
        let Some(&first) = pairs.first() else { return Ok(Vec::new()) };
        let start = |pair: Pair| match starts.and_then(|starts| starts.get(&pair)) {
            Some(start) => block.bins.sources.iter().map(|&bin| start[bin]).collect(),
            None => Vec::new(),
        };
        let job = |(&pair, &(source, target)): (&Pair, &Pair)| {
            let masses = self.plans.masses(pair);
            Job { source, target, start: start(pair), masses, ..Job::default() }
        };
        let jobs: Vec<Job> = pairs.iter().zip(&at).map(job).collect();
        let solved = self.solve_jobs(block, self.plans.hold(first), jobs.clone())?;
        let found = solved.into_iter().zip(pairs).zip(&jobs);
        found.map(|((solved, pair), job)| self.found(block, pair, job, solved)).collect()
    }

    /// Solves jobs that are held to the same.
    pub(super) fn solve_jobs(
        &self,
        block: &Block,
        hold: Hold,
        jobs: Vec<Job>,
    ) -> Result<Vec<Solved>> {
        let (exec, ground) = (self.exec, &self.ground);
        Cascade { exec, ground, block, hold, stop: self.stop }.solve::<T>(jobs)
    }

    fn found(&self, block: &Block, pair: Pair, job: &Job, solved: Solved) -> Result<Found> {
        let Self { ground, plans, .. } = self;
        let value = plans.cost(ground, block, pair, job, &solved)?;
        let spread = |values: Vec<f64>, bins: &[usize], n: usize, shift: f64| {
            let mut out = vec![f64::NEG_INFINITY; n];
            bins.iter().zip(values).for_each(|(&k, f)| out[k] = ground.reg * (f + shift));
            out
        };
        let Solved { error, n_iter, potentials: [f, g], .. } = solved;
        let potentials = self.potentials.then(|| {
            let (n, m) = ground.costs.dim();
            let f = spread(f, &block.bins.sources, n, plans.log_unit(pair));
            [f, spread(g, &block.bins.targets, m, 0.0)]
        });
        Ok(Found { pair, value, error, n_iter, potentials })
    }

    /// The bins of both sides, where potentials are kept.
    fn kept_bins(&self) -> Option<Pair> {
        self.potentials.then_some(self.ground.costs.dim())
    }
}
