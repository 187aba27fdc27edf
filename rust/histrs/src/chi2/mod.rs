//! The chi-square kernel `k(x, y) = sum_d 2 x(d) y(d) / (x(d) + y(d))` and its relatives.
//!
//! Source: Li, Lebanon and Sminchisescu, *Chebyshev approximations to the histogram chi-square
//! kernel*, CVPR 2012; equation numbers below are of that paper.
//!
//! | file | concept | equation |
//! |---|---|---|
//! | `gram` | [`distances`], [`additive_gram`], [`exp_gram`]: all pairs of rows | eqs. 1, 4, 14 |
//! | `homogeneous` | [`hellinger_gram`], [`jensen_shannon_gram`]: two further additive kernels | none |
//! | `map` | [`AdditiveMap`]: features of one value, as series | eqs. 12, 15 |
//! | `rational` | the series with poles where the data is | none |
//! | `transform` | the features of whole matrices, dense or sparse | |
//! | `range` | [`column_ranges`]: where the data is | |

mod gram;
mod homogeneous;
mod map;
mod range;
mod rational;
mod transform;

pub use gram::{additive_gram, distances, exp_gram};
pub use homogeneous::{hellinger_gram, jensen_shannon_gram};
pub use map::AdditiveMap;
pub use range::column_ranges;
