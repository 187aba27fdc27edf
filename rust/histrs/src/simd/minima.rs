//! Exact sums of minima of small whole numbers: bytes, and words of 16 bits.
//!
//! A vector of minima is added up by a dot product with ones (AVX-512 VNNI), by sums of absolute
//! differences to zero (bytes) or by pairs. Those of words are signed, so that words are stored
//! less [`Count::OFFSET`]. Accumulators of 32 bits are emptied after [`CHUNK`] lines, before they
//! could overflow.

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
        match super::choice() {
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

    /// Adds the sums of the minima, as they are stored, of four rows and all rows of `y`, each of
    /// as many lines and their number a multiple of four: `sums` has a part for each of the four.
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

/// A function of four rows and any number of rows, whose lines are read as `$parts` vectors;
/// `$step` adds the minima of two vectors to an accumulator, and `$totals` adds up the lanes of
/// accumulators. Those of `$width` of the rows of `y` are in registers at a time.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! strip {
    ($name:ident, $features:literal, $vector:ty, $parts:literal, $width:literal, $totals:ident,
     $zero:ident, $step:ident) => {
        #[target_feature(enable = $features)]
        pub(super) fn $name(x: Rows<'_>, y: &[Line], sums: &mut [f64]) {
            let n_lines = x.iter().map(|row| row.len()).min().unwrap_or(0);
            if n_lines == 0 {
                return;
            }
            let x = x.map(|row| &row[..n_lines]);
            let stride = sums.len() / TILE;
            for (tile, y) in y.chunks_exact(TILE * n_lines).enumerate() {
                let y: Rows<'_> = core::array::from_fn(|j| &y[j * n_lines..(j + 1) * n_lines]);
                for start in (0..n_lines).step_by(CHUNK) {
                    let end = n_lines.min(start + CHUNK);
                    for first in (0..TILE).step_by($width) {
                        let mut acc = [[$zero(); $width]; TILE];
                        for k in start..end {
                            for part in 0..$parts {
                                // SAFETY: a line has so many parts.
                                let x = unsafe {
                                    [
                                        vector(&x[0][k], part),
                                        vector(&x[1][k], part),
                                        vector(&x[2][k], part),
                                        vector(&x[3][k], part),
                                    ]
                                };
                                for j in 0..$width {
                                    // SAFETY: as above.
                                    let y = unsafe { vector(&y[first + j][k], part) };
                                    for i in 0..TILE {
                                        acc[i][j] = $step(acc[i][j], x[i], y);
                                    }
                                }
                            }
                        }
                        let totals: [[i32; $width]; TILE] = $totals(acc);
                        for (i, totals) in totals.into_iter().enumerate() {
                            let place = i * stride + tile * TILE + first;
                            for (sum, total) in sums[place..place + $width].iter_mut().zip(totals) {
                                *sum += f64::from(total);
                            }
                        }
                    }
                }
            }
            return;

            /// A part of a line.
            ///
            /// # Safety
            ///
            /// There are `$parts`, 64 bytes together.
            #[inline(always)]
            unsafe fn vector(line: &Line, part: usize) -> $vector {
                const { assert!(size_of::<$vector>() * $parts == size_of::<Line>()) };
                // SAFETY: plain numbers within the line, read from wherever they are.
                unsafe { core::ptr::read_unaligned(line.as_ptr().cast::<$vector>().add(part)) }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    use super::{CHUNK, Line, Rows, TILE};

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn step_bytes_vnni(acc: __m512i, x: __m512i, y: __m512i) -> __m512i {
        _mm512_dpbusd_epi32(acc, _mm512_min_epu8(x, y), _mm512_set1_epi8(1))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn step_words_vnni(acc: __m512i, x: __m512i, y: __m512i) -> __m512i {
        _mm512_dpwssd_epi32(acc, _mm512_min_epi16(x, y), _mm512_set1_epi16(1))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn step_bytes_avx512(acc: __m512i, x: __m512i, y: __m512i) -> __m512i {
        _mm512_add_epi64(acc, _mm512_sad_epu8(_mm512_min_epu8(x, y), _mm512_setzero_si512()))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn step_words_avx512(acc: __m512i, x: __m512i, y: __m512i) -> __m512i {
        let pairs = _mm512_madd_epi16(_mm512_min_epi16(x, y), _mm512_set1_epi16(1));
        _mm512_add_epi32(acc, pairs)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn step_bytes_avx2(acc: __m256i, x: __m256i, y: __m256i) -> __m256i {
        _mm256_add_epi64(acc, _mm256_sad_epu8(_mm256_min_epu8(x, y), _mm256_setzero_si256()))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn step_words_avx2(acc: __m256i, x: __m256i, y: __m256i) -> __m256i {
        let pairs = _mm256_madd_epi16(_mm256_min_epi16(x, y), _mm256_set1_epi16(1));
        _mm256_add_epi32(acc, pairs)
    }

    /// The sums of all lanes of 32 bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn totals_avx512(acc: [[__m512i; 4]; TILE]) -> [[i32; 4]; TILE] {
        let rows = [four(acc[0]), four(acc[1]), four(acc[2]), four(acc[3])];
        let all = fold(fold(rows[0], rows[1]), fold(rows[2], rows[3]));
        // SAFETY: both are 64 bytes of plain numbers.
        return unsafe { core::mem::transmute::<__m512i, [[i32; 4]; TILE]>(all) };

        /// Quarters, each with a sum of its part of every vector.
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn four(acc: [__m512i; 4]) -> __m512i {
            let [a, b, c, d] = acc;
            let ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
            let cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
            _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd))
        }

        /// Two quarters of each vector, of which each is the sum of two.
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn fold(a: __m512i, b: __m512i) -> __m512i {
            const EVEN: i32 = 0b10_00_10_00;
            const ODD: i32 = 0b11_01_11_01;
            let even = _mm512_shuffle_i32x4::<EVEN>(a, b);
            _mm512_add_epi32(even, _mm512_shuffle_i32x4::<ODD>(a, b))
        }
    }

    /// The sums of all lanes of 32 bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn totals_avx2(acc: [[__m256i; 2]; TILE]) -> [[i32; 2]; TILE] {
        let [first, second] = [two([acc[0], acc[1]]), two([acc[2], acc[3]])];
        return [first[0], first[1], second[0], second[1]];

        #[inline]
        #[target_feature(enable = "avx2")]
        fn two(acc: [[__m256i; 2]; 2]) -> [[i32; 2]; 2] {
            let [[a, b], [c, d]] = acc;
            let halves = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
            let high = _mm256_extracti128_si256::<1>(halves);
            let all = _mm_add_epi32(_mm256_castsi256_si128(halves), high);
            // SAFETY: both are 16 bytes of plain numbers.
            unsafe { core::mem::transmute::<__m128i, [[i32; 2]; 2]>(all) }
        }
    }

    strip!(
        bytes_vnni,
        "avx512f,avx512bw,avx512vnni",
        __m512i,
        1,
        4,
        totals_avx512,
        _mm512_setzero_si512,
        step_bytes_vnni
    );
    strip!(
        words_vnni,
        "avx512f,avx512bw,avx512vnni",
        __m512i,
        1,
        4,
        totals_avx512,
        _mm512_setzero_si512,
        step_words_vnni
    );
    strip!(
        bytes_avx512,
        "avx512f,avx512bw",
        __m512i,
        1,
        4,
        totals_avx512,
        _mm512_setzero_si512,
        step_bytes_avx512
    );
    strip!(
        words_avx512,
        "avx512f,avx512bw",
        __m512i,
        1,
        4,
        totals_avx512,
        _mm512_setzero_si512,
        step_words_avx512
    );
    // Sixteen registers hold the accumulators of half a tile.
    strip!(bytes_avx2, "avx2", __m256i, 2, 2, totals_avx2, _mm256_setzero_si256, step_bytes_avx2);
    strip!(words_avx2, "avx2", __m256i, 2, 2, totals_avx2, _mm256_setzero_si256, step_words_avx2);
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use core::arch::aarch64::*;

    use super::{CHUNK, Line, Rows, TILE};

    #[inline]
    #[target_feature(enable = "neon")]
    fn zero() -> int32x4_t {
        vdupq_n_s32(0)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn step_bytes(acc: int32x4_t, x: uint8x16_t, y: uint8x16_t) -> int32x4_t {
        let pairs = vpaddlq_u8(vminq_u8(x, y));
        vreinterpretq_s32_u32(vpadalq_u16(vreinterpretq_u32_s32(acc), pairs))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn step_words(acc: int32x4_t, x: int16x8_t, y: int16x8_t) -> int32x4_t {
        vpadalq_s16(acc, vminq_s16(x, y))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn totals(acc: [[int32x4_t; 4]; TILE]) -> [[i32; 4]; TILE] {
        let mut totals = [[0; 4]; TILE];
        for (totals, acc) in totals.iter_mut().zip(acc) {
            for (total, acc) in totals.iter_mut().zip(acc) {
                *total = vaddvq_s32(acc);
            }
        }
        totals
    }

    strip!(bytes_neon, "neon", uint8x16_t, 4, 4, totals, zero, step_bytes);
    strip!(words_neon, "neon", int16x8_t, 4, 4, totals, zero, step_words);
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
            for (place, &sum) in sums.iter().enumerate() {
                let (i, j) = (place / N_OTHERS, TILE + place % N_OTHERS);
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
