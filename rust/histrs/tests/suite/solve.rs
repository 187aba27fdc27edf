//! Conjugate gradients against a dense system that is solved by elimination.

use crate::common::*;
use histrs::intersection::{ShapeFunctions, Solve, SortedColumns};
use histrs::{Error, HistogramMatrix};
use ndarray::{Array2, array};
use proptest::prelude::*;

/// Solves `A X = B` by elimination with pivots.
fn eliminated(mut a: Array2<f64>, mut b: Array2<f64>) -> Array2<f64> {
    let n = a.nrows();
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| a[[i, k]].abs().total_cmp(&a[[j, k]].abs())).unwrap();
        for j in 0..n {
            a.swap([k, j], [pivot, j]);
        }
        for j in 0..b.ncols() {
            b.swap([k, j], [pivot, j]);
        }
        for i in (0..n).filter(|&i| i != k) {
            let factor = a[[i, k]] / a[[k, k]];
            let (of_a, of_b) = (a.row(k).to_owned(), b.row(k).to_owned());
            a.row_mut(i).scaled_add(-factor, &of_a);
            b.row_mut(i).scaled_add(-factor, &of_b);
        }
    }
    for (i, mut row) in b.rows_mut().into_iter().enumerate() {
        row /= a[[i, i]];
    }
    b
}

fn columns_of(x: &Array2<f64>) -> SortedColumns {
    SortedColumns::new(exec(), &HistogramMatrix::dense(x.view())).unwrap()
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn the_solution_is_that_of_elimination(
        n in prop::sample::select(vec![1_usize, 2, 5, 40, 130]),
        d in prop::sample::select(vec![1_usize, 3, 12]),
        k in prop::sample::select(vec![1_usize, 2, 5]),
        noise in prop::sample::select(vec![1e-3, 0.1, 10.0]),
        n_knots in prop::sample::select(vec![None, Some(0), Some(3), Some(255)]),
        scale in prop::sample::select(vec![1e-180, 1.0, 1e180]),
        seed in any::<u64>(),
    ) {
        let x = histograms(n, d, seed);
        let mut random = Random(seed);
        let y = Array2::from_shape_simple_fn((n, k), || random.unit() - 0.3);
        let mut matrix = gram(exec(), &HistogramMatrix::dense(x.view()), None).unwrap();
        matrix.diag_mut().mapv_inplace(|v| v + noise);
        let expected = eliminated(matrix, y.clone());
        let columns = columns_of(&x);
        let mut solve = Solve::default().with_tol(1e-11);
        solve.n_knots = n_knots;
        let found: Vec<_> = executors()
            .iter()
            .map(|exec| columns.solve(exec, noise, (&y * scale).view(), solve).unwrap())
            .collect();
        prop_assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
        prop_assert!(found[0].residuals.iter().all(|&r| r <= 1e-11), "{:?}", found[0].residuals);
        let largest = expected.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
        for (found, expected) in found[0].alpha.iter().zip(&expected) {
            prop_assert!((found / scale - expected).abs() <= 1e-7 * largest);
        }
    }
}

#[test]
fn knots_save_iterations() {
    let x = histograms(2000, 8, 1);
    let y = x.map_axis(ndarray::Axis(1), |row| (9.0 * row[0]).sin()).insert_axis(ndarray::Axis(1));
    let columns = columns_of(&x);
    let n_iter = |solve| columns.solve(exec(), 1e-2, y.view(), solve).unwrap().n_iter;
    let (with, without) = (n_iter(Solve::default()), n_iter(Solve::default().with_n_knots(0)));
    assert!(3 * with < without, "{with} {without}");
}

#[test]
fn what_is_left_is_told() {
    let x = histograms(300, 5, 2);
    let columns = columns_of(&x);
    let y = Array2::from_shape_fn((300, 2), |(i, k)| if k == 0 { (i % 7) as f64 } else { 0.0 });
    let few = Solve::default().with_n_knots(0).with_max_iter(2);
    let found = columns.solve(exec(), 1e-3, y.view(), few).unwrap();
    assert_eq!((found.n_iter, found.residuals[1]), (2, 0.0));
    assert!(found.residuals[0] > 1e-3);
    assert!(found.alpha.column(1).iter().all(|&alpha| alpha == 0.0));
    let left = &y - &columns.product(exec(), found.alpha.view()).unwrap() - &found.alpha * 1e-3;
    let norm = |v: &Array2<f64>| v.iter().map(|v| v * v).sum::<f64>().sqrt();
    assert!((found.residuals[0] - norm(&left) / norm(&y)).abs() < 1e-12);
    // None is as good as rounding.
    let tiny = Solve::default().with_tol(1e-300).with_max_iter(usize::MAX);
    assert!(columns.solve(exec(), 1e-3, y.view(), tiny).unwrap().residuals[0] < 1e-10);
}

#[test]
fn the_mean_meets_targets_without_noise() {
    let x = array![[0.0], [1.0], [3.0]];
    let columns = columns_of(&x);
    let y = array![[0.0], [2.0], [1.0]];
    let found = columns.solve(exec(), 1e-9, y.view(), Solve::default()).unwrap();
    let mean = ShapeFunctions::new(exec(), &columns, found.alpha.view()).unwrap();
    let at = array![[1.0], [2.0], [9.0]];
    let found = mean.predict(exec(), &HistogramMatrix::dense(at.view())).unwrap();
    for (found, expected) in found.iter().zip([2.0, 1.5, 1.0]) {
        assert!((found - expected).abs() < 1e-6);
    }
}

#[test]
fn bad_arguments_are_named() {
    let columns = columns_of(&array![[1.0], [2.0]]);
    let solve = |noise, y: &Array2<f64>, solve| columns.solve(exec(), noise, y.view(), solve);
    let y = array![[1.0], [2.0]];
    for noise in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = solve(noise, &y, Solve::default()).unwrap_err();
        assert!(matches!(error, Error::Parameter { name: "noise", .. }));
    }
    let error = solve(1.0, &y, Solve::default().with_tol(0.0)).unwrap_err();
    assert!(matches!(error, Error::Parameter { name: "tol", .. }));
    let error = solve(1.0, &y, Solve::default().with_n_knots(256)).unwrap_err();
    assert!(matches!(error, Error::Parameter { name: "n_knots", .. }));
    let error = solve(1.0, &array![[1.0]], Solve::default()).unwrap_err();
    assert!(matches!(error, Error::Shape { .. }));
    let error = solve(1.0, &array![[1.0], [f64::NAN]], Solve::default()).unwrap_err();
    assert!(matches!(error, Error::NotFinite { name: "y", row: 1, column: 0, .. }));
}
