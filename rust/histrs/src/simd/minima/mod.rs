//! Exact sums of minima of small whole numbers: bytes, and words of 16 bits.
//!
//! A vector of minima is added up by a dot product with ones (AVX-512 VNNI), by sums of absolute
//! differences to zero (bytes) or by pairs. Those of words are signed, so that words are stored
//! less [`Count::OFFSET`]. Accumulators of 32 bits are emptied after [`CHUNK`] lines, before they
//! could overflow.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[macro_use]
mod strip;
#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod x86;

use pulp::bytemuck::Pod;

use crate::simd::Choice;

/// Rows by rows of a tile.
pub(crate) const TILE: usize = 4;

/// What rows are padded to: a cache line, and the widest vector.
pub(crate) type Line = [u8; 64];

/// Lines between two times that accumulators are emptied: all lanes together take at most
/// `32 * 32768` of each, in size, which 32 bits hold 2047 times.
const CHUNK: usize = 1 << 10;

/// Four rows of lines.
pub(crate) type Rows<'a> = [&'a [Line]; TILE];

/// The instructions that sums of minima are computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Minima {
    /// AVX-512 with dot products of bytes and words.
    #[cfg(target_arch = "x86_64")]
    Vnni,
    /// AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// What every 64-bit ARM has.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// Whatever the compiler makes of a plain loop.
    Scalar,
}

impl Minima {
    /// The best of this machine, or of what `HISTRS_SIMD` names.
    pub(crate) fn new() -> Self {
        let widest = Self::available()[0];
        match crate::simd::choice() {
            Ok(Choice::Scalar) => Self::Scalar,
            #[cfg(target_arch = "x86_64")]
            Ok(Choice::Avx2(_)) if widest != Self::Scalar => Self::Avx2,
            _ => widest,
        }
    }

    /// Those of this machine, the best first.
    fn available() -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let wide = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
            if wide && is_x86_feature_detected!("avx512vnni") {
                found.push(Self::Vnni);
            }
            if wide {
                found.push(Self::Avx512);
            }
            if is_x86_feature_detected!("avx2") {
                found.push(Self::Avx2);
            }
        }
        #[cfg(target_arch = "aarch64")]
        found.push(Self::Neon);
        found.push(Self::Scalar);
        found
    }
}

mod sealed {
    pub(crate) trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for i16 {}
}

/// How a whole number is stored that minima are summed of.
pub(crate) trait Count: Pod + Default + Send + Sync + sealed::Sealed {
    /// The largest that there is room for.
    const LARGEST: u16;

    /// What is added to what is stored.
    const OFFSET: u16;

    /// What is stored of a number that is at most `LARGEST`.
    fn from_f64(x: f64) -> Self;

    /// Adds the sums of the minima, as they are stored, of four rows and all rows of `y`. All have
    /// as many lines, a multiple of four. `sums` has a part for each of the four.
    fn add_minima(with: Minima, x: Rows<'_>, y: &[Line], sums: &mut [f64]);
}

/// The sums by a function of two lines.
fn add_plain(x: Rows<'_>, y: &[Line], sums: &mut [f64], of: impl Fn(&Line, &Line) -> i32) {
    let n = (sums.len() / TILE).max(1);
    for (x, sums) in x.into_iter().zip(sums.chunks_exact_mut(n)) {
        for (y, sum) in y.chunks_exact(x.len().max(1)).zip(sums) {
            for (x, y) in x.chunks(CHUNK).zip(y.chunks(CHUNK)) {
                *sum += f64::from(x.iter().zip(y).map(|(x, y)| of(x, y)).sum::<i32>());
            }
        }
    }
}

impl Count for u8 {
    const LARGEST: u16 = u8::MAX as u16;
    const OFFSET: u16 = 0;

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // as the caller promises
    fn from_f64(x: f64) -> Self {
        x as Self
    }

    fn add_minima(with: Minima, x: Rows<'_>, y: &[Line], sums: &mut [f64]) {
        match with {
            // SAFETY: `Minima` is made of what the machine was found to have.
            #[cfg(target_arch = "x86_64")]
            Minima::Vnni => unsafe { x86::bytes_vnni(x, y, sums) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Minima::Avx512 => unsafe { x86::bytes_avx512(x, y, sums) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Minima::Avx2 => unsafe { x86::bytes_avx2(x, y, sums) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Minima::Neon => unsafe { arm::bytes_neon(x, y, sums) },
            Minima::Scalar => add_plain(x, y, sums, |x, y| {
                x.iter().zip(y).map(|(&x, &y)| i32::from(x.min(y))).sum()
            }),
        }
    }
}

impl Count for i16 {
    const LARGEST: u16 = u16::MAX;
    const OFFSET: u16 = 1 << 15;

    #[allow(clippy::cast_possible_truncation)] // as the caller promises
    fn from_f64(x: f64) -> Self {
        (x - f64::from(Self::OFFSET)) as Self
    }

    fn add_minima(with: Minima, x: Rows<'_>, y: &[Line], sums: &mut [f64]) {
        match with {
            // SAFETY: `Minima` is made of what the machine was found to have.
            #[cfg(target_arch = "x86_64")]
            Minima::Vnni => unsafe { x86::words_vnni(x, y, sums) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Minima::Avx512 => unsafe { x86::words_avx512(x, y, sums) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Minima::Avx2 => unsafe { x86::words_avx2(x, y, sums) },
            // SAFETY: as above.
            #[cfg(target_arch = "aarch64")]
            Minima::Neon => unsafe { arm::words_neon(x, y, sums) },
            Minima::Scalar => add_plain(x, y, sums, |x, y| {
                let words = |line: &Line| -> [i16; 32] { pulp::bytemuck::cast(*line) };
                words(x).iter().zip(words(y)).map(|(&x, y)| i32::from(x.min(y))).sum()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulp::bytemuck::cast_slice;

    const N_OTHERS: usize = 12;

    /// Checks four rows against twelve, given as numbers, with sums that are not 0 at first.
    fn check<E: Count>(n_columns: usize, number: impl Fn(usize, usize) -> u16) {
        let per_line = size_of::<Line>() / size_of::<E>();
        let rows = |first: usize, n: usize| -> Vec<E> {
            let entry = |i: usize| (first + i / n_columns, i % n_columns);
            let number = |i: usize| number(entry(i).0, entry(i).1);
            (0..n * n_columns).map(|i| E::from_f64(number(i).into())).collect()
        };
        assert_eq!(n_columns % per_line, 0);
        let (x, y) = (rows(0, TILE), rows(TILE, N_OTHERS));
        let lines: &[Line] = cast_slice(&x);
        let width = n_columns / per_line;
        let x = core::array::from_fn(|i| &lines[i * width..(i + 1) * width]);
        let mut first: Option<Vec<f64>> = None;
        for with in Minima::available() {
            let mut sums = vec![0.5; TILE * N_OTHERS];
            E::add_minima(with, x, cast_slice(&y), &mut sums);
            for (index, &sum) in sums.iter().enumerate() {
                let (i, j) = (index / N_OTHERS, TILE + index % N_OTHERS);
                let minimum = |k| u64::from(number(i, k).min(number(j, k)));
                let expected: u64 = (0..n_columns).map(minimum).sum();
                let offset = f64::from(E::OFFSET) * n_columns as f64;
                assert_eq!(sum - 0.5 + offset, expected as f64, "{with:?}, rows {i} and {j}");
            }
            assert!(first.get_or_insert_with(|| sums.clone()) == &sums, "{with:?}");
        }
    }

    fn number(seed: u64) -> u64 {
        seed.wrapping_add(1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(23)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            >> 32
    }

    #[test]
    fn every_instruction_set_is_exact() {
        for n_lines in [1, 2, 3, 17] {
            let value = |row: usize, k: usize| number((row * 10_007 + k) as u64);
            check::<u8>(64 * n_lines, |row, k| (value(row, k) & 255) as u16);
            check::<i16>(32 * n_lines, |row, k| value(row, k) as u16);
        }
    }

    #[test]
    fn rows_without_columns_add_nothing() {
        for with in Minima::available() {
            let mut sums = [0.0; 16];
            <u8 as Count>::add_minima(with, [&[]; TILE], &[], &mut sums);
            <i16 as Count>::add_minima(with, [&[]; TILE], &[], &mut sums);
            assert_eq!(sums, [0.0; 16]);
        }
    }

    /// Numbers of the largest size, of either sign as they are stored.
    #[test]
    fn no_accumulator_overflows_on_the_largest_numbers() {
        let n_lines = 2 * CHUNK + 3;
        for extreme in [0, 255] {
            check::<u8>(64 * n_lines, |_, _| extreme);
        }
        for extreme in [0, u16::MAX] {
            check::<i16>(32 * n_lines, |_, _| extreme);
        }
    }
}
