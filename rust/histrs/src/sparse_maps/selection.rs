//! Which landmarks serve a point (eq. 7).

use ndarray::{ArrayView1, ArrayView2};

use crate::error::{Error, Result, from_name};
use crate::exec::Executor;
use crate::matrix::{CsrParts, check_width};
use crate::memory;
use crate::small_matrix::{backward, forward, short_dot};

/// Rows in a block.
const ROWS: usize = 16;
/// A landmark is taken to lie in the span of others when this part of it, at most, is
/// orthogonal to them.
const RANK_TOLERANCE: f64 = 1e-12;
/// Steps of matching pursuit for every landmark.
const STEPS: usize = 10;

/// How the landmarks of a point are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Selection {
    /// Those nearest in the kernel's space.
    Nearest,
    /// One after the other, that which explains most of what the steps before have left.
    MatchingPursuit,
    /// The same, where a step leaves what the best combination of all so far does not explain.
    OrthogonalMatchingPursuit,
}

from_name! { Selection, "selection", "use \"nearest\", \"matching-pursuit\" or \"orthogonal-matching-pursuit\"",
    "nearest" => Nearest,
    "matching-pursuit" => MatchingPursuit,
    "orthogonal-matching-pursuit" => OrthogonalMatchingPursuit,
}

/// The coordinates of points on at most `n_nonzero` of the landmarks each.
///
/// `k_xz[i, j]` is the kernel of point `i` and landmark `j`, `k_zz` that of the
/// landmarks. Whatever the selection, the coordinates are those of the orthogonal
/// projection on the landmarks selected (eq. 5). One that the others span already is left
/// out.
///
/// # Errors
///
/// [`Error::Shape`] when the shapes differ, [`Error::Parameter`] when `n_nonzero` is 0.
///
/// # Examples
///
/// ```
/// use histrs::Executor;
/// use histrs::sparse_maps::{Selection, sparse_codes};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let k_zz = array![[1.0, 0.5], [0.5, 1.0]];
/// let k_xz = array![[0.9, 0.2]];
/// let codes = sparse_codes(&exec, k_xz.view(), k_zz.view(), 1, Selection::Nearest)?;
/// assert_eq!((codes.indices, codes.data), (vec![0], vec![0.9]));
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn sparse_codes(
    exec: &Executor,
    k_xz: ArrayView2<'_, f64>,
    k_zz: ArrayView2<'_, f64>,
    n_nonzero: usize,
    selection: Selection,
) -> Result<CsrParts<f64>> {
    check_kernel("the number of columns of k_xz", k_xz.ncols(), k_zz.nrows())?;
    check_kernel("the number of columns of k_zz", k_zz.ncols(), k_zz.nrows())?;
    check_width(k_zz.nrows())?;
    if n_nonzero == 0 {
        let expected = "a point needs at least one landmark";
        return Err(Error::parameter("n_nonzero", 0, expected));
    }
    let n_rows = k_xz.nrows();
    let blocks = exec.map_ranges(n_rows, ROWS, |rows| {
        let mut parts = CsrParts::empty(k_zz.nrows());
        for row in rows {
            exec.check()?;
            let subset = select(k_xz.row(row), k_zz, n_nonzero, selection)?;
            subset.write(k_xz.row(row), &mut parts)?;
        }
        Ok(parts)
    })?;
    CsrParts::concatenate(blocks, k_zz.nrows())
}

fn check_kernel(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Shape { what, found, expected, cure: "give the kernel of the landmarks" })
}

fn select<'a>(
    k_x: ArrayView1<'_, f64>,
    k_zz: ArrayView2<'a, f64>,
    n_nonzero: usize,
    selection: Selection,
) -> Result<Subset<'a>> {
    let mut subset = Subset::new(k_zz);
    match selection {
        Selection::Nearest => nearest(&mut subset, k_x, n_nonzero),
        Selection::MatchingPursuit => matching_pursuit(&mut subset, k_x, n_nonzero)?,
        Selection::OrthogonalMatchingPursuit => orthogonal_pursuit(&mut subset, k_x, n_nonzero)?,
    }
    Ok(subset)
}

/// The squared distance is `k(x, x) - 2 k(x, z) + k(z, z)`, and the first term of no account.
fn nearest(subset: &mut Subset<'_>, k_x: ArrayView1<'_, f64>, n_nonzero: usize) {
    let distance = |j: usize| subset.k_zz[[j, j]] - 2.0 * k_x[j];
    let mut order: Vec<(f64, usize)> = (0..k_x.len()).map(|j| (distance(j), j)).collect();
    let by_distance = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    if n_nonzero < order.len() {
        order.select_nth_unstable_by(n_nonzero, by_distance);
        order.truncate(n_nonzero);
    }
    order.sort_unstable_by(by_distance);
    for (_, j) in order {
        subset.push(j);
    }
}

fn matching_pursuit(
    subset: &mut Subset<'_>,
    k_x: ArrayView1<'_, f64>,
    n_nonzero: usize,
) -> Result<()> {
    let mut residual = k_x.to_vec();
    let mut excluded = memory::filled(false, residual.len())?;
    let mut start = None;
    for _ in 0..n_nonzero.saturating_mul(STEPS) {
        let Some((j, gain)) = best(subset.k_zz, &residual, &excluded) else { return Ok(()) };
        // What is left is rounding.
        if gain <= *start.get_or_insert(gain) * f64::EPSILON {
            return Ok(());
        }
        if !subset.members.contains(&j) {
            if subset.members.len() == n_nonzero {
                return Ok(());
            }
            if !subset.push(j) {
                excluded[j] = true;
                continue;
            }
        }
        let step = residual[j] / subset.k_zz[[j, j]];
        for (left, k) in residual.iter_mut().zip(subset.k_zz.row(j)) {
            *left -= step * k;
        }
    }
    Ok(())
}

fn orthogonal_pursuit(
    subset: &mut Subset<'_>,
    k_x: ArrayView1<'_, f64>,
    n_nonzero: usize,
) -> Result<()> {
    let mut residual = k_x.to_vec();
    let mut excluded = memory::filled(false, residual.len())?;
    let mut start = None;
    while subset.members.len() < n_nonzero {
        let Some((j, gain)) = best(subset.k_zz, &residual, &excluded) else { return Ok(()) };
        if gain <= *start.get_or_insert(gain) * f64::EPSILON {
            return Ok(());
        }
        excluded[j] = true;
        if !subset.push(j) {
            continue;
        }
        residual.iter_mut().zip(k_x).for_each(|(left, &k)| *left = k);
        for (&member, coordinate) in subset.members.iter().zip(subset.coordinates(k_x)) {
            for (left, k) in residual.iter_mut().zip(subset.k_zz.row(member)) {
                *left -= coordinate * k;
            }
        }
    }
    Ok(())
}

/// The landmark that explains most of a residual, and how much of its square.
fn best(k_zz: ArrayView2<'_, f64>, residual: &[f64], excluded: &[bool]) -> Option<(usize, f64)> {
    let mut best = None;
    for (j, (&left, &excluded)) in residual.iter().zip(excluded).enumerate() {
        let norm = k_zz[[j, j]];
        if excluded || norm <= 0.0 {
            continue;
        }
        let gain = left * (left / norm);
        if gain > best.map_or(0.0, |(_, gain)| gain) {
            best = Some((j, gain));
        }
    }
    best
}

/// Independent landmarks and the Cholesky factor of their kernel.
struct Subset<'a> {
    k_zz: ArrayView2<'a, f64>,
    members: Vec<usize>,
    /// The rows of the lower factor, one after the other.
    factor: Vec<f64>,
}

impl<'a> Subset<'a> {
    fn new(k_zz: ArrayView2<'a, f64>) -> Self {
        Self { k_zz, members: Vec::new(), factor: Vec::new() }
    }

    /// Adds a landmark unless those before span it; says whether it did.
    fn push(&mut self, j: usize) -> bool {
        let mut row: Vec<f64> = self.members.iter().map(|&i| self.k_zz[[j, i]]).collect();
        forward(&self.factor, &mut row, short_dot);
        let norm = self.k_zz[[j, j]];
        let pivot = norm - short_dot(&row, &row);
        let independent = pivot > RANK_TOLERANCE * norm;
        if independent {
            self.factor.extend(row);
            self.factor.push(pivot.sqrt());
            self.members.push(j);
        }
        independent
    }

    /// `K^-1 k(x)` on the members.
    fn coordinates(&self, k_x: ArrayView1<'_, f64>) -> Vec<f64> {
        let mut y: Vec<f64> = self.members.iter().map(|&j| k_x[j]).collect();
        forward(&self.factor, &mut y, short_dot);
        backward(&self.factor, &mut y);
        y
    }

    /// Appends the coordinates of a point, by ascending landmark.
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // checked by the caller
    fn write(&self, k_x: ArrayView1<'_, f64>, parts: &mut CsrParts<f64>) -> Result<()> {
        let mut entries: Vec<(usize, f64)> =
            self.members.iter().copied().zip(self.coordinates(k_x)).collect();
        entries.sort_unstable_by_key(|entry| entry.0);
        memory::extend(&mut parts.indices, entries.iter().map(|entry| entry.0 as i32))?;
        memory::extend(&mut parts.data, entries.iter().map(|entry| entry.1))?;
        memory::push(&mut parts.indptr, parts.data.len() as i64)
    }
}
