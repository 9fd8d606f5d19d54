//! Combines several row sets into one order: each position draws the next row of a source, and
//! every source cycles independently.
//!
//! A source is an endless stream: all of its rows in the order of pass 0, then those of pass 1, and
//! so on. An epoch continues where the preceding one ended, so no row of a source is drawn again
//! before all of its rows were drawn. The invariant: a position maps to exactly one draw of one
//! source, and the draws of an epoch directly follow those of the preceding epoch.

use super::blend::Blend;
use super::blocks::{Block, BlockOrder};
use super::lanes::Lanes;
use super::pattern::Pattern;
use super::permutation::source_seed;
use shardmill_storage::Remembered;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Number of windows whose rows are cached.
const KEPT_WINDOWS: usize = 512;

/// Number of blocks of all passes whose order is cached.
const KEPT_BLOCKS: usize = 4 << 20;

/// Smaller sources stay in memory when an epoch cycles through them more than once.
const RESIDENT_BYTES: u64 = 4 << 20;

/// The parameters of an order of several sources, apart from the epoch.
#[derive(Debug, Clone, Copy)]
pub struct MixtureOptions<'a> {
    pub blend: &'a Blend,
    /// Blocks of each source. A source with weight zero may have none.
    pub sources: &'a [Vec<Block>],
    /// For all sources together; `None` keeps each source in block order.
    pub window_bytes: Option<u64>,
    pub seed: i64,
    /// The pattern of sources starts again with each lane.
    pub lanes: u64,
}

/// The order of one epoch.
#[derive(Debug)]
pub struct MixtureOrder {
    pattern: Pattern,
    sources: Vec<Source>,
    scheduled_blocks: usize,
    passes: Remembered<Passes>,
    windows: Remembered<HashMap<usize, Arc<WindowRows>>>,
}

#[derive(Debug)]
struct Source {
    blocks: Vec<Block>,
    /// In block order.
    sequential: Arc<BlockOrder>,
    rows: u64,
    /// Drawn in earlier epochs.
    before: u128,
    /// Drawn in this one.
    draws: u64,
    seed: i64,
    window_bytes: Option<u64>,
    /// Index of its first block among those of all sources.
    first_block: usize,
    first_scheduled: usize,
    /// Each scheduled block is a block, shared by all passes; otherwise each pass has its own
    /// scheduled blocks.
    is_resident: bool,
}

#[derive(Debug, Default)]
struct Passes {
    orders: HashMap<(usize, u64), Arc<BlockOrder>>,
    blocks: usize,
}

/// The rows of a window of the pattern.
#[derive(Debug)]
struct WindowRows {
    start: u64,
    sources: Vec<usize>,
    /// Scheduled block, and index within its block.
    rows: Vec<(usize, u64)>,
}

impl MixtureOrder {
    #[must_use]
    pub fn new(options: MixtureOptions<'_>, epoch: u64) -> Self {
        let MixtureOptions { blend, sources: blocks, window_bytes, seed, lanes } = options;
        let (counts, before) = (blend.counts(epoch), blend.counts_before(epoch));
        let (parts, scale) = (blend.largest_parts(), u128::from(blend.scale()));
        let (mut sources, mut first_block, mut scheduled_blocks) =
            (Vec::with_capacity(blocks.len()), 0, 0usize);
        for (number, blocks) in blocks.iter().enumerate() {
            let part = u128::from(parts.get(number).copied().unwrap_or_default());
            // The windows of all sources together have the size of one window.
            let share =
                |bytes: u64| u64::try_from(u128::from(bytes) * part / scale).unwrap_or(u64::MAX);
            let sequential = Arc::new(BlockOrder::sequential(blocks));
            let (rows, draws) =
                (sequential.num_rows(), counts.get(number).copied().unwrap_or_default());
            let bytes: u64 =
                blocks.iter().map(|block| block.decoded_bytes).fold(0, u64::saturating_add);
            let window_bytes = window_bytes.map(share);
            let source = Source {
                blocks: blocks.clone(),
                rows,
                before: before.get(number).copied().unwrap_or_default(),
                draws: if rows == 0 { 0 } else { draws },
                seed: source_seed(seed, number as u64),
                window_bytes,
                first_block,
                first_scheduled: scheduled_blocks,
                is_resident: draws > rows
                    && bytes <= window_bytes.unwrap_or_default().max(RESIDENT_BYTES),
                sequential,
            };
            first_block += blocks.len();
            scheduled_blocks = scheduled_blocks.saturating_add(source.num_scheduled());
            sources.push(source);
        }
        let pattern = Pattern::new(&blend.of_epoch(epoch), seed, epoch, lanes);
        Self {
            pattern,
            sources,
            scheduled_blocks,
            passes: Remembered::default(),
            windows: Remembered::default(),
        }
    }

    #[must_use]
    pub fn num_rows(&self) -> u64 {
        self.pattern.num_rows()
    }

    /// The number of separately mixed windows of all sources and passes; zero without a shuffle.
    #[must_use]
    pub fn num_windows(&self) -> usize {
        let of_source = |number: usize, source: &Source| -> usize {
            let passes = source.passes();
            passes.map(|pass| self.order(number, source, pass).num_windows()).sum()
        };
        let shuffled =
            self.sources.iter().enumerate().filter(|(_, source)| source.window_bytes.is_some());
        shuffled.map(|(number, source)| of_source(number, source)).sum()
    }

    #[must_use]
    pub fn num_scheduled(&self) -> usize {
        self.scheduled_blocks
    }

    /// The block of a scheduled block, numbered over all sources.
    #[must_use]
    pub fn block(&self, scheduled: usize) -> Option<usize> {
        let (number, source) = self.source_at(scheduled)?;
        let place = source.place_of(scheduled)?;
        let block = match place.pass {
            Some(pass) => self.order(number, source, pass).block(place.scheduled),
            None => source.sequential.block(place.scheduled),
        };
        Some(source.first_block + block?)
    }

    /// The source that a scheduled block belongs to.
    #[must_use]
    pub fn source(&self, scheduled: usize) -> Option<usize> {
        self.source_at(scheduled).map(|(number, _)| number)
    }

    /// The plan positions whose rows may come from a scheduled block.
    #[must_use]
    pub fn span(&self, scheduled: usize) -> Range<u64> {
        let nowhere = self.num_rows()..self.num_rows();
        let Some((number, source)) = self.source_at(scheduled) else { return nowhere };
        let draws = match source.place_of(scheduled) {
            Some(Place { scheduled, pass: Some(pass) }) => {
                source.draws_of(pass, self.order(number, source, pass).span(scheduled))
            }
            Some(Place { pass: None, .. }) => 0..source.draws,
            None => return nowhere,
        };
        self.pattern.span(number, draws)
    }

    /// The scheduled blocks that the rows at these plan positions may come from, as runs.
    #[must_use]
    pub fn scheduled_blocks(&self, positions: Range<u64>) -> Vec<Range<usize>> {
        if positions.is_empty() || positions.start >= self.num_rows() {
            return Vec::new();
        }
        let (start, end) = (self.drawn(positions.start), self.drawn(positions.end));
        let mut scheduled_blocks = Vec::new();
        for ((number, source), (start, end)) in
            self.sources.iter().enumerate().zip(start.into_iter().zip(end))
        {
            if source.is_resident && start < end {
                scheduled_blocks
                    .push(source.first_scheduled..source.first_scheduled + source.num_scheduled());
                continue;
            }
            source.each_pass(start..end, |pass, rows| {
                let own = self.order(number, source, pass).scheduled_blocks(rows);
                let first = source.first_scheduled_of(pass);
                scheduled_blocks.push(first + own.start..first + own.end);
            });
        }
        scheduled_blocks
    }

    /// Calls `row` for each row at these plan positions, in order, with its scheduled block and its
    /// index within the block.
    pub fn for_each(&self, positions: Range<u64>, mut row: impl FnMut(usize, u64)) {
        let end = positions.end.min(self.num_rows());
        let mut position = positions.start;
        while position < end {
            let window = self.window(self.pattern.window_of(position));
            let until = (window.start + window.rows.len() as u64).min(end);
            let place =
                |position: u64| usize::try_from(position - window.start).unwrap_or(usize::MAX);
            let rows = window.rows.get(place(position)..place(until)).unwrap_or_default();
            rows.iter().for_each(|(scheduled, place)| row(*scheduled, *place));
            position = until.max(position + 1);
        }
    }

    /// Rows of each source before a plan position.
    #[must_use]
    pub fn drawn(&self, position: u64) -> Vec<u64> {
        if position >= self.num_rows() {
            return self.sources.iter().map(|source| source.draws).collect();
        }
        let number = self.pattern.window_of(position);
        let mut drawn = self.pattern.drawn(number).to_vec();
        let start = self.pattern.positions(number).start;
        if position > start {
            let window = self.window(number);
            for source in
                window.sources.iter().take(usize::try_from(position - start).unwrap_or(usize::MAX))
            {
                if let Some(drawn) = drawn.get_mut(*source) {
                    *drawn += 1;
                }
            }
        }
        drawn
    }

    /// How often all rows of a source were drawn before its draw number `drawn` of this epoch.
    pub(super) fn round(&self, source: usize, drawn: u64) -> u64 {
        self.sources
            .get(source)
            .map_or(0, |source| source.pass_of(source.before + u128::from(drawn)))
    }

    /// Rows of each source among the first `consumed` rows of the global sequence.
    #[must_use]
    pub fn consumed(&self, consumed: u64) -> Vec<u64> {
        let lanes: &Lanes = self.pattern.lanes();
        let mut sums = vec![0; self.sources.len()];
        for lane in 0..lanes.num_lanes().min(lanes.num_rows()) {
            let (start, end) =
                (self.drawn(lanes.positions(lane).start), self.drawn(lanes.cursor(lane, consumed)));
            for ((sum, start), end) in sums.iter_mut().zip(start).zip(end) {
                *sum += end - start;
            }
        }
        sums
    }

    /// Blocks of each source among those of all sources, and its rows in this epoch.
    pub fn shares(&self) -> impl Iterator<Item = (Range<usize>, u64)> {
        self.sources.iter().map(|source| {
            (source.first_block..source.first_block + source.blocks.len(), source.draws)
        })
    }

    fn source_at(&self, scheduled: usize) -> Option<(usize, &Source)> {
        let number = self
            .sources
            .partition_point(|source| source.first_scheduled <= scheduled)
            .checked_sub(1)?;
        Some((number, self.sources.get(number).filter(|_| scheduled < self.scheduled_blocks)?))
    }

    /// The order of a pass, created on first use.
    fn order(&self, number: usize, source: &Source, pass: u64) -> Arc<BlockOrder> {
        let Some(window_bytes) = source.window_bytes else { return Arc::clone(&source.sequential) };
        if let Some(known) = self.passes.lock().orders.get(&(number, pass)) {
            return Arc::clone(known);
        }
        let order = Arc::new(BlockOrder::shuffled(&source.blocks, window_bytes, source.seed, pass));
        let mut passes = self.passes.lock();
        passes.blocks += source.blocks.len();
        if passes.blocks > KEPT_BLOCKS {
            passes.orders.clear();
            passes.blocks = source.blocks.len();
        }
        passes.orders.insert((number, pass), Arc::clone(&order));
        order
    }

    fn window(&self, number: usize) -> Arc<WindowRows> {
        if let Some(known) = self.windows.lock().get(&number) {
            return Arc::clone(known);
        }
        let window = Arc::new(self.resolved(number));
        let mut windows = self.windows.lock();
        if windows.len() >= KEPT_WINDOWS {
            windows.clear();
        }
        windows.insert(number, Arc::clone(&window));
        window
    }

    fn resolved(&self, window: usize) -> WindowRows {
        let sources = self.pattern.sources(window);
        let mut queues: Vec<std::vec::IntoIter<(usize, u64)>> =
            Vec::with_capacity(self.sources.len());
        let draws = self.pattern.drawn(window).iter().zip(self.pattern.drawn(window + 1));
        for ((number, source), (start, end)) in self.sources.iter().enumerate().zip(draws) {
            let mut rows = Vec::with_capacity(usize::try_from(end - start).unwrap_or_default());
            source.each_pass(*start..*end, |pass, positions| {
                let order = self.order(number, source, pass);
                order.for_each(positions, |scheduled, row| {
                    rows.push((source.scheduled_of(&order, pass, scheduled), row));
                });
            });
            queues.push(rows.into_iter());
        }
        let rows = sources.iter().filter_map(|source| queues.get_mut(*source)?.next()).collect();
        WindowRows { start: self.pattern.positions(window).start, sources, rows }
    }
}

/// The position of a scheduled block of a source: in one pass, or in block order.
struct Place {
    scheduled: usize,
    pass: Option<u64>,
}

impl Source {
    /// The passes that this epoch draws from.
    fn passes(&self) -> Range<u64> {
        if self.draws == 0 {
            return 0..0;
        }
        let last = self.pass_of(self.before + u128::from(self.draws - 1));
        self.first_pass()..last.saturating_add(1)
    }

    fn first_pass(&self) -> u64 {
        self.pass_of(self.before)
    }

    fn pass_of(&self, draw: u128) -> u64 {
        u64::try_from(draw / u128::from(self.rows.max(1))).unwrap_or(u64::MAX)
    }

    fn num_scheduled(&self) -> usize {
        let passes = self.passes();
        let times = if self.is_resident {
            1
        } else {
            usize::try_from(passes.end - passes.start).unwrap_or(usize::MAX)
        };
        self.sequential.num_scheduled().saturating_mul(times)
    }

    fn first_scheduled_of(&self, pass: u64) -> usize {
        let passes = usize::try_from(pass.saturating_sub(self.first_pass())).unwrap_or(usize::MAX);
        self.first_scheduled.saturating_add(self.sequential.num_scheduled().saturating_mul(passes))
    }

    fn place_of(&self, scheduled: usize) -> Option<Place> {
        let scheduled = scheduled.checked_sub(self.first_scheduled)?;
        if self.is_resident {
            return Some(Place { scheduled, pass: None });
        }
        let each = self.sequential.num_scheduled();
        let pass = u64::try_from(scheduled.checked_div(each)?).ok()?;
        Some(Place {
            scheduled: scheduled % each,
            pass: Some(self.first_pass().saturating_add(pass)),
        })
    }

    fn scheduled_of(&self, order: &BlockOrder, pass: u64, scheduled: usize) -> usize {
        if self.is_resident {
            return self.first_scheduled
                + order
                    .block(scheduled)
                    .and_then(|block| self.sequential.scheduled_of(block))
                    .unwrap_or_default();
        }
        self.first_scheduled_of(pass).saturating_add(scheduled)
    }

    /// Maps draws of this epoch to positions of each pass.
    fn each_pass(&self, draws: Range<u64>, mut rows: impl FnMut(u64, Range<u64>)) {
        let mut draw = draws.start;
        while draw < draws.end && self.rows > 0 {
            let absolute = self.before + u128::from(draw);
            let place = u64::try_from(absolute % u128::from(self.rows)).unwrap_or_default();
            let len = (self.rows - place).min(draws.end - draw);
            rows(self.pass_of(absolute), place..place + len);
            draw += len;
        }
    }

    /// Maps positions of a pass to draws of this epoch.
    fn draws_of(&self, pass: u64, places: Range<u64>) -> Range<u64> {
        let draw = |place: u64| {
            let absolute = u128::from(pass) * u128::from(self.rows) + u128::from(place);
            u64::try_from(absolute.saturating_sub(self.before)).unwrap_or(u64::MAX).min(self.draws)
        };
        draw(places.start)..draw(places.end)
    }
}

#[cfg(test)]
mod tests;
