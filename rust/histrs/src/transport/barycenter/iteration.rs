//! The iteration of one barycentre.

use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::simd::{Elementary, vectorized};
use crate::transport::barycenter::kernel::{Columns, LANES, LogKernel, Work};
use crate::transport::job::worse;
use crate::transport::range::{Side, nothing};

/// Steps towards the potential of the barycentre and itself in an iteration, at the cost of one
/// product with the kernel each. More steps do not help once the potentials of the histograms take
/// longer.
const OWN_STEPS: usize = 3;

/// What an iteration needs of the regularisation.
pub(super) struct Stage {
    /// Between the bins of the histograms and those of the barycentre.
    pub(super) kernel: LogKernel,
    /// Between the bins of the barycentre, where it is debiased.
    pub(super) own: Option<LogKernel>,
}

/// A barycentre on its way. Potentials are in units of the regularisation.
pub(super) struct Iteration {
    weights: Vec<f64>,
    /// Whether a bin of the barycentre may have mass.
    open: Vec<bool>,
    /// Logarithms of the histograms; [`nothing`] at empty bins.
    log_masses: Columns,
    f: Columns,
    f_sums: Columns,
    g: Columns,
    g_sums: Columns,
    /// The potential of the barycentre and itself, and logarithms of the sums with it.
    own: Columns,
    own_sums: Columns,
    work: Work,
    log_barycenter: Vec<f64>,
    errors: Vec<f64>,
    pub(super) error: f64,
    pub(super) n_iter: usize,
}

impl Iteration {
    /// From potentials of 0, for histograms of mass 1 one after the other.
    pub(super) fn new(weights: Vec<f64>, histograms: &[f64], open: Vec<bool>) -> Result<Self> {
        let (n_lanes, n_targets) = (weights.len(), open.len());
        let n_sources = histograms.len() / n_lanes.max(1);
        let sources = || Columns::new(n_sources, n_lanes);
        let targets = || Columns::new(n_targets, n_lanes);
        let mut log_masses = sources()?;
        for (i, row) in log_masses.rows_mut().enumerate() {
            for (out, histogram) in row.iter_mut().zip(histograms.chunks_exact(n_sources)) {
                *out = if histogram[i] > 0.0 { histogram[i].ln() } else { nothing() };
            }
        }
        let mut iteration = Self {
            log_masses,
            f: sources()?,
            f_sums: sources()?,
            g: targets()?,
            g_sums: targets()?,
            own: Columns::new(n_targets, 1)?,
            own_sums: Columns::new(n_targets, 1)?,
            work: Work::new(n_sources.max(n_targets), n_lanes)?,
            log_barycenter: memory::filled(nothing(), n_targets)?,
            errors: memory::filled(0.0, n_lanes.next_multiple_of(LANES))?,
            error: f64::INFINITY,
            n_iter: 0,
            weights,
            open,
        };
        iteration.rescale(1.0);
        Ok(iteration)
    }

    /// Iterates to a tolerance, or so many times more.
    pub(super) fn run(
        &mut self,
        exec: &Executor,
        stage: &Stage,
        tol: f64,
        most: usize,
    ) -> Result<()> {
        for _ in 0..most {
            exec.check()?;
            self.step(exec, stage)?;
            self.n_iter += 1;
            if self.error <= tol {
                break;
            }
        }
        Ok(())
    }

    /// Takes the potentials over to a regularisation that is finer by this factor.
    pub(super) fn rescale(&mut self, factor: f64) {
        for potentials in [&mut self.g, &mut self.own] {
            for (row, &open) in potentials.rows_mut().zip(&self.open) {
                row.iter_mut().for_each(|x| *x = if open { *x * factor } else { nothing() });
            }
        }
    }

    /// The barycentre of the last step, scaled to mass 1.
    pub(super) fn barycenter(&self) -> Result<Vec<f64>> {
        let origin = self.log_barycenter.iter().copied().fold(nothing(), f64::max);
        let exponentials = self.log_barycenter.iter().map(|b| (b - origin).exp());
        let mut values = memory::collected(exponentials)?;
        let mass: f64 = values.iter().sum();
        values.iter_mut().for_each(|b| *b /= mass);
        Ok(values)
    }

    /// A projection on the histograms, then one on plans with a common marginal.
    fn step(&mut self, exec: &Executor, stage: &Stage) -> Result<()> {
        stage.kernel.log_sums(exec, Side::Source, &self.g, &mut self.f_sums, &mut self.work)?;
        let log_masses = &self.log_masses;
        source_step(log_masses, &self.f_sums, &mut self.f);
        stage.kernel.log_sums(exec, Side::Target, &self.f, &mut self.g_sums, &mut self.work)?;
        self.errors.fill(0.0);
        target_step(
            &self.weights,
            &self.open,
            &self.own,
            &self.g_sums,
            &mut self.g,
            &mut self.log_barycenter,
            &mut self.errors,
        );
        let errors = self.errors[..self.weights.len()].iter();
        self.error = errors.copied().fold(0.0, worse);
        if let Some(kernel) = &stage.own {
            let error = self.own_step(exec, kernel)?;
            self.error = worse(self.error, error);
        }
        Ok(())
    }

    /// Steps of the potential `c` of the symmetric plan `exp(c_i + c_j - M_ij / reg)` between the
    /// barycentre and itself; returns the error of its marginal before.
    fn own_step(&mut self, exec: &Executor, kernel: &LogKernel) -> Result<f64> {
        let mut error = 0.0;
        for step in 0..OWN_STEPS {
            kernel.log_sums(exec, Side::Source, &self.own, &mut self.own_sums, &mut self.work)?;
            let rows = self.own.rows_mut().zip(self.own_sums.rows()).zip(&self.log_barycenter);
            for (((own, sums), &b), _) in rows.zip(&self.open).filter(|(_, open)| **open) {
                if step == 0 {
                    error += ((own[0] + sums[0]).exp_in_range() - b.exp_in_range()).abs();
                }
                own[0] = 0.5 * (own[0] + b - sums[0]);
            }
        }
        Ok(error)
    }
}

vectorized!(
    /// `f = log(a) - sums`.
    fn source_step(log_masses: &Columns, sums: &Columns, f: &mut Columns) {
        let empty: f64 = nothing();
        for ((f, sums), log_masses) in f.rows_mut().zip(sums.rows()).zip(log_masses.rows()) {
            for ((f, &sum), &a) in f.iter_mut().zip(sums).zip(log_masses) {
                *f = if a > empty { a - sum } else { empty };
            }
        }
    }
);

vectorized!(
    /// `log(b) = c + weights' sums`, the errors `sum |exp(g + sums) - b|`, and then `g = log(b) - sums`.
    fn target_step(
        weights: &[f64],
        open: &[bool],
        own: &Columns,
        sums: &Columns,
        g: &mut Columns,
        log_barycenter: &mut [f64],
        errors: &mut [f64],
    ) {
        let rows = g.rows_mut().zip(sums.rows()).zip(own.rows()).zip(log_barycenter).zip(open);
        for ((((g, sums), own), log_barycenter), _) in rows.filter(|(_, open)| **open) {
            let mean: f64 = weights.iter().zip(sums).map(|(w, s)| w * s).sum();
            let log_b = own[0] + mean;
            let b = log_b.exp_in_range();
            let vectors = errors.chunks_exact_mut(LANES).zip(g.chunks_exact_mut(LANES));
            for ((errors, g), sums) in vectors.zip(sums.chunks_exact(LANES)) {
                for k in 0..LANES {
                    errors[k] += ((g[k] + sums[k]).exp_in_range() - b).abs();
                    g[k] = log_b - sums[k];
                }
            }
            *log_barycenter = log_b;
        }
    }
);
