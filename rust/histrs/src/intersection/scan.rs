//! Passes over one column, for a panel of right-hand sides.
//!
//! With the non-zero values of a column in ascending order `x_1 <= x_2 <= ...`, zero being `x_0`,
//!
//! ```text
//! f(x) = sum_j min(x, x_j) v_j,    f(x_k) = f(x_{k-1}) + (x_k - x_{k-1}) sum_{j >= k} v_j
//! ```
//!
//! which is eq. 9 with both of its sums carried along.

use crate::error::Result;
use pulp::Simd;

use crate::intersection::column::Column;
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

/// The sum of some rows of `v`.
#[inline(always)]
fn sum_of_rows<E: Element, S: Simd, const NV: usize>(
    simd: S,
    rows: &[u32],
    v: &[E::Vector<S>],
) -> [E::Vector<S>; NV] {
    let mut total = [E::splat(simd, E::default()); NV];
    for &row in rows {
        let x = load::<_, NV>(v, row as usize);
        for i in 0..NV {
            total[i] = E::add(simd, total[i], x[i]);
        }
    }
    total
}

/// A pass over a column of distinct values, in ascending order.
struct Scan<'a, E: Element, S: Simd, const NV: usize> {
    values: &'a [f64],
    rows: &'a [u32],
    /// The sum of `v` over the rows that are not behind.
    above: [E::Vector<S>; NV],
    f: [E::Vector<S>; NV],
    previous: f64,
}

impl<'a, E: Element, S: Simd, const NV: usize> Scan<'a, E, S, NV> {
    #[inline(always)]
    fn new(
        simd: S,
        (values, rows): (&'a [f64], &'a [u32]),
        v: &[E::Vector<S>],
        total: &[E::Vector<S>],
    ) -> Self {
        let is_full = rows.len() * NV == v.len();
        let above = if is_full { load(total, 0) } else { sum_of_rows::<E, S, NV>(simd, rows, v) };
        Self { values, rows, above, f: [E::splat(simd, E::default()); NV], previous: 0.0 }
    }

    /// Adds `f` of the rows of some entries to `out`.
    #[inline(always)]
    #[allow(clippy::needless_range_loop)] // counted loops are unrolled whatever the profile
    fn step(&mut self, simd: S, k: usize, v: &[E::Vector<S>], out: &mut [E::Vector<S>], far: bool) {
        if far && let Some(&ahead) = self.rows.get(k + PREFETCH_DISTANCE) {
            prefetch(v, ahead as usize * NV);
            prefetch(out, ahead as usize * NV);
        }
        let row = self.rows[k] as usize;
        // Equal values make steps of zero, so that their order does not matter.
        let step = E::splat(simd, E::from_f64(self.values[k] - self.previous));
        self.previous = self.values[k];
        let x = load::<_, NV>(v, row);
        for i in 0..NV {
            self.f[i] = E::mul_add(simd, step, self.above[i], self.f[i]);
            self.above[i] = E::sub(simd, self.above[i], x[i]);
        }
        add_to::<E, S, NV>(simd, out, row, self.f);
    }
}

/// Adds `f` of every stored row to `out`, for one column or two of distinct values.
///
/// Two are passed over side by side: the sums of one need not wait for those of the other.
/// `total` is the sum of all rows of `v`, which a column without zeros need not add up again.
#[inline(always)]
pub(crate) fn add_sorted<E: Element, S: Simd, const NV: usize>(
    simd: S,
    column: (&[f64], &[u32]),
    other: Option<(&[f64], &[u32])>,
    v: &[E::Vector<S>],
    total: &[E::Vector<S>],
    out: &mut [E::Vector<S>],
) {
    let far = size_of_val(v) > PREFETCH_MIN_BYTES;
    let mut one = Scan::<E, S, NV>::new(simd, column, v, total);
    let mut start = 0;
    if let Some(other) = other {
        let mut two = Scan::<E, S, NV>::new(simd, other, v, total);
        start = one.rows.len().min(two.rows.len());
        for k in 0..start {
            one.step(simd, k, v, out, far);
            two.step(simd, k, v, out, far);
        }
        for k in start..two.rows.len() {
            two.step(simd, k, v, out, far);
        }
    }
    for k in start..one.rows.len() {
        one.step(simd, k, v, out, far);
    }
}

/// `f` at every value of a coded column, written to a table of zeros.
#[inline(always)]
fn coded_table<E: Element, S: Simd, const NV: usize>(
    simd: S,
    values: &[f64],
    codes: &[u8],
    v: &[E::Vector<S>],
    table: &mut [E::Vector<S>],
) {
    for (i, &code) in codes.iter().enumerate() {
        let x = load(v, i);
        add_to::<E, S, NV>(simd, table, usize::from(code), x);
    }
    // Code 0 is the value zero, whose sum of `v` no other value sees.
    integrate::<E, S, NV>(simd, values, table);
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
