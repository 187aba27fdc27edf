//! Arithmetic, exponential and logarithm that the compiler turns into vector instructions when a
//! loop over them stands inside a dispatched kernel.

use std::ops::{Add, Div, Mul, Sub};

use crate::simd::Element;

/// An [`Element`] with the elementary functions of scaling algorithms.
pub(crate) trait Elementary:
    Element + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self>
{
    /// Distance from 1 to the next number.
    const EPSILON: f64;

    /// `exp(self)` within a relative error of a hundred roundings; arguments beyond the range of
    /// normal numbers give the nearest end of it.
    fn exp_in_range(self) -> Self;

    /// The same with products and sums fused, which takes long where the machine does not do it.
    fn exp_fused(self) -> Self;

    /// `ln(self)` of a positive normal number, within a few roundings of itself.
    fn ln_of_normal(self) -> Self;

    /// Magnitude.
    fn abs(self) -> Self;

    /// Square root.
    fn sqrt(self) -> Self;
}

macro_rules! exp {
    ($t:ty, $x:expr, $mul_add:expr, $mantissa:literal, $bias:literal, $magic:literal,
     $limit:literal, $log2e:expr, ($high:literal, $low:literal), [$($exp:literal),*]) => {{
        // Adding 1.5 * 2^mantissa leaves the nearest integer in the lowest bits.
        const MAGIC: $t = $magic;
        let mul_add = $mul_add;
        let x = if $x < -$limit { -$limit } else { $x };
        let x = if x > $limit { $limit } else { x };
        let shifted = mul_add(x, $log2e, MAGIC);
        let n = shifted - MAGIC;
        let r = mul_add(-n, $low, mul_add(-n, $high, x));
        let mut p: $t = 0.0;
        $(p = mul_add(p, r, 1.0 / $exp);)*
        let scale = shifted.to_bits().wrapping_add($bias) << $mantissa;
        p * <$t>::from_bits(scale)
    }};
}

macro_rules! impl_real {
    ($t:ty, $bits:ty, mantissa: $mantissa:literal, bias: $bias:literal, magic: $magic:literal,
     limit: $limit:literal,
     log2e: $log2e:expr, ln2: ($high:literal, $low:literal), half_root: $half_root:literal,
     exp: [$($exp:literal),*], log: [$($log:literal),*]) => {
        impl Elementary for $t {
            const EPSILON: f64 = <$t>::EPSILON as f64;

            #[inline(always)]
            fn exp_in_range(self) -> Self {
                exp!($t, self, |a: $t, b: $t, c: $t| a * b + c, $mantissa, $bias, $magic, $limit,
                     $log2e, ($high, $low), [$($exp),*])
            }

            #[inline(always)]
            fn exp_fused(self) -> Self {
                exp!($t, self, <$t>::mul_add, $mantissa, $bias, $magic, $limit,
                     $log2e, ($high, $low), [$($exp),*])
            }

            #[inline(always)]
            fn ln_of_normal(self) -> Self {
                const MAGIC: $t = $magic;
                // Cut at the root of one half, so that the rest lies on both sides of 1.
                const CUT: $bits = (($bias as $bits) << $mantissa) - $half_root;
                let bits = self.to_bits();
                let n = bits.wrapping_add(CUT) >> $mantissa;
                let m = <$t>::from_bits(bits.wrapping_sub(n.wrapping_sub($bias) << $mantissa));
                let n = <$t>::from_bits(MAGIC.to_bits() + n) - MAGIC - $bias as $t;
                let s = (m - 1.0) / (m + 1.0);
                let t = s * s;
                let mut p: $t = 0.0;
                $(p = p * t + 2.0 / $log;)*
                (n * $low + p * s) + n * $high
            }

            #[inline(always)]
            fn abs(self) -> Self {
                <$t>::abs(self)
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                <$t>::sqrt(self)
            }
        }
    };
}

impl_real!(
    f64, u64, mantissa: 52, bias: 1023, magic: 6_755_399_441_055_744.0, limit: 708.0,
    log2e: std::f64::consts::LOG2_E,
    ln2: (0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10),
    half_root: 0x3fe6_a09e_667f_3bcd,
    exp: [479_001_600.0, 39_916_800.0, 3_628_800.0, 362_880.0, 40_320.0, 5040.0, 720.0, 120.0,
          24.0, 6.0, 2.0, 1.0, 1.0],
    log: [19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0]
);
impl_real!(
    f32, u32, mantissa: 23, bias: 127, magic: 12_582_912.0, limit: 87.0,
    log2e: std::f32::consts::LOG2_E,
    ln2: (0.693_359_4, -2.121_944_4e-4),
    half_root: 0x3f35_04f3,
    exp: [5040.0, 720.0, 120.0, 24.0, 6.0, 2.0, 1.0, 1.0],
    log: [9.0, 7.0, 5.0, 3.0, 1.0]
);

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Elementary>(largest: f64) {
        let mut worst = [0.0_f64; 2];
        for k in -5000..=5000 {
            let x = T::from_f64(f64::from(k) / 5000.0 * largest);
            let exact = x.to_f64().exp();
            let error = (x.exp_in_range().to_f64() - exact).abs() / exact;
            worst[0] = worst[0].max(error);
            let power = T::from_f64(exact);
            let exact = power.to_f64().ln();
            let error = (power.ln_of_normal().to_f64() - exact).abs() / (1.0 + exact.abs());
            worst[1] = worst[1].max(error);
        }
        assert!(worst[0] < 100.0 * T::EPSILON, "exp: {}", worst[0]);
        assert!(worst[1] < 4.0 * T::EPSILON, "ln: {}", worst[1]);
    }

    #[test]
    fn elementary_functions_are_accurate() {
        check::<f64>(700.0);
        check::<f32>(86.0);
    }

    /// Also near 1, where the logarithm is small.
    #[test]
    fn logarithms_have_a_small_relative_error() {
        for k in -3000..3000 {
            for x in [(f64::from(k) * 0.2357).exp(), 1.0 + f64::from(k) * 1e-10] {
                let error = (x.ln_of_normal() - x.ln()).abs();
                assert!(!x.is_normal() || error <= 2.0 * f64::EPSILON * x.ln().abs(), "{x}");
            }
            #[expect(clippy::cast_possible_truncation)]
            let x = (1.0 + f64::from(k) * 1e-6) as f32;
            let exact = f64::from(x).ln();
            let error = (f64::from(x.ln_of_normal()) - exact).abs();
            assert!(error <= 2.0 * f64::from(f32::EPSILON) * exact.abs(), "{x}");
        }
    }

    #[test]
    fn the_ends_of_the_range() {
        assert_eq!(1.0_f64.ln_of_normal(), 0.0);
        assert_eq!(0.0_f32.exp_in_range(), 1.0);
        assert!(1e9_f64.exp_in_range().is_finite());
        assert!((-1e9_f64).exp_in_range() > 0.0);
        assert!(1e9_f32.exp_in_range().is_finite());
        assert!((-1e9_f32).exp_in_range() > 0.0);
    }
}
