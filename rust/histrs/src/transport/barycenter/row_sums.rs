//! Logarithms of sums of exponentials, row by row of the exponents.

use pulp::Simd;

use crate::simd::{Elementary, Vectors, vectorized};

/// Numbers whose exponentials are taken together, or left out together.
const PIECE: usize = 64;
/// Exponentials of less are left out: of as many as a row can have, they are below rounding.
const NEGLIGIBLE: f64 = -46.0;
/// Sums between these were measured from near enough.
const RANGE: (f64, f64) = (0.02, 1e200);

vectorized!(
    /// `out[i, k] = log sum_j exp(values[k, j] - matrix[i, j])`, rows of `out` being `stride` apart.
    ///
    /// The previous contents of `out` are taken for nearly the result, as from one iteration to the
    /// next. Exponentials are measured from there, in one pass and without those that do not count.
    /// Where that was wrong, a second pass measures from the largest.
    pub(super) fn log_sums_of_rows<S: Simd>(
        simd: S,
        matrix: &[f64],
        values: &[f64],
        n_columns: usize,
        out: &mut [f64],
        stride: usize,
    ) {
        let rows = matrix.chunks_exact(n_columns.max(1));
        for (out, row) in out.chunks_exact_mut(stride).zip(rows) {
            for (out, values) in out.iter_mut().zip(values.chunks_exact(n_columns.max(1))) {
                let mut origin = *out;
                let mut sum = sum_from(simd, row, values, origin);
                if !(sum >= RANGE.0 && sum <= RANGE.1) {
                    origin = largest(row, values);
                    sum = sum_from(simd, row, values, origin);
                }
                *out = origin + sum.ln_of_normal();
            }
        }
    }
);

/// `sum_j exp(values_j - row_j - origin)`.
#[inline(always)]
fn sum_from<S: Simd>(simd: S, row: &[f64], values: &[f64], origin: f64) -> f64 {
    let mut sum = simd.splat_f64s(0.0);
    for (row, values) in row.chunks(PIECE).zip(values.chunks(PIECE)) {
        let mut piece = [f64::NEG_INFINITY; PIECE];
        for ((x, &value), &exponent) in piece.iter_mut().zip(values).zip(row) {
            *x = value - exponent - origin;
        }
        let (vectors, _) = f64::vectors::<S>(&piece);
        let most = vectors.iter().fold(simd.splat_f64s(NEGLIGIBLE), |a, &b| simd.max_f64s(b, a));
        // Not a number where the origin is not.
        if f64::elements::<S>(&[most]).iter().all(|&x| x <= NEGLIGIBLE) {
            continue;
        }
        for x in &mut piece {
            *x = x.exp_in_range();
        }
        let (vectors, _) = f64::vectors::<S>(&piece);
        for &x in vectors {
            sum = simd.add_f64s(sum, x);
        }
    }
    simd.reduce_sum_f64s(sum)
}

#[inline(always)]
fn largest(row: &[f64], values: &[f64]) -> f64 {
    let terms = row.iter().zip(values).map(|(exponent, value)| value - exponent);
    terms.fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(row: &[f64], values: &[f64]) -> f64 {
        let origin = largest(row, values);
        let terms = row.iter().zip(values).map(|(m, v)| (v - m - origin).exp());
        origin + terms.sum::<f64>().ln()
    }

    #[test]
    fn sums_are_their_definition_whatever_was_there_before() {
        for n in [1, 7, 8, 63, 64, 65, 200] {
            let (n_rows, n_lanes, stride) = (3, 5, 8);
            let number = |i: usize| ((i * 7919) % 1000) as f64;
            let matrix: Vec<f64> = (0..n_rows * n).map(|i| number(i + 3)).collect();
            let values: Vec<f64> = (0..n_lanes * n).map(|i| 3.0 * number(2 * i) - 500.0).collect();
            for before in [0.0, f64::NAN, -1e300, 700.0, 2500.0] {
                let mut out = vec![before; n_rows * stride];
                for _ in 0..2 {
                    log_sums_of_rows(&matrix, &values, n, &mut out, stride);
                    for i in 0..n_rows {
                        for k in 0..n_lanes {
                            let exact = definition(&matrix[i * n..][..n], &values[k * n..][..n]);
                            let found = out[i * stride + k];
                            assert!((found - exact).abs() <= 1e-12 * exact.abs().max(1.0));
                        }
                    }
                }
            }
        }
    }
}
