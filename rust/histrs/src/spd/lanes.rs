//! Matrices interleaved: entry `e` of as many matrices as a vector has lanes is one vector.

use pulp::Simd;

use crate::error::Result;
use crate::memory;
use crate::simd::{AlignedVec, Vectors, lanes};

/// The most lanes of any instruction set.
pub(crate) const MAX_LANES: usize = 8;

/// Rows and columns of a register tile.
pub(crate) const TILE: usize = 4;

/// Calls a function of the rows of each tile, whose number it takes as a constant; fewer are last.
macro_rules! in_tiles {
    ($start:ident in $first:expr, $end:expr, $rows:ident => $call:expr) => {
        for $start in ($first..$end).step_by($crate::spd::lanes::TILE) {
            macro_rules! rows {
                ($n:expr) => {{
                    const $rows: usize = $n;
                    $call
                }};
            }
            match $end - $start {
                1 => rows!(1),
                2 => rows!(2),
                3 => rows!(3),
                _ => rows!($crate::spd::lanes::TILE),
            }
        }
    };
}
pub(crate) use in_tiles;

/// Calls a function of each tile of a lower triangle, whose numbers of rows and columns it takes as constants.
macro_rules! in_lower_tiles {
    ($i:ident, $j:ident in $p:expr, $rows:ident, $columns:ident => $call:expr) => {
        $crate::spd::lanes::in_tiles!($i in 0, $p, $rows => {
            for $j in (0..$i).step_by($crate::spd::lanes::TILE) {
                const $columns: usize = $crate::spd::lanes::TILE;
                $call;
            }
            const $columns: usize = $rows;
            let $j = $i;
            $call;
        });
    };
}
pub(crate) use in_lower_tiles;

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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use pulp::WithSimd;

    use super::*;
    use crate::simd::dispatch;

    fn entry(matrix: usize, e: usize) -> f64 {
        f64::from(u32::try_from(10 * matrix + e).unwrap())
    }

    #[test]
    fn matrices_are_found_in_their_lanes_and_come_back() {
        let lanes = lanes::<f64>();
        for n in [1, lanes, lanes + 1, 3 * lanes - 1] {
            let stored: Vec<Vec<f64>> =
                (0..n).map(|i| (0..3).map(|e| entry(i, e)).collect()).collect();
            let groups = Groups::new(n, 3, |i| &stored[i]).unwrap();
            assert_eq!((groups.n(), groups.n_groups()), (n, n.div_ceil(lanes)));
            for group in 0..groups.n_groups() {
                for (k, &value) in groups.group(group).iter().enumerate() {
                    let matrix = (group * lanes + k % lanes).min(n - 1);
                    assert_eq!(value, entry(matrix, k / lanes), "{n} {group} {k}");
                }
            }
            assert_eq!(groups.matrices().unwrap(), stored.concat());
        }
        assert!(Groups::zeros(0, 3).unwrap().matrices().unwrap().is_empty());
        assert!(Groups::zeros(2, 0).unwrap().matrices().unwrap().is_empty());
    }

    #[test]
    fn writing_to_a_group_changes_its_matrices_alone() {
        let n = 2 * lanes::<f64>();
        let mut groups = Groups::zeros(n, 2).unwrap();
        groups.group_mut(1).fill(1.0);
        let want: Vec<f64> = (0..2 * n).map(|k| if k < n { 0.0 } else { 1.0 }).collect();
        assert_eq!(groups.matrices().unwrap(), want);
        assert_eq!(groups.all_mut().len(), groups.n_groups() * groups.group_len());
    }

    /// Entry `e` from `start` on, of one matrix for all lanes and of one for each, and less both.
    struct Read {
        start: usize,
        e: usize,
    }

    impl WithSimd for Read {
        type Output = [Vec<f64>; 3];

        fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
            let Self { start, e } = self;
            let flat: Vec<f64> = (0..5).map(|e| entry(9, e)).collect();
            let stored: Vec<Vec<f64>> =
                (0..S::F64_LANES).map(|i| (0..5).map(|e| entry(i, e)).collect()).collect();
            let groups = Groups::new(stored.len(), 5, |i| &stored[i]).unwrap();
            let lanes_of = |x: S::f64s| pulp::bytemuck::cast_slice(&[x]).to_vec();
            let shared = <Shared as Entries<S>>::part(Shared(&flat), start, 2);
            let own = <Interleaved<S::f64s> as Entries<S>>::part(
                Interleaved(vectors::<S>(groups.group(0))),
                start,
                2,
            );
            let own = own.get(simd, e);
            [lanes_of(shared.get(simd, e)), lanes_of(own), lanes_of(minus(simd, own))]
        }
    }

    #[test]
    fn entries_are_those_of_the_matrix_of_each_lane() {
        for (start, e) in [(0, 0), (0, 1), (3, 0), (3, 1)] {
            let [shared, own, negative] = dispatch(Read { start, e });
            assert!(shared.iter().all(|&x| x == entry(9, start + e)));
            for (lane, (&x, &y)) in own.iter().zip(&negative).enumerate() {
                assert_eq!((x, y), (entry(lane, start + e), -entry(lane, start + e)));
            }
        }
    }
}
