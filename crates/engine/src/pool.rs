//! One pool of plain threads per process, created on first use.
//!
//! A forked child inherits the pool's memory but none of its threads: work sent there would wait
//! forever (as in rayon's global pool, see huggingface/tokenizers#187). So the pool stores the id
//! of its process, and a child creates its own; a lock that a thread of the parent may have held at
//! the fork is never waited for.

use crate::{Error, Result};
use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread;
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

/// The lock is held for microseconds; after half a second it will never be released.
const LOCK_ATTEMPTS: usize = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

static POOL: Mutex<Option<Arc<Pool>>> = Mutex::new(None);

/// Threads that take jobs in order of arrival.
#[derive(Debug)]
pub struct Pool {
    process: u32,
    jobs: Sender<Job>,
    waiting: Receiver<Job>,
    load: Arc<Mutex<Load>>,
}

/// A job may wait for its consumer, and the consumer for another job, so each queued or running job
/// has a separate thread.
#[derive(Debug, Default)]
struct Load {
    jobs: usize,
    threads: usize,
}

impl Pool {
    /// The pool of this process.
    #[must_use]
    pub fn of_this_process() -> Arc<Self> {
        let process = std::process::id();
        for _ in 0..LOCK_ATTEMPTS {
            let mut pool = match POOL.try_lock() {
                Ok(pool) => pool,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    thread::sleep(LOCK_PAUSE);
                    continue;
                }
            };
            if let Some(pool) = pool.as_ref().filter(|pool| pool.process == process) {
                return Arc::clone(pool);
            }
            let fresh = Arc::new(Self::new(process));
            // Dropping the parent's pool would lock its channel, which one of the parent's threads
            // may have held at the fork.
            std::mem::forget(pool.replace(Arc::clone(&fresh)));
            return fresh;
        }
        // The holder of the lock does not exist in this forked process, so the lock will never be
        // released. A separate pool serves the caller as well.
        Arc::new(Self::new(process))
    }

    fn new(process: u32) -> Self {
        let (jobs, waiting) = unbounded();
        Self { process, jobs, waiting, load: Arc::default() }
    }

    /// Queues `job`. A job must not panic; [`crate::run_in_order`] ensures that.
    ///
    /// # Errors
    /// [`Error::Spawn`] if the system provides no thread.
    pub fn spawn(&self, job: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut load = self.load.lock().unwrap_or_else(PoisonError::into_inner);
        if load.threads <= load.jobs {
            let waiting = self.waiting.clone();
            thread::Builder::new()
                .name(format!("shardmill-{}", load.threads))
                .spawn(move || waiting.iter().for_each(|job| job()))
                .map_err(|source| Error::Spawn { source })?;
            load.threads += 1;
        }
        load.jobs += 1;
        let shared = Arc::clone(&self.load);
        // The pool itself holds a receiver, so the channel cannot be closed.
        let _never_closed = self.jobs.send(Box::new(move || {
            job();
            shared.lock().unwrap_or_else(PoisonError::into_inner).jobs -= 1;
        }));
        Ok(())
    }

    /// Runs `work` on a thread and returns a receiver for its result, or its panic.
    ///
    /// # Errors
    /// As [`Pool::spawn`].
    pub fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Receiver<thread::Result<T>>> {
        let (done, result) = bounded(1);
        self.spawn(move || {
            let _unwanted = done.send(catch_unwind(AssertUnwindSafe(work)));
        })?;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_that_is_never_released_is_not_waited_for() {
        let _held_at_the_fork = POOL.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = Pool::of_this_process();
        let (done, result) = bounded(1);
        pool.spawn(move || done.send(7).unwrap()).unwrap();
        drop(pool);
        assert_eq!(result.recv(), Ok(7));
    }

    #[test]
    fn jobs_that_wait_for_each_other_all_have_a_thread() {
        let pool = Pool::of_this_process();
        let (first, second) = (bounded(0), bounded(0));
        let (done, finished) = bounded(2);
        let all_done = done.clone();
        pool.spawn(move || done.send((first.1.recv(), second.0.send(2)).0).unwrap()).unwrap();
        pool.spawn(move || all_done.send((first.0.send(1), second.1.recv()).1).unwrap()).unwrap();
        let results = [finished.recv().unwrap(), finished.recv().unwrap()];
        assert!(results.contains(&Ok(1)) && results.contains(&Ok(2)));
    }
}
