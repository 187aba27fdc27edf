//! What the lasso and the group lasso minimise, in terms of moments.

use std::ops::Range;

use ndarray::{ArrayView1, ArrayView2};

use crate::error::{Error, Result, check_length};
use crate::stop::with_fields;

/// Strengths of the two penalties of `sum_g l1 weight_g |w_g| + l2 |w|^2 / 2`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Penalty {
    /// Of the norms of the groups; positive.
    pub l1: f64,
    /// Of the squares; non-negative.
    pub l2: f64,
    /// Whether coefficients below zero are forbidden; then each group is one feature.
    pub positive: bool,
}

impl Penalty {
    /// Of the norms of the groups alone.
    #[must_use]
    pub const fn new(l1: f64) -> Self {
        Self { l1, l2: 0.0, positive: false }
    }
}

with_fields!(Penalty: with_l2(l2: f64), with_positive(positive: bool));

/// `w^T G w / 2 - v^T w` and groups of coefficients, for some targets.
///
/// Each block of `G` on the diagonal that belongs to a group must itself be diagonal. Rotate the
/// features of a group by the eigenvectors of its block, which does not change norms.
#[derive(Debug, Clone, Copy)]
pub struct LassoProblem<'a> {
    gram: ArrayView2<'a, f64>,
    cross: ArrayView2<'a, f64>,
    y_squares: ArrayView1<'a, f64>,
    ends: &'a [i64],
    weights: &'a [f64],
}

impl<'a> LassoProblem<'a> {
    /// Takes `G` of shape `(D, D)`, symmetric and in rows, `v` of shape `(T, D)`, `y^T y / n` of
    /// shape `(T,)`, and for each group its end and its weight.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when lengths disagree or rows of `gram` or `cross` are not contiguous,
    /// [`Error::Parameter`] when ends do not ascend to `D`, or a weight is not
    /// positive.
    pub fn new(
        gram: ArrayView2<'a, f64>,
        cross: ArrayView2<'a, f64>,
        y_squares: ArrayView1<'a, f64>,
        ends: &'a [i64],
        weights: &'a [f64],
    ) -> Result<Self> {
        let d = gram.ncols();
        check_length("the number of rows of G", gram.nrows(), d, "G is a square matrix")?;
        check_length("the number of columns of v", cross.ncols(), d, "give one per feature")?;
        check_length(
            "the number of targets",
            y_squares.len(),
            cross.nrows(),
            "give one per target",
        )?;
        check_length("the number of weights", weights.len(), ends.len(), "give one per group")?;
        for (name, matrix) in [("G", gram), ("v", cross)] {
            if !matrix.is_standard_layout() {
                return Err(Error::NotInRows { name });
            }
            if let Some(((row, column), &value)) = matrix.indexed_iter().find(|m| !m.1.is_finite())
            {
                return Err(Error::NotFinite { name, row, column, value });
            }
        }
        if let Some((row, &value)) = y_squares.indexed_iter().find(|y| !y.1.is_finite()) {
            return Err(Error::NotFinite { name: "y_squares", row, column: 0, value });
        }
        check_ends(ends, d)?;
        for &weight in weights {
            if !(weight > 0.0 && weight.is_finite()) {
                let expected = "weights of groups are positive and finite";
                return Err(Error::parameter("weights", weight, expected));
            }
        }
        Ok(Self { gram, cross, y_squares, ends, weights })
    }

    /// Number of coefficients of a target.
    #[must_use]
    pub fn n_features(&self) -> usize {
        self.gram.ncols()
    }

    /// Number of targets.
    #[must_use]
    pub fn n_targets(&self) -> usize {
        self.cross.nrows()
    }

    /// Whether each group is one feature.
    pub(super) fn is_ungrouped(&self) -> bool {
        self.ends.len() == self.n_features()
    }

    /// The problem of one target.
    pub(super) fn target(&self, target: usize) -> Result<Target<'a>> {
        let flat = |matrix: &ArrayView2<'a, f64>| {
            matrix.to_slice().ok_or(Error::Internal("moments that were laid out in rows are not"))
        };
        let d = self.n_features();
        Ok(Target {
            gram: flat(&self.gram)?,
            v: &flat(&self.cross)?[target * d..(target + 1) * d],
            y_square: self.y_squares[target],
            ends: self.ends,
            weights: self.weights,
        })
    }
}

fn check_ends(ends: &[i64], n_features: usize) -> Result<()> {
    let mut last = 0;
    for &end in ends {
        if end <= last {
            let expected = "ends of groups ascend: no group is empty";
            return Err(Error::parameter("groups", end, expected));
        }
        last = end;
    }
    let n_grouped = usize::try_from(last).unwrap_or_default();
    check_length("the end of the last group", n_grouped, n_features, "put each feature in one")
}

/// The problem of one target.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    gram: &'a [f64],
    pub(super) v: &'a [f64],
    pub(super) y_square: f64,
    ends: &'a [i64],
    weights: &'a [f64],
}

impl<'a> Target<'a> {
    /// A row of `G`.
    #[inline]
    pub(super) fn gram_row(&self, i: usize) -> &'a [f64] {
        let d = self.v.len();
        &self.gram[i * d..(i + 1) * d]
    }

    /// A diagonal entry of `G`; rounding may have left it a little below zero.
    #[inline]
    pub(super) fn curvature(&self, i: usize) -> f64 {
        self.gram[i * (self.v.len() + 1)].max(0.0)
    }

    /// The features and the weight of each group.
    pub(super) fn groups(&self) -> impl Iterator<Item = (Range<usize>, f64)> + 'a {
        let mut start = 0;
        self.ends.iter().zip(self.weights).map(move |(&end, &weight)| {
            #[allow(clippy::cast_possible_truncation)] // `check_ends` compared it with `D`
            let range = start..end.unsigned_abs() as usize;
            start = range.end;
            (range, weight)
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ndarray::{Array2, array};

    use super::*;

    fn gram() -> Array2<f64> {
        array![[-1e-18, 0.5, 0.0], [0.5, 2.0, 0.25], [0.0, 0.25, 3.0]]
    }

    #[test]
    fn a_target_has_its_own_row_and_all_groups() {
        let (gram, cross, squares) =
            (gram(), array![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], array![7.0, 8.0]);
        let problem =
            LassoProblem::new(gram.view(), cross.view(), squares.view(), &[2, 3], &[0.5, 2.0])
                .unwrap();
        assert_eq!((problem.n_features(), problem.n_targets()), (3, 2));
        let target = problem.target(1).unwrap();
        assert_eq!((target.v, target.y_square), (&[4.0, 5.0, 6.0][..], 8.0));
        assert_eq!(target.gram_row(1), [0.5, 2.0, 0.25]);
        // What rounding has left below zero is zero.
        assert_eq!([0, 1, 2].map(|i| target.curvature(i)), [0.0, 2.0, 3.0]);
        assert_eq!(target.groups().collect::<Vec<_>>(), [(0..2, 0.5), (2..3, 2.0)]);
    }

    #[test]
    fn what_is_no_problem_is_refused() {
        let (gram, cross, squares) = (gram(), array![[1.0, 2.0, 3.0]], array![7.0]);
        let with = |ends: &[i64], weights: &[f64]| {
            LassoProblem::new(gram.view(), cross.view(), squares.view(), ends, weights).map(|_| ())
        };
        assert!(with(&[1, 3], &[1.0, 1.0]).is_ok());
        for ends in [[0, 3], [-1, 3], [3, 3]] {
            assert!(matches!(
                with(&ends, &[1.0, 1.0]),
                Err(Error::Parameter { name: "groups", .. })
            ));
        }
        assert!(matches!(with(&[1, 2], &[1.0, 1.0]), Err(Error::Shape { .. })));
        assert!(matches!(with(&[1, 3], &[1.0]), Err(Error::Shape { .. })));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = with(&[1, 3], &[1.0, bad]);
            assert!(matches!(error, Err(Error::Parameter { name: "weights", .. })));
        }
    }

    #[test]
    fn moments_are_finite_and_in_rows() {
        let (cross, squares) = (array![[1.0, 2.0, 3.0]], array![7.0]);
        let with = |gram: ArrayView2<'_, f64>, squares: ArrayView1<'_, f64>| {
            LassoProblem::new(gram, cross.view(), squares, &[3], &[1.0]).map(|_| ())
        };
        let mut bad = gram();
        bad[[2, 1]] = f64::NAN;
        let error = with(bad.view(), squares.view());
        assert!(matches!(error, Err(Error::NotFinite { name: "G", row: 2, column: 1, .. })));
        let error = with(gram().view(), array![f64::INFINITY].view());
        assert!(matches!(error, Err(Error::NotFinite { name: "y_squares", row: 0, .. })));
        let error = with(gram().t(), squares.view());
        assert!(matches!(error, Err(Error::NotInRows { name: "G" })));
    }
}
