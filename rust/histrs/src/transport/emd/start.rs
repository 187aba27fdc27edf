//! The first tree, from cheap cells.
//!
//! Row after row, a source gives to the cheapest target that still takes mass (the row minimum
//! rule). Each cell ends a source or a target, which becomes the child of the other. If it ends
//! both, the target is the child, and the source goes on with nothing to give. Its arc without flow
//! goes up, so that the tree is strongly feasible.

use pulp::{Simd, WithSimd};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::simd::dispatch;
use crate::transport::emd::pricing::least;
use crate::transport::emd::problem::Problem;
use crate::transport::emd::tree::Tree;

/// A cost that is above all others, and to which one may be added.
const CLOSED: i64 = i64::MAX / 2;

/// Makes a strongly feasible tree; what sources and targets have left goes to nothing.
pub(super) fn start(exec: &Executor, problem: &mut Problem, tree: &mut Tree) -> Result<()> {
    let Problem { supplies, demands, costs, .. } = problem;
    let (n, m) = (supplies.len(), demands.len());
    tree.clear(n, m)?;
    // Until potentials are known, a target that has ended has this in their place.
    let mut root = None;
    for (source, supply) in supplies.iter_mut().enumerate() {
        exec.check()?;
        let row = &costs[source * m..][..m];
        loop {
            let Some(target) = dispatch(Cheapest { row, closed: &tree.potentials[n..] }) else {
                root = Some(source);
                break;
            };
            if *supply < demands[target] {
                demands[target] -= *supply;
                tree.attach(source, n + target, *supply);
                break;
            }
            *supply -= demands[target];
            tree.attach(n + target, source, demands[target]);
            tree.potentials[n + target] = CLOSED;
        }
    }
    // The last source ends the last target, since there is as much on both sides.
    let root = root.filter(|&root| root + 1 == n && supplies[root] == 0);
    let root = root.ok_or(Error::Internal("a histogram has more units of mass than another"))?;
    tree.settle(root, costs);
    Ok(())
}

/// The cheapest target that has not ended.
struct Cheapest<'a> {
    row: &'a [i64],
    closed: &'a [i64],
}

impl WithSimd for Cheapest<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Option<usize> {
        let Self { row, closed } = self;
        let wanted = least(row, closed);
        if wanted >= CLOSED {
            return None;
        }
        row.iter().zip(closed).position(|(c, p)| c + p == wanted)
    }
}
