//! Where the cells of a column are placed, and what its function is at their edges.

use crate::error::Result;
use crate::intersection::lookup::moments::Moments;
use crate::memory;
use crate::simd::{BYTE_CELLS as CELLS, LAST_CODE, Placement};

/// Nodes of a column: one more than cells.
pub(super) const NODES: usize = CELLS + 1;
/// Times that the width of cells may double: powers of two.
const DOUBLINGS: [u32; 4] = [1, 2, 4, 8];
/// What rounding may move a value by, relatively, that was a whole number before it was multiplied
/// by the weight of its column.
const SLACK: f64 = 1.0 / (1 << 22) as f64;

/// A placement and nodes, with the largest error and the moments of every output.
pub(super) struct Best {
    pub(super) placement: Placement,
    pub(super) nodes: Vec<f64>,
    pub(super) errors: Vec<f64>,
    pub(super) moments: Vec<Moments>,
}

/// A piecewise linear function of one column with some outputs.
pub(super) struct Function<'a> {
    pub(super) knots: &'a [f64],
    /// Those at the first knot, then those at the next.
    pub(super) values: &'a [f64],
    pub(super) n_outputs: usize,
}

impl Function<'_> {
    /// The placement and the nodes that are off by least in the mean square over the training rows,
    /// the largest error of every output, and the moments.
    pub(super) fn best(&self, counts: &[usize], n_rows: usize) -> Result<Option<Best>> {
        let top = self.knots[self.knots.len() - 1];
        if top <= 0.0 {
            let zeros = |n: usize| memory::filled(0.0, n);
            return Ok(Some(Best {
                placement: Placement { scale: 0.0, shift: 9, last: 0 },
                nodes: zeros(NODES * self.n_outputs)?,
                errors: zeros(self.n_outputs)?,
                moments: memory::filled(Moments::default(), self.n_outputs)?,
            }));
        }
        // Codes are of single precision, in which a larger number is infinite and has the last one.
        if top > f64::from(f32::MAX) {
            return Ok(None);
        }
        let mut best: Option<(f64, Best)> = None;
        for placement in self.placements(top) {
            if !placement.scale.is_normal() {
                continue;
            }
            let (nodes, moves) = self.fitted(placement, counts)?;
            let moments = self.moments(placement, &nodes, counts, n_rows)?;
            let total = moments.iter().map(|m| m.mean * m.mean + m.variance).sum();
            if best.as_ref().is_none_or(|best| total < best.0) {
                best = Some((total, Best { placement, nodes, errors: moves, moments }));
            }
        }
        let Some((_, mut best)) = best else { return Ok(None) };
        // Both functions are linear between knots and nodes: where they differ most is one of these.
        for (error, at_knots) in
            best.errors.iter_mut().zip(self.errors(best.placement, &best.nodes)?)
        {
            *error = error.max(at_knots);
        }
        Ok(Some(best))
    }

    /// The moments of every output over the training rows.
    fn moments(
        &self,
        placement: Placement,
        nodes: &[f64],
        counts: &[usize],
        n_rows: usize,
    ) -> Result<Vec<Moments>> {
        let mut sums = memory::filled((0.0_f64, 0.0_f64), self.n_outputs)?;
        let mut counts = std::iter::once(&0).chain(counts);
        self.visit(placement, nodes, |_, errors| {
            let count = counts.next().map_or(0.0, |&count| count as f64);
            for (sums, error) in sums.iter_mut().zip(errors) {
                sums.0 += count * error;
                sums.1 += count * error * error;
            }
        })?;
        memory::collected(sums.into_iter().map(|(sum, sq)| Moments::of_sums(sum, sq, n_rows)))
    }

    /// Ways to place cells from 0 to `top`. Small whole numbers have one, which is exact for them.
    fn placements(&self, top: f64) -> Vec<Placement> {
        let finish = |scale: f32, shift: u32| {
            let mut placement = Placement { scale, shift, last: LAST_CODE };
            #[allow(clippy::cast_possible_truncation)] // scores are of single precision here
            let last = placement.code(top as f32);
            placement.last = last;
            placement
        };
        if top <= 255.0 && self.knots.iter().all(|x| x.fract() == 0.0) {
            return vec![finish(if top <= 127.0 { 1.0 / 128.0 } else { 1.0 / 256.0 }, 9)];
        }
        let of = |doublings: u32| {
            // A little less, so that the largest value has a code in spite of rounding.
            let widest = (f64::from(1_u32 << doublings) - 1.0) * (1.0 - 2.0_f64.powi(-11));
            #[allow(clippy::cast_possible_truncation)] // scales are of single precision
            finish((widest / top) as f32, 9 + doublings.ilog2())
        };
        let mut placements: Vec<_> = DOUBLINGS.into_iter().map(of).collect();
        if let Some(unit) = self.unit(top) {
            let cells = if top / unit < 127.5 { 128.0 } else { 256.0 };
            #[allow(clippy::cast_possible_truncation)] // scales are of single precision
            placements.insert(0, finish((1.0 / (cells * unit)) as f32, 9));
        }
        placements
    }

    /// What all knots are small multiples of, but for rounding, as those of scaled whole numbers.
    fn unit(&self, top: f64) -> Option<f64> {
        let least = self.knots.windows(2).map(|w| w[1] - w[0]).fold(top, f64::min);
        let unit = top / (top / least).round();
        let near = |x: f64| (x / unit - (x / unit).round()).abs() < 1e-4;
        (top / unit < 255.5 && self.knots.iter().all(|&x| near(x))).then_some(unit)
    }

    /// The function at the lower edge of every cell, and at the end of the last.
    fn nodes(&self, placement: Placement) -> Result<Vec<f64>> {
        let n = self.n_outputs;
        let mut nodes = memory::with_capacity(NODES * n)?;
        let mut k = 0;
        for node in 0..NODES {
            let x = edge(placement, node);
            while self.knots.get(k + 1).is_some_and(|&next| next <= x) {
                k += 1;
            }
            let at = &self.values[k * n..(k + 1) * n];
            match self.knots.get(k + 1) {
                Some(&next) => {
                    let t = (x - self.knots[k]) / (next - self.knots[k]);
                    let next = &self.values[(k + 1) * n..(k + 2) * n];
                    nodes.extend(at.iter().zip(next).map(|(a, b)| a + t * (b - a)));
                }
                None => nodes.extend_from_slice(at),
            }
        }
        Ok(nodes)
    }

    /// Visits every knot: its place, and what each output is off by.
    fn visit(
        &self,
        placement: Placement,
        nodes: &[f64],
        mut visit: impl FnMut((usize, f64), &[f64]),
    ) -> Result<()> {
        let n = self.n_outputs;
        let mut errors = memory::filled(0.0, n)?;
        for (&x, values) in self.knots.iter().zip(self.values.chunks_exact(n)) {
            let (cell, t) = place(placement, x);
            let (at, next) = nodes[cell * n..(cell + 2) * n].split_at(n);
            for (((error, value), at), next) in errors.iter_mut().zip(values).zip(at).zip(next) {
                *error = value - (at + t * (next - at));
            }
            visit((cell, t), &errors);
        }
        Ok(())
    }

    /// The largest error of every output at a knot.
    fn errors(&self, placement: Placement, nodes: &[f64]) -> Result<Vec<f64>> {
        let mut largest = memory::filled(0.0_f64, self.n_outputs)?;
        self.visit(placement, nodes, |_, errors| {
            for (largest, error) in largest.iter_mut().zip(errors) {
                *largest = largest.max(error.abs());
            }
        })?;
        Ok(largest)
    }

    /// The nodes of least squares over the training rows, but for that of 0, and how far the
    /// farthest of every output is from the function.
    ///
    /// Half a row at every node pulls to the function: nodes without rows stay there.
    fn fitted(&self, placement: Placement, counts: &[usize]) -> Result<(Vec<f64>, Vec<f64>)> {
        const HALF_A_ROW: f64 = 0.5;
        let n = self.n_outputs;
        let mut nodes = self.nodes(placement)?;
        // A node is shared by the cells beside it only: the normal equations are tridiagonal.
        let mut diagonal = [HALF_A_ROW; NODES];
        let mut beside = [0.0; NODES];
        let mut moves = memory::filled(0.0_f64, NODES * n)?;
        let mut counts = std::iter::once(&0).chain(counts);
        self.visit(placement, &nodes, |(cell, t), errors| {
            let count = counts.next().map_or(0.0, |&count| count as f64);
            let (left, right) = (count * (1.0 - t), count * t);
            diagonal[cell] += left * (1.0 - t);
            beside[cell] += left * t;
            diagonal[cell + 1] += right * t;
            let (at, next) = moves[cell * n..(cell + 2) * n].split_at_mut(n);
            for ((at, next), error) in at.iter_mut().zip(next).zip(errors) {
                *at += left * error;
                *next += right * error;
            }
        })?;
        // The function is 0 at 0.
        moves[..n].fill(0.0);
        for node in 2..NODES {
            let factor = beside[node - 1] / diagonal[node - 1];
            diagonal[node] -= factor * beside[node - 1];
            let (before, here) = moves[(node - 1) * n..(node + 1) * n].split_at_mut(n);
            here.iter_mut().zip(before).for_each(|(here, before)| *here -= factor * *before);
        }
        for node in (1..NODES).rev() {
            let (here, after) = moves[node * n..].split_at_mut(n);
            for (output, here) in here.iter_mut().enumerate() {
                let after = after.get(output).map_or(0.0, |after| beside[node] * after);
                *here = (*here - after) / diagonal[node];
            }
        }
        let mut farthest = memory::filled(0.0_f64, n)?;
        for (nodes, moves) in nodes.chunks_exact_mut(n).zip(moves.chunks_exact(n)) {
            for ((node, by), farthest) in nodes.iter_mut().zip(moves).zip(&mut farthest) {
                *node += by;
                *farthest = farthest.max(by.abs());
            }
        }
        Ok((nodes, farthest))
    }
}

/// Knots that are small whole numbers but for the rounding of a weight, as such numbers.
pub(super) fn whole_numbers(knots: &[f64]) -> Result<Option<Vec<f64>>> {
    let near = |&x: &f64| x < 256.0 && (x - x.round()).abs() <= SLACK * x;
    if !knots.iter().all(near) {
        return Ok(None);
    }
    let whole = memory::collected(knots.iter().map(|x| x.round()))?;
    Ok(whole.windows(2).all(|pair| pair[0] < pair[1]).then_some(whole))
}

/// The lower edge of a cell.
#[allow(clippy::cast_possible_truncation)] // at most 128
fn edge(placement: Placement, cell: usize) -> f64 {
    let bits = 1.0_f32.to_bits() + ((128 * cell as u32) << placement.shift);
    (f64::from(f32::from_bits(bits)) - 1.0) / f64::from(placement.scale)
}

/// The cell of a value that is not above the largest of the column, and how far it lies from its
/// lower edge, 0, to its upper one, 1.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 128 cells
fn place(placement: Placement, x: f64) -> (usize, f64) {
    let y = 1.0 + x * f64::from(placement.scale);
    let steps = (y.to_bits() - 1.0_f64.to_bits()) as f64 / (1_u64 << 52) as f64;
    let position = steps * f64::from(1_u32 << (23 - 7 - placement.shift));
    let cell = (position as usize).min(CELLS - 1);
    (cell, position - cell as f64)
}
