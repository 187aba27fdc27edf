//! The cells of one column, and how the cell of a value is found.

use ndarray::ArrayView2;

use crate::error::Result;
use crate::intersection::levels::level_ends;
use crate::intersection::lookup::COLUMNS;
use crate::intersection::lookup::moments::Moments;
use crate::memory;
use crate::simd::AlignedVec;

/// Buckets of the grid that finds a cell, for each cell: as few as leave at most one edge in each.
const BUCKETS_PER_CELL: [usize; 5] = [4, 8, 16, 32, 64];
/// What rounding may move a value by, relatively, when its bucket is found.
const SLACK: f64 = 8.0 * f64::EPSILON;
/// Added to a small number it leaves the nearest integer in the low bits, faster than a cast.
const ROUND: f64 = (1_u64 << 52) as f64;

/// The cells of one column.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    /// Lower edge of every cell, the first of which is 0, and the inverse of its width, which is 0
    /// for the last. After them comes an edge that no value reaches.
    edges: Vec<(f64, f64)>,
    /// Value at the lower edge of every cell and rise to its upper edge, each `width` long, in
    /// units of the scale; the last cell lies above all edges.
    pub(super) table: AlignedVec<f32>,
    /// For each bucket a cell at or below those of its values.
    grid: Vec<u16>,
    buckets_per_unit: f64,
    last_bucket: f64,
    /// Whether a value lies at most one cell above the one that the grid gives.
    is_fine: bool,
}

impl Cells {
    /// Lays out cells with the given lower `edges`; `fill` writes value and rise of each.
    fn new(
        edges: &[f64],
        width: usize,
        fill: impl Fn(usize, &mut [f32], &mut [f32]),
    ) -> Result<Self> {
        let mut table = AlignedVec::zeros(2 * width * edges.len())?;
        for (cell, entry) in table.chunks_exact_mut(2 * width).enumerate() {
            let (at, rise) = entry.split_at_mut(width);
            fill(cell, at, rise);
        }
        let inverse = |cell: usize| match edges.get(cell + 1) {
            Some(&next) if (1.0 / (next - edges[cell])).is_finite() => 1.0 / (next - edges[cell]),
            _ => 0.0,
        };
        let mut padded: Vec<_> =
            (0..edges.len()).map(|cell| (edges[cell], inverse(cell))).collect();
        padded.push((f64::INFINITY, 0.0));
        let mut cells = Self {
            edges: padded,
            table,
            grid: vec![0],
            buckets_per_unit: 0.0,
            last_bucket: 0.0,
            is_fine: edges.len() <= 2,
        };
        for buckets_per_cell in BUCKETS_PER_CELL {
            if !cells.is_fine {
                cells.divide(buckets_per_cell * edges.len(), edges[edges.len() - 1]);
            }
        }
        Ok(cells)
    }

    /// Makes a grid of so many buckets up to `top`, unless they are too narrow to count.
    #[allow(clippy::cast_possible_truncation)] // at most 65536 cells
    fn divide(&mut self, n_buckets: usize, top: f64) {
        let buckets_per_unit = n_buckets as f64 / top;
        if !buckets_per_unit.is_finite() {
            return;
        }
        let ends = |bucket: usize, slack: f64| {
            (bucket as f64 + 0.5 * slack.signum()) / buckets_per_unit * (1.0 + slack)
        };
        let lowest = |bucket: usize| self.search(ends(bucket, -SLACK));
        let highest = |bucket: usize| self.search(ends(bucket, SLACK));
        // The last bucket holds all that lies above.
        let mut is_fine = lowest(n_buckets) + 2 >= self.n_cells();
        is_fine &= (0..n_buckets).all(|bucket| highest(bucket) <= lowest(bucket) + 1);
        let grid = (0..=n_buckets).map(|bucket| lowest(bucket) as u16).collect();
        self.last_bucket = n_buckets as f64;
        (self.grid, self.buckets_per_unit, self.is_fine) = (grid, buckets_per_unit, is_fine);
    }

    /// Memory held, in bytes.
    pub(super) fn n_bytes(&self) -> usize {
        size_of_val(&self.table[..]) + size_of_val(&self.grid[..]) + size_of_val(&self.edges[..])
    }

    fn n_cells(&self) -> usize {
        self.edges.len() - 1
    }

    /// The last cell whose lower edge is not above `x`.
    fn search(&self, x: f64) -> usize {
        self.edges.partition_point(|edge| edge.0 <= x).saturating_sub(1)
    }

    /// The cell that holds `x >= 0`, and how far `x` lies between its lower edge, 0, and its upper
    /// one, 1.
    pub(super) fn place(&self, x: f64) -> (usize, f32) {
        if self.is_fine { self.place_in::<true>(x) } else { self.place_in::<false>(x) }
    }

    /// The same for all of `values`.
    pub(super) fn place_all<T: crate::simd::Element>(
        &self,
        values: &[T],
        placed: &mut Vec<(u32, f32)>,
    ) {
        #[allow(clippy::cast_possible_truncation)] // at most 65536 cells
        let count = |(cell, offset)| (cell as u32, offset);
        placed.clear();
        if self.is_fine {
            placed.extend(values.iter().map(|x| count(self.place_in::<true>(x.to_f64()))));
        } else {
            placed.extend(values.iter().map(|x| count(self.place_in::<false>(x.to_f64()))));
        }
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // of the bits, the low ones count the buckets
    fn place_in<const IS_FINE: bool>(&self, x: f64) -> (usize, f32) {
        let bucket = (x * self.buckets_per_unit).min(self.last_bucket);
        let mut cell = usize::from(self.grid[(bucket + ROUND).to_bits() as u32 as usize]);
        if IS_FINE {
            cell += usize::from(self.edges[cell + 1].0 <= x);
        } else {
            while self.edges[cell + 1].0 <= x {
                cell += 1;
            }
        }
        (cell, self.offset(cell, x))
    }

    /// The largest error over all `x >= 0` for every output, and the moments of the errors over
    /// `n_rows` rows, of which `counts` hold the knots but the first.
    pub(super) fn errors(
        &self,
        knots: &[f64],
        values: ArrayView2<'_, f64>,
        width: usize,
        (counts, n_rows): (&[usize], usize),
    ) -> Result<(Vec<f64>, Vec<Moments>)> {
        let n_outputs = values.ncols();
        let mut errors = memory::filled(0.0_f64, n_outputs)?;
        let mut largest = memory::filled(0.0_f64, n_outputs)?;
        let mut sums = memory::filled((0.0_f64, 0.0_f64), n_outputs)?;
        let mut visit = |cell: usize, x: f64, count: f64| {
            let entry = &self.table[2 * cell * width..2 * (cell + 1) * width];
            for output in 0..n_outputs {
                let exact = interpolate(knots, values, x, output);
                let at = f64::from(entry[output]);
                let step = f64::from(entry[width + output]) * f64::from(self.offset(cell, x));
                let error = exact - (at + step);
                errors[output] = errors[output].max(error.abs());
                sums[output].0 += count * error;
                sums[output].1 += count * error * error;
                largest[output] = largest[output].max(at.abs() + step.abs());
            }
        };
        // Both functions are linear between these points, so that the difference peaks at one.
        for cell in 0..self.n_cells() {
            visit(cell, self.edges[cell].0, 0.0);
            if cell + 1 < self.n_cells() {
                visit(cell, self.edges[cell + 1].0, 0.0);
            }
        }
        for (&knot, &count) in knots.iter().zip(std::iter::once(&0).chain(counts)) {
            visit(self.place(knot).0, knot, count as f64);
        }
        // Rounding the offset, the product, the sum and up to COLUMNS partial sums.
        let rounding = f64::from(f32::EPSILON) * (COLUMNS as f64 + 4.0);
        let moments = sums.into_iter().map(|(sum, squares)| Moments::of_sums(sum, squares, n_rows));
        let moments = memory::collected(moments)?;
        Ok((errors.iter().zip(&largest).map(|(e, l)| e + rounding * l).collect(), moments))
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // single precision is the point
    fn offset(&self, cell: usize, x: f64) -> f32 {
        let (edge, inverse_width) = self.edges[cell];
        ((x - edge) * inverse_width) as f32
    }
}

/// Cells between some of the training values; above the last, `f_d` is constant.
#[allow(clippy::cast_possible_truncation)] // tables are single precision
pub(super) fn linear_cells(
    knots: &[f64],
    counts: &[usize],
    values: ArrayView2<'_, f64>,
    n_bins: usize,
    width: usize,
) -> Result<Cells> {
    let mut picked = vec![0];
    picked.extend(level_ends(&knots[1..], counts, n_bins)?);
    let edges: Vec<f64> = picked.iter().map(|&k| knots[k]).collect();
    Cells::new(&edges, width, |cell, at, rise| {
        let k = picked[cell];
        for output in 0..values.ncols() {
            at[output] = values[[k, output]] as f32;
            if let Some(&next) = picked.get(cell + 1) {
                rise[output] = (values[[next, output]] - values[[k, output]]) as f32;
            }
        }
    })
}

/// The paper's cells: prototypes `k u_d / (n_bins - 1)`, each standing for the values nearest it.
#[allow(clippy::cast_possible_truncation)] // tables are single precision
pub(super) fn nearest_cells(
    knots: &[f64],
    values: ArrayView2<'_, f64>,
    n_bins: usize,
    width: usize,
) -> Result<Cells> {
    let top = knots[knots.len() - 1];
    let step = top / (n_bins - 1) as f64;
    let mut edges = vec![0.0];
    // A step too small for its half to be told from zero leaves one cell.
    if 0.5 * step > 0.0 {
        edges.extend((1..n_bins).map(|k| (k as f64 - 0.5) * step));
    }
    Cells::new(&edges, width, |cell, at, _| {
        let prototype = (cell as f64 * step).min(top);
        for (output, at) in at.iter_mut().take(values.ncols()).enumerate() {
            *at = interpolate(knots, values, prototype, output) as f32;
        }
    })
}

/// `f_d(x)` between its knots.
fn interpolate(knots: &[f64], values: ArrayView2<'_, f64>, x: f64, output: usize) -> f64 {
    let k = knots.partition_point(|&z| z <= x).saturating_sub(1);
    let at = values[[k, output]];
    match knots.get(k + 1) {
        Some(&next) => {
            let t = (x - knots[k]) / (next - knots[k]);
            at + t * (values[[k + 1, output]] - at)
        }
        None => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;
    use proptest::prelude::*;

    const WIDTH: usize = 8;

    /// Knots from 0 on, what functions of two outputs are there, and rows of each knot but the first.
    fn column() -> impl Strategy<Value = (Vec<f64>, Array2<f64>, Vec<usize>)> {
        // Gaps of one size, and of many.
        let gap = prop_oneof![Just(1.0), 1e-9..1.0_f64, (-9..3_i32).prop_map(|e| 10.0_f64.powi(e))];
        let knot = (gap, 1..5_usize, -1.0..1.0_f64, -1.0..1.0_f64);
        (prop::collection::vec(knot, 1..200), any::<bool>()).prop_map(|(all, smooth)| {
            let (mut knots, mut values) = (vec![0.0], Array2::zeros((all.len() + 1, 2)));
            for (k, &(gap, _, a, b)) in all.iter().enumerate() {
                let next: f64 = knots[k] + gap;
                knots.push(next);
                values[[k + 1, 0]] = if smooth { (next / 1e5).sqrt() } else { a };
                values[[k + 1, 1]] = b;
            }
            (knots, values, all.iter().map(|one| one.1).collect())
        })
    }

    /// The function between its knots, and constant after the last.
    fn exact(knots: &[f64], values: &Array2<f64>, x: f64, output: usize) -> f64 {
        let last = knots.len() - 1;
        if x >= knots[last] {
            return values[[last, output]];
        }
        let k = (0..last).find(|&k| x < knots[k + 1]).unwrap_or(0);
        let t = (x - knots[k]) / (knots[k + 1] - knots[k]);
        (1.0 - t) * values[[k, output]] + t * values[[k + 1, output]]
    }

    fn looked_up(cells: &Cells, x: f64, output: usize) -> f64 {
        let (cell, offset) = cells.place(x);
        let entry = &cells.table[2 * cell * WIDTH..];
        f64::from(entry[output]) + f64::from(entry[WIDTH + output]) * f64::from(offset)
    }

    proptest! {
        #[test]
        fn values_lie_in_the_last_cell_that_begins_below(
            (knots, values, counts) in column(),
            n_bins in prop::sample::select(&[2_usize, 3, 17, 100, 1000][..]),
        ) {
            let top = knots[knots.len() - 1];
            let linear = linear_cells(&knots, &counts, values.view(), n_bins, WIDTH).unwrap();
            let nearest = nearest_cells(&knots, values.view(), n_bins, WIDTH).unwrap();
            for cells in [&linear, &nearest] {
                let edges: Vec<f64> = cells.edges[..cells.n_cells()].iter().map(|e| e.0).collect();
                prop_assert!(edges[0] == 0.0 && edges.windows(2).all(|w| w[0] < w[1]));
                let mut places = [&knots[..], &edges[..]].concat();
                places.extend(knots.windows(2).map(|w| w[0].midpoint(w[1])));
                places.extend(edges.iter().map(|edge| edge * (1.0 - f64::EPSILON)));
                places.extend([0.5 * top, top * 1.5, top * 1e6, 1e300]);
                let mut all = Vec::new();
                cells.place_all(&places, &mut all);
                for (&x, &(of_all, offset_of_all)) in places.iter().zip(&all) {
                    let want = edges.iter().rposition(|&edge| edge <= x).unwrap();
                    let (cell, offset) = cells.place(x);
                    prop_assert_eq!((cell, cell, offset), (want, of_all as usize, offset_of_all));
                    let share = edges.get(cell + 1).map_or(0.0, |next| (x - edges[cell]) / (next - edges[cell]));
                    prop_assert!((f64::from(offset) - share).abs() <= 1e-6, "{offset} {share}");
                }
                let bytes = cells.table.len() * 4 + cells.grid.len() * 2 + cells.edges.len() * 16;
                prop_assert_eq!(cells.n_bytes(), bytes);
            }
            // A linear table is the function at every edge, and a nearest one at every prototype.
            prop_assert!(linear.n_cells() <= n_bins + 1);
            for cell in 0..linear.n_cells() {
                let x = linear.edges[cell].0;
                for output in 0..2 {
                    let (found, want) = (looked_up(&linear, x, output), exact(&knots, &values, x, output));
                    prop_assert!((found - want).abs() <= 1e-6, "{found} {want}");
                }
            }
            prop_assert_eq!(nearest.n_cells(), n_bins);
            for k in 0..n_bins {
                let x = top * k as f64 / (n_bins - 1) as f64;
                for output in 0..2 {
                    let found = f64::from(nearest.table[2 * k * WIDTH + output]);
                    let want = exact(&knots, &values, x, output);
                    let steepest = knots.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
                    let rounding = 1e-6 + 4.0 * f64::EPSILON * top / steepest;
                    prop_assert!((found - want).abs() <= rounding, "{k}: {found} {want}");
                }
            }
        }

        #[test]
        fn errors_are_those_at_knots_and_edges(
            (knots, values, counts) in column(),
            n_bins in prop::sample::select(&[2_usize, 5, 40][..]),
            linear in any::<bool>(),
        ) {
            let n_rows = counts.iter().sum::<usize>() + 5;
            let cells = if linear {
                linear_cells(&knots, &counts, values.view(), n_bins, WIDTH)
            } else {
                nearest_cells(&knots, values.view(), n_bins, WIDTH)
            };
            let cells = cells.unwrap();
            let (errors, moments) =
                cells.errors(&knots, values.view(), WIDTH, (&counts, n_rows)).unwrap();
            for output in 0..2 {
                let error = |x: f64| exact(&knots, &values, x, output) - looked_up(&cells, x, output);
                let at_knots: Vec<f64> = knots.iter().map(|&x| error(x)).collect();
                let sum: f64 = at_knots[1..].iter().zip(&counts).map(|(e, &c)| e * c as f64).sum();
                let squares: f64 = at_knots[1..].iter().zip(&counts).map(|(e, &c)| e * e * c as f64).sum();
                let mean = sum / n_rows as f64;
                prop_assert!((moments[output].mean - mean).abs() <= 1e-9);
                let variance = squares / n_rows as f64 - mean * mean;
                prop_assert!((moments[output].variance - variance).abs() <= 1e-9);
                // What is nearly the next cell still belongs to this one.
                let edges = cells.edges[1..cells.n_cells()].iter().map(|edge| edge.0);
                let before = edges.clone().map(|edge| error(edge * (1.0 - f64::EPSILON)));
                let all = at_knots.iter().copied().chain(edges.map(error)).chain(before);
                let largest = all.map(f64::abs).fold(0.0, f64::max);
                let steepest = knots.windows(2).map(|w| w[1] - w[0]).fold(f64::INFINITY, f64::min);
                let slack = 4.0 * f64::EPSILON * knots[knots.len() - 1] / steepest;
                prop_assert!(errors[output] >= largest - slack, "{} {largest}", errors[output]);
                // Single precision, of the offset, the product and sums of so many columns.
                let size = |cell: usize, x: f64| {
                    let entry = &cells.table[2 * cell * WIDTH..];
                    let offset = f64::from(cells.offset(cell, x));
                    f64::from(entry[output]).abs()
                        + (f64::from(entry[WIDTH + output]) * offset).abs()
                };
                let of_knots = knots.iter().map(|&x| size(cells.place(x).0, x));
                let of_edges = (0..cells.n_cells() - 1).map(|cell| size(cell, cells.edges[cell + 1].0));
                let size = of_knots.chain(of_edges).fold(0.0, f64::max);
                let want = largest + f64::from(f32::EPSILON) * (COLUMNS as f64 + 4.0) * size;
                let off = (errors[output] - want).abs();
                prop_assert!(off <= slack + 1e-9 * want, "{} {want}", errors[output]);
            }
        }
    }
}
