//! The Sinkhorn distance of chosen pairs, for searches that need not compare all.

use ndarray::{Array1, ArrayView2};

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::simd::Element;
use crate::transport::all_pairs::AllPairs;
use crate::transport::costs::Costs;
use crate::transport::distances::Sinkhorn;

/// Pairs of a block.
const BLOCK: usize = 256;

/// Distances of chosen pairs, and the errors of their marginals.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SinkhornPairs<T> {
    /// The distances.
    pub values: Array1<T>,
    /// L1 errors of the marginals, as a part of the mass.
    pub errors: Array1<f64>,
}

/// Sinkhorn distances between `x[i]` and `y[j]` for each `(i, j)` of `pairs`, as
/// [`sinkhorn_distances`](crate::transport::sinkhorn_distances) computes them; potentials are not
/// kept.
///
/// `starts` has a row for each pair: logarithms of the scaling of `x[i]`, as of mass 1, from which it
/// begins. Those of empty bins are finite, and mean nothing.
///
/// # Errors
///
/// As [`sinkhorn_distances`](crate::transport::sinkhorn_distances), and [`Error::Shape`] when a
/// pair names a row that is not there, or `starts` has another shape; [`Error::NotFinite`] when a
/// start is not finite.
///
/// # Examples
///
/// ```
/// use histrs::transport::{Sinkhorn, sinkhorn_pairs};
/// use histrs::{Executor, HistogramMatrix};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[1.0_f64, 0.0], [0.25, 0.75]];
/// let m = array![[0.0, 1.0], [1.0, 0.0]];
/// let options = Sinkhorn::new(0.05).with_tol(1e-9);
/// let x = HistogramMatrix::dense(x.view());
/// let found = sinkhorn_pairs(&exec, &x, &x, &[(1, 0)], None, m.view(), &options)?;
/// assert!((found.values[0] - 0.75).abs() < 1e-9);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn sinkhorn_pairs<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: &HistogramMatrix<'a, T>,
    pairs: &[(usize, usize)],
    starts: Option<ArrayView2<'_, f32>>,
    m: impl Into<Costs<'a>>,
    options: &Sinkhorn,
) -> Result<SinkhornPairs<T>> {
    let all = AllPairs::balanced(exec, x, Some(y), m, options)?;
    if let Some(starts) = &starts {
        check_starts(starts, (pairs.len(), x.n_columns()))?;
    }
    check_rows("the last row of X that a pair names", pairs.iter().map(|p| p.0), x.n_rows())?;
    check_rows("the last row of Y that a pair names", pairs.iter().map(|p| p.1), y.n_rows())?;
    // Pairs of one row lie in one block, which then holds few histograms.
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by_key(|&k| pairs[k]);
    let blocks = exec.map_ranges(order.len(), BLOCK, |part| {
        let part = &order[part];
        let from = starts.map(|starts| {
            part.iter()
                .map(|&k| (pairs[k], starts.row(k).iter().map(|&f| f.into()).collect()))
                .collect()
        });
        let mut found = all.solve(part.iter().map(|&k| pairs[k]).collect(), from.as_ref())?;
        found.sort_by_key(|found| found.pair);
        Ok(found)
    })?;
    let mut values = memory::zeros(pairs.len())?;
    let mut errors = memory::zeros(pairs.len())?;
    for (&k, found) in order.iter().zip(blocks.iter().flatten()) {
        values[k] = T::from_f64(found.value);
        errors[k] = found.error;
    }
    Ok(SinkhornPairs { values, errors })
}

fn check_starts(starts: &ArrayView2<'_, f32>, (n_pairs, n_bins): (usize, usize)) -> Result<()> {
    let cure = "give a row for each pair, with an entry for each column of X";
    check_length("the number of rows of the starts", starts.nrows(), n_pairs, cure)?;
    check_length("the number of columns of the starts", starts.ncols(), n_bins, cure)?;
    match starts.indexed_iter().find(|(_, f)| !f.is_finite()) {
        Some(((row, column), &value)) => {
            Err(Error::NotFinite { name: "starts", row, column, value: value.into() })
        }
        None => Ok(()),
    }
}

/// Fails where a pair names a row that is not there.
pub(super) fn check_rows(
    what: &'static str,
    rows: impl Iterator<Item = usize>,
    n_rows: usize,
) -> Result<()> {
    match rows.max() {
        Some(found) if found >= n_rows => {
            let (expected, cure) = (n_rows.saturating_sub(1), "a pair names a row of each");
            Err(Error::Shape { what, found, expected, cure })
        }
        _ => Ok(()),
    }
}
