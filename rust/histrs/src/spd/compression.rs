//! The objective of stochastic covariance compression, and its gradient, in one pass.
//!
//! For each training matrix the sums with all prototypes are factorised and kept, the softmax is
//! taken, and what has a weight in the gradient is inverted from its factors.

use ndarray::{Array1, Array3, ArrayView3};
use pulp::Simd;

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::memory;
use crate::neighborhood::{Labels, Neighborhood};
use crate::simd::{AlignedVec, vectorized};
use crate::small_matrix::triangle;
use crate::spd::factors::{LogDeterminant, keep_factors};
use crate::spd::lanes::{
    Groups, Interleaved, Shared, TILE, in_lower_tiles, in_tiles, vectors, vectors_mut,
};
use crate::spd::ldl::{Factor, factorize, row};
use crate::spd::ln_product::ln_product;
use crate::spd::stack::{SymmetricStack, check_same_size};

/// Parts that the training matrices are cut into; each has sums of its own.
const PARTS: usize = 16;
/// Weights below this part of the largest of a sample leave no trace in the sums.
const NEGLIGIBLE: f64 = 1e-18;

/// The value and the parts of the gradient of [`compression_loss`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CompressionLoss {
    /// `-sum_i v_i log p_i`.
    pub loss: f64,
    /// `S_j = sum_i v_i w_ij (X_i + P_j)^-1`, of shape `(m, p, p)`.
    pub inverse_sums: Array3<f64>,
    /// `sum_i v_i w_ij`, of shape `(m,)`.
    pub weight_sums: Array1<f64>,
}

/// The objective `-sum_i log p_i` of stochastic covariance compression (eqs. 4 to 6), where
/// `p_ij = softmax_j(-gamma^2 D_J(X_i, P_j))` and `p_i` is the sum over prototypes of the right
/// class; with [weights](Labels::weights) `v_i` of the samples `-sum_i v_i log p_i`.
///
/// With `w_ij = (p_ij / p_i) (delta - p_i)` its gradient with respect to the symmetric matrix
/// `P_j` is `gamma^2 (S_j - P_j^-1 sum_i v_i w_ij / 2)`; with `P_j = B_j^T B_j` the gradient with
/// respect to `B_j` is `2 B_j` times that. (Equation 8 of the paper lacks this factor 2 of its
/// first term: as printed it does not vanish at `X = P`.) Everything is in logarithms, so that
/// neither small nor large `gamma` loses digits.
///
/// # Errors
///
/// As [`jbld_distances`](crate::spd::jbld_distances), with `Y` for the prototypes. [`Error::Shape`]
/// when there are not as many labels or weights as matrices. [`Error::Parameter`] when no prototype
/// has the class of a training matrix, `gamma` is not positive, or a weight is negative or not
/// finite.
///
/// # Examples
///
/// ```
/// use histrs::{Executor, neighborhood::Labels, spd::compression_loss};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[[1.0]], [[4.0]]];
/// let labels = Labels::new(&[0, 1], &[0, 1]);
/// let result = compression_loss(&exec, x.view(), x.view(), labels, 1.0)?;
/// // D_J(1, 4) = ln(5/4), so that each is right with probability 1 / (1 + 4/5).
/// assert!((result.loss - 2.0 * 1.8_f64.ln()).abs() < 1e-15);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn compression_loss(
    exec: &Executor,
    x: ArrayView3<'_, f64>,
    prototypes: ArrayView3<'_, f64>,
    labels: Labels<'_>,
    gamma: f64,
) -> Result<CompressionLoss> {
    let neighborhood = Neighborhood::new(labels, [x.dim().0, prototypes.dim().0], gamma)?;
    let x = SymmetricStack::new(exec, "X", x)?;
    let y = SymmetricStack::new(exec, "Y", prototypes)?;
    check_same_size(&x, &y)?;
    if x.p() == 0 {
        let cure = "give matrices of at least one row";
        check_length("the number of rows of a matrix", 0, 1, cure)?;
    }
    let (p, m) = (x.p(), y.n());
    let groups = y.groups()?;
    let log_dets = keep_factors::<LogDeterminant>(exec, "Y", &y, &groups)?.matrices()?;
    let problem = Problem { exec, x: &x, prototypes: &groups, log_dets: &log_dets, neighborhood };
    let size = x.n().div_ceil(PARTS).max(1);
    let parts = exec.map_ranges(x.n(), size, |rows| loss_of_part(&problem, rows))?;

    let mut loss = 0.0;
    let mut sums = Groups::zeros(m, triangle(p))?;
    let mut weight_sums = memory::zeros(m)?;
    for part in &parts {
        loss += part.loss;
        weight_sums += &part.weights;
        for group in 0..sums.n_groups() {
            let from = part.sums.group(group);
            for (sum, value) in sums.group_mut(group).iter_mut().zip(from) {
                *sum += value;
            }
        }
    }
    Ok(CompressionLoss { loss, inverse_sums: unpack(p, &sums)?, weight_sums })
}

/// Square matrices of packed ones.
fn unpack(p: usize, groups: &Groups) -> Result<Array3<f64>> {
    let packed = groups.matrices()?;
    let len = triangle(p);
    Ok(Array3::from_shape_fn((groups.n(), p, p), |(matrix, i, j)| {
        packed[matrix * len + triangle(i.max(j)) + i.min(j)]
    }))
}

struct Problem<'a> {
    exec: &'a Executor,
    x: &'a SymmetricStack,
    prototypes: &'a Groups,
    log_dets: &'a [f64],
    neighborhood: Neighborhood<'a>,
}

vectorized!(
    /// Some training matrices.
    fn loss_of_part<S: Simd>(
        simd: S,
        problem: &Problem<'_>,
        rows: std::ops::Range<usize>,
    ) -> Result<PartSums> {
        let (p, m) = (problem.x.p(), problem.prototypes.n());
        let lanes = S::F64_LANES;
        let len = Factor::<S::f64s>::len(p);
        let mut out = PartSums {
            loss: 0.0,
            sums: Groups::zeros(m, triangle(p))?,
            weights: memory::zeros(m)?,
        };
        let mut factors = AlignedVec::zeros(problem.prototypes.n_groups() * len * lanes)?;
        let factors = vectors_mut::<S>(&mut factors);
        let mut inverse = AlignedVec::zeros(2 * p * p * lanes)?;
        let (inverse, scaled) = vectors_mut::<S>(&mut inverse).split_at_mut(p * p);
        let mut weights = memory::filled(0.0, m)?;
        let negligible = NEGLIGIBLE * problem.neighborhood.largest_weight();
        for i in rows {
            for (group, buffer) in factors.chunks_exact_mut(len).enumerate() {
                problem.exec.check()?;
                let mut factor = Factor::new(p, buffer);
                let y = Interleaved(vectors::<S>(problem.prototypes.group(group)));
                factorize(simd, p, Shared(problem.x.half(i)), y, &mut factor);
                let sums = ln_product::<S>(pulp::bytemuck::cast_slice(factor.pivots));
                for (weight, sum) in weights[group * lanes..].iter_mut().zip(&sums[..lanes]) {
                    *weight = *sum;
                }
            }
            out.loss += problem.softmax(i, &mut weights)?;
            for (group, buffer) in factors.chunks_exact_mut(len).enumerate() {
                let own = &weights[group * lanes..m.min((group + 1) * lanes)];
                if own.iter().all(|weight| weight.abs() < negligible) {
                    continue;
                }
                problem.exec.check()?;
                let mut coefficient = simd.splat_f64s(0.0);
                pulp::bytemuck::cast_slice_mut::<_, f64>(core::slice::from_mut(&mut coefficient))
                    [..own.len()]
                    .copy_from_slice(own);
                let factor = Factor::new(p, buffer);
                invert_lower(simd, p, factor.lower, inverse);
                let sums = vectors_mut::<S>(out.sums.group_mut(group));
                add_inverse(simd, p, coefficient, factor.inverses, inverse, scaled, sums);
            }
            for (sum, weight) in out.weights.iter_mut().zip(&weights) {
                *sum += weight;
            }
        }
        Ok(out)
    }
);

struct PartSums {
    loss: f64,
    sums: Groups,
    weights: Array1<f64>,
}

impl Problem<'_> {
    /// Turns log-determinants of means into the weights `w_ij`; returns `-log p_i`.
    fn softmax(&self, i: usize, values: &mut [f64]) -> Result<f64> {
        for (j, (value, log_det)) in values.iter_mut().zip(self.log_dets).enumerate() {
            if value.is_nan() {
                return Err(Error::TooFarApart { x: i, y: j });
            }
            // Half the log-determinant of X_i is the same for all prototypes, and drops out.
            *value -= 0.5 * log_det;
        }
        Ok(self.neighborhood.softmax(i, values))
    }
}

/// `L^-1` of the packed strict triangle of `-L`: square, row by row, with its zeros.
#[inline(always)]
fn invert_lower<S: Simd>(simd: S, p: usize, minus: &[S::f64s], out: &mut [S::f64s]) {
    in_tiles!(start in 0, p, R => invert_rows::<S, R>(simd, p, start, minus, out));
}

#[inline(always)]
fn invert_rows<S: Simd, const R: usize>(
    simd: S,
    p: usize,
    start: usize,
    minus: &[S::f64s],
    out: &mut [S::f64s],
) {
    let (zero, one) = (simd.splat_f64s(0.0), simd.splat_f64s(1.0));
    let (before, current) = out.split_at_mut(start * p);
    let rows: [&[S::f64s]; R] = core::array::from_fn(|r| row(minus, start + r));
    for j in (0..start).step_by(TILE) {
        let mut tile = [[zero; TILE]; R];
        let left = rows.map(|row| &row[j..start]);
        for (k, above) in before[j * p..].chunks_exact(p).enumerate() {
            let above = &above[j..j + TILE];
            for r in 0..R {
                for c in 0..TILE {
                    tile[r][c] = simd.mul_add_e_f64s(left[r][k], above[c], tile[r][c]);
                }
            }
        }
        finish_rows(simd, start, rows, &mut tile);
        for r in 0..R {
            current[r * p + j..r * p + j + TILE].copy_from_slice(&tile[r]);
        }
    }
    let mut tile = [[zero; R]; R];
    for r in 0..R {
        tile[r][r] = one;
    }
    finish_rows(simd, start, rows, &mut tile);
    for r in 0..R {
        current[r * p + start..r * p + start + R].copy_from_slice(&tile[r]);
        current[r * p + start + R..(r + 1) * p].fill(zero);
    }
}

/// Adds what the rows of the tile contribute to those below them.
#[inline(always)]
fn finish_rows<S: Simd, const R: usize, const C: usize>(
    simd: S,
    start: usize,
    rows: [&[S::f64s]; R],
    tile: &mut [[S::f64s; C]; R],
) {
    for r in 0..R {
        for k in 0..R {
            if k < r {
                for c in 0..C {
                    tile[r][c] = simd.mul_add_e_f64s(rows[r][start + k], tile[k][c], tile[r][c]);
                }
            }
        }
    }
}

/// Adds `coefficient (L D L^T)^-1 / 2` to packed `sums`, where `n` is `L^-1` and `inverses` holds
/// `-1` over each pivot. The half is that of the mean.
#[inline(always)]
fn add_inverse<S: Simd>(
    simd: S,
    p: usize,
    coefficient: S::f64s,
    inverses: &[S::f64s],
    n: &[S::f64s],
    scaled: &mut [S::f64s],
    sums: &mut [S::f64s],
) {
    let factor = simd.mul_f64s(coefficient, simd.splat_f64s(-0.5));
    // Column k of L^-1, by rows: entry (i, k) becomes entry (k, i).
    for k in 0..p {
        let inverse = simd.mul_f64s(factor, inverses[k]);
        for i in 0..=k {
            scaled[i * p + k] = simd.mul_f64s(inverse, n[k * p + i]);
        }
    }
    in_lower_tiles!(i, j in p, R, C =>
        add_inverse_tile::<S, R, C>(simd, p, (i, j), n, scaled, sums));
}

#[inline(always)]
fn add_inverse_tile<S: Simd, const R: usize, const C: usize>(
    simd: S,
    p: usize,
    (i, j): (usize, usize),
    n: &[S::f64s],
    scaled: &[S::f64s],
    sums: &mut [S::f64s],
) {
    let mut tile = [[simd.splat_f64s(0.0); C]; R];
    let left: [_; R] = core::array::from_fn(|r| &scaled[(i + r) * p + i..(i + r + 1) * p]);
    for (k, row) in n[i * p..].chunks_exact(p).enumerate() {
        let right = &row[j..j + C];
        for r in 0..R {
            for c in 0..C {
                tile[r][c] = simd.mul_add_e_f64s(left[r][k], right[c], tile[r][c]);
            }
        }
    }
    for r in 0..R {
        for c in 0..C {
            if j + c <= i + r {
                let sum = &mut sums[triangle(i + r) + j + c];
                *sum = simd.add_f64s(*sum, tile[r][c]);
            }
        }
    }
}
