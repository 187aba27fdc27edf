//! Minima in registers of AVX2 and AVX-512.

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

macro_rules! strip_avx512 {
    ($name:ident, $features:literal, $step:ident) => {
        strip!($name, $features, __m512i, 1, 4, totals_avx512, _mm512_setzero_si512, $step);
    };
}

strip_avx512!(bytes_vnni, "avx512f,avx512bw,avx512vnni", step_bytes_vnni);
strip_avx512!(words_vnni, "avx512f,avx512bw,avx512vnni", step_words_vnni);
strip_avx512!(bytes_avx512, "avx512f,avx512bw", step_bytes_avx512);
strip_avx512!(words_avx512, "avx512f,avx512bw", step_words_avx512);
// Sixteen registers hold the accumulators of half a tile.
strip!(bytes_avx2, "avx2", __m256i, 2, 2, totals_avx2, _mm256_setzero_si256, step_bytes_avx2);
strip!(words_avx2, "avx2", __m256i, 2, 2, totals_avx2, _mm256_setzero_si256, step_words_avx2);
