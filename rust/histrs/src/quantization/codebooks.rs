//! Codebooks, laid out for the search.

use std::ops::Range;

use ndarray::ArrayView3;

use crate::error::{Error, Result, check_length};
use crate::memory;
use crate::quantization::Metric;
use crate::simd::{AlignedVec, Element};

/// Codewords of every vector length come in multiples of it.
pub(super) const GROUP: usize = 64;

/// The codebooks of all blocks of columns.
#[derive(Debug, Clone)]
pub struct Codebooks<T> {
    pub(super) metric: Metric,
    pub(super) n_codes: usize,
    /// First column of each block, and the number of columns.
    offsets: Vec<usize>,
    pub(super) blocks: Vec<Block<T>>,
}

/// The codebook of a block, column by column, in coordinates `(x - centre) / scale`.
#[derive(Debug, Clone)]
pub(super) struct Block<T> {
    pub(super) columns: Range<usize>,
    pub(super) centre: Vec<f64>,
    pub(super) scale: f64,
    /// The columns of all codewords, each padded to whole groups.
    pub(super) codewords: AlignedVec<T>,
    /// What the distance of each codeword begins with; infinite in the padding.
    pub(super) bias: AlignedVec<T>,
}

impl<T: Element> Codebooks<T> {
    /// Takes codebooks of shape `(M, D, G)`; block `m` has the columns `offsets[m]` to
    /// `offsets[m + 1]` of a row, and uses as many of the `G` entries of a codeword.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when the offsets do not fit. [`Error::Parameter`] when they do not ascend,
    /// there is no codeword or more than a code can number, or an entry is not finite.
    pub fn new(metric: Metric, codebooks: ArrayView3<'_, T>, offsets: &[i64]) -> Result<Self> {
        let (n_blocks, n_codes, width) = codebooks.dim();
        let cure = "give the first column of each block, then the number of columns";
        check_length("the number of offsets", offsets.len(), n_blocks + 1, cure)?;
        let offsets = ascending(offsets, width)?;
        if n_codes == 0 || n_codes > usize::from(u16::MAX) + 1 {
            let expected = "a codebook has from 1 to 65,536 codewords";
            return Err(Error::parameter("n_codes", n_codes, expected));
        }
        let is_bad = |value: &f64| !metric.coordinate(*value).is_finite();
        if let Some(value) = codebooks.iter().map(|v| v.to_f64()).find(is_bad) {
            let expected = "codewords are finite, and where roots are taken not negative";
            return Err(Error::parameter("codebooks", value, expected));
        }
        let blocks = (0..n_blocks)
            .map(|m| {
                let columns = offsets[m]..offsets[m + 1];
                Block::new(metric, columns, n_codes, |code, g| codebooks[[m, code, g]].to_f64())
            })
            .collect::<Result<_>>()?;
        Ok(Self { metric, n_codes, offsets, blocks })
    }

    /// Number of blocks.
    #[must_use]
    pub fn n_blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Number of columns of a row.
    #[must_use]
    pub fn n_columns(&self) -> usize {
        self.offsets.last().copied().unwrap_or_default()
    }
}

/// Offsets from 0 on, no further apart than `width`.
pub(super) fn ascending(offsets: &[i64], width: usize) -> Result<Vec<usize>> {
    let mut checked: Vec<usize> = memory::with_capacity(offsets.len())?;
    for &offset in offsets {
        let next = usize::try_from(offset).ok().filter(|&next| match checked.last() {
            Some(&last) => next > last && next - last <= width,
            None => next == 0,
        });
        checked.push(next.ok_or_else(|| {
            Error::parameter(
                "an offset",
                offset,
                "offsets ascend from 0 by at most the length of a codeword",
            )
        })?);
    }
    Ok(checked)
}

impl<T: Element> Block<T> {
    fn new(
        metric: Metric,
        columns: Range<usize>,
        n_codes: usize,
        entry: impl Fn(usize, usize) -> f64,
    ) -> Result<Self> {
        let entry = |code, g| metric.coordinate(entry(code, g));
        let centre: Vec<f64> = (0..columns.len())
            .map(|g| match metric.is_inner_product() {
                // About their mean, so that the inner products do not cancel.
                true => (0..n_codes).map(|code| entry(code, g) / n_codes as f64).sum(),
                false => 0.0,
            })
            .collect();
        let largest = (0..n_codes)
            .flat_map(|code| (0..columns.len()).map(move |g| (code, g)))
            .fold(0.0_f64, |most, (code, g)| most.max((entry(code, g) - centre[g]).abs()));
        let scale = if largest > 0.0 { largest } else { 1.0 };
        let padded = n_codes.next_multiple_of(GROUP);
        let mut codewords = AlignedVec::zeros(padded * columns.len())?;
        let mut bias = AlignedVec::zeros(padded)?;
        bias[n_codes..].fill(T::from_f64(f64::INFINITY));
        for code in 0..n_codes {
            let mut squares = 0.0;
            for g in 0..columns.len() {
                let value = (entry(code, g) - centre[g]) / scale;
                squares += value * value;
                let signed = if metric.is_inner_product() { -value } else { value };
                codewords[g * padded + code] = T::from_f64(signed);
            }
            if metric.is_inner_product() {
                bias[code] = T::from_f64(squares / 2.0);
            }
        }
        Ok(Self { columns, centre, scale, codewords, bias })
    }
}
