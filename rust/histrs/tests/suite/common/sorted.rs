//! Sorted columns of samples, their knots, and what results are held to.

use histrs::Element;
use histrs::intersection::{KnotProjection, SortedColumns};
use ndarray::{Array2, ArrayView1, Axis};

use super::{Layout, Stored, distinct, exec};

/// What double precision leaves of a sum of a few hundred terms.
pub(crate) const DOUBLE: f64 = 1e-13;

pub(crate) fn sort<T: Element>(x: &Stored<T>) -> SortedColumns {
    SortedColumns::new(exec(), &x.view()).unwrap()
}

/// `max(f32 rounding, double)`, what a result in `T` can be held to.
pub(crate) fn precision<T: Element>() -> f64 {
    if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { DOUBLE }
}

/// `k(x_i, x_i) |v|_1`, which errors in single precision are measured by.
pub(crate) fn single_size(x: &Array2<f64>, v: &Array2<f64>) -> Array2<f64> {
    let norms = v.map_axis(Axis(0), |v| v.iter().map(|v| v.abs()).sum::<f64>());
    Array2::from_shape_fn((x.nrows(), v.ncols()), |(i, k)| x.row(i).sum() * norms[k])
}

/// The knots of a column: the values at which a hat function is 1.
///
/// Which of the values they are is the crate's to choose; all of them when there are few.
pub(crate) fn knots(column: ArrayView1<'_, f64>, n_knots: usize) -> Vec<f64> {
    let x = column.insert_axis(Axis(1)).to_owned();
    let columns = sort(&Stored::new(&x, Layout::Rows, 0));
    let projection = KnotProjection::new(exec(), &columns, n_knots).unwrap();
    let eye = Array2::eye(projection.n_features());
    let phi = projection.expand(exec(), eye.view()).unwrap();
    // Values just below a knot may round to it.
    let at_one = |hat: ArrayView1<'_, f64>| {
        hat.iter().zip(&column).filter(|e| *e.0 == 1.0).map(|e| *e.1).fold(0.0, f64::max)
    };
    let knots: Vec<f64> = phi.columns().into_iter().map(at_one).collect();
    let values = distinct(column);
    assert!(knots.len() <= n_knots);
    assert!(knots.windows(2).all(|w| w[0] < w[1]));
    assert_eq!(knots.last(), values.last());
    assert!(values.len() > n_knots || knots == values);
    knots
}
