//! The maps applied to whole matrices.

use ndarray::{Array2, ArrayView2};
use pulp::{Simd, WithSimd};

use crate::chi2::map::AdditiveMap;
use crate::error::{Error, GIVE_WHOLE_ROWS, OUTPUT, Result, check_length};
use crate::exec::Executor;
use crate::matrix::{CsrView, HistogramMatrix, check_columns};
use crate::memory;
use crate::simd::{Real, dispatch};

/// Rows in a block.
const ROWS: usize = 64;

/// The parts of a compressed sparse row matrix.
#[derive(Debug, Clone, PartialEq)]
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

impl AdditiveMap {
    /// The features of dense rows.
    ///
    /// # Errors
    ///
    /// [`Error::Negative`] or [`Error::NotFinite`] at the first bad entry, [`Error::Shape`] when
    /// the poles are those of another number of columns.
    pub fn transform_dense<T: Real>(
        &self,
        exec: &Executor,
        x: ArrayView2<'_, T>,
    ) -> Result<Array2<T>> {
        let shape = (x.nrows(), x.ncols() * self.n_components());
        let mut out = memory::zero_matrix(shape)?;
        let flat = memory::flat_mut(&mut out)?;
        self.transform_dense_into(exec, x, flat)?;
        Ok(out)
    }

    /// The features of dense rows, one after the other in `out`.
    ///
    /// # Errors
    ///
    /// As [`Self::transform_dense`]; [`Error::Shape`] when `out` has another length.
    pub fn transform_dense_into<T: Real>(
        &self,
        exec: &Executor,
        x: ArrayView2<'_, T>,
        out: &mut [T],
    ) -> Result<()> {
        self.check(exec, &HistogramMatrix::dense(x))?;
        let width = x.ncols() * self.n_components();
        check_length(OUTPUT, out.len(), x.nrows() * width, GIVE_WHOLE_ROWS)?;
        exec.for_chunks(out, ROWS * width, |block, out| {
            dispatch(DenseRows { map: self, x, start: block * ROWS, out, width });
            Ok(())
        })
    }

    /// The features of sparse rows, as sparse as they are: zeros have none.
    ///
    /// # Errors
    ///
    /// As [`Self::transform_dense`]; [`Error::MalformedCsr`] when the features are more than
    /// 32-bit indices can name.
    pub fn transform_csr<T: Real>(
        &self,
        exec: &Executor,
        x: &CsrView<'_, T>,
    ) -> Result<CsrParts<T>> {
        let matrix = HistogramMatrix::csr(*x);
        self.check(exec, &matrix)?;
        let n_columns = matrix.n_columns() * self.n_components();
        check_width(n_columns)?;
        let blocks = exec.map_blocks(x.n_rows().div_ceil(ROWS), |block| {
            let end = x.n_rows().min((block + 1) * ROWS);
            dispatch(SparseRows { map: self, x, start: block * ROWS, end })
        })?;
        CsrParts::concatenate(blocks, n_columns)
    }

    pub(crate) fn check<T: Real>(&self, exec: &Executor, x: &HistogramMatrix<'_, T>) -> Result<()> {
        if let Some(expected) = self.n_columns() {
            check_columns("the number of columns of X", x, expected)?;
        }
        x.check(exec, "X")
    }
}

struct DenseRows<'a, T> {
    map: &'a AdditiveMap,
    x: ArrayView2<'a, T>,
    start: usize,
    out: &'a mut [T],
    width: usize,
}

impl<T: Real> WithSimd for DenseRows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { map, x, start, out, width } = self;
        let mut copy = vec![T::default(); x.ncols()];
        for (row, out) in (start..).zip(out.chunks_exact_mut(width)) {
            for (copy, &value) in copy.iter_mut().zip(x.row(row)) {
                *copy = value;
            }
            map.map_values(&copy, |i| i, out, x.ncols());
        }
    }
}

struct SparseRows<'a, 'm, T> {
    map: &'a AdditiveMap,
    x: &'a CsrView<'m, T>,
    start: usize,
    end: usize,
}

impl<T: Real> WithSimd for SparseRows<'_, '_, T> {
    type Output = Result<CsrParts<T>>;

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // checked by the caller
    fn with_simd<S: Simd>(self, _: S) -> Result<CsrParts<T>> {
        let Self { map, x, start, end } = self;
        let n_columns = HistogramMatrix::csr(*x).n_columns();
        let mut parts = CsrParts::empty(n_columns);
        for row in start..end {
            let (columns, values) = x.row_sums_of_duplicates(row);
            let first = parts.data.len();
            let after = first + values.len() * map.n_components();
            memory::reserve_growing(&mut parts.data, after - first)?;
            parts.data.resize(after, T::default());
            memory::reserve_growing(&mut parts.indices, after - first)?;
            let column = |i: usize| columns[i].unsigned_abs() as usize;
            map.map_values(&values, column, &mut parts.data[first..], values.len());
            for k in 0..map.n_components() {
                let offset = (k * n_columns) as i32;
                parts.indices.extend(columns.iter().map(|column| offset + column));
            }
            memory::push(&mut parts.indptr, parts.data.len() as i64)?;
        }
        Ok(parts)
    }
}
