//! What is kept of the factorisation of each matrix of a stack.

use pulp::{Simd, WithSimd};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::simd::{AlignedVec, dispatch};
use crate::spd::lanes::{Groups, Interleaved, vectors, vectors_mut};
use crate::spd::ldl::{Factor, factorize, row};
use crate::spd::logarithm::ln_product;
use crate::spd::stack::triangle;

/// What to keep of `A = L D L^T`.
pub(crate) trait Keep: Sync {
    /// Numbers kept of a matrix of `p` rows.
    fn len(p: usize) -> usize;
    /// Writes them, a vector each.
    fn write<S: Simd>(simd: S, p: usize, factor: &Factor<'_, S::f64s>, out: &mut [S::f64s]);
}

/// The log-determinant.
pub(crate) struct LogDeterminant;

impl Keep for LogDeterminant {
    fn len(_: usize) -> usize {
        1
    }

    #[inline(always)]
    fn write<S: Simd>(_: S, _: usize, factor: &Factor<'_, S::f64s>, out: &mut [S::f64s]) {
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
    fn write<S: Simd>(simd: S, p: usize, factor: &Factor<'_, S::f64s>, out: &mut [S::f64s]) {
        for j in 0..p {
            let root = simd.sqrt_f64s(factor.pivots[j]);
            out[j * p..j * p + j].fill(simd.splat_f64s(0.0));
            out[j * p + j] = root;
            for i in j + 1..p {
                let minus = factor.lower[triangle(i) + j];
                out[j * p + i] = simd.neg_f64s(simd.mul_f64s(minus, root));
            }
        }
    }
}

/// `C^-1`, where `C C^T = A` with `C` lower triangular: square, row by row, with its zeros.
pub(crate) struct InverseCholesky;

impl Keep for InverseCholesky {
    fn len(p: usize) -> usize {
        p * p
    }

    #[inline(always)]
    fn write<S: Simd>(simd: S, p: usize, factor: &Factor<'_, S::f64s>, out: &mut [S::f64s]) {
        // Row i of L^-1 is e_i plus the rows before it, weighted by row i of -L.
        for i in 0..p {
            let (before, current) = out.split_at_mut(i * p);
            let current = &mut current[..p];
            current.fill(simd.splat_f64s(0.0));
            current[i] = simd.splat_f64s(1.0);
            for (k, &weight) in row(factor.lower, i).iter().enumerate() {
                for j in 0..=k {
                    current[j] = simd.mul_add_e_f64s(weight, before[k * p + j], current[j]);
                }
            }
        }
        for i in 0..p {
            let root = simd.sqrt_f64s(simd.neg_f64s(factor.inverses[i]));
            for value in &mut out[i * p..=i * p + i] {
                *value = simd.mul_f64s(*value, root);
            }
        }
    }
}

/// Factorises every matrix of interleaved halves and keeps what `K` asks for.
pub(crate) fn keep_factors<K: Keep>(
    exec: &Executor,
    name: &'static str,
    p: usize,
    halves: &Groups,
) -> Result<Groups> {
    let mut out = Groups::zeros(halves.n(), K::len(p))?;
    let len = out.group_len();
    let parts = exec.map_blocks(halves.n_groups(), |group| {
        let mut kept = AlignedVec::zeros(len)?;
        let first = group * halves.lanes();
        let halves = halves.group(group);
        dispatch(Group::<K> { p, halves, kept: &mut kept, keep: std::marker::PhantomData })
            .and_then(|bad| match bad {
                None => Ok(kept),
                Some((lane, pivot, value)) => {
                    let matrix = first + lane;
                    Err(Error::NotPositiveDefinite { name, matrix, pivot, value })
                }
            })
    })?;
    for (group, part) in parts.iter().enumerate() {
        out.group_mut(group).copy_from_slice(part);
    }
    Ok(out)
}

struct Group<'a, K> {
    p: usize,
    halves: &'a [f64],
    kept: &'a mut [f64],
    keep: std::marker::PhantomData<K>,
}

impl<K: Keep> WithSimd for Group<'_, K> {
    /// The lane, the pivot and its value, where a matrix is not positive definite.
    type Output = Result<Option<(usize, usize, f64)>>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let Self { p, halves, kept, .. } = self;
        let mut scratch = AlignedVec::zeros(Factor::<S::f64s>::len(p) * S::F64_LANES)?;
        let mut factor = Factor::new(p, vectors_mut::<S>(&mut scratch));
        let halves = Interleaved(vectors::<S>(halves));
        factorize(simd, p, halves, halves, &mut factor);
        let pivots: &[f64] = pulp::bytemuck::cast_slice(factor.pivots);
        for lane in 0..S::F64_LANES {
            for (pivot, values) in pivots.chunks_exact(S::F64_LANES).enumerate() {
                if !(values[lane] >= f64::MIN_POSITIVE && values[lane] < f64::INFINITY) {
                    return Ok(Some((lane, pivot, values[lane])));
                }
            }
        }
        K::write(simd, p, &factor, vectors_mut::<S>(kept));
        Ok(None)
    }
}
