//! Products of tiles and right-hand sides, in single precision.

use ndarray::ArrayView2;
use pulp::{Simd, WithSimd, bytemuck};

use crate::error::Result;
use crate::lower_triangle::TILE;
use crate::memory;
use crate::simd::{AlignedVec, prefetch};

/// Tiles side by side whose rows are met at once: the first-level cache holds the numbers that they
/// meet.
pub(super) const TILES: usize = 4;
/// Times that sums in single precision are added to before those in double precision are.
const TIMES: usize = 8;
/// Entries in the widest vector.
const LANES: usize = 16;

/// Right-hand sides, times the roots of what is left of variances of rows, in single precision.
///
/// Each is divided by its largest magnitude. They lie one after the other, with zeros up to whole
/// tiles.
pub(super) struct RightSides {
    numbers: AlignedVec<f32>,
    scales: Vec<f64>,
    n_padded: usize,
}

impl RightSides {
    #[allow(clippy::cast_possible_truncation)] // rounded
    pub(super) fn new(v: ArrayView2<'_, f64>, roots: &[f64]) -> Result<Self> {
        let n_padded = v.nrows().next_multiple_of(TILE);
        let mut numbers = AlignedVec::zeros(v.ncols() * n_padded)?;
        let mut scales = memory::with_capacity(v.ncols())?;
        for (k, v) in v.columns().into_iter().enumerate() {
            let largest =
                v.iter().zip(roots).fold(0.0_f64, |largest, (v, r)| largest.max((v * r).abs()));
            let scale = if largest > 0.0 { largest } else { 1.0 };
            for (out, (&v, root)) in numbers[k * n_padded..].iter_mut().zip(v.iter().zip(roots)) {
                *out = (v * root / scale) as f32;
            }
            scales.push(scale);
        }
        Ok(Self { numbers, scales, n_padded })
    }

    pub(super) fn n_outputs(&self) -> usize {
        self.scales.len()
    }

    /// What a right-hand side was divided by.
    pub(super) fn scale(&self, k: usize) -> f64 {
        self.scales[k]
    }

    /// The numbers that tiles from the `first` on meet.
    fn of_tiles(&self, k: usize, first: usize, n_tiles: usize) -> &[f32] {
        &self.numbers[k * self.n_padded + first * TILE..][..n_tiles * TILE]
    }
}

/// The products of the rows of one tile with all tiles that they are in.
pub(super) struct TileSums {
    /// In double precision, right-hand side after right-hand side.
    sums: AlignedVec<f64>,
    /// Sums over columns of tiles, in single precision: a vector for each row and right-hand side.
    of_rows: AlignedVec<f32>,
    /// How often these were added to.
    n_times: usize,
}

impl TileSums {
    pub(super) fn new(n_outputs: usize) -> Result<Self> {
        Ok(Self {
            sums: AlignedVec::zeros(n_outputs * TILE)?,
            of_rows: AlignedVec::zeros(n_outputs * TILE * LANES)?,
            n_times: 0,
        })
    }

    /// The products in double precision.
    pub(super) fn into_sums(mut self) -> AlignedVec<f64> {
        self.flush();
        self.sums
    }

    fn flush(&mut self) {
        for (sum, of_row) in self.sums.iter_mut().zip(self.of_rows.chunks_exact(LANES)) {
            *sum += of_row.iter().map(|&part| f64::from(part)).sum::<f64>();
        }
        self.of_rows.fill(0.0);
        self.n_times = 0;
    }
}

/// Adds the product of tiles side by side and the numbers of their columns.
pub(super) struct AddOfRows<'a> {
    /// At most [`TILES`].
    pub(super) tiles: &'a [i16],
    /// What is met next, which is asked for meanwhile: the columns of a tile are far apart.
    pub(super) next: &'a [i16],
    pub(super) right: &'a RightSides,
    /// Which of the tiles is the first.
    pub(super) first: usize,
    pub(super) out: &'a mut TileSums,
}

impl WithSimd for AddOfRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        add_all(simd, self.right.n_outputs(), &mut self);
        self.out.n_times += 1;
        if self.out.n_times == TIMES {
            self.out.flush();
        }
    }
}

impl Add for AddOfRows<'_> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // counted loops are unrolled whatever the profile
    fn add<S: Simd, const K: usize, const R: usize>(&mut self, simd: S, k: usize) -> usize {
        let width = TILE / S::F32_LANES;
        let n_tiles = self.tiles.len() / (TILE * TILE);
        let mut v = [S::as_simd_f32s(self.right.of_tiles(k, self.first, n_tiles)).0; K];
        for c in 0..K {
            v[c] = S::as_simd_f32s(self.right.of_tiles(k + c, self.first, n_tiles)).0;
        }
        for row in (0..TILE).step_by(R) {
            let mut sums = [[simd.splat_f32s(0.0); R]; K];
            for (t, tile) in self.tiles.chunks_exact(TILE * TILE).enumerate() {
                let start = row * TILE;
                for j in 0..width {
                    let mut x = [simd.splat_f32s(0.0); R];
                    for r in 0..R {
                        let at = start + r * TILE + j * S::F32_LANES;
                        prefetch(self.next, t * TILE * TILE + at);
                        x[r] = entries::<S>(&tile[at..at + S::F32_LANES]);
                    }
                    for c in 0..K {
                        let v = v[c][t * width + j];
                        for r in 0..R {
                            sums[c][r] = simd.mul_add_e_f32s(x[r], v, sums[c][r]);
                        }
                    }
                }
            }
            for c in 0..K {
                for r in 0..R {
                    let start = ((k + c) * TILE + row + r) * LANES;
                    let out = &mut self.out.of_rows[start..start + S::F32_LANES];
                    let out = &mut S::as_mut_simd_f32s(out).0[0];
                    *out = simd.add_f32s(*out, sums[c][r]);
                }
            }
        }
        K
    }
}

/// Adds the product of a tile, turned, and the numbers of its rows.
pub(super) struct AddOfColumns<'a> {
    pub(super) tile: &'a [i16],
    /// What is met next, as above.
    pub(super) next: &'a [i16],
    pub(super) right: &'a RightSides,
    /// Which tile of rows that is.
    pub(super) first: usize,
    pub(super) out: &'a mut TileSums,
}

impl WithSimd for AddOfColumns<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        add_all(simd, self.right.n_outputs(), &mut self);
    }
}

impl Add for AddOfColumns<'_> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // as above
    fn add<S: Simd, const K: usize, const N: usize>(&mut self, simd: S, k: usize) -> usize {
        let mut v = [self.right.of_tiles(k, self.first, 1); K];
        for c in 0..K {
            v[c] = &self.right.of_tiles(k + c, self.first, 1)[..TILE];
        }
        for column in (0..TILE).step_by(N * S::F32_LANES) {
            let mut sums = [[simd.splat_f32s(0.0); N]; K];
            for row in 0..TILE {
                let mut x = [simd.splat_f32s(0.0); N];
                for i in 0..N {
                    let at = row * TILE + column + i * S::F32_LANES;
                    prefetch(self.next, at);
                    x[i] = entries::<S>(&self.tile[at..at + S::F32_LANES]);
                }
                for c in 0..K {
                    let v = simd.splat_f32s(v[c][row]);
                    for i in 0..N {
                        sums[c][i] = simd.mul_add_e_f32s(x[i], v, sums[c][i]);
                    }
                }
            }
            for c in 0..K {
                let own = &mut self.out.sums[(k + c) * TILE + column..][..N * S::F32_LANES];
                for (sum, &part) in own.iter_mut().zip(bytemuck::cast_slice::<_, f32>(&sums[c])) {
                    *sum += f64::from(part);
                }
            }
        }
        K
    }
}

/// Sums for some right-hand sides.
trait Add {
    /// Adds those of `K` right-hand sides from the `k`-th on, with `N` rows or vectors of columns at a
    /// time: as many as registers hold. Returns `K`.
    fn add<S: Simd, const K: usize, const N: usize>(&mut self, simd: S, k: usize) -> usize;
}

/// Adds for all right-hand sides, as many at a time as there are.
#[inline(always)]
fn add_all<S: Simd>(simd: S, n_outputs: usize, sums: &mut impl Add) {
    let has_many_registers = S::REGISTER_COUNT >= 32;
    let mut k = 0;
    while k < n_outputs {
        k += match (n_outputs - k, has_many_registers) {
            (10.., true) => sums.add::<S, 10, 2>(simd, k),
            (10.., false) => sums.add::<S, 10, 1>(simd, k),
            (5.., true) => sums.add::<S, 5, 4>(simd, k),
            (5.., false) => sums.add::<S, 5, 2>(simd, k),
            (2.., true) => sums.add::<S, 2, 4>(simd, k),
            (2.., false) => sums.add::<S, 2, 2>(simd, k),
            (_, true) => sums.add::<S, 1, 4>(simd, k),
            (_, false) => sums.add::<S, 1, 2>(simd, k),
        };
    }
}

/// A vector of entries as they are kept, in single precision.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // as above
fn entries<S: Simd>(kept: &[i16]) -> S::f32s {
    let mut numbers = [0.0_f32; LANES];
    for k in 0..S::F32_LANES {
        numbers[k] = f32::from(kept[k]);
    }
    S::as_simd_f32s(&numbers[..S::F32_LANES]).0[0]
}
