//! Optimal transport against its optimality conditions, in every domain, and threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::common::*;
use histrs::transport::{Sinkhorn, SinkhornDistances, sinkhorn_distances};
use histrs::{Element, Error, Executor, HistogramMatrix};
use ndarray::{Array2, Axis, array, s};
use proptest::prelude::*;

const OPTIONS: Sinkhorn =
    Sinkhorn::new(0.1).with_tol(1e-9).with_max_iter(20_000).with_potentials(true);

fn ground(d: usize, seed: u64) -> Array2<f64> {
    let mut random = Random(seed);
    let positions: Vec<f64> = (0..d).map(|_| random.unit()).collect();
    Array2::from_shape_fn((d, d), |(i, j)| (positions[i] - positions[j]).abs())
}

fn solve<T: Element>(
    exec: &Executor,
    x: &Array2<f64>,
    y: Option<&Array2<f64>>,
    m: &Array2<f64>,
    options: &Sinkhorn,
) -> histrs::Result<SinkhornDistances<T>> {
    let x = x.mapv(T::from_f64);
    let y = y.map(|y| y.mapv(T::from_f64));
    let y = y.as_ref().map(|y| HistogramMatrix::dense(y.view()));
    sinkhorn_distances(exec, &HistogramMatrix::dense(x.view()), y.as_ref(), m.view(), options)
}

/// The plan `exp((alpha + beta - M) / reg)` is optimal if its marginals are right; errors are parts of
/// the mass.
fn check_optimality<T: Element>(
    x: &Array2<f64>,
    y: &Array2<f64>,
    m: &Array2<f64>,
    options: &Sinkhorn,
    allowed: f64,
) {
    let found = solve::<T>(exec(), x, Some(y), m, options).unwrap();
    let duals = solve::<T>(exec(), x, Some(y), m, &options.with_regularized(true)).unwrap().values;
    let [alpha, beta] = found.potentials.unwrap();
    let (mass, reg) = (x.row(0).sum(), options.reg);
    for i in 0..x.nrows() {
        for j in 0..y.nrows() {
            let plan = Array2::from_shape_fn(m.dim(), |(k, l)| {
                ((alpha[[i, j, k]] + beta[[i, j, l]] - m[[k, l]]) / reg).exp()
            });
            let row_errors: f64 =
                plan.rows().into_iter().zip(x.row(i)).map(|(p, a)| (p.sum() - a).abs()).sum();
            let column_errors: f64 =
                plan.columns().into_iter().zip(y.row(j)).map(|(p, b)| (p.sum() - b).abs()).sum();
            let error = (row_errors + column_errors) / mass;
            assert!(error < allowed, "{error} {} {}", found.errors[[i, j]], found.n_iter[[i, j]]);
            let close = |found: T, want: f64| (found.to_f64() - want).abs() < allowed * mass;
            let cost: f64 = (&plan * m).sum();
            assert!(close(found.values[[i, j]], cost), "{:?} {cost}", found.values[[i, j]]);
            let entropy: f64 = plan.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum();
            let objective = cost + reg * entropy;
            assert!(close(duals[[i, j]], objective), "{:?} {objective}", duals[[i, j]]);
        }
    }
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn plans_are_optimal(
        d in prop::sample::select(&[1_usize, 2, 5, 6, 7, 12, 13, 33][..]),
        n in 1_usize..7,
        // Single precision first, double precision, the log domain.
        reg in prop::sample::select(&[0.5, 0.02, 0.0025][..]),
        mass in prop::sample::select(&[1.0, 0.25, 40.0][..]),
        seed in any::<u64>(),
    ) {
        let (x, y) = (histograms(n, d, seed) * mass, histograms(3, d, !seed) * mass);
        let m = ground(d, seed ^ 7);
        check_optimality::<f64>(&x, &y, &m, &OPTIONS.with_reg(reg), 1e-8);
        check_optimality::<f32>(&x, &y, &m, &OPTIONS.with_reg(reg).with_tol(1e-5), 1e-4);
    }
}

#[test]
fn pairs_that_hardly_exchange_mass_converge() {
    // Here acceleration went in circles, and unaccelerated steps were thousands and all alike.
    let hard = [
        (2, 3, 0.02, 7_157_824_570_876_699_493_u64),
        (2, 6, 0.0025, 10_168_678_384_679_860_316),
        (5, 6, 0.0025, 13_035_764_663_772_669_895),
        (7, 4, 0.0025, 7_665_826_505_008_384_127),
    ];
    for (d, n, reg, seed) in hard {
        let (x, y) = (histograms(n, d, seed), histograms(3, d, !seed));
        let options = OPTIONS.with_reg(reg).with_max_iter(2000);
        check_optimality::<f64>(&x, &y, &ground(d, seed ^ 7), &options, 1e-8);
    }
}

/// Potentials of bins with next to no mass are out of the range of single precision.
#[test]
fn tiny_masses_are_handed_on_from_single_precision() {
    let (x, y) = (array![[1e-30, 0.4, 0.6]], array![[0.5, 0.5, 1e-30], [0.3, 0.3, 0.4]]);
    let m = array![[0.0, 0.5, 1.0], [0.5, 0.0, 0.5], [1.0, 0.5, 0.0]];
    let options = OPTIONS.with_reg(1.0 / 39.0);
    check_optimality::<f32>(&x, &y, &m, &options.with_tol(1e-5), 1e-4);
    check_optimality::<f64>(&x, &y, &m, &options, 1e-8);
}

fn check_threads<T: Element>(reg: f64) {
    let (x, m) = (histograms(60, 9, 3), ground(9, 4));
    let options = OPTIONS.with_reg(reg).with_tol(1e-5);
    let [one, two, seven] = executors().each_ref().map(|exec| {
        let found = solve::<T>(exec, &x, None, &m, &options).unwrap();
        found.values.iter().map(|v| v.to_f64().to_bits()).collect::<Vec<_>>()
    });
    assert!(one == two && one == seven);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for reg in [0.3, 0.02, 0.0025] {
        check_threads::<f64>(reg);
        check_threads::<f32>(reg);
    }
}

#[test]
fn an_interrupt_stops_a_single_pair() {
    let (x, m) = (histograms(2, 300, 5), ground(300, 6));
    // A tolerance that is never reached.
    let options = OPTIONS.with_tol(1e-300).with_max_iter(usize::MAX);
    let asked = AtomicBool::new(false);
    let start = Instant::now();
    let exec = Executor::new(2).unwrap();
    let result = exec.watch(
        || solve::<f64>(&exec, &x, None, &m, &options).map(drop),
        || asked.swap(true, Ordering::Relaxed) || start.elapsed().as_millis() > 100,
    );
    assert_eq!(result, Err(Error::Interrupted));
}

/// Both ways of a cost matrix that is not symmetric are solved.
#[test]
fn the_way_back_may_be_longer() {
    let x = histograms(6, 5, 8);
    let mut m = ground(5, 9);
    let there = solve::<f64>(exec(), &x, None, &m, &OPTIONS).unwrap().values;
    assert_eq!(there, there.t());
    m[[1, 3]] += 0.4;
    let found = solve::<f64>(exec(), &x, None, &m, &OPTIONS).unwrap().values;
    let both = solve::<f64>(exec(), &x, Some(&x), &m, &OPTIONS).unwrap().values;
    assert!(found.iter().zip(&both).all(|(a, b)| (a - b).abs() < 1e-8));
    assert!((&found - &found.t()).iter().any(|e| e.abs() > 0.01), "{found}");
}

#[test]
fn bad_input_is_named() {
    let x = array![[0.5, 0.5], [1.0, 1.0]];
    let good = array![[0.5, 0.5]];
    let m = array![[0.0, 1.0], [1.0, 0.0]];
    let error = |x: &Array2<f64>, m: &Array2<f64>, options: Sinkhorn| {
        solve::<f64>(exec(), x, None, m, &options).unwrap_err().to_string()
    };
    assert!(error(&x, &m, OPTIONS).contains("X[1] sums to 2, and X[0] to 1"));
    // Rows are of one mass as far as their precision tells.
    for (more, double, single) in [(2e-7, true, true), (5e-5, false, true), (1e-3, false, false)] {
        let x = array![[0.5, 0.5], [0.5, 0.5 + more]];
        assert_eq!(solve::<f64>(exec(), &x, None, &m, &OPTIONS).is_ok(), double, "{more}");
        assert_eq!(solve::<f32>(exec(), &x, None, &m, &OPTIONS).is_ok(), single, "{more}");
    }
    assert!(error(&good, &-&m, OPTIONS).contains("M[0, 1] = -1"));
    assert!(error(&good, &array![[0.0]], OPTIONS).contains("rows of M"));
    for reg in [0.0, -0.1, f64::INFINITY, f64::NAN] {
        let error = error(&good, &m, OPTIONS.with_reg(reg));
        assert!(error.contains(&format!("reg = {reg}")), "{error}");
        assert!(error.contains("positive and finite"), "{error}");
    }
    assert!(error(&good, &m, OPTIONS.with_reg(1e-12)).contains("underflows"));
    assert!(error(&good, &m, OPTIONS.with_tol(-1.0)).contains("tol = -1"));
    assert!(error(&good, &m, OPTIONS.with_tol(0.0)).contains("tol = 0"));
    assert!(error(&good, &m, OPTIONS.with_tol(f64::NAN)).contains("tol = NaN"));
}

/// Between two islands nothing moves: the distance is that of both, or infinite.
#[test]
fn what_must_not_move_stays_on_its_island() {
    let (left, right) = (ground(3, 1), ground(2, 2));
    let m = Array2::from_shape_fn((5, 5), |(i, j)| match (i < 3, j < 3) {
        (true, true) => left[[i, j]],
        (false, false) => right[[i - 3, j - 3]],
        _ => f64::INFINITY,
    });
    let x = array![[0.1, 0.2, 0.3, 0.4, 0.0]];
    let y = array![
        [0.3, 0.3, 0.0, 0.15, 0.25],
        [0.6 + 1e-5, 0.0, 0.0, 0.2, 0.2 - 1e-5],
        [0.0, 0.1, 0.0, 0.5, 0.4]
    ];
    for reg in [0.5, 0.02, 0.0025] {
        let options = OPTIONS.with_reg(reg);
        let found = solve::<f64>(exec(), &x, Some(&y), &m, &options).unwrap().values;
        let part = |range: std::ops::Range<usize>, m: &Array2<f64>| {
            let (x, y) = (x.slice(s![.., range.clone()]), y.slice(s![..1, range]));
            solve::<f64>(exec(), &x.to_owned(), Some(&y.to_owned()), m, &options).unwrap().values
        };
        let both = part(0..3, &left)[[0, 0]] + part(3..5, &right)[[0, 0]];
        assert!((found[[0, 0]] - both).abs() < 1e-8, "{reg} {found} {both}");
        assert_eq!(found.row(0).to_vec()[1..], [f64::INFINITY; 2]);
        // Each row has its own.
        let rows = ndarray::concatenate![Axis(0), x, array![[0.0, 0.1, 0.0, 0.5, 0.4]], x];
        let found = solve::<f64>(exec(), &rows, Some(&y), &m, &options).unwrap().values;
        for (i, row) in found.rows().into_iter().enumerate() {
            let reached: Vec<bool> = row.iter().map(|distance| distance.is_finite()).collect();
            assert_eq!(reached, if i == 1 { [false, false, true] } else { [true, false, false] });
        }
    }
}
