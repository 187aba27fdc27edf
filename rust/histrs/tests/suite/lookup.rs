//! Look-up tables against the scores that they stand for, and the bound of their errors.

use crate::common::sorted::*;
use crate::common::*;
use histrs::intersection::{Interpolation, LookupTable};
use ndarray::{Array2, Axis, s};
use proptest::prelude::*;

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
    let got = table.predict(exec(), &Stored::new(&new, layout, seed).view()).unwrap();
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
        let got = table.predict(exec(), &Stored::new(&new, layout, sample.seed).view()).unwrap();
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
        let got = table.predict(exec(), &new.view()).unwrap();
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
                let got = table.predict(exec(), &Stored::new(&new, layout, 1).view()).unwrap();
                all.push(got);
            }
            for (i, row) in new.rows().into_iter().enumerate() {
                let row = row.to_owned().insert_axis(Axis(0));
                let got =
                    table.predict(exec(), &Stored::new(&row, Layout::Rows, 1).view()).unwrap();
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

/// Of a table with empty columns, by the numbers of the others.
#[test]
fn empty_columns_cost_a_number_for_each_of_the_others() {
    let (x, alpha, _) = rough(3, 2, 3);
    let of = |n_columns: usize| {
        let x = Array2::from_shape_fn((x.nrows(), n_columns), |(i, d)| {
            if d % 5 == 0 && d < 15 { x[[i, d / 5]] } else { 0.0 }
        });
        let columns = sort(&Stored::new(&x, Layout::Rows, 0));
        LookupTable::new(exec(), &columns, alpha.view(), 10, Interpolation::Linear)
            .unwrap()
            .n_bytes()
    };
    let columns = sort(&Stored::new(&x, Layout::Rows, 0));
    let narrow =
        LookupTable::new(exec(), &columns, alpha.view(), 10, Interpolation::Linear).unwrap();
    assert_eq!([of(15), of(40)], [narrow.n_bytes() + 3 * 8; 2]);
}

/// Rows of which a thread looks up several blocks at once.
#[test]
fn many_rows_have_the_scores_of_few() {
    for (n_columns, n_outputs) in [(130, 9), (5, 3)] {
        let (x, alpha, _) = rough(n_columns, n_outputs, 3);
        let columns = sort(&Stored::new(&x, Layout::Rows, 0));
        let table = LookupTable::compact(exec(), &columns, alpha.view(), 64, None).unwrap();
        assert!(table.is_compact());
        let few = rows_to_score(&x, 150, 5);
        let want = table.predict(exec(), &Stored::new(&few, Layout::Rows, 1).view()).unwrap();
        let many = Array2::from_shape_fn((4001, n_columns), |(i, d)| few[[i % 150, d]]);
        let want = Array2::from_shape_fn((4001, n_outputs), |(i, output)| want[[i % 150, output]]);
        for layout in [Layout::Rows, Layout::Columns, Layout::Csr, Layout::Gaps] {
            let got = table.predict(exec(), &Stored::new(&many, layout, 1).view()).unwrap();
            assert!(got == want, "{n_columns} {layout:?}");
        }
        // Where few values are stored, one by one.
        let sparse =
            Array2::from_shape_fn(
                many.dim(),
                |(i, d)| {
                    if (i + d) % 40 == 0 { many[[i, d]] } else { 0.0 }
                },
            );
        let [dense, stored] = [Layout::Rows, Layout::Csr]
            .map(|layout| table.predict(exec(), &Stored::new(&sparse, layout, 1).view()).unwrap());
        assert!(dense == stored, "{n_columns}");
    }
}

#[test]
fn memory_grows_by_what_a_column_holds() {
    let (x, alpha, _) = rough(1, 10, 3);
    let of = |n_columns: usize| {
        let x = Array2::from_shape_fn((x.nrows(), n_columns), |(i, _)| x[[i, 0]]);
        let columns = sort(&Stored::new(&x, Layout::Rows, 0));
        let table = LookupTable::compact(exec(), &columns, alpha.view(), 64, None).unwrap();
        assert!(table.is_compact());
        table.n_bytes()
    };
    // Values and rises of 128 cells, of outputs padded to 16; a scale, a shift and the last code. Tables
    // for registers are of four columns.
    let (column, placement) = (128 * 2 * 16 * 2, 12);
    assert_eq!(of(131) - of(130), column + placement);
    assert!(of(131) >= 131 * (column + placement));
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
        .map(|layout| table.predict(exec(), &Stored::new(&x, layout, 1).view()).unwrap())
        .collect();
    assert!(all.windows(2).all(|w| w[0] == w[1]));
    let bytes = x.mapv(|v| v as u8);
    assert_eq!(table.predict_bytes(exec(), bytes.view()).unwrap(), all[0]);
    for (output, want) in want.columns().into_iter().enumerate() {
        let spread = want.std(0.0);
        let errors: Vec<f64> =
            all[0].column(output).iter().zip(want).map(|(got, want)| got - want).collect();
        assert!(errors.iter().all(|error| error.abs() <= table.error_bound()[output]));
        // Of one byte alone it is several times as much.
        let rms = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
        assert!(rms <= 1.2e-3 * spread, "{rms:e} {spread:e}");
    }
    // Who asks for more cells gets what they are good for.
    for (n_bins, compact) in [(128, true), (129, false), (200, false)] {
        let table =
            LookupTable::compact(exec(), &columns, alpha.view(), n_bins, Some(&weights)).unwrap();
        assert_eq!(table.is_compact(), compact, "{n_bins}");
    }
}

/// Functions of two columns that add up to a constant: what is off by a part of its spread is off by
/// nothing.
#[test]
fn an_output_that_does_not_vary_leaves_the_bytes_on() {
    let n = 400;
    let x = Array2::from_shape_fn((n, 2), |(i, d)| {
        let v = i as f64 / (n - 1) as f64;
        if d == 0 { v } else { 1.0 - v }
    });
    let columns = sort(&Stored::new(&x, Layout::Rows, 0));
    let mut alpha = rough(1, 2, 1).1;
    for constant in [0.0, 1.0] {
        alpha.column_mut(1).fill(0.0);
        alpha[[0, 1]] = constant;
        alpha[[n - 1, 1]] = constant;
        let table = LookupTable::compact(exec(), &columns, alpha.view(), 100, None).unwrap();
        assert!(table.is_compact(), "{constant}");
        let got = table.predict(exec(), &Stored::new(&x, Layout::Rows, 0).view()).unwrap();
        let bound = table.error_bound()[1];
        assert!(got.column(1).iter().all(|f| (f - constant).abs() <= bound && bound < 0.1));
    }
}

/// Slopes of 1 and -1 by turns: whoever has fewer cells than values loses most of what there is.
#[test]
fn a_rough_table_is_not_replaced_by_a_rougher_one() {
    let n_rows = 300;
    let x = Array2::from_shape_fn((n_rows, 1), |(i, _)| (i + 1) as f64);
    let alpha = Array2::from_shape_fn((n_rows, 1), |(i, _)| match n_rows - i {
        1 => 1.0,
        left if left % 2 == 0 => -2.0,
        _ => 2.0,
    });
    let stored = Stored::new(&x, Layout::Rows, 0);
    let columns = sort(&stored);
    let want = times(&kernel(&x, &x), &alpha);
    let error = |table: &LookupTable| {
        let got = table.predict(exec(), &stored.view()).unwrap();
        (&got - &want).mapv(|e| e * e).mean().unwrap().sqrt() / want.std(0.0)
    };
    let table =
        |n_bins| LookupTable::compact(exec(), &columns, alpha.view(), n_bins, None).unwrap();
    let (bytes, wide) = (table(200), table(256));
    assert!(bytes.is_compact() && !wide.is_compact());
    // Twice as much would do where it is little.
    let (bytes, wide) = (error(&bytes), error(&wide));
    assert!(0.1 < wide && wide < bytes && bytes < 2.0 * wide, "{wide} {bytes}");
}

#[test]
fn scaled_whole_numbers_lie_at_the_edges_of_cells() {
    let (x, alpha, _) = levels(40);
    for scale in [1.0 / 16.0, 0.1, 1.0 / 255.0, 1e20] {
        let scaled = x.mapv(|v| v * scale);
        let columns = sort(&Stored::new(&scaled, Layout::Rows, 0));
        let table = LookupTable::compact(exec(), &columns, alpha.view(), 100, None).unwrap();
        assert!(table.is_compact(), "{scale}");
        let got = table.predict(exec(), &Stored::new(&scaled, Layout::Rows, 0).view()).unwrap();
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
                let got = table.predict(exec(), &Stored::new(&scaled, layout, 1).view()).unwrap();
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
            let got = table.predict_bytes(exec(), bytes.view()).unwrap();
            let view = Stored::new(&numbers, Layout::Rows, 0);
            assert_eq!(got, table.predict(exec(), &view.view()).unwrap(), "{top} {n_bins}");
            let one = bytes.slice(s![..1, ..]);
            assert_eq!(table.predict_bytes(exec(), one).unwrap(), got.slice(s![..1, ..]));
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
    for (bad, row, message) in [
        (-0.5, 70, "X[70, 3] = -0.5"),
        (f64::NAN, 70, "X[70, 3] = NaN"),
        (-0.5, 10, "X[10, 3] = -0.5"),
        (f64::INFINITY, 10, "X[10, 3] = inf"),
    ] {
        let mut new = rows_to_score(&x, 100, 5);
        new[[row, 3]] = bad;
        for layout in [Layout::Rows, Layout::Columns] {
            let error = table.predict(exec(), &Stored::new(&new, layout, 1).view()).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
            let single = new.mapv(|v| v as f32);
            let error = table.predict(exec(), &Stored::new(&single, layout, 1).view()).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
    }
    // A few rows, which are looked up one by one.
    for bad in [-0.5, f64::NAN] {
        let mut new = rows_to_score(&x, 3, 5);
        new[[1, 3]] = bad;
        assert!(table.predict(exec(), &Stored::new(&new, Layout::Rows, 1).view()).is_err());
    }
    // What single precision has no other number for than 0.
    let mut new = rows_to_score(&x, 100, 5);
    new[[10, 3]] = -1e-60;
    let error = table.predict(exec(), &Stored::new(&new, Layout::Rows, 1).view()).unwrap_err();
    assert!(error.to_string().contains("X[10, 3] = -"), "{error}");
    let short = LookupTable::compact(exec(), &columns, alpha.view(), 64, Some(&weights[1..]));
    assert!(short.unwrap_err().to_string().contains("one weight for each feature"));
    assert!(table.predict_bytes(exec(), Array2::zeros((3, 19)).view()).is_err());
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
fn scores_of_huge_and_tiny_weights_are_certified() {
    let x = ndarray::array![[1.0, 3.0], [2.0, 0.0], [5.0, 4.0]];
    for (of_x, of_alpha) in [(1e150, 1e150), (1e-150, 1e-120), (1e100, 1e-200), (1e-200, 1e100)] {
        let x = &x * of_x;
        let alpha = ndarray::array![[1.0, -2.0], [0.5, 1.0], [-1.0, 0.25]] * of_alpha;
        for n_bins in [2, 64] {
            let scores = look_up(&x, &alpha, (n_bins, Interpolation::Linear), Layout::Rows, 0);
            scores.assert_certified();
            let size = scores.size.iter().copied().fold(0.0, f64::max);
            assert!(scores.table.error_bound().iter().all(|bound| *bound <= size), "{of_x:e}");
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
