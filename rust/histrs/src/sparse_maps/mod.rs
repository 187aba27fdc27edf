//! Sparse feature maps: a point as a combination of a few landmarks in the kernel's space.
//!
//! ```
//! use histrs::{kernels::AdditiveKernel, prelude::*, sparse_maps::SparseAdditiveMap};
//! use ndarray::array;
//!
//! let map = SparseAdditiveMap::new(AdditiveKernel::Intersection, &[1.0, 2.0, 4.0], &[0, 3])?;
//! let x = array![[2.5]];
//! let features = map.transform(&Executor::new(0)?, &HistogramMatrix::dense(x.view()))?;
//! assert_eq!((features.indices, features.data), (vec![1, 2], vec![0.75, 0.25]));
//! # Ok::<(), histrs::Error>(())
//! ```
//!
//! A point `x` is projected on the span of a few of the landmarks `z_1, ..., z_D`; with
//! `Phi(x)` its coordinates, the kernel becomes `Phi(x)^T K_ZZ Phi(y)`, where
//! `K_ZZ[i, j] = k(z_i, z_j)`.
//!
//! Source: Vedaldi and Zisserman, *Sparse kernel approximations for efficient classification and
//! detection*, CVPR 2012; equation numbers below are of that paper. The coordinates of a value on the
//! knots around it (eqs. 5, 8, 9) are with the other forms of each kernel, in [`kernels`](crate::kernels).
//!
//! | file | concept | equation |
//! |---|---|---|
//! | `additive` | [`SparseAdditiveMap`]: every value on the two knots around it | |
//! | `quantiles` | [`column_quantiles`]: knots where the data is | |
//! | `selection` | [`sparse_codes`]: which landmarks serve a point of any kernel | eq. 7 |

mod additive;
mod quantiles;
mod selection;

pub use additive::SparseAdditiveMap;
pub use quantiles::column_quantiles;
pub use selection::{Selection, sparse_codes};
