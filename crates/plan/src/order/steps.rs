//! Maps the global sequence to steps and to the slice of a rank, with three ways to end an epoch.
//!
//! The step that starts at position c covers the next batch_size × world_size rows; each rank takes
//! a contiguous part of them, sorted by lane. Step counts depend only on the row count, never on
//! what a rank has read, so they are equal on all ranks.

use super::Lanes;
use std::ops::Range;

/// How rows at the end of an epoch that do not fill a step are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// They are not delivered.
    Drop,
    /// The step is padded with rows from the start of the epoch, which are marked.
    Pad,
    /// Ranks share them as evenly as possible; a rank may get none.
    Uneven,
}

/// The steps of one epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    pub lanes: Lanes,
    pub batch_size: u64,
    pub world_size: u64,
    pub tail: Tail,
}

/// The rows of one rank in one step, as runs of plan positions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankSlice {
    pub rows: Vec<Range<u64>>,
    /// Rows of the step for lower ranks.
    pub offset: u64,
    /// Number of rows at the end that repeat rows already delivered in the epoch.
    pub repeats: u64,
}

/// One step: its rows, and the position in the epoch after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepRows {
    /// Positions of the global sequence that are new in this step.
    pub start: u64,
    pub len: u64,
    /// Positions repeated from the start of the epoch.
    pub repeats: u64,
}

impl Steps {
    #[must_use]
    pub fn global_batch(&self) -> u64 {
        self.batch_size.max(1).saturating_mul(self.world_size.max(1))
    }

    /// The lanes that a rank may draw from: its own ones if lanes and batches divide evenly,
    /// otherwise all.
    #[must_use]
    pub fn lanes_of(&self, rank: u64) -> Range<u64> {
        let (lanes, world_size) = (self.lanes.num_lanes(), self.world_size.max(1));
        let each = lanes / world_size;
        let is_local =
            lanes.is_multiple_of(world_size) && self.batch_size.is_multiple_of(each.max(1));
        if is_local { rank * each..(rank + 1) * each } else { 0..lanes }
    }

    /// Number of rows delivered at the end of an epoch that is resumed at `consumed`.
    #[must_use]
    pub fn end(&self, consumed: u64) -> u64 {
        consumed
            .saturating_add(self.remaining(consumed).saturating_mul(self.global_batch()))
            .min(self.lanes.num_rows().max(consumed))
    }

    /// The remaining steps after `consumed` rows of the epoch were delivered.
    #[must_use]
    pub fn remaining(&self, consumed: u64) -> u64 {
        let left = self.lanes.num_rows().saturating_sub(consumed);
        match self.tail {
            Tail::Drop => left / self.global_batch(),
            Tail::Pad | Tail::Uneven => left.div_ceil(self.global_batch()),
        }
    }

    /// The remaining batches of `rank`: it may have none in the last step.
    #[must_use]
    pub fn batches(&self, consumed: u64, rank: u64) -> u64 {
        let left = self.remaining(consumed);
        let last =
            consumed.saturating_add(left.saturating_sub(1).saturating_mul(self.global_batch()));
        let is_idle = self.step(last).is_some_and(|step| self.slice(step, rank).rows.is_empty());
        left.saturating_sub(u64::from(is_idle))
    }

    /// The step that starts after `consumed` rows were delivered; `None` at the end of the epoch.
    #[must_use]
    pub fn step(&self, consumed: u64) -> Option<StepRows> {
        if self.remaining(consumed) == 0 {
            return None;
        }
        let len = self.global_batch().min(self.lanes.num_rows() - consumed);
        let repeats = if self.tail == Tail::Pad { self.global_batch() - len } else { 0 };
        Some(StepRows { start: consumed, len, repeats })
    }

    /// The rows of `rank` in `step`.
    #[must_use]
    pub fn slice(&self, step: StepRows, rank: u64) -> RankSlice {
        let (start, end) = if self.tail == Tail::Uneven && step.len < self.global_batch() {
            let (each, longer) =
                (step.len / self.world_size.max(1), step.len % self.world_size.max(1));
            let start = rank * each + rank.min(longer);
            (start, start + each + u64::from(rank < longer))
        } else {
            (rank * self.batch_size, (rank + 1) * self.batch_size)
        };
        let rows =
            part_of(&self.lanes.runs(step.start..step.start + step.len), start..end.min(step.len));
        let mut slice = RankSlice { rows, offset: start, repeats: 0 };
        if end > step.len && step.repeats > 0 {
            // A small epoch may repeat several times within one step.
            let rows = self.lanes.num_rows();
            for place in start.max(step.len) - step.len..(end - step.len).min(step.repeats) {
                slice.rows.extend(self.lanes.runs(place % rows..place % rows + 1));
                slice.repeats += 1;
            }
        }
        slice
    }
}

/// The part `wanted` of the concatenation of `runs`.
#[must_use]
pub fn part_of(runs: &[Range<u64>], wanted: Range<u64>) -> Vec<Range<u64>> {
    let mut passed = 0;
    let mut parts = Vec::new();
    for run in runs {
        let len = run.end - run.start;
        let from = wanted.start.clamp(passed, passed + len) - passed;
        let to = wanted.end.clamp(passed, passed + len) - passed;
        if from < to {
            parts.push(run.start + from..run.start + to);
        }
        passed += len;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn steps(rows: u64, lanes: u64, batch_size: u64, world_size: u64, tail: Tail) -> Steps {
        Steps { lanes: Lanes::new(rows, lanes), batch_size, world_size, tail }
    }

    fn positions(slice: &RankSlice) -> Vec<u64> {
        slice.rows.iter().cloned().flatten().collect()
    }

    /// Global batches of an epoch from `consumed` on, each as the concatenation
    /// of its ranks' new rows.
    fn epoch(plan: &Steps, mut consumed: u64) -> Vec<Vec<u64>> {
        let mut batches = Vec::new();
        while let Some(step) = plan.step(consumed) {
            let mut batch = Vec::new();
            for rank in 0..plan.world_size {
                let slice = plan.slice(step, rank);
                let rows = positions(&slice);
                batch.extend_from_slice(
                    &rows[..rows.len() - usize::try_from(slice.repeats).unwrap()],
                );
            }
            batches.push(batch);
            consumed += step.len;
        }
        batches
    }

    proptest! {
        #[test]
        fn every_row_is_delivered_once(
            rows in 0u64..300,
            lanes in 1u64..9,
            batch_size in 1u64..20,
            world_size in 1u64..6,
        ) {
            for tail in [Tail::Drop, Tail::Pad, Tail::Uneven] {
                let plan = steps(rows, lanes, batch_size, world_size, tail);
                let mut seen: Vec<u64> = epoch(&plan, 0).into_iter().flatten().collect();
                let delivered = seen.len() as u64;
                seen.sort_unstable();
                seen.dedup();
                prop_assert_eq!(seen.len() as u64, delivered);
                let lost = if tail == Tail::Drop { rows % plan.global_batch() } else { 0 };
                prop_assert_eq!(delivered, rows - lost);
            }
        }

        #[test]
        fn topology_does_not_change_global_batches(
            rows in 0u64..300,
            lanes in 1u64..9,
            batch_size in 1u64..10,
        ) {
            let one = steps(rows, lanes, batch_size * 4, 1, Tail::Uneven);
            for world_size in [2, 4] {
                let many =
                    steps(rows, lanes, batch_size * 4 / world_size, world_size, Tail::Uneven);
                prop_assert_eq!(epoch(&one, 0), epoch(&many, 0));
            }
        }

        #[test]
        fn resumed_epoch_continues_the_uninterrupted_one(
            rows in 1u64..300,
            lanes in 1u64..9,
            batch_size in 1u64..20,
            done in 0usize..20,
        ) {
            let plan = steps(rows, lanes, batch_size, 2, Tail::Uneven);
            let whole = epoch(&plan, 0);
            let done = done.min(whole.len());
            let consumed = whole.iter().take(done).map(|batch| batch.len() as u64).sum();
            prop_assert_eq!(epoch(&plan, consumed), whole[done..].to_vec());
        }

        #[test]
        fn padded_steps_are_full_on_every_rank(
            rows in 1u64..60,
            lanes in 1u64..5,
            batch_size in 1u64..20,
            world_size in 1u64..6,
        ) {
            let plan = steps(rows, lanes, batch_size, world_size, Tail::Pad);
            let mut consumed = 0;
            while let Some(step) = plan.step(consumed) {
                for rank in 0..world_size {
                    prop_assert_eq!(positions(&plan.slice(step, rank)).len() as u64, batch_size);
                }
                consumed += step.len;
            }
            prop_assert_eq!(consumed, rows);
        }
    }

    #[test]
    fn hundred_rows_on_four_ranks_end_as_the_three_tails_say() {
        assert_eq!(steps(100, 1, 8, 4, Tail::Drop).remaining(0), 3);
        let padded = steps(100, 1, 8, 4, Tail::Pad);
        let last = padded.step(96).unwrap();
        assert_eq!((padded.remaining(0), last.repeats), (4, 28));
        assert_eq!((0..4).map(|rank| padded.slice(last, rank).repeats).sum::<u64>(), 28);
        let uneven = steps(100, 1, 8, 4, Tail::Uneven);
        let last = uneven.step(96).unwrap();
        assert_eq!(
            (0..4).map(|rank| positions(&uneven.slice(last, rank))).collect::<Vec<_>>(),
            [[96], [97], [98], [99]]
        );
    }

    #[test]
    fn a_rank_of_as_many_lanes_as_ranks_reads_its_own_lane_only() {
        let plan = steps(1000, 4, 25, 4, Tail::Uneven);
        let lane = plan.lanes.positions(2);
        let mut consumed = 0;
        while let Some(step) = plan.step(consumed) {
            assert!(positions(&plan.slice(step, 2)).iter().all(|position| lane.contains(position)));
            consumed += step.len;
        }
    }
}
