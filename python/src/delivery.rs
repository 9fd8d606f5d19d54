//! Delivers the results of a run to Python, one by one and in order.

use crate::error::PyShardmillError;
use crate::interrupt::SIGNAL_POLL;
use pyo3::prelude::*;
use shardmill_engine::{Poll, Run, STOP_PATIENCE};

/// How to stop a run after a signal or an exception.
pub(crate) trait Stop {
    /// Called before its workers are waited for.
    fn stop(&self) {}

    /// Called if they did not end in time.
    fn abandon(&self) {}
}

/// For work without clean-up.
impl Stop for () {}

/// Calls `on_result` with each result. A signal or an exception stops the run.
pub(crate) fn deliver<T: Send, E: Send + Into<PyShardmillError>>(
    py: Python<'_>,
    mut run: Run<Result<T, E>>,
    on_result: impl FnMut(T) -> PyResult<()>,
    stop: &impl Stop,
) -> PyResult<()> {
    let outcome = deliver_all(py, &mut run, on_result);
    if outcome.is_err() {
        shardmill_storage::hurry();
        stop.stop();
    }
    // The workers may need the interpreter to finish.
    let is_at_rest = py.detach(|| run.stop(STOP_PATIENCE));
    if outcome.is_err() && !is_at_rest {
        stop.abandon();
    }
    outcome
}

fn deliver_all<T: Send, E: Send + Into<PyShardmillError>>(
    py: Python<'_>,
    run: &mut Run<Result<T, E>>,
    mut on_result: impl FnMut(T) -> PyResult<()>,
) -> PyResult<()> {
    loop {
        match py.detach(|| run.poll(SIGNAL_POLL)) {
            Poll::Finished => return Ok(()),
            Poll::Ready(result) => {
                on_result(result.map_err(PyShardmillError::from)?.map_err(Into::into)?)?;
            }
            Poll::Pending => {}
        }
        crate::logs::pass_on(py);
        py.check_signals()?;
    }
}
