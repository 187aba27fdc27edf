//! The structured projection of as many rows as a vector has lanes.

use pulp::Simd;

use crate::chi2::AdditiveMap;
use crate::matrix::{HistogramMatrix, visit_rows};
use crate::random_features::hadamard::signed_hadamard;
use crate::random_features::trigonometry::cosines_and_sines;
use crate::simd::{AlignedVec, Real, transpose_block};

/// Largest number of lanes.
const LANES: usize = 16;

/// What is needed of the model, in the element type of the data.
pub(super) struct Plan<'a, T> {
    pub(super) map: &'a AdditiveMap,
    /// Signs of each round, the first round shared by all blocks of projections.
    pub(super) signs: &'a [Vec<T>],
    /// Number of projections, a cosine and a sine of each.
    pub(super) n_projections: usize,
    /// From a transformed entry to turns.
    pub(super) turns: T,
    /// Of the features.
    pub(super) amplitude: T,
}

/// Buffers for rows side by side: entry `i` of the row in lane `l` is at `i * lanes + l`.
pub(super) struct Buffers<T> {
    values: AlignedVec<T>,
    features: AlignedVec<T>,
    shared: AlignedVec<T>,
    projected: AlignedVec<T>,
}

impl<T: Real> Buffers<T> {
    pub(super) fn new(n_columns: usize, size: usize, lanes: usize) -> Self {
        Self {
            values: AlignedVec::zeros(n_columns * lanes),
            features: AlignedVec::zeros(size * lanes),
            shared: AlignedVec::zeros(size * lanes),
            projected: AlignedVec::zeros(size * lanes),
        }
    }
}

impl<T: Real> Plan<'_, T> {
    /// The random features of at most as many rows as there are lanes, beginning at `start`.
    #[inline(always)]
    pub(super) fn transform_rows<S: Simd>(
        &self,
        simd: S,
        x: &HistogramMatrix<'_, T>,
        start: usize,
        buffers: &mut Buffers<T>,
        out: &mut [T],
    ) {
        let lanes = T::lanes::<S>();
        let n_rows = out.len() / (2 * self.n_projections);
        let Buffers { values, features, shared, projected } = buffers;
        values.fill(T::default());
        visit_rows(x, start, n_rows, 0, x.n_columns(), |row, column, value| {
            values[column * lanes + row] = T::from_f64(value);
        });
        let stride = values.len();
        self.map.map_values(values, |i| i / lanes, features, stride);
        // The rounds below use the space for features as well.
        features[stride * self.map.n_components()..].fill(T::default());
        let first = T::vectors::<S>(features).0;
        signed_hadamard::<T, S>(simd, &self.signs[0], first, T::vectors_mut::<S>(shared).0);
        let size = self.signs[0].len();
        for (block, pair) in self.signs[1..].chunks_exact(2).enumerate() {
            let between = T::vectors_mut::<S>(features).0;
            signed_hadamard::<T, S>(simd, &pair[0], T::vectors::<S>(shared).0, between);
            let last = T::vectors_mut::<S>(projected).0;
            signed_hadamard::<T, S>(simd, &pair[1], between, last);
            let from = block * size;
            let count = size.min(self.n_projections - from);
            self.write_block(simd, &last[..count], from, n_rows, out);
        }
    }

    /// Writes cosines and sines of projections `from..` to the rows.
    #[inline(always)]
    fn write_block<S: Simd>(
        &self,
        simd: S,
        projected: &[T::Vector<S>],
        from: usize,
        n_rows: usize,
        out: &mut [T],
    ) {
        let lanes = T::lanes::<S>();
        let mut cosines = [T::default(); LANES * LANES];
        let mut sines = [T::default(); LANES * LANES];
        let (cosines, sines) = (&mut cosines[..lanes * lanes], &mut sines[..lanes * lanes]);
        for (part, projected) in projected.chunks(lanes).enumerate() {
            let cos = T::vectors_mut::<S>(cosines).0;
            let sin = T::vectors_mut::<S>(sines).0;
            cosines_and_sines::<T, S>(simd, projected, self.turns, self.amplitude, cos, sin);
            transpose_block(simd, cosines);
            transpose_block(simd, sines);
            let (at, count) = (from + part * lanes, projected.len());
            let rows = out.chunks_exact_mut(2 * self.n_projections).take(n_rows);
            for (row, out) in rows.enumerate() {
                let (left, right) = out.split_at_mut(self.n_projections);
                let block = row * lanes..(row + 1) * lanes;
                store::<T, S>(&cosines[block.clone()], &mut left[at..at + count]);
                store::<T, S>(&sines[block], &mut right[at..at + count]);
            }
        }
    }
}

/// Copies a vector, or as much of it as there is room for.
#[inline(always)]
fn store<T: Real, S: Simd>(from: &[T], out: &mut [T]) {
    match (T::vectors::<S>(from).0, T::vectors_mut::<S>(out).0) {
        ([from], [out]) => *out = *from,
        _ => out.copy_from_slice(&from[..out.len()]),
    }
}
