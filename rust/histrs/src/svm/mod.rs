//! The support vector machine with the intersection kernel, learned in input space.
//!
//! A class is a vector `w` of as many entries as there are features, and its score
//! `f(w, x) = sum_d sign(w_d) min(x_d, |w_d|)` reads each stored value once. Source: Sharma and
//! Jurie, *A novel approach for efficient SVM classification with histogram intersection kernel*,
//! BMVC 2013, algorithm 1.
//!
//! | file | concept |
//! |---|---|
//! | `epoch` | [`epoch`]: one pass of stochastic subgradient steps, classes in parallel |
//! | `score` | [`scores`]: all classes in one pass over the rows |

mod epoch;
mod score;

pub use epoch::{Steps, epoch};
pub use score::scores;
