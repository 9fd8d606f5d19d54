//! Finishes an assembled superbatch: removes skipped rows, and records what was delivered.

use super::Work;
use super::audit::{Audit, AuditIds};
use super::bad_rows::{BadRow, OnBadRows, cause_of};
use super::superbatches::{BatchRows, SuperbatchPlan};
use crate::{Error, Result};
use arrow_array::{BooleanArray, RecordBatch};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_select::filter::filter_record_batch;
use shardmill_plan::order::part_of;
use std::collections::BTreeSet;
use std::iter::once;
use std::sync::Arc;

/// The rows of a superbatch that are delivered.
pub(super) struct Delivered {
    pub(super) rows: RecordBatch,
    pub(super) batches: Vec<BatchRows>,
    /// One bit per planned row, if some were skipped.
    pub(super) kept: Option<BooleanBuffer>,
    /// Planned rows in whose place others are delivered.
    pub(super) replaced: BTreeSet<usize>,
    pub(super) bad_rows: Vec<(usize, BadRow)>,
}

impl Work {
    pub(super) fn drop_bad_rows(
        &self,
        rows: RecordBatch,
        plan: &SuperbatchPlan,
    ) -> Result<Delivered> {
        let mut delivered = Delivered {
            rows,
            batches: plan.batches.clone(),
            kept: None,
            replaced: BTreeSet::new(),
            bad_rows: Vec::new(),
        };
        let bad = self.bad_rows.of(&plan.scheduled_blocks);
        if bad.is_empty() {
            return Ok(delivered);
        }
        let mut kept = BooleanBufferBuilder::new(delivered.rows.num_rows());
        let (mut number, mut end) = (0, plan.batches.first().map_or(0, |batch| batch.rows));
        for run in &plan.runs {
            self.order.for_each(run.clone(), |scheduled, row| {
                while kept.len() >= end && number + 1 < plan.batches.len() {
                    number += 1;
                    end += plan.batches.get(number).map_or(0, |batch| batch.rows);
                }
                let cause = bad.get(&scheduled).and_then(|parts| cause_of(parts, row));
                delivered.bad_rows.extend(
                    cause.and_then(|cause| Some((number, self.bad_row(scheduled, row, cause)?))),
                );
                let is_kept = cause.is_none() || self.policy.on_bad_rows != OnBadRows::Skip;
                if cause.is_some() && is_kept {
                    delivered.replaced.insert(kept.len());
                }
                if let Some(batch) = delivered.batches.get_mut(number).filter(|_| !is_kept) {
                    // Repeats are at the end of their batch.
                    let is_repeat = end - kept.len()
                        <= plan.batches.get(number).map_or(0, |batch| batch.repeats);
                    batch.rows -= 1;
                    batch.repeats -= usize::from(is_repeat);
                }
                kept.append(is_kept);
            });
        }
        if self.policy.on_bad_rows == OnBadRows::Skip {
            let kept = kept.finish();
            delivered.rows =
                filter_record_batch(&delivered.rows, &BooleanArray::new(kept.clone(), None))
                    .map_err(Error::assemble)?;
            delivered.kept = Some(kept);
        }
        Ok(delivered)
    }

    /// For each batch, the planned rows that it delivers for the first time: those that were
    /// skipped or replaced are not among them.
    pub(super) fn audits(
        &self,
        plan: &SuperbatchPlan,
        kept: Option<&BooleanBuffer>,
        replaced: &BTreeSet<usize>,
    ) -> Vec<Audit> {
        if !self.is_audited {
            return Vec::new();
        }
        let ids = if self.packs.is_some() {
            AuditIds::Packs
        } else {
            AuditIds::Rows { order: &self.order, rows: &self.rows }
        };
        let (mut start, mut packs) = (0, plan.row_packs.iter());
        let audit = |batch: &BatchRows| {
            let end = start + batch.rows as u64;
            let mut audit = Audit::default();
            let new = (batch.rows - batch.repeats) as u64;
            let is_delivered = |place: u64| {
                let row = usize::try_from(start + (place - batch.first)).unwrap_or(usize::MAX);
                kept.is_none_or(|kept| row < kept.len() && kept.value(row))
                    && !replaced.contains(&row)
            };
            let (runs, places) = match packs.next() {
                Some(pack) => (once(*pack..pack + 1).collect(), new.min(1)),
                None => (part_of(&plan.runs, start..end), new),
            };
            audit.add_runs(&ids, runs, batch.first..batch.first + places, is_delivered);
            start = end;
            audit
        };
        plan.batches.iter().map(audit).collect()
    }

    fn bad_row(&self, scheduled: usize, row: u64, cause: &Arc<str>) -> Option<BadRow> {
        let (path, row) =
            self.rows.path_and_row(&self.dataset, self.order.block(scheduled)?, row)?;
        Some(BadRow { path, row, cause: Arc::clone(cause) })
    }
}
