//! Symmetric matrices by their eigenvalues, and products of small ones.

use crate::error::{Error, Result};
use crate::simd::{AlignedVec, vectorized};
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
    multiply(p, a, b, &mut out);
    out
}

vectorized!(
    fn multiply(p: usize, a: &[f64], b: &[f64], out: &mut [f64]) {
        for (row, out) in a.chunks_exact(p).zip(out.chunks_exact_mut(p)) {
            for (&value, other) in row.iter().zip(b.chunks_exact(p)) {
                for (out, &other) in out.iter_mut().zip(other) {
                    *out += value * other;
                }
            }
        }
    }
);

/// Norm up to which the series of the exponential is summed.
const SMALL: f64 = 0.25;
/// Halvings that no step is long enough for.
const MOST_SQUARES: usize = 64;
/// Its terms of matrices of that norm: the next is below rounding.
const TERMS: usize = 12;

/// `exp(t S)` of a symmetric matrix, by its series and squares.
///
/// Steps of a descent are short: the eigenvalues of `S` would cost more.
pub(super) fn exponential(p: usize, matrix: &[f64], t: f64) -> Vec<f64> {
    let norm = t.abs() * matrix.iter().map(|s| s * s).sum::<f64>().sqrt();
    let mut n_squares = 0;
    let mut scale = t;
    while norm * (scale / t) > SMALL && n_squares < MOST_SQUARES {
        scale *= 0.5;
        n_squares += 1;
    }
    let step: Vec<f64> = matrix.iter().map(|s| scale * s).collect();
    let size = norm * if t == 0.0 { 0.0 } else { scale / t };
    let mut out: Vec<f64> =
        step.iter().enumerate().map(|(k, s)| s + if k / p == k % p { 1.0 } else { 0.0 }).collect();
    let (mut term, mut bound) = (step.clone(), size);
    for k in 2..=TERMS {
        bound *= size / k as f64;
        if bound < 0.1 * f64::EPSILON {
            break;
        }
        term = product(p, &term, &step);
        for (out, term) in out.iter_mut().zip(&mut term) {
            *term /= k as f64;
            *out += *term;
        }
    }
    for _ in 0..n_squares {
        out = product(p, &out, &out);
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
        decompose(p, matrix)
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

vectorized!(
    /// Rows of a positive definite matrix are made orthogonal: its eigenvectors times its
    /// eigenvalues, which are known to a rounding of the largest.
    fn decompose<S: Simd>(simd: S, p: usize, matrix: &[f64]) -> Result<Direction> {
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
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_exponentials_agree() {
        for p in [1_usize, 2, 3, 8, 17] {
            for unit in [1e-6, 1.0, 40.0] {
                let entry = |i: usize, j: usize| ((i * j + i + j) % 7) as f64 / 7.0 - 0.4;
                let matrix: Vec<f64> = (0..p * p).map(|k| unit * entry(k / p, k % p)).collect();
                let direction = Direction::new(p, &matrix).unwrap();
                for t in [0.0, 1e-9, 1e-3, -0.1, 0.5 / unit, -2.0 / unit, 5.0 / unit] {
                    let want = direction.exponential(t);
                    let got = exponential(p, &matrix, t);
                    let largest = want.iter().fold(0.0_f64, |a, b| a.max(b.abs()));
                    for (got, want) in got.iter().zip(&want) {
                        assert!((got - want).abs() < 1e-12 * largest, "{p} {t}: {got} {want}");
                    }
                }
            }
        }
    }
}
