//! The structured projection of a row.

use pulp::Simd;

use crate::chi2::AdditiveMap;
use crate::error::Result;
use crate::matrix::HistogramMatrix;
use crate::random_features::hadamard::signed_hadamard;
use crate::random_features::trigonometry::SineCosine;
use crate::simd::{AlignedVec, Real};

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
            signed_hadamard::<T, S>(simd, signs, Some(features), projected, cosines.len());
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
            signed_hadamard::<T, S>(simd, signs, None, features, size);
        }
    }
}
