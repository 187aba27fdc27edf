//! The maps applied to whole matrices.

use ndarray::{Array2, ArrayView2};

use crate::chi2::map::AdditiveMap;
use crate::error::{GIVE_WHOLE_ROWS, OUTPUT, Result, check_length};
use crate::exec::Executor;
use crate::matrix::{CsrParts, CsrView, HistogramMatrix, check_columns, check_width};
use crate::memory;
use crate::simd::{Real, vectorized};

/// Rows in a block.
const ROWS: usize = 64;

impl AdditiveMap {
    /// The features of dense rows.
    ///
    /// # Errors
    ///
    /// [`Error::Negative`](crate::Error::Negative) or
    /// [`Error::NotFinite`](crate::Error::NotFinite) at the first bad entry,
    /// [`Error::Shape`](crate::Error::Shape) when the poles are those of another number of columns.
    pub fn transform<T: Real>(&self, exec: &Executor, x: ArrayView2<'_, T>) -> Result<Array2<T>> {
        let width = memory::size::<T>(&[x.ncols(), self.n_components()])?;
        memory::filled_by((x.nrows(), width), |out| self.transform_into(exec, x, out))
    }

    /// The features of dense rows, one after the other in `out`.
    ///
    /// # Errors
    ///
    /// As [`Self::transform`]; [`Error::Shape`](crate::Error::Shape) when `out` has another
    /// length.
    pub fn transform_into<T: Real>(
        &self,
        exec: &Executor,
        x: ArrayView2<'_, T>,
        out: &mut [T],
    ) -> Result<()> {
        self.check(exec, &HistogramMatrix::dense(x))?;
        let width = memory::size::<T>(&[x.ncols(), self.n_components()])?;
        check_length(OUTPUT, out.len(), memory::size::<T>(&[x.nrows(), width])?, GIVE_WHOLE_ROWS)?;
        exec.for_chunks(out, ROWS.saturating_mul(width), |block, out| {
            map_dense_rows(self, x, block * ROWS, out, width);
            Ok(())
        })
    }

    /// The features of sparse rows, as sparse as they are: zeros have none.
    ///
    /// # Errors
    ///
    /// As [`Self::transform`]; [`Error::MalformedCsr`](crate::Error::MalformedCsr) when the
    /// features are more than 32-bit indices can name.
    pub fn transform_csr<T: Real>(
        &self,
        exec: &Executor,
        x: &CsrView<'_, T>,
    ) -> Result<CsrParts<T>> {
        let matrix = HistogramMatrix::csr(*x);
        self.check(exec, &matrix)?;
        let n_columns = memory::size::<T>(&[matrix.n_columns(), self.n_components()])?;
        check_width(n_columns)?;
        let blocks = exec.map_blocks(x.n_rows().div_ceil(ROWS), |block| {
            let end = x.n_rows().min((block + 1) * ROWS);
            map_sparse_rows(self, x, block * ROWS, end)
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

vectorized!(
    fn map_dense_rows<S: Simd, T: Real>(
        simd: S,
        map: &AdditiveMap,
        x: ArrayView2<'_, T>,
        start: usize,
        out: &mut [T],
        width: usize,
    ) {
        let mut copy = vec![T::default(); x.ncols()];
        for (row, out) in (start..).zip(out.chunks_exact_mut(width)) {
            for (copy, &value) in copy.iter_mut().zip(x.row(row)) {
                *copy = value;
            }
            map.map_values(simd, &copy, None, out, x.ncols());
        }
    }
);

vectorized!(
    fn map_sparse_rows<S: Simd, T: Real>(
        simd: S,
        map: &AdditiveMap,
        x: &CsrView<'_, T>,
        start: usize,
        end: usize,
    ) -> Result<CsrParts<T>> {
        let n_columns = HistogramMatrix::csr(*x).n_columns();
        let mut parts = CsrParts::empty(n_columns);
        for row in start..end {
            let (columns, values) = x.row_sums_of_duplicates(row);
            if columns.is_empty() {
                memory::push(&mut parts.indptr, parts.data.len() as i64)?;
                continue;
            }
            let first = parts.data.len();
            let after = first + values.len() * map.n_components();
            memory::reserve_growing(&mut parts.data, after - first)?;
            parts.data.resize(after, T::default());
            memory::reserve_growing(&mut parts.indices, after - first)?;
            let out = &mut parts.data[first..];
            map.map_values(simd, &values, Some(&columns), out, values.len());
            for k in 0..map.n_components() {
                let offset = (k * n_columns) as i32;
                parts.indices.extend(columns.iter().map(|column| offset + column));
            }
            memory::push(&mut parts.indptr, parts.data.len() as i64)?;
        }
        Ok(parts)
    }
);
