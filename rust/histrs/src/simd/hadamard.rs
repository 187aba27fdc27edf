//! The Walsh-Hadamard transform between the lanes of a vector.

use pulp::Simd;

use crate::simd::Element;

/// The most lanes of any vector.
const MAX_LANES: usize = 16;

/// The product of the lanes of `v` with the Hadamard matrix of their number, in Sylvester's order.
#[inline(always)]
pub(crate) fn lane_hadamard<T: Element, S: Simd>(_: S, v: T::Vector<S>) -> T::Vector<S> {
    let lanes = T::lanes::<S>();
    assert!(size_of::<T::Vector<S>>() == lanes * size_of::<T>() && lanes <= MAX_LANES);
    #[cfg(target_arch = "x86_64")]
    {
        use crate::simd::{is_avx512, is_same};
        use core::mem::transmute_copy;
        if is_avx512::<S>() && is_same::<T, f32>() {
            // SAFETY: the witness is a `V4`, which is made only where AVX-512 is. Its vector of
            // `f32` is 64 bytes of plain numbers, as the register that it is copied to and from.
            return unsafe { transmute_copy(&avx512::sixteen(transmute_copy(&v))) };
        }
        if is_avx512::<S>() && is_same::<T, f64>() {
            // SAFETY: as above, with a vector of `f64`.
            return unsafe { transmute_copy(&avx512::eight(transmute_copy(&v))) };
        }
    }
    let mut values = [T::default(); MAX_LANES];
    let values = &mut values[..lanes];
    values.copy_from_slice(T::elements::<S>(&[v]));
    let mut distance = 1;
    while distance < lanes {
        for pair in values.chunks_exact_mut(2 * distance) {
            let (left, right) = pair.split_at_mut(distance);
            for (a, b) in left.iter_mut().zip(right) {
                let (x, y) = (a.to_f64(), b.to_f64());
                // In double precision, which rounds to the same.
                (*a, *b) = (T::from_f64(x + y), T::from_f64(x - y));
            }
        }
        distance *= 2;
    }
    T::vectors::<S>(values).0[0]
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use core::arch::x86_64::*;

    // Every stage adds the neighbour at some distance to the lane itself, or to minus it.

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn sixteen(v: __m512) -> __m512 {
        let sign = |distance: i32| {
            let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            let minus = _mm512_test_epi32_mask(lanes, _mm512_set1_epi32(distance));
            _mm512_mask_blend_ps(minus, _mm512_set1_ps(1.0), _mm512_set1_ps(-1.0))
        };
        let v = _mm512_fmadd_ps(v, sign(8), _mm512_shuffle_f32x4::<0x4e>(v, v));
        let v = _mm512_fmadd_ps(v, sign(4), _mm512_shuffle_f32x4::<0xb1>(v, v));
        let v = _mm512_fmadd_ps(v, sign(2), _mm512_permute_ps::<0x4e>(v));
        _mm512_fmadd_ps(v, sign(1), _mm512_permute_ps::<0xb1>(v))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn eight(v: __m512d) -> __m512d {
        let sign = |distance: i64| {
            let lanes = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
            let minus = _mm512_test_epi64_mask(lanes, _mm512_set1_epi64(distance));
            _mm512_mask_blend_pd(minus, _mm512_set1_pd(1.0), _mm512_set1_pd(-1.0))
        };
        let v = _mm512_fmadd_pd(v, sign(4), _mm512_shuffle_f64x2::<0x4e>(v, v));
        let v = _mm512_fmadd_pd(v, sign(2), _mm512_permutex_pd::<0x4e>(v));
        _mm512_fmadd_pd(v, sign(1), _mm512_permute_pd::<0x55>(v))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{AlignedVec, dispatch, lanes};
    use pulp::WithSimd;

    struct Run<'a, T>(&'a mut [T]);

    impl<T: Element> WithSimd for Run<'_, T> {
        type Output = ();
        fn with_simd<S: Simd>(self, simd: S) {
            for v in T::vectors_mut::<S>(self.0).0 {
                *v = lane_hadamard::<T, S>(simd, *v);
            }
        }
    }

    fn check<T: Element>() {
        let lanes = lanes::<T>();
        let mut x = AlignedVec::<T>::zeros(lanes).unwrap();
        for (i, x) in x.iter_mut().enumerate() {
            *x = T::from_f64((i * i % 7) as f64);
        }
        let before = x.to_vec();
        dispatch(Run(&mut x));
        for (i, x) in x.iter().enumerate() {
            let sign = |j: usize| if (i & j).count_ones() % 2 == 1 { -1.0 } else { 1.0 };
            let expected: f64 = (0..lanes).map(|j| sign(j) * before[j].to_f64()).sum();
            assert_eq!(x.to_f64(), expected);
        }
    }

    #[test]
    fn it_is_the_product_with_the_matrix() {
        check::<f32>();
        check::<f64>();
    }
}
