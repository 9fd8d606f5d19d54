//! Limits the decompressed size of files.
//!
//! With compression and run lengths, a file of a few bytes can claim any size. A reader checks
//! claimed sizes against its [`DecodeLimit`] before it allocates memory, so that such a file is an
//! error and does not end the process.

use std::sync::atomic::{AtomicU64, Ordering};

/// 1 GiB.
const DEFAULT_BYTES: u64 = 1 << 30;

/// Data with a higher compression ratio must stay below the limit.
const PLAUSIBLE_RATIO: u64 = 64;

static DEFAULT: AtomicU64 = AtomicU64::new(DEFAULT_BYTES);

/// Maximal size in memory of one value, line, page, chunk or member.
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

    /// Sets the default limit of this process.
    pub fn set_default(bytes: u64) {
        DEFAULT.store(bytes, Ordering::Relaxed);
    }

    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0
    }

    /// The maximal size in memory of a part of a file that has `stored` bytes there: above the
    /// limit only if the stored size makes it plausible.
    #[must_use]
    pub fn of_stored(self, stored: u64) -> u64 {
        self.0.max(stored.saturating_mul(PLAUSIBLE_RATIO))
    }

    /// # Errors
    /// When `stated` bytes exceed the limit. `place` is the position in the file for the message,
    /// `what` the subject.
    pub fn check(
        self,
        path: &str,
        stated: u64,
        what: &'static str,
        place: impl FnOnce() -> String,
    ) -> Result<(), TooLarge> {
        if stated <= self.0 {
            return Ok(());
        }
        Err(TooLarge { path: path.to_owned(), place: place(), what, stated, limit: self.0 })
    }
}

/// A size above the limit.
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
    pub const HINT: &'static str =
        "raise max_decoded_bytes (--max-decoded-bytes of the commands) if the file is trusted";
}
