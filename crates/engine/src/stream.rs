//! Runs jobs that are created one after another, and delivers their results in that order.
//!
//! Unlike in a run over split numbers, the number of jobs is not known in advance, and creating one
//! may block: the source limits how far the work is ahead of the consumer. Jobs are created under a
//! lock, so the order of creation is the order of delivery. Dropping the [`Stream`] cancels
//! unfinished work.

use crate::ordered::{Ordered, Poll, STOP_PATIENCE, caught};
use crate::{Cancel, Error, Result};
use std::time::Duration;

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
    Threads(Ordered<T>),
}

impl<T> std::fmt::Debug for Mode<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(if matches!(self, Self::Inline(_)) { "Inline" } else { "Threads" })
    }
}

/// Runs `work` on the jobs of `source` with `threads` threads; with none, the consumer's thread
/// does the work when it polls for a result.
///
/// # Errors
/// [`Error::Spawn`] if the system provides no thread at all.
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
    let mode = if threads == 0 {
        let mut number = 0;
        Mode::Inline(Box::new(move || {
            let result = caught(number, || source().map(&work)).transpose();
            number += 1;
            result
        }))
    } else {
        Mode::Threads(Ordered::start(threads, threads, cancel, source, work)?)
    };
    Ok(Stream { mode, cancel: cancel.clone(), is_finished: false })
}

impl<T> Stream<T> {
    /// The next result, or [`Poll::Finished`] after the last. Waits at most `patience`, then
    /// returns [`Poll::Pending`] so that the caller can check for signals.
    pub fn poll(&mut self, patience: Duration) -> Poll<T> {
        if self.is_finished {
            return Poll::Finished;
        }
        let polled = match &mut self.mode {
            Mode::Inline(_) if self.cancel.is_cancelled() => Poll::Ready(Err(Error::Cancelled)),
            Mode::Inline(work) => work().map_or(Poll::Finished, Poll::Ready),
            Mode::Threads(results) => match results.poll(patience) {
                Poll::Finished if self.cancel.is_cancelled() => Poll::Ready(Err(Error::Cancelled)),
                polled => polled,
            },
        };
        self.is_finished = matches!(polled, Poll::Finished | Poll::Ready(Err(_)));
        polled
    }

    /// Cancels unfinished work and waits for the threads, at most `patience`. False if one of them
    /// is still working then.
    pub fn stop(&mut self, patience: Duration) -> bool {
        self.cancel.cancel();
        self.is_finished = true;
        match &mut self.mode {
            Mode::Inline(_) => true,
            Mode::Threads(results) => results.drain(patience),
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
            let stream =
                stream_in_order(threads, &Cancel::default(), numbers(count), |job| job * 2)
                    .unwrap();
            let results: Vec<u64> = all(stream).into_iter().map(|result| result.unwrap()).collect();
            prop_assert_eq!(results, (0..count).map(|job| job * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn panic_is_an_error_at_its_place_and_ends_the_stream() {
        for threads in [0, 3] {
            let stream = stream_in_order(threads, &Cancel::default(), numbers(10), |job| {
                assert!(job != 4, "fated");
            })
            .unwrap();
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
