//! What a pass has done so far, and where its time went. Reading it disturbs nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[derive(Debug, Default)]
pub struct Metrics {
    decode: Stage,
    assemble: Stage,
    finish: Stage,
    wait: Stage,
}

#[derive(Debug, Default)]
struct Stage {
    nanoseconds: AtomicU64,
    count: AtomicU64,
}

/// Seconds are summed over threads, apart from those of the consumer.
#[derive(Debug, Clone, Copy, Default)]
pub struct MetricsReport {
    pub decode_seconds: f64,
    pub assemble_seconds: f64,
    pub convert_seconds: f64,
    /// How long the consumer has waited for batches.
    pub wait_seconds: f64,
    pub blocks_decoded: u64,
    pub slabs: u64,
}

impl Metrics {
    pub(super) fn decoding<T>(&self, call: impl FnOnce() -> T) -> T {
        self.decode.timed(call)
    }

    pub(super) fn assembling<T>(&self, call: impl FnOnce() -> T) -> T {
        self.assemble.timed(call)
    }

    pub(super) fn finishing<T>(&self, call: impl FnOnce() -> T) -> T {
        self.finish.timed(call)
    }

    pub(super) fn waiting<T>(&self, call: impl FnOnce() -> T) -> T {
        self.wait.timed(call)
    }

    #[must_use]
    pub fn report(&self) -> MetricsReport {
        MetricsReport {
            decode_seconds: self.decode.seconds(),
            assemble_seconds: self.assemble.seconds(),
            convert_seconds: self.finish.seconds(),
            wait_seconds: self.wait.seconds(),
            blocks_decoded: self.decode.count.load(Ordering::Relaxed),
            slabs: self.finish.count.load(Ordering::Relaxed),
        }
    }
}

impl Stage {
    fn timed<T>(&self, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = call();
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
        result
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds for people")]
    fn seconds(&self) -> f64 {
        self.nanoseconds.load(Ordering::Relaxed) as f64 / 1e9
    }
}
