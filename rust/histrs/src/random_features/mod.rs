//! Random Fourier features of kernels on histograms.
//!
//! Source: Li, Lebanon and Sminchisescu, *Chebyshev approximations to the histogram chi-square
//! kernel*, CVPR 2012, algorithm 1, whose projection is replaced by the structured one of Yu,
//! Suresh, Choromanski, Holtmann-Rice and Kumar, *Orthogonal random features*, NIPS 2016.
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
