//! The runtime that executes requests: two threads, started by the first request of a process.

use super::retry::is_transient;
use crate::interrupts::unless_interrupted;
use crate::process::PerProcess;
use crate::waiting::waiting;
use std::future::Future;
use std::io;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// Aborts the task when its waiting thread gives up.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

const THREADS: usize = 2;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

static RUNTIME: PerProcess<Result<Runtime, io::ErrorKind>> = PerProcess::new();

fn runtime() -> io::Result<&'static Runtime> {
    let make = || {
        Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("shardmill-requests")
            .enable_all()
            .build()
            .map_err(|error| error.kind())
    };
    RUNTIME.get_or_make(make).as_ref().map_err(|kind| io::Error::from(*kind))
}

/// Waits for `future` on this thread.
///
/// # Errors
/// When the system provides no threads, and when this thread is interrupted.
pub(super) fn wait<F: Future>(future: F) -> io::Result<F::Output> {
    let runtime = runtime()?;
    waiting(|| runtime.block_on(unless_interrupted(future)))
}

/// As [`wait`], on the threads of the runtime: they receive a small response without waking this
/// thread for each piece of it.
///
/// # Errors
/// As [`wait`].
pub(super) fn wait_elsewhere<F>(future: F) -> io::Result<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let mut task = AbortOnDrop(spawn(future)?);
    wait(&mut task.0)?.map_err(io::Error::other)
}

/// As [`wait`], for an idempotent request: it is retried until success, a permanent error, or the
/// end of `patience`.
///
/// # Errors
/// When the system provides no threads.
pub(super) fn wait_patiently<T, F>(
    patience: Duration,
    mut request: impl FnMut() -> F,
) -> io::Result<object_store::Result<T>>
where
    F: Future<Output = object_store::Result<T>>,
{
    wait(async {
        let begun = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            match request().await {
                Err(error) if is_transient(&error) && begun.elapsed() < patience => {
                    tokio::time::sleep(pause).await;
                }
                answer => return answer,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    })
}

/// Runs `future` in the background.
///
/// # Errors
/// When the system provides no threads.
pub(super) fn spawn<F>(future: F) -> io::Result<tokio::task::JoinHandle<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Ok(runtime()?.spawn(future))
}
