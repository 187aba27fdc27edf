//! Exact sums of minima of small whole numbers: bytes, and words of 15 bits.
//!
//! A vector of minima is added up by a dot product with ones (AVX-512 VNNI), by sums of absolute
//! differences to zero (bytes) or by pairs (words). Accumulators of 32 bits are emptied after
//! [`CHUNK`] lines, long before they could overflow.

use pulp::bytemuck::Pod;

use crate::simd::Choice;

/// Rows by rows of a tile.
pub(crate) const TILE: usize = 4;

/// What rows are padded to: a cache line, and the widest vector.
pub(crate) type Line = [u8; 64];

/// Lines between two times that accumulators are emptied: all lanes together take at most
/// `32 * 32767` of each, which 32 bits hold 4096 times.
const CHUNK: usize = 1 << 11;

/// Four rows of lines.
pub(crate) type Rows<'a> = [&'a [Line]; TILE];
type Sums = [[u64; TILE]; TILE];

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
        found.push(Self::Scalar);
        found
    }
}

mod sealed {
    pub(crate) trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
}

/// A whole number that minima are summed of.
pub(crate) trait Count: Pod + Default + Send + Sync + sealed::Sealed {
    /// The largest that sums are exact for.
    const LARGEST: u16;

    /// The number of this value, which is at most `LARGEST`.
    fn from_f64(x: f64) -> Self;

    /// The sums of minima of all pairs of four rows and four rows, all of as many lines.
    fn sums(with: Minima, x: Rows<'_>, y: Rows<'_>) -> Sums;
}

/// The pair sums by a function of two lines.
fn plain(x: Rows<'_>, y: Rows<'_>, of: impl Fn(&Line, &Line) -> u32) -> Sums {
    let pair = |x: &[Line], y: &[Line]| x.iter().zip(y).map(|(x, y)| u64::from(of(x, y))).sum();
    x.map(|x| y.map(|y| pair(x, y)))
}

impl Count for u8 {
    const LARGEST: u16 = u8::MAX as u16;

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // as the caller promises
    fn from_f64(x: f64) -> Self {
        x as Self
    }

    fn sums(with: Minima, x: Rows<'_>, y: Rows<'_>) -> Sums {
        match with {
            // SAFETY: `Minima` is made of what the machine was found to have.
            #[cfg(target_arch = "x86_64")]
            Minima::Vnni => unsafe { x86::bytes_vnni(x, y) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Minima::Avx512 => unsafe { x86::bytes_avx512(x, y) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Minima::Avx2 => unsafe { x86::bytes_avx2(x, y) },
            Minima::Scalar => {
                plain(x, y, |x, y| x.iter().zip(y).map(|(&x, &y)| u32::from(x.min(y))).sum())
            }
        }
    }
}

impl Count for u16 {
    // Products of pairs are signed.
    const LARGEST: u16 = i16::MAX as u16;

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // as the caller promises
    fn from_f64(x: f64) -> Self {
        x as Self
    }

    fn sums(with: Minima, x: Rows<'_>, y: Rows<'_>) -> Sums {
        match with {
            // SAFETY: `Minima` is made of what the machine was found to have.
            #[cfg(target_arch = "x86_64")]
            Minima::Vnni => unsafe { x86::words_vnni(x, y) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Minima::Avx512 => unsafe { x86::words_avx512(x, y) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Minima::Avx2 => unsafe { x86::words_avx2(x, y) },
            Minima::Scalar => plain(x, y, |x, y| {
                let words = |line: &Line| -> [u16; 32] { pulp::bytemuck::cast(*line) };
                words(x).iter().zip(words(y)).map(|(&x, y)| u32::from(x.min(y))).sum()
            }),
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    use super::{CHUNK, Line, Rows, Sums, TILE};

    /// A function of two times four rows, whose lines are read as `$parts` vectors; `$step` adds
    /// the minima of two vectors to an accumulator, and `$total` adds up its lanes.
    /// Accumulators of `$width` of the rows of `y` are in registers at a time.
    macro_rules! tile {
        ($name:ident, $features:literal, $vector:ty, $parts:literal, $width:literal, $total:ident,
         $zero:ident, $step:ident) => {
            #[target_feature(enable = $features)]
            pub(super) fn $name(x: Rows<'_>, y: Rows<'_>) -> Sums {
                let mut sums = [[0; TILE]; TILE];
                let n = x.iter().chain(&y).map(|row| row.len()).min().unwrap_or(0);
                let (x, y) = (x.map(|row| &row[..n]), y.map(|row| &row[..n]));
                for start in (0..n).step_by(CHUNK) {
                    let end = n.min(start + CHUNK);
                    for first in (0..TILE).step_by($width) {
                        let mut acc = [[$zero(); $width]; TILE];
                        for k in start..end {
                            // SAFETY: a line is 64 bytes of plain numbers, as the vectors are.
                            let x = unsafe {
                                [parts(&x[0][k]), parts(&x[1][k]), parts(&x[2][k]), parts(&x[3][k])]
                            };
                            for j in 0..$width {
                                // SAFETY: as above.
                                let y = unsafe { parts(&y[first + j][k]) };
                                for i in 0..TILE {
                                    for part in 0..$parts {
                                        acc[i][j] = $step(acc[i][j], x[i][part], y[part]);
                                    }
                                }
                            }
                        }
                        for i in 0..TILE {
                            for j in 0..$width {
                                sums[i][first + j] += $total(acc[i][j]);
                            }
                        }
                    }
                }
                return sums;

                /// The vectors of a line.
                ///
                /// # Safety
                ///
                /// They are 64 bytes together.
                #[inline(always)]
                unsafe fn parts(line: &Line) -> [$vector; $parts] {
                    // SAFETY: as many bytes of plain numbers, read from wherever they are.
                    unsafe { core::ptr::read_unaligned(line.as_ptr().cast()) }
                }
            }
        };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn step_bytes_vnni(acc: __m512i, x: __m512i, y: __m512i) -> __m512i {
        _mm512_dpbusd_epi32(acc, _mm512_min_epu8(x, y), _mm512_set1_epi8(1))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn step_words_vnni(acc: __m512i, x: __m512i, y: __m512i) -> __m512i {
        _mm512_dpwssd_epi32(acc, _mm512_min_epu16(x, y), _mm512_set1_epi16(1))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn step_bytes_avx512(acc: __m512i, x: __m512i, y: __m512i) -> __m512i {
        _mm512_add_epi64(acc, _mm512_sad_epu8(_mm512_min_epu8(x, y), _mm512_setzero_si512()))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn step_words_avx512(acc: __m512i, x: __m512i, y: __m512i) -> __m512i {
        let pairs = _mm512_madd_epi16(_mm512_min_epu16(x, y), _mm512_set1_epi16(1));
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
        let pairs = _mm256_madd_epi16(_mm256_min_epu16(x, y), _mm256_set1_epi16(1));
        _mm256_add_epi32(acc, pairs)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    #[allow(clippy::cast_sign_loss)] // 32 bits without a sign
    fn sum_lanes_avx512(acc: __m512i) -> u64 {
        u64::from(_mm512_reduce_add_epi32(acc) as u32)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    #[allow(clippy::cast_sign_loss)] // a sum of bytes
    fn sum_long_avx512(acc: __m512i) -> u64 {
        _mm512_reduce_add_epi64(acc) as u64
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    #[allow(clippy::cast_sign_loss)] // 32 bits without a sign
    fn sum_lanes_avx2(acc: __m256i) -> u64 {
        let halves = _mm_add_epi32(_mm256_castsi256_si128(acc), _mm256_extracti128_si256::<1>(acc));
        let pairs = _mm_add_epi32(halves, _mm_shuffle_epi32::<0b01_00_11_10>(halves));
        let all = _mm_add_epi32(pairs, _mm_shuffle_epi32::<0b10_11_00_01>(pairs));
        u64::from(_mm_cvtsi128_si32(all) as u32)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    #[allow(clippy::cast_sign_loss)] // a sum of bytes
    fn sum_long_avx2(acc: __m256i) -> u64 {
        let halves = _mm_add_epi64(_mm256_castsi256_si128(acc), _mm256_extracti128_si256::<1>(acc));
        let all = _mm_add_epi64(halves, _mm_unpackhi_epi64(halves, halves));
        _mm_cvtsi128_si64(all) as u64
    }

    tile!(
        bytes_vnni,
        "avx512f,avx512bw,avx512vnni",
        __m512i,
        1,
        4,
        sum_lanes_avx512,
        _mm512_setzero_si512,
        step_bytes_vnni
    );
    tile!(
        words_vnni,
        "avx512f,avx512bw,avx512vnni",
        __m512i,
        1,
        4,
        sum_lanes_avx512,
        _mm512_setzero_si512,
        step_words_vnni
    );
    tile!(
        bytes_avx512,
        "avx512f,avx512bw",
        __m512i,
        1,
        4,
        sum_long_avx512,
        _mm512_setzero_si512,
        step_bytes_avx512
    );
    tile!(
        words_avx512,
        "avx512f,avx512bw",
        __m512i,
        1,
        4,
        sum_lanes_avx512,
        _mm512_setzero_si512,
        step_words_avx512
    );
    // Sixteen registers hold the accumulators of half a tile.
    tile!(bytes_avx2, "avx2", __m256i, 2, 2, sum_long_avx2, _mm256_setzero_si256, step_bytes_avx2);
    tile!(words_avx2, "avx2", __m256i, 2, 2, sum_lanes_avx2, _mm256_setzero_si256, step_words_avx2);
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulp::bytemuck::cast_slice;

    fn check<E: Count + Into<u64> + Ord>(rows: &[Vec<E>; 8]) {
        let lines: Vec<&[Line]> = rows.iter().map(|row| cast_slice(row)).collect();
        let (x, y) =
            ([lines[0], lines[1], lines[2], lines[3]], [lines[4], lines[5], lines[6], lines[7]]);
        for with in Minima::available() {
            let sums = E::sums(with, x, y);
            for (i, sums) in sums.iter().enumerate() {
                for (j, &sum) in sums.iter().enumerate() {
                    let pairs = rows[i].iter().zip(&rows[4 + j]);
                    let expected: u64 = pairs.map(|(&x, &y)| x.min(y).into()).sum();
                    assert_eq!(sum, expected, "{with:?}, rows {i} and {j}");
                }
            }
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
        for n_lines in [0, 1, 2, 3, 17] {
            let value = |row: usize, k: usize| number((row * 10_007 + k) as u64);
            check::<u8>(&core::array::from_fn(|row| {
                (0..64 * n_lines).map(|k| (value(row, k) & 255) as u8).collect()
            }));
            check::<u16>(&core::array::from_fn(|row| {
                (0..32 * n_lines).map(|k| (value(row, k) & 32767) as u16).collect()
            }));
        }
    }

    #[test]
    fn no_accumulator_overflows_on_the_largest_numbers() {
        let n_lines = 2 * CHUNK + 3;
        check::<u8>(&core::array::from_fn(|_| vec![u8::MAX; 64 * n_lines]));
        check::<u16>(&core::array::from_fn(|_| vec![<u16 as Count>::LARGEST; 32 * n_lines]));
    }
}
