//! The spanning tree, its flows and potentials, and a step from one to the next.
//!
//! Nodes are the sources, and after them the targets. The tree has a root, and each other node an arc
//! to its parent: from a source to a target, whichever of them is below. It is *strongly feasible*
//! where every arc without flow goes up: then each node could send mass to the root.

use crate::error::Result;
use crate::memory;

/// A node that is not there.
const NONE: usize = usize::MAX;

#[derive(Clone, Copy)]
struct Node {
    parent: usize,
    /// The first below, and those beside it.
    child: usize,
    next: usize,
    previous: usize,
    depth: usize,
    /// On the arc to or from the parent.
    flow: i64,
}

const ALONE: Node =
    Node { parent: NONE, child: NONE, next: NONE, previous: NONE, depth: 0, flow: 0 };

#[derive(Default)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The reduced cost of an arc is its cost, less the potential of its source, plus that of its
    /// target; arcs of the tree have none.
    pub(super) potentials: Vec<i64>,
    n_sources: usize,
    root: usize,
}

/// The arc that leaves: above which node, and on which side of the one that enters.
struct Leaving {
    node: usize,
    flow: i64,
    above_source: bool,
}

impl Tree {
    /// Nodes without arcs.
    pub(super) fn clear(&mut self, n_sources: usize, n_targets: usize) -> Result<()> {
        let n = n_sources + n_targets;
        self.nodes.clear();
        memory::resize(&mut self.nodes, n, ALONE)?;
        self.potentials.clear();
        memory::resize(&mut self.potentials, n, 0)?;
        self.n_sources = n_sources;
        self.root = 0;
        Ok(())
    }

    /// Hangs a tree, whose root is `child`, below a node of another.
    pub(super) fn attach(&mut self, child: usize, parent: usize, flow: i64) {
        let next = self.nodes[parent].child;
        self.nodes[parent].child = child;
        if next != NONE {
            self.nodes[next].previous = child;
        }
        let node = &mut self.nodes[child];
        (node.parent, node.next, node.previous, node.flow) = (parent, next, NONE, flow);
    }

    fn detach(&mut self, child: usize) {
        let Node { parent, next, previous, .. } = self.nodes[child];
        if previous == NONE {
            self.nodes[parent].child = next;
        } else {
            self.nodes[previous].next = next;
        }
        if next != NONE {
            self.nodes[next].previous = previous;
        }
    }

    /// Visits a node and all below it, each after its parent; returns their number.
    fn visit(&mut self, top: usize, mut each: impl FnMut(&mut Self, usize)) -> usize {
        let (mut at, mut n) = (top, 0);
        loop {
            each(self, at);
            n += 1;
            let Node { child, .. } = self.nodes[at];
            if child != NONE {
                at = child;
                continue;
            }
            while at != top && self.nodes[at].next == NONE {
                at = self.nodes[at].parent;
            }
            if at == top {
                return n;
            }
            at = self.nodes[at].next;
        }
    }

    /// Makes the potentials of a tree whose root is known: of arcs of these costs.
    pub(super) fn settle(&mut self, root: usize, costs: &[i64]) {
        self.root = root;
        self.settle_again(costs);
    }

    /// Makes the potentials of the same tree, of arcs of other costs.
    pub(super) fn settle_again(&mut self, costs: &[i64]) {
        let (n, m) = (self.n_sources, self.nodes.len() - self.n_sources);
        let root = self.root;
        self.potentials[root] = 0;
        self.visit(root, |tree, at| {
            let Node { parent, .. } = tree.nodes[at];
            if parent == NONE {
                return;
            }
            tree.nodes[at].depth = tree.nodes[parent].depth + 1;
            let above = tree.potentials[parent];
            tree.potentials[at] = if at < n {
                above + costs[at * m + parent - n]
            } else {
                above - costs[parent * m + at - n]
            };
        });
    }

    /// Lets the arc between two nodes in, of a negative reduced cost, and another out; returns how
    /// many nodes were looked at.
    pub(super) fn pivot(&mut self, source: usize, target: usize, reduced: i64) -> usize {
        let (apex, leaving) = self.cycle(source, target);
        if leaving.flow > 0 {
            self.shift(source, apex, leaving.flow, true);
            self.shift(target, apex, leaving.flow, false);
        }
        let (inside, outside, change) = if leaving.above_source {
            (source, target, reduced)
        } else {
            (target, source, -reduced)
        };
        self.turn(inside, outside, &leaving);
        self.visit(inside, |tree, at| {
            tree.potentials[at] += change;
            tree.nodes[at].depth = tree.nodes[tree.nodes[at].parent].depth + 1;
        })
    }

    /// Whether mass on the arc above a node goes down as some enters on the cycle's side.
    fn gives(&self, node: usize, beside_source: bool) -> bool {
        (node < self.n_sources) == beside_source
    }

    /// Climbs both ways from the arc that enters to where they meet, and finds the arc that is
    /// emptied first. Of several it takes the last, in the direction of the flow from the top of
    /// the cycle, which keeps the tree strongly feasible.
    fn cycle(&self, source: usize, target: usize) -> (usize, Leaving) {
        let (mut left, mut right) = (source, target);
        let mut leaving = Leaving { node: source, flow: i64::MAX, above_source: true };
        while left != right {
            let (on_left, on_right) = (&self.nodes[left], &self.nodes[right]);
            if on_left.depth >= on_right.depth {
                if self.gives(left, true) && on_left.flow < leaving.flow {
                    // A tie with the other side is the other's.
                    leaving = Leaving { node: left, flow: on_left.flow, above_source: true };
                }
                left = on_left.parent;
            } else {
                if self.gives(right, false) && on_right.flow <= leaving.flow {
                    leaving = Leaving { node: right, flow: on_right.flow, above_source: false };
                }
                right = on_right.parent;
            }
        }
        (left, leaving)
    }

    /// Moves mass on the arcs from a node up to another.
    fn shift(&mut self, from: usize, to: usize, flow: i64, beside_source: bool) {
        let mut at = from;
        while at != to {
            let gives = self.gives(at, beside_source);
            let node = &mut self.nodes[at];
            node.flow += if gives { -flow } else { flow };
            at = node.parent;
        }
    }

    /// Cuts a part off where an arc leaves, and hangs it below the arc that enters.
    fn turn(&mut self, inside: usize, outside: usize, leaving: &Leaving) {
        let (mut at, mut parent, mut flow) = (inside, outside, leaving.flow);
        loop {
            let Node { parent: above, flow: own, .. } = self.nodes[at];
            self.detach(at);
            self.attach(at, parent, flow);
            if at == leaving.node {
                return;
            }
            (parent, flow, at) = (at, own, above);
        }
    }

    /// Every arc of the tree: source, target, flow.
    pub(super) fn arcs(&self) -> impl Iterator<Item = (usize, usize, i64)> {
        let n = self.n_sources;
        self.nodes.iter().enumerate().filter(|(_, node)| node.parent != NONE).map(
            move |(at, node)| {
                let (source, target) = if at < n { (at, node.parent) } else { (node.parent, at) };
                (source, target - n, node.flow)
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::Executor;
    use crate::random::Random;
    use crate::transport::emd::problem::Problem;
    use crate::transport::emd::start::start;
    use proptest::prelude::*;

    /// A problem of whole masses, and a sequence of numbers to draw from.
    struct Sample {
        problem: Problem,
        draws: Random,
    }

    impl Sample {
        fn new(n: usize, m: usize, [most, costs]: [usize; 2], seed: u64) -> Self {
            let mut sample = Self { problem: Problem::default(), draws: Random(seed) };
            let mut masses =
                |n: usize| (0..n).map(|_| 1 + sample.draws.below(most) as i64).collect::<Vec<_>>();
            let (mut supplies, mut demands) = (masses(n), masses(m));
            let excess = supplies.iter().sum::<i64>() - demands.iter().sum::<i64>();
            // The side that has less has the rest in its first bin.
            supplies[0] += (-excess).max(0);
            demands[0] += excess.max(0);
            let costs = (0..n * m).map(|_| sample.draws.below(costs) as i64).collect();
            sample.problem = Problem {
                sources: (0..n).collect(),
                targets: (0..m).collect(),
                supplies,
                demands,
                costs,
                ..Problem::default()
            };
            sample
        }
    }

    /// A spanning tree of all nodes whose flows are what its sources and targets have, whose
    /// potentials are those of its arcs, and in which arcs without flow go up.
    fn check(tree: &Tree, [supplies, demands]: [&[i64]; 2], costs: &[i64]) {
        let (n, m) = (supplies.len(), demands.len());
        let mut left = [supplies, demands].concat();
        let mut arcs = 0;
        for (source, target, flow) in tree.arcs() {
            assert!(flow >= 0);
            left[source] -= flow;
            left[n + target] -= flow;
            arcs += 1;
            let potentials = tree.potentials[source] - tree.potentials[n + target];
            assert_eq!(costs[source * m + target], potentials);
        }
        assert!(arcs == n + m - 1 && left.iter().all(|&left| left == 0), "{left:?}");
        let mut seen = vec![(tree.root, NONE, NONE, 0)];
        let mut n_seen = 0;
        while let Some((at, parent, previous, depth)) = seen.pop() {
            let node = &tree.nodes[at];
            assert_eq!((node.parent, node.depth), (parent, depth));
            assert!(node.flow > 0 || at < n || parent == NONE, "an arc without flow goes down");
            n_seen += 1;
            assert!(n_seen <= n + m);
            if parent != NONE {
                assert_eq!(node.previous, previous);
                assert!(node.next == NONE || tree.nodes[node.next].previous == at);
                if node.next != NONE {
                    seen.push((node.next, parent, at, depth));
                }
            }
            if node.child != NONE {
                seen.push((node.child, at, NONE, depth + 1));
            }
        }
        assert_eq!(n_seen, n + m);
    }

    proptest! {
        #[test]
        fn every_tree_on_the_way_is_strongly_feasible(
            n in 1_usize..12,
            m in 1_usize..12,
            sizes in prop::sample::select(&[[1, 1], [1, 9], [3, 2], [3, 1000]][..]),
            seed: u64,
        ) {
            let mut sample = Sample::new(n, m, sizes, seed);
            let (supplies, demands) = (sample.problem.supplies.clone(), sample.problem.demands.clone());
            let costs = sample.problem.costs.clone();
            let exec = Executor::on_caller().unwrap();
            let mut tree = Tree::default();
            // What another problem left is cleared.
            tree.clear(3, 5).unwrap();
            start(&exec, &mut sample.problem, &mut tree).unwrap();
            check(&tree, [&supplies, &demands], &costs);
            let objective = |tree: &Tree| -> i64 {
                tree.arcs().map(|(source, target, flow)| flow * costs[source * m + target]).sum()
            };
            let mut before = objective(&tree);
            for round in 0.. {
                let reduced = |cell: usize| {
                    costs[cell] - tree.potentials[cell / m] + tree.potentials[n + cell % m]
                };
                let negative: Vec<usize> = (0..n * m).filter(|&cell| reduced(cell) < 0).collect();
                if negative.is_empty() {
                    break;
                }
                let cell = negative[sample.draws.below(negative.len())];
                let visited = tree.pivot(cell / m, n + cell % m, reduced(cell));
                prop_assert!((1..n + m).contains(&visited), "{visited}");
                check(&tree, [&supplies, &demands], &costs);
                let now = objective(&tree);
                prop_assert!(now <= before && round < 5000);
                before = now;
            }
        }

        #[test]
        fn the_first_tree_gives_to_the_cheapest_targets_that_are_open(
            n in 1_usize..12,
            m in 1_usize..12,
            seed: u64,
        ) {
            let mut sample = Sample::new(n, m, [9, 1 << 20], seed);
            let mut want = vec![0; n * m];
            let mut demands = sample.problem.demands.clone();
            let costs = sample.problem.costs.clone();
            for (source, &supply) in sample.problem.supplies.iter().enumerate() {
                let mut order: Vec<usize> = (0..m).collect();
                order.sort_by_key(|&target| costs[source * m + target]);
                let mut left = supply;
                for target in order {
                    let flow = left.min(demands[target]);
                    want[source * m + target] = flow;
                    demands[target] -= flow;
                    left -= flow;
                }
            }
            let exec = Executor::on_caller().unwrap();
            let mut tree = Tree::default();
            start(&exec, &mut sample.problem, &mut tree).unwrap();
            let mut found = vec![0; n * m];
            tree.arcs().for_each(|(source, target, flow)| found[source * m + target] = flow);
            prop_assert_eq!(found, want);
        }
    }

    #[test]
    fn unequal_masses_are_an_error() {
        let exec = Executor::on_caller().unwrap();
        for (supplies, demands) in
            [(vec![3, 2], vec![4]), (vec![4], vec![2, 3]), (vec![1, 4], vec![4])]
        {
            let n = supplies.len() * demands.len();
            let mut problem =
                Problem { supplies, demands, costs: vec![1; n], ..Problem::default() };
            assert!(start(&exec, &mut problem, &mut Tree::default()).is_err());
        }
    }
}
