//! Kernels of a distance, against the formulas entry by entry and finite differences.

use histrs::distances::{DistanceKernel, DistanceScores, Norm, Shape, StoredDistances};
use histrs::{Error, Executor};
use ndarray::{Array2, Axis, array, s};
use proptest::prelude::*;

const SHAPES: [Shape; 3] = [Shape::Laplace(0.7), Shape::Matern(1.5), Shape::Laplace(3.0)];

fn kernel(norm: Norm, n_numbers: usize, parameters: &[f64]) -> DistanceKernel {
    let (weights, amplitudes) = parameters.split_at(parameters.len() - SHAPES.len() - 2);
    DistanceKernel::new(norm, n_numbers, weights.into(), SHAPES.into(), amplitudes.into()).unwrap()
}

fn distance(norm: Norm, differences: impl Iterator<Item = f64>) -> f64 {
    match norm {
        Norm::L1 => differences.map(f64::abs).sum(),
        Norm::L2 => differences.map(|d| d * d).sum::<f64>().sqrt(),
    }
}

/// Eq. 4.17 of Rasmussen and Williams, and the covariance of Lévy's Brownian motion.
fn expected(norm: Norm, n_numbers: usize, parameters: &[f64], x: &[f64], y: &[f64]) -> f64 {
    let (w, a) = parameters.split_at(x.len());
    let between = |x: &[f64], y: Option<&[f64]>| {
        let part = |d: usize| match y {
            Some(y) if d < n_numbers => w[d] * (x[d] - y[d]),
            None if d < n_numbers => w[d] * x[d],
            Some(y) if x[d] == y[d] => 0.0,
            _ => w[d],
        };
        distance(norm, (0..x.len()).map(part))
    };
    let d = between(x, Some(y));
    let s = 3.0_f64.sqrt() * d / 1.5;
    let shapes = a[0] * (-d / 0.7).exp() + a[1] * (1.0 + s) * (-s).exp() + a[2] * (-d / 3.0).exp();
    shapes + a[3] * (between(x, None) + between(y, None) - d) / 2.0 + a[4]
}

prop_compose! {
    fn case()(n in 0_usize..40, m in 0_usize..9, d in 1_usize..5, categories in 0_usize..3)
        (x in prop::collection::vec(-4_i8..5, n * (d + categories)),
         y in prop::collection::vec(-4_i8..5, m * (d + categories)),
         parameters in prop::collection::vec(0.05..1.5_f64, d + categories + 5),
         norm in prop::sample::select(vec![Norm::L1, Norm::L2]),
         n in Just(n), m in Just(m), d in Just(d), all in Just(d + categories))
        -> (Norm, usize, Vec<f64>, Array2<f64>, Array2<f64>) {
        let numbers = |v: Vec<i8>| v.into_iter().map(|v| f64::from(v) * 0.5).collect();
        let x = Array2::from_shape_vec((n, all), numbers(x)).unwrap();
        let y = Array2::from_shape_vec((m, all), numbers(y)).unwrap();
        (norm, d, parameters, x, y)
    }
}

/// Rows beyond one tile, and far ones.
fn many_rows(n: usize, d: usize) -> Array2<f64> {
    let mut x = Array2::from_shape_fn((n, d), |(i, k)| {
        ((i * 7919 + k * 104_729 + i * k * 31) % 211) as f64 / 70.0 - 1.4
    });
    if n > 2 {
        let first = x.row(0).to_owned();
        x.row_mut(n - 1).assign(&first);
        x.row_mut(1).fill(300.0);
    }
    x
}

#[test]
fn stored_products_are_those_with_the_matrix() {
    for n_threads in [1, 2] {
        let exec = Executor::new(n_threads).unwrap();
        for (norm, n, d) in [Norm::L1, Norm::L2].into_iter().flat_map(|norm| {
            [(0, 3), (1, 3), (2, 1), (127, 5), (128, 2), (129, 40), (700, 17)]
                .map(|(n, d)| (norm, n, d))
        }) {
            let x = many_rows(n, d);
            let amplitudes = [0.5, 0.25, 0.7, 0.3, 2.0];
            let parameters = [vec![0.4; d], amplitudes.to_vec()].concat();
            let kernel = kernel(norm, d.saturating_sub(1), &parameters);
            let k = kernel.gram(&exec, x.view(), None).unwrap();
            // The first column of a Cholesky factor.
            let first = k.slice(s![.., ..1.min(n)]).mapv(|v| v / k[[0, 0]].sqrt());
            let factor = if n_threads == 1 { Array2::zeros((n, 0)) } else { first };
            let left = (&k - &factor.dot(&factor.t())).diag().mapv(|left| left.max(0.0));
            let stored = StoredDistances::new(&exec, &kernel, x.view(), factor).unwrap();
            assert_eq!(stored.n_rows(), n);
            assert!(
                (stored.mean_rest() - left.sum() / n.max(1) as f64).abs() <= 1e-6 * k.diag().sum()
            );
            let n_tiles = n.div_ceil(128);
            assert_eq!(stored.n_bytes(), n_tiles * (n_tiles + 1) / 2 * 128 * 128 * 2);
            for (m, unit) in [(0, 1.0), (1, 1e200), (15, 1.0), (16, 1e-200), (35, 1.0)] {
                let v = Array2::from_shape_fn((n, m), |(i, k)| {
                    unit * (((i * 31 + k * 7) % 13) as f64 - 6.0)
                });
                let found = stored.product(&exec, v.view()).unwrap();
                let roots = left.mapv(f64::sqrt);
                let magnitudes = v.mapv(f64::abs);
                let all = k.diag().mapv(f64::sqrt);
                let (size, whole) = (roots.dot(&magnitudes), all.dot(&magnitudes));
                for (i, (found, right)) in
                    found.rows().into_iter().zip(k.dot(&v).rows()).enumerate()
                {
                    for (m, (found, right)) in found.iter().zip(right).enumerate() {
                        // Half of a multiple, and single precision.
                        let most = 2e-5 * size[m] * roots[i] + 1e-6 * whole[m] * all[i];
                        assert!((found - right).abs() <= most, "{norm:?} {n} {d} {m}");
                    }
                }
            }
            let v = Array2::from_shape_fn((n, 19), |(i, k)| ((i * 17 + k * 5) % 11) as f64 - 4.0);
            let all = stored.product(&exec, v.view()).unwrap();
            for k in 0..19 {
                let one = stored.product(&exec, v.slice(s![.., k..=k])).unwrap();
                assert_eq!(one.column(0), all.column(k));
            }
        }
    }
}

#[test]
fn products_of_rows_beyond_one_task_are_those_with_the_matrix() {
    let (x, y) = (many_rows(300, 3), many_rows(700, 3));
    let kernel = kernel(Norm::L2, 2, &[0.4, 0.3, 0.2, 0.5, 0.25, 0.7, 0.3, 2.0]);
    let v = Array2::from_shape_fn((700, 5), |(i, k)| ((i * 31 + k * 7) % 13) as f64 - 6.0);
    let [one, two] = [1, 2].map(|n_threads| {
        let exec = Executor::new(n_threads).unwrap();
        kernel.cross_product(&exec, x.view(), y.view(), v.view()).unwrap()
    });
    assert_eq!(one, two);
    let k = kernel.gram(&Executor::new(1).unwrap(), x.view(), Some(y.view())).unwrap();
    let size = k.dot(&v.mapv(f64::abs));
    assert!((k.dot(&v) - one).iter().zip(&size).all(|(off, size)| off.abs() <= 1e-9 * size));
}

/// Lengths that a table has and lengths that are too far apart for one; rows that are equal, far from
/// all others, and far from 0 beside their distances.
#[test]
fn scores_are_products_with_the_matrix() {
    let exec = Executor::new(2).unwrap();
    for (norm, offset) in [(Norm::L1, 0.0), (Norm::L2, 0.0), (Norm::L2, 1e6)] {
        for lengths in [[0.7, 3.0], [1e-40, 1e40]] {
            let shapes = vec![Shape::Laplace(lengths[0]), Shape::Matern(lengths[1])];
            let kernel =
                DistanceKernel::new(norm, 3, vec![0.4; 4], shapes, vec![0.5, 0.3, 0.2, 0.1])
                    .unwrap();
            let mut y = many_rows(300, 4) + offset;
            y[[7, 0]] += 1e9;
            let x = y.slice(s![..150, ..]);
            let v = Array2::from_shape_fn((300, 2), |(i, k)| ((i * 31 + k * 7) % 13) as f64 - 6.0);
            let singles =
                Array2::from_shape_fn((300, 3), |(i, k)| ((i * 17 + k) % 11) as f32 - 4.0);
            let scores =
                DistanceScores::new(kernel.clone(), y.view(), v.view(), singles.view()).unwrap();
            let found = scores.evaluate(&exec, x).unwrap();
            assert_eq!(found.dim(), (150, scores.n_outputs()));
            let k = kernel.gram(&exec, x, Some(y.view())).unwrap();
            let both = ndarray::concatenate![Axis(1), v, singles.mapv(f64::from)];
            let (expected, size) = (k.dot(&both), k.dot(&both.mapv(f64::abs)));
            for ((i, o), found) in found.indexed_iter() {
                let most = if o < 2 { 1e-9 } else { 1e-6 };
                let off = (found - expected[[i, o]]).abs();
                assert!(off <= most * size[[i, o]], "{norm:?} {offset} {lengths:?} {i} {o} {off}");
            }
        }
    }
    let kernel = kernel(Norm::L1, 1, &[1.0; 6]);
    let (x, v) = (array![[1.0]], Array2::zeros((1, 1)));
    let refused = DistanceScores::new(kernel, x.view(), v.view(), Array2::zeros((2, 1)).view());
    assert!(matches!(refused, Err(Error::Shape { .. })));
}

#[test]
fn stored_kernels_refuse_what_overflows_single_precision() {
    let exec = Executor::new(1).unwrap();
    let kernel = kernel(Norm::L2, 1, &[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
    let x = array![[1.0], [1e60]];
    assert!(kernel.gram(&exec, x.view(), None).is_ok());
    let refused = StoredDistances::new(&exec, &kernel, x.view(), Array2::zeros((2, 0)));
    assert!(matches!(refused, Err(Error::NotFinite { row: 1, column: 0, .. })));
    let x = array![[1.0], [2.0]];
    for factor in [Array2::zeros((3, 1)), Array2::from_elem((2, 1), f64::NAN)] {
        assert!(StoredDistances::new(&exec, &kernel, x.view(), factor).is_err());
    }
    let stored = StoredDistances::new(&exec, &kernel, x.view(), Array2::zeros((2, 0))).unwrap();
    let refused = stored.product(&exec, Array2::zeros((3, 1)).view());
    assert!(matches!(refused, Err(Error::Shape { .. })));
}

proptest! {
    #[test]
    fn matrices_are_the_formula((norm, d, parameters, x, y) in case()) {
        let kernel = kernel(norm, d, &parameters);
        for n_threads in [1, 3] {
            let exec = Executor::new(n_threads).unwrap();
            for (rows, others) in [(&x, &x), (&x, &y)] {
                let given = (rows != others).then(|| others.view());
                let found = kernel.gram(&exec, rows.view(), given).unwrap();
                for ((i, j), &found) in found.indexed_iter() {
                    let (x, y) = (rows.row(i).to_vec(), others.row(j).to_vec());
                    let right = expected(norm, d, &parameters, &x, &y);
                    prop_assert!((found - right).abs() < 1e-12 * (1.0 + right.abs()));
                }
            }
            let own = kernel.gram(&exec, x.view(), None).unwrap();
            prop_assert_eq!(&own, &own.t());
            for n_outputs in 0..4 {
                let k = kernel.gram(&exec, y.view(), Some(x.view())).unwrap();
                let v = Array2::from_shape_fn((x.nrows(), n_outputs), |(i, k)| {
                    ((i * 31 + k * 7) % 13) as f64 - 6.0
                });
                let found = kernel.cross_product(&exec, y.view(), x.view(), v.view()).unwrap();
                let size = k.dot(&v.mapv(f64::abs));
                for ((i, &right), &size) in k.dot(&v).indexed_iter().zip(&size) {
                    prop_assert!((found[i] - right).abs() <= 1e-8 * size);
                }
            }
        }
    }

    #[test]
    fn slopes_are_differences((norm, d, parameters, x, _) in case()) {
        let n = x.nrows();
        let g = Array2::from_shape_fn((n, n), |(i, j)| ((i + j) * 7 % 5) as f64 - 2.0 + (i * j % 3) as f64);
        let exec = Executor::new(2).unwrap();
        let value = |parameters: &[f64]| {
            let k = kernel(norm, d, parameters).gram(&exec, x.view(), None).unwrap();
            (&k * &g).sum()
        };
        let found = kernel(norm, d, &parameters).slopes(&exec, x.view(), g.view()).unwrap();
        let one = Executor::new(1).unwrap();
        prop_assert_eq!(&found, &kernel(norm, d, &parameters).slopes(&one, x.view(), g.view()).unwrap());
        let size = (&g * &g).sum().sqrt() * n as f64;
        for (p, found) in found.weights.iter().chain(&found.amplitudes).enumerate() {
            let [above, below] = [1e-5_f64, -1e-5].map(|step| {
                let mut moved = parameters.clone();
                moved[p] *= step.exp();
                value(&moved)
            });
            prop_assert!((found - (above - below) / 2e-5).abs() < 1e-6 * (1.0 + size));
        }
    }
}

#[test]
fn blocks_of_many_rows_are_the_formula() {
    let exec = Executor::new(2).unwrap();
    let x = Array2::from_shape_fn((600, 3), |(i, d)| ((i * 31 + d * 17) % 97) as f64 / 20.0);
    let parameters = [0.4, 0.9, 0.3, 1.0, 0.5, 0.2, 0.1, 0.7];
    let k = kernel(Norm::L2, 2, &parameters).gram(&exec, x.view(), None).unwrap();
    for (i, j) in [(0, 599), (300, 255), (256, 256), (599, 511)] {
        let (x, y) = (x.row(i).to_vec(), x.row(j).to_vec());
        assert!((k[[i, j]] - expected(Norm::L2, 2, &parameters, &x, &y)).abs() < 1e-12);
    }
    let g = Array2::from_elem((600, 600), 1.0);
    let slopes = kernel(Norm::L2, 2, &parameters).slopes(&exec, x.view(), g.view()).unwrap();
    assert!((slopes.amplitudes.iter().sum::<f64>() - k.sum()).abs() < 1e-9 * k.sum());
}

#[test]
fn bad_arguments_are_refused() {
    let exec = Executor::new(1).unwrap();
    let new = |n, weights: &[f64], shape, amplitudes: &[f64]| {
        DistanceKernel::new(Norm::L1, n, weights.into(), vec![shape], amplitudes.into())
    };
    let (right, shape) = ([1.0, 0.0, 0.0], Shape::Laplace(1.0));
    assert!(matches!(new(3, &[1.0], shape, &right), Err(Error::Shape { .. })));
    assert!(matches!(new(1, &[1.0], shape, &right[1..]), Err(Error::Shape { .. })));
    assert!(matches!(
        new(1, &[-1.0], shape, &right),
        Err(Error::Parameter { name: "weights", .. })
    ));
    let negative = new(1, &[1.0], shape, &[f64::NAN, 0.0, 0.0]);
    assert!(matches!(negative, Err(Error::Parameter { name: "amplitudes", .. })));
    for length in [0.0, -1.0, f64::NAN, 1e-320] {
        let refused = new(1, &[1.0], Shape::Matern(length), &right);
        assert!(matches!(refused, Err(Error::Parameter { name: "length", .. })));
    }
    let kernel = new(1, &[1.0], shape, &right).unwrap();
    let bad = array![[0.0], [f64::NAN]];
    let refused = kernel.gram(&exec, bad.view(), None);
    assert!(matches!(refused, Err(Error::NotFinite { name: "X", row: 1, column: 0, .. })));
    let (x, g) = (array![[0.0], [1.0]], array![[0.0, 1.0]]);
    assert!(matches!(kernel.slopes(&exec, x.view(), g.view()), Err(Error::Shape { .. })));
    assert!(matches!(kernel.gram(&exec, x.slice(s![.., ..0]), None), Err(Error::Shape { .. })));
}
