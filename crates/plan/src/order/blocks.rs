//! Maps plan order to rows of one data set: the identity, or a shuffle within windows
//! of whole blocks.
//!
//! Blocks are the unit of decoding. Their order is permuted; consecutive blocks form windows of
//! bounded decoded size; the rows of a window are permuted. So one pass with memory for a window
//! decodes each block once. The invariant: the mapping from positions to rows is a bijection.

use super::permutation::{Permutation, Purpose};
use super::row_range::RowRange;
use std::ops::Range;

/// Positions that are permuted together.
const PLACES_AT_ONCE: usize = 1024;

/// The unit of decoding: a row group, a stripe, a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    pub rows: u64,
    /// Estimated from metadata.
    pub decoded_bytes: u64,
}

/// The order of one epoch.
#[derive(Debug, Clone)]
pub(super) struct BlockOrder {
    rows: u64,
    /// First plan position of each scheduled block.
    starts: Vec<u64>,
    /// The block of each scheduled block.
    blocks: Vec<usize>,
    shuffle: Option<Shuffle>,
}

#[derive(Debug, Clone)]
struct Shuffle {
    seed: i64,
    epoch: u64,
    /// First plan position of each window, and the index of its first scheduled block.
    windows: Vec<(u64, usize)>,
}

impl BlockOrder {
    /// Rows in the order of their blocks.
    #[must_use]
    pub(super) fn sequential(blocks: &[Block]) -> Self {
        Self::scheduling(blocks, (0..blocks.len()).collect(), None)
    }

    /// Rows shuffled within windows of at most `window_bytes`, at least one block each.
    #[must_use]
    pub(super) fn shuffled(blocks: &[Block], window_bytes: u64, seed: i64, epoch: u64) -> Self {
        let permutation = Permutation::new(blocks.len() as u64, seed, epoch, Purpose::Blocks);
        let scheduled_blocks = (0..blocks.len() as u64)
            .filter_map(|place| usize::try_from(permutation.at(place)?).ok())
            .collect();
        let mut order = Self::scheduling(blocks, scheduled_blocks, None);
        let mut windows: Vec<(u64, usize)> = Vec::new();
        let mut filled = 0u64;
        for (place, (block, start)) in order.blocks.iter().zip(&order.starts).enumerate() {
            let bytes = blocks.get(*block).map_or(0, |block| block.decoded_bytes);
            if windows.is_empty() || filled.saturating_add(bytes) > window_bytes {
                windows.push((*start, place));
                filled = 0;
            }
            filled = filled.saturating_add(bytes);
        }
        order.shuffle = Some(Shuffle { seed, epoch, windows });
        order
    }

    fn scheduling(
        blocks: &[Block],
        scheduled_blocks: Vec<usize>,
        shuffle: Option<Shuffle>,
    ) -> Self {
        // Blocks without rows have no position; skipping them keeps the starts strictly ascending.
        let scheduled_blocks: Vec<usize> = scheduled_blocks
            .into_iter()
            .filter(|block| blocks.get(*block).is_some_and(|block| block.rows > 0))
            .collect();
        let mut rows = 0;
        let starts = scheduled_blocks
            .iter()
            .map(|block| {
                let start = rows;
                rows += blocks.get(*block).map_or(0, |block| block.rows);
                start
            })
            .collect();
        Self { rows, starts, blocks: scheduled_blocks, shuffle }
    }

    #[must_use]
    pub(super) fn num_rows(&self) -> u64 {
        self.rows
    }

    /// The number of separately mixed windows; zero without a shuffle.
    #[must_use]
    pub(super) fn num_windows(&self) -> usize {
        self.shuffle.as_ref().map_or(0, |shuffle| shuffle.windows.len())
    }

    /// The number of blocks that are visited; a scheduled block is an index below it.
    #[must_use]
    pub(super) fn num_scheduled(&self) -> usize {
        self.blocks.len()
    }

    /// The block of a scheduled block.
    #[must_use]
    pub(super) fn block(&self, scheduled: usize) -> Option<usize> {
        self.blocks.get(scheduled).copied()
    }

    /// The scheduled block of a block in an order that keeps the blocks as they are; `None` for one
    /// without rows.
    pub(super) fn scheduled_of(&self, block: usize) -> Option<usize> {
        self.blocks.binary_search(&block).ok()
    }

    /// The plan positions whose rows may come from a scheduled block: those of its block,
    /// or of its window.
    #[must_use]
    pub(super) fn span(&self, scheduled: usize) -> Range<u64> {
        let Some(start) = self.starts.get(scheduled) else { return self.rows..self.rows };
        match &self.shuffle {
            None => *start..self.starts.get(scheduled + 1).copied().unwrap_or(self.rows),
            Some(shuffle) => shuffle
                .window(*start, self.rows)
                .map_or(self.rows..self.rows, |window| window.positions),
        }
    }

    /// The scheduled blocks that the rows at these plan positions may come from.
    #[must_use]
    pub(super) fn scheduled_blocks(&self, positions: Range<u64>) -> Range<usize> {
        if positions.is_empty() || positions.start >= self.rows {
            return 0..0;
        }
        let scheduled = |position: u64| {
            self.starts.partition_point(|start| *start <= position).saturating_sub(1)
        };
        let last = positions.end.min(self.rows) - 1;
        match &self.shuffle {
            None => scheduled(positions.start)..scheduled(last) + 1,
            Some(shuffle) => {
                let edge = |position: u64| {
                    shuffle.window(position, self.rows).map_or(0..0, |window| window.positions)
                };
                scheduled(edge(positions.start).start)
                    ..scheduled(edge(last).end.saturating_sub(1)) + 1
            }
        }
    }

    /// Calls `row` for each row at these plan positions, in order, with its scheduled block and its
    /// index within the block.
    pub(super) fn for_each(&self, positions: Range<u64>, mut row: impl FnMut(usize, u64)) {
        let end = positions.end.min(self.rows);
        let mut position = positions.start;
        while position < end {
            match &self.shuffle {
                None => {
                    let Some((scheduled, first)) = self.located(position) else { return };
                    let until = self.span(scheduled).end.min(end);
                    (first..first + (until - position)).for_each(|place| row(scheduled, place));
                    position = until;
                }
                Some(shuffle) => {
                    let Some(window) = shuffle.window(position, self.rows) else { return };
                    let until = window.positions.end.min(end);
                    let scheduled_blocks = self.scheduled_blocks(window.positions.clone());
                    let starts = self.starts.get(scheduled_blocks.clone()).unwrap_or_default();
                    let mut places = [0; PLACES_AT_ONCE];
                    while position < until {
                        let count = usize::try_from(until - position)
                            .unwrap_or(usize::MAX)
                            .min(PLACES_AT_ONCE);
                        let Some(places) = places.get_mut(..count) else { return };
                        window.permutation.fill(position - window.positions.start, places);
                        for place in places {
                            let place = window.positions.start + *place;
                            let own =
                                starts.partition_point(|start| *start <= place).saturating_sub(1);
                            row(
                                scheduled_blocks.start + own,
                                place - starts.get(own).copied().unwrap_or_default(),
                            );
                        }
                        position += count as u64;
                    }
                }
            }
        }
    }

    /// The rows at consecutive plan positions, run by run. For orders without windows, whose
    /// adjacent rows are known without looking up each row.
    pub(super) fn whole_ranges(&self, positions: Range<u64>) -> Vec<RowRange> {
        let mut ranges: Vec<RowRange> = Vec::new();
        let end = positions.end.min(self.rows);
        let mut position = positions.start;
        while let Some((scheduled, start)) =
            (position < end).then(|| self.located(position)).flatten()
        {
            let until = self.span(scheduled).end.min(end);
            ranges.push(RowRange { scheduled, start, len: until - position });
            position = until;
        }
        ranges
    }

    fn located(&self, place: u64) -> Option<(usize, u64)> {
        let scheduled = self.starts.partition_point(|start| *start <= place).checked_sub(1)?;
        Some((scheduled, place - self.starts.get(scheduled)?))
    }
}

/// A window, with the permutation of its rows.
struct Window {
    positions: Range<u64>,
    permutation: Permutation,
}

impl Shuffle {
    /// The window around a plan position.
    fn window(&self, position: u64, rows: u64) -> Option<Window> {
        let number =
            self.windows.partition_point(|(start, _)| *start <= position).checked_sub(1)?;
        let (start, _) = *self.windows.get(number)?;
        let end = self.windows.get(number + 1).map_or(rows, |(start, _)| *start);
        let permutation = Permutation::new(
            end - start,
            self.seed,
            self.epoch,
            Purpose::Window { number: number as u64 },
        );
        Some(Window { positions: start..end, permutation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_window_draws_from_its_own_blocks_only(
            rows in prop::collection::vec(1u64..40, 1..12),
            window in 1u64..800,
            seed: i64,
        ) {
            let blocks: Vec<Block> =
                rows.iter().map(|rows| Block { rows: *rows, decoded_bytes: rows * 8 }).collect();
            let order = BlockOrder::shuffled(&blocks, window, seed, 0);
            // In the order of positions, a block that was left for another
            // window never occurs again.
            let windows = order.shuffle.as_ref().unwrap().windows.clone();
            for (number, (start, _)) in windows.iter().enumerate() {
                let end = windows.get(number + 1).map_or(order.num_rows(), |(start, _)| *start);
                let mut used = std::collections::BTreeSet::new();
                order.for_each(*start..end, |scheduled, _| {
                    used.extend(order.block(scheduled));
                });
                let bytes: u64 = used.iter().map(|block| blocks[*block].decoded_bytes).sum();
                prop_assert!(bytes <= window || used.len() == 1);
            }
        }
    }
}
