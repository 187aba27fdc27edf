//! One column as 128 cells between whole numbers, and how far they are off.

use crate::error::Result;
use crate::intersection::lookup::bytes::function::{Best, Function, NODES, whole_numbers};
use crate::intersection::lookup::moments::Moments;
use crate::memory;
use crate::simd::Placement;

/// Whole numbers from the middle of the nodes to either end, and from one node to the next, before
/// they are rounded.
const LARGEST: f64 = 126.0;
/// Bits that nodes are kept with beyond those of the table, until its scale is known.
const SPARE_BITS: i32 = 8;
/// What a value may be off by, in 128ths of a cell, once it has a code: half of one by rounding,
/// the rest by single precision.
const OFFSET: f64 = 0.51 / 128.0;
/// Bits by which the second part of a table is finer than the first. The rests of two neighbours
/// after rounding to whole numbers differ by at most 1, and 64ths of that are bytes.
const PART_BITS: i32 = 6;
/// What a step of the second part counts, in those of the first.
pub(super) const PART: f64 = 1.0 / 64.0;
/// Exponents of steps are no lower.
const LOWEST: i32 = -900;

/// A column before its steps are chosen: those of an output are the same powers of two for all
/// columns, times one power of two of the column.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    pub(super) placement: Placement,
    /// All nodes of the first output, then those of the next, in steps of `2^(exponent - 8)` from
    /// their centre.
    nodes: Vec<i16>,
    pub(super) outputs: Vec<Output>,
}

/// One output of a column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output {
    /// Half way from the lowest to the highest node, in the same steps.
    centre: f64,
    /// The least power of two that nodes can be counted in by a byte; none where all are equal.
    pub(super) exponent: Option<i32>,
    /// Largest error before nodes are rounded, and of their first rounding.
    error: f64,
    /// Largest difference of two neighbouring nodes.
    rise: f64,
    /// The errors at the training rows before nodes are rounded.
    moments: Moments,
    /// Share of the training rows whose value is not 0.
    share: f64,
}

impl Output {
    /// The largest error with steps of `2^exponent`, in a table of so many parts.
    pub(super) fn error(&self, exponent: i32, n_parts: usize) -> f64 {
        match self.exponent {
            Some(_) => {
                let step = finest(exponent, n_parts);
                self.error + 0.5 * step + OFFSET * (self.rise + step)
            }
            None => self.error,
        }
    }

    /// What rows of the training set are off by: roundings are as likely up as down.
    pub(super) fn moments(&self, exponent: i32, n_parts: usize) -> Moments {
        let mut moments = self.moments;
        if self.exponent.is_some() {
            let step = finest(exponent, n_parts);
            moments.variance += self.share * step * step / 12.0;
        }
        moments
    }
}

/// The finest step of a table of so many parts.
fn finest(exponent: i32, n_parts: usize) -> f64 {
    2.0_f64.powi(if n_parts > 1 { exponent - PART_BITS } else { exponent })
}

impl Fit {
    /// Of a function by its values at `knots`, `n_outputs` for each, where all but the first knot
    /// are held by so many of `n_rows` rows. None if single precision has no scale for the column.
    pub(super) fn new(
        knots: &[f64],
        values: &[f64],
        n_outputs: usize,
        (counts, n_rows): (&[usize], usize),
    ) -> Result<Option<Self>> {
        let whole = whole_numbers(knots)?;
        let function = Function { knots: whole.as_deref().unwrap_or(knots), values, n_outputs };
        let Some(best) = function.best(counts, n_rows)? else { return Ok(None) };
        let Best { placement, nodes, errors, moments } = best;
        let share = counts.iter().sum::<usize>() as f64 / n_rows.max(1) as f64;
        let mut counted = memory::with_capacity(NODES * n_outputs)?;
        let mut outputs = memory::with_capacity(n_outputs)?;
        for ((output, error), moments) in errors.into_iter().enumerate().zip(moments) {
            let column = || nodes.iter().skip(output).step_by(n_outputs).copied();
            let (low, high) =
                column().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
            let rise = column()
                .zip(column().skip(1))
                .fold(0.0, |rise: f64, (a, b)| rise.max((b - a).abs()));
            let centre = 0.5 * low + 0.5 * high;
            let need = (0.5 * (high - low)).max(rise) / LARGEST;
            let mut found = Output { centre: 0.0, exponent: None, error, rise, moments, share };
            found.error += 16.0 * f64::EPSILON * low.abs().max(high.abs());
            if need > 0.0 {
                #[allow(clippy::cast_possible_truncation)] // an exponent
                let exponent = (need.log2().ceil() as i32).max(LOWEST);
                let unit = 2.0_f64.powi(exponent - SPARE_BITS);
                found.centre = (centre / unit).round();
                #[allow(clippy::cast_possible_truncation)] // at most 256 * 126, and one
                counted.extend(column().map(|v| ((v / unit).round() - found.centre) as i16));
                found.error += 0.5 * unit;
                found.exponent = Some(exponent);
            } else {
                counted.extend(std::iter::repeat_n(0, NODES));
            }
            outputs.push(found);
        }
        Ok(Some(Self { placement, nodes: counted, outputs }))
    }

    /// The values and the rises of the cells of an output, in steps of `2^exponent`; in the second
    /// part what rounding has left, in steps that are 64 times finer.
    #[allow(clippy::cast_possible_truncation)] // at most 127
    pub(super) fn table(
        &self,
        output: usize,
        exponent: i32,
        part: usize,
    ) -> impl Iterator<Item = (i8, i8)> {
        let own = self.outputs[output].exponent.unwrap_or(exponent);
        let factor = 2.0_f64.powi(own - exponent - SPARE_BITS);
        let nodes = &self.nodes[output * NODES..(output + 1) * NODES];
        // The centre is a whole number too, so that the function is exactly 0 at 0.
        let centre = self.outputs[output].centre;
        let middle = (centre * factor).round();
        let rounded = move |node: i16| {
            let exact = (f64::from(node) + centre) * factor;
            let whole = exact.round();
            (if part == 0 { whole - middle } else { ((exact - whole) / PART).round() }) as i16
        };
        nodes.windows(2).map(move |pair| {
            let (v, next) = (rounded(pair[0]), rounded(pair[1]));
            (v as i8, (next - v) as i8)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Values at 0, 1, ... 127, where nodes lie too: only the counting of bytes is off.
    fn fit(values: &[f64], counts: &[usize]) -> Fit {
        let knots: Vec<f64> = (0..values.len()).map(|k| k as f64).collect();
        Fit::new(&knots, values, 1, (counts, 400)).unwrap().unwrap()
    }

    /// The function of the table's bytes at every knot, and at the end of its cell.
    fn looked_up(fit: &Fit, exponent: i32, n_parts: usize) -> Vec<(f64, f64)> {
        let mut ends = vec![(0.0, 0.0); NODES - 1];
        for part in 0..n_parts {
            let unit = 2.0_f64.powi(exponent) * if part == 0 { 1.0 } else { PART };
            let table: Vec<(i8, i8)> = fit.table(0, exponent, part).collect();
            for (end, &(value, rise)) in ends.iter_mut().zip(&table) {
                let at = f64::from(value) - f64::from(table[0].0);
                end.0 += unit * at;
                end.1 += unit * (at + f64::from(rise));
            }
        }
        ends
    }

    proptest! {
        #[test]
        fn tables_are_within_their_bound(
            steps in prop::collection::vec(-1.0..1.0_f64, 127),
            smooth in any::<bool>(),
            scale in prop::sample::select(&[1e-30, 1.0, 1e30][..]),
            coarser in 0..6_i32,
        ) {
            let mut values = vec![0.0];
            for step in steps {
                let before = values[values.len() - 1];
                values.push(if smooth { before + scale * step } else { scale * step });
            }
            let fit = fit(&values, &[3; 127]);
            let output = &fit.outputs[0];
            let own = output.exponent.unwrap();
            let unit = 2.0_f64.powi(own - SPARE_BITS);
            // The first rounding is half a unit at most, and what is told for it no less.
            prop_assert!(output.error >= 0.5 * unit && output.error <= 0.51 * unit);
            for (k, &node) in fit.nodes[..128].iter().enumerate() {
                let node = (f64::from(node) + output.centre) * unit;
                prop_assert!((node - values[k]).abs() <= 0.5 * unit * (1.0 + 1e-9));
            }
            let rises = values.windows(2).map(|w| (w[1] - w[0]).abs());
            let rise = rises.fold(0.0, f64::max);
            prop_assert!((output.rise - rise).abs() <= 1e-9 * rise);
            for n_parts in [1, 2] {
                let exponent = own + coarser;
                let step = 2.0_f64.powi(exponent) * if n_parts == 1 { 1.0 } else { PART };
                let bound = output.error(exponent, n_parts);
                // Values whose code is off by 0.51 of 128 move along the steepest rise of the table.
                let ends = looked_up(&fit, exponent, n_parts);
                let steepest = ends.iter().map(|(a, b)| (b - a).abs()).fold(0.0, f64::max);
                for (&(at, next), want) in ends.iter().zip(values.windows(2)) {
                    let error = (at - want[0]).abs().max((next - want[1]).abs());
                    // Towards the other end of a cell what this one is off by counts less.
                    let most = (bound + OFFSET * unit) * (1.0 + 1e-9);
                    prop_assert!(error + OFFSET * steepest <= most, "{error:e} {bound:e}");
                }
                prop_assert!(steepest <= (rise + step + unit) * (1.0 + 1e-9));
                let least = output.error + 0.5 * step + OFFSET * (rise + step);
                prop_assert!(bound >= least * (1.0 - 1e-9));
                let moments = output.moments(exponent, n_parts);
                let variance = output.moments.variance + 381.0 / 400.0 * step * step / 12.0;
                prop_assert!((moments.variance - variance).abs() <= 1e-9 * variance);
                prop_assert!(moments.mean == output.moments.mean);
            }
        }
    }

    #[test]
    fn a_function_of_zeros_is_exact_in_any_steps() {
        let fit = fit(&[0.0; 128], &[3; 127]);
        for exponent in [-3, 40] {
            assert_eq!(fit.outputs[0].error(exponent, 1), 0.0);
            assert_eq!(fit.outputs[0].moments(exponent, 2).rms(), 0.0);
            assert!(fit.table(0, exponent, 0).all(|cell| cell == (0, 0)));
        }
        assert!(fit.outputs[0].exponent.is_none());
    }
}
