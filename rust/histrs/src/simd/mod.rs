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
mod byte_products;
mod byte_tables;
mod clip;
mod element;
mod elementary;
mod hadamard;
mod minima;
mod pages;
mod prefetch;

pub(crate) use aligned::AlignedVec;
pub(crate) use byte_products::{
    ByteProducts, COLUMNS as PRODUCT_COLUMNS, GROUP as PRODUCT_GROUP, Panel, Quad,
    TILE as PRODUCT_TILE,
};
pub(crate) use byte_tables::{
    BIAS as BYTE_BIAS, ByteLookup, BytePlacements, CELLS as BYTE_CELLS, CODES as BYTE_CODES,
    COLUMNS as BYTE_COLUMNS, Group as ByteGroup, LAST_CODE, Placement, Placements,
    ROWS as BYTE_ROWS, TABLE as BYTE_TABLE, index_of_sum,
};
pub(crate) use clip::clip;
pub(crate) use element::Vectors;
pub use element::{Element, Real};
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

/// Makes a function of a kernel, which [`dispatch`] runs: its loops are compiled for each instruction set.
///
/// A kernel that needs vectors begins with `<S: Simd` and `(simd: S`, which the function has not. Lifetimes are
/// left out of the types of the arguments.
macro_rules! vectorized {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<S: Simd $(, $t:ident: $bound:path)*>(
        $simd:ident: S, $($(#[$arg_meta:meta])* $arg:ident: $type:ty),+ $(,)?
    ) $(-> $output:ty)? $body:block) => {
        $(#[$meta])*
        $vis fn $name<$($t: $bound),*>($($arg: $type),+) $(-> $output)? {
            $crate::simd::call!([$($t: $bound),*], $simd, ($($arg: $type),+), [$($output)?], $body);
            $crate::simd::dispatch(Call(($($arg,)+)))
        }
    };
    ($(#[$meta:meta])* $vis:vis fn $name:ident $(<$($t:ident: $bound:path),+>)? (
        $($args:tt)+
    ) $(-> $output:ty)? $body:block) => {
        $crate::simd::vectorized!(
            $(#[$meta])*
            $vis fn $name<S: Simd $($(, $t: $bound)+)?>(_simd: S, $($args)+) $(-> $output)? $body
        );
    };
}
pub(crate) use vectorized;

/// As [`vectorized`], of a kernel that others call: see [`run_outlined`].
macro_rules! outlined {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<S: Simd $(, $t:ident: $bound:path)*>(
        $simd:ident: S, $($arg:ident: $type:ty),+ $(,)?
    ) $(-> $output:ty)? $body:block) => {
        $(#[$meta])*
        #[inline(always)]
        $vis fn $name<S: ::pulp::Simd $(, $t: $bound)*>($simd: S, $($arg: $type),+) $(-> $output)? {
            $crate::simd::call!([$($t: $bound),*], $simd, ($($arg: $type),+), [$($output)?], $body);
            $crate::simd::run_outlined($simd, Call(($($arg,)+)))
        }
    };
}
pub(crate) use outlined;

/// The arguments of a kernel, to be run.
macro_rules! call {
    (@output) => { () };
    (@output $output:ty) => { $output };
    ([$($generic:tt)*], $simd:ident, ($($arg:ident: $type:ty),+), [$($output:ty)?], $body:block) => {
        struct Call<A>(A);
        impl<$($generic)*> ::pulp::WithSimd for Call<($($type,)+)> {
            type Output = $crate::simd::call!(@output $($output)?);
            #[inline(always)]
            fn with_simd<S: ::pulp::Simd>(self, $simd: S) -> Self::Output {
                let Self(($($arg,)+)) = self;
                $body
            }
        }
    };
}
pub(crate) use call;

/// Runs `op` in a function of its own: kernels that share it share its code. For what takes long beside
/// a call.
#[inline(never)]
pub(crate) fn run_outlined<S: Simd, Op: WithSimd>(simd: S, op: Op) -> Op::Output {
    simd.vectorize(op)
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
///
/// # Errors
///
/// [`Error::SimdSetting`] or [`Error::SimdUnavailable`] when the environment variable `HISTRS_SIMD` has a
/// value that is not known or not available.
pub fn instruction_set() -> Result<&'static str> {
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
    check_setting()?;
    Ok(dispatch(Name))
}
