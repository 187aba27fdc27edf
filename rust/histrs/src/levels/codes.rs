//! The codes, and where the levels of each column are among all.

use std::ops::Range;

use ndarray::{ArrayView1, ArrayView2};

use crate::error::{Error, Result};

/// Columns of codes: which of its levels each row of a column is at.
#[derive(Debug, Clone)]
pub struct LevelCodes<'a> {
    columns: Vec<&'a [u16]>,
    n_rows: usize,
    /// Where the levels of each column start among all, and where the last ones end.
    starts: Vec<usize>,
}

impl<'a> LevelCodes<'a> {
    /// Takes codes of shape (`n_columns`, `n_rows`), column after column, and how many levels each
    /// column has.
    ///
    /// # Errors
    ///
    /// [`Error::NotInRows`] unless the codes of a column are next to one another. [`Error::Shape`]
    /// unless there is a number of levels for each column. [`Error::Parameter`] where a code is not
    /// below its number of levels.
    pub fn new(codes: ArrayView2<'a, u16>, n_levels: &[usize]) -> Result<Self> {
        let (n_columns, n_rows) = codes.dim();
        if n_levels.len() != n_columns {
            return Err(Error::Shape {
                what: "the length of n_levels",
                found: n_levels.len(),
                expected: n_columns,
                cure: "give a number for each column of codes",
            });
        }
        let flat = codes.to_slice().ok_or(Error::NotInRows { name: "codes" })?;
        let columns: Vec<&[u16]> =
            if n_rows == 0 { vec![&[]; n_columns] } else { flat.chunks_exact(n_rows).collect() };
        let mut starts = vec![0];
        let mut end = 0_usize;
        for (column, &n) in columns.iter().zip(n_levels) {
            let largest = column.iter().copied().max().unwrap_or(0);
            if n_rows > 0 && usize::from(largest) >= n {
                return Err(Error::parameter(
                    "codes",
                    largest,
                    "codes of a column are below its number of levels",
                ));
            }
            end = n.checked_add(end).ok_or_else(|| Error::out_of_memory::<f64>(&[n, end]))?;
            starts.push(end);
        }
        Ok(Self { columns, n_rows, starts })
    }

    /// How many rows there are.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// How many levels all columns have together.
    #[must_use]
    pub fn n_levels(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    pub(super) fn n_columns(&self) -> usize {
        self.columns.len()
    }

    pub(super) fn column(&self, d: usize) -> &'a [u16] {
        self.columns[d]
    }

    /// Where the levels of a column are among all.
    pub(super) fn levels_of(&self, d: usize) -> Range<usize> {
        self.starts[d]..self.starts[d + 1]
    }

    /// A number for each row.
    pub(super) fn of_rows<'b>(&self, v: ArrayView1<'b, f64>) -> Result<&'b [f64]> {
        self.check("the length of weights", v.len(), self.n_rows, "give a weight for each row")?;
        v.to_slice().ok_or(Error::NotInRows { name: "weights" })
    }

    pub(super) fn check(
        &self,
        what: &'static str,
        found: usize,
        expected: usize,
        cure: &'static str,
    ) -> Result<()> {
        if found == expected { Ok(()) } else { Err(Error::Shape { what, found, expected, cure }) }
    }
}
