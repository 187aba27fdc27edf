//! A step where both marginals are kept.

use crate::simd::{Elementary, vectorized};
use crate::transport::range::nothing;
use crate::transport::relaxed::Outputs;

vectorized!(
    /// `g = log(target) - sums`, and [`nothing`] where there is no mass.
    pub(super) fn log_ratio<T: Elementary>(
        target: &[T],
        sums: &[T],
        g: &mut [T],
        stride: usize,
        width: usize,
    ) {
        let rows = target.chunks_exact(stride).zip(sums.chunks_exact(stride));
        for ((target, sums), g) in rows.zip(g.chunks_exact_mut(stride)) {
            for ((&b, &sum), g) in target[..width].iter().zip(sums).zip(g) {
                let ratio = b.ln_of_normal() - sum;
                *g = if b > T::default() { ratio } else { nothing() };
            }
        }
    }
);

vectorized!(
    /// What the scaling of the source is to be multiplied by, where that leads, and the L1 error; `inputs`
    /// are its mass, potential and sums.
    pub(super) fn log_residual<T: Elementary>(
        inputs: [&[T]; 3],
        outputs: Outputs<'_, T>,
        relaxation: T,
        stride: usize,
        width: usize,
    ) {
        let Outputs { residual, unaccelerated, errors } = outputs;
        for at in (0..inputs[0].len()).step_by(stride) {
            let row = at..at + width;
            log_residual_of_row(
                inputs.map(|x| &x[row.clone()]),
                &mut residual[row.clone()],
                &mut unaccelerated[row],
                &mut errors[..width],
                relaxation,
            );
        }
    }
);

#[inline(always)]
fn log_residual_of_row<T: Elementary>(
    [source, f, sums]: [&[T]; 3],
    residual: &mut [T],
    unaccelerated: &mut [T],
    errors: &mut [T],
    relaxation: T,
) {
    let zero = T::default();
    let inputs = source.iter().zip(f).zip(sums);
    let outputs = residual.iter_mut().zip(unaccelerated).zip(errors);
    for (((&a, &f), &sum), ((residual, unaccelerated), error)) in inputs.zip(outputs) {
        let difference = (a.ln_of_normal() - f - sum) * relaxation;
        let is_empty = a <= zero;
        *error = *error + if is_empty { zero } else { ((f + sum).exp_in_range() - a).abs() };
        *residual = if is_empty { zero } else { difference };
        *unaccelerated = if is_empty { zero } else { f + difference };
    }
}
