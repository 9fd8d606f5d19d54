//! Progress of a pass, and where its time went. Reading it has no effect on the pass.

use crate::spent::{Stopwatch, since, spent_in};
use crate::tokenize::{TokenTotals, totals_of};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What threads do for a batch. No moment of a thread counts for two stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Plan,
    /// Reads from storage.
    Fetch,
    Decode,
    Tokenize,
    Assemble,
    /// Images: decoding, resizing, normalizing.
    Render,
    Convert,
}

/// Seconds by stage, summed over threads.
pub type Stages = [(Stage, f64); Stage::ALL.len()];

impl Stage {
    pub const ALL: [Self; 7] = [
        Self::Plan,
        Self::Fetch,
        Self::Decode,
        Self::Tokenize,
        Self::Assemble,
        Self::Render,
        Self::Convert,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Fetch => "fetch",
            Self::Decode => "decode",
            Self::Tokenize => "tokenize",
            Self::Assemble => "assemble",
            Self::Render => "render",
            Self::Convert => "convert",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Metrics {
    plan: AtomicU64,
    fetch: AtomicU64,
    decode: AtomicU64,
    assemble: AtomicU64,
    render: AtomicU64,
    convert: AtomicU64,
    wait: AtomicU64,
    without_room: AtomicU64,
    blocks_decoded: AtomicU64,
    superbatches: AtomicU64,
    delivered: AtomicU64,
    images_decoded: AtomicU64,
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
    images_left_out: AtomicU64,
}

/// Current activity of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    pub stage: &'static str,
    /// The block that is being decoded: path and number.
    pub block: Option<(String, usize)>,
    pub duration: Duration,
}

#[derive(Debug, Default)]
struct Running {
    number: AtomicU64,
    begun: Mutex<BTreeMap<u64, Start>>,
}

/// Stage, scheduled block, time.
pub(super) type Start = (&'static str, Option<usize>, Instant);

/// Ends when it is dropped, including by a panic.
struct Begun<'a>(&'a Running, u64);

#[derive(Debug, Clone, Copy)]
pub struct MetricsReport {
    pub stages: Stages,
    /// How long the consumer has waited for superbatches.
    pub wait_seconds: f64,
    /// How long no superbatch could be planned, because those ahead of the consumer
    /// filled the memory.
    pub without_room_seconds: f64,
    pub blocks_decoded: u64,
    pub superbatches: u64,
    /// Finished, and not delivered yet.
    pub superbatches_ready: u64,
    /// Planned, and not delivered yet.
    pub superbatches_ahead: usize,
    /// Memory of those, with the decoded blocks that they need.
    pub bytes_ahead: u64,
    pub bytes_limit: u64,
    /// What was tokenized in decoded blocks.
    pub tokens: u64,
    pub text_bytes: u64,
    pub rows_without_labels: u64,
    pub special_in_text: u64,
    pub images_left_out: u64,
    pub images_decoded: u64,
}

impl Metrics {
    pub(super) fn add_images(&self, decoded: u64) {
        self.images_decoded.fetch_add(decoded, Ordering::Relaxed);
    }

    pub(super) fn decoding<T>(&self, scheduled: usize, call: impl FnOnce() -> T) -> T {
        let _begun = self.running.begin(Stage::Decode.name(), Some(scheduled));
        let result = self.spent(&self.decode, call);
        self.blocks_decoded.fetch_add(1, Ordering::Relaxed);
        result
    }

    pub(super) fn timed<T>(&self, stage: Stage, call: impl FnOnce() -> T) -> T {
        let _begun = self.running.begin(stage.name(), None);
        self.spent(self.nanoseconds(stage), call)
    }

    /// The last stage: what it returns is a superbatch that is ready, or an error.
    pub(super) fn converting<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let result = self.timed(Stage::Convert, call);
        self.superbatches.fetch_add(u64::from(result.is_ok()), Ordering::Relaxed);
        result
    }

    /// A part of a stage, on another thread than the one that runs the stage.
    pub(super) fn elsewhere<T>(&self, stage: Stage, call: impl FnOnce() -> T) -> T {
        let watch = Stopwatch::start();
        let result = call();
        self.nanoseconds(stage).fetch_add(watch.elapsed(), Ordering::Relaxed);
        result
    }

    pub(super) fn waiting<T>(&self, call: impl FnOnce() -> T) -> T {
        timed(&self.wait, call)
    }

    pub(super) fn without_room<T>(&self, call: impl FnOnce() -> T) -> T {
        timed(&self.without_room, call)
    }

    pub(super) fn delivered(&self) {
        self.delivered.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs a stage. Reads and tokenization in it count for their own stages,
    /// waits for a core for none.
    fn spent<T>(&self, stage: &AtomicU64, call: impl FnOnce() -> T) -> T {
        let watch = Stopwatch::start();
        let ((result, tokens), spent) = spent_in(|| totals_of(call));
        let computed = watch.elapsed_without(
            spent.reading + spent.queued,
            tokens.nanoseconds.saturating_sub(tokens.elsewhere),
        );
        stage.fetch_add(computed, Ordering::Relaxed);
        self.fetch.fetch_add(spent.reading, Ordering::Relaxed);
        self.tokens.add(tokens);
        result
    }

    fn nanoseconds(&self, stage: Stage) -> &AtomicU64 {
        match stage {
            Stage::Plan => &self.plan,
            Stage::Fetch => &self.fetch,
            Stage::Decode => &self.decode,
            Stage::Tokenize => &self.tokens.nanoseconds,
            Stage::Assemble => &self.assemble,
            Stage::Render => &self.render,
            Stage::Convert => &self.convert,
        }
    }

    /// Current activities, the longest first.
    pub(super) fn activities(&self) -> Vec<Start> {
        // Numbers increase with time.
        self.running.lock().values().copied().collect()
    }

    /// Without what [`Blocks`](super::blocks::Blocks) knows.
    pub(super) fn report(&self) -> MetricsReport {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let delivered = count(&self.delivered);
        MetricsReport {
            stages: Stage::ALL.map(|stage| (stage, seconds(self.nanoseconds(stage)))),
            wait_seconds: seconds(&self.wait),
            without_room_seconds: seconds(&self.without_room),
            blocks_decoded: count(&self.blocks_decoded),
            superbatches: count(&self.superbatches),
            superbatches_ready: count(&self.superbatches).saturating_sub(delivered),
            superbatches_ahead: 0,
            bytes_ahead: 0,
            bytes_limit: 0,
            tokens: count(&self.tokens.tokens),
            text_bytes: count(&self.tokens.text_bytes),
            rows_without_labels: count(&self.tokens.rows_without_labels),
            special_in_text: count(&self.tokens.special_in_text),
            images_left_out: count(&self.tokens.images_left_out),
            images_decoded: count(&self.images_decoded),
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

impl Tokens {
    fn add(&self, totals: TokenTotals) {
        if totals == TokenTotals::default() {
            return;
        }
        let TokenTotals {
            tokens,
            text_bytes,
            nanoseconds,
            elsewhere: _,
            rows_without_labels,
            special_in_text,
            images_left_out,
        } = totals;
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
        self.text_bytes.fetch_add(text_bytes, Ordering::Relaxed);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.rows_without_labels.fetch_add(rows_without_labels, Ordering::Relaxed);
        self.special_in_text.fetch_add(special_in_text, Ordering::Relaxed);
        self.images_left_out.fetch_add(images_left_out, Ordering::Relaxed);
    }
}

fn timed<T>(nanoseconds: &AtomicU64, call: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = call();
    nanoseconds.fetch_add(since(start), Ordering::Relaxed);
    result
}

#[expect(clippy::cast_precision_loss, reason = "seconds for people")]
fn seconds(nanoseconds: &AtomicU64) -> f64 {
    nanoseconds.load(Ordering::Relaxed) as f64 / 1e9
}
