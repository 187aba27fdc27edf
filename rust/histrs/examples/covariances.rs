//! Distances between covariance matrices, their means, and the classes of the nearest mean.
//!
//! Run it with `cargo run --release --example covariances`.

use histrs::Executor;
use histrs::spd::{
    Dispersion, MeanParameters, Shrinkage, airm_distances, dispersion_mean, jbld_distances,
    signal_covariances,
};
use ndarray::{Array3, Axis, s};

fn main() -> histrs::Result<()> {
    let exec = Executor::new(0)?;
    // Two classes of signals of three channels, which differ in how channels go together.
    let (trials, times) = (40_usize, 200_usize);
    let wave = |i: usize, k: usize, t: usize| {
        let phase = ((i * 7 + k * 3) as f64 * 0.618).fract() * std::f64::consts::TAU;
        (t as f64 * (0.11 + 0.07 * k as f64) + phase).sin()
    };
    let signals = Array3::from_shape_fn((trials, 3, times), |(i, k, t)| {
        let shared = if i % 2 == 0 { 0.9 } else { -0.9 };
        wave(i, k, t) + if k == 1 { shared * wave(i, 0, t) } else { 0.0 }
    });
    let found = signal_covariances(&exec, signals.view(), Shrinkage::Fixed(0.01))?;
    assert!(found.flat.is_empty());
    let x = found.covariances;

    let stein = jbld_distances(&exec, x.slice(s![..4, .., ..]), None)?;
    let riemannian = airm_distances(&exec, x.slice(s![..4, .., ..]), None)?;
    println!("Jensen-Bregman log-det divergences:\n{stein:.3}");
    println!("affine-invariant distances:\n{riemannian:.3}");
    assert!(stein[[0, 1]] > stein[[0, 2]], "the other class is further away");

    let mut means = Array3::zeros((2, 3, 3));
    let parameters = MeanParameters::default().with_tol(1e-9);
    for (class, mut mean) in means.axis_iter_mut(Axis(0)).enumerate() {
        let own = x.slice(s![class..;2, .., ..]);
        let weights = vec![1.0 / own.len_of(Axis(0)) as f64; own.len_of(Axis(0))];
        let found = dispersion_mean(&exec, own, &weights, Dispersion::Airm, parameters)?;
        assert!(found.residual < 1e-9);
        mean.assign(&found.matrix);
    }
    let to_means = airm_distances(&exec, x.view(), Some(means.view()))?;
    let right = to_means.outer_iter().enumerate();
    let right = right.filter(|(i, d)| usize::from(d[1] < d[0]) == i % 2).count();
    println!("{right} of {trials} trials are nearest to the mean of their class");
    assert_eq!(right, trials);
    Ok(())
}
