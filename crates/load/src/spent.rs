//! Time of a thread that its current work did not use itself: it read from storage, or waited for a core.
//!
//! Sums of the thread, so that a read costs no atomic operation and belongs to the pass that asked for it, also if others read the data set.

use std::cell::Cell;
use std::time::Instant;

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
