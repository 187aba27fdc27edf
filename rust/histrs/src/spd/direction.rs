//! Symmetric matrices by their eigenvalues, and products of small ones.

use pulp::{Simd, WithSimd};

use crate::error::{Error, Result};
use crate::simd::{AlignedVec, dispatch};
use crate::spd::jacobi::orthogonalize;
use crate::spd::lanes::vectors_mut;

/// `V S V^T`.
pub(super) fn rotated(p: usize, vectors: &[f64], matrix: &[f64]) -> Vec<f64> {
    let transposed: Vec<f64> = (0..p * p).map(|k| vectors[(k % p) * p + k / p]).collect();
    product(p, &product(p, vectors, matrix), &transposed)
}

/// `A B` of square matrices.
pub(super) fn product(p: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
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

/// A symmetric matrix by its eigenvalues.
pub(super) struct Direction {
    pub(super) p: usize,
    pub(super) values: Vec<f64>,
    /// Eigenvectors, a row each.
    pub(super) vectors: Vec<f64>,
}

impl Direction {
    pub(super) fn new(p: usize, matrix: &[f64]) -> Result<Self> {
        dispatch(Decompose { p, matrix })
    }

    /// `exp(t S)`.
    pub(super) fn exponential(&self, t: f64) -> Vec<f64> {
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
