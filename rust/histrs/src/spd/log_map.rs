//! Logarithms of matrices `K K^T`, in all lanes: a reduction to tridiagonal form, the logarithm of
//! that as a sum of inverses, and the way back.
//!
//! Unlike the rotations of `jacobi` this takes the same operations for every matrix, a fifth as
//! many. The error of the logarithm of the smallest eigenvalue is the rounding of the largest over
//! it. So lanes of a large condition are left to rotations.

use pulp::Simd;

use crate::simd::{Elementary, outlined};
use crate::small_matrix::triangle;
use crate::spd::lanes::{LaneValues, TILE, in_tiles, vectors_mut};
use crate::spd::rational::{self, Bounds, bounds, logarithm};
use crate::spd::tridiagonal::{Tridiagonal, back, scratch_len, tridiagonalize};

/// Where the logarithms of a group of matrices are computed.
pub(crate) struct Scratch<'a, V> {
    p: usize,
    buffer: &'a mut [V],
}

struct Parts<'a, V> {
    /// The matrices; then what reflected them.
    matrix: &'a mut [V],
    tridiagonal: Tridiagonal<'a, V>,
    rest: &'a mut [V],
    terms: rational::Scratch<'a, V>,
}

impl<'a, V> Scratch<'a, V> {
    /// Vectors that it takes.
    pub(crate) const fn len(p: usize) -> usize {
        triangle(p) + Tridiagonal::<V>::len(p) + scratch_len(p) + rational::Scratch::<V>::len(p)
    }

    /// Of a buffer of [`Self::len`] vectors.
    #[inline(always)]
    pub(crate) fn new(p: usize, buffer: &'a mut [V]) -> Self {
        Self { p, buffer }
    }

    /// The matrices; then what reflected them.
    #[inline(always)]
    pub(crate) fn matrix(&mut self) -> &mut [V] {
        &mut self.buffer[..triangle(self.p)]
    }

    /// The reduced matrices.
    #[inline(always)]
    pub(crate) fn tridiagonal(&mut self) -> Tridiagonal<'_, V> {
        self.parts().tridiagonal
    }

    #[inline(always)]
    fn parts(&mut self) -> Parts<'_, V> {
        let p = self.p;
        let (matrix, rest) = self.buffer.split_at_mut(triangle(p));
        let (tridiagonal, rest) = rest.split_at_mut(Tridiagonal::<V>::len(p));
        let (rest, terms) = rest.split_at_mut(scratch_len(p));
        let tridiagonal = Tridiagonal::new(p, tridiagonal);
        Parts { matrix, tridiagonal, rest, terms: rational::Scratch::new(p, terms) }
    }
}

/// Reduces the matrices, and bounds their eigenvalues.
#[inline(always)]
pub(crate) fn reduce<S: Simd>(simd: S, scratch: &mut Scratch<'_, S::f64s>) -> Bounds {
    let (p, buffer) = (scratch.p, pulp::bytemuck::cast_slice_mut(scratch.buffer));
    reduce_in(simd, p, buffer)
}

outlined!(
    fn reduce_in<S: Simd>(simd: S, p: usize, buffer: &mut [f64]) -> Bounds {
        let mut scratch = Scratch::new(p, vectors_mut::<S>(buffer));
        let Parts { matrix, mut tridiagonal, rest, .. } = scratch.parts();
        tridiagonalize(simd, p, matrix, &mut tridiagonal, rest);
        bounds(simd, tridiagonal.diagonal, tridiagonal.off)
    }
);

/// Writes the logarithms of the reduced matrices times `exp(log_scale)`, packed, in the basis in which
/// they are tridiagonal.
#[inline(always)]
pub(crate) fn reduced_logarithm<S: Simd>(
    simd: S,
    bounds: &Bounds,
    log_scale: &LaneValues,
    scratch: &mut Scratch<'_, S::f64s>,
    out: &mut [S::f64s],
) {
    let (p, buffer) = (scratch.p, pulp::bytemuck::cast_slice_mut(scratch.buffer));
    let out = pulp::bytemuck::cast_slice_mut(out);
    logarithm_in(simd, p, bounds, log_scale, buffer, out);
}

outlined!(
    fn logarithm_in<S: Simd>(
        simd: S,
        p: usize,
        bounds: &Bounds,
        log_scale: &LaneValues,
        buffer: &mut [f64],
        out: &mut [f64],
    ) {
        let mut scratch = Scratch::new(p, vectors_mut::<S>(buffer));
        let Parts { tridiagonal, mut terms, .. } = scratch.parts();
        let (diagonal, off, out) = (tridiagonal.diagonal, tridiagonal.off, vectors_mut::<S>(out));
        logarithm(simd, diagonal, off, bounds, log_scale, &mut terms, out);
    }
);

/// Turns a function of the reduced matrices into that of the matrices.
#[inline(always)]
pub(crate) fn restore<S: Simd>(simd: S, scratch: &mut Scratch<'_, S::f64s>, out: &mut [S::f64s]) {
    let (p, buffer) = (scratch.p, pulp::bytemuck::cast_slice_mut(scratch.buffer));
    restore_in(simd, p, buffer, pulp::bytemuck::cast_slice_mut(out));
}

outlined!(
    fn restore_in<S: Simd>(simd: S, p: usize, buffer: &mut [f64], out: &mut [f64]) {
        let mut scratch = Scratch::new(p, vectors_mut::<S>(buffer));
        let Parts { matrix, tridiagonal, rest, .. } = scratch.parts();
        back(simd, p, matrix, tridiagonal.inverses, vectors_mut::<S>(out), rest);
    }
);

/// The sum of the squares of the entries of packed symmetric matrices.
#[inline(always)]
pub(crate) fn squared_norm<S: Simd>(simd: S, p: usize, packed: &[S::f64s]) -> S::f64s {
    let zero = simd.splat_f64s(0.0);
    let mut sums = [zero; 4];
    let mut diagonal = zero;
    for i in 0..p {
        let row = &packed[triangle(i)..=triangle(i) + i];
        let (chunks, rest) = row[..i].as_chunks::<4>();
        for chunk in chunks {
            for k in 0..4 {
                sums[k] = simd.mul_add_e_f64s(chunk[k], chunk[k], sums[k]);
            }
        }
        for (k, &value) in rest.iter().enumerate() {
            sums[k] = simd.mul_add_e_f64s(value, value, sums[k]);
        }
        diagonal = simd.mul_add_e_f64s(row[i], row[i], diagonal);
    }
    let beside = simd.add_f64s(simd.add_f64s(sums[0], sums[1]), simd.add_f64s(sums[2], sums[3]));
    simd.add_f64s(simd.add_f64s(beside, beside), diagonal)
}

/// Scales packed matrices to the trace `p`; returns the logarithm of what they were divided by.
#[inline(always)]
pub(crate) fn scale<S: Simd>(simd: S, p: usize, packed: &mut [S::f64s]) -> LaneValues {
    let mut trace = simd.splat_f64s(0.0);
    for i in 0..p {
        trace = simd.add_f64s(trace, packed[triangle(i) + i]);
    }
    let mean = simd.mul_f64s(trace, simd.splat_f64s(1.0 / p as f64));
    divide_by(simd, mean, packed);
    logarithms::<S>(mean)
}

/// Divides all entries by a number for each lane.
#[inline(always)]
pub(crate) fn divide_by<S: Simd>(simd: S, divisor: S::f64s, entries: &mut [S::f64s]) {
    let inverse = simd.div_f64s(simd.splat_f64s(1.0), divisor);
    for value in entries {
        *value = simd.mul_f64s(*value, inverse);
    }
}

/// The logarithm of a positive number for each lane; NaN outside the range of normal numbers, where
/// nothing can be said.
#[inline(always)]
pub(crate) fn logarithms<S: Simd>(values: S::f64s) -> LaneValues {
    let mut logarithms = LaneValues::default();
    let values: &[f64] = pulp::bytemuck::cast_slice(core::slice::from_ref(&values));
    for (logarithm, &value) in logarithms.iter_mut().zip(values) {
        let normal = (f64::MIN_POSITIVE..f64::INFINITY).contains(&value);
        *logarithm = if normal { value.ln_of_normal() } else { f64::NAN };
    }
    logarithms
}

/// The lower triangle of `sum_k a_k b_k^T` of the rows of two matrices, packed.
#[inline(always)]
pub(crate) fn add_outer<S: Simd>(
    simd: S,
    p: usize,
    a: &[S::f64s],
    b: &[S::f64s],
    out: &mut [S::f64s],
) {
    in_tiles!(i in 0, p, R => outer_rows::<S, R>(simd, p, i, a, b, out));
}

#[inline(always)]
fn outer_rows<S: Simd, const R: usize>(
    simd: S,
    p: usize,
    i: usize,
    a: &[S::f64s],
    b: &[S::f64s],
    out: &mut [S::f64s],
) {
    for j in (0..i).step_by(TILE) {
        outer_tile::<S, R, TILE>(simd, p, (i, j), a, b, out);
    }
    outer_tile::<S, R, R>(simd, p, (i, i), a, b, out);
}

#[inline(always)]
fn outer_tile<S: Simd, const R: usize, const C: usize>(
    simd: S,
    p: usize,
    (i, j): (usize, usize),
    a: &[S::f64s],
    b: &[S::f64s],
    out: &mut [S::f64s],
) {
    let mut sums = [[simd.splat_f64s(0.0); C]; R];
    for (a, b) in a.chunks_exact(p).zip(b.chunks_exact(p)) {
        let (left, right) = (&a[i..i + R], &b[j..j + C]);
        for r in 0..R {
            for c in 0..C {
                sums[r][c] = simd.mul_add_e_f64s(left[r], right[c], sums[r][c]);
            }
        }
    }
    for r in 0..R {
        for c in 0..C {
            if j + c <= i + r {
                out[triangle(i + r) + j + c] = sums[r][c];
            }
        }
    }
}
