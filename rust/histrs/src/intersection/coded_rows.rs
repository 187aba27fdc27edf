//! Columns of few distinct values, read row by row.
//!
//! The passes of `scan` follow the order of values, so that every entry fetches a row of the
//! right-hand side and one of the result from wherever it lies. If a column has few distinct
//! values, its table is small. The tables of a group of columns fit the cache together. Rows are
//! read in their own order, once for each group.

use pulp::Simd;

use crate::error::Result;
use crate::exec::Executor;
use crate::intersection::column::Column;
use crate::intersection::panel::{Panel, PanelKernel, ROW_BLOCK, run_kernel};
use crate::intersection::scan::{add_to, integrate, load, store};
use crate::memory;
use crate::simd::{AlignedVec, Element};

/// Levels of a group of columns: with sixteen right-hand sides of eight bytes, half of the
/// second-level cache.
const MAX_LEVELS: usize = 4096;
/// Groups are the unit of parallel work; there are more only for their levels.
const GROUPS: usize = 8;

/// Whether a column is read row by row.
pub(crate) fn is_read_by_rows(column: &Column) -> bool {
    matches!(column, Column::Runs { values, .. } if values.len() <= MAX_LEVELS)
}

/// The columns that [`is_read_by_rows`] says, by rows.
#[derive(Debug, Clone)]
pub(crate) struct CodedRows {
    n_rows: usize,
    groups: Vec<Group>,
}

/// Some columns, the levels of all of which are numbered in one row.
#[derive(Debug, Clone)]
struct Group {
    /// Levels of the columns, one column after the other, ascending in each.
    values: Vec<f64>,
    /// Where the levels of each column end.
    ends: Vec<usize>,
    /// Entries of each row.
    counts: Vec<u16>,
    /// Levels of the entries, row by row.
    codes: Vec<u16>,
    /// Where the codes of each block of rows begin.
    starts: Vec<usize>,
}

impl CodedRows {
    /// Transposes the columns that it is for.
    pub(crate) fn new(exec: &Executor, n_rows: usize, columns: &[Column]) -> Result<Self> {
        let columns: Vec<&Column> = columns.iter().filter(|c| is_read_by_rows(c)).collect();
        let groups = cut(&columns);
        let groups = exec
            .map_blocks(groups.len(), |g| Group::new(exec, n_rows, &columns[groups[g].clone()]))?;
        Ok(Self { n_rows, groups })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Memory held, in bytes.
    pub(crate) fn n_bytes(&self) -> usize {
        let bytes = |g: &Group| {
            size_of_val(&g.values[..])
                + size_of_val(&g.ends[..])
                + size_of_val(&g.counts[..])
                + size_of_val(&g.codes[..])
                + size_of_val(&g.starts[..])
        };
        self.groups.iter().map(bytes).sum()
    }

    /// `K V` of these columns alone.
    pub(crate) fn product<E: Element>(
        &self,
        exec: &Executor,
        panel: &Panel<E>,
    ) -> Result<AlignedVec<E>> {
        let width = panel.width;
        let tables = exec.map_blocks(self.groups.len(), |g| {
            let group = &self.groups[g];
            let mut table = AlignedVec::zeros(group.values.len() * width)?;
            for block in 0..group.starts.len() {
                exec.check()?;
                let kernel = SumLevels { group, block, panel, table: &mut table };
                run_kernel::<E, _>(width, kernel);
            }
            run_kernel::<E, _>(width, Integrate { group, table: &mut table });
            Ok(table)
        })?;
        let mut out = AlignedVec::zeros(self.n_rows * width)?;
        exec.for_chunks(&mut out, ROW_BLOCK * width, |block, out| {
            for (group, table) in self.groups.iter().zip(&tables) {
                run_kernel::<E, _>(width, AddLevels { group, block, table, out: &mut *out });
            }
            Ok(())
        })?;
        Ok(out)
    }
}

/// Consecutive columns that share a group.
fn cut(columns: &[&Column]) -> Vec<std::ops::Range<usize>> {
    let total: usize = columns.iter().map(|c| c.n_stored()).sum();
    let mut groups = Vec::new();
    let (mut start, mut levels, mut stored) = (0, 0, 0);
    for (i, column) in columns.iter().enumerate() {
        let Column::Runs { values, .. } = column else { continue };
        if i > start && (levels + values.len() > MAX_LEVELS || stored * GROUPS >= total) {
            groups.push(start..i);
            (start, levels, stored) = (i, 0, 0);
        }
        levels += values.len();
        stored += column.n_stored();
    }
    if start < columns.len() {
        groups.push(start..columns.len());
    }
    groups
}

impl Group {
    #[allow(clippy::cast_possible_truncation)] // levels, and so columns, are at most MAX_LEVELS
    fn new(exec: &Executor, n_rows: usize, columns: &[&Column]) -> Result<Self> {
        let (mut values, mut ends) = (Vec::new(), Vec::new());
        let mut counts = memory::filled(0_u16, n_rows)?;
        for column in columns {
            exec.check()?;
            let Column::Runs { values: levels, rows, .. } = column else { continue };
            values.extend_from_slice(levels);
            ends.push(values.len());
            for &row in rows {
                counts[row as usize] += 1;
            }
        }
        let mut next = memory::with_capacity(n_rows)?;
        let mut n_codes = 0;
        for &count in &counts {
            next.push(n_codes);
            n_codes += usize::from(count);
        }
        let starts = next.iter().copied().step_by(ROW_BLOCK).collect();
        let mut codes = memory::filled(0, n_codes)?;
        let mut first = 0;
        for column in columns {
            exec.check()?;
            let Column::Runs { values: levels, starts, rows } = column else { continue };
            for (level, run) in starts.windows(2).enumerate() {
                for &row in &rows[run[0] as usize..run[1] as usize] {
                    let next = &mut next[row as usize];
                    codes[*next] = (first + level) as u16;
                    *next += 1;
                }
            }
            first += levels.len();
        }
        Ok(Self { values, ends, counts, codes, starts })
    }

    /// The numbers of entries and the codes of a block of rows.
    fn block(&self, block: usize) -> (&[u16], &[u16]) {
        let end = self.starts.get(block + 1).copied().unwrap_or(self.codes.len());
        let first = block * ROW_BLOCK;
        let rows = first..self.counts.len().min(first + ROW_BLOCK);
        (&self.counts[rows], &self.codes[self.starts[block]..end])
    }
}

/// Adds the rows of the right-hand side to the levels of their entries.
struct SumLevels<'a, E> {
    group: &'a Group,
    block: usize,
    panel: &'a Panel<E>,
    table: &'a mut [E],
}

impl<E: Element> PanelKernel<E> for SumLevels<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let v = E::vectors::<S>(&self.panel.data).0;
        let table = E::vectors_mut::<S>(self.table).0;
        let (counts, mut codes) = self.group.block(self.block);
        for (row, &count) in (self.block * ROW_BLOCK..).zip(counts) {
            let x = load::<_, NV>(v, row);
            let (codes_of_row, rest) = codes.split_at(usize::from(count));
            codes = rest;
            for &code in codes_of_row {
                add_to::<E, S, NV>(simd, table, usize::from(code), x);
            }
        }
    }
}

/// Makes of the sums the value of `f` at every level.
struct Integrate<'a, E> {
    group: &'a Group,
    table: &'a mut [E],
}

impl<E: Element> PanelKernel<E> for Integrate<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let table = E::vectors_mut::<S>(self.table).0;
        let mut start = 0;
        for &end in &self.group.ends {
            let levels = &self.group.values[start..end];
            integrate::<E, S, NV>(simd, levels, &mut table[start * NV..end * NV]);
            start = end;
        }
    }
}

/// Adds `f` at the levels of their entries to the rows of the result.
struct AddLevels<'a, E> {
    group: &'a Group,
    block: usize,
    table: &'a [E],
    out: &'a mut [E],
}

impl<E: Element> PanelKernel<E> for AddLevels<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let table = E::vectors::<S>(self.table).0;
        let out = E::vectors_mut::<S>(self.out).0;
        let (counts, mut codes) = self.group.block(self.block);
        for (row, &count) in counts.iter().enumerate() {
            let mut sum = load::<_, NV>(out, row);
            let (codes_of_row, rest) = codes.split_at(usize::from(count));
            codes = rest;
            for &code in codes_of_row {
                let f = load::<_, NV>(table, usize::from(code));
                for i in 0..NV {
                    sum[i] = E::add(simd, sum[i], f[i]);
                }
            }
            store(out, row, sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intersection::SortedColumns;
    use crate::matrix::HistogramMatrix;
    use ndarray::Array2;

    /// Rows beyond one block, columns of a tenth of them whose levels fill some groups.
    fn sparse_counts() -> Array2<f64> {
        Array2::from_shape_fn((ROW_BLOCK + 905, 80), |(i, d)| {
            let x = (i * 7919 + d * 104_729 + i * d) % 3001;
            if x < 300 && i % 11 != 3 { ((x * (d + 1)) % 130) as f64 / 7.0 } else { 0.0 }
        })
    }

    fn minimum_products(x: &Array2<f64>, rows: &[usize], v: &Array2<f64>) -> Array2<f64> {
        let mut out = Array2::zeros((rows.len(), v.ncols()));
        for (mut out, &i) in out.rows_mut().into_iter().zip(rows) {
            for (y, v) in x.rows().into_iter().zip(v.rows()) {
                let k: f64 = x.row(i).iter().zip(y).map(|(a, b)| a.min(*b)).sum();
                out.scaled_add(k, &v);
            }
        }
        out
    }

    #[test]
    fn rows_and_levels_of_several_blocks_and_groups() {
        let exec = Executor::new(2).unwrap();
        let x = sparse_counts();
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        assert!(columns.columns().iter().all(is_read_by_rows));
        let coded = columns.coded_rows(&exec).unwrap();
        assert!(coded.groups.len() >= GROUPS && coded.groups.iter().any(|g| g.ends.len() > 1));
        let rows: Vec<usize> = (0..x.nrows()).step_by(97).collect();
        for width in [1, 3, 8, 16, 17] {
            let v = Array2::from_shape_fn((x.nrows(), width), |(i, k)| {
                ((i * 31 + k * 17) % 101) as f64 - 50.0
            });
            let expected = minimum_products(&x, &rows, &v);
            let scale = minimum_products(&x, &rows, &v.mapv(f64::abs));
            let double = columns.product(&exec, v.view()).unwrap();
            let single = columns.product_f32(&exec, v.view()).unwrap();
            for (at, &i) in rows.iter().enumerate() {
                for k in 0..width {
                    let (right, scale) = (expected[(at, k)], scale[(at, k)]);
                    assert!((double[(i, k)] - right).abs() <= 1e-13 * scale, "{i} {k}");
                    assert!((single[(i, k)] - right).abs() <= 1e-5 * scale, "{i} {k}");
                }
            }
        }
    }

    #[test]
    fn a_column_of_too_many_levels_is_read_by_value() {
        let exec = Executor::new(2).unwrap();
        // Each level twice, and four rows without for one with.
        let level = |i: usize| {
            if i.is_multiple_of(5) { (i / 5 % (MAX_LEVELS + 9) + 1) as f64 } else { 0.0 }
        };
        let x = Array2::from_shape_fn((10 * (MAX_LEVELS + 9), 1), |(i, _)| level(i));
        let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
        assert!(matches!(columns.columns()[0], Column::Runs { .. }));
        assert!(columns.coded_rows(&exec).unwrap().is_empty());
        let v = Array2::from_shape_fn((x.nrows(), 3), |(i, k)| ((i * 31 + k * 17) % 101) as f64);
        let rows = [0, 1, 5, 5 * MAX_LEVELS, x.nrows() - 5];
        let expected = minimum_products(&x, &rows, &v);
        let found = columns.product(&exec, v.view()).unwrap();
        for (at, &i) in rows.iter().enumerate() {
            for k in 0..3 {
                let right = expected[(at, k)];
                assert!((found[(i, k)] - right).abs() <= 1e-13 * right.abs(), "{i} {k}");
            }
        }
    }

    #[test]
    fn a_group_never_holds_more_levels_than_its_codes_can_name() {
        let exec = Executor::new(1).unwrap();
        let column = |n_levels: usize| Column::Runs {
            values: (1..=n_levels).map(|v| v as f64).collect(),
            starts: (0..=n_levels as u32).collect(),
            rows: (0..n_levels as u32).collect(),
        };
        let sizes = [MAX_LEVELS, 1, MAX_LEVELS - 1, 2, MAX_LEVELS + 1, 5];
        let columns: Vec<Column> = sizes.iter().map(|&n| column(n)).collect();
        let coded = CodedRows::new(&exec, MAX_LEVELS + 1, &columns).unwrap();
        assert!(coded.groups.iter().all(|g| g.values.len() <= MAX_LEVELS));
        let n_codes: usize = coded.groups.iter().map(|g| g.codes.len()).sum();
        assert_eq!(n_codes, sizes.iter().sum::<usize>() - (MAX_LEVELS + 1));
        assert!(coded.n_bytes() > 2 * n_codes);
    }

    /// A column of so many levels, each in two rows of many.
    fn runs(n_levels: usize) -> Column {
        let pairs: Vec<_> =
            (0..2 * n_levels).map(|k| (((k / 2) as f64 + 1.0).to_bits(), k as u32)).collect();
        Column::encode(&pairs, 40_000).unwrap()
    }

    #[test]
    fn groups_are_an_eighth_of_the_entries_whose_levels_fit_together() {
        for (n_levels, together) in [(10, 2), (MAX_LEVELS / 2, 2), (MAX_LEVELS / 2 + 1, 1)] {
            let columns = vec![runs(n_levels); 16];
            assert!(columns.iter().all(is_read_by_rows));
            let groups = cut(&columns.iter().collect::<Vec<_>>());
            let want: Vec<_> = (0..16).step_by(together).map(|k| k..k + together).collect();
            assert_eq!(groups, want, "{n_levels}");
        }
        assert!(cut(&[]).is_empty());
    }

    #[test]
    fn memory_is_that_of_levels_counts_codes_and_blocks() {
        let exec = Executor::new(1).unwrap();
        let rows = CodedRows::new(&exec, 40_000, &[runs(10), runs(30)]).unwrap();
        let (levels, ends, codes) = (8 * 40, 8 * 2, 2 * 80);
        let (counts, starts) = (2 * 40_000, 8 * 40_000_usize.div_ceil(ROW_BLOCK));
        // Each column is a group.
        assert_eq!(rows.n_bytes(), levels + ends + codes + 2 * (counts + starts));
    }
}
