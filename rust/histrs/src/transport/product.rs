//! One matrix times many columns that lie side by side.

use pulp::Simd;

use crate::error::Result;
use crate::simd::{AlignedVec, Element, vectorized};

/// Rows of a register tile.
pub(super) const TILE: usize = 6;

/// A matrix of one column or more, in the order in which the product reads it: six rows at a
/// time, column by column.
pub(super) struct Packed<T> {
    data: AlignedVec<T>,
    n_columns: usize,
    n_rows: usize,
}

impl<T: Element> Packed<T> {
    pub(super) fn new(
        n_rows: usize,
        n_columns: usize,
        entry: impl Fn(usize, usize) -> f64,
    ) -> Result<Self> {
        let mut data = AlignedVec::zeros(padded(n_rows) * n_columns)?;
        for (i, tile) in data.chunks_exact_mut((TILE * n_columns).max(1)).enumerate() {
            for (k, values) in tile.chunks_exact_mut(TILE).enumerate() {
                for (row, value) in (i * TILE..n_rows).zip(values) {
                    *value = T::from_f64(entry(row, k));
                }
            }
        }
        Ok(Self { data, n_columns, n_rows })
    }

    pub(super) fn n_rows(&self) -> usize {
        self.n_rows
    }

    pub(super) fn n_columns(&self) -> usize {
        self.n_columns
    }

    /// The first `width` columns of `out = self x`, rows of both being `stride` apart; `width` and
    /// `stride` are multiples of every vector length, and `out` has [`padded`] rows.
    pub(super) fn product(&self, x: &[T], out: &mut [T], stride: usize, width: usize) {
        self.product_of_rows(0, x, out, stride, width);
    }

    /// As [`Self::product`] for as many rows as `out` has, from a multiple of [`TILE`] on.
    pub(super) fn product_of_rows(
        &self,
        first: usize,
        x: &[T],
        out: &mut [T],
        stride: usize,
        width: usize,
    ) {
        let tiles = &self.data[first * self.n_columns..];
        multiply(tiles, self.n_columns, x, out, stride, width);
    }
}

/// Number of rows, rounded up to whole tiles.
pub(super) fn padded(n_rows: usize) -> usize {
    n_rows.next_multiple_of(TILE)
}

vectorized!(
    fn multiply<S: Simd, T: Element>(
        simd: S,
        tiles: &[T],
        n_columns: usize,
        x: &[T],
        out: &mut [T],
        stride: usize,
        width: usize,
    ) {
        let stride = stride / T::lanes::<S>();
        let width = width / T::lanes::<S>();
        let x = T::vectors::<S>(x).0;
        let out = T::vectors_mut::<S>(out).0;
        let tiles = tiles.chunks_exact((TILE * n_columns).max(1));
        for (tile, out) in tiles.zip(out.chunks_exact_mut(TILE * stride)) {
            let mut at = 0;
            while at + 2 <= width {
                product_tile::<T, S, 2>(simd, tile, &x[at..], &mut out[at..], stride);
                at += 2;
            }
            if at < width {
                product_tile::<T, S, 1>(simd, tile, &x[at..], &mut out[at..], stride);
            }
        }
    }
);

#[inline(always)]
fn product_tile<T: Element, S: Simd, const N: usize>(
    simd: S,
    tile: &[T],
    x: &[T::Vector<S>],
    out: &mut [T::Vector<S>],
    stride: usize,
) {
    let mut acc = [[T::splat(simd, T::default()); N]; TILE];
    for (values, x) in tile.chunks_exact(TILE).zip(x.chunks(stride)) {
        for (acc, &value) in acc.iter_mut().zip(values) {
            let value = T::splat(simd, value);
            for (acc, &x) in acc.iter_mut().zip(&x[..N]) {
                *acc = T::mul_add(simd, value, x, *acc);
            }
        }
    }
    for (row, acc) in acc.iter().enumerate() {
        out[row * stride..row * stride + N].copy_from_slice(acc);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_its_definition() {
        for (n_rows, n_columns) in [(0, 0), (1, 1), (5, 7), (6, 3), (7, 6), (20, 31)] {
            let entry = |i: usize, k: usize| ((i * 31 + k * 17) % 11) as f64 - 5.0;
            let matrix = Packed::<f64>::new(n_rows, n_columns, entry).unwrap();
            assert_eq!((matrix.n_rows(), matrix.n_columns()), (n_rows, n_columns));
            let (stride, width) = (32, 16);
            let x: Vec<f64> = (0..n_columns * stride).map(|i| (i % 13) as f64 - 6.0).collect();
            let mut out = vec![f64::NAN; padded(n_rows) * stride];
            matrix.product(&x, &mut out, stride, width);
            for i in 0..n_rows {
                for l in 0..width {
                    let sum: f64 = (0..n_columns).map(|k| entry(i, k) * x[k * stride + l]).sum();
                    assert_eq!(out[i * stride + l], sum);
                }
            }
        }
    }
}
