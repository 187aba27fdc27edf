//! The least value of the regularised losses on a line, of each problem for itself.

use ndarray::{Array2, ArrayView1, ArrayView2, aview1};

use crate::error::{Result, check_length};
use crate::exec::Executor;
use crate::svm::line::{Line, LineLoss, Targets};
use crate::svm::loss::Loss;

/// A search ends where the slope is this part of that at the start.
const FLAT: f64 = 0.05;
/// Several points at a time cost little more than one: the scores are read once.
const FIRST: [f64; 6] = [0.0, 1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0, 1.0];
const ROUNDS: usize = 2;
/// Rounds of a search that has found nothing below its start.
const MOST_ROUNDS: usize = 16;

/// The regulariser `alpha |(1 - t) u + t v|^2 / 2` on a line from a model `u` to a model `v`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LineNorm {
    /// `alpha |u|^2`.
    pub start: f64,
    /// `alpha <u, v>`.
    pub mixed: f64,
    /// `alpha |v|^2`.
    pub end: f64,
}

impl LineNorm {
    /// The regulariser of the products of the models at the ends, times `alpha`.
    #[must_use]
    pub const fn new(start: f64, mixed: f64, end: f64) -> Self {
        Self { start, mixed, end }
    }

    fn add_to(&self, sum: &mut LineLoss, point: f64) {
        let rest = 1.0 - point;
        let (before, after) = (rest * self.start, point * self.end);
        sum.loss += (rest * before + point * after) / 2.0 + rest * point * self.mixed;
        sum.slope += (rest - point) * self.mixed + after - before;
    }
}

/// The least value that a search has seen, and where.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LineMinimum {
    /// The place on the line, from 0 to 1.
    pub point: f64,
    /// The objective there.
    pub value: f64,
}

impl Line<'_> {
    /// Goes to nearly the least of each problem's regulariser plus losses on the line.
    ///
    /// `values` are the objectives at 0, which no result is above. A search looks at six points,
    /// and then at three more between the two where the slope changes its sign. These are the
    /// minimum of a parabola of the slopes at both, the crossing of the tangents at both, and the
    /// middle. The search ends if the slope is a twentieth of its value at 0. It ends after two
    /// such rounds if it has found less than at 0: the least value may be as near to 0 as doubles
    /// are.
    ///
    /// # Errors
    ///
    /// As [`Line::losses`].
    pub fn minimise(
        &self,
        exec: &Executor,
        loss: Loss,
        targets: &Targets<'_>,
        norms: &[LineNorm],
        values: &[f64],
    ) -> Result<Vec<LineMinimum>> {
        let n_problems = self.start.nrows();
        check_length("the number of norms", norms.len(), n_problems, "give one each")?;
        check_length("the number of values at 0", values.len(), n_problems, "give one each")?;
        search(values, |problems, points| {
            let mut sums = self.losses_of(exec, loss, targets, problems, points)?;
            for ((k, p), sum) in sums.indexed_iter_mut() {
                norms[problems[k]].add_to(sum, points[[k, p]]);
            }
            Ok(sums)
        })
    }
}

/// Minimises convex functions on [0, 1]. `at` tells values and slopes of some of them, each at
/// points of its own in ascending order.
fn search(
    values: &[f64],
    mut at: impl FnMut(&[usize], ArrayView2<'_, f64>) -> Result<Array2<LineLoss>>,
) -> Result<Vec<LineMinimum>> {
    let mut searches: Vec<Search> = values.iter().map(|&value| Search::new(value)).collect();
    let mut pending: Vec<usize> = (0..values.len()).collect();
    let first = Array2::from_shape_fn((pending.len(), FIRST.len()), |(_, p)| FIRST[p]);
    let found = at(&pending, first.view())?;
    for ((search, points), found) in searches.iter_mut().zip(first.rows()).zip(found.rows()) {
        search.begin(found[0]);
        search.narrow(points, found);
    }
    for round in 0..MOST_ROUNDS {
        pending.retain(|&problem| searches[problem].goes_on(round));
        if pending.is_empty() {
            break;
        }
        let mut points = Array2::zeros((pending.len(), 3));
        for (&problem, mut points) in pending.iter().zip(points.rows_mut()) {
            points.assign(&aview1(&searches[problem].next_points()));
        }
        let found = at(&pending, points.view())?;
        for ((&problem, points), found) in pending.iter().zip(points.rows()).zip(found.rows()) {
            searches[problem].narrow(points, found);
        }
    }
    Ok(searches.iter().map(|search| search.least).collect())
}

/// An end of the interval that is left, and the function there.
#[derive(Clone, Copy, Default)]
struct End {
    point: f64,
    at: LineLoss,
}

/// Where the minimum of one function is.
struct Search {
    /// The value at 0.
    value: f64,
    least: LineMinimum,
    /// Where the function falls.
    low: End,
    /// Where it rises.
    high: End,
    /// A slope that is flat.
    flat: f64,
    done: bool,
}

impl Search {
    fn new(value: f64) -> Self {
        let least = LineMinimum { point: 0.0, value };
        Self { value, least, low: End::default(), high: End::default(), flat: 0.0, done: false }
    }

    fn begin(&mut self, start: LineLoss) {
        self.flat = FLAT * start.slope.abs();
        self.done = start.slope >= 0.0;
    }

    fn goes_on(&self, round: usize) -> bool {
        !self.done && (round < ROUNDS || self.least.value >= self.value)
    }

    /// Three points of the interval, in ascending order.
    fn next_points(&self) -> [f64; 3] {
        let (low, high) = (self.low, self.high);
        let width = high.point - low.point;
        let turn = high.at.slope - low.at.slope;
        let parabola = -low.at.slope / turn;
        let tangents = (high.at.slope - (high.at.loss - low.at.loss) / width) / turn;
        // Of values that cancel a rounding is left, and of infinite ones NaN.
        let tangents = if tangents.is_nan() { 0.0 } else { tangents };
        let tangents = tangents.clamp(f64::EPSILON, 1.0 - f64::EPSILON);
        let mut parts = [parabola, tangents, 0.5];
        parts.sort_by(f64::total_cmp);
        parts.map(|part| low.point + width * part)
    }

    fn narrow(&mut self, points: ArrayView1<'_, f64>, found: ArrayView1<'_, LineLoss>) {
        if self.done {
            return;
        }
        for (&point, at) in points.iter().zip(found) {
            if at.loss < self.least.value {
                self.least = LineMinimum { point, value: at.loss };
            }
            // Flat above the start is beyond the minimum.
            self.done |= at.slope.abs() <= self.flat && at.loss < self.value;
        }
        let n_falling = found.iter().filter(|at| at.slope <= 0.0).count();
        if n_falling > 0 {
            self.low = End { point: points[n_falling - 1], at: found[n_falling - 1] };
        }
        if n_falling < points.len() {
            self.high = End { point: points[n_falling], at: found[n_falling] };
        } else if self.high.at.slope <= 0.0 {
            // It falls as far as 1.
            self.done = true;
        }
        self.done |= self.low.point == self.high.point;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::error::Error;
    use ndarray::{Array1, array};
    use proptest::prelude::*;

    /// A value and a slope at a point.
    type Function = fn(f64) -> (f64, f64);

    const NEAR: Function = |t| (200.0 * (t - 0.245).powi(2), 400.0 * (t - 0.245));
    const LEFT: Function = |t| ((t + 0.1).powi(2), 2.0 * (t + 0.1));
    const START: Function = |t| (t * t, 2.0 * t);
    const FALLS: Function = |t| ((t - 2.0).powi(2), 2.0 * (t - 2.0));
    const KINK: Function = |t| ((t - 0.7).abs(), if t < 0.7 { -1.0 } else { 1.0 });
    /// Beyond its kink the slope is a twentieth of that at the start.
    const RAMP: Function = |t| (f64::max(-20.0 * t, t - 4.2), if t < 0.2 { -20.0 } else { 1.0 });

    /// What is found, and how many points each function was asked for.
    fn minima(functions: &[Function]) -> (Vec<LineMinimum>, Vec<usize>) {
        let mut n_points = vec![0; functions.len()];
        let values: Vec<f64> = functions.iter().map(|function| function(0.0).0).collect();
        let found = search(&values, |problems, points| {
            for (&problem, points) in problems.iter().zip(points.rows()) {
                n_points[problem] += points.len();
                assert!(points.windows(2).into_iter().all(|pair| pair[0] <= pair[1]));
            }
            Ok(Array2::from_shape_fn(points.raw_dim(), |(k, p)| {
                let (loss, slope) = functions[problems[k]](points[[k, p]]);
                LineLoss { loss, slope }
            }))
        });
        (found.unwrap(), n_points)
    }

    #[test]
    fn a_search_ends_where_it_is_flat() {
        let cases: [(&[Function], &[f64], &[usize]); 7] = [
            (&[NEAR], &[0.25], &[6]),
            (&[LEFT], &[0.0], &[6]),
            (&[START], &[0.0], &[6]),
            (&[FALLS], &[1.0], &[6]),
            (&[RAMP], &[0.25], &[6]),
            (&[KINK], &[0.7], &[12]),
            (&[NEAR, LEFT, KINK, RAMP], &[0.25, 0.0, 0.7, 0.25], &[6, 6, 12, 6]),
        ];
        for (functions, points, asked) in cases {
            let (found, n_points) = minima(functions);
            let (at, values): (Vec<_>, Vec<_>) =
                found.iter().map(|least| (least.point, least.value)).unzip();
            assert_eq!((at.as_slice(), n_points.as_slice()), (points, asked));
            let expected: Vec<f64> =
                functions.iter().zip(points).map(|(function, &t)| function(t).0).collect();
            assert_eq!(values, expected);
        }
    }

    /// What falls as far as `scale`, and then rises: a kink, or a parabola.
    #[test]
    fn a_minimum_is_found_however_near_to_the_start() {
        for scale in [1e-3, 1e-9, 1e-30, 1e-100] {
            let kink = |t: f64| LineLoss {
                loss: (1.0 - t / scale).max(t),
                slope: if t < scale { -1.0 / scale } else { 1.0 },
            };
            let parabola = |t: f64| LineLoss {
                loss: (1.0 - t / scale).powi(2),
                slope: -2.0 * (1.0 - t / scale) / scale,
            };
            let found = search(&[1.0], |_, points| Ok(points.mapv(kink))).unwrap()[0];
            assert!(found.value < 1.0, "{scale} {found:?}");
            let found = search(&[1.0], |_, points| Ok(points.mapv(parabola))).unwrap()[0];
            assert!(found.value < 1e-12, "{scale} {found:?}");
        }
        // So steep beyond its minimum that neither parabola nor tangents come near to it.
        let scale = 0.004;
        let steep = |t: f64| LineLoss {
            loss: 1.0 - t + scale / 30.0 * (t / scale).powi(30),
            slope: (t / scale).powi(29) - 1.0,
        };
        let found = search(&[1.0], |_, points| Ok(points.mapv(steep))).unwrap()[0];
        assert!(found.value < 0.997, "{found:?}");
    }

    /// Losses overflow beyond a point: they are infinite and so are their slopes, or these are NaN.
    #[test]
    fn a_search_comes_back_from_what_overflows() {
        for slope in [f64::INFINITY, f64::NAN] {
            let at = |t: f64| {
                if t > 1e-40 {
                    return LineLoss { loss: f64::INFINITY, slope };
                }
                LineLoss { loss: 1.0 - t, slope: -1.0 }
            };
            let found = search(&[1.0], |_, points| Ok(points.mapv(at))).unwrap()[0];
            assert!(found.point <= 1e-40 && found.value <= 1.0);
        }
    }

    proptest! {
        #[test]
        fn a_search_never_climbs_and_nears_the_minimum(
            centre in -0.5..1.5, curve in 0.0..5.0, kink in 0.0..1.0
        ) {
            let at = |t: f64| {
                let (right, away): (f64, f64) = (t - kink, t - centre);
                let slope = 2.0 * curve * away + if right >= 0.0 { 1.0 } else { -1.0 };
                LineLoss { loss: curve * away * away + right.abs(), slope }
            };
            let start = at(0.0).loss;
            let found = search(&[start], |_, points| Ok(points.mapv(at))).unwrap()[0];
            prop_assert_eq!(found.value, at(found.point).loss);
            prop_assert!(found.value <= start);
            let grid = Array1::linspace(0.0, 1.0, 1001).mapv(|t| at(t).loss);
            let lowest = grid.iter().copied().fold(f64::INFINITY, f64::min);
            // Two rounds do not come as near to a kink that is close to the start.
            prop_assert!(kink < 0.1 || found.value - lowest <= 0.1 * (start - lowest));
        }
    }

    /// The objective of a problem is written out, so that the least of it on a fine grid is known.
    #[test]
    fn what_is_searched_is_the_regularised_loss() {
        let exec = Executor::new(1).unwrap();
        let (start, end) = (array![[0.0, 0.0], [0.5, 0.0]], array![[2.0, -1.0], [1.0, 3.0]]);
        let line = Line::new(start.view(), end.view());
        let targets = Targets::new(&[0, 1], &[1.0, 2.0], &[0, 1]);
        let norms = [LineNorm::new(0.0, 0.0, 4.0), LineNorm::new(1.0, 0.5, 2.0)];
        let objective = |problem: usize, t: f64| {
            let LineNorm { start: uu, mixed: uv, end: vv } = norms[problem];
            let rest = 1.0 - t;
            let mut value = (rest * rest * uu + 2.0 * rest * t * uv + t * t * vv) / 2.0;
            for (i, weight) in [1.0, 2.0].into_iter().enumerate() {
                let sign = if i == problem { 1.0 } else { -1.0 };
                let score = rest * start[[problem, i]] + t * end[[problem, i]];
                value += weight * f64::max(0.0, 1.0 - sign * score).powi(2);
            }
            value
        };
        let at_start = [objective(0, 0.0), objective(1, 0.0)];
        let found = line.minimise(&exec, Loss::SquaredHinge, &targets, &norms, &at_start).unwrap();
        for (problem, least) in found.iter().enumerate() {
            let exact = objective(problem, least.point);
            assert!((least.value - exact).abs() < 1e-12, "{least:?} {exact}");
            let lowest = (0..=1000)
                .map(|k| objective(problem, f64::from(k) / 1000.0))
                .fold(f64::INFINITY, f64::min);
            assert!(least.value - lowest <= 0.05 * (at_start[problem] - lowest), "{least:?}");
            assert!(least.value < at_start[problem]);
        }
        let one = line.minimise(&exec, Loss::Hinge, &targets, &norms[1..], &at_start);
        assert!(matches!(one, Err(Error::Shape { .. })));
        let one = line.minimise(&exec, Loss::Hinge, &targets, &norms, &at_start[1..]);
        assert!(matches!(one, Err(Error::Shape { .. })));
    }

    /// The slope is the derivative of the value.
    #[test]
    fn the_regulariser_has_its_slope() {
        let norm = LineNorm::new(1.5, -0.25, 4.0);
        let at = |point: f64| {
            let mut sum = LineLoss::default();
            norm.add_to(&mut sum, point);
            sum
        };
        for point in [0.0, 0.3, 1.0] {
            let rise = (at(point + 1e-6).loss - at(point - 1e-6).loss) / 2e-6;
            assert!((rise - at(point).slope).abs() < 1e-8, "{point}");
        }
        assert_eq!((at(0.0).loss, at(1.0).loss), (0.75, 2.0));
    }
}
