//! The codewords that codes stand for, side by side.

use ndarray::{Array2, ArrayView2, ArrayView3, s};

use crate::error::{GIVE_WHOLE_ROWS, OUTPUT, Result, check_length};
use crate::exec::Executor;
use crate::memory;
use crate::quantization::Code;
use crate::quantization::codebooks::ascending;
use crate::quantization::codes::check_codes;
use crate::simd::Element;

/// Rows of a block.
const ROWS: usize = 64;

/// The rows that [`decode_into`] writes.
///
/// # Errors
///
/// As [`decode_into`].
pub fn decode<T: Element, C: Code>(
    exec: &Executor,
    codes: ArrayView2<'_, C>,
    codebooks: ArrayView3<'_, T>,
    offsets: &[i64],
) -> Result<Array2<T>> {
    let end = offsets.last().and_then(|&end| usize::try_from(end).ok()).unwrap_or_default();
    memory::filled_by((codes.nrows(), end), |out| decode_into(exec, codes, codebooks, offsets, out))
}

/// Writes, for each row of codes, its codewords side by side, one row after the other.
///
/// `codebooks` has the shape (blocks, codewords, columns); block `m` fills the columns
/// `offsets[m]` to `offsets[m + 1]`.
///
/// # Errors
///
/// [`Error::CodeOutOfRange`](crate::Error::CodeOutOfRange) at the first code that has no codeword,
/// [`Error::Shape`](crate::Error::Shape) when lengths disagree,
/// [`Error::Parameter`](crate::Error::Parameter) when the offsets do not ascend,
/// [`Error::Interrupted`](crate::Error::Interrupted).
pub fn decode_into<T: Element, C: Code>(
    exec: &Executor,
    codes: ArrayView2<'_, C>,
    codebooks: ArrayView3<'_, T>,
    offsets: &[i64],
    out: &mut [T],
) -> Result<()> {
    let (n_rows, n_blocks) = codes.dim();
    let (n_codebooks, n_codes, width) = codebooks.dim();
    let cure = "give one for each column of the codes";
    check_length("the number of codebooks", n_codebooks, n_blocks, cure)?;
    check_length("the number of offsets", offsets.len(), n_blocks + 1, cure)?;
    let offsets = ascending(offsets, width)?;
    let n_columns = offsets.last().copied().unwrap_or_default();
    check_length(OUTPUT, out.len(), n_rows * n_columns, GIVE_WHOLE_ROWS)?;
    check_codes(exec, codes, n_codes)?;
    let codebooks = codebooks.as_standard_layout();
    let codewords = memory::flat(&codebooks)?;
    exec.for_chunks(out, ROWS * n_columns, |block, out| {
        let codes = codes.slice(s![block * ROWS.., ..]);
        for (codes, out) in codes.rows().into_iter().zip(out.chunks_exact_mut(n_columns)) {
            for (m, code) in codes.iter().enumerate() {
                let from = (m * n_codes + code.index()) * width;
                let out = &mut out[offsets[m]..offsets[m + 1]];
                out.copy_from_slice(&codewords[from..from + out.len()]);
            }
        }
        Ok(())
    })
}
