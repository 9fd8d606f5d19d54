//! Runs a function over split numbers and hands the results back in order.
//!
//! At most `window` splits are ahead of the consumer: the bound that gives back-pressure. Dropping the [`Run`] cancels what has not finished, and gives
//! the workers a moment to clean up behind themselves: a process that exits right after leaves no half-written file.

use crate::{Cancel, Error, Pool, Result};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use std::any::Any;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a dropped run waits for its workers: Ctrl-C must take effect within half a second, and its detection takes a part of that.
pub const STOP_PATIENCE: Duration = Duration::from_millis(300);

/// Results of a run, in split order.
#[derive(Debug)]
pub struct Run<T> {
    results: Receiver<(usize, Result<T>)>,
    tickets: Sender<()>,
    early: BTreeMap<usize, Result<T>>,
    next: usize,
    splits: usize,
    cancel: Cancel,
    is_stopped: bool,
}

/// Runs `work(0) … work(splits − 1)` on `workers` threads. After a [`ControlFlow::Break`] no further split is started; those that were started before
/// end, so that everything in front of the break is delivered as well.
///
/// Fewer threads do the work when the system gives no more.
///
/// # Errors
/// [`Error::Spawn`] when the system gives no thread at all.
pub fn run_in_order<T, F>(splits: usize, workers: usize, cancel: &Cancel, work: F) -> Result<Run<T>>
where
    T: Send + 'static,
    F: Fn(usize) -> ControlFlow<T, T> + Send + Sync + 'static,
{
    let workers = workers.max(1).min(splits.max(1));
    let window = workers * 2;
    let (done, results) = bounded(window);
    let (tickets, taken) = bounded(window);
    for _ in 0..window {
        let _has_room = tickets.try_send(());
    }
    let pool = Pool::of_this_process();
    let work = Arc::new(work);
    let next = Arc::new(AtomicUsize::new(0));
    let is_broken = Arc::new(AtomicBool::new(false));
    for worker in 0..workers {
        let (work, next, is_broken) = (Arc::clone(&work), Arc::clone(&next), Arc::clone(&is_broken));
        let (done, taken, cancel) = (done.clone(), taken.clone(), cancel.clone());
        let spawned = pool.spawn(move || {
            // A closed ticket channel means that the consumer is gone.
            while taken.recv().is_ok() && !cancel.is_cancelled() && !is_broken.load(Ordering::Acquire) {
                let split = next.fetch_add(1, Ordering::Relaxed);
                if split >= splits {
                    break;
                }
                let result = match catch_unwind(AssertUnwindSafe(|| work(split))) {
                    Ok(ControlFlow::Continue(result)) => Ok(result),
                    Ok(ControlFlow::Break(result)) => {
                        is_broken.store(true, Ordering::Release);
                        Ok(result)
                    }
                    Err(payload) => Err(Error::Panicked { split, message: panic_message(&payload) }),
                };
                if done.send((split, result)).is_err() {
                    break;
                }
            }
            // The consumer takes a closed channel for the end of all work: so `done` must be the last to go.
            drop((work, next, taken, cancel));
            drop(done);
        });
        match spawned {
            Err(error) if worker == 0 => return Err(error),
            Err(_no_more_threads) => break,
            Ok(()) => {}
        }
    }
    Ok(Run { results, tickets, early: BTreeMap::new(), next: 0, splits, cancel: cancel.clone(), is_stopped: false })
}

/// As [`run_in_order`], for work that may fail: after an error no further split is started.
///
/// # Errors
/// As [`run_in_order`].
pub fn run_until_error<T, E, F>(splits: usize, workers: usize, cancel: &Cancel, work: F) -> Result<Run<std::result::Result<T, E>>>
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
    /// Cancels what has not finished and waits for the workers, at most `patience`. False when one of them is still at work then; it will find itself
    /// cancelled at its next step.
    pub fn stop(&mut self, patience: Duration) -> bool {
        if self.next < self.splits {
            self.cancel.cancel();
            self.next = self.splits;
        }
        self.is_stopped = true;
        self.early.clear();
        // Without tickets nobody starts another split.
        self.tickets = bounded(0).0;
        let deadline = Instant::now() + patience;
        loop {
            match self.results.recv_deadline(deadline) {
                Ok(_late) => {}
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }

    /// The next result, or `None` after the last. Waits at most `patience`, then says [`Poll::Pending`] so that the caller can look for signals.
    pub fn poll(&mut self, patience: Duration) -> Poll<T> {
        if self.next >= self.splits {
            return Poll::Finished;
        }
        loop {
            if let Some(result) = self.early.remove(&self.next) {
                self.next += 1;
                let _room_or_finished = self.tickets.try_send(());
                return Poll::Ready(result);
            }
            match self.results.recv_timeout(patience) {
                Ok((split, result)) => {
                    self.early.insert(split, result);
                }
                Err(RecvTimeoutError::Timeout) => return Poll::Pending,
                Err(RecvTimeoutError::Disconnected) => {
                    self.next = self.splits;
                    return Poll::Ready(Err(Error::Cancelled));
                }
            }
        }
    }
}

/// What [`Run::poll`] found.
#[derive(Debug)]
pub enum Poll<T> {
    Ready(Result<T>),
    Pending,
    Finished,
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
        if !self.is_stopped {
            let _ended_or_will_soon = self.stop(STOP_PATIENCE);
        }
    }
}

pub(crate) fn panic_message(payload: &Box<dyn Any + Send>) -> String {
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "unknown reason".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ops::ControlFlow::{Break, Continue};
    use std::sync::atomic::AtomicUsize;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_split_is_delivered_once_and_in_order(splits in 0usize..200, workers in 1usize..9) {
            let run = run_in_order(splits, workers, &Cancel::default(), Continue).unwrap();
            let delivered: Vec<usize> = run.map(|result| result.unwrap()).collect();
            prop_assert_eq!(delivered, (0..splits).collect::<Vec<_>>());
        }
    }

    /// What becomes of one split in a generated run.
    #[derive(Debug, Clone, Copy)]
    enum Fate {
        Done,
        Slow,
        Panic,
        Break,
        /// Stops the run from outside.
        Cancel,
    }

    fn fate() -> impl Strategy<Value = Fate> {
        prop_oneof![12 => Just(Fate::Done), 4 => Just(Fate::Slow), 2 => Just(Fate::Panic), 1 => Just(Fate::Break), 1 => Just(Fate::Cancel)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn delivery_is_a_prefix_in_order_whatever_happens(
            fates in prop::collection::vec(fate(), 0..60),
            workers in 1usize..9,
            consumer_pause_us in 0u64..300,
            walks_away_after in prop::option::of(0usize..60),
        ) {
            let cancel = Cancel::default();
            let (splits, is_cancelled_within) = (fates.len(), fates.iter().any(|fate| matches!(fate, Fate::Cancel)));
            let first_break = fates.iter().position(|fate| matches!(fate, Fate::Break));
            let expected = fates.clone();
            let stop = cancel.clone();
            let running = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&running);
            let mut run = run_in_order(splits, workers, &cancel, move |split| {
                count.fetch_add(1, Ordering::SeqCst);
                let fate = fates[split];
                if matches!(fate, Fate::Slow) {
                    std::thread::sleep(Duration::from_micros(400));
                }
                if matches!(fate, Fate::Cancel) {
                    stop.cancel();
                }
                count.fetch_sub(1, Ordering::SeqCst);
                assert!(!matches!(fate, Fate::Panic), "fated");
                if matches!(fate, Fate::Break) { Break(split) } else { Continue(split) }
            }).unwrap();
            let mut delivered = 0;
            let start = Instant::now();
            while walks_away_after != Some(delivered) {
                prop_assert!(start.elapsed() < Duration::from_secs(60), "the run hangs");
                match run.poll(Duration::from_millis(20)) {
                    Poll::Pending => continue,
                    Poll::Finished => break,
                    Poll::Ready(Ok(split)) => {
                        prop_assert_eq!(split, delivered);
                        prop_assert!(!matches!(expected[split], Fate::Panic));
                    }
                    Poll::Ready(Err(Error::Panicked { split, .. })) => {
                        prop_assert_eq!(split, delivered);
                        prop_assert!(matches!(expected[split], Fate::Panic));
                    }
                    Poll::Ready(Err(error)) => {
                        prop_assert!(matches!(error, Error::Cancelled));
                        prop_assert!(is_cancelled_within || first_break.is_some_and(|split| split < delivered));
                        prop_assert!(matches!(run.poll(Duration::ZERO), Poll::Finished));
                        break;
                    }
                }
                delivered += 1;
                std::thread::sleep(Duration::from_micros(consumer_pause_us));
            }
            if walks_away_after.is_none() && !is_cancelled_within {
                // Nothing in front of a break is lost.
                prop_assert!(first_break.map_or(delivered == splits, |split| delivered > split));
            }
            prop_assert!(run.stop(Duration::from_secs(60)), "a worker hangs");
            prop_assert_eq!(running.load(Ordering::SeqCst), 0);
        }
    }

    #[test]
    fn stopped_run_waits_for_work_in_progress_and_no_longer_than_it_may() {
        let is_done = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&is_done);
        let (begun, begins) = crossbeam_channel::unbounded();
        let (gate, passage) = bounded::<()>(0);
        let held = move |_| {
            begun.send(()).unwrap();
            // Ends when the gate is gone.
            let _nothing_is_sent = passage.recv();
            Continue(counter.fetch_add(1, Ordering::SeqCst))
        };
        let mut run = run_in_order(100, 2, &Cancel::default(), held).unwrap();
        (0..2).for_each(|_| begins.recv().unwrap());
        assert!(!run.stop(Duration::from_millis(5)));
        drop(gate);
        assert!(run.stop(Duration::from_secs(60)));
        assert_eq!(is_done.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn error_of_the_first_split_leaves_no_slot_taken() {
        let slots = crate::CoreSlots::new(2);
        let shared = slots.clone();
        let cancel = Cancel::default();
        let stop = cancel.clone();
        let work = move |split: usize| {
            let result = shared.acquire(&stop).and(if split == 0 { Err(Error::Cancelled) } else { Ok(split) });
            if result.is_err() { Break(result) } else { Continue(result) }
        };
        let results: Vec<_> = run_in_order(50, 4, &cancel, work).unwrap().collect();
        assert!(matches!(results.first(), Some(Ok(Err(Error::Cancelled)))));
        assert!(results.len() < 50);
        let all = [slots.acquire(&cancel).unwrap(), slots.acquire(&cancel).unwrap()];
        drop(all);
    }

    #[test]
    fn panic_of_one_split_is_an_error_in_its_place_and_the_rest_goes_on() {
        let run = run_in_order(5, 2, &Cancel::default(), |split| {
            assert_ne!(split, 2, "two is bad");
            Continue(split)
        })
        .unwrap();
        let results: Vec<bool> = run.map(|result| result.is_ok()).collect();
        assert_eq!(results, [true, true, false, true, true]);
    }

    #[test]
    fn slow_consumer_bounds_how_far_the_workers_run_ahead() {
        let started = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&started);
        let mut run = run_in_order(100, 2, &Cancel::default(), move |_| Continue(counter.fetch_add(1, Ordering::SeqCst))).unwrap();
        assert!(run.next().is_some());
        std::thread::sleep(Duration::from_millis(50));
        assert!(started.load(Ordering::SeqCst) <= 6);
    }

    #[test]
    fn dropped_run_stops_its_workers() {
        let cancel = Cancel::default();
        let mut run = run_in_order(1000, 2, &cancel, Continue).unwrap();
        assert!(run.next().is_some());
        drop(run);
        assert!(cancel.is_cancelled());
    }

    #[test]
    fn cancelled_run_ends_with_cancelled() {
        let cancel = Cancel::default();
        cancel.cancel();
        let results: Vec<_> = run_in_order(10, 2, &cancel, Continue).unwrap().collect();
        assert!(matches!(results.last(), Some(Err(Error::Cancelled))));
    }
}
