//! Small dense matrices, one at a time: Cholesky's factorisation and the systems that it solves.
//!
//! Lower triangles are packed row by row. In which order products are added up is the caller's choice:
//! rows of a few entries in theirs, long ones in sums that a vector holds.
//!
//! Many small matrices are factorised with a matrix per lane, in loops over lanes that this layout
//! does not have. `spd/ldl` is for `L D L^T` of interleaved matrices, with four columns of a tile
//! in registers. `transport/normal_equations` is for sixteen systems of five unknowns, where a
//! pivot of rounding is no failure but a coefficient of 0.

use crate::error::Result;
use crate::exec::Executor;

/// Number of entries of a triangle of `p` rows, and index of row `p` in one that is packed.
#[inline(always)]
pub(crate) const fn triangle(p: usize) -> usize {
    p * (p + 1) / 2
}

/// Row `i` of a packed lower triangle.
fn row(packed: &[f64], i: usize) -> &[f64] {
    &packed[triangle(i)..=triangle(i) + i]
}

/// The dot product of rows of a few entries, in their order.
pub(crate) fn short_dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The dot product of rows of many entries, in eight sums that a vector holds.
pub(crate) fn long_dot(a: &[f64], b: &[f64]) -> f64 {
    let n = a.len().min(b.len());
    let (a, b) = (a[..n].chunks_exact(8), b[..n].chunks_exact(8));
    let rest: f64 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    let mut sums = [0.0; 8];
    for (a, b) in a.zip(b) {
        sums.iter_mut().zip(a).zip(b).for_each(|((sum, a), b)| *sum += a * b);
    }
    sums.iter().sum::<f64>() + rest
}

/// Replaces the lower triangle of a positive definite matrix by that of `L`, where `L L^T` is the
/// matrix; false when a pivot is not positive.
pub(crate) fn factorize(
    exec: &Executor,
    matrix: &mut [f64],
    n: usize,
    dot: impl Fn(&[f64], &[f64]) -> f64 + Copy,
) -> Result<bool> {
    for i in 0..n {
        exec.check()?;
        let (above, rest) = matrix.split_at_mut(triangle(i));
        let row = &mut rest[..=i];
        forward(above, &mut row[..i], dot);
        let pivot = row[i] - dot(&row[..i], &row[..i]);
        if pivot.is_nan() || pivot <= 0.0 {
            return Ok(false);
        }
        row[i] = pivot.sqrt();
    }
    Ok(true)
}

/// Solves `L y = b` in place, for as many rows of `L` as `b` has entries.
#[inline]
pub(crate) fn forward(factor: &[f64], b: &mut [f64], dot: impl Fn(&[f64], &[f64]) -> f64) {
    for i in 0..b.len() {
        let row = row(factor, i);
        b[i] = (b[i] - dot(&row[..i], &b[..i])) / row[i];
    }
}

/// Solves `L^T x = y` in place.
pub(crate) fn backward(factor: &[f64], y: &mut [f64]) {
    for i in (0..y.len()).rev() {
        let row = row(factor, i);
        y[i] /= row[i];
        let value = y[i];
        y[..i].iter_mut().zip(row).for_each(|(y, l)| *y -= l * value);
    }
}

/// Solves `A x = b` in place of `b` by elimination, for a positive definite matrix of at most `N`
/// rows; false when a pivot is not positive.
pub(crate) fn eliminate<const N: usize>(a: &mut [[f64; N]], b: &mut [f64]) -> bool {
    let n = a.len();
    for k in 0..n {
        let pivot = a[k];
        if pivot[k].is_nan() || pivot[k] <= 0.0 {
            return false;
        }
        for i in k + 1..n {
            let factor = a[i][k] / pivot[k];
            for (a, pivot) in a[i].iter_mut().zip(&pivot) {
                *a -= factor * pivot;
            }
            b[i] -= factor * b[k];
        }
    }
    for k in (0..n).rev() {
        for j in k + 1..n {
            b[k] -= a[k][j] * b[j];
        }
        b[k] /= a[k][k];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(i: usize, j: usize) -> f64 {
        let (i, j) = (i.max(j), i.min(j));
        if i == j { 3.0 + i as f64 } else { 1.0 / (1.0 + (i + j) as f64) }
    }

    fn unknown(i: usize) -> f64 {
        1.0 - 0.3 * i as f64
    }

    fn right_hand_side(n: usize) -> Vec<f64> {
        (0..n).map(|i| (0..n).map(|j| entry(i, j) * unknown(j)).sum()).collect()
    }

    #[test]
    fn systems_of_every_size_are_solved() {
        let exec = Executor::new(1).unwrap();
        for n in 0..30 {
            for dot in [short_dot, long_dot] {
                let mut matrix: Vec<f64> =
                    (0..n).flat_map(|i| (0..=i).map(move |j| entry(i, j))).collect();
                let mut x = right_hand_side(n);
                assert!(factorize(&exec, &mut matrix, n, dot).unwrap());
                forward(&matrix, &mut x, dot);
                backward(&matrix, &mut x);
                for (i, x) in x.iter().enumerate() {
                    assert!((x - unknown(i)).abs() < 1e-12, "{n} {i}: {x}");
                }
            }
        }
    }

    #[test]
    fn elimination_solves_the_same() {
        for n in 0..=5 {
            let mut a: Vec<[f64; 5]> =
                (0..n).map(|i| std::array::from_fn(|j| entry(i, j))).collect();
            let mut x = right_hand_side(n);
            assert!(eliminate(&mut a, &mut x));
            for (i, x) in x.iter().enumerate() {
                assert!((x - unknown(i)).abs() < 1e-12, "{n} {i}: {x}");
            }
        }
    }

    #[test]
    fn what_is_not_positive_definite_is_told() {
        let exec = Executor::new(1).unwrap();
        for last in [1.0, 0.5, f64::NAN] {
            let mut matrix = [1.0, 1.0, last];
            assert!(!factorize(&exec, &mut matrix, 2, short_dot).unwrap());
            assert!(!eliminate(&mut [[1.0, 1.0], [1.0, last]], &mut [1.0; 2]));
        }
    }
}
