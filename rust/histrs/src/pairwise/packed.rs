use crate::error::Result;
use crate::matrix::HistogramMatrix;
use crate::pairwise::Term;
use crate::simd::{AlignedVec, Element, lanes};

/// Rows by rows of a register tile.
pub(super) const TILE: usize = 4;

/// Some rows, dense and padded with zeros to whole vectors and whole tiles.
pub(super) struct PackedRows<T> {
    values: AlignedVec<T>,
    /// Empty unless the term asks for logarithms.
    logs: AlignedVec<T>,
    pub(super) width: usize,
    pub(super) n_rows: usize,
}

impl<T: Element> PackedRows<T> {
    pub(super) fn new<K: Term>(
        x: &HistogramMatrix<'_, T>,
        start: usize,
        n_rows: usize,
    ) -> Result<Self> {
        let width = x.n_columns().next_multiple_of(lanes::<T>());
        let mut values = AlignedVec::zeros(width * n_rows.next_multiple_of(TILE))?;
        for row in 0..n_rows {
            let out = &mut values[row * width..row * width + x.n_columns()];
            match x {
                HistogramMatrix::Dense(x) => {
                    for (out, &value) in out.iter_mut().zip(x.row(start + row)) {
                        *out = T::from_f64(K::prepare(value.to_f64()));
                    }
                }
                HistogramMatrix::Csr(x) => x.for_each_sum(start + row, |column, value| {
                    out[column] = T::from_f64(K::prepare(value));
                }),
            }
        }
        let mut logs = AlignedVec::zeros(if K::LOGS { values.len() } else { 0 })?;
        for (log, &value) in logs.iter_mut().zip(values.iter()) {
            *log = T::from_f64(log_or_zero(value.to_f64()));
        }
        Ok(Self { values, logs, width, n_rows })
    }

    pub(super) fn values(&self) -> &[T] {
        &self.values
    }

    /// The logarithms, or the values for a term that reads none, to the compiler too.
    pub(super) fn logs<K: Term>(&self) -> &[T] {
        if K::LOGS { &self.logs } else { &self.values }
    }
}

/// The binary logarithm, 0 for 0.
pub(super) fn log_or_zero(value: f64) -> f64 {
    if value > 0.0 { value.log2() } else { 0.0 }
}
