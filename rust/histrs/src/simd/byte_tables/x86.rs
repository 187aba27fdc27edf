//! Tables of bytes in registers of AVX-512: permutations of bytes and dot products.

use core::arch::x86_64::*;

use super::placements::{BytePlacements, LANES, Placements};
use super::{BIAS, CODES, Encoded, Group, ROWS, TABLE};

/// Transposes 16 by 16 numbers of 32 bits.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(r: &mut [__m512i; 16]) {
    let mut t = *r;
    for i in (0..16).step_by(2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for i in (0..16).step_by(4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for b in 0..4 {
        let x = _mm512_shuffle_i32x4::<0x88>(r[b], r[4 + b]);
        let y = _mm512_shuffle_i32x4::<0xdd>(r[b], r[4 + b]);
        let z = _mm512_shuffle_i32x4::<0x88>(r[8 + b], r[12 + b]);
        let w = _mm512_shuffle_i32x4::<0xdd>(r[8 + b], r[12 + b]);
        t[b] = _mm512_shuffle_i32x4::<0x88>(x, z);
        t[8 + b] = _mm512_shuffle_i32x4::<0xdd>(x, z);
        t[4 + b] = _mm512_shuffle_i32x4::<0x88>(y, w);
        t[12 + b] = _mm512_shuffle_i32x4::<0xdd>(y, w);
    }
    *r = t;
}

/// Whether all values of 64 rows are finite and not negative.
#[cold]
fn all_valid(x: &[f32], stride: usize, placements: &Placements) -> bool {
    (0..ROWS).all(|i| {
        let row = &x[i * stride..][..placements.n_columns];
        row.iter().all(|value| (0.0..f32::INFINITY).contains(value))
    })
}

/// Four rows of whole numbers below `2^14`, their cells and their 128ths: four bytes each.
#[inline]
#[target_feature(enable = "avx512f")]
fn split(t: [__m512i; 4]) -> (__m512i, __m512i) {
    let low = _mm512_set1_epi32(0x007f_007f);
    let high = _mm512_set1_epi32(0x7f00_7f00);
    let a = _mm512_or_si512(t[0], _mm512_slli_epi32::<16>(t[2]));
    let b = _mm512_or_si512(t[1], _mm512_slli_epi32::<16>(t[3]));
    let cells = _mm512_or_si512(
        _mm512_and_si512(_mm512_srli_epi32::<7>(a), low),
        _mm512_and_si512(_mm512_slli_epi32::<1>(b), high),
    );
    let steps =
        _mm512_or_si512(_mm512_and_si512(a, low), _mm512_slli_epi32::<8>(_mm512_and_si512(b, low)));
    (cells, steps)
}

/// Interleaves the bytes of four vectors, within each 128 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn interleaved(r: [__m512i; 4]) -> [__m512i; 4] {
    let al = _mm512_unpacklo_epi8(r[0], r[1]);
    let ah = _mm512_unpackhi_epi8(r[0], r[1]);
    let bl = _mm512_unpacklo_epi8(r[2], r[3]);
    let bh = _mm512_unpackhi_epi8(r[2], r[3]);
    [
        _mm512_unpacklo_epi16(al, bl),
        _mm512_unpackhi_epi16(al, bl),
        _mm512_unpacklo_epi16(ah, bh),
        _mm512_unpackhi_epi16(ah, bh),
    ]
}

/// Interleaves the 128ths of every four slots.
///
/// # Safety
///
/// `codes` has `n_slots` slots, a multiple of four.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn interleave_steps(codes: *mut u8, n_slots: usize) {
    for slot in (0..n_slots).step_by(4) {
        // SAFETY: the caller has seen that these slots are there.
        unsafe {
            let at = codes.add(slot * CODES + ROWS);
            let steps = interleaved([
                _mm512_loadu_si512(at.cast()),
                _mm512_loadu_si512(at.add(CODES).cast()),
                _mm512_loadu_si512(at.add(2 * CODES).cast()),
                _mm512_loadu_si512(at.add(3 * CODES).cast()),
            ]);
            for (k, steps) in steps.into_iter().enumerate() {
                _mm512_storeu_si512(at.add(k * CODES).cast(), steps);
            }
        }
    }
}

/// # Safety
///
/// `x` has 64 rows of the columns of `placements`, `codes` its slots, a multiple of four.
#[target_feature(enable = "avx512f,avx512bw")]
#[allow(clippy::cast_possible_wrap)] // bits
pub(super) unsafe fn encode(
    x: &[f32],
    stride: usize,
    placements: &Placements,
    codes: &mut [u8],
) -> Encoded {
    let one = _mm512_set1_ps(1.0);
    let (mut largest, mut between) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    let codes = codes.as_mut_ptr();
    for d in (0..placements.n_columns).step_by(LANES) {
        let n = LANES.min(placements.n_columns - d);
        let mask: u16 = u16::MAX >> (LANES - n);
        // SAFETY: placements are padded to whole vectors.
        let (scale, shift, base, last) = unsafe {
            (
                _mm512_loadu_ps(placements.scale.as_ptr().add(d)),
                _mm512_loadu_si512(placements.shift.as_ptr().add(d).cast()),
                _mm512_loadu_si512(placements.base.as_ptr().add(d).cast()),
                _mm512_loadu_si512(placements.last.as_ptr().add(d).cast()),
            )
        };
        let (mut cells, mut steps) = ([_mm512_setzero_si512(); 16], [_mm512_setzero_si512(); 16]);
        let mut any = _mm512_setzero_si512();
        for j in 0..16 {
            let mut t = [_mm512_setzero_si512(); 4];
            for (i, t) in t.iter_mut().enumerate() {
                let row = x.as_ptr().wrapping_add((4 * j + i) * stride + d);
                // The same of the rows that are read next, if any are.
                _mm_prefetch::<_MM_HINT_T1>(row.wrapping_add(ROWS * stride).cast());
                // SAFETY: the row is there, and the mask leaves out what is behind its end.
                let x = unsafe { _mm512_maskz_loadu_ps(mask, row) };
                largest = _mm512_max_epu32(largest, _mm512_castps_si512(x));
                let y = _mm512_castps_si512(_mm512_add_ps(_mm512_mul_ps(x, scale), one));
                let code = _mm512_srlv_epi32(_mm512_sub_epi32(y, base), shift);
                *t = _mm512_min_epu32(code, last);
            }
            (cells[j], steps[j]) = split(t);
            any = _mm512_or_si512(any, steps[j]);
        }
        transpose(&mut cells);
        // Else all of them are 0, however they lie.
        if _mm512_test_epi32_mask(any, any) != 0 {
            transpose(&mut steps);
        }
        between = _mm512_or_si512(between, any);
        for k in 0..n {
            // SAFETY: the slot is one of `codes`.
            unsafe {
                let at = codes.add(placements.slot[d + k] as usize * CODES);
                _mm512_storeu_si512(at.cast(), cells[k]);
                _mm512_storeu_si512(at.add(ROWS).cast(), steps[k]);
            }
        }
    }
    let between = _mm512_test_epi32_mask(between, between) != 0;
    if between {
        // SAFETY: as the caller promises.
        unsafe { interleave_steps(codes, placements.n_slots) };
    }
    // Bits of negative, infinite and undefined numbers are larger; those of -0 are as well.
    let finite = _mm512_set1_epi32(f32::MAX.to_bits() as i32);
    let valid = _mm512_cmpgt_epu32_mask(largest, finite) == 0 || all_valid(x, stride, placements);
    Encoded { valid, between }
}

/// # Safety
///
/// `x` has 64 rows of the columns of `placements`, `codes` its slots, a multiple of four.
#[target_feature(enable = "avx512f,avx512bw")]
#[allow(clippy::cast_possible_wrap)] // bits
pub(super) unsafe fn encode_bytes(
    x: &[u8],
    stride: usize,
    placements: &BytePlacements,
    codes: &mut [u8],
) -> Encoded {
    let mut between = _mm512_setzero_si512();
    let codes = codes.as_mut_ptr();
    for d in (0..placements.columns.len()).step_by(ROWS) {
        let n = ROWS.min(placements.columns.len() - d);
        let mask = u64::MAX >> (ROWS - n);
        let mut fours = [[_mm512_setzero_si512(); 4]; 16];
        for (j, four) in fours.iter_mut().enumerate() {
            // SAFETY: the rows are there, and the mask leaves out what is behind their end.
            let rows = unsafe {
                let row = x.as_ptr().add(4 * j * stride + d);
                [
                    _mm512_maskz_loadu_epi8(mask, row.cast()),
                    _mm512_maskz_loadu_epi8(mask, row.add(stride).cast()),
                    _mm512_maskz_loadu_epi8(mask, row.add(2 * stride).cast()),
                    _mm512_maskz_loadu_epi8(mask, row.add(3 * stride).cast()),
                ]
            };
            *four = interleaved(rows);
        }
        for q in 0..4 {
            let mut rows = [_mm512_setzero_si512(); 16];
            for (row, four) in rows.iter_mut().zip(&fours) {
                *row = four[q];
            }
            transpose(&mut rows);
            for (k, &values) in rows.iter().enumerate() {
                let column = 16 * (k / 4) + 4 * q + k % 4;
                if column >= n {
                    continue;
                }
                let (largest, of_two, slot) = placements.columns[d + column];
                let values = _mm512_min_epu8(values, _mm512_set1_epi8(largest as i8));
                let (cells, steps) = if of_two {
                    let seven = _mm512_set1_epi8(0x7f);
                    let odd = _mm512_and_si512(values, _mm512_set1_epi8(1));
                    (
                        _mm512_and_si512(_mm512_srli_epi16::<1>(values), seven),
                        _mm512_slli_epi16::<6>(odd),
                    )
                } else {
                    (values, _mm512_setzero_si512())
                };
                between = _mm512_or_si512(between, steps);
                // SAFETY: the slot is one of `codes`.
                unsafe {
                    let at = codes.add(slot as usize * CODES);
                    _mm512_storeu_si512(at.cast(), cells);
                    _mm512_storeu_si512(at.add(ROWS).cast(), steps);
                }
            }
        }
    }
    let between = _mm512_test_epi32_mask(between, between) != 0;
    if between {
        // SAFETY: as the caller promises.
        unsafe { interleave_steps(codes, placements.n_slots) };
    }
    Encoded { valid: true, between }
}

/// # Safety
///
/// `codes` and `tables` have `n_slots` slots, the latter for each 64 of `sums`; groups are of
/// whole fours of these. Without `BETWEEN` all 128ths are 0.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
#[allow(clippy::cast_possible_wrap, clippy::cast_possible_truncation)] // at most 256 slots
pub(super) unsafe fn add<const BETWEEN: bool>(
    codes: &[u8],
    tables: &[u8],
    n_slots: usize,
    groups: &[Group],
    sums: &mut [f64],
) {
    let zero = _mm512_setzero_si512();
    for (output, sums) in sums.chunks_exact_mut(ROWS).enumerate() {
        for (slots, weight) in groups {
            // Of the rises, sixteen rows each; of the values, both of every two rows, and the
            // second of them.
            let (mut rises, mut both, mut odd) = ([zero; 4], zero, zero);
            for slot in slots.clone().step_by(4) {
                let mut found = [zero; 4];
                for (k, found) in found.iter_mut().enumerate() {
                    // SAFETY: a slot of 128 bytes of codes, and one of 256 bytes of a table.
                    let (code, table) = unsafe {
                        (
                            codes.as_ptr().add((slot + k) * CODES),
                            tables.as_ptr().add((output * n_slots + slot + k) * TABLE),
                        )
                    };
                    // SAFETY: so many bytes are there.
                    let line = |i: usize| unsafe { _mm512_loadu_si512(table.add(64 * i).cast()) };
                    // SAFETY: the first half of a slot of codes.
                    let cells = unsafe { _mm512_loadu_si512(code.cast()) };
                    let values = _mm512_permutex2var_epi8(line(0), cells, line(1));
                    if BETWEEN {
                        *found = _mm512_permutex2var_epi8(line(2), cells, line(3));
                    }
                    both = _mm512_add_epi16(both, values);
                    odd = _mm512_add_epi16(odd, _mm512_srli_epi16::<8>(values));
                }
                if !BETWEEN {
                    continue;
                }
                for (k, found) in interleaved(found).into_iter().enumerate() {
                    // SAFETY: the second half of a slot of codes.
                    let steps = unsafe {
                        _mm512_loadu_si512(codes.as_ptr().add((slot + k) * CODES + ROWS).cast())
                    };
                    rises[k] = _mm512_dpbusd_epi32(rises[k], steps, found);
                }
            }
            let even = _mm512_sub_epi16(both, _mm512_slli_epi16::<8>(odd));
            let low = _mm512_unpacklo_epi16(even, odd);
            let high = _mm512_unpackhi_epi16(even, odd);
            let values = [
                _mm512_unpacklo_epi16(low, zero),
                _mm512_unpackhi_epi16(low, zero),
                _mm512_unpacklo_epi16(high, zero),
                _mm512_unpackhi_epi16(high, zero),
            ];
            let bias = _mm512_set1_epi32(BIAS * slots.len() as i32);
            let weight = _mm512_set1_pd(*weight);
            for (k, sums) in sums.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                let value = _mm512_slli_epi32::<7>(_mm512_sub_epi32(values[k], bias));
                let total = _mm512_add_epi32(rises[k], value);
                let low = _mm512_cvtepi32_pd(_mm512_castsi512_si256(total));
                let high = _mm512_cvtepi32_pd(_mm512_extracti64x4_epi64::<1>(total));
                let at = sums.as_mut_ptr();
                // SAFETY: sixteen sums.
                unsafe {
                    let next = _mm512_fmadd_pd(low, weight, _mm512_loadu_pd(at));
                    _mm512_storeu_pd(at, next);
                    let next = _mm512_fmadd_pd(high, weight, _mm512_loadu_pd(at.add(8)));
                    _mm512_storeu_pd(at.add(8), next);
                }
            }
        }
    }
}
