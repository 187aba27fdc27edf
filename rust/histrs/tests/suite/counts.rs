//! Sums of minima of whole numbers, which are exact, and the MinMax kernel.

use crate::common::*;
use histrs::kernels::{cubic_spline_gram, minmax_distances, minmax_gram};
use histrs::{CsrView, Element, HistogramMatrix};
use ndarray::Array2;
use proptest::prelude::*;

/// The largest numbers around which another way is taken: bytes, words, floating point.
const LARGEST: &[usize] = &[0, 1, 3, 255, 256, 32_768, 65_535, 65_536, 100_000];

/// Counts up to `largest`, of which a part is not 0.
fn counts<T: Element>(n: usize, d: usize, largest: usize, part: f64, seed: u64) -> Array2<T> {
    let mut random = Random(seed);
    Array2::from_shape_fn((n, d), |(i, _)| {
        let value = if random.unit() < part { random.below(largest + 1) } else { 0 };
        // One row has the largest in every column.
        T::from_f64(if i == 1 { largest } else { value } as f64)
    })
}

fn sums(x: &Array2<f64>, y: &Array2<f64>, of: impl Fn(f64, f64) -> f64) -> Array2<f64> {
    Array2::from_shape_fn((x.nrows(), y.nrows()), |(i, j)| {
        x.row(i).iter().zip(y.row(j)).map(|(&x, &y)| of(x, y)).sum()
    })
}

fn check<T: Element>(x: &Array2<T>, y: &Array2<T>, layout: Layout, y_layout: Layout, seed: u64) {
    let (left, right) = (Stored::new(x, layout, seed), Stored::new(y, y_layout, seed + 1));
    for exec in executors() {
        let found = gram(exec, &left.view(), Some(&right.view())).unwrap();
        assert_eq!(to_f64(&found), sums(&to_f64(x), &to_f64(y), f64::min));
        let own = gram(exec, &left.view(), None).unwrap();
        assert_eq!(to_f64(&own), sums(&to_f64(x), &to_f64(x), f64::min));
    }
    let minima = sums(&to_f64(x), &to_f64(y), f64::min);
    let maxima = sums(&to_f64(x), &to_f64(y), f64::max);
    let kernel = minmax_gram(exec(), &left.view(), Some(&right.view())).unwrap();
    let distances = minmax_distances(exec(), &left.view(), Some(&right.view())).unwrap();
    for ((i, j), &maximum) in maxima.indexed_iter() {
        let expected = if maximum > 0.0 { minima[[i, j]] / maximum } else { 1.0 };
        let (k, d) = (kernel[[i, j]], distances[[i, j]]);
        assert_eq!(k.to_f64(), T::from_f64(expected).to_f64());
        let expected = if maximum > 0.0 { (maximum - minima[[i, j]]) / maximum } else { 0.0 };
        assert_eq!(d.to_f64(), T::from_f64(expected).to_f64());
    }
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn sums_of_counts_are_exact(
        n in prop::sample::select(&[1_usize, 15, 16, 17, 18, 19, 64, 65, 70, 131][..]),
        m in prop::sample::select(&[1_usize, 15, 16, 17, 18, 63, 64, 66][..]),
        d in prop::sample::select(&[0_usize, 1, 31, 32, 33, 63, 64, 65, 130][..]),
        largest in prop::sample::select(LARGEST),
        part in prop::sample::select(&[0.02, 0.3, 1.0][..]),
        exponent in prop::sample::select(&[0, -8, -90, 1, 80][..]),
        layout in layout(),
        y_layout in layout(),
        seed in 0_u64..1000,
    ) {
        let (x, y) = (counts::<f64>(n, d, largest, part, seed), counts(m, d, largest, part, seed + 7));
        check(&x, &y, layout, y_layout, seed);
        // Of multiples of a power of two, too, and more rows than are mirrored at once.
        let unit = 2.0_f64.powi(exponent);
        let (x, y) = (&x * unit, &y * unit);
        check(&x, &y, layout, y_layout, seed);
        // In single precision sums below 2^24 are as exact.
        if largest * d < 1 << 24 {
            let (x, y) = (x.mapv(|v| v as f32), y.mapv(|v| v as f32));
            check(&x, &y, layout, y_layout, seed);
        }
    }

    #[test]
    fn one_entry_that_is_no_count_is_not_lost(
        n in prop::sample::select(&[16_usize, 40, 300][..]),
        d in prop::sample::select(&[1_usize, 40][..]),
        odd in prop::sample::select(&[0.5, 1.0 / 3.0, 1e-300, 1e-310, 254.999, 32_767.5, 65_536.0, 1e9][..]),
        layout in layout(),
        seed in 0_u64..1000,
    ) {
        let mut x = counts::<f64>(n, d, 9, 0.8, seed);
        let mut random = Random(seed);
        let (row, column) = (random.below(n), random.below(d));
        x[[row, column]] = odd;
        let stored = Stored::new(&x, layout, seed);
        let found = gram(exec(), &stored.view(), None).unwrap();
        let expected = sums(&x, &x, f64::min);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() <= 1e-12 * expected, "{found} {expected}");
        }
    }

    #[test]
    fn minmax_of_any_rows(
        sample in sample(SCALES),
        layout in layout(),
    ) {
        let x = sample.matrix::<f64>();
        let stored = Stored::new(&x, layout, sample.seed);
        let kernel = minmax_gram(exec(), &stored.view(), None).unwrap();
        let distances = minmax_distances(exec(), &stored.view(), None).unwrap();
        let (minima, maxima) = (sums(&x, &x, f64::min), sums(&x, &x, f64::max));
        for ((i, j), &k) in kernel.indexed_iter() {
            let expected =
                if maxima[[i, j]] > 0.0 { minima[[i, j]] / maxima[[i, j]] } else { 1.0 };
            assert!((k - expected).abs() <= 1e-13, "{k} {expected}");
            assert!((distances[[i, j]] - (1.0 - expected)).abs() <= 1e-13);
            assert!(x.row(i) != x.row(j) || layout == Layout::Scattered || k == 1.0);
        }
    }
}

/// `sum_d` of the integral over `u` of `(x(d) - u)_+ (y(d) - u)_+`: two Gauss points are exact for a
/// square.
fn integrals(x: &Array2<f64>, y: &Array2<f64>) -> Array2<f64> {
    sums(x, y, |a, b| {
        let half = 0.5 * a.min(b);
        let of = |node: f64| {
            let u = half * (1.0 + node);
            (a - u) * (b - u)
        };
        let node = 1.0 / 3.0_f64.sqrt();
        half * (of(node) + of(-node))
    })
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn cubic_splines_of_any_rows(
        sample in sample(&[1e-60, 1e-3, 1.0, 1e60]),
        layout in layout(),
    ) {
        let x = sample.matrix::<f64>();
        let stored = Stored::new(&x, layout, sample.seed);
        let kernel = cubic_spline_gram(exec(), &stored.view(), None).unwrap();
        let cross = cubic_spline_gram(exec(), &stored.view(), Some(&stored.view())).unwrap();
        let expected = integrals(&x, &x);
        for ((i, j), &k) in kernel.indexed_iter() {
            let wanted = expected[[i, j]];
            assert!((k - wanted).abs() <= 1e-12 * wanted, "{k} {wanted}");
            assert_eq!(kernel[[j, i]], k);
            assert!((cross[[i, j]] - k).abs() <= 1e-14 * k);
        }
    }
}

/// Wide rows of the largest bytes and words, and of nothing, of which words are stored as the
/// smallest ones: the sums of 32 bits are emptied in time.
#[test]
fn wide_rows_do_not_overflow() {
    for (d, largest) in [(600_000, 255.0), (300_000, 65_535.0)] {
        let x = Array2::from_shape_fn((17, d), |(i, _)| if i < 9 { largest } else { 0.0 });
        for k in [
            gram(exec(), &HistogramMatrix::dense(x.view()), None).unwrap(),
            gram(exec(), &HistogramMatrix::dense((&x / 4.0).view()), None).unwrap() * 4.0,
        ] {
            for ((i, j), &k) in k.indexed_iter() {
                assert_eq!(k, if i < 9 && j < 9 { largest * d as f64 } else { 0.0 });
            }
        }
    }
}

/// Sums beyond what single precision holds exactly: a row has distance 0 to itself all the same.
#[test]
fn equal_rows_of_large_counts_are_equal_in_single_precision() {
    let x = counts::<f32>(40, 3001, 65_535, 1.0, 5);
    let view = HistogramMatrix::dense(x.view());
    let other = x.clone();
    let other = HistogramMatrix::dense(other.view());
    let kernel = minmax_gram(exec(), &view, Some(&other)).unwrap();
    let distances = minmax_distances(exec(), &view, None).unwrap();
    for i in 0..40 {
        assert_eq!((kernel[[i, i]], distances[[i, i]]), (1.0, 0.0));
    }
}

/// Sums of words are rounded to single precision once, at their end.
#[test]
fn large_counts_are_added_up_without_rounding() {
    let mut random = Random(11);
    let x = Array2::from_shape_fn((20, 5_000), |(i, j)| match (i, j) {
        (3, 7) => 65_535_u32,
        _ => 32_768 + u32::try_from(random.below(32_768)).unwrap(),
    });
    let exact = Array2::from_shape_fn((20, 20), |(i, j)| {
        let minima = x.row(i).into_iter().zip(x.row(j)).map(|(&x, &y)| u64::from(x.min(y)));
        minima.sum::<u64>() as f64
    });
    for exponent in [0, -3, 10] {
        let unit = 2.0_f64.powi(exponent);
        let scaled = x.mapv(|x| (f64::from(x) * unit) as f32);
        let found = gram(exec(), &HistogramMatrix::dense(scaled.view()), None).unwrap();
        assert_eq!(found, exact.mapv(|sum| (sum * unit) as f32));
    }
}

/// Rows that are packed in more than one part.
#[test]
fn wide_rows_are_compared_in_parts() {
    let (n, d) = (140, 66_000);
    let mut x = Array2::<f64>::zeros((n, d));
    let mut random = Random(3);
    for i in 0..n {
        for j in (0..d).step_by(6_000) {
            x[[i, j]] = random.unit();
        }
    }
    let found = gram(exec(), &HistogramMatrix::dense(x.view()), None).unwrap();
    let few = x.slice(ndarray::s![.., ..;6_000]).to_owned();
    let expected = sums(&few, &few, f64::min);
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found - expected).abs() <= 1e-14 * expected, "{found} {expected}");
    }
}

/// Rows of few entries are not written out.
#[test]
fn very_wide_sparse_rows_take_no_room() {
    let (data, indices): (Vec<f64>, Vec<i32>) = (0..40).map(|i| (f64::from(i), i * 1000)).unzip();
    let indptr: Vec<i64> = (0..=20).map(|i| 2 * i).collect();
    let view =
        |columns| HistogramMatrix::csr(CsrView::new(&data, &indices, &indptr, columns).unwrap());
    let (narrow, wide) = (view(40_000), view(i32::MAX as usize));
    let expected = minmax_gram(exec(), &narrow, None).unwrap();
    assert_eq!(expected[[0, 0]], 1.0);
    assert_eq!(minmax_gram(exec(), &wide, None).unwrap(), expected);
    assert_eq!(minmax_gram(exec(), &wide, Some(&wide)).unwrap(), expected);
    assert_eq!(gram(exec(), &wide, Some(&wide)).unwrap(), gram(exec(), &narrow, None).unwrap());
}

#[test]
fn rows_without_a_finite_sum_are_named() {
    let x = Array2::from_shape_fn((3, 2), |(i, _)| if i == 1 { 1e308 } else { 1.0 });
    let view = HistogramMatrix::dense(x.view());
    let error = minmax_gram(exec(), &view, None).unwrap_err().to_string();
    assert!(error.contains("X[1] sum"), "{error}");
}
