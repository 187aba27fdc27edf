//! Nearest centres, exactly, and centres learned by k-means.
//!
//! ```
//! use histrs::prelude::*;
//! use ndarray::array;
//!
//! let x = array![[0.0, 1.0], [0.0, 3.0], [8.0, 0.0], [8.0, 2.0]];
//! let found = k_means(&Executor::new(0)?, x.view(), 2, KMeansParameters::default())?;
//! assert_eq!(found.inertia, 4.0);
//! # Ok::<(), histrs::Error>(())
//! ```
//!
//! Inner products of rows and centres are first computed of bytes, four times as fast as in single
//! precision, with a bound of what rounding to bytes has changed. Distances in double precision
//! then decide between the few centres that the bound leaves, so that the result is the nearest
//! centre and not a likely one. Sources: Lloyd, *Least squares quantization in PCM*, IEEE
//! Transactions on Information Theory 1982. Arthur and Vassilvitskii, *k-means++: the advantages of
//! careful seeding*, SODA 2007. Hamerly, *Making k-means even faster*, SDM 2010.
//!
//! | file | concept |
//! |---|---|
//! | `frame` | coordinates about a centre, in units of a power of two, and exact distances in them |
//! | `bytes` | rows rounded to bytes, and what that changed |
//! | `panels` | rows side by side: scores of all of them with a few others, and the bound of their errors |
//! | `nearest` | [`nearest_centers`]: the nearest centres of all rows |
//! | `seeding` | the first centres: k-means++, the best of a few candidates each |
//! | `means` | the means of the rows of each centre |
//! | `k_means` | [`k_means`]: first centres, and the iteration from them |
//! | `lloyd` | Lloyd's iteration, with bounds that are carried from pass to pass |

mod bytes;
mod frame;
mod k_means;
mod lloyd;
mod means;
mod nearest;
mod panels;
mod seeding;

pub use k_means::{KMeansParameters, k_means};
pub use lloyd::KMeans;
pub use nearest::nearest_centers;

/// Rows of a block.
const ROWS: usize = 1024;

/// The rows of a block.
fn block_of<T>(x: &[T], n_columns: usize, block: usize) -> &[T] {
    let end = ((block + 1) * ROWS * n_columns).min(x.len());
    &x[block * ROWS * n_columns..end]
}
