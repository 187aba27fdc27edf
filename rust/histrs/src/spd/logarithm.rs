//! Logarithms in all lanes: plain loops of a fixed length, which compile to vector instructions.

use pulp::Simd;

use crate::spd::lanes::LaneValues;

const EXPONENT_BIAS: i32 = 1023;
const MANTISSA_BITS: u32 = 52;
const MANTISSA: u64 = (1 << MANTISSA_BITS) - 1;
const ONE: u64 = (EXPONENT_BIAS as u64) << MANTISSA_BITS;

/// Mantissas multiplied before a logarithm is taken: each is below 2, so that their product
/// cannot overflow.
const MANTISSAS: usize = 512;

/// `ln x` for a positive normal number, without branches.
#[inline(always)]
pub(crate) fn ln(x: f64) -> f64 {
    let (mantissa, exponent) = split(x);
    let high = mantissa > std::f64::consts::SQRT_2;
    let m = if high { 0.5 * mantissa } else { mantissa };
    let exponent = if high { exponent + 1.0 } else { exponent };
    // ln m = 2 artanh s; |s| < 0.172, so that the first term left out is below rounding.
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut series = 1.0 / 23.0;
    for k in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
        series = series * z + 1.0 / k;
    }
    (2.0 * s * (series * z) + 2.0 * s) + exponent * std::f64::consts::LN_2
}

/// The mantissa, in `1..2`, and the exponent of a positive normal number.
#[inline(always)]
fn split(x: f64) -> (f64, f64) {
    let bits = x.to_bits();
    let exponent = (bits >> MANTISSA_BITS) as i32 - EXPONENT_BIAS;
    (f64::from_bits((bits & MANTISSA) | ONE), f64::from(exponent))
}

/// Logarithms of the products of `factors`, a number for each lane one after the other; NaN in
/// lanes where a factor is not a positive normal number.
///
/// Mantissas are multiplied and exponents added, so that there is one logarithm for hundreds of
/// factors and neither overflow nor underflow.
#[inline(always)]
pub(crate) fn ln_product<S: Simd>(factors: &[f64]) -> LaneValues {
    let mut sums = LaneValues::default();
    let mut valid = [true; 8];
    for chunk in factors.chunks(MANTISSAS * S::F64_LANES) {
        let mut products = [1.0; 8];
        let mut exponents = LaneValues::default();
        for factors in chunk.chunks_exact(S::F64_LANES) {
            for lane in 0..S::F64_LANES {
                let (mantissa, exponent) = split(factors[lane]);
                valid[lane] &= factors[lane] >= f64::MIN_POSITIVE && factors[lane] < f64::INFINITY;
                products[lane] *= mantissa;
                exponents[lane] += exponent;
            }
        }
        for lane in 0..S::F64_LANES {
            sums[lane] += ln(products[lane]) + exponents[lane] * std::f64::consts::LN_2;
        }
    }
    for lane in 0..S::F64_LANES {
        sums[lane] = if valid[lane] { sums[lane] } else { f64::NAN };
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_those_of_the_standard_library() {
        for k in -3000..3000 {
            let x = (f64::from(k) * 0.2357).exp();
            if x.is_normal() {
                assert!((ln(x) - x.ln()).abs() <= 4e-16 * x.ln().abs(), "{x}");
            }
            let near = 1.0 + f64::from(k) * 1e-10;
            assert!((ln(near) - near.ln()).abs() <= 4e-16 * near.ln().abs(), "{near}");
        }
    }

    #[test]
    fn products_beyond_the_range_of_a_double() {
        for n in [0_i32, 1, 7, 511, 512, 513, 2000] {
            let factors = vec![1e-300; usize::try_from(n).unwrap()];
            let want = f64::from(n) * 1e-300_f64.ln();
            let got = ln_product::<pulp::Scalar>(&factors)[0];
            assert!((got - want).abs() <= 1e-14 * want.abs());
        }
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 5e-324] {
            assert!(ln_product::<pulp::Scalar>(&[2.0, bad])[0].is_nan());
        }
    }
}
