//! Products with the kernel of cubic splines against its definition.

use crate::common::*;
use histrs::intersection::{CubicFunctions, SortedColumns};
use ndarray::{Array2, array, s};
use proptest::prelude::*;

const DOUBLE: f64 = 1e-12;

/// `K[i, j] = sum_d s^2 (3 t - s) / 6 + slope s t`, `s` the smaller value and `t` the larger.
/// The slope comes last: the least subnormal number times 0.7 is that number.
fn definition(x: &Array2<f64>, y: &Array2<f64>, slope: f64) -> Array2<f64> {
    Array2::from_shape_fn((x.nrows(), y.nrows()), |(i, j)| {
        let pairs = x.row(i).into_iter().zip(y.row(j));
        pairs
            .map(|(&a, &b)| (a.min(b), a.max(b)))
            .map(|(s, t)| s * s * (3.0 * t - s) / 6.0 + slope * (s * t))
            .fold(0.0, |a, b| a + b)
    })
}

fn sort(x: &Stored<f64>) -> SortedColumns {
    SortedColumns::new(exec(), &x.view()).unwrap()
}

proptest! {
    #![proptest_config(config(150))]

    #[test]
    fn product_is_the_kernel_matrix_times_v(
        sample in sample(&[1e-60, 1e-3, 1.0, 1.0, 1e60]),
        layout in layout(),
        v_layout in dense_layout(),
        n_outputs in n_outputs(),
        slope in prop::sample::select(&[0.0, 0.7, 100.0][..]),
    ) {
        let x = sample.matrix::<f64>();
        let v = right_hand_side::<f64>(sample.n_rows, n_outputs, sample.seed);
        let v_stored = Stored::new(&v, v_layout, 0);
        let columns = sort(&Stored::new(&x, layout, sample.seed));
        let k = definition(&x, &x, slope);
        let (want, size) = (times(&k, &v), times(&k, &v.mapv(f64::abs)));
        let product = columns.cubic_product(exec(), v_stored.dense_view(), slope).unwrap();
        assert_close(&product, &want, &size, DOUBLE);
        for other in executors() {
            let same = columns.cubic_product(other, v_stored.dense_view(), slope).unwrap();
            prop_assert_eq!(&same, &product);
        }
    }

    #[test]
    fn functions_are_the_kernel_between_the_rows_times_v(
        sample in sample(&[1e-60, 1e-3, 1.0, 1.0, 1e60]),
        layouts in (layout(), layout()),
        n_outputs in n_outputs(),
        slope in prop::sample::select(&[0.0, 0.7, 100.0][..]),
        n_new in 0_usize..40,
    ) {
        let x = sample.matrix::<f64>();
        let new = rows_to_score(&x, n_new, sample.seed);
        let v = right_hand_side::<f64>(sample.n_rows, n_outputs, sample.seed);
        let columns = sort(&Stored::new(&x, layouts.0, sample.seed));
        let stored = Stored::new(&new, layouts.1, sample.seed);
        let k = definition(&new, &x, slope);
        let (want, size) = (times(&k, &v), times(&k, &v.mapv(f64::abs)));
        // So far below the largest value of the function, parts of a knot's distance underflow.
        let largest = size.iter().fold(0.0, |a: f64, &b| a.max(b));
        let size = size.mapv(|b| b.max(1e-290 * largest));
        let functions = CubicFunctions::new(exec(), &columns, v.view(), slope, None).unwrap();
        let got = functions.predict(exec(), &stored.view()).unwrap();
        assert_close(&got, &want, &size, DOUBLE);
        prop_assert_eq!((functions.n_columns(), functions.n_outputs()), (x.ncols(), n_outputs));
        // As many knots as there are values change nothing.
        let kept = CubicFunctions::new(exec(), &columns, v.view(), slope, Some(x.nrows().max(1))).unwrap();
        prop_assert_eq!(kept.predict(exec(), &stored.view()).unwrap(), got);
    }
}

#[test]
fn few_knots_are_near() {
    let n = 2000;
    let mut random = Random(3);
    let x = Array2::from_shape_fn((n, 2), |_| 3.0 * random.unit());
    let v = Array2::from_shape_fn((n, 3), |_| random.unit() - 0.5);
    let columns = sort(&Stored::new(&x, Layout::Rows, 0));
    let new = Stored::new(&x.slice(s![..500, ..]).to_owned(), Layout::Rows, 0);
    let error = |n_knots| {
        let evaluate = |n| {
            let functions = CubicFunctions::new(exec(), &columns, v.view(), 0.7, n).unwrap();
            functions.predict(exec(), &new.view()).unwrap()
        };
        let (exact, near) = (evaluate(None), evaluate(Some(n_knots)));
        let size = exact.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        (near - exact).iter().fold(0.0, |a: f64, b| a.max(b.abs())) / size
    };
    assert!(error(32) < 1e-3, "{:e}", error(32));
    assert!(error(256) < 1e-6 && error(256) < 0.01 * error(32), "{:e}", error(256));
}

/// Functions of few knots have no jumps, and neither have their slopes; rows do not know others.
#[test]
fn functions_of_few_knots_are_smooth_at_many_rows() {
    let n = 30_000;
    let mut random = Random(4);
    let x = Array2::from_shape_fn((600, 1), |_| 3.0 * random.unit());
    let v = Array2::from_shape_fn((600, 2), |_| random.unit() - 0.3);
    let columns = sort(&Stored::new(&x, Layout::Rows, 0));
    let grid = Array2::from_shape_fn((n, 1), |(i, _)| 3.5 * i as f64 / n as f64);
    let stored = Stored::new(&grid, Layout::Rows, 0);
    // The largest first and second differences.
    let differences = |n_knots| {
        let functions = CubicFunctions::new(exec(), &columns, v.view(), 0.7, n_knots).unwrap();
        let values = functions.predict(exec(), &stored.view()).unwrap();
        for first in (0..n).step_by(1000) {
            let some = grid.slice(s![first..first + 1000, ..]).to_owned();
            let some = Stored::new(&some, Layout::Rows, 0);
            let found = functions.predict(exec(), &some.view()).unwrap();
            assert_eq!(found, values.slice(s![first..first + 1000, ..]));
        }
        let steps = &values.slice(s![1.., ..]) - &values.slice(s![..-1, ..]);
        let turns = &steps.slice(s![1.., ..]) - &steps.slice(s![..-1, ..]);
        [steps, turns].map(|d| d.iter().fold(0.0, |a: f64, b| a.max(b.abs())))
    };
    let whole = differences(None);
    for n_knots in [2, 5, 40] {
        let few = differences(Some(n_knots));
        assert!(few[0] < 1.5 * whole[0] && few[1] < 3.0 * whole[1], "{few:?} {whole:?}");
    }
}

#[test]
fn bad_arguments_are_refused() {
    let columns = sort(&Stored::new(&array![[1.0], [2.0]], Layout::Rows, 0));
    let v = array![[1.0], [1.0], [1.0]];
    assert!(columns.cubic_product(exec(), v.view(), 0.0).is_err());
    assert!(CubicFunctions::new(exec(), &columns, v.view(), 0.0, None).is_err());
    let v = v.slice(s![..2, ..]);
    assert!(CubicFunctions::new(exec(), &columns, v, 0.0, Some(0)).is_err());
    let functions = CubicFunctions::new(exec(), &columns, v, 0.0, None).unwrap();
    for bad in [array![[1.0, 2.0]], array![[-1.0, 0.0]].slice(s![.., ..1]).to_owned()] {
        let bad = Stored::new(&bad, Layout::Rows, 0);
        assert!(functions.predict(exec(), &bad.view()).is_err());
    }
}
