//! The packs of a lane that never ends, from any pack on.
//!
//! A lane is the rows of pass 0, followed by those of pass 1, and so on. Concatenated packs
//! continue across passes. For other strategies, the rows of a pass are cut into windows, and each
//! window is packed separately. The invariant: the packs depend only on the token counts, the order
//! of the rows and the options, and never on where a [`LaneCursor`] started. A cursor needs the
//! counts of its window, not of the lane.

use super::fit::{Fitted, Fitting};
use super::{Amount, Counts, Packing, Piece, Refused, Row, Strategy};
use std::ops::Range;

/// Rows of a lane, pass by pass.
pub trait LaneRows {
    type Error;

    /// Number of rows, the same in every pass.
    fn num_rows(&self) -> u64;

    /// Whether every pass has the same rows in the same order.
    fn is_periodic(&self) -> bool;

    /// Whether every pass has the same number of tokens.
    fn has_equal_totals(&self) -> bool {
        self.is_periodic()
    }

    /// The end of the rows from `row` on whose tokens are counted together; after `row`.
    fn counted_with(&self, pass: u64, row: u64) -> u64;

    /// What each of these rows of a pass takes, in order.
    ///
    /// # Errors
    /// When tokens cannot be counted.
    fn counts(&self, pass: u64, rows: Range<u64>) -> Result<Counts, Self::Error>;

    /// Whether rows may have blocks, so that not all concatenated packs are full.
    fn has_blocks(&self) -> bool {
        false
    }

    /// The sum of the tokens of [`LaneRows::counts`] with the padding of each row, perhaps without
    /// looking at each row.
    ///
    /// # Errors
    /// As [`LaneRows::counts`].
    fn total(&self, packing: &Packing, pass: u64, rows: Range<u64>) -> Result<u64, Self::Error> {
        let padded = |row: Amount| u64::from(packing.padded(row.tokens));
        Ok(self.counts(pass, rows)?.amounts.into_iter().map(padded).sum())
    }
}

/// Tokens of one row in a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LanePiece {
    pub pass: u64,
    /// Counted from the start of the lane in its pass.
    pub row: u64,
    /// Index of the first token in the row.
    pub first: u32,
    /// As in [`super::Piece`].
    pub count: u32,
    pub padded: u32,
    pub images: u32,
    pub patches: u32,
    /// Of the whole row.
    pub amount: Amount,
}

impl LanePiece {
    /// A piece of a row of a lane in a pass, which takes `amount`.
    fn of(pass: u64, piece: Piece, amount: Amount) -> Self {
        let Piece { position: row, first, count, padded, images, patches } = piece;
        Self { pass, row, first, count, padded, images, patches, amount }
    }
}

/// A position from which packs can be computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark {
    /// The next pack, counted from the start of pass 0.
    pub pack: u64,
    pub pass: u64,
    pub row: u64,
    /// Tokens of the row that are in earlier packs.
    pub first: u32,
}

/// Why there is no next pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoPack<E> {
    Rows(E),
    /// With [`super::Long::Error`]; the row is counted from the start of the lane.
    LongRow {
        pass: u64,
        row: u64,
        tokens: u32,
    },
    /// As [`Refused::ManyImages`].
    ManyImages {
        pass: u64,
        row: u64,
        amount: Amount,
    },
    /// A whole pass has no token, or no pack.
    Empty {
        pass: u64,
    },
}

/// Computes the packs of one lane in order.
#[derive(Debug, Clone)]
pub struct LaneCursor {
    packing: Packing,
    window_rows: u64,
    /// Of the next pack; for other strategies than [`Strategy::Concat`],
    /// of the window that it is in.
    mark: Mark,
    /// Whether earlier rows of the pass are in packs.
    has_packed: bool,
    loaded: Option<Loaded>,
}

/// Rows that are counted.
#[derive(Debug, Clone)]
struct Loaded {
    pass: u64,
    rows: Range<u64>,
    counts: Counts,
    /// Their packs, and how many of them are passed.
    packs: Option<(Fitted, usize)>,
}

impl LaneCursor {
    /// A cursor at a mark of a cursor with the same options. `window_rows` is for other strategies
    /// than [`Strategy::Concat`].
    #[must_use]
    pub fn at(packing: Packing, window_rows: u64, mark: Mark) -> Self {
        Self {
            packing: packing.possible(),
            window_rows: window_rows.max(1),
            mark,
            has_packed: mark.row > 0 || mark.first > 0,
            loaded: None,
        }
    }

    /// The number of the next pack.
    #[must_use]
    pub fn pack(&self) -> u64 {
        self.mark.pack + self.window().map_or(0, |(_, passed)| *passed as u64)
    }

    /// A position of this lane that is not after the next pack; `None` if it could hide that a pass
    /// is empty.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        (self.has_packed || (self.mark.row, self.mark.first) == (0, 0)).then_some(self.mark)
    }

    /// A position of this lane in the pass of the last row that was packed, not after the next pack.
    #[must_use]
    pub fn last_mark(&self) -> Mark {
        // Without tokens, the rows before it are in no pack.
        self.mark().unwrap_or(Mark { row: 0, first: 0, ..self.mark })
    }

    /// Pass and row of the first row that the next packs need.
    #[must_use]
    pub fn needed_from(&self) -> (u64, u64) {
        let Some((packs, passed)) = self.window() else { return (self.mark.pass, self.mark.row) };
        let rows = self.loaded.as_ref().map_or(0..0, |loaded| loaded.rows.clone());
        (self.mark.pass, packs.lowest(*passed).map_or(rows.end, |row| rows.start + u64::from(row)))
    }

    /// Whether the packs before `end` consist of rows that are counted.
    #[must_use]
    pub fn is_counted_to(&self, end: u64) -> bool {
        let packs = end.saturating_sub(self.pack());
        if let Some((fitted, passed)) = self.window() {
            return packs <= fitted.len().saturating_sub(*passed) as u64;
        }
        let packing = &self.packing;
        let more = packing.length - packing.stride() + u32::from(packing.looks_ahead);
        let mut left = packs
            .saturating_mul(u64::from(packing.stride()))
            .saturating_add(if packs > 0 { u64::from(more) } else { 0 });
        let mut counts = self.counted_rest().iter().enumerate();
        while left > 0
            && let Some((place, Amount { tokens, .. })) = counts.next()
        {
            let packed = if place == 0 { self.mark.first } else { 0 };
            left = left.saturating_sub(u64::from(packing.padded(*tokens).saturating_sub(packed)));
        }
        left == 0
    }

    /// The counted rows that the next packs need, and their pass.
    #[must_use]
    pub fn counted(&self) -> (u64, Range<u64>) {
        let (pass, from) = self.needed_from();
        let to = self
            .loaded
            .as_ref()
            .filter(|loaded| loaded.pass == pass)
            .map_or(from, |loaded| loaded.rows.end);
        (pass, from..to.max(from))
    }

    /// Of the next row, and of those after it.
    fn counted_rest(&self) -> &[Amount] {
        let Some((counts, next)) = self.loaded_at() else { return &[] };
        counts.amounts.get(next..).unwrap_or_default()
    }

    /// The counted rows, and the place of the next row among them.
    fn loaded_at(&self) -> Option<(&Counts, usize)> {
        let loaded = self.loaded.as_ref().filter(|_| self.is_loaded())?;
        let next = self.mark.row.checked_sub(loaded.rows.start)?;
        Some((&loaded.counts, usize::try_from(next).ok()?))
    }

    /// Moves to a later pack.
    ///
    /// # Errors
    /// As [`LaneCursor::draw`].
    pub fn seek<R: LaneRows>(&mut self, rows: &R, pack: u64) -> Result<(), NoPack<R::Error>> {
        match self.packing.strategy {
            Strategy::Concat if rows.has_blocks() => {
                while self.mark.pack < pack {
                    self.draw_tokens(rows, &mut Vec::new())?;
                }
                Ok(())
            }
            Strategy::Concat => self.skip_tokens(rows, pack),
            Strategy::Fit { .. } | Strategy::Batches(_) => self.skip_packs(rows, pack),
        }
    }

    /// Adds the pieces of the next pack, and moves past it.
    ///
    /// # Errors
    /// When tokens cannot be counted, a row is rejected, or a pass has nothing to pack.
    pub fn draw<R: LaneRows>(
        &mut self,
        rows: &R,
        pieces: &mut Vec<LanePiece>,
    ) -> Result<(), NoPack<R::Error>> {
        match self.packing.strategy {
            Strategy::Concat => self.draw_tokens(rows, pieces),
            Strategy::Fit { .. } | Strategy::Batches(_) => self.draw_fitted(rows, pieces),
        }
    }

    fn window(&self) -> Option<&(Fitted, usize)> {
        self.loaded.as_ref()?.packs.as_ref()
    }

    fn skip_tokens<R: LaneRows>(&mut self, rows: &R, pack: u64) -> Result<(), NoPack<R::Error>> {
        let mut left =
            u128::from(pack.saturating_sub(self.mark.pack)) * u128::from(self.packing.stride());
        self.mark.pack = self.mark.pack.max(pack);
        // Tokens of the pass, where it is skipped from its start.
        let mut of_pass = ((self.mark.row, self.mark.first) == (0, 0)).then_some(0u128);
        while left > 0 {
            let Mark { pass, row, first, .. } = self.mark;
            if row >= rows.num_rows() {
                self.end_pass()?;
                if let Some(tokens) =
                    of_pass.filter(|tokens| *tokens > 0 && rows.has_equal_totals())
                {
                    self.mark.pass = self
                        .mark
                        .pass
                        .saturating_add(u64::try_from(left / tokens).unwrap_or(u64::MAX));
                    left %= tokens;
                }
                of_pass = Some(0);
                continue;
            }
            let end = rows.counted_with(pass, row).clamp(row + 1, rows.num_rows());
            let total =
                u128::from(rows.total(&self.packing, pass, row..end).map_err(NoPack::Rows)?);
            let tokens = total.saturating_sub(u128::from(first));
            if tokens <= left {
                left -= tokens;
                of_pass = of_pass.map(|before| before + tokens);
                self.has_packed |= tokens > 0;
                (self.mark.row, self.mark.first) = (end, 0);
                continue;
            }
            self.load(rows)?;
            // Rows that were loaded from an earlier row on may end before those
            // that were summed up.
            while left > 0 && self.is_loaded() {
                let tokens = self.packing.padded(self.next_row().amount.tokens);
                let tokens = tokens.saturating_sub(self.mark.first);
                self.has_packed |= tokens > 0;
                if u128::from(tokens) <= left {
                    left -= u128::from(tokens);
                    (self.mark.row, self.mark.first) = (self.mark.row + 1, 0);
                } else {
                    self.mark.first += u32::try_from(left).unwrap_or_default();
                    left = 0;
                }
            }
        }
        Ok(())
    }

    fn draw_tokens<R: LaneRows>(
        &mut self,
        rows: &R,
        pieces: &mut Vec<LanePiece>,
    ) -> Result<(), NoPack<R::Error>> {
        let (mut room, mut is_full) = (self.packing.room(), false);
        let mut looks_ahead = self.packing.looks_ahead;
        while !is_full || looks_ahead {
            if self.mark.row >= rows.num_rows() {
                self.end_pass()?;
                continue;
            }
            self.load(rows)?;
            let Mark { pass, row, first, .. } = self.mark;
            let own = self.next_row();
            let amount = own.amount;
            let part =
                if is_full { Amount::default() } else { self.packing.cut(own, first, &room) };
            let is_left = first + part.tokens < amount.tokens;
            if part.tokens > 0 || (is_full && is_left) {
                let piece = self.packing.piece(row, first, part);
                pieces.push(LanePiece::of(pass, piece, amount));
                self.has_packed |= part.tokens > 0;
                looks_ahead &= !is_full;
                room = room.without(&self.packing.padded_part(part));
            } else if is_left && room == self.packing.room() {
                return Err(NoPack::ManyImages { pass, row, amount });
            }
            // What is left begins with a block that does not fit, or the pack has no more room.
            is_full |= is_left || room.tokens == 0;
            (self.mark.row, self.mark.first) =
                if is_left { (row, first + part.tokens) } else { (row + 1, 0) };
        }
        if let Some(last) = pieces.last().filter(|_| self.packing.overlaps) {
            // Its row is the last one that was loaded.
            (self.mark.row, self.mark.first) =
                (last.row, last.first + last.count.saturating_sub(1));
        }
        self.mark.pack += 1;
        Ok(())
    }

    fn skip_packs<R: LaneRows>(&mut self, rows: &R, pack: u64) -> Result<(), NoPack<R::Error>> {
        let mut of_pass = (self.mark.row == 0 && self.loaded.is_none()).then_some(0);
        loop {
            if self.mark.row >= rows.num_rows() {
                self.end_pass()?;
                if let Some(packs) = of_pass.filter(|packs| *packs > 0 && rows.is_periodic()) {
                    let passes = pack.saturating_sub(self.mark.pack) / packs;
                    self.mark.pass = self.mark.pass.saturating_add(passes);
                    self.mark.pack += passes * packs;
                }
                of_pass = Some(0);
                continue;
            }
            let packs = self.load_window(rows)?;
            let ahead = pack.saturating_sub(self.mark.pack);
            if ahead < packs {
                let ahead = usize::try_from(ahead).unwrap_or(usize::MAX);
                if let Some((_, passed)) =
                    self.loaded.as_mut().and_then(|loaded| loaded.packs.as_mut())
                {
                    *passed = ahead.max(*passed);
                }
                return Ok(());
            }
            of_pass = of_pass.map(|before| before + packs);
            self.end_window(packs);
        }
    }

    fn draw_fitted<R: LaneRows>(
        &mut self,
        rows: &R,
        pieces: &mut Vec<LanePiece>,
    ) -> Result<(), NoPack<R::Error>> {
        self.skip_packs(rows, self.pack())?;
        let (pass, packing) = (self.mark.pass, self.packing);
        let Some(Loaded { rows, counts, packs: Some((packs, passed)), .. }) = &mut self.loaded
        else {
            return Ok(());
        };
        packs.for_each(*passed, |row, first| {
            let own = counts.row(usize::try_from(row).unwrap_or(usize::MAX));
            let part = packing.cut(own, first, &packing.room());
            let piece = packing.piece(rows.start + u64::from(row), first, part);
            pieces.push(LanePiece::of(pass, piece, own.amount));
        });
        *passed += 1;
        Ok(())
    }

    /// Counts the rows from the next one on, unless that is done.
    fn load<R: LaneRows>(&mut self, rows: &R) -> Result<(), NoPack<R::Error>> {
        if self.is_loaded() {
            return Ok(());
        }
        let Mark { pass, row, .. } = self.mark;
        let end = rows.counted_with(pass, row).clamp(row + 1, rows.num_rows());
        let counts = rows.counts(pass, row..end).map_err(NoPack::Rows)?;
        self.loaded = Some(Loaded { pass, rows: row..end, counts, packs: None });
        Ok(())
    }

    /// Whether the next row is counted.
    fn is_loaded(&self) -> bool {
        let Mark { pass, row, .. } = self.mark;
        self.loaded.as_ref().is_some_and(|loaded| loaded.pass == pass && loaded.rows.contains(&row))
    }

    fn next_row(&self) -> Row<'_> {
        self.loaded_at().map(|(counts, next)| counts.row(next)).unwrap_or_default()
    }

    /// Packs the window at the mark, unless that is done. Returns the number of its packs.
    fn load_window<R: LaneRows>(&mut self, rows: &R) -> Result<u64, NoPack<R::Error>> {
        if let Some((packs, _)) = self.window() {
            return Ok(packs.len() as u64);
        }
        let Mark { pass, row, .. } = self.mark;
        let Strategy::Fit { choice, open_packs, long } = self.packing.strategy else {
            return Ok(0);
        };
        let window = row..row.saturating_add(self.window_rows).min(rows.num_rows());
        let counts = rows.counts(pass, window.clone()).map_err(NoPack::Rows)?;
        let mut fitting = Fitting::new(self.packing, choice, open_packs, long);
        for number in 0..counts.amounts.len() {
            fitting.push(counts.row(number)).map_err(|refused| match refused {
                Refused::LongRow { position, tokens } => {
                    NoPack::LongRow { pass, row: row + position, tokens }
                }
                Refused::ManyImages { position, row: amount } => {
                    NoPack::ManyImages { pass, row: row + position, amount }
                }
                // Windows are short.
                Refused::LongLane { .. } => NoPack::Empty { pass },
            })?;
        }
        let (packs, _) = fitting.finish();
        let found = packs.len() as u64;
        self.loaded = Some(Loaded { pass, rows: window, counts, packs: Some((packs, 0)) });
        Ok(found)
    }

    fn end_window(&mut self, packs: u64) {
        let Some(loaded) = self.loaded.take() else { return };
        self.has_packed |= packs > 0;
        self.mark = Mark {
            pack: self.mark.pack + packs,
            pass: loaded.pass,
            row: loaded.rows.end,
            first: 0,
        };
    }

    fn end_pass<E>(&mut self) -> Result<(), NoPack<E>> {
        if !self.has_packed {
            return Err(NoPack::Empty { pass: self.mark.pass });
        }
        self.has_packed = false;
        self.mark =
            Mark { pack: self.mark.pack, pass: self.mark.pass.saturating_add(1), row: 0, first: 0 };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
