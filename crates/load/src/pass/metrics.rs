//! Progress of a pass, and where its time went. Reading it has no effect on the pass.

use crate::tokenize::{TokenTotals, totals_of};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
pub struct Metrics {
    decode: Stage,
    assemble: Stage,
    render: Stage,
    finish: Stage,
    wait: Stage,
    tokens: Tokens,
    running: Running,
}

/// What was tokenized in decoded blocks, as [`TokenTotals`].
#[derive(Debug, Default)]
struct Tokens {
    tokens: AtomicU64,
    text_bytes: AtomicU64,
    nanoseconds: AtomicU64,
    rows_without_labels: AtomicU64,
    special_in_text: AtomicU64,
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
    /// Images: decoding, resizing, normalizing.
    pub render_seconds: f64,
    pub convert_seconds: f64,
    /// How long the consumer has waited for batches.
    pub wait_seconds: f64,
    pub blocks_decoded: u64,
    pub superbatches: u64,
    /// What was tokenized in decoded blocks.
    pub tokens: u64,
    pub text_bytes: u64,
    pub tokenize_seconds: f64,
    pub rows_without_labels: u64,
    pub special_in_text: u64,
}

impl Metrics {
    pub(super) fn decoding<T>(&self, scheduled: usize, call: impl FnOnce() -> T) -> T {
        let _begun = self.running.begin("decode", Some(scheduled));
        let (result, totals) = totals_of(|| self.decode.timed(call));
        self.tokens.add(totals);
        result
    }

    pub(super) fn assembling<T>(&self, call: impl FnOnce() -> T) -> T {
        let _begun = self.running.begin("assemble", None);
        self.assemble.timed(call)
    }

    pub(super) fn rendering<T>(&self, call: impl FnOnce() -> T) -> T {
        let _begun = self.running.begin("render", None);
        self.render.timed(call)
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
            render_seconds: self.render.seconds(),
            convert_seconds: self.finish.seconds(),
            wait_seconds: self.wait.seconds(),
            blocks_decoded: self.decode.count.load(Ordering::Relaxed),
            superbatches: self.finish.count.load(Ordering::Relaxed),
            tokens: self.tokens.tokens.load(Ordering::Relaxed),
            text_bytes: self.tokens.text_bytes.load(Ordering::Relaxed),
            tokenize_seconds: seconds(&self.tokens.nanoseconds),
            rows_without_labels: self.tokens.rows_without_labels.load(Ordering::Relaxed),
            special_in_text: self.tokens.special_in_text.load(Ordering::Relaxed),
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

    fn seconds(&self) -> f64 {
        seconds(&self.nanoseconds)
    }
}

impl Tokens {
    fn add(&self, totals: TokenTotals) {
        if totals == TokenTotals::default() {
            return;
        }
        let TokenTotals { tokens, text_bytes, nanoseconds, rows_without_labels, special_in_text } = totals;
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
        self.text_bytes.fetch_add(text_bytes, Ordering::Relaxed);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.rows_without_labels.fetch_add(rows_without_labels, Ordering::Relaxed);
        self.special_in_text.fetch_add(special_in_text, Ordering::Relaxed);
    }
}

#[expect(clippy::cast_precision_loss, reason = "seconds for people")]
fn seconds(nanoseconds: &AtomicU64) -> f64 {
    nanoseconds.load(Ordering::Relaxed) as f64 / 1e9
}
