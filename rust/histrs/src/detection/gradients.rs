//! Gradients of pixels, snapped to directions and added up in cells.

use super::image::Image;
use crate::error::Result;
use crate::memory;
use crate::simd::vectorized;

/// Directions of half a turn; opposite ones follow.
pub(super) const N_HALF: usize = 9;
/// Directions of a whole turn.
pub(super) const N_DIRECTIONS: usize = 2 * N_HALF;

/// Histograms of directions, a cell after the other, row by row.
pub(super) struct CellHistograms {
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) values: Vec<f32>,
}

vectorized!(
    /// Adds up, in cells of `cell x cell` pixels, the lengths of the gradients of each direction.
    ///
    /// The gradient is the difference of the neighbours on both sides, at a border with the pixel itself,
    /// in the channel where it is longest. It counts for the direction nearest to its own, `2 pi o / 18`,
    /// and for the four cells whose centres are around it, by bilinear weights; cells outside are left
    /// out.
    pub(super) fn count_gradients(
        image: &Image,
        cell: usize,
        rows: usize,
        columns: usize,
    ) -> Result<CellHistograms> {
        let width = image.columns;
        let mut values = memory::filled(0.0_f32, rows * columns * N_DIRECTIONS)?;
        let axes: [(f32, f32); N_HALF] = std::array::from_fn(|o| {
            let angle = std::f64::consts::PI * o as f64 / N_HALF as f64;
            (angle.cos() as f32, angle.sin() as f32)
        });
        let locations = memory::collected((0..width).map(|x| Location::of(x, cell)))?;
        let mut best = Row::new(width)?;
        let mut other = Row::new(width)?;
        let mut line = memory::filled(0.0_f32, (columns + 3) * N_DIRECTIONS)?;
        for y in 0..image.rows {
            for (channel, plane) in image.planes.iter().enumerate() {
                let row = |y: usize| &plane[y * width..][..width];
                let above = row(y.saturating_sub(1));
                let below = row((y + 1).min(image.rows - 1));
                if channel == 0 {
                    best.fill(row(y), above, below);
                } else {
                    other.fill(row(y), above, below);
                    best.take_longer(&other);
                }
            }
            best.snap(&axes);
            line.fill(0.0);
            let pixels = best.length.iter().zip(&best.direction);
            for (location, (length, &direction)) in locations.iter().zip(pixels) {
                let share = location.share * length;
                let bins = &mut line[location.before * N_DIRECTIONS + direction as usize..];
                let Some(bins) = bins.first_chunk_mut::<{ N_DIRECTIONS + 1 }>() else { continue };
                bins[0] += length - share;
                bins[N_DIRECTIONS] += share;
            }
            let location = Location::of(y, cell);
            let inner = &line[N_DIRECTIONS..(columns + 1) * N_DIRECTIONS];
            for (row, share) in
                [(location.before, 1.0 - location.share), (location.before + 1, location.share)]
            {
                if row >= 1 && row <= rows {
                    let out = &mut values[(row - 1) * inner.len()..][..inner.len()];
                    for (out, &value) in out.iter_mut().zip(inner) {
                        *out += share * value;
                    }
                }
            }
        }
        Ok(CellHistograms { rows, columns, values })
    }
);

/// Where a pixel lies between the centres of two cells, which are numbered from 1.
struct Location {
    before: usize,
    share: f32,
}

impl Location {
    fn of(pixel: usize, cell: usize) -> Self {
        let location = (pixel as f64 + 0.5) / cell as f64 + 0.5;
        Self { before: location as usize, share: location.fract() as f32 }
    }
}

/// The gradients of a row of pixels.
struct Row {
    across: Vec<f32>,
    down: Vec<f32>,
    length: Vec<f32>,
    direction: Vec<u32>,
}

impl Row {
    fn new(width: usize) -> Result<Self> {
        let zeros = || memory::filled(0.0, width);
        let direction = memory::filled(0, width)?;
        Ok(Self { across: zeros()?, down: zeros()?, length: zeros()?, direction })
    }

    /// Takes differences of neighbours.
    #[inline(always)]
    fn fill(&mut self, row: &[f32], above: &[f32], below: &[f32]) {
        let last = row.len() - 1;
        if last > 0 {
            let inner = self.across[1..last].iter_mut();
            for ((out, right), left) in inner.zip(&row[2..]).zip(row) {
                *out = right - left;
            }
        }
        self.across[0] = row[1.min(last)] - row[0];
        self.across[last] = row[last] - row[last.saturating_sub(1)];
        for ((out, below), above) in self.down.iter_mut().zip(below).zip(above) {
            *out = below - above;
        }
    }

    #[inline(always)]
    fn take_longer(&mut self, other: &Self) {
        let own = self.across.iter_mut().zip(&mut self.down);
        for ((across, down), (x, y)) in own.zip(other.across.iter().zip(&other.down)) {
            let longer = x * x + y * y > *across * *across + *down * *down;
            *across = if longer { *x } else { *across };
            *down = if longer { *y } else { *down };
        }
    }

    /// Finds the direction with the largest inner product, the first of several.
    #[inline(always)]
    fn snap(&mut self, axes: &[(f32, f32); N_HALF]) {
        let gradients = self.across.iter().zip(&self.down);
        let out = self.length.iter_mut().zip(&mut self.direction);
        for ((length, direction), (&across, &down)) in out.zip(gradients) {
            let (mut most, mut best) = (0.0, 0);
            for (o, &(cosine, sine)) in axes.iter().enumerate() {
                let product = cosine * across + sine * down;
                let side = if product >= 0.0 { o as u32 } else { (o + N_HALF) as u32 };
                let better = product.abs() > most;
                best = if better { side } else { best };
                most = if better { product.abs() } else { most };
            }
            *direction = best;
            *length = (across * across + down * down).sqrt();
        }
    }
}
