//! Scores of all classes in one pass over the rows.

use std::borrow::Cow;

use ndarray::{Array2, ArrayView1, ArrayView2, s};
use pulp::Simd;

use crate::error::{GIVE_WHOLE_ROWS, OUTPUT, Result, check_length};
use crate::exec::Executor;
use crate::matrix::{COLUMNS_OF_X, CsrView, HistogramMatrix, check_columns};
use crate::memory;
use crate::simd::{AlignedVec, Element, Vectors, clip, lanes, vectorized};

/// Rows of a block.
const ROWS: usize = 64;
/// Rows and classes of a register tile.
const TILE_ROWS: usize = 4;
const TILE_CLASSES: usize = 5;
/// Vectors summed in the element type before the sum is carried in double precision; with so many
/// columns, the tile's rows and weights stay in the first-level cache.
const VECTORS: usize = 32;
const UNITS: &str = "the number of offsets and scales";

/// Where columns begin, and the unit of each: an entry `x` of column `d` counts as
/// `(x - offset_d)_+ / scale_d`.
#[derive(Clone, Copy, Debug)]
pub struct ColumnUnits<'a> {
    /// Where each column begins; not negative.
    pub offset: &'a [f64],
    /// The unit of each column; positive.
    pub scale: &'a [f64],
}

/// The scores `f(w_c, x_i)` of every row and class, see [`scores_into`], of shape `(n_rows, n_classes)`.
///
/// # Errors
///
/// As [`scores_into`].
pub fn scores<T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
    units: Option<ColumnUnits<'_>>,
    coef: ArrayView2<'_, f64>,
) -> Result<Array2<T>> {
    memory::filled_by((x.n_rows(), coef.nrows()), |out| scores_into(exec, x, units, coef, out))
}

/// Writes `f(w_c, x_i) = sum_d sign(w_cd) min(u_id, |w_cd|)` for every row `i` and class `c`, where
/// `u_id` is the entry `x_id` in the units of its column, or the entry itself without units. The
/// rows are not copied.
///
/// Entries are checked in the same pass.
///
/// # Errors
///
/// [`Error::Negative`](crate::Error::Negative) or [`Error::NotFinite`](crate::Error::NotFinite) at
/// the first bad entry, [`Error::Shape`](crate::Error::Shape) when lengths disagree,
/// [`Error::Interrupted`](crate::Error::Interrupted).
pub fn scores_into<T: Element>(
    exec: &Executor,
    x: &HistogramMatrix<'_, T>,
    units: Option<ColumnUnits<'_>>,
    coef: ArrayView2<'_, f64>,
    out: &mut [T],
) -> Result<()> {
    check_columns(COLUMNS_OF_X, x, coef.ncols())?;
    let (zeros, ones);
    let units = match units {
        Some(units) => units,
        None => {
            (zeros, ones) =
                (memory::filled(0.0, coef.ncols())?, memory::filled(1.0, coef.ncols())?);
            ColumnUnits { offset: &zeros, scale: &ones }
        }
    };
    for part in [units.offset, units.scale] {
        check_length(UNITS, part.len(), coef.ncols(), "give one entry for each feature")?;
    }
    let n_classes = coef.nrows();
    check_length(OUTPUT, out.len(), x.n_rows() * n_classes, GIVE_WHOLE_ROWS)?;
    if n_classes == 0 {
        return x.check(exec, "X");
    }
    match x {
        HistogramMatrix::Dense(rows) => {
            // Class after class, however the weights are laid out.
            let mut flat = memory::with_capacity(coef.len())?;
            flat.extend(coef.iter().map(|&w| T::from_f64(w)));
            let units = Units::<T>::new(units)?;
            exec.for_chunks(out, ROWS * n_classes, |block, out| {
                let start = block * ROWS;
                let rows = rows.slice(s![start..start + out.len() / n_classes, ..]);
                // A bad entry is looked for by the check, which names the first of all.
                if score_dense_rows(rows, &units, &flat, n_classes, out) {
                    Ok(())
                } else {
                    x.check(exec, "X")
                }
            })
        }
        HistogramMatrix::Csr(rows) => {
            let coef = ByColumns::new(coef)?;
            let units = Units::<f64>::new(units)?;
            exec.for_chunks(out, ROWS * n_classes, |block, out| {
                let start = block * ROWS;
                let units = &units;
                let valid = score_sparse_rows(rows, start, units, &coef, n_classes, out);
                if valid { Ok(()) } else { x.check(exec, "X") }
            })
        }
    }
}

/// [`ColumnUnits`] in the type of the entries, with the reciprocal of the unit.
struct Units<T> {
    offset: Vec<T>,
    factor: Vec<T>,
}

impl<T: Element> Units<T> {
    fn new(units: ColumnUnits<'_>) -> Result<Self> {
        let mut offset = memory::with_capacity(units.offset.len())?;
        offset.extend(units.offset.iter().map(|&o| T::from_f64(o)));
        let mut factor = memory::with_capacity(units.scale.len())?;
        // A factor beyond the range would make NaN of an entry at the offset.
        factor.extend(units.scale.iter().map(|&s| {
            let factor = T::from_f64(1.0 / s);
            if factor < T::LARGEST { factor } else { T::LARGEST }
        }));
        Ok(Self { offset, factor })
    }
}

vectorized!(
    /// The scores of some rows; returns whether their entries are valid.
    fn score_dense_rows<S: Simd, T: Element>(
        simd: S,
        rows: ArrayView2<'_, T>,
        units: &Units<T>,
        coef: &[T],
        n_classes: usize,
        out: &mut [T],
    ) -> bool {
        let mut sums = vec![0.0; TILE_ROWS * n_classes];
        let mut valid = true;
        for (group, out) in out.chunks_mut(TILE_ROWS * n_classes).enumerate() {
            let start = group * TILE_ROWS;
            let n_rows = out.len() / n_classes;
            // The last row stands in for rows beyond the end.
            let rows: [_; TILE_ROWS] =
                core::array::from_fn(|r| contiguous(rows.row(start + r.min(n_rows - 1))));
            let rows = rows.each_ref().map(|row| &row[..]);
            sums.fill(0.0);
            if n_rows == TILE_ROWS {
                valid &= add_scores::<T, S, TILE_ROWS>(simd, rows, units, coef, &mut sums);
            } else {
                for (row, sums) in rows[..n_rows].iter().zip(sums.chunks_exact_mut(n_classes)) {
                    valid &= add_scores::<T, S, 1>(simd, [*row], units, coef, sums);
                }
            }
            for (out, &sum) in out.iter_mut().zip(&sums) {
                *out = T::from_f64(sum);
            }
        }
        valid
    }
);

fn contiguous<T: Element>(row: ArrayView1<'_, T>) -> Cow<'_, [T]> {
    row.to_slice().map_or_else(|| Cow::Owned(row.to_vec()), Cow::Borrowed)
}

/// Adds the scores of `R` rows, a row of sums after the other; returns whether all entries are
/// valid.
#[inline(always)]
fn add_scores<T: Element, S: Simd, const R: usize>(
    simd: S,
    rows: [&[T]; R],
    units: &Units<T>,
    coef: &[T],
    sums: &mut [f64],
) -> bool {
    let n = rows[0].len();
    let n_classes = coef.len() / n.max(1);
    let columns = VECTORS * T::lanes::<S>();
    let mut valid = true;
    for start in (0..n).step_by(columns) {
        let end = n.min(start + columns);
        let x = rows.map(|row| &row[start..end]);
        let units = (&units.offset[start..end], &units.factor[start..end]);
        for first in (0..n_classes).step_by(TILE_CLASSES) {
            let part = &coef[first * n..];
            let sums = &mut sums[first..];
            let at = (n, start);
            valid &= match n_classes - first {
                1 => add_tile::<T, S, R, 1>(simd, x, units, part, at, sums, n_classes),
                2 => add_tile::<T, S, R, 2>(simd, x, units, part, at, sums, n_classes),
                3 => add_tile::<T, S, R, 3>(simd, x, units, part, at, sums, n_classes),
                4 => add_tile::<T, S, R, 4>(simd, x, units, part, at, sums, n_classes),
                _ => add_tile::<T, S, R, TILE_CLASSES>(simd, x, units, part, at, sums, n_classes),
            };
        }
    }
    valid
}

/// Adds what some columns of `R` rows contribute to the scores of `C` classes, whose weights are
/// `n` apart and begin at column `start`; returns whether the columns are valid.
///
/// They are looked at while they are in a register: a further pass would wait for memory again.
#[inline(always)]
fn add_tile<T: Element, S: Simd, const R: usize, const C: usize>(
    simd: S,
    x: [&[T]; R],
    (offset, factor): (&[T], &[T]),
    coef: &[T],
    (n, start): (usize, usize),
    sums: &mut [f64],
    n_classes: usize,
) -> bool {
    let len = x[0].len();
    let w: [_; C] = core::array::from_fn(|c| &coef[c * n + start..][..len]);
    let (x_vectors, x_tails) = (x.map(|x| T::vectors::<S>(x).0), x.map(|x| T::vectors::<S>(x).1));
    let (w_vectors, w_tails) = (w.map(|w| T::vectors::<S>(w).0), w.map(|w| T::vectors::<S>(w).1));
    let count = x_vectors[0].len();
    let (x_vectors, w_vectors) = (x_vectors.map(|x| &x[..count]), w_vectors.map(|w| &w[..count]));
    let ((o_vectors, o_tail), (f_vectors, f_tail)) =
        (T::vectors::<S>(offset), T::vectors::<S>(factor));
    let (o_vectors, f_vectors) = (&o_vectors[..count], &f_vectors[..count]);
    let zero = T::splat(simd, T::default());
    let mut acc = [[zero; C]; R];
    // The least entry below 0, and a sum that only what is not finite keeps from being 0.
    let (mut least, mut zeros) = ([zero; R], [zero; R]);
    for k in 0..count {
        for r in 0..R {
            let x = x_vectors[r][k];
            least[r] = T::min(simd, least[r], x);
            zeros[r] = T::mul_add(simd, x, zero, zeros[r]);
            let beyond = T::max(simd, T::sub(simd, x, o_vectors[k]), zero);
            let x = T::mul(simd, beyond, f_vectors[k]);
            for c in 0..C {
                acc[r][c] = T::add(simd, acc[r][c], clip::<T, S>(simd, w_vectors[c][k], x));
            }
        }
    }
    for r in 0..R {
        for c in 0..C {
            let mut sum = T::reduce_sum(simd, acc[r][c]).to_f64();
            let units = o_tail.iter().zip(f_tail);
            for ((&x, &w), unit) in x_tails[r].iter().zip(w_tails[c]).zip(units) {
                sum += term(in_units(x, unit), w.to_f64());
            }
            sums[r * n_classes + c] += sum;
        }
    }
    let (mut all_least, mut all_zeros) = (least[0], zeros[0]);
    for r in 1..R {
        all_least = T::min(simd, all_least, least[r]);
        all_zeros = T::add(simd, all_zeros, zeros[r]);
    }
    T::all_non_negative(T::elements::<S>(&[all_least]))
        & (T::reduce_sum(simd, all_zeros) == T::default())
        & x_tails.iter().all(|tail| T::all_non_negative(tail))
}

/// `(x - offset)_+ factor`
#[inline(always)]
fn in_units<T: Element>(x: T, (offset, factor): (&T, &T)) -> f64 {
    (x.to_f64() - offset.to_f64()).max(0.0) * factor.to_f64()
}

/// `sign(w) min(x, |w|)` for `x >= 0`.
#[inline(always)]
fn term(x: f64, w: f64) -> f64 {
    w.min(x).max(-x)
}

/// The weights of all classes column by column, padded with zeros to whole vectors.
struct ByColumns {
    weights: AlignedVec<f64>,
    /// Of a column.
    width: usize,
}

impl ByColumns {
    fn new(coef: ArrayView2<'_, f64>) -> Result<Self> {
        let n_classes = coef.nrows();
        // One class needs no vectors.
        let width = if n_classes == 1 { 1 } else { n_classes.next_multiple_of(lanes::<f64>()) };
        let mut weights = AlignedVec::zeros(coef.ncols() * width)?;
        for ((class, column), &w) in coef.indexed_iter() {
            weights[column * width + class] = w;
        }
        Ok(Self { weights, width })
    }
}

vectorized!(
    /// As [`score_dense_rows`], of a CSR matrix from row `start` on.
    fn score_sparse_rows<S: Simd, T: Element>(
        simd: S,
        x: &CsrView<'_, T>,
        start: usize,
        units: &Units<f64>,
        coef: &ByColumns,
        n_classes: usize,
        out: &mut [T],
    ) -> bool {
        let ByColumns { weights, width } = coef;
        let (mut sums, mut parts) = (vec![0.0; *width], Vec::new());
        let mut valid = true;
        for (row, out) in (start..).zip(out.chunks_exact_mut(n_classes)) {
            let (indices, values) = x.row_sums_of_duplicates(row);
            // What is added up may hide what it is added up from.
            valid &= T::all_non_negative(&values)
                && (matches!(values, Cow::Borrowed(_)) || T::all_non_negative(x.row(row).1));
            parts.clear();
            parts.extend(indices.iter().zip(values.iter()).map(|(&index, value)| {
                let d = index.unsigned_abs() as usize;
                in_units(value.to_f64(), (&units.offset[d], &units.factor[d]))
            }));
            if n_classes == 1 {
                sums[0] = sparse_score(&indices, &parts, weights);
            } else {
                sparse_scores(simd, &indices, &parts, weights, &mut sums);
            }
            for (out, &sum) in out.iter_mut().zip(&sums) {
                *out = T::from_f64(sum);
            }
        }
        valid
    }
);

/// The score of one class; four sums, so that none waits for the one before.
#[inline(always)]
fn sparse_score(indices: &[i32], values: &[f64], weights: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let weight = |index: i32| weights[index.unsigned_abs() as usize];
    let (indices, last_indices) = indices.as_chunks::<4>();
    let (values, last_values) = values.as_chunks::<4>();
    for (indices, values) in indices.iter().zip(values) {
        for k in 0..4 {
            sums[k] += term(values[k], weight(indices[k]));
        }
    }
    for (&index, &value) in last_indices.iter().zip(last_values) {
        sums[0] += term(value, weight(index));
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// The scores of all classes, a vector of them at a time.
#[inline(always)]
fn sparse_scores<S: Simd>(
    simd: S,
    indices: &[i32],
    values: &[f64],
    weights: &[f64],
    sums: &mut [f64],
) {
    let weights = f64::vectors::<S>(weights).0;
    let sums = f64::vectors_mut::<S>(sums).0;
    let width = sums.len();
    for (first, sums) in (0..width).step_by(2).zip(sums.chunks_mut(2)) {
        let mut acc = [simd.splat_f64s(0.0); 2];
        // The second vector is the first one again where there is no other.
        let second = sums.len() - 1;
        for (&index, &value) in indices.iter().zip(values) {
            let x = simd.splat_f64s(value);
            let w = &weights[index.unsigned_abs() as usize * width + first..];
            acc[0] = simd.add_f64s(acc[0], clip::<f64, S>(simd, w[0], x));
            acc[1] = simd.add_f64s(acc[1], clip::<f64, S>(simd, w[second], x));
        }
        sums.copy_from_slice(&acc[..sums.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array2, array};

    /// Offsets and scales.
    type Owned = (Vec<f64>, Vec<f64>);

    fn view((offset, scale): &Owned) -> Option<ColumnUnits<'_>> {
        Some(ColumnUnits { offset, scale })
    }

    /// Columns as they are.
    fn plain(n: usize) -> Owned {
        (vec![0.0; n], vec![1.0; n])
    }

    fn definition(x: &Array2<f64>, (offset, scale): &Owned, w: &Array2<f64>) -> Vec<f64> {
        let score = |i: usize, c: usize| {
            let in_units = |d| f64::max(x[[i, d]] - offset[d], 0.0) / scale[d];
            let columns = (0..x.ncols()).filter(|&d| w[[c, d]] != 0.0);
            columns.map(|d| w[[c, d]].signum() * in_units(d).min(w[[c, d]].abs())).sum()
        };
        (0..x.nrows())
            .flat_map(|i| (0..w.nrows()).map(move |c| (i, c)))
            .map(|(i, c)| score(i, c))
            .collect()
    }

    /// The entries of a matrix by rows, every third column in so many parts.
    fn sparse(x: &Array2<f64>, n_parts: u8) -> (Vec<f64>, Vec<i32>, Vec<i64>) {
        let (mut data, mut indices, mut indptr) = (vec![], vec![], vec![0]);
        for row in x.rows() {
            for (d, &value) in row.iter().enumerate().filter(|(_, value)| **value != 0.0) {
                let parts = if d % 3 == 0 { n_parts } else { 1 };
                data.extend(vec![value / f64::from(parts); usize::from(parts)]);
                indices.extend(vec![i32::try_from(d).unwrap(); usize::from(parts)]);
            }
            indptr.push(i64::try_from(data.len()).unwrap());
        }
        (data, indices, indptr)
    }

    /// Integers, of which sums are exact: more rows than a block, and classes than a vector.
    #[test]
    fn rows_and_classes_of_every_number_have_their_scores() {
        for n_rows in [1, TILE_ROWS, 2 * TILE_ROWS + 1, 2 * ROWS + 3] {
            for n_classes in [1, 2, 7, 17] {
                let entry = |(i, d)| f64::from((i * 7 + d * 5) as u32 % 6) * 2.0;
                let x = Array2::from_shape_fn((n_rows, 7), entry);
                let weight = |(c, d)| f64::from((c * 4 + d * 3) as u32 % 9) - 4.0;
                let w = Array2::from_shape_fn((n_classes, 7), weight);
                let some = (vec![0., 3., 0., 1., 20., 0., 2.], vec![1., 2., 0.5, 1., 1., 4., 1.]);
                let (data, indices, indptr) = sparse(&x, 2);
                let csr = CsrView::new(&data, &indices, &indptr, 7).unwrap();
                for n_threads in [1, 2] {
                    let exec = Executor::new(n_threads).unwrap();
                    for (rows, units) in [
                        (HistogramMatrix::dense(x.view()), &plain(7)),
                        (HistogramMatrix::dense(x.view()), &some),
                        (HistogramMatrix::csr(csr), &plain(7)),
                        (HistogramMatrix::csr(csr), &some),
                    ] {
                        let mut out = vec![0.0; n_rows * n_classes];
                        scores_into(&exec, &rows, view(units), w.view(), &mut out).unwrap();
                        let expected = definition(&x, units, &w);
                        assert_eq!(out, expected, "{n_rows} rows, {n_classes} classes");
                    }
                }
            }
        }
    }

    /// In whole vectors and behind them, in a tile of rows and alone.
    #[test]
    fn a_bad_entry_is_refused_wherever_it_is() {
        let exec = Executor::new(1).unwrap();
        let n_columns = 21;
        let w = Array2::ones((3, n_columns));
        let places = |n_rows| (0..n_rows).flat_map(move |i| [0, 2, 20].map(|d| (n_rows, i, d)));
        for (n_rows, i, d) in places(1).chain(places(2 * TILE_ROWS + 1)) {
            for bad in [-1.0, f64::NAN, f64::INFINITY] {
                let mut x = Array2::ones((n_rows, n_columns));
                x[[i, d]] = bad;
                let mut out = vec![0.0; 3 * n_rows];
                let dense = HistogramMatrix::dense(x.view());
                assert!(
                    scores_into(&exec, &dense, None, w.view(), &mut out).is_err(),
                    "{i} {d} {bad}"
                );
                for n_parts in [1, 2] {
                    let (data, indices, indptr) = sparse(&x, n_parts);
                    let csr = CsrView::new(&data, &indices, &indptr, n_columns).unwrap();
                    let csr = HistogramMatrix::csr(csr);
                    assert!(
                        scores_into(&exec, &csr, None, w.view(), &mut out).is_err(),
                        "{i} {d} {bad}"
                    );
                }
            }
        }
    }

    #[test]
    fn dense_scores_are_their_definition() {
        let exec = Executor::new(2).unwrap();
        for n in [1, 7, 8, 9, 255, 257, 300] {
            let x = Array2::from_shape_fn((3, n), |(i, d)| f64::from((i * 7 + d * 5) as u32 % 11));
            let w = Array2::from_shape_fn((2, n), |(c, d)| f64::from((c + d * 3) as u32 % 9) - 4.0);
            let mut out = [0.0; 6];
            let offset = (0..n).map(|d| f64::from(d as u32 % 3)).collect();
            let units = (offset, (0..n).map(|d| 0.3 + f64::from(d as u32 % 5)).collect());
            let dense = HistogramMatrix::dense(x.view());
            scores_into(&exec, &dense, view(&units), w.view(), &mut out).unwrap();
            for (score, expected) in out.iter().zip(definition(&x, &units, &w)) {
                assert!((score - expected).abs() < 1e-9);
            }
        }
        let x = array![[-1.0]];
        let x = HistogramMatrix::dense(x.view());
        assert!(scores_into(&exec, &x, None, array![[1.0]].view(), &mut [0.0]).is_err());
        let (one, two) = ([1.0], [1.0; 2]);
        let x = HistogramMatrix::dense(ndarray::aview2(&[[1.0]]));
        for (offset, scale) in [(&one[..], &two[..]), (&two, &one)] {
            let units = Some(ColumnUnits { offset, scale });
            assert!(scores_into(&exec, &x, units, array![[1.0]].view(), &mut [0.0]).is_err());
        }
    }
}
