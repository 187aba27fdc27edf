//! `K V` in one pass over the sorted columns.

use ndarray::{Array2, ArrayView2};
use pulp::Simd;

use crate::error::{Result, check_length};
use crate::exec::Executor;
use crate::intersection::coded_columns::CodedColumns;
use crate::intersection::coded_rows::is_read_by_rows;
use crate::intersection::column::Column;
use crate::intersection::columns::{SortedColumns, column_blocks};
use crate::intersection::panel::{Panel, PanelKernel, by_panels, run_kernel};
use crate::intersection::scan::{add_runs, add_sorted};
use crate::simd::{AlignedVec, Element};

impl SortedColumns {
    /// The product `K V` with the kernel matrix of the stored rows (eq. 9):
    ///
    /// ```text
    /// (K v)_i = sum_d [ sum_{j: x_j(d) <= x_i(d)} x_j(d) v_j + x_i(d) sum_{j: x_j(d) > x_i(d)} v_j ]
    /// ```
    ///
    /// `v` has a row for every stored row and any number of columns, which share each pass. Sums
    /// are in double precision whatever `T` is.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) when `v` has another number of rows.
    pub fn product<T: Element>(&self, exec: &Executor, v: ArrayView2<'_, T>) -> Result<Array2<T>> {
        self.product_in::<f64, T>(exec, v)
    }

    /// The same product with sums in single precision, at half the memory traffic. Meant for
    /// preconditioners and inner iterations.
    ///
    /// The error of row `i` is near `1e-6 k(x_i, x_i) |v|_1` and grows with the root of the number
    /// of rows. Entries of the rows, of `V` and of the product must be in the range of `f32`.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`](crate::Error::Shape) when `v` has another number of rows.
    pub fn product_f32<T: Element>(
        &self,
        exec: &Executor,
        v: ArrayView2<'_, T>,
    ) -> Result<Array2<T>> {
        self.product_in::<f32, T>(exec, v)
    }

    fn product_in<E: Element, T: Element>(
        &self,
        exec: &Executor,
        v: ArrayView2<'_, T>,
    ) -> Result<Array2<T>> {
        self.check_rows(v.nrows())?;
        let coded_rows = self.coded_rows(exec)?;
        let coded_columns = CodedColumns::of(self.columns(), self.n_rows());
        let (others, scanned): (Vec<_>, Vec<_>) = self
            .columns()
            .iter()
            .filter(|column| !is_read_by_rows(column))
            .filter_map(|column| Some((column, Scanned::of(column)?)))
            .unzip();
        let blocks = column_blocks(others.into_iter());
        by_panels::<E, T>(exec, v, self.n_rows(), |panel| {
            let total = panel.column_sums(exec)?;
            let mut parts = exec.map_blocks(blocks.len(), |block| {
                let mut out = AlignedVec::zeros(panel.data.len())?;
                let columns = &scanned[blocks[block].clone()];
                // Look for an interrupt now and then inside a block, too.
                for columns in columns.chunks(columns_per_check(panel.data.len())) {
                    exec.check()?;
                    let kernel = AddColumns { columns, panel, total: &total, out: &mut out };
                    run_kernel::<E, _>(panel.width, kernel);
                }
                Ok(out)
            })?;
            if !coded_columns.is_empty() {
                parts.extend(coded_columns.product(exec, panel)?);
            }
            if !coded_rows.is_empty() {
                parts.push(coded_rows.product(exec, panel)?);
            }
            Ok(parts)
        })
    }

    /// Fails unless a right-hand side has one row for every stored row.
    pub(crate) fn check_rows(&self, found: usize) -> Result<()> {
        let cure = "give one row for every row of X";
        check_length("the number of rows of V", found, self.n_rows(), cure)
    }
}

/// Columns between two looks for an interrupt: some tenths of a second.
fn columns_per_check(panel_len: usize) -> usize {
    ((1 << 28) / panel_len.max(1)).clamp(4, 256)
}

/// A column without codes, whose entries are passed over in the order of their values.
enum Scanned<'a> {
    Runs { values: &'a [f64], starts: &'a [u32], rows: &'a [u32] },
    Sorted { values: &'a [f64], rows: &'a [u32] },
}

impl<'a> Scanned<'a> {
    fn of(column: &'a Column) -> Option<Self> {
        match column {
            Column::Coded { .. } => None,
            Column::Runs { values, starts, rows } => Some(Self::Runs { values, starts, rows }),
            Column::Sorted { values, rows } => Some(Self::Sorted { values, rows }),
        }
    }
}

struct AddColumns<'a, E> {
    columns: &'a [Scanned<'a>],
    panel: &'a Panel<E>,
    total: &'a [E],
    out: &'a mut [E],
}

impl<E: Element> PanelKernel<E> for AddColumns<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd, const NV: usize>(self, simd: S) {
        let v = E::vectors::<S>(&self.panel.data).0;
        let total = E::vectors::<S>(self.total).0;
        let out = E::vectors_mut::<S>(self.out).0;
        let mut table = Vec::new();
        let mut waiting = None;
        for column in self.columns {
            match *column {
                Scanned::Runs { values, starts, rows } => {
                    add_runs::<E, S, NV>(simd, (values, starts, rows), v, out, &mut table);
                }
                // Several vectors of one column have no need to wait for one another.
                Scanned::Sorted { values, rows } if NV > 1 => {
                    add_sorted::<E, S, NV>(simd, (values, rows), None, v, total, out);
                }
                Scanned::Sorted { values, rows } => match waiting.take() {
                    Some(one) => {
                        add_sorted::<E, S, NV>(simd, one, Some((values, rows)), v, total, out);
                    }
                    None => waiting = Some((values, rows)),
                },
            }
        }
        if let Some(one) = waiting {
            add_sorted::<E, S, NV>(simd, one, None, v, total, out);
        }
    }
}
