//! The Matérn kernel of all pairs of rows, kept in two bytes per pair.
//!
//! | file | concept |
//! |---|---|
//! | `tiles` | the kernel, as it is kept |
//! | `product` | the products with tiles |

use ndarray::{Array2, ArrayView2};

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::lower_triangle::{TILE, tile};
use crate::memory;
use crate::simd::{AlignedVec, dispatch};

mod product;
mod tiles;

use product::{AddOfColumns, AddOfRows, RightSides, TILES, TileSums};
use tiles::{LARGEST, Scaled, tiles_of};

/// The Matérn kernel of smoothness 3/2 of all pairs of rows, for products,
///
/// ```text
/// K_ij = (1 + r) exp(-r),    r = sqrt(3) |x_i - x_j| / length
/// ```
///
/// (Rasmussen and Williams, 2006, eq. 4.17). Each pair is kept once, in `n^2` bytes for `n` rows, as
/// a whole multiple of 1/65535. Entries are computed in single precision, of rows less their mean.
///
/// With `|x|` the distance of a row from the mean in units of `length`, an entry is off by at most
/// some `1e-5 + 1e-6 |x|^2`. Rounded entries are those of a matrix whose eigenvalues are off by some `9e-6 sqrt(n)`: a system
/// asks for more than that on its diagonal.
#[derive(Debug)]
pub struct StoredMatern {
    n_rows: usize,
    tiles: AlignedVec<u16>,
}

impl StoredMatern {
    /// Computes and keeps the kernel of all pairs of rows.
    ///
    /// # Errors
    ///
    /// [`Error::NotFinite`] at the first bad entry, [`Error::TooFarFromMean`] at the first row that
    /// is over a hundred times `length` away, [`Error::Parameter`] when `length` is not positive and
    /// finite, [`Error::OutOfMemory`] where the matrix does not fit, and [`Error::Interrupted`].
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::{Executor, matern::StoredMatern};
    /// use ndarray::array;
    ///
    /// let exec = Executor::new(1)?;
    /// let x = array![[0.0, 1.0], [0.0, 1.0], [3.0, 5.0]];
    /// let kernel = StoredMatern::new(&exec, x.view(), 5.0)?;
    /// let product = kernel.product(&exec, array![[1.0], [1.0], [0.0]].view())?;
    /// let r = 3.0_f64.sqrt();
    /// assert_eq!(product[[0, 0]], 2.0);
    /// assert!((product[[2, 0]] - 2.0 * (1.0 + r) * (-r).exp()).abs() < 2e-5);
    /// # Ok::<(), histrs::Error>(())
    /// ```
    pub fn new(exec: &Executor, x: ArrayView2<'_, f64>, length: f64) -> Result<Self> {
        if !(length > 0.0 && length.is_finite()) {
            let expected = "give a positive number";
            return Err(Error::Parameter { name: "length", value: length, expected });
        }
        let tiles = tiles_of(exec, &Scaled::new(x, length)?)?;
        Ok(Self { n_rows: x.nrows(), tiles })
    }

    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Bytes of the kernel of pairs.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        size_of_val::<[u16]>(&self.tiles)
    }

    /// The product `K V`, in single precision within blocks of 4,096 rows and in double precision
    /// over these.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `v` has another number of rows, [`Error::OutOfMemory`], and
    /// [`Error::Interrupted`].
    pub fn product(&self, exec: &Executor, v: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        let cure = "give one row for every row of X";
        check_length("the number of rows of V", v.nrows(), self.n_rows, cure)?;
        let right = RightSides::new(v)?;
        let n_tiles = self.n_rows.div_ceil(TILE);
        let parts = exec.map_blocks(n_tiles, |i| {
            let mut out = TileSums::new(right.n_outputs())?;
            for first in (0..=i).step_by(TILES) {
                exec.check()?;
                let last = i.min(first + TILES - 1);
                let (tiles, next) = self.tiles[tile(i, first).start..]
                    .split_at(tile(i, last).end - tile(i, first).start);
                dispatch(AddOfRows { tiles, next, right: &right, first, out: &mut out });
            }
            for first in i + 1..n_tiles {
                exec.check()?;
                let next = self.tiles.get(tile(first + 1, i)).unwrap_or_default();
                let tile = &self.tiles[tile(first, i)];
                dispatch(AddOfColumns { tile, next, right: &right, first, out: &mut out });
            }
            Ok(out.into_sums())
        })?;
        let mut product = memory::zero_matrix(v.dim())?;
        for (row, mut out) in product.rows_mut().into_iter().enumerate() {
            for (k, out) in out.iter_mut().enumerate() {
                *out = parts[row / TILE][k * TILE + row % TILE] * (right.scale(k) / LARGEST);
            }
        }
        Ok(product)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: usize, d: usize) -> Array2<f64> {
        Array2::from_shape_fn((n, d), |(i, k)| {
            ((i * 7919 + k * 104_729 + i * k * 31) % 211) as f64 / 70.0 + 4.0
        })
    }

    fn kernel(x: &Array2<f64>, length: f64) -> Array2<f64> {
        Array2::from_shape_fn((x.nrows(), x.nrows()), |(i, j)| {
            let difference = &x.row(i) - &x.row(j);
            let r = (3.0 * difference.dot(&difference)).sqrt() / length;
            (1.0 + r) * (-r).exp()
        })
    }

    #[test]
    fn products_are_those_with_the_matrix() {
        for n_threads in [1, 2] {
            let exec = Executor::new(n_threads).unwrap();
            for (n, d) in [(1, 3), (2, 1), (127, 5), (128, 2), (129, 40), (700, 17)] {
                let mut x = rows(n, d);
                let copy = x.row(0).to_owned();
                x.row_mut(n - 1).assign(&copy);
                let k = kernel(&x, 3.0);
                let stored = StoredMatern::new(&exec, x.view(), 3.0).unwrap();
                for (m, unit) in [(0, 1.0), (1, 1e200), (15, 1.0), (16, 1e-200), (35, 1.0)] {
                    let v = Array2::from_shape_fn((n, m), |(i, k)| {
                        unit * (((i * 31 + k * 7) % 13) as f64 - 6.0)
                    });
                    let found = stored.product(&exec, v.view()).unwrap();
                    let size = v.mapv(f64::abs).sum_axis(ndarray::Axis(0));
                    for (found, right) in found.rows().into_iter().zip(k.dot(&v).rows()) {
                        for ((found, right), size) in found.iter().zip(right).zip(&size) {
                            assert!((found - right).abs() <= 2e-5 * size, "{n} {d} {m}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn columns_do_not_change_one_another() {
        let exec = Executor::new(2).unwrap();
        let x = rows(300, 4);
        let stored = StoredMatern::new(&exec, x.view(), 2.0).unwrap();
        let v = Array2::from_shape_fn((300, 19), |(i, k)| ((i * 17 + k * 5) % 11) as f64 - 4.0);
        let all = stored.product(&exec, v.view()).unwrap();
        for k in 0..19 {
            let one = stored.product(&exec, v.slice(ndarray::s![.., k..=k])).unwrap();
            assert_eq!(one.column(0), all.column(k));
        }
    }

    #[test]
    fn far_rows_are_as_exact_as_is_said_or_refused() {
        let exec = Executor::new(1).unwrap();
        let mut x = rows(140, 3);
        x.row_mut(3).fill(40.0);
        x.row_mut(139).fill(40.0);
        let k = kernel(&x, 2.0);
        let stored = StoredMatern::new(&exec, x.view(), 2.0).unwrap();
        let found = stored.product(&exec, Array2::eye(140).view()).unwrap();
        let mean = x.mean_axis(ndarray::Axis(0)).unwrap();
        let far =
            x.rows().into_iter().map(|x| (&x - &mean).mapv(|d| d * d).sum()).fold(0.0, f64::max);
        let most = 1e-5 + 1e-6 * far / 4.0;
        assert!((&found - &k).iter().all(|error| error.abs() < most));
        x.row_mut(7).fill(1e300);
        let refused = StoredMatern::new(&exec, x.view(), 2.0);
        assert!(matches!(refused, Err(Error::TooFarFromMean { row: 0, .. })));
    }

    #[test]
    fn no_rows_no_columns_and_bytes() {
        let exec = Executor::new(1).unwrap();
        for (n, d) in [(0, 3), (3, 0)] {
            let stored = StoredMatern::new(&exec, Array2::zeros((n, d)).view(), 1.0).unwrap();
            let product = stored.product(&exec, Array2::ones((n, 2)).view()).unwrap();
            assert_eq!(product, Array2::from_elem((n, 2), n as f64));
        }
        let stored = StoredMatern::new(&exec, rows(1000, 4).view(), 1.0).unwrap();
        assert_eq!(stored.n_rows(), 1000);
        assert_eq!(stored.n_bytes(), 36 * TILE * TILE * 2);
    }

    #[test]
    fn bad_arguments_are_refused() {
        let exec = Executor::new(1).unwrap();
        let mut x = rows(3, 2);
        let stored = StoredMatern::new(&exec, x.view(), 1.0).unwrap();
        let v = Array2::zeros((2, 1));
        assert!(matches!(stored.product(&exec, v.view()), Err(Error::Shape { .. })));
        for length in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let refused = StoredMatern::new(&exec, x.view(), length);
            assert!(matches!(refused, Err(Error::Parameter { name: "length", .. })));
        }
        x[[1, 0]] = f64::NAN;
        let refused = StoredMatern::new(&exec, x.view(), 1.0);
        assert!(matches!(refused, Err(Error::NotFinite { row: 1, column: 0, .. })));
    }
}
