//! The costs: a matrix, or on a grid one for each axis.

use ndarray::ArrayView2;

use crate::error::{Error, Result, check_length};

/// Costs of moves between bins: a matrix, or the sum of one matrix for each axis of a grid.
///
/// The products of a kernel of separable costs are taken axis by axis, without a matrix of all
/// pairs of cells. For `n` cells along each of two axes, they cost `2 n^3` operations instead of
/// `n^4`.
#[derive(Debug, Clone)]
pub struct Costs<'a> {
    axes: Vec<ArrayView2<'a, f64>>,
}

impl<'a> From<ArrayView2<'a, f64>> for Costs<'a> {
    fn from(m: ArrayView2<'a, f64>) -> Self {
        Self { axes: vec![m] }
    }
}

impl<'a> Costs<'a> {
    /// `M_ij = sum_k axes[k][i_k, j_k]` between the cells of a grid, the last axis being the fastest.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when there is no axis, the cost of one is not square, or the number of cells
    /// overflows.
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::transport::{Costs, Sinkhorn, sinkhorn_distances};
    /// use histrs::{Executor, HistogramMatrix};
    /// use ndarray::array;
    ///
    /// let exec = Executor::new(1)?;
    /// let along = array![[0.0, 1.0], [1.0, 0.0]];
    /// let costs = Costs::of_axes(vec![along.view(), along.view()])?;
    /// // The upper left and the lower right of four cells.
    /// let x = array![[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
    /// let x = HistogramMatrix::dense(x.view());
    /// let found = sinkhorn_distances(&exec, &x, None, costs, &Sinkhorn::new(0.1))?;
    /// let distance: f64 = found.values[[0, 1]];
    /// assert!((distance - 2.0).abs() < 1e-9);
    /// # Ok::<(), histrs::Error>(())
    /// ```
    pub fn of_axes(axes: Vec<ArrayView2<'a, f64>>) -> Result<Self> {
        let cure = "give a square matrix for each axis";
        check_length("the number of axes with costs", usize::from(!axes.is_empty()), 1, cure)?;
        let mut cells = 1_usize;
        for axis in &axes {
            check_length("the number of columns of an axis", axis.ncols(), axis.nrows(), cure)?;
            cells = cells.checked_mul(axis.nrows()).ok_or(Error::Shape {
                what: "the number of cells",
                found: usize::MAX,
                expected: cells,
                cure: "give fewer cells along each axis",
            })?;
        }
        Ok(Self { axes })
    }

    pub(super) fn axes(&self) -> &[ArrayView2<'a, f64>] {
        &self.axes
    }

    pub(super) fn n_rows(&self) -> usize {
        self.axes.iter().map(|axis| axis.nrows()).product()
    }

    pub(super) fn n_columns(&self) -> usize {
        self.axes.iter().map(|axis| axis.ncols()).product()
    }

    pub(super) fn dim(&self) -> (usize, usize) {
        (self.n_rows(), self.n_columns())
    }

    pub(super) fn entry(&self, mut i: usize, mut j: usize) -> f64 {
        let mut sum = 0.0;
        for axis in self.axes.iter().rev() {
            let (n, m) = axis.dim();
            sum += axis[[i % n, j % m]];
            (i, j) = (i / n, j / m);
        }
        sum
    }

    /// Largest finite entry.
    pub(super) fn largest(&self) -> f64 {
        let of_axis = |axis: &ArrayView2<'_, f64>| {
            axis.iter().filter(|m| m.is_finite()).fold(0.0_f64, |a, &b| a.max(b))
        };
        self.axes.iter().map(of_axis).sum()
    }

    pub(super) fn forbids(&self) -> bool {
        self.axes.iter().any(|axis| axis.iter().any(|m| m.is_infinite()))
    }

    /// The first entry that is negative or not a number, of the first axis that has one.
    pub(super) fn bad_entry(&self) -> Option<((usize, usize), f64)> {
        let bad = |m: &f64| m.is_nan() || *m < 0.0;
        let of_axis = |axis: &ArrayView2<'_, f64>| {
            axis.indexed_iter().find(|(_, m)| bad(m)).map(|(at, &m)| (at, m))
        };
        self.axes.iter().find_map(of_axis)
    }

    /// The first entry that differs from that on the other side of the diagonal, and the latter.
    pub(super) fn asymmetry(&self) -> Option<((usize, usize), f64)> {
        let of_axis = |axis: &ArrayView2<'_, f64>| {
            let differs = |&((i, j), value): &((usize, usize), &f64)| *value != axis[[j, i]];
            axis.indexed_iter().find(differs).map(|((i, j), _)| ((i, j), axis[[j, i]]))
        };
        self.axes.iter().find_map(of_axis)
    }

    pub(super) fn is_symmetric(&self) -> bool {
        self.axes.iter().all(|axis| axis.is_square() && axis == axis.t())
    }
}
