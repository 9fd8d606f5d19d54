//! Interruptible waits.
//!
//! A thread that runs the user's program receives no signal while it waits for a store. Its caller
//! supplies a check for pending signals, and every wait of that thread polls it. After a signal,
//! only clean-up is waited for, and not for long.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

/// How long a signal may go unnoticed.
const POLL: Duration = Duration::from_millis(50);
/// For each request of an interrupted thread.
const GRACE: Duration = Duration::from_millis(300);
/// For this long after a signal, everything counts as clean-up.
const HURRY: Duration = Duration::from_secs(5);

thread_local! {
    static CHECK: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
    static HURRIED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs `work`; its waits poll `is_interrupted`, and end with an error when it returns true.
pub fn with_interrupts<T>(is_interrupted: fn() -> bool, work: impl FnOnce() -> T) -> T {
    HURRIED.set(None);
    let _back = Back(CHECK.replace(Some(is_interrupted)));
    work()
}

/// Marks this thread as cleaning up from now on.
pub fn hurry() {
    HURRIED.set(Some(Instant::now()));
}

struct Back(Option<fn() -> bool>);

impl Drop for Back {
    fn drop(&mut self) {
        CHECK.set(self.0);
    }
}

pub(crate) fn is_interrupted() -> bool {
    let is_interrupted = is_hurried() || CHECK.get().is_some_and(|check| check());
    if is_interrupted && !is_hurried() {
        hurry();
    }
    is_interrupted
}

fn is_hurried() -> bool {
    HURRIED.get().is_some_and(|since| since.elapsed() < HURRY)
}

/// The output of `future`, unless this thread is interrupted first.
///
/// # Errors
/// When this thread is interrupted.
pub(crate) async fn unless_interrupted<F: Future>(future: F) -> io::Result<F::Output> {
    // Not `ErrorKind::Interrupted`: callers repeat such a system call.
    let interrupted = || io::Error::other("interrupted");
    if is_hurried() {
        return tokio::time::timeout(GRACE, future).await.map_err(|_late| {
            // Further clean-up may hang in the same place.
            hurry();
            interrupted()
        });
    }
    if CHECK.get().is_none() {
        return Ok(future.await);
    }
    let mut future = pin!(future);
    loop {
        match tokio::time::timeout(POLL, &mut future).await {
            Ok(output) => return Ok(output),
            Err(_late) if is_interrupted() => return Err(interrupted()),
            Err(_late) => {}
        }
    }
}

/// Waits in pieces, each of which is given its maximal duration. `None` when this thread is
/// interrupted before a piece returns a value.
pub fn wait_in_pieces<T>(mut piece: impl FnMut(Duration) -> Option<T>) -> Option<T> {
    if is_hurried() {
        let found = piece(GRACE);
        if found.is_none() {
            // Further clean-up may hang in the same place.
            hurry();
        }
        return found;
    }
    loop {
        let found = piece(POLL);
        if found.is_some() || is_interrupted() {
            return found;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_in_pieces_ends_with_what_was_found_or_with_an_interrupt() {
        HURRIED.set(None);
        let mut pieces = 0;
        let third = |_| {
            pieces += 1;
            (pieces == 3).then_some(7)
        };
        assert_eq!(wait_in_pieces(third), Some(7));
        let nothing = |_| None::<()>;
        with_interrupts(
            || true,
            || assert!(wait_in_pieces(nothing).is_none() && wait_in_pieces(nothing).is_none()),
        );
        HURRIED.set(None);
    }

    #[tokio::test]
    async fn wait_ends_by_itself_or_by_an_interrupt_and_cleaning_up_is_short() {
        let forever = std::future::pending::<()>;
        HURRIED.set(None);
        assert_eq!(unless_interrupted(async { 7 }).await.unwrap(), 7);
        CHECK.set(Some(|| true));
        assert!(unless_interrupted(forever()).await.is_err());
        let begun = Instant::now();
        assert!(
            unless_interrupted(forever()).await.is_err()
                && begun.elapsed() < Duration::from_secs(2)
        );
        assert_eq!(unless_interrupted(async { 7 }).await.unwrap(), 7);
        CHECK.set(None);
        with_interrupts(
            || false,
            || assert!(!is_interrupted(), "a new operation starts without an interrupt"),
        );
    }
}
