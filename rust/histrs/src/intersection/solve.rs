//! `(K + s I) alpha = y` by preconditioned conjugate gradients.
//!
//! Source: Hestenes and Stiefel, *Methods of conjugate gradients for solving linear systems*, 1952; the
//! preconditioner is the kernel projected on knots, inverted as the identity of Woodbury has it.

use ndarray::{Array2, ArrayView2, Zip};

use crate::error::{Error, Result};
use crate::exec::Executor;
use crate::intersection::columns::SortedColumns;
use crate::intersection::knots::KnotProjection;
use crate::memory;
use crate::small_matrix::{backward, factorize, forward, long_dot};
use crate::stop::{Stop, with_stop};

/// Knots of all columns together, which are factorised in less time than an iteration takes.
const MOST_KNOTS: usize = 1024;
/// As many for each root of the number of rows, and for each column at least and at most.
const KNOTS_PER_ROOT: f64 = 6.5;
const KNOTS_PER_COLUMN: (usize, usize) = (4, 255);

/// How [`SortedColumns::solve`] iterates.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Solve {
    /// At a norm of the residual `y - (K + s I) alpha` of each output, as a part of that of `y`.
    pub stop: Stop,
    /// Knots of a column that precondition, at most 255: 0 for none, chosen by the size if it is not said.
    pub n_knots: Option<usize>,
}

impl Default for Solve {
    /// To a residual of 1e-8, in at most 1000 iterations.
    fn default() -> Self {
        Self { stop: Stop::new(1e-8, 1000), n_knots: None }
    }
}

impl Solve {
    /// With another [`n_knots`](Self::n_knots).
    #[must_use]
    pub const fn with_n_knots(self, n_knots: usize) -> Self {
        Self { n_knots: Some(n_knots), ..self }
    }
}

with_stop!(Solve);

/// What [`SortedColumns::solve`] found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Solution {
    /// The solution, of the shape of `y`.
    pub alpha: Array2<f64>,
    /// The norm of the residual of each output, as a part of that of `y`: above the tolerance where the
    /// iterations did not suffice.
    pub residuals: Vec<f64>,
    /// Iterations, each of which has a product with `K`.
    pub n_iter: usize,
}

impl SortedColumns {
    /// Solves `(K + s I) alpha = y`: the weights of Gaussian process regression with the kernel and noise
    /// of variance `s = noise`, of which [`ShapeFunctions`](crate::intersection::ShapeFunctions) makes
    /// predictions.
    ///
    /// Outputs are the columns of `y`, and share each pass over the data. The solution is the same for
    /// any number of threads.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`] when `y` has not a row for every stored row, [`Error::NotFinite`] at its
    /// first bad entry. [`Error::Parameter`] unless `noise` and the tolerance are positive and
    /// finite and a column has at most 255 knots. [`Error::Interrupted`], [`Error::OutOfMemory`].
    ///
    /// # Examples
    ///
    /// ```
    /// use histrs::prelude::*;
    /// use ndarray::array;
    ///
    /// let exec = Executor::new(0)?;
    /// let x = array![[0.0], [1.0], [2.0]];
    /// let columns = SortedColumns::new(&exec, &HistogramMatrix::dense(x.view()))?;
    /// let y = array![[0.0], [1.0], [3.0]];
    /// let solution = columns.solve(&exec, 1e-6, y.view(), Solve::default())?;
    /// let mean = ShapeFunctions::new(&exec, &columns, solution.alpha.view())?;
    /// let new = array![[1.5]];
    /// let predicted = mean.predict(&exec, &HistogramMatrix::dense(new.view()))?;
    /// assert!((predicted[[0, 0]] - 2.0).abs() < 1e-4);
    /// # Ok::<(), histrs::Error>(())
    /// ```
    pub fn solve(
        &self,
        exec: &Executor,
        noise: f64,
        y: ArrayView2<'_, f64>,
        parameters: Solve,
    ) -> Result<Solution> {
        self.check_rows(y.nrows())?;
        let Stop { tol, max_iter } = parameters.stop;
        for (name, value) in [("noise", noise), ("tol", tol)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::parameter(name, value, "it must be positive and finite"));
            }
        }
        if let Some(((row, column), &value)) = y.indexed_iter().find(|(_, y)| !y.is_finite()) {
            return Err(Error::NotFinite { name: "y", row, column, value });
        }
        let knots = KnotInverse::new(exec, self, noise, parameters.n_knots)?;
        let mut descent = Descent::new(exec, self, noise, knots, y)?;
        let mut left = max_iter;
        loop {
            let before = descent.residuals.clone();
            left -= descent.run(tol, left)?;
            // By rounding, the recurrence drifts away from the residual that it stands for.
            descent.look(y)?;
            let mut pairs = descent.residuals.iter().zip(&before);
            let gains = pairs.any(|(&now, &before)| now > tol && now <= 0.5 * before);
            if left == 0 || !gains {
                let Descent { alpha, residuals, .. } = descent;
                return Ok(Solution { alpha, residuals, n_iter: max_iter - left });
            }
        }
    }
}

/// The iterate, and what is left of the right-hand side.
struct Descent<'a> {
    exec: &'a Executor,
    columns: &'a SortedColumns,
    noise: f64,
    knots: Option<KnotInverse>,
    /// The largest entry of each output, in which norms are taken: none of them overflows.
    units: Vec<f64>,
    norms: Vec<f64>,
    alpha: Array2<f64>,
    residual: Array2<f64>,
    residuals: Vec<f64>,
}

impl<'a> Descent<'a> {
    fn new(
        exec: &'a Executor,
        columns: &'a SortedColumns,
        noise: f64,
        knots: Option<KnotInverse>,
        y: ArrayView2<'_, f64>,
    ) -> Result<Self> {
        let largest =
            |y: ndarray::ArrayView1<'_, f64>| y.fold(0.0_f64, |most, y| most.max(y.abs()));
        let units = memory::collected(y.columns().into_iter().map(largest))?;
        let mut residual = memory::zero_matrix(y.dim())?;
        residual.assign(&y);
        let alpha = memory::zero_matrix(y.dim())?;
        let norms = norms(&residual, &units)?;
        let residuals = memory::collected(norms.iter().map(|&n| f64::from(n > 0.0)))?;
        Ok(Self { exec, columns, noise, knots, units, norms, alpha, residual, residuals })
    }

    /// `(K + s I) V`.
    fn image(&self, v: &Array2<f64>) -> Result<Array2<f64>> {
        let mut image = self.columns.product(self.exec, v.view())?;
        image.scaled_add(self.noise, v);
        Ok(image)
    }

    /// The residual as it is.
    fn look(&mut self, y: ArrayView2<'_, f64>) -> Result<()> {
        let image = self.image(&self.alpha)?;
        Zip::from(&mut self.residual).and(y).and(&image).for_each(|r, y, image| *r = y - image);
        self.residuals = self.relative()?;
        Ok(())
    }

    fn relative(&self) -> Result<Vec<f64>> {
        let found = norms(&self.residual, &self.units)?;
        let relative = found.iter().zip(&self.norms);
        memory::collected(relative.map(|(r, y)| if *y > 0.0 { r / y } else { 0.0 }))
    }

    /// Iterates until no output is above the tolerance, or its step is lost in rounding; returns the
    /// number of iterations.
    fn run(&mut self, tol: f64, max_iter: usize) -> Result<usize> {
        let mut direction = self.preconditioned()?;
        let mut slopes = self.dots(&self.residual, &direction)?;
        for n_iter in 0..max_iter {
            let open = self.relative()?;
            if open.iter().all(|&r| r <= tol) {
                return Ok(n_iter);
            }
            let image = self.image(&direction)?;
            let curvatures = self.dots(&direction, &image)?;
            let mut steps = memory::filled(0.0, slopes.len())?;
            for (k, step) in steps.iter_mut().enumerate() {
                let length = slopes[k] / curvatures[k];
                if open[k] > tol && length > 0.0 && length.is_finite() {
                    *step = length;
                }
            }
            if steps.iter().all(|&step| step == 0.0) {
                return Ok(n_iter);
            }
            add_columns(&mut self.alpha, &steps, &direction);
            steps.iter_mut().for_each(|step| *step = -*step);
            add_columns(&mut self.residual, &steps, &image);
            let mut next = self.preconditioned()?;
            let new = self.dots(&self.residual, &next)?;
            let factors = new.iter().zip(&slopes).map(|(new, old)| new / old);
            let factors = factors.map(|factor| if factor.is_finite() { factor } else { 0.0 });
            add_columns(&mut next, &memory::collected(factors)?, &direction);
            (direction, slopes) = (next, new);
        }
        Ok(max_iter)
    }

    fn preconditioned(&self) -> Result<Array2<f64>> {
        match &self.knots {
            Some(knots) => knots.apply(self.exec, &self.residual),
            None => {
                let mut copy = memory::zero_matrix(self.residual.dim())?;
                copy.assign(&self.residual);
                Ok(copy)
            }
        }
    }

    /// `a^T b` of each output, in units of its square.
    fn dots(&self, a: &Array2<f64>, b: &Array2<f64>) -> Result<Vec<f64>> {
        let mut sums = memory::filled(0.0, self.units.len())?;
        for (a, b) in a.rows().into_iter().zip(b.rows()) {
            for (((sum, a), b), unit) in sums.iter_mut().zip(a).zip(b).zip(&self.units) {
                *sum += (a / unit) * (b / unit);
            }
        }
        Ok(sums)
    }
}

/// The Euclidean norm of each column, in its unit.
fn norms(x: &Array2<f64>, units: &[f64]) -> Result<Vec<f64>> {
    let mut sums = memory::filled(0.0, units.len())?;
    for row in x.rows() {
        for ((sum, x), unit) in sums.iter_mut().zip(row).zip(units) {
            if *unit > 0.0 {
                *sum += (x / unit).powi(2);
            }
        }
    }
    sums.iter_mut().for_each(|sum: &mut f64| *sum = sum.sqrt());
    Ok(sums)
}

/// Adds columns, each of them so many times.
fn add_columns(to: &mut Array2<f64>, factors: &[f64], from: &Array2<f64>) {
    let factors = ndarray::ArrayView1::from(factors);
    Zip::from(to)
        .and(from)
        .and_broadcast(factors)
        .for_each(|to, from, factor| *to += factor * from);
}

/// `(Phi K_ZZ Phi^T + s I)^-1`, which is near `(K + s I)^-1`.
struct KnotInverse {
    projection: KnotProjection,
    s: f64,
    /// What rows and columns of the factorised matrix are multiplied by, so that its diagonal is 1.
    scales: Vec<f64>,
    factor: Vec<f64>,
}

impl KnotInverse {
    /// Nothing where knots are not asked for, or would be too few.
    fn new(
        exec: &Executor,
        columns: &SortedColumns,
        s: f64,
        n_knots: Option<usize>,
    ) -> Result<Option<Self>> {
        let n_knots = n_knots.unwrap_or_else(|| {
            let wanted = KNOTS_PER_ROOT * (columns.n_rows() as f64).sqrt();
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a small number
            let wanted = (wanted as usize).min(MOST_KNOTS) / columns.numbers().len().max(1);
            let (least, most) = KNOTS_PER_COLUMN;
            if wanted < least { 0 } else { wanted.min(most) }
        });
        if n_knots == 0 {
            return Ok(None);
        }
        let projection = KnotProjection::new(exec, columns, n_knots)?;
        let gram = projection.gram(exec)?;
        let (diagonal, upper) = projection.inverse_kernel()?;
        let n = diagonal.len();
        let scaled = |i: usize| 1.0 / (gram[[i, i]] + s * diagonal[i]).sqrt();
        let scales = memory::collected((0..n).map(scaled))?;
        let mut factor = memory::with_capacity(memory::size::<f64>(&[n, n + 1])? / 2)?;
        for i in 0..n {
            for j in 0..=i {
                let prior = match i - j {
                    0 => diagonal[i],
                    1 => upper[j],
                    _ => 0.0,
                };
                factor.push((gram[[i, j]] + s * prior) * scales[i] * scales[j]);
            }
        }
        let is_definite = factorize(exec, &mut factor, n, long_dot)?;
        Ok((is_definite && n > 0).then_some(Self { projection, s, scales, factor }))
    }

    /// `(V - Phi (Phi^T Phi + s K_ZZ^-1)^-1 Phi^T V) / s`.
    fn apply(&self, exec: &Executor, v: &Array2<f64>) -> Result<Array2<f64>> {
        let mut weights = self.projection.project(exec, v.view())?;
        let mut solved = memory::filled(0.0, self.scales.len())?;
        for mut column in weights.columns_mut() {
            let pairs = solved.iter_mut().zip(&column).zip(&self.scales);
            pairs.for_each(|((to, from), scale)| *to = from * scale);
            forward(&self.factor, &mut solved, long_dot);
            backward(&self.factor, &mut solved);
            let pairs = column.iter_mut().zip(&solved).zip(&self.scales);
            pairs.for_each(|((to, from), scale)| *to = from * scale);
        }
        let mut out = self.projection.expand(exec, weights.view())?;
        Zip::from(&mut out).and(v).for_each(|out, v| *out = (v - *out) / self.s);
        Ok(out)
    }
}
