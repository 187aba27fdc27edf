//! One pass over the training rows.

use ndarray::{Array2, ArrayView1, ArrayView2};

use crate::error::{Result, check_length};
use crate::exec::Executor;
use crate::matrix::{HistogramMatrix, row_numbers};
use crate::memory;
use crate::simd::Element;
use crate::stop::with_fields;

/// Rows between two looks at the stop flag.
const CHECK_EVERY: usize = 256;

/// The parameters of a pass of stochastic gradient descent.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SgdParameters {
    /// Scores below it, times the sign of the class, cause a step.
    pub margin: f64,
    /// Length `r` of a step.
    pub eta: f64,
    /// Strength `lambda` of the L1 penalty: after each row entries shrink by `r lambda`.
    pub alpha: f64,
    /// Smoothing `t`: scores are `sign(w_d) x_d min(|w_d| / max(t, x_d), 1)`; 0 for none.
    pub smoothing: f64,
}

impl Default for SgdParameters {
    /// Margin 1 and steps of 1/10, without penalty and without smoothing.
    fn default() -> Self {
        Self { margin: 1.0, eta: 0.1, alpha: 0.0, smoothing: 0.0 }
    }
}

with_fields!(SgdParameters: with_margin(margin: f64), with_eta(eta: f64), with_alpha(alpha: f64),
    with_smoothing(smoothing: f64));

/// The weights, a class per row, after one pass over the rows in the given order.
///
/// For row `i` of class `c`, with the sign `s = signs[c, i]` and the weight `a = weights[c, i]`:
/// where `s f(w, x_i) < margin`, every `|w_d| < max(t, x_id)` with `x_id > 0` moves by
/// `r a s x_id / max(t, x_id)`. Then all entries shrink by `r lambda`, but not past zero. Entries
/// of columns where the row is zero shrink when they are next read.
///
/// # Errors
///
/// [`Error::Shape`](crate::Error::Shape) when lengths disagree, [`Error::Parameter`](crate::Error::Parameter) for a row number that is not
/// there, [`Error::Negative`](crate::Error::Negative) or [`Error::NotFinite`](crate::Error::NotFinite)
/// at the first bad entry of `x`, [`Error::Interrupted`](crate::Error::Interrupted).
pub fn epoch<T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
    signs: ArrayView2<'_, f64>,
    weights: ArrayView2<'_, f64>,
    order: &[i64],
    coef: ArrayView2<'_, f64>,
    steps: SgdParameters,
) -> Result<Array2<f64>> {
    let cure = "give one row per class, and one column per row, or per feature, of X";
    check_length("the number of columns of the signs", signs.ncols(), x.n_rows(), cure)?;
    check_length("the number of columns of the weights", weights.ncols(), x.n_rows(), cure)?;
    check_length("the number of columns of the coefficients", coef.ncols(), x.n_columns(), cure)?;
    check_length("the number of rows of the signs", signs.nrows(), coef.nrows(), cure)?;
    check_length("the number of rows of the weights", weights.nrows(), coef.nrows(), cure)?;
    let order = row_numbers("order", order, x.n_rows())?;
    x.check(exec, "X")?;
    let learned = exec.map_blocks(coef.nrows(), |class| {
        let mut learner = Learner::new(coef.row(class), steps)?;
        for (step, &row) in order.iter().enumerate() {
            if step % CHECK_EVERY == 0 {
                exec.check()?;
            }
            learner.step(x, row, step, signs[[class, row]], weights[[class, row]]);
        }
        Ok(learner.finish(order.len()))
    })?;
    let mut coef = memory::zeros(coef.raw_dim())?;
    for (mut row, learned) in coef.rows_mut().into_iter().zip(learned) {
        row.assign(&ArrayView1::from(&learned));
    }
    Ok(coef)
}

/// The weights of a class, some of which have still to shrink.
struct Learner {
    w: Vec<f64>,
    /// Steps whose shrinkage each entry has seen.
    seen: Vec<usize>,
    steps: SgdParameters,
}

impl Learner {
    fn new(w: ArrayView1<'_, f64>, steps: SgdParameters) -> Result<Self> {
        Ok(Self { w: w.to_vec(), seen: memory::filled(0, w.len())?, steps })
    }

    fn step<T: Element>(
        &mut self,
        x: &HistogramMatrix<'_, T>,
        row: usize,
        step: usize,
        sign: f64,
        weight: f64,
    ) {
        let t = self.steps.smoothing;
        let mut score = 0.0;
        visit_row(x, row, |d, x| {
            let w = self.shrink(d, step);
            score += w.signum() * x * (w.abs() / x.max(t)).min(1.0);
        });
        if sign * score >= self.steps.margin {
            return;
        }
        let move_by = self.steps.eta * weight * sign;
        visit_row(x, row, |d, x| {
            let reach = x.max(t);
            if self.w[d].abs() < reach {
                self.w[d] += move_by * (x / reach);
            }
        });
    }

    /// Catches up with the shrinkage of the steps before `step`.
    #[inline]
    #[allow(clippy::cast_precision_loss)] // counts of rows
    fn shrink(&mut self, d: usize, step: usize) -> f64 {
        let pending = (step - self.seen[d]) as f64;
        self.seen[d] = step;
        let w = self.w[d];
        let left = w.abs() - pending * self.steps.eta * self.steps.alpha;
        self.w[d] = if left > 0.0 { left.copysign(w) } else { 0.0 };
        self.w[d]
    }

    fn finish(mut self, n_steps: usize) -> Vec<f64> {
        for d in 0..self.w.len() {
            self.shrink(d, n_steps);
        }
        self.w
    }
}

/// Visits the positive entries of a row.
#[inline]
fn visit_row<T: Element>(x: &HistogramMatrix<'_, T>, row: usize, mut f: impl FnMut(usize, f64)) {
    let mut visit = |d, value: f64| {
        if value > 0.0 {
            f(d, value);
        }
    };
    match x {
        HistogramMatrix::Dense(x) => {
            x.row(row).iter().enumerate().for_each(|(d, v)| visit(d, v.to_f64()));
        }
        HistogramMatrix::Csr(x) => x.for_each_sum(row, visit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array1, array};
    use proptest::prelude::*;

    /// Algorithm 1 entry by entry: all shrink after each row.
    fn slow(
        x: &Array2<f64>,
        (signs, weights): (&[f64], &[f64]),
        order: &[i64],
        mut w: Array1<f64>,
        steps: SgdParameters,
    ) -> Array1<f64> {
        for &row in order {
            let row = usize::try_from(row).unwrap();
            let x = x.row(row);
            let score: f64 = x
                .iter()
                .zip(&w)
                .filter(|(x, _)| **x > 0.0)
                .map(|(x, w)| w.signum() * x * f64::min(1.0, w.abs() / x.max(steps.smoothing)))
                .sum();
            if signs[row] * score < steps.margin {
                for (x, w) in x.iter().zip(&mut w) {
                    let reach = x.max(steps.smoothing);
                    if *x > 0.0 && w.abs() < reach {
                        *w += steps.eta * weights[row] * signs[row] * x / reach;
                    }
                }
            }
            let short = steps.eta * steps.alpha;
            w.mapv_inplace(|w| if w.abs() > short { w - short * w.signum() } else { 0.0 });
        }
        w
    }

    proptest! {
        #[test]
        fn a_pass_is_the_algorithm_entry_by_entry(
            entries in prop::collection::vec(0.0..2.0, 20),
            zeros in prop::collection::vec(any::<bool>(), 20),
            of_rows in prop::collection::vec((any::<bool>(), 0.2..2.0), 4),
            start in prop::collection::vec(-1.5..1.5, 5),
            order in prop::collection::vec(0..4_i64, 0..12),
            (margin, eta, alpha, smoothing) in (0.0..3.0, 0.05..0.6, 0.0..0.5, 0.0..1.0),
        ) {
            let exec = Executor::new(1).unwrap();
            let at = |(i, d)| if zeros[5 * i + d] { 0.0 } else { entries[5 * i + d] };
            let x = Array2::from_shape_fn((4, 5), at);
            let signs: Vec<f64> = of_rows.iter().map(|row| if row.0 { 1.0 } else { -1.0 }).collect();
            let weights: Vec<f64> = of_rows.iter().map(|row| row.1).collect();
            let steps = SgdParameters { margin, eta, alpha, smoothing };
            let row = |values: &[f64]| Array2::from_shape_vec((1, values.len()), values.to_vec());
            let (y, a, w) = (row(&signs).unwrap(), row(&weights).unwrap(), row(&start).unwrap());
            let dense = HistogramMatrix::dense(x.view());
            let found = epoch(&exec, &dense, y.view(), a.view(), &order, w.view(), steps).unwrap();
            let expected = slow(&x, (&signs, &weights), &order, Array1::from(start), steps);
            for (found, expected) in found.iter().zip(&expected) {
                prop_assert!((found - expected).abs() < 1e-12, "{} {}", found, expected);
            }
        }
    }

    #[test]
    fn at_the_margin_and_beyond_its_reach_nothing_moves() {
        let exec = Executor::new(1).unwrap();
        let (x, one) = (array![[1.0]], array![[1.0]]);
        let x = HistogramMatrix::dense(x.view());
        for (margin, w) in [(0.0, 0.0), (1.0, 1.0), (2.0, 1.0)] {
            let steps = SgdParameters::default().with_margin(margin);
            let w = array![[w]];
            let found = epoch(&exec, &x, one.view(), one.view(), &[0], w.view(), steps);
            assert_eq!(found.unwrap(), w, "{margin}");
        }
    }

    #[test]
    fn a_step_moves_and_shrinks() {
        let exec = Executor::new(1).unwrap();
        let x = array![[1.0, 0.0], [0.5, 2.0]];
        let steps = SgdParameters { margin: 1.0, eta: 0.25, alpha: 0.5, smoothing: 0.0 };
        let (signs, ones) = (array![[1.0, -1.0]], array![[1.0, 1.0]]);
        let run = |order: &[i64]| {
            let x = HistogramMatrix::dense(x.view());
            let w = Array2::zeros((1, 2));
            epoch(&exec, &x, signs.view(), ones.view(), order, w.view(), steps)
        };
        assert_eq!(run(&[0]).unwrap(), array![[0.125, 0.0]]);
        assert_eq!(run(&[0, 1]).unwrap(), array![[0.0, -0.125]]);
        assert!(run(&[2]).is_err());
    }
}
