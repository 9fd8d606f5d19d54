//! Time of a thread that its current work did not use itself: it read from storage,
//! or waited for a core.
//!
//! Sums of the thread, so that a read costs no atomic operation and belongs to the pass that asked
//! for it, also if others read the data set.

use std::cell::Cell;
use std::time::Instant;

/// Measures what a thread computes: not longer than it has run on a core, where the system tells.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    start: Instant,
    on_core: Option<u64>,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), on_core: nanoseconds_on_core() }
    }

    /// Nanoseconds.
    pub(crate) fn elapsed(&self) -> u64 {
        self.elapsed_without(0, 0)
    }

    /// Nanoseconds, without `elsewhere`, in which the thread did not compute, and without `apart`,
    /// which counts for something else.
    pub(crate) fn elapsed_without(&self, elsewhere: u64, apart: u64) -> u64 {
        let elapsed = since(self.start).saturating_sub(elsewhere);
        let on_core =
            nanoseconds_on_core().zip(self.on_core).map(|(now, start)| now.saturating_sub(start));
        on_core.map_or(elapsed, |on_core| elapsed.min(on_core)).saturating_sub(apart)
    }
}

/// Of the calling thread.
#[cfg(unix)]
fn nanoseconds_on_core() -> Option<u64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Some(u64::try_from(time.tv_sec).ok()? * 1_000_000_000 + u64::try_from(time.tv_nsec).ok()?)
}

#[cfg(not(unix))]
fn nanoseconds_on_core() -> Option<u64> {
    None
}

/// Sums, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// In reads from storage.
    pub(crate) reading: u64,
    /// In waits for a core, which other threads of the pass were using.
    pub(crate) queued: u64,
}

thread_local! {
    static SPENT: Cell<Spent> = const { Cell::new(Spent { reading: 0, queued: 0 }) };
}

/// Runs `read`. Waits for a core in it do not count as reading.
pub(crate) fn reading<T>(read: impl FnOnce() -> T) -> T {
    let (before, start) = (SPENT.get(), Instant::now());
    let result = read();
    let (after, elapsed) = (SPENT.get(), since(start));
    let inner = (after.queued - before.queued) + (after.reading - before.reading);
    SPENT.set(Spent { reading: after.reading + elapsed.saturating_sub(inner), ..after });
    result
}

/// Runs `wait`, a wait for a core.
pub(crate) fn queued<T>(wait: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = wait();
    let sums = SPENT.get();
    SPENT.set(Spent { queued: sums.queued + since(start), ..sums });
    result
}

/// Runs `call`, and returns what this thread has spent in it.
pub(crate) fn spent_in<T>(call: impl FnOnce() -> T) -> (T, Spent) {
    let before = SPENT.take();
    let result = call();
    (result, SPENT.replace(before))
}

pub(crate) fn since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn time_without_a_core_is_not_computing() {
        let watch = Stopwatch::start();
        std::thread::sleep(Duration::from_millis(20));
        let slept = watch.elapsed();
        assert!(!cfg!(unix) || slept < 10_000_000, "{slept}");
        assert_eq!(watch.elapsed_without(u64::MAX, 0), 0);
        assert_eq!(watch.elapsed_without(0, u64::MAX), 0);
    }

    #[test]
    fn wait_for_a_core_within_a_read_is_not_reading() {
        const WAIT: Duration = Duration::from_millis(20);
        let start = Instant::now();
        let ((), spent) = spent_in(|| {
            reading(|| {
                std::thread::sleep(WAIT);
                queued(|| std::thread::sleep(WAIT));
            });
        });
        let (elapsed, least) = (since(start), u64::try_from(WAIT.as_nanos()).unwrap());
        assert!(spent.reading >= least && spent.queued >= least);
        assert!(spent.reading + spent.queued <= elapsed);
        assert_eq!(spent_in(|| ()).1, Spent::default());
    }
}
