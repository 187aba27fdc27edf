//! A sparse matrix as a result.

use crate::error::{Error, Result};
use crate::memory;

/// The parts of a compressed sparse row matrix.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CsrParts<T> {
    /// Stored values.
    pub data: Vec<T>,
    /// Column of each, ascending within a row.
    pub indices: Vec<i32>,
    /// Where the rows begin, and the end of the last.
    pub indptr: Vec<i64>,
    /// Number of columns.
    pub n_columns: usize,
}

impl<T> CsrParts<T> {
    /// The parts of no rows, without the 0 that `indptr` begins with.
    pub(crate) fn empty(n_columns: usize) -> Self {
        Self { data: vec![], indices: vec![], indptr: vec![], n_columns }
    }

    /// The rows of several parts, each as [`Self::empty`] begins them, in one matrix.
    pub(crate) fn concatenate(blocks: Vec<Self>, n_columns: usize) -> Result<Self> {
        let mut parts = Self { indptr: vec![0], ..Self::empty(n_columns) };
        let n_stored = blocks.iter().map(|block| block.data.len()).sum();
        memory::reserve(&mut parts.data, n_stored)?;
        memory::reserve(&mut parts.indices, n_stored)?;
        memory::reserve(&mut parts.indptr, blocks.iter().map(|block| block.indptr.len()).sum())?;
        for block in blocks {
            let before = parts.data.len() as i64;
            parts.indptr.extend(block.indptr.iter().map(|end| before + end));
            parts.data.extend(block.data);
            parts.indices.extend(block.indices);
        }
        Ok(parts)
    }
}

/// Fails when features are more than 32-bit indices can name.
pub(crate) fn check_width(n_columns: usize) -> Result<()> {
    if n_columns <= i32::MAX as usize {
        return Ok(());
    }
    Err(Error::MalformedCsr(format!(
        "{n_columns} features are more than 32-bit indices can name: hash or select features"
    )))
}
