//! The nearest codewords of all rows.

use ndarray::{Array2, s};
use pulp::{Simd, WithSimd};

use crate::error::{GIVE_WHOLE_ROWS, OUTPUT, Result, check_length};
use crate::exec::Executor;
use crate::kernels::{Chi2, DistanceTerm, Intersection};
use crate::matrix::{COLUMNS_OF_X, HistogramMatrix, check_columns};
use crate::memory;
use crate::quantization::codebooks::Block;
use crate::quantization::metric::InnerProduct;
use crate::quantization::{Code, Codebooks, Metric};
use crate::simd::{AlignedVec, Element, dispatch};

/// Rows of a block.
const ROWS: usize = 64;
/// Rows of a register tile.
const TILE: usize = 4;
/// Distances looked through at a time.
const CHUNK: usize = 16;

/// The codes that [`encode_into`] writes, a row for each of `x`.
///
/// # Errors
///
/// As [`encode_into`].
pub fn encode<T: Element, C: Code>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
    codebooks: &Codebooks<T>,
) -> Result<Array2<C>> {
    memory::filled_by((x.n_rows(), codebooks.n_blocks()), |out| {
        encode_into(exec, x, codebooks, out)
    })
}

/// Writes the number of the nearest codeword of each row and block of columns, one row after the
/// other; of several that are equally near, the least.
///
/// Distances are evaluated in the element type, about the mean of the codewords.
///
/// # Errors
///
/// [`Error::Negative`](crate::Error::Negative) or [`Error::NotFinite`](crate::Error::NotFinite) at
/// the first bad entry, [`Error::Shape`](crate::Error::Shape) when lengths disagree,
/// [`Error::Parameter`](crate::Error::Parameter) when the codes of this type are too few,
/// [`Error::Interrupted`](crate::Error::Interrupted).
///
/// # Examples
///
/// ```
/// use histrs::quantization::{Codebooks, Metric, encode_into};
/// use histrs::{Executor, HistogramMatrix};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let codebooks = array![[[0.0, 0.0], [1.0, 1.0]], [[0.0, 2.0], [2.0, 0.0]]];
/// let codebooks = Codebooks::new(Metric::Euclidean, codebooks.view(), &[0, 2, 4])?;
/// let x = array![[0.9, 0.8, 0.1, 1.5], [0.1, 0.2, 1.0, 0.3]];
/// let mut codes = [0_u8; 4];
/// encode_into(&exec, &HistogramMatrix::dense(x.view()), &codebooks, &mut codes)?;
/// assert_eq!(codes, [1, 0, 0, 1]);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn encode_into<T: Element, C: Code>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
    codebooks: &Codebooks<T>,
    out: &mut [C],
) -> Result<()> {
    check_columns(COLUMNS_OF_X, x, codebooks.n_columns())?;
    let n_blocks = codebooks.n_blocks();
    check_length(OUTPUT, out.len(), x.n_rows() * n_blocks, GIVE_WHOLE_ROWS)?;
    if codebooks.n_codes > C::LIMIT {
        return Err(crate::Error::parameter(
            "n_codes",
            codebooks.n_codes,
            "codes of this type must number all codewords",
        ));
    }
    codebooks.metric.check(exec, x)?;
    exec.for_chunks(out, ROWS * n_blocks, |block, out| {
        // Of one type, so that the kernels are compiled once for all codes.
        let mut codes = memory::filled(0_u16, out.len())?;
        let rows = Rows { x, start: block * ROWS, codebooks, out: &mut codes };
        match codebooks.metric {
            Metric::Euclidean | Metric::Hellinger => dispatch(Encode(rows, InnerProduct)),
            Metric::Chi2 => dispatch(Encode(rows, Chi2)),
            Metric::Intersection => dispatch(Encode(rows, Intersection)),
        }?;
        for (out, code) in out.iter_mut().zip(codes) {
            *out = C::from_index(code.into());
        }
        Ok(())
    })
}

/// Some rows, and where their codes go.
struct Rows<'a, 'm, T> {
    x: &'a HistogramMatrix<'m, T>,
    start: usize,
    codebooks: &'a Codebooks<T>,
    out: &'a mut [u16],
}

impl<T: Element> Rows<'_, '_, T> {
    fn n_rows(&self) -> usize {
        self.out.len() / self.codebooks.n_blocks()
    }

    /// The rows of a CSR matrix, dense for as long as they are encoded.
    fn expand(&self) -> Result<Vec<f64>> {
        let HistogramMatrix::Csr(x) = self.x else { return Ok(Vec::new()) };
        let width = self.x.n_columns();
        let mut dense = memory::filled(0.0, self.n_rows() * width)?;
        for (row, out) in (self.start..).zip(dense.chunks_exact_mut(width)) {
            x.for_each_sum(row, |column, value| out[column] = value);
        }
        Ok(dense)
    }

    /// The columns of a block in its coordinates, one row after the other.
    fn fill(&self, dense: &[f64], block: &Block<T>, tile: &mut [T]) {
        let metric = self.codebooks.metric;
        let width = block.columns.len();
        let n_columns = self.x.n_columns();
        let rows = tile.chunks_exact_mut(width).take(self.n_rows());
        let scale = 1.0 / block.scale;
        let position =
            |value: f64, centre: f64| T::from_f64((metric.coordinate(value) - centre) * scale);
        match self.x {
            HistogramMatrix::Dense(x) => {
                for (row, tile) in (self.start..).zip(rows) {
                    let x = x.slice(s![row, block.columns.clone()]);
                    for ((tile, value), &centre) in tile.iter_mut().zip(x).zip(&block.centre) {
                        *tile = position(value.to_f64(), centre);
                    }
                }
            }
            HistogramMatrix::Csr(_) => {
                for (x, tile) in dense.chunks_exact(n_columns).zip(rows) {
                    let x = &x[block.columns.clone()];
                    for ((tile, &value), &centre) in tile.iter_mut().zip(x).zip(&block.centre) {
                        *tile = position(value, centre);
                    }
                }
            }
        }
    }
}

struct Encode<'a, 'm, T, K>(Rows<'a, 'm, T>, K);

impl<T: Element, K: DistanceTerm> WithSimd for Encode<'_, '_, T, K> {
    type Output = Result<()>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Result<()> {
        let Self(rows, _) = self;
        let (n_rows, n_blocks) = (rows.n_rows(), rows.codebooks.n_blocks());
        let dense = rows.expand()?;
        let mut tile = Vec::new();
        let mut distances = AlignedVec::zeros(TILE * padded(rows.codebooks))?;
        for (m, block) in rows.codebooks.blocks.iter().enumerate() {
            let width = block.columns.len();
            // Whole tiles: the rows after the last are computed with, and forgotten.
            tile.clear();
            memory::resize(&mut tile, n_rows.next_multiple_of(TILE) * width, T::default())?;
            rows.fill(&dense, block, &mut tile);
            for (first, x) in (0..).step_by(TILE).zip(tile.chunks_exact(TILE * width)) {
                fill_distances::<T, K, S>(simd, x, block, &mut distances);
                let each = distances.chunks_exact(block.bias.len());
                for (row, distances) in (first..n_rows).zip(each) {
                    let nearest = first_least(&distances[..rows.codebooks.n_codes]);
                    rows.out[row * n_blocks + m] = u16::from_index(nearest);
                }
            }
        }
        Ok(())
    }
}

fn padded<T>(codebooks: &Codebooks<T>) -> usize {
    codebooks.blocks.first().map_or(0, |block| block.bias.len())
}

/// The distances of four rows from all codewords.
#[inline(always)]
fn fill_distances<T: Element, K: DistanceTerm, S: Simd>(
    simd: S,
    x: &[T],
    block: &Block<T>,
    out: &mut [T],
) {
    let bias = T::vectors::<S>(&block.bias).0;
    let codewords = T::vectors::<S>(&block.codewords).0;
    let out = T::vectors_mut::<S>(out).0;
    // As many sums as there are registers.
    if S::F64_LANES == 8 {
        distance_tiles::<T, K, S, 4>(simd, x, codewords, bias, out);
    } else {
        distance_tiles::<T, K, S, 2>(simd, x, codewords, bias, out);
    }
}

#[inline(always)]
fn distance_tiles<T: Element, K: DistanceTerm, S: Simd, const N: usize>(
    simd: S,
    x: &[T],
    codewords: &[T::Vector<S>],
    bias: &[T::Vector<S>],
    out: &mut [T::Vector<S>],
) {
    let (stride, width) = (bias.len(), x.len() / TILE);
    let (x0, rest) = x.split_at(width);
    let (x1, rest) = rest.split_at(width);
    let (x2, x3) = rest.split_at(width);
    for at in (0..stride).step_by(N) {
        let mut sums = [[bias[at]; N]; TILE];
        for sums in &mut sums {
            sums.copy_from_slice(&bias[at..at + N]);
        }
        for (g, z) in codewords.chunks_exact(stride).enumerate() {
            let z = &z[at..at + N];
            for (sums, &x) in sums.iter_mut().zip(&[x0[g], x1[g], x2[g], x3[g]]) {
                let x = T::splat(simd, x);
                for (sum, &z) in sums.iter_mut().zip(z) {
                    *sum = K::add::<T, S>(simd, x, z, *sum);
                }
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            out[row * stride + at..row * stride + at + N].copy_from_slice(sums);
        }
    }
}

/// The position of the first of the least values; 0 where none is a number.
#[inline(always)]
fn first_least<T: Element>(values: &[T]) -> usize {
    let (chunks, rest) = values.as_chunks::<CHUNK>();
    let mut least = [T::from_f64(f64::INFINITY); CHUNK];
    for chunk in chunks {
        for (least, &value) in least.iter_mut().zip(chunk) {
            *least = if value < *least { value } else { *least };
        }
    }
    let smaller = |a: T, &b: &T| if b < a { b } else { a };
    let least = rest.iter().fold(least.iter().fold(least[0], smaller), smaller);
    for (i, chunk) in chunks.iter().enumerate() {
        if chunk.iter().fold(false, |found, &value| found | (value == least)) {
            let position = chunk.iter().position(|&value| value == least);
            return i * CHUNK + position.unwrap_or_default();
        }
    }
    let position = rest.iter().position(|&value| value == least);
    position.map_or(0, |position| chunks.len() * CHUNK + position)
}
