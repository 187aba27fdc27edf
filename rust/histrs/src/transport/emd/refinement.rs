//! Costs of very different size, in order: what whole units round away is told apart among the plans
//! that are the best without it.
//!
//! A cost is `u c + r`, with a whole number `c` of units `u` and a rest `r` of at most `u / 2`. If
//! a tree is the best for `c`, each cell has a reduced cost of `q >= 0` units. A plan costs more
//! than that of the tree by the sum of `u q + r` over its cells, up to a constant. This is a
//! problem of the same kind, in finer units. A cell of which a unit of mass costs more than all
//! rests on the way back is of no use to any best plan, and is closed. (Iterative refinement of a
//! linear program, after Gleixner, Steffy and Wolter, INFORMS Journal on Computing, 2016, in whole
//! numbers.)

use crate::error::Result;
use crate::memory;
use crate::transport::emd::ground::Ground;
use crate::transport::emd::powers::scaled;
use crate::transport::emd::problem::{BITS, Problem};
use crate::transport::emd::tree::Tree;

/// Bits of the smallest positive cost that are told apart.
const PRECISION: i32 = 40;

impl Problem {
    /// Makes the costs finer where rounding may hide a better plan than that of the tree, which is
    /// the best for them; returns whether it did.
    pub(super) fn refine(&mut self, ground: &Ground<'_>, tree: &mut Tree) -> Result<bool> {
        // Units are fine enough where the smallest positive cost has so many bits of them.
        if self.unit + PRECISION < self.smallest_exponent {
            return Ok(false);
        }
        if self.rests.is_empty() {
            self.set_rests(ground)?;
        }
        if self.rests.iter().all(|&rest| rest == 0.0 || rest == f64::INFINITY) {
            return Ok(false);
        }
        self.set_finer_costs(tree);
        tree.settle_again(&self.costs);
        Ok(true)
    }

    /// What the first units have left of the costs.
    fn set_rests(&mut self, ground: &Ground<'_>) -> Result<()> {
        let Self { sources, targets, costs, rests, .. } = self;
        memory::reserve(rests, costs.len())?;
        for (&source, units) in sources.iter().zip(costs.chunks_exact(targets.len())) {
            let row = ground.row(source);
            let cells = targets.iter().map(|&target| row[target]).zip(units);
            // Exact: what a multiple of the unit leaves of a number has fewer digits than it.
            rests.extend(cells.map(|(cost, &n)| cost - scaled(n as f64, self.unit)));
        }
        Ok(())
    }

    /// Reduced costs and rests, in units that are finer by the bits that a way of arcs leaves.
    fn set_finer_costs(&mut self, tree: &Tree) {
        let path = self.path_bits();
        let bits = BITS - 2 * path;
        let unit = self.unit - bits as i32;
        let (of_sources, of_targets) = tree.potentials.split_at(self.sources.len());
        let m = of_targets.len();
        for (i, (cost, rest)) in self.costs.iter_mut().zip(&mut self.rests).enumerate() {
            let reduced = *cost - of_sources[i / m] + of_targets[i % m];
            if *rest == f64::INFINITY || reduced > 1 << path {
                (*cost, *rest) = (1 << (bits + path), f64::INFINITY);
                continue;
            }
            let units = scaled(*rest, -unit).round();
            *rest -= scaled(units, unit);
            *cost = (reduced << bits) + units as i64;
        }
        self.unit = unit;
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array1, Array2};
    use proptest::prelude::*;

    use crate::exec::Executor;
    use crate::transport::emd_plan;

    /// Every order of the numbers below `n`.
    fn orders(n: usize) -> Vec<Vec<usize>> {
        if n == 0 {
            return vec![vec![]];
        }
        let shorter = orders(n - 1);
        let with = |order: &Vec<usize>, at| {
            let mut order = order.clone();
            order.insert(at, n - 1);
            order
        };
        shorter.iter().flat_map(|order| (0..n).map(move |at| with(order, at))).collect()
    }

    proptest! {
        /// Of bins of one mass the best plan is an assignment; costs are whole numbers of units that
        /// are far apart, and sums of each unit are compared in order.
        #[test]
        fn the_largest_costs_come_first(
            n in 1..6_usize,
            units in prop::sample::select(vec![
                vec![0, 60, 120], vec![0, 20, 40], vec![-1000, 0, 1000], vec![-1070, -1000, 0],
            ]),
            cells in prop::collection::vec((0..3_usize, 0..16_u8), 25),
        ) {
            let cell = |i: usize, j: usize| cells[i * 5 + j];
            let cost = |i, j| {
                let (unit, number) = cell(i, j);
                f64::from(number) * 2.0_f64.powi(units[unit] / 2) * 2.0_f64.powi(units[unit] - units[unit] / 2)
            };
            let m = Array2::from_shape_fn((n, n), |(i, j)| cost(i, j));
            let ones = Array1::ones(n);
            let exec = Executor::on_caller().unwrap();
            let plan = emd_plan(&exec, ones.view(), ones.view(), m.view()).unwrap().unwrap();
            let sums = |order: &[usize]| {
                let mut sums = [0_u32; 3];
                for (i, &j) in order.iter().enumerate() {
                    let (unit, number) = cell(i, j);
                    sums[2 - unit] += u32::from(number);
                }
                sums
            };
            let of_plan = |i: usize| (0..n).find(|&j| plan[[i, j]] == 1.0).unwrap();
            let found: Vec<usize> = (0..n).map(of_plan).collect();
            prop_assert_eq!(sums(&found), orders(n).iter().map(|order| sums(order)).min().unwrap());
        }
    }
}
