//! The stochastic neighbourhood of a training sample among prototypes (Kusner et al. 2015,
//! equations 4 to 7), for whatever distance there is between them.

use super::Labels;
use crate::error::{Error, Result, check_length};

/// `p_ij = softmax_j(-gamma^2 D_ij)`, and `p_i`, the sum over prototypes of the right class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neighborhood<'a> {
    labels: Labels<'a>,
    inverse_temperature: f64,
    largest_weight: f64,
}

impl<'a> Neighborhood<'a> {
    /// # Errors
    ///
    /// [`Error::Shape`] when there are not as many labels as rows and prototypes, or weights as
    /// rows. [`Error::Parameter`] when no prototype has the class of a row, or `gamma` is not
    /// positive or a weight is negative or not finite.
    pub(crate) fn new(
        labels: Labels<'a>,
        [n_rows, n_prototypes]: [usize; 2],
        gamma: f64,
    ) -> Result<Self> {
        let Labels { of_rows, of_prototypes, weights } = labels;
        let cure = "give one label a sample";
        check_length("the number of labels of X", of_rows.len(), n_rows, cure)?;
        check_length("the number of labels of Y", of_prototypes.len(), n_prototypes, cure)?;
        if !(gamma > 0.0 && gamma.is_finite()) {
            let expected = "it must be positive and finite";
            return Err(Error::parameter("gamma", gamma, expected));
        }
        if let Some(&label) = of_rows.iter().find(|label| !of_prototypes.contains(label)) {
            let expected = "every class of X needs a prototype";
            return Err(Error::parameter("label", label, expected));
        }
        let mut largest_weight = 1.0;
        if let Some(weights) = weights {
            let cure = "give a weight for each row";
            check_length("the number of weights", weights.len(), n_rows, cure)?;
            let bad = weights.iter().find(|weight| !(**weight >= 0.0 && weight.is_finite()));
            if let Some(&value) = bad {
                let expected = "weights are finite and not negative";
                return Err(Error::parameter("weights", value, expected));
            }
            largest_weight = weights.iter().copied().fold(0.0, f64::max);
        }
        Ok(Self { labels, inverse_temperature: gamma * gamma, largest_weight })
    }

    /// The largest weight of a row.
    pub(crate) fn largest_weight(&self) -> f64 {
        self.largest_weight
    }

    /// `gamma^2`.
    pub(crate) fn inverse_temperature(&self) -> f64 {
        self.inverse_temperature
    }

    /// Turns distances of row `i` to all prototypes, which may all be off by a constant, into
    /// `w_ij = (p_ij / p_i) (delta - p_i)`; returns `-log p_i`. Both are multiplied by the weight of
    /// the row. Everything is in logarithms, so that neither small nor large `gamma` loses digits.
    pub(crate) fn softmax(&self, i: usize, values: &mut [f64]) -> f64 {
        let weight = self.labels.weights.map_or(1.0, |weights| weights[i]);
        let right = |j: usize| self.labels.of_prototypes[j] == self.labels.of_rows[i];
        let (mut largest, mut largest_right) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for (j, value) in values.iter_mut().enumerate() {
            *value *= -self.inverse_temperature;
            largest = largest.max(*value);
            if right(j) {
                largest_right = largest_right.max(*value);
            }
        }
        let (mut all, mut all_right) = (0.0, 0.0);
        for (j, &value) in values.iter().enumerate() {
            all += (value - largest).exp();
            if right(j) {
                all_right += (value - largest_right).exp();
            }
        }
        let (all, all_right) = (largest + all.ln(), largest_right + all_right.ln());
        for (j, value) in values.iter_mut().enumerate() {
            let of_right = if right(j) { (*value - all_right).exp() } else { 0.0 };
            *value = weight * (of_right - (*value - all).exp());
        }
        weight * (all - all_right).max(0.0)
    }
}
