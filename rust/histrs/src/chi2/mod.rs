//! Feature maps of the chi-square kernel `k(x, y) = sum_d 2 x(d) y(d) / (x(d) + y(d))`.
//!
//! ```
//! use histrs::{Executor, chi2::AdditiveMap};
//! use ndarray::array;
//!
//! let (exec, map) = (Executor::new(0)?, AdditiveMap::chebyshev(9)?);
//! let x = array![[0.2, 0.8], [0.5, 0.5]];
//! let features = map.transform(&exec, x.view())?;
//! let kernel = features.row(0).dot(&features.row(1));
//! assert!((kernel - (0.2 / 0.7 + 0.8 / 1.3_f64)).abs() < 0.05);
//! # Ok::<(), histrs::Error>(())
//! ```
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
// For the bindings of Python, which has the iteration around these steps; no part of the interface.
#[doc(hidden)]
pub use range::column_ranges;
