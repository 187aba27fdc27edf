//! The dispersion of a stack about a matrix that moves: its value, gradient and curvature.

use pulp::{Simd, WithSimd};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::simd::{AlignedVec, dispatch, lanes};
use crate::spd::direction::{Direction, rotated};
use crate::spd::lanes::{LaneValues, vectors, vectors_mut};
use crate::spd::mean::{Dispersion, curvature, least_curvature, part_size, slope, value};
use crate::spd::spectra::{Rest, Whitened, function, multiply_rows};
use crate::spd::stack::{SymmetricStack, triangle};

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
    pub(super) fn accept(&mut self) {
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
