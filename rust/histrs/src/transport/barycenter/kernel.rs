//! Logarithms of products with the kernel: two matrix products where it is in range, else sums of
//! exponentials.

use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::simd::AlignedVec;
use crate::transport::barycenter::row_sums::log_sums_of_rows;
use crate::transport::lines::Lines;
use crate::transport::log_blocks::BlockWork;
use crate::transport::log_domain::{Axis, Exponents};
use crate::transport::problem::{Bins, Ground};
use crate::transport::product::{Packed, TILE, padded};
use crate::transport::range::{Side, least_sum, logarithms, shift};

/// Lanes of the widest vector, of which every row has a whole number.
pub(super) const LANES: usize = 8;
/// Entries of the kernel, once for each lane, that a thread takes at a time.
const ENTRIES: usize = 1 << 17;

/// `exp(-M / reg)` in the cheapest form that holds it.
pub(super) enum LogKernel {
    InRange([Packed<f64>; 2]),
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
        match ground.coarse_kernel(bins, coarseness)? {
            Some(kernel) => Ok(Self::InRange(kernel)),
            None => Ok(Self::Exponents(ground.exponents(bins, coarseness)?)),
        }
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
            Self::InRange([forward, backward]) => {
                let packed = if side == Side::Source { forward } else { backward };
                log_products(exec, packed, values, out, work)
            }
            Self::Exponents(exponents) => {
                if let Some(matrix) = exponents.matrix(side) {
                    return log_sums(exec, matrix, values, out, work);
                }
                let n = values.n_rows * values.stride;
                out.values[..n].copy_from_slice(&values.values[..n]);
                for (axis, lines) in exponents.axes() {
                    log_sums_along(exec, (axis, lines), side, out, work)?;
                }
                Ok(())
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
    shift(values, largest, weights, stride, stride);
    let (weights, largest) = (&work.values[..values.len()], &work.largest[..stride]);
    let entries = packed.n_columns() * stride;
    let rows = (ENTRIES / entries.max(1)).next_multiple_of(TILE).max(TILE);
    exec.for_chunks(&mut out.values, rows * stride, |block, out| {
        packed.product_of_rows(block * rows, weights, out, stride, stride);
        logarithms(out, largest, least_sum(), stride, stride);
        Ok(())
    })
}

/// The sums along an axis of a grid, in place.
fn log_sums_along(
    exec: &Executor,
    (axis, lines): (&Axis, Lines),
    side: Side,
    values: &mut Columns,
    work: &mut Work,
) -> Result<()> {
    let stride = values.stride;
    let of_line = lines.length * stride;
    let of_group = lines.together(stride) * of_line;
    let n_groups = (ENTRIES / (lines.length * of_group).max(1)).max(1);
    let images = &mut work.values[..lines.count * of_line];
    let x = &values.values[..];
    exec.for_chunks(images, n_groups * of_group, |chunk, images| {
        let (mut work, mut dense) = (BlockWork::default(), vec![0.0; of_group]);
        let groups = lines.groups(stride).skip(chunk * n_groups);
        for (group, image) in groups.zip(images.chunks_mut(of_group)) {
            let row_len = group.len() * stride;
            let dense = &mut dense[..image.len()];
            lines.gather(group, x, stride, dense);
            axis.log_sums(side, dense, image, &mut work, (row_len, row_len));
        }
        Ok(())
    })?;
    for (group, image) in lines.groups(stride).zip(images.chunks(of_group)) {
        lines.scatter(group, image, stride, &mut values.values);
    }
    Ok(())
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
