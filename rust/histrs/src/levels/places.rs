//! Which of the intervals of a line each number of a column is in.

use ndarray::{Array2, ArrayView1, ArrayView2, ArrayViewMut1, Axis, s};
use pulp::{Simd, WithSimd};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;
use crate::simd::{Real, dispatch};

/// Rows of a block.
const ROWS: usize = 256;
/// Cuts that a step of a search compares a value with.
const WIDTH: usize = 16;

/// Returns the codes of rows, of shape (`n_columns`, `n_rows`): how many of the cuts of a column are
/// below the number of a row.
///
/// Each of `columns` says which column of `x` it is, and gives its cuts in ascending order. Codes are
/// what [`super::LevelCodes::new`] takes, of one level more than there are cuts. NaN has the code 0.
///
/// A row takes a search for each column: 4 or 8 bytes read, 2 written, and 16 comparisons in each of
/// so many steps as the number of cuts has hexadecimal digits. No step branches.
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
    let mut searches = memory::with_capacity(columns.len())?;
    for (_, cuts) in columns {
        searches.push(Search::new(*cuts)?);
    }
    // All columns of a few rows at a time, which stay in the cache.
    let mut blocks = memory::collected(codes.axis_chunks_iter_mut(Axis(1), ROWS))?;
    exec.for_chunks(&mut blocks, 1, |block, codes| {
        let first = block * ROWS;
        for codes in codes {
            let rows = x.slice(s![first..first + codes.ncols(), ..]);
            for ((codes, search), (feature, _)) in
                codes.rows_mut().into_iter().zip(&searches).zip(columns)
            {
                dispatch(Places { search, values: rows.column(*feature), codes });
            }
        }
        Ok(())
    })?;
    Ok(codes)
}

/// Ascending cuts as a tree: the last cuts of blocks are those of the level above.
struct Search {
    /// Blocks from the root to all cuts. Each level ends with infinities, which no value is above.
    levels: Vec<Vec<[f64; WIDTH]>>,
}

impl Search {
    fn new(cuts: ArrayView1<'_, f64>) -> Result<Self> {
        // As many levels as there are digits, at most.
        let mut levels = memory::with_capacity(usize::BITS as usize)?;
        levels.push(blocks(cuts.iter().copied())?);
        while levels[0].len() > 1 {
            // The last of all is an infinity, which the level above has anyway.
            let but_one: &[[f64; WIDTH]] = &levels[0][..levels[0].len() - 1];
            let above = blocks(but_one.iter().map(|block| block[WIDTH - 1]))?;
            levels.insert(0, above);
        }
        Ok(Self { levels })
    }

    /// How many cuts are below a value.
    #[inline(always)]
    fn n_below(&self, value: f64) -> u16 {
        let mut block = 0;
        for level in &self.levels {
            let below: u64 = level[block].iter().map(|cut| u64::from(*cut < value)).sum();
            block = block * WIDTH + usize::try_from(below).unwrap_or(WIDTH - 1);
        }
        // At most as many as there are cuts, which 16 bits hold.
        u16::try_from(block).unwrap_or(u16::MAX)
    }
}

/// Returns numbers in blocks, the last of which has an infinity behind them.
fn blocks(numbers: impl ExactSizeIterator<Item = f64>) -> Result<Vec<[f64; WIDTH]>> {
    let mut found = memory::filled([f64::INFINITY; WIDTH], numbers.len() / WIDTH + 1)?;
    for (place, number) in found.as_flattened_mut().iter_mut().zip(numbers) {
        *place = number;
    }
    Ok(found)
}

/// Writes how many cuts are below each of some values.
struct Places<'a, T> {
    search: &'a Search,
    values: ArrayView1<'a, T>,
    codes: ArrayViewMut1<'a, u16>,
}

impl<T: Real> WithSimd for Places<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (code, value) in self.codes.into_iter().zip(self.values) {
            *code = self.search.n_below(value.to_f64());
        }
    }
}
