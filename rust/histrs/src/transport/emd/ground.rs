//! The cost matrix, and whether it is a metric.

use std::borrow::Cow;

use ndarray::ArrayView2;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;
use crate::simd::dispatch;
use pulp::{Simd, WithSimd};

/// Bins above which it is not looked whether the cost matrix is a metric, which takes the cube.
const MOST_BINS: usize = 1024;
/// Part of a distance by which the way past a third bin may be shorter, by rounding.
const ROUNDING: f64 = 1e-12;
/// Rows that are looked at in one go.
const ROWS: usize = 8;

/// A cost matrix, row after row.
pub(super) struct Ground<'a> {
    values: Cow<'a, [f64]>,
    n_rows: usize,
    n_columns: usize,
    metric: bool,
    symmetric: bool,
}

impl<'a> Ground<'a> {
    /// Fails at the first entry that no cost matrix has; whether it is a metric is not looked at.
    pub(super) fn new(m: &'a ArrayView2<'a, f64>) -> Result<Self> {
        let bad = |m: &f64| m.is_nan() || *m < 0.0;
        if let Some(((row, column), &value)) = m.indexed_iter().find(|(_, m)| bad(m)) {
            return Err(Error::GroundDistance { row, column, value });
        }
        let values = match m.as_slice() {
            Some(values) => Cow::Borrowed(values),
            None => Cow::Owned(memory::collected(m.iter().copied())?),
        };
        let symmetric = m.is_square() && m == m.t();
        let (n_rows, n_columns) = m.dim();
        Ok(Self { values, n_rows, n_columns, metric: false, symmetric })
    }

    /// Looks whether it is a metric, where that does not take too long.
    pub(super) fn with_metric(mut self, exec: &Executor) -> Result<Self> {
        let n = self.n_columns;
        let may_be = self.n_rows == n && n <= MOST_BINS;
        self.metric = may_be && is_metric(exec, &self.values, n)?;
        Ok(self)
    }

    pub(super) fn shape(&self) -> (usize, usize) {
        (self.n_rows, self.n_columns)
    }

    pub(super) fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.n_columns..][..self.n_columns]
    }

    /// Whether it is known that no way past a third bin is shorter, and staying costs nothing.
    pub(super) fn is_metric(&self) -> bool {
        self.metric
    }

    pub(super) fn is_symmetric(&self) -> bool {
        self.symmetric
    }
}

fn is_metric(exec: &Executor, m: &[f64], n: usize) -> Result<bool> {
    if (0..n).any(|k| m[k * n + k] != 0.0) {
        return Ok(false);
    }
    let blocks = exec.map_blocks(n.div_ceil(ROWS), |block| {
        let rows = block * ROWS..n.min((block + 1) * ROWS);
        Ok(rows.clone().all(|from| dispatch(ObeysTriangles { m, n, from })))
    })?;
    Ok(blocks.into_iter().all(|obeys| obeys))
}

/// Whether no way from a bin past a third is shorter than the direct one.
struct ObeysTriangles<'a> {
    m: &'a [f64],
    n: usize,
    from: usize,
}

impl WithSimd for ObeysTriangles<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> bool {
        let row = |k: usize| &self.m[k * self.n..][..self.n];
        let direct = row(self.from);
        (0..self.n).all(|past| {
            let first = direct[past];
            let shorter =
                |(direct, second): (&f64, &f64)| *direct > (first + second) * (1.0 + ROUNDING);
            direct.iter().zip(row(past)).fold(0_u64, |n, pair| n | u64::from(shorter(pair))) == 0
        })
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, array};

    use super::*;

    fn metric(m: &Array2<f64>) -> bool {
        let view = m.view();
        let exec = Executor::on_caller().unwrap();
        Ground::new(&view).unwrap().with_metric(&exec).unwrap().is_metric()
    }

    #[test]
    fn a_metric_has_no_shortcuts() {
        let line = |n: usize, power: f64| {
            Array2::from_shape_fn((n, n), |(i, j)| (i as f64 - j as f64).abs().powf(power))
        };
        for n in [1, 2, 3, 17] {
            assert!(metric(&line(n, 1.0)));
            assert!(metric(&line(n, 0.5)));
            assert_eq!(metric(&line(n, 2.0)), n < 3);
        }
        for (from, to) in [(3, 15), (8, 0), (15, 3), (16, 14)] {
            let mut m = line(17, 1.0);
            m[[from, to]] += 1e-9;
            assert!(!metric(&m), "{from} {to}");
            let rest = from.min(to) + 1;
            assert!(metric(&m.slice(ndarray::s![rest.., rest..]).to_owned()));
        }
        assert!(!metric(&array![[0.0, 1.0], [1.0, 0.5]]));
        assert!(!metric(&array![[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]));
        // Two islands.
        let inf = f64::INFINITY;
        assert!(metric(&array![[0.0, 1.0, inf], [1.0, 0.0, inf], [inf, inf, 0.0]]));
        assert!(!metric(&array![[0.0, 1.0, inf], [1.0, 0.0, 1.0], [inf, 1.0, 0.0]]));
    }
}
