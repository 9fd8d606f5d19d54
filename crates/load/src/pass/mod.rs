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
mod superbatches;
#[cfg(test)]
mod tests;

pub use audit::{Audit, AuditIds, expected as expected_audit};
pub use bad_rows::{BadRow, BadRowPolicy, OnBadRows};
use metrics::Metrics;
pub use metrics::{Activity, MetricsReport, Stage, Stages};
pub use progress::Progress;
pub use superbatches::BatchRows;

use crate::images::HostMemory;
use crate::packing::{PackSource, Packs, SuperbatchParts};
use crate::{Dataset, Error, Result, RowSet, columns};
use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use assemble::assemble;
use bad_rows::{BadRows, Salvage};
use blocks::Blocks;
use cores::Cores;
use dealt::Dealt;
use progress::Places;
use shardmill_engine::{Cancel, Poll, Stream, stream_in_order};
use shardmill_plan::order::{RowOrder, Steps};
use shardmill_plan::packing::PackPlan;
use std::collections::{HashMap, VecDeque};
use std::iter::{once, repeat};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use superbatches::{Planner, SuperbatchPlan, row_bytes};

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
        let row_bytes = packs
            .as_ref()
            .map_or_else(of_rows, |packs| packs.columns.pack_bytes())
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
        if let Some(packs) = &packs {
            planner = planner.of_packs(Dealt::of(&packs.source, cancel));
        }
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
                let weighed = |plan: SuperbatchPlan| (plan.rows().saturating_mul(row_bytes), plan);
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

/// A unit of work of a thread.
enum Job {
    Superbatches(Vec<(u64, SuperbatchPlan)>),
    /// One block of the next superbatches: a store answers many requests in the time of one.
    Block(usize),
    /// The next superbatch cannot be planned.
    Failed(Error),
}

#[derive(Clone)]
struct Work {
    dataset: Arc<Dataset>,
    rows: Arc<RowSet>,
    order: Arc<RowOrder>,
    schema: SchemaRef,
    columns: Vec<usize>,
    policy: BadRowPolicy,
    bad_rows: Arc<BadRows>,
    is_audited: bool,
    memory: Option<Arc<dyn HostMemory>>,
    blocks: Arc<Blocks>,
    metrics: Arc<Metrics>,
    cancel: Cancel,
    cores: Cores,
    /// The error of a store that did not respond within the timeout.
    /// The next block would wait as long.
    outage: Arc<OnceLock<Error>>,
    packs: Option<Packs>,
}

impl Work {
    /// Waits for room for a whole job: an announced superbatch cannot be delivered before all
    /// superbatches of its job are announced. Returns the blocks that were not needed before;
    /// `None` if the pass was cancelled.
    fn announce(&self, job: &[(u64, SuperbatchPlan)], cancel: &Cancel) -> Option<Vec<usize>> {
        let sized = |plan: &SuperbatchPlan| -> Vec<(usize, u64)> {
            plan.scheduled_blocks
                .iter()
                .map(|scheduled| (*scheduled, self.bytes_of(*scheduled)))
                .collect()
        };
        let bytes = job.iter().fold(0u64, |sum, (bytes, _)| sum.saturating_add(*bytes));
        // The first superbatch of a job needs all blocks that the others need.
        let superbatches: Vec<_> =
            job.iter().map(|(bytes, plan)| (sized(plan), &plan.retired, *bytes)).collect();
        let blocks = superbatches.first().map_or(&[][..], |(blocks, ..)| blocks);
        if !self.metrics.without_room(|| self.blocks.wait_for_room(blocks, bytes, cancel)) {
            return None;
        }
        Some(
            superbatches
                .iter()
                .flat_map(|(blocks, retired, bytes)| self.blocks.announce(blocks, retired, *bytes))
                .collect(),
        )
    }

    /// A failure is reported by the superbatch that needs the block.
    fn prepared<T>(&self, scheduled: usize) -> Made<T> {
        let _told_by_the_superbatch = self.blocks.prepare(scheduled, &self.cancel, |scheduled| {
            self.metrics.decoding(scheduled, || self.decode(scheduled))
        });
        Made { superbatches: Vec::new(), failure: None }
    }

    fn make<T>(
        &self,
        job: Vec<(u64, SuperbatchPlan)>,
        finish: &impl Fn(RecordBatch, &[BatchRows]) -> Result<T>,
    ) -> Made<T> {
        let mut made = Made { superbatches: Vec::with_capacity(job.len()), failure: None };
        for (bytes, plan) in job {
            match self.rows_of(&plan).and_then(|rows| self.superbatch(rows, &plan, finish)) {
                Ok(superbatch) => made.superbatches.push((bytes, superbatch)),
                Err(error) => {
                    let (alone, failure) = self.up_to_failure(&plan, error, finish);
                    self.blocks.divided(alone.len());
                    made.superbatches.extend(once(bytes).chain(repeat(0)).zip(alone));
                    made.failure = failure;
                    if made.failure.is_some() {
                        break;
                    }
                }
            }
        }
        made
    }

    fn superbatch<T>(
        &self,
        rows: RecordBatch,
        plan: &SuperbatchPlan,
        finish: &impl Fn(RecordBatch, &[BatchRows]) -> Result<T>,
    ) -> Result<Superbatch<T>> {
        let delivered = self.drop_bad_rows(rows, plan)?;
        let delivered = self.metrics.timed(Stage::Render, || self.render(delivered, plan))?;
        let audits = self.audits(plan, delivered.kept.as_ref(), &delivered.replaced);
        let finished = self.metrics.converting(|| finish(delivered.rows, &delivered.batches));
        let content =
            finished.map_err(|error| self.in_place(error, plan, delivered.kept.as_ref()))?;
        Ok(Superbatch { batches: delivered.batches, content, bad_rows: delivered.bad_rows, audits })
    }

    /// An error belongs to its batch, and those before it are good: they are assembled again, one
    /// by one. `error` is that of the whole superbatch. If it is one of its size, all batches may
    /// be good.
    fn up_to_failure<T>(
        &self,
        plan: &SuperbatchPlan,
        error: Error,
        finish: &impl Fn(RecordBatch, &[BatchRows]) -> Result<T>,
    ) -> (Vec<Superbatch<T>>, Option<Error>) {
        let mut before = Vec::new();
        if plan.batches.len() < 2 {
            return (before, Some(error));
        }
        let mut decoded: HashMap<usize, Arc<RecordBatch>> = HashMap::new();
        for alone in plan.each_batch(&self.order, self.plan_of_packs()) {
            let made = (|| {
                let mut blocks = Vec::with_capacity(alone.scheduled_blocks.len());
                for scheduled in &alone.scheduled_blocks {
                    self.cancel.check()?;
                    let block = match decoded.remove(scheduled) {
                        Some(block) => block,
                        None => Arc::new(self.decode(*scheduled)?),
                    };
                    blocks.push(block);
                }
                let rows = self.assembled(&alone, &blocks)?;
                // The next batch begins where this one ends.
                decoded = alone.scheduled_blocks.iter().copied().zip(blocks).collect();
                self.superbatch(rows, &alone, finish)
            })();
            match made {
                Ok(superbatch) => before.push(superbatch),
                Err(error) => return (before, Some(error)),
            }
        }
        (before, Some(error).filter(|error| !error.is_of_size()))
    }

    fn plan_of_packs(&self) -> Option<&PackPlan> {
        match &self.packs.as_ref()?.source {
            PackSource::Epoch { plan, .. } => Some(plan),
            PackSource::Ahead(_) => None,
        }
    }

    fn rows_of(&self, plan: &SuperbatchPlan) -> Result<RecordBatch> {
        let blocks = self.blocks.take(&plan.scheduled_blocks, &self.cancel, |scheduled| {
            self.metrics.decoding(scheduled, || self.decode(scheduled))
        })?;
        self.metrics.timed(Stage::Assemble, || self.assembled(plan, &blocks))
    }

    fn assembled(&self, plan: &SuperbatchPlan, blocks: &[Arc<RecordBatch>]) -> Result<RecordBatch> {
        let Some(packs) = &self.packs else {
            // Rows that are skipped later are null here.
            let schema = if self.policy.on_bad_rows == OnBadRows::Raise {
                Arc::clone(&self.schema)
            } else {
                bad_rows::nullable(&self.schema)
            };
            return assemble(&self.order, plan, blocks, &schema);
        };
        let (dataset, rows, order) = (&self.dataset, &self.rows, &self.order);
        let (packed, drawn) = (&plan.runs, &plan.drawn);
        packs.assemble(&SuperbatchParts {
            dataset,
            rows,
            order,
            packs: packed,
            drawn,
            scheduled_blocks: &plan.scheduled_blocks,
            blocks,
        })
    }

    fn decode(&self, scheduled: usize) -> Result<RecordBatch> {
        let number = self.order.block(scheduled);
        let block = number.and_then(|number| Some((number, self.rows.blocks().get(number)?)));
        let (number, block) =
            block.ok_or(Error::Engine(Arc::new(shardmill_engine::Error::Cancelled)))?;
        if let Some(PackSource::Ahead(epoch)) = self.packs.as_ref().map(|packs| &packs.source)
            && let Some(rows) = epoch.packs.counts().decoded().take(number)
        {
            return Ok(rows);
        }
        if let Some(outage) = self.outage.get() {
            return Err(outage.clone());
        }
        let decoded = self.cores.run(|| match block.count {
            1 => self.dataset.read(block.place, &self.columns, block.selection.as_ref()),
            count => self.dataset.read_run(block.place, count, &self.columns),
        })?;
        match decoded {
            Err(error)
                if self.policy.on_bad_rows != OnBadRows::Raise && bad_rows::is_of_data(&error) =>
            {
                let (dataset, rows, columns) = (&self.dataset, &self.rows, &self.columns);
                let salvage =
                    Salvage { dataset, rows, columns, policy: self.policy, cancel: &self.cancel };
                let (rows, bad) = salvage.block(number, error)?;
                self.bad_rows.add(scheduled, bad);
                Ok(rows)
            }
            Err(error) => {
                if error.of_store().is_some_and(shardmill_storage::Error::is_outage) {
                    let _first = self.outage.set(error.clone());
                }
                Err(error)
            }
            Ok(rows) => {
                if let Some(packs) = &self.packs {
                    packs.check_empty(&self.dataset, &self.rows, number, &rows)?;
                }
                Ok(rows)
            }
        }
    }

    /// Maps the position of a null or list to its file, where the user will look for it.
    fn in_place(&self, error: Error, plan: &SuperbatchPlan, kept: Option<&BooleanBuffer>) -> Error {
        let Error::Columns(inner) = &error else { return error };
        let Some(row) = inner.row() else { return error };
        let Some(row) = kept.map_or(Some(row), |kept| kept.set_indices().nth(row)) else {
            return error;
        };
        let mut left = row as u64;
        let run = plan.runs.iter().find_map(|run| {
            let len = run.end - run.start;
            if left < len {
                return Some(run.start + left);
            }
            left -= len;
            None
        });
        let place = run
            .and_then(|position| self.order.at(position))
            .and_then(|(block, row)| self.rows.path_and_row(&self.dataset, block, row));
        let Some((path, row)) = place else { return error };
        match inner.as_ref() {
            columns::Error::Null { column, data_type, .. } => {
                let is_image = self
                    .dataset
                    .schema()
                    .index_of(column)
                    .is_ok_and(|number| self.dataset.has_images(number));
                Error::Null {
                    column: column.clone(),
                    path,
                    row,
                    data_type: data_type.clone(),
                    is_image,
                }
            }
            columns::Error::LongList { column, length, limit, .. } => Error::LongList {
                column: column.clone(),
                path,
                row,
                length: *length,
                limit: *limit,
            },
            columns::Error::ListLength { column, length, expected, .. } => Error::ListLength {
                column: column.clone(),
                path,
                row,
                length: *length,
                expected: *expected,
            },
            _ => error,
        }
    }

    fn bytes_of(&self, scheduled: usize) -> u64 {
        let block = self.order.block(scheduled).and_then(|block| self.rows.blocks().get(block));
        // Only the selected rows of a filtered block are kept.
        block.map_or(0, |block| block.delivered_bytes(&self.dataset, &self.columns))
    }
}
