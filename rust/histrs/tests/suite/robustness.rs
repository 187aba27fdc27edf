//! Bad input, wild input, and threads.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::*;
use histrs::intersection::{
    Interpolation, KnotProjection, LookupTable, LowRankInverse, ShapeFunctions, SortedColumns,
};
use histrs::moments::LassoProblem;
use histrs::neighborhood::Labels;
use histrs::quantization::{Codebooks, Metric};
use histrs::spd::compression_loss;
use histrs::svm::{SgdParameters, epoch};
use histrs::{CsrView, Element, Error, Executor, HistogramMatrix};
use ndarray::{Array2, Array3, ArrayView2, array, s};
use proptest::prelude::*;

/// Everything that the crate computes from these, one after the other.
fn everything<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    new: &HistogramMatrix<'a, T>,
    v: &Array2<f64>,
    n_bins: usize,
) -> histrs::Result<Vec<f64>> {
    let mut all = x.row_sums(exec)?;
    let columns = SortedColumns::new(exec, x)?;
    all.extend(columns.maxima()?);
    all.extend(columns.product(exec, v.view())?);
    all.extend(columns.product_f32(exec, v.view())?);
    all.extend(columns.product(exec, v.mapv(f32::from_f64).view())?.mapv(f64::from));
    let functions = ShapeFunctions::new(exec, &columns, v.view())?;
    for d in 0..functions.n_columns() {
        let (knots, values) = functions.column(d).unwrap();
        all.extend(knots);
        all.extend(values);
        let (intercepts, slopes) = functions.intercepts_and_slopes(d).unwrap();
        all.extend(intercepts);
        all.extend(slopes);
    }
    all.extend(functions.predict(exec, new)?);
    all.extend(columns.cross_product(exec, new, v.view())?);
    for interpolation in [Interpolation::Linear, Interpolation::Nearest] {
        let table = LookupTable::new(exec, &columns, v.view(), n_bins, interpolation)?;
        all.extend(table.error_bound());
        all.extend(table.predict(exec, new)?);
    }
    all.extend(gram(exec, x, None)?.mapv(T::to_f64));
    all.extend(gram(exec, x, Some(new))?.mapv(T::to_f64));
    let projection = KnotProjection::new(exec, &columns, n_bins.min(255))?;
    let (diagonal, upper) = projection.inverse_kernel().unwrap();
    all.extend(diagonal);
    all.extend(upper);
    all.extend(projection.gram(exec)?);
    let projected = projection.project(exec, v.view())?;
    all.extend(projection.expand(exec, projected.view())?);
    all.extend(LowRankInverse::new(exec, v.t(), None, 0.5)?.apply(exec, v.view())?);
    let single = v.mapv(f32::from_f64);
    all.extend(LowRankInverse::new(exec, single.t(), None, 0.5)?.apply_f32(exec, v.view())?);
    all.extend(projected);
    Ok(all)
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

fn check_threads<T: Element>(sample: &Sample, layout: Layout, n_outputs: usize) {
    let x = sample.matrix::<T>();
    let stored = Stored::new(&x, layout, sample.seed);
    let new = rows_to_score(&to_f64(&x), 50, sample.seed).mapv(T::from_f64);
    let new = Stored::new(&new, layout, sample.seed);
    let v = right_hand_side::<f64>(sample.n_rows, n_outputs, sample.seed);
    let [one, two, seven] = executors()
        .each_ref()
        .map(|exec| bits(&everything(exec, &stored.view(), &new.view(), &v, 20).unwrap()));
    assert!(one == two && one == seven);
}

proptest! {
    #![proptest_config(config(60))]

    #[test]
    fn the_number_of_threads_changes_no_bit(
        sample in sample(SCALES),
        layout in layout(),
        n_outputs in n_outputs(),
    ) {
        check_threads::<f64>(&sample, layout, n_outputs);
    }

    #[test]
    fn the_number_of_threads_changes_no_bit_in_single_precision(
        sample in sample(SINGLE_SCALES),
        layout in layout(),
        n_outputs in n_outputs(),
    ) {
        check_threads::<f32>(&sample, layout, n_outputs);
    }
}

#[test]
fn the_number_of_threads_changes_no_bit_of_many_rows() {
    let mut kinds = vec![Kind::Distinct, Kind::Ties(5), Kind::HeavyTail, Kind::RareTies];
    kinds.extend([Kind::Ties(11); 9]);
    let sample = Sample { n_rows: 5000, kinds, scale: 1.0, duplicates: true, seed: 2 };
    let x = sample.matrix::<f64>();
    let new = Stored::new(&rows_to_score(&x, 700, 3), Layout::Rows, 0);
    let stored = Stored::new(&x, Layout::Scattered, 0);
    let v = right_hand_side::<f64>(sample.n_rows, 9, 4);
    let results = executors().each_ref().map(|exec| {
        let columns = SortedColumns::new(exec, &stored.view()).unwrap();
        let mut all = columns.product(exec, v.view()).unwrap().into_raw_vec_and_offset().0;
        all.extend(columns.product_f32(exec, v.view()).unwrap());
        all.extend(columns.cross_product(exec, &new.view(), v.view()).unwrap());
        let projection = KnotProjection::new(exec, &columns, 30).unwrap();
        all.extend(projection.gram(exec).unwrap());
        let w = projection.project(exec, v.view()).unwrap();
        all.extend(projection.expand(exec, w.view()).unwrap());
        let table = LookupTable::new(exec, &columns, v.view(), 50, Interpolation::Linear).unwrap();
        all.extend(table.predict(exec, &new.view()).unwrap());
        bits(&all)
    });
    assert!(results[0] == results[1] && results[0] == results[2]);
}

// ---- wild input --------------------------------------------------------------------------------

fn wild() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => prop::sample::select(&[0.0, -0.0, 1.0, 0.5, 3.0][..]),
        2 => prop::sample::select(vec![
            f64::MAX,
            f64::MAX / 3.0,
            f64::MIN_POSITIVE,
            f64::from_bits(1),
            f64::from_bits(12345),
            1e-310,
            f64::from(f32::MAX),
            f64::from(f32::MIN_POSITIVE),
            1e-45,
        ]),
        1 => any::<f64>(),
    ]
}

fn bad() -> impl Strategy<Value = f64> {
    prop_oneof![
        prop::sample::select(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -5e-324][..]),
        any::<f64>(),
    ]
}

fn matrix(values: impl Strategy<Value = f64> + 'static) -> impl Strategy<Value = Array2<f64>> {
    let values = values.boxed();
    (0_usize..7, 0_usize..6).prop_flat_map(move |(n, d)| {
        prop::collection::vec(values.clone(), n * d)
            .prop_map(move |values| Array2::from_shape_vec((n, d), values).unwrap())
    })
}

/// Fails by a panic alone.
fn try_everything(x: &Array2<f64>, new: &Array2<f64>, v: &Array2<f64>, n_bins: usize) {
    for layout in [Layout::Rows, Layout::Scattered] {
        let (a, b) = (Stored::new(x, layout, 1), Stored::new(new, layout, 2));
        let _ = everything(exec(), &a.view(), &b.view(), v, n_bins);
        let (x, new) = (x.mapv(f32::from_f64), new.mapv(f32::from_f64));
        let (a, b) = (Stored::new(&x, layout, 1), Stored::new(&new, layout, 2));
        let _ = everything(exec(), &a.view(), &b.view(), v, n_bins);
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn extreme_values_give_a_result_or_an_error(
        x in matrix(wild().prop_map(f64::abs)),
        new in matrix(wild().prop_map(f64::abs)),
        v in matrix(prop_oneof![wild(), bad()]),
        n_bins in 0_usize..6,
        fit in any::<bool>(),
    ) {
        let (mut new, mut v) = (new, v);
        if fit {
            new = x.clone();
            v = Array2::from_shape_fn((x.nrows(), v.ncols()), |(i, k)| {
                if v.is_empty() { 1.0 } else { v[[i % v.nrows(), k]] }
            });
        }
        try_everything(&x, &new, &v, n_bins);
    }

    #[test]
    fn any_values_give_a_result_or_an_error(
        x in matrix(prop_oneof![9 => wild().prop_map(f64::abs).boxed(), 1 => bad().boxed()]),
        n_bins in 0_usize..6,
    ) {
        try_everything(&x, &x, &x, n_bins);
    }

    #[test]
    fn any_parts_of_a_csr_matrix_give_a_result_or_an_error(
        data in prop::collection::vec(prop_oneof![9 => wild().boxed(), 1 => bad().boxed()], 0..9),
        indices in prop::collection::vec(
            prop_oneof![9 => (0..5_i32).boxed(), 1 => any::<i32>().boxed()], 0..9),
        indptr in prop::collection::vec(
            prop_oneof![9 => (0..9_i64).boxed(), 1 => any::<i64>().boxed()], 0..6),
        repair in any::<bool>(),
        n_columns in prop_oneof![9 => (0..7_usize).boxed(), 1 => Just(usize::MAX).boxed()],
    ) {
        let (mut indices, mut indptr) = (indices, indptr);
        if repair {
            indices.resize(data.len(), 1);
            indptr.iter_mut().for_each(|p| *p = (*p).clamp(0, data.len() as i64));
            indptr.push(0);
            indptr.push(data.len() as i64);
            indptr.sort_unstable();
        }
        let Ok(view) = CsrView::new(&data, &indices, &indptr, n_columns) else { return Ok(()) };
        prop_assert!(n_columns < usize::MAX);
        let v = Array2::from_elem((view.n_rows(), 3), 1.0);
        let view = HistogramMatrix::csr(view);
        prop_assert_eq!((view.n_rows(), view.n_columns()), (v.nrows(), n_columns));
        let _ = everything(exec(), &view, &view, &v, 2);
    }
}

// ---- errors ------------------------------------------------------------------------------------

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn the_first_bad_entry_is_named(
        sample in sample(&[1.0]),
        layout in layout(),
        places in prop::collection::vec((any::<u64>(), any::<u64>()), 1..4),
        bad in prop::sample::select(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.5][..]),
    ) {
        let good = sample.matrix::<f64>();
        let (n, d) = good.dim();
        if n == 0 || d == 0 {
            return Ok(());
        }
        let mut x = good.clone();
        for (row, column) in places {
            x[[row as usize % n, column as usize % d]] = bad;
        }
        let stored = Stored::new(&x, layout, sample.seed);
        let good = Stored::new(&good, layout, sample.seed);
        let is_bad = |error: Error, argument: &str| {
            let (name, row, column, value) = match error {
                Error::Negative { name, row, column, value } if bad == -0.5 => {
                    (name, row, column, value)
                }
                Error::NotFinite { name, row, column, value } if bad != -0.5 => {
                    (name, row, column, value)
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(name, argument);
            assert!(x[[row, column]].to_bits() == bad.to_bits());
            // An entry may be scattered in parts.
            assert!(value.to_bits() == bad.to_bits() || layout == Layout::Scattered);
            let is_valid = |x: &f64| *x >= 0.0 && *x < f64::INFINITY;
            assert!(x.rows().into_iter().take(row).all(|r| r.iter().all(is_valid)));
            if layout != Layout::Scattered {
                assert!(x.row(row).iter().take(column).all(is_valid));
            }
        };
        let (exec, v) = (exec(), Array2::from_elem((n, 1), 1.0));
        is_bad(stored.view().check(exec, "the data").unwrap_err(), "the data");
        is_bad(SortedColumns::new(exec, &stored.view()).unwrap_err(), "X");
        is_bad(gram(exec, &stored.view(), None).unwrap_err(), "X");
        is_bad(gram(exec, &good.view(), Some(&stored.view())).unwrap_err(), "Y");
        let columns = SortedColumns::new(exec, &good.view()).unwrap();
        is_bad(columns.cross_product(exec, &stored.view(), v.view()).unwrap_err(), "X");
        let functions = ShapeFunctions::new(exec, &columns, v.view()).unwrap();
        is_bad(functions.predict(exec, &stored.view()).unwrap_err(), "X");
        let table = LookupTable::new(exec, &columns, v.view(), 3, Interpolation::Linear).unwrap();
        is_bad(table.predict(exec, &stored.view()).unwrap_err(), "X");
    }
}

#[test]
fn duplicates_that_add_up_to_infinity_are_not_finite() {
    let data = [1.0, f64::MAX, 2.0, f64::MAX];
    let view = CsrView::new(&data, &[1, 2, 0, 2], &[0, 1, 4], 3).unwrap();
    let error = SortedColumns::new(exec(), &HistogramMatrix::csr(view)).unwrap_err();
    let expected = Error::NotFinite { name: "X", row: 1, column: 2, value: f64::INFINITY };
    assert_eq!(error, expected);
    let data = [1.0, f32::MAX, 2.0, f32::MAX];
    let view = CsrView::new(&data, &[1, 2, 0, 2], &[0, 1, 4], 3).unwrap();
    let error = SortedColumns::new(exec(), &HistogramMatrix::csr(view)).unwrap_err();
    assert!(matches!(error, Error::NotFinite { row: 1, column: 2, .. }), "{error}");
    // Large entries in different columns are none of that.
    let view = CsrView::new(&data, &[1, 2, 0, 1], &[0, 1, 4], 3).unwrap();
    assert!(SortedColumns::new(exec(), &HistogramMatrix::csr(view)).is_ok());
}

#[test]
fn wrong_shapes_say_which_and_what_was_expected() {
    let exec = exec();
    let x = array![[1.0, 2.0], [0.0, 3.0], [4.0, 0.5]];
    let stored = Stored::new(&x, Layout::Rows, 0);
    let wide = Stored::new(&Array2::from_elem((2, 5), 1.0), Layout::Csr, 0);
    let columns = SortedColumns::new(exec, &stored.view()).unwrap();
    let (good, long) = (Array2::from_elem((3, 2), 1.0), Array2::from_elem((4, 2), 1.0));
    let functions = ShapeFunctions::new(exec, &columns, good.view()).unwrap();
    let linear = Interpolation::Linear;
    let table = LookupTable::new(exec, &columns, good.view(), 3, linear).unwrap();
    let projection = KnotProjection::new(exec, &columns, 2).unwrap();
    let check = |error: Error, argument: &str, numbers: (usize, usize)| match error {
        Error::Shape { what, found, expected, .. } => {
            assert!(what.ends_with(argument), "{what}");
            assert_eq!((found, expected), numbers);
            let message = error.to_string();
            assert!(message.contains(&format!("is {found}, expected {expected}")), "{message}");
        }
        other => panic!("{other:?}"),
    };
    check(columns.product(exec, long.view()).unwrap_err(), "rows of V", (4, 3));
    check(columns.product_f32(exec, long.view()).unwrap_err(), "rows of V", (4, 3));
    check(ShapeFunctions::new(exec, &columns, long.view()).unwrap_err(), "rows of V", (4, 3));
    check(
        LookupTable::new(exec, &columns, long.view(), 3, linear).unwrap_err(),
        "rows of V",
        (4, 3),
    );
    let error = columns.cross_product(exec, &stored.view(), long.view()).unwrap_err();
    check(error, "rows of V", (4, 3));
    let error = columns.cross_product(exec, &wide.view(), good.view()).unwrap_err();
    check(error, "columns of X", (5, 2));
    check(functions.predict(exec, &wide.view()).unwrap_err(), "columns of X", (5, 2));
    check(table.predict(exec, &wide.view()).unwrap_err(), "columns of X", (5, 2));
    let error = gram(exec, &stored.view(), Some(&wide.view())).unwrap_err();
    check(error, "columns of Y", (5, 2));
    check(projection.project(exec, long.view()).unwrap_err(), "rows of V", (4, 3));
    let long = Array2::from_elem((7, 2), 1.0);
    check(projection.expand(exec, long.view()).unwrap_err(), "rows of W", (7, 4));
}

#[test]
fn parameters_out_of_range_are_refused() {
    let exec = exec();
    let x = Stored::new(&array![[1.0, 2.0]], Layout::Rows, 0);
    let columns = SortedColumns::new(exec, &x.view()).unwrap();
    let alpha = array![[1.0]];
    let out_of_range = |error: Error| matches!(error, Error::Parameter { .. });
    for n in [0, 65_536, usize::MAX] {
        let table =
            LookupTable::new(exec, &columns, alpha.view(), n, Interpolation::Nearest).unwrap_err();
        assert!(out_of_range(table));
        assert!(out_of_range(KnotProjection::new(exec, &columns, n).unwrap_err()));
    }
    assert!(KnotProjection::new(exec, &columns, 255).is_ok());
}

#[test]
fn an_interrupt_ends_a_long_product() {
    let n = 20_000;
    let sample = Sample {
        n_rows: n,
        kinds: vec![Kind::Distinct; 20],
        scale: 1.0,
        duplicates: false,
        seed: 1,
    };
    let x = Stored::new(&sample.matrix::<f64>(), Layout::Rows, 0);
    let columns = SortedColumns::new(exec(), &x.view()).unwrap();
    let exec = executors()[0].clone();
    let v = Array2::from_elem((n, 10_000), 1.0_f32);
    let asked = AtomicBool::new(false);
    let result = exec.watch(
        || columns.product(&exec, v.view()),
        || {
            asked.store(true, Ordering::Relaxed);
            true
        },
    );
    assert!(asked.load(Ordering::Relaxed));
    assert_eq!(result.unwrap_err(), Error::Interrupted);
    // The executor goes on, and another with the same threads never stopped.
    assert!(columns.product(&exec, array![[1.0]].broadcast((n, 1)).unwrap()).is_ok());
}

#[test]
fn a_column_that_is_not_there_is_an_error() {
    let exec = exec();
    let x = Stored::new(&array![[1.0, 2.0]], Layout::Rows, 0);
    let columns = SortedColumns::new(exec, &x.view()).unwrap();
    let functions = ShapeFunctions::new(exec, &columns, array![[1.0]].view()).unwrap();
    for column in [2, 99] {
        let expected = Error::NoSuchColumn { column, n_columns: 2 };
        assert_eq!(functions.column(column).unwrap_err(), expected);
        assert_eq!(functions.intercepts_and_slopes(column).unwrap_err(), expected);
    }
}

#[test]
fn values_that_mean_nothing_are_refused() {
    let exec = exec();
    for s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = LowRankInverse::new(exec, array![[1.0]].view(), None, s).unwrap_err();
        assert!(matches!(error, Error::Parameter { name: "s", .. }), "{error}");
    }

    let codebooks = array![[[0.5, f64::NAN]]];
    let error = Codebooks::new(Metric::Euclidean, codebooks.view(), &[0, 2]).unwrap_err();
    assert!(matches!(error, Error::Parameter { name: "codebooks", .. }), "{error}");
    let codebooks = array![[[0.5, -1.0]]];
    let error = Codebooks::new(Metric::Hellinger, codebooks.view(), &[0, 2]).unwrap_err();
    assert!(matches!(error, Error::Parameter { name: "codebooks", .. }), "{error}");

    let good = array![[2.0, 0.0], [0.0, 1.0]];
    let problem = |gram: ArrayView2<'_, f64>, cross: ArrayView2<'_, f64>, y: f64| {
        let y = array![y];
        LassoProblem::new(gram, cross, y.view(), &[1, 2], &[1.0, 1.0]).map(drop)
    };
    let (v, bad) = (array![[1.0, 1.0]], array![[2.0, 0.0], [f64::NAN, 1.0]]);
    assert_eq!(problem(good.view(), v.view(), 1.0), Ok(()));
    let error = problem(bad.view(), v.view(), 1.0).unwrap_err().to_string();
    assert!(error.starts_with("G[1, 0] = NaN"), "{error}");
    assert!(problem(good.view(), array![[1.0, f64::INFINITY]].view(), 1.0).is_err());
    assert!(problem(good.view(), v.view(), f64::NAN).is_err());
    let skewed = array![[2.0, 0.5], [0.5, 1.0], [0.0, 0.0]];
    let error = problem(skewed.slice(s![..2, ..]).t(), v.view(), 1.0).unwrap_err();
    assert_eq!(error, Error::NotInRows { name: "G" });
    assert!(error.to_string().contains("C order"), "{error}");
}

#[test]
fn negative_histograms_are_not_learned_from() {
    let x = array![[1.0, 0.5], [0.25, -0.125]];
    let (signs, coef) = (array![[1.0, -1.0]], array![[0.0, 0.0]]);
    let steps = SgdParameters::default().with_alpha(0.1);
    let error = epoch(
        exec(),
        &HistogramMatrix::dense(x.view()),
        signs.view(),
        signs.view(),
        &[0, 1],
        coef.view(),
        steps,
    );
    let expected = Error::Negative { name: "X", row: 1, column: 1, value: -0.125 };
    assert_eq!(error.unwrap_err(), expected);
}

/// Wherever it is: in a whole vector or behind the last one, in a tile of rows or beside it.
#[test]
fn scores_of_entries_that_mean_nothing_are_refused() {
    let coef = Array2::from_elem((6, 83), 0.5);
    for (row, column) in [(0, 0), (5, 40), (6, 70), (2, 82)] {
        for bad in [f64::INFINITY, f64::NAN, -1.0] {
            let mut x = Array2::from_elem((7, 83), 1.0);
            x[[row, column]] = bad;
            let expected = format!("X[{row}, {column}]");
            let mut out = vec![0.0; 42];
            let view = HistogramMatrix::dense(x.view());
            let error = histrs::svm::scores_into(exec(), &view, None, coef.view(), &mut out);
            assert!(error.unwrap_err().to_string().contains(&expected), "{bad}");
            let (x, mut out) = (x.mapv(|x| x as f32), vec![0.0_f32; 42]);
            let view = HistogramMatrix::dense(x.view());
            let error = histrs::svm::scores_into(exec(), &view, None, coef.view(), &mut out);
            assert!(error.unwrap_err().to_string().contains(&expected), "{bad}");
        }
    }
}

#[test]
fn weights_in_any_layout_score_alike() {
    let x = array![[1.0, 0.5, 0.25], [0.0, 2.0, 1.0]];
    let coef = array![[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]];
    let mut scores = [vec![0.0; 4], vec![0.0; 4]];
    let columns_first = coef.t().as_standard_layout().into_owned();
    for (coef, out) in [coef.view(), columns_first.t()].into_iter().zip(&mut scores) {
        let x = HistogramMatrix::dense(x.view());
        histrs::svm::scores_into(exec(), &x, None, coef, out).unwrap();
    }
    assert!(scores[0].iter().any(|score| *score != 0.0));
    assert_eq!(scores[0], scores[1]);
}

#[test]
fn whole_numbers_are_printed_as_they_are() {
    let x = Array3::from_shape_fn((1, 2, 2), |(_, i, j)| f64::from(u8::from(i == j)));
    let label = [9_007_199_254_740_993];
    let labels = Labels::new(&label, &[1]);
    let error = compression_loss(exec(), x.view(), x.view(), labels, 1.0).unwrap_err();
    assert!(error.to_string().contains("9007199254740993"), "{error}");
}

/// A setting that is not known is an error of the first executor of a process.
#[test]
fn an_unknown_instruction_set_is_refused() {
    const CHILD: &str = "HISTRS_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        let setting = std::env::var("HISTRS_SIMD").unwrap();
        match Executor::new(1) {
            Ok(_) => assert!(setting != "fastest"),
            Err(error) => assert_eq!(error, Error::SimdSetting("fastest".into())),
        }
        // Without an executor, too.
        let refused = histrs::instruction_set().is_err();
        assert_eq!(refused, setting == "fastest");
        let file = saved::File::additive().bytes();
        assert_eq!(histrs::model::Model::from_bytes(&file).is_err(), refused);
        if setting == "scalar" {
            assert_eq!(histrs::instruction_set(), Ok("scalar"));
        }
        return;
    }
    for setting in ["fastest", "scalar", "auto", ""] {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["robustness::an_unknown_instruction_set_is_refused", "--exact", "--quiet"])
            .env("HISTRS_SIMD", setting)
            .env(CHILD, "1")
            .status()
            .unwrap();
        assert!(status.success(), "{setting:?}");
    }
}
