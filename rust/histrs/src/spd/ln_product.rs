//! Logarithms of products in all lanes, by loops of a fixed length, which compile to vector
//! instructions.

use pulp::Simd;

use crate::simd::Elementary;
use crate::spd::lanes::{LaneValues, MAX_LANES};

const EXPONENT_BIAS: i32 = 1023;
const MANTISSA_BITS: u32 = 52;
const MANTISSA: u64 = (1 << MANTISSA_BITS) - 1;
const ONE: u64 = (EXPONENT_BIAS as u64) << MANTISSA_BITS;

/// Mantissas multiplied before a logarithm is taken: each is below 2, so that their product
/// cannot overflow.
const MANTISSAS: usize = 512;

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
            sums[lane] +=
                products[lane].ln_of_normal() + exponents[lane] as f64 * std::f64::consts::LN_2;
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
