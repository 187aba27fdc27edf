//! Square blocks transposed in registers.

use pulp::Simd;

use crate::simd::Element;

/// Transposes a block of as many rows and columns as a vector of `T` has lanes.
#[inline(always)]
pub(crate) fn transpose_block<T: Element, S: Simd>(_: S, block: &mut [T]) {
    let lanes = T::lanes::<S>();
    assert_eq!(block.len(), lanes * lanes);
    #[cfg(target_arch = "x86_64")]
    {
        if size_of::<T>() == 4 && lanes == 16 {
            // SAFETY: a witness of a `Simd` with 16 lanes of `f32` exists only where AVX-512 is;
            // the block holds 256 numbers of 4 bytes, and the only `Element` of that size is `f32`.
            unsafe { avx512::transpose_16x16(block.as_mut_ptr().cast()) };
            return;
        }
        if size_of::<T>() == 8 && lanes == 8 {
            // SAFETY: as above, with 8 lanes, 64 numbers and `f64`.
            unsafe { avx512::transpose_8x8(block.as_mut_ptr().cast()) };
            return;
        }
    }
    for i in 0..lanes {
        for j in 0..i {
            block.swap(i * lanes + j, j * lanes + i);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use core::arch::x86_64::*;

    /// # Safety
    ///
    /// AVX-512F must be there, and `block` valid for reading and writing 256 numbers.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn transpose_16x16(block: *mut f32) {
        let mut r = [_mm512_setzero_ps(); 16];
        for (i, r) in r.iter_mut().enumerate() {
            // SAFETY: the caller vouches for 256 numbers.
            *r = unsafe { _mm512_loadu_ps(block.add(16 * i)) };
        }
        // Pairs of rows, then fours, within 128 bits.
        let mut t = r;
        for i in (0..16).step_by(2) {
            t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
            t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
        }
        for i in (0..16).step_by(4) {
            let [a, b, c, d] = [t[i], t[i + 1], t[i + 2], t[i + 3]].map(|t| _mm512_castps_pd(t));
            r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
            r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
            r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
            r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
        }
        // Then whole groups of 128 bits.
        for i in 0..4 {
            t[i] = _mm512_shuffle_f32x4::<0x88>(r[i], r[i + 4]);
            t[i + 4] = _mm512_shuffle_f32x4::<0xdd>(r[i], r[i + 4]);
            t[i + 8] = _mm512_shuffle_f32x4::<0x88>(r[i + 8], r[i + 12]);
            t[i + 12] = _mm512_shuffle_f32x4::<0xdd>(r[i + 8], r[i + 12]);
        }
        for i in 0..8 {
            r[i] = _mm512_shuffle_f32x4::<0x88>(t[i], t[i + 8]);
            r[i + 8] = _mm512_shuffle_f32x4::<0xdd>(t[i], t[i + 8]);
        }
        for (i, r) in r.into_iter().enumerate() {
            // SAFETY: the caller vouches for 256 numbers.
            unsafe { _mm512_storeu_ps(block.add(16 * i), r) };
        }
    }

    /// # Safety
    ///
    /// AVX-512F must be there, and `block` valid for reading and writing 64 numbers.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn transpose_8x8(block: *mut f64) {
        let mut r = [_mm512_setzero_pd(); 8];
        for (i, r) in r.iter_mut().enumerate() {
            // SAFETY: the caller vouches for 64 numbers.
            *r = unsafe { _mm512_loadu_pd(block.add(8 * i)) };
        }
        let mut t = r;
        for i in 0..4 {
            t[i] = _mm512_unpacklo_pd(r[2 * i], r[2 * i + 1]);
            t[i + 4] = _mm512_unpackhi_pd(r[2 * i], r[2 * i + 1]);
        }
        for odd in 0..2 {
            let [a, b, c, d] = [t[4 * odd], t[4 * odd + 1], t[4 * odd + 2], t[4 * odd + 3]];
            let (low, high) =
                (_mm512_shuffle_f64x2::<0x88>(a, b), _mm512_shuffle_f64x2::<0x88>(c, d));
            r[odd] = _mm512_shuffle_f64x2::<0x88>(low, high);
            r[odd + 4] = _mm512_shuffle_f64x2::<0xdd>(low, high);
            let (low, high) =
                (_mm512_shuffle_f64x2::<0xdd>(a, b), _mm512_shuffle_f64x2::<0xdd>(c, d));
            r[odd + 2] = _mm512_shuffle_f64x2::<0x88>(low, high);
            r[odd + 6] = _mm512_shuffle_f64x2::<0xdd>(low, high);
        }
        for (i, r) in r.into_iter().enumerate() {
            // SAFETY: the caller vouches for 64 numbers.
            unsafe { _mm512_storeu_pd(block.add(8 * i), r) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{dispatch, lanes};
    use pulp::WithSimd;

    struct Run<'a, T>(&'a mut [T]);

    impl<T: Element> WithSimd for Run<'_, T> {
        type Output = ();
        fn with_simd<S: Simd>(self, simd: S) {
            transpose_block(simd, self.0);
        }
    }

    fn check<T: Element + PartialEq>() {
        let lanes = lanes::<T>();
        let original: Vec<T> = (0..lanes * lanes).map(|i| T::from_f64(i as f64)).collect();
        let mut block = original.clone();
        dispatch(Run(&mut block));
        for i in 0..lanes {
            for j in 0..lanes {
                assert_eq!(block[i * lanes + j], original[j * lanes + i]);
            }
        }
    }

    #[test]
    fn rows_become_columns() {
        check::<f32>();
        check::<f64>();
    }
}
