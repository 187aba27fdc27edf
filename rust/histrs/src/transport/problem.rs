//! The cost matrix, and what a block of pairs needs of it.

use std::sync::OnceLock;

use ndarray::ArrayView2;

use crate::error::{Error, Result};
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::simd::{Element, Elementary};
use crate::transport::costs::Costs;
use crate::transport::flow::largest_flow;
use crate::transport::job::{Job, Marginals, Pairing};
use crate::transport::lines::Factors;
use crate::transport::log_domain::{Axis, Exponents};
use crate::transport::product::Packed;
use crate::transport::range::{DOUBLE_RANGE, FORBIDDEN};
use crate::transport::scaling::Kernel;

/// As [`DOUBLE_RANGE`], in single precision.
const SINGLE_RANGE: f64 = 40.0;
/// The same of scalings alone, of which one beside the other may leave it: that is looked at.
const SCALING_RANGE: f64 = 650.0;
/// Beyond, the exponents themselves are no longer resolved.
const LARGEST_EXPONENT: f64 = 1e9;
/// A part of the mass that is too small to be told from none.
const NEGLIGIBLE: f64 = 1e-290;
/// Blocks of which less than this part of the kernel is used get a kernel of their own.
const RESTRICTED: f64 = 0.8;

/// A cost matrix, measured in units of the regularisation.
pub(super) struct Ground<'a> {
    pub(super) costs: Costs<'a>,
    pub(super) reg: f64,
    /// Largest finite entry of `M / reg`.
    pub(super) largest: f64,
    /// Whether an entry is infinite.
    pub(super) forbids: bool,
    with_cost: bool,
    symmetric: bool,
    whole: Kernels,
}

/// The kernel of some rows and columns, in every domain, each made when it is first needed.
#[derive(Default)]
pub(super) struct Kernels {
    single: OnceLock<Result<Kernel<f32>>>,
    double: OnceLock<Result<Kernel<f64>>>,
    exponents: OnceLock<Result<Exponents>>,
}

/// The bins in use on each side.
pub(super) struct Bins {
    pub(super) sources: Vec<usize>,
    pub(super) targets: Vec<usize>,
}

impl<'a> Ground<'a> {
    pub(super) fn new(costs: impl Into<Costs<'a>>, reg: f64, with_cost: bool) -> Result<Self> {
        let costs = costs.into();
        if !(reg > 0.0 && reg.is_finite()) {
            let expected = "it must be positive and finite; a tenth of the median of M is a start";
            return Err(Error::parameter("reg", reg, expected));
        }
        if let Some(((row, column), value)) = costs.bad_entry() {
            return Err(Error::GroundDistance { row, column, value });
        }
        let (largest, forbids) = (costs.largest() / reg, costs.forbids());
        if largest > LARGEST_EXPONENT {
            let expected = "it underflows, being less than a billionth of the largest entry of M; \
                            raise it, or compute the exact distance, emd_distances";
            return Err(Error::parameter("reg", reg, expected));
        }
        let symmetric = costs.is_symmetric();
        Ok(Self { costs, reg, largest, forbids, with_cost, symmetric, whole: Kernels::default() })
    }

    pub(super) fn is_symmetric(&self) -> bool {
        self.symmetric
    }

    pub(super) fn fits_single(&self) -> bool {
        self.largest <= SINGLE_RANGE
    }

    pub(super) fn fits_double(&self) -> bool {
        self.largest <= DOUBLE_RANGE
    }

    /// Whether scalings are worth a try in double precision.
    pub(super) fn may_fit_scalings(&self) -> bool {
        self.largest <= SCALING_RANGE
    }

    pub(super) fn all_bins(&self) -> Bins {
        let (n, m) = self.costs.dim();
        Bins { sources: (0..n).collect(), targets: (0..m).collect() }
    }

    /// Whether a matrix between some bins makes cheaper products than the costs of all.
    pub(super) fn is_cheaper_between(&self, bins: &Bins) -> bool {
        let of_all = self.costs.axes().iter().map(|axis| axis.ncols() as f64).sum::<f64>();
        let entries = bins.sources.len() as f64 * bins.targets.len() as f64;
        entries < RESTRICTED * of_all * self.costs.n_rows() as f64
    }

    pub(super) fn single<'k>(&self, kernels: &'k Kernels, bins: &Bins) -> Result<&'k Kernel<f32>> {
        kernels.single.get_or_init(|| self.kernel(bins, 80.0)).as_ref().map_err(Error::clone)
    }

    pub(super) fn double<'k>(&self, kernels: &'k Kernels, bins: &Bins) -> Result<&'k Kernel<f64>> {
        kernels.double.get_or_init(|| self.kernel(bins, 650.0)).as_ref().map_err(Error::clone)
    }

    /// The exponents of a coarser regularisation are those of `reg`, divided by `coarseness`.
    pub(super) fn exponents(&self, bins: &Bins, coarseness: f64) -> Result<Exponents> {
        let unit = self.reg * coarseness;
        let axis = |part: &Part<'_>| {
            Axis::new(part.n_source, part.n_target, |i, j| match part.entry(i, j) {
                f64::INFINITY => FORBIDDEN,
                m => m / unit,
            })
        };
        Exponents::new(self.parts(bins).iter().map(axis).collect::<Result<_>>()?)
    }

    pub(super) fn finest<'k>(&self, kernels: &'k Kernels, bins: &Bins) -> Result<&'k Exponents> {
        kernels.exponents.get_or_init(|| self.exponents(bins, 1.0)).as_ref().map_err(Error::clone)
    }

    /// The kernel of a regularisation that is coarser by this factor and its transpose, where they are
    /// matrices, and in range.
    pub(super) fn coarse_kernel(
        &self,
        bins: &Bins,
        coarseness: f64,
    ) -> Result<Option<[Packed<f64>; 2]>> {
        let parts = self.parts(bins);
        match &parts[..] {
            [part] if !self.forbids && self.largest / coarseness <= DOUBLE_RANGE => {
                let gibbs = part.gibbs(self.reg * coarseness)?;
                Ok(Some([part.forward(&gibbs)?, part.backward(&gibbs)?]))
            }
            _ => Ok(None),
        }
    }

    /// The costs between some bins, along each axis where these are all.
    fn parts<'p>(&'p self, bins: &'p Bins) -> Vec<Part<'p>> {
        let Bins { sources, targets } = bins;
        let (n, m) = self.costs.dim();
        if sources.len() < n || targets.len() < m {
            let entry = |i: usize, j: usize| self.costs.entry(sources[i], targets[j]);
            let (n_source, n_target) = (sources.len(), targets.len());
            return vec![Part { n_source, n_target, entry: Box::new(entry) }];
        }
        let along = |axis: &'p ArrayView2<'_, f64>| {
            let (n_source, n_target) = axis.dim();
            Part { n_source, n_target, entry: Box::new(move |i, j| axis[[i, j]]) }
        };
        self.costs.axes().iter().map(along).collect()
    }

    fn kernel<T: Elementary>(&self, bins: &Bins, largest_potential: f64) -> Result<Kernel<T>> {
        let parts = self.parts(bins);
        let gibbs: Vec<Vec<f64>> =
            parts.iter().map(|part| part.gibbs(self.reg)).collect::<Result<_>>()?;
        let each = || parts.iter().zip(&gibbs);
        let forward = |(part, gibbs): (&Part<'_>, &Vec<f64>)| part.forward(gibbs);
        let backward = |(part, gibbs): (&Part<'_>, &Vec<f64>)| part.backward(gibbs);
        let cost = |axis: usize| {
            Factors::new(each().enumerate().map(|(k, (part, gibbs))| {
                if k == axis { part.weighted(gibbs, self.reg) } else { part.forward(gibbs) }
            }))
        };
        let n_costs = if self.with_cost { parts.len() } else { 0 };
        Ok(Kernel {
            forward: Factors::new(each().map(forward))?,
            backward: Factors::new(each().map(backward))?,
            costs: (0..n_costs).map(cost).collect::<Result<_>>()?,
            largest_potential,
        })
    }
}

/// Costs between some bins, or along an axis.
struct Part<'a> {
    n_source: usize,
    n_target: usize,
    entry: Box<dyn Fn(usize, usize) -> f64 + 'a>,
}

impl Part<'_> {
    fn entry(&self, i: usize, j: usize) -> f64 {
        (self.entry)(i, j)
    }

    /// `exp(-M / unit)`, by rows.
    fn gibbs(&self, unit: f64) -> Result<Vec<f64>> {
        let m = self.n_target;
        memory::collected((0..self.n_source * m).map(|k| (-self.entry(k / m, k % m) / unit).exp()))
    }

    fn forward<T: Element>(&self, gibbs: &[f64]) -> Result<Packed<T>> {
        Packed::new(self.n_source, self.n_target, |i, j| gibbs[i * self.n_target + j])
    }

    fn backward<T: Element>(&self, gibbs: &[f64]) -> Result<Packed<T>> {
        Packed::new(self.n_target, self.n_source, |j, i| gibbs[i * self.n_target + j])
    }

    fn weighted<T: Element>(&self, gibbs: &[f64], unit: f64) -> Result<Packed<T>> {
        Packed::new(self.n_source, self.n_target, |i, j| match self.entry(i, j) / unit {
            f64::INFINITY => 0.0,
            exponent => gibbs[i * self.n_target + j] * exponent,
        })
    }
}

/// The histograms of a block of pairs, and the part of the kernel that they use.
pub(super) struct Block {
    pub(super) pairing: Pairing,
    pub(super) marginals: Marginals,
    pub(super) bins: Bins,
    /// `None` when it is the whole one.
    pub(super) kernels: Option<Kernels>,
}

impl Block {
    /// Rows `rows` of `x` and `columns` of `y`, scaled to mass 1; of equal pairs both are the same.
    pub(super) fn new<T: Element>(
        ground: &Ground<'_>,
        [x, y]: [&HistogramMatrix<'_, T>; 2],
        [rows, columns]: [&[usize]; 2],
        pairing: Pairing,
    ) -> Result<Self> {
        let sources = Dense::new(x, rows)?;
        let targets = Dense::new(y, columns)?;
        let bins = Bins { sources: sources.used(), targets: targets.used() };
        let (bins, kernels) = if ground.is_cheaper_between(&bins) {
            (bins, Some(Kernels::default()))
        } else {
            (ground.all_bins(), None)
        };
        let marginals = Marginals {
            sources: sources.restricted(&bins.sources)?,
            targets: targets.restricted(&bins.targets)?,
        };
        Ok(Self { pairing, marginals, bins, kernels })
    }

    /// The kernels between the bins in use.
    pub(super) fn kernels<'k>(&'k self, ground: &'k Ground<'_>) -> &'k Kernels {
        self.kernels.as_ref().unwrap_or(&ground.whole)
    }

    /// Both histograms of a pair, of mass 1.
    pub(super) fn histograms(&self, pair: (usize, usize)) -> [&[f64]; 2] {
        self.marginals.of(pair, (self.bins.sources.len(), self.bins.targets.len()))
    }

    /// The same, of the masses that they have.
    pub(super) fn masses(&self, job: &Job) -> [Vec<f64>; 2] {
        let ([a, b], [of_a, of_b]) = (self.histograms(job.pair()), job.masses.unwrap_or([1.0; 2]));
        [a.iter().map(|a| a * of_a).collect(), b.iter().map(|b| b * of_b).collect()]
    }

    /// The part of some masses over the bins that can go from one side to the other through the cells that
    /// are not forbidden.
    pub(super) fn passable(&self, ground: &Ground<'_>, masses: [&[f64]; 2]) -> f64 {
        largest_flow(masses, |i, j| self.is_open(ground, i, j))
    }

    /// Whether the way from one bin in use to another is not forbidden.
    pub(super) fn is_open(&self, ground: &Ground<'_>, i: usize, j: usize) -> bool {
        ground.costs.entry(self.bins.sources[i], self.bins.targets[j]).is_finite()
    }

    /// Whether the histograms of a pair over the same bins are one and the same.
    pub(super) fn is_equal(&self, pair: (usize, usize)) -> bool {
        let [a, b] = self.histograms(pair);
        self.bins.sources == self.bins.targets && a == b
    }

    /// The regularised cost of a pair of mass 1 in units of the regularisation: the dual, whose error is
    /// the square of that of the scalings.
    pub(super) fn dual(&self, pair: (usize, usize), potentials: &[Vec<f64>; 2]) -> f64 {
        // An empty bin adds nothing.
        let expectation = |(a, f): (&[f64], &Vec<f64>)| -> f64 {
            a.iter().zip(f).filter(|(a, _)| **a > 0.0).map(|(a, f)| a * f).sum()
        };
        let [a, b] = self.histograms(pair);
        expectation((a, &potentials[0])) + expectation((b, &potentials[1]))
    }
}

/// Some rows, dense, of mass 1.
pub(super) struct Dense {
    values: Vec<f64>,
    n_columns: usize,
}

impl Dense {
    pub(super) fn new<T: Element>(x: &HistogramMatrix<'_, T>, rows: &[usize]) -> Result<Self> {
        let n_columns = x.n_columns();
        let mut values = memory::filled(0.0, rows.len() * n_columns)?;
        for (&row, out) in rows.iter().zip(values.chunks_exact_mut(n_columns.max(1))) {
            match x {
                HistogramMatrix::Dense(x) => {
                    out.iter_mut().zip(x.row(row)).for_each(|(out, v)| *out = v.to_f64());
                }
                HistogramMatrix::Csr(x) => x.for_each_sum(row, |column, v| out[column] = v),
            }
            // Twice, because the sum of tiny numbers has no finite inverse.
            let largest = out.iter().fold(0.0_f64, |a, &b| a.max(b));
            out.iter_mut().for_each(|v| *v /= largest);
            let mass: f64 = out.iter().sum();
            for v in out {
                *v = if *v > NEGLIGIBLE * mass { *v / mass } else { 0.0 };
            }
        }
        Ok(Self { values, n_columns })
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.n_columns.max(1))
    }

    pub(super) fn used(&self) -> Vec<usize> {
        let mut used = vec![false; self.n_columns];
        for row in self.rows() {
            used.iter_mut().zip(row).for_each(|(used, &v)| *used |= v > 0.0);
        }
        (0..self.n_columns).filter(|&k| used[k]).collect()
    }

    fn restricted(&self, bins: &[usize]) -> Result<Vec<f64>> {
        if bins.len() == self.n_columns {
            return memory::copied(&self.values);
        }
        let mut values = memory::with_capacity(self.rows().count() * bins.len())?;
        values.extend(self.rows().flat_map(|row| bins.iter().map(|&k| row[k])));
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, array};

    #[test]
    fn rows_are_equal_where_bins_and_masses_are() {
        let m = Array2::from_shape_fn((6, 6), |(i, j)| i.abs_diff(j) as f64);
        let ground = Ground::new(m.view(), 1.0, false).unwrap();
        let x = array![
            [0.0, 1.0, 0.0, 3.0, 0.0, 0.0],
            [0.0, 3.0, 0.0, 1.0, 0.0, 0.0],
            [0.0, 0.5, 0.0, 1.5, 0.0, 0.0],
            [0.0, 0.0, 1.0, 3.0, 0.0, 0.0],
        ];
        let x = HistogramMatrix::dense(x.view());
        let block = |rows: &[usize], columns: &[usize]| {
            let block = Block::new(&ground, [&x, &x], [rows, columns], Pairing::Equal).unwrap();
            assert!(block.kernels.is_some());
            block
        };
        let same_bins = block(&[0, 1], &[1, 2]);
        assert_eq!(same_bins.bins.sources, [1, 3]);
        assert_eq!(same_bins.bins.targets, [1, 3]);
        assert_eq!(same_bins.marginals.sources, [0.25, 0.75, 0.75, 0.25]);
        assert_eq!(same_bins.marginals.targets, [0.75, 0.25, 0.25, 0.75]);
        assert!(same_bins.is_equal((0, 1)) && same_bins.is_equal((1, 0)));
        assert!(!same_bins.is_equal((0, 0)) && !same_bins.is_equal((1, 1)));
        // The same masses in other bins.
        let others = block(&[0, 1], &[3, 3]);
        assert_eq!(others.bins.targets, [2, 3]);
        assert!(!others.is_equal((0, 0)) && !others.is_equal((0, 1)));
    }

    #[test]
    fn bins_hold_what_can_be_told_from_none() {
        // Twice their largest entry is the mass of the first row, and once that of the second.
        let x = array![[0.5, 0.0, 0.5, 5e-291, 3e-290], [8.0, 0.0, 0.0, 5e-290, 9e-290]];
        let dense = |rows: &[usize]| Dense::new(&HistogramMatrix::dense(x.view()), rows).unwrap();
        assert_eq!(dense(&[0]).values, [0.5, 0.0, 0.5, 0.0, 3e-290]);
        assert_eq!(dense(&[0]).used(), [0, 2, 4]);
        assert_eq!(dense(&[1]).used(), [0, 4]);
        assert_eq!(dense(&[1, 0]).used(), [0, 2, 4]);
        assert_eq!(dense(&[0]).restricted(&[0, 4]).unwrap(), [0.5, 3e-290]);
        assert_eq!(dense(&[]).used(), [0_usize; 0]);
    }
}
