//! Codebooks that are learned, and rows that are searched by their codes.

use ndarray::{Array2, Array3, ArrayView2, ArrayView3, s};

use crate::clustering::{KMeansParameters, k_means};
use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::matrix::{COLUMNS_OF_X, HistogramMatrix, check_columns};
use crate::memory;
use crate::quantization::{Codebooks, Metric, Neighbors, decode, encode, neighbors};
use crate::simd::Real;
use crate::stop::{Stop, with_fields, with_stop};

/// How a [`Quantizer`] is fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct QuantizerParameters {
    /// Codewords of a block, 256 at most, which is what a byte numbers; fewer where there are fewer rows.
    pub n_codes: usize,
    /// What the first codewords are drawn from.
    pub seed: u64,
    /// Of k-means, see [`KMeansParameters::stop`].
    pub stop: Stop,
}

impl Default for QuantizerParameters {
    /// 256 codewords, of seed 0, as [`KMeansParameters`] ends.
    fn default() -> Self {
        let KMeansParameters { seed, stop, .. } = KMeansParameters::default();
        Self { n_codes: 256, seed, stop }
    }
}

with_fields!(QuantizerParameters: with_n_codes(n_codes: usize), with_seed(seed: u64));
with_stop!(QuantizerParameters);

/// Rows of so many bytes as there are blocks of columns: the nearest codewords by the Euclidean distance.
///
/// # Examples
///
/// ```
/// use histrs::Executor;
/// use histrs::quantization::{Quantizer, QuantizerParameters};
/// use ndarray::Array2;
///
/// let exec = Executor::new(0)?;
/// let x = Array2::from_shape_fn((500, 8), |(i, d)| ((i * (d + 3)) as f64 * 0.618).fract());
/// let quantizer = Quantizer::fit(&exec, x.view(), 4, QuantizerParameters::default())?;
/// let codes = quantizer.encode(&exec, x.view())?;
/// assert_eq!(codes.dim(), (500, 4));
/// let (rows, distances) = quantizer.index(&exec, x.view())?.nearest(&exec, x.view(), 5)?;
/// assert_eq!(rows.dim(), (500, 5));
/// assert!(distances.iter().all(|&d| d >= 0.0));
/// # Ok::<(), histrs::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Quantizer<T> {
    /// Shape (blocks, codewords, columns); narrow blocks have zeros behind.
    words: Array3<T>,
    offsets: Vec<i64>,
    codebooks: Codebooks<T>,
}

impl<T: Real> Quantizer<T> {
    /// Cuts the columns of `x` into `n_blocks` blocks of nearly one width, and learns the codewords of
    /// each by k-means.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless there are as many columns as blocks, a block, a row, and from 1 to 256
    /// codewords, [`Error::NotFinite`] at a bad entry, [`Error::Interrupted`], [`Error::OutOfMemory`].
    pub fn fit(
        exec: &Executor,
        x: ArrayView2<'_, T>,
        n_blocks: usize,
        parameters: QuantizerParameters,
    ) -> Result<Self> {
        let (n_rows, n_columns) = x.dim();
        let QuantizerParameters { n_codes, seed, stop } = parameters;
        for (name, value, most, expected) in [
            ("n_blocks", n_blocks, n_columns, "there is a block, and a column for each"),
            ("n_codes", n_codes, 256, "a byte numbers from 1 to 256 codewords"),
            ("the number of rows", n_rows, usize::MAX, "there is one at least"),
        ] {
            if value == 0 || value > most {
                return Err(Error::parameter(name, value, expected));
            }
        }
        let n_codes = n_codes.min(n_rows);
        // The first blocks are wider by one where columns are left over.
        let start = |m: usize| m * (n_columns / n_blocks) + m.min(n_columns % n_blocks);
        let offsets = memory::collected((0..n_blocks + 1).map(start))?;
        let mut words = memory::zeros((n_blocks, n_codes, start(1)))?;
        for (m, range) in offsets.windows(2).enumerate() {
            let mut block = memory::zero_matrix((n_rows, range[1] - range[0]))?;
            block.assign(&x.slice(s![.., range[0]..range[1]]));
            let seed = seed.wrapping_add(m as u64);
            let parameters = KMeansParameters { seed, n_candidates: None, stop };
            let found = k_means(exec, block.view(), n_codes, parameters)?;
            words.slice_mut(s![m, .., ..range[1] - range[0]]).assign(&found.centers);
        }
        let offsets = memory::collected(offsets.iter().map(|&start| start as i64))?;
        Self::from_codebooks(words, offsets)
    }

    fn from_codebooks(words: Array3<T>, offsets: Vec<i64>) -> Result<Self> {
        let codebooks = Codebooks::new(Metric::Euclidean, words.view(), &offsets)?;
        Ok(Self { words, offsets, codebooks })
    }

    /// The codewords, of shape (blocks, codewords, columns); narrow blocks have zeros behind.
    #[must_use]
    pub fn codebooks(&self) -> ArrayView3<'_, T> {
        self.words.view()
    }

    /// The first column of each block, and the number of columns.
    #[must_use]
    pub fn offsets(&self) -> &[i64] {
        &self.offsets
    }

    /// The codes of rows, a byte for each block.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] unless there are as many columns as were fitted, [`Error::NotFinite`] at the first
    /// bad entry, [`Error::Interrupted`], [`Error::OutOfMemory`].
    pub fn encode(&self, exec: &Executor, x: ArrayView2<'_, T>) -> Result<Array2<u8>> {
        encode(exec, &HistogramMatrix::dense(x), &self.codebooks)
    }

    /// The rows that codes stand for.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] unless there is a code for each block, [`Error::CodeOutOfRange`] at the first that
    /// has no codeword, [`Error::Interrupted`], [`Error::OutOfMemory`].
    pub fn decode(&self, exec: &Executor, codes: ArrayView2<'_, u8>) -> Result<Array2<T>> {
        decode(exec, codes, self.words.view(), &self.offsets)
    }

    /// Rows that can be searched.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn index(&self, exec: &Executor, x: ArrayView2<'_, T>) -> Result<Index<'_, T>> {
        Ok(Index { quantizer: self, codes: self.encode(exec, x)? })
    }
}

/// Rows that are searched by their codes.
#[derive(Debug, Clone)]
pub struct Index<'a, T> {
    quantizer: &'a Quantizer<T>,
    codes: Array2<u8>,
}

impl<T: Real> Index<'_, T> {
    /// The rows that are nearest to each query, and the squared distances between the query and what the
    /// codes stand for, the nearest first.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] unless queries have the columns of the rows, [`Error::NotFinite`] at the
    /// first bad entry. [`Error::Parameter`] unless there are as many rows as neighbors, or where a
    /// squared distance might overflow. [`Error::Interrupted`], [`Error::OutOfMemory`].
    pub fn nearest(
        &self,
        exec: &Executor,
        queries: ArrayView2<'_, T>,
        n_neighbors: usize,
    ) -> Result<Neighbors<T>> {
        let matrix = HistogramMatrix::dense(queries);
        let Quantizer { words, offsets, codebooks } = self.quantizer;
        check_columns(COLUMNS_OF_X, &matrix, codebooks.n_columns())?;
        matrix.check_finite(exec, "X")?;
        let (n_blocks, n_codes, _) = words.dim();
        let mut tables = memory::zeros((n_blocks, n_codes, queries.nrows()))?;
        for (m, range) in offsets.windows(2).enumerate() {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // columns
            let columns = range[0] as usize..range[1] as usize;
            exec.check()?;
            for (q, query) in queries.slice(s![.., columns.clone()]).rows().into_iter().enumerate()
            {
                for k in 0..n_codes {
                    let word = words.slice(s![m, k, ..columns.len()]);
                    let squares =
                        query.iter().zip(word).map(|(a, b)| (a.to_f64() - b.to_f64()).powi(2));
                    tables[[m, k, q]] = T::from_f64(squares.sum());
                }
            }
        }
        neighbors(exec, self.codes.view(), tables.view(), None, n_neighbors)
    }
}
