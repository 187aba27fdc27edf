//! The logarithm of tridiagonal matrices as a sum of inverses.

use pulp::Simd;

use crate::simd::Elementary;
use crate::spd::lanes::{LaneValues, minus};
use crate::spd::rational::Bounds;
use crate::spd::rational::approximations::MOST_TERMS;
use crate::spd::tridiagonal::{heads, tile_rows};

/// Columns of the inverses that are computed at once.
const COLUMNS: usize = 4;
/// Terms that are added at once.
const TERMS: usize = 4;

/// Where logarithms are computed.
pub(crate) struct Scratch<'a, V> {
    /// Ratios of off-diagonal entries and pivots of every row, a vector for each term.
    ratios: &'a mut [V],
    /// Diagonals of the inverses, likewise.
    diagonals: &'a mut [V],
    shifts: &'a mut [V],
    weights: &'a mut [V],
}

impl<'a, V> Scratch<'a, V> {
    /// Vectors that it takes.
    pub(crate) const fn len(p: usize) -> usize {
        2 * MOST_TERMS * p + 2 * MOST_TERMS
    }

    /// Splits a buffer of [`Self::len`] vectors.
    #[inline(always)]
    pub(crate) fn new(p: usize, buffer: &'a mut [V]) -> Self {
        let (ratios, rest) = buffer.split_at_mut(MOST_TERMS * p);
        let (diagonals, rest) = rest.split_at_mut(MOST_TERMS * p);
        let (shifts, weights) = rest.split_at_mut(MOST_TERMS);
        Self { ratios, diagonals, shifts, weights }
    }
}

/// Writes the lower triangle of the logarithm, packed, of the matrix of each lane; what is in lanes
/// that are beyond the bounds is not defined.
///
/// `off` holds the entries between row `i` and `i + 1`.
#[inline(always)]
pub(crate) fn logarithm<S: Simd>(
    simd: S,
    diagonal: &[S::f64s],
    off: &[S::f64s],
    bounds: &Bounds,
    log_scale: &LaneValues,
    scratch: &mut Scratch<'_, S::f64s>,
    out: &mut [S::f64s],
) {
    let p = diagonal.len();
    let (n_terms, constant) = terms(simd, bounds, log_scale, scratch);
    let Scratch { ratios, diagonals, shifts, weights } = scratch;
    let (zero, one) = (simd.splat_f64s(0.0), simd.splat_f64s(1.0));
    // Row by row the terms are next to each other.
    let ratios = &mut ratios[..p * n_terms];
    let diagonals = &mut diagonals[..p * n_terms];
    for start in (0..n_terms).step_by(TERMS) {
        let mut pivots = [zero; TERMS];
        for i in 0..p {
            let above = if i > 0 { off[i - 1] } else { zero };
            for k in 0..TERMS {
                let entry = simd.add_f64s(diagonal[i], shifts[start + k]);
                // The ratio of the row before, from its pivot.
                let pivot = if i > 0 {
                    simd.mul_add_e_f64s(ratios[(i - 1) * n_terms + start + k], above, entry)
                } else {
                    entry
                };
                let inverse = simd.div_f64s(one, pivot);
                pivots[k] = inverse;
                diagonals[i * n_terms + start + k] = inverse;
                let below = if i + 1 < p { off[i] } else { zero };
                ratios[i * n_terms + start + k] = minus(simd, simd.mul_f64s(below, inverse));
            }
        }
        // The last pivot is that of the inverse; weights go with the diagonal.
        for k in 0..TERMS {
            pivots[k] = simd.mul_f64s(pivots[k], weights[start + k]);
            diagonals[(p - 1) * n_terms + start + k] = pivots[k];
        }
        for i in (0..p - 1).rev() {
            for k in 0..TERMS {
                let index = i * n_terms + start + k;
                let ratio = ratios[index];
                let own = simd.mul_f64s(diagonals[index], weights[start + k]);
                pivots[k] = simd.mul_add_e_f64s(simd.mul_f64s(ratio, ratio), pivots[k], own);
                diagonals[index] = pivots[k];
            }
        }
    }
    // Row j of the inverse to the left of the diagonal, which the symmetry makes column j above it.
    let whole = p - p % COLUMNS;
    for j in (0..whole).step_by(COLUMNS) {
        rows::<S, COLUMNS>(simd, j, n_terms, constant, ratios, diagonals, out);
    }
    match p - whole {
        1 => rows::<S, 1>(simd, whole, n_terms, constant, ratios, diagonals, out),
        2 => rows::<S, 2>(simd, whole, n_terms, constant, ratios, diagonals, out),
        3 => rows::<S, 3>(simd, whole, n_terms, constant, ratios, diagonals, out),
        _ => (),
    }
}

/// Shifts and weights of the terms of each lane, how many there are at most, and what is added to
/// the diagonal.
#[inline(always)]
fn terms<S: Simd>(
    simd: S,
    bounds: &Bounds,
    log_scale: &LaneValues,
    scratch: &mut Scratch<'_, S::f64s>,
) -> (usize, S::f64s) {
    let lanes = S::F64_LANES;
    let mut constant = simd.splat_f64s(0.0);
    let constants: &mut [f64] =
        pulp::bytemuck::cast_slice_mut(core::slice::from_mut(&mut constant));
    let shifts: &mut [f64] = pulp::bytemuck::cast_slice_mut(scratch.shifts);
    let weights: &mut [f64] = pulp::bytemuck::cast_slice_mut(scratch.weights);
    // Terms that a lane has not have no weight.
    shifts.fill(1.0);
    weights.fill(0.0);
    let mut n_terms = 0;
    for lane in 0..lanes {
        let Some((approximation, largest)) = bounds.approximation(lane) else { continue };
        n_terms = n_terms.max(approximation.terms.len());
        // The eigenvalues over `unit` are between the roots.
        let unit = largest / approximation.condition.sqrt();
        constants[lane] = approximation.sum + (log_scale[lane] + unit.ln_of_normal());
        for (k, &(shift, weight)) in approximation.terms.iter().enumerate() {
            shifts[k * lanes + lane] = shift * unit;
            weights[k * lanes + lane] = -weight * unit;
        }
    }
    (n_terms.next_multiple_of(TERMS), constant)
}

/// `C` rows from row `j` on.
#[inline(always)]
fn rows<S: Simd, const C: usize>(
    simd: S,
    j: usize,
    n_terms: usize,
    constant: S::f64s,
    ratios: &[S::f64s],
    diagonals: &[S::f64s],
    out: &mut [S::f64s],
) {
    let zero = simd.splat_f64s(0.0);
    let mut rows = tile_rows::<_, C>(j, out);
    for row in &mut rows {
        row.fill(zero);
    }
    for start in (0..n_terms).step_by(TERMS) {
        let mut values = [[zero; TERMS]; C];
        // The triangle in which the rows end.
        for i in (0..C).rev() {
            let at = (j + i) * n_terms + start;
            let (ratio, own) = (&ratios[at..at + TERMS], &diagonals[at..at + TERMS]);
            for r in 0..C {
                if r >= i {
                    for k in 0..TERMS {
                        values[r][k] =
                            if r == i { own[k] } else { simd.mul_f64s(values[r][k], ratio[k]) };
                    }
                    let sum = sum_of(simd, values[r]);
                    rows[r][j + i] = simd.add_f64s(rows[r][j + i], sum);
                }
            }
        }
        let left = heads(j, &mut rows);
        for i in (0..j).rev() {
            let at = i * n_terms + start;
            let ratio = &ratios[at..at + TERMS];
            for r in 0..C {
                for k in 0..TERMS {
                    values[r][k] = simd.mul_f64s(values[r][k], ratio[k]);
                }
                left[r][i] = simd.add_f64s(left[r][i], sum_of(simd, values[r]));
            }
        }
    }
    for (r, row) in rows.iter_mut().enumerate() {
        row[j + r] = simd.add_f64s(row[j + r], constant);
    }
}

#[inline(always)]
fn sum_of<S: Simd>(simd: S, values: [S::f64s; TERMS]) -> S::f64s {
    simd.add_f64s(simd.add_f64s(values[0], values[1]), simd.add_f64s(values[2], values[3]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small_matrix::triangle;
    use crate::spd::lanes::MAX_LANES;
    use crate::spd::rational::bounds;

    fn logarithm_of(diagonal: &[f64], off: &[f64]) -> Option<Vec<f64>> {
        let (simd, p) = (pulp::Scalar, diagonal.len());
        let bounds = bounds(simd, diagonal, off);
        let mut buffer = vec![f64::NAN; Scratch::<f64>::len(p)];
        let mut out = vec![f64::NAN; triangle(p)];
        let mut scratch = Scratch::new(p, &mut buffer);
        logarithm(simd, diagonal, off, &bounds, &[0.0; MAX_LANES], &mut scratch, &mut out);
        (!bounds.is_beyond(0)).then_some(out)
    }

    #[test]
    fn logarithms_of_numbers_of_every_condition() {
        for k in 0..=150 {
            let (x, y) = (1e-3, 1e-3 * (0.1 * f64::from(k)).exp2());
            match logarithm_of(&[x, y], &[0.0, 0.0]) {
                Some(got) => {
                    assert!((got[0] - x.ln()).abs() < 1e-14, "{k}: {} {}", got[0], x.ln());
                    assert!((got[2] - y.ln()).abs() < 1e-14, "{k}: {} {}", got[2], y.ln());
                    assert_eq!(got[1], 0.0);
                }
                None => assert!(k >= 149),
            }
        }
    }

    #[test]
    fn logarithms_of_second_differences() {
        let pi = std::f64::consts::PI;
        for p in [1_usize, 2, 3, 4, 5, 8, 9, 17, 33] {
            for shift in [1e-3, 0.1, 1.0, 100.0] {
                for sign in [1.0, -1.0] {
                    let (diagonal, off) = (vec![2.0 + shift; p], vec![sign; p]);
                    let got = logarithm_of(&diagonal, &off).unwrap();
                    let n = (p + 1) as f64;
                    for i in 0..p {
                        for j in 0..=i {
                            // Eigenvectors are sines.
                            let want: f64 = (1..=p)
                                .map(|k| {
                                    let angle = k as f64 * pi / n;
                                    let value = shift + 2.0 + sign * 2.0 * angle.cos();
                                    let (a, b) = ((i + 1) as f64, (j + 1) as f64);
                                    value.ln() * (a * angle).sin() * (b * angle).sin() * 2.0 / n
                                })
                                .sum();
                            let error = (got[triangle(i) + j] - want).abs();
                            assert!(error < 2e-13, "{p} {shift} {i} {j}: {error}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_positive_definite_is_beyond() {
        for (diagonal, off) in [
            ([1.0, -1.0], 0.0),
            ([1.0, 1.0], 1.0),
            ([1.0, 1.0], 2.0),
            ([0.0, 0.0], 0.0),
            ([f64::NAN, 1.0], 0.0),
            ([1.0, f64::NAN], 0.0),
            ([1.0, f64::INFINITY], 0.0),
            ([1.0, 1.0], f64::NAN),
            ([1e-5, 1.0], 0.0),
        ] {
            assert!(logarithm_of(&diagonal, &[off, 0.0]).is_none(), "{diagonal:?} {off}");
        }
    }
}
