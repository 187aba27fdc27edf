//! How often levels of two columns occur together, and sums of products of functions of them.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView1, ArrayView2, s};

use super::LevelCodes;
use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;

/// Pairs of columns whose products are in memory at once.
const PAIRS: usize = 64;

/// For each two levels of two columns, the sum of the weights of the rows that are at both.
#[derive(Debug)]
pub struct LevelCounts {
    n_levels: Vec<usize>,
    /// Of every pair of columns `(d, e)` with `e <= d`, one after the other.
    tables: Vec<Array2<f64>>,
}

impl LevelCodes<'_> {
    /// Counts levels that occur together: with weights, adds these up.
    ///
    /// A pair of columns takes a pass over two bytes of each for every row, and additions into a
    /// table of their levels. The table stays in the cache up to about 256 levels each. It belongs
    /// to one thread, so that sums have the same bits for any number of these. All tables together
    /// have half as many numbers as the square of the number of levels.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] unless there is a weight for each row, [`Error::OutOfMemory`] where there is
    /// no room for the tables, [`Error::Interrupted`].
    pub fn counts(
        &self,
        exec: &Executor,
        weights: Option<ArrayView1<'_, f64>>,
    ) -> Result<LevelCounts> {
        let weights = weights.map(|w| self.of_rows(w)).transpose()?;
        let pairs = pairs_of(self.n_columns());
        let tables = exec.map_blocks(pairs.len(), |k| self.table(pairs[k], weights))?;
        let n_levels = (0..self.n_columns()).map(|d| self.levels_of(d).len()).collect();
        Ok(LevelCounts { n_levels, tables })
    }

    fn table(&self, (d, e): (usize, usize), weights: Option<&[f64]>) -> Result<Array2<f64>> {
        let shape = (self.levels_of(d).len(), self.levels_of(e).len());
        let codes = self.column(d).iter().zip(self.column(e));
        let cells = codes.map(|(&a, &b)| usize::from(a) * shape.1 + usize::from(b));
        let mut table = memory::zeros(shape)?;
        let sums: &mut [f64] = memory::flat_mut(&mut table)?;
        match weights {
            Some(weights) => cells.zip(weights).for_each(|(cell, weight)| sums[cell] += weight),
            None => cells.for_each(|cell| sums[cell] += 1.0),
        }
        Ok(table)
    }
}

impl LevelCounts {
    /// Returns the sums over the rows of the products of any two functions, each of the level of one
    /// column; the last function is 1 at all rows. `functions` has a matrix for each column, with a
    /// row for each of its levels and a column for each function.
    ///
    /// With `H` the indicators of the levels and `F` the functions, block by block, it is
    /// `F' H' W H F`: two products of matrices a pair of columns.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] unless there is a matrix for each column, with a row for each of its levels,
    /// [`Error::OutOfMemory`], [`Error::Interrupted`].
    pub fn normal_matrix(
        &self,
        exec: &Executor,
        functions: &[ArrayView2<'_, f64>],
    ) -> Result<Array2<f64>> {
        let ranges = self.ranges(functions)?;
        let n = ranges.last().map_or(0, |range| range.end);
        let mut normal = memory::zero_matrix((n + 1, n + 1))?;
        let pairs = pairs_of(functions.len());
        for (first, some) in pairs.chunks(PAIRS).enumerate() {
            let blocks = exec.map_blocks(some.len(), |k| {
                let (d, e) = some[k];
                product(&functions[d], &self.tables[PAIRS * first + k], &functions[e])
            })?;
            for (&(d, e), block) in some.iter().zip(&blocks) {
                let (rows, columns) = (ranges[d].clone(), ranges[e].clone());
                normal.slice_mut(s![rows.clone(), columns.clone()]).assign(block);
                normal.slice_mut(s![columns, rows]).assign(&block.t());
            }
        }
        for (d, (range, of_column)) in ranges.iter().zip(functions).enumerate() {
            let counts = self.tables[pairs_before(d + 1) - 1].diag();
            let sums = of_column.t().dot(&counts);
            normal.slice_mut(s![n, range.clone()]).assign(&sums);
            normal.slice_mut(s![range.clone(), n]).assign(&sums);
            normal[[n, n]] = counts.sum();
        }
        Ok(normal)
    }

    /// Where the functions of each column are among all.
    fn ranges(&self, functions: &[ArrayView2<'_, f64>]) -> Result<Vec<Range<usize>>> {
        let check = |what, found, expected, cure| {
            if found == expected {
                Ok(())
            } else {
                Err(Error::Shape { what, found, expected, cure })
            }
        };
        let cure = "give a matrix for each column of codes";
        check("the length of functions", functions.len(), self.n_levels.len(), cure)?;
        let mut start = 0;
        let of_column = |(of_column, &n): (&ArrayView2<'_, f64>, &usize)| {
            let cure = "give one for each level of the column";
            check("the rows of functions", of_column.nrows(), n, cure)?;
            let range = start..start + of_column.ncols();
            start = range.end;
            Ok(range)
        };
        functions.iter().zip(&self.n_levels).map(of_column).collect()
    }
}

/// How many pairs there are of so many columns.
fn pairs_before(n_columns: usize) -> usize {
    n_columns * (n_columns + 1) / 2
}

fn pairs_of(n_columns: usize) -> Vec<(usize, usize)> {
    (0..n_columns).flat_map(|d| (0..=d).map(move |e| (d, e))).collect()
}

/// `F' C G`, in the order that takes fewer operations.
fn product(
    f: &ArrayView2<'_, f64>,
    c: &Array2<f64>,
    g: &ArrayView2<'_, f64>,
) -> Result<Array2<f64>> {
    let ((n, v), (m, w)) = (f.dim(), g.dim());
    let mut found = memory::zero_matrix((v, w))?;
    // Of one function after the other, as floats: products of sizes may be too large for integers.
    let operations = |a: usize, b: usize, c: usize| a as f64 * b as f64 * c as f64;
    if operations(v, n, m) + operations(v, m, w) < operations(n, m, w) + operations(v, n, w) {
        let mut half = memory::zero_matrix((v, m))?;
        general_mat_mul(1.0, &f.t(), c, 0.0, &mut half);
        general_mat_mul(1.0, &half, g, 0.0, &mut found);
    } else {
        let mut half = memory::zero_matrix((n, w))?;
        general_mat_mul(1.0, c, g, 0.0, &mut half);
        general_mat_mul(1.0, &f.t(), &half, 0.0, &mut found);
    }
    Ok(found)
}
