//! Optimal transport between histograms, entropy-regularised: the Sinkhorn distance.
//!
//! Source: Kusner, Kolkin, Tyree and Weinberger, *Image data compression for covariance and
//! histogram descriptors*, 2015 (equation 3), after Cuturi, *Sinkhorn distances: lightspeed
//! computation of optimal transport*, NIPS 2013.
//!
//! | file | concept |
//! |---|---|
//! | `distances` | [`sinkhorn_distances`]: all pairs, in blocks, in the cheapest domain that holds |
//! | `unbalanced` | [`relaxed_distances`]: all pairs of histograms whose mass need not be kept |
//! | `relaxed` | a step where the marginals are not kept, in every domain |
//! | `flow` | whether the cells that are not forbidden let a histogram through |
//! | `pairs` | [`sinkhorn_pairs`]: chosen pairs |
//! | `compression` | [`histogram_compression_loss`]: the objective of learned prototypes |
//! | `problem` | the ground distance, and what a block of pairs needs of it |
//! | `lanes` | many pairs side by side: filling, judging, retiring |
//! | `scaling` | a step in the exponential domain: two matrix products |
//! | `log_domain` | a step in the log domain, which never leaves the range of the numbers |
//! | `mixing` | Anderson's acceleration |
//! | `newton` | the pairs that scaling brings no further |
//! | `product` | the product of the kernel and many columns |

mod compression;
mod distances;
mod flow;
mod lanes;
mod log_domain;
mod mixing;
mod newton;
mod pairs;
mod problem;
mod product;
mod relaxed;
mod scaling;
mod unbalanced;

pub use compression::{HistogramLoss, histogram_compression_loss};
pub use distances::{Sinkhorn, SinkhornDistances, check_masses, sinkhorn_distances};
pub use pairs::{SinkhornPairs, sinkhorn_pairs};
pub use unbalanced::{Cost, Relaxation, RelaxedSinkhorn, relaxed_distances};
