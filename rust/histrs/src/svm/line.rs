//! Losses of all rows between two points in the space of scores.

use std::ops::Range;

use ndarray::{Array2, ArrayView2};
use pulp::{Simd, WithSimd};

use crate::error::{Error, Result, check_length};
use crate::exec::{Executor, rows_by_block};
use crate::simd::{Element, dispatch};
use crate::svm::loss::{Hinge, Logistic, Loss, Margin, SquaredHinge};

/// Rows of a block.
const ROWS: usize = 4096;
/// Rows whose losses are evaluated before they are added up.
const CHUNK: usize = 256;

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

impl<'a> Targets<'a> {
    fn part(
        &self,
        start: &'a [f64],
        end: &'a [f64],
        problem: usize,
        rows: Range<usize>,
    ) -> Part<'a> {
        let first = problem * self.labels.len();
        let columns = first + rows.start..first + rows.end;
        Part {
            start: &start[columns.clone()],
            end: &end[columns],
            labels: &self.labels[rows.clone()],
            weights: &self.weights[rows],
            positive: self.positive[problem],
        }
    }
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
            let part = targets.part(start, end, problem, rows);
            Ok(dispatch(SumLosses { part, place: places[problem], loss }))
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
        check_length("the number of cuts", cut.len(), n_problems, "give one each")?;
        let n_rows = targets.labels.len();
        let mut scores = Array2::zeros(self.start.raw_dim());
        let mut gradient = Array2::zeros(self.start.raw_dim());
        let mut losses = vec![0.0; n_problems];
        if let (Some(scores), Some(gradient)) = (scores.as_slice_mut(), gradient.as_slice_mut()) {
            let scores = rows_by_block(scores, n_rows, ROWS);
            let gradient = rows_by_block(gradient, n_rows, ROWS);
            let none = vec![0.0; n_problems];
            let mut blocks: Vec<_> =
                scores.into_iter().zip(gradient).map(|out| (out, none.clone())).collect();
            exec.for_chunks(&mut blocks, 1, |block, out| {
                for ((scores, gradient), losses) in out {
                    let out = scores.iter_mut().zip(gradient).zip(losses).enumerate();
                    for (problem, ((scores, gradient), sum)) in out {
                        let rows = block * ROWS..block * ROWS + scores.len();
                        let part = targets.part(start, end, problem, rows);
                        let (best, cut) = (best[problem], cut[problem]);
                        *sum = dispatch(FillStep { part, best, cut, loss, scores, gradient });
                    }
                }
                Ok(())
            })?;
            for (_, parts) in &blocks {
                losses.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
            }
        }
        Ok(Step { best: scores, losses, gradient })
    }
}

/// Scores, classes and weights of some rows of a problem.
struct Part<'a> {
    start: &'a [f64],
    end: &'a [f64],
    labels: &'a [i32],
    weights: &'a [f64],
    positive: i32,
}

impl Part<'_> {
    fn slice(&self, rows: Range<usize>) -> Part<'_> {
        Part {
            start: &self.start[rows.clone()],
            end: &self.end[rows.clone()],
            labels: &self.labels[rows.clone()],
            weights: &self.weights[rows],
            positive: self.positive,
        }
    }

    /// Weighted losses, and their derivatives in the scores.
    #[inline(always)]
    fn evaluate<L: Margin>(&self, place: f64, losses: &mut [f64], derivatives: &mut [f64]) {
        let rest = 1.0 - place;
        let positive = self.positive;
        let rows = self.start.iter().zip(self.end).zip(self.labels.iter().zip(self.weights));
        let out = losses.iter_mut().zip(derivatives);
        for ((loss, derivative), ((start, end), (&label, &weight))) in out.zip(rows) {
            let sign = if label == positive { 1.0 } else { -1.0 };
            let (value, slope) = L::at(sign * (start * rest + end * place));
            *loss = weight * value;
            *derivative = weight * sign * slope;
        }
    }
}

/// The sum of a loss over some rows, and of its slope along the line.
struct SumLosses<'a> {
    part: Part<'a>,
    place: f64,
    loss: Loss,
}

impl WithSimd for SumLosses<'_> {
    type Output = LineLoss;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> LineLoss {
        match self.loss {
            Loss::Hinge => self.sum::<Hinge, S>(simd),
            Loss::SquaredHinge => self.sum::<SquaredHinge, S>(simd),
            Loss::Logistic => self.sum::<Logistic, S>(simd),
        }
    }
}

impl SumLosses<'_> {
    #[inline(always)]
    fn sum<L: Margin, S: Simd>(&self, simd: S) -> LineLoss {
        let (mut losses, mut derivatives) = ([0.0; CHUNK], [0.0; CHUNK]);
        let mut total = LineLoss { loss: 0.0, slope: 0.0 };
        let n_rows = self.part.start.len();
        for first in (0..n_rows).step_by(CHUNK) {
            let part = self.part.slice(first..n_rows.min(first + CHUNK));
            let losses = &mut losses[..part.start.len()];
            let derivatives = &mut derivatives[..part.start.len()];
            part.evaluate::<L>(self.place, losses, derivatives);
            let ends = part.start.iter().zip(part.end);
            for (derivative, (start, end)) in derivatives.iter_mut().zip(ends) {
                *derivative *= end - start;
            }
            total.loss += sum(simd, losses);
            total.slope += sum(simd, derivatives);
        }
        total
    }
}

#[inline(always)]
fn sum<S: Simd>(simd: S, values: &[f64]) -> f64 {
    let (vectors, rest) = f64::vectors::<S>(values);
    let mut sums = f64::splat(simd, 0.0);
    for &vector in vectors {
        sums = f64::add(simd, sums, vector);
    }
    f64::reduce_sum(simd, sums) + rest.iter().sum::<f64>()
}

/// The scores at one place, the gradient at another, and the sum of the losses there.
struct FillStep<'a> {
    part: Part<'a>,
    best: f64,
    cut: f64,
    loss: Loss,
    scores: &'a mut [f64],
    gradient: &'a mut [f64],
}

impl WithSimd for FillStep<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f64 {
        match self.loss {
            Loss::Hinge => self.fill::<Hinge, S>(simd),
            Loss::SquaredHinge => self.fill::<SquaredHinge, S>(simd),
            Loss::Logistic => self.fill::<Logistic, S>(simd),
        }
    }
}

impl FillStep<'_> {
    #[inline(always)]
    fn fill<L: Margin, S: Simd>(self, simd: S) -> f64 {
        let mut losses = [0.0; CHUNK];
        let mut total = 0.0;
        let n_rows = self.scores.len();
        let rest = 1.0 - self.best;
        for first in (0..n_rows).step_by(CHUNK) {
            let rows = first..n_rows.min(first + CHUNK);
            let part = self.part.slice(rows.clone());
            let losses = &mut losses[..rows.len()];
            part.evaluate::<L>(self.cut, losses, &mut self.gradient[rows.clone()]);
            total += sum(simd, losses);
            let ends = part.start.iter().zip(part.end);
            for (score, (start, end)) in self.scores[rows].iter_mut().zip(ends) {
                *score = start * rest + end * self.best;
            }
        }
        total
    }
}
