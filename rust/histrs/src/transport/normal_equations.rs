//! The small systems of Anderson's acceleration, solved for sixteen lanes side by side.

use crate::simd::Elementary;

/// Steps remembered, and unknowns of a system.
pub(super) const DEPTH: usize = 5;
/// Lanes that share a small system of equations, solved side by side.
pub(super) const GROUP: usize = 16;
/// What the diagonal of the normal equations is raised by, in units of the rounding of the type and
/// at least: steps that are alike then share their coefficients.
const RIDGE_EPSILONS: f64 = 4.0;
const SMALLEST_RIDGE: f64 = 1e-12;
/// A pivot that is a smaller part of its diagonal than this is all rounding.
const NEGLIGIBLE_PIVOT: f64 = 1e-14;

/// Solves the normal equations of sixteen lanes by Cholesky's factorisation, in place of the
/// right-hand sides. A step that was not taken, or that repeats others, gets the coefficient 0.
pub(super) fn solve<T: Elementary>(gram: &[f64], right: &mut [T], stride: usize, lane: usize) {
    let ridge = 1.0 + (RIDGE_EPSILONS * T::EPSILON).max(SMALLEST_RIDGE);
    let at = |k: usize| k * stride + lane..k * stride + lane + GROUP;
    let mut factor = [[[0.0_f64; GROUP]; DEPTH]; DEPTH];
    let mut x = [[0.0_f64; GROUP]; DEPTH];
    for j in 0..DEPTH {
        for (x, value) in x[j].iter_mut().zip(&right[at(j)]) {
            *x = value.to_f64();
        }
        for i in j..DEPTH {
            let mut sum = [0.0; GROUP];
            sum.copy_from_slice(&gram[at(i * DEPTH + j)]);
            if i == j {
                sum.iter_mut().for_each(|s| *s = if *s > 0.0 { *s * ridge } else { 1.0 });
            }
            for (left, above) in factor[i].into_iter().zip(factor[j]).take(j) {
                for ((s, a), b) in sum.iter_mut().zip(left).zip(above) {
                    *s -= a * b;
                }
            }
            let pivot = factor[j][j];
            for l in 0..GROUP {
                let diagonal = gram[(j * DEPTH + j) * stride + lane + l];
                factor[i][j][l] = if i > j {
                    sum[l] * pivot[l]
                } else if sum[l] > NEGLIGIBLE_PIVOT * diagonal {
                    // The reciprocal is what is used.
                    1.0 / sum[l].sqrt()
                } else {
                    0.0
                };
            }
        }
    }
    for j in 0..DEPTH {
        for k in 0..j {
            for l in 0..GROUP {
                x[j][l] -= factor[j][k][l] * x[k][l];
            }
        }
        for l in 0..GROUP {
            x[j][l] *= factor[j][j][l];
        }
    }
    for j in (0..DEPTH).rev() {
        for k in j + 1..DEPTH {
            for l in 0..GROUP {
                x[j][l] -= factor[k][j][l] * x[k][l];
            }
        }
        for l in 0..GROUP {
            x[j][l] *= factor[j][j][l];
        }
    }
    for j in 0..DEPTH {
        for (value, &x) in right[at(j)].iter_mut().zip(&x[j]) {
            *value = T::from_f64(x);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_side_by_side_are_solved_as_one_by_one() {
        // Of each lane another positive definite matrix, and one whose last steps were not taken.
        let entry = |i: usize, j: usize, lane: usize| {
            let scale = 1.0 + lane as f64;
            if i == j { scale * (2.0 + i as f64) } else { scale * 0.3 / (1.0 + (i + j) as f64) }
        };
        let taken = |k: usize, lane: usize| k < if lane == 5 { 3 } else { DEPTH };
        // Steps grow shorter: of some lanes by so much that their inner products differ by 1e80.
        let length =
            |k: usize, lane: usize| 10.0_f64.powi(if lane % 2 == 1 { -10 } else { 0 } * k as i32);
        let expected = |k: usize, lane: usize| {
            if taken(k, lane) { 1.0 + k as f64 - 0.1 * lane as f64 } else { 0.0 }
        };
        let mut gram = vec![0.0; DEPTH * DEPTH * GROUP];
        let mut right = vec![0.0; DEPTH * GROUP];
        for lane in 0..GROUP {
            for i in (0..DEPTH).filter(|&i| taken(i, lane)) {
                for j in (0..DEPTH).filter(|&j| taken(j, lane)) {
                    let product = length(i, lane) * entry(i, j, lane);
                    gram[(i * DEPTH + j) * GROUP + lane] = product * length(j, lane);
                    right[i * GROUP + lane] += product * expected(j, lane);
                }
            }
        }
        solve::<f64>(&gram, &mut right, GROUP, 0);
        for lane in 0..GROUP {
            for k in 0..DEPTH {
                let found = right[k * GROUP + lane] * length(k, lane);
                assert!((found - expected(k, lane)).abs() < 1e-9, "{k} of lane {lane}: {found}");
            }
        }
    }
}
