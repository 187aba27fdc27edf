//! Logarithms in all lanes: plain loops of a fixed length, which compile to vector instructions.

use pulp::Simd;

use crate::spd::lanes::{LaneValues, MAX_LANES};

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
    const SMALLEST: i64 = f64::MIN_POSITIVE.to_bits() as i64;
    const INFINITE: i64 = f64::INFINITY.to_bits() as i64;
    let mut sums = LaneValues::default();
    // As whole numbers bits have the order of the numbers; those of negative ones are negative.
    let (mut least, mut largest) = ([SMALLEST; MAX_LANES], [SMALLEST; MAX_LANES]);
    for chunk in factors.chunks(MANTISSAS * S::F64_LANES) {
        let mut products = [1.0; MAX_LANES];
        let mut exponents = [0_i64; MAX_LANES];
        for factors in chunk.chunks_exact(S::F64_LANES) {
            for lane in 0..S::F64_LANES {
                let bits = factors[lane].to_bits();
                least[lane] = least[lane].min(bits as i64);
                largest[lane] = largest[lane].max(bits as i64);
                products[lane] *= f64::from_bits((bits & MANTISSA) | ONE);
                exponents[lane] += (bits >> MANTISSA_BITS) as i64 - i64::from(EXPONENT_BIAS);
            }
        }
        for lane in 0..S::F64_LANES {
            sums[lane] += ln(products[lane]) + exponents[lane] as f64 * std::f64::consts::LN_2;
        }
    }
    for lane in 0..S::F64_LANES {
        let is_valid = least[lane] >= SMALLEST && largest[lane] < INFINITE;
        sums[lane] = if is_valid { sums[lane] } else { f64::NAN };
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
