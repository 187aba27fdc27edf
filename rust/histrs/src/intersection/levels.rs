//! Where to cut a column into a few levels.

use crate::error::Result;
use crate::memory;

/// Cuts ascending distinct `values`, held by `counts` rows each, into at most `n_levels` runs of
/// nearly equal `n h`, and returns where the runs end. Here `n` is the number of rows in a run and
/// `h` its width.
///
/// What rounding to levels, or interpolating between their ends, leaves of the kernel has
/// eigenvalues of order `n h`, so that no run is much worse than the others. Quantiles, equal `n`,
/// would leave long gaps in the tail; equal widths would crowd the values near zero.
pub(crate) fn level_ends(values: &[f64], counts: &[usize], n_levels: usize) -> Result<Vec<usize>> {
    if values.len() <= n_levels {
        return memory::collected(1..values.len() + 1);
    }
    // The sum of sqrt(gap) over the rows of a run is near sqrt(n h).
    let mut cumulative = memory::with_capacity(values.len())?;
    let (mut previous, mut total) = (0.0, 0.0);
    for (&value, &count) in values.iter().zip(counts) {
        total += ((value - previous) * count as f64).sqrt();
        previous = value;
        cumulative.push(total);
    }
    let mut ends: Vec<usize> = (1..n_levels)
        .map(|level| total * (level as f64 / n_levels as f64))
        .map(|limit| cumulative.partition_point(|&weight| weight <= limit))
        .filter(|&end| end > 0)
        .collect();
    ends.push(values.len());
    ends.dedup();
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn evenly_spaced_values_are_cut_into_equal_runs() {
        let values: Vec<f64> = (1..=8).map(f64::from).collect();
        assert_eq!(level_ends(&values, &[1; 8], 4).unwrap(), [2, 4, 6, 8]);
        assert_eq!(level_ends(&values, &[1; 8], 8).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
        // Twice as wide with four times the rows: as much as four gaps of one row each.
        assert_eq!(level_ends(&[1.0, 2.0, 3.0, 4.0, 8.0], &[1, 1, 1, 1, 4], 2).unwrap(), [4, 5]);
    }

    proptest! {
        #[test]
        fn ends_ascend_to_the_last_value(
            gaps in prop::collection::vec((1e-300..1e300_f64, 1..50_usize), 0..200),
            n_levels in 1..40_usize,
        ) {
            let mut values: Vec<f64> = gaps.iter().map(|g| g.0).collect();
            values.sort_by(f64::total_cmp);
            values.dedup();
            let counts: Vec<usize> = gaps.iter().take(values.len()).map(|g| g.1).collect();
            let ends = level_ends(&values, &counts, n_levels).unwrap();
            prop_assert!(ends.len() <= n_levels);
            prop_assert!(ends.windows(2).all(|w| w[0] < w[1]));
            prop_assert_eq!(ends.last().copied().unwrap_or(0), values.len());
            prop_assert!(ends.first().is_none_or(|&end| end > 0));
            // No run but for its first value has more than its part of the sum.
            let gaps: Vec<f64> =
                values.iter().scan(0.0, |previous, &x| Some(x - std::mem::replace(previous, x))).collect();
            let roots: Vec<f64> =
                gaps.iter().zip(&counts).map(|(gap, &count)| (gap * count as f64).sqrt()).collect();
            let limit = roots.iter().sum::<f64>() / n_levels as f64 * (1.0 + 1e-9);
            let starts = std::iter::once(&0).chain(&ends);
            for (&start, &end) in starts.zip(&ends) {
                prop_assert!(values.len() <= n_levels || roots[start + 1..end].iter().sum::<f64>() <= limit);
            }
        }
    }

    #[test]
    fn a_long_tail_gets_levels_of_its_own() {
        let values: Vec<f64> = (1..=1000).map(|i| 1.0 / f64::from(1001 - i)).collect();
        let ends = level_ends(&values, &vec![1; 1000], 10).unwrap();
        assert!(ends[ends.len() - 2] > 990, "{ends:?}");
    }
}
