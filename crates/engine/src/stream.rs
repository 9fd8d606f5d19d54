//! Runs jobs that are made one after the other, and hands their results back in that order.
//!
//! Unlike a run over split numbers, nobody knows beforehand how many jobs there will be, and making one may wait: the source decides how far the work may
//! be ahead of the consumer. Jobs are made under a lock, so the order of making is the order of delivery. Dropping the [`Stream`] cancels what has not
//! finished.

use crate::run::panic_message;
use crate::{Cancel, Error, Poll, Pool, Result, STOP_PATIENCE};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Makes the next job, or says that there is none. It may block, and must then look at the [`Cancel`] of its stream.
type Source<J> = Box<dyn FnMut() -> Option<J> + Send>;

/// Results in the order of their jobs.
#[derive(Debug)]
pub struct Stream<T> {
    mode: Mode<T>,
    cancel: Cancel,
    is_finished: bool,
}

enum Mode<T> {
    /// The consumer does the work.
    Inline(Box<dyn FnMut() -> Option<Result<T>> + Send>),
    Threads {
        results: Receiver<(u64, Result<T>)>,
        early: BTreeMap<u64, Result<T>>,
        next: u64,
    },
}

impl<T> std::fmt::Debug for Mode<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Inline(_) => "Inline",
            Self::Threads { .. } => "Threads",
        })
    }
}

/// Starts `work` on the jobs of `source` with so many threads; none means that the consumer's thread does it, when it asks for a result.
///
/// # Errors
/// [`Error::Spawn`] when the system gives no thread at all.
pub fn stream_in_order<J, T>(
    threads: usize,
    cancel: &Cancel,
    mut source: impl FnMut() -> Option<J> + Send + 'static,
    work: impl Fn(J) -> T + Send + Sync + 'static,
) -> Result<Stream<T>>
where
    J: Send + 'static,
    T: Send + 'static,
{
    if threads == 0 {
        let mut number = 0;
        let inline = move || {
            let result = caught(number, || source().map(&work)).transpose();
            number += 1;
            result
        };
        return Ok(Stream { mode: Mode::Inline(Box::new(inline)), cancel: cancel.clone(), is_finished: false });
    }
    let (done, results) = unbounded();
    let source: Arc<Mutex<(u64, Source<J>)>> = Arc::new(Mutex::new((0, Box::new(source))));
    let work = Arc::new(work);
    let pool = Pool::of_this_process();
    for worker in 0..threads {
        let (source, work, done, cancel) = (Arc::clone(&source), Arc::clone(&work), done.clone(), cancel.clone());
        let spawned = pool.spawn(move || {
            run_jobs(&source, &*work, &done, &cancel);
            // The consumer takes a closed channel for the end of all work: so `done` must be the last to go.
            drop((source, work, cancel));
            drop(done);
        });
        match spawned {
            Err(error) if worker == 0 => return Err(error),
            Err(_no_more_threads) => break,
            Ok(()) => {}
        }
    }
    Ok(Stream { mode: Mode::Threads { results, early: BTreeMap::new(), next: 0 }, cancel: cancel.clone(), is_finished: false })
}

fn run_jobs<J, T>(source: &Mutex<(u64, Source<J>)>, work: &dyn Fn(J) -> T, done: &Sender<(u64, Result<T>)>, cancel: &Cancel) {
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

fn caught<T>(number: u64, call: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call))
        .map_err(|payload| Error::Panicked { split: usize::try_from(number).unwrap_or(usize::MAX), message: panic_message(&payload) })
}

impl<T> Stream<T> {
    /// The next result, or [`Poll::Finished`] after the last. Waits at most `patience`, then says [`Poll::Pending`] so that the caller can look for signals.
    pub fn poll(&mut self, patience: Duration) -> Poll<T> {
        if self.is_finished {
            return Poll::Finished;
        }
        let polled = match &mut self.mode {
            Mode::Inline(_) if self.cancel.is_cancelled() => Poll::Ready(Err(Error::Cancelled)),
            Mode::Inline(work) => work().map_or(Poll::Finished, Poll::Ready),
            Mode::Threads { results, early, next } => poll_threads(results, early, next, patience, &self.cancel),
        };
        self.is_finished = matches!(polled, Poll::Finished | Poll::Ready(Err(_)));
        polled
    }

    /// Cancels what has not finished and waits for the threads, at most `patience`. False when one of them is still at work then.
    pub fn stop(&mut self, patience: Duration) -> bool {
        self.cancel.cancel();
        self.is_finished = true;
        let Mode::Threads { results, early, .. } = &mut self.mode else { return true };
        early.clear();
        let deadline = Instant::now() + patience;
        loop {
            match results.recv_deadline(deadline) {
                Ok(_late) => {}
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }
}

fn poll_threads<T>(
    results: &Receiver<(u64, Result<T>)>,
    early: &mut BTreeMap<u64, Result<T>>,
    next: &mut u64,
    patience: Duration,
    cancel: &Cancel,
) -> Poll<T> {
    loop {
        if let Some(result) = early.remove(next) {
            *next += 1;
            return Poll::Ready(result);
        }
        match results.recv_timeout(patience) {
            Ok((number, result)) => {
                early.insert(number, result);
            }
            Err(RecvTimeoutError::Timeout) => return Poll::Pending,
            Err(RecvTimeoutError::Disconnected) if cancel.is_cancelled() => return Poll::Ready(Err(Error::Cancelled)),
            Err(RecvTimeoutError::Disconnected) => return Poll::Finished,
        }
    }
}

impl<T> Drop for Stream<T> {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ended_or_will_soon = self.stop(STOP_PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(count: u64) -> impl FnMut() -> Option<u64> + Send {
        let mut next = 0;
        move || {
            next += 1;
            (next <= count).then(|| next - 1)
        }
    }

    fn all<T>(mut stream: Stream<T>) -> Vec<Result<T>> {
        let mut results = Vec::new();
        loop {
            match stream.poll(Duration::from_secs(1)) {
                Poll::Ready(result) => results.push(result),
                Poll::Pending => {}
                Poll::Finished => return results,
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn results_come_in_the_order_of_their_jobs(count in 0u64..200, threads in 0usize..6) {
            let stream = stream_in_order(threads, &Cancel::default(), numbers(count), |job| job * 2).unwrap();
            let results: Vec<u64> = all(stream).into_iter().map(|result| result.unwrap()).collect();
            prop_assert_eq!(results, (0..count).map(|job| job * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn panic_is_an_error_at_its_place_and_ends_the_stream() {
        for threads in [0, 3] {
            let stream = stream_in_order(threads, &Cancel::default(), numbers(10), |job| assert!(job != 4, "fated")).unwrap();
            let results = all(stream);
            assert_eq!(results.len(), 5);
            assert!(matches!(results[4], Err(Error::Panicked { split: 4, .. })));
        }
    }

    #[test]
    fn dropped_stream_stops_a_source_that_waits() {
        let cancel = Cancel::default();
        let waits = cancel.clone();
        let source = move || {
            while !waits.is_cancelled() {
                std::thread::sleep(Duration::from_millis(1));
            }
            None::<()>
        };
        let mut stream = stream_in_order(2, &cancel, source, |()| ()).unwrap();
        assert!(matches!(stream.poll(Duration::from_millis(5)), Poll::Pending));
        assert!(stream.stop(Duration::from_secs(60)));
    }
}
