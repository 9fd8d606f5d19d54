//! One iteration of one rank: from a position of an epoch to its end, batch after batch.
//!
//! ```text
//! steps --Planner--> slabs --Blocks--> decoded blocks --assemble--> rows --finish--> what the consumer gets
//! ```
//!
//! Threads take slabs in order, decode the blocks that nobody has begun, put the rows together and finish them (casts, tensors) without the consumer.

mod assemble;
mod blocks;
mod gather;
mod metrics;
mod planner;

pub use metrics::{Metrics, MetricsReport};
pub use planner::BatchRows;

use crate::{Dataset, Error, Result, RowSet, columns};
use arrow_array::RecordBatch;
use assemble::assemble;
use blocks::Blocks;
use planner::{Planner, SlabPlan};
use shardmill_engine::{Cancel, Poll, Stream, stream_in_order};
use shardmill_plan::order::{RowOrder, Steps};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Rows that are put together from ranges weigh about this: large beside the cost of a slab, small beside the memory of a machine.
const SLAB_BYTES: u64 = 16 << 20;

/// Of a shuffle window, more is gathered at once: each slab reads all blocks of its window again.
const SHUFFLED_SLAB_BYTES: u64 = 32 << 20;

/// However narrow the rows are.
const MAX_SLAB_ROWS: u64 = 1 << 20;

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
}

/// Batches on their way to the consumer.
#[derive(Debug)]
pub struct Pass<T> {
    stream: Stream<Result<Vec<(Slab<T>, u64)>>>,
    /// Made and not yet handed out.
    ready: VecDeque<(Slab<T>, u64)>,
    blocks: Arc<Blocks>,
    metrics: Arc<Metrics>,
}

/// Consecutive batches in one piece.
#[derive(Debug)]
pub struct Slab<T> {
    pub batches: Vec<BatchRows>,
    pub content: T,
}

impl<T: Send + 'static> Pass<T> {
    /// Starts the threads. `finish` makes what the consumer gets of the rows of a slab.
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
        let row_bytes = row_bytes(dataset, rows, &options.columns);
        let slab_bytes = if options.order.num_windows() > 0 { SHUFFLED_SLAB_BYTES } else { SLAB_BYTES };
        let slab_rows = (slab_bytes / row_bytes.max(1)).clamp(1, MAX_SLAB_ROWS);
        let mut planner = Planner::new(Arc::clone(&options.order), options.steps, options.rank, options.consumed, options.stride, slab_rows);
        let blocks = Arc::new(Blocks::new(options.prefetch_bytes));
        let metrics = Arc::new(Metrics::default());
        let work = Work {
            dataset: Arc::clone(dataset),
            rows: Arc::clone(rows),
            order: options.order,
            schema: dataset.view_schema(&options.columns),
            columns: options.columns,
            blocks: Arc::clone(&blocks),
            metrics: Arc::clone(&metrics),
            cancel: cancel.clone(),
        };
        let source = {
            let (work, cancel) = (work.clone(), cancel.clone());
            move || {
                let job = planner.next_job()?;
                let announced = job.into_iter().map(|plan| {
                    let bytes = plan.rows().saturating_mul(row_bytes);
                    let visits: Vec<(usize, u64)> = plan.visits.iter().map(|visit| (*visit, work.bytes_of(*visit))).collect();
                    work.blocks.plan(&visits, &plan.retired, bytes, &cancel).then_some((plan, bytes))
                });
                announced.collect::<Option<Vec<_>>>()
            }
        };
        let make = move |job: Vec<(SlabPlan, u64)>| {
            let slabs = job.into_iter().map(|(plan, bytes)| {
                let rows = work.rows_of(&plan)?;
                let content = work.metrics.finishing(|| finish(rows, &plan.batches)).map_err(|error| work.in_place(error, &plan))?;
                Ok((Slab { batches: plan.batches, content }, bytes))
            });
            slabs.collect()
        };
        let stream = stream_in_order(options.threads, cancel, source, make)?;
        Ok(Self { stream, ready: VecDeque::new(), blocks, metrics })
    }

    /// The next slab; waits at most `patience`.
    pub fn poll(&mut self, patience: Duration) -> Poll<Result<Slab<T>>> {
        if let Some((slab, bytes)) = self.ready.pop_front() {
            self.blocks.delivered(bytes);
            return Poll::Ready(Ok(Ok(slab)));
        }
        let Self { stream, metrics, .. } = self;
        match metrics.waiting(|| stream.poll(patience)) {
            Poll::Pending => Poll::Pending,
            Poll::Finished => Poll::Finished,
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(Err(error))) => {
                // What comes behind a failed slab is not delivered.
                self.stop(Duration::ZERO);
                Poll::Ready(Ok(Err(error)))
            }
            Poll::Ready(Ok(Ok(slabs))) => {
                self.ready.extend(slabs);
                self.poll(patience)
            }
        }
    }

    /// Cancels what has not finished and waits for the threads, at most `patience`.
    pub fn stop(&mut self, patience: Duration) -> bool {
        self.ready.clear();
        self.stream.stop(patience)
    }

    #[must_use]
    pub fn metrics(&self) -> MetricsReport {
        self.metrics.report()
    }
}

#[derive(Clone)]
struct Work {
    dataset: Arc<Dataset>,
    rows: Arc<RowSet>,
    order: Arc<RowOrder>,
    schema: arrow_schema::SchemaRef,
    columns: Vec<usize>,
    blocks: Arc<Blocks>,
    metrics: Arc<Metrics>,
    cancel: Cancel,
}

impl Work {
    fn rows_of(&self, plan: &SlabPlan) -> Result<RecordBatch> {
        let blocks = self.blocks.take(&plan.visits, &self.cancel, |visit| self.metrics.decoding(|| self.decode(visit)))?;
        self.metrics.assembling(|| assemble(&self.order, plan, &blocks, &self.schema))
    }

    fn decode(&self, visit: usize) -> Result<RecordBatch> {
        let block = self.order.block(visit).and_then(|block| self.rows.blocks().get(block));
        let block = block.ok_or(Error::Engine(Arc::new(shardmill_engine::Error::Cancelled)))?;
        self.dataset.read(block.place, &self.columns, block.selection.as_ref())
    }

    /// A null is looked for where the user will: in its file.
    fn in_place(&self, error: Error, plan: &SlabPlan) -> Error {
        let Error::Columns(inner) = &error else { return error };
        let columns::Error::Null { column, row, data_type } = inner.as_ref() else { return error };
        let mut left = *row as u64;
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

    fn bytes_of(&self, visit: usize) -> u64 {
        let Some(block) = self.order.block(visit).and_then(|block| self.rows.blocks().get(block)) else { return 0 };
        let bytes = self.dataset.decoded_bytes(block.place, &self.columns);
        // Of a filtered block, only the selected rows stay.
        let rows = block.selection.as_ref().map_or(block.rows, |selection| selection.len() as u64);
        u64::try_from(u128::from(bytes) * u128::from(block.rows) / u128::from(rows.max(1))).unwrap_or(u64::MAX)
    }
}

/// The mean over the first blocks; metadata of all of them would take its time.
fn row_bytes(dataset: &Dataset, rows: &RowSet, columns: &[usize]) -> u64 {
    const SAMPLE: usize = 64;
    let sample = || rows.blocks().iter().take(SAMPLE);
    let bytes: u64 = sample().map(|block| dataset.decoded_bytes(block.place, columns)).sum();
    let all: u64 = sample().map(|block| block.selection.as_ref().map_or(block.rows, |selection| selection.len() as u64)).sum();
    bytes.div_ceil(all.max(1))
}
