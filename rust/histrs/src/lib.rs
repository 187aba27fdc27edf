//! Gaussian processes and kernels for tables, **histograms** and covariance matrices.
//!
//! | module | what it computes |
//! |---|---|
//! | [`chi2`] | feature maps of the chi-square kernel |
//! | [`clustering`] | nearest centres of all rows, and k-means |
//! | [`detection`] | object detection with deformable parts on codes of gradient histograms |
//! | [`distances`] | kernels of one weighted distance between rows of numbers and categories, and their slopes in all parameters at once |
//! | [`intersection`] | products with the histogram intersection kernel matrix without forming it, its score tables, its generalisations and their gradients, and the projection that preconditions it |
//! | [`kernels`] | kernels and distances of all pairs of rows: intersection, chi-square, Hellinger, Jensen-Shannon, MinMax, cubic splines |
//! | [`levels`] | columns coded as levels: co-occurrence, sums, look-ups, quadratic forms |
//! | [`model`] | models that Python fitted and saved, served without Python |
//! | [`moments`] | sparse linear models of squared error, learned from moments alone: the lasso and the group lasso |
//! | [`quantization`] | product quantisation: nearest codewords, and linear learning on the codes |
//! | [`random_features`] | random features of the exponential chi-square kernel, by structured or dense projections |
//! | [`sparse_maps`] | sparse feature maps: a point on a few landmarks, for additive and for all kernels |
//! | [`spd`] | distances between symmetric positive definite matrices: Jensen-Bregman log-det divergence, affine-invariant Riemannian metric |
//! | [`svm`] | the support vector machine with the intersection kernel, learned in input space; the losses, the line search and the dual of the bundle solver |
//! | [`transport`] | optimal transport: Sinkhorn distances of all pairs, the objective of learned prototypes, exact earth mover's distances |
//!
//! Functions take an [`Executor`] (threads and interrupts) and [`ndarray`] views, and return owned
//! arrays or a typed [`Error`]. Results have the same bits for any number of threads. The
//! instruction set of the machine is chosen at run time.
//!
//! Numbers of rows, offsets and ends of groups that a caller gives in arrays are signed, as in
//! NumPy, SciPy and this crate's own [`CsrParts`]. They are read where they lie. A negative one is
//! refused, like one that is too large. Labels are any integers, of which only equality counts.
//!
//! # Features
//!
//! Each module is a feature of its name, with hyphens for underscores. `default` is `all`; what uses one
//! part compiles no other with `default-features = false, features = ["spd"]`.
//! The seconds are those of one core for `cargo build` without the dependencies; `all` takes 44.
//!
//! | feature | brings | seconds |
//! |---|---|---|
//! | `chi2` | | 4 |
//! | `clustering` | | 3 |
//! | `detection` | `quantization` | 6 |
//! | `distances` | | 5 |
//! | `intersection` | `kernels` | 14 |
//! | `kernels` | | 2 |
//! | `levels` | | 4 |
//! | `model` | `distances`, `intersection`, serde_json | 17 |
//! | `moments` | | 4 |
//! | `proptest` | the module `testing`, and proptest; not in `all` | 4 |
//! | `quantization` | `clustering`, `kernels` | 5 |
//! | `random-features` | `chi2` | 4 |
//! | `sparse-maps` | `kernels` | 4 |
//! | `spd` | | 15 |
//! | `svm` | | 5 |
//! | `transport` | | 9 |
//!
//! # Examples
//!
//! [`prelude`] has the names that most programs use, and the page of each module begins with an example.
//! The product of the kernel matrix `K[i, j] = sum_d min(x_i(d), x_j(d))` with a vector, in time
//! linear in the number of stored values:
//!
//! ```
//! use histrs::prelude::*;
//! use ndarray::array;
//!
//! let exec = Executor::new(2)?;
//! let x = array![[1.0, 2.0], [3.0, 0.0], [2.0, 5.0]];
//! let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view()))?;
//! let product = columns.product(&exec, array![[1.0], [0.0], [-1.0]].view())?;
//! assert_eq!(product, array![[0.0], [-1.0], [-4.0]]);
//! # Ok::<(), histrs::Error>(())
//! ```

#![deny(unsafe_code)]
// What parts share is not used by each of them.
#![cfg_attr(not(feature = "all"), allow(dead_code, unused_imports, unused_macros))]

#[cfg(feature = "chi2")]
pub mod chi2;
#[cfg(feature = "clustering")]
pub mod clustering;
#[cfg(feature = "detection")]
pub mod detection;
#[cfg(feature = "distances")]
pub mod distances;
mod error;
mod exec;
#[cfg(feature = "intersection")]
pub mod intersection;
#[cfg(feature = "kernels")]
pub mod kernels;
#[cfg(feature = "levels")]
pub mod levels;
mod lower_triangle;
mod matrix;
mod memory;
#[cfg(feature = "model")]
pub mod model;
#[cfg(feature = "moments")]
pub mod moments;
// For the bindings: steps of models of prototypes, whose iteration is in Python.
#[doc(hidden)]
pub mod neighborhood;
mod pairwise;
pub mod prelude;
#[cfg(feature = "quantization")]
pub mod quantization;
mod random;
#[cfg(feature = "random-features")]
pub mod random_features;
#[allow(unsafe_code)]
mod simd;
mod small_matrix;
#[cfg(feature = "sparse-maps")]
pub mod sparse_maps;
#[cfg(feature = "spd")]
pub mod spd;
mod stop;
#[cfg(feature = "svm")]
pub mod svm;
#[cfg(feature = "proptest")]
pub mod testing;
#[cfg(feature = "transport")]
pub mod transport;

pub use error::{Error, Result, Value};
pub use exec::{Executor, most_threads};
pub use matrix::{CsrParts, CsrView, HistogramMatrix};
/// The arrays of arguments and results, of the version that this crate is built with.
pub use ndarray;
pub use simd::{Element, Real, instruction_set, instruction_sets};
pub use stop::Stop;

/// The example of the README is a test.
#[cfg(all(doctest, feature = "intersection", feature = "model"))]
#[doc = include_str!("../README.md")]
struct Readme;
