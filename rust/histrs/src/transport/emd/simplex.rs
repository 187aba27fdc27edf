//! From the first tree to the best.

use crate::error::Result;
use crate::exec::Executor;
use crate::transport::emd::ground::Ground;
use crate::transport::emd::pricing::{Entering, Pricing};
use crate::transport::emd::problem::Problem;
use crate::transport::emd::start::start;
use crate::transport::emd::tree::Tree;

/// Cells and nodes that are looked at between two looks for an interrupt.
const WORK: usize = 1 << 20;

/// Makes the tree the best of a problem, whose sources and targets then have nothing left.
pub(super) fn solve(
    exec: &Executor,
    problem: &mut Problem,
    ground: &Ground<'_>,
    tree: &mut Tree,
) -> Result<()> {
    exec.check()?;
    if problem.supplies.is_empty() && problem.demands.is_empty() {
        return tree.clear(0, 0);
    }
    start(exec, problem, tree)?;
    improve(exec, problem, tree)?;
    while problem.refine(ground, tree)? {
        improve(exec, problem, tree)?;
    }
    Ok(())
}

/// Goes from tree to tree until no arc has a negative reduced cost.
fn improve(exec: &Executor, problem: &Problem, tree: &mut Tree) -> Result<()> {
    let (n, costs) = (problem.supplies.len(), &problem.costs);
    let mut pricing = Pricing::new(costs.len());
    let mut work = 0;
    while !pricing.is_done(costs.len()) {
        let potentials = tree.potentials.split_at(n);
        let found = pricing.look(costs, potentials.into());
        work += pricing.block();
        if let Some(Entering { source, target, reduced }) = found {
            work += tree.pivot(source, n + target, reduced);
        }
        if work > WORK {
            exec.check()?;
            work = 0;
        }
    }
    Ok(())
}
