//! The dual of the bundle problem: a concave quadratic on the simplex.

use ndarray::ArrayView2;

use crate::error::{Error, Result, check_length};
use crate::exec::Executor;

/// Steps between two looks at the stop flag.
const CHECK_EVERY: usize = 1024;

/// Moves `alpha`, on the simplex, towards the maximum of `b^T alpha - alpha^T H alpha / 2`, and
/// returns how far it may be from it: `max_i g_i - alpha^T g` with `g = b - H alpha`.
///
/// Pairs of coordinates exchange mass. The one of the largest derivative takes from the one from
/// which it gains most. Sources: V. Franc's `libqp`; R.-E. Fan, P.-H. Chen and C.-J. Lin, *Working
/// set selection using second order information*, JMLR 2005. Every step raises the objective, so an
/// optimum from before is a warm start. It ends at a bound of `tol`, when rounding stops it, or
/// after `max_steps`.
///
/// # Errors
///
/// [`Error::Shape`] when lengths disagree, [`Error::Parameter`] unless `alpha` is non-negative and
/// adds up to 1, [`Error::Interrupted`].
pub fn simplex_maximum(
    exec: &Executor,
    h: ArrayView2<'_, f64>,
    b: &[f64],
    alpha: &mut [f64],
    tol: f64,
    max_steps: usize,
) -> Result<f64> {
    let n = b.len();
    let cure = "give one entry for each plane";
    check_length("the number of rows of H", h.nrows(), n, cure)?;
    check_length("the number of columns of H", h.ncols(), n, cure)?;
    check_length("the length of alpha", alpha.len(), n, cure)?;
    let mass: f64 = alpha.iter().sum();
    if !((mass - 1.0).abs() < 1e-9 && alpha.iter().all(|&a| a >= 0.0)) {
        let expected = "weights are non-negative and add up to 1";
        return Err(Error::parameter("the sum of alpha", mass, expected));
    }
    let gradient_at = |alpha: &[f64]| -> Vec<f64> {
        let product =
            h.rows().into_iter().map(|row| row.iter().zip(alpha).map(|(h, a)| h * a).sum());
        b.iter().zip(product).map(|(b, p): (_, f64)| b - p).collect()
    };
    let mut gradient = gradient_at(alpha);
    for step in 0..max_steps {
        if step % CHECK_EVERY == 0 {
            exec.check()?;
            gradient = gradient_at(alpha);
        }
        let up = largest(&gradient);
        if bound(&gradient, alpha, up) <= tol {
            break;
        }
        let Some((down, change)) = best_exchange(h, &gradient, alpha, up) else { break };
        let change = change.min(alpha[down]);
        let before = alpha[up];
        alpha[up] += change;
        alpha[down] = if change < alpha[down] { alpha[down] - change } else { 0.0 };
        if alpha[up] == before {
            break;
        }
        for (i, gradient) in gradient.iter_mut().enumerate() {
            *gradient -= change * (h[[up, i]] - h[[down, i]]);
        }
    }
    let mass: f64 = alpha.iter().sum();
    alpha.iter_mut().for_each(|alpha| *alpha /= mass);
    let gradient = gradient_at(alpha);
    Ok(bound(&gradient, alpha, largest(&gradient)).max(0.0))
}

fn largest(gradient: &[f64]) -> usize {
    let mut best = 0;
    for (i, value) in gradient.iter().enumerate() {
        if *value > gradient[best] {
            best = i;
        }
    }
    best
}

fn bound(gradient: &[f64], alpha: &[f64], up: usize) -> f64 {
    gradient[up] - gradient.iter().zip(alpha).map(|(g, a)| g * a).sum::<f64>()
}

/// The coordinate that gives, and how much: the exchange of the largest gain.
fn best_exchange(
    h: ArrayView2<'_, f64>,
    gradient: &[f64],
    alpha: &[f64],
    up: usize,
) -> Option<(usize, f64)> {
    let mut best = None;
    let mut most = 0.0;
    for (i, (&g, &mass)) in gradient.iter().zip(alpha).enumerate() {
        let slope = gradient[up] - g;
        if mass <= 0.0 || slope <= 0.0 {
            continue;
        }
        let curvature = h[[up, up]] + h[[i, i]] - 2.0 * h[[up, i]];
        let wanted = if curvature > 0.0 { slope / curvature } else { f64::INFINITY };
        let change = wanted.min(mass);
        let gain = change * (slope - 0.5 * change * curvature.max(0.0));
        if gain > most {
            most = gain;
            best = Some((i, change));
        }
    }
    best
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use ndarray::Array2;
    use proptest::prelude::*;

    fn objective(h: &Array2<f64>, b: &[f64], alpha: &[f64]) -> f64 {
        let linear: f64 = b.iter().zip(alpha).map(|(b, a)| b * a).sum();
        let square: f64 = h.indexed_iter().map(|((i, j), h)| alpha[i] * h * alpha[j]).sum();
        linear - square / 2.0
    }

    /// The most that the coordinate of the largest derivative gains by what another gives.
    fn most_by_an_exchange(h: &Array2<f64>, b: &[f64], alpha: &[f64]) -> f64 {
        let gradient: Vec<f64> = (0..b.len())
            .map(|i| b[i] - h.row(i).iter().zip(alpha).map(|(h, a)| h * a).sum::<f64>())
            .collect();
        let up = (0..b.len()).max_by(|&i, &j| gradient[i].total_cmp(&gradient[j])).unwrap();
        let mut most = objective(h, b, alpha);
        for down in (0..b.len()).filter(|&i| i != up) {
            let curvature = h[[up, up]] - 2.0 * h[[up, down]] + h[[down, down]];
            let best = (gradient[up] - gradient[down]) / curvature;
            let change = if best < alpha[down] { best } else { alpha[down] };
            let mut moved = alpha.to_vec();
            moved[up] += change;
            moved[down] -= change;
            most = most.max(objective(h, b, &moved));
        }
        most
    }

    proptest! {
        #[test]
        fn a_step_is_the_exchange_that_gains_most(
            n in 2..7_usize,
            entries in prop::collection::vec(-1.0..1.0, 36),
            b in prop::collection::vec(-1.0..1.0, 6),
            masses in prop::collection::vec(0.1..1.0, 6),
        ) {
            let a = Array2::from_shape_fn((n, n), |(i, j)| entries[6 * i + j]);
            let (h, b) = (a.dot(&a.t()), &b[..n]);
            let total: f64 = masses[..n].iter().sum();
            let start: Vec<f64> = masses[..n].iter().map(|mass| mass / total).collect();
            let mut alpha = start.clone();
            let exec = Executor::new(1).unwrap();
            simplex_maximum(&exec, h.view(), b, &mut alpha, 0.0, 1).unwrap();
            let expected = most_by_an_exchange(&h, b, &start);
            prop_assert!((objective(&h, b, &alpha) - expected).abs() < 1e-11);
        }
    }

    #[test]
    fn weights_that_add_up_to_nearly_one_do_so_exactly_in_the_end() {
        let exec = Executor::new(1).unwrap();
        let mut alpha = [0.5 + 4e-10, 0.5];
        let h = Array2::zeros((2, 2));
        simplex_maximum(&exec, h.view(), &[1.0, 1.0], &mut alpha, 0.0, 0).unwrap();
        assert!((alpha[0] + alpha[1] - 1.0).abs() < 1e-15, "{alpha:?}");
    }

    /// Of the identity the maximum is the projection of `b` on the simplex.
    #[test]
    fn the_maximum_is_a_projection_on_the_simplex() {
        let exec = Executor::new(1).unwrap();
        let (h, b) = (Array2::eye(3), [1.0, 1.5, 2.0]);
        let mut alpha = [1.0 / 3.0; 3];
        let bound = simplex_maximum(&exec, h.view(), &b, &mut alpha, 1e-12, 1000).unwrap();
        assert!(bound <= 1e-12, "{bound}");
        for (found, expected) in alpha.into_iter().zip([0.0, 0.25, 0.75]) {
            assert!((found - expected).abs() < 1e-9, "{alpha:?}");
        }
    }

    #[test]
    fn without_steps_the_bound_is_that_of_the_start() {
        let exec = Executor::new(1).unwrap();
        let mut alpha = [1.0, 0.0];
        let h = Array2::zeros((2, 2));
        let bound = simplex_maximum(&exec, h.view(), &[1.0, 3.0], &mut alpha, 0.0, 0).unwrap();
        assert_eq!((bound, alpha), (2.0, [1.0, 0.0]));
        let off = simplex_maximum(&exec, h.view(), &[1.0, 3.0], &mut [1.0, 1.0], 0.0, 0);
        assert!(matches!(off, Err(Error::Parameter { .. })));
    }
}
