//! Columns coded as levels, against sums over the matrix of indicators.

use histrs::levels::{LevelCodes, level_codes};
use histrs::{Error, Executor, Value};
use ndarray::{Array1, Array2, array, s};
use proptest::prelude::*;

fn indicators(codes: &Array2<u16>, n_levels: &[usize]) -> Array2<f64> {
    let mut h = Array2::zeros((codes.ncols(), n_levels.iter().sum()));
    let mut start = 0;
    for (column, n) in codes.rows().into_iter().zip(n_levels) {
        for (row, &code) in column.iter().enumerate() {
            h[[row, start + usize::from(code)]] = 1.0;
        }
        start += n;
    }
    h
}

/// Some functions of the levels of each column, more than levels or fewer, and all at the rows.
fn functions(h: &Array2<f64>, n_levels: &[usize]) -> (Vec<Array2<f64>>, Array2<f64>) {
    let number = |i: usize| f64::from(u8::try_from(i * i % 13).unwrap_or(0)) - 5.0;
    let of_column = |(d, &n): (usize, &usize)| {
        Array2::from_shape_fn((n, (3 * d + 2) % 7), |(i, j)| number(i + 5 * j + d))
    };
    let functions: Vec<_> = n_levels.iter().enumerate().map(of_column).collect();
    let n: usize = functions.iter().map(|f| f.ncols()).sum();
    let constant = f64::from(u8::from(!functions.is_empty()));
    let mut phi = Array2::from_elem((h.nrows(), n + 1), constant);
    let (mut row, mut column) = (0, 0);
    for f in &functions {
        let (levels, columns) = (row..row + f.nrows(), column..column + f.ncols());
        (row, column) = (levels.end, columns.end);
        phi.slice_mut(s![.., columns]).assign(&h.slice(s![.., levels]).dot(f));
    }
    (functions, phi)
}

prop_compose! {
    fn coded()(n_levels in prop::collection::vec(1_u16..9, 0..5), n_rows in 0_usize..40)
        (codes in n_levels.iter().map(|&n| prop::collection::vec(0..n, n_rows)).collect::<Vec<_>>(),
         n_levels in Just(n_levels), n_rows in Just(n_rows)) -> (Array2<u16>, Vec<usize>) {
        let codes = Array2::from_shape_fn((n_levels.len(), n_rows), |(d, i)| codes[d][i]);
        (codes, n_levels.into_iter().map(usize::from).collect())
    }
}

fn close(found: &Array2<f64>, expected: &Array2<f64>) {
    assert_eq!(found.dim(), expected.dim());
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9));
}

proptest! {
    #[test]
    fn codes_count_the_cuts_below(
        rows in prop::collection::vec((-99_i16..99, -99_i16..99), 0..40),
        // Of one, two and three steps of a search, and the sizes between.
        mut cuts in prop_oneof![0..20_usize, 250..261_usize, 4090..4100_usize]
            .prop_flat_map(|n| prop::collection::vec(-99_i16..99, n)),
        as_floats in any::<bool>(),
    ) {
        cuts.sort_unstable();
        let cuts: Array1<f64> = cuts.iter().map(|&cut| f64::from(cut)).collect();
        let exec = Executor::new(2).unwrap();
        let x = Array2::from_shape_fn((rows.len(), 2), |(i, d)| [rows[i].0, rows[i].1][d]);
        let columns = [(1, cuts.view()), (0, cuts.slice(s![..;2])), (1, cuts.slice(s![..0]))];
        let codes = if as_floats {
            level_codes(&exec, x.mapv(f32::from).view(), &columns).unwrap()
        } else {
            // Of any strides.
            level_codes(&exec, x.t().mapv(f64::from).t(), &columns).unwrap()
        };
        for (k, (d, cuts)) in columns.iter().enumerate() {
            for (i, row) in x.rows().into_iter().enumerate() {
                let below = cuts.iter().filter(|&&cut| cut < f64::from(row[*d])).count();
                prop_assert_eq!(usize::from(codes[[k, i]]), below);
            }
        }
    }

    #[test]
    fn sums_are_those_of_indicators((codes, n_levels) in coded(), seed in 1_u32..100) {
        let h = indicators(&codes, &n_levels);
        let (n, total) = h.dim();
        let number = |i: usize| f64::from((seed * 31 + u32::try_from(i).unwrap() * 17) % 23) - 11.0;
        let weights = Array1::from_shape_fn(n, number).mapv(f64::abs);
        let (v, tables) = (
            Array2::from_shape_fn((n, 2), |(i, j)| number(i + 3 * j)),
            Array2::from_shape_fn((total, 3), |(i, j)| number(i + 5 * j)),
        );
        let q = Array2::from_shape_fn((total, total), |(i, j)| number(i * j) + number(i + j));
        for n_threads in [1, 3] {
            let exec = Executor::new(n_threads).unwrap();
            let levels = LevelCodes::new(codes.view(), &n_levels).unwrap();
            let (functions, phi) = functions(&h, &n_levels);
            let views: Vec<_> = functions.iter().map(|f| f.view()).collect();
            let counts = levels.counts(&exec, None).unwrap();
            close(&counts.normal_matrix(&exec, &views).unwrap(), &phi.t().dot(&phi));
            let counts = levels.counts(&exec, Some(weights.view())).unwrap();
            let weighted = &phi.t() * &weights;
            close(&counts.normal_matrix(&exec, &views).unwrap(), &weighted.dot(&phi));
            close(&levels.sums(&exec, v.view()).unwrap(), &h.t().dot(&v));
            close(&levels.scores(&exec, tables.view()).unwrap(), &h.dot(&tables));
            let forms = levels.forms(&exec, q.view()).unwrap();
            let expected = h.dot(&q).dot(&h.t()).diag().to_owned();
            prop_assert!(forms.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-9));
        }
    }
}

#[test]
fn sums_have_the_same_bits_for_any_threads() {
    let codes = Array2::from_shape_fn((7, 9000), |(d, i)| {
        u16::try_from((i * i + 13 * d * i) % (d + 2)).unwrap()
    });
    let n_levels: Vec<usize> = (2..9).collect();
    let weights = Array1::from_shape_fn(9000, |i| 1.0 / f64::from(u32::try_from(i).unwrap() + 1));
    let of = |n_threads| {
        let exec = Executor::new(n_threads).unwrap();
        let levels = LevelCodes::new(codes.view(), &n_levels).unwrap();
        let identities: Vec<_> = n_levels.iter().map(|&n| Array2::<f64>::eye(n)).collect();
        let views: Vec<_> = identities.iter().map(|f| f.view()).collect();
        let counts = levels.counts(&exec, Some(weights.view())).unwrap();
        let q = counts.normal_matrix(&exec, &views).unwrap();
        let q = q.slice(s![..-1, ..-1]).to_owned();
        let forms = levels.forms(&exec, q.view()).unwrap();
        (q, forms)
    };
    assert_eq!(of(1), of(2));
}

#[test]
fn what_does_not_fit_is_refused() {
    let (codes, square) = (array![[0_u16, 3]], array![[0_u16, 3], [1, 2]]);
    let refused = LevelCodes::new(codes.view(), &[3]).unwrap_err();
    assert!(matches!(refused, Error::Parameter { name: "codes", value: Value::Whole(3), .. }));
    assert!(matches!(LevelCodes::new(codes.view(), &[3, 4]).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(LevelCodes::new(square.t(), &[4, 4]).unwrap_err(), Error::NotInRows { .. }));
    let (exec, levels) = (Executor::new(1).unwrap(), LevelCodes::new(codes.view(), &[4]).unwrap());
    let zeros = Array2::<f64>::zeros((3, 3));
    assert!(matches!(levels.forms(&exec, zeros.view()).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(levels.sums(&exec, zeros.view()).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(levels.scores(&exec, zeros.view()).unwrap_err(), Error::Shape { .. }));
    let weights = Array1::<f64>::zeros(3);
    let refused = levels.counts(&exec, Some(weights.view())).unwrap_err();
    assert!(matches!(refused, Error::Shape { .. }));
    let counts = levels.counts(&exec, None).unwrap();
    for functions in [vec![], vec![zeros.view()]] {
        let refused = counts.normal_matrix(&exec, &functions).unwrap_err();
        assert!(matches!(refused, Error::Shape { .. }));
    }
}
