//! Gaussian process regression on histograms with the crate alone.
//!
//! The weights `alpha = (K + s I)^-1 y` come from conjugate gradients that never form `K`; the mean
//! `k(x)^T alpha` is a sum of piecewise-linear functions, one per bin.
//!
//! Run it with `cargo run --release --example gaussian_process`.

use histrs::prelude::*;
use ndarray::{Array2, Axis};

const BINS: usize = 20;
const NOISE: f64 = 0.1;

fn main() -> histrs::Result<()> {
    let exec = Executor::new(0)?;
    let mut random = Random(1);
    let train = histograms(4000, &mut random);
    let test = histograms(1000, &mut random);
    let y = truth(&train).mapv(|f| f + NOISE * random.normal());

    let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(train.view()))?;
    let mean = y.mean().unwrap_or(0.0);
    let centred = &y - mean;
    let solution = columns.solve(&exec, NOISE * NOISE, centred.view(), Solve::default())?;
    let residual = solution.residuals[0];

    let functions = ShapeFunctions::new(&exec, &columns, solution.alpha.view())?;
    let predicted = functions.predict(&exec, &HistogramMatrix::dense(test.view()))? + mean;
    let expected = truth(&test);
    let error = rms(&(&predicted - &expected));
    let spread = rms(&(&expected - expected.mean().unwrap_or(0.0)));

    println!("{} iterations, relative residual {residual:.1e}", solution.n_iter);
    println!("root mean square error {error:.4} of a truth that varies by {spread:.4}");
    assert!(residual < 1e-7, "the linear system is not solved");
    assert!(error < NOISE && error < 0.1 * spread, "the prediction is off");
    Ok(())
}

/// Histograms of sum 1, some bins of which are empty.
fn histograms(n: usize, random: &mut Random) -> Array2<f64> {
    let mut x = Array2::from_shape_simple_fn((n, BINS), || {
        (-random.unit().max(f64::MIN_POSITIVE).ln() - 0.5).max(0.0)
    });
    for mut row in x.axis_iter_mut(Axis(0)) {
        let sum: f64 = row.iter().sum();
        row /= sum.max(f64::MIN_POSITIVE);
    }
    x
}

/// A sum of curved functions of the bins, as a column.
fn truth(x: &Array2<f64>) -> Array2<f64> {
    let score = |row: ndarray::ArrayView1<'_, f64>| {
        let terms = row.iter().enumerate().map(|(d, &v)| (d as f64 / 2.0).sin() * (6.0 * v).tanh());
        terms.sum::<f64>()
    };
    x.map_axis(Axis(1), score).insert_axis(Axis(1))
}

fn rms(a: &Array2<f64>) -> f64 {
    a.mapv(|a| a * a).mean().unwrap_or(f64::NAN).sqrt()
}

/// The generator SplitMix64.
struct Random(u64);

impl Random {
    /// Uniform on `[0, 1)`.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().max(f64::MIN_POSITIVE).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}
