//! Strategies of [`mod@proptest`] for histograms, covariance matrices, cost matrices and ranked tables.
//!
//! ```
//! use histrs::testing::{histograms, proptest::prelude::*};
//!
//! proptest!(ProptestConfig { failure_persistence: None, ..Default::default() }, |(x in histograms(0..=9, 1..=9))| {
//!     prop_assert!(x.iter().all(|&entry| entry >= 0.0));
//! });
//! ```
//!
//! They look for what breaks code on such data: sizes around the width of a vector register, ties, rows
//! and columns of zeros, equal rows, and huge and tiny scales. Examples that fail shrink to small matrices
//! of small numbers.

use std::ops::RangeInclusive;

use ndarray::{Array2, Array3};
pub use proptest;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// How many of something there are.
type Size = RangeInclusive<usize>;

/// A power of two, mostly 1.
fn scale() -> impl Strategy<Value = f64> {
    prop_oneof![6 => Just(1.0), 1 => Just(2.0_f64.powi(-300)), 1 => Just(2.0_f64.powi(300))]
}

/// Rows, some of them again and again.
fn repeated(
    rows: impl Strategy<Value = Vec<Vec<f64>>>,
    n: usize,
) -> impl Strategy<Value = Vec<Vec<f64>>> {
    let places = prop_oneof![vec(any::<Index>(), n).prop_map(Some), Just(None)];
    (rows, places).prop_map(|(rows, places)| match places {
        Some(places) => places.iter().map(|place| place.get(&rows).clone()).collect(),
        None => rows,
    })
}

fn matrix(rows: &[Vec<f64>], n_columns: usize, scale: f64) -> Array2<f64> {
    Array2::from_shape_fn((rows.len(), n_columns), |(i, d)| rows[i][d] * scale)
}

/// Matrices of non-negative entries, a histogram in each row.
///
/// # Examples
///
/// A distance of shapes that forgets histograms without mass:
///
/// ```
/// use histrs::testing::{histograms, proptest::{prelude::*, test_runner::TestRunner}};
///
/// let distance = |x: &[f64], y: &[f64]| {
///     let (of_x, of_y) = (x.iter().sum::<f64>(), y.iter().sum::<f64>());
///     x.iter().zip(y).map(|(x, y)| (x / of_x - y / of_y).abs()).sum::<f64>()
/// };
/// let config = ProptestConfig { failure_persistence: None, ..Default::default() };
/// let found = TestRunner::new(config).run(&histograms(2..=9, 1..=9), |x| {
///     let rows: Vec<Vec<f64>> = x.rows().into_iter().map(|row| row.to_vec()).collect();
///     prop_assert!(distance(&rows[0], &rows[1]) <= 2.0 + 1e-9);
///     Ok(())
/// });
/// assert!(found.is_err());
/// ```
pub fn histograms(n_rows: Size, n_columns: Size) -> impl Strategy<Value = Array2<f64>> {
    let entry = prop_oneof![
        4 => Just(0.0),
        6 => (1_u8..6).prop_map(f64::from),
        2 => 0.0..1.0,
    ];
    (n_rows, n_columns).prop_flat_map(move |(n, d)| {
        (repeated(vec(vec(entry.clone(), d), n), n), vec(any::<bool>(), d), scale()).prop_map(
            move |(mut rows, kept, scale)| {
                // A column of zeros now and then, but not all of them.
                if kept.iter().filter(|&&kept| kept).count() > d / 2 {
                    let zeros = (0..d).filter(|&column| !kept[column]);
                    zeros.for_each(|column| rows.iter_mut().for_each(|row| row[column] = 0.0));
                }
                matrix(&rows, d, scale)
            },
        )
    })
}

/// Stacks of symmetric positive definite matrices of `p` rows, exactly symmetric.
///
/// # Examples
///
/// A determinant that takes all matrices for diagonal:
///
/// ```
/// use histrs::testing::{proptest::{prelude::*, test_runner::TestRunner}, spd_matrices};
///
/// let config = ProptestConfig { failure_persistence: None, ..Default::default() };
/// let found = TestRunner::new(config).run(&spd_matrices(1..=3, 2..=2), |stack| {
///     let m = stack.index_axis(ndarray::Axis(0), 0);
///     let wrong = m[[0, 0]] * m[[1, 1]];
///     let right = wrong - m[[0, 1]] * m[[1, 0]];
///     prop_assert!((wrong - right).abs() <= 1e-9 * right);
///     Ok(())
/// });
/// assert!(found.is_err());
/// ```
pub fn spd_matrices(n: Size, p: Size) -> impl Strategy<Value = Array3<f64>> {
    (n, p).prop_flat_map(|(n, p)| {
        let entry = prop_oneof![2 => Just(0.0), 3 => (-3_i8..=3).prop_map(f64::from)];
        let factor = vec(vec(entry, p), p);
        let diagonals = vec(vec((1_u8..=4).prop_map(f64::from), p), n);
        (vec(factor, n), diagonals, scale()).prop_map(move |(factors, diagonals, scale)| {
            Array3::from_shape_fn((n, p, p), |(k, i, j)| {
                let lower = |i: usize, j: usize| match i.cmp(&j) {
                    std::cmp::Ordering::Less => 0.0,
                    std::cmp::Ordering::Equal => diagonals[k][i],
                    std::cmp::Ordering::Greater => factors[k][i][j],
                };
                // Products of small whole numbers: nothing is rounded.
                (0..p).map(|c| lower(i, c) * lower(j, c)).sum::<f64>() * scale
            })
        })
    })
}

/// Cost matrices of `n` bins that are metrics, up to bins in one place.
///
/// # Examples
///
/// A transport that moves mass to the nearest bin with another number:
///
/// ```
/// use histrs::testing::{ground_distances, proptest::{prelude::*, test_runner::TestRunner}};
///
/// let config = ProptestConfig { failure_persistence: None, ..Default::default() };
/// let found = TestRunner::new(config).run(&ground_distances(2..=5), |m| {
///     let nearest = (1..m.ncols()).map(|j| m[[0, j]]).fold(f64::INFINITY, f64::min);
///     prop_assert!(nearest > 0.0, "bins may be in one place");
///     Ok(())
/// });
/// assert!(found.is_err());
/// ```
pub fn ground_distances(n: Size) -> impl Strategy<Value = Array2<f64>> {
    let point = (0_i16..6, 0_i16..6);
    (n, scale()).prop_flat_map(move |(n, scale)| {
        vec(point.clone(), n).prop_map(move |points| {
            Array2::from_shape_fn((n, n), |(i, j)| {
                let ((a, b), (c, d)) = (points[i], points[j]);
                f64::from((a - c).abs() + (b - d).abs()) * scale
            })
        })
    })
}

/// Tables of ranks from 0 on, each column by itself: equal values share a rank, and none is left out.
///
/// # Examples
///
/// A median that forgets ties:
///
/// ```
/// use histrs::testing::{proptest::{prelude::*, test_runner::TestRunner}, ranked_tables};
///
/// let config = ProptestConfig { failure_persistence: None, ..Default::default() };
/// let found = TestRunner::new(config).run(&ranked_tables(3..=9, 1..=3), |table| {
///     let largest = table.column(0).iter().copied().fold(0.0, f64::max);
///     prop_assert!(largest == (table.nrows() - 1) as f64, "rows may be equal");
///     Ok(())
/// });
/// assert!(found.is_err());
/// ```
pub fn ranked_tables(n_rows: Size, n_columns: Size) -> impl Strategy<Value = Array2<f64>> {
    (n_rows, n_columns).prop_flat_map(|(n, d)| {
        let values = vec(vec((0_u8..12).prop_map(f64::from), d), n);
        repeated(values, n).prop_map(move |rows| {
            let mut table = matrix(&rows, d, 1.0);
            for mut column in table.columns_mut() {
                let mut distinct = column.to_vec();
                distinct.sort_by(f64::total_cmp);
                distinct.dedup();
                column.mapv_inplace(|x| distinct.partition_point(|&other| other < x) as f64);
            }
            table
        })
    })
}
