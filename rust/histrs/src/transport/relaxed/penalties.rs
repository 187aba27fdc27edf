//! A step of a plan that pays for what its marginals are off by.

use pulp::{Simd, WithSimd};

use crate::simd::{Elementary, vectorized};
use crate::transport::range::nothing;
use crate::transport::relaxed::log_kernel::unreached;
use crate::transport::relaxed::{Hold, Outputs};

vectorized!(
    /// The potential of the target under a penalty, and the mass that this asks for.
    pub(super) fn target_step<T: Elementary>(
        hold: Hold,
        target: &[T],
        sums: &[T],
        g: &mut [T],
        total: &mut [T],
        stride: usize,
        width: usize,
    ) {
        let (zero, limit) = (T::default(), unreached::<T>());
        let exponent = T::from_f64(hold.exponent(1));
        let inverse = T::from_f64(hold.inverse_weight(1));
        let total = &mut total[..width];
        total.fill(zero);
        let rows = target.chunks_exact(stride).zip(sums.chunks_exact(stride));
        for ((target, sums), g) in rows.zip(g.chunks_exact_mut(stride)) {
            for (((&b, &sum), g), total) in target.iter().zip(sums).zip(g).zip(&mut *total) {
                let log = b.ln_of_normal();
                // A bin that nothing reaches asks for nothing.
                let own = if sum < limit { zero } else { zero - exponent * sum };
                let wish = b * (zero - own * inverse).exp_in_range();
                let wish = if sum < limit { zero } else { wish };
                *total = *total + if b > zero { wish } else { zero };
                *g = if b > zero { log + own } else { nothing() };
            }
        }
    }
);

/// The potential of the source under a penalty.
pub(super) struct PenaltyStep<'a, T> {
    pub(super) hold: Hold,
    /// Mass, potential and sums of the source.
    pub(super) inputs: [&'a [T]; 3],
    pub(super) totals: &'a mut [Vec<T>; 2],
    pub(super) shift: &'a mut [T],
    pub(super) outputs: Outputs<'a, T>,
    pub(super) relaxation: T,
    pub(super) is_equal: bool,
    pub(super) stride: usize,
    pub(super) width: usize,
}

impl<T: Elementary> WithSimd for PenaltyStep<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { hold, inputs, totals, shift, outputs, relaxation, is_equal, stride, width } =
            self;
        let Outputs { residual, unaccelerated, errors } = outputs;
        let (zero, limit) = (T::default(), unreached::<T>());
        let exponent = T::from_f64(hold.exponent(0));
        let inverse = T::from_f64(hold.inverse_weight(0));
        let [own, other] = totals;
        let own = &mut own[..width];
        own.fill(zero);
        let rows = |x: &'_ [T], at: usize| -> std::ops::Range<usize> {
            debug_assert!(at + width <= x.len());
            at..at + width
        };
        for at in (0..inputs[0].len()).step_by(stride) {
            let row = rows(inputs[0], at);
            let [source, f, sums] = inputs.map(|x| &x[row.clone()]);
            let lanes = source.iter().zip(f).zip(sums);
            for ((((&a, &f), &sum), own), error) in lanes.zip(&mut *own).zip(&mut *errors) {
                let wish = a * ((a.ln_of_normal() - f) * inverse).exp_in_range();
                let wish = if sum < limit { zero } else { wish };
                let mass = if sum < limit { zero } else { (f + sum).exp_in_range() };
                *own = *own + if a > zero { wish } else { zero };
                *error = *error + if a > zero { (mass - wish).abs() } else { zero };
            }
        }
        let leverage = T::from_f64(if is_equal { 0.0 } else { hold.leverage() });
        let extreme = if size_of::<T>() < size_of::<f64>() { 1e30 } else { 1e300 };
        let log = |x: T| {
            let x = if x > T::from_f64(extreme) { T::from_f64(extreme) } else { x };
            let x = if x < T::from_f64(1.0 / extreme) { T::from_f64(1.0 / extreme) } else { x };
            x.ln_of_normal()
        };
        for ((shift, &own), &other) in shift[..width].iter_mut().zip(&*own).zip(&*other) {
            *shift = if is_equal { zero } else { leverage * (log(own) - log(other)) };
        }
        for at in (0..inputs[0].len()).step_by(stride) {
            let row = rows(inputs[0], at);
            let [source, f, sums] = inputs.map(|x| &x[row.clone()]);
            let lanes = source.iter().zip(f).zip(sums).zip(&*shift);
            let outputs = residual[row.clone()].iter_mut().zip(&mut unaccelerated[row]);
            for ((((&a, &f), &sum), &shift), (residual, unaccelerated)) in lanes.zip(outputs) {
                let present = f - a.ln_of_normal();
                let next = if sum < limit { zero } else { exponent * (shift - sum) };
                let difference = (next - present) * relaxation;
                *residual = if a > zero { difference } else { zero };
                *unaccelerated = if a > zero { f + difference } else { zero };
            }
        }
    }
}
