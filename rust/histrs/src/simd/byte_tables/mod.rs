//! Sums of functions that are tables of bytes: 128 cells per column, a value and a rise each.
//!
//! A value of a column has a code of 14 bits: its cell, and 128ths of the way to the next one.
//! With `v` the value of a cell and `r` its rise, whole numbers of 8 bits, `128 v + r f` are added
//! up at the `f` 128ths of a code. All of it is exact, on every instruction set.

mod placements;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use placements::{BytePlacements, Placement, Placements};

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

/// What is known of rows whose codes were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// Whether all values are finite and not negative.
    pub(crate) valid: bool,
    /// Whether a value lies between two edges of cells: of no other do rises count.
    pub(crate) between: bool,
}

impl ByteLookup {
    /// The best of this machine that is fast, unless `HISTRS_SIMD` names a lesser one.
    pub(crate) fn in_registers() -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        if matches!(crate::simd::choice(), Ok(crate::simd::Choice::Avx512(_))) {
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

    /// Writes the codes of [`ROWS`] rows, row `i` of which starts at `x[i * stride]`.
    pub(crate) fn encode(
        self,
        x: &[f32],
        stride: usize,
        placements: &Placements,
        codes: &mut [u8],
    ) -> Encoded {
        assert!(x.len() >= (ROWS - 1) * stride + placements.n_columns);
        assert!(codes.len() >= placements.n_slots * CODES && placements.n_slots.is_multiple_of(4));
        match self {
            // SAFETY: `available` has found the instructions. The assertions above check that
            // slices are as long as it reads and writes, and that slots are whole fours. Every slot
            // is below `n_slots`, as `new` has checked.
            #[cfg(target_arch = "x86_64")]
            Self::Vbmi => unsafe { x86::encode(x, stride, placements, codes) },
            Self::Scalar => {
                let (mut valid, mut between) = (true, false);
                for d in 0..placements.n_columns {
                    let (scale, shift) = (placements.scale[d], placements.shift[d]);
                    let placement = Placement { scale, shift, last: placements.last[d] };
                    for i in 0..ROWS {
                        let value = x[i * stride + d];
                        valid &= (0.0..f32::INFINITY).contains(&value);
                        let code = placement.code(value);
                        between |= code & 127 != 0;
                        put(codes, placements.slot[d] as usize, i, code);
                    }
                }
                Encoded { valid, between }
            }
        }
    }

    /// The same of bytes, all of which are valid.
    pub(crate) fn encode_bytes(
        self,
        x: &[u8],
        stride: usize,
        placements: &BytePlacements,
        codes: &mut [u8],
    ) -> Encoded {
        assert!(x.len() >= (ROWS - 1) * stride + placements.columns.len());
        assert!(codes.len() >= placements.n_slots * CODES && placements.n_slots.is_multiple_of(4));
        match self {
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Vbmi => unsafe { x86::encode_bytes(x, stride, placements, codes) },
            Self::Scalar => {
                let mut between = false;
                for (d, &(largest, of_two, slot)) in placements.columns.iter().enumerate() {
                    for i in 0..ROWS {
                        let value = u32::from(x[i * stride + d].min(largest));
                        let code = value * if of_two { 64 } else { 128 };
                        between |= code & 127 != 0;
                        put(codes, slot as usize, i, code);
                    }
                }
                Encoded { valid: true, between }
            }
        }
    }

    /// Adds the sums of some slots to `sums`: for every output those of [`ROWS`] rows, that of a row
    /// at its [`index_of_sum`]. `tables` holds every slot of the first output, then those of the
    /// second, and so on.
    ///
    /// Groups are of whole fours of slots, at most [`COLUMNS`]. `between` is what was found when the
    /// codes were written.
    pub(crate) fn add(
        self,
        (codes, between): (&[u8], bool),
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
            Self::Vbmi if between => unsafe {
                x86::add::<true>(codes, tables, n_slots, groups, sums);
            },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Self::Vbmi => unsafe { x86::add::<false>(codes, tables, n_slots, groups, sums) },
            Self::Scalar => {
                for (output, sums) in sums.chunks_exact_mut(ROWS).enumerate() {
                    for (slots, weight) in groups {
                        for i in 0..ROWS {
                            let mut total = 0;
                            for slot in slots.clone() {
                                let table = &tables[(output * n_slots + slot) * TABLE..][..TABLE];
                                let cell = usize::from(codes[slot * CODES + i]);
                                let step = i32::from(codes[index_of_step(slot, i)]);
                                let rise = i32::from(table[CELLS + cell].cast_signed());
                                total += 128 * (i32::from(table[cell]) - BIAS) + rise * step;
                            }
                            sums[index_of_sum(i)] += f64::from(total) * weight;
                        }
                    }
                }
            }
        }
    }
}

/// Where the sum of a row lies. Interleaving four columns of 64 rows, first by bytes and then by
/// pairs, within 128 bits each, leaves rows `16 l + 4 k ..` in part `l` of vector `k`.
pub(crate) fn index_of_sum(row: usize) -> usize {
    let (l, k, i) = (row / 16, row % 16 / 4, row % 4);
    16 * k + 4 * l + i
}

/// Where the 128ths of a row lie.
fn index_of_step(slot: usize, row: usize) -> usize {
    let (four, within) = (slot / 4 * 4, slot % 4);
    let (k, lane) = (index_of_sum(row) / 16, index_of_sum(row) % 16);
    (four + k) * CODES + ROWS + 4 * lane + within
}

#[allow(clippy::cast_possible_truncation)] // 14 bits
fn put(codes: &mut [u8], slot: usize, row: usize, code: u32) {
    codes[slot * CODES + row] = (code >> 7) as u8;
    codes[index_of_step(slot, row)] = (code & 127) as u8;
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
    fn slots_that_are_not_whole_fours_are_refused() {
        let placement = Placement { scale: 0.5, shift: 9, last: LAST_CODE };
        for with in ByteLookup::available() {
            let encodes = |n_slots: usize| {
                let placements = Placements::new(&[(placement, 0)], n_slots);
                let bytes = BytePlacements { columns: vec![(0, false, 0)], n_slots };
                let mut codes = vec![0; 4 * CODES];
                let of_bytes = std::panic::catch_unwind(move || {
                    with.encode_bytes(&[0; ROWS], 1, &bytes, &mut vec![0; 4 * CODES])
                });
                let of_singles = std::panic::catch_unwind(move || {
                    with.encode(&[0.0; ROWS], 1, &placements, &mut codes)
                });
                [of_bytes, of_singles].map(|found| found.is_ok())
            };
            assert_eq!(encodes(4), [true; 2]);
            assert_eq!([1, 2, 3].map(encodes), [[false; 2]; 3]);
        }
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
                assert!(!finite || found[0].0.valid);
            }
        }
    }

    #[test]
    fn values_that_are_no_histogram_are_told() {
        let placements = placements(17, |_| Placement { scale: 1.0, shift: 9, last: LAST_CODE });
        for bad in [-1.0, -f32::MIN_POSITIVE, f32::NAN, f32::INFINITY, -f32::INFINITY] {
            for index in [0, 16, 17 * 5 + 3, ROWS * 17 - 1] {
                let mut x = vec![0.5; ROWS * 17];
                x[index] = bad;
                for with in ByteLookup::available() {
                    let mut codes = vec![0; placements.n_slots * CODES];
                    let seen = with.encode(&x, 17, &placements, &mut codes);
                    assert!(!seen.valid, "{with:?} {bad}");
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
            let seen = ByteLookup::Scalar.encode(&single, n_columns, &placements, &mut expected);
            for with in ByteLookup::available() {
                let mut codes = vec![0; placements.n_slots * CODES];
                let of_bytes = with.encode_bytes(&x, n_columns, &bytes, &mut codes);
                assert!(codes == expected && of_bytes == seen, "{with:?}, {n_columns} columns");
            }
        }
        let uneven = placements(1, |_| Placement { scale: 0.3, shift: 9, last: LAST_CODE });
        assert!(BytePlacements::new(&uneven).is_none());
    }

    #[test]
    fn it_is_told_whether_values_lie_between_edges() {
        for n_columns in [1, 17, 130] {
            let scale = |d: usize| if d.is_multiple_of(2) { 1.0 / 128.0 } else { 1.0 / 256.0 };
            let placements = placements(n_columns, |d| Placement {
                scale: scale(d),
                shift: 9,
                last: LAST_CODE - 127,
            });
            let bytes = BytePlacements::new(&placements).unwrap();
            let mut x: Vec<u8> =
                (0..ROWS * n_columns).map(|i| 2 * (number(i) & 63) as u8).collect();
            for odd in [None, Some(0), Some(ROWS * n_columns - 1)] {
                if let Some(odd) = odd {
                    x[odd] += 1;
                }
                let expected = (0..ROWS * n_columns)
                    .any(|i| !x[i].is_multiple_of(2) && !(i % n_columns).is_multiple_of(2));
                let single: Vec<f32> = x.iter().map(|&x| f32::from(x)).collect();
                for with in ByteLookup::available() {
                    let mut codes = vec![0; placements.n_slots * CODES];
                    let seen = with.encode(&single, n_columns, &placements, &mut codes);
                    assert_eq!(seen, Encoded { valid: true, between: expected });
                    assert_eq!(with.encode_bytes(&x, n_columns, &bytes, &mut codes), seen);
                }
            }
        }
    }

    fn check_sums(codes: &[u8], tables: &[u8], n_slots: usize, groups: &[Group]) -> Vec<f64> {
        let n_outputs = tables.len() / (n_slots * TABLE);
        let sums = ByteLookup::available().into_iter().map(|with| {
            let mut sums = vec![0.5; n_outputs * ROWS];
            with.add((codes, true), tables, n_slots, groups, &mut sums);
            sums
        });
        let sums: Vec<_> = sums.collect();
        assert!(sums.windows(2).all(|w| w[0] == w[1]));
        let mut edges = codes.to_vec();
        edges.chunks_exact_mut(CODES).for_each(|slot| slot[ROWS..].fill(0));
        for with in ByteLookup::available() {
            let [at_edges, expected] = [false, true].map(|between| {
                let mut sums = vec![0.5; n_outputs * ROWS];
                with.add((&edges, between), tables, n_slots, groups, &mut sums);
                sums
            });
            assert_eq!(at_edges, expected, "{with:?}");
        }
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
