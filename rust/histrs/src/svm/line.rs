//! Losses of all rows between two points in the space of scores.

use ndarray::{Array2, ArrayView2};
use pulp::{Simd, WithSimd};

use crate::error::{Error, Result, check_length};
use crate::exec::{Executor, rows_by_block};
use crate::simd::dispatch;
use crate::svm::loss::{Hinge, Logistic, Loss, Margin, SquaredHinge};

/// Rows of a block.
const ROWS: usize = 4096;
/// Sums that are kept side by side.
const SUMS: usize = 8;

/// The classes of the rows and the weights of their losses.
///
/// Problem `c` asks whether a row is of class `positive[c]`: its sign is 1 there, -1 elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Targets<'a> {
    /// The class of each row.
    pub labels: &'a [i32],
    /// The weight of the loss of each row.
    pub weights: &'a [f64],
    /// The class that each problem is about.
    pub positive: &'a [i32],
}

/// Scores on the line from `start` to `end`, a problem a row and a sample a column.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// Scores at 0.
    pub start: ArrayView2<'a, f64>,
    /// Scores at 1.
    pub end: ArrayView2<'a, f64>,
}

/// A problem's weighted loss at a point of the line, and its derivative along it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineLoss {
    /// `sum_i weights[i] l(y_i s_i)`.
    pub loss: f64,
    /// Its derivative in the place on the line.
    pub slope: f64,
}

/// What follows a line search.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The scores at the best place.
    pub best: Array2<f64>,
    /// The weighted loss of each problem at the place of the cut.
    pub losses: Vec<f64>,
    /// The derivative of the weighted loss in each score there.
    pub gradient: Array2<f64>,
}

impl<'a> Line<'a> {
    fn check(&self, targets: &Targets<'_>) -> Result<(&'a [f64], &'a [f64])> {
        let (n_problems, n_rows) = self.start.dim();
        let cure = "give a problem a row and a sample a column";
        check_length("the number of labels", targets.labels.len(), n_rows, cure)?;
        check_length("the number of weights", targets.weights.len(), n_rows, cure)?;
        check_length("the number of classes", targets.positive.len(), n_problems, cure)?;
        check_length("the number of rows of the end", self.end.nrows(), n_problems, cure)?;
        check_length("the number of columns of the end", self.end.ncols(), n_rows, cure)?;
        match (self.start.to_slice(), self.end.to_slice()) {
            (Some(start), Some(end)) => Ok((start, end)),
            _ => Err(Error::Parameter {
                name: "the stride of the scores",
                value: 0.0,
                expected: "scores lie one after the other, a problem a row",
            }),
        }
    }

    /// The loss of each problem at a place of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when lengths disagree, [`Error::Parameter`] for scores with gaps,
    /// [`Error::Interrupted`].
    pub fn losses(
        &self,
        exec: &Executor,
        loss: Loss,
        targets: &Targets<'_>,
        places: &[f64],
    ) -> Result<Vec<LineLoss>> {
        let (start, end) = self.check(targets)?;
        check_length("the number of places", places.len(), self.start.nrows(), "give one each")?;
        let n_rows = targets.labels.len();
        let n_blocks = n_rows.div_ceil(ROWS);
        let parts = exec.map_blocks(n_blocks * places.len(), |part| {
            let (problem, block) = (part / n_blocks, part % n_blocks);
            let rows = block * ROWS..n_rows.min((block + 1) * ROWS);
            let columns = problem * n_rows + rows.start..problem * n_rows + rows.end;
            let sum = SumLosses {
                start: &start[columns.clone()],
                end: &end[columns],
                labels: &targets.labels[rows.clone()],
                weights: &targets.weights[rows],
                positive: targets.positive[problem],
                place: places[problem],
                loss,
            };
            Ok(dispatch(sum))
        })?;
        let total = |problem: usize| {
            let parts = &parts[problem * n_blocks..(problem + 1) * n_blocks];
            let zero = LineLoss { loss: 0.0, slope: 0.0 };
            parts.iter().fold(zero, |sum, part| LineLoss {
                loss: sum.loss + part.loss,
                slope: sum.slope + part.slope,
            })
        };
        Ok((0..places.len()).map(total).collect())
    }

    /// The scores at `best`, and losses and gradients at `cut`, a place for each problem.
    ///
    /// # Errors
    ///
    /// As [`Self::losses`].
    pub fn step(
        &self,
        exec: &Executor,
        loss: Loss,
        targets: &Targets<'_>,
        best: &[f64],
        cut: &[f64],
    ) -> Result<Step> {
        let (start, end) = self.check(targets)?;
        let n_problems = self.start.nrows();
        check_length("the number of best places", best.len(), n_problems, "give one each")?;
        let losses = self.losses(exec, loss, targets, cut)?.iter().map(|at| at.loss).collect();
        let n_rows = targets.labels.len();
        let mut scores = Array2::zeros(self.start.raw_dim());
        let mut gradient = Array2::zeros(self.start.raw_dim());
        if let (Some(scores), Some(gradient)) = (scores.as_slice_mut(), gradient.as_slice_mut()) {
            let scores = rows_by_block(scores, n_rows, ROWS);
            let gradient = rows_by_block(gradient, n_rows, ROWS);
            let mut blocks: Vec<_> = scores.into_iter().zip(gradient).collect();
            exec.for_chunks(&mut blocks, 1, |block, out| {
                let first = block * ROWS;
                for (scores, gradient) in out {
                    for (problem, (scores, gradient)) in scores.iter_mut().zip(gradient).enumerate()
                    {
                        let rows = first..first + scores.len();
                        let columns = problem * n_rows + rows.start..problem * n_rows + rows.end;
                        dispatch(FillStep {
                            start: &start[columns.clone()],
                            end: &end[columns],
                            labels: &targets.labels[rows.clone()],
                            weights: &targets.weights[rows],
                            positive: targets.positive[problem],
                            best: best[problem],
                            cut: cut[problem],
                            loss,
                            scores,
                            gradient,
                        });
                    }
                }
                Ok(())
            })?;
        }
        Ok(Step { best: scores, losses, gradient })
    }
}

#[inline(always)]
fn sign(label: i32, positive: i32) -> f64 {
    if label == positive { 1.0 } else { -1.0 }
}

/// The score at a place; exact at both ends.
#[inline(always)]
fn between(start: f64, end: f64, place: f64) -> f64 {
    start * (1.0 - place) + end * place
}

struct SumLosses<'a> {
    start: &'a [f64],
    end: &'a [f64],
    labels: &'a [i32],
    weights: &'a [f64],
    positive: i32,
    place: f64,
    loss: Loss,
}

impl WithSimd for SumLosses<'_> {
    type Output = LineLoss;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> LineLoss {
        match self.loss {
            Loss::Hinge => self.sum::<Hinge>(),
            Loss::SquaredHinge => self.sum::<SquaredHinge>(),
            Loss::Logistic => self.sum::<Logistic>(),
        }
    }
}

impl SumLosses<'_> {
    #[inline(always)]
    fn sum<L: Margin>(&self) -> LineLoss {
        let (mut losses, mut slopes) = ([0.0; SUMS], [0.0; SUMS]);
        let [start, end, weights] = [self.start, self.end, self.weights];
        let (start, start_rest) = start.as_chunks::<SUMS>();
        let (end, end_rest) = end.as_chunks::<SUMS>();
        let (weights, weights_rest) = weights.as_chunks::<SUMS>();
        let (labels, labels_rest) = self.labels.as_chunks::<SUMS>();
        for (((s, e), w), y) in start.iter().zip(end).zip(weights).zip(labels) {
            for k in 0..SUMS {
                let (loss, slope) = self.term::<L>(s[k], e[k], w[k], y[k]);
                losses[k] += loss;
                slopes[k] += slope;
            }
        }
        let mut sum = LineLoss { loss: losses.iter().sum(), slope: slopes.iter().sum() };
        let rest = start_rest.iter().zip(end_rest).zip(weights_rest).zip(labels_rest);
        for (((&s, &e), &w), &y) in rest {
            let (loss, slope) = self.term::<L>(s, e, w, y);
            sum.loss += loss;
            sum.slope += slope;
        }
        sum
    }

    #[inline(always)]
    fn term<L: Margin>(&self, start: f64, end: f64, weight: f64, label: i32) -> (f64, f64) {
        let sign = sign(label, self.positive);
        let (loss, derivative) = L::at(sign * between(start, end, self.place));
        (weight * loss, weight * sign * derivative * (end - start))
    }
}

struct FillStep<'a> {
    start: &'a [f64],
    end: &'a [f64],
    labels: &'a [i32],
    weights: &'a [f64],
    positive: i32,
    best: f64,
    cut: f64,
    loss: Loss,
    scores: &'a mut [f64],
    gradient: &'a mut [f64],
}

impl WithSimd for FillStep<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        match self.loss {
            Loss::Hinge => self.fill::<Hinge>(),
            Loss::SquaredHinge => self.fill::<SquaredHinge>(),
            Loss::Logistic => self.fill::<Logistic>(),
        }
    }
}

impl FillStep<'_> {
    #[inline(always)]
    fn fill<L: Margin>(self) {
        let Self { start, end, labels, weights, positive, best, cut, loss: _, scores, gradient } =
            self;
        let out = scores.iter_mut().zip(gradient.iter_mut());
        let rows = start.iter().zip(end).zip(weights).zip(labels);
        for ((score, gradient), (((&start, &end), &weight), &label)) in out.zip(rows) {
            *score = between(start, end, best);
            let sign = sign(label, positive);
            *gradient = weight * sign * L::at(sign * between(start, end, cut)).1;
        }
    }
}
