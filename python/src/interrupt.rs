//! Makes native work interruptible by Ctrl-C.

use crate::error::PyShardmillResult;
use crossbeam_channel::{RecvTimeoutError, bounded};
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use shardmill_engine::{Cancel, Pool};
use shardmill_storage::{hurry, with_interrupts};
use std::cell::RefCell;
use std::time::Duration;

/// How long Ctrl-C may go unnoticed.
pub(crate) const SIGNAL_POLL: Duration = Duration::from_millis(50);

/// Runs `work` on another thread while this one checks for signals.
pub(crate) fn interruptible<T, E>(
    py: Python<'_>,
    work: impl FnOnce(&Cancel) -> Result<T, E> + Send + 'static,
) -> PyResult<T>
where
    T: Send + 'static,
    E: Into<PyErr> + Send + 'static,
{
    let cancel = Cancel::default();
    let (done, result) = bounded(1);
    let worker = cancel.clone();
    let spawned = Pool::of_this_process().spawn(move || {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&worker)));
        let _caller_is_gone = done.send(outcome);
    });
    spawned.map_err(crate::error::PyShardmillError::from)?;
    loop {
        let received = py.detach(|| result.recv_timeout(SIGNAL_POLL));
        crate::logs::pass_on(py);
        match received {
            Ok(Ok(outcome)) => return outcome.map_err(Into::into),
            Ok(Err(_panic)) => return Err(PyRuntimeError::new_err("a native thread failed")),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("a native thread was lost"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(signal) = py.check_signals() {
            cancel.cancel();
            hurry();
            return Err(signal);
        }
    }
}

/// The text of an error of a function of the user. If it ends the program, as `KeyboardInterrupt`
/// does, [`listening`] raises it once its work on this thread has returned.
pub(crate) fn reason_of(py: Python<'_>, error: PyErr) -> String {
    let reason = error.to_string();
    if !error.is_instance_of::<PyException>(py) {
        RAISED.set(Some(error));
    }
    reason
}

thread_local! {
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Runs `work` on this thread without the interpreter; its waits for a store check for signals.
pub(crate) fn listening<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let outcome = py.detach(|| with_interrupts(is_interrupted, work));
    crate::logs::pass_on(py);
    RAISED.take().map_or(Ok(outcome), Err)
}

/// As [`listening`], for work that may fail.
pub(crate) fn answered<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> PyShardmillResult<T> + Send,
) -> PyResult<T> {
    Ok(listening(py, work)??)
}

fn is_interrupted() -> bool {
    Python::attach(|py| match py.check_signals() {
        Ok(()) => false,
        Err(signal) => {
            RAISED.set(Some(signal));
            true
        }
    })
}
