//! Sparse linear models of squared error, learned from moments of the rows, which are its sufficient
//! statistics.
//!
//! ```
//! use histrs::{Executor, moments::{LassoParameters, LassoProblem, Penalty, group_lasso_path}};
//! use ndarray::array;
//!
//! let (gram, cross, squares) = (array![[1.0, 0.0], [0.0, 1.0]], array![[3.0, -0.5]], array![10.0]);
//! let problem = LassoProblem::new(
//!     gram.view(), cross.view(), squares.view(), &[1, 2], &[1.0, 1.0],
//! )?;
//! let (exec, penalties) = (Executor::new(0)?, [Penalty::new(1.0)]);
//! let path = group_lasso_path(&exec, &problem, &penalties, LassoParameters::default())?;
//! assert_eq!(path.coefficients, array![[[2.0, 0.0]]]);
//! # Ok::<(), histrs::Error>(())
//! ```
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

pub use descent::{LassoParameters, LassoPath, group_lasso_path};
pub use problem::{LassoProblem, Penalty};
