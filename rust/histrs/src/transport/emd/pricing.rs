//! The arc that enters: block pricing.
//!
//! The cells of the matrix of costs are taken in blocks, one after the other from where the last
//! search ended. The most negative of a block enters (Grigoriadis, *An efficient implementation of
//! the network simplex method*, 1986). When a whole round finds none the tree is the best.

use pulp::{Simd, WithSimd};

use crate::simd::dispatch;

/// Fewest cells of a block, which has the root of the number of all.
const FEWEST: usize = 32;

/// Where the search for an arc is.
#[derive(Default)]
pub(super) struct Pricing {
    /// The first cell of the next block.
    next: usize,
    block: usize,
    /// Cells that were looked at since the last arc was found.
    searched: usize,
}

/// An arc of negative reduced cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Entering {
    pub(super) source: usize,
    pub(super) target: usize,
    pub(super) reduced: i64,
}

impl Pricing {
    /// Begins with a table of so many cells.
    pub(super) fn new(n_cells: usize) -> Self {
        let block = n_cells.isqrt().max(FEWEST).min(n_cells);
        Self { next: 0, block, searched: 0 }
    }

    /// Cells of a block.
    pub(super) fn block(&self) -> usize {
        self.block
    }

    /// Whether every cell was looked at since an arc was found.
    pub(super) fn is_done(&self, n_cells: usize) -> bool {
        self.searched >= n_cells
    }

    /// Looks at one block.
    pub(super) fn look(&mut self, costs: &[i64], potentials: [&[i64]; 2]) -> Option<Entering> {
        let found = dispatch(Block { costs, potentials, first: self.next, len: self.block });
        self.next = (self.next + self.block) % costs.len();
        self.searched = if found.is_some() { 0 } else { self.searched + self.block };
        found
    }
}

/// Consecutive cells of a table, from the last on to the first.
struct Block<'a> {
    costs: &'a [i64],
    /// Of sources and of targets.
    potentials: [&'a [i64]; 2],
    first: usize,
    len: usize,
}

impl WithSimd for Block<'_> {
    type Output = Option<Entering>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Option<Entering> {
        let Self { costs, potentials: [sources, targets], first, len } = self;
        let m = targets.len();
        let (mut source, mut target, mut left) = (first / m, first % m, len);
        // The reduced cost, the row and where in it to look for the cell.
        let mut best = (0, source, 0..0);
        while left > 0 {
            let end = m.min(target + left);
            let row = &costs[source * m..][target..end];
            let reduced = least(row, &targets[target..end]) - sources[source];
            if reduced < best.0 {
                best = (reduced, source, target..end);
            }
            left -= end - target;
            target = 0;
            source = if source + 1 == sources.len() { 0 } else { source + 1 };
        }
        let (reduced, source, range) = best;
        let wanted = reduced + sources[source];
        let row = &costs[source * m..][range.clone()];
        let index = row.iter().zip(&targets[range.clone()]).position(|(c, p)| c + p == wanted)?;
        Some(Entering { source, target: range.start + index, reduced })
    }
}

/// The least sum of two numbers in the same index.
#[inline(always)]
pub(super) fn least(costs: &[i64], others: &[i64]) -> i64 {
    costs.iter().zip(others).fold(i64::MAX, |least, (c, p)| least.min(c + p))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_most_negative_cell_of_a_block_enters(
            n in 1_usize..20,
            m in 1_usize..20,
            // Ties, and costs that are all above or below the potentials.
            largest in prop::sample::select(&[1_usize, 5, 1000][..]),
            shift in -1000_i64..2000,
            seed: u64,
        ) {
            let mut draws = Random(seed);
            let mut numbers =
                |n: usize, from: i64| (0..n).map(|_| from + draws.below(largest) as i64).collect::<Vec<_>>();
            let (costs, sources, targets) = (numbers(n * m, shift), numbers(n, 0), numbers(m, 0));
            let reduced = |cell: usize| costs[cell] + targets[cell % m] - sources[cell / m];
            let mut pricing = Pricing::new(n * m);
            let block = pricing.block();
            prop_assert!(block == (n * m).min(FEWEST));
            let (mut next, mut searched) = (0, 0);
            for _ in 0..2 * n * m {
                let cells: Vec<usize> = (next..next + block).map(|cell| cell % (n * m)).collect();
                let least = cells.iter().map(|&cell| reduced(cell)).min().unwrap();
                prop_assert_eq!(pricing.is_done(n * m), searched >= n * m);
                let found = pricing.look(&costs, [&sources, &targets]);
                prop_assert_eq!(found.map_or(0, |found| found.reduced), least.min(0));
                if let Some(Entering { source, target, reduced: of }) = found {
                    let cell = source * m + target;
                    prop_assert!(cells.contains(&cell) && of < 0);
                    prop_assert_eq!(reduced(cell), of);
                }
                searched = if found.is_some() { 0 } else { searched + block };
                next = cells[block - 1] + 1;
            }
        }
    }

    #[test]
    fn blocks_grow_with_the_root_of_the_cells() {
        assert_eq!(Pricing::new(7).block(), 7);
        assert_eq!(Pricing::new(1000).block(), FEWEST);
        assert_eq!(Pricing::new(1_000_000).block(), 1000);
    }
}
