//! Transport that need not keep the mass against its optimality conditions, in every domain.

use crate::common::*;
use histrs::transport::{Cost, Relaxation, RelaxedSinkhorn, SinkhornDistances, relaxed_distances};
use histrs::{Element, Error, Executor, HistogramMatrix};
use ndarray::{Array1, Array2, ArrayView1, array, s};
use proptest::prelude::*;

/// Histograms of different masses, some bins empty.
fn of_any_mass(n: usize, d: usize, seed: u64) -> Array2<f64> {
    let mut random = Random(seed);
    let mut x = histograms(n, d, seed);
    for mut row in x.rows_mut() {
        row *= 0.2 + 2.0 * random.unit();
    }
    x
}

fn ground(n: usize, m: usize, seed: u64) -> Array2<f64> {
    let mut random = Random(seed);
    let [of_x, of_y] = [n, m].map(|d| (0..d).map(|_| random.unit()).collect::<Vec<_>>());
    Array2::from_shape_fn((n, m), |(i, j)| (of_x[i] - of_y[j]).abs())
}

fn solve<T: Element>(
    exec: &Executor,
    x: &Array2<f64>,
    y: Option<&Array2<f64>>,
    m: &Array2<f64>,
    options: &RelaxedSinkhorn,
) -> histrs::Result<SinkhornDistances<T>> {
    let x = x.mapv(T::from_f64);
    let y = y.map(|y| y.mapv(T::from_f64));
    let y = y.as_ref().map(|y| HistogramMatrix::dense(y.view()));
    relaxed_distances(exec, &HistogramMatrix::dense(x.view()), y.as_ref(), m.view(), options)
}

/// `sum s log(s / t) - s + t`.
fn divergence<'a>(s: &Array1<f64>, t: impl IntoIterator<Item = &'a f64>) -> f64 {
    let term = |(&s, &t): (&f64, &f64)| if s > 0.0 { s * (s / t).ln() - s + t } else { t };
    s.iter().zip(t).map(term).sum()
}

/// The plan `exp((alpha + beta - M) / reg)` of a pair.
fn plan_of(
    found: &SinkhornDistances<f64>,
    (i, j): (usize, usize),
    m: &Array2<f64>,
    reg: f64,
) -> Array2<f64> {
    let [alpha, beta] = found.potentials.as_ref().unwrap();
    Array2::from_shape_fn(m.dim(), |(k, l)| {
        ((alpha[[i, j, k]] + beta[[i, j, l]] - m[[k, l]]) / reg).exp()
    })
}

/// What is minimised over plans, and its parts.
fn costs(
    plan: &Array2<f64>,
    (a, b): (ArrayView1<'_, f64>, ArrayView1<'_, f64>),
    m: &Array2<f64>,
    reg: f64,
    penalties: [f64; 2],
) -> [f64; 3] {
    let moved = |(&t, &m): (&f64, &f64)| if t > 0.0 { t * m } else { 0.0 };
    let transport: f64 = plan.iter().zip(m).map(moved).sum();
    let scale = (a.sum() * b.sum()).sqrt();
    let product = Array2::from_shape_fn(m.dim(), |(k, l)| a[k] * b[l] / scale);
    let entropy = reg * divergence(&plan.flatten().to_owned(), &product);
    let marginals = [plan.sum_axis(ndarray::Axis(1)), plan.sum_axis(ndarray::Axis(0))];
    let mut penalized = transport;
    for ((marginal, own), penalty) in marginals.iter().zip([a, b]).zip(penalties) {
        if penalty.is_finite() {
            penalized += penalty * divergence(marginal, own);
        }
    }
    [transport, penalized, penalized + entropy]
}

const COSTS: [Cost; 3] = [Cost::Transport, Cost::Penalized, Cost::Regularized];

fn check_penalties(x: &Array2<f64>, y: &Array2<f64>, m: &Array2<f64>, reg: f64, p: [f64; 2]) {
    let options = RelaxedSinkhorn::new(reg, Relaxation::Penalties(p))
        .with_tol(1e-10)
        .with_max_iter(50_000)
        .with_potentials(true);
    let found =
        COSTS.map(|cost| solve::<f64>(exec(), x, Some(y), m, &options.with_cost(cost)).unwrap());
    let single =
        COSTS.map(|cost| solve::<f32>(exec(), x, Some(y), m, &options.with_cost(cost)).unwrap());
    for (i, a) in x.rows().into_iter().enumerate() {
        for (j, b) in y.rows().into_iter().enumerate() {
            let plan = plan_of(&found[0], (i, j), m, reg);
            let [rows, columns] = [1, 0].map(|axis| plan.sum_axis(ndarray::Axis(axis)));
            // A marginal is what its price makes of the potential.
            for (side, (own, marginal)) in [(a, rows), (b, columns)].into_iter().enumerate() {
                let [alpha, beta] = found[0].potentials.as_ref().unwrap();
                let potential = [alpha.slice(s![i, j, ..]), beta.slice(s![i, j, ..])][side];
                if p[side].is_infinite() {
                    let error: f64 = (&marginal - &own).mapv(f64::abs).sum();
                    assert!(error <= 1e-8 * own.sum(), "{error}");
                    continue;
                }
                // `alpha - reg log a + p log(r / a)` is the same in every bin.
                let level = |k: usize| {
                    potential[k] - reg * own[k].ln() + p[side] * (marginal[k] / own[k]).ln()
                };
                let levels: Vec<f64> =
                    (0..own.len()).filter(|&k| own[k] > 0.0).map(level).collect();
                let spread = levels.iter().map(|l| (l - levels[0]).abs()).fold(0.0, f64::max);
                assert!(spread <= 1e-7 * (1.0 + p[side]), "{spread} {reg} {p:?}");
                let empty = (0..own.len()).filter(|&k| own[k] <= 0.0);
                assert!(empty.into_iter().all(|k| marginal[k] == 0.0));
            }
            let want = costs(&plan, (a, b), m, reg, p);
            let size = 1.0 + a.sum() + b.sum();
            for ((found, single), want) in found.iter().zip(&single).zip(want) {
                let (value, rounded) = (found.values[[i, j]], f64::from(single.values[[i, j]]));
                assert!((value - want).abs() <= 1e-8 * size, "{value} {want} {reg} {p:?}");
                assert!((rounded - want).abs() <= 1e-5 * size, "{rounded} {want} {reg} {p:?}");
            }
            // The sum of both levels is that of the product the entropy is relative to.
            if p.iter().all(|p| p.is_finite()) {
                let (k, l) = (first(a), first(b));
                // Of an entry of the plan that may underflow.
                let [alpha, beta] = found[0].potentials.as_ref().unwrap();
                let gradient = alpha[[i, j, k]]
                    + beta[[i, j, l]]
                    + reg * ((a.sum() * b.sum()).sqrt() / (a[k] * b[l])).ln()
                    + p[0] * (plan.row(k).sum() / a[k]).ln()
                    + p[1] * (plan.column(l).sum() / b[l]).ln();
                assert!(gradient.abs() <= 1e-7 * (1.0 + p[0] + p[1]), "{gradient} {reg} {p:?}");
            }
        }
    }
}

fn first(histogram: ArrayView1<'_, f64>) -> usize {
    histogram.iter().position(|&mass| mass > 0.0).unwrap()
}

const PENALTIES: &[[f64; 2]] =
    &[[1.0, 1.0], [0.05, 2.0], [30.0, 0.3], [f64::INFINITY, 0.5], [0.5, f64::INFINITY]];

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn plans_with_penalties_are_optimal(
        n in prop::sample::select(&[1_usize, 2, 5, 9, 17][..]),
        m in prop::sample::select(&[1_usize, 3, 8, 20][..]),
        k in 1..5_usize,
        reg in prop::sample::select(&[0.5, 0.05, 0.005, 0.001][..]),
        penalties in prop::sample::select(PENALTIES),
        seed: u64,
    ) {
        let (x, y) = (of_any_mass(k, n, seed), of_any_mass(3, m, !seed));
        check_penalties(&x, &y, &ground(n, m, seed ^ 7), reg, penalties);
    }

    /// No marginal exceeds its histogram; where one falls short its potential is the largest, and
    /// so much moves as was asked.
    #[test]
    fn plans_of_a_mass_are_optimal(
        n in prop::sample::select(&[1_usize, 2, 5, 9, 17][..]),
        m in prop::sample::select(&[1_usize, 3, 8, 20][..]),
        k in 1..5_usize,
        reg in prop::sample::select(&[0.5, 0.05, 0.01, 0.001][..]),
        part in prop::sample::select(&[None, Some(0.1), Some(0.6), Some(0.98)][..]),
        seed: u64,
    ) {
        let (x, y) = (of_any_mass(k, n, seed), of_any_mass(3, m, !seed));
        let m = ground(n, m, seed ^ 7);
        let sums = x.rows().into_iter().chain(y.rows()).map(|row| row.sum());
        let mass = part.map(|part: f64| part * sums.fold(f64::INFINITY, f64::min));
        let options = RelaxedSinkhorn::new(reg, Relaxation::Mass(mass))
            .with_tol(1e-9)
            .with_max_iter(if reg < 0.01 { 2_000 } else { 50_000 })
            .with_potentials(true);
        let found = COSTS
            .map(|cost| solve::<f64>(exec(), &x, Some(&y), &m, &options.with_cost(cost)).unwrap());
        for (i, a) in x.rows().into_iter().enumerate() {
            for (j, b) in y.rows().into_iter().enumerate() {
                // Of so fine a regularisation some end late, and say so.
                if reg < 0.01 && found[0].errors[[i, j]] > 1e-9 {
                    continue;
                }
                let plan = plan_of(&found[0], (i, j), &m, reg);
                let moved = mass.unwrap_or(a.sum().min(b.sum()));
                prop_assert!((plan.sum() - moved).abs() <= 1e-7 * moved);
                for (side, own) in [a, b].into_iter().enumerate() {
                    let marginal = plan.sum_axis(ndarray::Axis(1 - side));
                    let potentials = &found[0].potentials.as_ref().unwrap()[side];
                    let potentials = potentials.slice(s![i, j, ..]);
                    let largest = potentials.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    for ((&sum, &own), &potential) in marginal.iter().zip(own).zip(potentials) {
                        prop_assert!(sum <= own + 1e-7 * moved);
                        if sum < own - 1e-6 * moved {
                            // What more would go at the largest potential.
                            let more = sum * ((largest - potential) / reg).exp_m1();
                            prop_assert!(more <= 1e-6 * moved, "{more} {potential} {largest}");
                        }
                    }
                }
                let transport: f64 = (&plan * &m).sum();
                let entropy: f64 =
                    plan.iter().map(|&t| if t > 0.0 { t * t.ln() } else { 0.0 }).sum();
                let wants = [transport, transport, transport + reg * entropy];
                for (found, want) in found.iter().zip(wants) {
                    let value = found.values[[i, j]];
                    prop_assert!((value - want).abs() <= 1e-6 * (1.0 + moved), "{value} {want}");
                }
            }
        }
    }

    /// In another unit of mass nothing changes but the unit of the result.
    #[test]
    fn the_unit_of_mass_is_free(
        exponent in prop::sample::select(&[-900, -80, 90, 800][..]),
        seed: u64,
    ) {
        let (x, y, m) = (of_any_mass(3, 6, seed), of_any_mass(2, 6, !seed), ground(6, 6, seed ^ 7));
        let unit = 2.0_f64.powi(exponent);
        let options = RelaxedSinkhorn::new(0.05, Relaxation::Penalties([0.4, 0.8])).with_tol(1e-10);
        for cost in COSTS {
            let with = |unit: f64| {
                let (x, y) = (&x * unit, &y * unit);
                solve::<f64>(exec(), &x, Some(&y), &m, &options.with_cost(cost)).unwrap().values
            };
            for (found, want) in with(unit).iter().zip(with(1.0)) {
                prop_assert!((found / unit - want).abs() <= 1e-9 * (1.0 + want.abs()));
            }
        }
    }

    #[test]
    fn each_pair_once_is_each_pair(reg in prop::sample::select(&[0.3, 0.01][..]), seed: u64) {
        let (mut x, m) = (of_any_mass(7, 8, seed), ground(8, 8, seed ^ 7));
        let same = x.row(2).to_owned();
        x.row_mut(5).assign(&same);
        // The distances of places are symmetric where these are the same.
        let m = Array2::from_shape_fn((8, 8), |(i, j)| (m[[i, 0]] - m[[j, 0]]).abs());
        for relaxation in [
            Relaxation::Penalties([0.6; 2]),
            Relaxation::Penalties([0.6, 0.3]),
            Relaxation::Mass(Some(0.05)),
        ] {
            let options = RelaxedSinkhorn::new(reg, relaxation).with_tol(1e-10);
            let options = options.with_potentials(true).with_cost(Cost::Penalized);
            let [one, two, seven] = executors()
                .each_ref()
                .map(|exec| solve::<f64>(exec, &x, None, &m, &options).unwrap());
            prop_assert!(one.values == two.values && one.values == seven.values);
            let all = solve::<f64>(exec(), &x, Some(&x), &m, &options).unwrap();
            for (own, other) in one.values.iter().zip(&all.values) {
                prop_assert!((own - other).abs() <= 1e-8, "{own} {other}");
            }
            let plans = [&one, &all].map(|found| plan_of(found, (5, 1), &m, reg));
            let difference = (&plans[0] - &plans[1]).mapv(f64::abs).sum();
            prop_assert!(difference <= 1e-7, "{difference}");
        }
    }
}

/// The most that can move, the least of all cuts: what a set of bins has, and what the bins that no
/// way leads to from the others can take.
fn least_cut(a: ArrayView1<'_, f64>, b: ArrayView1<'_, f64>, m: &Array2<f64>) -> f64 {
    let cut = |set: usize| {
        let inside = |i: usize| set >> i & 1 == 1;
        let of_source: f64 = (0..a.len()).filter(|&i| inside(i)).map(|i| a[i]).sum();
        let reached = |j: usize| (0..a.len()).any(|i| !inside(i) && m[[i, j]].is_finite());
        of_source + (0..b.len()).filter(|&j| reached(j)).map(|j| b[j]).sum::<f64>()
    };
    (0..1 << a.len()).map(cut).fold(f64::INFINITY, f64::min)
}

proptest! {
    #![proptest_config(config(60))]

    /// A pair is infinitely distant where and only where no plan is left.
    #[test]
    fn pairs_without_a_plan_are_infinitely_distant(
        penalties in prop::sample::select(&[
            Some([0.4, 0.9]),
            Some([f64::INFINITY, 0.9]),
            Some([0.4, f64::INFINITY]),
            None,
        ][..]),
        mass in prop::sample::select(&[Some(0.3), None][..]),
        share in prop::sample::select(&[0.3, 0.6, 0.8][..]),
        seed: u64,
    ) {
        let mut random = Random(seed);
        let (x, y) = (1.3 * histograms(5, 4, seed), 1.9 * histograms(6, 5, !seed));
        let mut m = ground(4, 5, seed ^ 7);
        m.mapv_inplace(|m| if random.unit() < share { f64::INFINITY } else { m });
        let relaxation = penalties.map_or(Relaxation::Mass(mass), Relaxation::Penalties);
        let options = RelaxedSinkhorn::new(0.2, relaxation).with_tol(1e-6);
        let found = solve::<f64>(exec(), &x, Some(&y), &m, &options).unwrap();
        for (i, a) in x.rows().into_iter().enumerate() {
            for (j, b) in y.rows().into_iter().enumerate() {
                let open = |k: usize, l: usize| m[[k, l]].is_finite() && a[k] > 0.0 && b[l] > 0.0;
                let can = if let Some([p, q]) = penalties {
                    let leave = (0..4).all(|k| a[k] == 0.0 || (0..5).any(|l| open(k, l)));
                    let arrive = (0..5).all(|l| b[l] == 0.0 || (0..4).any(|k| open(k, l)));
                    (p.is_finite() || leave) && (q.is_finite() || arrive)
                } else {
                    let spare = least_cut(a, b, &m) - mass.unwrap_or(1.3);
                    // Rounding decides of what just suffices, but not of all the mass.
                    if mass.is_some() && spare.abs() < 1e-3 {
                        continue;
                    }
                    spare > -1e-9
                };
                let finite = found.values[[i, j]].is_finite();
                prop_assert!(finite == can, "{i} {j} {relaxation:?}");
            }
        }
    }
}

/// Rows have the distances that each would have alone, many as they are.
#[test]
fn many_rows_have_the_distances_of_one() {
    let (x, y, m) = (of_any_mass(600, 5, 3), of_any_mass(2, 5, 4), ground(5, 5, 9));
    for relaxation in [Relaxation::Penalties([0.5, 0.8]), Relaxation::Mass(None)] {
        let options = RelaxedSinkhorn::new(0.1, relaxation).with_tol(1e-10);
        let all = solve::<f64>(exec(), &x, Some(&y), &m, &options).unwrap().values;
        for i in [0, 255, 256, 257, 511, 512, 599] {
            let one = x.slice(s![i..=i, ..]).to_owned();
            let one = solve::<f64>(exec(), &one, Some(&y), &m, &options).unwrap().values;
            for (all, one) in all.row(i).iter().zip(&one) {
                assert!((all - one).abs() <= 1e-8, "{i}: {all} {one}");
            }
        }
    }
}

/// Of the same shape, with and without the same mass, from and to places that are equally far or not.
#[test]
fn plans_between_histograms_of_one_shape_are_optimal() {
    let x = of_any_mass(3, 6, 11);
    let y = ndarray::concatenate![ndarray::Axis(0), x, 2.5 * &x];
    let even = Array2::from_shape_fn((6, 6), |(i, j)| i.abs_diff(j) as f64 / 5.0);
    let mut uneven = even.clone();
    uneven[[1, 4]] = 0.1;
    for m in [&even, &uneven] {
        for penalties in [[0.6, 0.6], [0.6, 0.2]] {
            check_penalties(&x, &y, m, 0.05, penalties);
        }
    }
}

/// What single precision cannot end is ended in double.
#[test]
fn distances_of_single_precision_are_as_exact_as_was_asked() {
    let (x, y, m) = (of_any_mass(12, 300, 1), of_any_mass(12, 200, 2), ground(300, 200, 3));
    for relaxation in [
        Relaxation::Penalties([20.0, 30.0]),
        Relaxation::Penalties([0.1, f64::INFINITY]),
        Relaxation::Mass(Some(0.1)),
        Relaxation::Mass(None),
    ] {
        let options = RelaxedSinkhorn::new(0.026, relaxation).with_tol(1e-5);
        let found = solve::<f32>(exec(), &x, Some(&y), &m, &options).unwrap();
        let worst = found.errors.iter().copied().fold(0.0, f64::max);
        assert!(worst <= 1e-5, "{relaxation:?}: {worst:e}");
    }
}

#[test]
fn histograms_without_mass_lose_what_the_other_has() {
    let x = array![[0.0, 0.0, 0.0], [0.5, 0.25, 0.0]];
    let y = array![[0.0, 0.0, 0.0], [0.0, 3.0, 0.0]];
    let m = ground(3, 3, 4);
    let value = |penalties, cost, pair: (usize, usize)| {
        let options = RelaxedSinkhorn::new(0.1, Relaxation::Penalties(penalties)).with_cost(cost);
        solve::<f64>(exec(), &x, Some(&y), &m, &options).unwrap().values[pair]
    };
    for cost in [Cost::Penalized, Cost::Regularized] {
        assert_eq!(value([0.5, 2.0], cost, (0, 0)), 0.0);
        assert!((value([0.5, 2.0], cost, (0, 1)) - 6.0).abs() < 1e-12);
        assert!((value([0.5, 2.0], cost, (1, 0)) - 0.375).abs() < 1e-12);
    }
    assert_eq!(value([0.5, 2.0], Cost::Transport, (0, 1)), 0.0);
    // What must be kept cannot be lost.
    for cost in COSTS {
        assert_eq!(value([0.5, f64::INFINITY], cost, (0, 1)), f64::INFINITY);
        assert_eq!(value([f64::INFINITY, 0.5], cost, (1, 0)), f64::INFINITY);
        assert_eq!(value([f64::INFINITY, 0.5], cost, (0, 0)), 0.0);
    }
    let none = RelaxedSinkhorn::new(0.1, Relaxation::Mass(None));
    let found = solve::<f64>(exec(), &x, Some(&y), &m, &none).unwrap();
    assert_eq!((found.values[[0, 1]], found.values[[1, 0]]), (0.0, 0.0));
    let nothing = RelaxedSinkhorn::new(0.1, Relaxation::Mass(Some(0.0)));
    let found = solve::<f64>(exec(), &x, Some(&y), &m, &nothing).unwrap();
    assert!(found.values.iter().all(|&value| value == 0.0));
}

/// Bins between which nothing moves, as costs that are large: mass there is lost, or no plan left.
#[test]
fn transport_that_is_forbidden() {
    let (x, y) = (array![[1.0, 0.5, 0.0]], array![[0.25, 0.0, 1.0]]);
    let infinite = f64::INFINITY;
    let m = array![[0.0, 1.0, infinite], [infinite, 0.0, infinite], [infinite, 1.0, 0.0]];
    let value = |m: &Array2<f64>, relaxation| {
        let options = RelaxedSinkhorn::new(0.1, relaxation).with_cost(Cost::Penalized);
        solve::<f64>(exec(), &x, Some(&y), m, &options.with_tol(1e-9)).unwrap().values[[0, 0]]
    };
    let large = m.mapv(|value: f64| value.min(60.0));
    let penalties = Relaxation::Penalties([0.7, 0.9]);
    assert!((value(&m, penalties) - value(&large, penalties)).abs() < 1e-7);
    // Bin 1 has no way out, and nothing comes to bin 2.
    for penalties in [[infinite, 0.9], [0.7, infinite]] {
        assert_eq!(value(&m, Relaxation::Penalties(penalties)), infinite);
    }
    let mut open = m.clone();
    open[[1, 0]] = 2.0;
    assert!(value(&open, Relaxation::Penalties([infinite, 0.9])).is_finite());
    assert_eq!(value(&open, Relaxation::Penalties([0.7, infinite])), infinite);
    open[[0, 2]] = 3.0;
    assert!(value(&open, Relaxation::Penalties([0.7, infinite])).is_finite());
    // A quarter can move, from bin 0 to itself.
    assert!(value(&m, Relaxation::Mass(Some(0.25))).is_finite());
    assert_eq!(value(&m, Relaxation::Mass(Some(0.26))), infinite);
    assert_eq!(value(&m, Relaxation::Mass(None)), infinite);
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let (x, m) = (array![[1.0, 0.5], [0.25, 0.5]], array![[0.0, 1.0], [1.0, 0.0]]);
    let error = |relaxation, reg| {
        let options = RelaxedSinkhorn::new(reg, relaxation);
        solve::<f64>(exec(), &x, None, &m, &options).unwrap_err()
    };
    let infinite = f64::INFINITY;
    for penalties in [[0.0, 1.0], [1.0, -1.0], [f64::NAN, 1.0], [infinite; 2], [1e9, 1.0]] {
        let error = error(Relaxation::Penalties(penalties), 0.1);
        assert!(matches!(error, Error::Parameter { name: "reg_m", .. }), "{penalties:?} {error}");
    }
    for mass in [-1.0, f64::NAN, infinite] {
        let error = error(Relaxation::Mass(Some(mass)), 0.1);
        assert!(matches!(error, Error::Parameter { name: "mass", .. }), "{error}");
    }
    let expected = 1.2;
    let error = error(Relaxation::Mass(Some(expected)), 0.1);
    let Error::TooLittle { name: "X", row: 1, mass, .. } = error else { panic!("{error}") };
    assert!((mass - 0.75).abs() < 1e-12);
    let empty = array![[1.0, 0.5], [0.0, 0.0]];
    for (x, y, side) in [(&x, &empty, "Y"), (&empty, &x, "X")] {
        let options = RelaxedSinkhorn::new(0.1, Relaxation::Mass(Some(0.5)));
        let error = solve::<f64>(exec(), x, Some(y), &m, &options).unwrap_err();
        let Error::TooLittle { name, row: 1, mass: 0.0, .. } = error else { panic!("{error}") };
        assert_eq!(name, side);
    }
    let enough = RelaxedSinkhorn::new(0.1, Relaxation::Mass(Some(0.75)));
    assert!(solve::<f64>(exec(), &x, None, &m, &enough).is_ok());
    for tol in [0.0, -1.0, f64::NAN] {
        let options = enough.with_tol(tol);
        let error = solve::<f64>(exec(), &x, None, &m, &options).unwrap_err();
        assert!(matches!(error, Error::Parameter { name: "tol", .. }), "{error}");
    }
}
