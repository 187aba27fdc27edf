//! What is kept of the factorisation of each matrix of a stack, and whether there is one.
//!
//! A pivot of `A = L D L^T` is `v^T A v`, where `v` is its row of `L^-1`. Entries that are off by
//! `eps` of the geometric mean of their diagonals make it uncertain by about `eps v^T diag(A) v`.
//! The pivots of a singular matrix are of this size and of any sign. So a pivot counts as zero up
//! to `p eps v^T diag(A) v`. Where all diagonals are alike that is the usual `p eps max diag(A)`,
//! or more; unlike that it does not depend on the units of the columns.

use pulp::{Simd, WithSimd};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::simd::{AlignedVec, dispatch};
use crate::small_matrix::triangle;
use crate::spd::lanes::{Groups, Interleaved, minus, vectors, vectors_mut};
use crate::spd::ldl::{Factor, factorize, row};
use crate::spd::ln_product::ln_product;
use crate::spd::stack::SymmetricStack;

/// Groups in a block.
const GROUPS: usize = 4;

/// What to keep of `A = L D L^T`.
pub(crate) trait Keep: Sync {
    /// Whether it takes the rows of `L^-1`.
    const INVERSE: bool = false;
    /// Numbers kept of a matrix of `p` rows.
    fn len(p: usize) -> usize;
    /// Writes them, a vector each; `inverse` has the rows of `L^-1`, packed, where
    /// [`Self::INVERSE`].
    fn write<S: Simd>(
        simd: S,
        p: usize,
        factor: &Factor<'_, S::f64s>,
        inverse: &[S::f64s],
        out: &mut [S::f64s],
    );
}

/// The log-determinant.
pub(crate) struct LogDeterminant;

impl Keep for LogDeterminant {
    fn len(_: usize) -> usize {
        1
    }

    #[inline(always)]
    fn write<S: Simd>(
        _: S,
        _: usize,
        factor: &Factor<'_, S::f64s>,
        _: &[S::f64s],
        out: &mut [S::f64s],
    ) {
        let sums = ln_product::<S>(pulp::bytemuck::cast_slice(factor.pivots));
        let out: &mut [f64] = pulp::bytemuck::cast_slice_mut(out);
        out.copy_from_slice(&sums[..S::F64_LANES]);
    }
}

/// `C^T`, where `C C^T = A` with `C` lower triangular: square, row by row, with its zeros.
pub(crate) struct TransposedCholesky;

impl Keep for TransposedCholesky {
    fn len(p: usize) -> usize {
        p * p
    }

    #[inline(always)]
    fn write<S: Simd>(
        simd: S,
        p: usize,
        factor: &Factor<'_, S::f64s>,
        _: &[S::f64s],
        out: &mut [S::f64s],
    ) {
        for j in 0..p {
            let root = simd.sqrt_f64s(factor.pivots[j]);
            out[j * p..j * p + j].fill(simd.splat_f64s(0.0));
            out[j * p + j] = root;
            for i in j + 1..p {
                let entry = factor.lower[triangle(i) + j];
                out[j * p + i] = minus(simd, simd.mul_f64s(entry, root));
            }
        }
    }
}

/// `C^-1`, where `C C^T = A` with `C` lower triangular: square, row by row, with its zeros.
pub(crate) struct InverseCholesky;

impl Keep for InverseCholesky {
    const INVERSE: bool = true;

    fn len(p: usize) -> usize {
        p * p
    }

    #[inline(always)]
    fn write<S: Simd>(
        simd: S,
        p: usize,
        factor: &Factor<'_, S::f64s>,
        inverse: &[S::f64s],
        out: &mut [S::f64s],
    ) {
        out.fill(simd.splat_f64s(0.0));
        for i in 0..p {
            let root = simd.sqrt_f64s(minus(simd, factor.inverses[i]));
            let from = &inverse[triangle(i)..=triangle(i) + i];
            for (to, &value) in out[i * p..].iter_mut().zip(from) {
                *to = simd.mul_f64s(value, root);
            }
        }
    }
}

/// Writes the rows of `L^-1` with their diagonal of ones, packed.
#[inline(always)]
fn invert<S: Simd>(simd: S, p: usize, factor: &Factor<'_, S::f64s>, out: &mut [S::f64s]) {
    // Row i is e_i plus the rows before it, weighted by row i of -L.
    for i in 0..p {
        let (before, current) = out.split_at_mut(triangle(i));
        let current = &mut current[..=i];
        current.fill(simd.splat_f64s(0.0));
        current[i] = simd.splat_f64s(1.0);
        for (k, &weight) in row(factor.lower, i).iter().enumerate() {
            let from = &before[triangle(k)..=triangle(k) + k];
            for (to, &value) in current.iter_mut().zip(from) {
                *to = simd.mul_add_e_f64s(weight, value, *to);
            }
        }
    }
}

/// Factorises every matrix of a stack, whose interleaved halves are given, and keeps what `K`
/// asks for.
pub(crate) fn keep_factors<K: Keep>(
    exec: &Executor,
    name: &'static str,
    stack: &SymmetricStack,
    halves: &Groups,
) -> Result<Groups> {
    let (p, precision) = (stack.p(), stack.precision());
    let mut out = Groups::zeros(halves.n(), K::len(p))?;
    let keep_group = |group: usize, scratch: &mut [f64], kept: &mut [f64]| {
        let first = group * halves.lanes();
        let halves = halves.group(group);
        let keep = std::marker::PhantomData;
        let outcome = dispatch(Group::<K> { p, precision, halves, scratch, kept, keep });
        outcome.map_err(|bad| {
            let matrix = first + bad.lane;
            if bad.is_zero {
                let rank = rank(p, precision, stack.half(matrix)).min(p - 1);
                Error::Singular { name, matrix, rank, size: p }
            } else {
                Error::NotPositiveDefinite { name, matrix, pivot: bad.pivot, value: bad.value }
            }
        })
    };
    let scratch = || AlignedVec::zeros(Group::<K>::scratch_len(p) * halves.lanes());
    let len = out.group_len();
    let parts = exec.for_chunks(out.all_mut(), GROUPS * len, |block, part| {
        let mut scratch = scratch()?;
        for (k, kept) in part.chunks_exact_mut(len.max(1)).enumerate() {
            exec.check()?;
            keep_group(block * GROUPS + k, &mut scratch, kept)?;
        }
        Ok(())
    });
    match parts {
        Ok(()) => Ok(out),
        Err(Error::Interrupted) => Err(Error::Interrupted),
        Err(error) => {
            // Of several the first is named.
            exec.map_blocks(halves.n_groups(), |group| {
                keep_group(group, &mut scratch()?, &mut AlignedVec::zeros(len)?)
            })?;
            Err(error)
        }
    }
}

/// The number of pivots above rounding, the largest first, of a matrix whose half is given.
fn rank(p: usize, precision: f64, half: &[f64]) -> usize {
    let scales: Vec<f64> = (0..p).map(|i| half[triangle(i) + i].sqrt()).collect();
    let correlation = |i: usize, j: usize| {
        let value = half[triangle(i.max(j)) + i.min(j)] / (scales[i] * scales[j]);
        if value.is_finite() { value } else { 0.0 }
    };
    let mut rest: Vec<usize> = (0..p).collect();
    let mut pivots: Vec<f64> = (0..p).map(|i| correlation(i, i)).collect(); // 1, or 0
    let mut columns: Vec<Vec<f64>> = Vec::new();
    while let Some(index) =
        (0..rest.len()).max_by(|&a, &b| pivots[rest[a]].total_cmp(&pivots[rest[b]]))
    {
        let chosen = rest.swap_remove(index);
        if pivots[chosen] <= p as f64 * precision {
            break;
        }
        let root = pivots[chosen].sqrt();
        let mut column = vec![0.0; p];
        for &i in &rest {
            let done: f64 = columns.iter().map(|c| c[i] * c[chosen]).sum();
            column[i] = (correlation(i, chosen) - done) / root;
            pivots[i] -= column[i] * column[i];
        }
        column[chosen] = root;
        columns.push(column);
    }
    columns.len()
}

/// A matrix without a factorisation.
struct Bad {
    lane: usize,
    pivot: usize,
    value: f64,
    /// Whether the pivot is zero but for rounding.
    is_zero: bool,
}

struct Group<'a, K> {
    p: usize,
    /// The relative error of an entry.
    precision: f64,
    halves: &'a [f64],
    scratch: &'a mut [f64],
    kept: &'a mut [f64],
    keep: std::marker::PhantomData<K>,
}

impl<K: Keep> Group<'_, K> {
    /// Vectors of scratch.
    const fn scratch_len(p: usize) -> usize {
        Factor::<f64>::len(p) + triangle(p) + p
    }
}

impl<K: Keep> WithSimd for Group<'_, K> {
    /// The first pivot that is not positive, where a matrix is not positive definite.
    type Output = std::result::Result<(), Bad>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { p, precision, halves, scratch, kept, .. } = self;
        let (factor, rest) = vectors_mut::<S>(scratch).split_at_mut(Factor::<S::f64s>::len(p));
        let (inverse, bounds) = rest.split_at_mut(triangle(p));
        let mut factor = Factor::new(p, factor);
        let entries = halves;
        let halves = Interleaved(vectors::<S>(halves));
        factorize(simd, p, halves, halves, &mut factor);
        let is_certain = is_certain(simd, p, precision, halves, &factor, bounds);
        if K::INVERSE || !is_certain {
            invert(simd, p, &factor, inverse);
        }
        let lanes = S::F64_LANES;
        let pivots: &[f64] = pulp::bytemuck::cast_slice(factor.pivots);
        let rows: &[f64] = pulp::bytemuck::cast_slice(inverse);
        for lane in 0..if is_certain { 0 } else { lanes } {
            for pivot in 0..p {
                let value = pivots[pivot * lanes + lane];
                let scale: f64 = (0..=pivot)
                    .map(|k| {
                        let v = rows[(triangle(pivot) + k) * lanes + lane];
                        v * v * 2.0 * entries[(triangle(k) + k) * lanes + lane]
                    })
                    .sum();
                let zero = p as f64 * precision * scale;
                let is_normal = (f64::MIN_POSITIVE..f64::INFINITY).contains(&value);
                if !(is_normal && value > zero) {
                    return Err(Bad { lane, pivot, value, is_zero: value.abs() <= zero });
                }
            }
        }
        K::write(simd, p, &factor, inverse, vectors_mut::<S>(kept));
        Ok(())
    }
}

/// Whether all pivots are so large that they are above rounding whatever the rows of `L^-1`.
///
/// Entries of a row are at most those of the inverse of the matrix with `|L|` below its diagonal
/// and its signs turned. This takes a substitution; the row itself would take a product.
#[inline(always)]
fn is_certain<S: Simd>(
    simd: S,
    p: usize,
    precision: f64,
    halves: Interleaved<'_, S::f64s>,
    factor: &Factor<'_, S::f64s>,
    bounds: &mut [S::f64s],
) -> bool {
    let zero = simd.splat_f64s(0.0);
    // Twice what is allowed, for the rounding of the bounds themselves.
    let share = simd.splat_f64s(2.0 * p as f64 * precision);
    let (one, infinity) = (simd.splat_f64s(1.0), simd.splat_f64s(f64::INFINITY));
    let tiny = simd.splat_f64s(f64::MIN_POSITIVE);
    let mut certain = one;
    for i in 0..p {
        let entry = halves.0[triangle(i) + i];
        let mut sums = [zero; 4];
        sums[0] = simd.sqrt_f64s(simd.add_f64s(entry, entry));
        let (weights, weights_rest) = row(factor.lower, i).as_chunks::<4>();
        let (before, before_rest) = bounds[..i].as_chunks::<4>();
        for (weights, before) in weights.iter().zip(before) {
            for k in 0..4 {
                sums[k] = simd.mul_add_e_f64s(simd.abs_f64s(weights[k]), before[k], sums[k]);
            }
        }
        for (&weight, &before) in weights_rest.iter().zip(before_rest) {
            sums[0] = simd.mul_add_e_f64s(simd.abs_f64s(weight), before, sums[0]);
        }
        let sum = simd.add_f64s(simd.add_f64s(sums[0], sums[1]), simd.add_f64s(sums[2], sums[3]));
        bounds[i] = sum;
        let bound = simd.max_f64s(simd.mul_f64s(simd.mul_f64s(share, sum), sum), tiny);
        // Comparisons, of which those with NaN are false.
        let pivot = factor.pivots[i];
        certain = simd.select_f64s(simd.less_than_f64s(bound, pivot), certain, zero);
        let size = simd.add_f64s(sum, pivot);
        certain = simd.select_f64s(simd.less_than_f64s(size, infinity), certain, zero);
    }
    let certain: &[f64] = pulp::bytemuck::cast_slice(core::slice::from_ref(&certain));
    certain.iter().all(|&value| value > 0.0)
}
