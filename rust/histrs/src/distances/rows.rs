//! Rows as tiles take them.

use ndarray::{Array2, ArrayView2};

use super::{DistanceKernel, Norm};
use crate::error::{Error, Result, check_length};
use crate::memory;
use crate::simd::{Elementary, Vectors, vectorized};

/// Blocks end at multiples of this many rows: the widest vectors of them.
const PADDED: usize = 32;

/// Rows, column after column, numbers times their weights.
#[derive(Debug)]
pub(super) struct Columns<T> {
    /// With zeros up to whole blocks.
    pub(super) values: Array2<T>,
    /// The distance of each row from one of zeros.
    pub(super) norms: Vec<f64>,
    /// Sums of the numbers of each row, or of their squares, with zeros as in `values`.
    pub(super) totals: Vec<T>,
}

impl<T: Elementary> Columns<T> {
    pub(super) fn new(
        kernel: &DistanceKernel,
        x: ArrayView2<'_, f64>,
        name: &'static str,
    ) -> Result<Self> {
        let cure = "give one for each weight";
        check_length("the number of columns", x.ncols(), kernel.weights.len(), cure)?;
        let n_padded = x.nrows().next_multiple_of(PADDED);
        let mut values = memory::zero_matrix((x.ncols(), n_padded))?;
        let mut norms = memory::filled(0.0, x.nrows())?;
        for (column, (mut out, &weight)) in
            values.rows_mut().into_iter().zip(&kernel.weights).enumerate()
        {
            let is_number = column < kernel.n_numbers;
            let values = out.iter_mut().zip(x.column(column)).zip(&mut norms);
            for (row, ((out, &value), norm)) in values.enumerate() {
                *out = T::from_f64(if is_number { value * weight } else { value });
                let part = if is_number { Elementary::abs(out.to_f64()) } else { weight };
                *norm += match kernel.norm {
                    Norm::L1 => part,
                    Norm::L2 => part * part,
                };
                // A finite number may overflow when it is squared.
                if !(value.is_finite() && T::from_f64(*norm).to_f64().is_finite()) {
                    return Err(Error::NotFinite { name, row, column, value });
                }
            }
        }
        let mut totals = memory::filled(T::default(), n_padded)?;
        for column in values.rows().into_iter().take(kernel.n_numbers) {
            add_to_totals(kernel.norm, memory::flat(&column)?, &mut totals);
        }
        if kernel.norm == Norm::L2 {
            norms.iter_mut().for_each(|norm| *norm = norm.sqrt());
        }
        Ok(Self { values, norms, totals })
    }

    pub(super) fn n_rows(&self) -> usize {
        self.norms.len()
    }

    /// One row.
    pub(super) fn row(&self, i: usize) -> Result<Vec<T>> {
        memory::collected(self.values.column(i).iter().copied())
    }
}

vectorized!(
    /// Adds a column of numbers to the sum that each row has with itself.
    fn add_to_totals<S: Simd, T: Elementary>(simd: S, norm: Norm, numbers: &[T], totals: &mut [T]) {
        let totals = T::vectors_mut::<S>(totals).0;
        for (total, &x) in totals.iter_mut().zip(T::vectors::<S>(numbers).0) {
            *total = match norm {
                Norm::L1 => <T as Vectors>::add(simd, *total, x),
                Norm::L2 => T::mul_add(simd, x, x, *total),
            };
        }
    }
);
