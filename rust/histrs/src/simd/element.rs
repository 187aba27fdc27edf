//! The types that kernels work in, and the operations on vectors of them.

use pulp::Simd;

/// A floating-point type the kernels work in.
pub trait Element:
    Copy
    + Send
    + Sync
    + Default
    + PartialOrd
    + std::fmt::Debug
    + pulp::bytemuck::Zeroable
    + 'static
    + Vectors
{
    /// The nearest value of this type.
    fn from_f64(x: f64) -> Self;
    /// The same value in double precision.
    fn to_f64(self) -> f64;
}

/// An [`Element`] with operators, for loops that the compiler turns into vectors.
pub trait Real: Element + ndarray::LinalgScalar {}

impl Real for f32 {}
impl Real for f64 {}

/// What kernels do with vectors of an element; no other crate can name it, nor make one more
/// [`Element`].
pub trait Vectors: Sized {
    /// A vector of this type.
    type Vector<S: Simd>: Copy;

    /// The smallest positive normal number.
    const TINY: Self;
    /// The largest finite number.
    const LARGEST: Self;

    /// Number of elements in a vector.
    fn lanes<S: Simd>() -> usize;
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;
    fn add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn sub<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn mul<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn div<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn min<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn max<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a * b + c`, fused where the machine does that at no cost.
    fn mul_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// Without its sign.
    fn magnitude<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S>;
    /// `a`, or `-a` where `sign` is negative.
    fn flip_sign<S: Simd>(simd: S, a: Self::Vector<S>, sign: Self::Vector<S>) -> Self::Vector<S>;
    fn reduce_sum<S: Simd>(simd: S, a: Self::Vector<S>) -> Self;
    fn elements<S: Simd>(x: &[Self::Vector<S>]) -> &[Self];
    fn vectors<S: Simd>(x: &[Self]) -> (&[Self::Vector<S>], &[Self]);
    fn vectors_mut<S: Simd>(x: &mut [Self]) -> (&mut [Self::Vector<S>], &mut [Self]);

    /// The same slice, where this is `f32`.
    fn singles(x: &[Self]) -> Option<&[f32]>;

    /// Whether all are finite and not negative. Looks at every value, as integers, of which several
    /// are compared at a time.
    fn all_non_negative(x: &[Self]) -> bool;
    /// Whether all are finite.
    fn all_finite(x: &[Self]) -> bool;
}

macro_rules! impl_element {
    ($t:ty, $vector:ident, $lanes:ident, $splat:ident, $reduce:ident, $slice:ident, $slice_mut:ident,
     $singles:expr, sums: [$($binary:ident = $of_two:ident),+], $mul_add:ident,
     bits: [$abs:ident, $and:ident, $xor:ident]) => {
        impl Vectors for $t {
            type Vector<S: Simd> = S::$vector;

            const TINY: Self = <$t>::MIN_POSITIVE;
            const LARGEST: Self = <$t>::MAX;

            #[inline(always)]
            fn lanes<S: Simd>() -> usize {
                S::$lanes
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$vector {
                simd.$splat(x)
            }
            $(#[inline(always)]
            fn $binary<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$of_two(a, b)
            })+
            #[inline(always)]
            fn mul_add<S: Simd>(
                simd: S,
                a: S::$vector,
                b: S::$vector,
                c: S::$vector,
            ) -> S::$vector {
                simd.$mul_add(a, b, c)
            }
            #[inline(always)]
            fn magnitude<S: Simd>(simd: S, a: S::$vector) -> S::$vector {
                simd.$abs(a)
            }
            #[inline(always)]
            fn flip_sign<S: Simd>(simd: S, a: S::$vector, sign: S::$vector) -> S::$vector {
                simd.$xor(a, simd.$and(sign, simd.$splat(-0.0)))
            }
            #[inline(always)]
            fn reduce_sum<S: Simd>(simd: S, a: S::$vector) -> Self {
                simd.$reduce(a)
            }
            #[inline(always)]
            fn elements<S: Simd>(x: &[S::$vector]) -> &[Self] {
                pulp::bytemuck::cast_slice(x)
            }
            #[inline(always)]
            fn vectors<S: Simd>(x: &[Self]) -> (&[S::$vector], &[Self]) {
                S::$slice(x)
            }
            #[inline(always)]
            fn vectors_mut<S: Simd>(x: &mut [Self]) -> (&mut [S::$vector], &mut [Self]) {
                S::$slice_mut(x)
            }
            fn singles(x: &[Self]) -> Option<&[f32]> {
                $singles(x)
            }
            // The first bit says what is negative; added to what has no end, this sets it, too.
            #[inline]
            fn all_non_negative(x: &[Self]) -> bool {
                let step = <$t>::MIN_POSITIVE.to_bits();
                let seen = x.iter().fold(0, |seen, &x| {
                    // -0 is 0.
                    let bits = (x + 0.0).to_bits();
                    seen | bits | bits.wrapping_add(step)
                });
                !<$t>::from_bits(seen).is_sign_negative()
            }
            #[inline]
            fn all_finite(x: &[Self]) -> bool {
                let step = <$t>::MIN_POSITIVE.to_bits();
                let seen = x.iter().fold(0, |seen, &x| seen | (x.abs().to_bits() + step));
                !<$t>::from_bits(seen).is_sign_negative()
            }
        }

        impl Element for $t {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation)]
            fn from_f64(x: f64) -> Self {
                x as Self
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
        }
    };
}

impl_element! {
    f32, f32s, F32_LANES, splat_f32s, reduce_sum_f32s, as_simd_f32s, as_mut_simd_f32s, Some,
    sums: [add = add_f32s, sub = sub_f32s, mul = mul_f32s, div = div_f32s, min = min_f32s, max = max_f32s],
    mul_add_e_f32s, bits: [abs_f32s, and_f32s, xor_f32s]
}
impl_element! {
    f64, f64s, F64_LANES, splat_f64s, reduce_sum_f64s, as_simd_f64s, as_mut_simd_f64s, |_| None,
    sums: [add = add_f64s, sub = sub_f64s, mul = mul_f64s, div = div_f64s, min = min_f64s, max = max_f64s],
    mul_add_e_f64s, bits: [abs_f64s, and_f64s, xor_f64s]
}
