//! The exact earth mover's distance, by the network simplex method.
//!
//! The transport between two histograms is a minimum-cost flow on the complete bipartite graph of
//! their bins. A basis of its linear program is a spanning tree. The method goes from tree to tree
//! by letting one arc in and another out, until no arc has a negative reduced cost.
//!
//! Source: Ahuja, Magnanti and Orlin, *Network Flows*, 1993, chapter 11. The trees are strongly
//! feasible (Cunningham, *A network simplex method*, Mathematical Programming, 1976). Masses, costs
//! and potentials are whole numbers. So the method ends, even if the problem is degenerate. A step
//! that moves mass lowers the cost, a step that moves none lowers the sum of the potentials below
//! it, and neither is rounded.
//!
//! | file | concept |
//! |---|---|
//! | `distances` | [`emd_distances`], [`emd_pairs`], [`emd_plan`] |
//! | `histograms` | masses in whole units, of which all histograms have the same number |
//! | `ground` | the cost matrix, and whether it is a metric |
//! | `problem` | the bins of a pair that exchange mass, and their costs in whole units |
//! | `simplex` | from the first tree to the best |
//! | `start` | the first tree, from cheap cells |
//! | `tree` | the spanning tree, its flows and potentials, and a step from one to the next |
//! | `pricing` | the arc that enters |
//! | `refinement` | costs of very different size, in order |
//! | `powers` | powers of two, by which units are chosen |

mod distances;
mod ground;
mod histograms;
mod powers;
mod pricing;
mod problem;
mod refinement;
mod simplex;
mod start;
mod tree;

pub use distances::{emd_distances, emd_pairs, emd_plan};
