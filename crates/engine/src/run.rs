//! Runs a function over split numbers and delivers the results in order.
//!
//! At most `window` splits are ahead of the consumer: this bound gives back-pressure. Dropping the
//! [`Run`] cancels unfinished work, and gives the workers a moment to clean up: a process that
//! exits right afterwards leaves no half-written file.

use crate::ordered::{Ordered, Poll, STOP_PATIENCE};
use crate::{Cancel, Error, Result};
use crossbeam_channel::{Sender, bounded};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Results of a run, in split order.
#[derive(Debug)]
pub struct Run<T> {
    results: Ordered<T>,
    tickets: Sender<()>,
    next: usize,
    splits: usize,
    cancel: Cancel,
    is_stopped: bool,
}

/// Runs `work(0) … work(splits − 1)` on `workers` threads. After a [`ControlFlow::Break`] no
/// further split is started; splits that are already running finish, so that everything before the
/// break is delivered as well.
///
/// Uses fewer threads if the system provides no more.
///
/// # Errors
/// [`Error::Spawn`] if the system provides no thread at all.
pub fn run_in_order<T, F>(splits: usize, workers: usize, cancel: &Cancel, work: F) -> Result<Run<T>>
where
    T: Send + 'static,
    F: Fn(usize) -> ControlFlow<T, T> + Send + Sync + 'static,
{
    let crew = workers.max(1);
    let workers = crew.min(splits.max(1));
    let window = workers * 2;
    let (tickets, taken) = bounded(window);
    for _ in 0..window {
        let _has_room = tickets.try_send(());
    }
    let is_broken = Arc::new(AtomicBool::new(false));
    let (breaks, stop) = (Arc::clone(&is_broken), cancel.clone());
    let mut numbers = 0..splits;
    // A closed ticket channel means that the consumer was dropped.
    let source = move || {
        if taken.recv().is_ok() && !stop.is_cancelled() && !is_broken.load(Ordering::Acquire) {
            numbers.next()
        } else {
            None
        }
    };
    let results = Ordered::start(workers, crew, cancel, source, move |split| match work(split) {
        ControlFlow::Continue(result) => result,
        ControlFlow::Break(result) => {
            breaks.store(true, Ordering::Release);
            result
        }
    })?;
    Ok(Run { results, tickets, next: 0, splits, cancel: cancel.clone(), is_stopped: false })
}

/// As [`run_in_order`], for fallible work: after an error no further split is started.
///
/// # Errors
/// As [`run_in_order`].
pub fn run_until_error<T, E, F>(
    splits: usize,
    workers: usize,
    cancel: &Cancel,
    work: F,
) -> Result<Run<std::result::Result<T, E>>>
where
    T: Send + 'static,
    E: Send + 'static,
    F: Fn(usize) -> std::result::Result<T, E> + Send + Sync + 'static,
{
    run_in_order(splits, workers, cancel, move |split| {
        let result = work(split);
        if result.is_err() { ControlFlow::Break(result) } else { ControlFlow::Continue(result) }
    })
}

impl<T> Run<T> {
    /// Cancels unfinished work and waits for the workers, at most `patience`. False if one of them
    /// is still working then; it will notice the cancellation at its next step.
    pub fn stop(&mut self, patience: Duration) -> bool {
        if self.next < self.splits {
            self.cancel.cancel();
            self.next = self.splits;
        }
        self.is_stopped = true;
        // Without tickets no thread starts another split.
        self.tickets = bounded(0).0;
        self.results.drain(patience)
    }

    /// The next result, or `None` after the last. Waits at most `patience`, then returns
    /// [`Poll::Pending`] so that the caller can check for signals.
    pub fn poll(&mut self, patience: Duration) -> Poll<T> {
        if self.next >= self.splits {
            return Poll::Finished;
        }
        let polled = self.results.poll(patience);
        match polled {
            Poll::Ready(_) => {
                self.next += 1;
                let _room_or_finished = self.tickets.try_send(());
                polled
            }
            Poll::Pending => polled,
            Poll::Finished => {
                self.next = self.splits;
                Poll::Ready(Err(Error::Cancelled))
            }
        }
    }
}

impl<T> Iterator for Run<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.poll(Duration::from_secs(1)) {
                Poll::Ready(result) => return Some(result),
                Poll::Pending => {}
                Poll::Finished => return None,
            }
        }
    }
}

impl<T> Drop for Run<T> {
    fn drop(&mut self) {
        if self.results.is_inherited() {
            // As the channel of the results.
            std::mem::forget(std::mem::replace(&mut self.tickets, bounded(0).0));
        } else if !self.is_stopped {
            let _ended_or_will_soon = self.stop(STOP_PATIENCE);
        }
    }
}

#[cfg(test)]
mod tests;
