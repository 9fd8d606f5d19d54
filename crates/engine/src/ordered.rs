//! Threads that take jobs from one source and deliver results in the order of the jobs.
//!
//! Jobs are created under a lock, so the order of creation is the order of delivery. The source
//! limits how far the work is ahead of the consumer.

use crate::crew::Crew;
use crate::{Cancel, Error, Pool, Result};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, never, unbounded};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a dropped run waits for its workers: Ctrl-C must take effect within half a second,
/// including its detection.
pub const STOP_PATIENCE: Duration = Duration::from_millis(300);

/// The outcome of polling for the next result.
#[derive(Debug)]
pub enum Poll<T> {
    Ready(Result<T>),
    Pending,
    Finished,
}

/// Results that are still to come.
#[derive(Debug)]
pub(crate) struct Ordered<T> {
    results: Receiver<(usize, Result<T>)>,
    early: BTreeMap<usize, Result<T>>,
    next: usize,
    process: u32,
}

/// Creates the next job, or returns `None` at the end. It may block,
/// and must then check its [`Cancel`].
type Source<J> = Box<dyn FnMut() -> Option<J> + Send>;

impl<T: Send + 'static> Ordered<T> {
    /// Uses fewer threads if the system provides no more. Those of the `crew` that have no job may
    /// help with another one's.
    ///
    /// # Errors
    /// [`Error::Spawn`] if the system provides no thread at all.
    pub(crate) fn start<J: Send + 'static>(
        threads: usize,
        crew: usize,
        cancel: &Cancel,
        source: impl FnMut() -> Option<J> + Send + 'static,
        work: impl Fn(J) -> T + Send + Sync + 'static,
    ) -> Result<Self> {
        let (done, results) = unbounded();
        let source: Arc<Mutex<(usize, Source<J>)>> = Arc::new(Mutex::new((0, Box::new(source))));
        let work = Arc::new(work);
        let (pool, crew) = (Pool::of_this_process(), Crew::new(crew));
        for worker in 0..threads {
            let (source, work, done, cancel, crew) = (
                Arc::clone(&source),
                Arc::clone(&work),
                done.clone(),
                cancel.clone(),
                crew.clone(),
            );
            let spawned = pool.spawn(move || {
                crew.with(|| run_jobs(&source, &|job| crew.work(|| work(job)), &done, &cancel));
                // The consumer takes a closed channel for the end of all work, so `done` must be
                // dropped last.
                drop((source, work, cancel));
                drop(done);
            });
            match spawned {
                Err(error) if worker == 0 => return Err(error),
                Err(_no_more_threads) => break,
                Ok(()) => {}
            }
        }
        Ok(Self { results, early: BTreeMap::new(), next: 0, process: std::process::id() })
    }
}

impl<T> Ordered<T> {
    /// The next result. [`Poll::Finished`] once all threads have ended, including by cancellation.
    pub(crate) fn poll(&mut self, patience: Duration) -> Poll<T> {
        loop {
            if let Some(result) = self.early.remove(&self.next) {
                self.next += 1;
                return Poll::Ready(result);
            }
            match self.results.recv_timeout(patience) {
                Ok((number, result)) => {
                    self.early.insert(number, result);
                }
                Err(RecvTimeoutError::Timeout) => return Poll::Pending,
                Err(RecvTimeoutError::Disconnected) => return Poll::Finished,
            }
        }
    }

    /// Whether this is in a forked child, which has none of the threads.
    pub(crate) fn is_inherited(&self) -> bool {
        self.process != std::process::id()
    }

    /// Waits for the threads, at most `patience`. False if one of them is still working then.
    pub(crate) fn drain(&mut self, patience: Duration) -> bool {
        self.early.clear();
        if self.is_inherited() {
            return true;
        }
        let deadline = Instant::now() + patience;
        loop {
            match self.results.recv_deadline(deadline) {
                Ok(_late) => {}
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}

impl<T> Drop for Ordered<T> {
    fn drop(&mut self) {
        if self.is_inherited() {
            // Closing the channel would wait for a thread that was sending a result at the fork.
            std::mem::forget(std::mem::replace(&mut self.results, never()));
        }
    }
}

fn run_jobs<J, T>(
    source: &Mutex<(usize, Source<J>)>,
    work: &dyn Fn(J) -> T,
    done: &Sender<(usize, Result<T>)>,
    cancel: &Cancel,
) {
    while !cancel.is_cancelled() {
        let (number, job) = {
            let mut source = source.lock().unwrap_or_else(PoisonError::into_inner);
            let number = source.0;
            source.0 += 1;
            (number, caught(number, || source.1()))
        };
        let result = match job {
            Ok(None) => break,
            Ok(Some(job)) => caught(number, || work(job)),
            Err(error) => Err(error),
        };
        if done.send((number, result)).is_err() {
            break;
        }
    }
}

/// Converts a panic to an error.
pub(crate) fn caught<T>(number: usize, call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| {
        let text = payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Error::Panicked {
            split: number,
            message: text.unwrap_or_else(|| "unknown reason".to_owned()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_parent_are_not_waited_for_and_stay_in_their_channel() {
        let (sent, mut numbers) = (Arc::new(()), 0..3);
        let held = Arc::clone(&sent);
        let mut results = Ordered::start(
            1,
            1,
            &Cancel::default(),
            move || numbers.next(),
            move |_| Arc::clone(&held),
        )
        .unwrap();
        while Arc::strong_count(&sent) < 4 {
            std::thread::yield_now();
        }
        results.process = u32::MAX;
        assert!(results.drain(Duration::from_secs(3600)));
        drop(results);
        assert!(Arc::strong_count(&sent) > 3);
    }
}
