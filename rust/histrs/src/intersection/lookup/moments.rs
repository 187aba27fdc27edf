//! How far tables are off at the training values.

/// Mean and variance of what a table is off by over the training rows, as if the columns erred
/// independently of each other.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

impl Moments {
    /// Of one column, from sums over `n_rows` rows.
    pub(super) fn of_sums(sum: f64, squares: f64, n_rows: usize) -> Self {
        let n_rows = n_rows.max(1) as f64;
        let mean = sum / n_rows;
        Self { mean, variance: (squares / n_rows - mean * mean).max(0.0) }
    }

    /// The same of one more column.
    pub(super) fn add(&mut self, other: Self) {
        self.mean += other.mean;
        self.variance += other.variance;
    }

    /// The root of the mean square.
    pub(super) fn rms(self) -> f64 {
        (self.mean * self.mean + self.variance).sqrt()
    }
}
