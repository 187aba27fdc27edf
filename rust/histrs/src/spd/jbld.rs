//! The Jensen-Bregman log-det divergence.

use ndarray::{Array1, Array2, ArrayView3};
use pulp::Simd;

use crate::error::Result;
use crate::exec::Executor;
use crate::simd::Element;
use crate::spd::factors::{LogDeterminant, keep_factors};
use crate::spd::lanes::{Entries, Groups, Interleaved, LaneValues, Shared, vectors};
use crate::spd::ldl::{Factor, factorize};
use crate::spd::ln_product::ln_product;
use crate::spd::pairs::{LaneDistance, all_pairs, paired};
use crate::spd::stack::{SymmetricStack, check_same_number, check_same_size};

/// The Jensen-Bregman log-det divergence `log det((X + Y) / 2) - log det(X Y) / 2` (eq. 1)
/// between the matrices of stacks of shapes `(n_x, p, p)` and `(n_y, p, p)`; `y = None` means
/// `y = x` and computes each pair once.
///
/// It is symmetric, never negative, and exactly 0 for equal matrices. Its square root is a
/// metric (Sra 2012); it is itself none.
///
/// # Errors
///
/// [`Error::Shape`](crate::Error::Shape),
/// [`Error::MatrixNotFinite`](crate::Error::MatrixNotFinite),
/// [`Error::NotSymmetric`](crate::Error::NotSymmetric),
/// [`Error::NotPositiveDefinite`](crate::Error::NotPositiveDefinite) or
/// [`Error::Singular`](crate::Error::Singular) at the first bad matrix,
/// [`Error::TooFarApart`](crate::Error::TooFarApart) where the mean of two matrices is singular
/// to double precision.
///
/// # Examples
///
/// ```
/// use histrs::{Executor, spd::jbld_distances};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[[1.0, 0.0], [0.0, 1.0]], [[4.0, 0.0], [0.0, 1.0]]];
/// let d = jbld_distances(&exec, x.view(), None)?;
/// assert!((d[[0, 1]] - 1.25_f64.ln()).abs() < 1e-15);
/// assert_eq!(d[[1, 1]], 0.0);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn jbld_distances<T: Element>(
    exec: &Executor,
    x: ArrayView3<'_, T>,
    y: Option<ArrayView3<'_, T>>,
) -> Result<Array2<T>> {
    let symmetric = y.is_none();
    let x = Side::new(exec, "X", x)?;
    let y = y.map(|y| Side::new(exec, "Y", y)).transpose()?;
    let y = y.as_ref().unwrap_or(&x);
    check_same_size(&x.stack, &y.stack)?;
    all_pairs(exec, &Sides { x: &x, y }, (x.stack.n(), y.stack.n()), symmetric)
}

/// [`jbld_distances`] of matrix `i` of `x` and matrix `i` of `y`, for every `i`.
///
/// # Errors
///
/// As [`jbld_distances`], and when there are not as many matrices in `y` as in `x`.
pub fn jbld_paired<T: Element>(
    exec: &Executor,
    x: ArrayView3<'_, T>,
    y: ArrayView3<'_, T>,
) -> Result<Array1<T>> {
    let (x, y) = (Side::new(exec, "X", x)?, Side::new(exec, "Y", y)?);
    check_same_size(&x.stack, &y.stack)?;
    check_same_number(&x.stack, &y.stack)?;
    paired(exec, &Sides { x: &x, y: &y }, x.stack.n())
}

/// One argument, with what is needed of each matrix by itself.
struct Side {
    stack: SymmetricStack,
    groups: Groups,
    log_dets: Groups,
}

impl Side {
    fn new<T: Element>(exec: &Executor, name: &'static str, x: ArrayView3<'_, T>) -> Result<Self> {
        let stack = SymmetricStack::new(exec, name, x)?;
        let groups = stack.groups()?;
        let log_dets = keep_factors::<LogDeterminant>(exec, name, &stack, &groups)?;
        Ok(Self { stack, groups, log_dets })
    }

    /// Half the log-determinant of matrix `i`.
    #[inline(always)]
    fn half_log_det(&self, i: usize) -> f64 {
        0.5 * self.log_dets.group(i / self.log_dets.lanes())[i % self.log_dets.lanes()]
    }
}

struct Sides<'a> {
    x: &'a Side,
    y: &'a Side,
}

impl LaneDistance for Sides<'_> {
    fn scratch_len(&self) -> usize {
        Factor::<f64>::len(self.x.stack.p())
    }

    #[inline(always)]
    fn distances<S: Simd, const PAIRED: bool>(
        &self,
        simd: S,
        x: usize,
        group: usize,
        scratch: &mut [S::f64s],
    ) -> LaneValues {
        let Self { x: from, y } = self;
        if PAIRED {
            let matrices = Interleaved(vectors::<S>(from.groups.group(x)));
            divergences(simd, matrices, halves(from.log_dets.group(x)), y, group, scratch)
        } else {
            let own = [from.half_log_det(x); 8];
            divergences(simd, Shared(from.stack.half(x)), own, y, group, scratch)
        }
    }
}

#[inline(always)]
fn divergences<S: Simd, X: Entries<S>>(
    simd: S,
    x: X,
    own: LaneValues,
    y: &Side,
    group: usize,
    scratch: &mut [S::f64s],
) -> LaneValues {
    let mut factor = Factor::new(y.stack.p(), scratch);
    let matrices = Interleaved(vectors::<S>(y.groups.group(group)));
    factorize(simd, y.stack.p(), x, matrices, &mut factor);
    let mut out = ln_product::<S>(pulp::bytemuck::cast_slice(factor.pivots));
    let others = halves(y.log_dets.group(group));
    for lane in 0..S::F64_LANES {
        let divergence = out[lane] - (own[lane] + others[lane]);
        // Rounding; not `max`, which would hide a NaN.
        out[lane] = if divergence < 0.0 { 0.0 } else { divergence };
    }
    out
}

#[inline(always)]
fn halves(values: &[f64]) -> LaneValues {
    let mut out = LaneValues::default();
    for (out, value) in out.iter_mut().zip(values) {
        *out = 0.5 * value;
    }
    out
}
