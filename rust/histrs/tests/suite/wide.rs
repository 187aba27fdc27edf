//! Columns without entries change nothing, however many there are and wherever they lie.

use crate::common::sorted::sort;
use crate::common::*;
use histrs::intersection::{
    CubicFunctions, KnotProjection, LookupTable, ShapeFunctions, SortedColumns, Transform,
};
use histrs::{CsrView, HistogramMatrix};
use ndarray::{Array2, Axis, s};
use proptest::prelude::*;

/// A matrix, and the same columns as CSR among many empty ones.
#[derive(Debug)]
struct Wide {
    narrow: Array2<f64>,
    /// Where the columns are.
    numbers: Vec<usize>,
    n_columns: usize,
    values: Vec<f64>,
    indices: Vec<i32>,
    indptr: Vec<i64>,
}

impl Wide {
    fn new(narrow: Array2<f64>, gap: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut n_columns = 0;
        let mut place = || {
            n_columns += 1 + random.below(gap);
            n_columns - 1
        };
        let numbers: Vec<usize> = narrow.columns().into_iter().map(|_| place()).collect();
        let n_columns = n_columns + random.below(gap);
        let (mut values, mut indices, mut indptr) = (Vec::new(), Vec::new(), vec![0]);
        for row in narrow.rows() {
            for (&d, &x) in numbers.iter().zip(row).filter(|entry| *entry.1 > 0.0) {
                values.push(x);
                indices.push(d as i32);
            }
            indptr.push(values.len() as i64);
        }
        Self { narrow, numbers, n_columns, values, indices, indptr }
    }

    fn view(&self) -> HistogramMatrix<'_, f64> {
        let (values, indices) = (&self.values, &self.indices);
        HistogramMatrix::csr(CsrView::new(values, indices, &self.indptr, self.n_columns).unwrap())
    }

    fn sorted(&self) -> [SortedColumns; 2] {
        let narrow = sort(&Stored::new(&self.narrow, Layout::Rows, 0));
        [narrow, SortedColumns::new(exec(), &self.view()).unwrap()]
    }

    /// What is said of the columns, for all of them.
    fn spread(&self, of_columns: &[f64], other: f64) -> Vec<f64> {
        let mut all = vec![other; self.n_columns];
        self.numbers.iter().zip(of_columns).for_each(|(&d, &x)| all[d] = x);
        all
    }
}

fn wide() -> impl Strategy<Value = Wide> {
    let gap = prop::sample::select(&[1_usize, 3, 40, 500][..]);
    (sample(&[1.0]), gap, any::<u64>())
        .prop_map(|(sample, gap, seed)| Wide::new(sample.matrix(), gap, seed))
}

proptest! {
    #![proptest_config(config(80))]

    #[test]
    fn products_and_what_is_known_of_columns(x in wide(), n_outputs in 0..5_usize) {
        let [narrow, columns] = x.sorted();
        prop_assert_eq!((columns.n_rows(), columns.n_columns()), (x.narrow.nrows(), x.n_columns));
        prop_assert_eq!(columns.n_stored(), narrow.n_stored());
        prop_assert_eq!(columns.n_bytes(), narrow.n_bytes());
        prop_assert_eq!(columns.n_knots().unwrap(), narrow.n_knots().unwrap());
        prop_assert_eq!(columns.smallest(), narrow.smallest());
        prop_assert_eq!(columns.maxima().unwrap(), x.spread(&narrow.maxima().unwrap(), 0.0));
        let spreads = narrow.spreads(exec()).unwrap();
        prop_assert_eq!(columns.spreads(exec()).unwrap(), x.spread(&spreads, 0.0));
        prop_assert_eq!(columns.row_sums(exec()).unwrap(), narrow.row_sums(exec()).unwrap());
        let v = right_hand_side::<f64>(x.narrow.nrows(), n_outputs, 3);
        let [wanted, found] = [&narrow, &columns].map(|c| c.product(exec(), v.view()).unwrap());
        prop_assert_eq!(found, wanted);
        let forms = narrow.quadratic_forms(exec(), v.view()).unwrap();
        let found = columns.quadratic_forms(exec(), v.view()).unwrap();
        for (k, forms) in forms.columns().into_iter().enumerate() {
            prop_assert_eq!(found.column(k).to_vec(), x.spread(&forms.to_vec(), 0.0));
        }
    }

    #[test]
    fn transformed_columns(x in wide()) {
        let [narrow, columns] = x.sorted();
        let weights: Vec<f64> = (0..x.narrow.ncols()).map(|d| 0.5 + d as f64).collect();
        let squares = Transform::Power { exponent: 2.0 };
        let narrow = narrow.transformed(exec(), &squares, Some(&weights)).unwrap();
        let weights = x.spread(&weights, 7.0);
        let columns = columns.transformed(exec(), &squares, Some(&weights)).unwrap();
        prop_assert_eq!(columns.n_columns(), x.n_columns);
        prop_assert_eq!(columns.row_sums(exec()).unwrap(), narrow.row_sums(exec()).unwrap());
        prop_assert_eq!(columns.maxima().unwrap(), x.spread(&narrow.maxima().unwrap(), 0.0));
    }

    #[test]
    fn functions_of_features(x in wide(), n_outputs in 1..4_usize) {
        let [narrow, columns] = x.sorted();
        let v = right_hand_side::<f64>(x.narrow.nrows(), n_outputs, 5);
        let few = ShapeFunctions::new(exec(), &narrow, v.view()).unwrap();
        let all = ShapeFunctions::new(exec(), &columns, v.view()).unwrap();
        for (k, &d) in x.numbers.iter().enumerate() {
            prop_assert_eq!(all.column(d).unwrap(), few.column(k).unwrap());
        }
        // Any value of a feature that was always zero is worth what zero is.
        if let Some(d) = (0..x.n_columns).find(|d| !x.numbers.contains(d)) {
            let zero = Array2::zeros((1, n_outputs));
            prop_assert_eq!(all.column(d).unwrap(), (&[0.0][..], zero.view()));
            let indices = [d as i32];
            let row = CsrView::new(&[3.0], &indices, &[0, 1], x.n_columns).unwrap();
            let row = HistogramMatrix::csr(row);
            prop_assert_eq!(&all.predict(exec(), &row).unwrap(), &zero);
            prop_assert_eq!(&columns.cross_product(exec(), &row, v.view()).unwrap(), &zero);
        }
        let narrow_rows = HistogramMatrix::dense(x.narrow.view());
        let wanted = few.predict(exec(), &narrow_rows).unwrap();
        prop_assert_eq!(all.predict(exec(), &x.view()).unwrap(), wanted.clone());
        prop_assert_eq!(columns.cross_product(exec(), &x.view(), v.view()).unwrap(), wanted.clone());
        let table = LookupTable::compact(exec(), &columns, v.view(), 128, None).unwrap();
        let found = table.predict(exec(), &x.view()).unwrap();
        for ((i, k), found) in found.indexed_iter() {
            let error = (found - wanted[[i, k]]).abs();
            prop_assert!(error <= table.error_bound()[k], "row {i}, output {k}: {error}");
        }
        let cubic = |columns| CubicFunctions::new(exec(), columns, v.view(), 1.0, Some(20)).unwrap();
        let wanted = cubic(&narrow).predict(exec(), &narrow_rows).unwrap();
        prop_assert_eq!(cubic(&columns).predict(exec(), &x.view()).unwrap(), wanted);
    }

    #[test]
    fn rows_that_come_and_go(x in wide(), at in 0.0..1.0_f64) {
        let [_, all] = x.sorted();
        let n = (at * x.narrow.nrows() as f64) as usize;
        let part = |rows: ndarray::ArrayView2<'_, f64>| {
            // Not `to_owned`: a debug assertion of ndarray refuses the strides of no rows.
            let rows = Array2::from_shape_fn(rows.dim(), |at| rows[at]);
            let mut part = Wide::new(rows, 1, 0);
            for index in &mut part.indices {
                *index = x.numbers[*index as usize] as i32;
            }
            Wide { n_columns: x.n_columns, ..part }
        };
        let (old, new) = x.narrow.view().split_at(Axis(0), n);
        let (old, new) = (part(old), part(new));
        let [_, first] = old.sorted();
        let grown = first.insert(exec(), &new.view()).unwrap();
        prop_assert_eq!(&grown, &all);
        let gone: Vec<i64> = (n as i64..x.narrow.nrows() as i64).collect();
        prop_assert_eq!(grown.remove(exec(), &gone).unwrap(), first);
    }

    #[test]
    fn knots_of_columns(x in wide(), n_knots in 1..12_usize) {
        let [narrow, columns] = x.sorted();
        let [few, all] =
            [&narrow, &columns].map(|c| KnotProjection::new(exec(), c, n_knots).unwrap());
        let w = right_hand_side::<f64>(few.n_features(), 2, 9);
        prop_assert_eq!(few.gram(exec()).unwrap(), all.gram(exec()).unwrap());
        let expanded = few.expand(exec(), w.view()).unwrap();
        prop_assert_eq!(&all.expand(exec(), w.view()).unwrap(), &expanded);
        // Rows with entries in other columns, and none in some.
        let shifted = x.narrow.slice(s![.., ..;-1]).to_owned();
        let others = Wide { numbers: x.numbers.clone(), ..Wide::new(shifted.clone(), 1, 0) };
        let indices: Vec<i32> = others.indices.iter().map(|&d| x.numbers[d as usize] as i32).collect();
        let others = Wide { indices, n_columns: x.n_columns, ..others };
        let of_narrow = few.of_rows(exec(), &sort(&Stored::new(&shifted, Layout::Rows, 0))).unwrap();
        let of_rows =
            all.of_rows(exec(), &SortedColumns::new(exec(), &others.view()).unwrap()).unwrap();
        let expanded_others = of_narrow.expand(exec(), w.view()).unwrap();
        prop_assert_eq!(&of_rows.expand(exec(), w.view()).unwrap(), &expanded_others);
        let both = all.concatenate(exec(), &of_rows).unwrap();
        let wanted = ndarray::concatenate![Axis(0), expanded, expanded_others];
        prop_assert_eq!(both.expand(exec(), w.view()).unwrap(), wanted);
    }
}

#[test]
fn projections_on_other_knots_are_not_joined() {
    let of_column = |d: usize| {
        let x = Array2::from_shape_fn((3, 2), |(i, k)| if k == d { i as f64 } else { 0.0 });
        let x = if d == 2 { Array2::ones((3, 2)) } else { x };
        KnotProjection::new(exec(), &sort(&Stored::new(&x, Layout::Rows, 0)), 2).unwrap()
    };
    let message = of_column(0).concatenate(exec(), &of_column(2)).unwrap_err().to_string();
    assert!(message.contains("columns with knots"), "{message}");
}
