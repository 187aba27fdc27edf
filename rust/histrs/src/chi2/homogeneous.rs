//! Additive homogeneous kernels beside chi-square: Hellinger's and Jensen-Shannon's.
//!
//! Source: Vedaldi and Zisserman, *Efficient additive kernels via explicit feature maps*,
//! PAMI 2012, table 1.

use std::f64::consts::LOG2_E;

use ndarray::Array2;
use pulp::Simd;

use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::pairwise::{Entry, Term, pairwise};
use crate::simd::Element;

/// `sqrt(x) sqrt(y)`.
#[derive(Clone, Copy)]
struct Hellinger;

/// `(x log2((x + y) / x) + y log2((x + y) / y)) / 2`.
#[derive(Clone, Copy)]
struct JensenShannon;

impl Term for Hellinger {
    fn prepare(value: f64) -> f64 {
        value.sqrt()
    }

    #[inline(always)]
    fn of<T: Element, S: Simd>(
        simd: S,
        x: Entry<T::Vector<S>>,
        y: Entry<T::Vector<S>>,
    ) -> T::Vector<S> {
        T::mul(simd, x.value, y.value)
    }
}

impl Term for JensenShannon {
    const LOGS: bool = true;

    /// With `a >= b` the two entries, the term is
    /// `((a + b) log2(1 + b/a) + b (log2 a - log2 b)) / 2`: no summand is negative, so that no
    /// digits cancel. `log2(1 + b/a) = 2 atanh(s) / ln 2` at `s = b / (2a + b)`, and
    /// `(a + b) s = b r` at `r = (a + b) / (2a + b) = (1 + s) / 2`, which cannot underflow.
    #[inline(always)]
    fn of<T: Element, S: Simd>(
        simd: S,
        x: Entry<T::Vector<S>>,
        y: Entry<T::Vector<S>>,
    ) -> T::Vector<S> {
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
const SERIES: [f64; 10] = [
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
    let coefficients: &[f64] = if single { &SINGLE_SERIES } else { &SERIES };
    let square = T::mul(simd, s, s);
    let mut series = T::splat(simd, T::default());
    for &coefficient in coefficients.iter().rev() {
        series = T::mul_add(simd, series, square, T::splat(simd, T::from_f64(coefficient)));
    }
    series
}

/// The Hellinger kernel `sum_d sqrt(x_i(d) y_j(d))`; `y = None` means `y = x`.
///
/// # Errors
///
/// As [`distances`](crate::chi2::distances).
///
/// # Examples
///
/// ```
/// use histrs::{Executor, HistogramMatrix, chi2};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[1.0, 4.0], [4.0, 9.0]];
/// let k = chi2::hellinger_gram(&exec, &HistogramMatrix::dense(x.view()), None)?;
/// assert_eq!(k, array![[5.0, 8.0], [8.0, 13.0]]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn hellinger_gram<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<Array2<T>> {
    pairwise(exec, Hellinger, x, y)
}

/// The Jensen-Shannon kernel
/// `sum_d (x log2((x + y) / x) + y log2((x + y) / y)) / 2` at `x = x_i(d)`, `y = y_j(d)`.
///
/// # Errors
///
/// As [`distances`](crate::chi2::distances).
pub fn jensen_shannon_gram<'a, T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'a, T>,
    y: Option<&HistogramMatrix<'a, T>>,
) -> Result<Array2<T>> {
    pairwise(exec, JensenShannon, x, y)
}
