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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Knots, their values for each of some outputs, and how many rows hold each knot but the first.
    #[derive(Debug, Clone)]
    struct Column {
        knots: Vec<f64>,
        values: Vec<f64>,
        n_outputs: usize,
        counts: Vec<usize>,
    }

    impl Column {
        fn function(&self) -> Function<'_> {
            Function { knots: &self.knots, values: &self.values, n_outputs: self.n_outputs }
        }

        fn n_rows(&self) -> usize {
            self.counts.iter().sum::<usize>() + 7
        }

        /// What the nodes of `placement` are off by at every knot, for one output, how many rows
        /// hold the knot, and the fraction of every node in it.
        fn errors(
            &self,
            placement: Placement,
            nodes: &[f64],
            output: usize,
        ) -> Vec<(f64, f64, Vec<f64>)> {
            let edges: Vec<f64> = (0..NODES).map(|node| edge(placement, node)).collect();
            let of_knot = |(k, &x): (usize, &f64)| {
                let cell = (1..CELLS).take_while(|&cell| edges[cell] <= x).count();
                let t = (x - edges[cell]) / (edges[cell + 1] - edges[cell]);
                let mut shares = vec![0.0; NODES];
                shares[cell] = 1.0 - t;
                shares[cell + 1] = t;
                let looked_up: f64 =
                    (0..NODES).map(|j| shares[j] * nodes[j * self.n_outputs + output]).sum();
                let count = if k == 0 { 0.0 } else { self.counts[k - 1] as f64 };
                (self.values[k * self.n_outputs + output] - looked_up, count, shares)
            };
            self.knots.iter().enumerate().map(of_knot).collect()
        }

        /// The same means of errors and of their squares as those of [`Moments`].
        fn moments(&self, placement: Placement, nodes: &[f64], output: usize) -> (f64, f64) {
            let n_rows = self.n_rows() as f64;
            let errors = self.errors(placement, nodes, output);
            let mean = errors.iter().map(|(error, count, _)| count * error).sum::<f64>() / n_rows;
            let square =
                errors.iter().map(|(error, count, _)| count * error * error).sum::<f64>() / n_rows;
            (mean, square - mean * mean)
        }

        fn total(&self, placement: Placement, nodes: &[f64]) -> f64 {
            (0..self.n_outputs)
                .map(|output| self.moments(placement, nodes, output))
                .map(|(mean, variance)| mean * mean + variance)
                .sum()
        }
    }

    fn column() -> impl Strategy<Value = Column> {
        let knot = prop_oneof![
            (1e-3..1.0_f64).prop_map(|gap| gap),
            Just(1.0),
            (1_u32..40).prop_map(f64::from),
        ];
        let knots = prop::collection::vec((knot, 1..9_usize), 1..80);
        let scale = prop::sample::select(&[1.0, 0.1, 1e-20, 1e20][..]);
        (knots, 1..4_usize, scale, any::<u64>()).prop_map(|(gaps, n_outputs, scale, seed)| {
            let mut knots = vec![0.0];
            for (gap, _) in &gaps {
                knots.push(knots[knots.len() - 1] + gap * scale);
            }
            let counts = gaps.iter().map(|gap| gap.1).collect();
            // Weyl's sequence: rough values between -1 and 1, of which the first are 0.
            let value = |at: usize| {
                let turn = (at as f64 + (seed % 1000) as f64) * 0.618_033_988_749_895;
                2.0 * turn.fract() - 1.0
            };
            let n_values = knots.len() * n_outputs;
            let values =
                (0..n_values).map(|at| if at < n_outputs { 0.0 } else { value(at) }).collect();
            Column { knots, values, n_outputs, counts }
        })
    }

    fn near(a: f64, b: f64, size: f64) -> bool {
        (a - b).abs() <= 1e-9 * size
    }

    proptest! {
        #[test]
        fn nodes_are_those_of_least_squares(column in column()) {
            let function = column.function();
            let n = column.n_outputs;
            for placement in function.placements(column.knots[column.knots.len() - 1]) {
                let start = function.nodes(placement).unwrap();
                let (nodes, farthest) = function.fitted(placement, &column.counts).unwrap();
                for output in 0..n {
                    let at = |j: usize| nodes[j * n + output] - start[j * n + output];
                    let largest = (0..NODES).map(|j| at(j).abs()).fold(0.0, f64::max);
                    prop_assert!(near(farthest[output], largest, 1.0));
                    prop_assert!(at(0) == 0.0 && nodes[output] == 0.0);
                    // The derivative of the squares, and of half a row's at every node, is 0.
                    let errors = column.errors(placement, &nodes, output);
                    for j in 1..NODES {
                        let pull: f64 =
                            errors.iter().map(|(error, count, shares)| count * error * shares[j]).sum();
                        prop_assert!(near(pull, 0.5 * at(j), 1e3), "{j}: {pull:e} {:e}", at(j));
                    }
                }
            }
        }

        #[test]
        fn the_best_placement_has_the_least_mean_square(column in column()) {
            let function = column.function();
            let best = function.best(&column.counts, column.n_rows()).unwrap().unwrap();
            let n = column.n_outputs;
            let total = column.total(best.placement, &best.nodes);
            for placement in function.placements(column.knots[column.knots.len() - 1]) {
                let (nodes, _) = function.fitted(placement, &column.counts).unwrap();
                prop_assert!(total <= column.total(placement, &nodes) * (1.0 + 1e-9) + 1e-12);
            }
            let start = function.nodes(best.placement).unwrap();
            for (output, moments) in best.moments.iter().enumerate() {
                let (mean, variance) = column.moments(best.placement, &best.nodes, output);
                prop_assert!(near(moments.mean, mean, 1.0), "{:e} {mean:e}", moments.mean);
                prop_assert!(near(moments.variance, variance, 1.0));
                let at_knots = column.errors(best.placement, &best.nodes, output);
                let at_knots = at_knots.iter().map(|(error, ..)| error.abs()).fold(0.0, f64::max);
                let moves = (0..NODES).map(|j| best.nodes[j * n + output] - start[j * n + output]);
                let largest = moves.map(f64::abs).fold(at_knots, f64::max);
                prop_assert!(near(best.errors[output], largest, 1.0));
            }
        }
    }

    /// A straight line of one output from 0 on.
    fn line(knots: &[f64]) -> Column {
        let values = knots.to_vec();
        Column { knots: knots.to_vec(), values, n_outputs: 1, counts: vec![1; knots.len() - 1] }
    }

    /// The values at the upper edges of the first cell and of the last.
    fn ends(placement: Placement) -> (f64, f64) {
        (edge(placement, 1), edge(placement, CELLS))
    }

    #[test]
    fn small_whole_numbers_lie_at_edges() {
        for (knots, end) in [
            (vec![0.0, 1.0], 128.0),
            (vec![0.0, 3.0, 127.0], 128.0),
            (vec![0.0, 1.0, 128.0], 256.0),
            (vec![0.0, 254.0, 255.0], 256.0),
        ] {
            let column = line(&knots);
            let placements = column.function().placements(knots[knots.len() - 1]);
            assert_eq!(placements.len(), 1, "{knots:?}");
            assert_eq!(ends(placements[0]), (end / 128.0, end));
        }
    }

    #[test]
    fn multiples_of_a_unit_lie_at_edges_too() {
        let unit = 0.1;
        let scaled = |n: &[u32]| -> Vec<f64> { n.iter().map(|&n| f64::from(n) * unit).collect() };
        for (numbers, cells) in [
            (&[0, 1, 2, 17][..], 128.0),
            (&[0, 5, 6, 127], 128.0),
            (&[0, 5, 6, 128], 256.0),
            (&[0, 1, 255], 256.0),
        ] {
            let knots = scaled(numbers);
            let column = line(&knots);
            let placements = column.function().placements(knots[knots.len() - 1]);
            assert_eq!(placements.len(), 5, "{numbers:?}");
            let (first, last) = ends(placements[0]);
            assert!(near(first, cells * unit / 128.0, 1e3 * unit), "{first}");
            assert!((last / (cells * unit) - 1.0).abs() < 1e-6, "{last}");
        }
        // Too many, not of one unit, or whole numbers among others.
        for knots in
            [scaled(&[0, 1, 256]), vec![0.0, 0.3, 0.7, 1.05], vec![0.0, 1.0, 2.5, 2.8, 9.0]]
        {
            let column = line(&knots);
            let top = knots[knots.len() - 1];
            assert!(column.function().unit(top).is_none(), "{knots:?}");
            let placements = column.function().placements(top);
            // The width of cells doubles 1, 2, 4 and 8 times: 128 / doublings of one width.
            for (placement, doublings) in placements.iter().zip(DOUBLINGS) {
                let widths =
                    [0, CELLS - 1].map(|cell| edge(*placement, cell + 1) - edge(*placement, cell));
                let times = f64::from(1_u32 << (doublings - 1));
                assert!(near(widths[1] / widths[0], times, 1e4), "{widths:?}");
                assert!(edge(*placement, CELLS) >= top);
                assert!(edge(*placement, CELLS - 1) <= top);
            }
            assert_eq!(placements.len(), DOUBLINGS.len());
        }
    }

    #[test]
    fn of_placements_that_are_as_good_the_first_is_taken() {
        let mut column = line(&[0.0, 0.3, 0.7, 1.05]);
        column.values.fill(0.0);
        let best = column.function().best(&column.counts, 3).unwrap().unwrap();
        assert_eq!(ends(best.placement), ends(column.function().placements(1.05)[0]));
    }

    #[test]
    fn columns_have_placements_up_to_the_largest_single() {
        let largest = f64::from(f32::MAX);
        for (top, placed) in [(largest, true), (largest * (1.0 + 1e-6), false), (1e-300, false)] {
            let column = line(&[0.0, 0.3 * top, top]);
            let best = column.function().best(&column.counts, 2).unwrap();
            assert_eq!(best.is_some(), placed, "{top:e}");
        }
    }

    #[test]
    fn whole_numbers_are_found_but_for_rounding() {
        let whole = |knots: &[f64]| whole_numbers(knots).unwrap();
        assert_eq!(whole(&[0.0, 1.0 + 1e-9, 254.999_99]), Some(vec![0.0, 1.0, 255.0]));
        assert_eq!(whole(&[0.0, 256.0]), None);
        assert_eq!(whole(&[0.0, 1.0 - 1e-6]), None);
        assert_eq!(whole(&[0.0, 200.5]), None);
        // Two of them may be one number.
        assert_eq!(whole(&[0.0, 7.0, 7.0 + 1e-9]), None);
    }
}
