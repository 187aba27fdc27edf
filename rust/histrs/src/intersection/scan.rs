//! Passes over one column, for a panel of right-hand sides.
//!
//! With the non-zero values of a column in ascending order `x_1 <= x_2 <= ...`, zero being `x_0`,
//!
//! ```text
//! f(x) = sum_j min(x, x_j) v_j,    f(x_k) = f(x_{k-1}) + (x_k - x_{k-1}) sum_{j >= k} v_j
//! ```
//!
//! which is eq. 9 with both of its sums carried along.

use std::ops::Range;

use crate::error::Result;
use pulp::Simd;

use crate::intersection::column::{Column, MAX_CODES};
use crate::memory;
use crate::simd::{Element, prefetch};

/// Rows are asked for this many entries ahead when the panel outgrows the second-level cache.
const PREFETCH_DISTANCE: usize = 16;
const PREFETCH_MIN_BYTES: usize = 1 << 20;

// Loops, not `array::from_fn` and `copy_from_slice`: where those are not inlined, they are called
// for every row, and compiled without the instructions of the kernel around them.
#[inline(always)]
#[allow(clippy::manual_memcpy)]
pub(crate) fn load<V: Copy, const NV: usize>(rows: &[V], row: usize) -> [V; NV] {
    let row = &rows[row * NV..row * NV + NV];
    let mut x = [row[0]; NV];
    for k in 0..NV {
        x[k] = row[k];
    }
    x
}

#[inline(always)]
#[allow(clippy::manual_memcpy)]
pub(crate) fn store<V: Copy, const NV: usize>(rows: &mut [V], row: usize, x: [V; NV]) {
    let row = &mut rows[row * NV..row * NV + NV];
    for k in 0..NV {
        row[k] = x[k];
    }
}

#[inline(always)]
pub(crate) fn add_to<E: Element, S: Simd, const NV: usize>(
    simd: S,
    rows: &mut [E::Vector<S>],
    row: usize,
    x: [E::Vector<S>; NV],
) {
    let row = &mut rows[row * NV..row * NV + NV];
    for k in 0..NV {
        row[k] = E::add(simd, row[k], x[k]);
    }
}

/// Replaces sums of `v` over equal values by `f` at those values, in place.
///
/// `table[k]` belongs to `values[k]`; a leading value 0 keeps `f = 0`.
#[inline(always)]
pub(crate) fn integrate<E: Element, S: Simd, const NV: usize>(
    simd: S,
    values: &[f64],
    table: &mut [E::Vector<S>],
) {
    let mut above = [E::splat(simd, E::default()); NV];
    for k in (0..values.len()).rev() {
        let sum = load::<_, NV>(table, k);
        for i in 0..NV {
            above[i] = E::add(simd, above[i], sum[i]);
        }
        store(table, k, above);
    }
    let mut f = [E::splat(simd, E::default()); NV];
    let mut previous = 0.0;
    for (k, &value) in values.iter().enumerate() {
        let step = E::splat(simd, E::from_f64(value - previous));
        previous = value;
        let above = load::<_, NV>(table, k);
        for i in 0..NV {
            f[i] = E::mul_add(simd, step, above[i], f[i]);
        }
        store(table, k, f);
    }
}

/// Sums of `v` over the rows of each run of equal values.
#[inline(always)]
pub(crate) fn run_sums<E: Element, S: Simd, const NV: usize>(
    simd: S,
    starts: &[u32],
    rows: &[u32],
    v: &[E::Vector<S>],
    table: &mut [E::Vector<S>],
) {
    for (k, run) in starts.windows(2).enumerate() {
        let mut sum = [E::splat(simd, E::default()); NV];
        for &row in &rows[run[0] as usize..run[1] as usize] {
            let x = load::<_, NV>(v, row as usize);
            for i in 0..NV {
                sum[i] = E::add(simd, sum[i], x[i]);
            }
        }
        store(table, k, sum);
    }
}

/// Adds `f` of every stored row to `out`, for a column of runs.
#[inline(always)]
pub(crate) fn add_runs<E: Element, S: Simd, const NV: usize>(
    simd: S,
    (values, starts, rows): (&[f64], &[u32], &[u32]),
    v: &[E::Vector<S>],
    out: &mut [E::Vector<S>],
    table: &mut Vec<E::Vector<S>>,
) {
    table.clear();
    table.resize(values.len() * NV, E::splat(simd, E::default()));
    run_sums::<E, S, NV>(simd, starts, rows, v, table);
    integrate::<E, S, NV>(simd, values, table);
    for (k, run) in starts.windows(2).enumerate() {
        let f = load::<_, NV>(table, k);
        for &row in &rows[run[0] as usize..run[1] as usize] {
            add_to::<E, S, NV>(simd, out, row as usize, f);
        }
    }
}

/// Adds `f` of every stored row to `out`, for a column of distinct values.
///
/// `total` is the sum of all rows of `v`, which a column without zeros need not add up again.
#[inline(always)]
pub(crate) fn add_sorted<E: Element, S: Simd, const NV: usize>(
    simd: S,
    (values, rows): (&[f64], &[u32]),
    v: &[E::Vector<S>],
    total: &[E::Vector<S>],
    out: &mut [E::Vector<S>],
) {
    let mut above = [E::splat(simd, E::default()); NV];
    if rows.len() * NV == v.len() {
        above = load(total, 0);
    } else {
        for &row in rows {
            let x = load::<_, NV>(v, row as usize);
            for i in 0..NV {
                above[i] = E::add(simd, above[i], x[i]);
            }
        }
    }
    let far = size_of_val(v) > PREFETCH_MIN_BYTES;
    let mut f = [E::splat(simd, E::default()); NV];
    let mut previous = 0.0;
    for (k, (&value, &row)) in values.iter().zip(rows).enumerate() {
        if far && let Some(&ahead) = rows.get(k + PREFETCH_DISTANCE) {
            prefetch(v, ahead as usize * NV);
            prefetch(out, ahead as usize * NV);
        }
        // Equal values make steps of zero, so that their order does not matter.
        let step = E::splat(simd, E::from_f64(value - previous));
        previous = value;
        let x = load::<_, NV>(v, row as usize);
        for i in 0..NV {
            f[i] = E::mul_add(simd, step, above[i], f[i]);
            above[i] = E::sub(simd, above[i], x[i]);
        }
        add_to::<E, S, NV>(simd, out, row as usize, f);
    }
}

/// Bytes of the tables of coded columns that are passed over together: half of a second-level cache.
const CODED_TABLE_BYTES: usize = 1 << 19;
/// Bytes of the rows of a right-hand side that all these columns read before the next are.
const CODED_ROW_BYTES: usize = 1 << 15;

/// Coded columns whose tables share the cache, in whole groups of four.
pub(crate) fn coded_columns_at_once<E: Element>(width: usize) -> usize {
    (CODED_TABLE_BYTES / (MAX_CODES * width * size_of::<E>())).max(4) / 4 * 4
}

/// Adds `f` of every row to `out`, for coded columns.
///
/// Some rows at a time are read for all columns, so that right-hand side and result cross the
/// memory bus once for all of [`coded_columns_at_once`]. Four columns share each load of `v` and
/// each update of `out`, and updates of four tables do not wait for one another.
#[inline(always)]
pub(crate) fn add_coded<E: Element, S: Simd, const NV: usize>(
    simd: S,
    columns: &[(&[f64], &[u8])],
    v: &[E::Vector<S>],
    out: &mut [E::Vector<S>],
    tables: &mut Vec<E::Vector<S>>,
) {
    let table_len = MAX_CODES * NV;
    tables.clear();
    tables.resize(columns.len() * table_len, E::splat(simd, E::default()));
    let n_rows = columns.first().map_or(0, |c| c.1.len());
    let at_once = CODED_ROW_BYTES / (NV * size_of::<E::Vector<S>>());
    for start in (0..n_rows).step_by(at_once) {
        let rows = start..n_rows.min(start + at_once);
        let v = &v[rows.start * NV..rows.end * NV];
        for (group, tables) in columns.chunks(4).zip(tables.chunks_mut(4 * table_len)) {
            sum_coded::<E, S, NV>(simd, group, rows.clone(), v, tables);
        }
    }
    for (column, table) in columns.iter().zip(tables.chunks_exact_mut(table_len)) {
        integrate_coded::<E, S, NV>(simd, column.0, table);
    }
    for start in (0..n_rows).step_by(at_once) {
        let rows = start..n_rows.min(start + at_once);
        let out = &mut out[rows.start * NV..rows.end * NV];
        for (group, tables) in columns.chunks(4).zip(tables.chunks(4 * table_len)) {
            add_tables::<E, S, NV>(simd, group, rows.clone(), tables, out);
        }
    }
}

/// Adds some rows of `v` to the tables of up to four columns, at the values of their entries.
#[inline(always)]
fn sum_coded<E: Element, S: Simd, const NV: usize>(
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

/// Adds what the tables of up to four columns hold of some rows to `out`.
#[inline(always)]
fn add_tables<E: Element, S: Simd, const NV: usize>(
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

/// `f` at every value of a coded column.
#[inline(always)]
pub(crate) fn coded_table<E: Element, S: Simd, const NV: usize>(
    simd: S,
    values: &[f64],
    codes: &[u8],
    v: &[E::Vector<S>],
    table: &mut [E::Vector<S>],
) {
    table[..values.len() * NV].fill(E::splat(simd, E::default()));
    for (i, &code) in codes.iter().enumerate() {
        let x = load(v, i);
        add_to::<E, S, NV>(simd, table, usize::from(code), x);
    }
    integrate_coded::<E, S, NV>(simd, values, table);
}

/// Code 0 is the value zero, whose sum of `v` no other value sees.
#[inline(always)]
fn integrate_coded<E: Element, S: Simd, const NV: usize>(
    simd: S,
    values: &[f64],
    table: &mut [E::Vector<S>],
) {
    integrate::<E, S, NV>(simd, values, table);
    debug_assert!(values[0] == 0.0);
}

/// `f` at the distinct non-zero values of `column`, in ascending order, written to `table`.
#[inline(always)]
pub(crate) fn column_table<E: Element, S: Simd, const NV: usize>(
    simd: S,
    column: &Column,
    v: &[E::Vector<S>],
    table: &mut Vec<E::Vector<S>>,
) -> Result<()> {
    let zero = E::splat(simd, E::default());
    table.clear();
    match column {
        Column::Coded { values, codes } => {
            table.resize(values.len() * NV, zero);
            coded_table::<E, S, NV>(simd, values, codes, v, table);
            table.drain(..NV);
        }
        Column::Runs { values, starts, rows } => {
            table.resize(values.len() * NV, zero);
            run_sums::<E, S, NV>(simd, starts, rows, v, table);
            integrate::<E, S, NV>(simd, values, table);
        }
        Column::Sorted { values, rows } => {
            let mut distinct: Vec<f64> = memory::with_capacity(values.len())?;
            for (&value, &row) in values.iter().zip(rows) {
                if distinct.last().is_none_or(|last| last.to_bits() != value.to_bits()) {
                    distinct.push(value);
                    table.extend([zero; NV]);
                }
                let x = load(v, row as usize);
                add_to::<E, S, NV>(simd, table, distinct.len() - 1, x);
            }
            integrate::<E, S, NV>(simd, &distinct, table);
        }
    }
    Ok(())
}
