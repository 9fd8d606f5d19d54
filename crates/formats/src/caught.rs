//! Converts panics of decoders to errors.
//!
//! Decoders of other crates have paths that panic on damaged data. The invariant: a panic inside of
//! [`caught`] is seen only by its caller. The panic hook of the process calls [`is_caught`], so
//! that nothing is printed.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The decoder panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panicked;

/// # Errors
/// When `call` panics.
pub fn caught<T>(call: impl FnOnce() -> T) -> Result<T, Panicked> {
    DEPTH.set(DEPTH.get() + 1);
    let outcome = catch_unwind(AssertUnwindSafe(call));
    DEPTH.set(DEPTH.get() - 1);
    outcome.map_err(|_payload| Panicked)
}

/// Whether a panic of this thread would currently be converted to an error by [`caught`].
#[must_use]
pub fn is_caught() -> bool {
    DEPTH.try_with(Cell::get).is_ok_and(|depth| depth > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_ends_with_the_call_also_when_that_panics() {
        let nested = caught(|| {
            let inner: Result<(), Panicked> = caught(|| panic!("inner"));
            (inner, is_caught())
        });
        assert_eq!(nested, Ok((Err(Panicked), true)));
        assert_eq!(caught(|| panic!("outer")), Err::<(), _>(Panicked));
        assert!(!is_caught());
        assert!(
            caught(|| std::thread::spawn(is_caught).join().unwrap())
                .is_ok_and(|is_caught| !is_caught)
        );
    }
}
