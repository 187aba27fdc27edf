//! Entropy-regularised transport between histograms on a line, and between those of unequal mass.
//!
//! Run it with `cargo run --release --example sinkhorn_distances`.

use histrs::transport::{
    Cost, Relaxation, RelaxedSinkhorn, Sinkhorn, relaxed_distances, sinkhorn_distances,
};
use histrs::{Executor, HistogramMatrix};
use ndarray::{Array2, Axis};

const BINS: usize = 32;

fn main() -> histrs::Result<()> {
    let exec = Executor::new(0)?;
    // Bumps around bins 6, 16 and 26; mass moves by one bin at a cost of 1.
    let centres = [6.0, 16.0, 26.0];
    let mut x = Array2::from_shape_fn((3, BINS), |(i, d)| {
        (-0.5 * ((d as f64 - centres[i]) / 1.5).powi(2)).exp()
    });
    for mut row in x.rows_mut() {
        let mass = row.sum();
        row /= mass;
    }
    let ground = Array2::from_shape_fn((BINS, BINS), |(i, j)| (i as f64 - j as f64).abs());
    let histograms = HistogramMatrix::dense(x.view());

    let options = Sinkhorn::new(0.05).with_tol(1e-8);
    let found = sinkhorn_distances(&exec, &histograms, None, ground.view(), &options)?;
    println!("distances of bumps 10 and 20 bins apart:\n{:.3}", found.values);
    assert!((found.values[[0, 1]] - 10.0).abs() < 0.1);
    assert!((found.values[[0, 2]] - 20.0).abs() < 0.1);

    // Where mass may be destroyed and created at a price, none moves further than that is worth.
    let relaxation = Relaxation::Penalties([2.0; 2]);
    let options = RelaxedSinkhorn::new(0.05, relaxation).with_cost(Cost::Penalized);
    let relaxed = relaxed_distances(&exec, &histograms, None, ground.view(), &options)?;
    println!("the same at a cost of 2 for mass that is not kept:\n{:.3}", relaxed.values);
    for (relaxed, balanced) in relaxed.values.iter().zip(&found.values) {
        assert!(*relaxed < balanced + 0.1 && *relaxed < 4.1);
    }
    assert_eq!(found.values.len_of(Axis(0)), 3);
    Ok(())
}
