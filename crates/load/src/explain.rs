//! Explains from the plan, without reading rows, which rows a batch contains
//! and what an epoch costs.

use crate::{Dataset, RowSet};
use shardmill_plan::order::{RowOrder, StepRows, Steps};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Consecutive rows of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRows {
    /// Number of the file in the data set. Names are not unique if the data set has several roots.
    pub file: usize,
    /// Row in the file.
    pub start: u64,
    pub rows: u64,
}

/// The rows that a batch takes from one lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneRows {
    pub lane: u64,
    /// Position of the first row in plan order.
    pub position: u64,
    pub rows: u64,
}

/// One batch of one rank.
#[derive(Debug, Clone, Default)]
pub struct BatchExplanation {
    /// The positions in the global sequence that its step covers on all ranks.
    pub places: Range<u64>,
    /// In the order of the batch, without repeats.
    pub lanes: Vec<LaneRows>,
    /// In the order of the batch.
    pub rows: Vec<FileRows>,
    pub repeats: u64,
    /// Rows of each source of a mixture, repeats included.
    pub sources: Vec<u64>,
}

/// The work of a rank in one epoch.
#[derive(Debug, Clone, Copy)]
pub struct RankCost {
    pub batches: u64,
    pub blocks: u64,
    /// Size in memory of the delivered columns.
    pub decoded_bytes: u64,
    /// Size in the files of all columns.
    pub stored_bytes: u64,
}

/// How far a shuffle moves rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mixing {
    /// Size in memory of the largest window, for the delivered columns.
    pub window_bytes: u64,
    /// Average distance over which the shuffle of a window moves a row.
    pub distance: u64,
}

/// The rows of `rank` in step number `step` of an epoch from its start; `None` after the last step.
#[must_use]
pub fn batch(
    dataset: &Dataset,
    rows: &RowSet,
    order: &RowOrder,
    steps: &Steps,
    step: u64,
    rank: u64,
) -> Option<BatchExplanation> {
    if step >= steps.remaining(0) {
        return None;
    }
    let step: StepRows = steps.step(step.saturating_mul(steps.global_batch()))?;
    let slice = steps.slice(step, rank);
    let mut new = slice.rows.iter().map(|run| run.end - run.start).sum::<u64>() - slice.repeats;
    let mut lanes = Vec::new();
    let mut found: Vec<FileRows> = Vec::new();
    let mut sources = vec![0; order.mixture().map_or(0, |mixture| mixture.shares().count())];
    for run in slice.rows {
        if new > 0 {
            // A run stays within one lane, and repeats start a separate run.
            lanes.push(LaneRows {
                lane: steps.lanes.lane_of(run.start),
                position: run.start,
                rows: run.end - run.start,
            });
            new = new.saturating_sub(run.end - run.start);
        }
        order.for_each(run, |scheduled, row| {
            if let Some(count) =
                order.mixture().and_then(|mixture| sources.get_mut(mixture.source(scheduled)?))
            {
                *count += 1;
            }
            let Some((file, row)) =
                order.block(scheduled).and_then(|block| rows.row_of_file(dataset, block, row))
            else {
                return;
            };
            match found.last_mut() {
                Some(last) if last.file == file && last.start + last.rows == row => last.rows += 1,
                _ => found.push(FileRows { file, start: row, rows: 1 }),
            }
        });
    }
    Some(BatchExplanation {
        places: step.start..step.start + step.len,
        lanes,
        rows: found,
        repeats: slice.repeats,
        sources,
    })
}

/// The planned work of `rank` in a whole epoch: each block with a row of its lanes is decoded once.
#[must_use]
pub fn cost(
    dataset: &Dataset,
    rows: &RowSet,
    order: &RowOrder,
    steps: &Steps,
    columns: &[usize],
    rank: u64,
) -> RankCost {
    let scheduled_blocks = steps
        .lanes_of(rank)
        .flat_map(|lane| order.scheduled_blocks(steps.lanes.positions(lane)))
        .collect();
    RankCost {
        batches: steps.batches(0, rank),
        ..cost_of_scheduled_blocks(dataset, rows, order, columns, scheduled_blocks)
    }
}

/// The cost of reading these scheduled blocks once each.
pub(crate) fn cost_of_scheduled_blocks(
    dataset: &Dataset,
    rows: &RowSet,
    order: &RowOrder,
    columns: &[usize],
    scheduled_blocks: BTreeSet<usize>,
) -> RankCost {
    let mut cost = RankCost { batches: 0, blocks: 0, decoded_bytes: 0, stored_bytes: 0 };
    for block in scheduled_blocks
        .into_iter()
        .filter_map(|scheduled| rows.blocks().get(order.block(scheduled)?))
    {
        let stored = dataset
            .files()
            .get(block.place.file)
            .and_then(|file| file.table.blocks().get(block.place.block))
            .map_or(0, |block| block.stored_bytes);
        cost.blocks += 1;
        cost.decoded_bytes =
            cost.decoded_bytes.saturating_add(block.delivered_bytes(dataset, columns));
        cost.stored_bytes = cost.stored_bytes.saturating_add(stored);
    }
    cost
}

/// How far the rows of an epoch are mixed; zero without a shuffle.
#[must_use]
pub fn mixing(dataset: &Dataset, rows: &RowSet, order: &RowOrder, columns: &[usize]) -> Mixing {
    if order.num_windows() == 0 || order.num_rows() == 0 {
        return Mixing::default();
    }
    // One window of each source is in memory at a time.
    let mut largest: BTreeMap<usize, u64> = BTreeMap::new();
    let (mut window, mut source, mut bytes) = (0..0, None, 0u64);
    let (mut distances, mut all) = (0u128, 0u128);
    for scheduled in 0..order.num_scheduled() {
        let span = order.span(scheduled);
        let own = order.mixture().and_then(|mixture| mixture.source(scheduled));
        if span != window || own != source {
            (window, source, bytes) = (span, own, 0);
        }
        let Some(block) = order.block(scheduled).and_then(|block| rows.blocks().get(block)) else {
            continue;
        };
        // Two random positions among n are on average n / 3 apart.
        distances = distances
            .saturating_add(u128::from(block.rows) * u128::from(window.end - window.start) / 3);
        all += u128::from(block.rows);
        bytes = bytes.saturating_add(block.delivered_bytes(dataset, columns));
        let known = largest.entry(own.unwrap_or_default()).or_default();
        *known = bytes.max(*known);
    }
    Mixing {
        window_bytes: largest.into_values().sum(),
        distance: u64::try_from(distances / all.max(1)).unwrap_or(u64::MAX),
    }
}

/// For people.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}
