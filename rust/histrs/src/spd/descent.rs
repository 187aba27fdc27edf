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
use pulp::{Simd, WithSimd};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::simd::{AlignedVec, Element, dispatch, lanes};
use crate::spd::factors::{InverseCholesky, TransposedCholesky, keep_factors};
use crate::spd::jacobi::orthogonalize;
use crate::spd::lanes::{LaneValues, vectors, vectors_mut};
use crate::spd::mean::{Dispersion, curvature, least_curvature, part_size, slope, value};
use crate::spd::spectra::{Rest, Whitened, function, multiply_rows, square};
use crate::spd::stack::{SymmetricStack, triangle};

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
    if weights.len() != n {
        let what = "the number of weights";
        let cure = "give a weight for each matrix";
        return Err(Error::Shape { what, found: weights.len(), expected: n, cure });
    }
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
            let direction = Direction::new(p, &at.gradient)?;
            let residual = at.residual();
            let worst = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut next = None;
            for _ in 0..MOST_HALVINGS {
                step = step.min(LONGEST / residual);
                let found = spread.moved(exec, &direction.exponential(0.5 * step))?;
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
            root = product(p, &root, &direction.exponential(-0.5 * step));
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

/// A step along which the gradient vanishes if the curvature is the least there can be.
struct StepLeft {
    step: Vec<f64>,
    /// Its length, and that which rounding of the gradient makes of it.
    size: f64,
    rounding: f64,
}

impl Spread {
    /// Solves `(A S + S A) / 2 = gradient` in the coordinates of the present mean.
    fn step_left(&mut self, exec: &Executor, gradient: &[f64]) -> Result<StepLeft> {
        let p = self.p;
        let identity: Vec<f64> =
            (0..p * p).map(|k| if k / p == k % p { 1.0 } else { 0.0 }).collect();
        let least = self.evaluated(exec, &identity, least_curvature)?.gradient;
        let least: Vec<f64> = least.iter().map(|a| -a).collect();
        let basis = Direction::new(p, &least)?;
        let curvature = |k: usize| basis.values[k].max(f64::MIN_POSITIVE);
        let turned = rotated(p, &basis.vectors, gradient);
        let step: Vec<f64> = turned
            .iter()
            .enumerate()
            .map(|(k, g)| 2.0 * g / (curvature(k / p) + curvature(k % p)))
            .collect();
        let size = step.iter().map(|s| s * s).sum::<f64>().sqrt();
        let flattest = (0..p).map(curvature).fold(f64::INFINITY, f64::min);
        let back: Vec<f64> = (0..p * p).map(|k| basis.vectors[(k % p) * p + k / p]).collect();
        let step = rotated(p, &back, &step);
        Ok(StepLeft { step, size, rounding: 0.5 * f64::EPSILON / flattest })
    }
}

/// `V S V^T`.
fn rotated(p: usize, vectors: &[f64], matrix: &[f64]) -> Vec<f64> {
    let transposed: Vec<f64> = (0..p * p).map(|k| vectors[(k % p) * p + k / p]).collect();
    product(p, &product(p, vectors, matrix), &transposed)
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

/// `A B` of square matrices.
fn product(p: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; p * p];
    for (row, out) in a.chunks_exact(p).zip(out.chunks_exact_mut(p)) {
        for (&value, other) in row.iter().zip(b.chunks_exact(p)) {
            for (out, &other) in out.iter_mut().zip(other) {
                *out += value * other;
            }
        }
    }
    out
}

/// The dispersion at some `M`, in its coordinates.
struct Point {
    value: f64,
    curvature: f64,
    gradient: Vec<f64>,
}

impl Point {
    fn residual(&self) -> f64 {
        self.gradient.iter().map(|g| g * g).sum::<f64>().sqrt()
    }
}

/// A symmetric matrix by its eigenvalues.
struct Direction {
    p: usize,
    values: Vec<f64>,
    /// Eigenvectors, a row each.
    vectors: Vec<f64>,
}

impl Direction {
    fn new(p: usize, matrix: &[f64]) -> Result<Self> {
        dispatch(Decompose { p, matrix })
    }

    /// `exp(t S)`.
    fn exponential(&self, t: f64) -> Vec<f64> {
        let p = self.p;
        let mut out = vec![0.0; p * p];
        for (&value, vector) in self.values.iter().zip(self.vectors.chunks_exact(p)) {
            let factor = (t * value).exp();
            for (i, out) in out.chunks_exact_mut(p).enumerate() {
                let weight = factor * vector[i];
                for (out, &other) in out.iter_mut().zip(vector) {
                    *out += weight * other;
                }
            }
        }
        out
    }
}

struct Decompose<'a> {
    p: usize,
    matrix: &'a [f64],
}

impl WithSimd for Decompose<'_> {
    type Output = Result<Direction>;

    /// Rows of a positive definite matrix are made orthogonal: its eigenvectors times its
    /// eigenvalues, which are known to a rounding of the largest.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { p, matrix } = self;
        let lanes = S::F64_LANES;
        let norm = matrix.iter().map(|s| s * s).sum::<f64>().sqrt();
        let shift = 2.0 * norm.max(f64::MIN_POSITIVE);
        let mut buffer = AlignedVec::zeros((p * p + p) * lanes)?;
        for (to, &from) in buffer.chunks_exact_mut(lanes).zip(matrix) {
            to.fill(from / shift);
        }
        for i in 0..p {
            let diagonal = &mut buffer[(i * p + i) * lanes..(i * p + i + 1) * lanes];
            diagonal.iter_mut().for_each(|value| *value += 1.0);
        }
        let (rows, squares) = vectors_mut::<S>(&mut buffer).split_at_mut(p * p);
        if !orthogonalize(simd, p, rows, squares) {
            return Err(Error::TooFarFromReference { matrix: 0 });
        }
        let sizes: Vec<f64> = (0..p).map(|k| buffer[(p * p + k) * lanes].sqrt()).collect();
        let vectors = (0..p * p).map(|e| buffer[e * lanes] / sizes[e / p]).collect();
        let values = sizes.iter().map(|size| (size - 1.0) * shift).collect();
        Ok(Direction { p, values, vectors })
    }
}

/// Factors of the matrices in the coordinates of the present mean, and of a next one.
struct Spread {
    p: usize,
    dispersion: Dispersion,
    parts: Vec<Part>,
}

/// Some groups of matrices, with sums of their own.
struct Part {
    /// Number of the first group.
    first: usize,
    weights: Vec<LaneValues>,
    present: AlignedVec<f64>,
    next: AlignedVec<f64>,
    present_scales: Vec<LaneValues>,
    next_scales: Vec<LaneValues>,
    value: f64,
    curvature: f64,
    packed: Vec<f64>,
}

impl Spread {
    fn new(
        exec: &Executor,
        stack: &SymmetricStack,
        weights: &[f64],
        dispersion: Dispersion,
    ) -> Result<Self> {
        let p = stack.p();
        let roots = Whitened::new(exec, stack, None)?.into_roots();
        let (n_groups, lanes) = (roots.n_groups(), lanes::<f64>());
        let size = part_size(n_groups);
        let mut parts = Vec::new();
        for first in (0..n_groups).step_by(size) {
            let groups = first..n_groups.min(first + size);
            let len = roots.group_len();
            let mut present = AlignedVec::zeros(groups.len() * len)?;
            let mut own = Vec::new();
            for (group, to) in groups.clone().zip(present.chunks_exact_mut(len)) {
                to.copy_from_slice(roots.group(group));
                // Lanes left over repeat the last matrix, and have no weight.
                let mut values = LaneValues::default();
                let rest = &weights[group * lanes..stack.n().min((group + 1) * lanes)];
                values[..rest.len()].copy_from_slice(rest);
                own.push(values);
            }
            parts.push(Part {
                first,
                weights: own,
                next: AlignedVec::zeros(groups.len() * len)?,
                present,
                present_scales: vec![LaneValues::default(); groups.len()],
                next_scales: vec![LaneValues::default(); groups.len()],
                value: 0.0,
                curvature: 0.0,
                packed: vec![0.0; triangle(p)],
            });
        }
        Ok(Self { p, dispersion, parts })
    }

    /// Multiplies the present factors by a matrix from the left, to be the next ones.
    fn moved(&mut self, exec: &Executor, matrix: &[f64]) -> Result<Point> {
        self.evaluated(exec, matrix, slope)
    }

    /// As [`Self::moved`]; `None` where that leaves the range of double precision.
    fn tried(&mut self, exec: &Executor, matrix: &[f64]) -> Result<Option<Point>> {
        match self.moved(exec, matrix) {
            Ok(point) => Ok(Some(point)),
            Err(Error::TooFarFromReference { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`Self::moved`], with the sum of another function than the slope for the gradient.
    fn evaluated(
        &mut self,
        exec: &Executor,
        matrix: &[f64],
        phi: fn(Dispersion, f64) -> f64,
    ) -> Result<Point> {
        let (p, dispersion) = (self.p, self.dispersion);
        exec.for_chunks(&mut self.parts, 1, |_, parts| {
            parts
                .iter_mut()
                .try_for_each(|part| dispatch(Move { exec, p, dispersion, phi, matrix, part }))
        })?;
        let mut point = Point { value: 0.0, curvature: 0.0, gradient: vec![0.0; p * p] };
        for part in &self.parts {
            point.value += part.value;
            point.curvature += part.curvature;
            for i in 0..p {
                for j in 0..=i {
                    point.gradient[i * p + j] -= part.packed[triangle(i) + j];
                }
            }
        }
        for i in 0..p {
            for j in 0..i {
                point.gradient[j * p + i] = point.gradient[i * p + j];
            }
        }
        Ok(point)
    }

    /// Makes the next factors the present ones.
    fn accept(&mut self) {
        for part in &mut self.parts {
            std::mem::swap(&mut part.present, &mut part.next);
            std::mem::swap(&mut part.present_scales, &mut part.next_scales);
        }
    }
}

struct Move<'a> {
    exec: &'a Executor,
    p: usize,
    dispersion: Dispersion,
    phi: fn(Dispersion, f64) -> f64,
    matrix: &'a [f64],
    part: &'a mut Part,
}

impl WithSimd for Move<'_> {
    type Output = Result<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<()> {
        let Self { exec, p, dispersion, phi, matrix, part } = self;
        let lanes = S::F64_LANES;
        let len = Rest::<S::f64s>::len(p);
        let mut buffer = AlignedVec::zeros((len + triangle(p)) * lanes)?;
        let (rest, result) = vectors_mut::<S>(&mut buffer).split_at_mut(len);
        let mut rest = Rest::new(p, rest);
        (part.value, part.curvature) = (0.0, 0.0);
        part.packed.fill(0.0);
        let size = p * p * lanes;
        for (k, own) in part.weights.iter().enumerate() {
            exec.check()?;
            let present = vectors::<S>(&part.present[k * size..(k + 1) * size]);
            let next = vectors_mut::<S>(&mut part.next[k * size..(k + 1) * size]);
            multiply_rows(simd, p, matrix, present, next);
            let mut values = LaneValues::default();
            let (mut least, mut largest) = ([f64::INFINITY; 8], [f64::NEG_INFINITY; 8]);
            let mut see = |lane: usize, l: f64| {
                values[lane] += value(dispersion, l);
                least[lane] = l.min(least[lane]);
                largest[lane] = l.max(largest[lane]);
            };
            let phi = |l: f64| phi(dispersion, l);
            let scales = &mut part.next_scales[k];
            *scales = part.present_scales[k];
            function(simd, p, next, scales, phi, &mut see, &mut rest, result).map_err(|lane| {
                Error::TooFarFromReference { matrix: (part.first + k) * lanes + lane }
            })?;
            for lane in 0..lanes {
                part.value += own[lane] * values[lane];
                let spread = 0.5 * (largest[lane] - least[lane]);
                part.curvature += own[lane] * curvature(dispersion, spread);
            }
            let result: &[f64] = pulp::bytemuck::cast_slice(result);
            for (sum, values) in part.packed.iter_mut().zip(result.chunks_exact(lanes)) {
                for (value, weight) in values.iter().zip(own) {
                    *sum += weight * value;
                }
            }
        }
        Ok(())
    }
}
