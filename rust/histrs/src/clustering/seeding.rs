//! The first centres, by k-means++.
//!
//! A row becomes a candidate with a probability proportional to its squared distance from the
//! centres so far. Of a few candidates the one is taken after which the sum of the squared distances
//! is least, as Arthur and Vassilvitskii recommend. That sum is computed of scores of bytes; the
//! distances themselves are exact.

use pulp::Simd;

use crate::clustering::bytes::{ByteRow, ByteRows};
use crate::clustering::frame::Frame;
use crate::clustering::panels::{CHUNK, Panels, Tile};
use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::simd::{ByteProducts, PRODUCT_TILE, Real, vectorized};

/// Rows that are passed over at once where one is drawn.
const STRETCH: usize = 64;

/// A block of rows, and how far they are from the centres so far.
#[derive(Debug)]
struct Block<'a, T> {
    x: &'a [T],
    panels: Panels,
    /// Squared distances, in the coordinates of the frame; 0 in the padding.
    closest: Vec<f32>,
    /// Their sums, over stretches of rows.
    sums: Vec<f64>,
    /// What their sum would be if each candidate became a centre.
    totals: Vec<f64>,
    tile: Tile,
}

/// Returns the rows that are the first centres, one for each row of `draws`, whose numbers in [0, 1)
/// choose the candidates.
pub(super) fn first_centers<T: Real>(
    exec: &Executor,
    frame: &Frame<T>,
    x: &[T],
    blocks: &[ByteRows],
    block_rows: usize,
    draws: &[f64],
    n_candidates: usize,
) -> Result<Vec<usize>> {
    let n_columns = frame.centre.len();
    let n_rows = x.len() / n_columns;
    let mut seeding = exec.map_blocks(blocks.len(), |block| {
        let rows = &blocks[block];
        let start = block * block_rows * n_columns;
        let x = &x[start..start + rows.rows.len() * n_columns];
        let panels = Panels::new(rows, n_columns)?;
        let mut closest = memory::filled(f32::INFINITY, panels.n_padded())?;
        closest[rows.rows.len()..].fill(0.0);
        let sums = memory::filled(0.0, closest.len() / STRETCH)?;
        let tile = Tile::new(PRODUCT_TILE, rows.n_quads, panels.n_padded())?;
        let totals = memory::with_capacity(n_candidates)?;
        Ok(Block { x, panels, closest, sums, totals, tile })
    })?;
    let mut chosen = memory::with_capacity(draws.len() / n_candidates)?;
    let mut candidates = memory::with_capacity(n_candidates)?;
    for draws in draws.chunks_exact(n_candidates) {
        candidates.clear();
        let total: f64 = seeding.iter().flat_map(|block| &block.sums).sum();
        let is_first = chosen.is_empty();
        for &draw in if is_first { &draws[..1] } else { draws } {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the rows
            let any = ((draw * n_rows as f64) as usize).min(n_rows - 1);
            // Where every row is a centre already, any is as good.
            let is_even = is_first || !(total > 0.0 && total.is_finite());
            let row = if is_even { any } else { drawn(&seeding, block_rows, draw * total) };
            candidates.push(row);
        }
        let indices =
            memory::collected(candidates.iter().map(|&row| (row / block_rows, row % block_rows)))?;
        let best = match indices.len() {
            1 => 0,
            _ => {
                exec.for_chunks(&mut seeding, 1, |_, block| {
                    for block in block {
                        total_losses(block, blocks, &indices);
                    }
                    Ok(())
                })?;
                let total = |i: usize| -> f64 { seeding.iter().map(|block| block.totals[i]).sum() };
                (1..indices.len()).fold(0, |best, i| if total(i) < total(best) { i } else { best })
            }
        };
        let row = candidates[best];
        chosen.push(row);
        let center = &x[row * n_columns..(row + 1) * n_columns];
        exec.for_chunks(&mut seeding, 1, |_, block| {
            for block in block {
                approach(frame, block, blocks, indices[best], center);
            }
            Ok(())
        })?;
    }
    Ok(chosen)
}

/// The first row at which the sum of squared distances exceeds `target`.
fn drawn<T>(blocks: &[Block<'_, T>], block_rows: usize, target: f64) -> usize {
    let (mut sum, mut last) = (0.0, 0);
    for (i, block) in blocks.iter().enumerate() {
        for ((k, &total), stretch) in
            block.sums.iter().enumerate().zip(block.closest.chunks_exact(STRETCH))
        {
            if sum + total <= target {
                sum += total;
                continue;
            }
            for (j, &closest) in stretch.iter().enumerate() {
                sum += f64::from(closest);
                if closest > 0.0 {
                    last = i * block_rows + k * STRETCH + j;
                    if sum > target {
                        return last;
                    }
                }
            }
        }
    }
    // Rounding has taken the end away.
    last
}

vectorized!(
    /// Finds the sums of the squared distances of a block if each of some candidates became a centre.
    fn total_losses<S: Simd, T: Real>(
        simd: S,
        block: &mut Block<'_, T>,
        blocks: &[ByteRows],
        candidates: &[(usize, usize)],
    ) {
        let Block { panels, closest, totals, tile, .. } = block;
        totals.clear();
        for candidates in candidates.chunks(PRODUCT_TILE) {
            tile.clear();
            candidates.iter().for_each(|&(block, row)| tile.push(&blocks[block], row));
            tile.multiply(ByteProducts::new(), panels);
            for (index, &(block, row)) in candidates.iter().enumerate() {
                let row = &blocks[block].rows[row];
                tile.score(simd, index, row, panels);
                totals.push(sum_of_smaller(simd, &tile.scores, row.squares, closest));
            }
        }
    }
);

#[inline(always)]
fn sum_of_smaller<S: Simd>(simd: S, scores: &[f32], squares: f32, closest: &[f32]) -> f64 {
    let (squares, zero) = (simd.splat_f32s(squares), simd.splat_f32s(0.0));
    let mut sum = zero;
    for (&score, &closest) in S::as_simd_f32s(scores).0.iter().zip(S::as_simd_f32s(closest).0) {
        let found = simd.add_f32s(simd.add_f32s(score, score), squares);
        sum = simd.add_f32s(sum, simd.max_f32s(simd.min_f32s(found, closest), zero));
    }
    f64::from(simd.reduce_sum_f32s(sum))
}

vectorized!(
    /// Takes a row for a centre.
    fn approach<S: Simd, T: Real>(
        simd: S,
        frame: &Frame<T>,
        block: &mut Block<'_, T>,
        blocks: &[ByteRows],
        candidate: (usize, usize),
        center: &[T],
    ) {
        let Block { x, panels, closest, sums, tile, .. } = block;
        tile.clear();
        tile.push(&blocks[candidate.0], candidate.1);
        tile.multiply(ByteProducts::new(), panels);
        let row: &ByteRow = &blocks[candidate.0].rows[candidate.1];
        let bound = tile.score(simd, 0, row, panels).bound;
        let least = row.squares - 2.0 * bound;
        let n_columns = center.len();
        for (chunk, (scores, closest)) in (0..)
            .zip(tile.scores.as_chunks::<CHUNK>().0.iter().zip(closest.as_chunks_mut::<CHUNK>().0))
        {
            // A row that is certainly no nearer stays where it is.
            let is_far = |score: f32, closest: f32| 2.0 * score + least > closest;
            let any = (0..CHUNK).fold(false, |any, k| any | !is_far(scores[k], closest[k]));
            if !any {
                continue;
            }
            for k in 0..CHUNK {
                let at = (chunk * CHUNK + k) * n_columns;
                let Some(x) = x.get(at..at + n_columns) else { break };
                if !is_far(scores[k], closest[k]) {
                    #[allow(clippy::cast_possible_truncation)] // as exact as a draw has to be
                    let found = frame.squared_distance(x, center) as f32;
                    closest[k] = if found < closest[k] { found } else { closest[k] };
                }
            }
        }
        for (sum, closest) in sums.iter_mut().zip(closest.chunks_exact(STRETCH)) {
            *sum = closest.iter().map(|&closest| f64::from(closest)).sum();
        }
    }
);
