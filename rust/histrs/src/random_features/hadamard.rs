//! The fast Walsh-Hadamard transform of a row.

use pulp::Simd;

use crate::simd::{Element, lane_hadamard, outlined};

/// Vectors that stay in the first-level cache while all their stages are done.
const CACHED: usize = 128;
/// The smallest size, which holds a vector of every instruction set.
pub(super) const MIN_SIZE: usize = 16;

outlined!(
    /// `out = H D x`, with `H` the Hadamard matrix in Sylvester's order, not normalised, and `D` the
    /// diagonal of the signs; `x = None` takes `out` itself. The size is a power of 2 and at least
    /// [`MIN_SIZE`]; of `out`, the first `needed` entries are certain to be written.
    ///
    /// `H` is the Kronecker product of one between vectors and one between the lanes of a vector. That
    /// between lanes is done while the vectors are loaded, with the first stages of the other; further
    /// stages are taken three or four at a time, the widest first. A row of a few thousand entries
    /// stays in the first-level cache.
    pub(super) fn signed_hadamard<S: Simd, T: Element>(
        simd: S,
        signs: &[T],
        x: Option<&[T]>,
        out: &mut [T],
        needed: usize,
    ) {
        // A copy for each, or every load would ask.
        match x {
            Some(x) => transform(simd, signs, Some(x), out, needed),
            None => transform(simd, signs, None, out, needed),
        }
    }
);

#[inline(always)]
fn transform<T: Element, S: Simd>(
    simd: S,
    signs: &[T],
    x: Option<&[T]>,
    out: &mut [T],
    needed: usize,
) {
    let signs = T::vectors::<S>(signs).0;
    let out = T::vectors_mut::<S>(out).0;
    let needed = needed.div_ceil(T::lanes::<S>());
    let mut len = match (x.map(|x| T::vectors::<S>(x).0), out.len()) {
        (x, 1) => first_stages::<T, S, 1>(simd, signs, x, out),
        (x, 2) => first_stages::<T, S, 2>(simd, signs, x, out),
        (x, 4) => first_stages::<T, S, 4>(simd, signs, x, out),
        (x, _) => first_stages::<T, S, 8>(simd, signs, x, out),
    };
    while len > CACHED {
        for block in out.chunks_exact_mut(len) {
            stages::<T, S, 8>(simd, block);
        }
        len /= 8;
    }
    for block in out.chunks_exact_mut(len).take(needed.div_ceil(len)) {
        let mut len = len;
        while len > 1 {
            let radix = match len {
                16 if S::REGISTER_COUNT >= 32 => 16,
                _ => len.min(8),
            };
            for part in block.chunks_exact_mut(len) {
                match radix {
                    2 => stages::<T, S, 2>(simd, part),
                    4 => stages::<T, S, 4>(simd, part),
                    8 => stages::<T, S, 8>(simd, part),
                    _ => stages::<T, S, 16>(simd, part),
                }
            }
            len /= radix;
        }
    }
}

/// The stages between lanes and the widest between vectors, `R` of which meet; returns the number
/// of vectors that are still to meet.
#[inline(always)]
fn first_stages<T: Element, S: Simd, const R: usize>(
    simd: S,
    signs: &[T::Vector<S>],
    x: Option<&[T::Vector<S>]>,
    out: &mut [T::Vector<S>],
) -> usize {
    let q = out.len() / R;
    let (signs, out) = (&signs[..R * q], &mut out[..R * q]);
    for i in 0..q {
        let mut v = [T::splat(simd, T::default()); R];
        for k in 0..R {
            v[k] = match x {
                Some(x) => x[k * q + i],
                None => out[k * q + i],
            };
            v[k] = lane_hadamard::<T, S>(simd, T::mul(simd, v[k], signs[k * q + i]));
        }
        let v = butterflies::<T, S, R>(simd, v);
        for k in 0..R {
            out[k * q + i] = v[k];
        }
    }
    q
}

/// The widest stages of some vectors, `R` of which meet.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // an index into every part
fn stages<T: Element, S: Simd, const R: usize>(simd: S, x: &mut [T::Vector<S>]) {
    let q = x.len() / R;
    let x = &mut x[..R * q];
    for i in 0..q {
        let mut v = [x[i]; R];
        for k in 1..R {
            v[k] = x[k * q + i];
        }
        let v = butterflies::<T, S, R>(simd, v);
        for k in 0..R {
            x[k * q + i] = v[k];
        }
    }
}

/// The transform of size `R`, at most 16, of vectors in registers.
#[inline(always)]
fn butterflies<T: Element, S: Simd, const R: usize>(
    simd: S,
    mut v: [T::Vector<S>; R],
) -> [T::Vector<S>; R] {
    // Not a loop over distances, which would not be unrolled.
    butterflies_at::<T, S, R, 8>(simd, &mut v);
    butterflies_at::<T, S, R, 4>(simd, &mut v);
    butterflies_at::<T, S, R, 2>(simd, &mut v);
    butterflies_at::<T, S, R, 1>(simd, &mut v);
    v
}

/// Sums and differences of entries at distance `D`.
#[inline(always)]
fn butterflies_at<T: Element, S: Simd, const R: usize, const D: usize>(
    simd: S,
    v: &mut [T::Vector<S>; R],
) {
    if D >= R {
        return;
    }
    for k in 0..R {
        if k & D == 0 {
            let (a, b) = (v[k], v[k + D]);
            v[k] = T::add(simd, a, b);
            v[k + D] = T::sub(simd, a, b);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{AlignedVec, vectorized};

    vectorized!(
        fn transformed<S: Simd, T: Element>(
            simd: S,
            signs: &[T],
            x: Option<&[T]>,
            out: &mut [T],
            needed: usize,
        ) {
            signed_hadamard(simd, signs, x, out, needed);
        }
    );

    fn check<T: Element>() {
        for log in 4..16 {
            let n = 1 << log;
            let sign = |i: usize| if i.is_multiple_of(3) { -1.0 } else { 1.0 };
            // Small integers, so that sums are exact.
            let value = |i: usize| (i * 31 % 17) as f64;
            let [mut signs, mut x, mut out] = [(); 3].map(|()| AlignedVec::<T>::zeros(n).unwrap());
            for i in 0..n {
                (signs[i], x[i]) = (T::from_f64(sign(i)), T::from_f64(value(i)));
            }
            for (needed, in_place) in [(n, false), (n / 2 + 1, false), (n, true)] {
                out.copy_from_slice(&x);
                let x = (!in_place).then_some(&x[..]);
                transformed(&signs, x, &mut out, needed);
                for i in (0..needed).step_by(n / 16 + 1).chain([needed - 1]) {
                    let terms = (0..n).map(|j| {
                        let entry = if (i & j).count_ones() % 2 == 1 { -1.0 } else { 1.0 };
                        entry * sign(j) * value(j)
                    });
                    assert_eq!(out[i].to_f64(), terms.sum::<f64>(), "{n} {i}");
                }
            }
        }
    }

    #[test]
    fn it_is_the_product_with_the_matrix() {
        check::<f64>();
        check::<f32>();
    }
}
