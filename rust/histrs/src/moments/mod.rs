//! Sparse linear models of squared error, learned from moments of the rows, which are its sufficient
//! statistics.
//!
//! The squared error of a linear model depends on the rows through `G = X^T X / n`,
//! `v = X^T y / n` and `y^T y / n` only. Source: Li, Lebanon and Sminchisescu, *Chebyshev
//! approximations to the histogram chi-square kernel*, CVPR 2012, section 6.
//!
//! | file | concept |
//! |---|---|
//! | `problem` | [`LassoProblem`]: what is minimised; [`Penalty`] |
//! | `block` | the exact minimiser over one group of coefficients |
//! | `descent` | [`group_lasso_path`]: block coordinate descent, targets in parallel |
//! | `extrapolation` | Anderson's extrapolation of the iterates of a descent |
//! | `gap` | the duality gap that certifies a solution |

mod block;
mod descent;
mod extrapolation;
mod gap;
mod problem;

pub use descent::{LassoPath, Stop, group_lasso_path};
pub use problem::{LassoProblem, Penalty};
