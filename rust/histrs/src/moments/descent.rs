//! Block coordinate descent over a path of penalties.

use ndarray::{Array2, Array3, ArrayView2};
use pulp::{Simd, WithSimd};

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::memory;
use crate::simd::dispatch;

use super::block::minimise_block;
use super::extrapolation::{WINDOW, extrapolate};
use super::gap::{Values, values};
use super::problem::{LassoProblem, Penalty, Target};

/// When a descent ends.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Stop {
    /// Largest duality gap, as a share of `y^T y / n`.
    pub tol: f64,
    /// Most passes over the coefficients.
    pub max_iter: usize,
}

impl Default for Stop {
    /// At a gap of 1e-6, or after 10,000 passes.
    fn default() -> Self {
        Self { tol: 1e-6, max_iter: 10_000 }
    }
}

impl Stop {
    /// With another [`tol`](Self::tol).
    pub const fn with_tol(self, tol: f64) -> Self {
        Self { tol, ..self }
    }

    /// With another [`max_iter`](Self::max_iter).
    pub const fn with_max_iter(self, max_iter: usize) -> Self {
        Self { max_iter, ..self }
    }
}

/// The solutions of [`group_lasso_path`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LassoPath {
    /// Coefficients, of shape `(penalties, targets, features)`.
    pub coefficients: Array3<f64>,
    /// Duality gaps, of shape `(penalties, targets)`.
    pub gaps: Array2<f64>,
    /// Passes over the coefficients, of the same shape.
    pub n_iter: Array2<i64>,
}

/// Minimises `|y - X w|^2 / (2 n) + sum_g l1 weight_g |w_g| + l2 |w|^2 / 2` for each target and
/// each penalty, from the solution for the penalty before it.
///
/// Each pass minimises over group after group, exactly. A changed coefficient costs `D`
/// multiplications, one that stays the same none. Every few passes the iterates are extrapolated,
/// which is kept if the objective falls, and the duality gap is computed from a residual that has
/// not gathered the rounding of the passes. It bounds how far the objective is above its minimum.
///
/// # Errors
///
/// [`Error::Shape`] when `start` has not one row per target and one column per feature,
/// [`Error::Parameter`] when a penalty is not positive, [`Error::Interrupted`].
///
/// # Examples
///
/// ```
/// use histrs::{Executor, moments::{LassoProblem, Penalty, Stop, group_lasso_path}};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let (gram, cross, y_squares) = (array![[1.0, 0.0], [0.0, 1.0]], array![[3.0, -0.5]], array![10.0]);
/// let problem = LassoProblem::new(
///     gram.view(), cross.view(), y_squares.view(), &[1, 2], &[1.0, 1.0],
/// )?;
/// let penalties = [Penalty::new(1.0)];
/// let stop = Stop::default().with_tol(1e-12);
/// let start = array![[0.0, 0.0]];
/// let path = group_lasso_path(&exec, &problem, &penalties, start.view(), stop)?;
/// assert_eq!(path.coefficients.into_raw_vec_and_offset().0, [2.0, 0.0]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn group_lasso_path(
    exec: &Executor,
    problem: &LassoProblem<'_>,
    penalties: &[Penalty],
    start: ArrayView2<'_, f64>,
    stop: Stop,
) -> Result<LassoPath> {
    let (n_targets, n_features) = (problem.n_targets(), problem.n_features());
    let cure = "give one row per target and one column per feature";
    check_length("the number of rows of the start", start.nrows(), n_targets, cure)?;
    check_length("the number of columns of the start", start.ncols(), n_features, cure)?;
    for penalty in penalties {
        let valid = penalty.l1 > 0.0 && penalty.l2 >= 0.0 && (penalty.l1 + penalty.l2).is_finite();
        if !valid {
            let expected = "l1 is positive and l2 non-negative";
            return Err(Error::Parameter { name: "penalty", value: penalty.l1, expected });
        }
    }
    let solutions = exec.map_blocks(n_targets, |target| {
        let mut descent = Descent::new(problem.target(target)?, start.row(target).to_vec());
        penalties
            .iter()
            .map(|&penalty| descent.run(exec, penalty, stop))
            .collect::<Result<Vec<_>>>()
    })?;
    let mut path = LassoPath {
        coefficients: memory::zeros((penalties.len(), n_targets, n_features))?,
        gaps: memory::zeros((penalties.len(), n_targets))?,
        n_iter: memory::zeros((penalties.len(), n_targets))?,
    };
    for (target, solutions) in solutions.into_iter().enumerate() {
        for (k, solution) in solutions.into_iter().enumerate() {
            for (out, w) in
                path.coefficients.slice_mut(ndarray::s![k, target, ..]).iter_mut().zip(solution.w)
            {
                *out = w;
            }
            path.gaps[[k, target]] = solution.gap;
            path.n_iter[[k, target]] = i64::try_from(solution.n_iter).unwrap_or(i64::MAX);
        }
    }
    Ok(path)
}

struct Solution {
    w: Vec<f64>,
    gap: f64,
    n_iter: usize,
}

/// The coefficients of one target.
struct Descent<'a> {
    target: Target<'a>,
    w: Vec<f64>,
    /// `v - G w`.
    residual: Vec<f64>,
}

impl<'a> Descent<'a> {
    fn new(target: Target<'a>, w: Vec<f64>) -> Self {
        let residual = residual_of(&target, &w);
        Self { target, w, residual }
    }

    fn run(&mut self, exec: &Executor, penalty: Penalty, stop: Stop) -> Result<Solution> {
        let tolerance = stop.tol * self.target.y_square;
        let mut best_dual = 0.0_f64;
        let mut iterates = vec![self.w.clone()];
        let mut n_iter = 0;
        loop {
            let Values { primal, dual } = values(&self.target, penalty, &self.w, &self.residual);
            best_dual = best_dual.max(dual);
            let gap = (primal - best_dual).max(0.0);
            if gap <= tolerance || n_iter >= stop.max_iter {
                return Ok(Solution { w: self.w.clone(), gap, n_iter });
            }
            while iterates.len() <= WINDOW && n_iter < stop.max_iter {
                exec.check()?;
                self.pass(penalty);
                iterates.push(self.w.clone());
                n_iter += 1;
            }
            self.residual = residual_of(&self.target, &self.w);
            self.accelerate(penalty, &iterates);
            iterates.clear();
            iterates.push(self.w.clone());
        }
    }

    /// Minimises over group after group.
    fn pass(&mut self, penalty: Penalty) {
        let Self { target, w, residual } = self;
        let mut block = Vec::new();
        for (group, weight) in target.groups() {
            let start = group.start;
            block.clear();
            block.extend(group.clone().map(|i| residual[i] + target.curvature(i) * w[i]));
            let curvature = |k: usize| target.curvature(start + k) + penalty.l2;
            minimise_block(curvature, penalty.l1 * weight, &mut block);
            for (i, &new) in group.zip(&block) {
                let step = new - w[i];
                if step != 0.0 {
                    w[i] = new;
                    dispatch(Subtract { factor: step, row: target.gram_row(i), from: residual });
                }
            }
        }
    }

    /// Goes to the extrapolation of the iterates if the objective is lower there.
    fn accelerate(&mut self, penalty: Penalty, iterates: &[Vec<f64>]) {
        let Some(w) = extrapolate(iterates) else { return };
        let residual = residual_of(&self.target, &w);
        let ours = values(&self.target, penalty, &self.w, &self.residual).primal;
        if values(&self.target, penalty, &w, &residual).primal < ours {
            (self.w, self.residual) = (w, residual);
        }
    }
}

/// `v - G w`.
fn residual_of(target: &Target<'_>, w: &[f64]) -> Vec<f64> {
    let mut residual = target.v.to_vec();
    for (i, &w) in w.iter().enumerate() {
        if w != 0.0 {
            dispatch(Subtract { factor: w, row: target.gram_row(i), from: &mut residual });
        }
    }
    residual
}

/// `from -= factor * row`.
struct Subtract<'a> {
    factor: f64,
    row: &'a [f64],
    from: &'a mut [f64],
}

impl WithSimd for Subtract<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (from, row) in self.from.iter_mut().zip(self.row) {
            *from -= self.factor * row;
        }
    }
}
