//! Powers of two, by which units are chosen: a product with one is exact.

/// The exponent `e` with `2^(e - 1) <= x < 2^e` of a positive finite number, and 0 of zero.
pub(super) fn exponent(x: f64) -> i32 {
    const BIAS: i32 = 1022;
    let biased = |x: f64| ((x.to_bits() >> 52) & 0x7ff) as i32;
    match biased(x) {
        0 if x == 0.0 => 0,
        0 => biased(x * power(64)) - BIAS - 64,
        normal => normal - BIAS,
    }
}

/// `x 2^e` for any exponent that two numbers may be apart, rounded where that is subnormal.
pub(super) fn scaled(x: f64, e: i32) -> f64 {
    let [first, second, third] = factors(e);
    x * first * second * third
}

/// Factors whose product is `2^e`, none of which leaves the range of the numbers.
pub(super) fn factors(e: i32) -> [f64; 3] {
    let third = e / 3;
    [third, third, e - 2 * third].map(power)
}

/// `2^e` of a normal number.
fn power(e: i32) -> f64 {
    f64::from_bits(((e + 1023).clamp(1, 2046) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_scaled_to_below_one_and_back() {
        let numbers = [5e-324, 1e-310, f64::MIN_POSITIVE, 0.3, 0.5, 1.0, 3.0, 1e300, f64::MAX];
        for x in numbers {
            let e = exponent(x);
            let about_one = scaled(x, -e);
            assert!((0.5..1.0).contains(&about_one), "{x:e}: {about_one}");
            assert_eq!(scaled(about_one, e), x);
        }
        assert_eq!(exponent(0.0), 0);
        assert_eq!(scaled(1.0, 1100), f64::INFINITY);
        assert_eq!(scaled(1.0, -1100), 0.0);
    }
}
