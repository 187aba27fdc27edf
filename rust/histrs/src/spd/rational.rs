//! The logarithm of symmetric tridiagonal matrices as a sum of inverses, in all lanes.
//!
//! On `[1 / s, s]` the logarithm is `sum_k w_k - sum_k w_k (1 + t_k) / (z + t_k)` to 1e-16, with as few
//! terms as the condition `s^2` asks for: the rational function that is right at twice as many points
//! as it has terms. Its poles are negative, so that every inverse is that of a positive definite
//! matrix, and there is neither an iteration nor a branch.
//!
//! Entries of the inverse of a tridiagonal matrix are products of ratios of its pivots, none of them
//! a difference.
//!
//! Source: N. Hale, N. J. Higham and L. N. Trefethen, *Computing A^alpha, log(A), and related matrix
//! functions by contour integrals*, SIAM J. Numer. Anal. 46, 2008; the points are those of E. L.
//! Wachspress, *The ADI model problem*, Springer 2013, squared.

use pulp::Simd;

use crate::spd::lanes::{LaneValues, MAX_LANES, minus};
use crate::spd::logarithm::ln;
use crate::spd::tridiagonal::{heads, tile_rows};

/// Columns of the inverses that are computed at once.
const COLUMNS: usize = 4;
/// Terms that are added at once.
const TERMS: usize = 4;
/// The most terms of an approximation, in whole steps.
const MOST_TERMS: usize = 28;

/// A rational function that is the logarithm between the roots of `1 / condition` and `condition`.
struct Approximation {
    condition: f64,
    /// The sum of the `w_k`.
    sum: f64,
    /// Every `t_k` and `w_k (1 + t_k)`.
    terms: &'static [(f64, f64)],
}

#[rustfmt::skip]
static APPROXIMATIONS: [Approximation; 5] = [
    Approximation {
        condition: 28.0,
        sum: 6.519616471401017,
        terms: &[
            (0.006843540538408819, 0.017774658725924354),
            (0.03795907494011458, 0.04575992537596026),
            (0.10226178096817849, 0.08556498794363394),
            (0.21659711898102937, 0.14814748504330413),
            (0.41234369848273006, 0.25264323499997876),
            (0.7478372153959787, 0.4363008946130738),
            (1.3371894035395142, 0.7801389406951273),
            (2.4251613488447243, 1.4858978343152844),
            (4.616866580241009, 3.1578313500240585),
            (9.778824410570133, 8.182186784461697),
            (26.344161483851522, 31.758067484393056),
            (146.12319374563222, 379.5242953838963),
        ],
    },
    Approximation {
        condition: 192.0,
        sum: 7.4923325355158426,
        terms: &[
            (0.0025861079798921564, 0.006713937776093382),
            (0.014315428403615426, 0.01721417386930024),
            (0.03839846667161791, 0.03190187242698183),
            (0.08067273240457404, 0.05431126387780028),
            (0.1513712713982346, 0.08987970833105892),
            (0.2676937104674118, 0.14742703403605228),
            (0.45840816717385335, 0.24188473123274928),
            (0.7723357791184703, 0.3996707307254443),
            (1.2947736296010803, 0.6700235009924637),
            (2.1814620061530134, 1.1510753708990036),
            (3.735612608357255, 2.057315004510856),
            (6.606273375144966, 3.9226064406313395),
            (12.395762114328747, 8.345192819074228),
            (26.042706563049986, 21.63656974984978),
            (69.85470303825804, 83.99965196886563),
            (386.68145637201934, 1003.8850881080257),
        ],
    },
    Approximation {
        condition: 1280.0,
        sum: 8.448332445927448,
        terms: &[
            (0.0009941012797525985, 0.002580661288615804),
            (0.0055011725349055325, 0.006612704226234185),
            (0.014747154111885104, 0.012240839134935866),
            (0.03095181470069519, 0.020797754080470212),
            (0.057976528082703906, 0.034292944088995754),
            (0.1022106624995956, 0.05586728472481808),
            (0.1740391472372873, 0.09052542374390754),
            (0.2902657028279035, 0.14636438136833),
            (0.4781768641402138, 0.23672202000641077),
            (0.7825296773593938, 0.3840598936093545),
            (1.277906805240216, 0.6271873973130097),
            (2.0912764188163946, 1.03528885518984),
            (3.445119386333056, 1.7371765344927452),
            (5.745833715426028, 2.9886611150869435),
            (9.783715079666532, 5.347676872991493),
            (17.248359518415683, 10.20235340322815),
            (32.30828336464355, 21.70921927123424),
            (67.80969347801653, 56.285269914196796),
            (181.77942859542983, 218.5086157702334),
            (1005.9337216112119, 2611.3780025726755),
        ],
    },
    Approximation {
        condition: 8192.0,
        sum: 9.388629667364592,
        terms: &[
            (0.0003881708774556762, 0.0010075865166105998),
            (0.0021472207191834693, 0.002579932880993992),
            (0.00575242127247574, 0.004770543346329837),
            (0.012063731619913021, 0.008095906786131776),
            (0.022577252238174354, 0.013334431550290262),
            (0.039766869658047155, 0.021698557174323993),
            (0.06764184117087205, 0.03510148958086169),
            (0.11264129401542618, 0.0565769649798512),
            (0.18506518771708058, 0.09095486407605144),
            (0.30138124080884676, 0.14597855999130507),
            (0.4880021753752182, 0.234202279777789),
            (0.7875850793741218, 0.37626716575021546),
            (1.2697040944385083, 0.6065985421352551),
            (2.049171193204444, 0.9834393970363934),
            (3.3180565496253207, 1.6071508491506765),
            (5.403501395026035, 2.655684415756744),
            (8.87773892106611, 4.459070968845873),
            (14.783748973861764, 7.6717546652994715),
            (25.146560657123327, 13.721072059434311),
            (44.29236956963113, 26.159674525307242),
            (82.89309075388813, 55.62911685220983),
            (173.8398411091366, 144.1672050860258),
            (465.71830788791635, 559.5707814601499),
            (2576.185020768814, 6687.078918014017),
        ],
    },
    Approximation {
        condition: 32768.0,
        sum: 10.16237344598299,
        terms: &[
            (0.00017890240527605348, 0.00046398783133750303),
            (0.0009860442146085446, 0.0011798140001479439),
            (0.0026250165136919835, 0.0021571494411081827),
            (0.005457635211232558, 0.0036096896318456723),
            (0.010106445756883102, 0.005853862430433572),
            (0.017587932554060253, 0.009374495339112315),
            (0.029527427448769367, 0.014924834092719507),
            (0.04849863296250735, 0.023679696688960018),
            (0.07855478943430062, 0.03747186355070729),
            (0.12605712150438814, 0.05916062751195707),
            (0.20097055014098977, 0.09321576055919298),
            (0.318908175903284, 0.146662702488855),
            (0.5044010297919442, 0.2306419754194253),
            (0.7962008858669305, 0.36300406743282027),
            (1.2559644403198147, 0.5726195593096547),
            (1.9825494813372622, 0.9065388485249402),
            (3.135698848634324, 1.4420767546310034),
            (4.975853423789981, 2.307939949431653),
            (7.932911588538767, 3.7230425538353455),
            (12.729968563359856, 6.0723941652210325),
            (20.61913787906282, 10.067395741680127),
            (33.86681761338737, 17.118207639496323),
            (56.857165953206106, 30.305280941074503),
            (98.94675379016797, 57.31200647182423),
            (183.22954197119358, 121.18834482377895),
            (380.949984422589, 313.0517624178969),
            (1014.1533058910505, 1213.4468727262824),
            (5589.639772908366, 14496.869576391073),
        ],
    },
];

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

/// What is known of the eigenvalues of the matrix of each lane.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Not less than the largest.
    largest: LaneValues,
    /// The first approximation that reaches down to the smallest.
    places: [usize; MAX_LANES],
}

impl Bounds {
    /// Lanes whose condition is too large, or that are not positive definite.
    pub(crate) fn is_beyond(&self, lane: usize) -> bool {
        self.places[lane] >= APPROXIMATIONS.len()
    }

    /// The logarithm of the root of what bounds the condition.
    pub(crate) fn spread(&self, lane: usize) -> f64 {
        0.5 * APPROXIMATIONS.get(self.places[lane]).map_or(f64::INFINITY, |a| a.condition.ln())
    }
}

/// Bounds of the eigenvalues: discs hold the largest, and pivots are positive for shifts that are
/// smaller than the smallest.
#[inline(always)]
pub(crate) fn bounds<S: Simd>(simd: S, diagonal: &[S::f64s], off: &[S::f64s]) -> Bounds {
    const N: usize = APPROXIMATIONS.len();
    let p = diagonal.len();
    let zero = simd.splat_f64s(0.0);
    let (mut largest, mut before) = (zero, zero);
    for i in 0..p {
        let after = if i + 1 < p { simd.abs_f64s(off[i]) } else { zero };
        let disc = simd.add_f64s(diagonal[i], simd.add_f64s(before, after));
        largest = simd.max_f64s(largest, disc);
        before = after;
    }
    // No closures: what they call is not compiled for the instruction set.
    let (mut shifts, mut pivots) = ([zero; N], [zero; N]);
    for k in 0..N {
        let part = simd.splat_f64s(1.0 / APPROXIMATIONS[k].condition);
        shifts[k] = simd.mul_f64s(largest, part);
        pivots[k] = simd.sub_f64s(diagonal[0], shifts[k]);
    }
    // Comparisons, of which those with NaN are false.
    let mut positive = [simd.splat_f64s(1.0); N];
    for k in 0..N {
        let above = simd.less_than_f64s(zero, pivots[k]);
        positive[k] = simd.select_f64s(above, positive[k], zero);
    }
    for i in 1..p {
        let square = simd.mul_f64s(off[i - 1], off[i - 1]);
        for k in 0..N {
            let entry = simd.sub_f64s(diagonal[i], shifts[k]);
            pivots[k] = simd.sub_f64s(entry, simd.div_f64s(square, pivots[k]));
            let above = simd.less_than_f64s(zero, pivots[k]);
            positive[k] = simd.select_f64s(above, positive[k], zero);
        }
    }
    let mut found = Bounds { largest: LaneValues::default(), places: [N; MAX_LANES] };
    let largest: &[f64] = pulp::bytemuck::cast_slice(core::slice::from_ref(&largest));
    found.largest[..S::F64_LANES].copy_from_slice(largest);
    for (k, positive) in positive.iter().enumerate().rev() {
        let positive: &[f64] = pulp::bytemuck::cast_slice(core::slice::from_ref(positive));
        for lane in 0..S::F64_LANES {
            if positive[lane] > 0.0 && largest[lane] < f64::INFINITY {
                found.places[lane] = k;
            }
        }
    }
    found
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
                let place = i * n_terms + start + k;
                let ratio = ratios[place];
                let own = simd.mul_f64s(diagonals[place], weights[start + k]);
                pivots[k] = simd.mul_add_e_f64s(simd.mul_f64s(ratio, ratio), pivots[k], own);
                diagonals[place] = pivots[k];
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
        let Some(approximation) = APPROXIMATIONS.get(bounds.places[lane]) else { continue };
        n_terms = n_terms.max(approximation.terms.len());
        // The eigenvalues over `unit` are between the roots.
        let unit = bounds.largest[lane] / approximation.condition.sqrt();
        constants[lane] = approximation.sum + (log_scale[lane] + ln(unit));
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
