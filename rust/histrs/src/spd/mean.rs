//! The gradients of means.

use ndarray::{Array2, ArrayView2, ArrayView3};

use crate::error::{Result, check_length};
use crate::exec::Executor;
use crate::simd::Element;
use crate::spd::dispersion::Dispersion;
use crate::spd::spectra::square;
use crate::spd::spread::{Point, Spread};
use crate::spd::stack::SymmetricStack;

/// The value, gradient and curvature of [`mean_gradient`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MeanGradient {
    /// The weighted sum of dispersions.
    pub value: f64,
    /// Its gradient in the coordinates of the tangent space at `M`, of shape `(p, p)`.
    pub gradient: Array2<f64>,
    /// The weighted sum of the largest curvatures of the dispersions.
    pub curvature: f64,
}

/// `f(M) = sum_i w_i d(M, X_i)` of the matrices of a stack and its gradient
/// `-sum_i w_i phi(log(W X_i W^T))`, where `W M W^T = I`, with `phi(l) = l` for [`Dispersion::Airm`]
/// and `phi(l) = tanh(l / 2)` for [`Dispersion::Jbld`].
///
/// # Errors
///
/// As [`tangent_vectors`](crate::spd::tangent_vectors), and [`Error::Shape`](crate::Error::Shape) unless there is a
/// weight for each matrix.
///
/// # Examples
///
/// ```
/// use histrs::{Executor, spd::{Dispersion, mean_gradient}};
/// use ndarray::array;
///
/// let exec = Executor::new(1)?;
/// let x = array![[[0.25]], [[4.0]]];
/// let w = array![[1.0]]; // at the mean, 1
/// let mean = mean_gradient(&exec, x.view(), &[0.5, 0.5], w.view(), Dispersion::Airm)?;
/// assert!(mean.gradient[[0, 0]].abs() < 1e-15);
/// # Ok::<(), histrs::Error>(())
/// ```
pub fn mean_gradient<T: Element>(
    exec: &Executor,
    x: ArrayView3<'_, T>,
    weights: &[f64],
    whitener: ArrayView2<'_, f64>,
    dispersion: Dispersion,
) -> Result<MeanGradient> {
    let stack = SymmetricStack::new(exec, "X", x)?;
    let (n, p) = (stack.n(), stack.p());
    check_length("the number of weights", weights.len(), n, "give a weight for each matrix")?;
    let entries = square("a side of the whitener", p, &whitener)?;
    if p == 0 {
        // Matrices without rows are all the same.
        return Ok(MeanGradient { value: 0.0, gradient: Array2::zeros((0, 0)), curvature: 0.0 });
    }
    let mut spread = Spread::new(exec, &stack, weights, dispersion)?.with_rotations();
    let Point { value, curvature, gradient } = spread.moved(exec, entries)?;
    let gradient = Array2::from_shape_fn((p, p), |(i, j)| gradient[i * p + j]);
    Ok(MeanGradient { value, gradient, curvature })
}
