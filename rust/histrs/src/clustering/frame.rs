//! Coordinates in which squares neither overflow nor vanish.

use crate::clustering::{ROWS, block_of};
use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::simd::Real;

/// Sums side by side, whatever the instruction set, so that all give the same bits.
const LANES: usize = 8;

/// The coordinates `(x - centre) / scale`.
#[derive(Debug)]
pub(super) struct Frame<T> {
    pub(super) centre: Vec<T>,
    /// `1 / scale`, a power of two, so that multiplying by it rounds nothing.
    pub(super) inverse: f64,
}

impl<T: Real> Frame<T> {
    /// The coordinates in which the differences of the rows of `x` from a centre are about 1.
    pub(super) fn new(centre: Vec<T>, x: &[T]) -> Self {
        let rows = x.chunks_exact(centre.len().max(1));
        let largest = rows.fold(0.0_f64, |largest, row| {
            row.iter().zip(&centre).fold(largest, |largest, (x, centre)| {
                largest.max((x.to_f64() - centre.to_f64()).abs())
            })
        });
        const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
        let scale = largest.clamp(T::TINY.to_f64(), f64::MAX);
        Self { centre, inverse: 1.0 / f64::from_bits(scale.to_bits() & EXPONENT) }
    }

    /// The coordinates about the mean of the rows of `x`.
    pub(super) fn of_rows(exec: &Executor, x: &[T], n_columns: usize) -> Result<Self> {
        let n_rows = x.len() / n_columns.max(1);
        let sums = exec.map_blocks(n_rows.div_ceil(ROWS), |block| {
            let mut sums = memory::filled(0.0, n_columns)?;
            for row in block_of(x, n_columns, block).chunks_exact(n_columns) {
                sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x.to_f64());
            }
            Ok(sums)
        })?;
        let mut total = memory::filled(0.0, n_columns)?;
        for sums in sums {
            total.iter_mut().zip(sums).for_each(|(total, sum)| *total += sum);
        }
        let mean = total.iter().map(|total| T::from_f64(total / n_rows as f64));
        Ok(Self::new(memory::collected(mean)?, x))
    }

    /// `|x - y|^2 / scale^2`.
    #[inline(always)]
    pub(super) fn squared_distance(&self, x: &[T], y: &[T]) -> f64 {
        let square = |x: T, y: T| {
            let difference = (x.to_f64() - y.to_f64()) * self.inverse;
            difference * difference
        };
        let n = x.len().min(y.len());
        let ((x, x_rest), (y, y_rest)) = (x[..n].as_chunks::<LANES>(), y[..n].as_chunks::<LANES>());
        let mut sums = [0.0; LANES];
        for (x, y) in x.iter().zip(y) {
            for (sum, (&x, &y)) in sums.iter_mut().zip(x.iter().zip(y)) {
                *sum += square(x, y);
            }
        }
        let rest: f64 = x_rest.iter().zip(y_rest).map(|(&x, &y)| square(x, y)).sum();
        sums.iter().sum::<f64>() + rest
    }
}
