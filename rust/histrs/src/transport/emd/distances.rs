//! Exact distances of all pairs and of chosen ones, and a plan.

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, Axis};

use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::simd::Element;
use crate::transport::emd::ground::Ground;
use crate::transport::emd::histograms::{Histograms, Unit};
use crate::transport::emd::powers::scaled;
use crate::transport::emd::problem::Problem;
use crate::transport::emd::simplex::solve;
use crate::transport::emd::tree::Tree;
use crate::transport::masses::{check_bins, check_masses};
use crate::transport::order::{Pair, Pairs};
use crate::transport::pairs::check_rows;

/// Part of the mass that may be left over: sums of rows agree no better.
const ROUNDING: f64 = 1e-6;
/// Blocks into which pairs are cut, and the most pairs of one: buffers are made for each.
const BLOCKS: usize = 64;
const MOST: usize = 64;

/// The exact earth mover's distances between the rows of `x` and those of `y`; `y = None` means
/// `y = x`, and computes each pair once when `m` is symmetric.
///
/// The distance of `a` and `b` is the least `sum_ij T_ij M_ij` of plans `T >= 0` with row sums `a`
/// and column sums `b`. It is found by the network simplex method (Ahuja, Magnanti and Orlin,
/// *Network Flows*, 1993, chapter 11). Bins without mass are left out, and where `m` is a metric,
/// of up to 1,024 bins, so is the mass that both have in a bin: it stays. Masses are rounded to
/// 2^-60 of the whole, and costs to 2^-40 of the smallest positive cost between bins with mass,
/// however large others are. Where `m` is infinite, transport is forbidden, and a pair between
/// which no plan is left is infinitely distant.
///
/// # Errors
///
/// [`Error::Shape`] when `m` has not a row for each column of `x` and a column for each column of
/// `y`. [`Error::GroundDistance`], [`Error::Negative`] and [`Error::NotFinite`] at the first bad
/// entry. [`Error::Mass`] when two rows do not sum alike or one is empty.
///
/// [`Error::Shape`]: crate::Error::Shape
/// [`Error::GroundDistance`]: crate::Error::GroundDistance
/// [`Error::Negative`]: crate::Error::Negative
/// [`Error::NotFinite`]: crate::Error::NotFinite
/// [`Error::Mass`]: crate::Error::Mass
///
/// # Examples
///
/// ```
/// use histrs::transport::emd_distances;
/// use histrs::{Executor, HistogramMatrix};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[4.0, 0.0, 0.0], [0.0, 2.0, 2.0]];
/// let m = array![[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]];
/// let distances = emd_distances(&exec, &HistogramMatrix::dense(x.view()), None, m.view())?;
/// assert_eq!(distances, array![[0.0, 6.0], [6.0, 0.0]]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn emd_distances<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
    m: ArrayView2<'_, f64>,
) -> Result<Array2<T>> {
    let all = AllPairs::new(exec, x, y, Ground::new(&m)?.with_metric(exec)?)?;
    let pairs = Pairs {
        n_rows: x.n_rows(),
        n_columns: y.unwrap_or(x).n_rows(),
        once: y.is_none() && all.ground.is_symmetric(),
    };
    // Where there is no room for the result, work would be in vain.
    let mut distances = memory::zeros((pairs.n_rows, pairs.n_columns))?;
    let size = block_size(pairs.len());
    let blocks = exec.map_blocks(pairs.len().div_ceil(size), |block| {
        let part = pairs.range(block * size, size);
        Ok((all.costs(&part)?, part))
    })?;
    for (costs, part) in blocks {
        for (cost, (i, j)) in costs.into_iter().zip(part) {
            distances[[i, j]] = T::from_f64(cost);
            if pairs.once {
                distances[[j, i]] = T::from_f64(cost);
            }
        }
    }
    Ok(distances)
}

/// The exact earth mover's distances between `x[i]` and `y[j]` for each `(i, j)` of `pairs`, as
/// [`emd_distances`] computes them.
///
/// # Errors
///
/// As [`emd_distances`], and [`Error::Shape`] when a pair names a row that is not there.
///
/// [`Error::Shape`]: crate::Error::Shape
///
/// # Examples
///
/// ```
/// use histrs::transport::emd_pairs;
/// use histrs::{Executor, HistogramMatrix};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[1.0_f64, 0.0], [0.25, 0.75]];
/// let m = array![[0.0, 1.0], [1.0, 0.0]];
/// let x = HistogramMatrix::dense(x.view());
/// assert_eq!(emd_pairs(&exec, &x, &x, &[(1, 0)], m.view())?[0], 0.75);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn emd_pairs<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: &HistogramMatrix<'a, T>,
    pairs: &[(usize, usize)],
    m: ArrayView2<'_, f64>,
) -> Result<Array1<T>> {
    let all = AllPairs::new(exec, x, Some(y), Ground::new(&m)?.with_metric(exec)?)?;
    check_rows("the last row of X that a pair names", pairs.iter().map(|p| p.0), x.n_rows())?;
    check_rows("the last row of Y that a pair names", pairs.iter().map(|p| p.1), y.n_rows())?;
    let mut distances = memory::zeros(pairs.len())?;
    let size = block_size(pairs.len());
    let parts: Vec<&[Pair]> = pairs.chunks(size).collect();
    let blocks = exec.map_blocks(parts.len(), |block| all.costs(parts[block]))?;
    distances.iter_mut().zip(blocks.iter().flatten()).for_each(|(d, &c)| *d = T::from_f64(c));
    Ok(distances)
}

/// The plan whose cost is the exact earth mover's distance of two histograms, or none where every plan
/// moves mass where `m` is infinite.
///
/// # Errors
///
/// As [`emd_distances`], where `a` is the row of `X` and `b` that of `Y`.
///
/// # Examples
///
/// ```
/// use histrs::Executor;
/// use histrs::transport::emd_plan;
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let m = array![[0.0, 1.0], [1.0, 0.0]];
/// let plan = emd_plan(&exec, array![3.0, 1.0].view(), array![2.0, 2.0].view(), m.view())?;
/// assert_eq!(plan, Some(array![[2.0, 1.0], [0.0, 1.0]]));
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn emd_plan(
    exec: &Executor,
    a: ArrayView1<'_, f64>,
    b: ArrayView1<'_, f64>,
    m: ArrayView2<'_, f64>,
) -> Result<Option<Array2<f64>>> {
    let [x, y] = [&a, &b].map(|row| HistogramMatrix::dense(row.view().insert_axis(Axis(0))));
    // All of the mass is in the plan, whether it stays or not.
    let all = AllPairs::new(exec, &x, Some(&y), Ground::new(&m)?)?;
    let mut plan = memory::zeros(m.dim())?;
    all.plan(&mut plan).map(|is_allowed| is_allowed.then_some(plan))
}

fn block_size(n_pairs: usize) -> usize {
    (n_pairs / BLOCKS).clamp(1, MOST)
}

/// Histograms on both sides, any pairs of which may be solved.
struct AllPairs<'a> {
    exec: &'a Executor,
    x: Histograms,
    /// None where they are those of `x`.
    y: Option<Histograms>,
    unit: Unit,
    ground: Ground<'a>,
}

impl<'a> AllPairs<'a> {
    /// Looks at every argument of [`emd_distances`].
    fn new<'b, T: Element>(
        exec: &'a Executor,
        x: &HistogramMatrix<'b, T>,
        y: Option<&HistogramMatrix<'b, T>>,
        ground: Ground<'a>,
    ) -> Result<Self> {
        let (n, m) = ground.shape();
        check_bins("the number of rows of M", n, x.n_columns())?;
        check_bins("the number of columns of M", m, y.unwrap_or(x).n_columns())?;
        let unit = Unit::new(check_masses(exec, x, y)?);
        let y = y.map(|y| Histograms::new(y, unit)).transpose()?;
        Ok(Self { exec, x: Histograms::new(x, unit)?, y, unit, ground })
    }

    fn costs(&self, pairs: &[Pair]) -> Result<Vec<f64>> {
        let (mut problem, mut tree) = (Problem::default(), Tree::default());
        let mut costs = Vec::with_capacity(pairs.len());
        for &(i, j) in pairs {
            let (a, b) = (self.x.row(i), self.y.as_ref().unwrap_or(&self.x).row(j));
            problem.set(&self.ground, [a, b])?;
            solve(self.exec, &mut problem, &self.ground, &mut tree)?;
            costs.push(self.cost(&problem, &tree, a.ratio));
        }
        Ok(costs)
    }

    fn cost(&self, problem: &Problem, tree: &Tree, ratio: f64) -> f64 {
        let (mut cost, mut forbidden) = (0.0, 0);
        for (source, target, flow) in tree.arcs() {
            match self.ground.row(problem.sources[source])[problem.targets[target]] {
                f64::INFINITY => forbidden += flow,
                each => cost += flow as f64 * scaled(each, -problem.exponent),
            }
        }
        if self.allows(forbidden) {
            scaled(cost * ratio, problem.exponent + self.unit.exponent())
        } else {
            f64::INFINITY
        }
    }

    fn allows(&self, forbidden: i64) -> bool {
        forbidden as f64 <= ROUNDING * self.unit.total() as f64
    }

    /// Writes the plan of the only pair, and returns whether it is allowed.
    fn plan(&self, plan: &mut Array2<f64>) -> Result<bool> {
        let (mut problem, mut tree) = (Problem::default(), Tree::default());
        let (a, b) = (self.x.row(0), self.y.as_ref().unwrap_or(&self.x).row(0));
        problem.set(&self.ground, [a, b])?;
        solve(self.exec, &mut problem, &self.ground, &mut tree)?;
        let mut forbidden = 0;
        // The mass is that of `a`.
        let mass = |units: i64| scaled(units as f64, self.unit.exponent());
        for (source, target, flow) in tree.arcs() {
            let cell = [problem.sources[source], problem.targets[target]];
            if self.ground.row(cell[0])[cell[1]] == f64::INFINITY {
                forbidden += flow;
            } else {
                plan[cell] = mass(flow);
            }
        }
        Ok(self.allows(forbidden))
    }
}
