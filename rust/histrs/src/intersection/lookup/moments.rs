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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_variances_of_columns_add_up() {
        // 3, -1 and a third row that is not off.
        let mut moments = Moments::of_sums(2.0, 10.0, 3);
        assert!((moments.mean - 2.0 / 3.0).abs() < 1e-15);
        assert!((moments.variance - (10.0 / 3.0 - 4.0 / 9.0)).abs() < 1e-15);
        moments.add(Moments { mean: 1.0 / 3.0, variance: 1.0 / 9.0 });
        assert!((moments.rms() - 2.0).abs() < 1e-15);
        let none = Moments::of_sums(0.0, 0.0, 0);
        assert_eq!((none.mean, none.variance, none.rms()), (0.0, 0.0, 0.0));
        // Rounding leaves no variance below 0.
        assert_eq!(Moments::of_sums(3.0, 3.0 - 1e-15, 3).variance, 0.0);
    }
}
