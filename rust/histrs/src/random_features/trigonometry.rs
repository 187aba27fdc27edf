//! Sine and cosine of angles in turns.

use std::f64::consts::PI;

use pulp::Simd;

use crate::simd::Element;

/// Terms of the series in double precision; single precision needs fewer.
const TERMS: usize = 11;
const SINGLE_TERMS: usize = 7;

/// `(-1)^k pi^(2k + 1) / (2k + 1)!`, the series of `sin(pi r) / r` in `r^2`.
const SINE: [f64; TERMS] = series(PI, 2.0);
/// `(-1)^k pi^(2k) / (2k)!`, the series of `cos(pi r)` in `r^2`.
const COSINE: [f64; TERMS] = series(1.0, 1.0);

/// The series whose first term is `first`, and whose next factor is `-pi^2 / (next (next + 1))`.
const fn series(first: f64, mut next: f64) -> [f64; TERMS] {
    let mut terms = [first; TERMS];
    let mut k = 1;
    while k < TERMS {
        terms[k] = -terms[k - 1] * PI * PI / (next * (next + 1.0));
        next += 2.0;
        k += 1;
    }
    terms
}

/// `amplitude cos(2 pi u)` and `amplitude sin(2 pi u)` at `u = scale x`, for every vector.
#[inline(always)]
pub(super) fn cosines_and_sines<T: Element, S: Simd>(
    simd: S,
    x: &[T::Vector<S>],
    scale: T,
    amplitude: T,
    cosines: &mut [T::Vector<S>],
    sines: &mut [T::Vector<S>],
) {
    let (scale, amplitude) = (T::splat(simd, scale), T::splat(simd, amplitude));
    for ((&x, cosine), sine) in x.iter().zip(cosines).zip(sines) {
        let (cos, sin) = cos_sin_of_turns::<T, S>(simd, T::mul(simd, scale, x));
        *cosine = T::mul(simd, amplitude, cos);
        *sine = T::mul(simd, amplitude, sin);
    }
}

/// `(cos(2 pi u), sin(2 pi u))`, off by at most 1e-6 in single and 2e-15 in double precision; where
/// `u` is so large that its fraction is lost, some angle.
///
/// The nearest whole turn is taken off, which is exact. For the rest, `|r| <= 1/2`, the series of
/// half the angle are short, and `cos(2 pi r) = 1 - 2 sin(pi r)^2`.
#[inline(always)]
fn cos_sin_of_turns<T: Element, S: Simd>(simd: S, u: T::Vector<S>) -> (T::Vector<S>, T::Vector<S>) {
    let single = size_of::<T>() == size_of::<f32>();
    let half = T::splat(simd, T::from_f64(0.5));
    let minus_half = T::splat(simd, T::from_f64(-0.5));
    // Added to a number of which no fraction is kept, `u` is rounded.
    let bits =
        if single { f64::from(f32::MANTISSA_DIGITS) } else { f64::from(f64::MANTISSA_DIGITS) };
    let large = T::splat(simd, T::from_f64(0.75 * bits.exp2()));
    let turns = T::sub(simd, T::add(simd, u, large), large);
    let r = T::max(simd, minus_half, T::min(simd, half, T::sub(simd, u, turns)));
    let square = T::mul(simd, r, r);
    let terms = if single { SINGLE_TERMS } else { TERMS };
    let mut sine = T::splat(simd, T::from_f64(SINE[terms - 1]));
    let mut cosine = T::splat(simd, T::from_f64(COSINE[terms - 1]));
    for k in (0..terms - 1).rev() {
        sine = T::mul_add(simd, sine, square, T::splat(simd, T::from_f64(SINE[k])));
        cosine = T::mul_add(simd, cosine, square, T::splat(simd, T::from_f64(COSINE[k])));
    }
    let sine = T::mul(simd, sine, r);
    let twice = T::add(simd, sine, sine);
    let one = T::splat(simd, T::from_f64(1.0));
    (T::sub(simd, one, T::mul(simd, twice, sine)), T::mul(simd, twice, cosine))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::dispatch;
    use pulp::WithSimd;

    struct Run<'a, T>(&'a [T]);

    impl<T: Element> WithSimd for Run<'_, T> {
        type Output = Vec<(T, T)>;
        fn with_simd<S: Simd>(self, simd: S) -> Vec<(T, T)> {
            let one = |&u: &T| {
                let (cos, sin) = cos_sin_of_turns::<T, S>(simd, T::splat(simd, u));
                let lanes = T::from_f64(T::lanes::<S>() as f64).to_f64();
                let mean = |v| T::from_f64(T::reduce_sum(simd, v).to_f64() / lanes);
                (mean(cos), mean(sin))
            };
            self.0.iter().map(one).collect()
        }
    }

    fn largest_error<T: Element>(scale: f64) -> f64 {
        let u: Vec<T> = (0..200_001).map(|i| T::from_f64((i as f64 / 1e5 - 1.0) * scale)).collect();
        let mut worst = 0.0_f64;
        for (u, (cos, sin)) in u.iter().zip(dispatch(Run(&u))) {
            // The fraction is exact.
            let turn = u.to_f64() - u.to_f64().round();
            let (s, c) = (2.0 * PI * turn).sin_cos();
            worst = worst.max((cos.to_f64() - c).abs()).max((sin.to_f64() - s).abs());
        }
        worst
    }

    #[test]
    fn errors_are_as_small_as_stated() {
        for scale in [0.125, 0.5, 1.0, 7.3, 1000.0, 1e6] {
            let (single, double) = (largest_error::<f32>(scale), largest_error::<f64>(scale));
            assert!(single <= 1e-6, "{single:e} at {scale}");
            assert!(double <= 2e-15, "{double:e} at {scale}");
        }
    }

    #[test]
    fn huge_angles_have_bounded_sines() {
        for scale in [1e8, 1e15, 1e30] {
            let u: Vec<f32> = (0..99).map(|i| (i as f32 - 49.3) * scale as f32).collect();
            for (cos, sin) in dispatch(Run(&u)) {
                assert!(cos.abs() <= 1.000_001 && sin.abs() <= 1.000_001);
            }
        }
    }
}
