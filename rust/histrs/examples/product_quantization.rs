//! Rows as codes of a few bytes, and what is computed from the codes: neighbours, rows again, linear
//! scores, and the sums that a linear model learns from.
//!
//! Run it with `cargo run --release --example product_quantization`.

use histrs::Executor;
use histrs::quantization::{Quantizer, QuantizerParameters, code_scores, code_sums};
use ndarray::{Array2, Array3, ArrayView1, Axis};

const ROWS: usize = 2000;
const COLUMNS: usize = 8;

fn main() -> histrs::Result<()> {
    let exec = Executor::new(0)?;
    let x = Array2::from_shape_fn((ROWS, COLUMNS), |(i, d)| {
        ((i * i + 1) as f64 * (d + 2) as f64 * 0.618_034).fract()
    });
    let parameters = QuantizerParameters::default().with_n_codes(64);
    let quantizer = Quantizer::fit(&exec, x.view(), 4, parameters)?;
    let codes = quantizer.encode(&exec, x.view())?;
    let decoded = quantizer.decode(&exec, codes.view())?;
    let error = (&decoded - &x).mapv(|d| d * d).mean().unwrap_or(f64::NAN).sqrt();
    println!("{} bytes a row, {error:.3} off in the root mean square", codes.ncols());
    assert!(error < 0.06);

    // Of the nearest rows by their codes, the first is among those that share the query's codes.
    let index = quantizer.index(&exec, x.view())?;
    let (rows, distances) = index.nearest(&exec, x.slice(ndarray::s![..1, ..]), 5)?;
    println!("nearest rows {rows} at squared distances {distances:.3}");
    assert!(rows.iter().any(|&row| row == 0));

    // The scores of a linear model need its product with each codeword only once.
    let weights = ndarray::Array1::from_shape_fn(COLUMNS, |d| 1.0 - 0.3 * d as f64);
    let tables = products(&quantizer, weights.view());
    let scores = code_scores(&exec, codes.view(), tables.view())?;
    let expected = decoded.dot(&weights);
    assert!(scores.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-12));

    // A gradient over all rows needs the sum of their weights for each codeword.
    let sums = code_sums(&exec, codes.view(), 64, Array2::ones((1, ROWS)).view())?;
    assert!(sums.sum_axis(Axis(1)).iter().all(|&sum| sum == ROWS as f64));
    Ok(())
}

/// The products of the parts of a vector with all codewords: blocks, codewords, one class.
fn products(quantizer: &Quantizer<f64>, weights: ArrayView1<'_, f64>) -> Array3<f64> {
    let (words, offsets) = (quantizer.codebooks(), quantizer.offsets());
    let (n_blocks, n_codes, _) = words.dim();
    Array3::from_shape_fn((n_blocks, n_codes, 1), |(block, code, _)| {
        let columns = offsets[block] as usize..offsets[block + 1] as usize;
        columns.enumerate().map(|(k, d)| words[[block, code, k]] * weights[d]).sum()
    })
}
