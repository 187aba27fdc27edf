//! Nearest centres and k-means against their definitions, and threads.

use crate::common::*;
use histrs::clustering::{KMeansParameters, k_means, nearest_centers};
use histrs::{Error, Real};
use ndarray::{Array2, ArrayView2, Axis, array};
use proptest::prelude::*;

fn matrix<T: Real>(n: usize, d: usize, scale: f64, random: &mut Random) -> Array2<T> {
    Array2::from_shape_simple_fn((n, d), || T::from_f64(scale * (random.unit() - 0.3)))
}

/// Squared distances in units of the scale, one row after the other.
fn squared_distances<T: Real>(
    x: ArrayView2<'_, T>,
    centers: ArrayView2<'_, T>,
    scale: f64,
) -> Array2<f64> {
    Array2::from_shape_fn((x.nrows(), centers.nrows()), |(i, k)| {
        let pairs = x.row(i).into_iter().zip(centers.row(k));
        pairs.map(|(x, c)| ((x.to_f64() - c.to_f64()) / scale).powi(2)).sum()
    })
}

fn check_nearest<T: Real>(n: usize, k: usize, d: usize, scale: f64, seed: u64) {
    let mut random = Random(seed);
    let x = matrix::<T>(n, d, scale, &mut random);
    let mut centers = matrix::<T>(k, d, scale, &mut random);
    // The last is the first once more, and a row is a center.
    let first = centers.row(0).to_owned();
    centers.row_mut(k - 1).assign(&first);
    if n > 0 {
        centers.row_mut(k / 2).assign(&x.row(n - 1));
    }
    let found: Vec<Vec<i32>> = executors()
        .iter()
        .map(|exec| nearest_centers(exec, x.view(), centers.view()).unwrap())
        .collect();
    assert!(found.iter().all(|labels| labels == &found[0]));
    let distances = squared_distances(x.view(), centers.view(), scale);
    for (row, &label) in distances.axis_iter(Axis(0)).zip(&found[0]) {
        let least = row.iter().copied().fold(f64::INFINITY, f64::min);
        let label = usize::try_from(label).unwrap();
        assert!(row[label] <= least * (1.0 + 1e-12), "{} {least}", row[label]);
        assert!(row.iter().take(label).all(|&other| other > least * (1.0 - 1e-12)));
        // The first and the last center are equal, of three and more: the first is taken.
        assert!(label != k - 1 || k < 3);
    }
}

/// Lloyd's passes as they are written.
fn passes(x: &Array2<f64>, mut centers: Array2<f64>, n: usize) -> Array2<f64> {
    for _ in 0..n {
        let distances = squared_distances(x.view(), centers.view(), 1.0);
        let labels: Vec<usize> = distances
            .axis_iter(Axis(0))
            .map(|row| (0..row.len()).fold(0, |best, k| if row[k] < row[best] { k } else { best }))
            .collect();
        for (k, mut center) in centers.axis_iter_mut(Axis(0)).enumerate() {
            let rows: Vec<usize> = (0..labels.len()).filter(|&i| labels[i] == k).collect();
            assert!(!rows.is_empty(), "the data of this test leave none empty");
            center.assign(&x.select(Axis(0), &rows).mean_axis(Axis(0)).unwrap());
        }
    }
    centers
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn nearest_centers_are_nearest(
        n in prop::sample::select(vec![0_usize, 1, 5, 6, 7, 63, 200]),
        k in prop::sample::select(vec![1_usize, 2, 15, 16, 17, 63, 64, 65, 130]),
        d in prop::sample::select(vec![1_usize, 2, 3, 4, 5, 15, 16, 17, 128]),
        scale in prop::sample::select(SCALES),
        single in prop::sample::select(SINGLE_SCALES),
        seed in any::<u64>(),
    ) {
        check_nearest::<f64>(n, k, d, scale, seed);
        check_nearest::<f32>(n, k, d, single, seed);
    }

    #[test]
    fn passes_are_those_of_the_definition(
        n in prop::sample::select(vec![64_usize, 300, 2200]),
        k in prop::sample::select(vec![1_usize, 3, 16]),
        d in prop::sample::select(vec![1_usize, 4, 5, 33]),
        seed in any::<u64>(),
    ) {
        let mut random = Random(seed);
        let x = matrix::<f64>(n, d, 1.0, &mut random);
        let parameters = KMeansParameters::default().with_seed(seed).with_tol(0.0);
        let first = k_means(exec(), x.view(), k, parameters.with_max_iter(0)).unwrap();
        prop_assert!(first.centers.rows().into_iter().all(|center| x.rows().into_iter().any(|x| x == center)));
        for n_iter in [1, 2, 7] {
            let found = k_means(exec(), x.view(), k, parameters.with_max_iter(n_iter)).unwrap();
            let expected = passes(&x, first.centers.clone(), n_iter);
            for (found, expected) in found.centers.iter().zip(&expected) {
                prop_assert!((found - expected).abs() < 1e-12);
            }
            let distances = squared_distances(x.view(), found.centers.view(), 1.0);
            let least = |row: ndarray::ArrayView1<'_, f64>| row.iter().copied().fold(f64::INFINITY, f64::min);
            let inertia: f64 = distances.axis_iter(Axis(0)).map(least).sum();
            prop_assert!((found.inertia - inertia).abs() <= 1e-9 * inertia);
        }
    }

    #[test]
    fn threads_change_nothing(n in 1_usize..3000, k in 1_usize..20, d in 1_usize..9, seed in any::<u64>()) {
        let mut random = Random(seed);
        // Few values: many rows are equal, and centers lose all of theirs.
        let x = matrix::<f32>(n, d, 4.0, &mut random).mapv(f32::round);
        let parameters = KMeansParameters::default().with_seed(seed).with_n_candidates(2);
        let found: Vec<_> = executors()
            .iter()
            .map(|exec| k_means(exec, x.view(), k.min(n), parameters).unwrap())
            .collect();
        for other in &found {
            prop_assert_eq!(&other.centers, &found[0].centers);
            prop_assert_eq!(&other.labels, &found[0].labels);
            prop_assert_eq!(other.inertia.to_bits(), found[0].inertia.to_bits());
        }
        let labels = nearest_centers(exec(), x.view(), found[0].centers.view()).unwrap();
        let distances = squared_distances(x.view(), found[0].centers.view(), 1.0);
        for (i, (&a, &b)) in labels.iter().zip(&found[0].labels).enumerate() {
            let (a, b) = (usize::try_from(a).unwrap(), usize::try_from(b).unwrap());
            prop_assert!(distances[[i, b]] <= distances[[i, a]] * (1.0 + 1e-12));
        }
    }
}

#[test]
fn rows_far_from_all_centers_are_told_apart() {
    // Their bytes say nothing of the small differences between centers.
    let x = array![[1e30_f32, 1.0], [1e30, -1.0], [-1e30, 0.2]];
    let centers = array![[0.0_f32, -2.0], [0.0, 2.0], [1.0, 0.0]];
    let found = nearest_centers(exec(), x.view(), centers.view()).unwrap();
    assert!(found.iter().all(|&label| (0..3).contains(&label)));
    let x = array![[1e300, 1.0], [-1e300, 0.0]];
    let centers = array![[0.0, -2.0], [1e300, 2.0], [-1e300, 0.0]];
    assert_eq!(nearest_centers(exec(), x.view(), centers.view()).unwrap(), [1, 2]);
}

#[test]
fn bad_arguments_are_named() {
    let x = array![[1.0, 2.0], [3.0, f64::NAN]];
    let parameters = KMeansParameters::default();
    let bad =
        |error: &Error| matches!(error, Error::NotFinite { name: "X", row: 1, column: 1, .. });
    assert!(bad(&nearest_centers(exec(), x.view(), array![[0.0, 1.0]].view()).unwrap_err()));
    assert!(bad(&k_means(exec(), x.view(), 1, parameters).unwrap_err()));
    let x = array![[1.0, 2.0], [3.0, 4.0]];
    let number = |error: Error| matches!(error, Error::Parameter { .. });
    for (k, n_candidates) in [(0, 1), (3, 1), (1, 0)] {
        let parameters = parameters.with_n_candidates(n_candidates);
        assert!(number(k_means(exec(), x.view(), k, parameters).unwrap_err()));
    }
    assert!(number(nearest_centers(exec(), x.view(), Array2::zeros((0, 2)).view()).unwrap_err()));
    let error = nearest_centers(exec(), x.view(), array![[1.0]].view()).unwrap_err();
    assert!(matches!(error, Error::Shape { .. }));
    let error = nearest_centers(exec(), x.t(), array![[1.0, 2.0]].view()).unwrap_err();
    assert!(matches!(error, Error::NotInRows { name: "X" }));
}
