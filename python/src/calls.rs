//! Python code called from native threads: it can be interrupted, and the interpreter waits for it
//! on exit.
//!
//! A native thread that runs Python code while the interpreter is finalized crashes the process
//! (python/cpython#87135). So a run that is stopped raises `KeyboardInterrupt` in the calls of its
//! stages, and the exit waits for calls that do not react, as it does for Python's own threads. The
//! threads of a pass may live on at the exit: they begin no further call.

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const EXIT_POLL: Duration = Duration::from_millis(10);

static RUNNING: Mutex<Vec<Call>> = Mutex::new(Vec::new());
static LAST_ID: AtomicU64 = AtomicU64::new(0);
/// The thread that ends the interpreter, if it ends.
static ENDING: AtomicU64 = AtomicU64::new(0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Call {
    id: u64,
    /// A forked child inherits the list but none of the threads.
    process: u32,
    /// The pipeline of the call.
    owner: u64,
    /// As returned by `threading.get_ident()`.
    thread: u64,
}

/// The calls of one pipeline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Calls(u64);

/// A call in progress; dropping it ends it.
pub(crate) struct Entered(u64);

impl Calls {
    pub(crate) fn new() -> Self {
        Self(next_id())
    }

    /// Must be held, attached to the interpreter, while the call lasts. Refused when the
    /// interpreter ends, but on the thread that ends it.
    pub(crate) fn enter(self, py: Python<'_>) -> PyResult<Entered> {
        let thread = this_thread(py)?;
        let call = Call { id: next_id(), process: std::process::id(), owner: self.0, thread };
        running().push(call);
        let entered = Entered(call.id);
        // It is listed before: either the end of the interpreter waits for it, or it is refused.
        if [0, thread].contains(&ENDING.load(Ordering::SeqCst)) {
            Ok(entered)
        } else {
            Err(PyRuntimeError::new_err("the interpreter exits"))
        }
    }

    /// Raises `KeyboardInterrupt` in every call in progress, at its next bytecode.
    pub(crate) fn interrupt(self, py: Python<'_>) -> PyResult<()> {
        let calls: Vec<Call> = ours().into_iter().filter(|call| call.owner == self.0).collect();
        if calls.is_empty() {
            return Ok(());
        }
        let ctypes = py.import("ctypes")?;
        let raise = ctypes.getattr("pythonapi")?.getattr("PyThreadState_SetAsyncExc")?;
        let interrupt =
            ctypes.getattr("py_object")?.call1((py.get_type::<PyKeyboardInterrupt>(),))?;
        for call in calls {
            raise.call1((ctypes.getattr("c_ulong")?.call1((call.thread,))?, &interrupt))?;
        }
        Ok(())
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        running().retain(|call| call.id != self.0);
    }
}

/// As returned by `threading.get_ident()`.
fn this_thread(py: Python<'_>) -> PyResult<u64> {
    py.import("threading")?.getattr("get_ident")?.call0()?.extract()
}

fn next_id() -> u64 {
    LAST_ID.fetch_add(1, Ordering::Relaxed)
}

fn running() -> MutexGuard<'static, Vec<Call>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ours() -> Vec<Call> {
    let process = std::process::id();
    running().iter().filter(|call| call.process == process).copied().collect()
}

/// Waits until no native thread runs Python code, and lets none begin;
/// another Ctrl-C ends the wait.
#[pyfunction]
fn wait_for_calls(py: Python<'_>) -> PyResult<()> {
    ENDING.store(this_thread(py)?, Ordering::SeqCst);
    while !ours().is_empty() {
        py.detach(|| std::thread::sleep(EXIT_POLL));
        py.check_signals()?;
    }
    Ok(())
}

pub(crate) fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let wait = wrap_pyfunction!(wait_for_calls, module)?;
    module.py().import("atexit")?.getattr("register")?.call1((wait,))?;
    Ok(())
}
