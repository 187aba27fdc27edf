//! The pairs of two sets of histograms, in the order in which they are solved, and in blocks.

use crate::error::Result;
use crate::exec::Executor;

/// Fewest and most pairs of a block: at its end lanes stand empty until the slowest pair is done.
const BLOCK: (usize, usize) = (128, 1024);
/// Blocks into which a small problem is cut.
const N_BLOCKS: usize = 8;

/// A row of `x` and a row of `y`.
pub(super) type Pair = (usize, usize);

/// The pairs in the order in which they are solved: row by row, from the diagonal where each pair
/// is solved once.
pub(super) struct Pairs {
    pub(super) n_rows: usize,
    pub(super) n_columns: usize,
    pub(super) once: bool,
}

impl Pairs {
    pub(super) fn len(&self) -> usize {
        self.start_of_row(self.n_rows)
    }

    /// Solves them in blocks.
    pub(super) fn map_blocks<R: Send>(
        &self,
        exec: &Executor,
        solve: impl Fn(Vec<Pair>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let size = (self.len() / N_BLOCKS).clamp(BLOCK.0, BLOCK.1);
        exec.map_blocks(self.len().div_ceil(size), |block| solve(self.range(block * size, size)))
    }

    fn start_of_row(&self, row: usize) -> usize {
        row * self.n_columns - if self.once { row * row.saturating_sub(1) / 2 } else { 0 }
    }

    pub(super) fn range(&self, start: usize, len: usize) -> Vec<Pair> {
        let (mut low, mut high) = (0, self.n_rows);
        while low < high {
            let middle = low.midpoint(high);
            if self.start_of_row(middle + 1) <= start { low = middle + 1 } else { high = middle }
        }
        let first = |row: usize| if self.once { row } else { 0 };
        let skipped = start - self.start_of_row(low);
        (low..self.n_rows)
            .flat_map(|row| (first(row)..self.n_columns).map(move |column| (row, column)))
            .skip(skipped)
            .take(len)
            .collect()
    }
}

/// Each of some numbers once, ascending.
pub(super) fn distinct(items: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut items: Vec<usize> = items.collect();
    items.sort_unstable();
    items.dedup();
    items
}
