//! Waits of a thread that somebody may want back.
//!
//! A thread that runs the user's program hears no signal while it waits for a store. Who calls from there says how to look for one, and every wait of that
//! thread looks now and then. Behind a signal only what must be cleaned up is waited for, and not for long.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::{Duration, Instant};

/// How long a signal may go unnoticed.
const POLL: Duration = Duration::from_millis(50);
/// For each request of a thread that wants to go.
const GRACE: Duration = Duration::from_millis(300);
/// So long after a signal everything is cleaning up.
const HURRY: Duration = Duration::from_secs(5);

thread_local! {
    static CHECK: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
    static HURRIED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Runs `work`; `is_interrupted` is asked while it waits, and ends the wait with an error.
pub fn with_interrupts<T>(is_interrupted: fn() -> bool, work: impl FnOnce() -> T) -> T {
    HURRIED.set(None);
    let _back = Back(CHECK.replace(Some(is_interrupted)));
    work()
}

/// From now on, this thread cleans up.
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

/// What `future` gives, unless this thread is wanted before.
///
/// # Errors
/// When it is.
pub(crate) async fn unless_interrupted<F: Future>(future: F) -> io::Result<F::Output> {
    // Nobody may take this for a call of the system that is to be repeated.
    let interrupted = || io::Error::other("interrupted");
    if is_hurried() {
        return tokio::time::timeout(GRACE, future).await.map_err(|_late| interrupted());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wait_ends_by_itself_or_by_an_interrupt_and_cleaning_up_is_short() {
        let forever = std::future::pending::<()>;
        HURRIED.set(None);
        assert_eq!(unless_interrupted(async { 7 }).await.unwrap(), 7);
        CHECK.set(Some(|| true));
        assert!(unless_interrupted(forever()).await.is_err());
        let begun = Instant::now();
        assert!(unless_interrupted(forever()).await.is_err() && begun.elapsed() < Duration::from_secs(2));
        assert_eq!(unless_interrupted(async { 7 }).await.unwrap(), 7);
        CHECK.set(None);
        with_interrupts(|| false, || assert!(!is_interrupted(), "another operation begins anew"));
    }
}
