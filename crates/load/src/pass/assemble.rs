//! Assembles the rows of a superbatch from decoded blocks, in delivery order.

use super::gather::RowSources;
use super::superbatches::SuperbatchPlan;
use crate::{Error, Result};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::concat::concat;
use shardmill_plan::order::RowOrder;
use std::sync::Arc;

/// Maximal size of a table from scheduled blocks to blocks.
const MOST_PLACES: usize = 1 << 20;

/// The rows of `plan`; `blocks` are those of `plan.scheduled_blocks`. Nothing is copied if they are
/// one run of one block.
pub(super) fn assemble(
    order: &RowOrder,
    plan: &SuperbatchPlan,
    blocks: &[Arc<RecordBatch>],
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let assembled = if order.is_scattered() {
        gather_rows(order, plan, blocks, schema)
    } else {
        join_ranges(order, plan, blocks, schema)
    };
    assembled.map_err(Error::assemble)
}

fn join_ranges(
    order: &RowOrder,
    plan: &SuperbatchPlan,
    blocks: &[Arc<RecordBatch>],
    schema: &SchemaRef,
) -> std::result::Result<RecordBatch, ArrowError> {
    let ranges = plan.runs.iter().flat_map(|run| order.ranges(run.clone()));
    let parts: Vec<RecordBatch> = ranges
        .filter_map(|range| {
            let block = blocks.get(plan.scheduled_blocks.binary_search(&range.scheduled).ok()?)?;
            Some(block.slice(usize::try_from(range.start).ok()?, usize::try_from(range.len).ok()?))
        })
        .collect();
    if let [only] = parts.as_slice() {
        return Ok(only.clone());
    }
    let columns = (0..schema.fields().len()).map(|column| {
        let arrays: Vec<_> = parts.iter().map(|part| part.column(column).as_ref()).collect();
        concat(&arrays)
    });
    batch(schema, columns.collect::<std::result::Result<_, _>>()?, plan)
}

/// As [`assemble`], row by row.
pub(super) fn gather_rows(
    order: &RowOrder,
    plan: &SuperbatchPlan,
    blocks: &[Arc<RecordBatch>],
    schema: &SchemaRef,
) -> std::result::Result<RecordBatch, ArrowError> {
    let first = plan.scheduled_blocks.first().copied().unwrap_or_default();
    let span = plan.scheduled_blocks.last().map_or(0, |last| last - first + 1);
    // Scheduled blocks of several lanes may be far apart; the table is then still small compared to
    // the rows. Those of several data sets may be too far apart for a table.
    let mut places = vec![0; if span <= MOST_PLACES { span } else { 0 }];
    for (place, scheduled) in plan.scheduled_blocks.iter().enumerate() {
        if let Some(slot) = places.get_mut(scheduled - first) {
            *slot = place;
        }
    }
    let place_of = |scheduled: usize| match places.get(scheduled.wrapping_sub(first)) {
        Some(place) => *place,
        None => plan.scheduled_blocks.binary_search(&scheduled).unwrap_or(usize::MAX),
    };
    let mut sources = RowSources::new(blocks.len(), usize::try_from(plan.rows()).unwrap_or(0));
    for run in &plan.runs {
        order.for_each(run.clone(), |scheduled, row| sources.push(place_of(scheduled), row));
    }
    sources.sort(blocks.iter().map(|block| block.num_rows()));
    let columns = (0..schema.fields().len()).map(|column| sources.column(blocks, column));
    batch(schema, columns.collect::<std::result::Result<_, _>>()?, plan)
}

fn batch(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    plan: &SuperbatchPlan,
) -> std::result::Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(usize::try_from(plan.rows()).ok());
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}
