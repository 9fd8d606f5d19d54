//! Maps plan order to rows, of one data set or of several.
//!
//! A scheduled block is one residence of a block in memory. The invariant: a position maps to
//! exactly one row, and [`RowOrder::scheduled_blocks`] and [`RowOrder::span`] agree on which
//! positions need which scheduled blocks.

use super::blocks::{Block, BlockOrder};
use super::endless::EndlessOrder;
use super::mixture::{MixtureOptions, MixtureOrder};
use super::row_range::RowRange;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// The order of one epoch.
#[derive(Debug, Clone)]
pub struct RowOrder(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Blocks(BlockOrder),
    Mixture(Arc<MixtureOrder>),
    Endless(Arc<EndlessOrder>),
}

/// Indices of scheduled blocks, usually a single run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledBlocks(pub(super) Vec<Range<usize>>);

/// Calls the method that both kinds of orders have.
macro_rules! of_kind {
    ($self:expr, $method:ident($($argument:expr),*)) => {
        match &$self.0 {
            Kind::Blocks(order) => order.$method($($argument),*),
            Kind::Mixture(order) => order.$method($($argument),*),
            Kind::Endless(order) => order.$method($($argument),*),
        }
    };
}

impl RowOrder {
    /// Rows in the order of their blocks.
    #[must_use]
    pub fn sequential(blocks: &[Block]) -> Self {
        Self(Kind::Blocks(BlockOrder::sequential(blocks)))
    }

    /// Rows shuffled within windows of at most `window_bytes`, at least one block each.
    #[must_use]
    pub fn shuffled(blocks: &[Block], window_bytes: u64, seed: i64, epoch: u64) -> Self {
        Self(Kind::Blocks(BlockOrder::shuffled(blocks, window_bytes, seed, epoch)))
    }

    /// Rows of several sources, each drawn in its own order.
    #[must_use]
    pub fn mixed(options: MixtureOptions<'_>, epoch: u64) -> Self {
        Self(Kind::Mixture(Arc::new(MixtureOrder::new(options, epoch))))
    }

    /// The orders of all epochs, one after another, each with `rows`.
    #[must_use]
    pub fn endless(rows: u64, of_pass: impl Fn(u64) -> Arc<Self> + Send + Sync + 'static) -> Self {
        Self(Kind::Endless(Arc::new(EndlessOrder::new(rows, Box::new(of_pass)))))
    }

    /// Of several sources.
    #[must_use]
    pub fn mixture(&self) -> Option<&MixtureOrder> {
        match &self.0 {
            Kind::Blocks(_) | Kind::Endless(_) => None,
            Kind::Mixture(order) => Some(order),
        }
    }

    #[must_use]
    pub fn num_rows(&self) -> u64 {
        of_kind!(self, num_rows())
    }

    /// The number of separately mixed windows; zero without a shuffle.
    #[must_use]
    pub fn num_windows(&self) -> usize {
        of_kind!(self, num_windows())
    }

    /// Whether adjacent rows in this order usually come from different places.
    #[must_use]
    pub fn is_scattered(&self) -> bool {
        match &self.0 {
            Kind::Blocks(order) => order.num_windows() > 0,
            Kind::Mixture(_) => true,
            Kind::Endless(order) => order.is_scattered(),
        }
    }

    /// Number of epochs whose rows have positions.
    #[must_use]
    pub fn num_passes(&self) -> u64 {
        match &self.0 {
            Kind::Blocks(_) | Kind::Mixture(_) => 1,
            Kind::Endless(order) => order.num_passes(),
        }
    }

    /// The number of scheduled blocks; a scheduled block is an index below it.
    #[must_use]
    pub fn num_scheduled(&self) -> usize {
        of_kind!(self, num_scheduled())
    }

    /// The block of a scheduled block.
    #[must_use]
    pub fn block(&self, scheduled: usize) -> Option<usize> {
        of_kind!(self, block(scheduled))
    }

    /// The plan positions whose rows may come from a scheduled block.
    #[must_use]
    pub fn span(&self, scheduled: usize) -> Range<u64> {
        of_kind!(self, span(scheduled))
    }

    /// The scheduled blocks that the rows at these plan positions may come from.
    #[must_use]
    pub fn scheduled_blocks(&self, positions: Range<u64>) -> ScheduledBlocks {
        ScheduledBlocks(match &self.0 {
            Kind::Blocks(order) => vec![order.scheduled_blocks(positions)],
            Kind::Mixture(order) => order.scheduled_blocks(positions),
            Kind::Endless(order) => order.scheduled_blocks(positions),
        })
    }

    /// The row at a plan position: its block, and its index within the block.
    #[must_use]
    pub fn at(&self, position: u64) -> Option<(usize, u64)> {
        let mut found = None;
        self.for_each(position..position.saturating_add(1), |scheduled, row| {
            found = self.block(scheduled).map(|block| (block, row));
        });
        found
    }

    /// Calls `row` for each row at these plan positions, in order, with its scheduled block and its
    /// index within the block.
    pub fn for_each(&self, positions: Range<u64>, mut row: impl FnMut(usize, u64)) {
        match &self.0 {
            Kind::Blocks(order) => order.for_each(positions, row),
            Kind::Mixture(order) => order.for_each(positions, row),
            Kind::Endless(order) => order.for_each(positions, &mut row),
        }
    }

    /// The scheduled blocks that the rows at these plan positions do come from; looks at each row.
    #[must_use]
    pub fn blocks_of_rows(
        &self,
        positions: impl IntoIterator<Item = Range<u64>>,
    ) -> BTreeSet<usize> {
        let mut blocks = BTreeSet::new();
        for run in positions {
            self.for_each(run, |scheduled, _| {
                blocks.insert(scheduled);
            });
        }
        blocks
    }

    /// The rows at consecutive plan positions, with adjacent rows merged.
    #[must_use]
    pub fn ranges(&self, positions: Range<u64>) -> Vec<RowRange> {
        if let Kind::Blocks(order) = &self.0
            && order.num_windows() == 0
        {
            return order.whole_ranges(positions);
        }
        let mut ranges: Vec<RowRange> = Vec::new();
        self.for_each(positions, |scheduled, row| match ranges.last_mut() {
            Some(last) if last.scheduled == scheduled && last.start + last.len == row => {
                last.len += 1;
            }
            _ => ranges.push(RowRange { scheduled, start: row, len: 1 }),
        });
        ranges
    }
}

impl ScheduledBlocks {
    /// The scheduled block, if there is only one.
    #[must_use]
    pub fn only(&self) -> Option<usize> {
        let mut runs = self.0.iter().filter(|run| !run.is_empty());
        match (runs.next(), runs.next()) {
            (Some(run), None) if run.len() == 1 => Some(run.start),
            _ => None,
        }
    }

    #[must_use]
    pub fn contains(&self, scheduled: usize) -> bool {
        self.0.iter().any(|run| run.contains(&scheduled))
    }
}

impl IntoIterator for ScheduledBlocks {
    type Item = usize;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Range<usize>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blocks(rows: &[u64]) -> Vec<Block> {
        rows.iter().map(|rows| Block { rows: *rows, decoded_bytes: rows * 8 }).collect()
    }

    proptest! {
        #[test]
        fn every_row_has_one_position(
            rows in prop::collection::vec(0u64..40, 0..12),
            window in 0u64..800,
            seed: i64,
            epoch in 0u64..4,
            shuffle: bool,
        ) {
            let blocks = blocks(&rows);
            let order = if shuffle {
                RowOrder::shuffled(&blocks, window, seed, epoch)
            } else {
                RowOrder::sequential(&blocks)
            };
            let mut seen: Vec<(usize, u64)> =
                (0..order.num_rows()).filter_map(|position| order.at(position)).collect();
            seen.sort_unstable();
            let expected: Vec<(usize, u64)> = rows
                .iter()
                .enumerate()
                .flat_map(|(block, rows)| (0..*rows).map(move |row| (block, row)))
                .collect();
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn scheduled_blocks_of_positions_hold_all_of_their_rows(
            rows in prop::collection::vec(0u64..40, 1..12),
            window in 0u64..800,
            start in 0u64..200,
            len in 0u64..60,
        ) {
            for order in [
                RowOrder::sequential(&blocks(&rows)),
                RowOrder::shuffled(&blocks(&rows), window, 3, 1),
            ] {
                let scheduled_blocks = order.scheduled_blocks(start..start + len);
                order.for_each(start..start + len, |scheduled, _| {
                    assert!(scheduled_blocks.contains(scheduled));
                });
                for scheduled in scheduled_blocks.clone() {
                    let span = order.span(scheduled);
                    prop_assert!(span.start < start + len && start < span.end);
                }
                let counted: u64 =
                    order.ranges(start..start + len).iter().map(|range| range.len).sum();
                prop_assert_eq!(counted, (start + len).min(order.num_rows()).saturating_sub(start));
            }
        }
    }

    #[test]
    fn sequential_positions_are_one_range_a_block() {
        let order = RowOrder::sequential(&blocks(&[3, 0, 4]));
        let range = |scheduled, start, len| RowRange { scheduled, start, len };
        assert_eq!(order.ranges(1..100), [range(0, 1, 2), range(1, 0, 4)]);
        assert_eq!((order.block(1), order.span(1)), (Some(2), 3..7));
        assert!(order.scheduled_blocks(2..4).into_iter().eq(0..2));
    }

    #[test]
    fn a_window_beyond_the_data_mixes_everything() {
        let order = RowOrder::shuffled(&blocks(&[50; 20]), u64::MAX, 1, 0);
        assert_eq!(order.num_windows(), 1);
        let first: BTreeSet<usize> =
            (0..50).filter_map(|position| order.at(position)).map(|(block, _)| block).collect();
        assert!(first.len() > 10);
    }
}
