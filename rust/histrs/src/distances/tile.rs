//! One row beside a block of others: distances, functions of them, and sums by column.

use std::ops::Range;

use super::blocks::BLOCK;
use super::rows::Columns;
use super::{DistanceKernel, Norm, Shape};
use crate::error::{Error, Result};
use crate::simd::{Elementary, is_same, vectorized};

/// Sums that are kept side by side.
const LANES: usize = 8;

/// A row, and the block of others that it meets.
pub(super) struct Tile<'a, T> {
    pub(super) kernel: &'a DistanceKernel,
    pub(super) row: &'a [T],
    pub(super) norm: f64,
    pub(super) others: &'a Columns<T>,
    pub(super) block: Range<usize>,
}

impl<T: Elementary> Tile<'_, T> {
    /// Writes the kernel of these distances.
    pub(super) fn values_of(&self, distances: &[T], out: &mut [T]) {
        let (half, constant) = (0.5 * self.kernel.energy(), self.kernel.constant());
        let norms = &self.others.norms[self.block.clone()];
        motion(half, constant, self.norm, norms, distances, out);
        add_shapes(self.kernel, distances, out);
    }

    fn values(&self, d: usize) -> Result<&[T]> {
        let column = self.others.values.row(d).to_slice();
        let column = column.ok_or(Error::Internal("columns lie one after the other"))?;
        Ok(&column[self.block.clone()])
    }
}

impl Tile<'_, f64> {
    /// Writes `g` times the slope of the kernel by the distance, and adds `g` times the kernel of each
    /// amplitude to `sums`. Distances of the L2 norm are divided by.
    pub(super) fn slopes(&self, distances: &[f64], g: &[f64], out: &mut [f64], sums: &mut [f64]) {
        let half = 0.5 * self.kernel.energy();
        let norms = &self.others.norms[self.block.clone()];
        let n_shapes = self.kernel.shapes.len();
        let (of_motion, of_constant) = slope_of_motion(half, self.norm, norms, distances, g, out);
        sums[n_shapes] += of_motion;
        sums[n_shapes + 1] += self.kernel.constant() * of_constant;
        for_shapes(self.kernel, distances, |k, shape, decays| {
            let amplitude = self.kernel.amplitudes[k];
            sums[k] += slope_of_shape(shape, amplitude, distances, decays, g, out);
        });
        if self.kernel.norm == Norm::L2 {
            divide(out, distances);
        }
    }

    /// Adds to `sums` the sum of slopes by the logarithm of each weight.
    pub(super) fn add_columns(&self, slopes: &[f64], sums: &mut [f64]) -> Result<()> {
        for (d, sum) in sums.iter_mut().enumerate() {
            let (is_number, norm) = (d < self.kernel.n_numbers, self.kernel.norm);
            let (values, x, weight) = (self.values(d)?, self.row[d], self.kernel.part_of_column(d));
            *sum += sum_of_column(norm, is_number, x, weight, values, slopes);
        }
        Ok(())
    }
}

/// Adds the functions of a block of distances.
pub(super) fn add_shapes<T: Elementary>(kernel: &DistanceKernel, distances: &[T], out: &mut [T]) {
    for_shapes(kernel, distances, |k, shape, decays| {
        let rate = T::from_f64(shape.rate());
        let amplitude = T::from_f64(kernel.amplitudes[k]);
        add_shape(shape, rate, amplitude, distances, decays, out);
    });
}

/// Calls `visit` with each shape, its place, and `exp(-rate D)`.
fn for_shapes<T: Elementary>(
    kernel: &DistanceKernel,
    distances: &[T],
    mut visit: impl FnMut(usize, Shape, &[T]),
) {
    let (mut slowest, mut power) = ([T::default(); BLOCK], [T::default(); BLOCK]);
    let slowest = &mut slowest[..distances.len()];
    let power = &mut power[..distances.len()];
    for decay in &kernel.decays {
        exponentials(T::from_f64(decay.rate), distances, slowest);
        for &(k, n) in &decay.powers {
            if n == 1 {
                visit(k, kernel.shapes[k], slowest);
            } else {
                powers(n, slowest, power);
                visit(k, kernel.shapes[k], power);
            }
        }
    }
}

vectorized!(
    /// Writes the kernel of the Brownian motion, and the constant.
    fn motion<T: Elementary>(
        half: f64,
        constant: f64,
        own: f64,
        norms: &[f64],
        distances: &[T],
        out: &mut [T],
    ) {
        for ((out, &d), &norm) in out.iter_mut().zip(distances).zip(norms) {
            *out = T::from_f64(constant + half * (own + norm - d.to_f64()));
        }
    }
);

vectorized!(
    /// Writes `g` times the slope of the Brownian motion. Returns the sums of `g` times it and of `g`.
    fn slope_of_motion(
        half: f64,
        own: f64,
        norms: &[f64],
        distances: &[f64],
        g: &[f64],
        out: &mut [f64],
    ) -> (f64, f64) {
        let of_g = sum_by_lanes([g, g, g], out, |_, [g, ..]| (g, -half * g));
        let sum = sum_by_lanes([distances, g, norms], out, |out, [d, g, norm]| {
            (half * g * (own + norm - d), out)
        });
        (sum, of_g)
    }
);

vectorized!(
    /// Divides by distances; where there is none, nothing is left.
    fn divide(out: &mut [f64], distances: &[f64]) {
        for (out, &d) in out.iter_mut().zip(distances) {
            *out = if d > 0.0 { *out / d } else { 0.0 };
        }
    }
);

vectorized!(
    fn exponentials<S: Simd, T: Elementary>(_simd: S, rate: T, distances: &[T], out: &mut [T]) {
        let rate = T::default() - rate;
        let pairs = out.iter_mut().zip(distances);
        if is_same::<S, pulp::Scalar>() {
            pairs.for_each(|(out, &d)| *out = (rate * d).exp_in_range());
        } else {
            pairs.for_each(|(out, &d)| *out = (rate * d).exp_fused());
        }
    }
);

vectorized!(
    /// Powers by squares and products, the highest bit of `n` first.
    fn powers<T: Elementary>(n: u32, bases: &[T], out: &mut [T]) {
        out.copy_from_slice(bases);
        for bit in (0..n.ilog2()).rev() {
            if n >> bit & 1 == 0 {
                out.iter_mut().for_each(|out| *out = *out * *out);
            } else {
                let pairs = out.iter_mut().zip(bases);
                pairs.for_each(|(out, &base)| *out = *out * *out * base);
            }
        }
    }
);

vectorized!(
    fn add_shape<T: Elementary>(
        shape: Shape,
        rate: T,
        amplitude: T,
        distances: &[T],
        /// `exp(-rate D)`.
        decays: &[T],
        out: &mut [T],
    ) {
        let one = T::from_f64(1.0);
        let triples = out.iter_mut().zip(decays).zip(distances);
        match shape {
            Shape::Laplace(_) => triples.for_each(|((out, &e), _)| *out = *out + amplitude * e),
            Shape::Matern(_) => triples.for_each(|((out, &e), &d)| {
                *out = *out + amplitude * (one + rate * d) * e;
            }),
        }
    }
);

vectorized!(
    fn slope_of_shape(
        shape: Shape,
        amplitude: f64,
        distances: &[f64],
        /// `exp(-rate D)`.
        decays: &[f64],
        g: &[f64],
        out: &mut [f64],
    ) -> f64 {
        let rate = shape.rate();
        // The value, and the slope by the distance, over amplitude and `exp(-s)`.
        match shape {
            Shape::Laplace(_) => {
                add_slopes(distances, decays, g, out, |_| (amplitude, -amplitude * rate))
            }
            Shape::Matern(_) => add_slopes(distances, decays, g, out, |d| {
                let s = rate * d;
                (amplitude * (1.0 + s), -amplitude * rate * s)
            }),
        }
    }
);

#[inline(always)]
fn add_slopes(
    distances: &[f64],
    decays: &[f64],
    g: &[f64],
    out: &mut [f64],
    of: impl Fn(f64) -> (f64, f64),
) -> f64 {
    sum_by_lanes([distances, g, decays], out, |out, [d, g, e]| {
        let ((value, slope), times) = (of(d), g * e);
        (value * times, out + slope * times)
    })
}

/// Returns the sum of what `each` makes of numbers, several beside one another, and writes the rest
/// that it makes of them.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // counted loops are unrolled whatever the profile
fn sum_by_lanes<const K: usize>(
    given: [&[f64]; K],
    out: &mut [f64],
    each: impl Fn(f64, [f64; K]) -> (f64, f64),
) -> f64 {
    let mut sums = [0.0; LANES];
    let (chunks, rest) = out.as_chunks_mut::<LANES>();
    let given = given.map(|numbers| numbers.as_chunks::<LANES>());
    for (c, out) in chunks.iter_mut().enumerate() {
        let numbers = given.map(|(chunks, _)| chunks[c]);
        for lane in 0..LANES {
            let (sum, kept) = each(out[lane], numbers.map(|numbers| numbers[lane]));
            sums[lane] += sum;
            out[lane] = kept;
        }
    }
    for (lane, out) in rest.iter_mut().enumerate() {
        let (sum, kept) = each(*out, given.map(|(_, rest)| rest[lane]));
        sums[lane] += sum;
        *out = kept;
    }
    sums.iter().sum()
}

vectorized!(
    /// The sum of slopes times what a column adds to a distance, or to its square.
    fn sum_of_column(
        norm: Norm,
        is_number: bool,
        x: f64,
        weight: f64,
        values: &[f64],
        slopes: &[f64],
    ) -> f64 {
        match (is_number, norm) {
            (true, Norm::L1) => sum_of_parts(values, slopes, |y| (x - y).abs()),
            (true, Norm::L2) => sum_of_parts(values, slopes, |y| (x - y) * (x - y)),
            (false, _) => sum_of_parts(values, slopes, |y| if x == y { 0.0 } else { weight }),
        }
    }
);

#[inline(always)]
#[allow(clippy::needless_range_loop)] // counted loops are unrolled whatever the profile
fn sum_of_parts(values: &[f64], slopes: &[f64], part: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0; LANES];
    let ((values, values_left), (slopes, slopes_left)) =
        (values.as_chunks::<LANES>(), slopes.as_chunks::<LANES>());
    for (values, slopes) in values.iter().zip(slopes) {
        for lane in 0..LANES {
            sums[lane] += slopes[lane] * part(values[lane]);
        }
    }
    for ((sum, &y), &slope) in sums.iter_mut().zip(values_left).zip(slopes_left) {
        *sum += slope * part(y);
    }
    sums.iter().sum()
}
