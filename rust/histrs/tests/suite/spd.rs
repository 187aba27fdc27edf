//! Distances between covariance matrices against closed forms and naive loops.

use crate::common::{Random, config, exec, executors};
use histrs::neighborhood::Labels;
use histrs::spd::{
    Dispersion, MeanParameters, Shrinkage, airm_distances, airm_paired, compression_loss,
    dispersion_mean, jbld_distances, jbld_paired, mean_gradient, signal_covariances,
    tangent_vectors,
};
use histrs::{Element, Error};
use ndarray::{Array1, Array2, Array3, ArrayView2, Axis, s};
use proptest::prelude::*;

/// `A A^T + I` of uniform `A`.
fn stack(n: usize, p: usize, seed: u64) -> Array3<f64> {
    let mut random = Random(seed);
    let mut out = Array3::zeros((n, p, p));
    for mut matrix in out.outer_iter_mut() {
        let a = Array2::from_shape_simple_fn((p, p), || random.unit() - 0.5);
        matrix.assign(&(a.dot(&a.t()) + Array2::<f64>::eye(p)));
    }
    out
}

/// By elimination without pivoting.
fn log_det(a: &Array2<f64>) -> f64 {
    let mut a = a.clone();
    let mut sum = 0.0;
    for k in 0..a.nrows() {
        sum += a[[k, k]].ln();
        for i in k + 1..a.nrows() {
            let factor = a[[i, k]] / a[[k, k]];
            for j in k..a.ncols() {
                let value = a[[k, j]];
                a[[i, j]] -= factor * value;
            }
        }
    }
    sum
}

/// `R^-1` of the lower triangle `R` with `R R^T = A`.
fn inverse_root(a: &Array2<f64>) -> Array2<f64> {
    let p = a.nrows();
    let mut root = Array2::<f64>::zeros((p, p));
    let mut inverse = Array2::<f64>::zeros((p, p));
    for i in 0..p {
        for j in 0..=i {
            let rest = a[[i, j]] - (0..j).map(|k| root[[i, k]] * root[[j, k]]).sum::<f64>();
            root[[i, j]] = if i == j { rest.sqrt() } else { rest / root[[j, j]] };
        }
        for j in 0..=i {
            let unit = if i == j { 1.0 } else { 0.0 };
            let sum: f64 = (j..i).map(|k| root[[i, k]] * inverse[[k, j]]).sum();
            inverse[[i, j]] = (unit - sum) / root[[i, i]];
        }
    }
    inverse
}

fn jbld(x: ArrayView2<'_, f64>, y: ArrayView2<'_, f64>) -> f64 {
    let mean = (&x + &y) / 2.0;
    log_det(&mean) - 0.5 * (log_det(&x.to_owned()) + log_det(&y.to_owned()))
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn jbld_is_its_definition(n in 0..20_usize, m in 0..20_usize, p in 1..20_usize, seed: u64) {
        let (x, y) = (stack(n, p, seed), stack(m, p, seed ^ 1));
        let d = jbld_distances(exec(), x.view(), Some(y.view())).unwrap();
        for ((i, j), &value) in d.indexed_iter() {
            let want = jbld(x.index_axis(Axis(0), i), y.index_axis(Axis(0), j));
            prop_assert!((value - want).abs() <= 1e-12 * (1.0 + want), "{value} {want}");
        }
        let k = n.min(m);
        let (x, y) = (x.slice_axis(Axis(0), (..k).into()), y.slice_axis(Axis(0), (..k).into()));
        let paired = jbld_paired(exec(), x, y).unwrap();
        prop_assert!(paired.iter().enumerate().all(|(i, &value)| value == d[[i, i]]));
    }

    #[test]
    fn airm_of_diagonal_matrices_in_another_basis(
        n in 1..12_usize,
        p in 1..20_usize,
        seed: u64,
    ) {
        // X -> A X A^T changes no distance, whatever A.
        let mut random = Random(seed);
        let logs = Array2::from_shape_simple_fn((n, p), || 4.0 * random.unit() - 2.0);
        let a = stack(1, p, seed ^ 2).index_axis_move(Axis(0), 0);
        let mut x = Array3::zeros((n, p, p));
        for (mut matrix, logs) in x.outer_iter_mut().zip(logs.outer_iter()) {
            let basis = &a * &logs.mapv(f64::exp);
            matrix.assign(&basis.dot(&a.t()));
        }
        let d = airm_distances(exec(), x.view(), None).unwrap();
        for ((i, j), &value) in d.indexed_iter() {
            let want = (&logs.row(i) - &logs.row(j)).mapv(|v| v * v).sum().sqrt();
            prop_assert!((value - want).abs() <= 1e-8 * (1.0 + want), "{value} {want}");
        }
        prop_assert!((0..n).all(|i| d[[i, i]] == 0.0));
        let first = x.slice_axis(Axis(0), (..1).into());
        let first = first.broadcast((n, p, p)).unwrap();
        let paired = airm_paired(exec(), first, x.view()).unwrap();
        prop_assert!(paired.iter().zip(d.row(0)).all(|(a, b)| (a - b).abs() <= 1e-8 * (1.0 + b)));
    }
}

/// The loss, `sum_i v_i w_ij (X_i + P_j)^-1` and `sum_i v_i w_ij` from distances and inverses.
fn compression(
    x: &Array3<f64>,
    y: &Array3<f64>,
    labels: (&[i64], &[i64]),
    weights: &[f64],
    gamma: f64,
) -> (f64, Array3<f64>, Array1<f64>) {
    let (mut loss, mut inverses) = (0.0, Array3::zeros(y.dim()));
    let mut sums = Array1::zeros(y.dim().0);
    for ((x, label), v) in x.outer_iter().zip(labels.0).zip(weights) {
        let each = y.outer_iter().map(|y| (-gamma * gamma * jbld(x, y)).exp());
        let each: Vec<f64> = each.collect();
        let own: Vec<bool> = labels.1.iter().map(|other| other == label).collect();
        let all: f64 = each.iter().sum();
        let right: f64 = each.iter().zip(&own).filter(|(_, own)| **own).map(|(e, _)| e).sum();
        loss -= v * (right / all).ln();
        for (j, y) in y.outer_iter().enumerate() {
            let own = if own[j] { 1.0 } else { 0.0 };
            let w = each[j] / right * (own - right / all);
            let root = inverse_root(&(&x + &y));
            inverses.index_axis_mut(Axis(0), j).scaled_add(v * w, &root.t().dot(&root));
            sums[j] += v * w;
        }
    }
    (loss, inverses, sums)
}

proptest! {
    #![proptest_config(config(80))]

    #[test]
    fn the_loss_of_compression_is_its_definition(
        n in 1..40_usize,
        m in 2..20_usize,
        p in 1..14_usize,
        gamma in prop::sample::select(&[0.3, 1.0, 4.0][..]),
        scale in prop::sample::select(&[1.0, 1e-30, 1e30][..]),
        seed: u64,
    ) {
        let (x, y) = (stack(n, p, seed), stack(m, p, seed ^ 1));
        let mut random = Random(seed);
        let of_prototypes: Vec<i64> = (0..m).map(|j| (j % 3) as i64).collect();
        let of_rows: Vec<i64> = (0..n).map(|_| random.below(m.min(3)) as i64).collect();
        let weights: Vec<f64> = (0..n).map(|_| scale * random.below(3) as f64).collect();
        let labels = Labels::new(&of_rows, &of_prototypes).with_weights(&weights);
        let found = compression_loss(exec(), x.view(), y.view(), labels, gamma).unwrap();
        let (loss, inverses, sums) = compression(&x, &y, (&of_rows, &of_prototypes), &weights, gamma);
        prop_assert!((found.loss - loss).abs() <= 1e-12 * loss, "{} {loss}", found.loss);
        let size = 1e-13 * scale * n as f64;
        for (found, want) in found.inverse_sums.iter().zip(&inverses) {
            prop_assert!((found - want).abs() <= size, "{found} {want}");
        }
        for (found, want) in found.weight_sums.iter().zip(&sums) {
            prop_assert!((found - want).abs() <= size, "{found} {want}");
        }
    }
}

/// The covariance of one trial, and what it is mixed with: the weights of the papers, from all
/// products of signals.
fn covariance(x: ArrayView2<'_, f64>, shrinkage: Shrinkage) -> Array2<f64> {
    let (p, n) = (x.nrows() as f64, x.ncols() as f64);
    let centred = &x - &x.mean_axis(Axis(1)).unwrap().insert_axis(Axis(1));
    let c = centred.dot(&centred.t()) / n;
    let mean = c.diag().sum() / p;
    let squares = c.mapv(|value| value * value).sum();
    let weight = match shrinkage {
        Shrinkage::Fixed(weight) => weight,
        Shrinkage::Oas => {
            let alpha = squares / (p * p);
            let spread = (n + 1.0) * (alpha - mean * mean / p);
            if spread == 0.0 { 1.0 } else { ((alpha + mean * mean) / spread).min(1.0) }
        }
        _ => {
            let norms = centred.mapv(|value| value * value).sum_axis(Axis(0));
            let beta = (norms.mapv(|norm| norm * norm).sum() / n - squares) / (n * p);
            let delta = (squares - p * mean * mean) / p;
            if delta == 0.0 { 0.0 } else { beta.min(delta) / delta }
        }
    };
    (1.0 - weight) * c + weight * mean * Array2::<f64>::eye(x.nrows())
}

fn check_covariances(n: usize, p: usize, n_times: usize, every: usize, seed: u64) {
    let mut random = Random(seed);
    let all = Array3::from_shape_simple_fn((n, p, every * n_times), || random.unit() + 0.3);
    let x = all.slice(s![.., .., ..;every]);
    for shrinkage in
        [Shrinkage::Fixed(0.0), Shrinkage::Fixed(0.3), Shrinkage::Oas, Shrinkage::LedoitWolf]
    {
        let found = signal_covariances(exec(), x, shrinkage).unwrap().covariances;
        let single = signal_covariances(exec(), x.mapv(|x| x as f32).view(), shrinkage).unwrap();
        assert_eq!(found.dim(), (n, p, p));
        for exec in executors() {
            let again = signal_covariances(exec, x, shrinkage).unwrap();
            assert_eq!(again.covariances, found);
        }
        for (k, trial) in x.outer_iter().enumerate() {
            let want = covariance(trial, shrinkage);
            for ((i, j), &want) in want.indexed_iter() {
                let (value, rounded) = (found[[k, i, j]], single.covariances[[k, i, j]]);
                assert!((value - want).abs() <= 1e-14, "{shrinkage:?} {value} {want}");
                assert!(
                    (f64::from(rounded) - want).abs() <= 1e-6,
                    "{shrinkage:?} {rounded} {want}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn covariances_of_signals_are_their_definition(
        n in prop::sample::select(&[0_usize, 1, 3, 64, 65, 130][..]),
        p in 1..14_usize,
        n_times in 2..90_usize,
        every in 1..3_usize,
        seed: u64,
    ) {
        check_covariances(n, p, n_times, every, seed);
    }
}

/// Trials of so many channels are read in pieces.
#[test]
fn covariances_of_many_channels_are_their_definition() {
    for (n_times, every) in [(64, 1), (150, 1), (129, 2)] {
        check_covariances(2, 150, n_times, every, 5);
    }
}

#[test]
fn constant_signals_are_named() {
    for (n_times, every) in [(2, 1), (8, 1), (19, 1), (19, 2)] {
        let mut random = Random(2);
        let mut all = Array3::from_shape_simple_fn((3, 5, n_times * every), || random.unit());
        let flat = |all: &Array3<f64>| {
            let x = all.slice(s![.., .., ..;every]);
            signal_covariances(exec(), x, Shrinkage::LedoitWolf).unwrap().flat
        };
        assert_eq!(flat(&all), []);
        all.slice_mut(s![1, 3, ..]).fill(0.7);
        all.slice_mut(s![2, 0, ..]).fill(-0.1);
        assert_eq!(flat(&all), [(1, 3), (2, 0)]);
        for time in 0..n_times {
            let mut other = all.clone();
            other[[1, 3, time * every]] = 0.8;
            assert_eq!(flat(&other), [(2, 0)], "{n_times} {time}");
        }
    }
}

#[test]
fn signals_whose_squares_overflow_are_named() {
    for channel in 0..6 {
        let mut x = Array3::from_shape_fn((3, 6, 10), |(_, i, t)| (((i + 1) * t) % 7) as f64);
        x.slice_mut(s![1, channel, ..]).mapv_inplace(|x| 1e25 * x);
        let found = signal_covariances(exec(), x.view(), Shrinkage::Oas).unwrap().covariances;
        assert!(found.iter().all(|value| value.is_finite()));
        let single = x.mapv(|x| x as f32);
        let error = signal_covariances(exec(), single.view(), Shrinkage::Oas).unwrap_err();
        assert_eq!(error, Error::SignalTooLarge { trial: 1 });
        x.slice_mut(s![1, channel, ..]).mapv_inplace(|x| 1e275 * x);
        let error = signal_covariances(exec(), x.view(), Shrinkage::Fixed(0.1)).unwrap_err();
        assert_eq!(error, Error::SignalTooLarge { trial: 1 });
    }
}

/// Diagonal matrices of these logarithms.
fn diagonal(logarithms: &[[f64; 3]]) -> Array3<f64> {
    Array3::from_shape_fn((logarithms.len(), 3, 3), |(k, i, j)| {
        if i == j { logarithms[k][i].exp() } else { 0.0 }
    })
}

/// Near and far ones side by side, as far as rounding leaves an eigenvalue.
#[test]
fn airm_of_matrices_that_are_far_apart() {
    let logarithms: Vec<[f64; 3]> = (0..11)
        .map(|k| [f64::from(k) * 1.3, -f64::from(k) * 1.2, f64::from(k % 3) - 1.0])
        .chain([[300.0; 3], [-300.0; 3]])
        .collect();
    let (x, y) = (diagonal(&[[0.0; 3]]), diagonal(&logarithms));
    let found = airm_distances(exec(), x.view(), Some(y.view())).unwrap();
    let first = x.broadcast(y.dim()).unwrap();
    let paired = airm_paired(exec(), first, y.view()).unwrap();
    for (k, logarithms) in logarithms.iter().enumerate() {
        let want = logarithms.iter().map(|log| log * log).sum::<f64>().sqrt();
        let range = logarithms[0] - logarithms[1];
        let tolerance = 1e-14 * (1.0 + want) + 1e-15 * range.exp();
        assert!((found[[0, k]] - want).abs() <= tolerance, "{} {want}", found[[0, k]]);
        assert!((paired[k] - want).abs() <= tolerance, "{} {want}", paired[k]);
    }
}

#[test]
fn airm_that_rounding_or_the_range_of_numbers_takes_is_refused() {
    let near = [0.5, -0.5, 0.0];
    for (x, y) in
        [([0.0; 3], [0.0, -40.0, 0.0]), ([-500.0; 3], [500.0; 3]), ([500.0; 3], [-500.0; 3])]
    {
        let (x, y) = (diagonal(&[x]), diagonal(&[near, y, near]));
        let error = airm_distances(exec(), x.view(), Some(y.slice(s![1.., .., ..])));
        assert_eq!(error.unwrap_err(), Error::TooFarApart { x: 0, y: 0 });
        let x = x.broadcast(y.dim()).unwrap();
        let mixed = Array3::from_shape_fn(y.dim(), |(k, i, j)| {
            if k == 1 { x[[k, i, j]] } else { f64::from(u8::from(i == j)) }
        });
        let error = airm_paired(exec(), mixed.view(), y.view());
        assert_eq!(error.unwrap_err(), Error::TooFarApart { x: 1, y: 1 });
    }
}

#[test]
fn bits_do_not_depend_on_the_number_of_threads() {
    let x = stack(40, 7, 3);
    let all = executors().each_ref().map(|exec| {
        (
            jbld_distances(exec, x.view(), None).unwrap(),
            airm_distances(exec, x.view(), None).unwrap(),
        )
    });
    assert_eq!(all[0], all[1]);
    assert_eq!(all[0], all[2]);
}

#[test]
fn bad_matrices_are_named() {
    let mut x = stack(20, 3, 4);
    x[[11, 1, 1]] = -1.0;
    x[[13, 0, 0]] = -1.0;
    let error = jbld_distances(exec(), x.view(), None).unwrap_err();
    assert!(matches!(error, Error::NotPositiveDefinite { name: "X", matrix: 11, pivot: 1, .. }));
    let good = stack(2, 3, 5);
    let error = airm_distances(exec(), good.view(), Some(x.view())).unwrap_err();
    assert!(matches!(error, Error::NotPositiveDefinite { name: "Y", matrix: 11, pivot: 1, .. }));
    x[[5, 2, 1]] = f64::NAN;
    let error = airm_distances(exec(), x.view(), None).unwrap_err();
    assert!(matches!(error, Error::MatrixNotFinite { matrix: 5, row: 2, column: 1, .. }));
    let wide = Array3::<f64>::zeros((2, 3, 4));
    assert!(matches!(jbld_distances(exec(), wide.view(), None), Err(Error::Shape { .. })));
}

fn labels_of<'a>(of_rows: &'a [i64], of_prototypes: &'a [i64]) -> Labels<'a> {
    Labels::new(of_rows, of_prototypes)
}

#[test]
fn the_loss_of_one_prototype_a_class() {
    let (x, y) = (stack(9, 5, 7), stack(2, 5, 8));
    let labels = [0, 1, 0, 1, 0, 1, 0, 1, 0];
    let gamma: f64 = 1.3;
    let result =
        compression_loss(exec(), x.view(), y.view(), labels_of(&labels, &[0, 1]), gamma).unwrap();
    let d = jbld_distances(exec(), x.view(), Some(y.view())).unwrap();
    let mut want = 0.0;
    for (row, &label) in d.outer_iter().zip(&labels) {
        let (own, other) = if label == 0 { (row[0], row[1]) } else { (row[1], row[0]) };
        want += (gamma * gamma * (own - other)).exp().ln_1p();
    }
    assert!((result.loss - want).abs() <= 1e-12 * want);
    let [one, two, seven] = executors().each_ref().map(|exec| {
        compression_loss(exec, x.view(), y.view(), labels_of(&labels, &[0, 1]), gamma).unwrap()
    });
    assert_eq!(one, two);
    assert_eq!(one, seven);
    let missing = compression_loss(exec(), x.view(), y.view(), labels_of(&labels, &[0, 0]), gamma);
    assert!(matches!(missing, Err(Error::Parameter { name: "label", .. })));
}

#[test]
fn a_row_of_weight_two_counts_as_two() {
    let (x, y) = (stack(6, 4, 7), stack(2, 4, 8));
    let (of_rows, of_prototypes) = ([0, 1, 0, 1, 0, 1], [0, 1]);
    let weights = [1.0, 2.0, 0.0, 1.0, 3.0, 1.0];
    let labels = Labels::new(&of_rows, &of_prototypes);
    let weighted = labels.with_weights(&weights);
    let found = compression_loss(exec(), x.view(), y.view(), weighted, 1.3).unwrap();
    let indices = [0, 1, 1, 3, 4, 4, 4, 5];
    let again = x.select(Axis(0), &indices);
    let of_rows = indices.map(|index| of_rows[index]);
    let repeated = Labels::new(&of_rows, &of_prototypes);
    let want = compression_loss(exec(), again.view(), y.view(), repeated, 1.3).unwrap();
    assert!((found.loss - want.loss).abs() <= 1e-13 * want.loss);
    let close = |a: &f64, b: &f64| (a - b).abs() < 1e-13;
    assert!(found.inverse_sums.iter().zip(&want.inverse_sums).all(|(a, b)| close(a, b)));
    assert!(found.weight_sums.iter().zip(&want.weight_sums).all(|(a, b)| close(a, b)));
    for bad in [[-1.0; 6], [f64::NAN; 6], [f64::INFINITY; 6]] {
        let labels = labels.with_weights(&bad);
        let error = compression_loss(exec(), x.view(), y.view(), labels, 1.3);
        assert!(matches!(error, Err(Error::Parameter { name: "weights", .. })));
    }
    let few = labels.with_weights(&weights[..5]);
    let error = compression_loss(exec(), x.view(), y.view(), few, 1.3);
    assert!(matches!(error, Err(Error::Shape { .. })));
}

/// Covariances of signals from which the mean of all channels was taken: the last pivot is rounding.
fn average_referenced(n: usize, p: usize) -> Array3<f64> {
    let full = stack(n, p, 40);
    let centre = Array2::from_shape_fn((p, p), |(i, j)| f64::from(i == j) - 1.0 / p as f64);
    let mut out = full.clone();
    for (mut to, from) in out.outer_iter_mut().zip(full.outer_iter()) {
        let product = centre.dot(&from).dot(&centre);
        to.assign(&((&product + &product.t()) / 2.0));
    }
    out
}

#[test]
fn singular_matrices_are_refused_with_their_rank() {
    for p in [2, 5, 22] {
        let singular = average_referenced(60, p);
        let good = stack(1, p, 41);
        for i in 0..60 {
            let mut one = singular.slice(s![i..i + 1, .., ..]).to_owned();
            for scale in [1.0, 1e-12, 1e12] {
                one *= scale;
                let single = one.mapv(|v| v as f32);
                let errors = [
                    jbld_distances(exec(), one.view(), None).unwrap_err(),
                    jbld_distances(exec(), single.view(), None).unwrap_err(),
                    jbld_paired(exec(), one.view(), good.view()).unwrap_err(),
                    airm_distances(exec(), one.view(), None).unwrap_err(),
                    airm_paired(exec(), one.view(), good.view()).unwrap_err(),
                ];
                for error in errors {
                    let want = Error::Singular { name: "X", matrix: 0, rank: p - 1, size: p };
                    assert_eq!(error, want, "{p} {i}");
                }
                let error =
                    compression_loss(exec(), good.view(), one.view(), labels_of(&[0], &[0]), 1.0);
                assert!(
                    matches!(error, Err(Error::Singular { name: "Y", rank, .. }) if rank == p - 1)
                );
            }
        }
    }
    let zero = Array3::<f64>::zeros((1, 3, 3));
    let error = jbld_distances(exec(), zero.view(), None).unwrap_err();
    assert!(matches!(error, Error::Singular { rank: 0, size: 3, .. }));
}

#[test]
fn units_of_columns_do_not_make_a_matrix_singular() {
    let mut x = stack(3, 6, 42);
    let d = jbld_distances(exec(), x.view(), None).unwrap();
    let units = [1e-9, 1e9, 1.0, 1e5, 1e-5, 1e2];
    for ((_, i, j), value) in x.indexed_iter_mut() {
        *value *= units[i] * units[j];
    }
    let scaled = jbld_distances(exec(), x.view(), None).unwrap();
    for (a, b) in d.iter().zip(&scaled) {
        assert!((a - b).abs() <= 1e-9);
    }
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn coordinates_have_the_length_of_the_distance(n in 0..20_usize, p in 1..14_usize, seed: u64) {
        let x = stack(n, p, seed);
        // W = C^-1 of a diagonal reference.
        let scales: Vec<f64> = (0..p).map(|i| 1.0 + i as f64).collect();
        let whitener = Array2::from_shape_fn((p, p), |(i, j)| if i == j { 1.0 / scales[i] } else { 0.0 });
        let reference =
            Array3::from_shape_fn((1, p, p), |(_, i, j)| if i == j { scales[i] * scales[i] } else { 0.0 });
        let want = airm_distances(exec(), x.view(), Some(reference.view())).unwrap();
        for exec in executors() {
            let v = tangent_vectors(exec, x.view(), Some(whitener.view())).unwrap();
            for (row, want) in v.outer_iter().zip(&want) {
                let length = row.dot(&row).sqrt();
                prop_assert!((length - want).abs() <= 1e-10 * (1.0 + want), "{length} {want}");
            }
        }
    }

    #[test]
    fn gradients_of_means_are_those_of_their_values(n in 1..20_usize, p in 1..9_usize, seed: u64) {
        let x = stack(n, p, seed);
        let mut random = Random(seed ^ 7);
        let weights: Vec<f64> = (0..n).map(|_| random.unit()).collect();
        // Along M(t) = exp(2 t H), W = exp(-t H) with a diagonal H.
        let h: Vec<f64> = (0..p).map(|_| random.unit() - 0.5).collect();
        let at = |t: f64| Array2::from_shape_fn((p, p), |(i, j)| if i == j { (-t * h[i]).exp() } else { 0.0 });
        for dispersion in [Dispersion::Airm, Dispersion::Jbld] {
            let value = |t: f64| mean_gradient(exec(), x.view(), &weights, at(t).view(), dispersion).unwrap();
            let slope = (value(1e-5).value - value(-1e-5).value) / 2e-5;
            let gradient = value(0.0).gradient;
            let want: f64 = (0..p).map(|i| 2.0 * h[i] * gradient[[i, i]]).sum();
            prop_assert!((slope - want).abs() <= 1e-6 * (1.0 + want.abs()), "{slope} {want}");
        }
    }

    #[test]
    fn means_leave_no_gradient(n in 1..30_usize, p in 1..9_usize, seed: u64) {
        let x = stack(n, p, seed);
        let mut random = Random(seed ^ 5);
        let weights: Vec<f64> = (0..n).map(|_| 0.1 + random.unit()).collect();
        let total: f64 = weights.iter().sum();
        let weights: Vec<f64> = weights.iter().map(|w| w / total).collect();
        for dispersion in [Dispersion::Airm, Dispersion::Jbld] {
            let find = |exec, start: Option<ArrayView2<'_, f64>>| {
                let parameters = MeanParameters::default().with_start(start).with_tol(1e-11);
                dispersion_mean(exec, x.view(), &weights, dispersion, parameters).unwrap()
            };
            let mean = find(exec(), None);
            let w = inverse_root(&mean.matrix);
            let left = mean_gradient(exec(), x.view(), &weights, w.view(), dispersion).unwrap();
            let norm = left.gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
            prop_assert!(norm <= 1e-10 && mean.residual <= 1e-11, "{norm} {}", mean.residual);
            let elsewhere = find(exec(), Some((&x.index_axis(Axis(0), 0) * 3.0).view()));
            for (a, b) in mean.matrix.iter().zip(&elsewhere.matrix) {
                prop_assert!((a - b).abs() <= 1e-9 * (1.0 + b.abs()));
            }
            let again = find(exec(), Some(mean.matrix.view()));
            prop_assert!(again.n_iter <= 1, "{}", again.n_iter);
            for exec in executors() {
                prop_assert_eq!(&find(exec, None), &mean);
            }
        }
    }
}

#[test]
fn arguments_of_means_and_covariances_are_checked() {
    let x = stack(3, 2, 1);
    let eye = Array2::<f64>::eye(2);
    let mean =
        |weights: &[f64]| mean_gradient(exec(), x.view(), weights, eye.view(), Dispersion::Airm);
    assert!(matches!(mean(&[1.0]), Err(Error::Shape { expected: 3, .. })));
    let find = |n: usize, weights: &[f64], start: Option<ArrayView2<'_, f64>>| {
        let x = x.slice(s![..n, .., ..]);
        let parameters = MeanParameters::default().with_start(start).with_max_iter(9);
        dispersion_mean(exec(), x, weights, Dispersion::Airm, parameters)
    };
    assert!(matches!(find(3, &[1.0], None), Err(Error::Shape { expected: 3, .. })));
    assert!(matches!(find(0, &[], None), Err(Error::Shape { found: 0, .. })));
    let wide = Array2::<f64>::eye(3);
    let refused = find(1, &[1.0], Some(wide.view()));
    assert!(matches!(refused, Err(Error::Shape { found: 3, expected: 2, .. })));
    let other = Array2::<f64>::eye(3);
    let refused = tangent_vectors(exec(), x.view(), Some(other.view()));
    assert!(matches!(refused, Err(Error::Shape { found: 3, expected: 2, .. })));
    assert!(matches!("kl".parse::<Dispersion>(), Err(Error::Parameter { .. })));
    assert!(matches!("kl".parse::<Shrinkage>(), Err(Error::Parameter { .. })));
    assert_eq!("scm".parse(), Ok(Shrinkage::Fixed(0.0)));
    let covariances = |shrinkage| signal_covariances(exec(), x.view(), shrinkage);
    let refused = covariances(Shrinkage::Fixed(1.5));
    assert!(matches!(refused, Err(Error::Parameter { .. })));
    let one = x.slice(s![.., .., ..1]);
    let refused = signal_covariances(exec(), one, Shrinkage::Oas);
    assert!(matches!(refused, Err(Error::Shape { found: 1, .. })));
}

#[test]
fn the_divergence_mean_of_matrices_that_are_far_apart_is_the_geometric_one() {
    for distance in [1e6, 1e12] {
        // Both have the columns of one reflection for eigenvectors.
        let v = [0.6, -0.48, 0.64];
        let turned = |values: [f64; 3]| {
            let q = |i: usize, k: usize| f64::from(u8::from(i == k)) - 2.0 * v[i] * v[k];
            Array2::from_shape_fn((3, 3), |(i, j)| {
                let (i, j) = (i.max(j), i.min(j));
                (0..3).map(|k| q(i, k) * values[k] * q(j, k)).sum::<f64>()
            })
        };
        let far = [distance, 1.0, 2.0];
        let mut x = Array3::zeros((2, 3, 3));
        x.index_axis_mut(Axis(0), 0).assign(&turned([1.0; 3]));
        x.index_axis_mut(Axis(0), 1).assign(&turned(far));
        let parameters = MeanParameters::default().with_tol(1e-6).with_max_iter(200);
        let mean =
            dispersion_mean(exec(), x.view(), &[0.5; 2], Dispersion::Jbld, parameters).unwrap();
        let expected = turned(far.map(f64::sqrt));
        let error = (&mean.matrix - &expected).iter().fold(0.0_f64, |a, e| a.max(e.abs()));
        assert!(error < 1e-5 * distance.sqrt(), "{distance}: {error}");
    }
}

/// Products of a tall matrix with itself, in other units of the columns.
#[test]
fn the_rank_of_singular_matrices_is_told() {
    let mut random = Random(8);
    for p in [2, 5, 12] {
        for rank in 1..p {
            let tall = Array2::from_shape_simple_fn((p, rank), || random.unit() - 0.3);
            let units = Array1::from_shape_fn(p, |i| 2.0_f64.powi(7 * (i % 5) as i32 - 14));
            let product = tall.dot(&tall.t());
            let mut x = stack(11, p, 4);
            for i in 0..p {
                for j in 0..p {
                    x[[9, i, j]] = product[[i.max(j), i.min(j)]] * units[i] * units[j];
                }
            }
            let error = jbld_distances(exec(), x.view(), None).unwrap_err();
            let expected = Error::Singular { name: "X", matrix: 9, rank, size: p };
            assert_eq!(error, expected, "{p} {rank}");
        }
    }
}

/// Two channels that are one but for the last digits, in any units: at the fourth rounding.
#[test]
fn matrices_are_singular_by_the_rounding_of_their_pivots() {
    for p in [2, 3, 6, 9] {
        for (i, j) in [(0, 1), (0, p - 1), (p - 2, p - 1)] {
            for unit in [1.0, 2.0_f64.powi(30), 2.0_f64.powi(-30)] {
                let with = |steps: f64| {
                    let mut x = Array3::from_shape_fn(
                        (3, p, p),
                        |(_, k, l)| {
                            if k == l { 1.0 } else { 0.0 }
                        },
                    );
                    let near = 1.0 - steps * f64::EPSILON;
                    x[[1, i, i]] = unit * unit;
                    (x[[1, i, j]], x[[1, j, i]]) = (unit * near, unit * near);
                    jbld_distances(exec(), x.view(), None)
                };
                let error = with(0.5).unwrap_err();
                let expected = Error::Singular { name: "X", matrix: 1, rank: p - 1, size: p };
                assert_eq!(error, expected, "{p} {i} {j} {unit}");
                assert!(with(2.0 * p as f64).unwrap().iter().all(|d| d.is_finite()));
            }
        }
    }
}

/// More than are factorised together.
#[test]
fn every_one_of_many_matrices_is_factorised() {
    let (x, y) = (stack(20_000, 2, 3), stack(20_000, 2, 4));
    let found = jbld_paired(exec(), x.view(), y.view()).unwrap();
    for ((x, y), found) in x.outer_iter().zip(y.outer_iter()).zip(&found) {
        assert!((found - jbld(x, y)).abs() <= 1e-13);
    }
    let mut bad = x.clone();
    bad[[19_000, 1, 0]] += 0.5;
    let error = jbld_paired(exec(), bad.view(), y.view()).unwrap_err();
    assert!(matches!(error, Error::NotSymmetric { name: "X", matrix: 19_000, .. }), "{error}");
}

/// Matrices of size `p` whose logarithms of eigenvalues spread over `range`.
fn spread_out(n: usize, p: usize, range: f64, seed: u64) -> Array3<f64> {
    let mut random = Random(seed);
    let mut out = Array3::zeros((n, p, p));
    for mut matrix in out.outer_iter_mut() {
        // Reflections turn the axes.
        let mut q = Array2::<f64>::eye(p);
        for _ in 0..p {
            let v = Array1::from_shape_simple_fn(p, || random.unit() - 0.5);
            let square = v.dot(&v);
            let projected = q.dot(&v);
            for i in 0..p {
                for j in 0..p {
                    q[[i, j]] -= 2.0 * projected[i] * v[j] / square;
                }
            }
        }
        let values = Array1::from_shape_simple_fn(p, || (range * (random.unit() - 0.5)).exp());
        let product = (&q * &values).dot(&q.t());
        matrix.assign(&Array2::from_shape_fn((p, p), |(i, j)| product[[i.max(j), i.min(j)]]));
    }
    out
}

/// The tangent vector at the unit matrix is as long as the distance from it, in every unit.
#[test]
fn tangent_vectors_are_as_long_as_distances() {
    for p in [1, 2, 3, 4, 5, 9, 14] {
        for (range, unit) in [(0.5, 1.0), (6.0, 1e-150), (6.0, 1e100), (20.0, 1.0), (26.0, 1.0)] {
            let x = spread_out(19, p, range, 3) * unit;
            let eye = Array2::<f64>::eye(p).insert_axis(Axis(0));
            let distances = airm_distances(exec(), eye.view(), Some(x.view())).unwrap();
            let vectors = tangent_vectors(exec(), x.view(), None).unwrap();
            for (vector, distance) in vectors.rows().into_iter().zip(distances.row(0)) {
                let length = vector.dot(&vector).sqrt();
                assert!(
                    (length - distance).abs() <= 1e-6 * (1.0 + distance),
                    "{length} {distance}"
                );
            }
        }
    }
}

/// Rows that are cut up, rows of which several are in a block, and pairs of the same matrices.
#[test]
fn few_matrices_against_many() {
    for (n, m) in [(1, 700), (3, 700), (3, 512), (7, 40), (8, 40), (9, 600)] {
        let (x, y) = (stack(n, 2, 3), stack(m, 2, 4));
        for exec in executors() {
            let found = jbld_distances(exec, x.view(), Some(y.view())).unwrap();
            for ((i, j), &found) in found.indexed_iter() {
                let want = jbld(x.index_axis(Axis(0), i), y.index_axis(Axis(0), j));
                assert!((found - want).abs() <= 1e-13, "{i} {j} {found} {want}");
            }
            let own = jbld_distances(exec, y.view(), None).unwrap();
            assert_eq!(own, own.t());
            assert!(
                (own[[0, m - 1]] - jbld(y.index_axis(Axis(0), 0), y.index_axis(Axis(0), m - 1)))
                    .abs()
                    <= 1e-13
            );
        }
    }
}

/// Of diagonal matrices the mean is that of each entry, at the root of `sum_i w_i tanh((m - l_i) / 2)`.
#[test]
fn divergence_means_of_diagonal_matrices_are_those_of_their_entries() {
    let sets: [&[[f64; 3]]; 4] = [
        &[[0.0, 0.0, 0.0], [25.0, 1.0, -3.0]],
        &[[0.0, 0.0, 0.0], [14.0, 1.0, -14.0]],
        &[[0.0, 5.0, 0.0], [13.0, 1.0, -13.0], [-12.0, 0.0, 2.0], [3.0, 3.0, 3.0]],
        &[[20.0, 5.0, 0.0], [0.0, 1.0, -1.0], [0.0, 0.0, 2.0]],
    ];
    for logarithms in sets {
        let n = logarithms.len();
        let x = diagonal(logarithms);
        for weights in [
            vec![1.0 / n as f64; n],
            (0..n).map(|i| (i + 1) as f64 / (n * (n + 1) / 2) as f64).collect(),
        ] {
            for start in [None, Some(0), Some(n - 1)] {
                let start = start.map(|i: usize| x.index_axis(Axis(0), i).to_owned());
                let start = start.as_ref().map(|start| start.view());
                let parameters = MeanParameters::default().with_tol(1e-9).with_max_iter(300);
                let parameters = parameters.with_start(start);
                let mean =
                    dispersion_mean(exec(), x.view(), &weights, Dispersion::Jbld, parameters)
                        .unwrap();
                for k in 0..3 {
                    let slope = |m: f64| -> f64 {
                        logarithms
                            .iter()
                            .zip(&weights)
                            .map(|(l, w)| w * (0.5 * (m - l[k])).tanh())
                            .sum()
                    };
                    let (mut low, mut high) = (-100.0, 100.0);
                    for _ in 0..200 {
                        let middle = 0.5 * (low + high);
                        if slope(middle) < 0.0 { low = middle } else { high = middle }
                    }
                    let found = mean.matrix[[k, k]].ln();
                    assert!((found - low).abs() <= 1e-7, "{found} {low} {weights:?}");
                }
            }
        }
    }
}

/// Half the digits, in units of the columns: of less the mean of both is taken.
fn check_symmetry<T: Element>(precision: f64) {
    let p = 5;
    let units = [1.0, 1e-3, 30.0, 1e2, 0.1];
    let mut x = stack(7, p, 12);
    for ((_, i, j), value) in x.indexed_iter_mut() {
        *value *= units[i] * units[j];
    }
    for (row, column) in [(1, 0), (4, 0), (3, 2), (4, 3), (2, 1), (4, 1)] {
        for (i, j) in [(row, column), (column, row)] {
            let size = (x[[4, row, row]] * x[[4, column, column]]).sqrt();
            let with = |part: f64| {
                let mut x = x.clone();
                x[[4, i, j]] += part * precision.sqrt() * size;
                x.mapv(T::from_f64)
            };
            for part in [0.8, -0.8] {
                assert!(jbld_distances(exec(), with(part).view(), None).is_ok());
            }
            let sign_changed = -2.0 * x[[4, i, j]] / (precision.sqrt() * size);
            for (part, others) in [(1.25, 0.8), (-1.25, 0.8), (sign_changed, 0.0)] {
                let mut x = with(part);
                // With it all are looked at anew: these are near enough.
                for (matrix, part) in [(1, others), (2, -others)] {
                    let size =
                        x[[matrix, row, row]].to_f64() * x[[matrix, column, column]].to_f64();
                    let changed =
                        x[[matrix, i, j]].to_f64() + part * precision.sqrt() * size.sqrt();
                    x[[matrix, i, j]] = T::from_f64(changed);
                }
                let values = (x[[4, row, column]].to_f64(), x[[4, column, row]].to_f64());
                let every = Array3::from_shape_fn((7, 2 * p, p), |(k, i, j)| x[[k, i / 2, j]]);
                let mut columns_first = x.clone();
                columns_first.swap_axes(1, 2);
                let columns_first = columns_first.as_standard_layout().into_owned();
                let views = [
                    (x.view(), values),
                    (every.slice(s![.., ..;2, ..]), values),
                    (columns_first.view(), (values.1, values.0)),
                ];
                for (view, (value, mirrored)) in views {
                    let error = jbld_distances(exec(), view, None).unwrap_err();
                    let matrix = 4;
                    let want =
                        Error::NotSymmetric { name: "X", matrix, row, column, value, mirrored };
                    assert_eq!(error, want);
                }
            }
        }
    }
}

#[test]
fn matrices_that_are_not_symmetric_are_named() {
    check_symmetry::<f64>(f64::EPSILON);
    check_symmetry::<f32>(f32::EPSILON.into());
}

#[test]
fn entries_that_are_not_finite_are_named_wherever_they_are() {
    let four = [(0, 0), (0, 3), (3, 0), (2, 1), (3, 3)].map(|(row, column)| (3, 4, 1, row, column));
    // The others are alone in their matrix, or are looked at after many matrices.
    for (n, p, at, row, column) in four.into_iter().chain([(1, 1, 0, 0, 0), (99, 40, 98, 7, 3)]) {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut x = stack(n, p, 5);
            x[[at, row, column]] = bad;
            let every = Array3::from_shape_fn((n, p, 2 * p), |(k, i, j)| x[[k, i, j / 2]]);
            for view in [x.view(), every.slice(s![.., .., ..;2])] {
                let error = jbld_distances(exec(), view, None).unwrap_err();
                let Error::MatrixNotFinite { name, matrix, row: i, column: j, value } = error
                else {
                    panic!("{error}")
                };
                assert_eq!((name, matrix, i, j), ("X", at, row, column));
                assert_eq!(value.to_bits(), bad.to_bits());
            }
        }
    }
}

/// More than are written together.
#[test]
fn tangent_vectors_of_many_matrices_are_those_of_each() {
    let x = stack(3000, 2, 8);
    let all = tangent_vectors(exec(), x.view(), None).unwrap();
    for k in (0..3000).step_by(37) {
        let one = tangent_vectors(exec(), x.slice(s![k..k + 1, .., ..]), None).unwrap();
        for (found, want) in all.row(k).iter().zip(one.row(0)) {
            assert!((found - want).abs() <= 1e-14);
        }
    }
}

/// Of which an eigenvalue is lost beside the others: named, wherever it is.
#[test]
fn matrices_too_far_from_a_reference_are_named() {
    for (n, bad) in [(40, 0), (40, 1), (40, 21), (40, 39), (700, 523), (700, 699)] {
        let mut x = stack(n, 3, 9);
        x.slice_mut(s![bad, .., ..]).assign(&diagonal(&[[0.0, -90.0, 0.0]]).slice(s![0, .., ..]));
        let eye = Array2::<f64>::eye(3);
        let (weights, expected) =
            (vec![1.0 / n as f64; n], Error::TooFarFromReference { matrix: bad });
        let error = tangent_vectors(exec(), x.view(), Some(eye.view())).unwrap_err();
        assert_eq!(error, expected);
        for dispersion in [Dispersion::Airm, Dispersion::Jbld] {
            let error = mean_gradient(exec(), x.view(), &weights, eye.view(), dispersion);
            assert_eq!(error.unwrap_err(), expected, "{dispersion:?}");
            let parameters = MeanParameters::default().with_start(Some(eye.view()));
            let error = dispersion_mean(exec(), x.view(), &weights, dispersion, parameters);
            assert_eq!(error.unwrap_err(), expected, "{dispersion:?}");
        }
        let units = Array3::from_shape_fn((n, 3, 3), |(_, i, j)| f64::from(u8::from(i == j)));
        let error = airm_paired(exec(), units.view(), x.view()).unwrap_err();
        assert_eq!(error, Error::TooFarApart { x: bad, y: bad });
    }
    for shape in [(2, 3), (3, 2)] {
        let wide = Array2::<f64>::zeros(shape);
        let error = tangent_vectors(exec(), stack(1, 3, 1).view(), Some(wide.view())).unwrap_err();
        assert!(matches!(error, Error::Shape { found: 2, expected: 3, .. }), "{error}");
    }
}

/// Curvatures are `s coth s` of half the range of the logarithms, and a half.
#[test]
fn values_and_curvatures_of_means_are_their_definition() {
    let logarithms = [[0.3, -1.1, 2.0], [0.0, 0.0, 0.0], [-4.0, 1.0, 0.5]];
    let (x, weights) = (diagonal(&logarithms), [0.2, 0.7, 0.4]);
    let eye = Array2::<f64>::eye(3);
    let of =
        |dispersion| mean_gradient(exec(), x.view(), &weights, eye.view(), dispersion).unwrap();
    let of_range = |half: f64| half / half.tanh();
    let want = 0.2 * of_range(1.55) + 0.7 + 0.4 * of_range(2.5);
    assert!((of(Dispersion::Airm).curvature - want).abs() <= 1e-12);
    assert!((of(Dispersion::Jbld).curvature - 0.65).abs() <= 1e-12);
    // The values are half the square of a distance, and twice a divergence.
    let squares = logarithms.map(|log| log.iter().map(|l| l * l).sum::<f64>());
    let want: f64 = squares.iter().zip(weights).map(|(square, w)| 0.5 * w * square).sum();
    assert!((of(Dispersion::Airm).value - want).abs() <= 1e-12);
    let each = x.outer_iter().map(|x| jbld(x, eye.view()));
    let want: f64 = each.zip(weights).map(|(divergence, w)| 2.0 * w * divergence).sum();
    assert!((of(Dispersion::Jbld).value - want).abs() <= 1e-12);
}

/// Of many matrices each counts by its weight.
#[test]
fn gradients_of_means_are_sums_over_matrices() {
    let x = stack(300, 3, 6);
    let mut random = Random(2);
    let weights: Vec<f64> = (0..300).map(|_| random.unit()).collect();
    let whitener = inverse_root(&x.index_axis(Axis(0), 7).to_owned());
    for dispersion in [Dispersion::Airm, Dispersion::Jbld] {
        let of = |part: std::ops::Range<usize>| {
            let (x, weights) = (x.slice(s![part.clone(), .., ..]), &weights[part]);
            mean_gradient(exec(), x, weights, whitener.view(), dispersion).unwrap()
        };
        let all = of(0..300);
        let each: Vec<_> = (0..300).map(|i| of(i..i + 1)).collect();
        let value: f64 = each.iter().map(|one| one.value).sum();
        let curvature: f64 = each.iter().map(|one| one.curvature).sum();
        let gradient =
            each.iter().fold(Array2::<f64>::zeros((3, 3)), |sum, one| sum + &one.gradient);
        assert!((all.value - value).abs() <= 1e-12 * value);
        assert!((all.curvature - curvature).abs() <= 1e-12 * curvature);
        assert!((&all.gradient - &gradient).iter().all(|error| error.abs() <= 1e-12 * value));
    }
}

/// Steps by halves of what they should be, or in turns the wrong way round, take more.
#[test]
fn means_take_few_steps() {
    // Of the mean of distances to 1e-3 and 1e-10, and of that of divergences.
    let cases = [
        (0.1, 20, 5, [1, 3, 1, 2]),
        (1.0, 20, 5, [2, 5, 2, 6]),
        (4.0, 20, 5, [4, 9, 5, 20]),
        (10.0, 20, 5, [6, 16, 7, 19]),
        (20.0, 6, 3, [10, 24, 14, 34]),
        (4.0, 2, 12, [2, 2, 4, 5]),
        (40.0, 5, 2, [8, 17, 13, 29]),
        (8.0, 100, 3, [4, 10, 6, 18]),
        (8.0, 600, 3, [4, 7, 11, 29]),
    ];
    for (range, n, p, most) in cases {
        let x = spread_out(n, p, range, 5);
        let weights = vec![1.0 / n as f64; n];
        let find = |dispersion, tol, max_iter| {
            let parameters = MeanParameters::default().with_tol(tol).with_max_iter(max_iter);
            dispersion_mean(exec(), x.view(), &weights, dispersion, parameters).unwrap()
        };
        let asked = [Dispersion::Airm, Dispersion::Jbld]
            .into_iter()
            .flat_map(|dispersion| [(dispersion, 1e-3), (dispersion, 1e-10)]);
        for ((dispersion, tol), most) in asked.zip(most) {
            let mean = find(dispersion, tol, 300);
            // A tenth more where another instruction set rounds otherwise.
            assert!(mean.n_iter <= most + most / 10, "{range} {dispersion:?} {}", mean.n_iter);
            assert!(mean.residual <= tol);
            let fewer = find(dispersion, tol, mean.n_iter - 1);
            assert!(fewer.n_iter < mean.n_iter && fewer.residual > tol);
        }
    }
}

/// Steps towards it are cut, at a length and where the gradient along them would vanish.
#[test]
fn a_light_matrix_between_two_far_ones_is_the_divergence_mean() {
    let x = Array3::from_shape_fn((3, 1, 1), |(i, _, _)| [-40.0_f64, 0.0, 40.0][i].exp());
    for (logarithm, most) in [(12.0_f64, 8), (11.0, 5), (10.0, 1), (9.0, 5), (4.0, 5), (-3.0, 8)] {
        let start = Array2::from_elem((1, 1), logarithm.exp());
        let parameters = MeanParameters::default().with_start(Some(start.view())).with_tol(1e-12);
        let weights = [0.499, 0.002, 0.499];
        let mean = dispersion_mean(exec(), x.view(), &weights, Dispersion::Jbld, parameters);
        let mean = mean.unwrap();
        assert!(mean.matrix[[0, 0]].ln().abs() < 1e-12, "{logarithm}: {}", mean.matrix);
        assert!(mean.n_iter <= most, "{logarithm}: {}", mean.n_iter);
    }
}

/// Between matrices that are far apart rounding of the gradient is a long way.
#[test]
fn what_rounding_leaves_of_a_mean_is_told() {
    let x = Array3::from_shape_fn((2, 1, 1), |(i, _, _)| [-28.0_f64, 28.0][i].exp());
    let start = Array2::eye(1);
    let parameters = MeanParameters::default().with_start(Some(start.view()));
    let mean = dispersion_mean(exec(), x.view(), &[0.5; 2], Dispersion::Jbld, parameters).unwrap();
    // Half a rounding of the gradient by the curvature, the derivative of tanh(l / 2) at 28.
    let rounding = f64::EPSILON * 14.0_f64.cosh().powi(2);
    assert!((mean.residual / rounding - 1.0).abs() < 0.2, "{} {rounding}", mean.residual);
}
