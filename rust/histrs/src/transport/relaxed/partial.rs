//! A step of a plan that moves a part of the mass.

use crate::simd::{Elementary, vectorized};
use crate::transport::range::nothing;
use crate::transport::relaxed::Outputs;

/// Most rounds in which the common factor of a partial plan is sought; each fills a bin at least.
const MOST_ROUNDS: usize = 64;

vectorized!(
    /// The logarithm `open` of the common factor of a partial plan: the row sums `exp(open + sums)`, cut at
    /// the marginal, add up to 1. A row is full where `open` is above its `limits`.
    ///
    /// Newton's method for the factor, in which the total is increasing and concave, from the left: no
    /// step goes too far, and each ends past a corner at least. What is rounded up to the least
    /// number makes steps shorter only.
    pub(super) fn fill<T: Elementary>(
        mass: &[T],
        sums: &[T],
        limits: &mut [T],
        open: &mut [T],
        stride: usize,
        width: usize,
    ) {
        let (zero, one) = (T::default(), T::from_f64(1.0));
        let (limits, open) = (&mut limits[..mass.len()], &mut open[..width]);
        let mut totals = vec![[zero; 2]; width];
        open.fill(nothing());
        let lanes = mass.chunks_exact(stride).zip(sums.chunks_exact(stride));
        for ((mass, sums), limits) in lanes.clone().zip(limits.chunks_exact_mut(stride)) {
            let lanes = mass[..width].iter().zip(sums).zip(limits).zip(&mut *open);
            for (((&a, &sum), limit), open) in lanes {
                *limit = a.ln_of_normal() - sum;
                let larger = if sum <= *open { *open } else { sum };
                *open = if a > zero { larger } else { *open };
            }
        }
        for (mass, sums) in lanes {
            let lanes = mass[..width].iter().zip(sums).zip(&*open).zip(&mut totals);
            for (((&a, &sum), &open), [mass, total]) in lanes {
                let row = (sum - open).exp_in_range();
                *mass = *mass + a;
                *total = *total + if a > zero { row } else { zero };
            }
        }
        // Where all mass moves, no bin waits for the others.
        let whole = T::from_f64(1.0 + 4.0 * T::EPSILON);
        for (open, [mass, total]) in open.iter_mut().zip(&totals) {
            let first = zero - *open - total.ln_of_normal();
            *open = if *mass <= whole { zero - nothing() } else { first };
        }
        for _ in 0..MOST_ROUNDS {
            totals.fill([zero; 2]);
            for (mass, limits) in mass.chunks_exact(stride).zip(limits.chunks_exact(stride)) {
                let lanes = mass[..width].iter().zip(limits).zip(&*open).zip(&mut totals);
                for (((&a, &limit), &open), [full, part]) in lanes {
                    let share = a * (open - limit).exp_in_range();
                    let is_full = limit <= open || a <= zero;
                    *full = *full + if is_full { a } else { zero };
                    *part = *part + if is_full { zero } else { share };
                }
            }
            let mut moved = false;
            for (open, &[full, part]) in open.iter_mut().zip(&totals) {
                let rest = one - full;
                let next = *open + (rest / part).ln_of_normal();
                let is_better = part > zero && rest > zero && next > *open;
                moved |= is_better;
                *open = if is_better { next } else { *open };
            }
            if !moved {
                break;
            }
        }
    }
);

vectorized!(
    /// The potential of the target of a partial plan.
    pub(super) fn filled_potential<T: Elementary>(
        target: &[T],
        limits: &[T],
        open: &[T],
        g: &mut [T],
        stride: usize,
        width: usize,
    ) {
        let rows = target.chunks_exact(stride).zip(limits.chunks_exact(stride));
        for ((target, limits), g) in rows.zip(g.chunks_exact_mut(stride)) {
            let lanes = target[..width].iter().zip(limits).zip(open);
            for (((&b, &limit), &open), g) in lanes.zip(g) {
                let next = if limit <= open { limit } else { open };
                *g = if b > T::default() { next } else { nothing() };
            }
        }
    }
);

vectorized!(
    /// The potential of the source of a partial plan.
    pub(super) fn mass_step<T: Elementary>(
        /// Mass, potential, sums and limits of the source.
        inputs: [&[T]; 4],
        open: &[T],
        outputs: Outputs<'_, T>,
        stride: usize,
        width: usize,
    ) {
        let Outputs { residual, unaccelerated, errors } = outputs;
        let zero = T::default();
        for at in (0..inputs[0].len()).step_by(stride) {
            let row = at..at + width;
            let [source, f, sums, limits] = inputs.map(|x| &x[row.clone()]);
            let lanes = source.iter().zip(f).zip(sums).zip(limits).zip(open);
            let outputs =
                residual[row.clone()].iter_mut().zip(&mut unaccelerated[row]).zip(&mut *errors);
            for (((((&a, &f), &sum), &limit), &open), ((residual, unaccelerated), error)) in
                lanes.zip(outputs)
            {
                let is_full = limit <= open;
                let share = a * (open - limit).exp_in_range();
                let wish = if is_full { a } else { share };
                let mass = (f + sum).exp_in_range();
                let next = if is_full { limit } else { open };
                *error = *error + if a > zero { (mass - wish).abs() } else { zero };
                *residual = if a > zero { next - f } else { zero };
                *unaccelerated = if a > zero { next } else { zero };
            }
        }
    }
);
