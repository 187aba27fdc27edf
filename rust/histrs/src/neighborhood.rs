//! The stochastic neighbourhood of a training sample among prototypes (Kusner et al. 2015,
//! equations 4 to 7), for whatever distance there is between them.

use crate::error::{Error, Result, check_length};

/// Classes of training samples and of prototypes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Labels<'a> {
    pub(crate) of_rows: &'a [i64],
    pub(crate) of_prototypes: &'a [i64],
}

/// `p_ij = softmax_j(-gamma^2 D_ij)`, and `p_i`, the sum over prototypes of the right class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Neighborhood<'a> {
    labels: Labels<'a>,
    sharpness: f64,
}

impl<'a> Neighborhood<'a> {
    /// # Errors
    ///
    /// [`Error::Shape`] when there are not as many labels as rows and prototypes,
    /// [`Error::Parameter`] when no prototype has the class of a row, or `gamma` is not positive.
    pub(crate) fn new(
        labels: Labels<'a>,
        [n_rows, n_prototypes]: [usize; 2],
        gamma: f64,
    ) -> Result<Self> {
        let Labels { of_rows, of_prototypes } = labels;
        let cure = "give one label a sample";
        check_length("the number of labels of X", of_rows.len(), n_rows, cure)?;
        check_length("the number of labels of Y", of_prototypes.len(), n_prototypes, cure)?;
        if !(gamma > 0.0 && gamma.is_finite()) {
            let expected = "it must be positive and finite";
            return Err(Error::Parameter { name: "gamma", value: gamma, expected });
        }
        if let Some(&label) = of_rows.iter().find(|label| !of_prototypes.contains(label)) {
            let expected = "every class of X needs a prototype";
            return Err(Error::Number { name: "label", value: label as i128, expected });
        }
        Ok(Self { labels, sharpness: gamma * gamma })
    }

    /// `gamma^2`.
    pub(crate) fn sharpness(&self) -> f64 {
        self.sharpness
    }

    /// Turns distances of row `i` to all prototypes, which may all be off by a constant, into
    /// `w_ij = (p_ij / p_i) (delta - p_i)`; returns `-log p_i`. Everything is in logarithms, so
    /// that neither small nor large `gamma` loses digits.
    pub(crate) fn softmax(&self, i: usize, values: &mut [f64]) -> f64 {
        let right = |j: usize| self.labels.of_prototypes[j] == self.labels.of_rows[i];
        let (mut largest, mut largest_right) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        for (j, value) in values.iter_mut().enumerate() {
            *value *= -self.sharpness;
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
            *value = of_right - (*value - all).exp();
        }
        (all - all_right).max(0.0)
    }
}
