//! Transport between histograms whose mass need not be kept: all pairs.

use ndarray::ArrayView2;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::simd::Element;
use crate::transport::all_pairs::{AllPairs, Plans, check_shapes};
use crate::transport::job::{Job, Solved};
use crate::transport::masses::{check_tol, rounding};
use crate::transport::order::Pair;
use crate::transport::plan_sums::{PlanSums, divergence, plan_sums};
use crate::transport::problem::{Block, Ground};
use crate::transport::relaxation::{Cost, Relaxation, RelaxedSinkhorn};
use crate::transport::relaxed::Hold;
use crate::transport::results::SinkhornDistances;

/// Logarithm of a mass that is all of it, but for rounding.
const WHOLE: f64 = 1e-12;

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
/// `y`. [`Error::GroundDistance`], [`Error::Negative`] and [`Error::NotFinite`] at the first bad
/// entry. [`Error::TooLittle`] when a row has less mass than is to move. [`Error::Parameter`] when
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
    check_tol(options.stop)?;
    options.check_relaxation()?;
    let other = y.unwrap_or(x);
    check_shapes(&ground, [x, other])?;
    x.check(exec, "X")?;
    let of_x = log_masses(exec, x)?;
    let of_y = match y {
        Some(y) => {
            y.check(exec, "Y")?;
            Some(log_masses(exec, y)?)
        }
        None => None,
    };
    let plans = Unbalanced { options, rounding: rounding::<T>(), of_x, of_y };
    plans.check_masses()?;
    let RelaxedSinkhorn { stop, potentials, .. } = *options;
    AllPairs { exec, x, y: other, ground, stop, potentials, plans }.distances(y.is_none())
}

/// Logarithms of the sums of rows, which may themselves be out of range.
fn log_masses<T: Element>(exec: &Executor, x: &HistogramMatrix<'_, T>) -> Result<Vec<f64>> {
    const BLOCK: usize = 256;
    let n = x.n_rows();
    let blocks = exec.map_ranges(n, BLOCK, |rows| {
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

/// Plans that need not keep the mass.
struct Unbalanced<'a> {
    options: &'a RelaxedSinkhorn,
    /// The largest part of the mass that may be missing.
    rounding: f64,
    /// Logarithms of masses; none of `y` where it is `x`.
    of_x: Vec<f64>,
    of_y: Option<Vec<f64>>,
}

/// Marginals of a plan and the potentials of a side.
type Side<'a> = (&'a [f64], &'a [f64]);

impl Plans for Unbalanced<'_> {
    /// Of equal masses that move as a whole, both marginals are kept.
    fn hold(&self, pair: Pair) -> Hold {
        match self.weights() {
            Some(weights) => Hold::Penalties(weights),
            None if self.units(pair).1.iter().all(|mass| *mass <= WHOLE) => {
                Hold::Penalties([f64::INFINITY; 2])
            }
            None => Hold::Mass,
        }
    }

    fn is_even(&self) -> bool {
        match self.options.relaxation {
            Relaxation::Penalties([p, q]) => p == q,
            Relaxation::Mass(_) => true,
        }
    }

    fn has_equal_masses(&self, pair: Pair) -> bool {
        let [a, b] = self.log_masses(pair);
        a == b
    }

    /// What a pair costs of which one histogram or both have no mass, or of which none is to move.
    fn without_plan(&self, pair: Pair) -> Option<f64> {
        if self.log_unit(pair).is_finite() {
            return None;
        }
        let Relaxation::Penalties(penalties) = self.options.relaxation else { return Some(0.0) };
        let masses = self.log_masses(pair).map(f64::exp);
        let lost = penalties.iter().zip(masses).filter(|(_, mass)| *mass > 0.0);
        let cost: f64 = lost.map(|(penalty, mass)| penalty * mass).sum();
        let is_paid = cost == f64::INFINITY || self.options.cost != Cost::Transport;
        Some(if is_paid { cost } else { 0.0 })
    }

    fn is_possible(&self, ground: &Ground<'_>, block: &Block, pair: Pair, at: Pair) -> bool {
        let [a, b] = block.histograms(at);
        match self.options.relaxation {
            // A marginal that is kept needs a way out of each of its bins.
            Relaxation::Penalties(penalties) => {
                let is_open =
                    |i: usize, j: usize| b[j] > 0.0 && a[i] > 0.0 && block.is_open(ground, i, j);
                let keeps = penalties.map(f64::is_infinite);
                let (n, m) = (a.len(), b.len());
                let rows = (0..n).all(|i| a[i] <= 0.0 || (0..m).any(|j| is_open(i, j)));
                let columns = (0..m).all(|j| b[j] <= 0.0 || (0..n).any(|i| is_open(i, j)));
                (rows || !keeps[0]) && (columns || !keeps[1])
            }
            Relaxation::Mass(_) => {
                let (source, target) = at;
                let job = Job { source, target, masses: self.masses(pair), ..Job::default() };
                let [a, b] = block.masses(&job);
                block.passable(ground, [&a, &b]) >= 1.0 - self.rounding
            }
        }
    }

    fn log_unit(&self, pair: Pair) -> f64 {
        self.units(pair).0
    }

    fn masses(&self, pair: Pair) -> Option<[f64; 2]> {
        Some(self.units(pair).1.map(f64::exp))
    }

    fn cost(
        &self,
        ground: &Ground<'_>,
        block: &Block,
        pair: Pair,
        job: &Job,
        solved: &Solved,
    ) -> Result<f64> {
        let [f, g] = &solved.potentials;
        let plan = plan_sums(ground.finest(block.kernels(ground), &block.bins)?, f, g);
        let sides = [(&plan.rows[..], &f[..]), (&plan.columns[..], &g[..])];
        let unit = self.log_unit(pair);
        let cost = match self.weights() {
            Some(weights) => self.cost_with_penalties(weights, block, job, &plan, sides),
            None => self.cost_of_mass(unit, &plan, sides),
        };
        Ok(unit.exp() * (ground.reg * cost))
    }
}

impl Unbalanced<'_> {
    /// Fails where a row has less than is to move.
    fn check_masses(&self) -> Result<()> {
        let Relaxation::Mass(Some(expected)) = self.options.relaxation else { return Ok(()) };
        let least = expected.ln() - self.rounding;
        let sides = [("X", Some(&self.of_x)), ("Y", self.of_y.as_ref())];
        for (name, masses) in sides.into_iter().filter_map(|(name, masses)| Some((name, masses?))) {
            if let Some(row) = masses.iter().position(|&mass| mass < least) {
                return Err(Error::TooLittle { name, row, mass: masses[row].exp(), expected });
            }
        }
        Ok(())
    }

    fn log_masses(&self, (i, j): Pair) -> [f64; 2] {
        [self.of_x[i], self.of_y.as_ref().unwrap_or(&self.of_x)[j]]
    }

    /// The penalties in units of the regularisation.
    fn weights(&self) -> Option<[f64; 2]> {
        match self.options.relaxation {
            Relaxation::Penalties(penalties) => Some(penalties.map(|p| p / self.options.reg)),
            Relaxation::Mass(_) => None,
        }
    }

    /// The logarithm of the unit in which a pair is solved, and of both masses in it.
    fn units(&self, pair: Pair) -> (f64, [f64; 2]) {
        let [a, b] = self.log_masses(pair);
        match self.options.relaxation {
            Relaxation::Penalties(_) => (0.5 * (a + b), [0.5 * (a - b), 0.5 * (b - a)]),
            Relaxation::Mass(mass) => {
                let unit = mass.map_or(f64::INFINITY, f64::ln).min(a).min(b);
                (unit, [a - unit, b - unit])
            }
        }
    }

    /// The cost in units of the regularisation, of relaxed marginals.
    fn cost_with_penalties(
        &self,
        weights: [f64; 2],
        block: &Block,
        job: &Job,
        plan: &PlanSums,
        sides: [Side<'_>; 2],
    ) -> f64 {
        let histograms = block.histograms(job.pair());
        let masses = job.masses.unwrap_or([1.0; 2]);
        let mut value = plan.transport;
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
        if self.options.cost == Cost::Regularized { value + entropy } else { value }
    }

    /// The same, of a mass that is moved.
    fn cost_of_mass(&self, unit: f64, plan: &PlanSums, sides: [Side<'_>; 2]) -> f64 {
        if self.options.cost != Cost::Regularized {
            return plan.transport;
        }
        sides.into_iter().fold(unit, |value, (sums, potential)| {
            let filled = sums.iter().zip(potential).filter(|(sum, _)| **sum > 0.0);
            value + filled.map(|(sum, potential)| sum * potential).sum::<f64>()
        })
    }
}
