//! Inner products of the hat functions.

use ndarray::{Array2, s};

use crate::error::Result;
use crate::exec::Executor;
use crate::intersection::knots::column::KnotColumn;
use crate::intersection::knots::{KnotProjection, check_rows};
use crate::memory;

impl KnotProjection {
    /// `Phi^T Phi`.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn gram(&self, exec: &Executor) -> Result<Array2<f64>> {
        self.gram_of(exec, None)
    }

    /// `Phi^T W Phi` with a weight for every row on the diagonal of `W`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) when there is not one weight for every row,
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn weighted_gram(&self, exec: &Executor, weights: &[f64]) -> Result<Array2<f64>> {
        check_rows("the number of weights", weights.len(), self.n_rows)?;
        self.gram_of(exec, Some(weights))
    }

    fn gram_of(&self, exec: &Executor, row_weights: Option<&[f64]>) -> Result<Array2<f64>> {
        let n_columns = self.columns.len();
        let strips = exec.map_blocks(n_columns, |d| {
            let spread = self.columns[d].spread(self.n_rows)?;
            (d..n_columns)
                .map(|e| {
                    exec.check()?;
                    pair_gram(&self.columns[d], &spread, &self.columns[e], row_weights)
                })
                .collect::<Result<Vec<_>>>()
        })?;
        let mut gram = memory::zeros((self.n_features(), self.n_features()))?;
        for (d, strip) in strips.iter().enumerate() {
            let rows = self.offsets[d]..self.offsets[d + 1];
            for (e, tile) in (d..n_columns).zip(strip) {
                let columns = self.offsets[e]..self.offsets[e + 1];
                gram.slice_mut(s![rows.clone(), columns.clone()]).assign(tile);
                gram.slice_mut(s![columns, rows.clone()]).assign(&tile.t());
            }
        }
        Ok(gram)
    }
}

/// The block of `Phi^T W Phi` for two columns, the first spread over all rows; `W` is 1 where no
/// weights are given.
fn pair_gram(
    a: &KnotColumn,
    spread: &(Vec<u8>, Vec<f32>),
    b: &KnotColumn,
    row_weights: Option<&[f64]>,
) -> Result<Array2<f64>> {
    let (n_a, n_b) = (a.knots.len(), b.knots.len());
    // Moments 1, s, t and s t of the rows in each pair of cells give all four hat products.
    let mut moments = memory::filled([0.0_f64; 4], n_a * n_b)?;
    let mut add = |row: usize, cell: u8, weight: f32, other: u8, other_weight: f32| {
        let (s, t) = (f64::from(weight), f64::from(other_weight));
        let w = row_weights.map_or(1.0, |weights| weights[row]);
        let m = &mut moments[usize::from(cell) * n_b + usize::from(other)];
        let add = [w, w * s, w * t, w * s * t];
        for k in 0..4 {
            m[k] += add[k];
        }
    };
    let (cells, weights) = spread;
    let entries = b.cells.iter().zip(&b.weights);
    match &b.rows {
        None => {
            for (row, ((&i, &s), (&j, &t))) in cells.iter().zip(weights).zip(entries).enumerate() {
                add(row, i, s, j, t);
            }
        }
        Some(rows) => {
            for (&row, (&j, &t)) in rows.iter().zip(entries) {
                let row = row as usize;
                add(row, cells[row], weights[row], j, t);
            }
        }
    }
    let mut gram = memory::zeros((n_a, n_b))?;
    for i in 0..n_a {
        for j in 0..n_b {
            let [n, s, t, st] = moments[i * n_b + j];
            gram[[i, j]] += st;
            if i > 0 {
                gram[[i - 1, j]] += t - st;
            }
            if j > 0 {
                gram[[i, j - 1]] += s - st;
            }
            if i > 0 && j > 0 {
                gram[[i - 1, j - 1]] += n - s - t + st;
            }
        }
    }
    Ok(gram)
}
