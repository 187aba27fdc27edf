//! The affine-invariant Riemannian metric.

use ndarray::{Array1, Array2, ArrayView3};
use pulp::Simd;

use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::simd::{Element, Elementary};
use crate::small_matrix::triangle;
use crate::spd::eigenvalues::tridiagonal_eigenvalues;
use crate::spd::factors::{InverseCholesky, TransposedCholesky, keep_factors};
use crate::spd::lanes::{
    Entries, Groups, Interleaved, LaneValues, Shared, in_lower_tiles, vectors,
};
use crate::spd::ldl::add_products;
use crate::spd::log_map::{self, reduce, reduced_logarithm, squared_norm};
use crate::spd::pairs::{LaneDistance, all_pairs, paired};
use crate::spd::stack::{SymmetricStack, check_same_number, check_same_size};
use crate::spd::tridiagonal::Tridiagonal;

/// The affine-invariant Riemannian metric `|log(X^-1/2 Y X^-1/2)|_F` (definition 1) between the
/// matrices of stacks of shapes `(n_x, p, p)` and `(n_y, p, p)`; `y = None` means `y = x` and
/// computes each pair once.
///
/// The logarithms are those of the eigenvalues of `X^-1 Y`: with Cholesky factors `X = A A^T`
/// and `Y = C C^T`, each made once, those of `K K^T`, `K = A^-1 C`.
///
/// # Errors
///
/// As [`jbld_distances`](crate::spd::jbld_distances);
/// [`Error::TooFarApart`](crate::Error::TooFarApart) where the smallest eigenvalue is lost in the
/// rounding of the largest.
///
/// # Examples
///
/// ```
/// use histrs::{Executor, spd::airm_distances};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[[1.0, 0.0], [0.0, 1.0]], [[4.0, 0.0], [0.0, 1.0]]];
/// let d = airm_distances(&exec, x.view(), None)?;
/// assert!((d[[0, 1]] - 4_f64.ln()).abs() < 1e-14);
/// assert_eq!(d[[1, 1]], 0.0);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn airm_distances<T: Element>(
    exec: &Executor,
    x: ArrayView3<'_, T>,
    y: Option<ArrayView3<'_, T>>,
) -> Result<Array2<T>> {
    let symmetric = y.is_none();
    let x = SymmetricStack::new(exec, "X", x)?;
    let y = y.map(|y| SymmetricStack::new(exec, "Y", y)).transpose()?;
    let y = y.as_ref().unwrap_or(&x);
    check_same_size(&x, y)?;
    if x.p() == 0 {
        // Matrices without rows are all the same.
        return memory::zero_matrix((x.n(), y.n()));
    }
    let mut factors = Factors::new(exec, &x, y)?;
    factors.matrices = factors.inverses.matrices()?;
    all_pairs(exec, &factors, (x.n(), y.n()), symmetric)
}

/// [`airm_distances`] of matrix `i` of `x` and matrix `i` of `y`, for every `i`.
///
/// # Errors
///
/// As [`airm_distances`], and when there are not as many matrices in `y` as in `x`.
pub fn airm_paired<T: Element>(
    exec: &Executor,
    x: ArrayView3<'_, T>,
    y: ArrayView3<'_, T>,
) -> Result<Array1<T>> {
    let x = SymmetricStack::new(exec, "X", x)?;
    let y = SymmetricStack::new(exec, "Y", y)?;
    check_same_size(&x, &y)?;
    check_same_number(&x, &y)?;
    if x.p() == 0 {
        return memory::zeros(x.n());
    }
    paired(exec, &Factors::new(exec, &x, &y)?, x.n())
}

/// Two stacks, with inverse Cholesky factors of `X` and transposed ones of `Y`.
struct Factors<'a> {
    x: &'a SymmetricStack,
    y: &'a SymmetricStack,
    inverses: Groups,
    roots: Groups,
    /// The inverses, one after the other, where each meets all of `Y`.
    matrices: Vec<f64>,
}

impl<'a> Factors<'a> {
    fn new(exec: &Executor, x: &'a SymmetricStack, y: &'a SymmetricStack) -> Result<Self> {
        let inverses = keep_factors::<InverseCholesky>(exec, "X", x, &x.groups()?)?;
        let roots = keep_factors::<TransposedCholesky>(exec, "Y", y, &y.groups()?)?;
        Ok(Self { x, y, inverses, roots, matrices: Vec::new() })
    }
}

impl LaneDistance for Factors<'_> {
    fn scratch_len(&self) -> usize {
        Scratch::<f64>::len(self.x.p())
    }

    #[inline(always)]
    fn distances<S: Simd, const PAIRED: bool>(
        &self,
        simd: S,
        x: usize,
        group: usize,
        scratch: &mut [S::f64s],
    ) -> LaneValues {
        let p = self.x.p();
        let roots = vectors::<S>(self.roots.group(group));
        let mut out = if PAIRED {
            let inverses = Interleaved(vectors::<S>(self.inverses.group(x)));
            distances(simd, p, inverses, roots, scratch)
        } else {
            let inverse = Shared(&self.matrices[x * p * p..(x + 1) * p * p]);
            distances(simd, p, inverse, roots, scratch)
        };
        // Equal matrices are at distance 0, whatever rounding says.
        for (distance, y) in out.iter_mut().zip(group * S::F64_LANES..self.y.n()) {
            if self.x.half(if PAIRED { y } else { x }) == self.y.half(y) {
                *distance = 0.0;
            }
        }
        out
    }
}

struct Scratch<'a, V> {
    whitened: &'a mut [V],
    logarithm: &'a mut [V],
    log_map: log_map::Scratch<'a, V>,
}

impl<'a, V> Scratch<'a, V> {
    const fn len(p: usize) -> usize {
        p * p + triangle(p) + log_map::Scratch::<V>::len(p)
    }

    #[inline(always)]
    fn new(p: usize, buffer: &'a mut [V]) -> Self {
        let (whitened, rest) = buffer.split_at_mut(p * p);
        let (logarithm, rest) = rest.split_at_mut(triangle(p));
        Self { whitened, logarithm, log_map: log_map::Scratch::new(p, rest) }
    }
}

#[inline(always)]
fn distances<S: Simd, X: Entries<S>>(
    simd: S,
    p: usize,
    inverse: X,
    roots: &[S::f64s],
    scratch: &mut [S::f64s],
) -> LaneValues {
    let Scratch { whitened, logarithm, mut log_map } = Scratch::new(p, scratch);
    whiten(simd, p, inverse, roots, whitened);
    let log_scale = scaled_gram(simd, p, whitened, log_map.matrix());
    let bounds = reduce(simd, &mut log_map);
    let mut out = LaneValues::default();
    let is_beyond = |lane: usize| bounds.is_beyond(lane) || !log_scale[lane].is_finite();
    if !(0..S::F64_LANES).all(is_beyond) {
        reduced_logarithm(simd, &bounds, &log_scale, &mut log_map, logarithm);
        let square = squared_norm(simd, p, logarithm);
        let squares: &[f64] = pulp::bytemuck::cast_slice(core::slice::from_ref(&square));
        for lane in 0..S::F64_LANES {
            out[lane] = squares[lane].sqrt();
        }
    }
    if (0..S::F64_LANES).any(is_beyond) {
        let Tridiagonal { diagonal, off, .. } = log_map.tridiagonal();
        for value in &mut *off {
            *value = simd.mul_f64s(*value, *value);
        }
        let converged = tridiagonal_eigenvalues(simd, diagonal, off);
        let eigenvalues = pulp::bytemuck::cast_slice(diagonal);
        let norms = norm_of_logarithms::<S>(p, eigenvalues, log_scale, converged);
        for lane in (0..S::F64_LANES).filter(|&lane| is_beyond(lane)) {
            out[lane] = norms[lane];
        }
    }
    out
}

/// `|ln(scale lambda)|_2` of the eigenvalues in each lane; NaN where one is lost in rounding.
#[inline(always)]
fn norm_of_logarithms<S: Simd>(
    p: usize,
    eigenvalues: &[f64],
    log_scale: LaneValues,
    mut valid: [bool; 8],
) -> LaneValues {
    let mut squares = LaneValues::default();
    // The matrix was scaled to trace p.
    let floor = p as f64 * f64::EPSILON;
    for values in eigenvalues.chunks_exact(S::F64_LANES) {
        for lane in 0..S::F64_LANES {
            valid[lane] &= values[lane] > floor;
            let logarithm = values[lane].ln_of_normal() + log_scale[lane];
            squares[lane] += logarithm * logarithm;
        }
    }
    for lane in 0..S::F64_LANES {
        squares[lane] = if valid[lane] { squares[lane].sqrt() } else { f64::NAN };
    }
    squares
}

/// `K = A^-1 C`, square and row by row, zeros above the diagonal in the tiles that it crosses.
#[inline(always)]
fn whiten<S: Simd, X: Entries<S>>(
    simd: S,
    p: usize,
    inverse: X,
    roots: &[S::f64s],
    out: &mut [S::f64s],
) {
    in_lower_tiles!(i, j in p, R, C =>
        whiten_tile::<S, X, R, C>(simd, p, (i, j), inverse, roots, out));
}

#[inline(always)]
fn whiten_tile<S: Simd, X: Entries<S>, const R: usize, const C: usize>(
    simd: S,
    p: usize,
    (i, j): (usize, usize),
    inverse: X,
    roots: &[S::f64s],
    out: &mut [S::f64s],
) {
    // Outside these columns one of the factors is 0.
    let n = i + R - j;
    let left: [_; R] = core::array::from_fn(|r| inverse.part((i + r) * p + j, n));
    let right: [_; C] = core::array::from_fn(|c| &roots[(j + c) * p + j..][..n]);
    let mut sums = [[simd.splat_f64s(0.0); C]; R];
    add_products(simd, n, left, right, &mut sums);
    for r in 0..R {
        out[(i + r) * p + j..][..C].copy_from_slice(&sums[r]);
    }
}

/// `K K^T`, packed, divided by its mean eigenvalue; returns the logarithm of that.
#[inline(always)]
fn scaled_gram<S: Simd>(simd: S, p: usize, k: &[S::f64s], out: &mut [S::f64s]) -> LaneValues {
    let mut trace = simd.splat_f64s(0.0);
    for i in 0..p {
        for &value in &k[i * p..=i * p + i] {
            trace = simd.mul_add_e_f64s(value, value, trace);
        }
    }
    let scale = simd.mul_f64s(trace, simd.splat_f64s(1.0 / p as f64));
    let inverse = simd.div_f64s(simd.splat_f64s(1.0), scale);
    in_lower_tiles!(i, j in p, R, C => gram_tile::<S, R, C>(simd, p, (i, j), k, inverse, out));
    let mut logarithms = LaneValues::default();
    let scales: &[f64] = pulp::bytemuck::cast_slice(core::slice::from_ref(&scale));
    for lane in 0..S::F64_LANES {
        // Outside the range of a double nothing can be said.
        let normal = scales[lane] >= f64::MIN_POSITIVE && scales[lane] < f64::INFINITY;
        logarithms[lane] = if normal { scales[lane].ln_of_normal() } else { f64::NAN };
    }
    logarithms
}

#[inline(always)]
fn gram_tile<S: Simd, const R: usize, const C: usize>(
    simd: S,
    p: usize,
    (i, j): (usize, usize),
    k: &[S::f64s],
    inverse: S::f64s,
    out: &mut [S::f64s],
) {
    let n = j + C;
    let left: [_; R] = core::array::from_fn(|r| Interleaved(&k[(i + r) * p..][..n]));
    let right: [_; C] = core::array::from_fn(|c| &k[(j + c) * p..][..n]);
    let mut sums = [[simd.splat_f64s(0.0); C]; R];
    add_products(simd, n, left, right, &mut sums);
    for r in 0..R {
        for c in 0..C {
            if j + c <= i + r {
                out[triangle(i + r) + j + c] = simd.mul_f64s(sums[r][c], inverse);
            }
        }
    }
}
