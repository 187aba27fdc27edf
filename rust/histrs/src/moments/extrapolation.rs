//! Anderson's extrapolation of the iterates of a descent.
//!
//! Weights of sum one are found for a window of iterates of one vector, which then begins anew.
//! `transport/mixing` accelerates after every step, in a window that slides. It runs many
//! iterations, one per lane of a vector, with inner products of its own. The small systems of the
//! two differ: bordered by the sum here, of differences there. So do the ways in which they treat
//! singular ones.

use crate::small_matrix::eliminate;

/// Iterates that are combined.
pub(super) const WINDOW: usize = 5;
/// Weight of the identity beside the normal equations, which are singular near convergence.
const REGULARISATION: f64 = 1e-12;

/// The combination of the last iterates whose steps cancel best.
///
/// With the differences `u_k = w_k - w_(k-1)` it is `sum_k c_k w_k`, where `c` of sum one
/// minimises `|sum_k c_k u_k|`. Source: Bertrand and Massias, *Anderson acceleration of coordinate
/// descent*, AISTATS 2021.
pub(super) fn extrapolate(iterates: &[Vec<f64>]) -> Option<Vec<f64>> {
    let last = iterates.last()?;
    let steps: Vec<Vec<f64>> = iterates
        .windows(2)
        .map(|pair| pair[1].iter().zip(&pair[0]).map(|(new, old)| new - old).collect())
        .collect();
    let n = steps.len();
    let mut products = vec![[0.0; WINDOW]; n];
    for i in 0..n {
        for j in 0..=i {
            let product: f64 = steps[i].iter().zip(&steps[j]).map(|(a, b)| a * b).sum();
            products[i][j] = product;
            products[j][i] = product;
        }
    }
    let trace: f64 = (0..n).map(|i| products[i][i]).sum();
    if !(trace > 0.0 && trace.is_finite()) {
        return None;
    }
    for (i, row) in products.iter_mut().enumerate() {
        row[i] += REGULARISATION * trace;
    }
    let mut weights = vec![1.0; n];
    if !eliminate(&mut products, &mut weights) {
        return None;
    }
    let sum: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|c| *c /= sum);
    let mut combined = vec![0.0; last.len()];
    for (weight, iterate) in weights.iter().zip(&iterates[1..]) {
        for (sum, w) in combined.iter_mut().zip(iterate) {
            *sum += weight * w;
        }
    }
    combined.iter().all(|w| w.is_finite()).then_some(combined)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linear iterations of fewer modes than steps end at their fixed point.
    #[test]
    fn a_linear_iteration_is_solved() {
        let rates = [0.9, 0.5, -0.3, 0.1];
        let iterates: Vec<Vec<f64>> = (0..=WINDOW)
            .map(|k| rates.iter().map(|r: &f64| 1.0 + r.powi(i32::try_from(k).unwrap())).collect())
            .collect();
        let combined = extrapolate(&iterates).unwrap();
        assert!(combined.iter().all(|w| (w - 1.0).abs() < 1e-3), "{combined:?}");
        for unit in [2.0_f64.powi(-30), 2.0_f64.powi(30)] {
            let scaled: Vec<Vec<f64>> =
                iterates.iter().map(|w| w.iter().map(|w| unit * w).collect()).collect();
            let expected: Vec<f64> = combined.iter().map(|w| unit * w).collect();
            assert_eq!(extrapolate(&scaled), Some(expected));
        }
        assert_eq!(extrapolate(&vec![vec![1.0]; 3]), None);
    }
}
