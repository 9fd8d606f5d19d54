//! Sums of hashes over delivered rows. They are additive over batches, ranks
//! and sessions, in any order.

use crate::RowSet;
use shardmill_plan::order::{RankSlice, RowOrder, StepRows, Steps};
use std::ops::{AddAssign, Range};
use xxhash_rust::xxh3::xxh3_128;

/// A compact summary of the delivered rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Audit {
    pub rows: u64,
    /// Of the rows without their positions: equal for the same rows in any order.
    pub set: u128,
    /// Of the rows with their positions in the sequence of global batches.
    pub sequence: u128,
}

/// The content of the positions of an epoch.
#[derive(Debug, Clone, Copy)]
pub enum AuditIds<'a> {
    Rows {
        order: &'a RowOrder,
        rows: &'a RowSet,
    },
    /// By number: the tokens of a pack follow from the plan of its epoch.
    Packs,
}

impl Audit {
    fn add(&mut self, id: u64, place: u64) {
        self.rows += 1;
        self.set = self.set.wrapping_add(xxh3_128(&id.to_le_bytes()));
        let mut pair = [0; 16];
        for (byte, value) in
            pair.iter_mut().zip(id.to_le_bytes().into_iter().chain(place.to_le_bytes()))
        {
            *byte = value;
        }
        self.sequence = self.sequence.wrapping_add(xxh3_128(&pair));
    }

    /// Adds the rows at `places` of the global sequence for which `is_delivered` holds; `runs` may
    /// continue past them.
    pub(super) fn add_runs(
        &mut self,
        ids: &AuditIds<'_>,
        runs: impl IntoIterator<Item = Range<u64>>,
        places: Range<u64>,
        is_delivered: impl Fn(u64) -> bool,
    ) {
        let mut place = places.start;
        let mut next = |id| {
            if place < places.end && is_delivered(place) {
                self.add(id, place);
            }
            place += 1;
        };
        for run in runs {
            match ids {
                AuditIds::Packs => run.for_each(&mut next),
                AuditIds::Rows { order, rows } => order.for_each(run, |scheduled, row| {
                    next(rows.id_at(order, scheduled, row));
                }),
            }
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

/// The audit of all ranks between two positions of an epoch according to the plan; nothing is read.
#[must_use]
pub fn expected(ids: &AuditIds<'_>, steps: &Steps, from: u64, to: u64) -> Audit {
    let mut audit = Audit::default();
    let mut consumed = from;
    while let Some(step) = steps.step(consumed).filter(|step| step.start < to) {
        let StepRows { start, len, .. } = step;
        let all = Steps { batch_size: steps.global_batch(), world_size: 1, ..steps.clone() };
        let RankSlice { rows: runs, .. } = all.slice(step, 0);
        audit.add_runs(ids, runs, start..start + len, |_| true);
        consumed = start + len;
    }
    audit
}
