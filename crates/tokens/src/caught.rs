//! Converts panics of the engine to errors.
//!
//! The invariant: a panic inside of [`caught`] is seen only by its caller. The panic hook of the
//! process calls [`is_caught`], so that nothing is printed.

use crate::error::{Error, Result};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// # Errors
/// Those of `call`, and [`Error::Panicked`] when it panics.
pub(crate) fn caught<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    DEPTH.set(DEPTH.get() + 1);
    let outcome = catch_unwind(AssertUnwindSafe(call));
    DEPTH.set(DEPTH.get() - 1);
    outcome.unwrap_or_else(|payload| Err(Error::Panicked { message: message(payload.as_ref()) }))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("without a message").to_owned()
}

/// Whether a panic of this thread would currently be converted to an error.
#[must_use]
pub fn is_caught() -> bool {
    DEPTH.try_with(Cell::get).is_ok_and(|depth| depth > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_an_error_with_its_message() {
        let outcome: Result<()> = caught(|| panic!("index {} is out of range", 3));
        assert!(matches!(
            outcome,
            Err(Error::Panicked { message }) if message == "index 3 is out of range"
        ));
        assert!(!is_caught());
    }
}
