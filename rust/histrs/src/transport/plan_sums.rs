//! Sums of a plan that its potentials give: its marginals and its cost.

use crate::simd::{Elementary, vectorized};
use crate::transport::log_domain::Exponents;
use crate::transport::range::Side;

/// `x log x - x + 1`, without cancellation near 1.
pub(super) fn divergence(x: f64) -> f64 {
    let d = x - 1.0;
    if x <= 0.0 {
        1.0
    } else if d.abs() < 1e-3 {
        d * d * (0.5 - d * (1.0 / 6.0 - d * (1.0 / 12.0 - d * (0.05 - d / 30.0))))
    } else {
        x * x.ln() - d
    }
}

/// What is known of a plan.
pub(super) struct PlanSums {
    /// `sum_ij T_ij M_ij / reg`.
    pub(super) transport: f64,
    pub(super) rows: Vec<f64>,
    pub(super) columns: Vec<f64>,
}

vectorized!(
    /// Sums of the plan `exp(f_i + g_j - M_ij / reg)`.
    pub(super) fn plan_sums(exponents: &Exponents, f: &[f64], g: &[f64]) -> PlanSums {
        /// Numbers added side by side.
        const LANES: usize = 16;
        // Of a grid there is none: mass that need not be kept has a matrix of costs.
        let (mut transport, mut rows, mut columns) = (0.0, vec![0.0; f.len()], vec![0.0; g.len()]);
        let mut row = vec![0.0; g.len()];
        let matrix = exponents.matrix(Side::Source).unwrap_or_default();
        for ((&f, total), costs) in f.iter().zip(&mut rows).zip(matrix.chunks_exact(g.len().max(1)))
        {
            for (((t, &g), &cost), column) in row.iter_mut().zip(g).zip(costs).zip(&mut columns) {
                let exponent = f + g - cost;
                let entry = exponent.exp_in_range();
                *t = if exponent > -700.0 { entry } else { 0.0 };
                *column += *t;
            }
            let (mut mass, mut paid) = ([0.0; LANES], [0.0; LANES]);
            for (t, costs) in row.chunks(LANES).zip(costs.chunks(LANES)) {
                for (((&t, &cost), mass), paid) in t.iter().zip(costs).zip(&mut mass).zip(&mut paid)
                {
                    *mass += t;
                    *paid += t * cost;
                }
            }
            *total = mass.iter().sum();
            transport += paid.iter().sum::<f64>();
        }
        PlanSums { transport, rows, columns }
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_divergence_of_near_numbers_has_all_its_digits() {
        for size in [9.99e-4_f64, 5e-4, 1e-4, 1e-6, 1e-9] {
            for d in [size, -size] {
                let x = 1.0 + d;
                let d = x - 1.0;
                // x log x - x + 1 = sum_k (-d)^k / (k (k - 1)), from k = 2 on.
                let terms = (2..12).rev().map(|k| (-d).powi(k) / f64::from(k * (k - 1)));
                let want: f64 = terms.sum();
                assert!((divergence(x) - want).abs() <= 4e-16 * want, "{d}");
            }
        }
        assert_eq!([divergence(0.0), divergence(-0.0), divergence(1.0)], [1.0, 1.0, 0.0]);
        for x in [0.5_f64, 0.998, 1.002, 3.0, 1e10] {
            let want = x * x.ln() - (x - 1.0);
            assert!((divergence(x) - want).abs() <= 1e-12 * want, "{x}");
        }
    }
}
