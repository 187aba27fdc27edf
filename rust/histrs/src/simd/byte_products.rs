//! Exact inner products of rows of bytes: signed ones with unsigned ones.
//!
//! Four columns are multiplied and added up at a time. Every lane of 32 bits has those of one row
//! of the unsigned bytes, so no sum runs over lanes. Sums are exact, on every instruction set, and
//! then rounded to single precision.

use crate::simd::Choice;

/// Four columns of a row.
pub(crate) type Quad = [i8; 4];
/// Rows of unsigned bytes that lie side by side.
pub(crate) const GROUP: usize = 64;
/// Four columns of each row of a group.
pub(crate) type Panel = [[u8; 4]; GROUP];
/// Columns of which 32 bits hold all sums, at most: `2^16 * 255 * 128` is less than `2^31`.
pub(crate) const COLUMNS: usize = 1 << 16;
/// Rows of signed bytes whose sums are in registers at a time.
pub(crate) const TILE: usize = 6;

/// The instructions that products of bytes are added up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteProducts {
    /// AVX-512 with dot products of bytes.
    #[cfg(target_arch = "x86_64")]
    Vnni,
    /// AVX2: products of words of 16 bits, added up by pairs.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Plain loops: the oracle of the others.
    Scalar,
}

impl ByteProducts {
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
            if is_x86_feature_detected!("avx2") {
                found.push(Self::Avx2);
            }
        }
        found.push(Self::Scalar);
        found
    }

    /// Writes `start[i] + x_i . y_j` of at most [`TILE`] rows of `n_quads` quads, one after the
    /// other in `x`, and the rows of whole groups of `n_quads` panels. `out` has a part for each
    /// row of `x`. At most [`COLUMNS`] columns; none where there is no quad.
    pub(crate) fn fill(self, x: &[Quad], start: &[i32], y: &[Panel], out: &mut [f32]) {
        if start.is_empty() {
            return;
        }
        let n_quads = x.len() / start.len();
        assert!(n_quads > 0 && x.len() == n_quads * start.len() && 4 * n_quads <= COLUMNS);
        assert!(out.len() == start.len() * (y.len() / n_quads * GROUP));
        match start.len() {
            1 => self.fill_rows::<1>(x, start, y, out),
            2 => self.fill_rows::<2>(x, start, y, out),
            3 => self.fill_rows::<3>(x, start, y, out),
            4 => self.fill_rows::<4>(x, start, y, out),
            5 => self.fill_rows::<5>(x, start, y, out),
            _ => self.fill_rows::<TILE>(x, start, y, out),
        }
    }

    fn fill_rows<const R: usize>(self, x: &[Quad], start: &[i32], y: &[Panel], out: &mut [f32]) {
        let n_quads = x.len() / R;
        let x: [&[Quad]; R] = core::array::from_fn(|i| &x[i * n_quads..(i + 1) * n_quads]);
        let start: [i32; R] = core::array::from_fn(|i| start[i]);
        match self {
            // SAFETY: it is made of what the machine was found to have.
            #[cfg(target_arch = "x86_64")]
            Self::Vnni => unsafe { x86::fill_vnni(x, start, y, out) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => unsafe { x86::fill_avx2(x, start, y, out) },
            Self::Scalar => fill_plain(x, start, y, out),
        }
    }
}

fn fill_plain<const R: usize>(x: [&[Quad]; R], start: [i32; R], y: &[Panel], out: &mut [f32]) {
    let stride = out.len() / R;
    for (group, y) in y.chunks_exact(x[0].len()).enumerate() {
        for i in 0..R {
            let mut sums = [start[i]; GROUP];
            for (x, panel) in x[i].iter().zip(y) {
                for (sum, y) in sums.iter_mut().zip(panel) {
                    *sum += (0..4).map(|k| i32::from(x[k]) * i32::from(y[k])).sum::<i32>();
                }
            }
            let start = i * stride + group * GROUP;
            let out = &mut out[start..start + GROUP];
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = sum as f32);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    use super::{GROUP, Panel, Quad};

    const WIDE: usize = GROUP / 16;
    const HALF: usize = 2;

    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) fn fill_vnni<const R: usize>(
        x: [&[Quad]; R],
        start: [i32; R],
        y: &[Panel],
        out: &mut [f32],
    ) {
        let (stride, n_quads) = (out.len() / R, x[0].len());
        for (group, y) in y.chunks_exact(n_quads).enumerate() {
            let mut sums = [[_mm512_setzero_si512(); WIDE]; R];
            for (sums, &start) in sums.iter_mut().zip(&start) {
                *sums = [_mm512_set1_epi32(start); WIDE];
            }
            for (q, panel) in y.iter().enumerate() {
                // SAFETY: a panel is so many vectors of plain numbers.
                let y: [__m512i; WIDE] =
                    unsafe { core::ptr::read_unaligned(panel.as_ptr().cast()) };
                for i in 0..R {
                    let x = _mm512_set1_epi32(i32::from_ne_bytes(x[i][q].map(i8::cast_unsigned)));
                    for j in 0..WIDE {
                        sums[i][j] = _mm512_dpbusd_epi32(sums[i][j], y[j], x);
                    }
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                let start = i * stride + group * GROUP;
                let out = &mut out[start..start + GROUP];
                let sums = [
                    _mm512_cvtepi32_ps(sums[0]),
                    _mm512_cvtepi32_ps(sums[1]),
                    _mm512_cvtepi32_ps(sums[2]),
                    _mm512_cvtepi32_ps(sums[3]),
                ];
                // SAFETY: as many plain numbers.
                unsafe { core::ptr::write_unaligned(out.as_mut_ptr().cast(), sums) };
            }
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn fill_avx2<const R: usize>(
        x: [&[Quad]; R],
        start: [i32; R],
        y: &[Panel],
        out: &mut [f32],
    ) {
        let (stride, n_quads) = (out.len() / R, x[0].len());
        for (group, y) in y.chunks_exact(n_quads).enumerate() {
            for eight in 0..GROUP / 8 {
                // Of each row two sums, of the even and the odd half of its quads.
                let mut sums = [[_mm256_setzero_si256(); HALF]; R];
                for (q, panel) in y.iter().enumerate() {
                    // SAFETY: a panel has eight times the 32 bytes of eight rows.
                    let y: [__m128i; HALF] =
                        unsafe { core::ptr::read_unaligned(panel.as_ptr().add(8 * eight).cast()) };
                    let y = [_mm256_cvtepu8_epi16(y[0]), _mm256_cvtepu8_epi16(y[1])];
                    for i in 0..R {
                        let x = i32::from_ne_bytes(x[i][q].map(i8::cast_unsigned));
                        let x = _mm256_cvtepi8_epi16(_mm_set1_epi32(x));
                        for j in 0..HALF {
                            let pairs = _mm256_madd_epi16(y[j], x);
                            sums[i][j] = _mm256_add_epi32(sums[i][j], pairs);
                        }
                    }
                }
                for (i, [low, high]) in sums.into_iter().enumerate() {
                    const IN_ORDER: i32 = 0b11_01_10_00;
                    let both = _mm256_hadd_epi32(low, high);
                    let both = _mm256_permute4x64_epi64::<IN_ORDER>(both);
                    let both = _mm256_add_epi32(both, _mm256_set1_epi32(start[i]));
                    let start = i * stride + group * GROUP + 8 * eight;
                    let out = &mut out[start..start + 8];
                    let both = _mm256_cvtepi32_ps(both);
                    // SAFETY: as many plain numbers.
                    unsafe { core::ptr::write_unaligned(out.as_mut_ptr().cast(), both) };
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::cast_possible_truncation)]
    fn byte(seed: usize) -> u8 {
        ((seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) >> 40) as u8
    }

    fn check(
        n_rows: usize,
        n_quads: usize,
        n_groups: usize,
        x: impl Fn(usize) -> i8,
        y: impl Fn(usize) -> u8,
    ) {
        let rows: Vec<Quad> =
            (0..n_rows * n_quads).map(|i| core::array::from_fn(|k| x(4 * i + k))).collect();
        let panels: Vec<Panel> = (0..n_groups * n_quads)
            .map(|i| core::array::from_fn(|j| core::array::from_fn(|k| y(i * 256 + 4 * j + k))))
            .collect();
        let start: Vec<i32> = (0..n_rows).map(|i| 7 - 3 * i32::try_from(i).unwrap()).collect();
        for with in ByteProducts::available() {
            let mut out = vec![1.0; n_rows * n_groups * GROUP];
            with.fill(&rows, &start, &panels, &mut out);
            for (index, &found) in out.iter().enumerate() {
                let (i, j) = (index / (n_groups * GROUP), index % (n_groups * GROUP));
                let sum: i64 = (0..n_quads * 4)
                    .map(|k| {
                        let x = rows[i * n_quads + k / 4][k % 4];
                        let y = panels[j / GROUP * n_quads + k / 4][j % GROUP][k % 4];
                        i64::from(x) * i64::from(y)
                    })
                    .sum();
                let expected = (sum + i64::from(start[i])) as f32;
                assert_eq!(found, expected, "{with:?} {i} {j}");
            }
        }
    }

    #[test]
    fn every_instruction_set_is_exact() {
        for n_rows in 0..=TILE {
            for (n_quads, n_groups) in [(1, 1), (2, 3), (3, 0), (33, 2)] {
                check(n_rows, n_quads, n_groups, |i| byte(i).cast_signed(), |i| byte(i + 99));
            }
        }
    }

    #[test]
    fn no_sum_overflows_on_the_largest_numbers() {
        for extreme in [-128, 127] {
            check(2, COLUMNS / 4, 1, |_| extreme, |_| 255);
        }
    }
}
