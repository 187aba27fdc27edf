//! Householder reduction of symmetric matrices to tridiagonal ones, in all lanes.
//!
//! Rows are eliminated from the last to the first, so that what remains is always the beginning
//! of the packed triangle. The update that follows an elimination is put off until the next
//! reflector is known, and made in the same pass as the product with it: four operations for
//! each entry that is loaded and stored.

use pulp::Simd;

use crate::spd::lanes::LaneValues;
use crate::spd::stack::triangle;

/// Rows passed over at once where there are 32 vector registers.
const ROWS: usize = 4;
/// The same for 16 registers.
const FEW_ROWS: usize = 2;
/// Reflectors of a smaller square are left out: matrices are scaled to entries of about 1.
const NEGLIGIBLE: f64 = 1e-290;

/// Vectors of scratch for `p` rows.
pub(crate) const fn scratch_len(p: usize) -> usize {
    4 * p
}

/// Reduces packed `a`, which it destroys; writes the diagonal, and the squares of the entries
/// beside it: entry `i` of `squared_off_diagonal` is that between rows `i` and `i + 1`.
#[inline(always)]
pub(crate) fn tridiagonalize<S: Simd>(
    simd: S,
    p: usize,
    a: &mut [S::f64s],
    diagonal: &mut [S::f64s],
    squared_off_diagonal: &mut [S::f64s],
    scratch: &mut [S::f64s],
) {
    let zero = simd.splat_f64s(0.0);
    let (mut u, rest) = scratch.split_at_mut(p);
    let (mut next, rest) = rest.split_at_mut(p);
    let (q, product) = rest.split_at_mut(p);
    u.fill(zero);
    q.fill(zero);
    for i in (0..p).rev() {
        let row = &mut a[triangle(i)..=triangle(i) + i];
        update_row(simd, row, i, u, q);
        diagonal[i] = row[i];
        if i < 2 {
            if i == 1 {
                squared_off_diagonal[0] = simd.mul_f64s(row[0], row[0]);
            }
            continue;
        }
        next[..i].copy_from_slice(&row[..i]);
        let (coupling, inverse) = reflector(simd, &mut next[..i]);
        squared_off_diagonal[i - 1] = coupling;
        if S::REGISTER_COUNT >= 32 {
            pass::<S, ROWS>(simd, i, a, u, q, next, product);
        } else {
            pass::<S, FEW_ROWS>(simd, i, a, u, q, next, product);
        }
        let mut dot = zero;
        for (value, &v) in product[..i].iter_mut().zip(&next[..i]) {
            *value = simd.mul_f64s(*value, inverse);
            dot = simd.mul_add_e_f64s(*value, v, dot);
        }
        let shift = simd.mul_f64s(simd.mul_f64s(dot, inverse), simd.splat_f64s(-0.5));
        for ((q, &value), &v) in q[..i].iter_mut().zip(&product[..i]).zip(&next[..i]) {
            *q = simd.mul_add_e_f64s(shift, v, value);
        }
        std::mem::swap(&mut u, &mut next);
    }
}

/// Row `i` of `A - u q^T - q u^T`.
#[inline(always)]
fn update_row<S: Simd>(simd: S, row: &mut [S::f64s], i: usize, u: &[S::f64s], q: &[S::f64s]) {
    let (u_i, q_i) = (u[i], q[i]);
    for ((a, &u), &q) in row.iter_mut().zip(u).zip(q) {
        *a = updated(simd, *a, (u_i, q_i), (u, q));
    }
}

#[inline(always)]
fn updated<S: Simd>(
    simd: S,
    a: S::f64s,
    (u_i, q_i): (S::f64s, S::f64s),
    (u_k, q_k): (S::f64s, S::f64s),
) -> S::f64s {
    simd.sub_f64s(a, simd.mul_add_e_f64s(u_i, q_k, simd.mul_f64s(q_i, u_k)))
}

/// Turns a row into the vector `v` of the reflection `I - v v^T / h` that leaves only its last
/// entry; returns the square of that entry, and `1 / h`.
#[inline(always)]
fn reflector<S: Simd>(simd: S, v: &mut [S::f64s]) -> (S::f64s, S::f64s) {
    let mut square = simd.splat_f64s(0.0);
    for &value in &*v {
        square = simd.mul_add_e_f64s(value, value, square);
    }
    let Some(last) = v.last_mut() else { return (square, square) };
    let mut inverses = LaneValues::default();
    let squares: &[f64] = pulp::bytemuck::cast_slice(core::slice::from_ref(&square));
    let alphas: &mut [f64] = pulp::bytemuck::cast_slice_mut(core::slice::from_mut(last));
    for lane in 0..S::F64_LANES {
        let norm = squares[lane].sqrt();
        let h = squares[lane] + norm * alphas[lane].abs();
        inverses[lane] = if h > NEGLIGIBLE { 1.0 / h } else { 0.0 };
        alphas[lane] += norm.copysign(alphas[lane]);
    }
    let mut inverse = square;
    pulp::bytemuck::cast_slice_mut::<_, f64>(core::slice::from_mut(&mut inverse))
        .copy_from_slice(&inverses[..S::F64_LANES]);
    (square, inverse)
}

/// Updates the first `n` rows of `a` by `u` and `q`, and multiplies them by `v`.
#[inline(always)]
fn pass<S: Simd, const R: usize>(
    simd: S,
    n: usize,
    a: &mut [S::f64s],
    u: &[S::f64s],
    q: &[S::f64s],
    v: &[S::f64s],
    product: &mut [S::f64s],
) {
    let whole = n - n % R;
    for start in (0..whole).step_by(R) {
        pass_rows::<S, R>(simd, start, a, u, q, v, product);
    }
    for start in whole..n {
        pass_rows::<S, 1>(simd, start, a, u, q, v, product);
    }
}

/// [`pass`] over `R` rows from row `start` on.
#[inline(always)]
fn pass_rows<S: Simd, const R: usize>(
    simd: S,
    start: usize,
    a: &mut [S::f64s],
    u: &[S::f64s],
    q: &[S::f64s],
    v: &[S::f64s],
    product: &mut [S::f64s],
) {
    let own: [_; R] = core::array::from_fn(|r| (u[start + r], q[start + r]));
    let own_v: [_; R] = core::array::from_fn(|r| v[start + r]);
    let mut sums = [simd.splat_f64s(0.0); R];
    let mut rest = &mut a[triangle(start)..triangle(start + R)];
    let mut rows: [&mut [S::f64s]; R] = core::array::from_fn(|r| {
        let (row, after) = std::mem::take(&mut rest).split_at_mut(start + r + 1);
        rest = after;
        row
    });
    {
        let left = rows.each_mut().map(|row| &mut row[..start]);
        let (u, q, v) = (&u[..start], &q[..start], &v[..start]);
        let product = &mut product[..start];
        for k in 0..start {
            let mut sum = product[k];
            for r in 0..R {
                let entry = updated(simd, left[r][k], own[r], (u[k], q[k]));
                left[r][k] = entry;
                sums[r] = simd.mul_add_e_f64s(entry, v[k], sums[r]);
                sum = simd.mul_add_e_f64s(entry, own_v[r], sum);
            }
            product[k] = sum;
        }
    }
    for r in 0..R {
        for c in 0..=r {
            let entry = updated(simd, rows[r][start + c], own[r], own[c]);
            rows[r][start + c] = entry;
            sums[r] = simd.mul_add_e_f64s(entry, own_v[c], sums[r]);
            if c < r {
                sums[c] = simd.mul_add_e_f64s(entry, own_v[r], sums[c]);
            }
        }
    }
    product[start..start + R].copy_from_slice(&sums);
}
