//! The duality gap that certifies a solution.

use super::problem::{Penalty, Target};

/// Value of the objective and of a dual point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Values {
    pub(super) primal: f64,
    pub(super) dual: f64,
}

/// The objective `|y - X w|^2 / (2 n) + sum_g l1 weight_g |w_g| + l2 |w|^2 / 2` and that of the
/// dual point in the direction of the residual, for `residual = v - G w`.
///
/// The ridge penalty is squared error on `D` further rows `sqrt(n l2) I` of target zero. With
/// `rho = v - G w - l2 w`, which is `X^T r / n` of all rows, the squared residual is
/// `r2 = y^T y / n - v^T w - rho^T w`. `s r` is feasible for the dual if `s |rho_g| <= l1 weight_g`
/// in each group. If coefficients must not be negative, the condition is `s rho_g <= l1 weight_g`.
/// The dual is then `s (y^T y / n - v^T w) - s^2 r2 / 2`.
pub(super) fn values(target: &Target<'_>, penalty: Penalty, w: &[f64], residual: &[f64]) -> Values {
    let (mut explained, mut inner, mut norms) = (0.0, 0.0, 0.0);
    let mut scale = f64::INFINITY;
    for (group, weight) in target.groups() {
        let (mut size, mut slope) = (0.0, 0.0);
        for i in group {
            let rho = residual[i] - penalty.l2 * w[i];
            explained += target.v[i] * w[i];
            inner += rho * w[i];
            size += w[i] * w[i];
            // What would make a forbidden coefficient smaller is no constraint.
            slope += if penalty.positive { rho.max(0.0).powi(2) } else { rho * rho };
        }
        let lambda = penalty.l1 * weight;
        norms += lambda * size.sqrt();
        if slope > 0.0 {
            scale = scale.min(lambda / slope.sqrt());
        }
    }
    let unexplained = target.y_square - explained;
    let squared = (unexplained - inner).max(0.0);
    let best = if squared > 0.0 { (unexplained / squared).max(0.0) } else { 1.0 };
    let scale = scale.min(best);
    Values { primal: 0.5 * squared + norms, dual: scale * (unexplained - 0.5 * scale * squared) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use ndarray::{Array1, Array2, array};

    use super::*;
    use crate::moments::LassoProblem;

    const ENDS: [i64; 2] = [1, 3];
    const WEIGHTS: [f64; 2] = [0.5, 2.0];

    /// Rows and targets; two of the columns, which are a group, are orthogonal.
    fn data() -> (Array2<f64>, Array1<f64>) {
        let x = array![[1.0, 1.0, 2.0], [0.5, -1.0, 2.0], [-2.0, 2.0, 0.0], [0.25, -2.0, 0.0]];
        (x, array![1.0, -2.0, 0.5, 3.0])
    }

    /// The objectives from the rows, and those of the ridge penalty below them.
    fn from_rows(x: &Array2<f64>, y: &Array1<f64>, penalty: Penalty, w: &Array1<f64>) -> Values {
        let n = 4.0;
        let r = y - &x.dot(w);
        let norms = |v: &Array1<f64>| [v[0].abs(), v[1].hypot(v[2])];
        let penalties: f64 = norms(w).iter().zip(WEIGHTS).map(|(w, c)| penalty.l1 * c * w).sum();
        let primal = r.dot(&r) / (2.0 * n) + penalties + 0.5 * penalty.l2 * w.dot(w);
        // Of all rows, further ones of target 0 among them.
        let squares = r.dot(&r) + n * penalty.l2 * w.dot(w);
        let slopes = x.t().dot(&r) / n - penalty.l2 * w;
        let feasible = norms(&slopes).into_iter().zip(WEIGHTS);
        let scale = feasible.map(|(s, c)| penalty.l1 * c / s).fold(f64::INFINITY, f64::min);
        let scale = scale.min(y.dot(&r) / squares);
        let left = y - &(scale * &r);
        let further = n * penalty.l2 * w.dot(w) * scale * scale;
        Values { primal, dual: (y.dot(y) - left.dot(&left) - further) / (2.0 * n) }
    }

    #[test]
    fn both_objectives_are_those_of_the_rows() {
        let (x, y) = data();
        let (gram, cross) = (x.t().dot(&x) / 4.0, x.t().dot(&y) / 4.0);
        let cross = cross.insert_axis(ndarray::Axis(0));
        let squares = array![y.dot(&y) / 4.0];
        let problem =
            LassoProblem::new(gram.view(), cross.view(), squares.view(), &ENDS, &WEIGHTS).unwrap();
        let points = [array![0.1, -0.2, 0.05], array![0.0, 0.0, 0.3], array![-0.3, -0.4, 0.1]];
        for penalty in [Penalty::new(0.3), Penalty::new(0.02).with_l2(0.7)] {
            let mut largest = f64::NEG_INFINITY;
            let mut least = f64::INFINITY;
            for w in &points {
                let residual = (&cross.row(0) - &gram.dot(w)).to_vec();
                let w_flat = w.to_vec();
                let found = values(&problem.target(0).unwrap(), penalty, &w_flat, &residual);
                let want = from_rows(&x, &y, penalty, w);
                assert!((found.primal - want.primal).abs() < 1e-14, "{found:?} {want:?}");
                assert!((found.dual - want.dual).abs() < 1e-14, "{found:?} {want:?}");
                (largest, least) = (largest.max(found.dual), least.min(found.primal));
            }
            assert!(largest <= least);
        }
    }

    #[test]
    fn the_gap_closes_at_the_solution() {
        // Orthonormal columns: each coefficient by itself.
        let (gram, cross, squares) =
            (array![[1.0, 0.0], [0.0, 1.0]], array![[3.0, -0.5]], array![10.0]);
        let problem =
            LassoProblem::new(gram.view(), cross.view(), squares.view(), &[1, 2], &[1.0, 1.0])
                .unwrap();
        let target = problem.target(0).unwrap();
        let at = values(&target, Penalty::new(1.0), &[2.0, 0.0], &[1.0, -0.5]);
        assert!((at.primal - at.dual).abs() < 1e-14);
        let beside = values(&target, Penalty::new(1.0), &[1.9, 0.0], &[1.1, -0.5]);
        assert!(beside.primal > at.primal && beside.dual < at.primal);
    }
}
