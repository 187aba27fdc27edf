//! Products with the matrix of cubic splines, in two passes over each column.

use ndarray::{Array2, ArrayView2};
use pulp::Simd;

use crate::error::Result;
use crate::exec::Executor;
use crate::intersection::column::Column;
use crate::intersection::columns::SortedColumns;
use crate::intersection::panel::{Panel, PanelKernel, by_panels, run_kernel};
use crate::intersection::scan::{add_to, load, run_sums, store};
use crate::simd::{AlignedVec, Element, Vectors};

impl SortedColumns {
    /// The product `K V` with the matrix that [`cubic_spline_gram`](crate::kernels::cubic_spline_gram)
    /// writes out:
    ///
    /// ```text
    /// (K v)_i = sum_d [ x_i/2 sum_{x_j <= x_i} x_j^2 v_j - 1/6 sum_{x_j <= x_i} x_j^3 v_j
    ///                 + x_i^2/2 sum_{x_j > x_i} x_j v_j - x_i^3/6 sum_{x_j > x_i} v_j ]
    /// ```
    ///
    /// and of `slope` times that of lines, `x_i sum_j x_j v_j`.
    ///
    /// Sums are in double precision whatever `T` is. Cubes of the values must be in its range.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) when `v` has not one row for every stored row.
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::{Executor, HistogramMatrix, intersection::SortedColumns};
    /// use ndarray::array;
    ///
    /// let exec = Executor::new(1)?;
    /// let x = array![[3.0], [6.0]];
    /// let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view()))?;
    /// let product = columns.cubic_product(&exec, array![[1.0], [2.0]].view(), 0.0)?;
    /// assert_eq!(product, array![[54.0], [166.5]]);
    /// # Ok::<(), histrs::Error>(())
    /// ```
    pub fn cubic_product<T: Element>(
        &self,
        exec: &Executor,
        v: ArrayView2<'_, T>,
        slope: f64,
    ) -> Result<Array2<T>> {
        self.check_rows(v.nrows())?;
        let blocks = self.blocks();
        by_panels::<f64, T>(exec, v, self.n_rows(), |panel| {
            exec.map_blocks(blocks.len(), |block| {
                let mut out = AlignedVec::zeros(panel.data.len())?;
                for column in &self.columns()[blocks[block].clone()] {
                    exec.check()?;
                    let mut tables = AlignedVec::zeros(2 * column.most_knots() * panel.width)?;
                    let (out, tables) = (&mut out[..], &mut tables[..]);
                    run_kernel::<f64, _>(
                        panel.width,
                        AddColumn { column, panel, slope, tables, out },
                    );
                }
                Ok(out)
            })
        })
    }
}

struct AddColumn<'a> {
    column: &'a Column,
    panel: &'a Panel<f64>,
    slope: f64,
    /// Of twice as many rows as the column has values.
    tables: &'a mut [f64],
    out: &'a mut [f64],
}

impl PanelKernel<f64> for AddColumn<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let v = f64::vectors::<S>(&self.panel.data).0;
        let out = f64::vectors_mut::<S>(self.out).0;
        let tables = f64::vectors_mut::<S>(self.tables).0;
        let slope = self.slope;
        let (table, second) = tables.split_at_mut(self.column.most_knots() * NV);
        match self.column {
            Column::Coded { values, codes } => {
                for (i, &code) in codes.iter().enumerate() {
                    let x = load::<_, NV>(v, i);
                    add_to::<f64, S, NV>(simd, table, usize::from(code), x);
                }
                // What rows of zeros weigh, no other value sees, and they see nothing.
                integrate_twice::<S, NV>(
                    simd,
                    slope,
                    &values[1..],
                    &mut table[NV..],
                    &mut second[NV..],
                );
                store(table, 0, [f64::splat(simd, 0.0); NV]);
                for (i, &code) in codes.iter().enumerate() {
                    let f = load::<_, NV>(table, usize::from(code));
                    add_to::<f64, S, NV>(simd, out, i, f);
                }
            }
            Column::Runs { values, starts, rows } => {
                run_sums::<f64, S, NV>(simd, starts, rows, v, table);
                integrate_twice::<S, NV>(simd, slope, values, table, second);
                for (k, run) in starts.windows(2).enumerate() {
                    let f = load::<_, NV>(table, k);
                    for &row in &rows[run[0] as usize..run[1] as usize] {
                        add_to::<f64, S, NV>(simd, out, row as usize, f);
                    }
                }
            }
            Column::Sorted { values, rows } => {
                for (k, &row) in rows.iter().enumerate() {
                    store(table, k, load::<_, NV>(v, row as usize));
                }
                // Equal values make steps of zero, so that they need not be brought together.
                integrate_twice::<S, NV>(simd, slope, values, table, second);
                for (k, &row) in rows.iter().enumerate() {
                    add_to::<f64, S, NV>(simd, out, row as usize, load::<_, NV>(table, k));
                }
            }
        }
    }
}

/// Replaces sums of `v` over equal values by `f` at those values, in place; `second` is overwritten.
#[inline(always)]
fn integrate_twice<S: Simd, const NV: usize>(
    simd: S,
    slope: f64,
    values: &[f64],
    table: &mut [S::f64s],
    second: &mut [S::f64s],
) {
    let zero = [f64::splat(simd, 0.0); NV];
    // From above: `-f'''` below each value, and `f''` there.
    let (mut above, mut curvature) = (zero, zero);
    for k in (0..values.len()).rev() {
        let sum = load::<_, NV>(table, k);
        store(second, k, curvature);
        for i in 0..NV {
            above[i] = f64::add(simd, above[i], sum[i]);
        }
        store(table, k, above);
        let step = values[k] - if k > 0 { values[k - 1] } else { 0.0 };
        let step = f64::splat(simd, step);
        for i in 0..NV {
            curvature[i] = simd.mul_add_e_f64s(step, above[i], curvature[i]);
        }
    }
    let (mut f, mut slopes) = (zero, zero);
    for i in 0..NV {
        slopes[i] = f64::mul(simd, f64::splat(simd, slope), curvature[i]);
    }
    let mut previous = 0.0;
    for (k, &value) in values.iter().enumerate() {
        let h = value - previous;
        previous = value;
        let [step, half_step, third, half] =
            [h, 0.5 * h, h / 3.0, 0.5].map(|x| f64::splat(simd, x));
        let (above, curvature) = (load::<_, NV>(table, k), load::<_, NV>(second, k));
        for i in 0..NV {
            // h f' + h^2 / 2 f'' + h^3 / 3 (-f'''), derivatives f'' at the right end.
            let bent = simd.mul_add_e_f64s(third, above[i], f64::mul(simd, half, curvature[i]));
            let rise = simd.mul_add_e_f64s(step, bent, slopes[i]);
            f[i] = simd.mul_add_e_f64s(step, rise, f[i]);
            let turn = simd.mul_add_e_f64s(half_step, above[i], curvature[i]);
            slopes[i] = simd.mul_add_e_f64s(step, turn, slopes[i]);
        }
        store(table, k, f);
    }
}
