//! The one way into the crate: it frees the GIL, watches for Ctrl-C and picks the threads.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process;
use std::sync::{Mutex, PoisonError};

use histrs::{Error, Executor};
use numpy::{IntoPyArray, PyArray};
use pyo3::exceptions::{
    PyIndexError, PyKeyboardInterrupt, PyMemoryError, PyOSError, PyRuntimeError, PyValueError,
};
use pyo3::prelude::*;

use crate::message::message;

/// Sizes of thread pools that are kept; the pool that was used longest ago makes room for another.
const POOLS: usize = 3;

/// Rows up to which a model is asked on the calling thread: to wake another takes longer, and where
/// others have work to do, a hundred times as long.
const FEW_ROWS: usize = 4;

/// Thread pools by process and number of threads asked for, the last used last.
static EXECUTORS: Mutex<Vec<((u32, usize), Executor)>> = Mutex::new(Vec::new());

/// The argument `n_threads` of a function: how many threads to run on.
#[derive(Clone, Copy)]
pub(crate) struct Threads<'py> {
    py: Python<'py>,
    n: usize,
    are_others_asked: bool,
}

impl<'py> FromPyObject<'_, 'py> for Threads<'py> {
    type Error = PyErr;

    fn extract(n: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self { py: n.py(), n: n.extract()?, are_others_asked: true })
    }
}

impl<'py> Threads<'py> {
    /// The calling thread alone, if what a model is asked for is so few rows.
    pub(crate) fn for_rows(self, n_rows: usize) -> Self {
        Self { are_others_asked: n_rows > FEW_ROWS, ..self }
    }

    /// Runs `work` on them without the GIL; Ctrl-C stops it.
    pub(crate) fn run<R: Send>(
        self,
        work: impl FnOnce(&Executor) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        let mut result = Err(Error::Interrupted);
        let exec = if self.are_others_asked { executor(self.n) } else { Executor::on_caller() };
        watched(self.py, &exec.map_err(to_python)?, Box::new(|exec| result = work(exec)))?;
        result.map_err(to_python)
    }

    /// The same, where `work` makes an array.
    pub(crate) fn array<A: IntoPyArray + Send>(
        self,
        work: impl FnOnce(&Executor) -> Result<A, Error> + Send,
    ) -> PyResult<Bound<'py, PyArray<A::Item, A::Dim>>> {
        Ok(self.run(work)?.into_pyarray(self.py))
    }

    /// The same, of whatever element type.
    pub(crate) fn any<A: IntoPyArray + Send>(
        self,
        work: impl FnOnce(&Executor) -> Result<A, Error> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.array(work)?.into_any())
    }
}

/// Runs `work` to its end; compiled once, whatever it is.
fn watched(
    py: Python<'_>,
    exec: &Executor,
    work: Box<dyn FnOnce(&Executor) + Send + '_>,
) -> PyResult<()> {
    let mut signal = None;
    let result = py.detach(|| {
        let interrupted = || {
            signal = Python::attach(|py| py.check_signals().err()).or(signal.take());
            signal.is_some()
        };
        let work = || {
            work(exec);
            Ok(())
        };
        catch_unwind(AssertUnwindSafe(|| exec.watch(work, interrupted)))
    });
    match (signal, result) {
        (Some(error), _) => Err(error),
        (None, Ok(result)) => result.map_err(to_python),
        (None, Err(panic)) => Err(internal_error(panic.as_ref())),
    }
}

/// Runs `work` at once, for what is too short to be watched.
pub(crate) fn call<R>(work: impl FnOnce() -> Result<R, Error>) -> PyResult<R> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(to_python),
        Err(panic) => Err(internal_error(panic.as_ref())),
    }
}

/// A `RuntimeError`, which `except Exception` catches.
fn internal_error(panic: &(dyn Any + Send)) -> PyErr {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    PyRuntimeError::new_err(format!(
        "internal error of histrs: {}; if no other thread changed the arguments during the call, \
         please report it",
        text.unwrap_or("no message")
    ))
}

fn executor(n_threads: usize) -> Result<Executor, Error> {
    let mut executors = EXECUTORS.lock().unwrap_or_else(PoisonError::into_inner);
    let own = process::id();
    // The threads of a parent do not survive a fork, and nobody can wait for their end.
    while let Some(index) = executors.iter().position(|((owner, _), _)| *owner != own) {
        std::mem::forget(executors.remove(index));
    }
    let key = (own, n_threads);
    let executor = match executors.iter().position(|(k, _)| *k == key) {
        Some(index) => executors.remove(index).1,
        None => Executor::new(n_threads)?,
    };
    if executors.len() >= POOLS {
        // Its threads end when the last call on them has.
        executors.remove(0);
    }
    executors.push((key, executor.clone()));
    Ok(executor)
}

pub(crate) fn to_python(error: Error) -> PyErr {
    let message = message(&error);
    match error {
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        Error::Threads { .. } => PyOSError::new_err(message),
        Error::OutOfMemory { .. } => PyMemoryError::new_err(message),
        Error::NoSuchColumn { .. } => PyIndexError::new_err(message),
        Error::Internal(_) => PyRuntimeError::new_err(message),
        _ => PyValueError::new_err(message),
    }
}

/// Starts the threads ahead of use and returns their number; says whether the environment is usable.
#[pyfunction]
pub(crate) fn start_threads(n_threads: usize) -> PyResult<usize> {
    executor(n_threads).map(|e| e.n_threads()).map_err(to_python)
}

/// Name of the instruction set in use.
#[pyfunction]
pub(crate) fn instruction_set() -> PyResult<&'static str> {
    histrs::instruction_set().map_err(to_python)
}

/// The instruction sets that `HISTRS_SIMD` can name on this machine, the best first.
#[pyfunction]
pub(crate) fn instruction_sets() -> Vec<&'static str> {
    histrs::instruction_sets()
}

/// The most threads that are started for a call.
#[pyfunction]
pub(crate) fn most_threads() -> usize {
    histrs::most_threads()
}
