//! One iteration of one rank: from a position of an epoch to its end, batch by batch.
//!
//! ```text
//! steps --Planner--> superbatches --Blocks--> decoded blocks
//!     --assemble--> rows --finish--> what the consumer gets
//! ```
//!
//! Threads take superbatches in order, decode blocks that no other thread has started, assemble the
//! rows and finish them (casts, tensors) without the consumer.

mod assemble;
mod audit;
mod bad_rows;
mod blocks;
mod cores;
mod dealt;
mod delivered;
mod gather;
mod metrics;
mod progress;
mod render;
mod render_packs;
mod superbatches;
#[cfg(test)]
mod tests;
mod work;

pub use audit::{Audit, AuditIds, expected as expected_audit};
pub use bad_rows::{BadRow, BadRowPolicy, OnBadRows};
use metrics::Metrics;
pub use metrics::{Activity, MetricsReport, Stage, Stages};
pub use progress::Progress;
pub use superbatches::BatchRows;

use crate::images::HostMemory;
use crate::packing::{PackSource, Packs};
use crate::{Dataset, Error, Result, RowSet};
use arrow_array::RecordBatch;
use blocks::Blocks;
use cores::Cores;
use dealt::Dealt;
use progress::Places;
use shardmill_engine::{Cancel, Poll, Stream, stream_in_order};
use shardmill_plan::order::{RowOrder, Steps};
use shardmill_plan::packing::CostTerms;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use superbatches::{Planner, SuperbatchPlan, row_bytes};
use work::{Job, Work};

/// Size of superbatches assembled from ranges: large compared to the cost of a superbatch, small
/// compared to the memory of a machine.
const SUPERBATCH_BYTES: u64 = 16 << 20;

/// Superbatches of rows of a shuffle window are larger, because each one reads all blocks of its
/// window again. Packs cost more than that.
const SHUFFLED_SUPERBATCH_BYTES: u64 = 32 << 20;

/// With few rows, superbatches are smaller, so that each thread gets some of them.
const SUPERBATCHES_OF_A_THREAD: u64 = 4;

/// Smaller superbatches are not worth their cost.
const LEAST_SUPERBATCH_BYTES: u64 = 2 << 20;

/// Limit regardless of the width of rows.
const MAX_SUPERBATCH_ROWS: u64 = 1 << 20;

/// Which rows to deliver, and in what order.
#[derive(Debug, Clone)]
pub struct PassOptions {
    pub order: Arc<RowOrder>,
    pub steps: Steps,
    pub rank: u64,
    /// Rows of the epoch that all ranks have already delivered.
    pub consumed: u64,
    /// This rank takes the step at `consumed`, and every `stride`-th step after it; the others
    /// belong to other consumers.
    pub stride: u64,
    /// Indices of the delivered columns.
    pub columns: Vec<usize>,
    /// Bytes of the delivered form of each row, if it is larger than the row: padding counts
    /// towards the size of superbatches.
    pub least_row_bytes: u64,
    pub threads: usize,
    pub prefetch_bytes: u64,
    pub bad_rows: BadRowPolicy,
    pub is_audited: bool,
    /// Where the pixels of images are put.
    pub memory: Option<Arc<dyn HostMemory>>,
    /// Steps and batches then consist of packs.
    pub packs: Option<Packs>,
}

/// Batches on their way to the consumer.
#[derive(Debug)]
pub struct Pass<T> {
    stream: Stream<Made<T>>,
    /// Finished but not yet handed out, each with its size.
    ready: VecDeque<(u64, Superbatch<T>)>,
    /// Follows the ready batches, and ends the pass.
    failure: Option<Error>,
    blocks: Arc<Blocks>,
    metrics: Arc<Metrics>,
    places: Places,
    packs: Option<Packs>,
    cancel: Cancel,
}

/// The result of one job.
#[derive(Debug)]
struct Made<T> {
    superbatches: Vec<(u64, Superbatch<T>)>,
    /// Of the batch after the last of `superbatches`.
    failure: Option<Error>,
}

/// Consecutive batches in one piece.
#[derive(Debug)]
pub struct Superbatch<T> {
    pub batches: Vec<BatchRows>,
    pub content: T,
    /// Rows that could not be decoded, each with the number of its batch.
    pub bad_rows: Vec<(usize, BadRow)>,
    /// For each batch, if requested.
    pub audits: Vec<Audit>,
    /// For each batch, if packs are balanced.
    pub terms: Vec<CostTerms>,
}

impl<T: Send + 'static> Pass<T> {
    /// Starts the threads. `finish` converts the rows of a superbatch for the consumer.
    ///
    /// # Errors
    /// When the system provides no threads.
    pub fn start(
        dataset: &Arc<Dataset>,
        rows: &Arc<RowSet>,
        options: PassOptions,
        cancel: &Cancel,
        finish: impl Fn(RecordBatch, &[BatchRows]) -> Result<T> + Send + Sync + 'static,
    ) -> Result<Self> {
        let packs = options.packs;
        let pixels = dataset.pixel_bytes(&options.columns);
        let of_rows =
            || row_bytes(dataset, rows, &options.order, &options.columns).saturating_add(pixels);
        let row_bytes = match &packs {
            Some(packs) => packs.bytes_of_one(of_rows, options.order.num_rows()),
            None => of_rows(),
        }
        .max(options.least_row_bytes);
        let most_bytes = if options.order.is_scattered() && packs.is_none() {
            SHUFFLED_SUPERBATCH_BYTES
        } else {
            SUPERBATCH_BYTES
        };
        let places_of_rank = options.steps.lanes.num_rows()
            / options.steps.world_size.max(1)
            / options.stride.max(1);
        let superbatches = SUPERBATCHES_OF_A_THREAD.saturating_mul(options.threads.max(1) as u64);
        let superbatch_bytes = (places_of_rank.saturating_mul(row_bytes) / superbatches)
            .max(LEAST_SUPERBATCH_BYTES)
            .min(most_bytes);
        let superbatch_rows = (superbatch_bytes / row_bytes.max(1)).clamp(1, MAX_SUPERBATCH_ROWS);
        if let Some(packs) = &packs {
            packs.keep_windows(options.steps.lanes_of(options.rank));
        }
        let mut planner = Planner::new(
            Arc::clone(&options.order),
            options.steps,
            options.rank,
            options.consumed,
            options.stride,
            superbatch_rows,
        );
        if pixels > 0 {
            planner = planner.by_size();
        }
        let patch_bytes = packs.as_ref().map_or(0, Packs::patch_bytes);
        if let Some(packs) = &packs {
            planner = planner.of_packs(Dealt::of(&packs.source, cancel));
        }
        planner = planner.with_patches(superbatch_bytes.checked_div(patch_bytes));
        let blocks = Arc::new(Blocks::new(options.prefetch_bytes));
        let metrics = Arc::new(Metrics::default());
        let places = Places {
            dataset: Arc::clone(dataset),
            rows: Arc::clone(rows),
            order: Arc::clone(&options.order),
        };
        let work = Work {
            dataset: Arc::clone(dataset),
            rows: Arc::clone(rows),
            order: options.order,
            schema: dataset.view_schema(&options.columns),
            columns: options.columns,
            policy: options.bad_rows,
            bad_rows: Arc::default(),
            is_audited: options.is_audited,
            memory: options.memory,
            blocks: Arc::clone(&blocks),
            metrics: Arc::clone(&metrics),
            cancel: cancel.clone(),
            cores: Cores::new(dataset, options.threads, cancel),
            outage: Arc::default(),
            packs: packs.clone(),
        };
        let source = {
            let (work, cancel, is_remote) = (work.clone(), cancel.clone(), dataset.is_remote());
            let mut jobs = VecDeque::new();
            let mut is_last_counted = false;
            move || {
                if let Some(job) = jobs.pop_front() {
                    return Some(job);
                }
                if is_last_counted {
                    work.blocks.wait_for_retired(&cancel);
                }
                let weighed = |plan: SuperbatchPlan| {
                    let pixels = plan.patches.saturating_mul(patch_bytes);
                    (plan.places().saturating_mul(row_bytes).saturating_add(pixels), plan)
                };
                let planned = work.metrics.timed(Stage::Plan, || planner.next_job());
                let Some(job) = planned else { return planner.take_failure().map(Job::Failed) };
                is_last_counted = job.last().is_some_and(|plan| plan.is_last_counted);
                let job: Vec<(u64, SuperbatchPlan)> = job.into_iter().map(weighed).collect();
                let blocks = work.announce(&job, &cancel)?;
                if is_remote && blocks.len() > 1 {
                    jobs.extend(blocks.into_iter().map(Job::Block));
                }
                jobs.push_back(Job::Superbatches(job));
                jobs.pop_front()
            }
        };
        let make = move |job: Job| match job {
            Job::Superbatches(plans) => work.make(plans, &finish),
            Job::Block(scheduled) => work.prepared(scheduled),
            Job::Failed(error) => Made { superbatches: Vec::new(), failure: Some(error) },
        };
        let stream =
            stream_in_order(dataset.reading_threads(options.threads), cancel, source, make)?;
        Ok(Self {
            stream,
            ready: VecDeque::new(),
            failure: None,
            blocks,
            metrics,
            places,
            packs,
            cancel: cancel.clone(),
        })
    }

    /// The next superbatch; waits at most `patience`.
    pub fn poll(&mut self, patience: Duration) -> Poll<Result<Superbatch<T>>> {
        loop {
            if let Some((bytes, superbatch)) = self.ready.pop_front() {
                self.blocks.delivered(bytes);
                self.metrics.delivered();
                return Poll::Ready(Ok(Ok(superbatch)));
            }
            if let Some(error) = self.failure.take() {
                // Batches after a failed one are not delivered.
                self.stop(Duration::ZERO);
                return Poll::Ready(Ok(Err(error)));
            }
            let Self { stream, metrics, .. } = self;
            match metrics.waiting(|| stream.poll(patience)) {
                Poll::Pending => return Poll::Pending,
                Poll::Finished => return Poll::Finished,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(made)) => {
                    self.ready.extend(made.superbatches);
                    self.failure = made.failure;
                }
            }
        }
    }

    /// Cancels unfinished work and waits for the threads, at most `patience`.
    pub fn stop(&mut self, patience: Duration) -> bool {
        self.ready.clear();
        self.failure = None;
        self.cancel.cancel();
        self.blocks.wake();
        let is_stopped = self.stream.stop(patience);
        if let Some(PackSource::Ahead(epoch)) = self.packs.as_ref().map(|packs| &packs.source) {
            epoch.packs.counts().publish();
            epoch.packs.counts().decoded().clear();
        }
        is_stopped
    }

    /// Reads the progress while another thread polls.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let (blocks, metrics, places) =
            (Arc::clone(&self.blocks), Arc::clone(&self.metrics), self.places.clone());
        Progress { blocks, metrics, places, process: std::process::id() }
    }
}
