//! The exact earth mover's distance against its definition on whole numbers, and its certificates.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::*;
use histrs::transport::{emd_distances, emd_pairs, emd_plan};
use histrs::{Error, Executor, HistogramMatrix};
use ndarray::{Array1, Array2, Axis, array};
use proptest::prelude::*;

/// How much each bin has, of `total` units that fall somewhere.
fn counts(d: usize, total: usize, random: &mut Random) -> Array1<f64> {
    let mut counts = Array1::zeros(d);
    (0..total).for_each(|_| counts[random.below(d)] += 1.0);
    counts
}

/// The least cost of a flow of whole units, by shortest augmenting paths (Bellman and Ford).
fn by_augmenting_paths(a: &Array1<f64>, b: &Array1<f64>, m: &Array2<f64>) -> f64 {
    let (mut left, mut room, mut plan) = (a.clone(), b.clone(), Array2::<f64>::zeros(m.dim()));
    while left.sum() > 0.0 {
        let mut to_source = left.mapv(|mass| if mass > 0.0 { 0.0 } else { f64::INFINITY });
        let mut to_target = Array1::from_elem(b.len(), f64::INFINITY);
        let (mut before, mut came) = (vec![0; b.len()], vec![None; a.len()]);
        loop {
            let mut changed = false;
            for ((i, j), cost) in m.indexed_iter() {
                if to_source[i] + cost < to_target[j] {
                    (to_target[j], before[j], changed) = (to_source[i] + cost, i, true);
                }
                if plan[[i, j]] > 0.0 && to_target[j] - cost < to_source[i] {
                    (to_source[i], came[i], changed) = (to_target[j] - cost, Some(j), true);
                }
            }
            if !changed {
                break;
            }
        }
        let open = (0..b.len()).filter(|&j| room[j] > 0.0);
        let mut j = open.min_by(|&j, &k| to_target[j].total_cmp(&to_target[k])).unwrap();
        if to_target[j] == f64::INFINITY {
            return f64::INFINITY;
        }
        room[j] -= 1.0;
        loop {
            let i = before[j];
            plan[[i, j]] += 1.0;
            let Some(back) = came[i] else {
                left[i] -= 1.0;
                break;
            };
            plan[[i, back]] -= 1.0;
            j = back;
        }
    }
    plan.indexed_iter().filter(|(_, t)| **t > 0.0).map(|(at, t)| t * m[at]).sum()
}

fn distance(exec: &Executor, a: &Array1<f64>, b: &Array1<f64>, m: &Array2<f64>) -> f64 {
    let [x, y] = [a, b].map(|row| HistogramMatrix::dense(row.view().insert_axis(Axis(0))));
    emd_distances(exec, &x, Some(&y), m.view()).unwrap()[[0, 0]]
}

/// A plan is the best if no cycle of changes lowers its cost, so that potentials exist. Bellman and
/// Ford's method finds them over arcs forth at their cost and, where mass moves, back at its
/// opposite.
fn assert_best(plan: &Array2<f64>, m: &Array2<f64>, tolerance: f64) {
    let (n, k) = m.dim();
    let (mut u, mut v) = (Array1::<f64>::zeros(n), Array1::<f64>::zeros(k));
    for round in 0..=n + k {
        let mut changed = false;
        for ((i, j), cost) in m.indexed_iter() {
            if u[i] + cost < v[j] - tolerance {
                (v[j], changed) = (u[i] + cost, true);
            }
            if plan[[i, j]] > 1e-12 && v[j] - cost < u[i] - tolerance {
                (u[i], changed) = (v[j] - cost, true);
            }
        }
        if !changed {
            return;
        }
        assert!(round < n + k, "a cycle of negative cost");
    }
}

fn costs(kind: usize, [n, m]: [usize; 2], random: &mut Random) -> Array2<f64> {
    Array2::from_shape_fn((n, m), |(i, j)| match kind {
        // Of ties nothing else.
        0 => 1.0,
        1 => 0.0,
        2 => random.below(3) as f64,
        3 => (i as f64 - j as f64).abs(),
        4 => f64::from(i != j),
        5 => [1.0, 3.0, f64::INFINITY][random.below(3)],
        _ => random.below(1000) as f64,
    })
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn distances_are_the_least_cost(
        n in 1_usize..9,
        m in 1_usize..9,
        total in prop::sample::select(&[1_usize, 2, 7, 24][..]),
        kind in 0_usize..8,
        equal in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let random = &mut Random(seed);
        let (mut a, mut b) = (counts(n, total, random), counts(m, total, random));
        if equal {
            a.fill(m as f64);
            b.fill(n as f64);
        }
        let costs = costs(kind, [n, m], random);
        let expected = by_augmenting_paths(&a, &b, &costs);
        // Whole masses and costs are exact at any scale that is a power of two.
        for scale in [1.0, 2.0_f64.powi(-500), 2.0_f64.powi(480)] {
            let found = distance(exec(), &(&a * scale), &(&b * scale), &costs);
            prop_assert_eq!(found / scale, expected);
            let found = distance(exec(), &a, &b, &(&costs * scale));
            prop_assert_eq!(found / scale, expected);
        }
    }

    #[test]
    fn plans_keep_their_marginals_and_are_the_best(
        n in 1_usize..30,
        m in 1_usize..30,
        power in prop::sample::select(&[0, 1, 30][..]),
        seed in any::<u64>(),
    ) {
        let mut random = Random(seed);
        // Of power 0 all masses are equal, and of a large one most are tiny.
        let mut masses = |d: usize| {
            let mass = Array1::from_shape_fn(d, |_| random.unit().powi(power));
            &mass / mass.sum()
        };
        let (a, b) = (masses(n), masses(m));
        let costs = Array2::from_shape_fn((n, m), |_| random.unit());
        let plan = emd_plan(exec(), a.view(), b.view(), costs.view()).unwrap().unwrap();
        prop_assert!(plan.iter().all(|&t| t >= 0.0));
        prop_assert!((&plan.sum_axis(Axis(1)) - &a).iter().all(|e| e.abs() < 1e-14));
        prop_assert!((&plan.sum_axis(Axis(0)) - &b).iter().all(|e| e.abs() < 1e-14));
        prop_assert!(plan.iter().filter(|t| **t > 0.0).count() < n + m);
        assert_best(&plan, &costs, 1e-12);
        let cost: f64 = (&plan * &costs).sum();
        prop_assert!((distance(exec(), &a, &b, &costs) - cost).abs() < 1e-12);
    }

    #[test]
    fn what_stays_costs_nothing(d in 1_usize..40, seed in any::<u64>()) {
        let mut random = Random(seed);
        let positions: Vec<f64> = (0..d).map(|_| random.unit()).collect();
        let m = Array2::from_shape_fn((d, d), |(i, j)| (positions[i] - positions[j]).abs());
        let x = Array2::from_shape_fn((4, d), |_| (random.unit() - 0.3).max(0.01));
        let x = &x / &x.sum_axis(Axis(1)).insert_axis(Axis(1));
        let rows = HistogramMatrix::dense(x.view());
        let found = emd_distances(exec(), &rows, None, m.view()).unwrap();
        prop_assert!(found.diag().iter().all(|&d| d == 0.0));
        for (i, a) in x.rows().into_iter().enumerate() {
            for (j, b) in x.rows().into_iter().enumerate() {
                let plan = emd_plan(exec(), a, b, m.view()).unwrap().unwrap();
                prop_assert!((found[[i, j]] - (plan * &m).sum()).abs() < 1e-13);
            }
        }
    }
}

/// Masses that differ by rounding are each its own, up to what the other one has.
#[test]
fn the_mass_that_moves_is_that_of_the_first() {
    let (more, m) = (1.0 + 1e-10, array![[0.0, 1.0, 3.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]]);
    let x = array![[1.0, 0.0, 0.0], [more, 0.0, 0.0], [0.5 * more, 0.25 * more, 0.25 * more]];
    let y = array![[0.0, 0.25, 0.75]];
    let [x, y] = [&x, &y].map(|rows| HistogramMatrix::dense(rows.view()));
    let found = emd_distances(exec(), &x, Some(&y), m.view()).unwrap();
    for (&found, want) in found.iter().zip([2.5_f64, 2.5 * more, 1.25 * more]) {
        assert!((found - want).abs() < 1e-12, "{found} {want}");
    }
}

/// Between two islands nothing moves but what rounding may have put on the wrong one.
#[test]
fn islands_have_as_much_up_to_rounding() {
    let infinite = f64::INFINITY;
    let m = array![[0.0, 2.0, infinite], [2.0, 0.0, infinite], [infinite, infinite, 0.0]];
    for scale in [1.0, 1e-200, 1e200] {
        let a = array![0.1, 0.5, 0.4] * scale;
        for (more, allowed) in [(0.0, true), (1e-7, true), (1e-5, false), (0.3, false)] {
            let b = array![0.3, 0.3 - more, 0.4 + more] * scale;
            let plan = emd_plan(exec(), a.view(), b.view(), m.view()).unwrap();
            let found = distance(exec(), &a, &b, &m);
            assert_eq!((plan.is_some(), found < infinite), (allowed, allowed), "{more}");
            if let Some(plan) = plan {
                assert!((plan[[1, 0]] / scale - 0.2).abs() <= 1e-6 && plan[[1, 2]] == 0.0);
                assert!((found / scale - 0.4).abs() <= 1e-6, "{found:e}");
            }
        }
    }
}

#[test]
fn the_assignment_of_equal_masses_ends() {
    for (n, kind) in [(60, 0), (60, 1), (60, 2), (60, 3), (60, 4), (90, 6)] {
        let costs = costs(kind, [n, n], &mut Random(n as u64));
        let equal = Array1::from_elem(n, 1.0);
        let expected = by_augmenting_paths(&equal, &equal, &costs);
        assert_eq!(distance(exec(), &equal, &equal, &costs), expected);
    }
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let mut random = Random(5);
    let x = Array2::from_shape_fn((40, 13), |_| (random.unit() - 0.4).max(0.0) + 1e-9);
    let x = &x / &x.sum_axis(Axis(1)).insert_axis(Axis(1));
    let m = Array2::from_shape_fn((13, 13), |_| random.unit());
    let rows = HistogramMatrix::dense(x.view());
    let pairs: Vec<_> = (0..40).flat_map(|i| (0..40).map(move |j| (j, i))).collect();
    let [one, two, seven] = executors()
        .each_ref()
        .map(|exec| (emd_distances(exec, &rows, None, m.view()).unwrap(), exec));
    assert!(one.0 == two.0 && one.0 == seven.0);
    let chosen = emd_pairs(two.1, &rows, &rows, &pairs, m.view()).unwrap();
    assert!(pairs.iter().zip(&chosen).all(|(&pair, &d)| one.0[pair] == d));
}

#[test]
fn one_very_large_problem_is_interrupted() {
    let (n, mut random) = (1500, Random(1));
    let m = Array2::from_shape_fn((n, n), |_| random.unit());
    let a = Array1::from_shape_fn(n, |_| random.unit() + 0.1);
    let b = Array1::from_iter(a.iter().rev().copied());
    let (exec, stop, start) = (Executor::new(2).unwrap(), AtomicBool::new(false), Instant::now());
    let found = exec.watch(
        || emd_plan(&exec, a.view(), b.view(), m.view()),
        || stop.fetch_or(start.elapsed() > Duration::from_millis(60), Ordering::Relaxed),
    );
    assert_eq!(found, Err(Error::Interrupted));
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn what_cannot_be_moved_is_refused() {
    let m = array![[0.0, 1.0], [1.0, 0.0]];
    let solve = |a: Array1<f64>, b: Array1<f64>, m: &Array2<f64>| {
        emd_plan(exec(), a.view(), b.view(), m.view())
    };
    let is_mass = |found| matches!(found, Err(Error::Mass { .. }));
    assert!(is_mass(solve(array![1.0, 0.0], array![2.0, 0.0], &m)));
    assert!(is_mass(solve(array![0.0, 0.0], array![0.0, 0.0], &m)));
    let bad = solve(array![1.0, 0.0], array![1.0, 0.0], &array![[0.0, -1.0], [1.0, 0.0]]);
    assert_eq!(bad, Err(Error::GroundDistance { row: 0, column: 1, value: -1.0 }));
    let bad = solve(array![1.0, -1.0], array![1.0, 0.0], &m);
    assert!(matches!(bad, Err(Error::Negative { .. })));
    assert!(matches!(solve(array![1.0], array![1.0], &m), Err(Error::Shape { .. })));
    let forbidden = array![[f64::INFINITY, 1.0], [1.0, f64::INFINITY]];
    assert_eq!(solve(array![1.0, 0.0], array![1.0, 0.0], &forbidden), Ok(None));
    let rows = array![[1.0, 0.0]];
    let rows = HistogramMatrix::dense(rows.view());
    let pair = emd_pairs(exec(), &rows, &rows, &[(0, 1)], m.view());
    assert!(matches!(pair, Err(Error::Shape { .. })));
    let none = Array2::<f64>::zeros((0, 2));
    let none = HistogramMatrix::dense(none.view());
    assert_eq!(emd_distances(exec(), &none, None, m.view()).unwrap().dim(), (0, 0));
}
