//! Kernels of one weighted distance between rows, and their slopes in all parameters at once.
//!
//! ```
//! use histrs::{Executor, distances::{DistanceKernel, Norm, Shape}};
//! use ndarray::array;
//!
//! let exec = Executor::new(2)?;
//! let x = array![[0.0], [1.0], [3.0]];
//! let shapes = vec![Shape::Laplace(2.0)];
//! let kernel = DistanceKernel::new(Norm::L1, 1, vec![1.0], shapes, vec![1.0, 0.0, 0.0])?;
//! let k = kernel.gram(&exec, x.view(), None)?;
//! assert!((k[[0, 2]] - (-1.5_f64).exp()).abs() < 1e-14);
//! # Ok::<(), histrs::Error>(())
//! ```
//!
//! Rows have columns of numbers and columns of categories. Their distance is
//! `sum_d w_d |x_d - y_d|`, or the root of `sum_d w_d^2 (x_d - y_d)^2`; two categories are 0 or 1
//! apart. A [`DistanceKernel`] is a mixture of functions of that distance. Neither the matrix nor its
//! slopes ask for a matrix of one column: a tile of pairs meets all columns while it is in the cache.
//!
//! | file | concept |
//! |---|---|
//! | `kernel` | the mixture, its parameters and their order |
//! | `rows` | rows laid out column by column, each times its weight |
//! | `blocks` | distances of a few rows to a block of others |
//! | `tile` | functions of the distances of one row to a block, and sums by column |
//! | `curve` | the kernel as a function of the distance alone, from a table |
//! | `matrix` | the kernel between any rows |
//! | `product` | the kernel between any rows, times weights of the others |
//! | `scores` | the same with all that can be made beforehand |
//! | `slopes` | sums of slopes of the kernel matrix, by parameter |
//! | `stored` | the kernel of all pairs in two bytes each, for products |

mod blocks;
mod curve;
mod kernel;
mod matrix;
mod product;
mod rows;
mod scores;
mod slopes;
mod stored;
mod tile;

pub use kernel::{DistanceKernel, Norm, Shape};
pub use slopes::Slopes;
// For the bindings of Python, which has the iteration around these steps; no part of the interface.
#[doc(hidden)]
pub use scores::DistanceScores;
#[doc(hidden)]
pub use stored::StoredDistances;
