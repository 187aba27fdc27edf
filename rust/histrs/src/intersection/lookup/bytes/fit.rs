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
/// Bits by which the second part of a table is finer than the first: what rounding to whole numbers
/// leaves of two neighbours differs by at most 1, and 64ths of that are bytes.
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
    /// are held by so many of `n_rows` rows; none where single precision has no scale for the
    /// column.
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
