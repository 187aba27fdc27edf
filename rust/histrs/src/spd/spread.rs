//! The dispersion of a stack about a matrix that moves: its value, gradient and curvature.

use pulp::{Simd, WithSimd};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::simd::{AlignedVec, dispatch, lanes, vectorized};
use crate::small_matrix::triangle;
use crate::spd::direction::{Direction, product, rotated};
use crate::spd::dispersion::{Dispersion, curvature, least_curvature, slope, value};
use crate::spd::lanes::{LaneValues, vectors, vectors_mut};
use crate::spd::log_map::squared_norm;
use crate::spd::spectra::{
    LogScratch, Rest, Whitened, function, log_of_factors, multiply_rows, whiten_columns,
};
use crate::spd::stack::SymmetricStack;

/// Parts that the matrices are cut into; each has sums of its own.
const PARTS: usize = 16;
/// Where more than one in so many matrices takes rotations, all do.
const ROTATED: usize = 4;

/// The identity matrix.
fn identity(p: usize) -> Vec<f64> {
    (0..p * p).map(|k| if k / p == k % p { 1.0 } else { 0.0 }).collect()
}

/// The dispersion at some `M`, in its coordinates.
pub(super) struct Point {
    pub(super) value: f64,
    pub(super) curvature: f64,
    pub(super) gradient: Vec<f64>,
}

impl Point {
    /// The length of the gradient.
    pub(super) fn residual(&self) -> f64 {
        self.gradient.iter().map(|g| g * g).sum::<f64>().sqrt()
    }
}

/// Factors of the matrices in the coordinates of the present mean, and of a next one.
pub(super) struct Spread {
    p: usize,
    dispersion: Dispersion,
    parts: Vec<Part>,
    /// What whitens the factors for the present mean and the next one, where it is done anew for each:
    /// then the present factors are those of the matrices themselves.
    whiteners: Option<[Vec<f64>; 2]>,
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
    /// Where logarithms are computed, kept for the next ones.
    scratch: AlignedVec<f64>,
    value: f64,
    curvature: f64,
    packed: Vec<f64>,
}

/// Evaluates a part of the Riemannian dispersion from the factors of the matrices themselves.
struct Logarithms<'a> {
    exec: &'a Executor,
    p: usize,
    whitener: &'a [f64],
    part: &'a mut Part,
}

impl WithSimd for Logarithms<'_> {
    /// How many matrices took rotations.
    type Output = Result<usize>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<usize> {
        let Self { exec, p, whitener, part } = self;
        let lanes = S::F64_LANES;
        let len = LogScratch::<S::f64s>::len(p);
        if part.scratch.is_empty() {
            part.scratch = AlignedVec::zeros((len + 2 * triangle(p)) * lanes)?;
        }
        let (scratch, rest) = vectors_mut::<S>(&mut part.scratch).split_at_mut(len);
        let (result, sums) = rest.split_at_mut(triangle(p));
        sums.fill(simd.splat_f64s(0.0));
        let mut scratch = LogScratch::new(p, scratch);
        (part.value, part.curvature) = (0.0, 0.0);
        let mut n_rotated = 0;
        let size = p * p * lanes;
        for (k, own) in part.weights.iter().enumerate() {
            exec.check()?;
            let roots = vectors::<S>(&part.present[k * size..(k + 1) * size]);
            whiten_columns(simd, p, whitener, roots, scratch.factors);
            let spans = log_of_factors(simd, p, &mut scratch, result).map_err(|lane| {
                Error::TooFarFromReference { matrix: (part.first + k) * lanes + lane }
            })?;
            n_rotated += spans.n_rotated;
            let square = squared_norm(simd, p, result);
            let squares: &[f64] = pulp::bytemuck::cast_slice(core::slice::from_ref(&square));
            let mut weight = square;
            let weights: &mut [f64] =
                pulp::bytemuck::cast_slice_mut(core::slice::from_mut(&mut weight));
            weights.copy_from_slice(&own[..lanes]);
            for lane in 0..lanes {
                part.value += own[lane] * 0.5 * squares[lane];
                part.curvature += own[lane] * curvature(Dispersion::Airm, spans.spread[lane]);
            }
            for (sum, &value) in sums.iter_mut().zip(&*result) {
                *sum = simd.mul_add_e_f64s(weight, value, *sum);
            }
        }
        for (packed, &sum) in part.packed.iter_mut().zip(&*sums) {
            *packed = simd.reduce_sum_f64s(sum);
        }
        Ok(n_rotated)
    }
}

vectorized!(
    /// Whitens the factors of a part.
    fn whiten<S: Simd>(simd: S, p: usize, whitener: &[f64], part: &mut Part) -> Result<()> {
        let mut next = AlignedVec::zeros(part.present.len())?;
        let size = (p * p * S::F64_LANES).max(1);
        let groups = next.chunks_exact_mut(size).zip(part.present.chunks_exact(size));
        for (next, present) in groups {
            whiten_columns(simd, p, whitener, vectors::<S>(present), vectors_mut::<S>(next));
        }
        part.present = next;
        Ok(())
    }
);

vectorized!(
    fn move_part<S: Simd>(
        simd: S,
        exec: &Executor,
        p: usize,
        dispersion: Dispersion,
        phi: fn(Dispersion, f64) -> f64,
        matrix: &[f64],
        part: &mut Part,
    ) -> Result<()> {
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
);

/// A step along which the gradient vanishes if the curvature is the least there can be.
pub(super) struct StepLeft {
    pub(super) step: Vec<f64>,
    /// Its length, and that which rounding of the gradient makes of it.
    pub(super) size: f64,
    pub(super) rounding: f64,
}

impl Spread {
    pub(super) fn new(
        exec: &Executor,
        stack: &SymmetricStack,
        weights: &[f64],
        dispersion: Dispersion,
    ) -> Result<Self> {
        let p = stack.p();
        let roots = Whitened::new(exec, stack, None)?.into_roots();
        let (n_groups, lanes) = (roots.n_groups(), lanes::<f64>());
        let size = n_groups.div_ceil(PARTS).max(1);
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
                next: AlignedVec::zeros(0)?,
                present,
                present_scales: vec![LaneValues::default(); groups.len()],
                next_scales: vec![LaneValues::default(); groups.len()],
                scratch: AlignedVec::zeros(0)?,
                value: 0.0,
                curvature: 0.0,
                packed: vec![0.0; triangle(p)],
            });
        }
        let whiteners = match dispersion {
            Dispersion::Airm => Some([identity(p), identity(p)]),
            Dispersion::Jbld => None,
        };
        Ok(Self { p, dispersion, parts, whiteners })
    }

    /// Always takes rotations: no bounds stand for eigenvalues.
    pub(super) fn with_rotations(self) -> Self {
        Self { whiteners: None, ..self }
    }

    /// Whitens the factors for a next mean, and takes logarithms; returns how many matrices took
    /// rotations.
    fn log_moved(&mut self, exec: &Executor, whitener: &[f64]) -> Result<usize> {
        let p = self.p;
        let mut counts: Vec<(&mut Part, usize)> =
            self.parts.iter_mut().map(|part| (part, 0)).collect();
        exec.for_chunks(&mut counts, 1, |_, parts| {
            for (part, count) in parts {
                *count = dispatch(Logarithms { exec, p, whitener, part })?;
            }
            Ok(())
        })?;
        Ok(counts.iter().map(|(_, count)| count).sum())
    }

    /// Multiplies the present factors by a matrix from the left, to be the next ones.
    pub(super) fn moved(&mut self, exec: &Executor, matrix: &[f64]) -> Result<Point> {
        self.evaluated(exec, matrix, slope)
    }

    /// As [`Self::moved`]; `None` where that leaves the range of double precision.
    pub(super) fn tried(&mut self, exec: &Executor, matrix: &[f64]) -> Result<Option<Point>> {
        match self.moved(exec, matrix) {
            Ok(point) => Ok(Some(point)),
            Err(Error::TooFarFromReference { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`Self::moved`], with the sum of another function than the slope for the gradient.
    pub(super) fn evaluated(
        &mut self,
        exec: &Executor,
        matrix: &[f64],
        phi: fn(Dispersion, f64) -> f64,
    ) -> Result<Point> {
        let (p, dispersion) = (self.p, self.dispersion);
        if let Some([present, mut next]) = self.whiteners.take() {
            next.copy_from_slice(&product(p, matrix, &present));
            let n_rotated = self.log_moved(exec, &next);
            if !n_rotated.as_ref().is_ok_and(|&n| n * ROTATED > self.n_lanes()) {
                self.whiteners = Some([present, next]);
                return n_rotated.map(|_| self.summed());
            }
            // Many take rotations, of which fewer are needed where the last ones left off.
            self.rotate_from(exec, &present)?;
        }
        for part in &mut self.parts {
            if part.next.len() < part.present.len() {
                part.next = AlignedVec::zeros(part.present.len())?;
            }
        }
        exec.for_chunks(&mut self.parts, 1, |_, parts| {
            parts.iter_mut().try_for_each(|part| move_part(exec, p, dispersion, phi, matrix, part))
        })?;
        Ok(self.summed())
    }

    /// Number of lanes of all groups.
    fn n_lanes(&self) -> usize {
        self.parts.iter().map(|part| part.weights.len() * lanes::<f64>()).sum()
    }

    /// Makes the present factors those of the present mean.
    fn rotate_from(&mut self, exec: &Executor, whitener: &[f64]) -> Result<()> {
        let p = self.p;
        exec.for_chunks(&mut self.parts, 1, |_, parts| {
            parts.iter_mut().try_for_each(|part| whiten(p, whitener, part))
        })
    }

    /// The sums of all parts, in their order.
    fn summed(&self) -> Point {
        let p = self.p;
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
        point
    }

    /// Makes the next factors the present ones.
    pub(super) fn accept(&mut self) {
        if let Some([present, next]) = &mut self.whiteners {
            std::mem::swap(present, next);
            return;
        }
        for part in &mut self.parts {
            std::mem::swap(&mut part.present, &mut part.next);
            std::mem::swap(&mut part.present_scales, &mut part.next_scales);
        }
    }
}

impl Spread {
    /// Solves `(A S + S A) / 2 = gradient` in the coordinates of the present mean.
    pub(super) fn step_left(&mut self, exec: &Executor, gradient: &[f64]) -> Result<StepLeft> {
        let p = self.p;
        let least = self.evaluated(exec, &identity(p), least_curvature)?.gradient;
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

#[cfg(test)]
mod tests {
    use ndarray::{Array2, Array3};

    use super::*;
    use crate::spd::mean::mean_gradient;

    /// What [`mean_gradient`] says without factors that are kept, of several parts of groups.
    #[test]
    fn points_are_dispersions() {
        let exec = Executor::new(1).unwrap();
        let (n, p) = (400, 3);
        let entry = |k: usize, i: usize, j: usize| ((k * 31 + i * 7 + j * 3) % 17) as f64 / 17.0;
        // One in ten is far away: its eigenvalues take rotations.
        let is_far = |k: usize| k % 10 == 3;
        let x = Array3::from_shape_fn((n, p, p), |(k, i, j)| {
            let product: f64 = (0..p).map(|l| entry(k, i, l) * entry(k, j, l)).sum();
            let unit = |i: usize| if is_far(k) && i == 1 { 1e-3 } else { 1.0 };
            unit(i) * unit(j) * (product + if i == j { 0.1 } else { 0.0 })
        });
        let matrix = vec![1.5, 0.0, 0.0, -0.5, 2.0, 0.0, 0.3, 0.2, 1.0];
        let whitener = Array2::from_shape_vec((p, p), matrix.clone()).unwrap();
        let (airm, jbld) = (Dispersion::Airm, Dispersion::Jbld);
        // Without rotations, bounds of the eigenvalues stand for them in curvatures.
        for (dispersion, far_alone, bound) in
            [(airm, true, 1.0), (airm, false, 1.5), (jbld, false, 1.0)]
        {
            let weight = |k: usize| if far_alone && !is_far(k) { 0.0 } else { (k % 4) as f64 };
            let weights: Vec<f64> = (0..n).map(|k| weight(k) / n as f64).collect();
            let stack = SymmetricStack::new(&exec, "X", x.view()).unwrap();
            let mut spread = Spread::new(&exec, &stack, &weights, dispersion).unwrap();
            let found = spread.moved(&exec, &matrix).unwrap();
            let want =
                mean_gradient(&exec, x.view(), &weights, whitener.view(), dispersion).unwrap();
            assert!((found.value - want.value).abs() <= 1e-10 * want.value);
            let ratio = found.curvature / want.curvature;
            assert!(1.0 - 1e-10 <= ratio && ratio <= bound + 1e-10, "{ratio}");
            for (found, want) in found.gradient.iter().zip(&want.gradient) {
                assert!((found - want).abs() <= 1e-10 * (1.0 + want.abs()));
            }
        }
    }
}
