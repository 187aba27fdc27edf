//! Run-time choice of the instruction set, and the vectors that the kernels are written in.
//!
//! Kernels are generic over [`pulp::Simd`] and over [`Element`] (`f32` or `f64`); [`dispatch`]
//! instantiates them for AVX-512, AVX2, NEON or plain scalars. `HISTRS_SIMD` chooses one that the
//! machine has: the tests run on each.

use std::any::TypeId;
use std::sync::OnceLock;

use pulp::{Simd, WithSimd};

use crate::error::{Error, Result};

mod aligned;
mod byte_tables;
mod clip;
mod elementary;
mod hadamard;
mod minima;
mod pages;
mod prefetch;

pub(crate) use aligned::AlignedVec;
pub(crate) use byte_tables::{
    BIAS as BYTE_BIAS, ByteLookup, BytePlacements, CELLS as BYTE_CELLS, CODES as BYTE_CODES,
    COLUMNS as BYTE_COLUMNS, Group as ByteGroup, LAST_CODE, Placement, Placements,
    ROWS as BYTE_ROWS, TABLE as BYTE_TABLE, place_of_sum,
};
pub(crate) use clip::clip;
pub(crate) use elementary::Elementary;
pub(crate) use hadamard::lane_hadamard;
pub(crate) use minima::{Count, Line as CountLine, Minima, TILE as COUNT_TILE};
pub(crate) use pages::{prefer_huge_pages, zeroed};
pub(crate) use prefetch::prefetch;

/// The instruction sets a process can choose from.
#[derive(Debug, Clone, Copy)]
enum Choice {
    #[cfg(target_arch = "x86_64")]
    Avx512(pulp::x86::V4),
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    /// What `pulp` finds: NEON.
    #[cfg(not(target_arch = "x86_64"))]
    Native(pulp::Arch),
    Scalar,
}

impl Choice {
    /// What is taken where nothing is named.
    fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        return Self::available()[0].1;
        #[cfg(not(target_arch = "x86_64"))]
        return Self::Native(pulp::Arch::new());
    }

    /// Those of this machine that have a name, the best first.
    fn available() -> Vec<(&'static str, Self)> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            found.extend(pulp::x86::V4::try_new().map(|v4| ("avx512", Self::Avx512(v4))));
            found.extend(pulp::x86::V3::try_new().map(|v3| ("avx2", Self::Avx2(v3))));
        }
        found.push(("scalar", Self::Scalar));
        found
    }

    fn named(name: &str) -> Result<Self> {
        let available = Self::available();
        match (name, available.iter().find(|choice| choice.0 == name)) {
            ("" | "auto", _) => Ok(Self::best()),
            (_, Some(choice)) => Ok(choice.1),
            ("avx512" | "avx2", None) => Err(Error::SimdUnavailable {
                name: name.into(),
                available: available.iter().map(|choice| choice.0).collect::<Vec<_>>().join(", "),
            }),
            (_, None) => Err(Error::SimdSetting(name.into())),
        }
    }
}

fn choice() -> &'static Result<Choice> {
    static CHOICE: OnceLock<Result<Choice>> = OnceLock::new();
    CHOICE.get_or_init(|| match std::env::var_os("HISTRS_SIMD") {
        None => Ok(Choice::best()),
        Some(name) => Choice::named(&name.to_string_lossy()),
    })
}

/// Fails when `HISTRS_SIMD` has a value that is not known or not available.
pub(crate) fn check_setting() -> Result<()> {
    choice().as_ref().map(drop).map_err(Error::clone)
}

/// The instruction sets of this machine that `HISTRS_SIMD` can name, the best first.
#[must_use]
pub fn instruction_sets() -> Vec<&'static str> {
    Choice::available().into_iter().map(|choice| choice.0).collect()
}

/// Runs `op` with the best instruction set of this machine, or the one that `HISTRS_SIMD` names.
#[inline]
pub(crate) fn dispatch<Op: WithSimd>(op: Op) -> Op::Output {
    match choice() {
        #[cfg(target_arch = "x86_64")]
        Ok(Choice::Avx512(v4)) => Simd::vectorize(*v4, op),
        #[cfg(target_arch = "x86_64")]
        Ok(Choice::Avx2(v3)) => Simd::vectorize(*v3, op),
        #[cfg(not(target_arch = "x86_64"))]
        Ok(Choice::Native(arch)) => arch.dispatch(op),
        // Mentioned once, since each place that instantiates a kernel has all of its code.
        Ok(Choice::Scalar) | Err(_) => op.with_simd(pulp::Scalar),
    }
}

/// Whether kernels are instantiated for AVX-512: by their type, whatever the number of lanes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn is_avx512<S: Simd>() -> bool {
    is_same::<S, pulp::x86::V4>()
}

/// Whether two types are one.
#[inline(always)]
pub(crate) fn is_same<A: 'static, B: 'static>() -> bool {
    TypeId::of::<A>() == TypeId::of::<B>()
}

/// Number of elements of type `E` in a vector of the instruction set in use.
pub(crate) fn lanes<E: Element>() -> usize {
    struct Lanes<E>(std::marker::PhantomData<E>);
    impl<E: Element> WithSimd for Lanes<E> {
        type Output = usize;
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> usize {
            E::lanes::<S>()
        }
    }
    dispatch(Lanes::<E>(std::marker::PhantomData))
}

/// Name of the instruction set in use, for benchmark records.
#[must_use]
pub fn instruction_set() -> &'static str {
    struct Name;
    impl WithSimd for Name {
        type Output = &'static str;
        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) -> &'static str {
            match S::F64_LANES {
                8 => "avx512",
                4 => "avx2",
                2 => "128-bit",
                _ => "scalar",
            }
        }
    }
    dispatch(Name)
}

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
    + sealed::Sealed
{
    /// A vector of this type.
    #[doc(hidden)]
    type Vector<S: Simd>: Copy;

    /// The smallest positive normal number.
    #[doc(hidden)]
    const TINY: Self;

    /// Number of elements in a vector.
    #[doc(hidden)]
    fn lanes<S: Simd>() -> usize;
    #[doc(hidden)]
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;
    #[doc(hidden)]
    fn add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    #[doc(hidden)]
    fn sub<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    #[doc(hidden)]
    fn mul<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    #[doc(hidden)]
    fn div<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    #[doc(hidden)]
    fn min<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    #[doc(hidden)]
    fn max<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a * b + c`, fused where the machine does that at no cost.
    #[doc(hidden)]
    fn mul_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// Without its sign.
    #[doc(hidden)]
    fn magnitude<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S>;
    /// `a`, or `-a` where `sign` is negative.
    #[doc(hidden)]
    fn flip_sign<S: Simd>(simd: S, a: Self::Vector<S>, sign: Self::Vector<S>) -> Self::Vector<S>;
    #[doc(hidden)]
    fn reduce_sum<S: Simd>(simd: S, a: Self::Vector<S>) -> Self;
    #[doc(hidden)]
    fn elements<S: Simd>(x: &[Self::Vector<S>]) -> &[Self];
    #[doc(hidden)]
    fn vectors<S: Simd>(x: &[Self]) -> (&[Self::Vector<S>], &[Self]);
    #[doc(hidden)]
    fn vectors_mut<S: Simd>(x: &mut [Self]) -> (&mut [Self::Vector<S>], &mut [Self]);

    /// The same slice, where this is `f32`.
    #[doc(hidden)]
    fn singles(x: &[Self]) -> Option<&[f32]>;

    /// The nearest value of this type.
    fn from_f64(x: f64) -> Self;
    /// The same value in double precision.
    fn to_f64(self) -> f64;
}

/// An [`Element`] with operators, for plain loops that the compiler turns into vectors.
pub trait Real: Element + ndarray::LinalgScalar {}

impl Real for f32 {}
impl Real for f64 {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

macro_rules! impl_element {
    ($t:ty, $vector:ident, $lanes:ident, $splat:ident, $add:ident, $sub:ident, $mul:ident,
     $div:ident, $min:ident, $max:ident, $mul_add:ident, $abs:ident, $and:ident, $xor:ident,
     $reduce:ident, $slice:ident, $slice_mut:ident, $singles:expr) => {
        impl Element for $t {
            type Vector<S: Simd> = S::$vector;

            const TINY: Self = <$t>::MIN_POSITIVE;

            #[inline(always)]
            fn lanes<S: Simd>() -> usize {
                S::$lanes
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: Self) -> S::$vector {
                simd.$splat(x)
            }
            #[inline(always)]
            fn add<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn sub<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$sub(a, b)
            }
            #[inline(always)]
            fn mul<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$mul(a, b)
            }
            #[inline(always)]
            fn div<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$div(a, b)
            }
            #[inline(always)]
            fn min<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$min(a, b)
            }
            #[inline(always)]
            fn max<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$max(a, b)
            }
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

impl_element!(
    f32,
    f32s,
    F32_LANES,
    splat_f32s,
    add_f32s,
    sub_f32s,
    mul_f32s,
    div_f32s,
    min_f32s,
    max_f32s,
    mul_add_e_f32s,
    abs_f32s,
    and_f32s,
    xor_f32s,
    reduce_sum_f32s,
    as_simd_f32s,
    as_mut_simd_f32s,
    Some
);
impl_element!(
    f64,
    f64s,
    F64_LANES,
    splat_f64s,
    add_f64s,
    sub_f64s,
    mul_f64s,
    div_f64s,
    min_f64s,
    max_f64s,
    mul_add_e_f64s,
    abs_f64s,
    and_f64s,
    xor_f64s,
    reduce_sum_f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    |_| None
);
