//! Training samples among prototypes, whatever distance there is between them.
//!
//! | file | what it computes | source |
//! |---|---|---|
//! | `softmax` | neighbourhoods of which prototypes are learned | Kusner et al. 2015, eq. 4 to 7 |
//! | `reduction` | [`needed_prototypes`]: those without which more samples are misclassified | Gates 1972 |
//!
//! Weights of samples are not in the papers.

mod reduction;
mod softmax;

pub use reduction::needed_prototypes;
pub(crate) use softmax::Neighborhood;

/// Classes of training samples and of prototypes, and what the samples weigh.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Labels<'a> {
    /// The class of each training sample, any integer.
    pub of_rows: &'a [i64],
    /// The class of each prototype, any integer.
    pub of_prototypes: &'a [i64],
    /// Factors of the samples' terms of the objective; None for 1.
    pub weights: Option<&'a [f64]>,
}

impl<'a> Labels<'a> {
    /// Classes of samples that weigh the same.
    #[must_use]
    pub const fn new(of_rows: &'a [i64], of_prototypes: &'a [i64]) -> Self {
        Self { of_rows, of_prototypes, weights: None }
    }

    /// With [`weights`](Self::weights).
    #[must_use]
    pub const fn with_weights(self, weights: &'a [f64]) -> Self {
        Self { weights: Some(weights), ..self }
    }
}
