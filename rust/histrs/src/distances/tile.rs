//! One row beside a block of others: distances, functions of them, and sums by column.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::blocks::BLOCK;
use super::rows::Columns;
use super::{DistanceKernel, Norm, Shape};
use crate::error::{Error, Result};
use crate::simd::{Elementary, dispatch, is_same};

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
        dispatch(Base { tile: self, distances, out });
        self.for_shapes(distances, |k, shape, decays| {
            let rate = T::from_f64(shape.rate());
            let amplitude = T::from_f64(self.kernel.amplitudes[k]);
            dispatch(AddShape { shape, rate, amplitude, distances, decays, out });
        });
    }

    /// Calls `visit` with each shape, its place, and `exp(-rate D)`.
    fn for_shapes(&self, distances: &[T], mut visit: impl FnMut(usize, Shape, &[T])) {
        let (mut slowest, mut power) = ([T::default(); BLOCK], [T::default(); BLOCK]);
        let slowest = &mut slowest[..distances.len()];
        let power = &mut power[..distances.len()];
        for decay in &self.kernel.decays {
            dispatch(Exponentials { rate: T::from_f64(decay.rate), distances, out: slowest });
            for &(k, n) in &decay.powers {
                if n == 1 {
                    visit(k, self.kernel.shapes[k], slowest);
                } else {
                    dispatch(Powers { n, bases: slowest, out: power });
                    visit(k, self.kernel.shapes[k], power);
                }
            }
        }
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
        let n_shapes = self.kernel.shapes.len();
        let (of_energy, of_constant) = dispatch(SlopeOfBase { tile: self, distances, g, out });
        sums[n_shapes] += of_energy;
        sums[n_shapes + 1] += of_constant;
        self.for_shapes(distances, |k, shape, decays| {
            let amplitude = self.kernel.amplitudes[k];
            sums[k] += dispatch(SlopeOfShape { shape, amplitude, distances, decays, g, out });
        });
        if self.kernel.norm == Norm::L2 {
            dispatch(OverDistances { distances, out });
        }
    }

    /// Adds to `sums` the sum of slopes by the logarithm of each weight.
    pub(super) fn add_columns(&self, slopes: &[f64], sums: &mut [f64]) -> Result<()> {
        for (d, sum) in sums.iter_mut().enumerate() {
            let (is_number, norm) = (d < self.kernel.n_numbers, self.kernel.norm);
            let (values, x, weight) = (self.values(d)?, self.row[d], self.kernel.part_of_column(d));
            *sum += dispatch(SumOfColumn { norm, is_number, x, weight, values, slopes });
        }
        Ok(())
    }
}

/// What a column adds to a distance, or to its square.
#[inline(always)]
fn part<T: Elementary>(norm: Norm, is_number: bool, x: T, weight: T) -> impl Fn(T) -> T + Copy {
    move |y| match (is_number, norm) {
        (true, Norm::L1) => (x - y).abs(),
        (true, Norm::L2) => (x - y) * (x - y),
        (false, _) if x == y => T::default(),
        (false, _) => weight,
    }
}

/// Calls `$run` with a function that is known when the loop over it is compiled.
macro_rules! with_part {
    ($column:expr, $part:ident => $run:expr) => {{
        let (x, weight) = ($column.x, $column.weight);
        match ($column.is_number, $column.norm) {
            (true, Norm::L1) => {
                let $part = part(Norm::L1, true, x, weight);
                $run
            }
            (true, Norm::L2) => {
                let $part = part(Norm::L2, true, x, weight);
                $run
            }
            (false, _) => {
                let $part = part(Norm::L1, false, x, weight);
                $run
            }
        }
    }};
}

/// Writes the Brownian motion and the constant.
struct Base<'a, T> {
    tile: &'a Tile<'a, T>,
    distances: &'a [T],
    out: &'a mut [T],
}

impl<T: Elementary> WithSimd for Base<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let (kernel, own) = (self.tile.kernel, self.tile.norm);
        let (half, constant) = (0.5 * kernel.energy(), kernel.constant());
        let norms = &self.tile.others.norms[self.tile.block.clone()];
        for ((out, &d), &norm) in self.out.iter_mut().zip(self.distances).zip(norms) {
            *out = T::from_f64(constant + half * (own + norm - d.to_f64()));
        }
    }
}

/// Writes `g` times the slope of the Brownian motion, and returns `g` times that and the constant.
struct SlopeOfBase<'a> {
    tile: &'a Tile<'a, f64>,
    distances: &'a [f64],
    g: &'a [f64],
    out: &'a mut [f64],
}

impl WithSimd for SlopeOfBase<'_> {
    type Output = (f64, f64);

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> (f64, f64) {
        let (kernel, own) = (self.tile.kernel, self.tile.norm);
        let half = 0.5 * kernel.energy();
        let norms = &self.tile.others.norms[self.tile.block.clone()];
        let (mut of_energy, mut of_constant) = ([0.0; LANES], [0.0; LANES]);
        let sums = |sums: [f64; LANES]| sums.iter().sum::<f64>();
        let chunks = self.out.chunks_mut(LANES).zip(self.distances.chunks(LANES));
        for ((out, d), (g, norms)) in chunks.zip(self.g.chunks(LANES).zip(norms.chunks(LANES))) {
            let parts = of_energy.iter_mut().zip(&mut of_constant);
            for (((out, &d), (&g, &norm)), (energy, constant)) in
                out.iter_mut().zip(d).zip(g.iter().zip(norms)).zip(parts)
            {
                *out = -half * g;
                *energy += g * (own + norm - d);
                *constant += g;
            }
        }
        (half * sums(of_energy), kernel.constant() * sums(of_constant))
    }
}

/// Divides by distances; where there is none, leaves nothing.
struct OverDistances<'a> {
    distances: &'a [f64],
    out: &'a mut [f64],
}

impl WithSimd for OverDistances<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (out, &d) in self.out.iter_mut().zip(self.distances) {
            *out = if d > 0.0 { *out / d } else { 0.0 };
        }
    }
}

struct Exponentials<'a, T> {
    rate: T,
    distances: &'a [T],
    out: &'a mut [T],
}

impl<T: Elementary> WithSimd for Exponentials<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let rate = T::default() - self.rate;
        let pairs = self.out.iter_mut().zip(self.distances);
        if is_same::<S, pulp::Scalar>() {
            pairs.for_each(|(out, &d)| *out = (rate * d).exp_in_range());
        } else {
            pairs.for_each(|(out, &d)| *out = (rate * d).exp_fused());
        }
    }
}

/// Powers by squares and products, the highest bit of `n` first.
struct Powers<'a, T> {
    n: u32,
    bases: &'a [T],
    out: &'a mut [T],
}

impl<T: Elementary> WithSimd for Powers<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.out.copy_from_slice(self.bases);
        for bit in (0..self.n.ilog2()).rev() {
            if self.n >> bit & 1 == 0 {
                self.out.iter_mut().for_each(|out| *out = *out * *out);
            } else {
                let pairs = self.out.iter_mut().zip(self.bases);
                pairs.for_each(|(out, &base)| *out = *out * *out * base);
            }
        }
    }
}

struct AddShape<'a, T> {
    shape: Shape,
    rate: T,
    amplitude: T,
    distances: &'a [T],
    /// `exp(-rate D)`.
    decays: &'a [T],
    out: &'a mut [T],
}

impl<T: Elementary> WithSimd for AddShape<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let (rate, amplitude, one) = (self.rate, self.amplitude, T::from_f64(1.0));
        let triples = self.out.iter_mut().zip(self.decays).zip(self.distances);
        match self.shape {
            Shape::Laplace(_) => triples.for_each(|((out, &e), _)| *out = *out + amplitude * e),
            Shape::Matern(_) => triples.for_each(|((out, &e), &d)| {
                *out = *out + amplitude * (one + rate * d) * e;
            }),
        }
    }
}

struct SlopeOfShape<'a> {
    shape: Shape,
    amplitude: f64,
    distances: &'a [f64],
    /// `exp(-rate D)`.
    decays: &'a [f64],
    g: &'a [f64],
    out: &'a mut [f64],
}

impl WithSimd for SlopeOfShape<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let (rate, amplitude) = (self.shape.rate(), self.amplitude);
        // The value, and the slope by the distance, over amplitude and `exp(-s)`.
        match self.shape {
            Shape::Laplace(_) => self.sum(|_| (amplitude, -amplitude * rate)),
            Shape::Matern(_) => self.sum(|d| {
                let s = rate * d;
                (amplitude * (1.0 + s), -amplitude * rate * s)
            }),
        }
    }
}

impl SlopeOfShape<'_> {
    #[inline(always)]
    fn sum(self, of: impl Fn(f64) -> (f64, f64)) -> f64 {
        let mut sums = [0.0; LANES];
        let chunks = self.out.chunks_mut(LANES).zip(self.distances.chunks(LANES));
        for ((out, d), (g, e)) in chunks.zip(self.g.chunks(LANES).zip(self.decays.chunks(LANES))) {
            for ((((sum, out), &d), &g), &e) in sums.iter_mut().zip(out).zip(d).zip(g).zip(e) {
                let (value, slope) = of(d);
                let times = g * e;
                *sum += value * times;
                *out += slope * times;
            }
        }
        sums.iter().sum()
    }
}

struct SumOfColumn<'a> {
    norm: Norm,
    is_number: bool,
    x: f64,
    weight: f64,
    values: &'a [f64],
    slopes: &'a [f64],
}

impl WithSimd for SumOfColumn<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let mut sums = [0.0; LANES];
        with_part!(self, part => {
            for (slopes, values) in self.slopes.chunks(LANES).zip(self.values.chunks(LANES)) {
                for ((sum, &slope), &y) in sums.iter_mut().zip(slopes).zip(values) {
                    *sum += slope * part(y);
                }
            }
        });
        sums.iter().sum()
    }
}
