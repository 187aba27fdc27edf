//! Householder reduction of symmetric matrices to tridiagonal ones, in all lanes, and back.
//!
//! Rows are eliminated from the last to the first, so that what remains is always the beginning of
//! the packed triangle. The update that follows an elimination waits until the next reflector is
//! known, and is made in the same pass as the product with it. Each entry that is loaded and stored
//! takes four operations.

use pulp::Simd;

use crate::small_matrix::triangle;
use crate::spd::lanes::{in_tiles, minus};

/// Rows passed over at once where there are 32 vector registers.
const ROWS: usize = 4;
/// The same for 16 registers.
const FEW_ROWS: usize = 2;
/// Reflectors of a smaller square are left out: matrices are scaled to entries of about 1.
const NEGLIGIBLE: f64 = 1e-290;

/// Vectors of scratch for `p` rows.
pub(crate) const fn scratch_len(p: usize) -> usize {
    3 * p
}

/// A matrix that has been reduced.
pub(crate) struct Tridiagonal<'a, V> {
    /// The diagonal.
    pub(crate) diagonal: &'a mut [V],
    /// Entry `i` is that between rows `i` and `i + 1`; the last is 0.
    pub(crate) off: &'a mut [V],
    /// Entry `i` is `1 / h` of the reflection `I - v v^T / h` that eliminated row `i`; 0 where
    /// there was none.
    pub(crate) inverses: &'a mut [V],
}

impl<'a, V> Tridiagonal<'a, V> {
    /// Vectors that it takes.
    pub(crate) const fn len(p: usize) -> usize {
        3 * p
    }

    /// Splits a buffer of [`Self::len`] vectors.
    #[inline(always)]
    pub(crate) fn new(p: usize, buffer: &'a mut [V]) -> Self {
        let (diagonal, rest) = buffer.split_at_mut(p);
        let (off, inverses) = rest.split_at_mut(p);
        Self { diagonal, off, inverses }
    }
}

/// Reduces packed `a`, whose rows become the vectors `v` of the reflections that eliminated them.
#[inline(always)]
pub(crate) fn tridiagonalize<S: Simd>(
    simd: S,
    p: usize,
    a: &mut [S::f64s],
    out: &mut Tridiagonal<'_, S::f64s>,
    scratch: &mut [S::f64s],
) {
    let [u, q, product] = work(simd, p, scratch);
    let zero = simd.splat_f64s(0.0);
    out.off.fill(zero);
    out.inverses.fill(zero);
    for i in (0..p).rev() {
        let (above, row) = a[..triangle(i + 1)].split_at_mut(triangle(i));
        update_row(simd, row, (minus(simd, u[i]), minus(simd, q[i])), u, q);
        out.diagonal[i] = row[i];
        if i < 2 {
            if i == 1 {
                out.off[0] = row[0];
            }
            continue;
        }
        let v = &mut row[..i];
        let (off_diagonal, inverse) = reflector(simd, v);
        out.off[i - 1] = off_diagonal;
        out.inverses[i] = inverse;
        pass(simd, above, u, q, v, product);
        deferred(simd, v, inverse, product, q);
        u[..i].copy_from_slice(v);
    }
}

/// Turns packed `f`, a function of the tridiagonal matrix, into that of the matrix whose reflectors
/// are given.
#[inline(always)]
pub(crate) fn back<S: Simd>(
    simd: S,
    p: usize,
    reflectors: &[S::f64s],
    inverses: &[S::f64s],
    f: &mut [S::f64s],
    scratch: &mut [S::f64s],
) {
    // The first reflector acts on two entries of every row, the last on all but the last.
    in_tiles!(start in 2, p, R => reflect_rows::<S, R>(simd, start, reflectors, inverses, f));
    let [u, q, product] = work(simd, p, scratch);
    for i in 2..p {
        let v = &reflectors[triangle(i)..][..i];
        pass(simd, &mut f[..triangle(i)], u, q, v, product);
        deferred(simd, v, inverses[i], product, q);
        u[..i].copy_from_slice(v);
    }
    for i in 0..p.saturating_sub(1) {
        let row = &mut f[triangle(i)..=triangle(i) + i];
        update_row(simd, row, (minus(simd, u[i]), minus(simd, q[i])), u, q);
    }
}

/// Two vectors of zeros, those of an update that is yet to be made, and one to write to.
#[inline(always)]
fn work<S: Simd>(simd: S, p: usize, scratch: &mut [S::f64s]) -> [&mut [S::f64s]; 3] {
    let (u, rest) = scratch.split_at_mut(p);
    let (q, rest) = rest.split_at_mut(p);
    u.fill(simd.splat_f64s(0.0));
    q.fill(simd.splat_f64s(0.0));
    [u, q, &mut rest[..p]]
}

/// Applies the reflections to `R` rows from row `start` on, from the right.
#[inline(always)]
fn reflect_rows<S: Simd, const R: usize>(
    simd: S,
    start: usize,
    reflectors: &[S::f64s],
    inverses: &[S::f64s],
    f: &mut [S::f64s],
) {
    let mut rows = tile_rows::<_, R>(start, f);
    for i in 2..=start {
        let v = &reflectors[triangle(i)..][..i];
        let rows = heads(i, &mut rows);
        let mut sums = [[simd.splat_f64s(0.0); 2]; R];
        for k in (0..i - 1).step_by(2) {
            for r in 0..R {
                sums[r][0] = simd.mul_add_e_f64s(rows[r][k], v[k], sums[r][0]);
                sums[r][1] = simd.mul_add_e_f64s(rows[r][k + 1], v[k + 1], sums[r][1]);
            }
        }
        if i % 2 == 1 {
            for r in 0..R {
                sums[r][0] = simd.mul_add_e_f64s(rows[r][i - 1], v[i - 1], sums[r][0]);
            }
        }
        let less = minus(simd, inverses[i]);
        let mut factors = [less; R];
        for r in 0..R {
            factors[r] = simd.mul_f64s(simd.add_f64s(sums[r][0], sums[r][1]), less);
        }
        for k in 0..i {
            for r in 0..R {
                rows[r][k] = simd.mul_add_e_f64s(factors[r], v[k], rows[r][k]);
            }
        }
    }
    for r in 1..R {
        for i in start + 1..=start + r {
            reflect(simd, &reflectors[triangle(i)..][..i], inverses[i], &mut rows[r][..i]);
        }
    }
}

/// Applies a reflection to a row, from the right.
#[inline(always)]
fn reflect<S: Simd>(simd: S, v: &[S::f64s], inverse: S::f64s, row: &mut [S::f64s]) {
    let factor = simd.mul_f64s(dot(simd, v, row), minus(simd, inverse));
    for (x, &v) in row.iter_mut().zip(v) {
        *x = simd.mul_add_e_f64s(factor, v, *x);
    }
}

#[inline(always)]
fn dot<S: Simd>(simd: S, x: &[S::f64s], y: &[S::f64s]) -> S::f64s {
    let mut sums = [simd.splat_f64s(0.0); 4];
    let (x, x_rest) = x.as_chunks::<4>();
    let (y, y_rest) = y.as_chunks::<4>();
    for (x, y) in x.iter().zip(y) {
        for k in 0..4 {
            sums[k] = simd.mul_add_e_f64s(x[k], y[k], sums[k]);
        }
    }
    for (&x, &y) in x_rest.iter().zip(y_rest) {
        sums[0] = simd.mul_add_e_f64s(x, y, sums[0]);
    }
    simd.add_f64s(simd.add_f64s(sums[0], sums[1]), simd.add_f64s(sums[2], sums[3]))
}

/// From the product `A v`: the vector `q` of the update `A - v q^T - q v^T` of a reflection.
#[inline(always)]
fn deferred<S: Simd>(
    simd: S,
    v: &[S::f64s],
    inverse: S::f64s,
    product: &[S::f64s],
    q: &mut [S::f64s],
) {
    let product = &product[..v.len()];
    let half = simd.mul_f64s(simd.mul_f64s(inverse, inverse), simd.splat_f64s(-0.5));
    let shift = simd.mul_f64s(dot(simd, product, v), half);
    for ((q, &value), &v) in q.iter_mut().zip(product).zip(v) {
        *q = simd.mul_add_e_f64s(shift, v, simd.mul_f64s(value, inverse));
    }
}

/// A row of `A - u q^T - q u^T`, where `less` has the entries of `-u` and `-q` of the row.
#[inline(always)]
fn update_row<S: Simd>(
    simd: S,
    row: &mut [S::f64s],
    less: (S::f64s, S::f64s),
    u: &[S::f64s],
    q: &[S::f64s],
) {
    for ((a, &u), &q) in row.iter_mut().zip(u).zip(q) {
        *a = updated(simd, *a, less, (u, q));
    }
}

#[inline(always)]
fn updated<S: Simd>(
    simd: S,
    a: S::f64s,
    less: (S::f64s, S::f64s),
    (u_k, q_k): (S::f64s, S::f64s),
) -> S::f64s {
    simd.mul_add_e_f64s(less.0, q_k, simd.mul_add_e_f64s(less.1, u_k, a))
}

/// Turns a row into the vector `v` of the reflection `I - v v^T / h` that leaves only its last
/// entry; returns that entry, and `1 / h`.
#[inline(always)]
fn reflector<S: Simd>(simd: S, v: &mut [S::f64s]) -> (S::f64s, S::f64s) {
    let (zero, one) = (simd.splat_f64s(0.0), simd.splat_f64s(1.0));
    let square = dot(simd, v, v);
    let Some(last) = v.last_mut() else { return (zero, zero) };
    let alpha = *last;
    let norm = simd.sqrt_f64s(square);
    let h = simd.mul_add_e_f64s(norm, simd.abs_f64s(alpha), square);
    let some = simd.less_than_f64s(simd.splat_f64s(NEGLIGIBLE), h);
    let inverse = simd.select_f64s(some, simd.div_f64s(one, h), zero);
    let below = simd.less_than_f64s(alpha, zero);
    let signed = simd.select_f64s(below, minus(simd, norm), norm);
    *last = simd.add_f64s(alpha, signed);
    (simd.select_f64s(some, minus(simd, signed), alpha), inverse)
}

/// Updates packed `a`, all of whose rows are given, by `u` and `q`, and multiplies it by `v`.
#[inline(always)]
fn pass<S: Simd>(
    simd: S,
    a: &mut [S::f64s],
    u: &[S::f64s],
    q: &[S::f64s],
    v: &[S::f64s],
    product: &mut [S::f64s],
) {
    if S::REGISTER_COUNT >= 32 {
        pass_by::<S, ROWS>(simd, a, u, q, v, product);
    } else {
        pass_by::<S, FEW_ROWS>(simd, a, u, q, v, product);
    }
}

#[inline(always)]
fn pass_by<S: Simd, const R: usize>(
    simd: S,
    a: &mut [S::f64s],
    u: &[S::f64s],
    q: &[S::f64s],
    v: &[S::f64s],
    product: &mut [S::f64s],
) {
    let n = v.len();
    // What is left over comes first, where rows are short.
    let rest = n % R;
    match rest {
        1 => pass_rows::<S, 1>(simd, 0, a, u, q, v, product),
        2 => pass_rows::<S, 2>(simd, 0, a, u, q, v, product),
        3 => pass_rows::<S, 3>(simd, 0, a, u, q, v, product),
        _ => (),
    }
    for start in (rest..n).step_by(R) {
        pass_rows::<S, R>(simd, start, a, u, q, v, product);
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
    let zero = simd.splat_f64s(0.0);
    let (mut own, mut less, mut own_v) = ([(zero, zero); R], [(zero, zero); R], [zero; R]);
    for r in 0..R {
        own[r] = (u[start + r], q[start + r]);
        less[r] = (minus(simd, own[r].0), minus(simd, own[r].1));
        own_v[r] = v[start + r];
    }
    let mut sums = [zero; R];
    let mut rows = tile_rows::<_, R>(start, a);
    {
        let left = heads(start, &mut rows);
        let (u, q, v) = (&u[..start], &q[..start], &v[..start]);
        let product = &mut product[..start];
        for k in 0..start {
            let mut sum = product[k];
            for r in 0..R {
                let entry = updated(simd, left[r][k], less[r], (u[k], q[k]));
                left[r][k] = entry;
                sums[r] = simd.mul_add_e_f64s(entry, v[k], sums[r]);
                sum = simd.mul_add_e_f64s(entry, own_v[r], sum);
            }
            product[k] = sum;
        }
    }
    for r in 0..R {
        for c in 0..R {
            if c <= r {
                let entry = updated(simd, rows[r][start + c], less[r], own[c]);
                rows[r][start + c] = entry;
                sums[r] = simd.mul_add_e_f64s(entry, own_v[c], sums[r]);
                if c < r {
                    sums[c] = simd.mul_add_e_f64s(entry, own_v[r], sums[c]);
                }
            }
        }
    }
    product[start..start + R].copy_from_slice(&sums);
}

/// The rows of a packed triangle from row `start` on.
#[inline(always)]
pub(crate) fn tile_rows<V, const R: usize>(start: usize, packed: &mut [V]) -> [&mut [V]; R] {
    let mut rest = &mut packed[triangle(start)..triangle(start + R)];
    let mut rows: [&mut [V]; R] = core::array::from_fn(|_| Default::default());
    for (r, row) in rows.iter_mut().enumerate() {
        let (own, after) = std::mem::take(&mut rest).split_at_mut(start + r + 1);
        (*row, rest) = (own, after);
    }
    rows
}

/// The first `n` entries of rows.
#[inline(always)]
pub(crate) fn heads<'a, V, const R: usize>(
    n: usize,
    rows: &'a mut [&mut [V]; R],
) -> [&'a mut [V]; R] {
    let mut heads: [&mut [V]; R] = core::array::from_fn(|_| Default::default());
    for (head, row) in heads.iter_mut().zip(rows) {
        *head = &mut row[..n];
    }
    heads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_comes_back() {
        let simd = pulp::Scalar;
        for p in 1..12_usize {
            let value = |k: usize| ((k * k * 7 + 3 * k) % 11) as f64 / 5.0 - 1.0;
            let matrix: Vec<f64> = (0..triangle(p)).map(value).collect();
            let mut reflectors = matrix.clone();
            let (mut buffer, mut scratch) = (vec![0.0; 3 * p], vec![0.0; scratch_len(p)]);
            let mut out = Tridiagonal::new(p, &mut buffer);
            tridiagonalize(simd, p, &mut reflectors, &mut out, &mut scratch);
            let mut f = vec![0.0; triangle(p)];
            for i in 0..p {
                f[triangle(i) + i] = out.diagonal[i];
                if i > 0 {
                    f[triangle(i) + i - 1] = out.off[i - 1];
                }
            }
            back(simd, p, &reflectors, out.inverses, &mut f, &mut scratch);
            for (got, want) in f.iter().zip(&matrix) {
                assert!((got - want).abs() < 1e-13, "{p}: {got} {want}");
            }
        }
    }
}
