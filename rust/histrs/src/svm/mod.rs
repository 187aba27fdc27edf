//! The support vector machine with the intersection kernel, learned in input space, and the steps
//! of a bundle solver for any kernel.
//!
//! ```
//! use histrs::{Executor, HistogramMatrix, svm::{SgdParameters, epoch, scores}};
//! use ndarray::array;
//!
//! let (exec, x, signs) = (Executor::new(0)?, array![[1.0, 0.0], [0.0, 1.0]], array![[1.0, -1.0]]);
//! let (rows, mut coef) = (HistogramMatrix::dense(x.view()), array![[0.0, 0.0]]);
//! for _ in 0..20 {
//!     let (weights, parameters) = (array![[1.0, 1.0]], SgdParameters::default());
//!     coef = epoch(&exec, &rows, signs.view(), weights.view(), &[0, 1], coef.view(), parameters)?;
//! }
//! let found = scores(&exec, &rows, None, coef.view())?;
//! assert!(found[[0, 0]] > 0.0 && found[[1, 0]] < 0.0);
//! # Ok::<(), histrs::Error>(())
//! ```
//!
//! In input space a class is a vector `w` of as many entries as there are features, and its score
//! `f(w, x) = sum_d sign(w_d) min(x_d, |w_d|)` reads each stored value once. Source: Sharma and
//! Jurie, *A novel approach for efficient SVM classification with histogram intersection kernel*,
//! BMVC 2013, algorithm 1.
//!
//! The bundle solver (cutting planes, BMRM) knows rows by their scores alone. Sources: Vedaldi and Zisserman, *Sparse
//! kernel approximations for efficient classification and detection*, CVPR 2012, section 4; Franc
//! and Sonnenburg, *Optimized cutting plane algorithm for large-scale risk minimization*, JMLR
//! 2009.
//!
//! | file | concept |
//! |---|---|
//! | `epoch` | [`epoch`]: one pass of stochastic subgradient steps, classes in parallel |
//! | `score` | [`scores`]: all classes in one pass over the rows |
//! | `loss` | [`Loss`]: losses of a margin |
//! | `line` | [`Line`]: the losses of all rows on a line between two vectors of scores |
//! | `line_search` | [`Line::minimise`]: nearly the least regularised loss on that line |
//! | `simplex` | [`simplex_maximum`]: the dual of the bundle problem |

mod epoch;
mod line;
mod line_search;
mod loss;
mod score;
mod simplex;

pub use epoch::{SgdParameters, epoch};
pub use score::{ColumnUnits, scores, scores_into};
// For the bindings of Python, which has the iteration around these steps; no part of the interface.
#[doc(hidden)]
pub use {
    line::{Line, LineLoss, LineMut, Tangent, Targets},
    line_search::{LineMinimum, LineNorm},
    loss::Loss,
    simplex::simplex_maximum,
};
