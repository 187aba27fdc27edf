//! What kernels and products are, without a line of the crate.

use histrs::Element;
use ndarray::{Array2, ArrayView1};

pub(crate) fn to_f64<T: Element>(x: &Array2<T>) -> Array2<f64> {
    x.mapv(T::to_f64)
}

/// `K[i, j] = sum_d min(x_i(d), y_j(d))`.
pub(crate) fn kernel(x: &Array2<f64>, y: &Array2<f64>) -> Array2<f64> {
    Array2::from_shape_fn((x.nrows(), y.nrows()), |(i, j)| {
        (0..x.ncols()).map(|d| x[[i, d]].min(y[[j, d]])).fold(0.0, |a, b| a + b)
    })
}

/// `a b`.
pub(crate) fn times(a: &Array2<f64>, b: &Array2<f64>) -> Array2<f64> {
    let mut out = Array2::zeros((a.nrows(), b.ncols()));
    for i in 0..a.nrows() {
        for l in 0..a.ncols() {
            for k in 0..b.ncols() {
                out[[i, k]] += a[[i, l]] * b[[l, k]];
            }
        }
    }
    out
}

/// The distinct non-zero values of a column in ascending order.
pub(crate) fn distinct(column: ArrayView1<'_, f64>) -> Vec<f64> {
    let mut values: Vec<f64> = column.iter().copied().filter(|&v| v > 0.0).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Fails unless `|got - want| <= tolerance * size` in every entry.
#[track_caller]
pub(crate) fn assert_close(
    got: &Array2<f64>,
    want: &Array2<f64>,
    size: &Array2<f64>,
    tolerance: f64,
) {
    assert_eq!(got.dim(), want.dim());
    for ((at, &got), (&want, &size)) in got.indexed_iter().zip(want.iter().zip(size)) {
        let error = (got - want).abs();
        assert!(
            // Below the smallest normal number there is no relative precision.
            error <= tolerance * size || error < f64::MIN_POSITIVE,
            "{got:e} instead of {want:e} at {at:?}: error {error:e}, {:e} of {size:e}",
            error / size
        );
    }
}

/// Eigenvalues of a symmetric matrix by Jacobi's method.
pub(crate) fn eigenvalues(a: &Array2<f64>) -> Vec<f64> {
    let n = a.nrows();
    let mut a = a.clone();
    let norm = a.iter().map(|v| v * v).sum::<f64>().sqrt();
    for _ in 0..100 {
        let mut off = 0.0;
        for p in 0..n {
            for q in p + 1..n {
                let apq = a[[p, q]];
                off += apq * apq;
                if apq == 0.0 {
                    continue;
                }
                let theta = (a[[q, q]] - a[[p, p]]) / (2.0 * apq);
                let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                let s = t * c;
                for k in 0..n {
                    let (akp, akq) = (a[[k, p]], a[[k, q]]);
                    a[[k, p]] = c * akp - s * akq;
                    a[[k, q]] = s * akp + c * akq;
                }
                for k in 0..n {
                    let (apk, aqk) = (a[[p, k]], a[[q, k]]);
                    a[[p, k]] = c * apk - s * aqk;
                    a[[q, k]] = s * apk + c * aqk;
                }
            }
        }
        if off.sqrt() <= 1e-14 * norm {
            break;
        }
    }
    (0..n).map(|i| a[[i, i]]).collect()
}
