//! The chi-square kernel `k(x, y) = sum_d 2 x(d) y(d) / (x(d) + y(d))` and its relatives.
//!
//! Source: Li, Lebanon and Sminchisescu, *Chebyshev approximations to the histogram chi-square
//! kernel*, CVPR 2012; equation numbers below are of that paper.
//!
//! | file | concept | equation |
//! |---|---|---|
//! | `gram` | [`distances`], [`additive_gram`], [`exp_gram`]: all pairs of rows | eqs. 1, 4, 14 |
//! | `homogeneous` | [`hellinger_gram`], [`jensen_shannon_gram`]: two further additive kernels | none |

mod gram;
mod homogeneous;

pub use gram::{additive_gram, distances, exp_gram};
pub use homogeneous::{hellinger_gram, jensen_shannon_gram};
