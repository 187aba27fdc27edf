//! The kernel as a function of the distance alone, from a table.

use super::blocks::{BLOCK, take_roots};
use super::tile::add_shapes;
use super::{DistanceKernel, Norm};
use crate::error::Result;
use crate::memory;
use crate::simd::{is_same, vectorized};

/// Coefficients of a cell.
const N: usize = 4;
/// Cells for each power of two of the distance, as a power of two.
const CELLS: u32 = 6;
/// Powers of two that are in the table below the shortest length, and above the longest.
const OCTAVES: (i32, i32) = (40, 10);
/// Cubes of numbers beyond these powers of two are out of range.
const MOST_OCTAVES: i32 = 180;
const MANTISSA: u32 = f64::MANTISSA_DIGITS - 1;

/// What the kernel of two rows has of their distance: all but the constant and their norms.
///
/// A table of polynomials over the distance of the L1 norm, or over the square of that of the L2
/// norm, whose root is not taken. The bits of a number say which cell it is in: their width is a
/// fixed part of the number, in which functions of the distance are smooth down to 0. They are
/// within some 1e-10 of the amplitudes.
#[derive(Debug)]
pub(super) struct Curve {
    cells: Vec<[f64; N]>,
    /// The bits of the first cell.
    first: u64,
    shift: u32,
    /// What smaller sums are taken for.
    least: f64,
}

impl Curve {
    pub(super) fn new(kernel: &DistanceKernel) -> Result<Self> {
        let rates = kernel.shapes.iter().map(|shape| shape.rate());
        let (slowest, fastest) = rates
            .fold((f64::INFINITY, 0.0_f64), |(slowest, fastest), rate| {
                (slowest.min(rate), fastest.max(rate))
            });
        let (slowest, fastest) = if fastest > 0.0 { (slowest, fastest) } else { (1.0, 1.0) };
        let (power, bits) = if kernel.norm == Norm::L2 { (2, CELLS - 1) } else { (1, CELLS) };
        let (lowest, highest) =
            (-exponent(fastest) - 1 - OCTAVES.0, -exponent(slowest) + OCTAVES.1);
        let (lowest, highest) = (power * lowest, power * highest);
        let shift = MANTISSA - bits;
        // Without cells, all is computed afresh.
        if lowest < -MOST_OCTAVES || highest > MOST_OCTAVES {
            return Ok(Self { cells: Vec::new(), first: 0, shift, least: 0.0 });
        }
        let (least, most) = (2.0_f64.powi(lowest), 2.0_f64.powi(highest));
        let (first, last) = (least.to_bits() >> shift, most.to_bits() >> shift);
        let mut cells = memory::with_capacity(usize::try_from(last - first).unwrap_or_default())?;
        let (mut nodes, mut values) = ([0.0; BLOCK], [0.0; BLOCK]);
        for start in (first..last).step_by(BLOCK / N) {
            let some = start..last.min(start + (BLOCK / N) as u64);
            for (nodes, cell) in nodes.chunks_exact_mut(N).zip(some.clone()) {
                let [from, to] = [cell, cell + 1].map(|cell| f64::from_bits(cell << shift));
                nodes.copy_from_slice(&nodes_between(from, to));
            }
            of_sums(kernel, &mut nodes.clone(), &mut values);
            let of_cells = nodes.as_chunks::<N>().0.iter().zip(values.as_chunks::<N>().0);
            cells.extend(some.zip(of_cells).map(|(_, (nodes, values))| polynomial(nodes, *values)));
        }
        Ok(Self { cells, first, shift, least })
    }

    /// Writes what the kernel has of these sums, which are spent.
    pub(super) fn values(
        &self,
        kernel: &DistanceKernel,
        sums: &mut [f64],
        places: &mut [u64],
        out: &mut [f64],
    ) {
        if !interpolate(&self.cells, self.first, self.shift, self.least, sums, places, out) {
            of_sums(kernel, sums, out);
        }
    }
}

/// The whole number below the logarithm to base 2 of a positive normal number.
fn exponent(x: f64) -> i32 {
    x.log2().floor() as i32
}

/// Writes what the kernel has of sums over columns, which become distances.
fn of_sums(kernel: &DistanceKernel, sums: &mut [f64], out: &mut [f64]) {
    if kernel.norm == Norm::L2 {
        take_roots(sums);
    }
    let half = 0.5 * kernel.energy();
    out.iter_mut().zip(&*sums).for_each(|(out, d)| *out = -half * d);
    add_shapes(kernel, sums, out);
}

/// Zeros of a Chebyshev polynomial.
fn nodes_between(from: f64, to: f64) -> [f64; N] {
    let (centre, half) = (0.5 * (from + to), 0.5 * (to - from));
    std::array::from_fn(|k| {
        let angle = (2 * k + 1) as f64 / (2 * N) as f64 * std::f64::consts::PI;
        half.mul_add(angle.cos(), centre)
    })
}

/// Coefficients of the polynomial with these values, the constant first.
fn polynomial(nodes: &[f64; N], mut values: [f64; N]) -> [f64; N] {
    // Newton's divided differences.
    for order in 1..N {
        for k in (order..N).rev() {
            values[k] = (values[k] - values[k - 1]) / (nodes[k] - nodes[k - order]);
        }
    }
    for order in (0..N - 1).rev() {
        for k in order..N - 1 {
            values[k] -= nodes[order] * values[k + 1];
        }
    }
    values
}

vectorized!(
    /// Returns false where a sum of a block is beyond the table.
    fn interpolate<S: Simd>(
        _simd: S,
        cells: &[[f64; N]],
        first: u64,
        shift: u32,
        least: f64,
        sums: &mut [f64],
        places: &mut [u64],
        out: &mut [f64],
    ) -> bool {
        for (place, sum) in places.iter_mut().zip(&mut *sums) {
            *sum = sum.max(least);
            *place = (sum.to_bits() >> shift).wrapping_sub(first);
        }
        let mut is_inside = true;
        for ((out, &sum), &place) in out.iter_mut().zip(&*sums).zip(&*places) {
            #[expect(clippy::cast_possible_truncation)] // beyond all cells on any machine
            let Some(&[constant, linear, square, cube]) = cells.get(place as usize) else {
                is_inside = false;
                continue;
            };
            *out = if is_same::<S, pulp::Scalar>() {
                ((cube * sum + square) * sum + linear) * sum + constant
            } else {
                cube.mul_add(sum, square).mul_add(sum, linear).mul_add(sum, constant)
            };
        }
        is_inside
    }
);
