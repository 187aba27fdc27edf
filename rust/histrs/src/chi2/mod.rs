//! Feature maps of the chi-square kernel `k(x, y) = sum_d 2 x(d) y(d) / (x(d) + y(d))`.
//!
//! Source: Li, Lebanon and Sminchisescu, *Chebyshev approximations to the histogram chi-square
//! kernel*, CVPR 2012; equation numbers below are of that paper.
//!
//! | file | concept | equation |
//! |---|---|---|
//! | `map` | [`AdditiveMap`]: features of one value, as series | eqs. 12, 15 |
//! | `rational` | the series with poles where the data is | none |
//! | `transform` | the features of whole matrices, dense or sparse | |
//! | `range` | [`column_ranges`]: where the data is | |

mod map;
mod range;
mod rational;
mod transform;

pub use map::AdditiveMap;
pub use range::column_ranges;
