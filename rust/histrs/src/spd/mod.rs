//! Symmetric positive definite (SPD) matrices, such as covariance descriptors.
//!
//! ```
//! use histrs::prelude::*;
//! use ndarray::array;
//!
//! let (exec, x) = (Executor::new(0)?, array![[[0.25]], [[4.0]]]);
//! let distances = airm_distances(&exec, x.view(), None)?;
//! assert!((distances[[0, 1]] - 16.0_f64.ln()).abs() < 1e-12);
//! let parameters = MeanParameters::default();
//! let mean = dispersion_mean(&exec, x.view(), &[0.5, 0.5], Dispersion::Airm, parameters)?;
//! assert!((mean.matrix[[0, 0]] - 1.0).abs() < 1e-7);
//! # Ok::<(), histrs::Error>(())
//! ```
//!
//! Source: Kusner, Kolkin, Tyree and Weinberger, *Image data compression for covariance and
//! histogram descriptors*, 2015, section 2. The divergence is that of Cherian, Sra, Banerjee and
//! Papanikolopoulos, *Efficient similarity search for covariance matrices via the Jensen-Bregman
//! LogDet divergence*, ICCV 2011.
//!
//! A matrix of 20 rows is far too small to fill a processor. So everything here works on as many
//! pairs of matrices as a vector has lanes: entry `(i, j)` of eight matrices is one vector.
//!
//! | file | concept | equation |
//! |---|---|---|
//! | `stack` | a checked stack of symmetric matrices, half of each stored | |
//! | `lanes` | matrices interleaved, a lane each; where a kernel reads its entries | |
//! | `ldl` | the factorisation `A = L D L^T` in all lanes at once | |
//! | `factors` | what is kept of the factorisation of each matrix | |
//! | `ln_product` | log-determinants in all lanes | |
//! | `tridiagonal`, `eigenvalues` | Householder reduction and QL iteration in all lanes | |
//! | `rational`, `log_map` | logarithms without iteration, of matrices of moderate condition | |
//! | `pairs` | all pairs, or row by row, in blocks | |
//! | `jbld` | [`jbld_distances`], [`jbld_paired`] | eq. 1 |
//! | `airm` | [`airm_distances`], [`airm_paired`] | definition 1 |
//! | `jacobi`, `spectra` | rotations that find eigenvalues from factors; functions of `W X W^T` | |
//! | `tangent` | [`tangent_vectors`]: `log(W X W^T)` as rows | |
//! | `dispersion` | [`Dispersion`]: what means minimise, of one eigenvalue | |
//! | `mean` | [`mean_gradient`]: what means minimise, and its gradient | |
//! | `descent` | [`dispersion_mean`]: the means themselves | |
//! | `spread` | the dispersion about a matrix that moves: value, gradient, curvature | |
//! | `direction` | a symmetric matrix by its eigenvalues, whose exponential is a step | |
//! | `covariance` | [`signal_covariances`]: covariances of signals, shrunk | |
//! | `compression` | [`compression_loss`]: the objective of prototypes and its gradient | eqs. 4 to 8 |

// Lanes, and the rows of a tile, are counted: several arrays share an index.
#![allow(clippy::needless_range_loop)]

mod airm;
mod compression;
mod covariance;
mod descent;
mod direction;
mod dispersion;
mod eigenvalues;
mod factors;
mod jacobi;
mod jbld;
mod lanes;
mod ldl;
mod ln_product;
mod log_map;
mod mean;
mod pairs;
mod rational;
mod spectra;
mod spread;
mod stack;
mod tangent;
mod tridiagonal;

pub use airm::{airm_distances, airm_paired};
pub use covariance::{Shrinkage, SignalCovariances, signal_covariances};
pub use descent::{Mean, MeanParameters, dispersion_mean};
pub use dispersion::Dispersion;
pub use jbld::{jbld_distances, jbld_paired};
pub use tangent::tangent_vectors;
// For the bindings of Python, which has the iteration around these steps; no part of the interface.
#[doc(hidden)]
pub use {
    compression::{CompressionLoss, compression_loss},
    mean::{MeanGradient, mean_gradient},
};
