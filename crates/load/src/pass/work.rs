//! What the threads of a pass do: decode blocks and make superbatches.

use super::assemble::{assemble, gather_rows};
use super::bad_rows::{self, Assembled, BadRows, Salvage};
use super::blocks::Blocks;
use super::cores::Cores;
use super::metrics::Metrics;
use super::superbatches::SuperbatchPlan;
use super::{BadRowPolicy, BatchRows, Made, OnBadRows, Stage, Superbatch};
use crate::images::HostMemory;
use crate::packing::{
    Contents, ImagesOfPacks, PackSource, Packs, RowParts, SuperbatchParts, TokenPacks,
};
use crate::{Dataset, Error, Result, RowSet, columns};
use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use shardmill_engine::Cancel;
use shardmill_plan::order::RowOrder;
use shardmill_plan::packing::PackPlan;
use std::collections::HashMap;
use std::iter::{once, repeat};
use std::sync::{Arc, OnceLock};

/// A unit of work of a thread.
pub(super) enum Job {
    Superbatches(Vec<(u64, SuperbatchPlan)>),
    /// One block of the next superbatches: a store answers many requests in the time of one.
    Block(usize),
    /// The next superbatch cannot be planned.
    Failed(Error),
}

#[derive(Clone)]
pub(super) struct Work {
    pub(super) dataset: Arc<Dataset>,
    pub(super) rows: Arc<RowSet>,
    pub(super) order: Arc<RowOrder>,
    pub(super) schema: SchemaRef,
    pub(super) columns: Vec<usize>,
    pub(super) policy: BadRowPolicy,
    pub(super) bad_rows: Arc<BadRows>,
    pub(super) is_audited: bool,
    pub(super) memory: Option<Arc<dyn HostMemory>>,
    pub(super) blocks: Arc<Blocks>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) cancel: Cancel,
    pub(super) cores: Cores,
    /// The error of a store that did not respond within the timeout.
    /// The next block would wait as long.
    pub(super) outage: Arc<OnceLock<Error>>,
    pub(super) packs: Option<Packs>,
}

impl Work {
    /// Waits for room for a whole job: an announced superbatch cannot be delivered before all
    /// superbatches of its job are announced. Returns the blocks that were not needed before;
    /// `None` if the pass was cancelled.
    pub(super) fn announce(
        &self,
        job: &[(u64, SuperbatchPlan)],
        cancel: &Cancel,
    ) -> Option<Vec<usize>> {
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
    pub(super) fn prepared<T>(&self, scheduled: usize) -> Made<T> {
        let _told_by_the_superbatch = self.blocks.prepare(scheduled, &self.cancel, |scheduled| {
            self.metrics.decoding(scheduled, || self.decode(scheduled))
        });
        Made { superbatches: Vec::new(), failure: None }
    }

    pub(super) fn make<T>(
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
        assembled: Assembled,
        plan: &SuperbatchPlan,
        finish: &impl Fn(RecordBatch, &[BatchRows]) -> Result<T>,
    ) -> Result<Superbatch<T>> {
        let Assembled { rows, filled } = assembled;
        let mut delivered = self.drop_bad_rows(rows, plan)?;
        delivered.bad_rows.extend(filled);
        let packs_of = plan.batches.iter().map(|batch| batch.rows);
        let terms = self.packs.as_ref().map(|packs| packs.terms(&delivered.rows, packs_of));
        let delivered = self.metrics.timed(Stage::Render, || self.render(delivered, plan))?;
        let audits = self.audits(plan, delivered.kept.as_ref(), &delivered.replaced);
        let finished = self.metrics.converting(|| finish(delivered.rows, &delivered.batches));
        let content =
            finished.map_err(|error| self.in_place(error, plan, delivered.kept.as_ref()))?;
        Ok(Superbatch {
            batches: delivered.batches,
            content,
            bad_rows: delivered.bad_rows,
            audits,
            terms: terms.unwrap_or_default(),
        })
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
            PackSource::Epoch { plan, .. } => {
                Some(&**plan).filter(|plan| !plan.packing().keeps_rows())
            }
            PackSource::Ahead(_) => None,
        }
    }

    fn rows_of(&self, plan: &SuperbatchPlan) -> Result<Assembled> {
        let blocks = self.blocks.take(&plan.scheduled_blocks, &self.cancel, |scheduled| {
            self.metrics.decoding(scheduled, || self.decode(scheduled))
        })?;
        self.assembled(plan, &blocks)
    }

    fn assembled(&self, plan: &SuperbatchPlan, blocks: &[Arc<RecordBatch>]) -> Result<Assembled> {
        let assembled = self.metrics.timed(Stage::Assemble, || self.unrendered(plan, blocks));
        let (rows, images) = assembled?;
        match self.packs.as_ref().map(|packs| &packs.contents).zip(images) {
            Some((Contents::Tokens(columns), images)) => {
                let rendered = || self.rendered_packs(rows, columns, images, plan);
                self.metrics.timed(Stage::Render, rendered)
            }
            _ => Ok(rows.into()),
        }
    }

    /// Rows or packs, and the images of packs.
    fn unrendered(
        &self,
        plan: &SuperbatchPlan,
        blocks: &[Arc<RecordBatch>],
    ) -> Result<(RecordBatch, Option<ImagesOfPacks>)> {
        let Some(packs) = &self.packs else {
            // Rows that are skipped later are null here.
            let schema = if self.policy.on_bad_rows == OnBadRows::Raise {
                Arc::clone(&self.schema)
            } else {
                bad_rows::nullable(&self.schema)
            };
            return Ok((assemble(&self.order, plan, blocks, &schema)?, None));
        };
        let (dataset, rows, order) = (&self.dataset, &self.rows, &self.order);
        let (packed, drawn) = (&plan.runs, &plan.drawn);
        let columns = match &packs.contents {
            Contents::Tokens(columns) => columns,
            Contents::Rows(_) => {
                let gathered = gather_rows(order, plan, blocks, &self.schema);
                let gathered = gathered.map_err(Error::assemble)?;
                let (positions, columns) = (&plan.runs, &self.columns);
                let parts = RowParts { dataset, rows, order, positions, columns, gathered };
                return Ok((packs.with_lengths(parts)?, None));
            }
        };
        TokenPacks { source: &packs.source, columns }.assemble(&SuperbatchParts {
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
                if let Some(Packs { source, contents: Contents::Tokens(columns) }) = &self.packs {
                    let packs = TokenPacks { source, columns };
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
