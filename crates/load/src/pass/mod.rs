//! One iteration of one rank: from a position of an epoch to its end, batch after batch.
//!
//! ```text
//! steps --Planner--> superbatches --Blocks--> decoded blocks --assemble--> rows --finish--> what the consumer gets
//! ```
//!
//! Threads take superbatches in order, decode the blocks that nobody has begun, put the rows together and finish them (casts, tensors) without the consumer.

mod assemble;
mod audit;
mod bad_rows;
mod blocks;
mod cores;
mod delivered;
mod gather;
mod metrics;
mod planner;

pub use audit::{Audit, AuditIds, expected as expected_audit};
pub use bad_rows::{BadRow, BadRowPolicy, OnBadRows};
pub use metrics::{Activity, Metrics, MetricsReport};
pub use planner::BatchRows;

use crate::packing::{Packs, SuperbatchParts};
use crate::row_set::RowBlock;
use crate::{Dataset, Error, Result, RowSet, columns};
use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use assemble::assemble;
use bad_rows::{BadRows, Salvage};
use blocks::Blocks;
use cores::Cores;
use planner::{Planner, SuperbatchPlan};
use shardmill_engine::{Cancel, Poll, Stream, stream_in_order};
use shardmill_plan::order::{RowOrder, Steps};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Rows that are put together from ranges weigh about this: large beside the cost of a superbatch, small beside the memory of a machine.
const SUPERBATCH_BYTES: u64 = 16 << 20;

/// Of a shuffle window, more is gathered at once: each superbatch reads all blocks of its window again.
const SHUFFLED_SUPERBATCH_BYTES: u64 = 32 << 20;

/// Of few rows, superbatches are smaller: each thread should have some of them.
const SUPERBATCHES_OF_A_THREAD: u64 = 4;

/// Smaller ones are not worth their cost.
const LEAST_SUPERBATCH_BYTES: u64 = 2 << 20;

/// However narrow the rows are.
const MAX_SUPERBATCH_ROWS: u64 = 1 << 20;

/// Which rows, and in what order.
#[derive(Debug, Clone)]
pub struct PassOptions {
    pub order: Arc<RowOrder>,
    pub steps: Steps,
    pub rank: u64,
    /// Rows of the epoch that all ranks have delivered before.
    pub consumed: u64,
    /// The step at `consumed` is taken, and every so many-th after it: the others are somebody else's.
    pub stride: u64,
    /// Numbers of the columns that are delivered.
    pub columns: Vec<usize>,
    pub threads: usize,
    pub prefetch_bytes: u64,
    pub bad_rows: BadRowPolicy,
    pub is_audited: bool,
    /// Steps are those of packs, and batches consist of them.
    pub packs: Option<Packs>,
}

/// Batches on their way to the consumer.
#[derive(Debug)]
pub struct Pass<T> {
    stream: Stream<Made<T>>,
    /// Made and not yet handed out, each with its bytes.
    ready: VecDeque<(u64, Superbatch<T>)>,
    /// Comes behind what is ready, and ends the pass.
    failure: Option<Error>,
    blocks: Arc<Blocks>,
    metrics: Arc<Metrics>,
    cancel: Cancel,
}

/// What became of one job.
#[derive(Debug)]
struct Made<T> {
    superbatches: Vec<(u64, Superbatch<T>)>,
    /// Of the batch behind the last of `superbatches`.
    failure: Option<Error>,
}

/// Consecutive batches in one piece.
#[derive(Debug)]
pub struct Superbatch<T> {
    pub batches: Vec<BatchRows>,
    pub content: T,
    /// Rows that could not be decoded, each with the number of its batch.
    pub bad_rows: Vec<(usize, BadRow)>,
    /// Of each batch, when asked for.
    pub audits: Vec<Audit>,
}

impl<T: Send + 'static> Pass<T> {
    /// Starts the threads. `finish` makes what the consumer gets of the rows of a superbatch.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        dataset: &Arc<Dataset>,
        rows: &Arc<RowSet>,
        options: PassOptions,
        cancel: &Cancel,
        finish: impl Fn(RecordBatch, &[BatchRows]) -> Result<T> + Send + Sync + 'static,
    ) -> Result<Self> {
        let packs = options.packs;
        let of_rows = || row_bytes(dataset, rows, &options.order, &options.columns);
        let row_bytes = packs.as_ref().map_or_else(of_rows, |packs| packs.columns.pack_bytes());
        let most_bytes = if options.order.is_scattered() { SHUFFLED_SUPERBATCH_BYTES } else { SUPERBATCH_BYTES };
        let places = packs.as_ref().map_or_else(|| options.order.num_rows(), |packs| packs.plan.num_packs());
        let places_of_rank = places / options.steps.world_size.max(1) / options.stride.max(1);
        let superbatches = SUPERBATCHES_OF_A_THREAD.saturating_mul(options.threads.max(1) as u64);
        let superbatch_bytes = (places_of_rank.saturating_mul(row_bytes) / superbatches).max(LEAST_SUPERBATCH_BYTES).min(most_bytes);
        let superbatch_rows = (superbatch_bytes / row_bytes.max(1)).clamp(1, MAX_SUPERBATCH_ROWS);
        let mut planner = Planner::new(Arc::clone(&options.order), options.steps, options.rank, options.consumed, options.stride, superbatch_rows);
        if let Some(packs) = &packs {
            planner = planner.of_packs(Arc::clone(&packs.plan));
        }
        let blocks = Arc::new(Blocks::new(options.prefetch_bytes));
        let metrics = Arc::new(Metrics::default());
        let work = Work {
            dataset: Arc::clone(dataset),
            rows: Arc::clone(rows),
            order: options.order,
            schema: dataset.view_schema(&options.columns),
            columns: options.columns,
            policy: options.bad_rows,
            bad_rows: Arc::default(),
            is_audited: options.is_audited,
            blocks: Arc::clone(&blocks),
            metrics: Arc::clone(&metrics),
            cancel: cancel.clone(),
            cores: Cores::new(dataset, options.threads, cancel),
            outage: Arc::default(),
            packs,
        };
        let source = {
            let (work, cancel, is_remote) = (work.clone(), cancel.clone(), dataset.is_remote());
            let mut jobs = VecDeque::new();
            move || {
                if let Some(job) = jobs.pop_front() {
                    return Some(job);
                }
                let weighed = |plan: SuperbatchPlan| (plan.rows().saturating_mul(row_bytes), plan);
                let job: Vec<(u64, SuperbatchPlan)> = planner.next_job()?.into_iter().map(weighed).collect();
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
        };
        let stream = stream_in_order(dataset.reading_threads(options.threads), cancel, source, make)?;
        Ok(Self { stream, ready: VecDeque::new(), failure: None, blocks, metrics, cancel: cancel.clone() })
    }

    /// The next superbatch; waits at most `patience`.
    pub fn poll(&mut self, patience: Duration) -> Poll<Result<Superbatch<T>>> {
        loop {
            if let Some((bytes, superbatch)) = self.ready.pop_front() {
                self.blocks.delivered(bytes);
                return Poll::Ready(Ok(Ok(superbatch)));
            }
            if let Some(error) = self.failure.take() {
                // What comes behind a failed batch is not delivered.
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

    /// Cancels what has not finished and waits for the threads, at most `patience`.
    pub fn stop(&mut self, patience: Duration) -> bool {
        self.ready.clear();
        self.failure = None;
        self.cancel.cancel();
        self.blocks.wake();
        self.stream.stop(patience)
    }

    #[must_use]
    pub fn metrics(&self) -> MetricsReport {
        self.metrics.report()
    }

    /// What the threads do at this moment, the longest first.
    #[must_use]
    pub fn activities(&self) -> Vec<Activity> {
        self.metrics.activities()
    }
}

/// What a thread does at once.
enum Job {
    Superbatches(Vec<(u64, SuperbatchPlan)>),
    /// One of the blocks of the next superbatches: a store answers many requests in the time of one.
    Block(usize),
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
    blocks: Arc<Blocks>,
    metrics: Arc<Metrics>,
    cancel: Cancel,
    cores: Cores,
    /// What a store said that did not answer for as long as anybody waits for it. The next block would wait as long.
    outage: Arc<OnceLock<Error>>,
    packs: Option<Packs>,
}

impl Work {
    /// Waits for room for a whole job: a superbatch of it that is announced cannot be delivered before all of them are. Tells which blocks nobody needed before;
    /// `None` when the pass was cancelled.
    fn announce(&self, job: &[(u64, SuperbatchPlan)], cancel: &Cancel) -> Option<Vec<usize>> {
        let sized = |plan: &SuperbatchPlan| -> Vec<(usize, u64)> {
            plan.scheduled_blocks.iter().map(|scheduled| (*scheduled, self.bytes_of(*scheduled))).collect()
        };
        let bytes = job.iter().fold(0u64, |sum, (bytes, _)| sum.saturating_add(*bytes));
        // The first superbatch of a job needs all of the blocks that the others need.
        let superbatches: Vec<_> = job.iter().map(|(bytes, plan)| (sized(plan), &plan.retired, *bytes)).collect();
        let blocks = superbatches.first().map_or(&[][..], |(blocks, ..)| blocks);
        if !self.blocks.wait_for_room(blocks, bytes, cancel) {
            return None;
        }
        Some(superbatches.iter().flat_map(|(blocks, retired, bytes)| self.blocks.announce(blocks, retired, *bytes)).collect())
    }

    /// What fails is told by the superbatch that needs the block.
    fn prepared<T>(&self, scheduled: usize) -> Made<T> {
        let _told_by_the_superbatch =
            self.blocks.prepare(scheduled, &self.cancel, |scheduled| self.metrics.decoding(scheduled, || self.decode(scheduled)));
        Made { superbatches: Vec::new(), failure: None }
    }

    fn make<T>(&self, job: Vec<(u64, SuperbatchPlan)>, finish: &impl Fn(RecordBatch, &[BatchRows]) -> Result<T>) -> Made<T> {
        let mut made = Made { superbatches: Vec::with_capacity(job.len()), failure: None };
        for (bytes, plan) in job {
            match self.rows_of(&plan).and_then(|rows| self.superbatch(rows, &plan, finish)) {
                Ok(superbatch) => made.superbatches.push((bytes, superbatch)),
                Err(error) => {
                    let (before, failure) = self.up_to_failure(&plan, error, finish);
                    made.superbatches.extend(before.into_iter().map(|superbatch| (0, superbatch)));
                    made.failure = Some(failure);
                    break;
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
        let finished = self.metrics.finishing(|| finish(delivered.rows, &delivered.batches));
        let content = finished.map_err(|error| self.in_place(error, plan, delivered.kept.as_ref()))?;
        Ok(Superbatch { batches: delivered.batches, content, bad_rows: delivered.bad_rows, audits: self.audits(plan) })
    }

    /// An error belongs to its batch, and those before it are good: they are made again, one by one. `error` is what the superbatch as a whole failed with.
    fn up_to_failure<T>(
        &self,
        plan: &SuperbatchPlan,
        error: Error,
        finish: &impl Fn(RecordBatch, &[BatchRows]) -> Result<T>,
    ) -> (Vec<Superbatch<T>>, Error) {
        let mut before = Vec::new();
        if plan.batches.len() < 2 {
            return (before, error);
        }
        let mut decoded: HashMap<usize, Arc<RecordBatch>> = HashMap::new();
        for alone in plan.each_batch(&self.order, self.packs.as_ref().map(|packs| &*packs.plan)) {
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
                Err(error) => return (before, error),
            }
        }
        (before, error)
    }

    fn rows_of(&self, plan: &SuperbatchPlan) -> Result<RecordBatch> {
        let blocks =
            self.blocks.take(&plan.scheduled_blocks, &self.cancel, |scheduled| self.metrics.decoding(scheduled, || self.decode(scheduled)))?;
        self.metrics.assembling(|| self.assembled(plan, &blocks))
    }

    fn assembled(&self, plan: &SuperbatchPlan, blocks: &[Arc<RecordBatch>]) -> Result<RecordBatch> {
        let Some(packs) = &self.packs else {
            // In place of rows that are skipped afterwards stand nulls.
            let schema = if self.policy.on_bad_rows == OnBadRows::Raise { Arc::clone(&self.schema) } else { bad_rows::nullable(&self.schema) };
            return assemble(&self.order, plan, blocks, &schema);
        };
        let (dataset, rows, order) = (&self.dataset, &self.rows, &self.order);
        packs.assemble(&SuperbatchParts { dataset, rows, order, packs: &plan.runs, scheduled_blocks: &plan.scheduled_blocks, blocks })
    }

    fn decode(&self, scheduled: usize) -> Result<RecordBatch> {
        let number = self.order.block(scheduled);
        let block = number.and_then(|number| Some((number, self.rows.blocks().get(number)?)));
        let (number, block) = block.ok_or(Error::Engine(Arc::new(shardmill_engine::Error::Cancelled)))?;
        if let Some(outage) = self.outage.get() {
            return Err(outage.clone());
        }
        let decoded = self.cores.run(|| match block.count {
            1 => self.dataset.read(block.place, &self.columns, block.selection.as_ref()),
            count => self.dataset.read_run(block.place, count, &self.columns),
        })?;
        match decoded {
            Err(error) if self.policy.on_bad_rows != OnBadRows::Raise && bad_rows::is_of_data(&error) => {
                let salvage = Salvage { dataset: &self.dataset, rows: &self.rows, columns: &self.columns, policy: self.policy };
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
            decoded => decoded,
        }
    }

    /// A null is looked for where the user will: in its file.
    fn in_place(&self, error: Error, plan: &SuperbatchPlan, kept: Option<&BooleanBuffer>) -> Error {
        let Error::Columns(inner) = &error else { return error };
        let columns::Error::Null { column, row, data_type } = inner.as_ref() else { return error };
        let Some(row) = kept.map_or(Some(*row), |kept| kept.set_indices().nth(*row)) else { return error };
        let mut left = row as u64;
        let run = plan.runs.iter().find_map(|run| {
            let len = run.end - run.start;
            if left < len {
                return Some(run.start + left);
            }
            left -= len;
            None
        });
        let place = run.and_then(|position| self.order.at(position)).and_then(|(block, row)| self.rows.row_of_file(&self.dataset, block, row));
        match place.and_then(|(file, row)| Some((self.dataset.files().get(file)?, row))) {
            Some((file, row)) => Error::Null { column: column.clone(), path: file.path.clone(), row, data_type: data_type.clone() },
            None => error,
        }
    }

    fn bytes_of(&self, scheduled: usize) -> u64 {
        let block = self.order.block(scheduled).and_then(|block| self.rows.blocks().get(block));
        // Of a filtered block, only the selected rows stay.
        block.map_or(0, |block| block.delivered_bytes(&self.dataset, &self.columns))
    }
}

/// The mean over the first blocks of each source; metadata of all of them would take its time.
fn row_bytes(dataset: &Dataset, rows: &RowSet, order: &RowOrder, columns: &[usize]) -> u64 {
    const SAMPLE: usize = 64;
    let mean = |blocks: &[RowBlock]| {
        let sample = || blocks.iter().take(SAMPLE);
        let bytes: u64 = sample().map(|block| block.whole_bytes(dataset, columns)).sum();
        let all: u64 = sample().map(RowBlock::whole_rows).sum();
        bytes.div_ceil(all.max(1))
    };
    let Some(mixture) = order.mixture() else { return mean(rows.blocks()) };
    let bytes = mixture.shares().map(|(blocks, rows_of_source)| {
        let blocks = rows.blocks().get(blocks).unwrap_or_default();
        u128::from(mean(blocks)) * u128::from(rows_of_source)
    });
    u64::try_from(bytes.sum::<u128>().div_ceil(u128::from(order.num_rows().max(1)))).unwrap_or(u64::MAX)
}
