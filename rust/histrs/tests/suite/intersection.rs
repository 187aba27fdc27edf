//! The histogram intersection kernel against its definition.

use crate::common::sorted::*;
use crate::common::*;
use histrs::Element;
use histrs::intersection::ShapeFunctions;
use ndarray::{Array2, Axis, array, s};
use proptest::prelude::*;

// ---- products ----------------------------------------------------------------------------------

fn check_product<T: Element, V: Element>(
    sample: &Sample,
    layout: Layout,
    v_layout: Layout,
    n_outputs: usize,
) {
    let x = sample.matrix::<T>();
    let stored = Stored::new(&x, layout, sample.seed);
    let v = right_hand_side::<V>(sample.n_rows, n_outputs, sample.seed);
    let v_stored = Stored::new(&v, v_layout, 0);
    let columns = sort(&stored);
    assert_eq!((columns.n_rows(), columns.n_columns()), x.dim());

    let k = kernel(&to_f64(&x), &to_f64(&x));
    let want = times(&k, &to_f64(&v));
    let size = times(&k, &to_f64(&v).mapv(f64::abs));
    let product = columns.product(exec(), v_stored.dense_view()).unwrap();
    assert_close(&to_f64(&product), &want, &size, precision::<V>());
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn product_is_the_kernel_matrix_times_v(
        sample in sample(SCALES),
        layout in layout(),
        v_layout in dense_layout(),
        n_outputs in n_outputs(),
    ) {
        check_product::<f64, f64>(&sample, layout, v_layout, n_outputs);
    }

    #[test]
    fn product_of_single_precision_arrays(
        sample in sample(SINGLE_SCALES),
        layout in layout(),
        v_layout in dense_layout(),
        n_outputs in n_outputs(),
    ) {
        check_product::<f32, f32>(&sample, layout, v_layout, n_outputs);
        check_product::<f32, f64>(&sample, layout, v_layout, n_outputs);
    }

    #[test]
    fn product_single_is_as_close_as_it_says(
        sample in sample(SINGLE_SCALES),
        layout in layout(),
        n_outputs in n_outputs(),
    ) {
        let x = sample.matrix::<f64>();
        let columns = sort(&Stored::new(&x, layout, sample.seed));
        let v = right_hand_side::<f64>(sample.n_rows, n_outputs, sample.seed);
        let product = columns.product_f32(exec(), v.view()).unwrap();
        assert_close(&product, &times(&kernel(&x, &x), &v), &single_size(&x, &v), 1e-6);
    }

    #[test]
    fn a_product_with_the_identity_is_symmetric_and_semi_definite(
        sample in sample(SCALES),
        layout in layout(),
    ) {
        let sample = Sample { n_rows: sample.n_rows.min(40), ..sample };
        let x = sample.matrix::<f64>();
        let columns = sort(&Stored::new(&x, layout, sample.seed));
        let k = columns.product(exec(), Array2::eye(sample.n_rows).view()).unwrap();
        let want = kernel(&x, &x);
        assert_close(&k, &want, &want, DOUBLE);
        assert_close(&k, &k.t().to_owned(), &want, DOUBLE);
        let trace = k.diag().sum();
        if trace > 0.0 {
            let smallest = eigenvalues(&(k / trace)).into_iter().fold(f64::INFINITY, f64::min);
            prop_assert!(smallest >= -1e-12, "{smallest:e}");
        }
    }

    #[test]
    fn cross_product_is_the_kernel_between_the_rows_times_v(
        sample in sample(SCALES),
        layouts in (layout(), layout()),
        n_outputs in n_outputs(),
        n_new in 0_usize..40,
    ) {
        let x = sample.matrix::<f64>();
        let new = rows_to_score(&x, n_new, sample.seed);
        let v = right_hand_side::<f64>(sample.n_rows, n_outputs, sample.seed);
        let columns = sort(&Stored::new(&x, layouts.0, sample.seed));
        let new_stored = Stored::new(&new, layouts.1, sample.seed);
        let k = kernel(&new, &x);
        let (want, size) = (times(&k, &v), times(&k, &v.mapv(f64::abs)));
        let got = columns.cross_product(exec(), &new_stored.view(), v.view()).unwrap();
        assert_close(&got, &want, &size, DOUBLE);
        let functions = ShapeFunctions::new(exec(), &columns, v.view()).unwrap();
        let got = functions.predict(exec(), &new_stored.view()).unwrap();
        assert_close(&got, &want, &size, DOUBLE);
        prop_assert_eq!((functions.n_columns(), functions.n_outputs()), (x.ncols(), n_outputs));
    }

    #[test]
    fn cross_product_takes_single_precision(
        sample in sample(SINGLE_SCALES),
        layouts in (layout(), layout()),
        n_outputs in n_outputs(),
    ) {
        let x = sample.matrix::<f32>();
        let new = rows_to_score(&to_f64(&x), 20, sample.seed).mapv(f32::from_f64);
        let v = right_hand_side::<f32>(sample.n_rows, n_outputs, sample.seed);
        let columns = sort(&Stored::new(&x, layouts.0, sample.seed));
        let new_stored = Stored::new(&new, layouts.1, sample.seed);
        let k = kernel(&to_f64(&new), &to_f64(&x));
        let (want, size) = (times(&k, &to_f64(&v)), times(&k, &to_f64(&v).mapv(f64::abs)));
        let got = columns.cross_product(exec(), &new_stored.view(), v.view()).unwrap();
        assert_close(&got, &want, &size, DOUBLE);
    }

    #[test]
    fn row_sums_are_the_diagonal(sample in sample(SCALES), layout in layout()) {
        let x = sample.matrix::<f64>();
        let stored = Stored::new(&x, layout, sample.seed);
        let sums = stored.view().row_sums(exec()).unwrap();
        prop_assert_eq!(sums.len(), sample.n_rows);
        for (sum, row) in sums.iter().zip(x.rows()) {
            let want = row.iter().fold(0.0, |a, b| a + b);
            prop_assert!((sum - want).abs() <= DOUBLE * want);
            prop_assert!(sum.is_sign_positive());
        }
    }

    #[test]
    fn summaries_describe_the_columns(sample in sample(SCALES), layout in layout()) {
        let x = sample.matrix::<f64>();
        let columns = sort(&Stored::new(&x, layout, sample.seed));
        let maxima: Vec<f64> =
            x.columns().into_iter().map(|c| c.iter().copied().fold(0.0, f64::max)).collect();
        prop_assert_eq!(columns.maxima().unwrap(), maxima);
        // One at 0 in every column that holds anything, and one for the others.
        let n_distinct = x.columns().into_iter().map(|c| distinct(c).len());
        let n_knots: usize = n_distinct.filter(|&n| n > 0).map(|n| n + 1).sum();
        prop_assert_eq!(columns.n_knots().unwrap(), n_knots + 1);
        let n_non_zero = x.iter().filter(|v| **v > 0.0).count();
        prop_assert!((n_non_zero..=x.len()).contains(&columns.n_stored()));
        prop_assert!(columns.n_bytes() >= columns.n_stored());
    }
}

#[test]
fn columns_are_equal_where_all_entries_are() {
    let x = array![[1.0, 0.0, 2.0, 0.0], [3.0, 0.0, 0.5, 0.0], [4.0, 0.0, 0.0, 0.0]];
    let sorted = |x: &Array2<f64>| sort(&Stored::new(x, Layout::Rows, 0));
    let columns = sorted(&x);
    assert_eq!(columns, sorted(&x));
    // Values, zero among them, and a code a row of two columns, and their numbers.
    assert_eq!(columns.n_bytes(), 8 * 4 + 3 + 8 * 3 + 3 + 8 * 2);
    let moved = x.select(Axis(1), &[0, 2, 1, 3]);
    let wider = x.select(Axis(1), &[0, 1, 2, 3, 3]);
    let mut longer = Array2::zeros((4, 4));
    longer.slice_mut(s![..3, ..]).assign(&x);
    for other in [&x * 2.0, moved, wider, longer] {
        assert_ne!(columns, sorted(&other));
    }
}

/// Columns of few values in few rows are kept by rows too, once there was a product.
#[test]
fn memory_is_told_with_what_products_keep() {
    let x = Array2::from_shape_fn(
        (400, 2),
        |(i, d)| {
            if i % 9 == d { 1.0 + (i % 5) as f64 } else { 0.0 }
        },
    );
    let columns = sort(&Stored::new(&x, Layout::Rows, 0));
    let before = columns.n_bytes();
    columns.product(exec(), Array2::<f64>::ones((400, 1)).view()).unwrap();
    let (counts, codes, levels) = (2 * 400, 2 * 45, 8 * 5);
    let found = columns.n_bytes();
    let least = before + counts + codes + levels;
    assert!(found >= least && found <= 2 * least, "{found} {least}");
}

/// Few columns of many rows: blocks of rows, the radix sort, tables of several blocks of columns.
#[test]
fn many_rows() {
    let n = 10_000;
    let kinds = vec![
        Kind::Distinct,
        Kind::Ties(11),
        Kind::Holes(0.9),
        Kind::HeavyTail,
        Kind::RareTies,
        Kind::Holes(0.3),
    ];
    let sample = Sample { n_rows: n, kinds, scale: 1.0, duplicates: true, seed: 7 };
    let mut x = sample.matrix::<f64>();
    // Every value twice, more than a byte can count: runs.
    x.column_mut(5).iter_mut().enumerate().for_each(|(i, v)| *v = (i / 2) as f64 + 1.0);
    let columns = sort(&Stored::new(&x, Layout::Rows, 0));
    let v = right_hand_side::<f64>(n, 9, 3);
    let product = columns.product(exec(), v.view()).unwrap();
    let single = columns.product_f32(exec(), v.view()).unwrap();
    let rows: Vec<usize> = (0..n).step_by(331).collect();
    let some = x.select(Axis(0), &rows);
    let k = kernel(&some, &x);
    let (want, size) = (times(&k, &v), times(&k, &v.mapv(f64::abs)));
    assert_close(&product.select(Axis(0), &rows), &want, &size, DOUBLE);
    let size = single_size(&x, &v).select(Axis(0), &rows);
    assert_close(&single.select(Axis(0), &rows), &want, &size, 1e-5);

    // Wide enough for the tables to be made a few columns at a time.
    let v = right_hand_side::<f64>(n, 400, 4);
    let k = kernel(&some, &x);
    let (want, size) = (times(&k, &v), times(&k, &v.mapv(f64::abs)));
    for layout in [Layout::Columns, Layout::Scattered] {
        let stored = Stored::new(&some, layout, 1);
        let got = columns.cross_product(exec(), &stored.view(), v.view()).unwrap();
        assert_close(&got, &want, &size, DOUBLE);
    }
}

// ---- shape functions ---------------------------------------------------------------------------

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn shape_functions_are_continuous_and_end_in_a_constant(
        sample in sample(SCALES),
        n_outputs in n_outputs(),
    ) {
        let x = sample.matrix::<f64>();
        let alpha = right_hand_side::<f64>(sample.n_rows, n_outputs, sample.seed);
        let columns = sort(&Stored::new(&x, Layout::Rows, 0));
        let functions = ShapeFunctions::new(exec(), &columns, alpha.view()).unwrap();
        let mut random = Random(sample.seed);
        for d in 0..x.ncols() {
            let column = x.slice(s![.., d..d + 1]).to_owned();
            let (at, values) = functions.column(d).unwrap();
            prop_assert_eq!(at[0], 0.0);
            prop_assert_eq!(&at[1..], &distinct(column.column(0))[..]);
            prop_assert!(values.row(0).iter().all(|&f| f == 0.0));

            // At every knot the definition; beside it, nearly the same.
            let k = kernel(&Array2::from_shape_fn((at.len(), 1), |(i, _)| at[i]), &column);
            let size = times(&k, &alpha.mapv(f64::abs));
            assert_close(&values.to_owned(), &times(&k, &alpha), &size, DOUBLE);

            let (intercepts, slopes) = functions.intercepts_and_slopes(d).unwrap();
            let last = at.len() - 1;
            prop_assert!(slopes.row(last).iter().all(|&b| b == 0.0));
            prop_assert_eq!(intercepts.row(last), values.row(last));
            let total = alpha.map_axis(Axis(0), |a| a.iter().map(|a| a.abs()).sum::<f64>());
            for i in 0..last {
                // The line to the right of a knot holds at both ends and between.
                for t in [0.0, 1.0, random.unit()] {
                    let z = at[i] + t * (at[i + 1] - at[i]);
                    let k = kernel(&Array2::from_elem((1, 1), z), &column);
                    let exact = times(&k, &alpha);
                    for o in 0..n_outputs {
                        let line = intercepts[[i, o]] + z * slopes[[i, o]];
                        let error = (line - exact[[0, o]]).abs();
                        prop_assert!(error <= 1e-12 * at[i + 1] * total[o], "{error:e}");
                    }
                }
            }
        }
    }
}

#[test]
fn beyond_the_training_values_the_score_is_constant() {
    let x = ndarray::array![[1.0, 0.0], [3.0, 2.0], [0.5, 0.0]];
    let columns = sort(&Stored::new(&x, Layout::Rows, 0));
    let alpha = ndarray::array![[1.0], [-2.0], [0.25]];
    let functions = ShapeFunctions::new(exec(), &columns, alpha.view()).unwrap();
    let score = |a: f64, b: f64| {
        let x = Stored::new(&ndarray::array![[a, b]], Layout::Rows, 0);
        functions.predict(exec(), &x.view()).unwrap()[[0, 0]]
    };
    assert_eq!(score(0.0, 0.0), 0.0);
    assert_eq!(score(3.0, 2.0), score(1e308, 1e308));
    assert_eq!(score(3.0, 2.0), score(3.0_f64.next_up(), f64::MAX));
    assert_eq!(score(3.0, 0.0), 1.0 - 6.0 + 0.125);
}

// ---- blocks of the kernel matrix ---------------------------------------------------------------

fn check_gram<T: Element>(x: &Sample, y: &Sample, layouts: (Layout, Layout), tolerance: f64) {
    let (x, y) = (x.matrix::<T>(), y.matrix::<T>());
    let a = Stored::new(&x, layouts.0, 1);
    let b = Stored::new(&y, layouts.1, 2);
    let want = kernel(&to_f64(&x), &to_f64(&y));
    let got = gram(exec(), &a.view(), Some(&b.view())).unwrap();
    assert_close(&to_f64(&got), &want, &want, tolerance);
    let want = kernel(&to_f64(&x), &to_f64(&x));
    let got = gram(exec(), &a.view(), None).unwrap();
    assert_close(&to_f64(&got), &want, &want, tolerance);
    assert!(got == got.t(), "not symmetric");
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn gram_is_the_kernel_matrix(
        x in sample(SCALES),
        y in (prop::sample::select(&[0_usize, 1, 3, 4, 5, 63, 64, 65, 130][..]), any::<u64>()),
        layouts in (layout(), layout()),
    ) {
        let y = Sample { n_rows: y.0, seed: y.1, ..x.clone() };
        check_gram::<f64>(&x, &y, layouts, DOUBLE);
    }

    #[test]
    fn gram_in_single_precision(
        x in sample(SINGLE_SCALES),
        y in (prop::sample::select(&[0_usize, 1, 3, 4, 5, 63, 64, 65, 130][..]), any::<u64>()),
        layouts in (layout(), layout()),
    ) {
        let y = Sample { n_rows: y.0, seed: y.1, ..x.clone() };
        check_gram::<f32>(&x, &y, layouts, 5e-6);
    }
}

/// More columns than vectors are added up in single precision.
#[test]
fn gram_of_wide_matrices() {
    let kinds = vec![Kind::Distinct; 3001];
    let x = Sample { n_rows: 70, kinds, scale: 1.0, duplicates: false, seed: 5 };
    let y = Sample { n_rows: 67, seed: 6, ..x.clone() };
    for layouts in [
        (Layout::Rows, Layout::Columns),
        (Layout::Scattered, Layout::Rows),
        (Layout::Rows, Layout::Scattered),
        (Layout::Csr, Layout::Csr),
    ] {
        check_gram::<f64>(&x, &y, layouts, DOUBLE);
        check_gram::<f32>(&x, &y, layouts, 2e-6);
    }
}
