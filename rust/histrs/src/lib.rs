//! Kernels for learning on **histograms** at the cost of linear learning.
//!
//! | module | what it computes |
//! |---|---|
//! | [`chi2`] | the chi-square, Hellinger and Jensen-Shannon kernels, and feature maps of the chi-square kernel |
//! | [`detection`] | object detection with deformable parts on codes of gradient histograms |
//! | [`intersection`] | products with the histogram intersection kernel matrix without forming it, its score tables, its Gram blocks, its generalisations and their gradients, and the projection that preconditions it |
//! | [`moments`] | sparse linear models of squared error, learned from moments alone: the lasso and the group lasso |
//! | [`neighborhood`] | the labels that prototypes are learned from, and the weights of samples |
//! | [`quantization`] | product quantisation: nearest codewords, and linear learning on the codes |
//! | [`random_features`] | random features of the exponential chi-square kernel, by structured or dense projections |
//! | [`sparse_maps`] | sparse feature maps: a point on a few landmarks, for additive and for all kernels |
//! | [`spd`] | distances between symmetric positive definite matrices: Jensen-Bregman log-det divergence, affine-invariant Riemannian metric |
//! | [`svm`] | the support vector machine with the intersection kernel, learned in input space; the losses, the line search and the dual of the bundle solver |
//! | [`transport`] | optimal transport: Sinkhorn distances of all pairs, the objective of learned prototypes, exact earth mover's distances |
//!
//! Everything takes an [`Executor`] (threads and interrupts) and [`ndarray`] views, returns owned
//! arrays or a typed [`Error`], gives the same bits for any number of threads, and chooses the
//! instruction set of the machine at run time.
//!
//! # Example
//!
//! The product of the kernel matrix `K[i, j] = sum_d min(x_i(d), x_j(d))` with a vector, in time
//! linear in the number of stored values:
//!
//! ```
//! use histrs::{Executor, HistogramMatrix, intersection::SortedColumns};
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

pub mod chi2;
pub mod detection;
mod error;
mod exec;
pub mod intersection;
mod matrix;
mod memory;
pub mod moments;
pub mod neighborhood;
mod pairwise;
pub mod quantization;
pub mod random_features;
#[allow(unsafe_code)]
mod simd;
pub mod sparse_maps;
pub mod spd;
pub mod svm;
pub mod transport;

pub use error::{Error, Result};
pub use exec::{Executor, most_threads};
pub use matrix::{CsrParts, CsrView, HistogramMatrix};
/// The arrays of arguments and results, of the version that this crate is built with.
pub use ndarray;
pub use simd::{Element, Real, instruction_set, instruction_sets};

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
