//! Newton's method for the pairs that scaling brings no further.
//!
//! Where parts of two histograms hardly exchange mass, a step of the scaling moves their potentials
//! by next to nothing, and thousands of steps are all alike. The dual
//! `D(f) = sum_i a_i f_i + sum_j b_j g_j(f)` is concave; `g` are the potentials that make the
//! marginal of the target exact. Its Hessian is minus the Laplacian of a graph with the weights
//! `W_ik = sum_j T_ij T_kj / b_j`. The damped step (Levenberg and Marquardt) solves
//! `(L(W) + damping diag(a)) step = a - T 1`.
//!
//! Under penalties `p` and `q`, in units of the regularisation, `a exp(-(f - log a) / p)` takes the
//! place of `a`, and `W` is multiplied by `q / (1 + q)`. The loss of the rows by that, and the
//! curvature of the penalties, are added to the diagonal.

use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::small_matrix::{backward, factorize, forward, long_dot, triangle};
use crate::transport::job::{Limits, Solved, Status};
use crate::transport::log_domain::Exponents;
use crate::transport::range::FORBIDDEN;

/// First damping, where a step is about half of one of the scaling, and the least.
const DAMPING: f64 = 1.0;
const LEAST_DAMPING: f64 = 1e-15;
/// What the damping is multiplied by after a step that is taken, and one that is taken back.
const EASED: f64 = 0.125;
const RAISED: f64 = 16.0;
/// A dual that is less by this part of its terms is the same.
const ROUNDING: f64 = 1e-13;

/// Continues the pair of histograms `a` and `b` from where the scaling ended; `inverse` are one over
/// the penalties of both marginals, 0 where they are kept.
pub(super) fn refine(
    exec: &Executor,
    exponents: &Exponents,
    [a, b]: [&[f64]; 2],
    inverse: [f64; 2],
    solved: Solved,
    limits: Limits,
) -> Result<Solved> {
    if solved.status == Status::Converged || !exponents.is_small() {
        return Ok(solved);
    }
    let dual = Dual::new(exponents, a, b, inverse)?;
    let start = |&i: &usize| {
        if solved.potentials[0][i].is_finite() { solved.potentials[0][i] } else { 0.0 }
    };
    let mut point = dual.at(dual.sources.iter().map(start).collect())?;
    let mut n_iter = solved.n_iter;
    let mut damping = DAMPING;
    while point.error > limits.tol && n_iter < limits.max_iter && damping.is_finite() {
        n_iter += 1;
        let next = dual.step(exec, &point, damping)?.map(|f| dual.at(f)).transpose()?;
        match next.filter(|next| next.value >= point.value - ROUNDING * next.scale) {
            Some(next) => {
                point = next;
                damping = (damping * EASED).max(LEAST_DAMPING);
            }
            None => damping *= RAISED,
        }
    }
    let status = if point.error <= limits.tol { Status::Converged } else { Status::Limit };
    let spread = |values: &[f64], indices: &[usize], n: usize| {
        let mut out = vec![f64::NEG_INFINITY; n];
        indices.iter().zip(values).for_each(|(&k, &v)| out[k] = v);
        out
    };
    let potentials =
        [spread(&point.f, &dual.sources, a.len()), spread(&point.g, &dual.targets, b.len())];
    let transport = exponents.transport(&potentials[0], &potentials[1]);
    Ok(Solved { status, error: point.error, n_iter, transport, potentials })
}

/// The dual of one pair, over the bins with mass.
struct Dual {
    sources: Vec<usize>,
    targets: Vec<usize>,
    a: Vec<f64>,
    b: Vec<f64>,
    /// `M / reg`, row after row.
    exponents: Vec<f64>,
    inverse: [f64; 2],
}

/// A point, and what is known there.
struct Point {
    f: Vec<f64>,
    g: Vec<f64>,
    /// The plan, row after row, and its row sums.
    plan: Vec<f64>,
    mass: Vec<f64>,
    /// What the row and column sums are to be.
    wish: Vec<f64>,
    columns: Vec<f64>,
    /// The dual, and the sum of the magnitudes of its terms.
    value: f64,
    scale: f64,
    /// L1 error of the row sums.
    error: f64,
}

impl Dual {
    /// Bins that nothing reaches or leaves take no part.
    fn new(exponents: &Exponents, a: &[f64], b: &[f64], inverse: [f64; 2]) -> Result<Self> {
        let open = |&(i, j): &(usize, usize)| {
            a[i] > 0.0 && b[j] > 0.0 && exponents.entry(i, j) < FORBIDDEN
        };
        let source = |&i: &usize| (0..b.len()).any(|j| open(&(i, j)));
        let target = |&j: &usize| (0..a.len()).any(|i| open(&(i, j)));
        let sources: Vec<usize> = (0..a.len()).filter(source).collect();
        let targets: Vec<usize> = (0..b.len()).filter(target).collect();
        let row = |&i: &usize| targets.iter().map(move |&j| exponents.entry(i, j));
        let mut own = memory::with_capacity(sources.len() * targets.len())?;
        own.extend(sources.iter().flat_map(row));
        Ok(Self {
            exponents: own,
            a: sources.iter().map(|&i| a[i]).collect(),
            b: targets.iter().map(|&j| b[j]).collect(),
            sources,
            targets,
            inverse,
        })
    }

    /// What a side adds to the dual.
    fn side(&self, side: usize, mass: f64, potential: f64) -> f64 {
        let inverse = self.inverse[side];
        if inverse > 0.0 {
            -mass * (-(potential - mass.ln()) * inverse).exp_m1() / inverse
        } else {
            mass * potential
        }
    }

    /// What a row or column sum is to be.
    fn wish(&self, side: usize, mass: f64, potential: f64) -> f64 {
        let inverse = self.inverse[side];
        if inverse > 0.0 { mass * (-(potential - mass.ln()) * inverse).exp() } else { mass }
    }

    fn at(&self, f: Vec<f64>) -> Result<Point> {
        let n = self.b.len();
        let rows = || f.iter().zip(self.exponents.chunks_exact(n.max(1)));
        let mut largest = memory::filled(f64::NEG_INFINITY, n)?;
        for (f, row) in rows() {
            largest.iter_mut().zip(row).for_each(|(largest, m)| *largest = largest.max(f - m));
        }
        let mut sums = memory::filled(0.0, n)?;
        let mut plan = memory::with_capacity(self.exponents.len())?;
        for (f, row) in rows() {
            for ((m, largest), sum) in row.iter().zip(&largest).zip(&mut sums) {
                let weight = (f - m - largest).exp();
                *sum += weight;
                plan.push(weight);
            }
        }
        let exponent = 1.0 / (1.0 + self.inverse[1]);
        let potential = |((b, sum), largest): ((&f64, &f64), &f64)| {
            let own = exponent * (sum.ln() + largest);
            if self.inverse[1] > 0.0 { b.ln() - own } else { (b / sum).ln() - largest }
        };
        let g: Vec<f64> = self.b.iter().zip(&sums).zip(&largest).map(potential).collect();
        let wishes = |side: usize, masses: &[f64], potentials: &[f64]| -> Vec<f64> {
            masses.iter().zip(potentials).map(|(&m, &p)| self.wish(side, m, p)).collect()
        };
        let (wish, columns) = (wishes(0, &self.a, &f), wishes(1, &self.b, &g));
        let mut mass = memory::with_capacity(f.len())?;
        for row in plan.chunks_exact_mut(n.max(1)) {
            row.iter_mut().zip(&columns).zip(&sums).for_each(|((t, b), sum)| *t *= b / sum);
            mass.push(row.iter().sum::<f64>());
        }
        let of_side = |side: usize, masses: &[f64], potentials: &[f64]| -> Vec<f64> {
            masses.iter().zip(potentials).map(|(&m, &p)| self.side(side, m, p)).collect()
        };
        let mut terms = of_side(0, &self.a, &f);
        terms.extend(of_side(1, &self.b, &g));
        if self.inverse != [0.0; 2] {
            terms.push(-mass.iter().sum::<f64>());
        }
        Ok(Point {
            value: terms.iter().sum(),
            scale: 1.0 + terms.iter().map(|term| term.abs()).sum::<f64>(),
            error: wish.iter().zip(&mass).map(|(a, m)| (a - m).abs()).sum(),
            f,
            g,
            plan,
            mass,
            wish,
            columns,
        })
    }

    /// The damped step from `point`, unless the equations are singular to rounding.
    fn step(&self, exec: &Executor, point: &Point, damping: f64) -> Result<Option<Vec<f64>>> {
        let mut matrix = self.laplacian(exec, point)?;
        let [own, other] = self.inverse;
        for (i, (wish, mass)) in point.wish.iter().zip(&point.mass).enumerate() {
            let bend = own * wish + other / (1.0 + other) * mass;
            matrix[triangle(i) + i] += bend + damping * wish.max(*mass);
        }
        let mut step: Vec<f64> =
            point.wish.iter().zip(&point.mass).map(|(wish, mass)| wish - mass).collect();
        if !factorize(exec, &mut matrix, step.len(), long_dot)? {
            return Ok(None);
        }
        forward(&matrix, &mut step, long_dot);
        backward(&matrix, &mut step);
        step.iter_mut().zip(&point.f).for_each(|(step, f)| *step += f);
        Ok(step.iter().all(|f| f.is_finite()).then_some(step))
    }

    /// `L(W)`, the lower half; but for the penalties its diagonal is the sum of the weights, where nothing cancels.
    fn laplacian(&self, exec: &Executor, point: &Point) -> Result<Vec<f64>> {
        let (n, m) = (self.a.len(), self.b.len());
        let share = 1.0 / (1.0 + self.inverse[1]);
        let mut matrix = memory::filled(0.0, triangle(n))?;
        let mut weighted = memory::filled(0.0, m)?;
        for i in 0..n {
            exec.check()?;
            let row = &point.plan[i * m..][..m];
            let shares = weighted.iter_mut().zip(row).zip(&point.columns);
            shares.for_each(|((w, t), b)| *w = if *b > 0.0 { share * t / b } else { 0.0 });
            for k in 0..i {
                let other = &point.plan[k * m..][..m];
                let weight: f64 = long_dot(&weighted, other);
                matrix[triangle(i) + k] = -weight;
                matrix[triangle(i) + i] += weight;
                matrix[triangle(k) + k] += weight;
            }
        }
        Ok(matrix)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::transport::log_domain::Axis;

    const LIMITS: Limits =
        Limits { tol: 1e-13, max_iter: 200, patience: 10, unaccelerated_after: 10 };

    fn exponents(m: &[&[f64]]) -> Exponents {
        Exponents::new(vec![Axis::new(m.len(), m[0].len(), |i, j| m[i][j]).unwrap()]).unwrap()
    }

    /// The pair from zeros on.
    fn refined(m: &[&[f64]], a: &[f64], b: &[f64], inverse: [f64; 2], limits: Limits) -> Solved {
        let zeros = [vec![0.0; a.len()], vec![0.0; b.len()]];
        let status = Status::Limit;
        let solved = Solved { status, error: 1.0, n_iter: 0, transport: 0.0, potentials: zeros };
        let exec = Executor::new(1).unwrap();
        refine(&exec, &exponents(m), [a, b], inverse, solved, limits).unwrap()
    }

    /// The plan of potentials, and that what is said of it is so.
    fn plan(m: &[&[f64]], solved: &Solved) -> Vec<Vec<f64>> {
        let [f, g] = &solved.potentials;
        let row = |(f, m): (&f64, &&[f64])| -> Vec<f64> {
            m.iter().zip(g).map(|(m, g)| (f + g - m).exp()).collect()
        };
        let plan: Vec<Vec<f64>> = f.iter().zip(m).map(row).collect();
        let products = plan.iter().zip(m).flat_map(|(t, m)| t.iter().zip(*m));
        close(solved.transport, products.map(|(t, m)| t * m).sum(), 1e-12);
        plan
    }

    #[track_caller]
    fn close(found: f64, expected: f64, tol: f64) {
        assert!((found - expected).abs() <= tol, "{found} is not {expected}");
    }

    #[track_caller]
    fn is_plan(found: &[Vec<f64>], expected: &[&[f64]]) {
        for (found, expected) in found.iter().flatten().zip(expected.iter().copied().flatten()) {
            close(*found, *expected, 1e-12);
        }
    }

    /// `T_00 T_11 / (T_01 T_10) = exp(2 m)` with the marginals leaves one number, a root of a
    /// quadratic polynomial.
    #[test]
    fn two_bins_have_the_plan_of_a_quadratic_equation() {
        for m in [0.1, 1.0, 5.0] {
            let (a, b) = ([0.3, 0.7], [0.4, 0.6]);
            let ground: [&[f64]; 2] = [&[0.0, m], &[m, 0.0]];
            let solved = refined(&ground, &a, &b, [0.0; 2], LIMITS);
            assert_eq!(solved.status, Status::Converged);
            assert!(solved.error <= LIMITS.tol && solved.n_iter < 50, "{solved:?}");
            let odds = f64::exp(2.0 * m);
            // (odds - 1) t^2 - (0.7 odds + 0.3) t + 0.12 odds = 0, and the root below 0.3.
            let (p, q, r) = (odds - 1.0, 0.7 * odds + 0.3, 0.12 * odds);
            let t = 2.0 * r / (q + (q * q - 4.0 * p * r).sqrt());
            is_plan(&plan(&ground, &solved), &[&[t, 0.3 - t], &[0.4 - t, 0.3 + t]]);
        }
    }

    /// Blocks that exchange a mass of `exp(-80)`: what the scaling does not see.
    #[test]
    fn parts_that_hardly_exchange_mass_are_solved_in_some_steps() {
        let ground: [&[f64]; 2] = [&[0.0, 40.0], &[40.0, 0.0]];
        let solved = refined(&ground, &[0.3, 0.7], &[0.4, 0.6], [0.0; 2], LIMITS);
        assert_eq!(solved.status, Status::Converged);
        assert!(solved.n_iter < LIMITS.max_iter, "{solved:?}");
        is_plan(&plan(&ground, &solved), &[&[0.3, 0.0], &[0.1, 0.6]]);
    }

    #[test]
    fn equal_distances_share_out_mass_independently() {
        let zeros: [&[f64]; 3] = [&[0.0; 2]; 3];
        let solved = refined(&zeros, &[0.2, 0.3, 0.5], &[0.6, 0.4], [0.0; 2], LIMITS);
        assert_eq!(solved.status, Status::Converged);
        is_plan(&plan(&zeros, &solved), &[&[0.12, 0.08], &[0.18, 0.12], &[0.3, 0.2]]);
    }

    #[test]
    fn empty_bins_and_forbidden_cells_have_no_mass() {
        let ground: [&[f64]; 3] = [&[0.0, FORBIDDEN, 2.0], &[1.0, 0.0, 2.0], &[3.0; 3]];
        let solved = refined(&ground, &[0.3, 0.7, 0.0], &[0.4, 0.6, 0.0], [0.0; 2], LIMITS);
        assert_eq!(solved.status, Status::Converged);
        for potentials in &solved.potentials {
            assert_eq!(potentials[2], f64::NEG_INFINITY);
        }
        is_plan(&plan(&ground, &solved), &[&[0.3, 0.0, 0.0], &[0.1, 0.6, 0.0], &[0.0; 3]]);
        close(solved.transport, 0.1, 1e-12);
    }

    /// The equations are singular, and no plan has these marginals.
    #[test]
    fn masses_that_cannot_meet_end_at_the_limit() {
        let ground: [&[f64]; 2] = [&[0.0, FORBIDDEN], &[FORBIDDEN, 0.0]];
        let solved = refined(&ground, &[0.3, 0.7], &[0.4, 0.6], [0.0; 2], LIMITS);
        assert_eq!(solved.status, Status::Limit);
        close(solved.error, 0.2, 1e-12);
        assert!(solved.potentials.iter().flatten().all(|p| p.is_finite()));
        let none = Limits { max_iter: 0, ..LIMITS };
        let met = refined(&ground, &[0.4, 0.6], &[0.4, 0.6], [0.0; 2], none);
        assert_eq!((met.status, met.n_iter), (Status::Converged, 0));
    }

    /// The step solves the equations of the gradient's derivative, by differences, and of the damping.
    #[test]
    fn a_step_is_that_of_newton() {
        let ground: [&[f64]; 3] =
            [&[0.0, 1.0, 0.3, 2.0], &[0.7, 0.2, 1.1, 0.4], &[1.5, 0.1, 0.9, 0.6]];
        let (a, b) = ([0.5, 1.2, 0.3], [0.4, 0.9, 0.2, 0.5]);
        let exec = Executor::new(1).unwrap();
        for inverse in [[0.0, 0.0], [0.5, 0.25], [2.0, 0.0], [0.0, 0.7]] {
            let dual = Dual::new(&exponents(&ground), &a, &b, inverse).unwrap();
            let f = vec![0.3, -0.2, 0.6];
            let gradient = |f: &[f64]| -> Vec<f64> {
                let Point { wish, mass, .. } = dual.at(f.to_vec()).unwrap();
                wish.iter().zip(&mass).map(|(wish, mass)| wish - mass).collect()
            };
            let point = dual.at(f.clone()).unwrap();
            for damping in [1e-3, 0.4, 20.0] {
                let next = dual.step(&exec, &point, damping).unwrap().unwrap();
                let step: Vec<f64> = next.iter().zip(&f).map(|(next, f)| next - f).collect();
                let moved = |h: f64| -> Vec<f64> {
                    gradient(&f.iter().zip(&step).map(|(f, step)| f + h * step).collect::<Vec<_>>())
                };
                let h = 1e-5;
                let (after, before) = (moved(h), moved(-h));
                for (i, &want) in gradient(&f).iter().enumerate() {
                    let slope = (after[i] - before[i]) / (2.0 * h);
                    let found = damping * point.wish[i].max(point.mass[i]) * step[i] - slope;
                    close(found, want, 1e-7);
                }
            }
        }
    }

    /// A bin that reaches nothing takes no part, and what nothing is asked of gives no number that is
    /// none.
    #[test]
    fn bins_out_of_reach_take_no_part() {
        let ground: [&[f64]; 2] = [&[FORBIDDEN, FORBIDDEN], &[0.0, 1.0]];
        let (a, b) = ([0.3, 0.7], [0.4, 0.6]);
        let solved = refined(&ground, &a, &b, [2.0, 2.0], LIMITS);
        assert_eq!(solved.status, Status::Converged);
        assert_eq!(solved.potentials[0][0], f64::NEG_INFINITY);
        let alone = refined(&ground[1..], &a[1..], &b, [2.0, 2.0], LIMITS);
        close(solved.transport, alone.transport, 1e-12);
        let exec = Executor::new(1).unwrap();
        let ground: [&[f64]; 2] = [&[0.5, 0.0], &[0.0, 1.0]];
        let dual = Dual::new(&exponents(&ground), &a, &b, [2.0, 2.0]).unwrap();
        let mut point = dual.at(vec![0.0, 0.0]).unwrap();
        point.columns[0] = 0.0;
        (point.plan[0], point.plan[2]) = (0.0, 0.0);
        assert!(dual.laplacian(&exec, &point).unwrap().iter().all(|entry| entry.is_finite()));
    }

    #[test]
    fn iterations_run_out() {
        let ground: [&[f64]; 2] = [&[0.0, 40.0], &[40.0, 0.0]];
        let limits = Limits { max_iter: 3, ..LIMITS };
        let solved = refined(&ground, &[0.3, 0.7], &[0.4, 0.6], [0.0; 2], limits);
        assert_eq!((solved.status, solved.n_iter), (Status::Limit, 3));
    }

    #[test]
    fn nothing_to_move_is_solved() {
        let solved = refined(&[&[1.0]], &[0.0], &[0.0], [0.0; 2], LIMITS);
        assert_eq!((solved.status, solved.error, solved.transport), (Status::Converged, 0.0, 0.0));
    }

    /// Of one bin, `log T = ((1 + p) log a + (1 + q) log b - m) / (1 + p + q)`.
    #[test]
    fn under_penalties_one_bin_has_a_closed_form() {
        let (p, q, a, b, m) = (2.0, 3.0, 0.5_f64, 2.0_f64, 0.7);
        let solved = refined(&[&[m]], &[a], &[b], [1.0 / p, 1.0 / q], LIMITS);
        assert_eq!(solved.status, Status::Converged);
        let log = ((1.0 + p) * a.ln() + (1.0 + q) * b.ln() - m) / (1.0 + p + q);
        close(solved.transport, log.exp() * m, 1e-12);
    }

    #[test]
    fn what_has_converged_stays() {
        let potentials = [vec![1.0], vec![2.0]];
        let status = Status::Converged;
        let solved = Solved { status, error: 0.5, n_iter: 3, transport: 4.0, potentials };
        let exec = Executor::new(1).unwrap();
        let [a, b] = [[0.3], [0.4]];
        let kept = refine(&exec, &exponents(&[&[1.0]]), [&a, &b], [0.0; 2], solved, LIMITS);
        let kept = kept.unwrap();
        assert_eq!((kept.error, kept.n_iter, kept.transport), (0.5, 3, 4.0));
        assert_eq!(kept.potentials, [[1.0], [2.0]]);
    }
}
