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
/// `r2 = y^T y / n - v^T w - rho^T w`, and `s r` is feasible for the dual where
/// `s |rho_g| <= l1 weight_g` in each group; there the dual is `s (y^T y / n - v^T w) - s^2 r2 / 2`.
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
            slope += rho * rho;
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
