//! The Jensen-Shannon kernel.

use std::f64::consts::{LN_2, LOG2_E};

use pulp::Simd;

use crate::kernels::forms::Projection;
use crate::pairwise::{Entries, Term};
use crate::simd::Element;

/// `(x log2((x + y) / x) + y log2((x + y) / y)) / 2`.
#[derive(Clone, Copy)]
pub(crate) struct JensenShannon;

impl Term for JensenShannon {
    const LOGS: bool = true;

    /// With `a >= b` the two entries, the term is
    /// `((a + b) log2(1 + b/a) + b (log2 a - log2 b)) / 2`: no summand is negative, so that no
    /// digits cancel. `log2(1 + b/a) = 2 atanh(s) / ln 2` at `s = b / (2a + b)`, and
    /// `(a + b) s = b r` at `r = (a + b) / (2a + b) = (1 + s) / 2`, which cannot underflow.
    #[inline(always)]
    fn of<T: Element, S: Simd>(simd: S, x: Entries<T, S>, y: Entries<T, S>) -> T::Vector<S> {
        let (a, b) = (T::max(simd, x.value, y.value), T::min(simd, x.value, y.value));
        let sum = T::add(simd, a, b);
        let below = T::max(simd, T::add(simd, a, sum), T::splat(simd, T::TINY));
        let ratio = T::div(simd, sum, below);
        let s = T::sub(simd, T::add(simd, ratio, ratio), T::splat(simd, T::from_f64(1.0)));
        let mixed = T::mul(simd, ratio, log2_series::<T, S>(simd, s));
        let logs = T::sub(simd, T::max(simd, x.log, y.log), T::min(simd, x.log, y.log));
        T::mul(simd, b, T::mul_add(simd, T::splat(simd, T::from_f64(0.5)), logs, mixed))
    }
}

/// Coefficients of polynomials in `s^2` with the least largest error from `atanh(s) / (s ln 2)` for
/// `0 <= s <= 1/3`: 7e-17, and 6e-9 for single precision.
const LOG_SERIES: [f64; 10] = [
    LOG2_E,
    0.480_898_346_963_107_74,
    0.288_539_008_142_547_74,
    0.206_099_295_568_507_12,
    0.160_299_217_385_633_35,
    0.131_161_748_461_606_72,
    0.110_823_354_278_937_15,
    0.098_059_646_426_133_18,
    0.071_183_045_341_124_99,
    0.128_444_830_148_122_77,
];
const SINGLE_SERIES: [f64; 5] = [
    1.442_695_046_716_353_3,
    0.480_895_775_209_961_9,
    0.288_720_169_644_967_44,
    0.201_671_928_559_151_11,
    0.203_359_034_165_049_9,
];

/// `atanh(s) / (s ln 2)` for `0 <= s <= 1/3`.
#[inline(always)]
fn log2_series<T: Element, S: Simd>(simd: S, s: T::Vector<S>) -> T::Vector<S> {
    let single = size_of::<T>() == size_of::<f32>();
    let coefficients: &[f64] = if single { &SINGLE_SERIES } else { &LOG_SERIES };
    let square = T::mul(simd, s, s);
    let mut series = T::splat(simd, T::default());
    for &coefficient in coefficients.iter().rev() {
        series = T::mul_add(simd, series, square, T::splat(simd, T::from_f64(coefficient)));
    }
    series
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

/// The solution for knots that may be close, where the entries of the 2 x 2 system cancel. With
/// `k(u, v) = (u + v)/2 - d(u, v)` and `b = 1` the leading terms cancel on paper. The rest is of
/// the second order in the distances `d`.
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
    for &coefficient in DIVERGENCE_SERIES.iter().rev() {
        series = series * square + coefficient;
    }
    series * square
}

/// `1 / (k (2k - 1) 2 ln 2)`, from `k = 1`.
const DIVERGENCE_SERIES: [f64; 16] = {
    let mut series = [0.0; 16];
    let (mut index, mut k) = (0, 1.0);
    while index < series.len() {
        series[index] = 1.0 / (k * (2.0 * k - 1.0) * 2.0 * LN_2);
        index += 1;
        k += 1.0;
    }
    series
};
