//! The iteration of many pairs side by side: filling lanes, judging steps, retiring pairs.

use crate::error::Result;
use crate::exec::Executor;
use crate::memory;
use crate::simd::Elementary;
use crate::transport::job::{Job, Limits, Marginals, Solved, Status};
use crate::transport::lanes::{Lanes, stride};
use crate::transport::mixing::Mixing;
use crate::transport::step::Domain;

/// Lanes are given up in groups that fill whole vectors of every instruction set.
pub(super) const GROUP: usize = 16;
/// A step that multiplies the least error so far by more than this is taken back.
const REJECTED: f64 = 3.0;
/// An error below this part of the least so far is progress.
const PROGRESS: f64 = 0.9;

/// Solves every job, in lanes that are refilled as pairs converge.
pub(super) fn solve<T: Elementary, D: Domain<T>>(
    exec: &Executor,
    domain: &mut D,
    marginals: &Marginals,
    jobs: &[Job],
    limits: Limits,
) -> Result<Vec<Solved>> {
    let mut engine = Engine::new(domain, marginals, jobs, limits)?;
    engine.refill();
    while engine.n_active > 0 {
        exec.check()?;
        engine.iterate();
    }
    engine.flush();
    Ok(engine.solved.into_iter().flatten().collect())
}

/// Progress of a lane.
#[derive(Debug, Clone, Copy)]
struct Progress {
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

const EMPTY: Progress = Progress {
    job: None,
    n_iter: 0,
    best: f64::INFINITY,
    idle: 0,
    fresh: true,
    unaccelerated: false,
};

struct Engine<'a, T, D> {
    domain: &'a mut D,
    marginals: &'a Marginals,
    jobs: &'a [Job],
    limits: Limits,
    lanes: Lanes<T>,
    mixing: Mixing<T>,
    progress: Vec<Progress>,
    /// Whether numbers out of range may have got into the memory of a lane.
    poisoned: Vec<bool>,
    /// Lanes up to the last group with a pair in it.
    width: usize,
    n_active: usize,
    next_job: usize,
    /// Lanes whose pair has ended in this step.
    vacated: Vec<usize>,
    /// Job, and what is known of it, of the pairs that wait for their cost.
    waiting: Vec<(usize, Solved)>,
    solved: Vec<Option<Solved>>,
}

impl<'a, T: Elementary, D: Domain<T>> Engine<'a, T, D> {
    fn new(
        domain: &'a mut D,
        marginals: &'a Marginals,
        jobs: &'a [Job],
        limits: Limits,
    ) -> Result<Self> {
        let stride = stride::<T>();
        let shape = domain.shape();
        Ok(Self {
            domain,
            marginals,
            jobs,
            limits,
            lanes: Lanes::new(shape)?,
            mixing: Mixing::new(shape.0, stride)?,
            progress: memory::filled(EMPTY, stride)?,
            poisoned: memory::filled(false, stride)?,
            width: 0,
            n_active: 0,
            next_job: 0,
            vacated: (0..stride).collect(),
            waiting: Vec::new(),
            solved: memory::filled(None, jobs.len())?,
        })
    }

    /// Puts the next jobs into empty lanes; without jobs, compacts the others.
    fn refill(&mut self) {
        for lane in std::mem::take(&mut self.vacated) {
            if self.next_job < self.jobs.len() {
                self.load(lane, self.next_job);
                self.next_job += 1;
            } else {
                self.lanes.empty(lane);
                self.mixing.clear(lane);
            }
        }
        self.n_active = self.progress.iter().filter(|l| l.job.is_some()).count();
        let needed = self.n_active.next_multiple_of(GROUP);
        if needed < self.width {
            self.compact(needed);
        }
        self.width = needed;
    }

    fn load(&mut self, lane: usize, index: usize) {
        let job = &self.jobs[index];
        self.lanes.load(lane, job, self.marginals.of(job, self.domain.shape()));
        if std::mem::take(&mut self.poisoned[lane]) {
            self.mixing.clear(lane);
        }
        self.mixing.restart(lane);
        self.progress[lane] = Progress { job: Some(index), n_iter: job.n_iter, ..EMPTY };
    }

    /// Moves the last pairs into the empty lanes below `width`.
    fn compact(&mut self, width: usize) {
        let (kept, rest) = self.progress.split_at(width);
        let free = kept.iter().enumerate().filter(|(_, l)| l.job.is_none()).map(|(l, _)| l);
        let taken = rest.iter().enumerate().filter(|(_, l)| l.job.is_some());
        let moves: Vec<(usize, usize)> = taken.map(|(l, _)| width + l).zip(free).collect();
        for (from, to) in moves {
            self.lanes.relocate(from, to);
            self.mixing.relocate(from, to);
            self.poisoned[to] = self.poisoned[from];
            self.progress[to] = self.progress[from];
            self.progress[from] = EMPTY;
        }
    }

    /// One step of every pair, and its accelerated next potential.
    fn iterate(&mut self) {
        self.domain.step(self.lanes.next_step(self.width));
        let rejected = self.judge();
        self.lanes.accelerate(&mut self.mixing, self.width);
        for lane in rejected {
            self.lanes.take_back(lane);
            self.mixing.clear(lane);
        }
        self.take_unaccelerated_steps();
        self.lanes.remember_unaccelerated();
        if !self.vacated.is_empty() {
            self.refill();
        }
    }

    /// Nothing could take back the last step that a pair is allowed.
    fn take_unaccelerated_steps(&mut self) {
        for lane in 0..self.width {
            let Progress { n_iter, unaccelerated, .. } = self.progress[lane];
            if unaccelerated || n_iter + 1 == self.limits.max_iter {
                self.lanes.take_unaccelerated(lane);
            }
        }
    }

    /// Retires what has ended, and lists the lanes whose last step is to be taken back.
    fn judge(&mut self) -> Vec<usize> {
        let mut rejected = Vec::new();
        for lane in 0..self.width {
            let Some(job) = self.progress[lane].job else { continue };
            let error = self.lanes.error(lane);
            let state = &mut self.progress[lane];
            state.n_iter += 1;
            state.idle += 1;
            state.unaccelerated |= state.idle > self.limits.unaccelerated_after;
            let is_worse =
                error.is_nan() || (!state.unaccelerated && error > REJECTED * state.best);
            let was_fresh = state.fresh;
            state.fresh = is_worse;
            if error < PROGRESS * state.best {
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
        if self.waiting.len() == self.progress.len() {
            self.flush();
        }
        self.domain.keep(lane, self.waiting.len());
        let n_iter = self.progress[lane].n_iter;
        let potentials = [Vec::new(), Vec::new()];
        let solved = Solved { status, error, n_iter, transport: f64::NAN, potentials };
        self.waiting.push((job, solved));
        self.progress[lane] = EMPTY;
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
