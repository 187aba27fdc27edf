//! Sine and cosine of phases in revolutions.

use pulp::Simd;

use crate::simd::Element;

/// Terms in double precision; single precision needs fewer.
const TERMS: usize = 8;
const SINGLE_TERMS: usize = 5;

/// Coefficients of polynomials in `b^2` with the least largest error for `|b| <= 1/4`.
struct Coefficients {
    /// `sin(2 pi b) / b`.
    sine: [f64; TERMS],
    /// `cos(2 pi b)`.
    cosine: [f64; TERMS],
}

/// Errors of 2e-16 and 2e-15.
const DOUBLE: Coefficients = Coefficients {
    sine: [
        6.283_185_307_179_585,
        -41.341_702_240_398_29,
        81.605_249_275_580_8,
        -76.705_859_689_728_7,
        42.058_689_958_522_58,
        -15.094_506_247_999_46,
        3.817_366_881_490_508,
        -0.692_512_405_712_646_8,
    ],
    cosine: [
        0.999_999_999_999_998_1,
        -19.739_208_802_174_755,
        64.939_394_021_335_86,
        -85.456_817_035_934_4,
        60.244_630_621_955_9,
        -26.425_889_066_711_242,
        7.896_559_498_156_919,
        -1.645_240_546_899_370_5,
    ],
};

/// Errors of 7e-9 and 5e-8.
const SINGLE: Coefficients = Coefficients {
    sine: [
        6.283_185_280_368_420_5,
        -41.341_680_742_779_82,
        81.602_485_116_806_02,
        -76.581_396_474_378_24,
        39.761_617_065_686_62,
        0.0,
        0.0,
        0.0,
    ],
    cosine: [
        0.999_999_953_467_704_1,
        -19.739_171_434_999_34,
        64.934_590_639_401_52,
        -85.240_330_455_937_61,
        56.242_380_446_589_93,
        0.0,
        0.0,
        0.0,
    ],
};

/// What turns numbers into `amplitude cos(2 pi u)` and `amplitude sin(2 pi u)` at `u = scale x`.
#[derive(Debug, Clone, Copy)]
pub(super) struct SineCosine<T> {
    scale: T,
    /// Adding it to a number rounds that to a whole.
    large: T,
    /// With the amplitude in them.
    sine: [T; TERMS],
    cosine: [T; TERMS],
}

impl<T: Element> SineCosine<T> {
    pub(super) fn new(scale: f64, amplitude: f64) -> Self {
        let (bits, coefficients) = if is_single::<T>() {
            (f32::MANTISSA_DIGITS, SINGLE)
        } else {
            (f64::MANTISSA_DIGITS, DOUBLE)
        };
        Self {
            scale: T::from_f64(scale),
            large: T::from_f64(0.75 * f64::from(bits).exp2()),
            sine: coefficients.sine.map(|c| T::from_f64(amplitude * c)),
            cosine: coefficients.cosine.map(|c| T::from_f64(amplitude * c)),
        }
    }

    /// Cosines and sines of as many numbers as there is room for; `x` must have a whole number of
    /// vectors, and no fewer.
    #[inline(always)]
    pub(super) fn write<S: Simd>(self, simd: S, x: &[T], cosines: &mut [T], sines: &mut [T]) {
        let lanes = T::lanes::<S>();
        let x = T::vectors::<S>(x).0;
        let n = cosines.len() / lanes;
        let (cos, cos_tail) = T::vectors_mut::<S>(cosines);
        let (sin, sin_tail) = T::vectors_mut::<S>(sines);
        for ((&x, cos), sin) in x.iter().zip(cos).zip(sin) {
            (*cos, *sin) = self.at(simd, x);
        }
        if !cos_tail.is_empty() {
            let (cos, sin) = self.at(simd, x[n]);
            cos_tail.copy_from_slice(&T::elements::<S>(&[cos])[..cos_tail.len()]);
            sin_tail.copy_from_slice(&T::elements::<S>(&[sin])[..sin_tail.len()]);
        }
    }

    /// `sum_j amplitudes_j cos(2 pi (u_j + offsets_j))`, of numbers that are whole vectors; the amplitude
    /// of this is left out.
    #[inline(always)]
    pub(super) fn sum_of_cosines<S: Simd>(
        self,
        simd: S,
        x: &[T],
        offsets: &[T],
        amplitudes: &[T],
    ) -> T {
        let mut sums = [T::splat(simd, T::default()); 2];
        let [x, offsets, amplitudes] =
            [x, offsets, amplitudes].map(|values| T::vectors::<S>(values).0);
        let inputs = x.chunks(2).zip(offsets.chunks(2)).zip(amplitudes.chunks(2));
        for ((x, offsets), amplitudes) in inputs {
            let terms = x.iter().zip(offsets).zip(amplitudes);
            for (((&x, &offset), &amplitude), sum) in terms.zip(&mut sums) {
                *sum = T::mul_add(simd, amplitude, self.cosine_at(simd, x, offset), *sum);
            }
        }
        T::reduce_sum(simd, T::add(simd, sums[0], sums[1]))
    }

    /// The cosine of [`Self::at`] alone, with a phase added, a fraction of 2 pi.
    #[inline(always)]
    fn cosine_at<S: Simd>(self, simd: S, x: T::Vector<S>, offset: T::Vector<S>) -> T::Vector<S> {
        let (scale, large) = (T::splat(simd, self.scale), T::splat(simd, self.large));
        let u = T::mul_add(simd, x, scale, offset);
        let whole = T::sub(simd, T::add(simd, u, large), large);
        let r = T::sub(simd, u, whole);
        let quarter = T::splat(simd, T::from_f64(0.25));
        let half = T::splat(simd, T::from_f64(0.5));
        let b = T::sub(simd, quarter, T::min(simd, T::magnitude(simd, r), half));
        let square = T::mul(simd, b, b);
        let terms = if is_single::<T>() { SINGLE_TERMS } else { TERMS };
        let mut sine = T::splat(simd, self.sine[terms - 1]);
        for k in (0..terms - 1).rev() {
            sine = T::mul_add(simd, sine, square, T::splat(simd, self.sine[k]));
        }
        T::mul(simd, sine, b)
    }

    /// Cosine and sine, with errors of at most 1e-6 in single and 5e-15 in double precision. If `u`
    /// is so large that its fraction is lost, they are of some angle.
    ///
    /// The nearest multiple of the period is taken off. For the rest, `|r| <= 1/2`, and `b = 1/4 - |r|`,
    /// `cos(2 pi r) = sin(2 pi b)` and `|sin(2 pi r)| = cos(2 pi b)`.
    #[inline(always)]
    fn at<S: Simd>(self, simd: S, x: T::Vector<S>) -> (T::Vector<S>, T::Vector<S>) {
        let (scale, large) = (T::splat(simd, self.scale), T::splat(simd, self.large));
        let whole = T::sub(simd, T::mul_add(simd, x, scale, large), large);
        let r = T::sub(simd, T::mul(simd, x, scale), whole);
        let quarter = T::splat(simd, T::from_f64(0.25));
        let half = T::splat(simd, T::from_f64(0.5));
        let b = T::sub(simd, quarter, T::min(simd, T::magnitude(simd, r), half));
        let square = T::mul(simd, b, b);
        let terms = if is_single::<T>() { SINGLE_TERMS } else { TERMS };
        let mut sine = T::splat(simd, self.sine[terms - 1]);
        let mut cosine = T::splat(simd, self.cosine[terms - 1]);
        for k in (0..terms - 1).rev() {
            sine = T::mul_add(simd, sine, square, T::splat(simd, self.sine[k]));
            cosine = T::mul_add(simd, cosine, square, T::splat(simd, self.cosine[k]));
        }
        (T::mul(simd, sine, b), T::flip_sign(simd, cosine, r))
    }
}

const fn is_single<T>() -> bool {
    size_of::<T>() == size_of::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{AlignedVec, dispatch};
    use pulp::WithSimd;
    use std::f64::consts::PI;

    struct Run<'a, T>(&'a [T]);

    impl<T: Element> WithSimd for Run<'_, T> {
        type Output = Vec<(T, T)>;
        fn with_simd<S: Simd>(self, simd: S) -> Vec<(T, T)> {
            let mut x = AlignedVec::zeros(self.0.len().next_multiple_of(T::lanes::<S>())).unwrap();
            x[..self.0.len()].copy_from_slice(self.0);
            let [mut cos, mut sin] = [(); 2].map(|()| vec![T::default(); self.0.len()]);
            SineCosine::new(1.0, 1.0).write(simd, &x, &mut cos, &mut sin);
            cos.into_iter().zip(sin).collect()
        }
    }

    fn largest_error<T: Element>(scale: f64) -> f64 {
        let u: Vec<T> = (0..200_001).map(|i| T::from_f64((i as f64 / 1e5 - 1.0) * scale)).collect();
        let mut worst = 0.0_f64;
        for (u, (cos, sin)) in u.iter().zip(dispatch(Run(&u))) {
            // The fraction is exact.
            let fraction = u.to_f64() - u.to_f64().round();
            let (s, c) = (2.0 * PI * fraction).sin_cos();
            worst = worst.max((cos.to_f64() - c).abs()).max((sin.to_f64() - s).abs());
        }
        worst
    }

    #[test]
    fn errors_are_as_small_as_stated() {
        for scale in [0.125, 0.5, 1.0, 7.3, 1000.0, 1e6] {
            let (single, double) = (largest_error::<f32>(scale), largest_error::<f64>(scale));
            assert!(single <= 1e-6, "{single:e} at {scale}");
            assert!(double <= 5e-15, "{double:e} at {scale}");
        }
    }

    struct Sum<'a, T>([&'a [T]; 3]);

    impl<T: Element> WithSimd for Sum<'_, T> {
        type Output = T;
        fn with_simd<S: Simd>(self, simd: S) -> T {
            let [x, offsets, amplitudes] = self.0;
            SineCosine::new(0.7, 1.0).sum_of_cosines(simd, x, offsets, amplitudes)
        }
    }

    fn check_sum<T: Element>(tolerance: f64) {
        for n in [16, 32, 48, 1024] {
            let aligned = |value: fn(usize) -> f64| {
                let mut values = AlignedVec::zeros(n).unwrap();
                values.iter_mut().enumerate().for_each(|(i, v)| *v = T::from_f64(value(i)));
                values
            };
            let x = aligned(|i| (i % 19) as f64 - 8.5);
            let offsets = aligned(|i| (i % 7) as f64 / 8.0 - 0.5);
            let amplitudes = aligned(|i| (i % 5) as f64 - 2.0);
            let terms = (0..n).map(|i| {
                let phase = 0.7 * x[i].to_f64() + offsets[i].to_f64();
                amplitudes[i].to_f64() * (2.0 * PI * phase).cos()
            });
            let expected: f64 = terms.sum();
            let found = dispatch(Sum([&x, &offsets, &amplitudes])).to_f64();
            assert!((found - expected).abs() <= tolerance * n as f64, "{n}: {found} {expected}");
        }
    }

    #[test]
    fn sums_of_cosines_are_their_definition() {
        check_sum::<f64>(1e-14);
        check_sum::<f32>(4e-6);
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
