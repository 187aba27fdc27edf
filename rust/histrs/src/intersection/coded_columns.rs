//! Columns of one-byte codes: a table of each, and rows that look their values up.
//!
//! The sums of a right-hand side by code become the function of a column at each of its values.
//! Then every row of the result adds up its entries of the tables of all columns, in one pass.

use std::ops::Range;

use pulp::Simd;

use crate::error::Result;
use crate::exec::Executor;
use crate::intersection::column::{Column, MAX_CODES};
use crate::intersection::panel::{Panel, PanelKernel, run_kernel};
use crate::intersection::scan::{add_to, integrate, load};
use crate::simd::{AlignedVec, Element};

/// Bytes of the tables that share the cache with some rows: half of a second-level cache, ...
const TABLE_BYTES: usize = 1 << 19;
/// ... and of these rows of the result.
const OUT_BYTES: usize = 1 << 18;
/// Bytes of the rows of a right-hand side, or of the result, that all columns of a group pass over
/// before the next: a first-level cache.
const ROW_BYTES: usize = 1 << 15;
/// Groups of columns are the unit of parallel work on tables; there are no fewer where columns
/// suffice, and their number does not depend on the number of threads.
const GROUPS: usize = 8;
/// Blocks of rows are that of rows that look values up: so many where rows suffice.
const ROW_BLOCKS: usize = 8;
/// Rows between two looks for an interrupt.
const ROWS_PER_CHECK: usize = 1 << 18;

/// The columns of a training set that have codes.
pub(crate) struct CodedColumns<'a> {
    /// Values, of which the first is 0, and the code of every row.
    columns: Vec<(&'a [f64], &'a [u8])>,
    n_rows: usize,
}

impl<'a> CodedColumns<'a> {
    /// Those of all columns.
    pub(crate) fn of(columns: &'a [Column], n_rows: usize) -> Self {
        let coded = columns.iter().filter_map(|column| match column {
            Column::Coded { values, codes } => Some((&values[..], &codes[..])),
            _ => None,
        });
        Self { columns: coded.collect(), n_rows }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// `K V` of these columns alone, in parts that add up to it.
    ///
    /// Of few rows, tables are larger than results: each part is that of some columns, whose tables
    /// never leave the cache. Of many, it is the other way round, and there is one part.
    pub(crate) fn product<E: Element>(
        &self,
        exec: &Executor,
        panel: &Panel<E>,
    ) -> Result<Vec<AlignedVec<E>>> {
        if self.n_rows * GROUPS < self.columns.len() * MAX_CODES {
            self.product_by_columns(exec, panel)
        } else {
            Ok(vec![self.product_by_rows(exec, panel)?])
        }
    }

    fn product_by_columns<E: Element>(
        &self,
        exec: &Executor,
        panel: &Panel<E>,
    ) -> Result<Vec<AlignedVec<E>>> {
        let width = panel.width;
        let parts: Vec<_> =
            self.columns.chunks(self.columns.len().div_ceil(GROUPS).next_multiple_of(4)).collect();
        let group_size = self.group_size::<E>(width);
        exec.map_blocks(parts.len(), |part| {
            let mut out = AlignedVec::zeros(self.n_rows * width)?;
            let mut tables = AlignedVec::zeros(group_size * MAX_CODES * width)?;
            for columns in parts[part].chunks(group_size) {
                let tables = &mut tables[..columns.len() * MAX_CODES * width];
                tables.fill(E::from_f64(0.0));
                self.fill_tables(exec, columns, panel, tables)?;
                let tables = &*tables;
                run_kernel::<E, _>(width, LookUp { columns, first: 0, tables, out: &mut out });
            }
            Ok(out)
        })
    }

    fn product_by_rows<E: Element>(
        &self,
        exec: &Executor,
        panel: &Panel<E>,
    ) -> Result<AlignedVec<E>> {
        let width = panel.width;
        let groups: Vec<_> = self.columns.chunks(self.group_size::<E>(width)).collect();
        let tables = exec.map_blocks(groups.len(), |g| {
            let columns = groups[g];
            let mut tables = AlignedVec::zeros(columns.len() * MAX_CODES * width)?;
            self.fill_tables(exec, columns, panel, &mut tables)?;
            Ok(tables)
        })?;
        let mut out = AlignedVec::zeros(self.n_rows * width)?;
        let fitting = OUT_BYTES / (width * size_of::<E>());
        let n_rows = fitting.min(self.n_rows.div_ceil(ROW_BLOCKS)).max(1);
        exec.for_chunks(&mut out, n_rows * width, |block, out| {
            let first = block * n_rows;
            for (&columns, tables) in groups.iter().zip(&tables) {
                run_kernel::<E, _>(width, LookUp { columns, first, tables, out: &mut *out });
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// Makes of zeros the functions of columns at each of their codes.
    fn fill_tables<E: Element>(
        &self,
        exec: &Executor,
        columns: &[(&[f64], &[u8])],
        panel: &Panel<E>,
        tables: &mut [E],
    ) -> Result<()> {
        for start in (0..self.n_rows).step_by(ROWS_PER_CHECK) {
            exec.check()?;
            let rows = start..self.n_rows.min(start + ROWS_PER_CHECK);
            run_kernel::<E, _>(panel.width, Sum { columns, rows, panel, tables: &mut *tables });
        }
        run_kernel::<E, _>(panel.width, Integrate { columns, tables });
        Ok(())
    }

    /// Columns of a group: whole fours, whose tables fit the cache together.
    fn group_size<E: Element>(&self, width: usize) -> usize {
        let fitting = TABLE_BYTES / (MAX_CODES * width * size_of::<E>());
        fitting.min(self.columns.len().div_ceil(GROUPS)).next_multiple_of(4)
    }
}

/// Adds some rows of the right-hand side to the tables of columns, at the codes of their entries.
///
/// Four columns share each load, and updates of four tables do not wait for one another.
struct Sum<'a, E> {
    columns: &'a [(&'a [f64], &'a [u8])],
    rows: Range<usize>,
    panel: &'a Panel<E>,
    tables: &'a mut [E],
}

impl<E: Element> PanelKernel<E> for Sum<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let v = E::vectors::<S>(&self.panel.data).0;
        let tables = E::vectors_mut::<S>(self.tables).0;
        let at_once = ROW_BYTES / (NV * size_of::<E::Vector<S>>());
        for start in self.rows.clone().step_by(at_once) {
            let rows = start..self.rows.end.min(start + at_once);
            let v = &v[rows.start * NV..rows.end * NV];
            let fours = self.columns.chunks(4).zip(tables.chunks_mut(4 * MAX_CODES * NV));
            for (columns, tables) in fours {
                sum_four::<E, S, NV>(simd, columns, rows.clone(), v, tables);
            }
        }
    }
}

/// Adds rows `v` to the tables of up to four columns.
#[inline(always)]
fn sum_four<E: Element, S: Simd, const NV: usize>(
    simd: S,
    columns: &[(&[f64], &[u8])],
    rows: Range<usize>,
    v: &[E::Vector<S>],
    tables: &mut [E::Vector<S>],
) {
    let mut tables = tables.chunks_exact_mut(MAX_CODES * NV);
    if let [a, b, c, d] = columns
        && let (Some(t0), Some(t1), Some(t2), Some(t3)) =
            (tables.next(), tables.next(), tables.next(), tables.next())
    {
        let [a, b, c, d] = [a, b, c, d].map(|column| &column.1[rows.clone()]);
        for (i, (((&a, &b), &c), &d)) in a.iter().zip(b).zip(c).zip(d).enumerate() {
            let x = load::<_, NV>(v, i);
            add_to::<E, S, NV>(simd, t0, usize::from(a), x);
            add_to::<E, S, NV>(simd, t1, usize::from(b), x);
            add_to::<E, S, NV>(simd, t2, usize::from(c), x);
            add_to::<E, S, NV>(simd, t3, usize::from(d), x);
        }
        return;
    }
    for ((_, codes), table) in columns.iter().zip(tables) {
        for (i, &code) in codes[rows.clone()].iter().enumerate() {
            add_to::<E, S, NV>(simd, table, usize::from(code), load(v, i));
        }
    }
}

/// Makes of sums by code the value of `f` at every code.
struct Integrate<'a, E> {
    columns: &'a [(&'a [f64], &'a [u8])],
    tables: &'a mut [E],
}

impl<E: Element> PanelKernel<E> for Integrate<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let tables = E::vectors_mut::<S>(self.tables).0;
        for ((values, _), table) in self.columns.iter().zip(tables.chunks_exact_mut(MAX_CODES * NV))
        {
            // Code 0 is the value zero, whose sum no other value sees.
            integrate::<E, S, NV>(simd, values, table);
        }
    }
}

/// Adds what the tables of columns hold of some rows, from the first on, to the result.
struct LookUp<'a, E> {
    columns: &'a [(&'a [f64], &'a [u8])],
    first: usize,
    tables: &'a [E],
    out: &'a mut [E],
}

impl<E: Element> PanelKernel<E> for LookUp<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let tables = E::vectors::<S>(self.tables).0;
        let out = E::vectors_mut::<S>(self.out).0;
        let at_once = ROW_BYTES / (NV * size_of::<E::Vector<S>>());
        for (chunk, out) in out.chunks_mut(at_once * NV).enumerate() {
            let start = self.first + chunk * at_once;
            let rows = start..start + out.len() / NV;
            let fours = self.columns.chunks(4).zip(tables.chunks(4 * MAX_CODES * NV));
            for (columns, tables) in fours {
                look_up_four::<E, S, NV>(simd, columns, rows.clone(), tables, out);
            }
        }
    }
}

/// Adds what the tables of up to four columns hold of rows to `out`, which they share.
#[inline(always)]
fn look_up_four<E: Element, S: Simd, const NV: usize>(
    simd: S,
    columns: &[(&[f64], &[u8])],
    rows: Range<usize>,
    tables: &[E::Vector<S>],
    out: &mut [E::Vector<S>],
) {
    let mut tables = tables.chunks_exact(MAX_CODES * NV);
    if let [a, b, c, d] = columns
        && let (Some(t0), Some(t1), Some(t2), Some(t3)) =
            (tables.next(), tables.next(), tables.next(), tables.next())
    {
        let [a, b, c, d] = [a, b, c, d].map(|column| &column.1[rows.clone()]);
        for (i, (((&a, &b), &c), &d)) in a.iter().zip(b).zip(c).zip(d).enumerate() {
            let fa = load::<_, NV>(t0, usize::from(a));
            let fb = load::<_, NV>(t1, usize::from(b));
            let fc = load::<_, NV>(t2, usize::from(c));
            let fd = load::<_, NV>(t3, usize::from(d));
            let mut f = fa;
            for k in 0..NV {
                f[k] = E::add(simd, E::add(simd, fa[k], fb[k]), E::add(simd, fc[k], fd[k]));
            }
            add_to::<E, S, NV>(simd, out, i, f);
        }
        return;
    }
    for ((_, codes), table) in columns.iter().zip(tables) {
        for (i, &code) in codes[rows.clone()].iter().enumerate() {
            add_to::<E, S, NV>(simd, out, i, load(table, usize::from(code)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intersection::SortedColumns;
    use crate::intersection::panel::{MAX_WIDTH, panel_widths};
    use crate::matrix::HistogramMatrix;
    use ndarray::Array2;

    /// Columns of few values, of which a part of no whole four is left over.
    fn counts(n_rows: usize, n_columns: usize) -> Array2<f64> {
        Array2::from_shape_fn((n_rows, n_columns), |(i, d)| {
            ((1 + i * 7919 + d * 60 + i * d) % 67) as f64 / 3.0
        })
    }

    #[test]
    fn parts_of_columns_and_of_rows_add_up_to_the_same() {
        for n_threads in [1, 2] {
            let exec = Executor::new(n_threads).unwrap();
            for (n_rows, n_columns) in [(1, 1), (2, 3), (301, 37), (700, 130), (2500, 1)] {
                let x = counts(n_rows, n_columns);
                let sorted = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
                let coded = CodedColumns::of(sorted.columns(), n_rows);
                for n_outputs in [1, 3, 8, 16] {
                    let width = panel_widths::<f64>(n_outputs, MAX_WIDTH)[0];
                    let v = Array2::from_shape_fn((n_rows, n_outputs.min(width)), |(i, k)| {
                        ((i * 31 + k * 17) % 101) as f64 - 50.0
                    });
                    let panel = Panel::<f64>::pack(&exec, v.view(), width).unwrap();
                    let by_rows = coded.product_by_rows(&exec, &panel).unwrap();
                    let parts = coded.product_by_columns(&exec, &panel).unwrap();
                    assert!(parts.len() > 1 || n_columns <= 4);
                    for (at, &right) in by_rows.iter().enumerate() {
                        let found: f64 = parts.iter().map(|part| part[at]).sum();
                        assert!((found - right).abs() <= 1e-12 * (1.0 + right.abs()), "{at}");
                    }
                }
            }
        }
    }

    #[test]
    fn few_rows_take_tables_in_turn() {
        let exec = Executor::new(2).unwrap();
        for (n_rows, several) in [(100, true), (3000, false)] {
            let x = counts(n_rows, 80);
            let sorted = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view())).unwrap();
            let v = Array2::from_elem((n_rows, 1), 1.0);
            let panel = Panel::<f64>::pack(&exec, v.view(), 1).unwrap();
            let coded = CodedColumns::of(sorted.columns(), n_rows);
            assert!(!coded.is_empty());
            assert_eq!(coded.product(&exec, &panel).unwrap().len() > 1, several);
        }
    }
}
