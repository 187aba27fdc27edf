//! Fixed-point iterations of many pairs side by side, one a lane: filling, judging, retiring.

use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::simd::{AlignedVec, Elementary};
use crate::transport::mixing::{Mixing, relocate};

/// Bytes of a row of lanes: the kernel is read once for as many pairs.
const ROW_BYTES: usize = 256;
/// Lanes are given up in groups that fill whole vectors of every instruction set.
pub(super) const GROUP: usize = 16;
/// A step that multiplies the least error so far by more than this is taken back.
const REJECTED: f64 = 3.0;

/// Histograms of mass 1 over the bins of both sides, row after row.
pub(super) struct Marginals {
    pub(super) sources: Vec<f64>,
    pub(super) targets: Vec<f64>,
}

impl Marginals {
    /// Both histograms of a pair, over so many bins.
    pub(super) fn of(&self, job: &Job, (n_source, n_target): (usize, usize)) -> [&[f64]; 2] {
        [
            &self.sources[job.source * n_source..][..n_source],
            &self.targets[job.target * n_target..][..n_target],
        ]
    }
}

/// One pair to be solved.
#[derive(Debug, Clone, Default)]
pub(super) struct Job {
    pub(super) source: usize,
    pub(super) target: usize,
    /// Logarithm of the scaling of the source to start from; zeros when empty.
    pub(super) start: Vec<f64>,
    /// Factors of the masses of both histograms, 1 when `None`.
    pub(super) masses: Option<[f64; 2]>,
    /// Iterations done before.
    pub(super) n_iter: usize,
}

/// How a pair ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Converged,
    /// The iterations ran out.
    Limit,
    /// The precision or the range of the numbers ran out.
    Failed,
}

/// What is known of a pair at the end.
#[derive(Debug, Clone)]
pub(super) struct Solved {
    pub(super) status: Status,
    /// L1 error of the marginal of the source; that of the target is exact.
    pub(super) error: f64,
    pub(super) n_iter: usize,
    /// `tr(T M)`, where it was asked for.
    pub(super) transport: f64,
    /// Logarithms of both scalings; minus infinity at empty bins.
    pub(super) potentials: [Vec<f64>; 2],
}

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) tol: f64,
    pub(super) max_iter: usize,
    /// Iterations without a smaller error after which a pair has failed.
    pub(super) patience: usize,
    /// The same after which its steps are unaccelerated, where that leads to the end: a map with
    /// corners may keep accelerated steps going round.
    pub(super) unaccelerated_after: usize,
}

/// What a step reads and writes, in rows of `stride` lanes of which `width` are in use.
pub(super) struct Step<'a, T> {
    pub(super) source: &'a [T],
    pub(super) target: &'a [T],
    /// Logarithm of the scaling of the source.
    pub(super) potential: &'a [T],
    /// Logarithm of what the next step multiplies the scaling by.
    pub(super) residual: &'a mut [T],
    /// The potential after the next step.
    pub(super) unaccelerated: &'a mut [T],
    /// L1 error of the marginal of the source; NaN where the numbers are out of range.
    pub(super) errors: &'a mut [T],
    pub(super) stride: usize,
    pub(super) width: usize,
}

/// Whether every pair of a block is one histogram twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pairing {
    Different,
    /// Under a symmetric ground distance both scalings are equal. Alternating would hardly move
    /// bins that keep their mass; halving the logarithm of the step keeps the scalings equal and
    /// converges within some ten steps.
    Equal,
}

impl Pairing {
    /// What the logarithm of a step is multiplied by.
    pub(super) fn relaxation(self) -> f64 {
        match self {
            Self::Different => 1.0,
            Self::Equal => 0.5,
        }
    }
}

/// A way to compute a step.
pub(super) trait Domain<T> {
    /// Number of bins of a source and of a target.
    fn shape(&self) -> (usize, usize);

    /// Both half-steps.
    fn step(&mut self, step: Step<'_, T>);

    /// Keeps the scalings of a lane of the last step for [`Domain::results`].
    fn keep(&mut self, lane: usize, slot: usize);

    /// Cost of transport and both potentials of the first `n` slots.
    fn results(&mut self, n: usize) -> Vec<(f64, [Vec<f64>; 2])>;
}

/// Number of lanes for numbers of this type.
pub(super) fn stride<T>() -> usize {
    ROW_BYTES / size_of::<T>()
}

/// Solves every job, in lanes that are refilled as pairs converge.
pub(super) fn solve<T: Elementary, D: Domain<T>>(
    exec: &Executor,
    domain: &mut D,
    marginals: &Marginals,
    jobs: &[Job],
    limits: Limits,
) -> Result<Vec<Solved>> {
    let mut lanes = Lanes::new(domain, marginals, jobs, limits)?;
    lanes.refill();
    while lanes.n_active > 0 {
        exec.check()?;
        lanes.iterate();
    }
    lanes.flush();
    Ok(lanes.solved.into_iter().flatten().collect())
}

/// Progress of a lane.
#[derive(Debug, Clone, Copy)]
struct Lane {
    job: Option<usize>,
    n_iter: usize,
    best: f64,
    /// Iterations since the best error.
    idle: usize,
    /// Whether the next step is the first of its history.
    fresh: bool,
    /// Whether steps are no longer accelerated.
    unaccelerated: bool,
}

const EMPTY: Lane =
    Lane { job: None, n_iter: 0, best: f64::INFINITY, idle: 0, fresh: true, unaccelerated: false };

struct Lanes<'a, T, D> {
    domain: &'a mut D,
    marginals: &'a Marginals,
    jobs: &'a [Job],
    limits: Limits,
    stride: usize,
    lanes: Vec<Lane>,
    /// Lanes up to the last group with a pair in it.
    width: usize,
    n_active: usize,
    next_job: usize,
    /// Lanes whose pair has ended in this step.
    vacated: Vec<usize>,
    /// Whether numbers out of range may have got into the memory of a lane.
    poisoned: Vec<bool>,
    /// Histograms, a column a lane.
    source: AlignedVec<T>,
    target: AlignedVec<T>,
    potential: AlignedVec<T>,
    residual: AlignedVec<T>,
    /// The potential after a unaccelerated step, now and before.
    unaccelerated: AlignedVec<T>,
    unaccelerated_before: AlignedVec<T>,
    errors: Vec<T>,
    mixing: Mixing<T>,
    /// Job, and what is known of it, of the pairs that wait for their cost.
    waiting: Vec<(usize, Solved)>,
    solved: Vec<Option<Solved>>,
}

impl<'a, T: Elementary, D: Domain<T>> Lanes<'a, T, D> {
    fn new(
        domain: &'a mut D,
        marginals: &'a Marginals,
        jobs: &'a [Job],
        limits: Limits,
    ) -> Result<Self> {
        let stride = stride::<T>();
        let (n_source, n_target) = domain.shape();
        let zeros = || AlignedVec::zeros(n_source * stride);
        Ok(Self {
            domain,
            marginals,
            jobs,
            limits,
            stride,
            lanes: memory::filled(EMPTY, stride)?,
            width: 0,
            n_active: 0,
            next_job: 0,
            vacated: (0..stride).collect(),
            poisoned: memory::filled(false, stride)?,
            source: zeros()?,
            target: AlignedVec::zeros(n_target * stride)?,
            potential: zeros()?,
            residual: zeros()?,
            unaccelerated: zeros()?,
            unaccelerated_before: zeros()?,
            errors: memory::filled(T::default(), stride)?,
            mixing: Mixing::new(n_source, stride)?,
            waiting: Vec::new(),
            solved: memory::filled(None, jobs.len())?,
        })
    }

    /// Puts the next jobs into empty lanes; without jobs, draws the others together.
    fn refill(&mut self) {
        for lane in std::mem::take(&mut self.vacated) {
            if self.next_job < self.jobs.len() {
                self.load(lane, self.next_job);
                self.next_job += 1;
            } else {
                self.empty(lane);
            }
        }
        self.n_active = self.lanes.iter().filter(|l| l.job.is_some()).count();
        let needed = self.n_active.next_multiple_of(GROUP);
        if needed < self.width {
            self.compact(needed);
        }
        self.width = needed;
    }

    fn load(&mut self, lane: usize, job: usize) {
        let Job { start, n_iter, masses, .. } = &self.jobs[job];
        let stride = self.stride;
        let fill = |rows: &mut [T], values: &[f64], factor: f64| {
            for (x, &value) in rows[lane..].iter_mut().step_by(stride).zip(values) {
                *x = T::from_f64(value * factor);
            }
        };
        let shape = self.domain.shape();
        let [a, b] = self.marginals.of(&self.jobs[job], shape);
        let masses = masses.unwrap_or([1.0; 2]);
        fill(&mut self.source, a, masses[0]);
        fill(&mut self.target, b, masses[1]);
        for array in [&mut self.potential, &mut self.unaccelerated_before] {
            if start.is_empty() {
                fill(array, &vec![0.0; shape.0], 1.0);
            } else {
                fill(array, start, 1.0);
            }
        }
        if std::mem::take(&mut self.poisoned[lane]) {
            self.mixing.clear(lane);
        }
        self.mixing.restart(lane);
        self.lanes[lane] = Lane { job: Some(job), n_iter: *n_iter, ..EMPTY };
    }

    /// A lane without mass meets no numbers out of range.
    fn empty(&mut self, lane: usize) {
        for array in [&mut self.source, &mut self.target, &mut self.potential] {
            array[lane..].iter_mut().step_by(self.stride).for_each(|x| *x = T::default());
        }
        self.mixing.clear(lane);
    }

    /// Moves the last pairs into the empty lanes below `width`.
    fn compact(&mut self, width: usize) {
        let free: Vec<usize> = (0..width).filter(|&l| self.lanes[l].job.is_none()).collect();
        let taken = (width..self.stride).filter(|&l| self.lanes[l].job.is_some());
        let moves: Vec<(usize, usize)> = taken.zip(free).collect();
        for (from, to) in moves {
            let arrays = [
                &mut self.source,
                &mut self.target,
                &mut self.potential,
                &mut self.unaccelerated_before,
            ];
            for array in arrays {
                relocate(array, self.stride, from, to);
            }
            self.mixing.relocate(from, to);
            self.poisoned[to] = self.poisoned[from];
            self.lanes[to] = self.lanes[from];
            self.lanes[from] = EMPTY;
        }
    }

    /// One step of every pair, and its accelerated next potential.
    fn iterate(&mut self) {
        let (stride, width) = (self.stride, self.width);
        self.errors.fill(T::default());
        self.domain.step(Step {
            source: &self.source,
            target: &self.target,
            potential: &self.potential,
            residual: &mut self.residual,
            unaccelerated: &mut self.unaccelerated,
            errors: &mut self.errors,
            stride,
            width,
        });
        let rejected = self.judge();
        self.mixing.mix(
            &self.source,
            &self.residual,
            &self.unaccelerated_before,
            &self.unaccelerated,
            &mut self.potential,
            width,
        );
        for lane in rejected {
            // The unaccelerated step before, which cannot raise the error.
            for row in (lane..self.potential.len()).step_by(stride) {
                self.potential[row] = self.unaccelerated_before[row];
                self.unaccelerated[row] = self.unaccelerated_before[row];
            }
            self.mixing.clear(lane);
        }
        self.take_plain_steps();
        std::mem::swap(&mut self.unaccelerated, &mut self.unaccelerated_before);
        if !self.vacated.is_empty() {
            self.refill();
        }
    }

    /// Nothing could take back the last step that a pair is allowed.
    fn take_plain_steps(&mut self) {
        for lane in 0..self.width {
            let Lane { n_iter, unaccelerated, .. } = self.lanes[lane];
            if unaccelerated || n_iter + 1 == self.limits.max_iter {
                for row in (lane..self.potential.len()).step_by(self.stride) {
                    self.potential[row] = self.unaccelerated[row];
                }
            }
        }
    }

    /// Retires what has ended, and lists the lanes whose last step is to be taken back.
    fn judge(&mut self) -> Vec<usize> {
        let mut rejected = Vec::new();
        for lane in 0..self.width {
            let Some(job) = self.lanes[lane].job else { continue };
            let error = self.errors[lane].to_f64();
            let state = &mut self.lanes[lane];
            state.n_iter += 1;
            state.idle += 1;
            state.unaccelerated |= state.idle > self.limits.unaccelerated_after;
            let is_worse =
                error.is_nan() || (!state.unaccelerated && error > REJECTED * state.best);
            let was_fresh = state.fresh;
            state.fresh = is_worse;
            if error < 0.9 * state.best {
                state.idle = 0;
            }
            state.best = state.best.min(error);
            let status = if error <= self.limits.tol {
                Status::Converged
            } else if (is_worse && was_fresh) || state.idle > self.limits.patience {
                Status::Failed
            } else if state.n_iter >= self.limits.max_iter {
                Status::Limit
            } else {
                if is_worse {
                    rejected.push(lane);
                }
                continue;
            };
            self.retire(lane, job, status, error);
        }
        rejected
    }

    fn retire(&mut self, lane: usize, job: usize, status: Status, error: f64) {
        if self.waiting.len() == self.stride {
            self.flush();
        }
        self.domain.keep(lane, self.waiting.len());
        let n_iter = self.lanes[lane].n_iter;
        let potentials = [Vec::new(), Vec::new()];
        let solved = Solved { status, error, n_iter, transport: f64::NAN, potentials };
        self.waiting.push((job, solved));
        self.lanes[lane] = EMPTY;
        self.vacated.push(lane);
        self.poisoned[lane] = status != Status::Converged;
        self.mixing.restart(lane);
    }

    /// The costs and potentials of the pairs that wait for them.
    fn flush(&mut self) {
        let results = self.domain.results(self.waiting.len());
        for ((job, solved), (transport, potentials)) in self.waiting.drain(..).zip(results) {
            self.solved[job] = Some(Solved { transport, potentials, ..solved });
        }
    }
}
