//! Random Fourier features of kernels on histograms.
//!
//! ```
//! use histrs::chi2::AdditiveMap;
//! use histrs::{Executor, HistogramMatrix, random_features::ExpChi2Features};
//! use ndarray::array;
//!
//! let features = ExpChi2Features::with_seed(AdditiveMap::chebyshev(5)?, 2, 4000, 1.0, 7)?;
//! let x = array![[0.2, 0.8], [0.5, 0.5]];
//! let z = features.transform(&Executor::new(0)?, &HistogramMatrix::dense(x.view()))?;
//! let chi2 = 0.3_f64.powi(2) / 0.7 + 0.3_f64.powi(2) / 1.3;
//! assert!((z.row(0).dot(&z.row(1)) - (-chi2).exp()).abs() < 0.1);
//! # Ok::<(), histrs::Error>(())
//! ```
//!
//! Source: Li, Lebanon and Sminchisescu, *Chebyshev approximations to the histogram chi-square
//! kernel*, CVPR 2012, algorithm 1. Its projection is replaced by the structured one of Yu, Suresh,
//! Choromanski, Holtmann-Rice and Kumar, *Orthogonal random features*, NIPS 2016.
//!
//! | file | concept |
//! |---|---|
//! | `exp_chi2` | [`ExpChi2Features`]: map, project, sine and cosine, a few rows at a time |
//! | `scores` | linear scores of the features, which are never held |
//! | `structured` | the structured projection of a row |
//! | `hadamard` | the fast Walsh-Hadamard transform |
//! | `trigonometry` | sine and cosine of phases in revolutions |

mod exp_chi2;
mod hadamard;
mod scores;
mod structured;
mod trigonometry;

pub use exp_chi2::ExpChi2Features;
