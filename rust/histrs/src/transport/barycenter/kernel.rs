//! Logarithms of products with the kernel: two matrix products where it is in range, else sums of
//! exponentials.

use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::simd::{AlignedVec, dispatch};
use crate::transport::barycenter::row_sums::log_sums_of_rows;
use crate::transport::log_domain::Exponents;
use crate::transport::problem::{Bins, DOUBLE_RANGE, Ground};
use crate::transport::product::{Packed, TILE, padded};
use crate::transport::relaxed::{Logarithms, Shifted, Side};
use crate::transport::scaling::Kernel;

/// Lanes of the widest vector, of which every row has a whole number.
pub(super) const LANES: usize = 8;
/// Entries of the kernel, once for each lane, that a thread takes at a time.
const ENTRIES: usize = 1 << 17;
/// No sum is below the least entry of a kernel in range.
const LEAST: f64 = 1e-140;

/// `exp(-M / reg)` in the cheapest form that holds it.
pub(super) enum LogKernel {
    InRange(Kernel<f64>),
    Exponents(Exponents),
}

/// Numbers of every bin of a side, one per lane.
pub(super) struct Columns {
    pub(super) values: AlignedVec<f64>,
    pub(super) n_rows: usize,
    pub(super) n_lanes: usize,
    pub(super) stride: usize,
}

impl Columns {
    pub(super) fn new(n_rows: usize, n_lanes: usize) -> Result<Self> {
        let stride = n_lanes.next_multiple_of(LANES);
        Ok(Self { values: AlignedVec::zeros(padded(n_rows) * stride)?, n_rows, n_lanes, stride })
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.values.chunks_exact(self.stride).take(self.n_rows)
    }

    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [f64]> {
        self.values.chunks_exact_mut(self.stride).take(self.n_rows)
    }
}

/// Where a sum is computed: memory that is kept from one to the next.
pub(super) struct Work {
    values: AlignedVec<f64>,
    largest: Vec<f64>,
}

impl Work {
    /// For as many bins, on either side, and lanes.
    pub(super) fn new(n_rows: usize, n_lanes: usize) -> Result<Self> {
        let stride = n_lanes.next_multiple_of(LANES);
        Ok(Self {
            values: AlignedVec::zeros(n_rows * stride)?,
            largest: memory::filled(0.0, stride)?,
        })
    }
}

impl LogKernel {
    /// The kernel of a regularisation that is coarser by this factor.
    pub(super) fn new(ground: &Ground<'_>, bins: &Bins, coarseness: f64) -> Result<Self> {
        if !ground.forbids && ground.largest / coarseness <= DOUBLE_RANGE {
            return Ok(Self::InRange(ground.coarse_kernel(bins, coarseness)?));
        }
        Ok(Self::Exponents(ground.exponents(bins, coarseness)?))
    }

    /// `out = log sum exp(values - M / reg)` over the bins of the other side, in every lane. What `out`
    /// holds before may be anything, and is best the result for values that are not far from these.
    pub(super) fn log_sums(
        &self,
        exec: &Executor,
        side: Side,
        values: &Columns,
        out: &mut Columns,
        work: &mut Work,
    ) -> Result<()> {
        match self {
            Self::InRange(kernel) => {
                let packed = if side == Side::Source { &kernel.forward } else { &kernel.backward };
                log_products(exec, packed, values, out, work)
            }
            Self::Exponents(exponents) => {
                let matrix =
                    if side == Side::Source { &exponents.by_source } else { &exponents.by_target };
                log_sums(exec, matrix, values, out, work)
            }
        }
    }
}

/// Values are measured from the largest of their lane, so that they may be of any size.
fn log_products(
    exec: &Executor,
    packed: &Packed<f64>,
    values: &Columns,
    out: &mut Columns,
    work: &mut Work,
) -> Result<()> {
    let stride = values.stride;
    let values = &values.values[..values.n_rows * stride];
    let (weights, largest) = (&mut work.values[..values.len()], &mut work.largest[..stride]);
    dispatch(Shifted { values, largest, weights, stride, width: stride });
    let (weights, largest) = (&work.values[..values.len()], &work.largest[..stride]);
    let entries = packed.n_columns() * stride;
    let rows = (ENTRIES / entries.max(1)).next_multiple_of(TILE).max(TILE);
    exec.for_chunks(&mut out.values, rows * stride, |block, out| {
        packed.product_of_rows(block * rows, weights, out, stride, stride);
        dispatch(Logarithms { sums: out, largest, least: LEAST, stride, width: stride });
        Ok(())
    })
}

fn log_sums(
    exec: &Executor,
    matrix: &[f64],
    values: &Columns,
    out: &mut Columns,
    work: &mut Work,
) -> Result<()> {
    let (n_columns, n_lanes, stride) = (values.n_rows, values.n_lanes, values.stride);
    let by_lane = &mut work.values[..n_lanes * n_columns];
    for (j, row) in values.rows().enumerate() {
        for (value, lane) in row.iter().zip(by_lane.chunks_exact_mut(n_columns)) {
            lane[j] = *value;
        }
    }
    let by_lane = &work.values[..n_lanes * n_columns];
    let rows = (ENTRIES / 4 / (n_columns * n_lanes).max(1)).max(1);
    let n_rows = out.n_rows;
    exec.for_chunks(&mut out.values[..n_rows * stride], rows * stride, |block, out| {
        let matrix = &matrix[block * rows * n_columns..];
        log_sums_of_rows(matrix, by_lane, n_columns, out, stride);
        Ok(())
    })
}
