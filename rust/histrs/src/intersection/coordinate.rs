//! One weight after the other: coordinate descent on tables of the shape functions.
//!
//! Source: J. Wu, *A fast dual method for HIK SVM learning*, ECCV 2010, applied to the linear system
//! of a Gaussian process. His table holds `f_d` at every integer; for continuous values that would
//! be one entry per row, all of which a step changes. Here the table holds the two sums of which `f_d`
//! is made, as binary indexed trees, where reading and changing take the logarithm of its length.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, s};

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::intersection::columns::SortedColumns;
use crate::matrix::row_numbers;
use crate::memory;

/// Steps between two looks at the stop flag.
const CHECK_EVERY: usize = 64;
/// Outputs that share a table: both sums of four of them fill a cache line.
const OUTPUTS: usize = 4;

/// `sum x_j alpha_j` and `sum alpha_j` over some of the values of a column.
type Sums<const K: usize> = [[f64; K]; 2];

/// The training rows in an order that suits steps of single weights.
#[derive(Debug, Clone)]
pub struct CoordinateDescent {
    /// Distinct values of column `d`, ascending: `values[columns[d]]`.
    values: Vec<f64>,
    columns: Vec<Range<usize>>,
    /// Entries of row `i`: `entries[rows[i]]`.
    entries: Vec<Entry>,
    rows: Vec<Range<usize>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    column: u32,
    /// Which of the distinct values of the column.
    rank: u32,
}

impl CoordinateDescent {
    /// Lays out the rows of sorted columns.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`].
    #[allow(clippy::cast_possible_truncation)] // numbers of columns and ranks fit the row index
    pub fn new(exec: &Executor, sorted: &SortedColumns) -> Result<Self> {
        // Columns are numbered without the empty ones here.
        let stored = sorted.columns();
        let distinct = exec.map_blocks(stored.len(), |d| stored[d].distinct())?;
        let mut lengths = memory::filled(0, sorted.n_rows())?;
        for column in stored {
            exec.check()?;
            column.for_each(|row, _| lengths[row as usize] += 1);
        }
        let rows = consecutive(&lengths);
        let mut next: Vec<usize> = rows.iter().map(|range| range.start).collect();
        let mut entries =
            memory::filled(Entry::default(), rows.last().map_or(0, |range| range.end))?;
        for (d, column) in stored.iter().enumerate() {
            exec.check()?;
            column.for_each(|row, value| {
                let rank = distinct[d].0.partition_point(|&v| v < value) as u32;
                let slot = &mut next[row as usize];
                entries[*slot] = Entry { column: d as u32, rank };
                *slot += 1;
            });
        }
        let lengths: Vec<usize> = distinct.iter().map(|d| d.0.len()).collect();
        let values = distinct.into_iter().flat_map(|d| d.0).collect();
        Ok(Self { values, columns: consecutive(&lengths), entries, rows })
    }

    /// Number of rows N.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.rows.len()
    }

    /// The weights after a step for each row of `order`, beginning with `alpha`.
    ///
    /// A step makes the residual `r_i` of `(K + diag(s)) alpha = y` vanish in one row, for every output:
    ///
    /// ```text
    /// alpha_i += r_i / (K_ii + s_i),    r_i = y_i - s_i alpha_i - sum_d f_d(x_i(d)),
    /// f_d(x) = sum_{j: x_j(d) <= x} x_j(d) alpha_j + x sum_{j: x_j(d) > x} alpha_j
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `alpha`, `y` or `s` has not one row for every row, or the first two
    /// have different numbers of columns. [`Error::Parameter`] for a row number that is not there,
    /// or unless all of `s` are positive. [`Error::Interrupted`].
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::{Executor, HistogramMatrix};
    /// use histrs::intersection::{CoordinateDescent, SortedColumns};
    /// use ndarray::{Array2, array};
    ///
    /// let exec = Executor::new(1)?;
    /// let x = array![[1.0], [2.0]];
    /// let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view()))?;
    /// let descent = CoordinateDescent::new(&exec, &columns)?;
    /// let (start, y) = (ndarray::Array2::zeros((2, 1)), array![[1.0], [0.0]]);
    /// let alpha = descent.descend(&exec, start.view(), y.view(), &[1.0; 2], &[0, 1].repeat(50))?;
    /// // The inverse of [[2, 1], [1, 3]] is [[3, -1], [-1, 2]] / 5.
    /// assert!((alpha[[0, 0]] - 0.6).abs() < 1e-12 && (alpha[[1, 0]] + 0.2).abs() < 1e-12);
    /// # Ok::<(), histrs::Error>(())
    /// ```
    pub fn descend(
        &self,
        exec: &Executor,
        alpha: ArrayView2<'_, f64>,
        y: ArrayView2<'_, f64>,
        s: &[f64],
        order: &[i64],
    ) -> Result<Array2<f64>> {
        let cure = "give one row for every row of X, and one column for every output";
        check_length("the number of rows of alpha", alpha.nrows(), self.n_rows(), cure)?;
        check_length("the number of rows of Y", y.nrows(), self.n_rows(), cure)?;
        check_length("the number of columns of alpha", alpha.ncols(), y.ncols(), cure)?;
        check_length("the length of s", s.len(), self.n_rows(), cure)?;
        if let Some(&value) = s.iter().find(|&&s| !(s > 0.0 && s.is_finite())) {
            let expected = "noise is positive and finite";
            return Err(Error::parameter("s", value, expected));
        }
        let order = row_numbers("order", order, self.n_rows())?;
        match y.ncols() {
            1 => self.descend_in::<1>(exec, alpha, y, s, &order),
            _ => self.descend_in::<OUTPUTS>(exec, alpha, y, s, &order),
        }
    }

    /// `K` outputs at a time.
    fn descend_in<const K: usize>(
        &self,
        exec: &Executor,
        alpha: ArrayView2<'_, f64>,
        y: ArrayView2<'_, f64>,
        s: &[f64],
        order: &[usize],
    ) -> Result<Array2<f64>> {
        let n_outputs = y.ncols();
        let blocks = exec.map_ranges(n_outputs, K, |columns| {
            let pack = |m: ArrayView2<'_, f64>| {
                let part = m.slice_move(s![.., columns.clone()]);
                let row = |row: ndarray::ArrayView1<'_, f64>| {
                    core::array::from_fn(|k| row.get(k).copied().unwrap_or(0.0))
                };
                part.rows().into_iter().map(row).collect::<Vec<[f64; K]>>()
            };
            let mut table = Table::new(self, pack(alpha))?;
            let y = pack(y);
            for (step, &row) in order.iter().enumerate() {
                if step % CHECK_EVERY == 0 {
                    exec.check()?;
                }
                table.step(row, &y[row], s[row]);
            }
            Ok(table.alpha)
        })?;
        let mut out = memory::zero_matrix(y.dim())?;
        for ((row, k), out) in out.indexed_iter_mut() {
            *out = blocks[k / K][row][k % K];
        }
        Ok(out)
    }
}

/// Consecutive ranges of these lengths.
fn consecutive(lengths: &[usize]) -> Vec<Range<usize>> {
    let mut end = 0;
    let range = |&length: &usize| {
        end += length;
        end - length..end
    };
    lengths.iter().map(range).collect()
}

/// The weights of `K` outputs, and what the shape functions need of them.
struct Table<'a, const K: usize> {
    rows: &'a CoordinateDescent,
    alpha: Vec<[f64; K]>,
    /// The tree of column `d`: `trees[columns[d]]`.
    trees: Vec<Sums<K>>,
    /// `sum alpha_j` over the stored entries of each column.
    totals: Vec<[f64; K]>,
}

impl<'a, const K: usize> Table<'a, K> {
    fn new(rows: &'a CoordinateDescent, alpha: Vec<[f64; K]>) -> Result<Self> {
        let mut trees = memory::filled([[0.0; K]; 2], rows.values.len())?;
        let mut totals = memory::filled([0.0; K], rows.columns.len())?;
        for (range, alpha) in rows.rows.iter().zip(&alpha) {
            for entry in &rows.entries[range.clone()] {
                let slot = rows.slot(*entry);
                add(&mut trees[slot], rows.values[slot], alpha);
                add_scaled(&mut totals[entry.column as usize], 1.0, alpha);
            }
        }
        for range in &rows.columns {
            let tree = &mut trees[range.clone()];
            for node in 1..=tree.len() {
                let parent = node + lowest_bit(node);
                if parent <= tree.len() {
                    let sums = tree[node - 1];
                    add_scaled(&mut tree[parent - 1][0], 1.0, &sums[0]);
                    add_scaled(&mut tree[parent - 1][1], 1.0, &sums[1]);
                }
            }
        }
        Ok(Self { rows, alpha, trees, totals })
    }

    fn step(&mut self, row: usize, y: &[f64; K], s: f64) {
        let entries = &self.rows.entries[self.rows.rows[row].clone()];
        let mut diagonal = s;
        let mut change = *y;
        add_scaled(&mut change, -s, &self.alpha[row]);
        for entry in entries {
            let x = self.rows.values[self.rows.slot(*entry)];
            diagonal += x;
            let [below, mut above] = self.sums_up_to(*entry);
            for (above, total) in above.iter_mut().zip(&self.totals[entry.column as usize]) {
                *above = total - *above;
            }
            add_scaled(&mut change, -1.0, &below);
            add_scaled(&mut change, -x, &above);
        }
        change.iter_mut().for_each(|r| *r /= diagonal);
        add_scaled(&mut self.alpha[row], 1.0, &change);
        for entry in entries {
            self.change(*entry, &change);
        }
    }

    /// Sums over the values of a column up to that of an entry.
    fn sums_up_to(&self, entry: Entry) -> Sums<K> {
        let tree = &self.trees[self.rows.columns[entry.column as usize].clone()];
        let mut sums = [[0.0; K]; 2];
        let mut node = entry.rank as usize + 1;
        while node > 0 {
            add_scaled(&mut sums[0], 1.0, &tree[node - 1][0]);
            add_scaled(&mut sums[1], 1.0, &tree[node - 1][1]);
            node -= lowest_bit(node);
        }
        sums
    }

    /// Adds to the weight of the row that an entry is of.
    fn change(&mut self, entry: Entry, change: &[f64; K]) {
        let x = self.rows.values[self.rows.slot(entry)];
        let tree = &mut self.trees[self.rows.columns[entry.column as usize].clone()];
        let mut node = entry.rank as usize + 1;
        while node <= tree.len() {
            add(&mut tree[node - 1], x, change);
            node += lowest_bit(node);
        }
        add_scaled(&mut self.totals[entry.column as usize], 1.0, change);
    }
}

impl CoordinateDescent {
    /// Where the value of an entry is.
    fn slot(&self, entry: Entry) -> usize {
        self.columns[entry.column as usize].start + entry.rank as usize
    }
}

fn add<const K: usize>(sums: &mut Sums<K>, x: f64, alpha: &[f64; K]) {
    add_scaled(&mut sums[0], x, alpha);
    add_scaled(&mut sums[1], 1.0, alpha);
}

fn add_scaled<const K: usize>(to: &mut [f64; K], scale: f64, x: &[f64; K]) {
    for (to, x) in to.iter_mut().zip(x) {
        *to += scale * x;
    }
}

fn lowest_bit(node: usize) -> usize {
    node & node.wrapping_neg()
}
