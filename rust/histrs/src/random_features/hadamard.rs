//! The fast Walsh-Hadamard transform of several rows at once, one in each lane.

use pulp::Simd;

use crate::simd::Element;

/// Vectors that stay in the first-level cache while all their stages are done.
const CACHED: usize = 256;
/// The smallest size.
pub(super) const MIN_SIZE: usize = 8;

/// `out = H D x`, with `H` the Hadamard matrix in Sylvester's order, not normalised, and `D` the
/// diagonal of the signs. The size is a power of 2 and at least [`MIN_SIZE`].
///
/// A vector holds one entry of each row, so that no stage mixes lanes, and results do not depend
/// on their number. That is `n log2 n` additions a row; stages are taken three at a time, the widest
/// first, and memory beyond the first-level cache is passed over once.
#[inline(always)]
pub(super) fn signed_hadamard<T: Element, S: Simd>(
    simd: S,
    signs: &[T],
    x: &[T::Vector<S>],
    out: &mut [T::Vector<S>],
) {
    let q = x.len() / 8;
    for i in 0..q {
        let mut v = [x[i]; 8];
        for k in 0..8 {
            v[k] = T::mul(simd, x[i + k * q], T::splat(simd, signs[i + k * q]));
        }
        let v = eight::<T, S>(simd, v);
        for k in 0..8 {
            out[i + k * q] = v[k];
        }
    }
    let mut len = q;
    while len > CACHED {
        stages_of_eight::<T, S>(simd, out, len);
        len /= 8;
    }
    for part in out.chunks_exact_mut(len) {
        let mut len = len;
        while len >= 8 {
            stages_of_eight::<T, S>(simd, part, len);
            len /= 8;
        }
        last_stages::<T, S>(simd, part, len);
    }
}

/// Three stages of every block of `len` vectors.
#[inline(always)]
fn stages_of_eight<T: Element, S: Simd>(simd: S, x: &mut [T::Vector<S>], len: usize) {
    let q = len / 8;
    for block in x.chunks_exact_mut(len) {
        for i in 0..q {
            let v = [
                block[i],
                block[i + q],
                block[i + 2 * q],
                block[i + 3 * q],
                block[i + 4 * q],
                block[i + 5 * q],
                block[i + 6 * q],
                block[i + 7 * q],
            ];
            let v = eight::<T, S>(simd, v);
            for k in 0..8 {
                block[i + k * q] = v[k];
            }
        }
    }
}

/// The last one or two stages, or none.
#[inline(always)]
fn last_stages<T: Element, S: Simd>(simd: S, x: &mut [T::Vector<S>], len: usize) {
    if len == 4 {
        for block in x.chunks_exact_mut(4) {
            let (a, b) = butterfly::<T, S>(simd, block[0], block[2]);
            let (c, d) = butterfly::<T, S>(simd, block[1], block[3]);
            (block[0], block[1]) = butterfly::<T, S>(simd, a, c);
            (block[2], block[3]) = butterfly::<T, S>(simd, b, d);
        }
    } else if len == 2 {
        for block in x.chunks_exact_mut(2) {
            (block[0], block[1]) = butterfly::<T, S>(simd, block[0], block[1]);
        }
    }
}

/// The transform of size 8.
#[inline(always)]
fn eight<T: Element, S: Simd>(simd: S, mut v: [T::Vector<S>; 8]) -> [T::Vector<S>; 8] {
    for k in 0..4 {
        (v[k], v[k + 4]) = butterfly::<T, S>(simd, v[k], v[k + 4]);
    }
    for k in [0, 1, 4, 5] {
        (v[k], v[k + 2]) = butterfly::<T, S>(simd, v[k], v[k + 2]);
    }
    for k in [0, 2, 4, 6] {
        (v[k], v[k + 1]) = butterfly::<T, S>(simd, v[k], v[k + 1]);
    }
    v
}

#[inline(always)]
fn butterfly<T: Element, S: Simd>(
    simd: S,
    a: T::Vector<S>,
    b: T::Vector<S>,
) -> (T::Vector<S>, T::Vector<S>) {
    (T::add(simd, a, b), T::sub(simd, a, b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{AlignedVec, dispatch, lanes};
    use pulp::WithSimd;

    struct Run<'a> {
        signs: &'a [f64],
        x: &'a [f64],
        out: &'a mut [f64],
    }

    impl WithSimd for Run<'_> {
        type Output = ();
        fn with_simd<S: Simd>(self, simd: S) {
            let x = f64::vectors::<S>(self.x).0;
            signed_hadamard::<f64, S>(simd, self.signs, x, f64::vectors_mut::<S>(self.out).0);
        }
    }

    #[test]
    fn it_is_the_product_with_the_matrix() {
        let lanes = lanes::<f64>();
        for log in 3..13 {
            let n = 1 << log;
            let signs: Vec<f64> = (0..n).map(|i| if i * 7 % 3 == 0 { -1.0 } else { 1.0 }).collect();
            let mut x = AlignedVec::<f64>::zeros(n * lanes);
            // Small integers, so that sums are exact.
            for (i, x) in x.iter_mut().enumerate() {
                *x = (i * 31 % 17) as f64;
            }
            let mut out = AlignedVec::<f64>::zeros(n * lanes);
            dispatch(Run { signs: &signs, x: &x, out: &mut out });
            for i in (0..n).step_by(n / 8 + 1) {
                for lane in 0..lanes {
                    let terms = (0..n).map(|j| {
                        let sign = if (i & j).count_ones() % 2 == 1 { -1.0 } else { 1.0 };
                        sign * signs[j] * x[j * lanes + lane]
                    });
                    assert_eq!(out[i * lanes + lane], terms.sum::<f64>(), "{n} {i}");
                }
            }
        }
    }
}
