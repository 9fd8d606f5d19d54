//! Packs of endless lanes: the token counts of a few windows are enough for the next batch.
//!
//! ```text
//! place of the global sequence --AheadEpoch--> pack of a lane
//!     --BalancedCursor, RowCounts--> pieces of rows
//! ```
//!
//! A row has the position `pass * rows + position in the order of the pass`;
//! see [`RowOrder::endless`].

use super::amounts::Amounts;
use super::packs::row_at;
use super::row_counts::RowCounts;
use super::{DrawnPacks, Error};
use crate::{Dataset, Result, RowSet};
use shardmill_engine::Cancel;
use shardmill_plan::order::{Lanes, RowOrder};
use shardmill_plan::packing::{
    Amount, Balance, BalancedCursor, Counts, LaneCursor, LanePiece, LaneRows, Mark, NoPack,
    Packing, Piece, Strategy,
};
use shardmill_storage::Remembered;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// Rows that are packed together, if they are not concatenated. Must never change: a different
/// value would produce different packs.
pub const PACK_WINDOW_ROWS: u64 = 65_536;

/// Number of rows of a mixture that are counted together. Windows of its sources
/// start at different positions.
const MIXED_ROWS: u64 = 8_192;

/// How the rows of a pass are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passes {
    /// As in the files, in every pass.
    Files,
    Shuffled,
    /// Of several sources.
    Mixed,
}

/// The packs of all lanes.
#[derive(Debug)]
pub struct AheadPacks {
    pub(super) dataset: Arc<Dataset>,
    rows: Arc<RowSet>,
    order: Arc<RowOrder>,
    passes: Passes,
    row_lanes: Lanes,
    packing: Packing,
    counts: Arc<RowCounts>,
    /// Positions of the lanes before which there is no pack; empty for their start.
    starts: Vec<Mark>,
    /// Positions that cursors have passed, by lane and pack.
    marks: Remembered<Marks>,
}

type Marks = HashMap<u64, BTreeMap<u64, Mark>>;

/// Consecutive places of the global sequence of packs.
#[derive(Debug, Clone)]
pub struct AheadEpoch {
    pub packs: Arc<AheadPacks>,
    /// Places before it.
    start: u64,
    lanes: Lanes,
}

impl AheadPacks {
    /// `order` is endless, and `row_lanes` are those of each of its passes.
    #[must_use]
    pub fn new(
        dataset: &Arc<Dataset>,
        rows: &Arc<RowSet>,
        (order, passes): (Arc<RowOrder>, Passes),
        row_lanes: Lanes,
        packing: Packing,
        counts: RowCounts,
        starts: Vec<Mark>,
    ) -> Self {
        let (dataset, rows) = (Arc::clone(dataset), Arc::clone(rows));
        Self {
            dataset,
            rows,
            order,
            passes,
            row_lanes,
            packing,
            counts: Arc::new(counts.padded(packing)),
            starts,
            marks: Remembered::default(),
        }
    }

    /// Those of the same rows in an order that is another from a pass on.
    #[must_use]
    pub fn reordered(&self, order: Arc<RowOrder>, pass: u64, starts: Vec<Mark>) -> Self {
        let mut marks = self.marks.lock().clone();
        marks.values_mut().for_each(|of_lane| of_lane.retain(|_, mark| mark.pass < pass));
        let packs = Self {
            dataset: Arc::clone(&self.dataset),
            rows: Arc::clone(&self.rows),
            order,
            passes: self.passes,
            row_lanes: self.row_lanes.clone(),
            packing: self.packing,
            counts: Arc::clone(&self.counts),
            starts,
            marks: Remembered::default(),
        };
        *packs.marks.lock() = marks;
        packs
    }

    /// The rows of a pass, whose blocks the order schedules.
    #[must_use]
    pub fn rows(&self) -> &Arc<RowSet> {
        &self.rows
    }

    #[must_use]
    pub fn order(&self) -> &Arc<RowOrder> {
        &self.order
    }

    #[must_use]
    pub fn row_lanes(&self) -> &Lanes {
        &self.row_lanes
    }

    /// Whether all packs are full of tokens.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.packing.strategy == Strategy::Concat
            && self.packing.multiple_of <= 1
            && !self.counts.has_blocks()
    }

    /// Tokens of a pack.
    #[must_use]
    pub fn length(&self) -> u32 {
        self.packing.length
    }

    #[must_use]
    pub fn packing(&self) -> &Packing {
        &self.packing
    }

    /// The order of packs, if they do not come as they are packed.
    #[must_use]
    pub fn balance(&self) -> Option<Balance> {
        self.packing.balance
    }

    #[must_use]
    pub fn counts(&self) -> &RowCounts {
        &self.counts
    }

    /// Draws one pack of a lane. `cursor` is that of an earlier pack, if there is one; it moves
    /// past the pack.
    pub(crate) fn draw(
        &self,
        cursor: &mut Option<BalancedCursor>,
        lane: u64,
        pack: u64,
        drawn: &mut DrawnPacks,
        cancel: &Cancel,
    ) -> Result<()> {
        let mut current = match cursor.take() {
            Some(cursor) if cursor.pack() <= pack => cursor,
            _ => {
                let start =
                    self.balance().map_or(pack, |balance| balance.window_ahead(pack).1.start);
                let mark = self.mark_before(lane, start)?;
                BalancedCursor::at(self.packing, PACK_WINDOW_ROWS, mark)
            }
        };
        let no_pack = |reason| self.no_pack(lane, reason);
        if current.pack() < pack {
            current
                .seek(&LaneOf { packs: self, lane, is_next: false, cancel }, pack)
                .map_err(no_pack)?;
        }
        self.remember(lane, &current);
        let mut pieces = Vec::new();
        current
            .draw(&LaneOf { packs: self, lane, is_next: true, cancel }, &mut pieces)
            .map_err(no_pack)?;
        drawn.add(
            pieces.into_iter().map(|piece| (self.position(lane, piece.pass, piece.row), piece)),
        );
        *cursor = Some(current);
        Ok(())
    }

    /// The position of the first row that a cursor of a lane needs.
    pub(crate) fn needed_from(&self, lane: u64, cursor: &BalancedCursor) -> u64 {
        let (pass, row) = cursor.needed_from();
        self.position(lane, pass, row)
    }

    /// The positions of the rows that a cursor of a lane has counted and needs for packs that are
    /// not drawn.
    pub(crate) fn counted(&self, lane: u64, cursor: &BalancedCursor) -> Range<u64> {
        let (pass, rows) = cursor.counted();
        self.position(lane, pass, rows.start)..self.position(lane, pass, rows.end)
    }

    /// The positions of the rows in the packs that a cursor of a lane has drawn ahead.
    pub(crate) fn held(
        &self,
        lane: u64,
        cursor: &BalancedCursor,
    ) -> impl Iterator<Item = Range<u64>> {
        cursor.held().map(move |(pass, row)| {
            let position = self.position(lane, pass, row);
            position..position + 1
        })
    }

    /// For the lanes that have rows at these positions, which are of one pass: the lane, and the
    /// end of its part.
    pub(crate) fn lanes_at(&self, positions: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
        let rows = self.row_lanes.num_rows().max(1);
        let start = positions.start / rows * rows;
        let (from, to) =
            (positions.start - start, positions.end.saturating_sub(1).saturating_sub(start));
        (self.row_lanes.lane_of(from)..=self.row_lanes.lane_of(to))
            .map(move |lane| (lane, positions.end.min(start + self.row_lanes.positions(lane).end)))
    }

    fn position(&self, lane: u64, pass: u64, row: u64) -> u64 {
        pass * self.row_lanes.num_rows() + self.row_lanes.positions(lane).start + row
    }

    /// The position of a lane after its packs before `pack`, or shortly before.
    fn reached(&self, lane: u64, pack: u64, cancel: &Cancel) -> Result<Mark> {
        let start = self.start(lane);
        if pack == start.pack {
            return Ok(start);
        }
        // What the last pack looks ahead at is only known when it is drawn.
        let last = pack.saturating_sub(1);
        let mut cursor =
            LaneCursor::at(self.packing, PACK_WINDOW_ROWS, self.mark_before(lane, last)?);
        let (rows, mut pieces) = (LaneOf { packs: self, lane, is_next: false, cancel }, Vec::new());
        let moved = cursor.seek(&rows, last).and_then(|()| cursor.draw(&rows, &mut pieces));
        moved.map_err(|reason| self.no_pack(lane, reason))?;
        Ok(cursor.last_mark())
    }

    fn start(&self, lane: u64) -> Mark {
        usize::try_from(lane)
            .ok()
            .and_then(|lane| self.starts.get(lane))
            .copied()
            .unwrap_or_default()
    }

    fn mark_before(&self, lane: u64, pack: u64) -> Result<Mark> {
        let start = self.start(lane);
        if pack < start.pack {
            return Err(Error::ForgottenPack { lane, pack, first: start.pack }.into());
        }
        let marks = self.marks.lock();
        let before = marks.get(&lane).and_then(|marks| marks.range(start.pack..=pack).next_back());
        Ok(before.map_or(start, |(_, mark)| *mark))
    }

    /// One mark for each run of rows that is counted together is enough.
    fn remember(&self, lane: u64, cursor: &BalancedCursor) {
        let Some(mark) = cursor.mark() else { return };
        let mut marks = self.marks.lock();
        let marks = marks.entry(lane).or_default();
        let is_far =
            |last: &Mark| last.pass != mark.pass || mark.row.saturating_sub(last.row) >= MIXED_ROWS;
        if marks.range(..=mark.pack).next_back().is_none_or(|(_, last)| is_far(last)) {
            marks.insert(mark.pack, mark);
        }
    }

    fn no_pack(&self, lane: u64, reason: NoPack<crate::Error>) -> crate::Error {
        match reason {
            NoPack::Rows(error) => error,
            NoPack::Empty { pass } => {
                Error::EmptyLane { lane, pass, rows: self.rows_of(lane) }.into()
            }
            NoPack::ManyImages { pass, row, amount } => {
                let position = self.position(lane, pass, row);
                let place = row_at(&self.dataset, &self.rows, &self.order, position);
                Error::many_images(place, amount, &self.packing).into()
            }
            NoPack::LongRow { pass, row, tokens } => {
                let (path, row) =
                    row_at(&self.dataset, &self.rows, &self.order, self.position(lane, pass, row));
                Error::LongRow { path, row, tokens, length: self.packing.length }.into()
            }
        }
    }

    fn rows_of(&self, lane: u64) -> u64 {
        let positions = self.row_lanes.positions(lane);
        positions.end - positions.start
    }
}

impl AheadEpoch {
    /// The packs of an epoch, if each epoch has `num_packs` of them.
    ///
    /// # Errors
    /// When the places of the epoch exceed 63 bits.
    pub fn new(packs: &Arc<AheadPacks>, epoch: u64, num_packs: u64) -> Result<Self> {
        let is_reached =
            |start: &u64| start.checked_add(num_packs).is_some_and(|end| end < 1 << 63);
        let start = epoch
            .checked_mul(num_packs)
            .filter(is_reached)
            .ok_or(Error::FarEpoch { epoch, packs: num_packs })?;
        let lanes = Lanes::part(start, num_packs, packs.row_lanes.num_lanes());
        Ok(Self { packs: Arc::clone(packs), start, lanes })
    }

    /// Lanes of the packs of the epoch.
    #[must_use]
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// The lane of a pack of this epoch, and its number in the lane, over all epochs.
    #[must_use]
    pub fn pack(&self, number: u64) -> (u64, u64) {
        let lane = self.lanes.lane_of(number);
        (lane, self.first_pack(lane) + (number - self.lanes.positions(lane).start))
    }

    /// The number of packs of a lane before this epoch.
    #[must_use]
    pub fn first_pack(&self, lane: u64) -> u64 {
        self.start.saturating_sub(lane).div_ceil(self.lanes.num_lanes())
    }

    /// A position of a lane before its packs of this epoch, and the first pass of which it needs no
    /// row for what is delivered with `consumed` places of the epoch, or ordered with it.
    ///
    /// # Errors
    /// When tokens cannot be counted.
    pub fn begun(&self, lane: u64, consumed: u64, cancel: &Cancel) -> Result<(Mark, u64)> {
        let window = |pack| match self.packs.balance().map(|balance| balance.window_ahead(pack).1) {
            Some(window) if window.start < pack => window,
            _ => pack..pack,
        };
        let first = self.first_pack(lane);
        let next = first + (self.lanes.cursor(lane, consumed) - self.lanes.positions(lane).start);
        let end = window(next).end;
        let mark = self.packs.reached(lane, window(first).start, cancel)?;
        let last = self.packs.reached(lane, end, cancel)?;
        Ok((mark, if end == 0 { 0 } else { last.pass + 1 }))
    }

    /// The places of the epoch that are in windows of these places.
    pub(super) fn windows_of(&self, balance: Balance, places: Range<u64>) -> Range<u64> {
        let lanes = self.lanes.num_lanes();
        let window = |place: u64| balance.window_ahead((self.start + place) / lanes).1;
        let start = window(places.start).start.saturating_mul(lanes).saturating_sub(self.start);
        let end = window(places.end.saturating_sub(1)).end.saturating_mul(lanes);
        start..end.saturating_sub(self.start).min(self.lanes.num_rows())
    }

    /// Cursors that give out these packs in the order in which they are packed.
    pub(super) fn unbalanced(&self, numbers: &[u64]) -> Result<HashMap<u64, BalancedCursor>> {
        let packing = Packing { balance: None, ..self.packs.packing };
        let mut cursors = HashMap::new();
        for (lane, pack) in numbers.iter().map(|number| self.pack(*number)) {
            if let Entry::Vacant(slot) = cursors.entry(lane) {
                let mark = self.packs.mark_before(lane, pack)?;
                slot.insert(BalancedCursor::at(packing, PACK_WINDOW_ROWS, mark));
            }
        }
        Ok(cursors)
    }

    /// Draws the packs `numbers` of this epoch, with a cursor for each lane.
    pub(crate) fn draw(
        &self,
        cursors: &mut HashMap<u64, BalancedCursor>,
        numbers: impl IntoIterator<Item = u64>,
        drawn: &mut DrawnPacks,
        cancel: &Cancel,
    ) -> Result<()> {
        for number in numbers {
            let (lane, pack) = self.pack(number);
            let known = cursors.remove(&lane);
            // A pack that pads the last step is drawn again, and the cursor keeps its place.
            let (ahead, mut cursor) = match known {
                Some(known) if known.pack() > pack => (Some(known), None),
                known => (None, known),
            };
            self.packs.draw(&mut cursor, lane, pack, drawn, cancel)?;
            cursors.extend(ahead.or(cursor).map(|cursor| (lane, cursor)));
        }
        Ok(())
    }
}

/// The rows of one lane.
struct LaneOf<'a> {
    packs: &'a AheadPacks,
    lane: u64,
    /// Whether the rows that are counted are delivered next.
    is_next: bool,
    cancel: &'a Cancel,
}

impl LaneOf<'_> {
    fn positions(&self, pass: u64, rows: &Range<u64>) -> Result<Range<u64>> {
        let most = self.packs.order.num_passes();
        if pass >= most {
            return Err(Error::FarPass { lane: self.lane, most }.into());
        }
        self.cancel.check()?;
        Ok(self.packs.position(self.lane, pass, rows.start)
            ..self.packs.position(self.lane, pass, rows.end))
    }

    fn blocks(&self, positions: Range<u64>) -> BTreeSet<usize> {
        let order = &self.packs.order;
        order
            .scheduled_blocks(positions)
            .into_iter()
            .filter_map(|scheduled| order.block(scheduled))
            .collect()
    }
}

impl LaneRows for LaneOf<'_> {
    type Error = crate::Error;

    fn num_rows(&self) -> u64 {
        self.packs.rows_of(self.lane)
    }

    fn is_periodic(&self) -> bool {
        self.packs.passes == Passes::Files
    }

    fn has_equal_totals(&self) -> bool {
        // A lane alone has all rows in every pass.
        self.is_periodic()
            || (self.packs.passes == Passes::Shuffled && self.packs.row_lanes.num_lanes() == 1)
    }

    fn counted_with(&self, pass: u64, row: u64) -> u64 {
        let Ok(positions) = self.positions(pass, &(row..self.num_rows())) else { return row };
        let start = positions.start - row;
        let end_at = |position: u64| {
            let scheduled =
                self.packs.order.scheduled_blocks(position..position + 1).into_iter().next();
            scheduled.map_or(positions.end, |scheduled| self.packs.order.span(scheduled).end)
        };
        match self.packs.passes {
            Passes::Mixed => (row / MIXED_ROWS + 1) * MIXED_ROWS,
            Passes::Shuffled => end_at(positions.start) - start,
            Passes::Files => {
                // A block for each thread.
                let mut end = positions.start;
                for _ in 0..self.packs.counts.threads().max(1) {
                    end = if end < positions.end { end_at(end) } else { end };
                }
                end - start
            }
        }
    }

    fn has_blocks(&self) -> bool {
        self.packs.counts.has_blocks()
    }

    fn counts(&self, pass: u64, rows: Range<u64>) -> Result<Counts> {
        let positions = self.positions(pass, &rows)?;
        let blocks: Vec<usize> = self.blocks(positions.clone()).into_iter().collect();
        let known = self.packs.counts.of(&blocks, self.is_next, self.cancel)?;
        let order = &self.packs.order;
        let mut counts = Counts::default();
        counts.amounts.reserve(usize::try_from(rows.end - rows.start).unwrap_or_default());
        let mut last: Option<(usize, &Amounts)> = None;
        let mut by_scheduled: HashMap<usize, &Amounts> = HashMap::new();
        order.for_each(positions, |scheduled, row| {
            if last.is_none_or(|(of, _)| of != scheduled) {
                let of_block = match by_scheduled.get(&scheduled) {
                    Some(of_block) => Some(*of_block),
                    None => order.block(scheduled).and_then(|block| known.get(&block)),
                };
                last = of_block.map(|of_block| (scheduled, of_block));
                by_scheduled.extend(last);
            }
            let row = usize::try_from(row).unwrap_or(usize::MAX);
            let of_block = last.map(|(_, of_block)| of_block);
            let blocks = of_block.map_or(&[][..], |of_block| of_block.blocks(row));
            counts.blocks.add(counts.amounts.len(), blocks.iter().copied());
            let amount = of_block.and_then(|of_block| of_block.get(row));
            counts.amounts.push(amount.unwrap_or_default());
        });
        Ok(counts)
    }

    fn total(&self, packing: &Packing, pass: u64, rows: Range<u64>) -> Result<u64> {
        let positions = self.positions(pass, &rows)?;
        let order = &self.packs.order;
        let is_inside = |scheduled: usize| {
            let span = order.span(scheduled);
            positions.start <= span.start && span.end <= positions.end
        };
        if self.packs.passes != Passes::Mixed
            && order.scheduled_blocks(positions.clone()).into_iter().all(is_inside)
        {
            let blocks: Vec<usize> = self.blocks(positions).into_iter().collect();
            return self.packs.counts.total(&blocks, self.cancel);
        }
        let padded = |row: Amount| u64::from(packing.padded(row.tokens));
        Ok(self.counts(pass, rows)?.amounts.into_iter().map(padded).sum())
    }
}

impl DrawnPacks {
    fn add(&mut self, pieces: impl Iterator<Item = (u64, LanePiece)>) {
        self.start_pack();
        for (position, piece) in pieces {
            let LanePiece { first, count, padded, images, patches, amount, .. } = piece;
            self.add_piece(Piece { position, first, count, padded, images, patches }, amount);
        }
    }
}
