//! A support vector machine with the intersection kernel, learned in input space: one vector a
//! class, and passes of stochastic gradient descent.
//!
//! Run it with `cargo run --release --example intersection_svm`.

use histrs::svm::{SgdParameters, epoch, scores};
use histrs::{Executor, HistogramMatrix};
use ndarray::Array2;

fn main() -> histrs::Result<()> {
    let exec = Executor::new(0)?;
    // Class 1 has more of the first bins, class 0 of the last, and both of those between.
    let (n, n_bins) = (300_usize, 8_usize);
    let noise = |i: usize, d: usize| ((i * 7 + d * 13) as f64 * 0.618_034).fract();
    let x = Array2::from_shape_fn((n, n_bins), |(i, d)| {
        let bin = if i % 2 == 1 { d } else { n_bins - 1 - d };
        (0.5 + noise(i, d)) / (4.0 + bin as f64)
    });
    let signs = Array2::from_shape_fn((1, n), |(_, i)| if i % 2 == 1 { 1.0 } else { -1.0 });
    let ones = Array2::ones((1, n));
    let rows = HistogramMatrix::dense(x.view());

    let steps = SgdParameters::default().with_margin(0.1).with_alpha(1e-5);
    let order: Vec<i64> = (0..n as i64).collect();
    let mut coef = Array2::zeros((1, n_bins));
    for pass in 0..60 {
        let steps = steps.with_eta(0.1 / (1.0 + 0.1 * f64::from(pass)));
        coef = epoch(&exec, &rows, signs.view(), ones.view(), &order, coef.view(), steps)?;
    }
    let found = scores(&exec, &rows, None, coef.view())?;
    let right = found.iter().zip(&signs).filter(|(score, sign)| *score * **sign > 0.0).count();
    println!("weights {coef:.3}, {right} of {n} rows on their side");
    assert!(right * 10 > n * 8);
    Ok(())
}
