//! Matrices interleaved: entry `e` of as many matrices as a vector has lanes is one vector.

use pulp::Simd;

use crate::error::Result;
use crate::memory;
use crate::simd::{AlignedVec, Vectors, lanes};

/// The most lanes of any instruction set.
pub(crate) const MAX_LANES: usize = 8;

/// A number for each lane.
pub(crate) type LaneValues = [f64; MAX_LANES];

/// Packed matrices in groups of as many as there are lanes.
#[derive(Debug)]
pub(crate) struct Groups {
    data: AlignedVec<f64>,
    n: usize,
    len: usize,
    lanes: usize,
}

impl Groups {
    /// Interleaves `n` packed matrices of `len` entries; lanes left over repeat the last matrix.
    pub(crate) fn new<'a>(
        n: usize,
        len: usize,
        matrix: impl Fn(usize) -> &'a [f64],
    ) -> Result<Self> {
        let mut groups = Self::zeros(n, len)?;
        for group in 0..groups.n_groups() {
            let lanes = groups.lanes;
            let data = groups.group_mut(group);
            for lane in 0..lanes {
                let source = matrix((group * lanes + lane).min(n - 1));
                for (vector, &value) in data.chunks_exact_mut(lanes).zip(source) {
                    vector[lane] = value;
                }
            }
        }
        Ok(groups)
    }

    /// Groups of `n` zero matrices.
    pub(crate) fn zeros(n: usize, len: usize) -> Result<Self> {
        let lanes = lanes::<f64>();
        let data = AlignedVec::zeros(n.div_ceil(lanes) * lanes * len)?;
        Ok(Self { data, n, len, lanes })
    }

    /// Number of matrices.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// Number of groups.
    pub(crate) fn n_groups(&self) -> usize {
        self.n.div_ceil(self.lanes)
    }

    /// Number of lanes.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes
    }

    /// Entries of a group, all lanes.
    pub(crate) fn group_len(&self) -> usize {
        self.len * self.lanes
    }

    /// The entries of a group, lanes innermost.
    pub(crate) fn group(&self, group: usize) -> &[f64] {
        &self.data[group * self.group_len()..(group + 1) * self.group_len()]
    }

    /// All groups, one after the other.
    pub(crate) fn all_mut(&mut self) -> &mut [f64] {
        &mut self.data
    }

    /// As [`Self::group`], to write.
    pub(crate) fn group_mut(&mut self, group: usize) -> &mut [f64] {
        let len = self.group_len();
        &mut self.data[group * len..(group + 1) * len]
    }

    /// The matrices themselves, one after the other.
    pub(crate) fn matrices(&self) -> Result<Vec<f64>> {
        let mut out = memory::filled(0.0, self.n * self.len)?;
        for (i, matrix) in out.chunks_exact_mut(self.len.max(1)).enumerate() {
            let group = self.group(i / self.lanes);
            for (value, vector) in matrix.iter_mut().zip(group.chunks_exact(self.lanes)) {
                *value = vector[i % self.lanes];
            }
        }
        Ok(out)
    }
}

/// Packed entries in every lane.
pub(crate) trait Entries<S: Simd>: Copy {
    /// Entry `e` of the matrix of each lane.
    fn get(self, simd: S, e: usize) -> S::f64s;
    /// The `n` entries from entry `start` on.
    fn part(self, start: usize, n: usize) -> Self;
}

/// One matrix for all lanes.
#[derive(Clone, Copy)]
pub(crate) struct Shared<'a>(pub(crate) &'a [f64]);

impl<S: Simd> Entries<S> for Shared<'_> {
    #[inline(always)]
    fn get(self, simd: S, e: usize) -> S::f64s {
        simd.splat_f64s(self.0[e])
    }
    #[inline(always)]
    fn part(self, start: usize, n: usize) -> Self {
        Self(&self.0[start..start + n])
    }
}

/// A matrix for each lane.
#[derive(Clone, Copy)]
pub(crate) struct Interleaved<'a, V>(pub(crate) &'a [V]);

impl<S: Simd> Entries<S> for Interleaved<'_, S::f64s> {
    #[inline(always)]
    fn get(self, _: S, e: usize) -> S::f64s {
        self.0[e]
    }
    #[inline(always)]
    fn part(self, start: usize, n: usize) -> Self {
        Self(&self.0[start..start + n])
    }
}

/// `-x`. That of `pulp` is a call, which costs more than the kernels around it.
#[inline(always)]
pub(crate) fn minus<S: Simd>(simd: S, x: S::f64s) -> S::f64s {
    simd.sub_f64s(simd.splat_f64s(0.0), x)
}

/// A group as vectors.
#[inline(always)]
pub(crate) fn vectors<S: Simd>(group: &[f64]) -> &[S::f64s] {
    f64::vectors::<S>(group).0
}

/// A group as vectors to write.
#[inline(always)]
pub(crate) fn vectors_mut<S: Simd>(group: &mut [f64]) -> &mut [S::f64s] {
    f64::vectors_mut::<S>(group).0
}
