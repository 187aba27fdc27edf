//! Optimal transport between histograms: entropy-regularised, the Sinkhorn distance, and exact, the
//! earth mover's distance.
//!
//! ```
//! use histrs::prelude::*;
//! use ndarray::array;
//!
//! let (x, m) = (array![[1.0_f64, 0.0], [0.25, 0.75]], array![[0.0, 1.0], [1.0, 0.0]]);
//! let (exec, x) = (Executor::new(0)?, HistogramMatrix::dense(x.view()));
//! let found = sinkhorn_distances(&exec, &x, None, m.view(), &Sinkhorn::new(0.01))?;
//! assert!((found.values[[0, 1]] - 0.75).abs() < 1e-3);
//! assert_eq!(emd_distances(&exec, &x, None, m.view())?[[0, 1]], 0.75);
//! # Ok::<(), histrs::Error>(())
//! ```
//!
//! Source: Kusner, Kolkin, Tyree and Weinberger, *Image data compression for covariance and
//! histogram descriptors*, 2015 (equation 3), after Cuturi, *Sinkhorn distances: lightspeed
//! computation of optimal transport*, NIPS 2013.
//!
//! | file | concept |
//! |---|---|
//! | `emd` | [`emd_distances`]: exact, by the network simplex method |
//! | `distances` | [`sinkhorn_distances`]: all pairs, in blocks, in the cheapest domain that holds |
//! | `all_pairs` | pairs of histograms, whatever their plans are held to |
//! | `unbalanced` | [`relaxed_distances`]: all pairs of histograms whose mass need not be kept |
//! | `relaxation` | [`Relaxation`], [`Cost`]: what the marginals are held to, what is returned |
//! | `relaxed` | a step of logarithms, whether the marginals are kept or not, in every domain |
//! | `plan_sums` | the marginals and the cost of a plan, of its potentials |
//! | `masses` | [`check_masses`]: rows of one mass, which fit the cost matrix |
//! | `order` | the pairs in the order in which they are solved, and in blocks |
//! | `cascade` | when a pair is handed on to the next domain, and from where it goes on |
//! | `epsilon_scaling` | starts for the log domain from coarser regularisations |
//! | `results` | [`SinkhornDistances`]: what is kept of each pair |
//! | `flow` | whether the cells that are not forbidden let a histogram through |
//! | `pairs` | [`sinkhorn_pairs`]: chosen pairs |
//! | `barycenter` | [`sinkhorn_barycenters`]: the histograms nearest to several |
//! | `compression` | [`histogram_compression_loss`]: the objective of learned prototypes |
//! | `costs` | [`Costs`]: the cost matrix, or one for each axis of a grid |
//! | `log_blocks` | logarithms of sums of exponentials of any range, by products |
//! | `lines` | products that act on one axis of a grid after the other |
//! | `problem` | the cost matrix, and what a block of pairs needs of it |
//! | `job` | what is known of a pair before and after it is solved |
//! | `step` | what a step of the scaling is, in every domain |
//! | `lanes` | the matrices whose columns are pairs that are solved side by side |
//! | `engine` | the iteration of all lanes: filling, judging, retiring |
//! | `scaling` | a step in the exponential domain: two matrix products |
//! | `log_domain` | sums of exponentials of any range |
//! | `mixing` | Anderson's acceleration |
//! | `normal_equations` | the small systems that the acceleration solves |
//! | `newton` | the pairs that scaling brings no further |
//! | `range` | exponentials and logarithms that stay in the range of the numbers |
//! | `product` | the product of the kernel and many columns |

mod all_pairs;
mod barycenter;
mod cascade;
mod compression;
mod costs;
mod distances;
mod emd;
mod engine;
mod epsilon_scaling;
mod flow;
mod job;
mod lanes;
mod lines;
mod log_blocks;
mod log_domain;
mod masses;
mod mixing;
mod newton;
mod normal_equations;
mod order;
mod pairs;
mod plan_sums;
mod problem;
mod product;
mod range;
mod relaxation;
mod relaxed;
mod results;
mod scaling;
mod step;
mod unbalanced;

pub use barycenter::{Barycenter, Barycenters, sinkhorn_barycenters};
pub use costs::Costs;
pub use distances::{Sinkhorn, sinkhorn_distances};
pub use emd::{emd_distances, emd_pairs, emd_plan};
pub use pairs::{SinkhornPairs, sinkhorn_pairs};
pub use relaxation::{Cost, Relaxation, RelaxedSinkhorn};
pub use results::SinkhornDistances;
pub use unbalanced::relaxed_distances;
// For the bindings of Python, which has the iteration around these steps; no part of the interface.
#[doc(hidden)]
pub use {
    compression::{HistogramLoss, histogram_compression_loss},
    masses::check_masses,
};
