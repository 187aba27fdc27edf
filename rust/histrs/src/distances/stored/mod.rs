//! The kernel of all pairs of rows, kept in two bytes per pair.
//!
//! | file | concept |
//! |---|---|
//! | `tiles` | the kernel, as it is kept |
//! | `product` | the products with tiles |

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2};

use super::DistanceKernel;
use super::rows::Columns;
use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::lower_triangle::{TILE, tile};
use crate::memory;
use crate::simd::{AlignedVec, dispatch};

mod product;
mod tiles;

use product::{AddOfColumns, AddOfRows, RightSides, TILES, TileSums};
use tiles::{LARGEST, Rest};

/// How many times what is left of it the kernel may be, so that single precision is as good as whole
/// multiples are.
const SINGLE: f64 = 50.0;

/// The kernel of all pairs of rows, for products.
///
/// A factor `F` of few columns is kept as it is. Of the rest, `R = K - F F^T`, each pair is kept once,
/// in `n^2` bytes for `n` rows: `R_ij / sqrt(R_ii R_jj)` as a whole multiple of 1/32767. Entries are
/// computed in single precision, or in double precision where `R` is small beside `K`.
///
/// An entry is off by some `2e-5` of `sqrt(R_ii R_jj)`. Eigenvalues of the matrix are off by some
/// `2e-5 sqrt(n)` times the mean of `R_ii`: a system asks for more than that on its diagonal.
#[derive(Debug)]
pub struct StoredDistances {
    factor: Array2<f64>,
    /// The root of what is left of the variance of each row.
    roots: Vec<f64>,
    tiles: AlignedVec<i16>,
}

impl StoredDistances {
    /// Computes and keeps the kernel of all pairs of rows of `x`.
    ///
    /// The rest must be positive semi-definite: `factor` has the first columns of a Cholesky factor
    /// with pivots, or none. A pair takes about two operations a column of `x` and of `factor`, and ten
    /// a shape.
    ///
    /// # Errors
    ///
    /// As [`DistanceKernel::gram`], where what overflows single precision overflows, and
    /// [`Error::Shape`] unless `factor` has a row for each of `x`.
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::{Executor, distances::{DistanceKernel, Norm, Shape, StoredDistances}};
    /// use ndarray::{Array2, array};
    ///
    /// let exec = Executor::new(1)?;
    /// let x = array![[0.0], [0.0], [1.5]];
    /// let (weights, shapes) = (vec![1.0], vec![Shape::Laplace(2.0)]);
    /// let kernel = DistanceKernel::new(Norm::L1, 1, weights, shapes, vec![1.0, 0.0, 0.5])?;
    /// let none = Array2::zeros((3, 0));
    /// let stored = StoredDistances::new(&exec, &kernel, x.view(), none)?;
    /// let product = stored.product(&exec, array![[1.0], [1.0], [0.0]].view())?;
    /// assert!((product[[2, 0]] - 2.0 * ((-0.75_f64).exp() + 0.5)).abs() < 1e-4);
    /// # Ok::<(), histrs::Error>(())
    /// ```
    pub fn new(
        exec: &Executor,
        kernel: &DistanceKernel,
        x: ArrayView2<'_, f64>,
        factor: Array2<f64>,
    ) -> Result<Self> {
        let rows = Columns::<f32>::new(kernel, x, "X")?;
        let cure = "give one for each row of X";
        check_length("the number of rows of the factor", factor.nrows(), rows.n_rows(), cure)?;
        if let Some(((row, column), &value)) = factor.indexed_iter().find(|(_, v)| !v.is_finite()) {
            return Err(Error::NotFinite { name: "factor", row, column, value });
        }
        let (mut whole, mut left) = (0.0, 0.0);
        let mut roots = memory::with_capacity(rows.n_rows())?;
        for (&norm, f) in rows.norms.iter().zip(factor.rows()) {
            let (variance, known) = (kernel.variance(norm), f.dot(&f));
            whole += variance;
            left += (variance - known).max(0.0);
            roots.push((variance - known).max(0.0).sqrt());
        }
        let tiles = if whole > SINGLE * left {
            let rows = Columns::<f64>::new(kernel, x, "X")?;
            Rest::new(kernel, rows, &factor, &roots)?.tiles(exec)?
        } else {
            Rest::new(kernel, rows, &factor, &roots)?.tiles(exec)?
        };
        Ok(Self { factor, roots, tiles })
    }

    /// Mean of what is left of variances.
    #[must_use]
    pub fn mean_rest(&self) -> f64 {
        let sum: f64 = self.roots.iter().map(|root| root * root).sum();
        sum / self.n_rows().max(1) as f64
    }

    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.roots.len()
    }

    /// Bytes of the kernel of pairs.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        size_of_val::<[i16]>(&self.tiles)
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
        check_length("the number of rows of V", v.nrows(), self.n_rows(), cure)?;
        let right = RightSides::new(v, &self.roots)?;
        let n_tiles = self.n_rows().div_ceil(TILE);
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
        general_mat_mul(1.0, &self.factor, &self.factor.t().dot(&v), 0.0, &mut product);
        for (k, mut out) in product.columns_mut().into_iter().enumerate() {
            let scale = right.scale(k) / LARGEST;
            for (row, (out, &root)) in out.iter_mut().zip(&self.roots).enumerate() {
                *out += parts[row / TILE][k * TILE + row % TILE] * scale * root;
            }
        }
        Ok(product)
    }
}
