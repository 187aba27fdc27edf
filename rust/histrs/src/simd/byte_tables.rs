//! Sums of functions that are tables of bytes: 128 cells a column, a value and a rise each.
//!
//! A value of a column has a code of 14 bits: its cell, and 128ths of the way to the next one.
//! With `v` the value of a cell and `r` its rise, whole numbers of 8 bits, `128 v + r f` are added
//! up at the `f` 128ths of a code. All of it is exact, on every instruction set.

/// Rows whose codes lie side by side: a vector of bytes.
pub(crate) const ROWS: usize = 64;
/// Cells of a column.
pub(crate) const CELLS: usize = 128;
/// Bytes of the table of one column and output: the values plus [`BIAS`], then the rises.
pub(crate) const TABLE: usize = 2 * CELLS;
/// Bytes of the codes of one column: the cells of [`ROWS`] rows, then their 128ths, which lie side
/// by side for four columns.
pub(crate) const CODES: usize = 2 * ROWS;
/// What is added to values, to make them positive.
pub(crate) const BIAS: i32 = 128;
/// Columns that are added up in 16 bits without a sign, at most: `256 * 255` is less than `2^16`.
pub(crate) const COLUMNS: usize = 256;
/// The largest code.
pub(crate) const LAST_CODE: u32 = 128 * CELLS as u32 - 1;

/// How values of a column become codes: `1 + scale * x` in single precision, whose bits less
/// those of one, rounded to a multiple of `2^shift`, are the code; at most `last`.
///
/// The bits of a floating-point number are linear in it from one power of two to the next. So
/// cells are equally wide, or twice as wide after each power of two.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    pub(crate) scale: f32,
    pub(crate) shift: u32,
    pub(crate) last: u32,
}

impl Placement {
    /// The bits of one, less what rounds.
    fn base(self) -> u32 {
        1.0_f32.to_bits() - (1 << (self.shift - 1))
    }

    /// The code of a value that is not negative.
    #[inline(always)]
    pub(crate) fn code(self, x: f32) -> u32 {
        let bits = (x * self.scale + 1.0).to_bits();
        (bits.wrapping_sub(self.base()) >> self.shift).min(self.last)
    }
}

/// The placements of some columns, side by side.
#[derive(Debug, Clone, Default)]
pub(crate) struct Placements {
    scale: Vec<f32>,
    shift: Vec<u32>,
    base: Vec<u32>,
    last: Vec<u32>,
    /// Where the codes of every column go.
    slot: Vec<u32>,
    n_columns: usize,
    n_slots: usize,
}

/// Columns that are read together.
const LANES: usize = 16;

impl Placements {
    /// Of columns whose codes go to the given slots, of `n_slots`.
    #[allow(clippy::cast_possible_truncation)] // at most a few hundred columns
    pub(crate) fn new(columns: &[(Placement, usize)], n_slots: usize) -> Self {
        assert!(columns.iter().all(|column| column.1 < n_slots));
        let idle = Placement { scale: 0.0, shift: 1, last: 0 };
        let padding = columns.len().next_multiple_of(LANES) - columns.len();
        let all = || columns.iter().map(|c| c.0).chain(std::iter::repeat_n(idle, padding));
        Self {
            scale: all().map(|p| p.scale).collect(),
            shift: all().map(|p| p.shift).collect(),
            base: all().map(Placement::base).collect(),
            last: all().map(|p| p.last).collect(),
            slot: columns.iter().map(|c| c.1 as u32).collect(),
            n_columns: columns.len(),
            n_slots,
        }
    }
}

/// Placements of bytes: cells of one or of two values each, from 0 on.
#[derive(Debug, Clone, Default)]
pub(crate) struct BytePlacements {
    /// For every column the largest value told apart, whether cells are of two values, the slot.
    columns: Vec<(u8, bool, u32)>,
    n_slots: usize,
}

impl BytePlacements {
    /// Of the columns of some placements, where all are of that kind.
    #[allow(clippy::cast_possible_truncation)] // at most 255
    pub(crate) fn new(placements: &Placements) -> Option<Self> {
        let columns = (0..placements.n_columns).map(|d| {
            let (scale, last) = (placements.scale[d], placements.last[d]);
            let steps = (scale * 16384.0) as u32;
            let whole = last == 0 || (placements.shift[d] == 9 && (steps == 64 || steps == 128));
            let exact = last == 0 || steps as f32 == scale * 16384.0;
            let largest = if last == 0 { 0 } else { last / steps.max(1) };
            (whole && exact && largest <= 255).then_some((
                largest as u8,
                steps == 64,
                placements.slot[d],
            ))
        });
        Some(Self { columns: columns.collect::<Option<_>>()?, n_slots: placements.n_slots })
    }
}

/// The instructions that tables of bytes are looked up with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ByteLookup {
    /// Permutations of bytes over two registers, and dot products of bytes.
    #[cfg(target_arch = "x86_64")]
    Vbmi,
    /// Plain loops: the oracle of the others.
    Scalar,
}

/// Consecutive slots whose sums count `weight` times.
pub(crate) type Group = (std::ops::Range<usize>, f64);

impl ByteLookup {
    /// The best of this machine that is fast, unless `HISTRS_SIMD` names a lesser one.
    pub(crate) fn in_registers() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if matches!(super::choice(), Ok(super::Choice::Avx512(_))) {
            return Self::available().into_iter().find(|&with| with == Self::Vbmi);
        }
        None
    }

    /// Those of this machine, the best first.
    fn available() -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vnni")
        {
            found.push(Self::Vbmi);
        }
        found.push(Self::Scalar);
        found
    }

    /// Writes the codes of [`ROWS`] rows, row `i` of which starts at `x[i * stride]`, and says
    /// whether all values are finite and not negative.
    pub(crate) fn encode(
        self,
        x: &[f32],
        stride: usize,
        placements: &Placements,
        codes: &mut [u8],
    ) -> bool {
        assert!(x.len() >= (ROWS - 1) * stride + placements.n_columns);
        assert!(codes.len() >= placements.n_slots * CODES);
        match self {
            // SAFETY: `available` has found the instructions; slices are as long as it reads and
            // writes, as was just seen; every slot is below `n_slots`, as `new` has seen.
            #[cfg(target_arch = "x86_64")]
            Self::Vbmi => unsafe { x86::encode(x, stride, placements, codes) },
            Self::Scalar => {
                let mut valid = true;
                for d in 0..placements.n_columns {
                    let (scale, shift) = (placements.scale[d], placements.shift[d]);
                    let placement = Placement { scale, shift, last: placements.last[d] };
                    for i in 0..ROWS {
                        let value = x[i * stride + d];
                        valid &= (0.0..f32::INFINITY).contains(&value);
                        put(codes, placements.slot[d] as usize, i, placement.code(value));
                    }
                }
                valid
            }
        }
    }

    /// The same of bytes.
    pub(crate) fn encode_bytes(
        self,
        x: &[u8],
        stride: usize,
        placements: &BytePlacements,
        codes: &mut [u8],
    ) {
        assert!(x.len() >= (ROWS - 1) * stride + placements.columns.len());
        assert!(codes.len() >= placements.n_slots * CODES);
        match self {
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Vbmi => unsafe { x86::encode_bytes(x, stride, placements, codes) },
            Self::Scalar => {
                for (d, &(largest, of_two, slot)) in placements.columns.iter().enumerate() {
                    for i in 0..ROWS {
                        let code = u32::from(x[i * stride + d].min(largest));
                        put(codes, slot as usize, i, code * if of_two { 64 } else { 128 });
                    }
                }
            }
        }
    }

    /// Adds the sums of some slots to `sums`: for every output those of [`ROWS`] rows, that of a row
    /// at its [`place_of_sum`]. `tables` holds every slot of the first output, then those of the
    /// second, and so on.
    ///
    /// Groups are of whole fours of slots, at most [`COLUMNS`].
    pub(crate) fn add(
        self,
        codes: &[u8],
        tables: &[u8],
        n_slots: usize,
        groups: &[Group],
        sums: &mut [f64],
    ) {
        assert!(codes.len() >= n_slots * CODES);
        assert!(tables.len() >= sums.len() / ROWS * n_slots * TABLE);
        assert!(groups.iter().all(|(slots, _)| slots.start % 4 == 0
            && slots.end % 4 == 0
            && slots.end <= n_slots
            && slots.len() <= COLUMNS));
        match self {
            // SAFETY: `available` has found the instructions; slices are as long as it reads and
            // writes, as was just seen.
            #[cfg(target_arch = "x86_64")]
            Self::Vbmi => unsafe { x86::add(codes, tables, n_slots, groups, sums) },
            Self::Scalar => {
                for (output, sums) in sums.chunks_exact_mut(ROWS).enumerate() {
                    for (slots, weight) in groups {
                        for i in 0..ROWS {
                            let mut total = 0;
                            for slot in slots.clone() {
                                let table = &tables[(output * n_slots + slot) * TABLE..][..TABLE];
                                let cell = usize::from(codes[slot * CODES + i]);
                                let step = i32::from(codes[place_of_step(slot, i)]);
                                let rise = i32::from(table[CELLS + cell].cast_signed());
                                total += 128 * (i32::from(table[cell]) - BIAS) + rise * step;
                            }
                            sums[place_of_sum(i)] += f64::from(total) * weight;
                        }
                    }
                }
            }
        }
    }
}

/// Where the sum of a row lies. Interleaving four columns of 64 rows, first by bytes and then by
/// pairs, within 128 bits each, leaves rows `16 l + 4 k ..` in part `l` of vector `k`.
pub(crate) fn place_of_sum(row: usize) -> usize {
    let (l, k, i) = (row / 16, row % 16 / 4, row % 4);
    16 * k + 4 * l + i
}

/// Where the 128ths of a row lie.
fn place_of_step(slot: usize, row: usize) -> usize {
    let (four, within) = (slot / 4 * 4, slot % 4);
    let (k, lane) = (place_of_sum(row) / 16, place_of_sum(row) % 16);
    (four + k) * CODES + ROWS + 4 * lane + within
}

#[allow(clippy::cast_possible_truncation)] // 14 bits
fn put(codes: &mut [u8], slot: usize, row: usize, code: u32) {
    codes[slot * CODES + row] = (code >> 7) as u8;
    codes[place_of_step(slot, row)] = (code & 127) as u8;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    use super::{BIAS, BytePlacements, CODES, Group, LANES, Placements, ROWS, TABLE};

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
        let steps = _mm512_or_si512(
            _mm512_and_si512(a, low),
            _mm512_slli_epi32::<8>(_mm512_and_si512(b, low)),
        );
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
    ) -> bool {
        let mut bad = 0;
        let (one, zero, largest) =
            (_mm512_set1_ps(1.0), _mm512_setzero_ps(), _mm512_set1_ps(f32::MAX));
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
            let (mut cells, mut steps) =
                ([_mm512_setzero_si512(); 16], [_mm512_setzero_si512(); 16]);
            for j in 0..16 {
                let mut t = [_mm512_setzero_si512(); 4];
                for (i, t) in t.iter_mut().enumerate() {
                    // SAFETY: the row is there, and the mask leaves out what is behind its end.
                    let x = unsafe {
                        _mm512_maskz_loadu_ps(mask, x.as_ptr().add((4 * j + i) * stride + d))
                    };
                    bad |= _mm512_cmp_ps_mask::<_CMP_NGE_UQ>(x, zero)
                        | _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(x, largest);
                    let y = _mm512_castps_si512(_mm512_add_ps(_mm512_mul_ps(x, scale), one));
                    let code = _mm512_srlv_epi32(_mm512_sub_epi32(y, base), shift);
                    *t = _mm512_min_epu32(code, last);
                }
                (cells[j], steps[j]) = split(t);
            }
            transpose(&mut cells);
            transpose(&mut steps);
            for k in 0..n {
                // SAFETY: the slot is one of `codes`.
                unsafe {
                    let at = codes.add(placements.slot[d + k] as usize * CODES);
                    _mm512_storeu_si512(at.cast(), cells[k]);
                    _mm512_storeu_si512(at.add(ROWS).cast(), steps[k]);
                }
            }
        }
        // SAFETY: as the caller promises.
        unsafe { interleave_steps(codes, placements.n_slots) };
        bad == 0
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
    ) {
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
                    // SAFETY: the slot is one of `codes`.
                    unsafe {
                        let at = codes.add(slot as usize * CODES);
                        _mm512_storeu_si512(at.cast(), cells);
                        _mm512_storeu_si512(at.add(ROWS).cast(), steps);
                    }
                }
            }
        }
        // SAFETY: as the caller promises.
        unsafe { interleave_steps(codes, placements.n_slots) };
    }

    /// # Safety
    ///
    /// `codes` and `tables` have `n_slots` slots, the latter for each 64 of `sums`; groups are of
    /// whole fours of these.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
    #[allow(clippy::cast_possible_wrap, clippy::cast_possible_truncation)] // at most 256 slots
    pub(super) unsafe fn add(
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
                        let (cells, v, r) = unsafe {
                            let code = codes.as_ptr().add((slot + k) * CODES);
                            let table = tables.as_ptr().add((output * n_slots + slot + k) * TABLE);
                            let line = |i: usize| _mm512_loadu_si512(table.add(64 * i).cast());
                            (
                                _mm512_loadu_si512(code.cast()),
                                [line(0), line(1)],
                                [line(2), line(3)],
                            )
                        };
                        let values = _mm512_permutex2var_epi8(v[0], cells, v[1]);
                        *found = _mm512_permutex2var_epi8(r[0], cells, r[1]);
                        both = _mm512_add_epi16(both, values);
                        odd = _mm512_add_epi16(odd, _mm512_srli_epi16::<8>(values));
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(seed: usize) -> u32 {
        let seed = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        (seed.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
    }

    /// Columns in slots from the last to the first.
    fn placements(n_columns: usize, of: impl Fn(usize) -> Placement) -> Placements {
        let n_slots = n_columns.next_multiple_of(4);
        let columns: Vec<_> = (0..n_columns).map(|d| (of(d), n_slots - 1 - d)).collect();
        Placements::new(&columns, n_slots)
    }

    #[test]
    fn every_instruction_set_finds_the_same_codes() {
        let specials = [0.0, -0.0, 1e-40, 1.0, 255.0, f32::MAX, f32::INFINITY];
        for n_columns in [1, 4, 15, 16, 17, 130] {
            let stride = n_columns + 3;
            let placements = placements(n_columns, |d| Placement {
                scale: [0.0, 1.0 / 256.0, 0.37, 1e-3][d % 4],
                shift: [9, 9, 10, 12][d % 4],
                last: [0, LAST_CODE, 16000, LAST_CODE][d % 4],
            });
            let x: Vec<f32> = (0..ROWS * stride)
                .map(|i| {
                    specials.get(number(i) as usize % 50).copied().unwrap_or(number(i) as f32 / 1e8)
                })
                .collect();
            for finite in [true, false] {
                let x: Vec<f32> =
                    x.iter().map(|&x| if finite { x.min(f32::MAX) } else { x }).collect();
                let found = ByteLookup::available().into_iter().map(|with| {
                    let mut codes = vec![0; placements.n_slots * CODES];
                    (with.encode(&x, stride, &placements, &mut codes), codes)
                });
                let found: Vec<_> = found.collect();
                assert!(found.windows(2).all(|w| w[0] == w[1]), "{n_columns} columns");
                assert!(!finite || found[0].0);
            }
        }
    }

    #[test]
    fn values_that_are_no_histogram_are_told() {
        let placements = placements(17, |_| Placement { scale: 1.0, shift: 9, last: LAST_CODE });
        for bad in [-1.0, -f32::MIN_POSITIVE, f32::NAN, f32::INFINITY, -f32::INFINITY] {
            for place in [0, 16, 17 * 5 + 3, ROWS * 17 - 1] {
                let mut x = vec![0.5; ROWS * 17];
                x[place] = bad;
                for with in ByteLookup::available() {
                    let mut codes = vec![0; placements.n_slots * CODES];
                    assert!(!with.encode(&x, 17, &placements, &mut codes), "{with:?} {bad}");
                }
            }
        }
    }

    #[test]
    fn bytes_have_the_codes_of_the_same_numbers() {
        for n_columns in [1, 5, 64, 67, 200] {
            let placements = placements(n_columns, |d| match d % 3 {
                0 => Placement { scale: 1.0 / 128.0, shift: 9, last: 128 * (d as u32 % 127) },
                1 => Placement { scale: 1.0 / 256.0, shift: 9, last: 64 * (128 + d as u32 % 127) },
                _ => Placement { scale: 0.0, shift: 9, last: 0 },
            });
            let bytes = BytePlacements::new(&placements).unwrap();
            let x: Vec<u8> = (0..ROWS * n_columns).map(|i| (number(i) & 255) as u8).collect();
            let mut expected = vec![0; placements.n_slots * CODES];
            let single: Vec<f32> = x.iter().map(|&x| f32::from(x)).collect();
            ByteLookup::Scalar.encode(&single, n_columns, &placements, &mut expected);
            for with in ByteLookup::available() {
                let mut codes = vec![0; placements.n_slots * CODES];
                with.encode_bytes(&x, n_columns, &bytes, &mut codes);
                assert!(codes == expected, "{with:?}, {n_columns} columns");
            }
        }
        let uneven = placements(1, |_| Placement { scale: 0.3, shift: 9, last: LAST_CODE });
        assert!(BytePlacements::new(&uneven).is_none());
    }

    fn check_sums(codes: &[u8], tables: &[u8], n_slots: usize, groups: &[Group]) -> Vec<f64> {
        let n_outputs = tables.len() / (n_slots * TABLE);
        let sums = ByteLookup::available().into_iter().map(|with| {
            let mut sums = vec![0.5; n_outputs * ROWS];
            with.add(codes, tables, n_slots, groups, &mut sums);
            sums
        });
        let sums: Vec<_> = sums.collect();
        assert!(sums.windows(2).all(|w| w[0] == w[1]));
        sums[0].clone()
    }

    #[test]
    fn every_instruction_set_finds_the_same_sums() {
        for (n_slots, n_outputs) in [(4, 1), (12, 3), (256, 2)] {
            let codes: Vec<u8> = (0..n_slots * CODES).map(|i| (number(i) & 127) as u8).collect();
            let tables: Vec<u8> =
                (0..n_outputs * n_slots * TABLE).map(|i| (number(i) & 255) as u8).collect();
            check_sums(&codes, &tables, n_slots, &[(0..4, 1.0), (4..n_slots, 0.125)]);
        }
    }

    #[test]
    fn no_accumulator_overflows_at_the_limits() {
        for (value, rise) in [(255, 127_i8), (0, -128), (255, -128), (0, 127)] {
            let codes = vec![127; COLUMNS * CODES];
            let table: Vec<u8> = [[value; CELLS], [rise.cast_unsigned(); CELLS]].concat();
            let tables = table.repeat(COLUMNS);
            let sums = check_sums(&codes, &tables, COLUMNS, &[(0..COLUMNS, 1.0)]);
            let one = 128 * (i32::from(value) - BIAS) + 127 * i32::from(rise);
            let expected = f64::from(one) * COLUMNS as f64 + 0.5;
            assert!(sums.iter().all(|&sum| sum == expected), "{} {expected}", sums[0]);
        }
    }
}
