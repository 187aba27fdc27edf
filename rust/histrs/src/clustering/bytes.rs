//! Rows rounded to bytes.

use crate::clustering::frame::Frame;
use crate::error::{Error, Result};
use crate::memory;
use crate::simd::{PRODUCT_COLUMNS, Quad, Real};

/// The largest byte that a row has.
const LARGEST: f32 = 127.0;
/// Adding it rounds a number to a whole one, which its last bits then are.
const ROUND: f32 = 1.5 * (1 << 23) as f32;
/// What makes bytes without a sign of those with one.
pub(super) const OFFSET: i32 = 128;
/// Sums side by side.
const LANES: usize = 16;

/// What is known of a row `x` beside its bytes `b`, in the coordinates of a frame.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ByteRow {
    /// `x` is nearly `step * b`.
    pub(super) step: f32,
    /// `|x|^2`.
    pub(super) squares: f32,
    /// No less than `|x|` and `|step * b|`.
    pub(super) norm: f32,
    /// No less than `|x - step * b|`; not finite where bytes say nothing of the row.
    pub(super) error: f32,
    /// What products with bytes plus [`OFFSET`] have too much, negative.
    pub(super) start: i32,
}

/// Rows, one after the other.
#[derive(Debug, Default)]
pub(super) struct ByteRows {
    pub(super) n_quads: usize,
    pub(super) quads: Vec<Quad>,
    pub(super) rows: Vec<ByteRow>,
    /// A row in single precision.
    values: Vec<f32>,
}

impl ByteRows {
    /// Takes other rows. To be called where instructions are chosen.
    ///
    /// # Errors
    ///
    /// [`Error::NotFinite`], where the first of `x` is row `first` of the argument `name`.
    #[inline(always)]
    pub(super) fn fill<T: Real>(
        &mut self,
        frame: &Frame<T>,
        x: &[T],
        (name, first): (&'static str, usize),
    ) -> Result<()> {
        let n_columns = frame.centre.len();
        let n_rows = x.len() / n_columns;
        self.n_quads = n_columns.div_ceil(4).min(PRODUCT_COLUMNS / 4);
        memory::resize(&mut self.quads, n_rows * self.n_quads, Quad::default())?;
        memory::resize(&mut self.rows, n_rows, ByteRow::default())?;
        memory::resize(&mut self.values, n_columns.next_multiple_of(LANES), 0.0)?;
        let quads = self.quads.chunks_exact_mut(self.n_quads);
        let rows = self.rows.iter_mut().zip(quads).zip(x.chunks_exact(n_columns));
        for (i, ((row, quads), x)) in rows.enumerate() {
            *row = round(frame, x, &mut self.values, quads);
            if !row.error.is_finite() {
                // Too large or too small for single precision, or not a number.
                let found = x.iter().enumerate().find(|(_, x)| !x.to_f64().is_finite());
                if let Some((column, value)) = found {
                    let value = value.to_f64();
                    return Err(Error::NotFinite { name, row: first + i, column, value });
                }
            }
        }
        Ok(())
    }

    /// The bytes of a row.
    pub(super) fn quads_of(&self, row: usize) -> &[Quad] {
        &self.quads[row * self.n_quads..(row + 1) * self.n_quads]
    }
}

#[inline(always)]
fn round<T: Real>(frame: &Frame<T>, x: &[T], values: &mut [f32], quads: &mut [Quad]) -> ByteRow {
    let inverse = T::from_f64(frame.inverse);
    for ((value, &x), &centre) in values.iter_mut().zip(x).zip(&frame.centre) {
        #[allow(clippy::cast_possible_truncation)] // what single precision cannot hold is looked at
        let single = ((x - centre) * inverse).to_f64() as f32;
        *value = single;
    }
    let mut largest = [0.0_f32; LANES];
    let mut sums = [0.0_f32; LANES];
    let (chunks, _) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for ((largest, sum), &x) in largest.iter_mut().zip(&mut sums).zip(chunk) {
            let size = x.abs();
            *largest = if size > *largest { size } else { *largest };
            *sum += x * x;
        }
    }
    let squares: f32 = sums.iter().sum();
    let largest = largest.iter().fold(0.0_f32, |a, &b| a.max(b));
    let (step, inverse) =
        if largest > 0.0 { (largest / LARGEST, LARGEST / largest) } else { (0.0, 0.0) };
    let mut errors = [0.0_f32; LANES];
    let mut total = [0_i32; LANES];
    let bytes = quads.as_flattened_mut();
    for (chunk, bytes) in chunks.iter().zip(bytes.chunks_mut(LANES)) {
        let mut found = [0_i8; LANES];
        for k in 0..LANES {
            let shifted = chunk[k] * inverse + ROUND;
            let error = chunk[k] - (shifted - ROUND) * step;
            errors[k] += error * error;
            #[allow(clippy::cast_possible_truncation)] // of a number of at most 127
            let byte = shifted.to_bits().cast_signed() as i8;
            found[k] = byte;
            total[k] += i32::from(byte);
        }
        let n = bytes.len();
        bytes.copy_from_slice(&found[..n]);
    }
    let mut error = errors.iter().sum::<f32>().sqrt();
    if x.len() > PRODUCT_COLUMNS || !squares.is_finite() {
        error = f32::INFINITY;
    }
    // More than rounding takes away.
    let error = error * (1.0 + rounding(x.len()));
    let norm = squares.sqrt() * (1.0 + rounding(x.len())) + error;
    ByteRow { step, squares, norm, error, start: -OFFSET * total.iter().sum::<i32>() }
}

/// Relative error of sums of so many products in single precision, at most.
pub(super) fn rounding(n_columns: usize) -> f32 {
    (n_columns as f32 / LANES as f32 + 32.0) * f32::EPSILON
}
