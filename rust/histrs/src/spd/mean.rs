//! The gradients of means.

use ndarray::{Array2, ArrayView2, ArrayView3};
use pulp::{Simd, WithSimd};

use crate::error::{Result, check_length, from_name};
use crate::exec::Executor;
use crate::simd::{AlignedVec, Element, dispatch};
use crate::small_matrix::triangle;
use crate::spd::lanes::{LaneValues, vectors_mut};
use crate::spd::spectra::{Scratch, Whitened, square};
use crate::spd::stack::SymmetricStack;

/// Parts that the matrices are cut into; each has sums of its own.
const PARTS: usize = 16;

/// What a mean minimises the weighted sum of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dispersion {
    /// Half the square of the affine-invariant Riemannian distance: the Karcher mean.
    Airm,
    /// Twice the Jensen-Bregman log-det divergence.
    Jbld,
}

from_name! { Dispersion, "dispersion", "use \"airm\" or \"jbld\"",
    "airm" => Airm,
    "jbld" => Jbld,
}

/// The value, gradient and curvature of [`mean_gradient`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MeanGradient {
    /// The weighted sum of dispersions.
    pub value: f64,
    /// Its gradient in the coordinates of the tangent space at `M`, of shape `(p, p)`.
    pub gradient: Array2<f64>,
    /// The weighted sum of the largest curvatures of the dispersions.
    pub curvature: f64,
}

/// `f(M) = sum_i w_i d(M, X_i)` of the matrices of a stack and its gradient
/// `-sum_i w_i phi(log(W X_i W^T))`, where `W M W^T = I`, with `phi(l) = l` for [`Dispersion::Airm`]
/// and `phi(l) = tanh(l / 2)` for [`Dispersion::Jbld`].
///
/// # Errors
///
/// As [`tangent_vectors`](crate::spd::tangent_vectors), and [`Error::Shape`](crate::Error::Shape) unless there is a
/// weight for each matrix.
///
/// # Examples
///
/// ```
/// use histrs::{Executor, spd::{Dispersion, mean_gradient}};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[[0.25]], [[4.0]]];
/// let w = array![[1.0]]; // at the mean, 1
/// let mean = mean_gradient(&exec, x.view(), &[0.5, 0.5], w.view(), Dispersion::Airm)?;
/// assert!(mean.gradient[[0, 0]].abs() < 1e-15);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn mean_gradient<T: Element>(
    exec: &Executor,
    x: ArrayView3<'_, T>,
    weights: &[f64],
    whitener: ArrayView2<'_, f64>,
    dispersion: Dispersion,
) -> Result<MeanGradient> {
    let stack = SymmetricStack::new(exec, "X", x)?;
    let (n, p) = (stack.n(), stack.p());
    check_length("the number of weights", weights.len(), n, "give a weight for each matrix")?;
    let entries = square("a side of the whitener", p, &whitener)?;
    if p == 0 {
        // Matrices without rows are all the same.
        return Ok(MeanGradient { value: 0.0, gradient: Array2::zeros((0, 0)), curvature: 0.0 });
    }
    let whitened = Whitened::new(exec, &stack, Some(entries))?;
    let n_groups = whitened.n_groups();
    let size = part_size(n_groups);
    let parts = exec.map_blocks(n_groups.div_ceil(size), |part| {
        let groups = part * size..n_groups.min((part + 1) * size);
        dispatch(Part { exec, whitened: &whitened, weights, dispersion, groups })
    })?;
    let mut total = Sums { value: 0.0, curvature: 0.0, packed: vec![0.0; triangle(p)] };
    for part in &parts {
        total.value += part.value;
        total.curvature += part.curvature;
        for (sum, value) in total.packed.iter_mut().zip(&part.packed) {
            *sum += value;
        }
    }
    let gradient =
        Array2::from_shape_fn((p, p), |(i, j)| -total.packed[triangle(i.max(j)) + i.min(j)]);
    Ok(MeanGradient { value: total.value, gradient, curvature: total.curvature })
}

/// Groups of matrices in a part.
pub(crate) fn part_size(n_groups: usize) -> usize {
    n_groups.div_ceil(PARTS).max(1)
}

struct Part<'a> {
    exec: &'a Executor,
    whitened: &'a Whitened<'a>,
    weights: &'a [f64],
    dispersion: Dispersion,
    groups: std::ops::Range<usize>,
}

struct Sums {
    value: f64,
    curvature: f64,
    packed: Vec<f64>,
}

impl WithSimd for Part<'_> {
    type Output = Result<Sums>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<Sums> {
        let Self { exec, whitened, weights, dispersion, groups } = self;
        let (p, lanes) = (whitened.p(), S::F64_LANES);
        let len = Scratch::<S::f64s>::len(p);
        let mut buffer = AlignedVec::zeros((len + triangle(p)) * lanes)?;
        let (scratch, result) = vectors_mut::<S>(&mut buffer).split_at_mut(len);
        let mut scratch = Scratch::new(p, scratch);
        let mut sums = Sums { value: 0.0, curvature: 0.0, packed: vec![0.0; triangle(p)] };
        for group in groups {
            exec.check()?;
            // Lanes left over repeat the last matrix, and have no weight.
            let mut own = LaneValues::default();
            let first = group * lanes;
            let rest = &weights[first..whitened.n().min(first + lanes)];
            own[..rest.len()].copy_from_slice(rest);
            let mut values = LaneValues::default();
            let (mut least, mut largest) = ([f64::INFINITY; 8], [f64::NEG_INFINITY; 8]);
            let see = |lane: usize, l: f64| {
                values[lane] += value(dispersion, l);
                least[lane] = l.min(least[lane]);
                largest[lane] = l.max(largest[lane]);
            };
            let phi = |l: f64| slope(dispersion, l);
            whitened.function(simd, group, phi, see, &mut scratch, result)?;
            for lane in 0..lanes {
                sums.value += own[lane] * values[lane];
                let spread = 0.5 * (largest[lane] - least[lane]);
                sums.curvature += own[lane] * curvature(dispersion, spread);
            }
            let result: &[f64] = pulp::bytemuck::cast_slice(result);
            for (sum, values) in sums.packed.iter_mut().zip(result.chunks_exact(lanes)) {
                for (value, weight) in values.iter().zip(&own) {
                    *sum += weight * value;
                }
            }
        }
        Ok(sums)
    }
}

/// The derivative of [`value`].
#[inline(always)]
pub(crate) fn slope(dispersion: Dispersion, l: f64) -> f64 {
    match dispersion {
        Dispersion::Airm => l,
        Dispersion::Jbld => (0.5 * l).tanh(),
    }
}

/// What an eigenvalue `exp(l)` adds to the dispersion.
pub(crate) fn value(dispersion: Dispersion, l: f64) -> f64 {
    match dispersion {
        Dispersion::Airm => 0.5 * l * l,
        Dispersion::Jbld => {
            // 2 ln cosh(l / 2).
            let size = l.abs();
            size + 2.0 * ((-size).exp().ln_1p() - std::f64::consts::LN_2)
        }
    }
}

/// The least curvature that an eigenvalue `exp(l)` gives along a geodesic that moves it.
pub(crate) fn least_curvature(dispersion: Dispersion, l: f64) -> f64 {
    match dispersion {
        Dispersion::Airm => 1.0,
        // 1 / (2 cosh(l / 2)^2), without overflow.
        Dispersion::Jbld => {
            let power = (-l.abs()).exp();
            2.0 * power / ((1.0 + power) * (1.0 + power))
        }
    }
}

/// The largest curvature along a geodesic, where logarithms are spread by twice `spread`.
pub(crate) fn curvature(dispersion: Dispersion, spread: f64) -> f64 {
    match dispersion {
        Dispersion::Airm if spread > 1e-8 => spread / spread.tanh(),
        Dispersion::Airm => 1.0,
        Dispersion::Jbld => 0.5,
    }
}
