//! Means of covariance matrices: steps of Barzilai and Borwein along geodesics.
//!
//! Source: B. Iannazzo and M. Porcelli, *The Riemannian Barzilai-Borwein method with nonmonotone line
//! search and the matrix geometric mean computation*, IMA J. Numer. Anal. 38, 2018.
//!
//! The mean is `M = R R^T`, and a step along `S` changes `R` to `R exp(-S / 2)`, which transports
//! vectors in parallel: gradients at two points are compared entry by entry. The factors `K_i` with
//! `R^-1 X_i R^-T = K_i K_i^T` are kept with orthogonal columns, and `exp(S / 2) K_i` are nearly so:
//! near the mean their rotations take two or three sweeps, not nine.
//!
//! For "jbld", the gradient of a matrix that is far away has almost the length 1, wherever the mean
//! is. If all matrices are far away, the sum is small long before the mean is found. The Hessian is
//! at least `S -> (A S + S A) / 2`, where `A` is the sum of `phi'(log of X_i)`. The step by that
//! bound decides when to stop, and leads there. It is Newton's step if the matrices commute.

use ndarray::{Array2, ArrayView2, ArrayView3, Axis};

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::simd::Element;
use crate::small_matrix::triangle;
use crate::spd::direction::{Direction, exponential, product};
use crate::spd::dispersion::Dispersion;
use crate::spd::factors::{InverseCholesky, TransposedCholesky, keep_factors};
use crate::spd::spectra::square;
use crate::spd::spread::{Point, Spread};
use crate::spd::stack::SymmetricStack;
use crate::stop::{Stop, with_fields, with_stop};

/// Steps are never longer than this in the tangent space, so that no exponential overflows.
const LONGEST: f64 = 50.0;
/// The same of a step that goes by the least curvature.
const LONGEST_NEWTON: f64 = 10.0;
/// Values that the next one is compared with; a step that is too long now may pay later.
const MEMORY: usize = 5;
const MOST_HALVINGS: usize = 30;
/// Gradient of "jbld" at which a step by the least curvature is tried, what it must leave of the
/// gradient, and where else it is tried again.
const NEAR: f64 = 1e-2;
const NEWTON: f64 = 0.7;
const AGAIN: f64 = 1e-3;
/// What a step must gain of what its slope promises.
const ENOUGH: f64 = 1e-4;

/// How [`dispersion_mean`] looks for a mean.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct MeanParameters<'a> {
    /// The matrix to start from; the arithmetic mean if there is none.
    pub start: Option<ArrayView2<'a, f64>>,
    /// At a Frobenius norm of the gradient and of the next step.
    pub stop: Stop,
}

impl Default for MeanParameters<'_> {
    /// At most 100 steps from the arithmetic mean, to a gradient of 1e-8.
    fn default() -> Self {
        Self { start: None, stop: Stop::new(1e-8, 100) }
    }
}

with_fields!(MeanParameters<'a>: with_start(start: Option<ArrayView2<'a, f64>>));
with_stop!(MeanParameters<'a>);

/// The result of [`dispersion_mean`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Mean {
    /// The mean.
    pub matrix: Array2<f64>,
    /// Steps taken.
    pub n_iter: usize,
    /// The Frobenius norm of the gradient that is left, or of the step to the minimum that is left, if
    /// that is longer.
    pub residual: f64,
}

/// The matrix `M` that minimises `sum_i w_i d(M, X_i)`, see [`mean_gradient`](crate::spd::mean_gradient),
/// until the gradient and the step that is left are below [the tolerance](MeanParameters::stop).
///
/// Weights are positive and add up to 1.
///
/// # Errors
///
/// As [`mean_gradient`](crate::spd::mean_gradient).
///
/// # Examples
///
/// ```
/// use histrs::{Executor, spd::{Dispersion, MeanParameters, dispersion_mean}};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[[0.25]], [[4.0]]];
/// let parameters = MeanParameters::default().with_tol(1e-10);
/// let mean = dispersion_mean(&exec, x.view(), &[0.5, 0.5], Dispersion::Airm, parameters)?;
/// assert!((mean.matrix[[0, 0]] - 1.0).abs() < 1e-10);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn dispersion_mean<T: Element>(
    exec: &Executor,
    x: ArrayView3<'_, T>,
    weights: &[f64],
    dispersion: Dispersion,
    parameters: MeanParameters<'_>,
) -> Result<Mean> {
    let MeanParameters { start, stop: Stop { tol, max_iter, .. } } = parameters;
    let stack = SymmetricStack::new(exec, "X", x)?;
    check(&stack, weights, start.as_ref())?;
    let spread = Spread::new(exec, &stack, weights, dispersion)?;
    let first = start.map_or_else(|| arithmetic(&stack, weights), |m| m.to_owned());
    let mut descent = Descent::new(exec, spread, first)?;
    let residual = match dispersion {
        // No curvature is less than 1: the gradient is at least as long as the step that is left.
        Dispersion::Airm => {
            descent.descend(tol, max_iter)?;
            descent.at.residual()
        }
        Dispersion::Jbld => descent.descend_by_turns(tol, max_iter)?,
    };
    Ok(Mean { matrix: descent.mean(), n_iter: descent.n_iter, residual })
}

fn check(
    stack: &SymmetricStack,
    weights: &[f64],
    start: Option<&ArrayView2<'_, f64>>,
) -> Result<()> {
    let (n, p) = (stack.n(), stack.p());
    check_length("the number of weights", weights.len(), n, "give a weight for each matrix")?;
    if n == 0 || p == 0 {
        let what = "the number of matrices or of their rows";
        let cure = "a mean takes at least one matrix of at least one row";
        return Err(Error::Shape { what, found: 0, expected: 1, cure });
    }
    if let Some(start) = start {
        square("a side of the start", p, start)?;
    }
    Ok(())
}

/// A mean on its way to the minimum.
struct Descent<'a> {
    exec: &'a Executor,
    p: usize,
    spread: Spread,
    /// `R` of the mean `R R^T`.
    root: Vec<f64>,
    at: Point,
    /// The last values, the newest one behind.
    values: Vec<f64>,
    /// Length of the next step, in gradients.
    step: f64,
    n_iter: usize,
}

/// A step by the least curvature, and what is known of where it ends.
struct LeastCurvatureStep {
    direction: Direction,
    length: f64,
    /// The length at which the gradient along the step vanishes, by its change.
    end: f64,
    tried: Option<Point>,
    /// How far the minimum is, at most.
    residual: f64,
}

impl<'a> Descent<'a> {
    fn new(exec: &'a Executor, mut spread: Spread, first: Array2<f64>) -> Result<Self> {
        let p = first.nrows();
        let first = first.insert_axis(Axis(0));
        let first = SymmetricStack::new(exec, "the first mean", first.view())?;
        let groups = first.groups()?;
        let whitener = keep_factors::<InverseCholesky>(exec, "the first mean", &first, &groups)?;
        let root = keep_factors::<TransposedCholesky>(exec, "the first mean", &first, &groups)?;
        // Rows of the root are columns of what was kept.
        let kept = root.matrices()?;
        let root = (0..p * p).map(|k| kept[(k % p) * p + k / p]).collect();
        let at = spread.moved(exec, &whitener.matrices()?)?;
        spread.accept();
        let (values, step) = (vec![at.value], 2.0 / (1.0 + at.curvature));
        Ok(Self { exec, p, spread, root, at, values, step, n_iter: 0 })
    }

    /// Goes down until the gradient is below `target`; false where rounding is all that is left.
    fn descend(&mut self, target: f64, max_iter: usize) -> Result<bool> {
        while self.at.residual() > target && self.n_iter < max_iter {
            let Some(next) = self.searched()? else {
                return Ok(false);
            };
            self.spread.accept();
            let moved = exponential(self.p, &self.at.gradient, -0.5 * self.step);
            self.root = product(self.p, &self.root, &moved);
            self.n_iter += 1;
            self.step = self.next_step(&next);
            self.values.push(next.value);
            if self.values.len() > MEMORY {
                self.values.remove(0);
            }
            self.at = next;
        }
        Ok(true)
    }

    /// The end of a step along the gradient that is halved until it gains enough.
    fn searched(&mut self) -> Result<Option<Point>> {
        let residual = self.at.residual();
        let worst = self.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for _ in 0..MOST_HALVINGS {
            self.step = self.step.min(LONGEST / residual);
            let moved = exponential(self.p, &self.at.gradient, 0.5 * self.step);
            let found = self.spread.moved(self.exec, &moved)?;
            let enough = worst - ENOUGH * self.step * residual * residual;
            // Near the minimum values differ by rounding, and the gradient decides.
            if found.value <= enough || found.residual() < residual {
                return Ok(Some(found));
            }
            self.step *= 0.5;
        }
        Ok(None)
    }

    /// The step of Barzilai and Borwein from the next point: the long and the short one in turn.
    fn next_step(&self, next: &Point) -> f64 {
        let step = self.step;
        let (mut along, mut size) = (0.0, 0.0);
        for (old, new) in self.at.gradient.iter().zip(&next.gradient) {
            along -= step * old * (new - old);
            size += (new - old) * (new - old);
        }
        if along <= 0.0 {
            2.0 * step
        } else if self.n_iter % 2 == 1 {
            (step * self.at.residual()).powi(2) / along
        } else {
            along / size
        }
    }

    /// Goes down along gradients and, near the minimum, by the least curvature; how far it is then.
    fn descend_by_turns(&mut self, tol: f64, max_iter: usize) -> Result<f64> {
        let mut target = tol.max(NEAR);
        loop {
            let moves = self.descend(target, max_iter)?;
            let step = self.least_curvature_step()?;
            if step.residual <= tol || self.n_iter >= max_iter || !moves {
                return Ok(step.residual);
            }
            self.n_iter += 1;
            if !self.take(step)? {
                let residual = self.at.residual();
                target = (AGAIN * residual).max(0.5 * tol.min(residual));
            }
        }
    }

    fn least_curvature_step(&mut self) -> Result<LeastCurvatureStep> {
        let left = self.spread.step_left(self.exec, &self.at.gradient)?;
        let direction = Direction::new(self.p, &left.step)?;
        let length = 1.0_f64.min(LONGEST_NEWTON / left.size);
        let tried = self.spread.tried(self.exec, &direction.exponential(0.5 * length))?;
        let slope = |point: &Point| -> f64 {
            left.step.iter().zip(&point.gradient).map(|(s, g)| s * g).sum()
        };
        let along = slope(&self.at);
        let rest = tried.as_ref().map_or(along, slope);
        let end = if rest < along { length * along / (along - rest) } else { length };
        let residual = self.at.residual().max(end * left.size).max(left.rounding);
        Ok(LeastCurvatureStep { direction, length, end, tried, residual })
    }

    /// Takes a step where it shortens the gradient enough; says whether it did.
    fn take(&mut self, step: LeastCurvatureStep) -> Result<bool> {
        let LeastCurvatureStep { direction, mut length, end, mut tried, .. } = step;
        if end < 0.5 * length {
            // Where matrices do not commute, the curvature is more than the least.
            length = end;
            tried = self.spread.tried(self.exec, &direction.exponential(0.5 * length))?;
        }
        let enough = NEWTON * self.at.residual();
        let Some(next) = tried.filter(|next| next.residual() < enough) else {
            return Ok(false);
        };
        self.spread.accept();
        self.root = product(self.p, &self.root, &direction.exponential(-0.5 * length));
        self.values = vec![next.value];
        self.at = next;
        Ok(true)
    }

    /// `R R^T`.
    fn mean(&self) -> Array2<f64> {
        let (p, root) = (self.p, &self.root);
        Array2::from_shape_fn((p, p), |(i, j)| {
            (0..p).map(|k| root[i * p + k] * root[j * p + k]).sum()
        })
    }
}

/// The weighted sum of the matrices.
fn arithmetic(stack: &SymmetricStack, weights: &[f64]) -> Array2<f64> {
    let p = stack.p();
    let mut half = vec![0.0; triangle(p)];
    for (i, &weight) in weights.iter().enumerate() {
        for (sum, value) in half.iter_mut().zip(stack.half(i)) {
            *sum += weight * value;
        }
    }
    Array2::from_shape_fn((p, p), |(i, j)| 2.0 * half[triangle(i.max(j)) + i.min(j)])
}
