//! Distances between all pairs, or between the matrices of two stacks in turn, in blocks.

use ndarray::{Array1, Array2};
use pulp::Simd;

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::memory;
use crate::pairwise::mirror;
use crate::simd::{AlignedVec, Element, lanes, vectorized};
use crate::spd::lanes::{LaneValues, MAX_LANES, vectors_mut};

/// Rows of the result in a block; a group of `Y` stays in the cache for them.
const ROWS: usize = 8;
/// Parts of a row when there are few rows.
const PARTS: usize = 32;
/// Rows that are not worth cutting up.
const SHORT: usize = 512;

/// A distance from one matrix, or from a matrix per lane, to a group of matrices.
pub(crate) trait LaneDistance: Sync {
    /// Vectors of scratch that it needs.
    fn scratch_len(&self) -> usize;
    /// The distances, a lane each; NaN where double precision does not suffice. Matrix `x` is the
    /// other side, or, where matrices are `PAIRED`, group `x`.
    fn distances<S: Simd, const PAIRED: bool>(
        &self,
        simd: S,
        x: usize,
        group: usize,
        scratch: &mut [S::f64s],
    ) -> LaneValues;
}

/// The distances of `n_x` matrices to `n_y` others; where they are the same matrices, each pair
/// is computed once.
pub(crate) fn all_pairs<T: Element, K: LaneDistance>(
    exec: &Executor,
    kernel: &K,
    (n_x, n_y): (usize, usize),
    symmetric: bool,
) -> Result<Array2<T>> {
    let mut out = memory::zero_matrix((n_x, n_y))?;
    let flat = memory::flat_mut(&mut out)?;
    // A group that two blocks share is computed by both.
    let rows = if n_x >= ROWS { ROWS } else { 1 };
    let chunk = if rows == 1 && n_y > SHORT {
        n_y.div_ceil(PARTS).next_multiple_of(MAX_LANES)
    } else {
        rows * n_y
    };
    exec.for_chunks(flat, chunk, |block, out| {
        let (start, end) = (block * chunk, block * chunk + out.len());
        let write = &mut |entry, distance| out[entry] = T::from_f64(distance);
        distances_of_block(exec, kernel, start, end, n_y, symmetric, write)
    })?;
    if symmetric {
        mirror(exec, &mut out)?;
    }
    Ok(out)
}

/// The distances of each matrix of a stack of `n` to the one of the same index in another.
pub(crate) fn paired<T: Element, K: LaneDistance>(
    exec: &Executor,
    kernel: &K,
    n: usize,
) -> Result<Array1<T>> {
    let lanes = lanes::<f64>();
    let mut out = memory::filled(T::default(), n)?;
    exec.for_chunks(&mut out, ROWS * lanes, |block, out| {
        let (first, n) = (block * ROWS, out.len());
        let write = &mut |entry, distance| out[entry] = T::from_f64(distance);
        paired_distances(kernel, first, n, write)
    })?;
    Ok(Array1::from_vec(out))
}

/// Writes an entry of a block. A call each is nothing beside a distance, and the kernels are
/// compiled once for all types of the result.
type Write<'a> = &'a mut dyn FnMut(usize, f64);

vectorized!(
    /// Entries of the result from entry `start` to `end`: whole rows, or a part of one.
    fn distances_of_block<S: Simd, K: LaneDistance>(
        simd: S,
        exec: &Executor,
        kernel: &K,
        start: usize,
        end: usize,
        n_columns: usize,
        symmetric: bool,
        write: Write<'_>,
    ) -> Result<()> {
        let lanes = S::F64_LANES;
        let mut scratch = AlignedVec::zeros(kernel.scratch_len() * lanes)?;
        let scratch = vectors_mut::<S>(&mut scratch);
        for group in 0..n_columns.div_ceil(lanes) {
            exec.check()?;
            for i in start / n_columns..end.div_ceil(n_columns) {
                let from = start.saturating_sub(i * n_columns).max(if symmetric { i } else { 0 });
                let from = from.max(group * lanes);
                let to = (end - i * n_columns).min(n_columns).min((group + 1) * lanes);
                if from >= to {
                    continue;
                }
                let distances = kernel.distances::<S, false>(simd, i, group, scratch);
                for j in from..to {
                    let distance = distances[j - group * lanes];
                    if distance.is_nan() {
                        return Err(Error::TooFarApart { x: i, y: j });
                    }
                    write(i * n_columns + j - start, distance);
                }
            }
        }
        Ok(())
    }
);

vectorized!(
    /// Distances of some groups in turn, from group `first` on.
    fn paired_distances<S: Simd, K: LaneDistance>(
        simd: S,
        kernel: &K,
        first: usize,
        /// Number of distances.
        n: usize,
        write: Write<'_>,
    ) -> Result<()> {
        let lanes = S::F64_LANES;
        let mut scratch = AlignedVec::zeros(kernel.scratch_len() * lanes)?;
        let scratch = vectors_mut::<S>(&mut scratch);
        for start in (0..n).step_by(lanes) {
            let group = first + start / lanes;
            let distances = kernel.distances::<S, true>(simd, group, group, scratch);
            for (lane, &distance) in distances[..lanes.min(n - start)].iter().enumerate() {
                if distance.is_nan() {
                    let matrix = group * lanes + lane;
                    return Err(Error::TooFarApart { x: matrix, y: matrix });
                }
                write(start + lane, distance);
            }
        }
        Ok(())
    }
);
