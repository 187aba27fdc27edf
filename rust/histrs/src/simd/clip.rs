//! Clipping of a signed number by a magnitude.

use pulp::Simd;

use crate::simd::Element;

/// `sign(w) min(|w|, x)` for `x >= 0`: one instruction of AVX-512, and elsewhere
/// `max(min(w, x), -x)`.
#[inline(always)]
pub(crate) fn clip<T: Element, S: Simd>(simd: S, w: T::Vector<S>, x: T::Vector<S>) -> T::Vector<S> {
    #[cfg(target_arch = "x86_64")]
    {
        use crate::simd::{is_avx512, is_same};
        use core::mem::transmute_copy;
        if is_avx512::<S>() && is_same::<T, f32>() {
            // SAFETY: `simd` is a `V4`, which is made only where AVX-512 is. Its vectors of `f32`
            // are 64 bytes of plain numbers, as the register that they are copied to and from.
            return unsafe {
                transmute_copy(&avx512::sixteen(transmute_copy(&w), transmute_copy(&x)))
            };
        }
        if is_avx512::<S>() && is_same::<T, f64>() {
            // SAFETY: as above, with vectors of `f64`.
            return unsafe {
                transmute_copy(&avx512::eight(transmute_copy(&w), transmute_copy(&x)))
            };
        }
    }
    let minus = T::sub(simd, T::splat(simd, T::default()), x);
    T::max(simd, T::min(simd, w, x), minus)
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use core::arch::x86_64::*;

    /// The smaller magnitude, with the sign of the first operand.
    const SMALLER_WITH_SIGN: i32 = 0b0010;

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) fn sixteen(w: __m512, x: __m512) -> __m512 {
        _mm512_range_ps::<SMALLER_WITH_SIGN>(w, x)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) fn eight(w: __m512d, x: __m512d) -> __m512d {
        _mm512_range_pd::<SMALLER_WITH_SIGN>(w, x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::dispatch;
    use pulp::WithSimd;

    struct Run<T>(T, T);

    impl<T: Element> WithSimd for Run<T> {
        type Output = T;
        fn with_simd<S: Simd>(self, simd: S) -> T {
            let v = clip::<T, S>(simd, T::splat(simd, self.0), T::splat(simd, self.1));
            T::elements::<S>(&[v])[0]
        }
    }

    fn check<T: Element>() {
        for w in [-1e30, -2.0, -1.0, -1e-30, 0.0, 1e-30, 1.0, 2.0, 1e30] {
            for x in [0.0, 1e-30, 0.5, 1.0, 1.5, 1e30] {
                let (w, x) = (T::from_f64(w), T::from_f64(x));
                let (magnitude, limit) = (w.to_f64().abs(), x.to_f64());
                let expected = w.to_f64().signum() * magnitude.min(limit);
                assert_eq!(dispatch(Run(w, x)).to_f64(), expected);
            }
        }
    }

    #[test]
    fn it_is_the_smaller_magnitude_with_the_sign() {
        check::<f32>();
        check::<f64>();
    }
}
