//! The orders of all epochs, one after another.
//!
//! Positions of pass 0 come first, then those of pass 1, and so on; and so do scheduled blocks.
//! The invariant: every pass has the same number of rows, so the pass of a position follows
//! from a division.

use super::row_order::{RowOrder, ScheduledBlocks};
use shardmill_storage::Remembered;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Numbers of scheduled blocks reserved for each pass.
const SCHEDULED_OF_A_PASS: usize = 1 << 32;

/// More passes cannot be numbered.
const MOST_PASSES: u64 = 1 << 31;

/// Lanes drift apart, so several passes are read at a time.
const KEPT_PASSES: usize = 8;

type OfPass = Box<dyn Fn(u64) -> Arc<RowOrder> + Send + Sync>;

/// Row order without an end.
pub(super) struct EndlessOrder {
    /// Of each pass.
    rows: u64,
    of_pass: OfPass,
    known: Remembered<VecDeque<(u64, Arc<RowOrder>)>>,
}

impl fmt::Debug for EndlessOrder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EndlessOrder").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl EndlessOrder {
    pub(super) fn new(rows: u64, of_pass: OfPass) -> Self {
        Self { rows, of_pass, known: Remembered::default() }
    }

    /// Number of passes whose positions are numbers.
    pub(super) fn num_passes(&self) -> u64 {
        MOST_PASSES.min(u64::MAX / self.rows.max(1))
    }

    pub(super) fn num_rows(&self) -> u64 {
        self.num_passes().saturating_mul(self.rows)
    }

    pub(super) fn num_windows(&self) -> usize {
        self.pass(0).num_windows()
    }

    pub(super) fn is_scattered(&self) -> bool {
        self.pass(0).is_scattered()
    }

    pub(super) fn num_scheduled(&self) -> usize {
        SCHEDULED_OF_A_PASS.saturating_mul(usize::try_from(self.num_passes()).unwrap_or(usize::MAX))
    }

    pub(super) fn block(&self, scheduled: usize) -> Option<usize> {
        self.pass(pass_of(scheduled)).block(scheduled % SCHEDULED_OF_A_PASS)
    }

    pub(super) fn span(&self, scheduled: usize) -> Range<u64> {
        let pass = pass_of(scheduled);
        let (span, start) =
            (self.pass(pass).span(scheduled % SCHEDULED_OF_A_PASS), pass * self.rows);
        start + span.start..start + span.end
    }

    pub(super) fn scheduled_blocks(&self, positions: Range<u64>) -> Vec<Range<usize>> {
        let mut scheduled = Vec::new();
        self.each_pass(positions, |pass, positions| {
            let first =
                usize::try_from(pass).unwrap_or(usize::MAX).saturating_mul(SCHEDULED_OF_A_PASS);
            let ScheduledBlocks(runs) = self.pass(pass).scheduled_blocks(positions);
            scheduled.extend(runs.into_iter().map(|run| first + run.start..first + run.end));
        });
        scheduled
    }

    /// A closure by reference, because an order calls the method of the same name of another one.
    pub(super) fn for_each(&self, positions: Range<u64>, row: &mut dyn FnMut(usize, u64)) {
        self.each_pass(positions, |pass, positions| {
            let first =
                usize::try_from(pass).unwrap_or(usize::MAX).saturating_mul(SCHEDULED_OF_A_PASS);
            self.pass(pass).for_each(positions, |scheduled, place| row(first + scheduled, place));
        });
    }

    fn each_pass(&self, positions: Range<u64>, mut part: impl FnMut(u64, Range<u64>)) {
        let (mut position, end) = (positions.start, positions.end.min(self.num_rows()));
        while position < end {
            let pass = position / self.rows.max(1);
            let start = pass * self.rows;
            let until = (start + self.rows).min(end);
            part(pass, position - start..until - start);
            position = until;
        }
    }

    /// The order of a pass, which is made when it is first needed.
    fn pass(&self, pass: u64) -> Arc<RowOrder> {
        let mut known = self.known.lock();
        if let Some((_, order)) = known.iter().find(|(number, _)| *number == pass) {
            return Arc::clone(order);
        }
        let order = (self.of_pass)(pass);
        if known.len() >= KEPT_PASSES {
            known.pop_front();
        }
        known.push_back((pass, Arc::clone(&order)));
        order
    }
}

fn pass_of(scheduled: usize) -> u64 {
    (scheduled / SCHEDULED_OF_A_PASS) as u64
}

#[cfg(test)]
mod tests {
    use super::super::{Block, RowOrder};
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn blocks(rows: &[u64]) -> Vec<Block> {
        rows.iter().map(|rows| Block { rows: *rows, decoded_bytes: rows * 8 }).collect()
    }

    fn rows_at(order: &RowOrder, positions: std::ops::Range<u64>) -> Vec<(usize, u64)> {
        let mut found = Vec::new();
        order.for_each(positions, |scheduled, row| {
            found.push((order.block(scheduled).unwrap(), row));
        });
        found
    }

    proptest! {
        #[test]
        fn passes_follow_one_another(
            rows in prop::collection::vec(0u64..20, 1..6),
            is_shuffled: bool,
            start in 0u64..150,
            len in 0u64..80,
        ) {
            let all: u64 = rows.iter().sum();
            prop_assume!(all > 0);
            let blocks = blocks(&rows);
            let of_pass = move |pass| {
                Arc::new(if is_shuffled {
                    RowOrder::shuffled(&blocks, 100, 3, pass)
                } else {
                    RowOrder::sequential(&blocks)
                })
            };
            let expected: Vec<(usize, u64)> =
                (0..20).flat_map(|pass| rows_at(&of_pass(pass), 0..all)).collect();
            let order = RowOrder::endless(all, of_pass);
            let end = (start + len).min(all * 20);
            prop_assert_eq!(
                rows_at(&order, start..end),
                expected[usize::try_from(start.min(end)).unwrap()..usize::try_from(end).unwrap()]
                    .to_vec()
            );
            let known: BTreeSet<usize> = order.scheduled_blocks(start..end).into_iter().collect();
            let mut position = start;
            order.for_each(start..end, |scheduled, _| {
                assert!(known.contains(&scheduled) && order.span(scheduled).contains(&position));
                position += 1;
            });
        }
    }
}
