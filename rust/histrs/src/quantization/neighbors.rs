//! The rows of least sums of table entries, for many queries in one pass over the codes.

use std::cmp::Ordering;
use std::ops::Range;

use ndarray::{Array2, ArrayView1, ArrayView2, ArrayView3, ArrayViewMut1, Axis, s};
use pulp::{Simd, WithSimd};

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;
use crate::memory;
use crate::quantization::Code;
use crate::quantization::codes::check_codes;
use crate::simd::{AlignedVec, Real, Vectors, dispatch, lanes};

/// Rows of a block.
const ROWS: usize = 1 << 15;
/// Rows whose sums are carried side by side, so that none waits for its last addition.
const TOGETHER: usize = 8;
/// Elements of two of the longest vectors.
const MOST_LANES: usize = 32;
/// Bytes of tables that are read again and again, and so should stay in the cache.
const CACHED: usize = 1 << 18;
/// Bytes of tables above which a query comes alone.
const MOST_BYTES: usize = 1 << 22;
/// Room for candidates beyond those that are kept, so that they are seldom sifted.
const SPARE: usize = 16;

/// Rows and what they sum to, of shape `(n_queries, k)`.
pub type Neighbors<T> = (Array2<i64>, Array2<T>);

/// For each query `q`, the `n_neighbors` rows `i` of least `biases[i] + sum_m tables[m, codes[i, m],
/// q]` and these sums, the least first; of rows with equal sums, the first.
///
/// `tables` has the shape (blocks, codewords, queries); `biases` has an entry per row.
/// Sums are added up in the type of the tables, in the order of the blocks.
///
/// # Errors
///
/// [`Error::CodeOutOfRange`] at the first code that has no codeword, [`Error::Shape`] when lengths
/// disagree. [`Error::Parameter`] when there are not as many rows as neighbors, or a table holds an
/// entry whose sums might overflow. [`Error::Interrupted`].
///
/// # Examples
///
/// ```
/// use histrs::{Executor, quantization::neighbors};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let codes = array![[0_u8, 1], [1, 1], [1, 0]];
/// let tables = array![[[1.0], [2.0]], [[4.0], [8.0]]];
/// let (rows, sums) = neighbors(&exec, codes.view(), tables.view(), None, 2)?;
/// assert_eq!((rows, sums), (array![[2, 0]], array![[6.0, 9.0]]));
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn neighbors<T: Real, C: Code>(
    exec: &Executor,
    codes: ArrayView2<'_, C>,
    tables: ArrayView3<'_, T>,
    biases: Option<ArrayView1<'_, T>>,
    n_neighbors: usize,
) -> Result<Neighbors<T>> {
    check(exec, codes, tables, biases, n_neighbors)?;
    let (n_rows, n_blocks) = codes.dim();
    let (n_tables, n_codes, n_queries) = tables.dim();
    let mut rows = memory::zero_matrix((n_queries, n_neighbors))?;
    let mut sums = memory::zero_matrix((n_queries, n_neighbors))?;
    if n_queries == 0 {
        return Ok((rows, sums));
    }
    let biases = biases.map(|biases| biases.to_vec()).unwrap_or_default();
    let codes = codes.as_standard_layout();
    let scan =
        Scan { codes: memory::flat(&codes)?, n_blocks, n_codes, biases: &biases, n_neighbors };
    let width = panel_width::<T>(n_tables * n_codes, n_queries);
    let n_panels = n_queries.div_ceil(width);
    let n_chunks = n_rows.div_ceil(ROWS);
    // Panels of the same rows follow one another, which are then in the cache.
    let found = exec.map_blocks(n_panels * n_chunks, |block| {
        let start = block / n_panels * ROWS;
        let first = block % n_panels * width;
        let queries = first..n_queries.min(first + width);
        scan.nearest(start..n_rows.min(start + ROWS), tables, queries, width)
    })?;
    for query in 0..n_queries {
        let (panel, lane) = (query / width, query % width);
        let parts =
            (0..n_chunks).filter_map(|chunk| found.get(chunk * n_panels + panel)?.get(lane));
        let mut all: Vec<Candidate<T>> = memory::with_capacity(parts.clone().map(Vec::len).sum())?;
        for part in parts {
            memory::extend(&mut all, part.iter().copied())?;
        }
        all.sort_unstable_by(order);
        write(&all, rows.row_mut(query), sums.row_mut(query));
    }
    Ok((rows, sums))
}

/// As [`neighbors`], each query among the rows of some lists: list `l` has the rows from `starts[l]`
/// to `starts[l + 1]`, and query `q` looks into it where `probed[q, l]`.
///
/// # Errors
///
/// As [`neighbors`]. [`Error::Shape`] unless there is a column of `probed` for each list and a row
/// for each query. [`Error::Parameter`] when lists do not follow one another or hold fewer rows
/// than neighbors.
///
/// # Examples
///
/// ```
/// use histrs::{Executor, quantization::neighbors_in_lists};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let codes = array![[0_u8], [1], [0]];
/// let tables = array![[[1.0], [2.0]]];
/// let (starts, probed) = ([0, 1, 3], array![[false, true]]);
/// let found =
///     neighbors_in_lists(&exec, codes.view(), tables.view(), None, &starts, probed.view(), 1);
/// assert_eq!(found?, (array![[2]], array![[1.0]]));
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn neighbors_in_lists<T: Real, C: Code>(
    exec: &Executor,
    codes: ArrayView2<'_, C>,
    tables: ArrayView3<'_, T>,
    biases: Option<ArrayView1<'_, T>>,
    starts: &[i64],
    probed: ArrayView2<'_, bool>,
    n_neighbors: usize,
) -> Result<Neighbors<T>> {
    check(exec, codes, tables, biases, n_neighbors)?;
    let (n_rows, n_blocks) = codes.dim();
    let (n_tables, n_codes, n_queries) = tables.dim();
    let lists = lists_of(starts, n_rows)?;
    let cure = "give one for each list";
    check_length("the number of columns of the lists", probed.ncols(), lists.len(), cure)?;
    let cure = "give one for each query";
    check_length("the number of rows of the lists", probed.nrows(), n_queries, cure)?;
    let biases = biases.map(|biases| biases.to_vec()).unwrap_or_default();
    let codes = codes.as_standard_layout();
    let scan =
        &Scan { codes: memory::flat(&codes)?, n_blocks, n_codes, biases: &biases, n_neighbors };
    let found = exec.map_blocks(n_queries.div_ceil(TOGETHER), |block| {
        let queries = block * TOGETHER..n_queries.min((block + 1) * TOGETHER);
        // A line of entries is read once for all queries of the block.
        let size = n_tables * n_codes;
        let mut own = AlignedVec::zeros(queries.len() * size)?;
        let of_queries = tables.slice_move(s![.., .., queries.clone()]);
        for (at, entries) in of_queries.lanes(Axis(2)).into_iter().enumerate() {
            for (query, &entry) in entries.iter().enumerate() {
                own[query * size + at] = entry;
            }
        }
        let mut found = memory::with_capacity(queries.len())?;
        for (query, tables) in queries.zip(own.chunks_exact(size.max(1))) {
            let mut nearest = [Nearest::new(n_neighbors)?];
            for (rows, _) in lists.iter().zip(probed.row(query)).filter(|(_, probed)| **probed) {
                let (rows, nearest) = (rows.clone(), &mut nearest);
                dispatch(ScanRows { scan, rows, tables, width: 1, nearest });
            }
            let [nearest] = nearest;
            let nearest = nearest.finish();
            if nearest.len() < n_neighbors {
                let expected = "there are no more neighbors than rows in the lists of a query";
                return Err(Error::parameter("n_neighbors", n_neighbors, expected));
            }
            found.push(nearest);
        }
        Ok(found)
    })?;
    let mut rows = memory::zero_matrix((n_queries, n_neighbors))?;
    let mut sums = memory::zero_matrix((n_queries, n_neighbors))?;
    let out = rows.rows_mut().into_iter().zip(sums.rows_mut());
    for (nearest, (rows, sums)) in found.iter().flatten().zip(out) {
        write(nearest, rows, sums);
    }
    Ok((rows, sums))
}

/// The rows of each list.
fn lists_of(starts: &[i64], n_rows: usize) -> Result<Vec<Range<usize>>> {
    let mut lists = memory::with_capacity(starts.len())?;
    for pair in starts.windows(2) {
        let [start, end] = [pair[0], pair[1]].map(|edge| usize::try_from(edge).ok());
        match (start, end) {
            (Some(start), Some(end)) if start <= end && end <= n_rows => lists.push(start..end),
            _ => {
                let expected = "lists are rows that follow one another";
                return Err(Error::parameter("an edge of a list", pair[1], expected));
            }
        }
    }
    Ok(lists)
}

/// Fails unless codes, tables, biases and a number of neighbors fit each other.
fn check<T: Real, C: Code>(
    exec: &Executor,
    codes: ArrayView2<'_, C>,
    tables: ArrayView3<'_, T>,
    biases: Option<ArrayView1<'_, T>>,
    n_neighbors: usize,
) -> Result<()> {
    let (n_rows, n_blocks) = codes.dim();
    let cure = "give one for each column of the codes";
    check_length("the number of tables", tables.len_of(Axis(0)), n_blocks, cure)?;
    if let Some(biases) = &biases {
        check_length("the number of biases", biases.len(), n_rows, "give one for each row")?;
    }
    if n_neighbors == 0 || n_neighbors > n_rows {
        let expected = "there are from 1 to as many neighbors as rows";
        return Err(Error::parameter("n_neighbors", n_neighbors, expected));
    }
    check_codes(exec, codes, tables.len_of(Axis(1)))?;
    check_entries(exec, tables, biases)
}

/// Puts the first of some candidates into results.
fn write<T: Real>(
    candidates: &[Candidate<T>],
    rows: ArrayViewMut1<'_, i64>,
    sums: ArrayViewMut1<'_, T>,
) {
    for ((row, sum), candidate) in rows.into_iter().zip(sums).zip(candidates) {
        (*row, *sum) = (candidate.row as i64, candidate.sum);
    }
}

/// Queries side by side: two vectors, or one if there are fewer or the cache would be too small.
/// One query if there are no more or not even a vector fits.
fn panel_width<T: Real>(n_entries: usize, n_queries: usize) -> usize {
    let lanes = lanes::<T>();
    let fits = |width: usize, limit: usize| n_entries * width * size_of::<T>() <= limit;
    if n_queries == 1 || !fits(lanes, MOST_BYTES) {
        1
    } else if n_queries > lanes && fits(2 * lanes, CACHED) {
        2 * lanes
    } else {
        lanes
    }
}

/// Fails at an entry that is not a number, or so large that a sum could overflow.
fn check_entries<T: Real>(
    exec: &Executor,
    tables: ArrayView3<'_, T>,
    biases: Option<ArrayView1<'_, T>>,
) -> Result<()> {
    let largest = if size_of::<T>() == 4 { f64::from(f32::MAX) } else { f64::MAX };
    let limit = largest / (tables.len_of(Axis(0)) as f64 + 2.0);
    let bad = |value: &T| value.to_f64().is_nan() || value.to_f64().abs() > limit;
    let expected = "sums of entries are finite";
    exec.map_blocks(tables.len_of(Axis(0)), |m| {
        match tables.index_axis(Axis(0), m).iter().find(|value| bad(value)) {
            Some(value) => Err(Error::parameter("an entry of a table", value.to_f64(), expected)),
            None => Ok(()),
        }
    })?;
    match biases.iter().flatten().find(|value| bad(value)) {
        Some(value) => Err(Error::parameter("a bias", value.to_f64(), expected)),
        None => Ok(()),
    }
}

/// A row that may be among the nearest.
#[derive(Clone, Copy)]
struct Candidate<T> {
    sum: T,
    row: usize,
}

/// The least sum first; of equal ones, the first row.
fn order<T: Real>(a: &Candidate<T>, b: &Candidate<T>) -> Ordering {
    a.sum.partial_cmp(&b.sum).unwrap_or(Ordering::Equal).then(a.row.cmp(&b.row))
}

/// The candidates of a query.
struct Nearest<T> {
    candidates: Vec<Candidate<T>>,
    n_neighbors: usize,
    /// What further sums must be below.
    limit: T,
}

impl<T: Real> Nearest<T> {
    fn new(n_neighbors: usize) -> Result<Self> {
        let candidates = memory::with_capacity(n_neighbors + n_neighbors.max(SPARE))?;
        Ok(Self { candidates, n_neighbors, limit: T::from_f64(f64::INFINITY) })
    }

    /// Takes a row behind all before; returns what the sums of later ones must be below, once
    /// there are enough.
    fn push(&mut self, candidate: Candidate<T>) -> Option<T> {
        self.candidates.push(candidate);
        (self.candidates.len() == self.n_neighbors + self.n_neighbors.max(SPARE)).then(|| {
            let index = self.n_neighbors - 1;
            let limit = self.candidates.select_nth_unstable_by(index, order).1.sum;
            self.candidates.truncate(self.n_neighbors);
            limit
        })
    }

    fn finish(mut self) -> Vec<Candidate<T>> {
        self.candidates.sort_unstable_by(order);
        self.candidates.truncate(self.n_neighbors);
        self.candidates
    }
}

/// What all blocks of rows share.
struct Scan<'a, T, C> {
    codes: &'a [C],
    n_blocks: usize,
    n_codes: usize,
    biases: &'a [T],
    n_neighbors: usize,
}

impl<T: Real, C: Code> Scan<'_, T, C> {
    /// The codes of `n` rows from `first` on; the last of them stands for those that are missing.
    #[inline(always)]
    fn codes_of<const R: usize>(&self, first: usize, n: usize) -> [&[C]; R] {
        std::array::from_fn(|r| {
            &self.codes[(first + r.min(n - 1)) * self.n_blocks..][..self.n_blocks]
        })
    }

    /// What the sum of a row begins with.
    #[inline(always)]
    fn bias(&self, row: usize) -> T {
        self.biases.get(row).copied().unwrap_or_default()
    }

    /// The nearest of some rows, for each of some queries.
    fn nearest(
        &self,
        rows: Range<usize>,
        tables: ArrayView3<'_, T>,
        queries: Range<usize>,
        width: usize,
    ) -> Result<Vec<Vec<Candidate<T>>>> {
        let n_queries = queries.len();
        let mut padded = AlignedVec::zeros(self.n_blocks * self.n_codes * width)?;
        let tables = tables.slice_move(s![.., .., queries]);
        let entries = tables.lanes(Axis(2)).into_iter();
        for (entries, padded) in entries.zip(padded.chunks_exact_mut(width)) {
            for (padded, &entry) in padded.iter_mut().zip(entries) {
                *padded = entry;
            }
        }
        let n_neighbors = self.n_neighbors.min(rows.len());
        let mut nearest: Vec<Nearest<T>> = memory::with_capacity(n_queries)?;
        for _ in 0..n_queries {
            nearest.push(Nearest::new(n_neighbors)?);
        }
        dispatch(ScanRows { scan: self, rows, tables: &padded, width, nearest: &mut nearest });
        Ok(nearest.into_iter().map(Nearest::finish).collect())
    }
}

struct ScanRows<'a, T, C> {
    scan: &'a Scan<'a, T, C>,
    rows: Range<usize>,
    tables: &'a [T],
    width: usize,
    nearest: &'a mut [Nearest<T>],
}

impl<T: Real, C: Code> WithSimd for ScanRows<'_, T, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.width / T::lanes::<S>() {
            2 => self.scan::<S, 2>(simd),
            1 => self.scan::<S, 1>(simd),
            _ => self.scan_alone(),
        }
    }
}

impl<T: Real, C: Code> ScanRows<'_, T, C> {
    /// For one query: an entry per codeword.
    #[inline(always)]
    fn scan_alone(self) {
        let Self { scan, rows, tables, width: _, nearest } = self;
        let Some(nearest) = nearest.first_mut() else { return };
        let mut limit = nearest.limit;
        for first in rows.clone().step_by(TOGETHER) {
            let here = TOGETHER.min(rows.end - first);
            let mut sums = [T::default(); TOGETHER];
            let codes: [&[C]; TOGETHER] = scan.codes_of(first, here);
            for (r, sum) in sums.iter_mut().enumerate() {
                *sum = scan.bias(first + r.min(here - 1));
            }
            for codebook in 0..scan.n_blocks {
                let table = &tables[codebook * scan.n_codes..][..scan.n_codes];
                for (sum, codes) in sums.iter_mut().zip(&codes) {
                    *sum = *sum + table[codes[codebook].index()];
                }
            }
            for (row, &sum) in (first..).zip(&sums[..here]) {
                if sum < limit {
                    limit = nearest.push(Candidate { sum, row }).unwrap_or(limit);
                }
            }
        }
        nearest.limit = limit;
    }

    /// For `V` vectors of queries.
    #[inline(always)]
    fn scan<S: Simd, const V: usize>(self, simd: S) {
        let Self { scan, rows, tables, width: _, nearest } = self;
        let tables = T::vectors::<S>(tables).0.as_chunks::<V>().0;
        // Below no sum: what is not a query takes nothing.
        let mut limits = [T::from_f64(f64::NEG_INFINITY); MOST_LANES];
        limits[..nearest.len()].fill(T::from_f64(f64::INFINITY));
        for first in rows.clone().step_by(TOGETHER) {
            let here = TOGETHER.min(rows.end - first);
            let codes: [&[C]; TOGETHER] = scan.codes_of(first, here);
            let mut sums = [[T::splat(simd, T::default()); V]; TOGETHER];
            if !scan.biases.is_empty() {
                for (r, sums) in sums.iter_mut().enumerate() {
                    *sums = [T::splat(simd, scan.bias(first + r.min(here - 1))); V];
                }
            }
            for codebook in 0..scan.n_blocks {
                let tables = &tables[codebook * scan.n_codes..][..scan.n_codes];
                for (sums, codes) in sums.iter_mut().zip(&codes) {
                    for (sum, &entry) in sums.iter_mut().zip(&tables[codes[codebook].index()]) {
                        *sum = <T as Vectors>::add(simd, *sum, entry);
                    }
                }
            }
            // One look at the least of several rows, of which few are among the nearest.
            let mut least = sums[0];
            for sums in &sums[1..] {
                for (least, &sum) in least.iter_mut().zip(sums) {
                    *least = T::min(simd, *least, sum);
                }
            }
            let each = T::elements::<S>(&least).iter().zip(&limits);
            if !each.fold(false, |any, (sum, limit)| any | (sum < limit)) {
                continue;
            }
            for (row, sums) in (first..).zip(&sums[..here]) {
                let each = T::elements::<S>(sums).iter().zip(&mut limits).zip(nearest.iter_mut());
                for ((&sum, limit), nearest) in each {
                    if sum < *limit {
                        *limit = nearest.push(Candidate { sum, row }).unwrap_or(*limit);
                    }
                }
            }
        }
    }
}
