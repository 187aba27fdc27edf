//! A value projected on the knots around it, `K^-1 k(x)` in closed form (eq. 5).
//!
//! All four kernels are homogeneous, `k(cx, cy) = c k(x, y)`, with `k(x, x) = x`.

use std::f64::consts::LN_2;

/// A one-dimensional kernel whose projections are known.
pub(crate) trait Projection {
    /// The coordinate of `x > 0` on the knot `z` alone: `k(z, x) / z`.
    fn single(z: f64, x: f64) -> f64;

    /// The coordinates of `x` on the knots `a` and `b`, `0 < a < x <= b`.
    fn pair(a: f64, b: f64, x: f64) -> (f64, f64);
}

/// `min(x, y)`.
pub(crate) struct Intersection;

/// `2xy / (x + y)`.
pub(crate) struct Chi2;

/// `sqrt(x y)`.
pub(crate) struct Hellinger;

/// `(x log2((x + y) / x) + y log2((x + y) / y)) / 2`.
pub(crate) struct JensenShannon;

impl Projection for Intersection {
    #[inline(always)]
    fn single(z: f64, x: f64) -> f64 {
        if x < z { x / z } else { 1.0 }
    }

    /// Eq. 8.
    #[inline(always)]
    fn pair(a: f64, b: f64, x: f64) -> (f64, f64) {
        let width = b - a;
        ((b - x) / width, (x - a) / width)
    }
}

impl Projection for Chi2 {
    #[inline(always)]
    fn single(z: f64, x: f64) -> f64 {
        2.0 * (x / (z + x))
    }

    /// Eq. 9 for any two knots; its second entry is `x - i`, not `x - 1` as printed.
    #[inline(always)]
    fn pair(a: f64, b: f64, x: f64) -> (f64, f64) {
        let scale = 2.0 * (x / (a + x)) * ((a + b) / (b + x));
        let width = b - a;
        (scale * ((b - x) / width), scale * ((x - a) / width))
    }
}

impl Projection for Hellinger {
    #[inline(always)]
    fn single(z: f64, x: f64) -> f64 {
        (x / z).sqrt()
    }

    /// The kernel is of rank one, so that this is its pseudo-inverse, and no error is made.
    #[inline(always)]
    fn pair(a: f64, b: f64, x: f64) -> (f64, f64) {
        let (low, high) = (a / b, x / b);
        let scale = high.sqrt() / (1.0 + low);
        (low.sqrt() * scale, scale)
    }
}

impl Projection for JensenShannon {
    #[inline(always)]
    fn single(z: f64, x: f64) -> f64 {
        if x > z { x / z * jensen_shannon(z / x) } else { jensen_shannon(x / z) }
    }

    #[inline(always)]
    fn pair(a: f64, b: f64, x: f64) -> (f64, f64) {
        if 2.0 * a < b { pair_far(a / b, x / b) } else { pair_near(a, b, x) }
    }
}

/// `k(r, 1)` for `r <= 1`: no summand is negative, so that no digits cancel.
#[inline(always)]
fn jensen_shannon(r: f64) -> f64 {
    if r == 0.0 {
        return 0.0;
    }
    let log = r.ln_1p();
    (r * (log - r.ln()) + log) / (2.0 * LN_2)
}

/// The solution for knots `a` and 1 that are well apart.
#[inline(always)]
fn pair_far(a: f64, x: f64) -> (f64, f64) {
    let (c, p, q) = (jensen_shannon(a), x * jensen_shannon(a / x), jensen_shannon(x));
    // Relative to a, which may be as small as numbers are.
    let determinant = 1.0 - c * (c / a);
    let low = (p / a - c / a * q) / determinant;
    (low, (q - c * (p / a)) / determinant)
}

/// The solution for knots that may be close, where the entries of the 2 x 2 system cancel: with
/// `k(u, v) = (u + v)/2 - d(u, v)` and `b = 1` the leading terms cancel on paper, and what is left
/// is of the second order in the distances `d`.
#[inline(always)]
fn pair_near(a: f64, b: f64, x: f64) -> (f64, f64) {
    let (width, above, below) = ((b - a) / b, (b - x) / b, (x - a) / b);
    let half_sums = (0.5 * (a / b + 1.0), 0.5 * (x / b + 1.0), 0.5 * (a / b + x / b));
    let d_ab = half_sums.0 * divergence(width / (2.0 * half_sums.0));
    let d_xb = half_sums.1 * divergence(above / (2.0 * half_sums.1));
    let d_ax = half_sums.2 * divergence(below / (2.0 * half_sums.2));
    let determinant = 2.0 * half_sums.0 * d_ab - 0.25 * width * width - d_ab * d_ab;
    let low = d_ab * (half_sums.1 - d_xb) + half_sums.0 * d_xb - d_ax - 0.25 * width * above;
    let high =
        d_ab * (half_sums.2 - d_ax) + half_sums.0 * d_ax - a / b * d_xb - 0.25 * width * below;
    (low / determinant, high / determinant)
}

/// `((1 + s) ln(1 + s) + (1 - s) ln(1 - s)) / (2 ln 2)` for `s <= 1/3`, by its Taylor series
/// `sum_k s^(2k) / (k (2k - 1))`, half of it, whose rest is below the rounding error.
#[inline(always)]
fn divergence(s: f64) -> f64 {
    let square = s * s;
    let mut series = 0.0;
    for &coefficient in SERIES.iter().rev() {
        series = series * square + coefficient;
    }
    series * square
}

/// `1 / (k (2k - 1) 2 ln 2)`, from `k = 1`.
const SERIES: [f64; 16] = {
    let mut series = [0.0; 16];
    let (mut index, mut k) = (0, 1.0);
    while index < series.len() {
        series[index] = 1.0 / (k * (2.0 * k - 1.0) * 2.0 * LN_2);
        index += 1;
        k += 1.0;
    }
    series
};
