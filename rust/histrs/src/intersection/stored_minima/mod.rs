//! Sums of minima of all pairs of rows, kept in few bytes for products with what is made of them.
//!
//! | file | concept |
//! |---|---|
//! | `tiles` | the sums, as they are kept |
//! | `product` | the product with a tile |

use ndarray::{Array2, ArrayView2};

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::lower_triangle::{TILE, tile};
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::simd::{AlignedVec, Element};

mod product;
mod tiles;

use product::add_tile;
use tiles::{Stored, Tiles, is_whole, tiles_of};

/// The sums `S_ij = sum_d min(x_i(d), x_j(d))` of all pairs of rows, for products with
///
/// ```text
/// K_ij = a S_ij / (|x_i| + |x_j| - S_ij) + b S_ij
/// ```
///
/// the MinMax kernel and the intersection kernel. Each pair is kept once: whole numbers below 2^16 as
/// such, in `n^2` bytes for `n` rows, others in single precision and twice the bytes. The entries of
/// `K` are computed anew, in double precision, wherever they are needed.
#[derive(Debug)]
pub struct StoredMinima {
    /// Sums of the rows, and 0 up to whole tiles.
    sums: AlignedVec<f64>,
    n_rows: usize,
    tiles: Tiles,
}

impl StoredMinima {
    /// Computes and keeps the sums of all pairs of rows.
    ///
    /// # Errors
    ///
    /// [`Error::Negative`] or [`Error::NotFinite`] at the first bad entry, [`Error::SumTooLarge`]
    /// at a row whose sum leaves single precision, [`Error::OutOfMemory`] where the sums do not
    /// fit, and [`Error::Interrupted`].
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::{Executor, HistogramMatrix, intersection::StoredMinima};
    /// use ndarray::array;
    ///
    /// let exec = Executor::new(1)?;
    /// let x = array![[1.0, 2.0], [3.0, 0.0]];
    /// let minima = StoredMinima::new(&exec, &HistogramMatrix::dense(x.view()))?;
    /// let product = minima.product(&exec, 1.0, 0.0, array![[1.0], [10.0]].view())?;
    /// assert_eq!(product, array![[3.0], [10.2]]);
    /// # Ok::<(), histrs::Error>(())
    /// ```
    pub fn new<T: Element>(exec: &Executor, x: &HistogramMatrix<'_, T>) -> Result<Self> {
        x.check(exec, "X")?;
        let n_rows = x.n_rows();
        let mut sums = AlignedVec::zeros(n_rows.next_multiple_of(TILE))?;
        sums[..n_rows].copy_from_slice(&x.row_sums(exec)?);
        // No sum of minima is larger than those of its rows.
        if let Some(row) = sums.iter().position(|&sum| !<f32 as Stored>::of(sum).is_finite()) {
            return Err(Error::SumTooLarge { name: "X", row });
        }
        let tiles = if sums.iter().all(|&sum| sum <= f64::from(u16::MAX)) && is_whole(exec, x)? {
            Tiles::Words(tiles_of(exec, x)?)
        } else {
            Tiles::Singles(tiles_of(exec, x)?)
        };
        Ok(Self { sums, n_rows, tiles })
    }

    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Bytes of the sums of pairs.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        match &self.tiles {
            Tiles::Words(tiles) => size_of_val::<[u16]>(tiles),
            Tiles::Singles(tiles) => size_of_val::<[f32]>(tiles),
        }
    }

    /// The product `K V` with `K = minmax M + intersection S`, of the MinMax kernel `M`, 1 for two
    /// empty rows, and the sums of minima `S`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `v` has another number of rows, and [`Error::Interrupted`].
    pub fn product(
        &self,
        exec: &Executor,
        minmax: f64,
        intersection: f64,
        v: ArrayView2<'_, f64>,
    ) -> Result<Array2<f64>> {
        let cure = "give one row for every row of X";
        check_length("the number of rows of V", v.nrows(), self.n_rows, cure)?;
        match &self.tiles {
            Tiles::Words(tiles) => self.product_of(exec, tiles, (minmax, intersection), v),
            Tiles::Singles(tiles) => self.product_of(exec, tiles, (minmax, intersection), v),
        }
    }

    fn product_of<E: Stored>(
        &self,
        exec: &Executor,
        tiles: &[E],
        weights: (f64, f64),
        v: ArrayView2<'_, f64>,
    ) -> Result<Array2<f64>> {
        let (n_padded, n_outputs) = (self.sums.len(), v.ncols());
        // One right-hand side after the other, so that the entries of a row of a tile meet as many
        // numbers that lie side by side.
        let mut columns = AlignedVec::zeros(n_padded * n_outputs)?;
        for (column, v) in columns.chunks_exact_mut(n_padded.max(1)).zip(v.columns()) {
            column.iter_mut().zip(v).for_each(|(out, &v)| *out = v);
        }
        let n_tiles = n_padded / TILE;
        let parts = exec.map_blocks(n_tiles, |i| {
            let mut out = AlignedVec::zeros(TILE * n_outputs)?;
            for j in 0..n_tiles {
                exec.check()?;
                add_tile(
                    &tiles[tile(i.max(j), i.min(j))],
                    j > i,
                    weights,
                    (&self.sums[i * TILE..][..TILE], &self.sums[j * TILE..][..TILE]),
                    (&columns, n_padded),
                    j * TILE,
                    &mut out,
                );
            }
            Ok(out)
        })?;
        let mut product = memory::zero_matrix((self.n_rows, n_outputs))?;
        for (row, mut out) in product.rows_mut().into_iter().enumerate() {
            for (k, out) in out.iter_mut().enumerate() {
                *out = parts[row / TILE][k * TILE + row % TILE];
            }
        }
        Ok(product)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{AdditiveKernel, minmax_gram};

    fn counts(n: usize, d: usize, unit: f64) -> Array2<f64> {
        Array2::from_shape_fn((n, d), |(i, k)| {
            let count = (i * 7919 + k * 104_729 + i * k) % 11;
            if count < 6 { 0.0 } else { unit * count as f64 }
        })
    }

    #[test]
    fn products_are_those_with_the_matrix() {
        for n_threads in [1, 2] {
            let exec = Executor::new(n_threads).unwrap();
            for (n, d) in [(1, 3), (2, 1), (127, 5), (128, 5), (129, 40), (700, 17)] {
                for unit in [1.0, 0.3, 3000.0] {
                    let mut x = counts(n, d, unit);
                    x.row_mut(0).fill(0.0);
                    x.row_mut(n - 1).fill(0.0);
                    let whole = x.iter().all(|value: &f64| value.fract() == 0.0);
                    let fits = whole && x.rows().into_iter().all(|row| row.sum() < 65_536.0);
                    let x = HistogramMatrix::dense(x.view());
                    let v = Array2::from_shape_fn((n, 3), |(i, k)| ((i * 31 + k) % 7) as f64 - 3.0);
                    let stored = StoredMinima::new(&exec, &x).unwrap();
                    let words = matches!(stored.tiles, Tiles::Words(_));
                    assert_eq!(words, fits);
                    let found = stored.product(&exec, 0.7, 0.2, v.view()).unwrap();
                    let k = minmax_gram(&exec, &x, None).unwrap() * 0.7
                        + AdditiveKernel::Intersection.gram(&exec, &x, None).unwrap() * 0.2;
                    let size = k.dot(&v.mapv(f64::abs));
                    let tolerance = if words { 1e-14 } else { 1e-6 };
                    for ((found, right), size) in found.iter().zip(&k.dot(&v)).zip(&size) {
                        assert!((found - right).abs() <= tolerance * size, "{n} {d} {unit}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_rows_and_no_right_hand_sides() {
        let exec = Executor::new(1).unwrap();
        for n in [0, 3] {
            let x = counts(n, 4, 1.0);
            let stored = StoredMinima::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
            let v = Array2::zeros((n, 0));
            assert_eq!(stored.product(&exec, 1.0, 0.0, v.view()).unwrap().dim(), (n, 0));
        }
    }

    #[test]
    fn as_many_bytes_as_rows_squared() {
        let exec = Executor::new(1).unwrap();
        let x = counts(1000, 4, 1.0);
        let stored = StoredMinima::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        assert_eq!(stored.n_rows(), 1000);
        assert_eq!(stored.n_bytes(), 36 * TILE * TILE * 2);
    }

    #[test]
    fn bad_arguments_are_refused() {
        let exec = Executor::new(1).unwrap();
        let of = |x: &Array2<f64>| StoredMinima::new(&exec, &HistogramMatrix::dense(x.view()));
        let mut x = counts(3, 2, 1.0);
        let stored = of(&x).unwrap();
        let v = Array2::zeros((2, 1));
        assert!(matches!(stored.product(&exec, 1.0, 0.0, v.view()), Err(Error::Shape { .. })));
        x[[1, 0]] = 1e39;
        assert!(matches!(of(&x), Err(Error::SumTooLarge { row: 1, .. })));
        x[[1, 0]] = -1.0;
        assert!(matches!(of(&x), Err(Error::Negative { .. })));
    }
}
