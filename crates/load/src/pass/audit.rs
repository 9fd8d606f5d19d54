//! Sums of hashes over the rows that were delivered. They add up: over batches, ranks and sessions, in any order.

use crate::RowSet;
use shardmill_plan::order::{RankSlice, RowOrder, StepRows, Steps};
use std::ops::{AddAssign, Range};
use xxhash_rust::xxh3::xxh3_128;

/// What was delivered, as a few numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Audit {
    pub rows: u64,
    /// Of the rows, wherever they stand: equal for the same rows in any order.
    pub set: u128,
    /// Of the rows with their places in the sequence of global batches.
    pub sequence: u128,
}

impl Audit {
    fn add(&mut self, id: u64, place: u64) {
        self.rows += 1;
        self.set = self.set.wrapping_add(xxh3_128(&id.to_le_bytes()));
        let mut pair = [0; 16];
        for (byte, value) in pair.iter_mut().zip(id.to_le_bytes().into_iter().chain(place.to_le_bytes())) {
            *byte = value;
        }
        self.sequence = self.sequence.wrapping_add(xxh3_128(&pair));
    }

    /// Adds consecutive rows of one rank, from a place of the global sequence on.
    pub(super) fn add_rows(&mut self, order: &RowOrder, rows: &RowSet, runs: impl IntoIterator<Item = Range<u64>>, first_place: u64, count: u64) {
        let mut place = first_place;
        let end = first_place.saturating_add(count);
        for run in runs {
            order.for_each(run, |visit, row| {
                if place < end {
                    let id = order.block(visit).and_then(|block| rows.first_id(block)).map_or(u64::MAX, |first| first + row);
                    self.add(id, place);
                }
                place += 1;
            });
        }
    }
}

impl AddAssign for Audit {
    fn add_assign(&mut self, other: Self) {
        self.rows += other.rows;
        self.set = self.set.wrapping_add(other.set);
        self.sequence = self.sequence.wrapping_add(other.sequence);
    }
}

/// The audit of all ranks between two places of an epoch, as the plan has it: nothing is read.
#[must_use]
pub fn expected(order: &RowOrder, rows: &RowSet, steps: &Steps, from: u64, to: u64) -> Audit {
    let mut audit = Audit::default();
    let mut consumed = from;
    while let Some(step) = steps.step(consumed).filter(|step| step.start < to) {
        let StepRows { start, len, .. } = step;
        let all = Steps { batch_size: steps.global_batch(), world_size: 1, ..*steps };
        let RankSlice { rows: runs, .. } = all.slice(step, 0);
        audit.add_rows(order, rows, runs, start, len);
        consumed = start + len;
    }
    audit
}
