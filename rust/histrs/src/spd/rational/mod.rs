//! The logarithm of symmetric tridiagonal matrices as a sum of inverses, in all lanes.
//!
//! On `[1 / s, s]` the logarithm is `sum_k w_k - sum_k w_k (1 + t_k) / (z + t_k)` to 1e-16, with as
//! few terms as the condition `s^2` needs. This rational function is exact at twice as many points
//! as it has terms. Its poles are negative, so that every inverse is that of a positive definite
//! matrix, and there is neither an iteration nor a branch.
//!
//! Entries of the inverse of a tridiagonal matrix are products of ratios of its pivots, none of them
//! a difference.
//!
//! Source: N. Hale, N. J. Higham and L. N. Trefethen, *Computing A^alpha, log(A), and related matrix
//! functions by contour integrals*, SIAM J. Numer. Anal. 46, 2008; the points are those of E. L.
//! Wachspress, *The ADI model problem*, Springer 2013, squared.
//!
//! | file | concept |
//! |---|---|
//! | `approximations` | the rational functions, each for a condition |
//! | `bounds` | which of them a matrix needs |
//! | `inverses` | the sum of inverses |

mod approximations;
mod bounds;
mod inverses;

pub(crate) use bounds::{Bounds, bounds};
pub(crate) use inverses::{Scratch, logarithm};
