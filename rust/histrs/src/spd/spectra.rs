//! Functions of `W X W^T` by its eigenvalues, for a stack of matrices `X` and one matrix `W`.
//!
//! With Cholesky factors `X = C C^T` these are the squares of the singular values of `W C`, which
//! are found without forming the product: see `jacobi`.

use ndarray::ArrayView2;
use pulp::Simd;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::spd::factors::{TransposedCholesky, keep_factors};
use crate::spd::jacobi::orthogonalize;
use crate::spd::lanes::{Groups, LaneValues, Shared, vectors};
use crate::spd::ldl::add_products;
use crate::spd::logarithm::ln;
use crate::spd::stack::{SymmetricStack, triangle};

/// Rows and columns of a register tile.
const TILE: usize = 4;

/// The factors of a stack, and `W`.
pub(crate) struct Whitened<'a> {
    roots: Groups,
    whitener: Option<&'a [f64]>,
    p: usize,
}

/// Where the spectra of a group of matrices are computed.
pub(crate) struct Scratch<'a, V> {
    vectors: &'a mut [V],
    rest: Rest<'a, V>,
}

/// What it takes beside the matrices themselves.
pub(crate) struct Rest<'a, V> {
    scaled: &'a mut [V],
    squares: &'a mut [V],
    weights: &'a mut [V],
}

impl<'a, V> Rest<'a, V> {
    /// Vectors that it takes.
    pub(crate) const fn len(p: usize) -> usize {
        p * p + 2 * p
    }

    /// Splits a buffer of [`Self::len`] vectors.
    #[inline(always)]
    pub(crate) fn new(p: usize, buffer: &'a mut [V]) -> Self {
        let (scaled, rest) = buffer.split_at_mut(p * p);
        let (squares, weights) = rest.split_at_mut(p);
        Self { scaled, squares, weights }
    }
}

impl<'a, V> Scratch<'a, V> {
    /// Vectors that it takes.
    pub(crate) const fn len(p: usize) -> usize {
        p * p + Rest::<V>::len(p)
    }

    /// Splits a buffer of [`Self::len`] vectors.
    #[inline(always)]
    pub(crate) fn new(p: usize, buffer: &'a mut [V]) -> Self {
        let (vectors, rest) = buffer.split_at_mut(p * p);
        Self { vectors, rest: Rest::new(p, rest) }
    }
}

impl<'a> Whitened<'a> {
    /// Factorises the matrices; `None` for the identity.
    pub(crate) fn new(
        exec: &Executor,
        stack: &SymmetricStack,
        whitener: Option<&'a [f64]>,
    ) -> Result<Self> {
        let roots = keep_factors::<TransposedCholesky>(exec, "X", stack, &stack.groups()?)?;
        Ok(Self { roots, whitener, p: stack.p() })
    }

    /// Number of rows of a matrix.
    pub(crate) fn p(&self) -> usize {
        self.p
    }

    /// Number of matrices.
    pub(crate) fn n(&self) -> usize {
        self.roots.n()
    }

    /// Number of groups of matrices.
    pub(crate) fn n_groups(&self) -> usize {
        self.roots.n_groups()
    }

    /// Writes `sum_k phi(l_k) u_k u_k^T` of the matrices of a group, packed lower triangles, where
    /// `l_k` are the logarithms of the eigenvalues of `W X W^T` and `u_k` its eigenvectors;
    /// `see` is given the logarithms of each lane first.
    ///
    /// Fails at a matrix whose smallest eigenvalue is lost in the rounding of the largest.
    #[inline(always)]
    pub(crate) fn function<S: Simd>(
        &self,
        simd: S,
        group: usize,
        phi: impl Fn(f64) -> f64,
        mut see: impl FnMut(usize, f64),
        scratch: &mut Scratch<'_, S::f64s>,
        out: &mut [S::f64s],
    ) -> Result<()> {
        let Scratch { vectors, rest } = scratch;
        self.multiply(simd, group, vectors);
        let mut log_scale = LaneValues::default();
        function(simd, self.p, vectors, &mut log_scale, phi, &mut see, rest, out)
            .map_err(|lane| Error::TooFarFromReference { matrix: group * S::F64_LANES + lane })
    }

    /// The factors of the matrices.
    pub(crate) fn into_roots(self) -> Groups {
        self.roots
    }

    /// `W C`, column by column.
    #[inline(always)]
    fn multiply<S: Simd>(&self, simd: S, group: usize, out: &mut [S::f64s]) {
        let p = self.p;
        let roots = vectors::<S>(self.roots.group(group));
        let Some(whitener) = self.whitener else {
            out.copy_from_slice(roots);
            return;
        };
        // C is lower triangular.
        for j in (0..p).step_by(TILE) {
            match p - j {
                1 => columns::<S, 1>(simd, p, j, j, whitener, roots, out),
                2 => columns::<S, 2>(simd, p, j, j, whitener, roots, out),
                3 => columns::<S, 3>(simd, p, j, j, whitener, roots, out),
                _ => columns::<S, TILE>(simd, p, j, j, whitener, roots, out),
            }
        }
    }
}

/// As [`Whitened::function`], of matrices `K K^T` whose columns of `K` are the rows of `vectors`, times
/// `exp(log_scale)`; these become orthogonal and of size 1, and `log_scale` grows by what they were
/// divided by. Fails with the first lane whose smallest eigenvalue is lost.
#[inline(always)]
#[expect(clippy::too_many_arguments, reason = "buffers that the caller keeps")]
pub(crate) fn function<S: Simd>(
    simd: S,
    p: usize,
    vectors: &mut [S::f64s],
    log_scale: &mut LaneValues,
    phi: impl Fn(f64) -> f64,
    see: &mut impl FnMut(usize, f64),
    scratch: &mut Rest<'_, S::f64s>,
    out: &mut [S::f64s],
) -> std::result::Result<(), usize> {
    for (sum, own) in log_scale.iter_mut().zip(rescale(simd, p, vectors)) {
        *sum += own;
    }
    let converged = orthogonalize(simd, p, vectors, scratch.squares);
    let lanes = S::F64_LANES;
    let squares: &[f64] = pulp::bytemuck::cast_slice(scratch.squares);
    let weights: &mut [f64] = pulp::bytemuck::cast_slice_mut(scratch.weights);
    // The squares add up to p.
    let floor = (p as f64 * f64::EPSILON).powi(2);
    let mut valid = [converged; 8];
    for (squares, weights) in squares.chunks_exact(lanes).zip(weights.chunks_exact_mut(lanes)) {
        for lane in 0..lanes {
            valid[lane] &= squares[lane] > floor && squares[lane] < f64::INFINITY;
            let logarithm = ln(squares[lane]) + log_scale[lane];
            valid[lane] &= logarithm.is_finite();
            weights[lane] = phi(logarithm) / squares[lane];
            see(lane, logarithm);
        }
    }
    if let Some(lane) = (0..lanes).find(|&lane| !valid[lane]) {
        return Err(lane);
    }
    let rows = vectors.chunks_exact(p).zip(scratch.scaled.chunks_exact_mut(p));
    for ((row, scaled), &weight) in rows.zip(&*scratch.weights) {
        for (to, &from) in scaled.iter_mut().zip(row) {
            *to = simd.mul_f64s(weight, from);
        }
    }
    add_outer(simd, p, scratch.scaled, vectors, out);
    Ok(())
}

/// `K R^T` of the rows `K` of every lane, for one matrix `R`.
#[inline(always)]
pub(crate) fn multiply_rows<S: Simd>(
    simd: S,
    p: usize,
    matrix: &[f64],
    rows: &[S::f64s],
    out: &mut [S::f64s],
) {
    for j in (0..p).step_by(TILE) {
        match p - j {
            1 => columns::<S, 1>(simd, p, j, 0, matrix, rows, out),
            2 => columns::<S, 2>(simd, p, j, 0, matrix, rows, out),
            3 => columns::<S, 3>(simd, p, j, 0, matrix, rows, out),
            _ => columns::<S, TILE>(simd, p, j, 0, matrix, rows, out),
        }
    }
}

/// Columns of `W C` from column `j` on; those of `C` are 0 before row `first`.
#[inline(always)]
fn columns<S: Simd, const C: usize>(
    simd: S,
    p: usize,
    j: usize,
    first: usize,
    whitener: &[f64],
    roots: &[S::f64s],
    out: &mut [S::f64s],
) {
    let n = p - first;
    let right: [_; C] = core::array::from_fn(|c| &roots[(j + c) * p + first..][..n]);
    let whole = p - p % TILE;
    for i in (0..whole).step_by(TILE) {
        let left: [_; TILE] =
            core::array::from_fn(|r| Shared(&whitener[(i + r) * p + first..][..n]));
        let mut sums = [[simd.splat_f64s(0.0); C]; TILE];
        add_products(simd, n, left, right, &mut sums);
        for c in 0..C {
            for r in 0..TILE {
                out[(j + c) * p + i + r] = sums[r][c];
            }
        }
    }
    for i in whole..p {
        let left = [Shared(&whitener[i * p + first..][..n])];
        let mut sums = [[simd.splat_f64s(0.0); C]; 1];
        add_products(simd, n, left, right, &mut sums);
        for c in 0..C {
            out[(j + c) * p + i] = sums[0][c];
        }
    }
}

/// Scales each matrix so that the squares of its entries add up to `p`; returns the logarithm of
/// the square of what they were divided by.
#[inline(always)]
fn rescale<S: Simd>(simd: S, p: usize, k: &mut [S::f64s]) -> LaneValues {
    let mut sum = simd.splat_f64s(0.0);
    for &value in &*k {
        sum = simd.mul_add_e_f64s(value, value, sum);
    }
    let mean = simd.mul_f64s(sum, simd.splat_f64s(1.0 / p as f64));
    let inverse = simd.div_f64s(simd.splat_f64s(1.0), simd.sqrt_f64s(mean));
    for value in k {
        *value = simd.mul_f64s(*value, inverse);
    }
    let mut logarithms = LaneValues::default();
    let means: &[f64] = pulp::bytemuck::cast_slice(core::slice::from_ref(&mean));
    for lane in 0..S::F64_LANES {
        // Outside the range of a double nothing can be said.
        let normal = means[lane] >= f64::MIN_POSITIVE && means[lane] < f64::INFINITY;
        logarithms[lane] = if normal { ln(means[lane]) } else { f64::NAN };
    }
    logarithms
}

/// The lower triangle of `sum_k a_k b_k^T` of the rows of two matrices, packed.
#[inline(always)]
fn add_outer<S: Simd>(simd: S, p: usize, a: &[S::f64s], b: &[S::f64s], out: &mut [S::f64s]) {
    for i in (0..p).step_by(TILE) {
        for j in (0..=i).step_by(TILE) {
            let mut sums = [[simd.splat_f64s(0.0); TILE]; TILE];
            if i + TILE <= p {
                for k in 0..p {
                    let (left, right) = (&a[k * p + i..][..TILE], &b[k * p + j..][..TILE]);
                    for r in 0..TILE {
                        for c in 0..TILE {
                            sums[r][c] = simd.mul_add_e_f64s(left[r], right[c], sums[r][c]);
                        }
                    }
                }
            } else {
                for k in 0..p {
                    let left = &a[k * p + i..(k + 1) * p];
                    let right = &b[k * p + j..][..TILE.min(p - j)];
                    for (r, &left) in left.iter().enumerate() {
                        for (c, &right) in right.iter().enumerate() {
                            sums[r][c] = simd.mul_add_e_f64s(left, right, sums[r][c]);
                        }
                    }
                }
            }
            for r in 0..TILE.min(p - i) {
                for c in 0..TILE {
                    if j + c <= i + r {
                        out[triangle(i + r) + j + c] = sums[r][c];
                    }
                }
            }
        }
    }
}

/// The entries of a square matrix of `p` rows.
pub(crate) fn square<'a>(
    what: &'static str,
    p: usize,
    matrix: &'a ArrayView2<'_, f64>,
) -> Result<&'a [f64]> {
    if matrix.dim() != (p, p) {
        let found = if matrix.nrows() == p { matrix.ncols() } else { matrix.nrows() };
        let cure = "give a square matrix of the size of those of X";
        return Err(Error::Shape { what, found, expected: p, cure });
    }
    matrix.as_slice().ok_or(Error::NotInRows { name: "the whitener" })
}
