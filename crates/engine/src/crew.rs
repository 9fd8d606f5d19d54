//! Runs the parts of one job on idle threads of a run.
//!
//! The threads of a run are its crew. [`spread`] splits a large job that blocks delivery into
//! parts. The thread that owns the job works on the parts. For each idle thread of the crew, a
//! thread of the pool helps until the crew is busy again. The invariant: no more threads work than
//! the run was given, except while a helper finishes its part. The owner waits only for parts that
//! another thread has started, so it never waits for a thread that could not be started.

use crate::ordered::caught;
use crate::{Pool, Result};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// With more results that the owner has not taken, it gets no help: they use memory.
const MOST_AHEAD: usize = 8;

thread_local! {
    static CREW: RefCell<Option<Crew>> = const { RefCell::new(None) };
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// The threads of a run.
#[derive(Debug, Clone)]
pub(crate) struct Crew(Arc<Load>);

#[derive(Debug)]
struct Load {
    threads: usize,
    busy: AtomicUsize,
}

/// A thread of a crew is at work until this is dropped.
struct Busy<'a>(Option<&'a Crew>);

impl Crew {
    pub(crate) fn new(threads: usize) -> Self {
        // More threads than cores are for waiting.
        let cores = std::thread::available_parallelism().map_or(threads, std::num::NonZero::get);
        Self(Arc::new(Load { threads: threads.min(cores), busy: AtomicUsize::new(0) }))
    }

    /// Runs all of `call` as a thread of the crew.
    pub(crate) fn with<T>(&self, call: impl FnOnce() -> T) -> T {
        let before = CREW.replace(Some(self.clone()));
        let is_busy = IS_BUSY.replace(false);
        let result = call();
        CREW.set(before);
        IS_BUSY.set(is_busy);
        result
    }

    /// Runs `call` as work of the crew.
    pub(crate) fn work<T>(&self, call: impl FnOnce() -> T) -> T {
        let _busy = self.busy();
        call()
    }

    fn busy(&self) -> Busy<'_> {
        if IS_BUSY.replace(true) {
            return Busy(None);
        }
        self.0.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Some(self))
    }

    /// Takes the place of an idle thread, if there is one.
    fn takes_place(&self) -> bool {
        let more = |busy: usize| (busy < self.0.threads).then_some(busy + 1);
        self.0.busy.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn is_crowded(&self) -> bool {
        self.0.busy.load(Ordering::Relaxed) > self.0.threads
    }

    fn leaves(&self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        if let Some(crew) = self.0 {
            IS_BUSY.set(false);
            crew.leaves();
        }
    }
}

/// Runs `call`, which only waits for other threads of the run. One that has much to do may use this
/// one's core meanwhile.
pub fn resting<T>(call: impl FnOnce() -> T) -> T {
    let crew = CREW.with_borrow(Option::clone).filter(|_| IS_BUSY.get());
    let Some(crew) = crew else { return call() };
    crew.leaves();
    let result = call();
    crew.0.busy.fetch_add(1, Ordering::Relaxed);
    result
}

/// The number of threads that [`spread`] can use on this thread, itself included.
#[must_use]
pub fn crew_size() -> usize {
    CREW.with_borrow(|crew| crew.as_ref().map_or(1, |crew| crew.0.threads.max(1)))
}

/// Whether [`spread`] would find help now: a thread of the run has nothing to do.
#[must_use]
pub fn has_idle_thread() -> bool {
    CREW.with_borrow(|crew| {
        crew.as_ref().is_some_and(|crew| crew.0.busy.load(Ordering::Relaxed) < crew.0.threads)
    })
}

/// Passes the results of `work(0) … work(parts − 1)` to `take`, in order and on this thread.
/// Outside of a run, it does all the work.
///
/// # Errors
/// [`crate::Error::Panicked`] when a part panics.
pub fn spread<T, F>(parts: usize, work: F, mut take: impl FnMut(T)) -> Result<()>
where
    T: Send + 'static,
    F: Fn(usize) -> T + Send + Sync + 'static,
{
    let crew = CREW.with_borrow(Option::clone);
    let _busy = crew.as_ref().map(Crew::busy);
    let job = Arc::new(Spread {
        parts,
        next: AtomicUsize::new(0),
        work,
        done: Mutex::default(),
        changed: Condvar::new(),
    });
    let mut taken = 0;
    while let Some(part) = job.take() {
        if part + 1 < parts
            && let Some(crew) = crew.as_ref().filter(|crew| crew.takes_place())
        {
            let (shared, place) = (Arc::clone(&job), crew.clone());
            // Without another thread, this one does it alone.
            if Pool::of_this_process().spawn(move || shared.help(&place)).is_err() {
                crew.leaves();
            }
        }
        job.run(part);
        // Results do not pile up.
        while let Some(result) = job.finished(taken) {
            take(result?);
            taken += 1;
        }
    }
    for part in taken..parts {
        take(job.wait(part)?);
    }
    Ok(())
}

/// A job in parts.
struct Spread<T, F> {
    parts: usize,
    next: AtomicUsize,
    work: F,
    done: Mutex<BTreeMap<usize, Result<T>>>,
    changed: Condvar,
}

impl<T, F: Fn(usize) -> T> Spread<T, F> {
    fn take(&self) -> Option<usize> {
        let part = self.next.fetch_add(1, Ordering::Relaxed);
        (part < self.parts).then_some(part)
    }

    fn run(&self, part: usize) {
        let result = caught(part, || (self.work)(part));
        self.lock().insert(part, result);
        self.changed.notify_all();
    }

    fn help(&self, crew: &Crew) {
        while !crew.is_crowded()
            && self.lock().len() < MOST_AHEAD
            && let Some(part) = self.take()
        {
            self.run(part);
        }
        crew.leaves();
    }

    fn finished(&self, part: usize) -> Option<Result<T>> {
        self.lock().remove(&part)
    }

    /// Waits for a part that another thread has taken.
    fn wait(&self, part: usize) -> Result<T> {
        let mut done = self.lock();
        loop {
            if let Some(result) = done.remove(&part) {
                return result;
            }
            done = self.changed.wait(done).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Result<T>>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cancel, Error, run_in_order};
    use std::ops::ControlFlow;
    use std::sync::Barrier;

    fn crew(threads: usize) -> Crew {
        Crew(Arc::new(Load { threads, busy: AtomicUsize::new(0) }))
    }

    fn results<T: Send + 'static>(
        parts: usize,
        work: impl Fn(usize) -> T + Send + Sync + 'static,
    ) -> Result<Vec<T>> {
        let mut all = Vec::new();
        spread(parts, work, |result| all.push(result)).map(|()| all)
    }

    #[test]
    fn thread_outside_of_a_run_does_all_parts_in_order() {
        let own = std::thread::current().id();
        assert_eq!(
            results(5, move |part| (part, std::thread::current().id() == own)).unwrap(),
            [0, 1, 2, 3, 4].map(|part| (part, true))
        );
        assert_eq!(results(0, |part| part).unwrap(), [0; 0]);
    }

    #[test]
    fn idle_thread_of_the_crew_helps() {
        let crew = crew(2);
        // Each pair of parts needs two threads at once.
        let both = Barrier::new(2);
        let meet = move |part: usize| {
            both.wait();
            part
        };
        assert_eq!(crew.with(|| crew.work(|| results(2, meet))).unwrap(), [0, 1]);
        while crew.0.busy.load(Ordering::Relaxed) > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn busy_crew_does_not_help() {
        let crew = crew(2);
        assert!(crew.takes_place(), "the second thread has work");
        let own = std::thread::current().id();
        let are_own = crew
            .with(|| crew.work(|| results(20, move |_| std::thread::current().id() == own)))
            .unwrap();
        assert!(are_own.into_iter().all(|is_own| is_own));
        assert!(
            crew.with(|| crew.work(|| resting(|| crew.takes_place()))),
            "one that waits leaves its place"
        );
    }

    #[test]
    fn thread_is_idle_while_fewer_parts_than_threads_are_at_work() {
        assert!(!has_idle_thread(), "outside of a run");
        let crew = crew(2);
        assert!(crew.with(|| crew.work(has_idle_thread)));
        assert!(crew.takes_place(), "the second thread has work");
        assert!(!crew.with(|| crew.work(has_idle_thread)));
    }

    #[test]
    fn panic_of_a_part_is_an_error() {
        let crew = crew(2);
        let outcome = crew.with(|| crew.work(|| results(3, |part| assert_ne!(part, 1))));
        assert!(matches!(outcome, Err(Error::Panicked { split: 1, .. })));
    }

    #[test]
    fn run_of_one_split_has_a_crew_of_its_threads() {
        let sizes =
            run_in_order(1, 2, &Cancel::default(), |_| ControlFlow::Continue(crew_size())).unwrap();
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        assert_eq!(sizes.map(|size| size.unwrap()).collect::<Vec<_>>(), [cores.min(2)]);
    }
}
