//! The structured projection of a row.

use ndarray::Array2;
use pulp::Simd;

use crate::chi2::AdditiveMap;
use crate::error::Result;
use crate::exec::Executor;
use crate::matrix::HistogramMatrix;
use crate::memory;
use crate::random_features::hadamard::signed_hadamard;
use crate::random_features::trigonometry::SineCosine;
use crate::simd::{AlignedVec, Real, vectorized};

/// Rounds of signs and transforms that all blocks of projections share.
pub(super) const SHARED_ROUNDS: usize = 2;

/// What is needed of the model, in the element type of the data.
pub(super) struct Plan<'a, T> {
    pub(super) map: &'a AdditiveMap,
    /// Signs of each round, first the shared ones, then one for each block of projections.
    pub(super) signs: &'a [AlignedVec<T>],
    /// Number of projections, a cosine and a sine of each.
    pub(super) n_projections: usize,
    /// From a transformed entry to the features.
    pub(super) sine_cosine: SineCosine<T>,
}

/// What is known of a row on its way.
pub(super) struct Buffers<T> {
    values: AlignedVec<T>,
    /// Features of the map, transformed in place by the shared rounds.
    features: AlignedVec<T>,
    projected: AlignedVec<T>,
}

impl<T: Real> Buffers<T> {
    pub(super) fn new(n_columns: usize, size: usize) -> Result<Self> {
        Ok(Self {
            values: AlignedVec::zeros(n_columns)?,
            features: AlignedVec::zeros(size)?,
            projected: AlignedVec::zeros(size)?,
        })
    }
}

impl<T: Real> Plan<'_, T> {
    /// The random features of a row.
    #[inline(always)]
    pub(super) fn transform_row<S: Simd>(
        &self,
        simd: S,
        x: &HistogramMatrix<'_, T>,
        row: usize,
        buffers: &mut Buffers<T>,
        out: &mut [T],
    ) {
        let Buffers { values, features, projected } = buffers;
        self.turn_row(simd, x, row, values, features);
        let (own, size) = (&self.signs[SHARED_ROUNDS..], features.len());
        let (cosines, sines) = out.split_at_mut(self.n_projections);
        let blocks = cosines.chunks_mut(size).zip(sines.chunks_mut(size));
        for (signs, (cosines, sines)) in own.iter().zip(blocks) {
            signed_hadamard(simd, signs, Some(features), projected, cosines.len());
            self.sine_cosine.write(simd, projected, cosines, sines);
        }
    }

    /// The features of the map of a row, after the rounds that all blocks share.
    #[inline(always)]
    pub(super) fn turn_row<S: Simd>(
        &self,
        simd: S,
        x: &HistogramMatrix<'_, T>,
        row: usize,
        values: &mut [T],
        features: &mut [T],
    ) {
        x.copy_row(row, values);
        let stride = values.len();
        self.map.map_values(simd, values, None, features, stride);
        features[stride * self.map.n_components()..].fill(T::default());
        let size = features.len();
        for signs in &self.signs[..SHARED_ROUNDS] {
            signed_hadamard(simd, signs, None, features, size);
        }
    }
}

/// Projections whose rows are made at a time, and rows of the matrix that they are written to.
const TOGETHER: usize = 16;
const ROWS: usize = 1024;

/// The matrix of a structured projection, a row for each feature of the map: its entries are whole
/// numbers, and exact.
pub(super) fn matrix(
    exec: &Executor,
    signs: &[AlignedVec<f64>],
    n_features: usize,
    n_projections: usize,
) -> Result<Array2<f64>> {
    let mut matrix = memory::zero_matrix((n_features, n_projections))?;
    for first in (0..n_projections).step_by(TOGETHER) {
        let together = TOGETHER.min(n_projections - first);
        let made = exec.map_blocks(together, |j| project(signs, first + j))?;
        let flat = memory::flat_mut(&mut matrix)?;
        exec.for_chunks(flat, ROWS * n_projections, |block, out| {
            for (row, out) in (block * ROWS..).zip(out.chunks_exact_mut(n_projections)) {
                out[first..].iter_mut().zip(&made).for_each(|(out, made)| *out = made[row]);
            }
            Ok(())
        })?;
    }
    Ok(matrix)
}

vectorized!(
    /// What features are multiplied with for one projection: `D_1 H D_2 H D_3 H e` with the unit vector `e`
    /// of the projection.
    fn project<S: Simd>(
        simd: S,
        signs: &[AlignedVec<f64>],
        number: usize,
    ) -> Result<AlignedVec<f64>> {
        let size = signs[0].len();
        let mut out = AlignedVec::zeros(size)?;
        for (f, out) in out.iter_mut().enumerate() {
            *out = if (f & (number % size)).count_ones() % 2 == 0 { 1.0 } else { -1.0 };
        }
        for signs in [&signs[SHARED_ROUNDS + number / size], &signs[1]] {
            signed_hadamard(simd, signs, None, &mut out, size);
        }
        out.iter_mut().zip(signs[0].iter()).for_each(|(out, sign)| *out *= sign);
        Ok(out)
    }
);
