//! Sorting one column of non-negative values.

use crate::error::Result;
use crate::matrix::ColumnEntries;
use crate::memory;

const DIGIT_BITS: usize = 11;
const N_DIGITS: usize = 64usize.div_ceil(DIGIT_BITS);
const RADIX: usize = 1 << DIGIT_BITS;
/// Below this length a comparison sort wins.
const RADIX_MIN_LEN: usize = 1024;

/// The entries of a column in ascending order of value, equal values by ascending row.
///
/// The bits of non-negative floats order as the floats do, so that they sort as integers.
#[derive(Debug, Default)]
pub(crate) struct Sorter {
    pairs: Vec<(u64, u32)>,
    spare: Vec<(u64, u32)>,
    counts: Vec<u32>,
}

impl Sorter {
    pub(crate) fn sort(&mut self, entries: &ColumnEntries) -> Result<&[(u64, u32)]> {
        self.pairs.clear();
        let pairs = entries.values.iter().zip(&entries.rows).map(|(v, &row)| (v.to_bits(), row));
        memory::extend(&mut self.pairs, pairs)?;
        if self.pairs.len() < RADIX_MIN_LEN {
            self.pairs.sort_unstable();
        } else {
            self.radix_sort()?;
        }
        Ok(&self.pairs)
    }

    /// Least significant digit first; digits in which all keys agree are passed over.
    #[allow(clippy::cast_possible_truncation)] // lengths fit the 32-bit row index
    fn radix_sort(&mut self) -> Result<()> {
        self.counts.clear();
        memory::resize(&mut self.counts, N_DIGITS * RADIX, 0)?;
        for &(key, _) in &self.pairs {
            for (digit, counts) in self.counts.chunks_exact_mut(RADIX).enumerate() {
                counts[digit_of(key, digit)] += 1;
            }
        }
        memory::resize(&mut self.spare, self.pairs.len(), (0, 0))?;
        let len = self.pairs.len() as u32;
        for (digit, counts) in self.counts.chunks_exact_mut(RADIX).enumerate() {
            if counts.contains(&len) {
                continue;
            }
            let mut start = 0;
            for count in counts.iter_mut() {
                start += std::mem::replace(count, start);
            }
            for &pair in &self.pairs {
                let slot = &mut counts[digit_of(pair.0, digit)];
                self.spare[*slot as usize] = pair;
                *slot += 1;
            }
            std::mem::swap(&mut self.pairs, &mut self.spare);
        }
        Ok(())
    }
}

#[allow(clippy::cast_possible_truncation)] // masked to a digit
fn digit_of(key: u64, digit: usize) -> usize {
    (key >> (digit * DIGIT_BITS)) as usize & (RADIX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn radix_sort_equals_comparison_sort(
            values in prop::collection::vec(
                prop_oneof![0.0..1.0_f64, Just(0.5), 0.0..1e300_f64, Just(5e-324)], 0..3000),
        ) {
            let entries = ColumnEntries {
                rows: (0..u32::try_from(values.len()).unwrap()).collect(),
                values: values.clone(),
            };
            let mut expected: Vec<(u64, u32)> =
                values.iter().map(|v| v.to_bits()).zip(entries.rows.clone()).collect();
            expected.sort_unstable();
            let mut sorter = Sorter::default();
            sorter.sort(&entries).unwrap();
            prop_assert_eq!(&sorter.pairs, &expected);
            sorter.sort(&entries).unwrap();
            prop_assert_eq!(&sorter.pairs, &expected);
        }
    }
}
