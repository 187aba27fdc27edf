//! Functions of `W X W^T` by its eigenvalues, for a stack of matrices `X` and one matrix `W`.
//!
//! With Cholesky factors `X = C C^T` these are the squares of the singular values of `W C`, which
//! are found without forming the product: see `jacobi`.

use ndarray::ArrayView2;
use pulp::Simd;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::simd::Elementary;
use crate::small_matrix::triangle;
use crate::spd::factors::{TransposedCholesky, keep_factors};
use crate::spd::jacobi::orthogonalize;
use crate::spd::lanes::{Groups, LaneValues, Shared, TILE, in_tiles, vectors};
use crate::spd::ldl::add_products;
use crate::spd::log_map::{
    self, add_outer, divide_by, logarithms, reduce, reduced_logarithm, restore, scale,
};
use crate::spd::stack::SymmetricStack;

/// The factors of a stack, and `W`.
pub(crate) struct Whitened<'a> {
    roots: Groups,
    whitener: Option<&'a [f64]>,
    p: usize,
}

/// Where the spectra of a group of matrices are computed, beside the matrices themselves.
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

/// Where the logarithms of a group of matrices are computed.
pub(crate) struct LogScratch<'a, V> {
    /// The factors `K`, column by column.
    pub(crate) factors: &'a mut [V],
    pub(crate) log_map: log_map::Scratch<'a, V>,
    rotated: &'a mut [V],
    rest: Rest<'a, V>,
}

impl<'a, V> LogScratch<'a, V> {
    /// Vectors that it takes.
    pub(crate) const fn len(p: usize) -> usize {
        p * p + log_map::Scratch::<V>::len(p) + triangle(p) + Rest::<V>::len(p)
    }

    /// Splits a buffer of [`Self::len`] vectors.
    #[inline(always)]
    pub(crate) fn new(p: usize, buffer: &'a mut [V]) -> Self {
        let (factors, rest) = buffer.split_at_mut(p * p);
        let (log_map, rest) = rest.split_at_mut(log_map::Scratch::<V>::len(p));
        let (rotated, rest) = rest.split_at_mut(triangle(p));
        let log_map = log_map::Scratch::new(p, log_map);
        Self { factors, log_map, rotated, rest: Rest::new(p, rest) }
    }
}

/// What is known of the eigenvalues of the matrices of a group.
pub(crate) struct Spans {
    /// About half the difference of the largest and smallest logarithm of each lane.
    pub(crate) spread: LaneValues,
    /// Lanes that took rotations.
    pub(crate) n_rotated: usize,
}

/// Writes the logarithms of `K K^T`, packed, whose factors `K` are in `scratch`, where they change.
/// Fails with the first lane whose smallest eigenvalue is lost.
#[inline(always)]
pub(crate) fn log_of_factors<S: Simd>(
    simd: S,
    p: usize,
    scratch: &mut LogScratch<'_, S::f64s>,
    out: &mut [S::f64s],
) -> std::result::Result<Spans, usize> {
    let LogScratch { factors, log_map, rotated, rest } = scratch;
    let lanes = S::F64_LANES;
    add_outer(simd, p, factors, factors, log_map.matrix());
    let log_scale = scale(simd, p, log_map.matrix());
    let bounds = reduce(simd, log_map);
    let is_beyond = |lane: usize| bounds.is_beyond(lane) || !log_scale[lane].is_finite();
    let n_rotated = (0..lanes).filter(|&lane| is_beyond(lane)).count();
    if n_rotated < lanes {
        reduced_logarithm(simd, &bounds, &log_scale, log_map, out);
        restore(simd, log_map, out);
    }
    let mut spread = LaneValues::default();
    for lane in 0..lanes {
        spread[lane] = bounds.spread(lane);
    }
    if n_rotated > 0 {
        let (mut least, mut largest) = ([f64::INFINITY; 8], [f64::NEG_INFINITY; 8]);
        let mut see = |lane: usize, l: f64| {
            least[lane] = l.min(least[lane]);
            largest[lane] = l.max(largest[lane]);
        };
        let mut log_scale = LaneValues::default();
        function(simd, p, factors, &mut log_scale, |l| l, &mut see, rest, rotated)?;
        let from: &[f64] = pulp::bytemuck::cast_slice(rotated);
        let to: &mut [f64] = pulp::bytemuck::cast_slice_mut(out);
        for lane in (0..lanes).filter(|&lane| is_beyond(lane)) {
            spread[lane] = 0.5 * (largest[lane] - least[lane]);
            let from = from.iter().skip(lane).step_by(lanes);
            for (to, from) in to.iter_mut().skip(lane).step_by(lanes).zip(from) {
                *to = *from;
            }
        }
    }
    Ok(Spans { spread, n_rotated })
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

    /// Number of groups of matrices.
    pub(crate) fn n_groups(&self) -> usize {
        self.roots.n_groups()
    }

    /// Writes the logarithms of `W X W^T` of a group, packed lower triangles.
    ///
    /// Fails at a matrix whose smallest eigenvalue is lost in the rounding of the largest.
    #[inline(always)]
    pub(crate) fn logarithm<S: Simd>(
        &self,
        simd: S,
        group: usize,
        scratch: &mut LogScratch<'_, S::f64s>,
        out: &mut [S::f64s],
    ) -> Result<()> {
        self.multiply(simd, group, scratch.factors);
        log_of_factors(simd, self.p, scratch, out)
            .map(|_| ())
            .map_err(|lane| Error::TooFarFromReference { matrix: group * S::F64_LANES + lane })
    }

    /// The factors of the matrices.
    pub(crate) fn into_roots(self) -> Groups {
        self.roots
    }

    /// `W C`, column by column.
    #[inline(always)]
    pub(crate) fn multiply<S: Simd>(&self, simd: S, group: usize, out: &mut [S::f64s]) {
        let p = self.p;
        let roots = vectors::<S>(self.roots.group(group));
        let Some(whitener) = self.whitener else {
            out.copy_from_slice(roots);
            return;
        };
        whiten_columns(simd, p, whitener, roots, out);
    }
}

/// Writes `sum_k phi(l_k) u_k u_k^T`, packed lower triangles, where `l_k` are the logarithms of the
/// eigenvalues of a matrix and `u_k` its eigenvectors; `see` is given the logarithms of each lane first.
///
/// The matrices are `K K^T` times `exp(log_scale)`, and the columns of `K` are the rows of
/// `vectors`. These become orthogonal and of size 1, and `log_scale` grows by the divisors. Fails
/// with the first lane whose smallest eigenvalue is lost.
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
            let logarithm = squares[lane].ln_of_normal() + log_scale[lane];
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

/// `W C`, column by column, of lower triangles `C`.
#[inline(always)]
pub(crate) fn whiten_columns<S: Simd>(
    simd: S,
    p: usize,
    whitener: &[f64],
    roots: &[S::f64s],
    out: &mut [S::f64s],
) {
    in_tiles!(j in 0, p, R => columns::<S, R>(simd, p, j, j, whitener, roots, out));
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
    in_tiles!(j in 0, p, R => columns::<S, R>(simd, p, j, 0, matrix, rows, out));
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
    divide_by(simd, simd.sqrt_f64s(mean), k);
    logarithms::<S>(mean)
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
