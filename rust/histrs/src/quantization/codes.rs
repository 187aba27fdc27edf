//! The types a code may have, and their range.

use ndarray::ArrayView2;
use pulp::bytemuck::Zeroable;

use crate::error::{Error, Result};
use crate::exec::Executor;

/// A number of a codeword: `u8` or `u16`.
pub trait Code: Copy + Default + Ord + Zeroable + Send + Sync + 'static + sealed::Sealed {
    /// The most codewords that the type can number.
    const LIMIT: usize;

    /// The number of the codeword.
    fn index(self) -> usize;

    /// The code of a codeword whose number is below [`Self::LIMIT`].
    fn from_index(index: usize) -> Self;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
}

macro_rules! impl_code {
    ($t:ty) => {
        impl Code for $t {
            const LIMIT: usize = <$t>::MAX as usize + 1;

            #[inline(always)]
            fn index(self) -> usize {
                usize::from(self)
            }

            #[inline(always)]
            #[allow(clippy::cast_possible_truncation)] // below the limit
            fn from_index(index: usize) -> Self {
                index as Self
            }
        }
    };
}

impl_code!(u8);
impl_code!(u16);

/// Rows looked through between two looks at the stop flag.
const ROWS: usize = 4096;

/// Fails at the first code, in row order, that is not below `n_codes`.
pub(super) fn check_codes<C: Code>(
    exec: &Executor,
    codes: ArrayView2<'_, C>,
    n_codes: usize,
) -> Result<()> {
    if n_codes >= C::LIMIT {
        return Ok(());
    }
    let n_rows = codes.nrows();
    exec.map_ranges(n_rows, ROWS, |rows| {
        for row in rows {
            let codes = codes.row(row);
            if codes.iter().fold(C::default(), |most, &code| most.max(code)).index() < n_codes {
                continue;
            }
            if let Some(block) = codes.iter().position(|code| code.index() >= n_codes) {
                let code = codes[block].index();
                return Err(Error::CodeOutOfRange { row, block, code, n_codes });
            }
        }
        Ok(())
    })
    .map(drop)
}
