//! Block coordinate descent over a path of penalties.

use ndarray::{Array2, Array3, ArrayView2};

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::memory;
use crate::simd::vectorized;
use crate::stop::{Stop, with_fields, with_stop};

use super::block::minimise_block;
use super::extrapolation::{WINDOW, extrapolate};
use super::gap::{Values, values};
use super::problem::{LassoProblem, Penalty, Target};

/// How [`group_lasso_path`] looks for solutions.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct LassoParameters<'a> {
    /// The coefficients to start from, a row for each target; zeros if there are none.
    pub start: Option<ArrayView2<'a, f64>>,
    /// At a duality gap, as a fraction of `y^T y / n`, or after so many passes over the coefficients.
    pub stop: Stop,
}

impl Default for LassoParameters<'_> {
    /// From zeros, to a gap of 1e-6 in at most 10,000 passes.
    fn default() -> Self {
        Self { start: None, stop: Stop::new(1e-6, 10_000) }
    }
}

with_fields!(LassoParameters<'a>: with_start(start: Option<ArrayView2<'a, f64>>));
with_stop!(LassoParameters<'a>);

/// The solutions of [`group_lasso_path`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LassoPath {
    /// Coefficients, of shape `(penalties, targets, features)`.
    pub coefficients: Array3<f64>,
    /// Duality gaps, of shape `(penalties, targets)`.
    pub gaps: Array2<f64>,
    /// Passes over the coefficients, of the same shape.
    pub n_iter: Array2<i64>,
}

/// Minimises `|y - X w|^2 / (2 n) + sum_g l1 weight_g |w_g| + l2 |w|^2 / 2` for each target and
/// each penalty, from the solution for the penalty before it.
///
/// Each pass minimises over group after group, exactly. A changed coefficient costs `D`
/// multiplications, one that stays the same none. Every few passes the iterates are extrapolated,
/// and the result is kept if the objective falls. The duality gap is computed from a fresh
/// residual, without the rounding errors of the passes. It bounds how far the objective is above
/// its minimum. Coefficients are not negative where [`Penalty::positive`] says so.
///
/// # Errors
///
/// [`Error::Shape`] when `start` has not one row per target and one column per feature.
/// [`Error::Parameter`] when a penalty is not positive, or coefficients must not be negative and a
/// group has two features or the start has a negative one. [`Error::Interrupted`].
///
/// # Examples
///
/// ```
/// use histrs::{Executor, moments::{LassoParameters, LassoProblem, Penalty, group_lasso_path}};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let (gram, cross, y_squares) = (array![[1.0, 0.0], [0.0, 1.0]], array![[3.0, -0.5]], array![10.0]);
/// let problem = LassoProblem::new(
///     gram.view(), cross.view(), y_squares.view(), &[1, 2], &[1.0, 1.0],
/// )?;
/// let penalties = [Penalty::new(1.0)];
/// let path = group_lasso_path(&exec, &problem, &penalties, LassoParameters::default())?;
/// assert_eq!(path.coefficients.into_raw_vec_and_offset().0, [2.0, 0.0]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn group_lasso_path(
    exec: &Executor,
    problem: &LassoProblem<'_>,
    penalties: &[Penalty],
    parameters: LassoParameters<'_>,
) -> Result<LassoPath> {
    let (n_targets, n_features) = (problem.n_targets(), problem.n_features());
    let zeros;
    let start = match parameters.start {
        Some(start) => start,
        None => {
            zeros = memory::zero_matrix((n_targets, n_features))?;
            zeros.view()
        }
    };
    let cure = "give one row per target and one column per feature";
    check_length("the number of rows of the start", start.nrows(), n_targets, cure)?;
    check_length("the number of columns of the start", start.ncols(), n_features, cure)?;
    for penalty in penalties {
        let valid = penalty.l1 > 0.0
            && penalty.l2 >= 0.0
            && penalty.l1.is_finite()
            && penalty.l2.is_finite();
        if !valid {
            let expected = "l1 is positive and l2 non-negative";
            return Err(Error::parameter("penalty", penalty.l1, expected));
        }
        if penalty.positive && (!problem.is_ungrouped() || start.iter().any(|&w| w < 0.0)) {
            let expected = "groups of one feature, and a start that is not negative";
            return Err(Error::parameter("positive", 1.0, expected));
        }
    }
    let solutions = exec.map_blocks(n_targets, |target| {
        let mut descent = Descent::new(problem.target(target)?, start.row(target).to_vec());
        penalties
            .iter()
            .map(|&penalty| descent.run(exec, penalty, parameters.stop))
            .collect::<Result<Vec<_>>>()
    })?;
    let mut path = LassoPath {
        coefficients: memory::zeros((penalties.len(), n_targets, n_features))?,
        gaps: memory::zeros((penalties.len(), n_targets))?,
        n_iter: memory::zeros((penalties.len(), n_targets))?,
    };
    for (target, solutions) in solutions.into_iter().enumerate() {
        for (k, solution) in solutions.into_iter().enumerate() {
            for (out, w) in
                path.coefficients.slice_mut(ndarray::s![k, target, ..]).iter_mut().zip(solution.w)
            {
                *out = w;
            }
            path.gaps[[k, target]] = solution.gap;
            path.n_iter[[k, target]] = i64::try_from(solution.n_iter).unwrap_or(i64::MAX);
        }
    }
    Ok(path)
}

struct Solution {
    w: Vec<f64>,
    gap: f64,
    n_iter: usize,
}

/// The coefficients of one target.
struct Descent<'a> {
    target: Target<'a>,
    w: Vec<f64>,
    /// `v - G w`.
    residual: Vec<f64>,
}

impl<'a> Descent<'a> {
    fn new(target: Target<'a>, w: Vec<f64>) -> Self {
        let residual = residual_of(&target, &w);
        Self { target, w, residual }
    }

    fn run(&mut self, exec: &Executor, penalty: Penalty, stop: Stop) -> Result<Solution> {
        let tolerance = stop.tol * self.target.y_square;
        let mut best_dual = 0.0_f64;
        let mut iterates = vec![self.w.clone()];
        let mut n_iter = 0;
        loop {
            let Values { primal, dual } = values(&self.target, penalty, &self.w, &self.residual);
            best_dual = best_dual.max(dual);
            let gap = (primal - best_dual).max(0.0);
            if gap <= tolerance || n_iter >= stop.max_iter {
                return Ok(Solution { w: self.w.clone(), gap, n_iter });
            }
            while iterates.len() <= WINDOW && n_iter < stop.max_iter {
                exec.check()?;
                self.pass(penalty);
                iterates.push(self.w.clone());
                n_iter += 1;
            }
            self.residual = residual_of(&self.target, &self.w);
            self.accelerate(penalty, &iterates);
            iterates.clear();
            iterates.push(self.w.clone());
        }
    }

    /// Minimises over group after group.
    fn pass(&mut self, penalty: Penalty) {
        let Self { target, w, residual } = self;
        let mut block = Vec::new();
        for (group, weight) in target.groups() {
            let start = group.start;
            block.clear();
            block.extend(group.clone().map(|i| residual[i] + target.curvature(i) * w[i]));
            let curvature = |k: usize| target.curvature(start + k) + penalty.l2;
            minimise_block(curvature, penalty.l1 * weight, penalty.positive, &mut block);
            for (i, &new) in group.zip(&block) {
                let step = new - w[i];
                if step != 0.0 {
                    w[i] = new;
                    subtract(step, target.gram_row(i), residual);
                }
            }
        }
    }

    /// Goes to the extrapolation of the iterates if the objective is lower there.
    fn accelerate(&mut self, penalty: Penalty, iterates: &[Vec<f64>]) {
        let Some(mut w) = extrapolate(iterates) else { return };
        if penalty.positive {
            w.iter_mut().for_each(|w| *w = w.max(0.0));
        }
        let residual = residual_of(&self.target, &w);
        let ours = values(&self.target, penalty, &self.w, &self.residual).primal;
        if values(&self.target, penalty, &w, &residual).primal < ours {
            (self.w, self.residual) = (w, residual);
        }
    }
}

/// `v - G w`.
fn residual_of(target: &Target<'_>, w: &[f64]) -> Vec<f64> {
    let mut residual = target.v.to_vec();
    for (i, &w) in w.iter().enumerate() {
        if w != 0.0 {
            subtract(w, target.gram_row(i), &mut residual);
        }
    }
    residual
}

vectorized!(
    /// `from -= factor * row`.
    fn subtract(factor: f64, row: &[f64], from: &mut [f64]) {
        for (from, row) in from.iter_mut().zip(row) {
            *from -= factor * row;
        }
    }
);

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ndarray::{Array1, array};

    use super::*;

    const ENDS: [i64; 3] = [1, 3, 4];
    const WEIGHTS: [f64; 3] = [1.0, 0.5, 2.0];

    fn moments() -> (Array2<f64>, Array2<f64>, Array1<f64>) {
        let gram = array![
            [2.0, 0.3, -0.2, 0.5],
            [0.3, 1.0, 0.0, 0.4],
            [-0.2, 0.0, 3.0, 0.1],
            [0.5, 0.4, 0.1, 0.5]
        ];
        (gram, array![[1.0, -0.8, 0.6, 0.3], [-0.2, 0.9, 1.5, -0.4]], array![4.0, 9.0])
    }

    /// Proximal gradient steps, very many of them.
    fn slowly(gram: &Array2<f64>, v: &[f64], penalty: Penalty) -> Vec<f64> {
        let step = 0.2;
        let mut w = Array1::zeros(4);
        for _ in 0..20_000 {
            let gradient = gram.dot(&w) - Array1::from(v.to_vec()) + penalty.l2 * &w;
            w = &w - &(step * gradient);
            for (group, weight) in [0..1, 1..3, 3..4].into_iter().zip(WEIGHTS) {
                let mut part = w.slice_mut(ndarray::s![group]);
                let norm = part.dot(&part).sqrt();
                let least = step * penalty.l1 * weight;
                part *= if norm > least { 1.0 - least / norm } else { 0.0 };
            }
        }
        w.to_vec()
    }

    #[test]
    fn every_solution_of_a_path_is_that_of_small_steps() {
        let (gram, cross, squares) = moments();
        let problem =
            LassoProblem::new(gram.view(), cross.view(), squares.view(), &ENDS, &WEIGHTS).unwrap();
        let penalties = [4.0, 0.5, 0.1, 1e-3].map(|l1| Penalty::new(l1).with_l2(0.3 * l1));
        let parameters = LassoParameters::default().with_tol(1e-14);
        let exec = Executor::new(2).unwrap();
        let start = Array2::zeros((2, 4));
        let path = group_lasso_path(
            &exec,
            &problem,
            &penalties,
            parameters.with_start(Some(start.view())),
        )
        .unwrap();
        for (k, &penalty) in penalties.iter().enumerate() {
            for (target, v) in cross.rows().into_iter().enumerate() {
                let want = slowly(&gram, v.as_slice().unwrap(), penalty);
                for (i, want) in want.into_iter().enumerate() {
                    let found = path.coefficients[[k, target, i]];
                    assert!((found - want).abs() < 1e-9, "{k} {target} {i}: {found} {want}");
                }
                assert!(path.gaps[[k, target]] <= 1e-14 * squares[target]);
            }
        }
        // The largest penalty leaves nothing, and takes no pass.
        assert!(path.coefficients.slice(ndarray::s![0, .., ..]).iter().all(|&w| w == 0.0));
        assert_eq!(path.n_iter[[0, 0]], 0);
    }

    /// At the minimum the gradient is `l1` where a coefficient is positive, and no less where it is
    /// zero.
    #[test]
    fn coefficients_that_must_not_be_negative_are_optimal() {
        let (gram, cross, squares) = moments();
        let with = |ends: &[i64], start: f64| {
            let weights = vec![1.0; ends.len()];
            let problem =
                LassoProblem::new(gram.view(), cross.view(), squares.view(), ends, &weights)
                    .unwrap();
            let penalty = [Penalty::new(0.01).with_l2(0.1).with_positive(true)];
            let parameters = LassoParameters::default().with_tol(1e-15);
            let start = Array2::from_elem((2, 4), start);
            let exec = Executor::new(1).unwrap();
            group_lasso_path(&exec, &problem, &penalty, parameters.with_start(Some(start.view())))
        };
        let path = with(&[1, 2, 3, 4], 0.0).unwrap();
        for target in 0..2 {
            let w: Array1<f64> = path.coefficients.slice(ndarray::s![0, target, ..]).to_owned();
            let rho = &cross.row(target) - &gram.dot(&w) - 0.1 * &w;
            assert!(w.iter().any(|&w| w == 0.0) && w.iter().any(|&w| w > 0.0), "{w}");
            for (w, rho) in w.iter().zip(rho) {
                assert!(if *w > 0.0 { (rho - 0.01).abs() < 1e-7 } else { rho <= 0.01 + 1e-7 });
            }
        }
        for (ends, start) in [(&[2, 3, 4][..], 0.0), (&[1, 2, 3, 4], -1.0)] {
            let error = with(ends, start);
            assert!(matches!(error, Err(Error::Parameter { name: "positive", .. })));
        }
    }

    #[test]
    fn a_descent_that_is_stopped_says_how_far_it_may_be() {
        let (gram, cross, squares) = moments();
        let problem =
            LassoProblem::new(gram.view(), cross.view(), squares.view(), &ENDS, &WEIGHTS).unwrap();
        let exec = Executor::new(1).unwrap();
        let penalty = [Penalty::new(0.1)];
        let start = Array2::zeros((2, 4));
        let path = |max_iter| {
            let parameters = LassoParameters::default().with_tol(1e-15).with_max_iter(max_iter);
            group_lasso_path(&exec, &problem, &penalty, parameters.with_start(Some(start.view())))
                .unwrap()
        };
        let (early, late) = (path(1), path(10_000));
        let objective = |path: &LassoPath, target: usize| {
            let w: Array1<f64> = path.coefficients.slice(ndarray::s![0, target, ..]).to_owned();
            let norms = w[0].abs() + 0.5 * w[1].hypot(w[2]) + 2.0 * w[3].abs();
            0.5 * w.dot(&gram.dot(&w)) - cross.row(target).dot(&w) + 0.1 * norms
        };
        for target in 0..2 {
            assert_eq!(early.n_iter[[0, target]], 1);
            let above = objective(&early, target) - objective(&late, target);
            assert!(above > 0.0 && above <= early.gaps[[0, target]], "{above}");
        }
    }

    /// Targets in another unit are the same problem, and need the same passes.
    #[test]
    fn the_unit_of_the_targets_is_free() {
        let (gram, cross, squares) = moments();
        let exec = Executor::new(1).unwrap();
        let with = |unit: f64, tol: f64, l1: f64| {
            let (cross, squares) = (&cross * unit, &squares * (unit * unit));
            let problem =
                LassoProblem::new(gram.view(), cross.view(), squares.view(), &ENDS, &WEIGHTS)
                    .unwrap();
            let penalties = [Penalty::new(l1 * unit)];
            let parameters = LassoParameters::default().with_tol(tol);
            group_lasso_path(&exec, &problem, &penalties, parameters).unwrap()
        };
        let expected = with(1.0, 1e-3, 0.1);
        for unit in [2.0_f64.powi(-20), 2.0_f64.powi(20)] {
            let found = with(unit, 1e-3, 0.1);
            assert_eq!(found.n_iter, expected.n_iter);
            assert_eq!(found.coefficients, &expected.coefficients * unit);
        }
        // A gap of nothing is one of 0.
        assert!(with(1.0, 0.0, 4.0).n_iter.iter().all(|&n_iter| n_iter == 0));
    }

    /// Two columns that are nearly one: passes alone, each of which goes one part in 500 of the
    /// way, would be thousands.
    #[test]
    fn iterates_are_extrapolated() {
        let gram = array![[1.0, 0.999], [0.999, 1.0]];
        let (cross, squares) = (array![[1.0, 0.9995]], array![2.0]);
        let problem =
            LassoProblem::new(gram.view(), cross.view(), squares.view(), &[1, 2], &[1.0, 1.0])
                .unwrap();
        let exec = Executor::new(1).unwrap();
        let parameters = LassoParameters::default().with_tol(1e-12);
        let start = Array2::zeros((1, 2));
        let path = group_lasso_path(
            &exec,
            &problem,
            &[Penalty::new(1e-5)],
            parameters.with_start(Some(start.view())),
        )
        .unwrap();
        assert!(path.gaps[[0, 0]] <= 1e-12);
        assert!(path.n_iter[[0, 0]] <= 100, "{}", path.n_iter[[0, 0]]);
    }

    #[test]
    fn a_start_of_another_shape_and_penalties_out_of_range_are_refused() {
        let (gram, cross, squares) = moments();
        let problem =
            LassoProblem::new(gram.view(), cross.view(), squares.view(), &ENDS, &WEIGHTS).unwrap();
        let exec = Executor::new(1).unwrap();
        let with = |penalty, shape| {
            let start = Array2::zeros(shape);
            group_lasso_path(
                &exec,
                &problem,
                &[penalty],
                LassoParameters::default().with_start(Some(start.view())),
            )
            .map(|_| ())
        };
        assert!(with(Penalty::new(1.0), (2, 4)).is_ok());
        for shape in [(1, 4), (2, 3)] {
            assert!(matches!(with(Penalty::new(1.0), shape), Err(Error::Shape { .. })));
        }
        let infinite = f64::INFINITY;
        for penalty in [
            Penalty::new(0.0),
            Penalty::new(1.0).with_l2(-1.0),
            Penalty::new(f64::NAN),
            Penalty::new(infinite),
            Penalty::new(1.0).with_l2(infinite),
        ] {
            assert!(matches!(with(penalty, (2, 4)), Err(Error::Parameter { .. })));
        }
    }
}
