//! The lasso and the group lasso of data that were read once: from sums over the rows alone.
//!
//! Run it with `cargo run --release --example lasso_from_moments`.

use histrs::Executor;
use histrs::moments::{LassoParameters, LassoProblem, Penalty, group_lasso_path};
use ndarray::{Array2, array};

fn main() -> histrs::Result<()> {
    let exec = Executor::new(0)?;
    // Targets depend on the first and on the third of six features.
    let n = 500_usize;
    let unit = |i: usize, d: usize| ((i * (2 * d + 3)) as f64 * 0.618_034).fract() - 0.5;
    let x = Array2::from_shape_fn((n, 6), |(i, d)| unit(i + 1, d));
    let truth = array![2.0, 0.0, -1.0, 0.0, 0.0, 0.0];
    let y = x.dot(&truth);

    // Chunks of rows could be added up one after the other, on many machines.
    let gram = x.t().dot(&x) / n as f64;
    let cross = (x.t().dot(&y) / n as f64).insert_axis(ndarray::Axis(0));
    let squares = array![y.dot(&y) / n as f64];

    let ends: Vec<i64> = (1..=6).collect();
    let weights = [1.0; 6];
    let problem = LassoProblem::new(gram.view(), cross.view(), squares.view(), &ends, &weights)?;
    let penalties = [0.05, 0.01, 0.001].map(Penalty::new);
    let parameters = LassoParameters::default().with_tol(1e-8);
    let path = group_lasso_path(&exec, &problem, &penalties, parameters)?;
    println!("coefficients, a penalty per row:\n{:.3}", path.coefficients);
    println!("duality gaps:\n{:.1e}", path.gaps);
    assert!(path.gaps.iter().all(|&gap| gap <= 1e-8));
    let last = path.coefficients.outer_iter().next_back();
    let error = last.map_or(f64::INFINITY, |w| {
        w.iter().zip(&truth).fold(0.0, |most, (a, b)| f64::max(most, (a - b).abs()))
    });
    assert!(error < 0.1, "the smallest penalty finds what the targets are made of");
    Ok(())
}
