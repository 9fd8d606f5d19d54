//! Native work that Ctrl-C can stop.

use crossbeam_channel::{RecvTimeoutError, bounded};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use shardmill_engine::{Cancel, Pool};
use std::time::Duration;

/// How long Ctrl-C may go unnoticed.
pub(crate) const SIGNAL_POLL: Duration = Duration::from_millis(50);

/// Runs `work` on another thread while this one looks for signals.
pub(crate) fn interruptible<T, E>(py: Python<'_>, work: impl FnOnce(&Cancel) -> Result<T, E> + Send + 'static) -> PyResult<T>
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
        match py.detach(|| result.recv_timeout(SIGNAL_POLL)) {
            Ok(Ok(outcome)) => return outcome.map_err(Into::into),
            Ok(Err(_panic)) => return Err(PyRuntimeError::new_err("a native thread failed")),
            Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("a native thread was lost")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(signal) = py.check_signals() {
            cancel.cancel();
            return Err(signal);
        }
    }
}
