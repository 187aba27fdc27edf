//! Sums of functions of single columns, and of pairs of columns.

use std::ops::Range;

use super::archive::{Archive, damaged, require};
use crate::error::Result;
use crate::intersection::Transform;
use crate::memory;

/// Coefficients of a piece, at most: cubics.
const MOST_TERMS: usize = 4;
/// Beyond what is that large nothing changes: differences are finite for lines, and their cubes for cubics.
const LARGEST: [f64; 2] = [1e300, 1e100];

/// `b + sum_d f_d(u(d)) + sum_(i, j) f_ij(u(i), u(j))` of `u(d) = w_d g(x(d))`.
///
/// Each `f_d` is a polynomial between neighbouring knots, below the first and above the last. Each
/// `f_ij` is bilinear between the nodes of a grid and constant beyond, or constant on cells.
#[derive(Debug)]
pub(super) struct Additive {
    transform: Transform,
    weights: Vec<f64>,
    /// Where the knots of each column begin, and where the last end.
    starts: Vec<usize>,
    knots: Vec<f64>,
    /// Coefficients of a piece, from the constant on, each of all outputs.
    terms: Vec<f64>,
    n_terms: usize,
    offset: Vec<f64>,
    pairs: Vec<Pair>,
    nodes: Vec<f64>,
    /// Of the cells of one pair after those of another, each of all outputs.
    cells: Vec<f64>,
    has_steps: bool,
}

#[derive(Debug)]
struct Pair {
    features: [usize; 2],
    nodes: [Range<usize>; 2],
    first_cell: usize,
}

impl Additive {
    /// Reads what has this prefix.
    pub(super) fn read(archive: &mut Archive<'_>, prefix: &str, n_columns: usize) -> Result<Self> {
        let named = |name: &str| format!("{prefix}{name}");
        let (shape, offset) = archive.vector(&named("offset"))?;
        let &[n_outputs] = shape.as_slice() else { return Err(damaged("offset is no vector")) };
        let weights = archive.numbers(&named("weights"), &[n_columns])?;
        let &[exponent] = archive.numbers(&named("exponent"), &[1])?.as_slice() else {
            return Err(damaged("it has no exponent"));
        };
        require(exponent > 0.0, "an exponent is not positive")?;
        let transform = match archive.value(&named("transform"))?.as_str() {
            Some("identity") => Transform::Identity,
            Some("power") => Transform::Power { exponent },
            Some("exponential") => Transform::Exponential { exponent },
            _ => return Err(damaged("its transform is not known")),
        };
        let (shape, knots) = archive.vector(&named("knots"))?;
        require(shape.len() == 1, "knots is no vector")?;
        let starts = archive.offsets(&named("starts"), n_columns)?;
        require(starts[n_columns] == knots.len(), "its knots are not those of its columns")?;
        let ascend = |range: &[usize]| knots[range[0]..range[1]].is_sorted_by(|a, b| a < b);
        require(starts.windows(2).all(ascend), "its knots do not ascend")?;
        let (shape, terms) = archive.vector(&named("terms"))?;
        let &[n_pieces, n_terms, columns] = shape.as_slice() else {
            return Err(damaged("terms has not three axes"));
        };
        require(
            knots.len().checked_add(n_columns) == Some(n_pieces)
                && columns == n_outputs
                && (1..=MOST_TERMS).contains(&n_terms),
            "its terms are not those of its knots",
        )?;
        let has_steps = archive.value(&named("steps"))?.as_bool();
        let has_steps = has_steps.ok_or_else(|| damaged("steps is neither true nor false"))?;
        let (shape, nodes) = archive.vector(&named("pair_nodes"))?;
        require(shape.len() == 1, "pair_nodes is no vector")?;
        let features = archive.indices(&named("pair_features"), n_columns)?;
        let (features, rest) = features.as_chunks::<2>();
        require(rest.is_empty(), "its pairs are not of two columns")?;
        let ranges = archive.offsets(&named("pair_starts"), 2 * features.len())?;
        require(ranges.last() == Some(&nodes.len()), "its nodes are not those of its pairs")?;
        let sorted = |range: &[usize]| nodes[range[0]..range[1]].is_sorted();
        require(ranges.windows(2).all(sorted), "its nodes do not ascend")?;
        let mut pairs = memory::with_capacity(features.len())?;
        let mut n_cells = 0_usize;
        for (k, &features) in features.iter().enumerate() {
            let nodes = [0, 1].map(|side| ranges[2 * k + side]..ranges[2 * k + side + 1]);
            // Each cut is between two cells.
            let [rows, columns] =
                nodes.each_ref().map(|range| range.len() + usize::from(has_steps));
            require(rows > 0 && columns > 0, "a pair has no nodes")?;
            pairs.push(Pair { features, nodes, first_cell: n_cells });
            let end = rows.checked_mul(columns).and_then(|cells| cells.checked_add(n_cells));
            n_cells = end.ok_or_else(|| damaged("its pairs have too many cells"))?;
        }
        let cells = archive.numbers(&named("pair_cells"), &[n_cells, n_outputs])?;
        Ok(Self {
            transform,
            weights,
            starts,
            knots,
            terms,
            n_terms,
            offset,
            pairs,
            nodes,
            cells,
            has_steps,
        })
    }

    pub(super) fn n_outputs(&self) -> usize {
        self.offset.len()
    }

    /// Writes the sums of a row of finite numbers, which become those that functions are of.
    pub(super) fn score(&self, row: &mut [f64], out: &mut [f64]) {
        let m = out.len();
        let largest = LARGEST[usize::from(self.n_terms > 2)];
        for (x, &weight) in row.iter_mut().zip(&self.weights) {
            let g = match self.transform {
                Transform::Identity => *x,
                transform => transform.apply(x.max(0.0)),
            };
            *x = (weight * g).clamp(-largest, largest);
        }
        out.copy_from_slice(&self.offset);
        for (d, &u) in row.iter().enumerate() {
            let knots = &self.knots[self.starts[d]..self.starts[d + 1]];
            let below = knots.partition_point(|&t| t < u);
            let base = knots.get(below.saturating_sub(1)).map_or(0.0, |&t| u - t);
            let piece = (self.starts[d] + d + below) * self.n_terms * m;
            let terms = &self.terms[piece..piece + self.n_terms * m];
            let mut power = 1.0;
            for terms in terms.chunks_exact(m) {
                out.iter_mut().zip(terms).for_each(|(out, term)| *out += power * term);
                power *= base;
            }
        }
        for pair in &self.pairs {
            self.add_pair(pair, row, out);
        }
    }

    fn add_pair(&self, pair: &Pair, row: &[f64], out: &mut [f64]) {
        let m = out.len();
        let [a, b] = [0, 1].map(|side| {
            let nodes = &self.nodes[pair.nodes[side].clone()];
            let u = row[pair.features[side]];
            if self.has_steps { step_among(u, nodes) } else { cell_among(u, nodes) }
        });
        let n_columns = pair.nodes[1].len() + usize::from(self.has_steps);
        for (i, share_i) in a.into_iter().filter(|&(_, share)| share != 0.0) {
            for (j, share_j) in b.into_iter().filter(|&(_, share)| share != 0.0) {
                let cell = (pair.first_cell + i * n_columns + j) * m;
                for (out, value) in out.iter_mut().zip(&self.cells[cell..cell + m]) {
                    *out += share_i * share_j * value;
                }
            }
        }
    }
}

/// The cell of a number between cuts.
fn step_among(u: f64, cuts: &[f64]) -> [(usize, f64); 2] {
    [(cuts.partition_point(|&t| t < u), 1.0), (0, 0.0)]
}

/// The nodes on both sides of a number, and the fraction of each.
fn cell_among(u: f64, nodes: &[f64]) -> [(usize, f64); 2] {
    let last = nodes.len() - 1;
    let left = nodes.partition_point(|&t| t <= u).saturating_sub(1).min(last.saturating_sub(1));
    let right = (left + 1).min(last);
    let width = nodes[right] - nodes[left];
    let above = u.clamp(nodes[0], nodes[last]) - nodes[left];
    let share = if width > 0.0 { above / width } else { 0.0 };
    [(left, 1.0 - share), (right, share)]
}
