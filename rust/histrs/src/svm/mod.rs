//! The support vector machine with the intersection kernel, learned in input space, and the steps
//! of a bundle solver for any kernel.
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
//! | `score` | [`scores_into`]: all classes in one pass over the rows |
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
pub use line::{Line, LineLoss, LineMut, Tangent, Targets};
pub use line_search::{LineMinimum, LineNorm};
pub use loss::Loss;
pub use score::{ColumnUnits, scores_into};
pub use simplex::simplex_maximum;
