//! What a kernel is besides the matrix of all pairs of rows.

use pulp::Simd;

use crate::simd::Element;

/// A column's part of a squared distance, `k(x, x) + k(z, z) - 2 k(x, z)` of the kernel that induces
/// it, or of what differs from it by a constant of `x`.
pub(crate) trait DistanceTerm: Copy + Sync {
    /// Adds the part of `x` and `z`.
    fn add<T: Element, S: Simd>(
        simd: S,
        x: T::Vector<S>,
        z: T::Vector<S>,
        sum: T::Vector<S>,
    ) -> T::Vector<S>;
}

/// A value projected on the knots around it, `K^-1 k(x)` in closed form (eq. 5), of a kernel that is
/// homogeneous, `k(cx, cy) = c k(x, y)`, with `k(x, x) = x`.
pub(crate) trait Projection: Copy + Sync {
    /// The coordinate of `x > 0` on the knot `z` alone: `k(z, x) / z`.
    fn single(z: f64, x: f64) -> f64;

    /// The coordinates of `x` on the knots `a` and `b`, `0 < a < x <= b`.
    fn pair(a: f64, b: f64, x: f64) -> (f64, f64);
}
