//! A support vector machine with the intersection kernel, learned in input space: one vector a
//! class, and passes of stochastic gradient descent.
//!
//! Run it with `cargo run --release --example intersection_svm`.

use histrs::svm::{SgdParameters, epoch, scores_into};
use histrs::{Executor, HistogramMatrix};
use ndarray::{Array2, array};

fn main() -> histrs::Result<()> {
    let exec = Executor::new(0)?;
    // Class 1 has one moderate value, class 0 a small or a large one: no line separates them.
    let n = 300_usize;
    let value = |i: usize| (i as f64 * 0.618_034).fract();
    let x = Array2::from_shape_fn((n, 2), |(i, d)| if d == 0 { value(i) } else { 1.0 - value(i) });
    let inside = |i: usize| (0.3..0.7).contains(&value(i));
    let signs = Array2::from_shape_fn((1, n), |(_, i)| if inside(i) { 1.0 } else { -1.0 });
    let ones = Array2::ones((1, n));
    let rows = HistogramMatrix::dense(x.view());

    let steps = SgdParameters::default().with_margin(0.1).with_alpha(1e-5);
    let order: Vec<i64> = (0..n as i64).collect();
    let mut coef = Array2::zeros((1, 2));
    for pass in 0..60 {
        let steps = steps.with_eta(0.1 / (1.0 + 0.1 * f64::from(pass)));
        coef = epoch(&exec, &rows, signs.view(), ones.view(), &order, coef.view(), steps)?;
    }
    let mut found = vec![0.0; n];
    scores_into(&exec, &rows, coef.view(), &mut found)?;
    let bias = best_threshold(&found, &signs);
    let right = found.iter().zip(&signs).filter(|(f, s)| (*f - bias) * **s > 0.0).count();
    println!("weights {coef:.3}, {right} of {n} rows on their side of {bias:.3}");
    assert!(right * 10 > n * 8);
    assert_eq!(coef.dim(), array![[0.0, 0.0]].dim());
    Ok(())
}

/// The threshold that most rows are on the right side of.
fn best_threshold(scores: &[f64], signs: &Array2<f64>) -> f64 {
    let right = |t: f64| scores.iter().zip(signs).filter(|(f, s)| (*f - t) * **s > 0.0).count();
    let best = scores.iter().copied().max_by_key(|&t| right(t - 1e-9));
    best.unwrap_or(0.0) - 1e-9
}
