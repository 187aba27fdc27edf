//! Rows as codes of a few bytes, and what is computed from the codes: rows again, linear scores,
//! the sums that a linear model learns from, and neighbours.
//!
//! Run it with `cargo run --release --example product_quantization`.

use histrs::quantization::{
    Codebooks, Metric, code_scores_into, code_sums, decode_into, encode_into, neighbors,
};
use histrs::{Executor, HistogramMatrix};
use ndarray::{Array2, Array3, ArrayView2, Axis, array};

fn main() -> histrs::Result<()> {
    let exec = Executor::new(0)?;
    // Two blocks of two columns, with two codewords each.
    let words = array![[[0.0, 0.0], [1.0, 1.0]], [[0.0, 2.0], [2.0, 0.0]]];
    let offsets = [0, 2, 4];
    let codebooks = Codebooks::new(Metric::Euclidean, words.view(), &offsets)?;
    let x = array![[0.9, 0.8, 0.1, 1.5], [0.1, 0.2, 1.0, 0.3], [1.1, 1.0, 1.9, 0.2]];

    let mut codes = Array2::<u8>::zeros((3, 2));
    let out = codes.as_slice_mut().unwrap_or_default();
    encode_into(&exec, &HistogramMatrix::dense(x.view()), &codebooks, out)?;
    println!("codes:\n{codes}");
    assert_eq!(codes, array![[1, 0], [0, 1], [1, 1]]);

    let mut decoded = Array2::zeros(x.dim());
    let out = decoded.as_slice_mut().unwrap_or_default();
    decode_into(&exec, codes.view(), words.view(), &offsets, out)?;
    println!("the codewords they stand for:\n{decoded}");

    // The scores of a linear model need its product with each codeword only once.
    let weights = array![1.0, -1.0, 0.5, 0.25];
    let tables = products(&words, weights.view().insert_axis(Axis(1)), &offsets);
    let mut scores = [0.0; 3];
    code_scores_into(&exec, codes.view(), tables.view(), &mut scores)?;
    let expected = decoded.dot(&weights);
    println!("linear scores: {scores:?}");
    assert!(scores.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12));

    // A gradient over all rows needs the sum of their weights for each codeword.
    let sums = code_sums(&exec, codes.view(), 2, array![[1.0, 10.0, 100.0]].view())?;
    assert_eq!(sums, array![[[10.0], [101.0]], [[1.0], [110.0]]]);

    // Squared distances to a query are sums of table entries, too.
    let query = [1.0, 1.0, 2.0, 0.0];
    let squares: Array3<f64> = Array3::from_shape_fn((2, 2, 1), |(block, code, _)| {
        (0..2).map(|k| (words[[block, code, k]] - query[2 * block + k]).powi(2)).sum::<f64>()
    });
    let (rows, distances) = neighbors(&exec, codes.view(), squares.view(), array![].view(), 2)?;
    println!("nearest rows {rows} at squared distances {distances}");
    assert_eq!(rows[[0, 0]], 2);
    Ok(())
}

/// The products of the parts of weights with all codewords: blocks, codewords, classes.
fn products(words: &Array3<f64>, weights: ArrayView2<'_, f64>, offsets: &[i64]) -> Array3<f64> {
    let (n_blocks, n_codes, width) = words.dim();
    Array3::from_shape_fn((n_blocks, n_codes, weights.ncols()), |(block, code, class)| {
        (0..width)
            .map(|k| words[[block, code, k]] * weights[[offsets[block] as usize + k, class]])
            .sum()
    })
}
