//! The kernel of cubic splines on sorted columns.
//!
//! With `s` and `t` the smaller and the larger of two values, `k(s, t) = s^2 (3 t - s) / 6` is the
//! covariance of integrated Brownian motion. In `f(t) = sum_j k(x_j, t) v_j`, a cubic spline,
//!
//! ```text
//! f''(t) = sum_{x_j > t} (x_j - t) v_j,    f'''(t) = -sum_{x_j > t} v_j,    f(0) = f'(0) = 0,
//! ```
//!
//! plus, where lines have a variance `a`, a slope of `a f''(0)` at 0. One pass from above finds the
//! derivatives, and one from below adds up `f` and `f'`. Sums of weights of one sign never cancel.
//!
//! | file | concept |
//! |---|---|
//! | `product` | [`SortedColumns::cubic_product`](super::SortedColumns::cubic_product): `K V` without `K` |
//! | `functions` | [`CubicFunctions`]: the splines themselves, for new rows |

mod functions;
mod product;

pub use functions::CubicFunctions;
