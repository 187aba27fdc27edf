//! Feature maps of the additive chi-square kernel: `<c(x), c(y)> ~ 2xy/(x + y)`, one bin at a time.

use std::f64::consts::{FRAC_1_PI, PI, SQRT_2};

use ndarray::ArrayView2;
use pulp::Simd;

use crate::chi2::rational::{CHUNK, Rational};
use crate::error::{Error, Result};
use crate::simd::{Real, outlined};

/// A feature map of the additive chi-square kernel.
///
/// The features of a row are in blocks: `c_0` of every column, `c_1` of every column, and so on.
/// All are 0 where the entry is.
///
/// # Examples
///
/// ```
/// use histrs::{Executor, HistogramMatrix, chi2::AdditiveMap};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[0.2_f64, 0.8], [0.5, 0.0]];
/// let map = AdditiveMap::rational(array![[0.8], [0.3], [0.1]].view())?;
/// let c = map.transform(&exec, x.view())?;
/// assert_eq!(c.dim(), (2, 6));
/// let kernel = c.row(0).dot(&c.row(1));
/// assert!((kernel - 2.0 * 0.2 * 0.5 / 0.7).abs() < 1e-3);
/// # Ok::<(), histrs::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct AdditiveMap {
    n_components: usize,
    series: Series,
}

#[derive(Debug, Clone)]
enum Series {
    Rational(Rational),
    Chebyshev,
    Periodic { interval: f64 },
}

impl AdditiveMap {
    /// The multi-pole map with poles `z_k > 0`, one per row, in one column for all columns of the
    /// data or in a column for each:
    ///
    /// `c_k(x) = 2 sqrt(z_k) x / (x + z_k) prod_(j<k) (x - z_j) / (x + z_j)`.
    ///
    /// The error is exactly `2xy/(x + y) R(x) R(y)` with `R(x) = prod_j (x - z_j) / (x + z_j)`.
    /// With all poles at 1 it is the power map (eq. 15).
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless there is a pole and all are positive and finite.
    pub fn rational(poles: ArrayView2<'_, f64>) -> Result<Self> {
        let rational = Rational::new(poles)?;
        Ok(Self { n_components: poles.nrows(), series: Series::Rational(rational) })
    }

    /// The Chebyshev map (eq. 12).
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless `n_components` is at least 1.
    pub fn chebyshev(n_components: usize) -> Result<Self> {
        check_count(n_components)?;
        Ok(Self { n_components, series: Series::Chebyshev })
    }

    /// The periodic map of Vedaldi and Zisserman (2012), which samples the spectrum of the kernel
    /// at multiples of `interval`.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless `n_components` is odd and `interval` is positive and
    /// finite.
    pub fn periodic(n_components: usize, interval: f64) -> Result<Self> {
        check_count(n_components)?;
        if n_components.is_multiple_of(2) {
            let expected = "a periodic map has an odd number of components";
            return Err(Error::parameter("n_components", n_components, expected));
        }
        if !(interval > 0.0 && interval < f64::INFINITY) {
            let expected = "it must be positive and finite";
            return Err(Error::parameter("sample_interval", interval, expected));
        }
        Ok(Self { n_components, series: Series::Periodic { interval } })
    }

    /// Number of features of a value.
    #[must_use]
    pub fn n_components(&self) -> usize {
        self.n_components
    }

    /// The number of columns that the data must have, where that is known.
    pub(crate) fn n_columns(&self) -> Option<usize> {
        match &self.series {
            Series::Rational(rational) => rational.n_columns(),
            Series::Chebyshev | Series::Periodic { .. } => None,
        }
    }

    /// Maps some values, at most [`CHUNK`]: feature `k` of value `i` goes to
    /// `out[k * stride + i]`. `column` tells the column of a value.
    #[inline(always)]
    fn map_chunk<T: Real>(
        &self,
        x: &[T],
        column: impl Fn(usize) -> usize,
        out: &mut [T],
        stride: usize,
    ) {
        match &self.series {
            Series::Rational(rational) => rational.map_chunk(x, column, out, stride),
            Series::Chebyshev => chebyshev(x, self.n_components, out, stride),
            Series::Periodic { interval } => periodic(x, self.n_components, *interval, out, stride),
        }
    }

    /// Maps any number of values of a row, those of all columns or of some: feature `k` of value `i` goes
    /// to `out[k * stride + i]`.
    pub(crate) fn map_values<T: Real, S: Simd>(
        &self,
        simd: S,
        x: &[T],
        columns: Option<&[i32]>,
        out: &mut [T],
        stride: usize,
    ) {
        map_chunks(simd, self, x, columns, out, stride);
    }
}

outlined!(
    fn map_chunks<S: Simd, T: Real>(
        _simd: S,
        map: &AdditiveMap,
        x: &[T],
        columns: Option<&[i32]>,
        out: &mut [T],
        stride: usize,
    ) {
        for start in (0..x.len()).step_by(CHUNK) {
            let end = x.len().min(start + CHUNK);
            let (x, out) = (&x[start..end], &mut out[start..]);
            match columns {
                None => map.map_chunk(x, |i| start + i, out, stride),
                Some(columns) => {
                    let columns = &columns[start..end];
                    map.map_chunk(x, |i| columns[i].unsigned_abs() as usize, out, stride);
                }
            }
        }
    }
);

fn check_count(n_components: usize) -> Result<()> {
    if n_components > 0 {
        return Ok(());
    }
    Err(Error::parameter("n_components", 0, "it must be at least 1"))
}

/// Eq. 12, in double precision.
#[inline(always)]
fn chebyshev<T: Real>(x: &[T], n_components: usize, out: &mut [T], stride: usize) {
    let (mut log, mut before, mut last) = ([0.0; CHUNK], [0.0; CHUNK], [0.0; CHUNK]);
    for (i, value) in x.iter().enumerate() {
        let value = value.to_f64();
        log[i] = 2.0 * FRAC_1_PI * log_or_zero(value);
        last[i] = 2.0 * value / (value + 1.0);
        out[i] = T::from_f64(last[i]);
    }
    for k in 1..n_components {
        let degree = k as f64;
        let (sign, back) = match k {
            // c_1 = -sqrt(2) (log x / pi) c_0.
            1 => (-1.0 / SQRT_2, 0.0),
            _ if k % 2 == 0 => (1.0 / degree, (degree - 2.0) / degree),
            _ => (-1.0 / degree, (degree - 2.0) / degree),
        };
        let out = &mut out[k * stride..k * stride + x.len()];
        let parts = log.iter().zip(&mut before).zip(&mut last);
        for (out, ((log, before), last)) in out.iter_mut().zip(parts) {
            let next = sign * log * *last + back * *before;
            *before = *last;
            *last = next;
            *out = T::from_f64(next);
        }
    }
}

/// `sqrt(x h)` and `sqrt(2 x h / cosh(pi k h))` times the cosine and sine of `k h log x`, in double
/// precision.
#[inline(always)]
fn periodic<T: Real>(x: &[T], n_components: usize, h: f64, out: &mut [T], stride: usize) {
    let mut root = [0.0; CHUNK];
    // The rotation by h log x, and by k h log x.
    let (mut cos, mut sin) = ([1.0; CHUNK], [0.0; CHUNK]);
    let (mut cos_k, mut sin_k) = ([1.0; CHUNK], [0.0; CHUNK]);
    for (i, value) in x.iter().enumerate() {
        let value = value.to_f64();
        root[i] = value.sqrt() * h.sqrt();
        (sin[i], cos[i]) = (h * log_or_zero(value)).sin_cos();
        out[i] = T::from_f64(root[i]);
    }
    for k in 1..=n_components / 2 {
        let weight = (2.0 / (PI * k as f64 * h).cosh()).sqrt();
        let (_, rest) = out.split_at_mut((2 * k - 1) * stride);
        let (cosines, sines) = rest.split_at_mut(stride);
        for i in 0..x.len() {
            let rotated = cos_k[i] * cos[i] - sin_k[i] * sin[i];
            sin_k[i] = cos_k[i] * sin[i] + sin_k[i] * cos[i];
            cos_k[i] = rotated;
            cosines[i] = T::from_f64(weight * root[i] * cos_k[i]);
            sines[i] = T::from_f64(weight * root[i] * sin_k[i]);
        }
    }
}

/// The natural logarithm, 0 for 0: what it is multiplied with is 0 there.
fn log_or_zero(value: f64) -> f64 {
    if value > 0.0 { value.ln() } else { 0.0 }
}
