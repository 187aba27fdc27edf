//! The objective of stochastic histogram compression, and its gradient, in one pass.
//!
//! The rows are cut into parts, each with sums of its own. In a part some rows at a time meet all
//! prototypes, side by side as for [`sinkhorn_distances`](crate::transport::sinkhorn_distances).
//! Then the softmax is taken, and the potentials that have a weight in the gradient are added up.

use std::ops::Range;

use ndarray::Array2;

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::neighborhood::{Labels, Neighborhood};
use crate::simd::Element;
use crate::transport::all_pairs::AllPairs;
use crate::transport::costs::Costs;
use crate::transport::distances::{Balanced, Sinkhorn};
use crate::transport::job::{Job, Pairing, Solved, worse};
use crate::transport::problem::{Block, Dense};
use crate::transport::relaxed::Hold;

/// Most parts that the rows are cut into.
const PARTS: usize = 32;
/// Fewest pairs of a part, and most that are solved together: at their end lanes stand empty until
/// the slowest pair is done.
const FEWEST: usize = 512;
const TOGETHER: usize = 1024;

/// The value and the gradient of [`histogram_compression_loss`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HistogramLoss {
    /// `-sum_i v_i log p_i`.
    pub loss: f64,
    /// With respect to the logarithms of the prototypes, of shape `(m, d)`.
    pub gradient: Array2<f64>,
    /// The largest L1 error of a marginal.
    pub error: f64,
}

/// The objective `-sum_i log p_i` of stochastic histogram compression (eqs. 5, 6 and 9), where
/// `p_ij = softmax_j(-gamma^2 D(x_i, h_j))` and `p_i` is the sum over prototypes of the right
/// class; with [weights](Labels::weights) `v_i` of the rows `-sum_i v_i log p_i`.
///
/// Rows and prototypes are scaled to mass 1. `D` is `S(x_i, h_j) - S(h_j, h_j) / 2`, where `S` is
/// the regularised cost `min_T tr(T M) - reg h(T)`. The dual variable `beta` is the gradient of
/// `S`, up to a constant; the paper takes it for the gradient of `tr(T M)`. Without the cost of the
/// prototype itself, blurred prototypes would be nearer than sharp ones. (The term of `x_i`, which
/// would make it the Sinkhorn divergence, drops out of the softmax.) With `h = softmax(w)` the
/// gradient with respect to `w_j` is `h_j (G_j - <G_j, h_j>)`, where
/// `G_j = gamma^2 sum_i v_i w_ij (beta_ij - beta_jj)` and `w_ij = (p_ij / p_i) (delta - p_i)`. (The
/// paper prints `h_j (1 - h_j) G_j`, the diagonal alone, which changes with the constant in
/// `beta`.)
///
/// `starts` holds logarithms of scalings from which the pairs begin, an entry for each row,
/// prototype and bin. The call replaces them by the final ones. If prototypes move little between
/// two calls, few iterations are left to do.
///
/// # Errors
///
/// As [`sinkhorn_distances`](crate::transport::sinkhorn_distances), with `Y` for the prototypes.
/// [`Error::Shape`] when there are not as many labels or weights as rows, or starts as pairs have
/// bins. [`Error::Parameter`] when no prototype has the class of a row, `gamma` is not positive, a
/// weight is negative or not finite, or `m` is not symmetric.
///
/// # Examples
///
/// ```
/// use histrs::transport::{Sinkhorn, histogram_compression_loss};
/// use histrs::{Executor, HistogramMatrix, neighborhood::Labels};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[0.9, 0.1], [0.1, 0.9]];
/// let m = array![[0.0, 1.0], [1.0, 0.0]];
/// let options = Sinkhorn::new(0.01).with_tol(1e-9);
/// let x = HistogramMatrix::dense(x.view());
/// let labels = Labels::new(&[0, 1], &[0, 1]);
/// let result =
///     histogram_compression_loss(&exec, [&x, &x], labels, m.view(), 1.0, &options, None)?;
/// // 0.8 of the mass moves by 1, so that each is right with probability 1 / (1 + exp(-0.8)).
/// assert!((result.loss - 2.0 * (-0.8_f64).exp().ln_1p()).abs() < 0.02);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn histogram_compression_loss<'a, T: Element>(
    exec: &Executor,
    [x, prototypes]: [&HistogramMatrix<'a, T>; 2],
    labels: Labels<'_>,
    m: impl Into<Costs<'a>>,
    gamma: f64,
    options: &Sinkhorn,
    starts: Option<&mut [f32]>,
) -> Result<HistogramLoss> {
    let options = Sinkhorn { regularized: true, potentials: true, ..*options };
    let m = m.into();
    let (n_rows, n_columns) = m.dim();
    check_length("the number of columns of M", n_columns, n_rows, "give both the same bins")?;
    let pairs = AllPairs::balanced(exec, x, Some(prototypes), m, &options)?;
    let neighborhood = Neighborhood::new(labels, [x.n_rows(), prototypes.n_rows()], gamma)?;
    if pairs.ground.forbids {
        let expected =
            "a ground distance of prototypes is finite; give forbidden moves a large cost";
        return Err(Error::parameter("M", f64::INFINITY, expected));
    }
    check_symmetric(&pairs.ground.costs)?;
    let problem = Problem { to_self: SelfTransport::new(&pairs)?, pairs, neighborhood };
    let fewest = FEWEST.div_ceil(prototypes.n_rows().max(1));
    let size = x.n_rows().div_ceil(PARTS).max(fewest);
    let mut parts = problem.parts(x.n_rows(), size, starts)?;
    exec.for_chunks(&mut parts, 1, |_, parts| {
        parts.iter_mut().try_for_each(|part| problem.add(part))
    })?;

    let shape = (prototypes.n_rows(), prototypes.n_columns());
    let (mut loss, mut error, mut sums) = (0.0, 0.0_f64, memory::zeros(shape)?);
    let mut weights = memory::filled(0.0, prototypes.n_rows())?;
    for part in parts {
        loss += part.loss;
        error = worse(error, part.error);
        sums += &part.sums;
        weights.iter_mut().zip(&part.weights).for_each(|(sum, weight)| *sum += weight);
    }
    problem.finish(&mut sums, &weights);
    Ok(HistogramLoss { loss, gradient: sums, error })
}

struct Problem<'a, 'm, T> {
    pairs: AllPairs<'a, 'm, 'm, T, Balanced>,
    neighborhood: Neighborhood<'a>,
    to_self: SelfTransport,
}

/// The prototypes, and transport of each to itself.
struct SelfTransport {
    shares: Dense,
    solved: Vec<Solved>,
    /// `S(h_j, h_j) / (2 reg)`.
    costs: Vec<f64>,
}

impl SelfTransport {
    fn new<T: Element>(pairs: &AllPairs<'_, '_, '_, T, Balanced>) -> Result<Self> {
        let rows: Vec<usize> = (0..pairs.y.n_rows()).collect();
        let block = Block::new(&pairs.ground, [pairs.y; 2], [&rows; 2], Pairing::Equal)?;
        let job = |&j: &usize| Job { source: j, target: j, ..Job::default() };
        let solved = pairs.solve_jobs(&block, Hold::Marginals, rows.iter().map(job).collect())?;
        let cost = |(&j, pair): (&usize, &Solved)| 0.5 * block.dual((j, j), &pair.potentials);
        let costs = rows.iter().zip(&solved).map(cost).collect();
        // Potentials over all bins.
        let spread = |pair: Solved| {
            let mut all = memory::filled(0.0, pairs.ground.costs.n_columns())?;
            for (&bin, &g) in block.bins.targets.iter().zip(&pair.potentials[1]) {
                all[bin] = if g.is_finite() { g } else { 0.0 };
            }
            Ok(Solved { potentials: [Vec::new(), all], ..pair })
        };
        let solved = solved.into_iter().map(spread).collect::<Result<_>>()?;
        Ok(Self { shares: Dense::new(pairs.y, &rows)?, solved, costs })
    }
}

/// Some rows, where their pairs begin, and their part of the sums.
struct Part<'a> {
    rows: Range<usize>,
    starts: Option<&'a mut [f32]>,
    loss: f64,
    error: f64,
    /// `sum_i w_ij log b_ij`, where `reg log b = beta`, and `sum_i w_ij`, times weights of rows.
    sums: Array2<f64>,
    weights: Vec<f64>,
}

impl<T: Element> Problem<'_, '_, T> {
    fn n_prototypes(&self) -> usize {
        self.pairs.y.n_rows()
    }

    fn n_bins(&self) -> usize {
        self.pairs.ground.costs.n_rows()
    }

    fn parts<'s>(
        &self,
        n_rows: usize,
        size: usize,
        starts: Option<&'s mut [f32]>,
    ) -> Result<Vec<Part<'s>>> {
        let of_row = self.n_prototypes() * self.n_bins();
        if let Some(starts) = &starts {
            let cure = "give one for each row, prototype and bin";
            check_length("the number of starts", starts.len(), n_rows * of_row, cure)?;
        }
        let mut starts = starts.map(|starts| starts.chunks_mut((size * of_row).max(1)));
        let ranges = (0..n_rows).step_by(size).map(|first| first..n_rows.min(first + size));
        ranges
            .map(|rows| {
                Ok(Part {
                    rows,
                    starts: starts.as_mut().and_then(Iterator::next),
                    loss: 0.0,
                    error: 0.0,
                    sums: memory::zeros((
                        self.n_prototypes(),
                        self.pairs.ground.costs.n_columns(),
                    ))?,
                    weights: memory::filled(0.0, self.n_prototypes())?,
                })
            })
            .collect()
    }

    fn add(&self, part: &mut Part<'_>) -> Result<()> {
        let Range { start, end } = part.rows;
        let step = (TOGETHER / self.n_prototypes().max(1)).max(1);
        for first in (start..end).step_by(step) {
            let rows: Vec<usize> = (first..end.min(first + step)).collect();
            self.add_rows(part, &rows)?;
        }
        Ok(())
    }

    fn add_rows(&self, part: &mut Part<'_>, rows: &[usize]) -> Result<()> {
        let columns: Vec<usize> = (0..self.n_prototypes()).collect();
        let ground = &self.pairs.ground;
        let histograms = [self.pairs.x, self.pairs.y];
        let block = Block::new(ground, histograms, [rows, &columns], Pairing::Different)?;
        let of_row = self.n_prototypes() * self.n_bins();
        let from = (rows[0] - part.rows.start) * of_row;
        let mut starts =
            part.starts.as_deref_mut().map(|starts| &mut starts[from..from + rows.len() * of_row]);
        let jobs = self.jobs(&block, rows.len(), starts.as_deref());
        let solved = self.pairs.solve_jobs(&block, Hold::Marginals, jobs)?;
        if let Some(starts) = &mut starts {
            self.keep(&block, &solved, starts);
        }
        let mut weights = memory::filled(0.0, self.n_prototypes())?;
        for (index, (&row, solved)) in
            rows.iter().zip(solved.chunks_exact(self.n_prototypes())).enumerate()
        {
            for (j, (weight, pair)) in weights.iter_mut().zip(solved).enumerate() {
                part.error = worse(part.error, pair.error);
                let cost = block.dual((index, j), &pair.potentials);
                *weight = ground.reg * (cost - self.to_self.costs[j]);
            }
            part.loss += self.neighborhood.softmax(row, &mut weights);
            part.add_potentials(&block, &weights, solved);
        }
        Ok(())
    }

    /// A job for each row and prototype, from where it ended last.
    fn jobs(&self, block: &Block, n_rows: usize, starts: Option<&[f32]>) -> Vec<Job> {
        let n_bins = self.n_bins();
        let start = |pair: usize| match starts {
            Some(starts) => {
                let of_pair = &starts[pair * n_bins..][..n_bins];
                block.bins.sources.iter().map(|&bin| f64::from(of_pair[bin])).collect()
            }
            None => Vec::new(),
        };
        (0..n_rows * self.n_prototypes())
            .map(|pair| Job {
                source: pair / self.n_prototypes(),
                target: pair % self.n_prototypes(),
                start: start(pair),
                ..Job::default()
            })
            .collect()
    }

    /// Keeps the scalings of the rows; a bin without mass has none.
    fn keep(&self, block: &Block, solved: &[Solved], starts: &mut [f32]) {
        for (pair, start) in solved.iter().zip(starts.chunks_exact_mut(self.n_bins().max(1))) {
            for (&bin, &f) in block.bins.sources.iter().zip(&pair.potentials[0]) {
                start[bin] = if f.is_finite() { f as f32 } else { 0.0 };
            }
        }
    }

    /// Turns sums of the logarithms of scalings into the gradient.
    fn finish(&self, sums: &mut Array2<f64>, weights: &[f64]) {
        let scale = self.neighborhood.inverse_temperature() * self.pairs.ground.reg;
        let prototypes = self.to_self.shares.rows().zip(&self.to_self.solved).zip(weights);
        for (mut sums, ((h, own), &weight)) in sums.rows_mut().into_iter().zip(prototypes) {
            let mut mean = 0.0;
            for ((sum, &h), &g) in sums.iter_mut().zip(h).zip(&own.potentials[1]) {
                *sum -= weight * g;
                mean += h * *sum;
            }
            for (sum, &h) in sums.iter_mut().zip(h) {
                *sum = scale * h * (*sum - mean);
            }
        }
    }
}

impl Part<'_> {
    fn add_potentials(&mut self, block: &Block, weights: &[f64], solved: &[Solved]) {
        for (j, (&weight, pair)) in weights.iter().zip(solved).enumerate() {
            self.weights[j] += weight;
            let mut sums = self.sums.row_mut(j);
            for (&bin, &g) in block.bins.targets.iter().zip(&pair.potentials[1]) {
                // An empty bin stays empty, whatever its slope.
                if g.is_finite() {
                    sums[bin] += weight * g;
                }
            }
        }
    }
}

fn check_symmetric(m: &Costs<'_>) -> Result<()> {
    match m.asymmetry() {
        Some((_, value)) => {
            let expected = "an entry below the diagonal differs from that above; the ground \
                            distance of prototypes is symmetric";
            Err(Error::parameter("M", value, expected))
        }
        None => Ok(()),
    }
}
