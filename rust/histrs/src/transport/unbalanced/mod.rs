//! Transport between histograms whose mass need not be kept: all pairs.
//!
//! | file | concept |
//! |---|---|
//! | `cascade` | the pairs of a block, each in the cheapest domain that holds |
//! | `value` | what is kept of a solved pair |

use ndarray::ArrayView2;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::simd::Element;
use crate::transport::job::Pairing;
use crate::transport::masses::{check_bins, check_tol, rounding};
use crate::transport::order::{Pair, Pairs, distinct};
use crate::transport::problem::{Block, Ground};
use crate::transport::relaxation::{Cost, Relaxation, RelaxedSinkhorn};
use crate::transport::relaxed::Hold;
use crate::transport::results::{Found, SinkhornDistances, gather, zeros};

mod cascade;
mod value;

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
    check_tol(options.stop)?;
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
        self.options.potentials.then_some(self.ground.costs.dim())
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
        let index = |list: &[usize], k: usize| list.partition_point(|&other| other < k);
        let indices = |(i, j): Pair| (index(&rows, i), index(&columns, j));
        let (possible, impossible): (Vec<_>, Vec<_>) =
            filled.into_iter().partition(|&pair| self.is_possible(&block, pair, indices(pair)));
        found.extend(impossible.into_iter().map(|p| Found::without_plan(p, self.kept_bins())));
        let is_equal = |pair: Pair| {
            let (source, target) = indices(pair);
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
            let at = pairs.iter().map(|&pair| indices(pair)).collect();
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
                && self.ground.costs.entry(bins.sources[i], bins.targets[j]).is_finite()
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
}
