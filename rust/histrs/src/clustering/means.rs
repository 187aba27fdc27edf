//! The means of the rows of each centre.

use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::simd::Real;

/// Centres of a block.
const CENTERS: usize = 4;

/// The rows of each center: those of center `k` are `order[ends[k - 1]..ends[k]]`, ascending.
#[derive(Debug)]
pub(super) struct Members {
    order: Vec<usize>,
    ends: Vec<usize>,
}

impl Members {
    pub(super) fn new(labels: &[usize], n_centers: usize) -> Result<Self> {
        let mut ends = memory::filled(0, n_centers)?;
        labels.iter().for_each(|&label| ends[label] += 1);
        let mut next = memory::with_capacity(n_centers)?;
        let mut total = 0;
        for end in &mut ends {
            next.push(total);
            total += *end;
            *end = total;
        }
        let mut order = memory::filled(0, labels.len())?;
        for (row, &label) in labels.iter().enumerate() {
            order[next[label]] = row;
            next[label] += 1;
        }
        Ok(Self { order, ends })
    }

    pub(super) fn of(&self, center: usize) -> &[usize] {
        let start = if center == 0 { 0 } else { self.ends[center - 1] };
        &self.order[start..self.ends[center]]
    }

    pub(super) fn empty(&self) -> Vec<usize> {
        (0..self.ends.len()).filter(|&center| self.of(center).is_empty()).collect()
    }

    /// The center that has most rows, the first of several.
    fn largest(&self) -> usize {
        let n = |center: usize| self.of(center).len();
        (1..self.ends.len()).fold(0, |best, center| if n(center) > n(best) { center } else { best })
    }

    /// Writes the means of the rows of those centers that have changed. A center without rows is put
    /// where that of most rows is.
    pub(super) fn means<T: Real>(
        &self,
        exec: &Executor,
        x: &[T],
        n_columns: usize,
        has_changed: &[bool],
        means: &mut [T],
    ) -> Result<()> {
        exec.for_chunks(means, CENTERS * n_columns, |block, means| {
            let mut sums = memory::filled(0.0, n_columns)?;
            for (center, mean) in (block * CENTERS..).zip(means.chunks_exact_mut(n_columns)) {
                let rows = self.of(center);
                if rows.is_empty() || !has_changed[center] {
                    continue;
                }
                sums.fill(0.0);
                for &row in rows {
                    let x = &x[row * n_columns..(row + 1) * n_columns];
                    sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += x.to_f64());
                }
                let n = rows.len() as f64;
                mean.iter_mut().zip(&sums).for_each(|(mean, sum)| *mean = T::from_f64(sum / n));
            }
            Ok(())
        })?;
        let largest = self.largest() * n_columns;
        for center in self.empty() {
            means.copy_within(largest..largest + n_columns, center * n_columns);
        }
        Ok(())
    }
}
