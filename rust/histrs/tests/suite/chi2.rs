//! The chi-square kernel, its maps and its random features against their definitions.

use crate::common::*;
use histrs::chi2::{AdditiveMap, column_ranges};
use histrs::kernels::{AdditiveKernel, chi2_distances, exp_chi2_gram};
use histrs::random_features::ExpChi2Features;
use histrs::{CsrView, Error, HistogramMatrix, Real, Value};
use ndarray::{Array2, array};
use proptest::prelude::*;

type Gram<T> = for<'a> fn(
    &histrs::Executor,
    &HistogramMatrix<'a, T>,
    Option<&HistogramMatrix<'a, T>>,
) -> histrs::Result<Array2<T>>;

fn sums(x: &Array2<f64>, y: &Array2<f64>, term: impl Fn(f64, f64) -> f64) -> Array2<f64> {
    Array2::from_shape_fn((x.nrows(), y.nrows()), |(i, j)| {
        let terms = x.row(i).into_iter().zip(y.row(j)).map(|(&a, &b)| term(a, b));
        terms.fold(0.0, |sum, term| sum + term)
    })
}

fn distance(a: f64, b: f64) -> f64 {
    if a + b > 0.0 { (a - b) * ((a - b) / (a + b)) } else { 0.0 }
}

fn additive(a: f64, b: f64) -> f64 {
    if a + b > 0.0 { 2.0 * a.min(b) * (a.max(b) / (a + b)) } else { 0.0 }
}

fn jensen_shannon(a: f64, b: f64) -> f64 {
    if a.min(b) > 0.0 {
        (a * (b / a).ln_1p() + b * (a / b).ln_1p()) / (2.0 * 2.0_f64.ln())
    } else {
        0.0
    }
}

/// A kernel, its term, and whether errors are relative to the mass of the rows.
type Case<T> = (Gram<T>, fn(f64, f64) -> f64, bool);

fn kernels<T: Real>() -> [Case<T>; 4] {
    [
        (chi2_distances, distance, true),
        (|e, x, y| AdditiveKernel::Chi2.gram(e, x, y), additive, false),
        (|e, x, y| AdditiveKernel::Hellinger.gram(e, x, y), |a, b| a.sqrt() * b.sqrt(), false),
        (|e, x, y| AdditiveKernel::JensenShannon.gram(e, x, y), jensen_shannon, false),
    ]
}

fn check_grams<T: Real>(x: &Sample, y: &Sample, layouts: (Layout, Layout), tolerance: f64) {
    let n_columns = x.kinds.len().min(y.kinds.len());
    let cut = |x: Array2<T>| x.slice(ndarray::s![.., ..n_columns]).to_owned();
    let (x, y) = (cut(x.matrix::<T>()), cut(y.matrix::<T>()));
    let (a, b) = (Stored::new(&x, layouts.0, 1), Stored::new(&y, layouts.1, 2));
    let (x, y) = (to_f64(&x), to_f64(&y));
    for (gram, term, of_mass) in kernels::<T>() {
        let want = sums(&x, &y, term);
        let size = if of_mass { sums(&x, &y, |a, b| a + b) } else { want.clone() };
        let got = gram(exec(), &a.view(), Some(&b.view())).unwrap();
        assert_close(&to_f64(&got), &want, &size, tolerance);
        let want = sums(&x, &x, term);
        let size = if of_mass { sums(&x, &x, |a, b| a + b) } else { want.clone() };
        let got = gram(exec(), &a.view(), None).unwrap();
        assert_close(&to_f64(&got), &want, &size, tolerance);
        assert_eq!(got, got.t());
    }
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn grams_are_their_definitions(
        x in sample(SCALES),
        y in sample(SCALES),
        layouts in (layout(), layout()),
    ) {
        check_grams::<f64>(&x, &y, layouts, 1e-12);
    }

    #[test]
    fn grams_in_single_precision(
        x in sample(SINGLE_SCALES),
        y in sample(SINGLE_SCALES),
        layouts in (layout(), layout()),
    ) {
        check_grams::<f32>(&x, &y, layouts, 2e-5);
    }

    #[test]
    fn maps_leave_out_what_they_say(sample in sample(&[1.0]), layout in dense_layout()) {
        let x = sample.matrix::<f64>();
        let stored = Stored::new(&x, layout, sample.seed);
        let poles = array![[2.0], [0.5], [0.1], [7.0]];
        let map = AdditiveMap::rational(poles.view()).unwrap();
        let c = map.transform(exec(), stored.dense_view()).unwrap();
        let rest = |a: f64| poles.iter().map(|z| (a - z) / (a + z)).product::<f64>();
        let want = sums(&x, &x, |a, b| additive(a, b) * (1.0 - rest(a) * rest(b)));
        assert_close(&times(&c, &c.t().to_owned()), &want, &sums(&x, &x, additive), 1e-11);
    }

    #[test]
    fn sparse_features_are_the_dense_ones(sample in sample(SCALES), layout in layout()) {
        let x = sample.matrix::<f64>();
        for map in maps() {
            let dense = map.transform(exec(), x.view()).unwrap();
            let stored = Stored::new(&x, layout, sample.seed);
            let HistogramMatrix::Csr(view) = stored.view() else {
                return Ok(());
            };
            let parts = map.transform_csr(exec(), &view).unwrap();
            let mut filled = Array2::zeros(dense.dim());
            for row in 0..x.nrows() {
                for at in parts.indptr[row] as usize..parts.indptr[row + 1] as usize {
                    filled[[row, parts.indices[at] as usize]] += parts.data[at];
                }
            }
            assert_close(&filled, &dense, &dense.mapv(f64::abs), 1e-12);
        }
    }
}

fn maps() -> [AdditiveMap; 3] {
    [
        AdditiveMap::rational(array![[1.0], [0.1], [0.01]].view()).unwrap(),
        AdditiveMap::chebyshev(4).unwrap(),
        AdditiveMap::periodic(5, 0.4).unwrap(),
    ]
}

/// Many rows, of more values than are mapped at a time, zeros among them.
fn many_values() -> Array2<f64> {
    Array2::from_shape_fn((600, 131), |(i, j)| f64::from((7 * i + 13 * j) as u32 % 11) / 4.0)
}

#[test]
fn series_of_many_terms_are_the_kernel() {
    let x = array![[0.0], [0.3], [0.5], [1.0], [1.7], [3.0]];
    let want = sums(&x, &x, additive);
    let series = [
        (AdditiveMap::chebyshev(80).unwrap(), 0.005),
        (AdditiveMap::periodic(101, 0.2).unwrap(), 1e-5),
    ];
    for (map, tolerance) in series {
        let c = map.transform(exec(), x.view()).unwrap();
        let error = (c.dot(&c.t()) - &want).mapv(f64::abs);
        assert!(error.iter().all(|&e| e < tolerance), "{error}");
    }
}

/// However many values there are, and whatever is stored of them.
#[test]
fn a_value_is_mapped_as_if_it_were_alone() {
    let x = many_values();
    let stored = Stored::new(&x, Layout::Csr, 0);
    let HistogramMatrix::Csr(view) = stored.view() else { panic!("a sparse layout") };
    let poles = Array2::from_shape_fn((2, x.ncols()), |(k, j)| 0.1 + (k + j) as f64 / 50.0);
    let of_columns = AdditiveMap::rational(poles.view()).unwrap();
    for (map, is_shared) in maps().into_iter().map(|map| (map, true)).chain([(of_columns, false)]) {
        let n = map.n_components();
        let all = map.transform(exec(), x.view()).unwrap();
        let sparse = map.transform_csr(exec(), &view).unwrap();
        let mut filled = Array2::<f64>::zeros(all.dim());
        for row in 0..x.nrows() {
            for at in sparse.indptr[row] as usize..sparse.indptr[row + 1] as usize {
                filled[[row, sparse.indices[at] as usize]] += sparse.data[at];
            }
        }
        for (i, j) in [(0, 0), (3, 63), (255, 64), (256, 65), (599, 130), (300, 128)] {
            let one = array![[x[[i, j]]]];
            let alone = if is_shared {
                map.transform(exec(), one.view()).unwrap()
            } else {
                let poles = poles.slice(ndarray::s![.., j..=j]);
                let map = AdditiveMap::rational(poles).unwrap();
                map.transform(exec(), one.view()).unwrap()
            };
            for k in 0..n {
                for features in [&all, &filled] {
                    let error = (features[[i, k * x.ncols() + j]] - alone[[0, k]]).abs();
                    assert!(error < 1e-12, "{i} {j} {k}");
                }
            }
        }
    }
}

#[test]
fn ranges_are_of_all_rows() {
    let mut x = many_values();
    (x[[599, 3]], x[[300, 4]], x[[255, 5]], x[[256, 6]]) = (9.0, 0.01, 8.0, 0.02);
    let stored = Stored::new(&x, Layout::Csr, 0);
    for view in [HistogramMatrix::dense(x.view()), stored.view()] {
        let (low, high) = column_ranges(exec(), &view).unwrap();
        for (j, column) in x.columns().into_iter().enumerate() {
            let positive = column.iter().copied().filter(|&value| value > 0.0);
            assert_eq!(low[j], positive.fold(f64::INFINITY, f64::min));
            assert_eq!(high[j], column.iter().copied().fold(0.0, f64::max));
        }
    }
}

#[test]
fn the_exponential_kernel_follows_from_the_distance() {
    let x = array![[1.0, 3.0, 0.0], [1.0, 1.0, 0.5]];
    let view = HistogramMatrix::dense(x.view());
    let want = chi2_distances(exec(), &view, None).unwrap().mapv(|d: f64| (-0.7 * d).exp());
    assert_eq!(exp_chi2_gram(exec(), &view, None, 0.7).unwrap(), want);
    for gamma in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = exp_chi2_gram(exec(), &view, None, gamma).unwrap_err();
        assert!(matches!(error, Error::Parameter { name: "gamma", .. }));
    }
}

#[test]
fn ranges_leave_zeros_out() {
    let x = array![[0.0, 2.0, 0.0], [0.5, 1.0, 0.0]];
    let want = (vec![0.5, 1.0, 0.0], vec![0.5, 2.0, 0.0]);
    assert_eq!(column_ranges(exec(), &HistogramMatrix::dense(x.view())).unwrap(), want);
    let csr = CsrView::new(&[1.5, 0.5, 0.5, 1.0, 0.0], &[1, 1, 0, 1, 2], &[0, 2, 5], 3).unwrap();
    assert_eq!(column_ranges(exec(), &HistogramMatrix::csr(csr)).unwrap(), want);
}

#[test]
fn bad_parameters_are_refused() {
    for poles in [array![[0.0]], array![[-1.0]], array![[f64::NAN]]] {
        assert!(matches!(AdditiveMap::rational(poles.view()), Err(Error::Parameter { .. })));
    }
    let none = Array2::zeros((0, 1));
    assert!(matches!(
        AdditiveMap::rational(none.view()),
        Err(Error::Parameter { value: Value::Whole(0), .. })
    ));
    assert!(AdditiveMap::chebyshev(0).is_err());
    assert!(AdditiveMap::periodic(4, 0.5).is_err());
    assert!(AdditiveMap::periodic(3, 0.0).is_err());
    let map = AdditiveMap::rational(array![[1.0, 2.0]].view()).unwrap();
    let x = Array2::<f64>::zeros((2, 3));
    let error = map.transform(exec(), x.view()).unwrap_err();
    assert!(matches!(error, Error::Shape { found: 3, expected: 2, .. }));
    let error = map.transform_into(exec(), x.slice(ndarray::s![.., ..2]), &mut [0.0; 3]);
    assert!(matches!(error, Err(Error::Shape { found: 3, expected: 4, .. })));
}

#[test]
fn random_features_are_the_projection_by_hand() {
    let x = Array2::from_shape_fn((19, 3), |(i, d)| ((i * 7 + d * 5) % 11) as f64 / 11.0);
    let signs =
        Array2::from_shape_fn((4, 16), |(k, j)| if (k * 7 + j * j) % 3 == 1 { -1 } else { 1 });
    let map = AdditiveMap::chebyshev(4).unwrap();
    let c = map.transform(exec(), x.view()).unwrap();
    let model = ExpChi2Features::structured(map, 3, signs.view(), 20, 0.3).unwrap();
    let got = model.transform(exec(), &HistogramMatrix::dense(x.view())).unwrap();
    let hadamard = |d: usize, v: Vec<f64>| -> Vec<f64> {
        let sign = |i: usize, j: usize| if (i & j).count_ones() % 2 == 1 { -1.0 } else { 1.0 };
        let term = |i: usize, j: usize| sign(i, j) * f64::from(signs[[d, j]]) * v[j];
        (0..16).map(|i| (0..16).map(|j| term(i, j)).sum()).collect()
    };
    for (c, got) in c.rows().into_iter().zip(got.rows()) {
        let mut padded = c.to_vec();
        padded.resize(16, 0.0);
        let shared = hadamard(1, hadamard(0, padded));
        let blocks = [2, 3].map(|d3| hadamard(d3, shared.clone()));
        for (p, w) in blocks.concat().into_iter().take(20).enumerate() {
            let angle = 0.6_f64.sqrt() * w / 16.0;
            assert!((got[p] - angle.cos() / 20.0_f64.sqrt()).abs() < 1e-13);
            assert!((got[20 + p] - angle.sin() / 20.0_f64.sqrt()).abs() < 1e-13);
        }
    }
}

fn check_sparse_rows<T: Real>(tolerance: f64) {
    let (n_columns, n_projections) = (100, 520);
    let x = Array2::from_shape_fn((131, n_columns), |(i, d)| {
        T::from_f64(if (i * 7 + d * 5) % 50 == 0 { 0.1 + (i % 3) as f64 } else { 0.0 })
    });
    let map = || AdditiveMap::chebyshev(4).unwrap();
    let signs =
        Array2::from_shape_fn((4, 512), |(k, j)| if (k * 7 + j * j) % 3 == 1 { -1 } else { 1 });
    let matrix = Array2::from_shape_fn((400, n_projections), |(i, j)| ((i * 5 + j * 3) % 7) as f64);
    for model in [
        ExpChi2Features::structured(map(), n_columns, signs.view(), n_projections, 0.3).unwrap(),
        ExpChi2Features::dense(map(), n_columns, matrix.view(), 0.01).unwrap(),
    ] {
        let coefficients =
            Array2::from_shape_fn((3, 2 * n_projections), |(k, j)| (k + j % 5) as f64);
        for n in [0, 1, 131] {
            let rows = x.slice(ndarray::s![..n, ..]).to_owned();
            let [dense, sparse] = [Layout::Rows, Layout::Csr].map(|layout| {
                let stored = Stored::new(&rows, layout, 0);
                let features = model.transform(exec(), &stored.view()).unwrap();
                let zeros = [0.0; 3];
                let scores = model.scores(exec(), &stored.view(), coefficients.view(), &zeros);
                (features, scores.unwrap())
            });
            let pairs = dense.0.iter().zip(&sparse.0).chain(dense.1.iter().zip(&sparse.1));
            for (a, b) in pairs {
                assert!((a.to_f64() - b.to_f64()).abs() < tolerance * (1.0 + a.to_f64().abs()));
            }
        }
    }
}

#[test]
fn projections_of_non_zeros_are_those_of_rows() {
    check_sparse_rows::<f64>(1e-13);
    check_sparse_rows::<f32>(1e-5);
}

fn check_scores<T: Real>(tolerance: f64) {
    let x = Array2::from_shape_fn((131, 3), |(i, d)| T::from_f64(((i * 7 + d * 5) % 11) as f64));
    let view = HistogramMatrix::dense(x.view());
    let signs = |n_rounds: usize| {
        Array2::from_shape_fn(
            (n_rounds, 16),
            |(k, j)| if (k * 7 + j * j) % 3 == 1 { -1 } else { 1 },
        )
    };
    let map = || AdditiveMap::chebyshev(4).unwrap();
    for n_projections in [1, 7, 8, 9, 15, 16, 17, 40] {
        let signs = signs(2 + usize::div_ceil(n_projections, 16));
        let matrix =
            Array2::from_shape_fn((12, n_projections), |(i, j)| ((i * 5 + j * 3) % 7) as f64);
        for model in [
            ExpChi2Features::structured(map(), 3, signs.view(), n_projections, 0.01).unwrap(),
            ExpChi2Features::dense(map(), 3, matrix.view(), 0.001).unwrap(),
        ] {
            let z = model.transform(exec(), &view).unwrap().mapv(|v| v.to_f64());
            for n_outputs in [0, 1, 2, 3, 11] {
                let coefficients =
                    Array2::from_shape_fn((n_outputs, 2 * n_projections), |(k, j)| {
                        ((3 * k + 5 * j) % 13) as f64 - 6.0
                    });
                let intercepts: Vec<f64> = (0..n_outputs).map(|k| k as f64 - 1.0).collect();
                let scores = |n_threads| {
                    let exec = histrs::Executor::new(n_threads).unwrap();
                    model.scores(&exec, &view, coefficients.view(), &intercepts).unwrap()
                };
                let found = scores(1);
                assert_eq!(found.dim(), (131, n_outputs));
                for (row, found) in z.rows().into_iter().zip(found.rows()) {
                    for (k, found) in found.iter().enumerate() {
                        let exact = row.dot(&coefficients.row(k)) + intercepts[k];
                        let bound = tolerance * (2.0 + 6.0 * (2.0 * n_projections as f64).sqrt());
                        assert!((found.to_f64() - exact).abs() <= bound);
                    }
                }
                assert!(scores(2) == found && scores(7) == found);
            }
        }
    }
}

#[test]
fn scores_are_products_of_features_and_coefficients() {
    check_scores::<f64>(1e-13);
    check_scores::<f32>(1e-5);
}

#[test]
fn scores_need_a_coefficient_for_each_feature() {
    let map = AdditiveMap::chebyshev(4).unwrap();
    let signs = Array2::<i8>::ones((4, 16));
    let model = ExpChi2Features::structured(map, 3, signs.view(), 20, 1.0).unwrap();
    let x = Array2::<f64>::ones((2, 3));
    let view = HistogramMatrix::dense(x.view());
    let scores = |n_columns, n_intercepts| {
        let coefficients = Array2::zeros((2, n_columns));
        model.scores(exec(), &view, coefficients.view(), &vec![0.0; n_intercepts])
    };
    assert!(scores(40, 2).is_ok());
    for (n_columns, n_intercepts) in [(39, 2), (41, 2), (40, 1), (40, 3)] {
        assert!(matches!(scores(n_columns, n_intercepts), Err(Error::Shape { .. })));
    }
    let narrow = HistogramMatrix::dense(x.slice(ndarray::s![.., ..2]));
    let coefficients = Array2::zeros((2, 40));
    let error = model.scores(exec(), &narrow, coefficients.view(), &[0.0; 2]).unwrap_err();
    assert!(matches!(error, Error::Shape { found: 2, expected: 3, .. }));
}

/// The kernel is homogeneous: with values and poles in another unit the features are the same
/// ones, as far as the numbers of a precision reach.
#[test]
fn rational_features_are_the_same_in_every_unit() {
    let (x, poles) = (array![[0.1_f32, 1.0, 3.0, 3.8]], array![[3.9], [0.7]]);
    let features = |exponent: i32| {
        let unit = 4.0_f64.powi(exponent);
        let map = AdditiveMap::rational((&poles * unit).view()).unwrap();
        let x = x.mapv(|x| (f64::from(x) * unit) as f32);
        map.transform(exec(), x.view()).unwrap() / 2.0_f32.powi(exponent)
    };
    let expected = features(0);
    assert!(expected.iter().all(|feature| feature.is_finite() && *feature != 0.0));
    for exponent in [-60, -20, 1, 40, 63] {
        assert_eq!(features(exponent), expected, "{exponent}");
    }
}

#[test]
fn infinite_parameters_of_maps_are_refused() {
    for bad in [0.0, -1.0, f64::INFINITY, f64::NAN] {
        let error = AdditiveMap::periodic(3, bad).unwrap_err();
        assert!(matches!(error, Error::Parameter { name: "sample_interval", .. }), "{error}");
        let error = AdditiveMap::rational(array![[1.0], [bad]].view()).unwrap_err();
        assert!(matches!(error, Error::Parameter { name: "a pole", .. }), "{error}");
    }
}

#[test]
fn projections_of_other_sizes_are_refused() {
    let map = || AdditiveMap::chebyshev(4).unwrap();
    let good = Array2::<i8>::ones((4, 16));
    assert!(ExpChi2Features::structured(map(), 3, good.view(), 20, 1.0).is_ok());
    for bad in [Array2::ones((3, 16)), Array2::ones((4, 8)), Array2::zeros((4, 16))] {
        assert!(ExpChi2Features::structured(map(), 3, bad.view(), 20, 1.0).is_err());
    }
    let matrix = Array2::<f64>::ones((11, 2));
    assert!(ExpChi2Features::dense(map(), 3, matrix.view(), 1.0).is_err());
    assert!(ExpChi2Features::structured(map(), 3, good.view(), 20, -1.0).is_err());
}
