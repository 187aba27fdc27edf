//! The exact minimiser over one group of coefficients.

/// Newton's method meets the tolerance after about five steps; the rest is for extreme spectra.
const MAX_STEPS: usize = 100;
/// Relative distance of the norm from its equation.
const TOLERANCE: f64 = 4.0 * f64::EPSILON;

/// Writes to `w` the minimiser of `sum_i (d_i w_i^2 / 2 - u_i w_i) + lambda |w|`, with
/// `u_i` in `w` on entry.
///
/// It is zero where `|u| <= lambda`. Otherwise `w_i = u_i r / (d_i r + lambda)`, where the norm
/// `r = |w|` solves `sum_i (u_i / (d_i r + lambda))^2 = 1`. Where `positive`, a single `w` is not
/// negative.
pub(super) fn minimise_block(
    curvatures: impl Fn(usize) -> f64,
    lambda: f64,
    positive: bool,
    w: &mut [f64],
) {
    if let [w] = w {
        let excess = if positive { *w } else { w.abs() } - lambda;
        let curvature = curvatures(0);
        *w = if excess > 0.0 && curvature > 0.0 { (excess / curvature).copysign(*w) } else { 0.0 };
        return;
    }
    let norm = w.iter().map(|u| u * u).sum::<f64>().sqrt();
    let curved = (0..w.len()).any(|i| curvatures(i) > 0.0);
    if norm <= lambda || !curved {
        w.fill(0.0);
        return;
    }
    let r = block_norm(&curvatures, lambda, w);
    for (i, w) in w.iter_mut().enumerate() {
        *w *= r / (curvatures(i) * r + lambda);
    }
}

/// The norm of the minimiser, by Newton's method on `1 / sqrt(s(r)) = 1`.
///
/// The left side is concave and increasing, so that the steps from zero ascend to the root; where
/// all curvatures are equal it is linear, and one step is enough.
fn block_norm(curvatures: &impl Fn(usize) -> f64, lambda: f64, u: &[f64]) -> f64 {
    let mut r = 0.0;
    for _ in 0..MAX_STEPS {
        let (mut square, mut slope) = (0.0, 0.0);
        for (i, u) in u.iter().enumerate() {
            let shifted = curvatures(i) * r + lambda;
            let term = (u / shifted) * (u / shifted);
            square += term;
            slope += term * curvatures(i) / shifted;
        }
        let root = square.sqrt();
        let step = square * (root - 1.0) / slope;
        if step <= TOLERANCE * r || !step.is_finite() {
            break;
        }
        r += step;
    }
    r
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gradient of the smooth part must be `lambda` times the direction of `w`.
    #[test]
    fn the_minimiser_is_stationary() {
        for (k, scale) in [(1, 1.0), (2, 1e-8), (5, 1e6), (40, 1.0)] {
            #[allow(clippy::cast_precision_loss)] // small integers
            let d: Vec<f64> =
                (0..k).map(|i| scale * 10f64.powi(-(i % 9)) * f64::from(i + 1)).collect();
            let u: Vec<f64> = (0..k).map(|i| f64::from((i * 37) % 11) - 4.5).collect();
            for lambda in [1e-6, 0.3, 4.0] {
                let mut w = u.clone();
                minimise_block(|i| d[i], lambda, false, &mut w);
                let norm = w.iter().map(|w| w * w).sum::<f64>().sqrt();
                assert!(norm > 0.0);
                for i in 0..u.len() {
                    let gradient = u[i] - d[i] * w[i];
                    assert!((gradient - lambda * w[i] / norm).abs() < 1e-9 * u[i].abs());
                }
            }
        }
    }

    #[test]
    fn small_and_flat_groups_are_zero() {
        let zero = |curvature: f64, lambda: f64, u: &[f64]| {
            let mut w = u.to_vec();
            minimise_block(|_| curvature, lambda, false, &mut w);
            w.iter().all(|&w| w == 0.0)
        };
        assert!(zero(1.0, 5.0, &[3.0, 4.0]) && zero(1.0, 3.0, &[-3.0]));
        assert!(!zero(1.0, 4.9, &[3.0, 4.0]) && !zero(1.0, 2.9, &[-3.0]));
        assert!(zero(0.0, 1.0, &[3.0, 4.0]) && zero(0.0, 1.0, &[3.0]));
        assert!(zero(0.0, 0.0, &[3.0, 4.0]) && zero(0.0, 0.0, &[3.0]));
    }
}
