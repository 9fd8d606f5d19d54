//! The runtime that requests run on: two threads, started by the first request of a process.

use super::process::PerProcess;
use crate::waiting::waiting;
use std::future::Future;
use std::io;
use tokio::runtime::{Builder, Runtime};

const THREADS: usize = 2;

static RUNTIME: PerProcess<Result<Runtime, io::ErrorKind>> = PerProcess::new();

fn runtime() -> io::Result<&'static Runtime> {
    let make = || Builder::new_multi_thread().worker_threads(THREADS).thread_name("shardmill-requests").enable_all().build().map_err(|error| error.kind());
    RUNTIME.get_or_make(make).as_ref().map_err(|kind| io::Error::from(*kind))
}

/// Waits for `future` on this thread.
///
/// # Errors
/// When the system gives no threads.
pub(super) fn wait<F: Future>(future: F) -> io::Result<F::Output> {
    let runtime = runtime()?;
    Ok(waiting(|| runtime.block_on(future)))
}

/// Runs `future` behind the caller's back.
///
/// # Errors
/// When the system gives no threads.
pub(super) fn spawn<F>(future: F) -> io::Result<tokio::task::JoinHandle<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Ok(runtime()?.spawn(future))
}
