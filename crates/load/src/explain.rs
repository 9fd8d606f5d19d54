//! Which rows a batch holds, and what an epoch costs: answers from the plan, no row is read.

use crate::{Dataset, RowSet};
use shardmill_plan::order::{RowOrder, StepRows, Steps};
use std::collections::BTreeSet;
use std::ops::Range;

/// Consecutive rows of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRows {
    /// Below the root of the data set.
    pub file: String,
    /// Row of the file.
    pub start: u64,
    pub rows: u64,
}

/// One batch of one rank.
#[derive(Debug, Clone)]
pub struct BatchExplanation {
    /// In the order of the batch.
    pub rows: Vec<FileRows>,
    pub repeats: u64,
}

/// What a rank decodes in one epoch.
#[derive(Debug, Clone, Copy)]
pub struct RankCost {
    pub blocks: u64,
    pub decoded_bytes: u64,
    pub stored_bytes: u64,
}

/// The rows of `rank` in step number `step` of an epoch that is begun at its start; `None` behind the last step.
#[must_use]
pub fn batch(dataset: &Dataset, rows: &RowSet, order: &RowOrder, steps: &Steps, step: u64, rank: u64) -> Option<BatchExplanation> {
    if step >= steps.remaining(0) {
        return None;
    }
    let step: StepRows = steps.step(step.saturating_mul(steps.global_batch()))?;
    let slice = steps.slice(step, rank);
    let mut found: Vec<FileRows> = Vec::new();
    for run in slice.rows {
        order.for_each(run, |visit, row| {
            let Some((file, row)) = order.block(visit).and_then(|block| rows.row_of_file(dataset, block, row)) else { return };
            let name = dataset.files().get(file).map_or("", |file| file.relative.as_str());
            match found.last_mut() {
                Some(last) if last.file == name && last.start + last.rows == row => last.rows += 1,
                _ => found.push(FileRows { file: name.to_owned(), start: row, rows: 1 }),
            }
        });
    }
    Some(BatchExplanation { rows: found, repeats: slice.repeats })
}

/// What `rank` decodes in a whole epoch, as planned: each block that holds a row of its lanes, once.
#[must_use]
pub fn cost(dataset: &Dataset, rows: &RowSet, order: &RowOrder, steps: &Steps, rank: u64) -> RankCost {
    let positions: Vec<Range<u64>> = steps.lanes_of(rank).map(|lane| steps.lanes.positions(lane)).collect();
    let visits: BTreeSet<usize> = positions.into_iter().flat_map(|positions| order.visits(positions)).collect();
    let mut cost = RankCost { blocks: 0, decoded_bytes: 0, stored_bytes: 0 };
    for block in visits.into_iter().filter_map(|visit| rows.blocks().get(order.block(visit)?)) {
        let stored =
            dataset.files().get(block.place.file).and_then(|file| file.table.blocks().get(block.place.block)).map_or(0, |block| block.stored_bytes);
        cost.blocks += 1;
        cost.decoded_bytes = cost.decoded_bytes.saturating_add(block.decoded_bytes);
        cost.stored_bytes = cost.stored_bytes.saturating_add(stored);
    }
    cost
}
