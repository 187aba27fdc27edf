//! Kernels and distances between rows: the one place where each is written down.
//!
//! ```
//! use histrs::prelude::*;
//! use ndarray::array;
//!
//! let x = array![[1.0, 2.0], [3.0, 0.0]];
//! let x = HistogramMatrix::dense(x.view());
//! let k = AdditiveKernel::Intersection.gram(&Executor::new(0)?, &x, None)?;
//! assert_eq!(k, array![[3.0, 1.0], [1.0, 3.0]]);
//! # Ok::<(), histrs::Error>(())
//! ```
//!
//! A kernel that is a sum over the columns has three forms. Its summand makes the matrix of all
//! pairs of rows. The squared distance that it induces finds the nearest codeword. The coordinates
//! of a value on the knots around it are sparse features. [`AdditiveKernel`] has the names of these
//! kernels.
//!
//! Sources: equation numbers of `chi2` are from Li, Lebanon and Sminchisescu, *Chebyshev
//! approximations to the histogram chi-square kernel*, CVPR 2012. Those of coordinates on knots are
//! from Vedaldi and Zisserman, *Sparse kernel approximations for efficient classification and
//! detection*, CVPR 2012. Table 1 of their *Efficient additive kernels via explicit feature maps*,
//! PAMI 2012, has all four additive kernels.
//!
//! | file | concept | equation |
//! |---|---|---|
//! | `additive` | [`AdditiveKernel`]: the kernels that are sums over the columns, by name | |
//! | `forms` | what a kernel is besides its matrix: a distance, coordinates on knots | eq. 5 |
//! | `intersection` | `min(x, y)` | eq. 8 |
//! | `chi2` | `2xy / (x + y)`; [`chi2_distances`], [`exp_chi2_gram`] | eqs. 1, 4, 9, 14 |
//! | `hellinger` | `sqrt(x y)` | |
//! | `jensen_shannon` | `(x log2((x + y) / x) + y log2((x + y) / y)) / 2` | |
//! | `minmax` | [`minmax_gram`], [`minmax_distances`]: minima over maxima, the count Tanimoto kernel | |
//! | `spline` | [`cubic_spline_gram`]: the integrated Brownian motion beside the minimum | |

mod additive;
mod chi2;
mod forms;
mod hellinger;
mod intersection;
mod jensen_shannon;
mod minmax;
mod spline;

pub use additive::AdditiveKernel;
pub use chi2::{chi2_distances, exp_chi2_gram};
pub use minmax::{minmax_distances, minmax_gram};
pub use spline::cubic_spline_gram;

pub(crate) use additive::with_kernel;
pub(crate) use chi2::Chi2;
pub(crate) use forms::{DistanceTerm, Projection};
pub(crate) use hellinger::Hellinger;
pub(crate) use intersection::Intersection;
pub(crate) use jensen_shannon::JensenShannon;
