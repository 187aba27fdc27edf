//! Barycentres of histograms, and the loss of learned ones, by their derivatives.

use crate::common::*;
use histrs::neighborhood::Labels;
use histrs::transport::{
    Barycenter, Barycenters, Sinkhorn, histogram_compression_loss, sinkhorn_barycenters,
    sinkhorn_distances, sinkhorn_pairs,
};
use histrs::{Error, HistogramMatrix};
use ndarray::{Array1, Array2, ArrayView2, Axis, array, s};
use proptest::prelude::*;

fn line(n: usize, m: usize) -> Array2<f64> {
    Array2::from_shape_fn((n, m), |(i, j)| (i as f64 / n as f64 - j as f64 / m as f64).powi(2))
}

fn barycenters(
    x: &Array2<f64>,
    weights: &Array2<f64>,
    m: &Array2<f64>,
    options: &Barycenter,
) -> histrs::Result<Barycenters> {
    let x = HistogramMatrix::dense(x.view());
    sinkhorn_barycenters(exec(), &x, weights.view(), m.view(), options)
}

/// Slopes of regularised costs from each row of `x` to `b`, with respect to `b`.
fn slopes(
    x: ArrayView2<'_, f64>,
    b: ArrayView2<'_, f64>,
    m: &Array2<f64>,
    reg: f64,
) -> Array2<f64> {
    let options = Sinkhorn::new(reg).with_tol(1e-12).with_max_iter(50_000).with_potentials(true);
    let (x, b) = (HistogramMatrix::dense(x), HistogramMatrix::dense(b));
    let found = sinkhorn_distances(exec(), &x, Some(&b), m.view(), &options).unwrap();
    found.potentials.unwrap()[1].slice(s![.., 0, ..]).to_owned()
}

proptest! {
    #![proptest_config(config(40))]

    /// At the least sum of costs the slope is the same in every bin.
    #[test]
    fn a_barycenter_is_where_costs_are_least(
        n in 1..6_usize,
        bins in prop::sample::select(&[(1_usize, 1_usize), (6, 6), (9, 5), (4, 17), (16, 16)][..]),
        reg in prop::sample::select(&[0.3_f64, 0.05, 0.012][..]),
        debiased: bool,
        unit in prop::sample::select(&[1.0, 1e-300, 1e12][..]),
        seed: u64,
    ) {
        let (d, n_targets) = if debiased { (bins.0, bins.0) } else { bins };
        // Groups of bins that hardly exchange mass leave the slopes between them open.
        let reg = if debiased && d < 16 { reg.max(0.05) } else { reg };
        let (x, m) = (histograms(n, d, seed), line(d, n_targets));
        let mut random = Random(seed);
        let weights = Array2::from_shape_fn((3, n), |(k, i)| match k {
            0 => 1.0,
            // The first row of this one has none, unless it is all there is.
            1 if i == 0 && n > 1 => 0.0,
            _ => unit * (random.unit() + 0.1),
        });
        // Bins that a debiased one leaves empty lose their mass the more slowly the less it is.
        let (tol, filled, tolerance) =
            if debiased { (1e-4, 2e-2, 1e-2) } else { (1e-10, 1e-9, 1e-5) };
        let options = Barycenter::new(reg).with_tol(tol).with_debiased(debiased);
        let found = barycenters(&(&x * unit), &weights, &m, &options).unwrap();
        for (k, weights) in weights.rows().into_iter().enumerate() {
            let b = found.values.slice(s![k..=k, ..]).mapv(|b| b / unit);
            prop_assert!((b.sum() - 1.0).abs() <= 1e-9);
            prop_assert!(found.errors[k] <= tol, "{} {}", found.errors[k], found.n_iter[k]);
            let share = &weights / weights.sum();
            let mut slope = slopes(x.view(), b.view(), &m, reg);
            for (mut slope, &weight) in slope.rows_mut().into_iter().zip(&share) {
                slope *= weight;
            }
            let mut slope = slope.sum_axis(Axis(0));
            if debiased {
                slope -= &slopes(b.view(), b.view(), &m, reg).row(0);
            }
            let with_mass = slope.iter().zip(&b).filter(|(_, b)| **b > filled).map(|(s, _)| *s);
            let (least, most) = with_mass.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), s| (l.min(s), m.max(s)));
            prop_assert!(most - least <= tolerance, "{} {reg} {debiased}", most - least);
        }
        let mirrored = barycenters(&(&x * unit), &(&weights * 8.0), &m, &options).unwrap();
        prop_assert_eq!(mirrored, found);
    }

    /// The gradient of the loss of learned histograms is the quotient of small differences.
    #[test]
    fn the_loss_of_learned_histograms_and_its_gradient(
        n in prop::sample::select(&[1_usize, 5, 70][..]),
        d in prop::sample::select(&[2_usize, 5, 9][..]),
        gamma in prop::sample::select(&[0.5, 2.0][..]),
        reg in prop::sample::select(&[0.2, 0.02][..]),
        scale in prop::sample::select(&[1.0, 1e-20, 1e20][..]),
        seed: u64,
    ) {
        let (x, m) = (histograms(n, d, seed), line(d, d));
        let mut random = Random(seed);
        let logarithms = Array2::from_shape_fn((4, d), |_| 2.0 * random.unit());
        let of_prototypes = [0_i64, 1, 0, 1];
        let of_rows: Vec<i64> = (0..n).map(|_| random.below(2) as i64).collect();
        let weights: Vec<f64> = (0..n).map(|_| scale * random.below(3) as f64).collect();
        let options = Sinkhorn::new(reg).with_tol(1e-11).with_max_iter(50_000);
        let softmax = |logarithms: &Array2<f64>| {
            let mut h = logarithms.mapv(f64::exp);
            for mut row in h.rows_mut() {
                let sum = row.sum();
                row /= sum;
            }
            h
        };
        let evaluate = |logarithms: &Array2<f64>, starts: Option<&mut [f32]>| {
            let h = softmax(logarithms);
            let (x, h) = (HistogramMatrix::dense(x.view()), HistogramMatrix::dense(h.view()));
            let labels = Labels::new(&of_rows, &of_prototypes).with_weights(&weights);
            histogram_compression_loss(exec(), [&x, &h], labels, m.view(), gamma, &options, starts)
                .unwrap()
        };
        let found = evaluate(&logarithms, None);
        prop_assert!(found.error <= 1e-11);
        // From distances of all pairs.
        let h = softmax(&logarithms);
        let regularized = options.with_regularized(true);
        let costs = |x: &Array2<f64>| {
            let (x, h) = (HistogramMatrix::dense(x.view()), HistogramMatrix::dense(h.view()));
            sinkhorn_distances(exec(), &x, Some(&h), m.view(), &regularized).unwrap().values
        };
        let (own, other) = (costs(&h), costs(&x));
        let mut want = 0.0;
        for (row, (&label, weight)) in other.rows().into_iter().zip(of_rows.iter().zip(&weights)) {
            let each: Vec<f64> = (0..4)
                .map(|j| (-gamma * gamma * (row[j] - own[[j, j]] / 2.0)).exp())
                .collect();
            let right: f64 = (0..4).filter(|&j| of_prototypes[j] == label).map(|j| each[j]).sum();
            want -= weight * (right / each.iter().sum::<f64>()).ln();
        }
        let size = scale * n as f64;
        prop_assert!((found.loss - want).abs() <= 1e-9 * size, "{} {want}", found.loss);
        let mut starts = vec![0.0; n * 4 * d];
        for _ in 0..2 {
            let again = evaluate(&logarithms, Some(&mut starts));
            prop_assert!((again.loss - found.loss).abs() <= 1e-9 * size);
            let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-8 * size;
            prop_assert!(again.gradient.iter().zip(&found.gradient).all(close));
        }
        prop_assert!(n == 1 || starts.iter().any(|&start| start != 0.0));
        for (j, k) in [(0, 0), (1, d - 1), (2, d / 2), (3, 0)] {
            let step = 1e-4;
            let at = |step: f64| {
                let mut moved = logarithms.clone();
                moved[[j, k]] += step;
                evaluate(&moved, None).loss
            };
            let slope = (at(step) - at(-step)) / (2.0 * step);
            let found = found.gradient[[j, k]];
            // Of two bins that hardly exchange mass, potentials are known to fewer digits.
            let tolerance = if d == 2 && reg < 0.1 { 2e-4 } else { 2e-6 };
            prop_assert!((found - slope).abs() <= tolerance * size, "{found} {slope}");
        }
    }

    #[test]
    fn chosen_pairs_are_those_of_all(
        n in 1..9_usize,
        n_pairs in prop::sample::select(&[0_usize, 1, 20, 300, 600][..]),
        reg in prop::sample::select(&[0.3, 0.004][..]),
        seed: u64,
    ) {
        let (x, y, m) = (histograms(n, 7, seed), histograms(5, 6, !seed), line(7, 6));
        let mut random = Random(seed);
        let pairs: Vec<(usize, usize)> =
            (0..n_pairs).map(|_| (random.below(n), random.below(5))).collect();
        let (x, y) = (HistogramMatrix::dense(x.view()), HistogramMatrix::dense(y.view()));
        let options = Sinkhorn::new(reg).with_tol(1e-11).with_max_iter(50_000);
        let all = sinkhorn_distances(exec(), &x, Some(&y), m.view(), &options.with_potentials(true));
        let all = all.unwrap();
        let found = sinkhorn_pairs(exec(), &x, &y, &pairs, None, m.view(), &options).unwrap();
        prop_assert_eq!(found.values.len(), n_pairs);
        // From where they end nothing is left to do.
        let alpha = &all.potentials.as_ref().unwrap()[0];
        let starts = Array2::from_shape_fn((n_pairs, 7), |(k, bin)| {
            let start = alpha[[pairs[k].0, pairs[k].1, bin]] / reg;
            if start.is_finite() { start as f32 } else { 0.0 }
        });
        let once = options.with_tol(1e-4).with_max_iter(3);
        let begun =
            sinkhorn_pairs(exec(), &x, &y, &pairs, Some(starts.view()), m.view(), &once).unwrap();
        for (k, &pair) in pairs.iter().enumerate() {
            prop_assert!((found.values[k] - all.values[pair]).abs() <= 1e-9);
            prop_assert!(found.errors[k] <= 1e-10);
            prop_assert!((begun.values[k] - all.values[pair]).abs() <= 1e-4);
            prop_assert!(begun.errors[k] <= 1e-4, "{}", begun.errors[k]);
        }
    }
}

/// Where the kernel is out of the range of the numbers, between bins of two kinds.
#[test]
fn a_barycenter_of_a_fine_regularisation() {
    for (d, n_targets) in [(9, 5), (4, 17), (12, 12)] {
        let (x, m, reg) = (histograms(3, d, 4), line(d, n_targets), 0.001);
        let weights = array![[0.5, 0.3, 0.2]];
        let options = Barycenter::new(reg).with_tol(1e-8).with_max_iter(200_000);
        let found = barycenters(&x, &weights, &m, &options).unwrap();
        assert!(found.errors[0] <= 1e-8, "{}", found.errors[0]);
        let mut slope = slopes(x.view(), found.values.view(), &m, reg);
        for (mut slope, &weight) in slope.rows_mut().into_iter().zip(weights.row(0)) {
            slope *= weight;
        }
        let slope = slope.sum_axis(Axis(0));
        let with_mass = slope.iter().zip(&found.values).filter(|(_, b)| **b > 1e-4);
        // Between groups of bins that hardly exchange mass the potentials are little determined.
        let slopes: Vec<f64> = with_mass.map(|(slope, _)| *slope).collect();
        assert!(slopes.iter().all(|slope| (slope - slopes[0]).abs() <= 1e-3), "{slopes:?}");
    }
}

/// Rows in several parts, which are solved some at a time, within the range of the kernel and
/// beyond it. The plan is optimal where their pairs ended, and from there nothing is left to do.
#[test]
fn the_loss_of_many_rows_goes_on_from_where_its_pairs_ended() {
    let (n, k, d) = (1500, 33, 3);
    let (x, h, m) = (histograms(n, d, 1), histograms(k, d, 2), line(d, d));
    let of_rows: Vec<i64> = (0..n as i64).map(|row| row % 3).collect();
    let of_prototypes: Vec<i64> = (0..k as i64).map(|j| j % 3).collect();
    for reg in [0.1, 0.001] {
        let evaluate = |rows: std::ops::Range<usize>,
                        options: &Sinkhorn,
                        starts: Option<&mut [f32]>| {
            let part = x.slice(s![rows.clone(), ..]);
            let [part, h] = [part, h.view()].map(HistogramMatrix::dense);
            let labels = Labels::new(&of_rows[rows], &of_prototypes);
            histogram_compression_loss(exec(), [&part, &h], labels, m.view(), 1.0, options, starts)
                .unwrap()
        };
        let options = Sinkhorn::new(reg).with_tol(1e-8).with_max_iter(50_000);
        let mut starts = vec![0.0; n * k * d];
        let found = evaluate(0..n, &options, Some(&mut starts));
        assert!(found.error <= 1e-8);
        if reg > 0.01 {
            let parts = [0..37, 37..600, 600..n].map(|rows| evaluate(rows, &options, None));
            let loss: f64 = parts.iter().map(|part| part.loss).sum();
            assert!((loss - found.loss).abs() <= 1e-6 * n as f64, "{loss} {}", found.loss);
            let gradient = &parts[0].gradient + &parts[1].gradient + &parts[2].gradient;
            let close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * n as f64;
            assert!(gradient.iter().zip(&found.gradient).all(close));
        }
        // Logarithms of hundreds have few digits behind the point.
        let tolerance = if reg < 0.01 { 2e-3 } else { 1e-5 };
        for (pair, f) in starts.chunks_exact(d).enumerate().step_by(7) {
            let (a, b) = (x.row(pair / k), h.row(pair % k));
            let from = |i: usize, j: usize| f64::from(f[i]) - m[[i, j]] / reg;
            let mut rows = vec![0.0; d];
            for (j, &b) in b.iter().enumerate().filter(|(_, b)| **b > 0.0) {
                let reached = (0..d).filter(|&i| a[i] > 0.0);
                let most = reached.clone().map(|i| from(i, j)).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = reached.clone().map(|i| (from(i, j) - most).exp()).sum();
                reached.for_each(|i| rows[i] += b * (from(i, j) - most).exp() / sum);
            }
            let error: f64 = rows.iter().zip(a).map(|(row, a)| (row - a).abs()).sum();
            assert!(error <= tolerance, "{reg} {pair}: {error:e}");
        }
        let few = options.with_tol(tolerance).with_max_iter(12);
        let again = evaluate(0..n, &few, Some(&mut starts));
        assert!(again.error <= tolerance, "{reg}: {:e}", again.error);
        assert!((again.loss - found.loss).abs() <= tolerance * n as f64);
        let cold = evaluate(0..n, &few, None);
        assert!(cold.error > 3.0 * tolerance, "{reg}: {:e}", cold.error);
    }
}

#[test]
fn pairs_and_starts_that_are_not_there_are_refused() {
    let (x, m) = (histograms(3, 4, 1), line(4, 4));
    let x = HistogramMatrix::dense(x.view());
    let options = Sinkhorn::new(0.2);
    let with = |pairs: &[(usize, usize)], starts: Option<Array2<f32>>| {
        let starts = starts.as_ref().map(|starts| starts.view());
        sinkhorn_pairs(exec(), &x, &x, pairs, starts, m.view(), &options).map(drop)
    };
    assert_eq!(with(&[(2, 2), (0, 1)], Some(Array2::zeros((2, 4)))), Ok(()));
    for pairs in [[(3, 0)], [(0, 3)]] {
        assert!(matches!(with(&pairs, None), Err(Error::Shape { found: 3, expected: 2, .. })));
    }
    for shape in [(1, 4), (3, 4), (2, 3), (2, 5)] {
        let error = with(&[(2, 2), (0, 1)], Some(Array2::zeros(shape)));
        assert!(matches!(error, Err(Error::Shape { .. })));
    }
    for bad in [f32::NAN, f32::INFINITY] {
        let mut starts = Array2::zeros((2, 4));
        starts[[1, 2]] = bad;
        let error = with(&[(2, 2), (0, 1)], Some(starts)).unwrap_err();
        assert!(matches!(error, Error::NotFinite { name: "starts", row: 1, column: 2, .. }));
    }
}

#[test]
fn barycenters_have_mass_where_all_histograms_reach() {
    let infinite = f64::INFINITY;
    let x = array![[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]];
    let m = array![[0.0, 1.0, infinite], [1.0, 0.0, 1.0], [infinite, 1.0, 0.0]];
    let found = barycenters(&x, &array![[0.5, 0.5]], &m, &Barycenter::new(0.1)).unwrap();
    assert_eq!(found.values[[0, 2]], 0.0);
    assert!(found.values[[0, 0]] > 0.0 && found.values[[0, 1]] > 0.0);
    // A row that has no weight in one barycentre, but in another, is not asked for the first.
    let apart = array![[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]];
    let found = barycenters(&apart, &array![[1.0, 0.0], [0.0, 1.0]], &m, &Barycenter::new(0.1));
    let found = found.unwrap().values;
    assert!(found[[0, 0]] > 0.0 && found[[0, 2]] == 0.0);
    assert!(found[[1, 2]] > 0.0 && found[[1, 0]] == 0.0);
    // The first row alone reaches no further; the third, whose weight is 0, would reach neither.
    let x = array![[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]];
    let mut blocked = m.clone();
    blocked.slice_mut(s![2, ..]).fill(infinite);
    let options = Barycenter::new(0.1);
    assert!(barycenters(&x, &array![[0.5, 0.5, 0.0]], &blocked, &options).is_ok());
    let error = barycenters(&x, &array![[0.5, 0.5, 1.0]], &blocked, &options).unwrap_err();
    assert!(matches!(error, Error::NoBarycenter { row: 0, bin: 0 }), "{error}");
}

#[test]
fn barycenters_that_cannot_be_are_refused() {
    let (x, m) = (histograms(2, 4, 3), line(4, 4));
    let even = array![[0.5, 0.5]];
    let options = Barycenter::new(0.1);
    for weights in [array![[1.0, -1.0]], array![[0.0, 0.0]], array![[f64::INFINITY, 1.0]]] {
        let error = barycenters(&x, &weights, &m, &options).unwrap_err();
        assert!(matches!(error, Error::Parameter { name: "weights", .. }), "{error}");
    }
    assert!(matches!(barycenters(&x, &array![[1.0]], &m, &options), Err(Error::Shape { .. })));
    assert!(matches!(barycenters(&x, &even, &line(3, 4), &options), Err(Error::Shape { .. })));
    for tol in [0.0, f64::NAN] {
        let error = barycenters(&x, &even, &m, &options.with_tol(tol)).unwrap_err();
        assert!(matches!(error, Error::Parameter { name: "tol", .. }), "{error}");
    }
    let debiased = options.with_debiased(true);
    let wide = barycenters(&x, &even, &line(4, 5), &debiased);
    assert!(matches!(wide, Err(Error::Shape { .. })));
    let mut skew = m.clone();
    skew[[1, 3]] += 1.0;
    let error = barycenters(&x, &even, &skew, &debiased).unwrap_err();
    assert!(matches!(error, Error::NotSymmetricDistance { row: 1, column: 3 }), "{error}");
    skew[[1, 3]] = m[[1, 3]];
    skew[[2, 2]] = f64::INFINITY;
    let error = barycenters(&x, &even, &skew, &debiased).unwrap_err();
    assert!(matches!(error, Error::NotSymmetricDistance { row: 2, column: 2 }), "{error}");
    let few = barycenters(&x, &even, &m, &options.with_max_iter(2).with_tol(1e-12)).unwrap();
    assert!(few.n_iter[0] <= 2 && few.errors[0] > 1e-12);
}

/// Some iterations from potentials of 0 by their definition, in scalings: the barycentre, and the largest
/// error of a marginal in the last of them.
fn iterated(
    x: &Array2<f64>,
    weights: &[f64],
    m: &Array2<f64>,
    (reg, n_iter, debiased): (f64, usize, bool),
) -> (Array1<f64>, f64) {
    let kernel = m.mapv(|m| (-m / reg).exp());
    let (d, n) = (m.ncols(), x.nrows());
    let (mut v, mut own) = (Array2::<f64>::ones((n, d)), Array1::<f64>::ones(d));
    let (mut b, mut error) = (Array1::zeros(d), 0.0);
    let distance = |a: Array1<f64>, b: &Array1<f64>| (a - b).mapv(f64::abs).sum();
    for _ in 0..n_iter {
        let sums: Vec<Array1<f64>> =
            (0..n).map(|k| kernel.t().dot(&(&x.row(k) / &kernel.dot(&v.row(k))))).collect();
        b = own.clone();
        for (sums, &weight) in sums.iter().zip(weights) {
            b *= &sums.mapv(|sum| sum.powf(weight));
        }
        error = 0.0;
        for (k, sums) in sums.iter().enumerate() {
            error = distance(&v.row(k) * sums, &b).max(error);
            v.row_mut(k).assign(&(&b / sums));
        }
        if debiased {
            error = distance(&own * &kernel.dot(&own), &b).max(error);
            for _ in 0..3 {
                own = (&own * &b / &kernel.dot(&own)).mapv(f64::sqrt);
            }
        }
    }
    let mass = b.sum();
    (b / mass, error)
}

#[test]
fn the_first_iterations_are_their_definition() {
    let (x, weights) = (histograms(3, 7, 9), [0.5, 0.3, 0.2]);
    let (m, weighted) = (line(7, 7), array![[0.5, 0.3, 0.2]]);
    for (reg, debiased) in [(0.5, false), (0.5, true), (0.05, false), (0.05, true)] {
        for n_iter in 1..6 {
            let options = Barycenter::new(reg).with_max_iter(n_iter).with_debiased(debiased);
            let found = barycenters(&x, &weighted, &m, &options.with_tol(1e-300)).unwrap();
            let (values, error) = iterated(&x, &weights, &m, (reg, n_iter, debiased));
            let close = |(found, want): (&f64, &f64)| (found - want).abs() <= 1e-12;
            assert!(found.values.iter().zip(&values).all(close), "{found:?} {values}");
            let found = found.errors[0];
            assert!((found - error).abs() <= 1e-10 * error, "{n_iter} {debiased}: {found} {error}");
        }
    }
}

/// More bins than are summed at a time, within the range of the kernel and beyond it.
#[test]
fn barycenters_of_mirrored_histograms_are_mirrored() {
    let (d, max_iter) = (300, 20);
    let (x, weights) = (histograms(3, d, 5), array![[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]);
    let m = line(d, d);
    for (reg, debiased) in [(0.05, false), (0.05, true), (1e-4, false), (1e-4, true)] {
        let options = Barycenter::new(reg).with_max_iter(max_iter).with_debiased(debiased);
        let found = barycenters(&x, &weights, &m, &options).unwrap();
        let mirrored = x.slice(s![.., ..;-1]).to_owned();
        let mirrored = barycenters(&mirrored, &weights, &m, &options).unwrap();
        assert!(found.n_iter.iter().all(|&n| n <= max_iter), "{:?}", found.n_iter);
        let difference = &found.values - &mirrored.values.slice(s![.., ..;-1]);
        assert!(difference.iter().all(|e| e.abs() <= 1e-9), "{reg} {debiased}");
        assert!(found.values.sum_axis(Axis(1)).iter().all(|sum| (sum - 1.0).abs() <= 1e-9));
    }
}
