//! Progress of a pass, and where its time went. Reading it has no effect on the pass.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub struct Metrics {
    decode: Stage,
    assemble: Stage,
    finish: Stage,
    wait: Stage,
    running: Running,
}

/// Current activity of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    pub stage: &'static str,
    /// The block that is being decoded, by its index in the schedule.
    pub scheduled: Option<usize>,
    pub duration: Duration,
}

#[derive(Debug, Default)]
struct Running {
    number: AtomicU64,
    begun: Mutex<BTreeMap<u64, Start>>,
}

/// Stage, scheduled block, time.
type Start = (&'static str, Option<usize>, Instant);

/// Ends when it is dropped, including by a panic.
struct Begun<'a>(&'a Running, u64);

#[derive(Debug, Default)]
struct Stage {
    nanoseconds: AtomicU64,
    count: AtomicU64,
}

/// Seconds are summed over threads, except for those of the consumer.
#[derive(Debug, Clone, Copy, Default)]
pub struct MetricsReport {
    pub decode_seconds: f64,
    pub assemble_seconds: f64,
    pub convert_seconds: f64,
    /// How long the consumer has waited for batches.
    pub wait_seconds: f64,
    pub blocks_decoded: u64,
    pub superbatches: u64,
}

impl Metrics {
    pub(super) fn decoding<T>(&self, scheduled: usize, call: impl FnOnce() -> T) -> T {
        let _begun = self.running.begin("decode", Some(scheduled));
        self.decode.timed(call)
    }

    pub(super) fn assembling<T>(&self, call: impl FnOnce() -> T) -> T {
        let _begun = self.running.begin("assemble", None);
        self.assemble.timed(call)
    }

    pub(super) fn finishing<T>(&self, call: impl FnOnce() -> T) -> T {
        let _begun = self.running.begin("convert", None);
        self.finish.timed(call)
    }

    pub(super) fn waiting<T>(&self, call: impl FnOnce() -> T) -> T {
        self.wait.timed(call)
    }

    /// Current activities, the longest first.
    #[must_use]
    pub fn activities(&self) -> Vec<Activity> {
        let now = Instant::now();
        let activity = |(stage, scheduled, begun): &Start| Activity { stage, scheduled: *scheduled, duration: now - *begun };
        // Numbers increase with time.
        self.running.lock().values().map(activity).collect()
    }

    #[must_use]
    pub fn report(&self) -> MetricsReport {
        MetricsReport {
            decode_seconds: self.decode.seconds(),
            assemble_seconds: self.assemble.seconds(),
            convert_seconds: self.finish.seconds(),
            wait_seconds: self.wait.seconds(),
            blocks_decoded: self.decode.count.load(Ordering::Relaxed),
            superbatches: self.finish.count.load(Ordering::Relaxed),
        }
    }
}

impl Running {
    fn begin(&self, stage: &'static str, scheduled: Option<usize>) -> Begun<'_> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, (stage, scheduled, Instant::now()));
        Begun(self, number)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Start>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
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
