use ndarray::{Array2, ArrayView2};

use crate::error::{Error, Result};
use crate::simd::Real;

/// Values mapped together, in a buffer on the stack.
pub(super) const CHUNK: usize = 64;

/// The multi-pole rational map, with one row of poles a component.
///
/// The kernel is homogeneous: with `s` a power of 4, `c(x; z) = c(x s; z s) / sqrt(s)`. So
/// everything is computed at a scale where the largest pole of a column is near 1, and nothing can
/// overflow.
#[derive(Debug, Clone)]
pub(super) struct Rational {
    /// `z s`, of shape (components, 1 or columns).
    poles: Array2<f64>,
    /// `2 sqrt(z)`, likewise.
    weights: Array2<f64>,
    /// `s`, one or one per column.
    scales: Vec<f64>,
}

impl Rational {
    pub(super) fn new(poles: ArrayView2<'_, f64>) -> Result<Self> {
        if let Some(&bad) = poles.iter().find(|z| !(**z > 0.0 && **z < f64::INFINITY)) {
            let expected = "poles are positive and finite";
            return Err(Error::parameter("a pole", bad, expected));
        }
        if poles.is_empty() {
            let expected = "there must be at least one";
            return Err(Error::parameter("the number of poles", 0, expected));
        }
        let scales: Vec<f64> = poles
            .columns()
            .into_iter()
            .map(|column| scale_of(column.iter().copied().fold(0.0, f64::max)))
            .collect();
        let scaled = Array2::from_shape_fn(poles.dim(), |(k, d)| poles[[k, d]] * scales[d]);
        let weights = poles.mapv(|z| 2.0 * z.sqrt());
        Ok(Self { poles: scaled, weights, scales })
    }

    /// The number of columns, where each has poles of its own.
    pub(super) fn n_columns(&self) -> Option<usize> {
        (self.scales.len() > 1).then_some(self.scales.len())
    }

    #[inline(always)]
    pub(super) fn map_chunk<T: Real>(
        &self,
        x: &[T],
        column: impl Fn(usize) -> usize,
        out: &mut [T],
        stride: usize,
    ) {
        let mut scaled = [T::default(); CHUNK];
        let mut product = [T::from_f64(1.0); CHUNK];
        if let [scale] = self.scales[..] {
            let scale = T::from_f64(scale);
            for (scaled, &x) in scaled.iter_mut().zip(x) {
                *scaled = x * scale;
            }
            let parameters = self.poles.iter().zip(&self.weights);
            for (k, (&pole, &weight)) in parameters.enumerate() {
                let (pole, weight) = (T::from_f64(pole), T::from_f64(weight));
                let out = &mut out[k * stride..k * stride + x.len()];
                for ((out, product), &x) in out.iter_mut().zip(&mut product).zip(&scaled) {
                    (*out, *product) = term(x, pole, weight, *product);
                }
            }
            return;
        }
        for (i, (scaled, &x)) in scaled.iter_mut().zip(x).enumerate() {
            *scaled = x * T::from_f64(self.scales[column(i)]);
        }
        for (k, (poles, weights)) in
            self.poles.outer_iter().zip(self.weights.outer_iter()).enumerate()
        {
            let out = &mut out[k * stride..k * stride + x.len()];
            let parts = out.iter_mut().zip(&mut product).zip(&scaled);
            for (i, ((out, product), &x)) in parts.enumerate() {
                let d = column(i);
                let (pole, weight) = (T::from_f64(poles[d]), T::from_f64(weights[d]));
                (*out, *product) = term(x, pole, weight, *product);
            }
        }
    }
}

/// A feature, and the product that the next one begins with: one division.
#[inline(always)]
fn term<T: Real>(x: T, pole: T, weight: T, product: T) -> (T, T) {
    let quotient = product / (x + pole);
    // In this order nothing underflows: x times the quotient is at most 1.
    (x * quotient * weight, (x - pole) * quotient)
}

/// The power of 4 that brings `value` near 1, as far as single precision can hold it.
fn scale_of(value: f64) -> f64 {
    let exponent = (-0.5 * value.log2()).round().clamp(-63.0, 63.0);
    4.0_f64.powi(exponent as i32)
}
