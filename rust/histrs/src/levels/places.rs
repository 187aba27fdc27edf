//! Which of the intervals of a line each number of a column is in.

use ndarray::{Array2, ArrayView1, ArrayView2, Axis, s};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;
use crate::simd::Real;

/// Rows of a block.
const ROWS: usize = 2048;

/// Returns the codes of rows, of shape (`n_columns`, `n_rows`): how many of the cuts of a column are
/// below the number of a row.
///
/// Each of `columns` says which column of `x` it is, and gives its cuts in ascending order. Codes are
/// what [`super::LevelCodes::new`] takes, of one level more than there are cuts. NaN has the code 0.
///
/// A row takes a binary search for each column: 4 or 8 bytes read, 2 written, and the logarithm of the
/// number of cuts in steps without branches.
///
/// # Errors
///
/// [`Error::Parameter`] if `x` has no such column, or a column has more cuts than codes of 16 bits;
/// [`Error::OutOfMemory`], [`Error::Interrupted`].
///
/// # Examples
///
/// ```
/// use histrs::{Executor, levels::level_codes};
/// use ndarray::array;
///
/// let x = array![[0.1, 7.0], [0.5, 9.0], [0.9, 8.0]];
/// let (first, second) = (array![0.4, 0.5], array![8.5]);
/// let codes = level_codes(&Executor::new(2)?, x.view(), &[(0, first.view()), (1, second.view())])?;
/// assert_eq!(codes, array![[0, 1, 2], [0, 1, 0]]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn level_codes<T: Real>(
    exec: &Executor,
    x: ArrayView2<'_, T>,
    columns: &[(usize, ArrayView1<'_, f64>)],
) -> Result<Array2<u16>> {
    for (feature, cuts) in columns {
        if *feature >= x.ncols() {
            return Err(Error::parameter("columns", *feature, "give columns that the rows have"));
        }
        if cuts.len() > usize::from(u16::MAX) {
            let expected = "a column has at most 65,535 cuts";
            return Err(Error::parameter("columns", cuts.len(), expected));
        }
    }
    let mut codes = memory::zero_matrix((columns.len(), x.nrows()))?;
    // Those of a view may be anywhere.
    let of_columns = columns.iter().map(|(_, cuts)| memory::collected(cuts.iter().copied()));
    let cuts = of_columns.collect::<Result<Vec<_>>>()?;
    // All columns of a few rows at a time, which stay in the cache.
    let mut blocks = memory::collected(codes.axis_chunks_iter_mut(Axis(1), ROWS))?;
    exec.for_chunks(&mut blocks, 1, |block, codes| {
        let first = block * ROWS;
        for codes in codes {
            let rows = x.slice(s![first..first + codes.ncols(), ..]);
            for ((mut codes, cuts), (feature, _)) in
                codes.rows_mut().into_iter().zip(&cuts).zip(columns)
            {
                for (code, value) in codes.iter_mut().zip(rows.column(*feature)) {
                    *code = n_below(cuts, value.to_f64());
                }
            }
        }
        Ok(())
    })?;
    Ok(codes)
}

/// How many of ascending cuts are below a value.
fn n_below(cuts: &[f64], value: f64) -> u16 {
    let (mut below, mut rest) = (0, cuts.len());
    while rest > 1 {
        let half = rest / 2;
        below += usize::from(cuts[below + half - 1] < value) * half;
        rest -= half;
    }
    let last = cuts.get(below).is_some_and(|cut| *cut < value);
    // At most as many as there are cuts, which 16 bits hold.
    u16::try_from(below + usize::from(last)).unwrap_or(u16::MAX)
}
