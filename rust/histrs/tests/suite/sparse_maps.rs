//! Sparse feature maps against the projections that define them.

use crate::common::*;
use histrs::kernels::AdditiveKernel;
use histrs::sparse_maps::{Selection, SparseAdditiveMap, column_quantiles, sparse_codes};
use histrs::{Error, HistogramMatrix};
use ndarray::{Array2, array};
use proptest::prelude::*;

fn kernel(kind: AdditiveKernel, x: f64, y: f64) -> f64 {
    match kind {
        AdditiveKernel::Intersection => x.min(y),
        AdditiveKernel::Chi2 => 2.0 * x * y / (x + y),
        AdditiveKernel::Hellinger => (x * y).sqrt(),
        AdditiveKernel::JensenShannon => {
            (x * (y / x).ln_1p() + y * (x / y).ln_1p()) / (2.0 * 2.0_f64.ln())
        }
        _ => unreachable!("KERNELS has no other"),
    }
}

const KERNELS: [AdditiveKernel; 4] = AdditiveKernel::ALL;

/// The features as an array.
fn spread(parts: &histrs::CsrParts<f64>) -> Array2<f64> {
    let mut dense = Array2::zeros((parts.indptr.len() - 1, parts.n_columns));
    for (row, ends) in parts.indptr.windows(2).enumerate() {
        for k in ends[0]..ends[1] {
            let k = k as usize;
            dense[[row, parts.indices[k] as usize]] += parts.data[k];
        }
    }
    dense
}

proptest! {
    #![proptest_config(config(60))]

    /// The residual of a projection is orthogonal to what is projected on.
    #[test]
    fn a_value_is_projected_on_the_knots_around_it(
        gaps in prop::collection::vec(0.05..3.0_f64, 1..20),
        values in prop::collection::vec(0.0..40.0_f64, 1..80),
        kind in prop::sample::select(&KERNELS[..]),
    ) {
        let mut sum = 0.0;
        let knots: Vec<f64> = gaps.iter().map(|gap| { sum += gap; sum }).collect();
        let map = SparseAdditiveMap::new(kind, &knots, &[0, knots.len() as i64]).unwrap();
        let x = Array2::from_shape_vec((values.len(), 1), values.clone()).unwrap();
        let features = spread(&map.transform(exec(), &HistogramMatrix::dense(x.view())).unwrap());
        for (row, &x) in features.rows().into_iter().zip(&values) {
            let upper = knots.partition_point(|&z| z < x);
            let around = upper.saturating_sub(1)..knots.len().min(upper + 1);
            for k in 0..knots.len() {
                if !around.contains(&k) || x == 0.0 {
                    prop_assert_eq!(row[k], 0.0);
                } else {
                    let fitted: f64 =
                        around.clone().map(|l| row[l] * kernel(kind, knots[k], knots[l])).sum();
                    let want = kernel(kind, knots[k], x);
                    prop_assert!((fitted - want).abs() <= 1e-12 * knots[k].max(x));
                }
            }
        }
    }

    #[test]
    fn layouts_and_threads_do_not_matter(
        sample in sample(SCALES),
        layout in layout(),
        kind in prop::sample::select(&KERNELS[..]),
    ) {
        let x = sample.matrix::<f64>();
        let (knots, offsets) =
            column_quantiles(exec(), &HistogramMatrix::dense(x.view()), 5).unwrap();
        let map = SparseAdditiveMap::new(kind, &knots, &offsets).unwrap();
        let want = map.transform(exec(), &HistogramMatrix::dense(x.view())).unwrap();
        prop_assert!(want.data.iter().all(|v| v.is_finite()));
        let stored = Stored::new(&x, layout, 1);
        for exec in executors() {
            prop_assert_eq!(&map.transform(exec, &stored.view()).unwrap(), &want);
        }
    }

    #[test]
    fn quantiles_are_values_at_ranks(sample in sample(SCALES), n_levels in 1..12_usize) {
        let x = sample.matrix::<f64>();
        let (knots, offsets) =
            column_quantiles(exec(), &HistogramMatrix::dense(x.view()), n_levels).unwrap();
        for (d, column) in x.columns().into_iter().enumerate() {
            let mut values: Vec<f64> = column.iter().copied().filter(|&v| v > 0.0).collect();
            values.sort_by(f64::total_cmp);
            let n = values.len();
            let mut want: Vec<f64> = (1..=n_levels)
                .filter(|_| n > 0)
                .map(|k| values[(k * n).div_ceil(n_levels) - 1])
                .collect();
            want.dedup();
            prop_assert_eq!(&knots[offsets[d] as usize..offsets[d + 1] as usize], &want[..]);
        }
    }
}

/// On one knot a value is `k(x, z) / z`, with all digits however far it is from it.
#[test]
fn values_far_from_a_knot_keep_their_digits() {
    for kind in KERNELS {
        let map = SparseAdditiveMap::new(kind, &[1.0], &[0, 1]).unwrap();
        let x = Array2::from_shape_vec((5, 1), vec![1e-14, 1e-9, 1.0, 1e9, 1e14]).unwrap();
        let view = HistogramMatrix::dense(x.view());
        let features = spread(&map.transform(exec(), &view).unwrap());
        for (&x, &feature) in x.iter().zip(&features) {
            let (far, near) = (x.max(1.0), x.min(1.0));
            let want = match kind {
                // Of a term that is nearly 0 the logarithms would cancel.
                AdditiveKernel::JensenShannon if far > near => {
                    let q = near / far;
                    let log = q.ln_1p();
                    far * (q * (log - q.ln()) + log) / (2.0 * 2.0_f64.ln())
                }
                _ => kernel(kind, x, 1.0),
            };
            assert!((feature - want).abs() <= 1e-14 * want, "{kind:?} {x} {feature} {want}");
        }
    }
}

#[test]
fn knots_must_ascend_and_offsets_fit() {
    let new = |knots: &[f64], offsets: &[i64]| {
        SparseAdditiveMap::new(AdditiveKernel::Chi2, knots, offsets).map(drop)
    };
    for knots in [[0.0, 1.0], [2.0, 1.0], [1.0, 1.0], [1.0, f64::INFINITY], [f64::NAN, 1.0]] {
        assert!(matches!(new(&knots, &[0, 2]), Err(Error::Parameter { .. })));
    }
    for offsets in [&[][..], &[0, 1], &[1, 2], &[0, 3], &[0, 2, 1, 2], &[0, -1, 2]] {
        assert!(matches!(new(&[1.0, 2.0], offsets), Err(Error::Shape { .. })));
    }
    assert!(new(&[], &[0]).is_ok());
}

#[test]
fn pursuit_finds_the_two_points_that_make_a_third() {
    // Points e1, e2, e1 + e2 and a copy of the first, in the linear kernel.
    let z = array![[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, 0.0]];
    let x = array![[3.0, 2.0], [0.0, 0.0]];
    let (k_zz, k_xz) = (z.dot(&z.t()), x.dot(&z.t()));
    for selection in [Selection::MatchingPursuit, Selection::OrthogonalMatchingPursuit] {
        let codes = spread(&sparse_codes(exec(), k_xz.view(), k_zz.view(), 2, selection).unwrap());
        let error = codes.dot(&z) - &x;
        assert!(error.iter().all(|e| e.abs() < 1e-12), "{codes}");
    }
    // The nearest two of the first are e1 + e2 and e1: the copy comes behind, and is spanned.
    let codes = sparse_codes(exec(), k_xz.view(), k_zz.view(), 3, Selection::Nearest).unwrap();
    assert_eq!(&codes.indices[..2], &[0, 2]);
    assert!(sparse_codes(exec(), k_xz.view(), k_zz.view(), 0, Selection::Nearest).is_err());
    assert!(sparse_codes(exec(), k_zz.view(), z.view(), 1, Selection::Nearest).is_err());
}
