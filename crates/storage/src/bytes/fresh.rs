//! Reads that bypass all caches.
//!
//! Bytes can be damaged in transit or on the disk that caches them. Only their decoder notices; it
//! then repeats the read from the store, and the cached bytes are replaced.

use std::cell::Cell;

thread_local! {
    static IS_WANTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; its reads of remote objects on this thread bypass all caches.
pub fn with_fresh_bytes<T>(work: impl FnOnce() -> T) -> T {
    let _back = Back(IS_WANTED.replace(true));
    work()
}

/// Whether this thread bypasses caches.
pub(crate) fn is_wanted() -> bool {
    IS_WANTED.get()
}

struct Back(bool);

impl Drop for Back {
    fn drop(&mut self) {
        IS_WANTED.set(self.0);
    }
}
