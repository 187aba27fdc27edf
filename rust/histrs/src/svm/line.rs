//! Losses of all rows between two points in the space of scores.

use std::ops::Range;

use ndarray::{Array2, ArrayView1, ArrayView2, ArrayViewMut2};
use pulp::{Simd, WithSimd};

use crate::error::{Error, Result, check_length};
use crate::exec::{Executor, rows_by_block};
use crate::memory;
use crate::simd::{Vectors, dispatch};
use crate::svm::loss::{Hinge, Logistic, Loss, Margin, SquaredHinge};

/// Rows of a block.
const ROWS: usize = 4096;
/// Rows whose losses are evaluated before they are added up.
const CHUNK: usize = 256;

const GAPS: Error = Error::NotInRows { name: "scores" };

/// The classes of the rows and the weights of their losses.
///
/// Problem `c` asks whether a row is of class `positive[c]`: its sign is 1 there, -1 elsewhere.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Targets<'a> {
    /// The class of each row.
    pub labels: &'a [i32],
    /// The weight of the loss of each row.
    pub weights: &'a [f64],
    /// The class that each problem is about.
    pub positive: &'a [i32],
}

impl<'a> Targets<'a> {
    /// The problems of the classes `positive`.
    #[must_use]
    pub const fn new(labels: &'a [i32], weights: &'a [f64], positive: &'a [i32]) -> Self {
        Self { labels, weights, positive }
    }

    fn part(&self, problem: usize, rows: Range<usize>) -> Part<'a> {
        Part {
            labels: &self.labels[rows.clone()],
            weights: &self.weights[rows],
            positive: self.positive[problem],
        }
    }
}

/// Scores on the line from `start` to `end`, a problem per row and a sample per column.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Line<'a> {
    /// Scores at 0.
    pub start: ArrayView2<'a, f64>,
    /// Scores at 1.
    pub end: ArrayView2<'a, f64>,
}

/// A problem's weighted loss at a point of the line, and its derivative along it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct LineLoss {
    /// `sum_i weights[i] l(y_i s_i)`.
    pub loss: f64,
    /// Its derivative in the place on the line.
    pub slope: f64,
}

/// A problem's weighted loss at some scores, and its tangent plane there.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Tangent {
    /// `sum_i weights[i] l(y_i s_i)`.
    pub loss: f64,
    /// What the plane is where all scores are 0: minus the conjugate of the loss, so that large
    /// scores cancel nothing.
    pub offset: f64,
}

/// Scores as in [`Line`], for [`step`](LineMut::step) to write over.
#[derive(Debug)]
#[non_exhaustive]
pub struct LineMut<'a> {
    /// Scores at 0.
    pub start: ArrayViewMut2<'a, f64>,
    /// Scores at 1.
    pub end: ArrayViewMut2<'a, f64>,
}

impl<'a> LineMut<'a> {
    /// The line from `start` to `end`.
    #[must_use]
    pub const fn new(start: ArrayViewMut2<'a, f64>, end: ArrayViewMut2<'a, f64>) -> Self {
        Self { start, end }
    }
}

impl<'a> Line<'a> {
    /// The line from `start` to `end`.
    #[must_use]
    pub const fn new(start: ArrayView2<'a, f64>, end: ArrayView2<'a, f64>) -> Self {
        Self { start, end }
    }

    fn check(&self, targets: &Targets<'_>) -> Result<(&'a [f64], &'a [f64])> {
        let (n_problems, n_rows) = self.start.dim();
        let cure = "give a problem per row and a sample per column";
        check_length("the number of labels", targets.labels.len(), n_rows, cure)?;
        check_length("the number of weights", targets.weights.len(), n_rows, cure)?;
        check_length("the number of classes", targets.positive.len(), n_problems, cure)?;
        check_length("the number of rows of the end", self.end.nrows(), n_problems, cure)?;
        check_length("the number of columns of the end", self.end.ncols(), n_rows, cure)?;
        match (self.start.to_slice(), self.end.to_slice()) {
            (Some(start), Some(end)) => Ok((start, end)),
            _ => Err(GAPS),
        }
    }

    /// The losses of each problem, a row, at points of its own.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when lengths disagree, [`Error::NotInRows`] for scores with gaps,
    /// [`Error::Interrupted`].
    pub fn losses(
        &self,
        exec: &Executor,
        loss: Loss,
        targets: &Targets<'_>,
        points: ArrayView2<'_, f64>,
    ) -> Result<Array2<LineLoss>> {
        let problems: Vec<usize> = (0..self.start.nrows()).collect();
        self.losses_of(exec, loss, targets, &problems, points)
    }

    /// The losses of some problems, each at a row of the points.
    pub(super) fn losses_of(
        &self,
        exec: &Executor,
        loss: Loss,
        targets: &Targets<'_>,
        problems: &[usize],
        points: ArrayView2<'_, f64>,
    ) -> Result<Array2<LineLoss>> {
        let (start, end) = self.check(targets)?;
        check_length(
            "the number of rows of the points",
            points.nrows(),
            problems.len(),
            "give one each",
        )?;
        let n_rows = self.start.ncols();
        let n_blocks = n_rows.div_ceil(ROWS);
        let parts = exec.map_blocks(n_blocks * problems.len(), |part| {
            let (problem, block) = (problems[part / n_blocks], part % n_blocks);
            let rows = block * ROWS..n_rows.min((block + 1) * ROWS);
            let scores = problem * n_rows + rows.start..problem * n_rows + rows.end;
            let (start, end) = (&start[scores.clone()], &end[scores]);
            let targets = targets.part(problem, rows);
            let points = points.row(part / n_blocks);
            Ok(dispatch(SumLosses { targets, start, end, points, loss }))
        })?;
        let mut total: Array2<LineLoss> = Array2::default(points.raw_dim());
        for (part, sums) in parts.iter().enumerate() {
            for (total, sum) in total.row_mut(part / n_blocks).iter_mut().zip(sums) {
                total.loss += sum.loss;
                total.slope += sum.slope;
            }
        }
        Ok(total)
    }
}

impl LineMut<'_> {
    /// Moves the scores at 0 to `best`, a point for each problem. Overwrites those at 1 by the
    /// derivative of the weighted loss in each score at `cut`. Returns the losses at `cut`, and the
    /// values of the planes of these derivatives at 0.
    ///
    /// # Errors
    ///
    /// As [`Line::losses`]; after an interrupt some rows have moved and some have not.
    pub fn step(
        mut self,
        exec: &Executor,
        loss: Loss,
        targets: &Targets<'_>,
        best: &[f64],
        cut: &[f64],
    ) -> Result<Vec<Tangent>> {
        Line { start: self.start.view(), end: self.end.view() }.check(targets)?;
        let n_problems = self.start.nrows();
        check_length("the number of best points", best.len(), n_problems, "give one each")?;
        check_length("the number of cuts", cut.len(), n_problems, "give one each")?;
        let n_rows = targets.labels.len();
        let (Some(start), Some(end)) = (self.start.as_slice_mut(), self.end.as_slice_mut()) else {
            return Err(GAPS);
        };
        let mut tangents = memory::filled(Tangent::default(), n_problems)?;
        let none = tangents.clone();
        let lines = rows_by_block(start, n_rows, ROWS).into_iter();
        let lines = lines.zip(rows_by_block(end, n_rows, ROWS));
        let mut blocks: Vec<_> = lines.map(|line| (line, none.clone())).collect();
        exec.for_chunks(&mut blocks, 1, |block, out| {
            for ((start, end), tangents) in out {
                let out = start.iter_mut().zip(end).zip(tangents).enumerate();
                for (problem, ((start, end), sum)) in out {
                    let rows = block * ROWS..block * ROWS + start.len();
                    let targets = targets.part(problem, rows);
                    let (best, cut) = (best[problem], cut[problem]);
                    *sum = dispatch(Move { targets, best, cut, loss, start, end });
                }
            }
            Ok(())
        })?;
        for (_, parts) in &blocks {
            for (sum, part) in tangents.iter_mut().zip(parts) {
                sum.loss += part.loss;
                sum.offset += part.offset;
            }
        }
        Ok(tangents)
    }
}

/// Classes and weights of some rows of a problem.
struct Part<'a> {
    labels: &'a [i32],
    weights: &'a [f64],
    positive: i32,
}

impl Part<'_> {
    /// Signs and weights of `rows`, to be looked at once or more.
    #[inline(always)]
    fn signed<'a>(&'a self, rows: Range<usize>, signs: &'a mut [f64; CHUNK]) -> Signed<'a> {
        let signs = &mut signs[..rows.len()];
        for (sign, &label) in signs.iter_mut().zip(&self.labels[rows.clone()]) {
            *sign = if label == self.positive { 1.0 } else { -1.0 };
        }
        Signed { signs, weights: &self.weights[rows] }
    }
}

struct Signed<'a> {
    signs: &'a [f64],
    weights: &'a [f64],
}

impl Signed<'_> {
    /// Weighted losses at a point, and their derivatives in the scores there.
    #[inline(always)]
    fn evaluate<L: Margin>(
        &self,
        start: &[f64],
        end: &[f64],
        point: f64,
        losses: &mut [f64],
        derivatives: &mut [f64],
    ) {
        let rest = 1.0 - point;
        let rows = start.iter().zip(end).zip(self.signs.iter().zip(self.weights));
        let out = losses.iter_mut().zip(derivatives);
        for ((loss, derivative), ((start, end), (sign, weight))) in out.zip(rows) {
            let (value, slope) = L::at(sign * (start * rest + end * point));
            *loss = weight * value;
            *derivative = weight * sign * slope;
        }
    }

    /// What the weighted tangents at a point are at scores of 0.
    #[inline(always)]
    fn offsets<L: Margin>(&self, start: &[f64], end: &[f64], point: f64, offsets: &mut [f64]) {
        let rest = 1.0 - point;
        let rows = start.iter().zip(end).zip(self.signs.iter().zip(self.weights));
        for (offset, ((start, end), (sign, weight))) in offsets.iter_mut().zip(rows) {
            *offset = weight * L::offset(sign * (start * rest + end * point));
        }
    }
}

/// The sums of a loss over some rows, and of its slope along the line, at some points.
struct SumLosses<'a> {
    targets: Part<'a>,
    start: &'a [f64],
    end: &'a [f64],
    points: ArrayView1<'a, f64>,
    loss: Loss,
}

impl WithSimd for SumLosses<'_> {
    type Output = Vec<LineLoss>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Vec<LineLoss> {
        match self.loss {
            Loss::Hinge => self.sum::<Hinge, S>(simd),
            Loss::SquaredHinge => self.sum::<SquaredHinge, S>(simd),
            Loss::Logistic => self.sum::<Logistic, S>(simd),
        }
    }
}

impl SumLosses<'_> {
    #[inline(always)]
    fn sum<L: Margin, S: Simd>(&self, simd: S) -> Vec<LineLoss> {
        let (mut signs, mut losses, mut slopes) = ([0.0; CHUNK], [0.0; CHUNK], [0.0; CHUNK]);
        let mut totals = vec![LineLoss::default(); self.points.len()];
        let n_rows = self.start.len();
        for first in (0..n_rows).step_by(CHUNK) {
            let rows = first..n_rows.min(first + CHUNK);
            let (start, end) = (&self.start[rows.clone()], &self.end[rows.clone()]);
            let (losses, slopes) = (&mut losses[..rows.len()], &mut slopes[..rows.len()]);
            let targets = self.targets.signed(rows, &mut signs);
            for (&point, total) in self.points.iter().zip(&mut totals) {
                targets.evaluate::<L>(start, end, point, losses, slopes);
                for (slope, (start, end)) in slopes.iter_mut().zip(start.iter().zip(end)) {
                    *slope *= end - start;
                }
                total.loss += sum(simd, losses);
                total.slope += sum(simd, slopes);
            }
        }
        totals
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

/// The scores at one point, the gradient at another, and the sums of the tangents there.
struct Move<'a> {
    targets: Part<'a>,
    best: f64,
    cut: f64,
    loss: Loss,
    start: &'a mut [f64],
    end: &'a mut [f64],
}

impl WithSimd for Move<'_> {
    type Output = Tangent;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Tangent {
        match self.loss {
            Loss::Hinge => self.make::<Hinge, S>(simd),
            Loss::SquaredHinge => self.make::<SquaredHinge, S>(simd),
            Loss::Logistic => self.make::<Logistic, S>(simd),
        }
    }
}

impl Move<'_> {
    #[inline(always)]
    fn make<L: Margin, S: Simd>(self, simd: S) -> Tangent {
        let (mut signs, mut losses, mut derivatives) = ([0.0; CHUNK], [0.0; CHUNK], [0.0; CHUNK]);
        let mut total = Tangent::default();
        let n_rows = self.start.len();
        let rest = 1.0 - self.best;
        for first in (0..n_rows).step_by(CHUNK) {
            let rows = first..n_rows.min(first + CHUNK);
            let (start, end) = (&mut self.start[rows.clone()], &mut self.end[rows.clone()]);
            let (losses, derivatives) = (&mut losses[..rows.len()], &mut derivatives[..rows.len()]);
            let targets = self.targets.signed(rows, &mut signs);
            targets.evaluate::<L>(start, end, self.cut, losses, derivatives);
            total.loss += sum(simd, losses);
            targets.offsets::<L>(start, end, self.cut, losses);
            total.offset += sum(simd, losses);
            for (start, &mut end) in start.iter_mut().zip(&mut *end) {
                *start = *start * rest + end * self.best;
            }
            end.copy_from_slice(derivatives);
        }
        total
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use ndarray::{ArrayView2, array};

    static LABELS: [i32; 3] = [0, 1, 1];
    static WEIGHTS: [f64; 3] = [1.0, 2.0, 0.5];
    static START: [f64; 3] = [0.5, 2.0, -1.0];
    static END: [f64; 3] = [1.5, 0.0, 3.0];

    fn row(scores: &[f64]) -> ArrayView2<'_, f64> {
        ArrayView2::from_shape((1, scores.len()), scores).unwrap()
    }

    fn targets<'a>() -> Targets<'a> {
        Targets { labels: &LABELS, weights: &WEIGHTS, positive: &[1] }
    }

    /// Margins are (-0.5, 2, -1) at 0, (-1, 1, 1) half way, on the corner of the hinge, and
    /// (-1.5, 0, 3) at 1.
    #[test]
    fn losses_and_slopes_of_three_rows() {
        let exec = Executor::new(1).unwrap();
        let line = Line { start: row(&START), end: row(&END) };
        let points = array![[0.0, 0.5, 1.0]];
        let cases = [
            (Loss::Hinge, [(2.5, -1.0), (2.0, 1.0), (4.5, 5.0)]),
            (Loss::SquaredHinge, [(4.25, -5.0), (4.0, 4.0), (8.25, 13.0)]),
        ];
        for (loss, expected) in cases {
            let found = line.losses(&exec, loss, &targets(), points.view()).unwrap();
            let pairs: Vec<_> = found.iter().map(|one| (one.loss, one.slope)).collect();
            assert_eq!(pairs, expected, "{loss:?}");
        }
    }

    #[test]
    fn a_logistic_loss_is_half_way_at_zero_and_a_line_far_out() {
        let exec = Executor::new(1).unwrap();
        let line = Line { start: row(&[0.0]), end: row(&[-1000.0]) };
        let targets = Targets { labels: &[3], weights: &[2.0], positive: &[3] };
        let points = array![[0.0, 1.0, -1.0]];
        let found = line.losses(&exec, Loss::Logistic, &targets, points.view()).unwrap();
        let expected = [(2.0 * 2.0_f64.ln(), 1000.0), (2000.0, 2000.0), (0.0, 0.0)];
        for (found, (loss, slope)) in found.iter().zip(expected) {
            assert!((found.loss - loss).abs() < 1e-12 * (1.0 + loss), "{found:?}");
            assert!((found.slope - slope).abs() < 1e-12 * (1.0 + slope), "{found:?}");
        }
    }

    /// Rows of two problems over more than a block, and a chunk that is not full.
    #[test]
    fn losses_over_blocks_are_their_sums_for_any_number_of_threads() {
        let n = ROWS + CHUNK + 3;
        let score = |k: usize, shift: usize| ((k * 7 + shift) % 13) as f64 - 6.0;
        let start = Array2::from_shape_fn((2, n), |(c, i)| score(i, c));
        let end = Array2::from_shape_fn((2, n), |(c, i)| score(i * 5, 3 + c));
        let labels: Vec<i32> = (0..n).map(|i| (i % 3) as i32).collect();
        let weights: Vec<f64> = (0..n).map(|i| (i % 4) as f64).collect();
        let targets = Targets { labels: &labels, weights: &weights, positive: &[0, 2] };
        let points = array![[0.25, 1.0], [0.5, -1.0]];
        let line = Line { start: start.view(), end: end.view() };
        let run = |n_threads: usize| {
            let exec = Executor::new(n_threads).unwrap();
            line.losses(&exec, Loss::SquaredHinge, &targets, points.view()).unwrap()
        };
        let found = run(1);
        for ((c, p), found) in found.indexed_iter() {
            let mut expected = LineLoss::default();
            for i in 0..n {
                let sign = if labels[i] == targets.positive[c] { 1.0 } else { -1.0 };
                let (s, e, t) = (start[[c, i]], end[[c, i]], points[[c, p]]);
                let short = f64::max(0.0, 1.0 - sign * (s + t * (e - s)));
                expected.loss += weights[i] * short * short;
                expected.slope -= 2.0 * weights[i] * sign * short * (e - s);
            }
            // Sums of multiples of 1/16 are exact in any order.
            assert_eq!(*found, expected, "problem {c}, point {p}");
        }
        for n_threads in [2, 7] {
            assert_eq!(run(n_threads), found);
        }
        let cut = [0.5, 1.0];
        let step = |n_threads: usize| {
            let exec = Executor::new(n_threads).unwrap();
            let (mut start, mut end) = (start.clone(), end.clone());
            let line = LineMut { start: start.view_mut(), end: end.view_mut() };
            let tangents = line.step(&exec, Loss::SquaredHinge, &targets, &[0.25, 0.0], &cut);
            (tangents.unwrap(), start, end)
        };
        let (tangents, moved, gradients) = step(1);
        for c in 0..2 {
            let mut expected = Tangent::default();
            for i in 0..n {
                let sign = if labels[i] == targets.positive[c] { 1.0 } else { -1.0 };
                let (s, e) = (start[[c, i]], end[[c, i]]);
                let at_cut = s + cut[c] * (e - s);
                let short = f64::max(0.0, 1.0 - sign * at_cut);
                assert_eq!(moved[[c, i]], s + [0.25, 0.0][c] * (e - s));
                assert_eq!(gradients[[c, i]], -2.0 * weights[i] * sign * short);
                expected.loss += weights[i] * short * short;
                expected.offset += weights[i] * short * short - gradients[[c, i]] * at_cut;
            }
            assert_eq!(tangents[c], expected, "problem {c}");
        }
        assert_eq!(step(7), (tangents, moved, gradients));
    }

    #[test]
    fn a_step_moves_scores_and_leaves_derivatives() {
        let exec = Executor::new(2).unwrap();
        let (mut start, mut end) = (array![START], array![END]);
        let line = LineMut { start: start.view_mut(), end: end.view_mut() };
        let tangents = line.step(&exec, Loss::Hinge, &targets(), &[0.25], &[1.0]).unwrap();
        // Of slopes 1 and -2 at margins -1.5 and 0: weights of the rows that are short.
        assert_eq!(tangents, [Tangent { loss: 4.5, offset: 3.0 }]);
        assert_eq!(start, array![[0.75, 1.5, 0.0]]);
        assert_eq!(end, array![[1.0, -2.0, 0.0]]);
    }

    #[test]
    fn lengths_and_gaps_are_looked_at() {
        let exec = Executor::new(1).unwrap();
        let line = Line { start: row(&START), end: row(&END) };
        let losses = |line: Line<'_>, targets: &Targets<'_>, points: Array2<f64>| {
            line.losses(&exec, Loss::Hinge, targets, points.view()).map(drop)
        };
        let one = || array![[0.0]];
        let short = Targets { labels: &LABELS[1..], ..targets() };
        assert!(matches!(losses(line, &short, one()), Err(Error::Shape { .. })));
        let light = Targets { weights: &WEIGHTS[1..], ..targets() };
        assert!(matches!(losses(line, &light, one()), Err(Error::Shape { .. })));
        let many = Targets { positive: &[0, 1], ..targets() };
        assert!(matches!(losses(line, &many, one()), Err(Error::Shape { .. })));
        let ends = Line { end: row(&END[1..]), ..line };
        assert!(matches!(losses(ends, &targets(), one()), Err(Error::Shape { .. })));
        let two = array![[0.0], [1.0]];
        assert!(matches!(losses(line, &targets(), two), Err(Error::Shape { .. })));
        let wide = array![[0.5, 2.0, -1.0], [0.0, 0.0, 0.0]].reversed_axes();
        let gaps = Line { start: wide.slice(ndarray::s![..;2, ..]), ..line };
        let twice = Targets { positive: &[1, 0], ..targets() };
        let gaps = Line { end: gaps.start, ..gaps };
        let cut = Targets { labels: &[0, 1], weights: &[1.0, 1.0], ..twice };
        assert!(matches!(losses(gaps, &cut, array![[0.0], [0.0]]), Err(Error::NotInRows { .. })));
        let none = Targets { labels: &[], weights: &[], positive: &[1] };
        let nothing = Line { start: row(&[]), end: row(&[]) };
        let found = nothing.losses(&exec, Loss::Hinge, &none, one().view()).unwrap();
        assert_eq!(found, array![[LineLoss::default()]]);
    }
}
