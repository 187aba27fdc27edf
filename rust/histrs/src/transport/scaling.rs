//! Sinkhorn's scaling in the exponential domain: both half-steps are matrix products.

use pulp::{Simd, WithSimd};

use crate::error::Result;
use crate::memory;
use crate::simd::{AlignedVec, Elementary, dispatch};
use crate::transport::engine::GROUP;
use crate::transport::job::Pairing;
use crate::transport::lanes::stride;
use crate::transport::product::{Packed, padded};
use crate::transport::step::{Domain, Step};

/// `K = exp(-M / reg)`, its transpose, and `K` times `M`, packed for products.
pub(super) struct Kernel<T> {
    pub(super) forward: Packed<T>,
    pub(super) backward: Packed<T>,
    /// Only where the cost of transport is asked for.
    pub(super) cost: Option<Packed<T>>,
    /// Potentials of this magnitude leave the range of `T`.
    pub(super) largest_potential: f64,
}

/// Work space of the exponential domain.
pub(super) struct Scaling<'a, T> {
    kernel: &'a Kernel<T>,
    pairing: Pairing,
    u: AlignedVec<T>,
    v: AlignedVec<T>,
    /// `K' u` and `K v`.
    backward: AlignedVec<T>,
    forward: AlignedVec<T>,
    magnitude: Vec<T>,
    kept_u: AlignedVec<T>,
    kept_v: AlignedVec<T>,
}

impl<'a, T: Elementary> Scaling<'a, T> {
    pub(super) fn new(kernel: &'a Kernel<T>, pairing: Pairing) -> Result<Self> {
        let stride = stride::<T>();
        let (n_source, n_target) = (kernel.forward.n_rows(), kernel.forward.n_columns());
        let zeros = |n_rows: usize| AlignedVec::zeros(n_rows * stride);
        Ok(Self {
            kernel,
            pairing,
            u: zeros(n_source)?,
            v: zeros(n_target)?,
            backward: zeros(padded(n_target))?,
            forward: zeros(padded(n_source))?,
            magnitude: memory::filled(T::default(), stride)?,
            kept_u: zeros(n_source)?,
            kept_v: zeros(n_target)?,
        })
    }
}

impl<T: Elementary> Domain<T> for Scaling<'_, T> {
    fn shape(&self) -> (usize, usize) {
        (self.kernel.forward.n_rows(), self.kernel.forward.n_columns())
    }

    fn step(&mut self, step: Step<'_, T>) {
        let Step { source, target, potential, residual, unaccelerated, errors, stride, width } =
            step;
        self.magnitude.fill(T::default());
        dispatch(Exponential {
            source,
            potential,
            out: &mut self.u,
            magnitude: &mut self.magnitude[..width],
            stride,
        });
        if self.pairing == Pairing::Equal {
            self.v.copy_from_slice(&self.u);
        } else {
            self.kernel.backward.product(&self.u, &mut self.backward, stride, width);
            let (numerator, denominator) = (target, &self.backward[..]);
            dispatch(Divide { numerator, denominator, out: &mut self.v, stride, width });
        }
        self.kernel.forward.product(&self.v, &mut self.forward, stride, width);
        let (u, forward) = (&self.u[..], &self.forward[..]);
        dispatch(Residual {
            source,
            u,
            forward,
            potential,
            residual,
            unaccelerated,
            errors: &mut *errors,
            relaxation: T::from_f64(self.pairing.relaxation()),
            stride,
            width,
        });
        for (error, magnitude) in errors.iter_mut().zip(&self.magnitude[..width]) {
            if magnitude.to_f64() > self.kernel.largest_potential {
                *error = T::from_f64(f64::NAN);
            }
        }
    }

    fn keep(&mut self, lane: usize, slot: usize) {
        let stride = stride::<T>();
        for (out, x) in [(&mut self.kept_u, &self.u), (&mut self.kept_v, &self.v)] {
            for row in (0..x.len()).step_by(stride) {
                out[row + slot] = x[row + lane];
            }
        }
    }

    fn results(&mut self, n: usize) -> Vec<(f64, [Vec<f64>; 2])> {
        let stride = stride::<T>();
        if let Some(cost) = &self.kernel.cost {
            cost.product(&self.kept_v, &mut self.forward, stride, n.next_multiple_of(GROUP));
        }
        let result = |slot: usize| {
            let column = |x: &AlignedVec<T>| -> Vec<f64> {
                x[slot..].iter().step_by(stride).map(|x| x.to_f64()).collect()
            };
            let (u, v) = (column(&self.kept_u), column(&self.kept_v));
            let transport = if self.kernel.cost.is_some() {
                u.iter().zip(column(&self.forward)).map(|(u, w)| u * w).sum()
            } else {
                f64::NAN
            };
            (transport, [u, v].map(logarithms))
        };
        (0..n).map(result).collect()
    }
}

/// Logarithms; minus infinity of 0.
fn logarithms(mut x: Vec<f64>) -> Vec<f64> {
    dispatch(Logarithm { x: &mut x });
    x
}

struct Logarithm<'a> {
    x: &'a mut [f64],
}

impl WithSimd for Logarithm<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for x in self.x {
            let log = x.ln_of_normal();
            *x = if *x > 0.0 { log } else { f64::NEG_INFINITY };
        }
    }
}

/// `out = numerator / denominator`, and 0 where the numerator is.
struct Divide<'a, T> {
    numerator: &'a [T],
    denominator: &'a [T],
    out: &'a mut [T],
    stride: usize,
    width: usize,
}

impl<T: Elementary> WithSimd for Divide<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { numerator, denominator, out, stride, width } = self;
        let rows = out.chunks_exact_mut(stride).zip(numerator.chunks_exact(stride));
        for ((out, numerator), denominator) in rows.zip(denominator.chunks_exact(stride)) {
            let inputs = numerator[..width].iter().zip(&denominator[..width]);
            for (out, (&a, &b)) in out[..width].iter_mut().zip(inputs) {
                *out = if a > T::default() { a / b } else { T::default() };
            }
        }
    }
}

/// The residual of the potential, where a unaccelerated step leads, and the L1 error of the marginal.
struct Residual<'a, T> {
    source: &'a [T],
    u: &'a [T],
    forward: &'a [T],
    potential: &'a [T],
    residual: &'a mut [T],
    unaccelerated: &'a mut [T],
    errors: &'a mut [T],
    relaxation: T,
    stride: usize,
    width: usize,
}

impl<T: Elementary> WithSimd for Residual<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { stride, width, .. } = self;
        for at in (0..self.source.len()).step_by(stride) {
            let row = at..at + width;
            residual_of_row(
                &self.source[row.clone()],
                &self.u[row.clone()],
                &self.forward[row.clone()],
                &mut self.residual[row.clone()],
                &mut self.errors[..width],
                self.relaxation,
            );
            add_rows(
                &self.potential[row.clone()],
                &self.residual[row.clone()],
                &mut self.unaccelerated[row],
            );
        }
    }
}

#[inline(always)]
fn residual_of_row<T: Elementary>(
    source: &[T],
    u: &[T],
    forward: &[T],
    residual: &mut [T],
    errors: &mut [T],
    relaxation: T,
) {
    let inputs = source.iter().zip(u).zip(forward);
    for ((((&a, &u), &w), r), error) in inputs.zip(residual).zip(errors) {
        let mass = u * w;
        *error = *error + (mass - a).abs();
        let ratio = if a > T::default() { a / mass } else { T::from_f64(1.0) };
        *r = ratio.ln_of_normal() * relaxation;
    }
}

#[inline(always)]
fn add_rows<T: Elementary>(a: &[T], b: &[T], out: &mut [T]) {
    for ((&a, &b), out) in a.iter().zip(b).zip(out) {
        *out = a + b;
    }
}

/// `out = exp(potential)` where there is mass, else 0; and the largest magnitude of a potential.
struct Exponential<'a, T> {
    source: &'a [T],
    potential: &'a [T],
    out: &'a mut [T],
    magnitude: &'a mut [T],
    stride: usize,
}

impl<T: Elementary> WithSimd for Exponential<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { source, potential, out, magnitude, stride } = self;
        let width = magnitude.len();
        let inputs = source.chunks_exact(stride).zip(potential.chunks_exact(stride));
        let rows = inputs.zip(out.chunks_exact_mut(stride));
        for ((source, potential), out) in rows {
            exponential_of_row(&source[..width], &potential[..width], &mut out[..width], magnitude);
        }
    }
}

#[inline(always)]
fn exponential_of_row<T: Elementary>(
    source: &[T],
    potential: &[T],
    out: &mut [T],
    magnitude: &mut [T],
) {
    let inputs = source.iter().zip(potential);
    for (((&a, &f), out), magnitude) in inputs.zip(out).zip(magnitude) {
        let u = f.exp_in_range();
        *out = if a > T::default() { u } else { T::default() };
        let size = if a > T::default() { f.abs() } else { T::default() };
        *magnitude = if size > *magnitude { size } else { *magnitude };
    }
}
