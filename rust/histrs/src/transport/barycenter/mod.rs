//! Barycentres of histograms under regularised transport.
//!
//! Sources: J.-D. Benamou, G. Carlier, M. Cuturi, L. Nenna and G. Peyre, *Iterative Bregman projections
//! for regularized transportation problems*, SIAM J. Sci. Comput. 37, 2015; H. Janati, M. Cuturi and A.
//! Gramfort, *Debiased Sinkhorn barycenters*, ICML 2020.

mod iteration;
mod kernel;
mod row_sums;

use ndarray::{Array2, ArrayView1, ArrayView2};

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::simd::Element;
use crate::stop::{Stop, with_fields, with_stop};
use crate::transport::barycenter::iteration::{Iteration, Stage};
use crate::transport::barycenter::kernel::LogKernel;
use crate::transport::cascade::WARM_STEPS;
use crate::transport::costs::Costs;
use crate::transport::epsilon_scaling::{COARSE_ERROR, COARSER};
use crate::transport::masses::{check_bins, check_masses, check_tol};
use crate::transport::problem::{Bins, Dense, Ground};

/// Largest `M / reg` at which the iteration begins.
const COARSEST: f64 = 20.0;

/// Which barycentre is computed, and how far.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Barycenter {
    /// Weight of the entropy, in the units of the cost matrix.
    pub reg: f64,
    /// At a largest L1 error of a marginal, as a part of the mass.
    pub stop: Stop,
    /// That of Sinkhorn divergences instead of regularised costs.
    pub debiased: bool,
}

impl Barycenter {
    /// The barycentre of regularised costs with this weight of the entropy, to a relative error of 1e-7
    /// in at most 10,000 iterations.
    pub const fn new(reg: f64) -> Self {
        Self { reg, stop: Stop::new(1e-7, 10_000), debiased: false }
    }
}

with_fields!(Barycenter: with_debiased(debiased: bool));
with_stop!(Barycenter);

/// What [`sinkhorn_barycenters`] found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Barycenters {
    /// A barycentre per row, of the mass of the histograms.
    pub values: Array2<f64>,
    /// Largest L1 error of a marginal of each, as a part of the mass.
    pub errors: Vec<f64>,
    /// Iterations of each.
    pub n_iter: Vec<usize>,
}

/// Barycentres of the rows of `x`, one for each row of `weights`, in which rows of weight 0 are left out
/// and the others have the sum 1.
///
/// The barycentre of weights `w` is the `b` of least `sum_k w_k OT(x_k, b)`. Here `OT` is the
/// minimum of `tr(T M) - reg h(T)` over plans from `x_k` to `b`. For a debiased one,
/// `(OT(x, x) + OT(b, b)) / 2` is subtracted from `OT(x, b)`.
///
/// Iterated is, in logarithms and units of `reg`, `f_k = log x_k - log K exp(g_k)`,
/// `s_k = log K' exp(f_k)`, `log b = c + sum_k w_k s_k` and `g_k = log b - s_k`, with
/// `K = exp(-M / reg)`, and `c = 0`; of a debiased one (algorithm 1 of Janati et al.) it goes half
/// of the way to `c = log b - log K exp(c)`, three times in an iteration. The products are matrix
/// products if `K` is in the range of the numbers, and otherwise sums of exponentials. A fine
/// regularisation is approached through coarser ones.
///
/// # Errors
///
/// [`Error::Shape`] when `m` has not a row for each column of `x`, or `weights` not a column for
/// each row. [`Error::GroundDistance`], [`Error::Negative`] and [`Error::NotFinite`] at the first
/// bad entry. [`Error::Mass`] when two rows do not sum alike or one is empty. [`Error::Parameter`]
/// when `reg` or `tol` is not positive, `reg` is so small that it underflows, or a weight is
/// negative or not finite, or all of a row are 0. [`Error::NoBarycenter`] where no bin is in reach
/// of all histograms. [`Error::NotSymmetricDistance`] when a debiased one is asked for and `m` is
/// not symmetric with a finite diagonal.
///
/// # Examples
///
/// ```
/// use histrs::transport::{Barycenter, sinkhorn_barycenters};
/// use histrs::{Executor, HistogramMatrix};
/// use ndarray::{Array2, array};
///
/// let exec = Executor::new(1)?;
/// let x = array![[1.0_f64, 0.0, 0.0], [0.0, 0.0, 1.0]];
/// let m = Array2::from_shape_fn((3, 3), |(i, j)| (i as f64 - j as f64).powi(2));
/// let options = Barycenter::new(0.001).with_debiased(true);
/// let x = HistogramMatrix::dense(x.view());
/// let found = sinkhorn_barycenters(&exec, &x, array![[0.5, 0.5]].view(), m.view(), &options)?;
/// // Half-way.
/// assert!((found.values[[0, 1]] - 1.0).abs() < 1e-6);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn sinkhorn_barycenters<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    weights: ArrayView2<'_, f64>,
    m: impl Into<Costs<'a>>,
    options: &Barycenter,
) -> Result<Barycenters> {
    let ground = Ground::new(m, options.reg, false)?;
    check_tol(options.stop)?;
    let (n, m) = ground.costs.dim();
    check_bins("the number of rows of M", n, x.n_columns())?;
    if options.debiased {
        check_symmetric(&ground.costs)?;
    }
    let cure = "give a weight for each row of X";
    check_length("the number of columns of the weights", weights.ncols(), x.n_rows(), cure)?;
    let mass = check_masses(exec, x, None)?;
    let mut values = memory::zero_matrix((weights.nrows(), m))?;
    let (bins, mut iterations) = iterations(x, weights, &ground)?;
    for (coarseness, finer) in stages(ground.largest) {
        let stage = Stage {
            kernel: LogKernel::new(&ground, &bins, coarseness)?,
            own: options
                .debiased
                .then(|| LogKernel::new(&ground, &ground.all_bins(), coarseness))
                .transpose()?,
        };
        exec.for_chunks(&mut iterations, 1, |_, one| {
            for iteration in one {
                let left = options.stop.max_iter.saturating_sub(iteration.n_iter);
                let Some(factor) = finer else {
                    iteration.run(exec, &stage, options.stop.tol, left)?;
                    continue;
                };
                let tol = options.stop.tol.max(COARSE_ERROR);
                iteration.run(exec, &stage, tol, WARM_STEPS.min(left / 2))?;
                iteration.rescale(factor);
            }
            Ok(())
        })?;
    }
    for (iteration, mut row) in iterations.iter().zip(values.rows_mut()) {
        row.assign(&(ArrayView1::from(&iteration.barycenter()?).mapv(|b| b * mass)));
    }
    Ok(Barycenters {
        values,
        errors: memory::collected(iterations.iter().map(|iteration| iteration.error))?,
        n_iter: memory::collected(iterations.iter().map(|iteration| iteration.n_iter))?,
    })
}

/// How much coarser than asked for the regularisations are that lead there, and from each to the next.
fn stages(largest: f64) -> Vec<(f64, Option<f64>)> {
    let mut stages = Vec::new();
    let mut coarseness = largest / COARSEST;
    while coarseness > 1.0 {
        let next = (coarseness / COARSER).max(1.0);
        stages.push((coarseness, Some(coarseness / next)));
        coarseness = if next > 1.0 { next } else { 0.0 };
    }
    stages.push((1.0, None));
    stages
}

/// The bins that histograms have, and the start of every barycentre.
fn iterations<T: Element>(
    x: &HistogramMatrix<'_, T>,
    weights: ArrayView2<'_, f64>,
    ground: &Ground<'_>,
) -> Result<(Bins, Vec<Iteration>)> {
    let weighted = |k: &usize| weights.column(*k).iter().any(|&w| w != 0.0);
    let rows: Vec<usize> = (0..x.n_rows()).filter(weighted).collect();
    let histograms = Dense::new(x, &rows)?;
    let all = ground.all_bins();
    let used = Bins { sources: histograms.used(), targets: all.targets.clone() };
    let bins = if ground.is_cheaper_between(&used) { used } else { all };
    let masses: Vec<Vec<f64>> = histograms
        .rows()
        .map(|row| memory::collected(bins.sources.iter().map(|&bin| row[bin])))
        .collect::<Result<_>>()?;
    let mut iterations = memory::with_capacity(weights.nrows())?;
    for weights in weights.rows() {
        let own = normalised(weights)?;
        let used = rows.iter().enumerate().filter(|&(_, &row)| own[row] > 0.0);
        let (indices, used): (Vec<usize>, Vec<usize>) =
            used.map(|(index, &row)| (index, row)).unzip();
        let histograms: Vec<&[f64]> = indices.iter().map(|&index| &masses[index][..]).collect();
        let open = open_bins(ground, &bins, &histograms, &used)?;
        let weights = memory::collected(used.iter().map(|&row| own[row]))?;
        let mut flat = memory::with_capacity(histograms.len() * bins.sources.len())?;
        histograms.iter().for_each(|histogram| flat.extend_from_slice(histogram));
        iterations.push(Iteration::new(weights, &flat, open)?);
    }
    Ok((bins, iterations))
}

/// Weights of sum 1.
fn normalised(weights: ArrayView1<'_, f64>) -> Result<Vec<f64>> {
    let bad = weights.iter().find(|w| !(**w >= 0.0 && w.is_finite()));
    // Twice, because neither huge nor tiny ones need have a sum.
    let largest = weights.iter().copied().fold(0.0, f64::max);
    if let Some(&value) = bad.or((largest == 0.0).then_some(&0.0)) {
        let expected = "weights are finite and non-negative, and one at least is positive";
        return Err(Error::parameter("weights", value, expected));
    }
    let mut weights = memory::collected(weights.iter().map(|w| w / largest))?;
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|w| *w /= sum);
    Ok(weights)
}

/// The bins of the barycentre that all histograms reach.
fn open_bins(
    ground: &Ground<'_>,
    bins: &Bins,
    histograms: &[&[f64]],
    rows: &[usize],
) -> Result<Vec<bool>> {
    let mut open = memory::filled(true, bins.targets.len())?;
    if !ground.forbids {
        return Ok(open);
    }
    let reaches = |i: usize, j: usize| ground.costs.entry(bins.sources[i], j).is_finite();
    let with_mass = |histogram: &[f64]| -> Vec<usize> {
        (0..histogram.len()).filter(|&i| histogram[i] > 0.0).collect()
    };
    for histogram in histograms {
        let sources = with_mass(histogram);
        for (j, open) in open.iter_mut().enumerate() {
            *open &= sources.iter().any(|&i| reaches(i, j));
        }
    }
    for (histogram, &row) in histograms.iter().zip(rows) {
        for i in with_mass(histogram) {
            if !open.iter().enumerate().any(|(j, &open)| open && reaches(i, j)) {
                return Err(Error::NoBarycenter { row, bin: bins.sources[i] });
            }
        }
    }
    Ok(open)
}

fn check_symmetric(costs: &Costs<'_>) -> Result<()> {
    let (n, m) = costs.dim();
    check_bins("the number of columns of M", m, n)?;
    let infinite = |&i: &usize| costs.entry(i, i).is_infinite();
    let on_diagonal = || (0..n).find(infinite).map(|i| (i, i));
    match costs.asymmetry().map(|(at, _)| at).or_else(on_diagonal) {
        Some((row, column)) => Err(Error::NotSymmetricDistance { row, column }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regularisations_become_finer_until_the_one_asked_for() {
        for largest in [0.0, 1.0, 20.0, 20.1, 79.0, 80.0, 81.0, 1e4, 1e9] {
            let stages = stages(largest);
            assert!(largest / stages[0].0 <= COARSEST * 1.000_001);
            for pair in stages.windows(2) {
                let (factor, next) = (pair[0].1.unwrap(), pair[1].0);
                assert!((pair[0].0 / factor - next).abs() <= 1e-12 * next);
                assert!(factor > 1.0 && factor <= COARSER);
            }
            assert_eq!(*stages.last().unwrap(), (1.0, None));
        }
    }
}
