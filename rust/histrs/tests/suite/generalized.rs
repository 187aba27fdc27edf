//! Generalised kernels, their rows and their quadratic forms against their definitions.

use crate::common::*;
use histrs::intersection::{
    ShapeFunctions, SortedColumns, Transform, TransformedRows, transform_rows,
};
use ndarray::{Array2, Axis};
use proptest::prelude::*;

fn transform() -> impl Strategy<Value = Transform> {
    prop_oneof![
        Just(Transform::Identity),
        (0.1..4.0).prop_map(|exponent| Transform::Power { exponent }),
        (1e-9..4.0).prop_map(|exponent| Transform::Exponential { exponent }),
    ]
}

/// Eqs. 15 and 16 as they are printed, with weights.
fn definition(x: &Array2<f64>, transform: &Transform, weights: &[f64]) -> Array2<f64> {
    Array2::from_shape_fn(x.dim(), |(i, d)| {
        let x = x[[i, d]];
        weights[d]
            * match *transform {
                Transform::Power { exponent } => x.powf(exponent),
                Transform::Exponential { exponent } if exponent > 1e-4 => {
                    ((exponent * x).exp() - 1.0) / (exponent.exp() - 1.0)
                }
                // The printed form cancels; to first order it is this.
                Transform::Exponential { exponent } => {
                    x * (1.0 + 0.5 * exponent * x) / (1.0 + 0.5 * exponent)
                }
                _ => x,
            }
    })
}

fn random_weights(n: usize, seed: u64) -> Vec<f64> {
    let mut random = Random(seed);
    (0..n).map(|_| 0.1 + random.unit()).collect()
}

const MODERATE: &[f64] = &[1e-3, 1.0, 1.0, 3.0];

/// Thirteen decades are too many to exponentiate.
fn tame(mut sample: Sample) -> Sample {
    for kind in &mut sample.kinds {
        if matches!(kind, Kind::HeavyTail) {
            *kind = Kind::Distinct;
        }
    }
    sample
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn transformed_columns_and_rows_are_those_of_the_definition(
        sample in sample(MODERATE), layout in layout(), transform in transform(),
    ) {
        let sample = tame(sample);
        let x = sample.matrix::<f64>();
        let weights = random_weights(x.ncols(), sample.seed);
        let stored = Stored::new(&x, layout, sample.seed);
        let want = definition(&x, &transform, &weights);

        let rows = transform_rows(exec(), &stored.view(), &transform, Some(&weights)).unwrap();
        let rows = match rows {
            TransformedRows::Dense(rows) => rows,
            TransformedRows::Csr(data, indices, indptr) => {
                let mut rows = Array2::zeros(x.dim());
                for (i, range) in indptr.windows(2).enumerate() {
                    for k in range[0] as usize..range[1] as usize {
                        rows[[i, indices[k] as usize]] += data[k];
                    }
                }
                rows
            }
        };
        assert_close(&rows, &want, &want, 1e-7);

        let columns = SortedColumns::new(exec(), &stored.view()).unwrap();
        let columns = columns.transformed(exec(), &transform, Some(&weights)).unwrap();
        let v = right_hand_side::<f64>(x.nrows(), 3, sample.seed);
        let k = kernel(&rows, &rows);
        let size = times(&k, &v.mapv(f64::abs));
        assert_close(&columns.product(exec(), v.view()).unwrap(), &times(&k, &v), &size, 1e-12);
        let functions = ShapeFunctions::new(exec(), &columns, v.view()).unwrap();
        let weights = Some(&weights[..]);
        let got = functions.predict_transformed(exec(), &stored.view(), &transform, weights);
        assert_close(&got.unwrap(), &times(&k, &v), &size, 1e-12);
        let sums = Array2::from_shape_vec((x.nrows(), 1), columns.row_sums(exec()).unwrap());
        let want = rows.sum_axis(Axis(1)).insert_axis(Axis(1));
        assert_close(&sums.unwrap(), &want, &want, 1e-12);
    }

    #[test]
    fn quadratic_forms_are_those_of_each_column(
        sample in sample(SCALES), layout in layout(), n_outputs in n_outputs(),
    ) {
        let x = sample.matrix::<f64>();
        let v = right_hand_side::<f64>(x.nrows(), n_outputs, sample.seed);
        let columns = SortedColumns::new(exec(), &Stored::new(&x, layout, 1).view()).unwrap();
        let forms = columns.quadratic_forms(exec(), v.view()).unwrap();
        let mut want = Array2::zeros((x.ncols(), n_outputs));
        let mut size = want.clone();
        for d in 0..x.ncols() {
            let column = x.column(d).to_owned().insert_axis(Axis(1));
            let k = kernel(&column, &column);
            let of = |v: &Array2<f64>| (v * &times(&k, v)).sum_axis(Axis(0));
            want.row_mut(d).assign(&of(&v));
            size.row_mut(d).assign(&of(&v.mapv(f64::abs)));
        }
        assert_close(&forms, &want, &size, 1e-12);
        for exec in executors() {
            prop_assert_eq!(&columns.quadratic_forms(exec, v.view()).unwrap(), &forms);
        }
    }

    #[test]
    fn slopes_are_differences(x in 0.01..3.0_f64, y in 0.01..3.0_f64, exponent in 0.05..5.0_f64) {
        for make in [
            |exponent| Transform::Power { exponent },
            |exponent| Transform::Exponential { exponent },
        ] {
            let kernel = |t: &Transform| t.apply(x).min(t.apply(y));
            let (slope, offset) = make(exponent).exponent_slope(0.01).unwrap();
            let step = 1e-5;
            let (high, low) = (kernel(&make(exponent + step)), kernel(&make(exponent - step)));
            let difference = (high - low) / (2.0 * step);
            let want = kernel(&slope) + offset * kernel(&make(exponent));
            prop_assert!((want - difference).abs() <= 1e-5 * (1.0 + high), "{want} {difference}");
        }
    }
}
