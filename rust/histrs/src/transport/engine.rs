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
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
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
        self.lanes.load(lane, job, self.marginals.of(job.pair(), self.domain.shape()));
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::transport::step::Step;

    const COST: [[f64; 3]; 3] = [[0.0, 1.0, 3.0], [0.5, 0.0, 1.5], [2.0, 0.7, 0.0]];
    const LIMITS: Limits =
        Limits { tol: 1e-11, max_iter: 10_000, patience: 200, unaccelerated_after: 100 };

    fn kernel(i: usize, j: usize) -> f64 {
        (-2.0 * COST[i][j]).exp()
    }

    /// The scaling of the target that makes its marginal exact.
    fn other(u: [f64; 3], target: [f64; 3]) -> [f64; 3] {
        [0, 1, 2].map(|j| target[j] / (0..3).map(|i| u[i] * kernel(i, j)).sum::<f64>())
    }

    fn cost(u: [f64; 3], v: [f64; 3]) -> f64 {
        let pairs = (0..3).flat_map(|i| (0..3).map(move |j| (i, j)));
        pairs.map(|(i, j)| u[i] * kernel(i, j) * v[j] * COST[i][j]).sum()
    }

    /// Sinkhorn's iteration in every lane, by loops.
    struct Naive {
        scalings: Vec<[[f64; 3]; 2]>,
        kept: Vec<[[f64; 3]; 2]>,
        steps: Vec<Seen>,
    }

    /// A step of the first lane.
    struct Seen {
        potential: [f64; 3],
        unaccelerated: [f64; 3],
        error: f64,
    }

    impl Naive {
        fn new() -> Self {
            let nothing = vec![[[0.0; 3]; 2]; stride::<f64>()];
            Self { scalings: nothing.clone(), kept: nothing, steps: Vec::new() }
        }
    }

    impl Domain<f64> for Naive {
        fn shape(&self) -> (usize, usize) {
            (3, 3)
        }

        fn step(&mut self, step: Step<'_, f64>) {
            for lane in 0..step.width {
                let column = |rows: &[f64]| [0, 1, 2].map(|i| rows[i * step.stride + lane]);
                let (source, target) = (column(step.source), column(step.target));
                let u = column(step.potential).map(f64::exp);
                let v = other(u, target);
                self.scalings[lane] = [u, v];
                for i in 0..3 {
                    let sum: f64 = (0..3).map(|j| u[i] * kernel(i, j) * v[j]).sum();
                    step.errors[lane] += (sum - source[i]).abs();
                    let at = i * step.stride + lane;
                    step.residual[at] = (source[i] / sum).ln();
                    step.unaccelerated[at] = step.potential[at] + step.residual[at];
                }
                if lane == 0 {
                    self.steps.push(Seen {
                        potential: column(step.potential),
                        unaccelerated: column(step.unaccelerated),
                        error: step.errors[0],
                    });
                }
            }
        }

        fn keep(&mut self, lane: usize, slot: usize) {
            self.kept[slot] = self.scalings[lane];
        }

        fn results(&mut self, n: usize) -> Vec<(f64, [Vec<f64>; 2])> {
            let logs = |scaling: [f64; 3]| scaling.map(f64::ln).to_vec();
            self.kept[..n].iter().map(|&[u, v]| (cost(u, v), [logs(u), logs(v)])).collect()
        }
    }

    /// Sources, of which the last is no histogram, and targets.
    fn marginals() -> Marginals {
        Marginals {
            sources: vec![0.2, 0.3, 0.5, 0.8, 0.1, 0.1, 0.05, 0.9, 0.05, 1.5, -1.0, 0.5],
            targets: vec![0.6, 0.3, 0.1, 0.1, 0.1, 0.8],
        }
    }

    /// More pairs than lanes; `n_sources` of the sources take part.
    fn jobs(n_sources: usize) -> Vec<Job> {
        let n = 3 * stride::<f64>() + 5;
        (0..n)
            .map(|k| Job { source: k % n_sources, target: (k / 7) % 2, ..Job::default() })
            .collect()
    }

    fn solved(jobs: &[Job], limits: Limits) -> Vec<Solved> {
        let exec = Executor::new(1).unwrap();
        solve(&exec, &mut Naive::new(), &marginals(), jobs, limits).unwrap()
    }

    /// What the steps of one job were.
    fn steps(job: &Job, limits: Limits) -> (Vec<Seen>, Solved) {
        let (exec, mut domain) = (Executor::new(1).unwrap(), Naive::new());
        let jobs = std::slice::from_ref(job);
        let solved = solve(&exec, &mut domain, &marginals(), jobs, limits).unwrap();
        (domain.steps, solved[0].clone())
    }

    #[test]
    fn the_last_step_that_is_allowed_is_unaccelerated() {
        let (steps, solved) = steps(&jobs(3)[1], Limits { tol: 0.0, max_iter: 7, ..LIMITS });
        assert_eq!((steps.len(), solved.n_iter, solved.status), (7, 7, Status::Limit));
        assert_eq!(steps[6].potential, steps[5].unaccelerated);
        assert!((1..5).any(|k| steps[k].potential != steps[k - 1].unaccelerated));
    }

    #[test]
    fn what_makes_no_progress_takes_unaccelerated_steps_and_then_fails() {
        for unaccelerated_after in [0, 1, 9] {
            let patience = 30;
            // Not even an error of 0 ends it.
            let limits = Limits { tol: -1.0, patience, unaccelerated_after, ..LIMITS };
            let (steps, solved) = steps(&jobs(3)[0], limits);
            let (mut best, mut idle, mut unaccelerated) = (f64::INFINITY, 0, None);
            for (k, step) in steps.iter().enumerate() {
                idle += 1;
                if idle > unaccelerated_after && unaccelerated.is_none() {
                    unaccelerated = Some(k);
                }
                if step.error < PROGRESS * best {
                    idle = 0;
                }
                best = step.error.min(best);
            }
            let from = unaccelerated.unwrap();
            let is_unaccelerated = |k: usize| steps[k].potential == steps[k - 1].unaccelerated;
            assert!((from + 1..steps.len()).all(is_unaccelerated));
            assert!(from == 0 || !(2..=from).all(is_unaccelerated), "{from}");
            assert_eq!(from == 0, unaccelerated_after == 0);
            assert_eq!((solved.status, idle), (Status::Failed, patience + 1));
            assert_eq!(solved.n_iter, steps.len());
        }
    }

    /// Sums of potentials: those themselves are known up to a constant.
    fn plan(solved: &Solved) -> Vec<f64> {
        let [source, target] = &solved.potentials;
        source.iter().flat_map(|u| target.iter().map(move |v| u + v)).collect()
    }

    #[test]
    fn every_pair_ends_where_a_long_iteration_of_its_own_does() {
        let jobs = jobs(3);
        let found = solved(&jobs, LIMITS);
        assert_eq!(found.len(), jobs.len());
        for (job, found) in jobs.iter().zip(&found) {
            let [a, b] = marginals()
                .of(job.pair(), (3, 3))
                .map(|histogram| [histogram[0], histogram[1], histogram[2]]);
            let mut u = [1.0; 3];
            for _ in 0..5000 {
                let v = other(u, b);
                u = [0, 1, 2].map(|i| a[i] / (0..3).map(|j| kernel(i, j) * v[j]).sum::<f64>());
            }
            assert_eq!(found.status, Status::Converged);
            assert!(found.error <= LIMITS.tol && found.n_iter > 1);
            assert!((found.transport - cost(u, other(u, b))).abs() < 1e-9);
        }
    }

    /// Whatever was in its lane before and is beside it; up to the order of sums over its history.
    #[test]
    fn a_pair_is_solved_as_if_it_were_alone() {
        let jobs = jobs(4);
        for (k, found) in solved(&jobs, LIMITS).iter().enumerate() {
            let alone = &solved(&jobs[k..=k], LIMITS)[0];
            assert_eq!(found.status, alone.status, "{k}");
            assert!(found.n_iter.abs_diff(alone.n_iter) <= 2, "{k}");
            if jobs[k].source == 3 {
                // Two steps that are no numbers, one after the other, are the end.
                assert_eq!(found.status, Status::Failed);
                assert!(found.n_iter < 8, "{}", found.n_iter);
            } else {
                assert!((found.transport - alone.transport).abs() < 1e-10, "{k}");
                let mut both = plan(found).into_iter().zip(plan(alone));
                assert!(both.all(|(a, b)| (a - b).abs() < 1e-8), "{k}");
            }
        }
    }

    #[test]
    fn iterations_run_out_those_done_before_among_them() {
        let jobs = [Job::default(), Job { n_iter: 5, ..Job::default() }];
        let found = solved(&jobs, Limits { tol: 0.0, max_iter: 8, ..LIMITS });
        assert!(found.iter().all(|s| s.status == Status::Limit && s.n_iter == 8));
        assert!(found[0].error < found[1].error);
        // From where the pair ended no step is needed.
        let end = &solved(&jobs[..1], LIMITS)[0];
        let again = Job { start: end.potentials[0].clone(), ..Job::default() };
        assert_eq!(solved(&[again], LIMITS)[0].n_iter, 1);
    }
}
