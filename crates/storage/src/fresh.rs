//! Reading past everything that keeps bytes.
//!
//! Bytes can be damaged on their way or on the disk that keeps them. Only whoever decodes them notices; the same read then asks the store again, and what is
//! kept is replaced.

use std::cell::Cell;

thread_local! {
    static IS_WANTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; what it reads of remote objects on this thread comes from their store.
pub fn with_fresh_bytes<T>(work: impl FnOnce() -> T) -> T {
    let _back = Back(IS_WANTED.replace(true));
    work()
}

/// Whether this thread wants nothing that was kept.
pub(crate) fn is_wanted() -> bool {
    IS_WANTED.get()
}

struct Back(bool);

impl Drop for Back {
    fn drop(&mut self) {
        IS_WANTED.set(self.0);
    }
}
