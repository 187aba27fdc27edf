//! Threads, fixed blocks and interrupts: the one place.
//!
//! Work is cut into blocks whose number depends on the shape of the data alone, never on the
//! number of threads, and partial results are combined in block order. That is what makes every
//! result of the crate bit-for-bit the same for any number of threads.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::memory;

/// How often a watched computation lets its caller look for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Threads that a pool has at most for each core: more make nothing faster, and each takes memory.
const MOST_PER_CORE: usize = 4;

/// The number of threads that an [`Executor`] has at most.
#[must_use]
pub fn most_threads() -> usize {
    MOST_PER_CORE * std::thread::available_parallelism().map_or(1, usize::from)
}

/// A pool of threads and the flag that stops the work on it.
///
/// A clone has the same threads and a flag of its own: what interrupts one leaves the others alone.
///
/// # Examples
///
/// ```
/// let exec = histrs::Executor::new(2)?;
/// assert_eq!(exec.n_threads(), 2);
/// # Ok::<(), histrs::Error>(())
/// ```
#[derive(Debug)]
pub struct Executor {
    /// None where the calling thread does all work.
    pool: Option<Arc<rayon::ThreadPool>>,
    stop: AtomicBool,
}

impl Clone for Executor {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), stop: AtomicBool::new(false) }
    }
}

impl Executor {
    /// Starts `n_threads` threads, or one per available core when it is 0; never more than
    /// [`most_threads`]. On WebAssembly, where threads cannot be started, it is
    /// [`Self::on_caller`].
    ///
    /// # Errors
    ///
    /// [`Error::Threads`] when the system refuses them, [`Error::SimdSetting`] or
    /// [`Error::SimdUnavailable`] when the environment variable `HISTRS_SIMD` has a value that is
    /// not known or not available.
    pub fn new(n_threads: usize) -> Result<Self> {
        if cfg!(target_family = "wasm") {
            return Self::on_caller();
        }
        crate::simd::check_setting()?;
        let n_threads = n_threads.min(most_threads());
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(n_threads)
            .thread_name(|i| format!("histrs-{i}"))
            .build()
            .map_err(|e| Error::Threads { n_threads, reason: e.to_string() })?;
        Ok(Self { pool: Some(Arc::new(pool)), stop: AtomicBool::new(false) })
    }

    /// Starts no thread: the calling one does all work, and looks for interrupts before it begins.
    ///
    /// # Errors
    ///
    /// As [`Self::new`] for the environment variable `HISTRS_SIMD`.
    pub fn on_caller() -> Result<Self> {
        crate::simd::check_setting()?;
        Ok(Self { pool: None, stop: AtomicBool::new(false) })
    }

    /// Number of threads.
    #[must_use]
    pub fn n_threads(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// Runs `work` on the pool while the calling thread asks `interrupted` every 50 ms.
    ///
    /// When it returns `true` the work stops at its next block and [`Error::Interrupted`] is
    /// returned. Work that is on these threads already runs at once: it asks `interrupted` before it
    /// begins, and whoever watches the outer work looks for interrupts from then on.
    ///
    /// # Errors
    ///
    /// Whatever `work` returns, or [`Error::Interrupted`].
    pub fn watch<R: Send>(
        &self,
        work: impl FnOnce() -> Result<R> + Send,
        mut interrupted: impl FnMut() -> bool,
    ) -> Result<R> {
        let pool = match &self.pool {
            // A thread that waits for its own pool may wait for itself.
            Some(pool) if pool.current_thread_index().is_none() => pool,
            _ => {
                if interrupted() {
                    return Err(Error::Interrupted);
                }
                self.check()?;
                return work();
            }
        };
        let mut result = Err(Error::Interrupted);
        self.run_watched(pool, Box::new(|| result = work()), &mut interrupted);
        result
    }

    /// Runs `work` on the pool to its end, and raises the flag for it when `interrupted` says so. Compiled
    /// once, whatever the work is.
    fn run_watched(
        &self,
        pool: &rayon::ThreadPool,
        work: Box<dyn FnOnce() + Send + '_>,
        interrupted: &mut dyn FnMut() -> bool,
    ) {
        let (sender, receiver) = channel();
        pool.in_place_scope(|scope| {
            scope.spawn(move |_| {
                work();
                // The receiver outlives the scope, so that sending cannot fail.
                let _ = sender.send(());
            });
            while receiver.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if interrupted() {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
        });
        self.stop.store(false, Ordering::Relaxed);
    }

    /// Applies `f` to every block number below `n_blocks`, in parallel, and keeps block order;
    /// of several errors the one of the first block is returned.
    pub(crate) fn map_blocks<R: Send>(
        &self,
        n_blocks: usize,
        f: impl Fn(usize) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        // What a block that was not reached is left with.
        let interrupted = || Mutex::new(Err(Error::Interrupted));
        let mut results: Vec<Mutex<Result<R>>> = memory::with_capacity(n_blocks)?;
        results.resize_with(n_blocks, interrupted);
        self.for_blocks(n_blocks, &|block| {
            let result = f(block);
            *results[block].lock().unwrap_or_else(PoisonError::into_inner) = result;
        });
        let mut found = memory::with_capacity(n_blocks)?;
        for held in results {
            found.push(held.into_inner().unwrap_or_else(PoisonError::into_inner)?);
        }
        Ok(found)
    }

    /// As [`Self::map_blocks`], of so many items at a time.
    pub(crate) fn map_ranges<R: Send>(
        &self,
        n: usize,
        size: usize,
        f: impl Fn(Range<usize>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        self.map_blocks(n.div_ceil(size), |block| f(block * size..n.min((block + 1) * size)))
    }

    /// Calls `work` with every block number below `n_blocks`, in parallel, but for those that are left
    /// when the work is asked to stop. Compiled once, whatever the work is.
    fn for_blocks(&self, n_blocks: usize, work: &(dyn Fn(usize) + Sync)) {
        let watched = |block| {
            if self.check().is_ok() {
                work(block);
            }
        };
        match &self.pool {
            None => (0..n_blocks).for_each(watched),
            Some(pool) => pool.install(|| {
                (0..n_blocks).into_par_iter().with_max_len(1).for_each(watched);
            }),
        }
    }

    /// Applies `f` to consecutive chunks of `data`, in parallel, with the number of each.
    pub(crate) fn for_chunks<T: Send>(
        &self,
        data: &mut [T],
        chunk_len: usize,
        f: impl Fn(usize, &mut [T]) -> Result<()> + Sync,
    ) -> Result<()> {
        self.for_each_chunk(data, chunk_len.max(1), &f)
    }

    /// The same, compiled once for each type of the data.
    fn for_each_chunk<T: Send>(
        &self,
        data: &mut [T],
        chunk_len: usize,
        f: &(dyn Fn(usize, &mut [T]) -> Result<()> + Sync),
    ) -> Result<()> {
        let watched = |(block, chunk): (usize, &mut [T])| {
            self.check()?;
            f(block, chunk)
        };
        match &self.pool {
            None => data.chunks_mut(chunk_len).enumerate().try_for_each(watched),
            Some(pool) => pool.install(|| {
                let chunks = data.par_chunks_mut(chunk_len).enumerate();
                chunks.with_max_len(1).try_for_each(watched)
            }),
        }
    }

    /// Fails when the work has been asked to stop.
    pub(crate) fn check(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// The parts of a matrix of `n_rows` columns that belong to blocks of `block` of these columns.
/// They are for results that are kept class by class, and computed some rows of the data at a time.
pub(crate) fn rows_by_block<T>(data: &mut [T], n_rows: usize, block: usize) -> Vec<Vec<&mut [T]>> {
    let mut blocks: Vec<Vec<&mut [T]>> = Vec::new();
    blocks.resize_with(n_rows.div_ceil(block), Vec::new);
    for class in data.chunks_exact_mut(n_rows.max(1)) {
        for (part, block) in class.chunks_mut(block).zip(&mut blocks) {
            block.push(part);
        }
    }
    blocks
}

/// Cuts `weights` into at most `n_blocks` consecutive ranges of nearly equal sum.
pub(crate) fn balanced_blocks(weights: &[usize], n_blocks: usize) -> Vec<Range<usize>> {
    let total: usize = weights.iter().sum();
    let mut blocks = Vec::with_capacity(n_blocks);
    let (mut start, mut seen) = (0, 0);
    for (i, weight) in weights.iter().enumerate() {
        seen += weight;
        // Compare seen/total with (blocks + 1)/n_blocks without rounding.
        if seen * n_blocks >= total * (blocks.len() + 1) && blocks.len() + 1 < n_blocks {
            blocks.push(start..i + 1);
            start = i + 1;
        }
    }
    if start < weights.len() {
        blocks.push(start..weights.len());
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_everything_once() {
        for n in 0..40 {
            let weights: Vec<usize> = (0..n).map(|i| (i * 7919) % 13).collect();
            let blocks = balanced_blocks(&weights, 8);
            assert!(blocks.len() <= 8);
            let covered: Vec<usize> = blocks.into_iter().flatten().collect();
            assert_eq!(covered, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_watch_within_a_watch_returns() {
        for n_threads in [1, 2] {
            let exec = Executor::new(n_threads).unwrap();
            let inner = || exec.watch(|| exec.map_blocks(3, Ok), || false);
            assert_eq!(exec.watch(inner, || false), Ok(vec![0, 1, 2]));
            let inner = || exec.watch(|| exec.map_blocks(3, Ok), || true);
            assert_eq!(exec.watch(inner, || false), Err(Error::Interrupted));
        }
    }

    #[test]
    fn interrupting_one_clone_leaves_the_others_alone() {
        let exec = Executor::new(2).unwrap();
        let sibling = exec.clone();
        let slow = |i| {
            std::thread::sleep(Duration::from_millis(200));
            Ok(i)
        };
        std::thread::scope(|scope| {
            let stopped = scope.spawn(|| exec.watch(|| exec.map_blocks(100, slow), || true));
            let result = sibling.watch(|| sibling.map_blocks(2, slow), || false);
            assert_eq!(result, Ok(vec![0, 1]));
            assert_eq!(stopped.join().unwrap(), Err(Error::Interrupted));
        });
    }

    #[test]
    fn the_calling_thread_does_all_work_where_there_are_no_others() {
        let exec = Executor::on_caller().unwrap();
        assert_eq!(exec.n_threads(), 1);
        let here = std::thread::current().id();
        let found = exec.watch(
            || exec.map_blocks(5, |block| Ok((block * block, std::thread::current().id()))),
            || false,
        );
        let expected: Vec<_> = (0..5).map(|block| (block * block, here)).collect();
        assert_eq!(found.unwrap(), expected);
        let mut data = vec![0; 7];
        exec.clone()
            .for_chunks(&mut data, 3, |block, chunk| {
                chunk.fill(block);
                Ok(())
            })
            .unwrap();
        assert_eq!(data, [0, 0, 0, 1, 1, 1, 2]);
        let failed =
            exec.map_blocks(3, |block| if block == 1 { Err(Error::Interrupted) } else { Ok(()) });
        assert_eq!(failed.unwrap_err(), Error::Interrupted);
        assert_eq!(exec.watch(|| Ok(1), || true), Err(Error::Interrupted));
        assert_eq!(exec.watch(|| Ok(1), || false), Ok(1));
    }

    #[test]
    fn more_threads_than_help_are_not_started() {
        let exec = Executor::new(100_000).unwrap();
        assert_eq!(exec.n_threads(), most_threads());
    }

    #[test]
    fn an_interrupt_stops_the_work_and_the_executor_stays_usable() {
        let exec = Executor::new(2).unwrap();
        let slow = |_| {
            std::thread::sleep(Duration::from_millis(20));
            Ok(())
        };
        let result = exec.watch(|| exec.map_blocks(10_000, slow), || true);
        assert_eq!(result, Err(Error::Interrupted));
        assert_eq!(exec.watch(|| exec.map_blocks(2, Ok), || false), Ok(vec![0, 1]));
    }
}
