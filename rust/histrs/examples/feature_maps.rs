//! Kernels of histograms as inner products of features: the additive chi-square kernel, the
//! exponential one by random features, and the intersection kernel by sparse features on knots.
//!
//! Run it with `cargo run --release --example feature_maps`.

use histrs::chi2::AdditiveMap;
use histrs::kernels::{AdditiveKernel, exp_chi2_gram};
use histrs::random_features::ExpChi2Features;
use histrs::sparse_maps::{SparseAdditiveMap, column_quantiles};
use histrs::{Executor, HistogramMatrix};
use ndarray::Array2;

const ROWS: usize = 50;
const BINS: usize = 12;

fn main() -> histrs::Result<()> {
    let exec = Executor::new(0)?;
    let unit = |i: usize, d: usize| 0.1 + ((i + 1) as f64 * (d + 2) as f64 * 0.618_034).fract();
    let mut x = Array2::from_shape_fn((ROWS, BINS), |(i, d)| unit(i, d));
    for mut row in x.rows_mut() {
        let mass = row.sum();
        row /= mass;
    }
    let rows = HistogramMatrix::dense(x.view());

    // Of each value fifteen features, whose inner products are all but the kernel.
    let map = AdditiveMap::chebyshev(15)?;
    let c = map.transform(&exec, x.view())?;
    let error = largest_error(&c.dot(&c.t()), &AdditiveKernel::Chi2.gram(&exec, &rows, None)?);
    println!("additive chi-square kernel, 15 features per bin: {error:.1e}");
    assert!(error < 0.05);

    // Random projections of the features of all bins, of which sines and cosines are taken.
    let n_projections = 4000;
    let features = ExpChi2Features::with_seed(map, BINS, n_projections, 1.0, 1)?;
    let z = features.transform(&exec, &rows)?;
    let error = largest_error(&z.dot(&z.t()), &exp_chi2_gram(&exec, &rows, None, 1.0)?);
    println!("exponential chi-square kernel, {n_projections} random projections: {error:.1e}");
    assert!(error < 0.1);

    // Of each value the two knots around it: the projection of the kernel on knots.
    let (knots, offsets) = column_quantiles(&exec, &rows, 24)?;
    let sparse = SparseAdditiveMap::new(AdditiveKernel::Intersection, &knots, &offsets)?;
    let codes = sparse.transform(&exec, &rows)?;
    let mut projected = Array2::zeros((ROWS, ROWS));
    for i in 0..ROWS {
        for j in 0..ROWS {
            projected[[i, j]] = stored(&codes, i)
                .flat_map(|(k, u)| stored(&codes, j).map(move |(l, v)| (k, u, l, v)))
                .filter(|&(k, _, l, _)| column(&offsets, k) == column(&offsets, l))
                .map(|(k, u, l, v)| u * v * knots[k].min(knots[l]))
                .sum::<f64>();
        }
    }
    let error = largest_error(&projected, &AdditiveKernel::Intersection.gram(&exec, &rows, None)?);
    println!("intersection kernel, at most 2 features per bin: {error:.1e}");
    assert!(error < 0.05);
    Ok(())
}

/// The features of a row, by index.
fn stored(codes: &histrs::CsrParts<f64>, row: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
    let entries = codes.indptr[row] as usize..codes.indptr[row + 1] as usize;
    entries.map(|entry| (codes.indices[entry] as usize, codes.data[entry]))
}

/// The column that a knot is of.
fn column(offsets: &[i64], knot: usize) -> usize {
    offsets.partition_point(|&offset| offset as usize <= knot)
}

fn largest_error(a: &Array2<f64>, b: &Array2<f64>) -> f64 {
    (a - b).iter().fold(0.0, |most, v| f64::max(most, v.abs()))
}
