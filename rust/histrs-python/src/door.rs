//! The one way in: it frees the GIL, watches for Ctrl-C and picks the threads.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use histrs::{Error, Executor};
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;

/// Thread pools by process and size: the threads of a parent do not survive a fork.
static EXECUTORS: LazyLock<Mutex<HashMap<(u32, usize), Executor>>> = LazyLock::new(Mutex::default);

/// Runs `work` on `n_threads` threads without the GIL; Ctrl-C stops it.
pub(crate) fn enter<R: Send>(
    py: Python<'_>,
    n_threads: usize,
    work: impl FnOnce(&Executor) -> Result<R, Error> + Send,
) -> PyResult<R> {
    let exec = executor(n_threads).map_err(to_python)?.fork();
    let mut signal = None;
    let result = py.detach(|| {
        let interrupted = || {
            signal = Python::attach(|py| py.check_signals().err()).or(signal.take());
            signal.is_some()
        };
        exec.watch(|| work(&exec), interrupted)
    });
    match signal {
        Some(error) => Err(error),
        None => result.map_err(to_python),
    }
}

fn executor(n_threads: usize) -> Result<Executor, Error> {
    let mut executors = EXECUTORS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (std::process::id(), n_threads);
    if let Some(executor) = executors.get(&key) {
        return Ok(executor.clone());
    }
    let executor = Executor::new(n_threads)?;
    executors.insert(key, executor.clone());
    Ok(executor)
}

pub(crate) fn to_python(error: Error) -> PyErr {
    match error {
        Error::Interrupted => PyKeyboardInterrupt::new_err(()),
        Error::Threads { .. } => PyOSError::new_err(error.to_string()),
        _ => PyValueError::new_err(error.to_string()),
    }
}

/// Starts the threads ahead of use; says whether the environment is usable.
#[pyfunction]
pub(crate) fn start_threads(n_threads: usize) -> PyResult<usize> {
    executor(n_threads).map(|e| e.n_threads()).map_err(to_python)
}

/// Name of the instruction set in use.
#[pyfunction]
pub(crate) fn instruction_set() -> &'static str {
    histrs::instruction_set()
}
