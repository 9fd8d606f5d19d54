//! Events of native code become records of Python's `logging`.
//!
//! Native threads never wait for the interpreter. They leave their events here, and the thread that
//! called native code passes them on while it checks for signals, and when its call ends. The
//! invariant: at most [`MOST`] events wait; of more, the oldest are dropped.

use log::{Level, LevelFilter, Log, Metadata, Record};
use pyo3::prelude::*;
use shardmill_storage::PerProcess;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

const MOST: usize = 1000;

/// A thread of the parent may have held the lock when this process was forked,
/// so a child has its own.
static WAITING: PerProcess<Mutex<VecDeque<Event>>> = PerProcess::new();
static ARE_WAITING: AtomicBool = AtomicBool::new(false);

struct Event {
    level: Level,
    /// The name of the logger.
    target: String,
    message: String,
}

struct Collector;

impl Log for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Those of other crates may hold keys.
        metadata.target().starts_with("shardmill.")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let message = shardmill_storage::redacted(&record.args().to_string());
        let mut waiting = waiting();
        if waiting.len() >= MOST {
            waiting.pop_front();
        }
        waiting.push_back(Event {
            level: record.level(),
            target: record.target().to_owned(),
            message,
        });
        ARE_WAITING.store(true, Ordering::Release);
    }

    fn flush(&self) {}
}

fn waiting() -> MutexGuard<'static, VecDeque<Event>> {
    WAITING.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn init() {
    // Fails only if another module of this process has set one, which then gets the events.
    if log::set_logger(&Collector).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}

/// Passes on what waits. An exception of a handler is printed, as `logging` does it itself.
pub(crate) fn pass_on(py: Python<'_>) {
    if !ARE_WAITING.swap(false, Ordering::Acquire) {
        return;
    }
    let events = std::mem::take(&mut *waiting());
    if let Err(error) = events.into_iter().try_for_each(|event| event.pass_on(py)) {
        error.print(py);
    }
}

impl Event {
    fn pass_on(self, py: Python<'_>) -> PyResult<()> {
        let level = match self.level {
            Level::Error => 40,
            Level::Warn => 30,
            Level::Info => 20,
            Level::Debug | Level::Trace => 10,
        };
        let logger = py.import("logging")?.call_method1("getLogger", (self.target,))?;
        logger.call_method1("log", (level, "%s", self.message))?;
        Ok(())
    }
}
