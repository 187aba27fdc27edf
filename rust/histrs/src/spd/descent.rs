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
//! Of "jbld" the gradient of a matrix that is far away has almost the length 1, wherever the mean is:
//! where all are far, it is small long before the mean is found. The Hessian is at least
//! `S -> (A S + S A) / 2`, where `A` is the sum of `phi'(log of X_i)`, and the step by that bound, which
//! is Newton's where the matrices commute, decides when to stop, and leads there.

use ndarray::{Array2, Array3, ArrayView2, ArrayView3};

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::simd::Element;
use crate::small_matrix::triangle;
use crate::spd::direction::{Direction, exponential, product};
use crate::spd::factors::{InverseCholesky, TransposedCholesky, keep_factors};
use crate::spd::mean::Dispersion;
use crate::spd::spectra::square;
use crate::spd::spread::Spread;
use crate::spd::stack::SymmetricStack;

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
/// from `start`, or from the arithmetic mean, until the gradient and the step that is left are below
/// `tol`.
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
/// use histrs::{Executor, spd::{Dispersion, dispersion_mean}};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[[0.25]], [[4.0]]];
/// let mean = dispersion_mean(&exec, x.view(), &[0.5, 0.5], Dispersion::Airm, None, 1e-10, 100)?;
/// assert!((mean.matrix[[0, 0]] - 1.0).abs() < 1e-10);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn dispersion_mean<T: Element>(
    exec: &Executor,
    x: ArrayView3<'_, T>,
    weights: &[f64],
    dispersion: Dispersion,
    start: Option<ArrayView2<'_, f64>>,
    tol: f64,
    max_iter: usize,
) -> Result<Mean> {
    let stack = SymmetricStack::new(exec, "X", x)?;
    let (n, p) = (stack.n(), stack.p());
    check_length("the number of weights", weights.len(), n, "give a weight for each matrix")?;
    if n == 0 || p == 0 {
        let what = "the number of matrices or of their rows";
        let cure = "a mean takes at least one matrix of at least one row";
        return Err(Error::Shape { what, found: 0, expected: 1, cure });
    }
    if let Some(start) = &start {
        square("a side of the start", p, start)?;
    }
    let mut spread = Spread::new(exec, &stack, weights, dispersion)?;
    let first = start.map_or_else(|| arithmetic(&stack, weights), |m| m.to_owned());
    let first = first.into_shape_with_order((1, p, p)).unwrap_or_else(|_| Array3::zeros((1, p, p)));
    let first = SymmetricStack::new(exec, "the first mean", first.view())?;
    let groups = first.groups()?;
    let whitener = keep_factors::<InverseCholesky>(exec, "the first mean", &first, &groups)?;
    let root = keep_factors::<TransposedCholesky>(exec, "the first mean", &first, &groups)?;
    // Rows of the root are columns of what was kept.
    let kept = root.matrices()?;
    let mut root = vec![0.0; p * p];
    for i in 0..p {
        for j in 0..p {
            root[i * p + j] = kept[j * p + i];
        }
    }
    let mut at = spread.moved(exec, &whitener.matrices()?)?;
    spread.accept();
    let mut values = vec![at.value];
    let mut step = 2.0 / (1.0 + at.curvature);
    let mut n_iter = 0;
    let near = if dispersion == Dispersion::Airm { tol } else { tol.max(NEAR) };
    let (mut target, mut is_stuck) = (near, false);
    let residual = loop {
        while at.residual() > target && n_iter < max_iter {
            let residual = at.residual();
            let worst = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut next = None;
            for _ in 0..MOST_HALVINGS {
                step = step.min(LONGEST / residual);
                let found = spread.moved(exec, &exponential(p, &at.gradient, 0.5 * step))?;
                let enough = worst - ENOUGH * step * residual * residual;
                // Near the minimum values differ by rounding, and the gradient decides.
                if found.value <= enough || found.residual() < residual {
                    next = Some(found);
                    break;
                }
                step *= 0.5;
            }
            // Rounding is all that is left.
            let Some(next) = next else {
                is_stuck = true;
                break;
            };
            spread.accept();
            root = product(p, &root, &exponential(p, &at.gradient, -0.5 * step));
            n_iter += 1;
            let (mut along, mut size) = (0.0, 0.0);
            for (old, new) in at.gradient.iter().zip(&next.gradient) {
                along -= step * old * (new - old);
                size += (new - old) * (new - old);
            }
            step = if along <= 0.0 {
                2.0 * step
            } else if n_iter % 2 == 1 {
                (step * residual).powi(2) / along
            } else {
                along / size
            };
            values.push(next.value);
            if values.len() > MEMORY {
                values.remove(0);
            }
            at = next;
        }
        // Of "airm" no curvature is less than 1.
        if dispersion == Dispersion::Airm {
            break at.residual();
        }
        let left = spread.step_left(exec, &at.gradient)?;
        let direction = Direction::new(p, &left.step)?;
        let mut length = 1.0_f64.min(LONGEST_NEWTON / left.size);
        let tried = spread.tried(exec, &direction.exponential(0.5 * length))?;
        // How far it is to where the gradient along the step vanishes, by its change.
        let along: f64 = left.step.iter().zip(&at.gradient).map(|(s, g)| s * g).sum();
        let rest = tried
            .as_ref()
            .map_or(along, |next| left.step.iter().zip(&next.gradient).map(|(s, g)| s * g).sum());
        let end = if rest < along { length * along / (along - rest) } else { length };
        let residual = at.residual().max(end * left.size).max(left.rounding);
        if residual <= tol || n_iter >= max_iter || is_stuck {
            break residual;
        }
        n_iter += 1;
        let tried = if end < 0.5 * length {
            // Where matrices do not commute, the curvature is more than the least.
            length = end;
            spread.tried(exec, &direction.exponential(0.5 * length))?
        } else {
            tried
        };
        if let Some(next) = tried.filter(|next| next.residual() < NEWTON * at.residual()) {
            spread.accept();
            root = product(p, &root, &direction.exponential(-0.5 * length));
            values = vec![next.value];
            at = next;
        } else {
            target = (AGAIN * at.residual()).max(0.5 * tol.min(at.residual()));
        }
    };
    let matrix = Array2::from_shape_fn((p, p), |(i, j)| {
        (0..p).map(|k| root[i * p + k] * root[j * p + k]).sum()
    });
    Ok(Mean { matrix, n_iter, residual })
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
