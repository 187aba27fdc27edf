//! Online updates, and steps of single weights.

use crate::common::*;
use histrs::Error;
use histrs::intersection::{CoordinateDescent, KnotProjection, SortedColumns};
use ndarray::{Array1, Array2, Axis, concatenate};
use proptest::prelude::*;

fn sort(x: &Array2<f64>, layout: Layout) -> SortedColumns {
    SortedColumns::new(exec(), &Stored::new(x, layout, 0).view()).unwrap()
}

/// Which of the rows go: none, a few, most or all.
fn some_rows(n_rows: usize, part: f64, seed: u64) -> (Vec<i64>, Vec<usize>) {
    let mut random = Random(seed);
    let (gone, kept): (Vec<usize>, Vec<usize>) =
        (0..n_rows).partition(|_| random.unit() < part || part == 1.0);
    (gone.into_iter().map(|row| row as i64).collect(), kept)
}

fn part() -> impl Strategy<Value = f64> {
    prop::sample::select(&[0.0, 0.05, 0.5, 0.95, 1.0][..])
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn rows_that_come_or_go_leave_what_sorting_would(
        sample in sample(SCALES),
        layouts in (layout(), layout()),
        part in part(),
    ) {
        let x = sample.matrix::<f64>();
        let (gone, kept) = some_rows(x.nrows(), part, sample.seed);
        let old = x.select(Axis(0), &kept);
        let all = sort(&x, layouts.0);
        prop_assert_eq!(&all.remove(exec(), &gone).unwrap(), &sort(&old, layouts.1));

        let gone: Vec<usize> = gone.iter().map(|&row| row as usize).collect();
        let new = x.select(Axis(0), &gone);
        for executor in executors() {
            let grown = sort(&old, layouts.0);
            let grown = grown.insert(executor, &Stored::new(&new, layouts.1, 1).view()).unwrap();
            let both = concatenate![Axis(0), old, new];
            prop_assert_eq!(&grown, &sort(&both, layouts.0));
        }
    }

    #[test]
    fn a_projection_follows_its_rows(
        sample in sample(SCALES),
        n_knots in prop::sample::select(&[1_usize, 3, 50][..]),
        part in part(),
    ) {
        let x = sample.matrix::<f64>();
        let (gone, kept) = some_rows(x.nrows(), part, sample.seed);
        let whole = KnotProjection::new(exec(), &sort(&x, Layout::Rows), n_knots).unwrap();
        let eye = Array2::eye(whole.n_features());
        let phi = whole.expand(exec(), eye.view()).unwrap();

        let kept_rows: Vec<i64> = kept.iter().map(|&row| row as i64).collect();
        let left = whole.select(exec(), &kept_rows).unwrap();
        let want = phi.select(Axis(0), &kept);
        prop_assert_eq!(left.expand(exec(), eye.view()).unwrap(), want.clone());

        let gone: Vec<usize> = gone.iter().map(|&row| row as usize).collect();
        let rows = sort(&x.select(Axis(0), &gone), Layout::Rows);
        let both = left.concatenate(exec(), &whole.of_rows(exec(), &rows).unwrap()).unwrap();
        let want = concatenate![Axis(0), want, phi.select(Axis(0), &gone)];
        let ones = Array2::from_elem(want.dim(), 1.0);
        assert_close(&both.expand(exec(), eye.view()).unwrap(), &want, &ones, 1e-15);
        let size = Array2::from_elem((phi.ncols(), phi.ncols()), 1.0 + x.nrows() as f64);
        let gram = times(&want.t().to_owned(), &want);
        assert_close(&both.gram(exec()).unwrap(), &gram, &size, 1e-13);
    }

    #[test]
    fn a_step_makes_the_residual_of_its_row_vanish(
        sample in sample(&[1e-3, 1.0, 1e3]),
        n_outputs in n_outputs(),
        layout in layout(),
    ) {
        // Thirteen decades make a matrix of that condition.
        let kinds = sample.kinds.iter().copied().filter(|k| !matches!(k, Kind::HeavyTail));
        let kinds = kinds.collect();
        let sample = Sample { n_rows: sample.n_rows.min(33), kinds, ..sample };
        let x = sample.matrix::<f64>();
        let n = x.nrows();
        let s: Vec<f64> = (0..n).map(|i| 0.1 * sample.scale * (1.0 + i as f64)).collect();
        let descent = CoordinateDescent::new(exec(), &sort(&x, layout)).unwrap();
        let a = kernel(&x, &x) + Array2::from_diag(&Array1::from_vec(s.clone()));
        let y = right_hand_side::<f64>(n, n_outputs, sample.seed);
        let mut want = right_hand_side::<f64>(n, n_outputs, sample.seed + 1);
        let start = want.clone();
        let mut random = Random(sample.seed);
        let order: Vec<i64> = (0..2 * n).map(|_| random.below(n) as i64).collect();
        for &row in &order {
            let row = row as usize;
            for k in 0..n_outputs {
                let residual = y[[row, k]] - a.row(row).dot(&want.column(k));
                want[[row, k]] += residual / a[[row, row]];
            }
        }
        for executor in executors() {
            let got = descent.descend(executor, start.view(), y.view(), &s, &order).unwrap();
            let most = |m: &Array2<f64>| m.iter().fold(0.0, |m: f64, w| m.max(w.abs()));
            let largest = most(&want) + most(&start) + most(&y) / (0.1 * sample.scale);
            let size = Array2::from_elem(want.dim(), largest * (1.0 + n as f64));
            assert_close(&got, &want, &size, 1e-9);
        }
    }
}

#[test]
fn values_above_the_knots_count_as_the_last() {
    let columns = sort(&Array2::from_shape_fn((4, 1), |(i, _)| 1.0 + i as f64), Layout::Rows);
    let projection = KnotProjection::new(exec(), &columns, 2).unwrap();
    let rows = sort(&Array2::from_elem((1, 1), 100.0), Layout::Rows);
    let beyond = projection.of_rows(exec(), &rows).unwrap();
    let phi = beyond.expand(exec(), Array2::eye(2).view()).unwrap();
    assert_eq!(phi, Array2::from_shape_vec((1, 2), vec![0.0, 1.0]).unwrap());
}

#[test]
fn rows_that_are_not_there_are_refused() {
    let columns = sort(&Array2::from_elem((3, 2), 1.0), Layout::Rows);
    let projection = KnotProjection::new(exec(), &columns, 2).unwrap();
    let descent = CoordinateDescent::new(exec(), &columns).unwrap();
    let (v, w) = (Array2::zeros((3, 1)), Array2::zeros((3, 2)));
    for row in [-1, 3] {
        let parameter = |error: Error| matches!(error, Error::Parameter { .. });
        assert!(parameter(columns.remove(exec(), &[row]).unwrap_err()));
        assert!(parameter(projection.select(exec(), &[row]).unwrap_err()));
        let order = &[row];
        assert!(parameter(
            descent.descend(exec(), v.view(), v.view(), &[1.0; 3], order).unwrap_err()
        ));
    }
    let narrow = sort(&Array2::from_elem((3, 1), 1.0), Layout::Rows);
    let shape = |error: Error| matches!(error, Error::Shape { .. });
    assert!(shape(projection.of_rows(exec(), &narrow).unwrap_err()));
    let other = KnotProjection::new(exec(), &narrow, 2).unwrap();
    assert!(shape(projection.concatenate(exec(), &other).unwrap_err()));
    let x = Array2::from_elem((1, 1), 1.0);
    let x = Stored::new(&x, Layout::Rows, 0);
    assert!(shape(columns.insert(exec(), &x.view()).unwrap_err()));
    assert!(shape(descent.descend(exec(), v.view(), w.view(), &[1.0; 3], &[]).unwrap_err()));
    assert!(shape(descent.descend(exec(), v.view(), v.view(), &[1.0; 2], &[]).unwrap_err()));
    assert!(descent.descend(exec(), v.view(), v.view(), &[1.0, 0.0, 1.0], &[]).is_err());
    let negative = Array2::from_elem((1, 2), -1.0);
    let negative = Stored::new(&negative, Layout::Rows, 0);
    assert!(matches!(
        columns.insert(exec(), &negative.view()).unwrap_err(),
        Error::Negative { .. }
    ));
}
