//! The histogram intersection kernel against its definition.

#![cfg(feature = "all")]
#![allow(clippy::unwrap_used)] // the helpers of a test fail as the test does

mod common;

use common::*;
use histrs::Element;
use histrs::intersection::{
    Interpolation, KnotProjection, LookupTable, ShapeFunctions, SortedColumns,
};
use ndarray::{Array2, ArrayView1, Axis, s};
use proptest::prelude::*;

/// What double precision leaves of a sum of a few hundred terms.
const DOUBLE: f64 = 1e-13;

fn sort<T: Element>(x: &Stored<T>) -> SortedColumns {
    SortedColumns::new(exec(), &x.view()).unwrap()
}

/// `max(f32 rounding, double)`, what a result in `T` can be held to.
fn precision<T: Element>() -> f64 {
    if size_of::<T>() == 4 { f64::from(f32::EPSILON) } else { DOUBLE }
}

/// `k(x_i, x_i) |v|_1`, which errors in single precision are measured by.
fn single_size(x: &Array2<f64>, v: &Array2<f64>) -> Array2<f64> {
    let norms = v.map_axis(Axis(0), |v| v.iter().map(|v| v.abs()).sum::<f64>());
    Array2::from_shape_fn((x.nrows(), v.ncols()), |(i, k)| x.row(i).sum() * norms[k])
}

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
        let got = functions.evaluate(exec(), &new_stored.view()).unwrap();
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
        prop_assert_eq!(columns.maxima(), maxima);
        let n_distinct: usize =
            x.columns().into_iter().map(|c| distinct(c).len()).sum();
        prop_assert_eq!(columns.n_knots().unwrap(), n_distinct + x.ncols());
        let n_non_zero = x.iter().filter(|v| **v > 0.0).count();
        prop_assert!((n_non_zero..=x.len()).contains(&columns.n_stored()));
        prop_assert!(columns.n_bytes() >= columns.n_stored());
    }
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
        functions.evaluate(exec(), &x.view()).unwrap()[[0, 0]]
    };
    assert_eq!(score(0.0, 0.0), 0.0);
    assert_eq!(score(3.0, 2.0), score(1e308, 1e308));
    assert_eq!(score(3.0, 2.0), score(3.0_f64.next_up(), f64::MAX));
    assert_eq!(score(3.0, 0.0), 1.0 - 6.0 + 0.125);
}

// ---- look-up table -----------------------------------------------------------------------------

/// Scores of a few rows by the table, by the definition, and the size of the sums.
struct Scores {
    table: LookupTable,
    got: Array2<f64>,
    want: Array2<f64>,
    size: Array2<f64>,
}

fn look_up(
    x: &Array2<f64>,
    alpha: &Array2<f64>,
    (n_bins, interpolation): (usize, Interpolation),
    layout: Layout,
    seed: u64,
) -> Scores {
    let columns = sort(&Stored::new(x, Layout::Rows, 0));
    let table = LookupTable::new(exec(), &columns, alpha.view(), n_bins, interpolation).unwrap();
    assert_eq!(table.error_bound().len(), alpha.ncols());
    let new = rows_to_score(x, 60, seed);
    let got = table.evaluate(exec(), &Stored::new(&new, layout, seed).view()).unwrap();
    let k = kernel(&new, x);
    let (want, size) = (times(&k, alpha), times(&k, &alpha.mapv(f64::abs)));
    Scores { table, got, want, size }
}

fn interpolation() -> impl Strategy<Value = Interpolation> {
    prop_oneof![Just(Interpolation::Linear), Just(Interpolation::Nearest)]
}

impl Scores {
    #[track_caller]
    fn assert_certified(&self) {
        for ((at, got), (want, size)) in
            self.got.indexed_iter().zip(self.want.iter().zip(&self.size))
        {
            let (error, bound) = ((got - want).abs(), self.table.error_bound()[at.1]);
            let rounding = DOUBLE * size + f64::MIN_POSITIVE;
            assert!(error <= bound + rounding, "{got:e} for {want:e}: {error:e} > {bound:e}");
        }
    }
}

proptest! {
    #![proptest_config(config(250))]

    #[test]
    fn the_error_of_the_table_is_within_its_bound(
        sample in sample(SCALES),
        layout in layout(),
        n_outputs in n_outputs(),
        n_bins in prop::sample::select(&[2_usize, 3, 5, 100, 65_535][..]),
        interpolation in interpolation(),
    ) {
        let x = sample.matrix::<f64>();
        let n_bins = if x.ncols() > 3 { n_bins.min(1000) } else { n_bins };
        let alpha = right_hand_side::<f64>(sample.n_rows, n_outputs, sample.seed);
        look_up(&x, &alpha, (n_bins, interpolation), layout, sample.seed).assert_certified();
    }

    #[test]
    fn the_error_of_the_compact_table_is_within_its_bound(
        sample in sample(SCALES),
        layout in layout(),
        n_outputs in n_outputs(),
        n_bins in prop::sample::select(&[64_usize, 100, 1000][..]),
    ) {
        let x = sample.matrix::<f64>();
        let alpha = right_hand_side::<f64>(sample.n_rows, n_outputs, sample.seed);
        let columns = sort(&Stored::new(&x, Layout::Rows, 0));
        let table = LookupTable::compact(exec(), &columns, alpha.view(), n_bins, None).unwrap();
        let new = rows_to_score(&x, 60, sample.seed);
        let got = table.evaluate(exec(), &Stored::new(&new, layout, sample.seed).view()).unwrap();
        let k = kernel(&new, &x);
        let (want, size) = (times(&k, &alpha), times(&k, &alpha.mapv(f64::abs)));
        Scores { table, got, want, size }.assert_certified();
    }

    #[test]
    fn columns_of_different_scales_share_a_table(
        sample in sample(&[1.0]),
        exponents in prop::collection::vec(-140..140_i32, 70),
        n_bins in prop::sample::select(&[2_usize, 100][..]),
        interpolation in interpolation(),
    ) {
        let mut x = sample.matrix::<f64>();
        for (mut column, exponent) in x.columns_mut().into_iter().zip(exponents) {
            column.mapv_inplace(|v| v * 10.0_f64.powi(exponent));
        }
        let alpha = right_hand_side::<f64>(sample.n_rows, 3, sample.seed);
        look_up(&x, &alpha, (n_bins, interpolation), Layout::Rows, sample.seed).assert_certified();
    }

    #[test]
    fn a_linear_table_is_exact_with_a_cell_for_every_value(
        sample in sample(SCALES),
        layout in layout(),
        n_outputs in n_outputs(),
    ) {
        let x = sample.matrix::<f64>();
        let alpha = right_hand_side::<f64>(sample.n_rows, n_outputs, sample.seed);
        let n_bins =
            x.columns().into_iter().map(|c| distinct(c).len()).max().unwrap_or(0);
        let scores =
            look_up(&x, &alpha, (n_bins.max(2), Interpolation::Linear), layout, sample.seed);
        scores.assert_certified();
        let maxima: f64 =
            x.columns().into_iter().map(|c| c.iter().copied().fold(0.0, f64::max)).sum();
        for (alpha, bound) in alpha.columns().into_iter().zip(scores.table.error_bound()) {
            let largest = maxima * alpha.iter().map(|a| a.abs()).sum::<f64>();
            prop_assert!(*bound <= 2e-5 * largest, "{bound:e} {largest:e}");
        }
    }

    #[test]
    fn the_bound_is_no_worse_than_that_of_rounding(
        sample in sample(SCALES),
        n_bins in prop::sample::select(&[2_usize, 3, 5, 20, 100][..]),
    ) {
        let x = sample.matrix::<f64>();
        let alpha = right_hand_side::<f64>(sample.n_rows, 3, sample.seed);
        let (mut linear_width, mut nearest_width, mut maxima) = (0.0, 0.0, 0.0);
        for column in x.columns() {
            let knots = knots(column, n_bins);
            let mut previous = 0.0;
            let mut widest = 0.0_f64;
            for &knot in &knots {
                widest = widest.max(knot - previous);
                previous = knot;
            }
            linear_width += widest;
            nearest_width += previous / (n_bins - 1) as f64;
            maxima += previous;
        }
        for (interpolation, width) in
            // The nearest prototype is at most half a step away.
            [(Interpolation::Linear, linear_width), (Interpolation::Nearest, 0.5 * nearest_width)]
        {
            let scores = look_up(&x, &alpha, (n_bins, interpolation), Layout::Rows, sample.seed);
            for (alpha, bound) in alpha.columns().into_iter().zip(scores.table.error_bound()) {
                let norm: f64 = alpha.iter().map(|a| a.abs()).sum();
                let lipschitz = norm * (width * (1.0 + 1e-9) + 2e-5 * maxima);
                prop_assert!(*bound <= lipschitz, "{interpolation:?} {bound:e} {lipschitz:e}");
            }
        }
    }

    #[test]
    fn the_table_takes_single_precision(
        sample in sample(SINGLE_SCALES),
        interpolation in interpolation(),
    ) {
        let x = sample.matrix::<f32>();
        let alpha = right_hand_side::<f32>(sample.n_rows, 2, sample.seed);
        let columns = sort(&Stored::new(&x, Layout::Rows, 0));
        let table = LookupTable::new(exec(), &columns, alpha.view(), 10, interpolation).unwrap();
        let new = Stored::new(&x, Layout::Scattered, sample.seed);
        let got = table.evaluate(exec(), &new.view()).unwrap();
        let k = kernel(&to_f64(&x), &to_f64(&x));
        let (want, alpha) = (times(&k, &to_f64(&alpha)), to_f64(&alpha));
        let size = times(&k, &alpha.mapv(f64::abs));
        Scores { table, got, want, size }.assert_certified();
    }
}

/// Rows and weights of rough functions, whose tables are of bytes, and weights of features.
fn rough(n_columns: usize, n_outputs: usize, seed: u64) -> (Array2<f64>, Array2<f64>, Vec<f64>) {
    let n_rows = 400;
    let power = |d: usize| 1.0 + 0.5 * (d % 3) as f64;
    let x = Array2::from_shape_fn((n_rows, n_columns), |(i, d)| {
        10.0_f64.powi(d as i32 % 3) * ((i + 1) as f64 / n_rows as f64).powf(power(d))
    });
    // Slopes are independent from one value to the next.
    let slopes = right_hand_side::<f64>(n_rows + 1, n_outputs, seed);
    let alpha = &slopes.slice(s![1.., ..]) - &slopes.slice(s![..n_rows, ..]);
    let weights = (0..n_columns).map(|d| [1.0, 0.25, 3.0, 1e-3, 0.0][d % 5]).collect();
    (x, alpha, weights)
}

#[test]
fn tables_of_bytes_are_within_their_bound_however_rows_are_stored() {
    for (n_columns, n_outputs) in [(1, 1), (5, 3), (130, 10), (300, 9)] {
        let (x, alpha, weights) = rough(n_columns, n_outputs, 3);
        for weights in [None, Some(&weights[..])] {
            let weight = |d: usize| weights.map_or(1.0, |w: &[f64]| w[d]);
            let scaled = Array2::from_shape_fn(x.dim(), |(i, d)| weight(d) * x[[i, d]]);
            let columns = sort(&Stored::new(&scaled, Layout::Rows, 0));
            let table = LookupTable::compact(exec(), &columns, alpha.view(), 64, weights).unwrap();
            assert!(table.is_compact(), "{n_columns} columns, {weights:?}");
            let mut new = rows_to_score(&x, 150, 5);
            new.row_mut(0).fill(0.0);
            new.row_mut(1).fill(1e300);
            new.row_mut(2).fill(1e-300);
            let new_scaled = Array2::from_shape_fn(new.dim(), |(i, d)| weight(d) * new[[i, d]]);
            let want = times(&kernel(&new_scaled, &scaled), &alpha);
            let mut all = Vec::new();
            for layout in [Layout::Rows, Layout::Columns, Layout::Csr, Layout::Gaps] {
                let got = table.evaluate(exec(), &Stored::new(&new, layout, 1).view()).unwrap();
                all.push(got);
            }
            for (i, row) in new.rows().into_iter().enumerate() {
                let row = row.to_owned().insert_axis(Axis(0));
                let got =
                    table.evaluate(exec(), &Stored::new(&row, Layout::Rows, 1).view()).unwrap();
                assert_eq!(got.row(0), all[0].row(i));
            }
            assert!(all.windows(2).all(|w| w[0] == w[1]));
            assert!(all[0].row(0).iter().all(|&score| score == 0.0));
            for ((at, got), want) in all[0].indexed_iter().zip(&want) {
                let (error, bound) = ((got - want).abs(), table.error_bound()[at.1]);
                assert!(error <= bound * (1.0 + 1e-9), "{at:?}: {error:e} > {bound:e}");
            }
            let wide = LookupTable::new(exec(), &columns, alpha.view(), 64, Interpolation::Linear)
                .unwrap();
            let bounds = table.error_bound().iter().zip(wide.error_bound());
            assert!(bounds.into_iter().all(|(bytes, wide)| *bytes <= 2.0 * wide));
        }
    }
}

/// Whole numbers below 17 times weights, and targets that are sums of smooth functions of them: the
/// wider table has a cell for every number.
fn levels(n_columns: usize) -> (Array2<f64>, Array2<f64>, Vec<f64>) {
    let n_rows = 200;
    let x = Array2::from_shape_fn((n_rows, n_columns), |(i, d)| {
        ((i * (2 * d + 7) + i * i * (d % 5 + 1) + 3 * d) % 17) as f64
    });
    let alpha = right_hand_side::<f64>(n_rows, 10, 4);
    let weights = (0..n_columns).map(|d| [1.0, 0.3, 0.07][d % 3]).collect();
    (x, alpha, weights)
}

#[test]
fn two_bytes_replace_a_table_that_is_exact() {
    let (x, alpha, weights) = levels(70);
    let scaled = Array2::from_shape_fn(x.dim(), |(i, d)| weights[d] * x[[i, d]]);
    let want = times(&kernel(&scaled, &scaled), &alpha);
    let columns = sort(&Stored::new(&scaled, Layout::Rows, 0));
    let table = LookupTable::compact(exec(), &columns, alpha.view(), 100, Some(&weights)).unwrap();
    assert!(table.is_compact());
    let all: Vec<_> = [Layout::Rows, Layout::Columns, Layout::Csr, Layout::Gaps]
        .into_iter()
        .map(|layout| table.evaluate(exec(), &Stored::new(&x, layout, 1).view()).unwrap())
        .collect();
    assert!(all.windows(2).all(|w| w[0] == w[1]));
    let bytes = x.mapv(|v| v as u8);
    assert_eq!(table.evaluate_bytes(exec(), bytes.view()).unwrap(), all[0]);
    for (output, want) in want.columns().into_iter().enumerate() {
        let spread = want.std(0.0);
        for (got, want) in all[0].column(output).iter().zip(want) {
            let error = (got - want).abs();
            assert!(error <= table.error_bound()[output]);
            // One byte is off by several times as much.
            assert!(error <= 2e-3 * spread, "{error:e} {spread:e}");
        }
    }
    // Who asks for more cells gets what they are good for.
    let table = LookupTable::compact(exec(), &columns, alpha.view(), 200, Some(&weights)).unwrap();
    assert!(!table.is_compact());
}

#[test]
fn scaled_whole_numbers_lie_at_the_edges_of_cells() {
    let (x, alpha, _) = levels(40);
    for scale in [1.0 / 16.0, 0.1, 1.0 / 255.0, 1e20] {
        let scaled = x.mapv(|v| v * scale);
        let columns = sort(&Stored::new(&scaled, Layout::Rows, 0));
        let table = LookupTable::compact(exec(), &columns, alpha.view(), 100, None).unwrap();
        assert!(table.is_compact(), "{scale}");
        let got = table.evaluate(exec(), &Stored::new(&scaled, Layout::Rows, 0).view()).unwrap();
        let want = times(&kernel(&scaled, &scaled), &alpha);
        for (got, want) in got.columns().into_iter().zip(want.columns()) {
            let spread = want.std(0.0);
            assert!(got.iter().zip(want).all(|(g, w)| (g - w).abs() <= 2e-3 * spread), "{scale}");
        }
    }
}

#[test]
fn bounds_of_tables_hold_where_single_precision_ends() {
    let alpha = right_hand_side::<f64>(200, 3, 4);
    // One byte is enough for the first, two are for levels, up to where codes have no scale.
    let smooth =
        Array2::from_shape_fn((200, 3), |(i, d)| (((i * 37 + d * 11) % 200) as f64 + 0.37) / 200.0);
    for x in [smooth, levels(3).0.mapv(|v| v / 17.0)] {
        for (scale, compact) in [
            (1e-60, Some(false)),
            (1e-44, Some(false)),
            (1e-38, None),
            (1e-30, Some(true)),
            (1e30, Some(true)),
            (3.3e38, None),
            (4e38, Some(false)),
            (1e39, Some(false)),
            (1e60, Some(false)),
        ] {
            let scaled = x.mapv(|v| v * scale);
            let want = times(&kernel(&scaled, &scaled), &alpha);
            let columns = sort(&Stored::new(&scaled, Layout::Rows, 0));
            let table = LookupTable::compact(exec(), &columns, alpha.view(), 100, None).unwrap();
            if let Some(compact) = compact {
                assert_eq!(table.is_compact(), compact, "{scale:e}");
            }
            for layout in [Layout::Rows, Layout::Csr] {
                let got = table.evaluate(exec(), &Stored::new(&scaled, layout, 1).view()).unwrap();
                for (output, bound) in table.error_bound().iter().enumerate() {
                    for (got, want) in got.column(output).iter().zip(want.column(output)) {
                        let error = (got - want).abs();
                        assert!(error <= *bound, "{scale:e}: {error:e} {bound:e}");
                    }
                }
            }
        }
    }
}

#[test]
fn rows_of_bytes_have_the_scores_of_the_same_numbers() {
    for top in [1.0, 100.0, 127.0, 128.0, 255.0, 300.0] {
        let (x, alpha, _) = rough(70, 3, 1);
        let x = Array2::from_shape_fn(x.dim(), |(i, d)| {
            (x[[i, d]] / 10.0_f64.powi(d as i32 % 3) * top).round()
        });
        let columns = sort(&Stored::new(&x, Layout::Rows, 0));
        let bytes = Array2::from_shape_fn((200, 70), |(i, d)| ((i * 31 + d * 17) % 256) as u8);
        let numbers = bytes.mapv(f32::from);
        for n_bins in [63, 64, 65535] {
            let table = LookupTable::compact(exec(), &columns, alpha.view(), n_bins, None).unwrap();
            let got = table.evaluate_bytes(exec(), bytes.view()).unwrap();
            let view = Stored::new(&numbers, Layout::Rows, 0);
            assert_eq!(got, table.evaluate(exec(), &view.view()).unwrap(), "{top} {n_bins}");
            let one = bytes.slice(s![..1, ..]);
            assert_eq!(table.evaluate_bytes(exec(), one).unwrap(), got.slice(s![..1, ..]));
        }
        if [1.0, 127.0, 255.0].contains(&top) {
            let table = LookupTable::compact(exec(), &columns, alpha.view(), 64, None).unwrap();
            assert!(table.is_compact(), "{top}");
        }
    }
}

#[test]
fn tables_of_bytes_refuse_what_is_no_histogram() {
    let (x, alpha, weights) = rough(20, 2, 1);
    let columns = sort(&Stored::new(&x, Layout::Rows, 0));
    let table = LookupTable::compact(exec(), &columns, alpha.view(), 64, None).unwrap();
    assert!(table.is_compact());
    for (bad, message) in [(-0.5, "X[70, 3] = -0.5"), (f64::NAN, "X[70, 3] = NaN")] {
        let mut new = rows_to_score(&x, 100, 5);
        new[[70, 3]] = bad;
        for layout in [Layout::Rows, Layout::Columns] {
            let error = table.evaluate(exec(), &Stored::new(&new, layout, 1).view()).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
            let single = new.mapv(|v| v as f32);
            let error =
                table.evaluate(exec(), &Stored::new(&single, layout, 1).view()).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }
    let short = LookupTable::compact(exec(), &columns, alpha.view(), 64, Some(&weights[1..]));
    assert!(short.unwrap_err().to_string().contains("one weight for each feature"));
    assert!(table.evaluate_bytes(exec(), Array2::zeros((3, 19)).view()).is_err());
}

#[test]
fn a_score_far_below_the_scale_of_the_table_is_certified() {
    // The large column has no weight, so that nothing else covers the error of the small one.
    let x = ndarray::array![[0.0, 1e150], [1e-160, 0.0], [2e-160, 0.0]];
    for small in [1e-40, 1e-160, 1e-300] {
        let x = ndarray::array![[0.0, x[[0, 1]]], [small, 0.0], [2.0 * small, 0.0]];
        let alpha = ndarray::array![[0.0], [1.0], [1.0]];
        for interpolation in [Interpolation::Linear, Interpolation::Nearest] {
            look_up(&x, &alpha, (2, interpolation), Layout::Rows, 0).assert_certified();
        }
    }
}

#[test]
fn the_smallest_numbers_have_cells() {
    for n in [1, 2, 3, 7, 150] {
        let x = Array2::from_shape_fn((n, 1), |(i, _)| f64::from_bits(i as u64 + 1));
        let alpha = Array2::from_elem((n, 1), 1.0);
        for n_bins in [2, 3, 5, 100] {
            for interpolation in [Interpolation::Linear, Interpolation::Nearest] {
                let scores = look_up(&x, &alpha, (n_bins, interpolation), Layout::Rows, 0);
                scores.assert_certified();
            }
        }
    }
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

// ---- projection on knots -----------------------------------------------------------------------

/// The knots of a column: the values at which a hat function is 1.
///
/// Which of the values they are is the crate's to choose; all of them when there are few.
fn knots(column: ArrayView1<'_, f64>, n_knots: usize) -> Vec<f64> {
    let x = column.insert_axis(Axis(1)).to_owned();
    let columns = sort(&Stored::new(&x, Layout::Rows, 0));
    let projection = KnotProjection::new(exec(), &columns, n_knots).unwrap();
    let eye = Array2::eye(projection.n_features());
    let phi = projection.expand(exec(), eye.view()).unwrap();
    // Values just below a knot may round to it.
    let at_one = |hat: ArrayView1<'_, f64>| {
        hat.iter().zip(&column).filter(|e| *e.0 == 1.0).map(|e| *e.1).fold(0.0, f64::max)
    };
    let knots: Vec<f64> = phi.columns().into_iter().map(at_one).collect();
    let values = distinct(column);
    assert!(knots.len() <= n_knots);
    assert!(knots.windows(2).all(|w| w[0] < w[1]));
    assert_eq!(knots.last(), values.last());
    assert!(values.len() > n_knots || knots == values);
    knots
}

/// The hat functions at every row, and the kernel of the knots.
fn hats(x: &Array2<f64>, n_knots: usize) -> (Array2<f64>, Array2<f64>) {
    let knots: Vec<Vec<f64>> = x.columns().into_iter().map(|c| knots(c, n_knots)).collect();
    let n_features = knots.iter().map(Vec::len).sum();
    let mut phi = Array2::zeros((x.nrows(), n_features));
    let mut k = Array2::zeros((n_features, n_features));
    let mut start = 0;
    for (d, z) in knots.iter().enumerate() {
        for a in 0..z.len() {
            for b in 0..z.len() {
                k[[start + a, start + b]] = z[a].min(z[b]);
            }
            let below = if a == 0 { 0.0 } else { z[a - 1] };
            for i in 0..x.nrows() {
                let v = x[[i, d]];
                if v > below && v <= z[a] {
                    phi[[i, start + a]] = (v - below) / (z[a] - below);
                } else if a + 1 < z.len() && v > z[a] && v < z[a + 1] {
                    phi[[i, start + a]] = (z[a + 1] - v) / (z[a + 1] - z[a]);
                }
            }
        }
        start += z.len();
    }
    (phi, k)
}

fn tridiagonal((diagonal, upper): &(Vec<f64>, Vec<f64>)) -> Array2<f64> {
    let n = diagonal.len();
    let mut a = Array2::zeros((n, n));
    for k in 0..n {
        a[[k, k]] = diagonal[k];
        if k + 1 < n {
            a[[k, k + 1]] = upper[k];
            a[[k + 1, k]] = upper[k];
        }
    }
    a
}

fn n_knots() -> impl Strategy<Value = usize> {
    prop::sample::select(&[1_usize, 2, 3, 8, 50, 255][..])
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn the_projection_is_that_on_hat_functions(
        sample in sample(SCALES),
        layout in layout(),
        n_knots in n_knots(),
        n_outputs in n_outputs(),
    ) {
        // Weights are kept in single precision.
        let tolerance = 1e-6;
        let x = sample.matrix::<f64>();
        let columns = sort(&Stored::new(&x, layout, sample.seed));
        let projection = KnotProjection::new(exec(), &columns, n_knots).unwrap();
        let (phi, _) = hats(&x, n_knots);
        prop_assert_eq!((projection.n_rows(), projection.n_features()), phi.dim());

        let v = right_hand_side::<f64>(phi.nrows(), n_outputs, sample.seed);
        let size = Array2::from_shape_fn((phi.ncols(), n_outputs), |(_, k)| {
            v.column(k).iter().map(|v| v.abs()).sum()
        });
        let got = projection.project(exec(), v.view()).unwrap();
        assert_close(&got, &times(&phi.t().to_owned(), &v), &size, tolerance);

        let w = right_hand_side::<f64>(phi.ncols(), n_outputs, sample.seed);
        let size = Array2::from_elem((phi.nrows(), n_outputs), x.ncols() as f64);
        let got = projection.expand(exec(), w.view()).unwrap();
        assert_close(&got, &times(&phi, &w), &size, tolerance);

        let got = projection.gram(exec()).unwrap();
        let want = times(&phi.t().to_owned(), &phi);
        let size = Array2::from_elem(want.dim(), phi.nrows() as f64);
        assert_close(&got, &want, &size, tolerance);
        prop_assert!(got == got.t());

        let weights: Vec<f64> = (0..phi.nrows()).map(|row| (row % 4) as f64).collect();
        let weighted = Array2::from_shape_fn(phi.dim(), |(i, k)| weights[i] * phi[[i, k]]);
        let got = projection.weighted_gram(exec(), &weights).unwrap();
        let want = times(&phi.t().to_owned(), &weighted);
        let size = Array2::from_elem(want.dim(), 3.0 * phi.nrows() as f64);
        assert_close(&got, &want, &size, tolerance);
        prop_assert!(projection.weighted_gram(exec(), &[&weights[..], &[1.0]].concat()).is_err());
    }

    #[test]
    fn project_is_the_transpose_of_expand_and_gram_their_product(
        sample in sample(SCALES),
        n_knots in prop::sample::select(&[1_usize, 3, 8][..]),
    ) {
        let x = sample.matrix::<f64>();
        let columns = sort(&Stored::new(&x, Layout::Rows, 0));
        let projection = KnotProjection::new(exec(), &columns, n_knots).unwrap();
        let phi = projection.expand(exec(), Array2::eye(projection.n_features()).view()).unwrap();
        let transposed = projection.project(exec(), Array2::eye(sample.n_rows).view()).unwrap();
        let ones = |a: &Array2<f64>| Array2::from_elem(a.dim(), 1.0);
        assert_close(&phi, &transposed.t().to_owned(), &ones(&phi), 1e-15);
        let gram = projection.gram(exec()).unwrap();
        let want = times(&transposed, &phi);
        let size = Array2::from_elem(want.dim(), sample.n_rows as f64);
        assert_close(&gram, &want, &size, DOUBLE);
    }

    #[test]
    fn inverse_kernel_inverts_the_kernel_of_the_knots(
        // A gap of 1e-309 has no finite inverse.
        sample in sample(&[1e-250, 1e-30, 1.0, 1e30, 1e150]),
        n_knots in n_knots(),
    ) {
        let kinds = sample.kinds.iter().copied();
        // Knots that agree in nearly all digits have no accurate inverse.
        let kinds = kinds.filter(|k| !matches!(k, Kind::Close)).collect();
        let sample = Sample { n_rows: sample.n_rows.min(40), kinds, ..sample };
        let x = sample.matrix::<f64>();
        let columns = sort(&Stored::new(&x, Layout::Rows, 0));
        let projection = KnotProjection::new(exec(), &columns, n_knots).unwrap();
        let (_, k) = hats(&x, n_knots);
        let inverse = tridiagonal(&projection.inverse_kernel().unwrap());
        let got = times(&k, &inverse);
        let size = times(&k, &inverse.mapv(f64::abs)).mapv(|v| v + 1.0);
        assert_close(&got, &Array2::eye(k.nrows()), &size, DOUBLE);
    }

    #[test]
    fn the_projected_kernel_is_below_the_kernel(
        sample in sample(SCALES),
        n_knots in prop::sample::select(&[1_usize, 2, 3, 8, 50][..]),
    ) {
        let sample = Sample { n_rows: sample.n_rows.min(33), ..sample };
        let x = sample.matrix::<f64>();
        let columns = sort(&Stored::new(&x, Layout::Rows, 0));
        let projection = KnotProjection::new(exec(), &columns, n_knots).unwrap();
        let phi = projection.expand(exec(), Array2::eye(projection.n_features()).view()).unwrap();
        let (_, knots) = hats(&x, n_knots);
        let projected = times(&times(&phi, &knots), &phi.t().to_owned());
        let k = kernel(&x, &x);
        let trace = k.diag().sum();
        if trace > 0.0 {
            let rest = eigenvalues(&((k - projected) / trace));
            let smallest = rest.into_iter().fold(f64::INFINITY, f64::min);
            prop_assert!(smallest >= -1e-6, "{smallest:e}");
        }
    }
}

/// Blocks of rows, with stored entries everywhere and in a few rows.
#[test]
fn the_projection_of_many_rows() {
    let kinds = vec![Kind::Distinct, Kind::Holes(0.8), Kind::Zeros, Kind::RareTies];
    let sample = Sample { n_rows: 9001, kinds, scale: 1.0, duplicates: false, seed: 11 };
    let x = sample.matrix::<f64>();
    let columns = sort(&Stored::new(&x, Layout::Rows, 0));
    let projection = KnotProjection::new(exec(), &columns, 9).unwrap();
    let (phi, _) = hats(&x, 9);
    let w = right_hand_side::<f64>(phi.ncols(), 5, 1);
    let got = projection.expand(exec(), w.view()).unwrap();
    assert_close(&got, &times(&phi, &w), &Array2::from_elem(got.dim(), 4.0), 1e-6);
    let v = right_hand_side::<f64>(phi.nrows(), 5, 2);
    let got = projection.project(exec(), v.view()).unwrap();
    let size = Array2::from_elem(got.dim(), 9001.0);
    assert_close(&got, &times(&phi.t().to_owned(), &v), &size, 1e-6);
}
