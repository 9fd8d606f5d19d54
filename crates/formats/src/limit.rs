//! How much a file may unpack to.
//!
//! Compression and run lengths let a file of some bytes state any size. A reader compares what a file states with its [`DecodeLimit`] before it takes
//! memory, so that such a file is an error and not the end of the process.

use std::sync::atomic::{AtomicU64, Ordering};

/// 1 GiB.
const DEFAULT_BYTES: u64 = 1 << 30;

/// Data that is compressed better than this has to stay below the limit.
const PLAUSIBLE_RATIO: u64 = 64;

static DEFAULT: AtomicU64 = AtomicU64::new(DEFAULT_BYTES);

/// The most bytes that one value, line, page, chunk or member may have in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DecodeLimit(u64);

impl Default for DecodeLimit {
    fn default() -> Self {
        Self(DEFAULT.load(Ordering::Relaxed))
    }
}

impl DecodeLimit {
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The limit where none is given, from now on, in this process.
    pub fn set_default(bytes: u64) {
        DEFAULT.store(bytes, Ordering::Relaxed);
    }

    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0
    }

    /// What may be in memory at once of a part of a file that takes `stored` bytes there: more than the limit only where the bytes that are there make it
    /// likely.
    #[must_use]
    pub fn of_stored(self, stored: u64) -> u64 {
        self.0.max(stored.saturating_mul(PLAUSIBLE_RATIO))
    }

    /// # Errors
    /// When `stated` bytes are more than may be read. `place` says where in the file they are stated, `what` has so many bytes.
    pub fn check(self, path: &str, stated: u64, what: &'static str, place: impl FnOnce() -> String) -> Result<(), TooLarge> {
        if stated <= self.0 {
            return Ok(());
        }
        Err(TooLarge { path: path.to_owned(), place: place(), what, stated, limit: self.0 })
    }
}

/// A size beyond the limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}`, {place}: {what} {stated} bytes, max_decoded_bytes is {limit}")]
pub struct TooLarge {
    pub path: String,
    /// Line, row group or offset.
    pub place: String,
    pub what: &'static str,
    pub stated: u64,
    pub limit: u64,
}

impl TooLarge {
    pub const HINT: &'static str = "raise max_decoded_bytes (--max-decoded-bytes of the commands) if the file is trusted";
}
