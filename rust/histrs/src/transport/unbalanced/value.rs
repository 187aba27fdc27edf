//! What is kept of a solved pair.

use crate::simd::{Element, dispatch};
use crate::transport::job::{Job, Solved};
use crate::transport::log_domain::Exponents;
use crate::transport::order::Pair;
use crate::transport::plan_sums::{PlanSums, Sums, divergence};
use crate::transport::problem::Block;
use crate::transport::relaxation::Cost;
use crate::transport::results::Found;
use crate::transport::unbalanced::Problem;

/// Marginals of a plan and the potentials of a side.
type Side<'a> = (&'a [f64], &'a [f64]);

impl<T: Element> Problem<'_, '_, T> {
    pub(super) fn found(
        &self,
        block: &Block,
        exponents: &Exponents,
        pair: Pair,
        job: &Job,
        solved: Solved,
    ) -> Found {
        let (unit, _) = self.units(pair);
        let [f, g] = solved.potentials;
        let plan = dispatch(Sums { exponents, f: &f, g: &g });
        let sides = [(&plan.rows[..], &f[..]), (&plan.columns[..], &g[..])];
        let value = match self.weights() {
            Some(weights) => self.cost_with_penalties(weights, block, job, &plan, sides),
            None => self.cost_of_mass(unit, &plan, sides),
        };
        let potentials = self.options.potentials.then(|| {
            [
                self.spread(&f, &block.bins.sources, self.ground.costs.n_rows(), unit),
                self.spread(&g, &block.bins.targets, self.ground.costs.n_columns(), 0.0),
            ]
        });
        let value = unit.exp() * (self.ground.reg * value);
        Found { pair, value, error: solved.error, n_iter: solved.n_iter, potentials }
    }

    /// The cost in units of the regularisation, of relaxed marginals.
    fn cost_with_penalties(
        &self,
        weights: [f64; 2],
        block: &Block,
        job: &Job,
        plan: &PlanSums,
        sides: [Side<'_>; 2],
    ) -> f64 {
        let histograms = block.marginals.of(job, (plan.rows.len(), plan.columns.len()));
        let masses = job.masses.unwrap_or([1.0; 2]);
        let mut value = plan.transport;
        let mut entropy = masses[0] * masses[1] - plan.rows.iter().sum::<f64>() - value;
        for side in 0..2 {
            let (sums, potential) = sides[side];
            let own = histograms[side].iter().map(|x| x * masses[side]);
            for ((&sum, &potential), own) in sums.iter().zip(potential).zip(own) {
                if own > 0.0 {
                    // Of infinite weight, the marginal is kept.
                    if weights[side].is_finite() && self.options.cost != Cost::Transport {
                        value += weights[side] * own * divergence(sum / own);
                    }
                    entropy += if sum > 0.0 { sum * (potential - own.ln()) } else { 0.0 };
                }
            }
        }
        if self.options.cost == Cost::Regularized { value + entropy } else { value }
    }

    /// The same, of a mass that is moved.
    fn cost_of_mass(&self, unit: f64, plan: &PlanSums, sides: [Side<'_>; 2]) -> f64 {
        if self.options.cost != Cost::Regularized {
            return plan.transport;
        }
        sides.into_iter().fold(unit, |value, (sums, potential)| {
            let filled = sums.iter().zip(potential).filter(|(sum, _)| **sum > 0.0);
            value + filled.map(|(sum, potential)| sum * potential).sum::<f64>()
        })
    }

    /// Potentials in units of the distance, of all `n` bins.
    fn spread(&self, values: &[f64], bins: &[usize], n: usize, shift: f64) -> Vec<f64> {
        let mut out = vec![f64::NEG_INFINITY; n];
        bins.iter().zip(values).for_each(|(&k, f)| out[k] = self.ground.reg * (f + shift));
        out
    }
}
