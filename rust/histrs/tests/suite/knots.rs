//! Projections on the knots of columns against hat functions.

use crate::common::sorted::*;
use crate::common::*;
use histrs::intersection::{KnotProjection, Transform};
use ndarray::Array2;
use proptest::prelude::*;

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

/// Weights are kept in single precision.
const TOLERANCE: f64 = 1e-6;

/// Holds the products of a projection to those of the hat functions.
#[track_caller]
fn check_products(
    projection: &KnotProjection,
    (x, phi): (&Array2<f64>, &Array2<f64>),
    n_outputs: usize,
    seed: u64,
) {
    let v = right_hand_side::<f64>(phi.nrows(), n_outputs, seed);
    let size = Array2::from_shape_fn((phi.ncols(), n_outputs), |(_, k)| {
        v.column(k).iter().map(|v| v.abs()).sum()
    });
    let got = projection.project(exec(), v.view()).unwrap();
    assert_close(&got, &times(&phi.t().to_owned(), &v), &size, TOLERANCE);

    let w = right_hand_side::<f64>(phi.ncols(), n_outputs, seed);
    let size = Array2::from_elem((phi.nrows(), n_outputs), x.ncols() as f64);
    let got = projection.expand(exec(), w.view()).unwrap();
    assert_close(&got, &times(phi, &w), &size, TOLERANCE);

    let got = projection.gram(exec()).unwrap();
    let want = times(&phi.t().to_owned(), phi);
    let size = Array2::from_elem(want.dim(), phi.nrows() as f64);
    assert_close(&got, &want, &size, TOLERANCE);
    assert!(got == got.t());
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
        let x = sample.matrix::<f64>();
        let columns = sort(&Stored::new(&x, layout, sample.seed));
        let projection = KnotProjection::new(exec(), &columns, n_knots).unwrap();
        let (phi, _) = hats(&x, n_knots);
        prop_assert_eq!((projection.n_rows(), projection.n_features()), phi.dim());

        check_products(&projection, (&x, &phi), n_outputs, sample.seed);
        let weights: Vec<f64> = (0..phi.nrows()).map(|row| (row % 4) as f64).collect();
        let weighted = Array2::from_shape_fn(phi.dim(), |(i, k)| weights[i] * phi[[i, k]]);
        let got = projection.weighted_gram(exec(), &weights).unwrap();
        let want = times(&phi.t().to_owned(), &weighted);
        let size = Array2::from_elem(want.dim(), 3.0 * phi.nrows() as f64);
        assert_close(&got, &want, &size, TOLERANCE);
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
    let mut x = sample.matrix::<f64>();
    // A block ends before a row that is stored.
    for row in (0..9001).step_by(64) {
        x[[row, 1]] = 0.5 + row as f64 / 18_002.0;
    }
    let columns = sort(&Stored::new(&x, Layout::Rows, 0));
    let projection = KnotProjection::new(exec(), &columns, 9).unwrap();
    let (phi, _) = hats(&x, 9);
    check_products(&projection, (&x, &phi), 5, 1);
}

/// Columns whose values are 0 once they are multiplied by their weights.
#[test]
fn columns_that_vanish_have_no_knots() {
    let kinds = vec![Kind::Distinct, Kind::Distinct, Kind::Holes(0.8)];
    let sample = Sample { n_rows: 50, kinds, scale: 1.0, duplicates: false, seed: 3 };
    let mut x = sample.matrix::<f64>();
    x.column_mut(0).mapv_inplace(|v| 1e-200 * v);
    let columns = sort(&Stored::new(&x, Layout::Rows, 0));
    let same = Transform::Power { exponent: 1.0 };
    let columns = columns.transformed(exec(), &same, Some(&[1e-200, 1.0, 2.0])).unwrap();
    x.column_mut(0).fill(0.0);
    x.column_mut(2).mapv_inplace(|v| 2.0 * v);
    assert_eq!(columns.spreads(exec()).unwrap()[0], 0.0);
    assert_eq!(columns.inverse_spreads(exec()).unwrap()[0], 1.0);
    let projection = KnotProjection::new(exec(), &columns, 5).unwrap();
    let (phi, _) = hats(&x, 5);
    assert_eq!(projection.n_features(), phi.ncols());
    check_products(&projection, (&x, &phi), 3, 1);
}
