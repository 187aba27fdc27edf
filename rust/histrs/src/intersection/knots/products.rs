//! Products with the hat functions at the rows, and with their transpose.

use ndarray::{Array2, ArrayView2, s};
use pulp::Simd;

use crate::error::Result;
use crate::exec::Executor;
use crate::intersection::knots::column::KnotColumn;
use crate::intersection::knots::{KnotProjection, check_rows};
use crate::intersection::panel::{
    MAX_WIDTH, Panel, PanelKernel, ROW_BLOCK, by_panels, panel_widths, run_kernel,
};
use crate::intersection::scan::{add_to, load};
use crate::memory;
use crate::simd::{AlignedVec, Vectors};

impl KnotProjection {
    /// `Phi^T V`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) when `v` has not one row for every stored row.
    pub fn project(&self, exec: &Executor, v: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        check_rows("the number of rows of V", v.nrows(), self.n_rows)?;
        let mut out = memory::zeros((self.n_features(), v.ncols()))?;
        if out.is_empty() {
            return Ok(out);
        }
        let mut start = 0;
        for width in panel_widths::<f64>(v.ncols(), MAX_WIDTH) {
            let end = v.ncols().min(start + width);
            let panel = Panel::<f64>::pack(exec, v.slice(s![.., start..end]), width)?;
            let tables = exec.map_blocks(self.columns.len(), |d| {
                let mut table = AlignedVec::zeros((self.columns[d].knots.len() + 1) * width)?;
                let column = &self.columns[d];
                run_kernel(width, Project { column, panel: &panel, table: &mut table });
                Ok(table)
            })?;
            for (d, table) in tables.iter().enumerate() {
                let rows = self.offsets[d]..self.offsets[d + 1];
                for (row, sums) in rows.zip(table.chunks_exact(width).skip(1)) {
                    for (k, sum) in sums[..end - start].iter().enumerate() {
                        out[[row, start + k]] = *sum;
                    }
                }
            }
            start = end;
        }
        Ok(out)
    }

    /// `Phi W`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) when `w` has not one row for every feature.
    pub fn expand(&self, exec: &Executor, w: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
        check_rows("the number of rows of W", w.nrows(), self.n_features())?;
        by_panels::<f64, f64>(exec, w, self.n_rows, |panel| {
            let width = panel.width;
            let mut out = AlignedVec::zeros(self.n_rows * width)?;
            exec.for_chunks(&mut out, ROW_BLOCK * width, |block, out| {
                let start = block * ROW_BLOCK;
                run_kernel(width, Expand { projection: self, panel, start, out });
                Ok(())
            })?;
            Ok(vec![out])
        })
    }
}

struct Project<'a> {
    column: &'a KnotColumn,
    panel: &'a Panel<f64>,
    table: &'a mut [f64],
}

impl PanelKernel<f64> for Project<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let v = f64::vectors::<S>(&self.panel.data).0;
        let table = f64::vectors_mut::<S>(self.table).0;
        // Plain loops: vectors inside a closure may not be inlined, and are slow then.
        for (i, (&cell, &weight)) in self.column.cells.iter().zip(&self.column.weights).enumerate()
        {
            let row = self.column.rows.as_ref().map_or(i, |rows| rows[i] as usize);
            let weight = f64::splat(simd, f64::from(weight));
            let x = load::<_, NV>(v, row);
            let mut upper = x;
            let mut lower = x;
            for k in 0..NV {
                upper[k] = simd.mul_f64s(weight, x[k]);
                lower[k] = simd.sub_f64s(x[k], upper[k]);
            }
            add_to::<f64, S, NV>(simd, table, usize::from(cell), lower);
            add_to::<f64, S, NV>(simd, table, usize::from(cell) + 1, upper);
        }
    }
}

struct Expand<'a> {
    projection: &'a KnotProjection,
    panel: &'a Panel<f64>,
    start: usize,
    out: &'a mut [f64],
}

impl PanelKernel<f64> for Expand<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let w = f64::vectors::<S>(&self.panel.data).0;
        let out = f64::vectors_mut::<S>(self.out).0;
        let (start, n_rows) = (self.start, out.len() / NV);
        let mut knots: Vec<S::f64s> = Vec::new();
        for (column, &offset) in self.projection.columns.iter().zip(&self.projection.offsets) {
            // The function is 0 at 0, then as given at the knots.
            knots.clear();
            knots.resize(NV, simd.splat_f64s(0.0));
            knots.extend_from_slice(&w[offset * NV..(offset + column.knots.len()) * NV]);
            if column.knots.is_empty() {
                continue;
            }
            let entries = match &column.rows {
                None => start..start + n_rows,
                Some(rows) => {
                    rows.partition_point(|&row| (row as usize) < start)
                        ..rows.partition_point(|&row| (row as usize) < start + n_rows)
                }
            };
            for i in entries {
                let row = column.rows.as_ref().map_or(i, |rows| rows[i] as usize) - start;
                let weight = simd.splat_f64s(f64::from(column.weights[i]));
                let low = load::<_, NV>(&knots, usize::from(column.cells[i]));
                let high = load::<_, NV>(&knots, usize::from(column.cells[i]) + 1);
                let mut value = low;
                for k in 0..NV {
                    let rise = simd.sub_f64s(high[k], low[k]);
                    value[k] = simd.mul_add_e_f64s(weight, rise, low[k]);
                }
                add_to::<f64, S, NV>(simd, out, row, value);
            }
        }
    }
}
